"""Whether shared integers are small and their shares lie on the code: opened random projections.

A dealer's integers are cut into blocks of N words, where a word is one share of `ell` integers.  Rows of
signs 0 (one half), +1 and -1 (a quarter each) are drawn by public coins once all shares are fixed, and the
sums of a block under each row are opened (`field.code.range_check`): Reed-Solomon decoding says whether the
receivers' sums lie on a polynomial of the code, and the decoded values whether they are small.  (Modular
random projections: Gentry, Halevi, Lyubashevsky, Eurocrypt 2022; Lyubashevsky, Nguyen, Plancon, Crypto 2022.)

Privacy.  A sum is opened under a mask word: `ell` integers that the dealer drew uniformly from [-B, B] and
dealt like its rows.  An honest sum is at most beta in absolute value, so sum plus mask is uniform on [-(B -
beta), B - beta] given that it lies there, whatever the sum is, and it lies there with a probability that does
not depend on the sum.  A dealer goes through the words of a mask in order, takes a word for the next row if
all its `ell` values lie there, and skips it otherwise, forever; with more than `spare` skips it takes up the
next mask.  So which words are skipped says nothing, and neither does what is opened, given that all sums are
within beta, which `projection_growth` makes fail with probability 2 e^-49 a sum at most (signs are
sub-Gaussian of variance 1/2: Hoeffding).  Integers only; nothing is approximated.

Soundness, for anything that was dealt.  The sums are opened in the first lanes only, of product P > 4 T, T
the bound on what is opened.  *Off the code*: if some parity check of the honest receivers' words of a block
is not zero modulo p, then for any values of the rest and of the mask, of the three values that a sign gives
to the check at most one is zero: each row misses it with probability 1/2 at most.  *Size*: let some word hold
w, centered modulo P, with abs(w) > 2 T.  For any values c of the rest and of the mask, c and c + w are not
both within T of zero modulo P, nor are c and c - w; so either the sign 0 passes alone, or +1 and -1 do: each
row passes with probability 1/2 at most.  *Other lanes*: let some word, w in the first lanes, hold something
else than w modulo the p of another lane.  Where both the sign 0 and the sign 1 (or -1) pass the first lanes,
what is opened there differs by w as an integer; so modulo p it cannot be what that lane holds both times.
Again a row is right in all lanes with probability 1/2 at most, as it is if a word is off the code there.  Of
the other lanes' sums `checks` uniform combinations over the rows are opened: if any row is wrong they all
look right with probability p^-checks <= 2^-rows at most.

A dealer chooses with the signs before its eyes: which words it skips, and at which mask it begins.  From a
given mask on some choice passes only if that does which takes for each row the first word that passes.  What
word that begins with follows from the signs of rows before, and it fails with probability 1/2 at least; so at
most `spare` rows fail with a probability below that of at most `spare` heads of `rows` coins.  Combinations
look right under some choice with probability C(words, spare) p^-checks at most.  Where rows of several
dealers are summed before they are tested, each of those that collude chooses, C(words, spare) ways each, so
there are more rows, of which fewer may be skipped under wider masks.  Times the masks to begin at, and the
coins and dealers that a coalition has (`rejection_odds`).  What passes is at most 2 T =: `proven`,
`soundness_slack` times as much as an honest dealer has.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, pairwise

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.code.consistency import ParityChecks, checks_needed, judge_dealing
from field.code.lagrange_code import LagrangeCode
from field.kernels import projecting
from field.ring.basis import MERSENNE_61, Basis, lanes_for
from field.ring.errors import InvalidValue
from field.secrets.coins import Coins

# A false block passes with probability below 2**-BITS, whatever a coalition chooses.
BITS = 40
# Masks reach so many times as far as sums, per value of a word and dealer that colludes, so one word in REACH
# is skipped; twice as far if several do.
REACH = 20
# A mask does not serve with probability below this.
FAILING = 0.07
# Blocks have at most this many words, a power of two: sums of so many residues below 2**31 are exact in 64
# bits.
LARGEST = 1 << 12
# What is opened fits into 64 bits together with a mask.
MOST = 1 << 60
# The masks that go with some rows run out with probability below 2**-RUN_OUT.
RUN_OUT = 50


class MaskShortage(Exception):  # noqa: N818 - what happened
    """An honest dealer cannot hide its projections: it had bad luck of probability below 2**-40."""


def projection_growth(size: int) -> int:
    """How many times the largest integer a sum of `size` of them under random signs may be: 7 sqrt(N)."""
    return min(size, math.isqrt(49 * size - 1) + 1)


@dataclass(frozen=True)
class RejectionOdds:
    """How many sums of a block are opened, and how many words of its mask may be skipped.

    rows: a multiple of four.  spare: words of a mask beyond these.  reach: how many times as far as sums
    masks go, per value of a word.
    """

    rows: int
    spare: int
    reach: int

    @property
    def words(self) -> int:
        """Words of a mask."""
        return self.rows + self.spare

    @cached_property
    def failing(self) -> float:
        """The most probable that a mask does not serve: more than `spare` of its words are skipped."""
        # One of ell values is out of (2 B + 1 - 2 beta) / (2 B + 1) with probability below 1 / (reach ell).
        skipped = 1 / self.reach
        served = (
            math.comb(self.words, i) * skipped**i * (1 - skipped) ** (self.words - i)
            for i in range(self.spare + 1)
        )
        return 1 - sum(served)

    def masks(self, blocks: int) -> int:
        """Masks that go with so many blocks of a message."""
        return spare_masks(blocks, self.failing)

    def passing_bits(self, colluding: int = 1) -> float:
        """Bits of the probability that some choice of words from a mask on passes in the first lanes."""
        if colluding == 1:
            ways = sum(math.comb(self.rows, i) for i in range(self.spare + 1))
        else:
            ways = math.comb(self.words, self.spare) ** colluding
        return self.rows - math.log2(ways)

    def check_bits(self, colluding: int = 1) -> float:
        """Bits of values that combinations have to take so that other lanes at most double that."""
        return colluding * math.log2(math.comb(self.words, self.spare)) + self.passing_bits(colluding)

    def miss_bits(self, blocks: int, favors: int, colluding: int = 1) -> float:
        """A false block passes with probability 2^-this at most: see the module docstring.

        blocks: of its message, whose masks beyond them it may begin at.  favors: how often a coalition tries.
        """
        begins = colluding * math.log2(self.masks(blocks) - blocks + 1)
        return self.passing_bits(colluding) - 1 - begins - math.log2(favors)


def favored_tries(n: int, t: int, dealers: int) -> int:
    """How often a coalition tries: under so many coins, each of so many dealers.

    Of n that toss each of t refuses or is called silent, and 2 t + 1 at least have to be left.
    """
    return max(1, n - 2 * t) * max(1, dealers)


def mask_reach(colluding: int) -> int:
    """How many times as far as sums masks go, per value of a word, where so many dealers collude."""
    return REACH if colluding == 1 else 2 * REACH * colluding


@lru_cache(maxsize=256)
def rejection_odds(blocks: int, favors: int, colluding: int = 1) -> RejectionOdds:
    """The fewest skips, and rows for them, with which a mask most often serves.

    blocks: of the largest message.  favors: how often a coalition tries (`favored_tries`).  colluding:
    dealers whose rows are summed and who choose their masks together.
    """
    reach = mask_reach(colluding)
    for spare in count(1):
        rows = 4
        while RejectionOdds(rows, spare, reach).miss_bits(blocks, favors, colluding) < BITS:
            rows += 4
        if RejectionOdds(rows, spare, reach).failing < FAILING:
            return RejectionOdds(rows, spare, reach)
    raise AssertionError


def soundness_slack(size: int, ell: int, dealers: int = 1, colluding: int = 1) -> int:
    """How many times an honest dealer's largest integer can be what passes the test."""
    return 2 * dealers * (mask_reach(colluding) * ell - 1) * projection_growth(size)


@dataclass(frozen=True)
class Projections:
    """The test of blocks of `size` words of `ell` integers, honestly at most `max_int` in absolute value.

    dealers: how many add up their rows, where what is tested is the sum.  colluding: how many of these may
    choose their masks together.  most_blocks: of a message.  favors: how often a coalition may try.
    """

    size: int
    ell: int
    max_int: int
    dealers: int = 1
    colluding: int = 1
    most_blocks: int = 1 << 16
    favors: int = 1 << 17

    def __post_init__(self) -> None:
        if not (0 < self.size <= LARGEST and self.size & (self.size - 1) == 0):
            raise InvalidValue(f"size={self.size}: blocks have a power of two of words, at most {LARGEST}")
        if min(self.ell, self.dealers, self.max_int, self.colluding) < 1:
            raise InvalidValue(
                f"ell={self.ell}, dealers={self.dealers}, max_int={self.max_int}, "
                f"colluding={self.colluding} must be at least 1"
            )
        if self.proven >= MOST:
            raise InvalidValue(
                f"integers up to 2**{self.max_int.bit_length()} take masks beyond 2**60: lower the scale"
            )

    @property
    def odds(self) -> RejectionOdds:
        return rejection_odds(self.most_blocks, self.favors, self.colluding)

    @property
    def rows(self) -> int:
        """Sums of a block that are opened."""
        return self.odds.rows

    @property
    def words(self) -> int:
        """Words of a mask."""
        return self.odds.words

    @property
    def beta(self) -> int:
        """The largest sum that an honest dealer opens."""
        return projection_growth(self.size) * self.max_int

    @property
    def reach(self) -> int:
        """B: masks are uniform in [-B, B]."""
        return self.odds.reach * self.ell * self.beta

    @property
    def most(self) -> int:
        """B - beta: what one dealer opens is uniform up to this."""
        return self.reach - self.beta

    @property
    def allowed(self) -> int:
        """T: what is opened of all dealers' sum is at most this."""
        return self.dealers * self.most

    @property
    def proven(self) -> int:
        """2 T: no integer that passes is larger."""
        return 2 * self.allowed

    def blocks(self, words: int) -> int:
        """Blocks of so many words that leave in one message."""
        return -(-words // self.size)

    def masks(self, words: int) -> int:
        """Masks that go with so many words."""
        return self.odds.masks(self.blocks(words))

    def lanes(self, basis: Basis) -> int:
        """The first lanes, in which sums are opened: whatever passes is told apart in them."""
        return lanes_for(2 * self.proven, basis.primes)

    def checks(self, basis: Basis) -> int:
        """How many combinations of the sums are opened in each of the other lanes: an even number."""
        rest = basis.primes[self.lanes(basis) :]
        needed = self.odds.check_bits(self.colluding)
        bits = math.log2(min(rest)) if rest else needed
        return 2 * math.ceil(needed / bits / 2)


@lru_cache(maxsize=4096)
def spare_masks(blocks: int, failing: float) -> int:
    """How many masks suffice for so many blocks but with probability 2^-RUN_OUT.

    Masks that do not serve are independent events, so the K masks of b blocks run out if fewer than b of K
    serve: by Chernoff's bound with probability at most exp(-K D), D the divergence of (b - 1) / K from the
    probability that one serves.
    """
    if blocks == 0:
        return 0

    def suffice(number: int) -> bool:
        return number * _divergence((blocks - 1) / number, 1 - failing) >= RUN_OUT * math.log(2)

    # More masks run out more rarely.
    most = 2 * blocks
    while not suffice(most):
        most *= 2
    return bisect_left(range(most), True, lo=blocks, key=suffice)


def _divergence(a: float, q: float) -> float:
    """Divergence, in nats, of a coin of probability a from one of probability q, for a below q; 0 above."""
    if a >= q:
        return 0.0
    return (a * math.log(a / q) if a else 0.0) + (1 - a) * math.log((1 - a) / (1 - q))


# --- masks ------------------------------------------------------------------------------------------


def draw_masks(test: Projections, count: int, coins: Coins) -> Array:
    """Uniform integers in [-B, B]: (count, words, ell) int64, secret."""
    span = 2 * test.reach + 1
    words = coins.residues(span, (count, test.words, test.ell), dtype=np.uint64)
    # Below 2**62, so signed words hold them.
    return words.astype(np.int64) - test.reach


def deal_masks(code: LagrangeCode, masks: Array, coins: Coins) -> list[Array]:
    """One share a client of masks (count, words, ell): n arrays (lanes, count, words), uniform at any t."""
    count, words, ell = masks.shape
    residues = code.basis.reduce(masks.reshape(count * words, ell))
    return [share.reshape(-1, count, words) for share in code.share(residues, coins)]


@dataclass(frozen=True, eq=False)
class MaskSelection:
    """Which words of which masks hide the blocks of a dealer: public.

    masks (blocks,) int32: numbers, ascending.  used (blocks, words) bool: `rows` of each mask, in order.
    """

    masks: Array
    used: Array

    def fits(self, odds: RejectionOdds, blocks: int, masks: int) -> bool:
        """Whether it is of the right form for so many blocks and masks."""
        numbers = self.masks
        if numbers.shape != (blocks,) or self.used.shape != (blocks, odds.words):
            return False
        ascending = all(a < b for a, b in pairwise([-1, *numbers.tolist(), masks]))
        return ascending and bool((np.count_nonzero(self.used, axis=1) == odds.rows).all())

    def add_to(self, basis: Basis, sums: Array, masks: Array) -> None:
        """Add the chosen words of masks (lanes, count, words) to sums (lanes, blocks, rows), in place.

        Trusts that it fits.
        """
        for lane, p in enumerate(basis.primes[: len(sums)]):
            projecting.add_masks(masks[lane], self.masks, self.used, np.uint64(p), sums[lane])


def select_masks(test: Projections, sums: Array, masks: Array) -> MaskSelection:
    """How a dealer hides its sums (blocks, rows, ell) under its masks (count, words, ell): both secret.

    A mask is used for one block or none.  Raises MaskShortage with probability below 2^-40.
    """
    if sums.size and (int(sums.max()) > test.beta or int(sums.min()) < -test.beta):
        raise MaskShortage
    numbers, used = np.empty(len(sums), np.int32), np.zeros((len(sums), test.words), np.bool_)
    number = 0
    for block, values in enumerate(sums):
        while number < len(masks):
            places = _serving(test, values, masks[number])
            number += 1
            if places is not None:
                numbers[block] = number - 1
                used[block, places] = True
                break
        else:
            raise MaskShortage
    return MaskSelection(numbers, used)


def _serving(test: Projections, values: Array, mask: Array) -> Array | None:
    """Ascending places of words that hide these values (rows, ell), or None after too many skips."""
    places = np.empty(test.rows, np.int64)
    return places if projecting.serving(values, mask, test.most, test.odds.spare, places) else None


# --------------------------------------------------------------------------------------------------
# What is opened of a block, and what it says: `field.code.range_check` says why that proves something.
#
# In the first lanes the sums of a block under all rows of signs, which fix them as integers; in each other
# lane a few uniform combinations of the same sums.  Signs and combinations are public, and follow from coins
# that are tossed once all shares are fixed.

# Words off the code pass a judge's parity checks with probability below 2**-CHECKED.
CHECKED = 40
# Four signs for each octet, 64 bits together: 0, 0, 1 or -1 by two bits each.
FOUR: Array = (
    np.array(
        [[(0, 0, 1, -1)[octet >> place & 3] for place in (0, 2, 4, 6)] for octet in range(256)], np.int16
    )
    .view(np.uint64)
    .reshape(-1)
)


# --- signs and sums ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ProjectionPattern:
    """What all blocks are projected under: public.

    signs (rows, size) int16 of 0, +1 and -1.  rest: the lanes beyond the first, or None.  weights (rest
    lanes, rows, checks) residues: the combinations of rows.
    """

    test: Projections
    first: Basis
    rest: Basis | None
    signs: Array
    weights: Array

    @classmethod
    def draw(cls, test: Projections, basis: Basis, coins: Coins) -> ProjectionPattern:
        """Equal coins give equal values."""
        first, rest = split_lanes(test, basis)
        octets = np.empty(-(-test.rows * test.size // 4), np.uint8)
        coins.fill(octets)
        signs = FOUR[octets].view(np.int16)[: test.rows * test.size].reshape(test.rows, test.size)
        shape = test.rows, test.checks(basis)
        weights = rest.sample(shape, coins) if rest else np.empty((0, *shape), basis.dtype)
        return cls(test, first, rest, signs, weights)

    def sums(self, words: Iterable[Array], firsts: Array, counts: Array) -> OpenedProjections:
        """What is told of blocks, counts words from firsts on each, of canonical words of every lane.

        words: each lane is asked for when those before are done, so it may still be in cache when it is read.
        """
        flat = (np.ascontiguousarray(lane).reshape(-1) for lane in words)
        sums = np.empty((self.first.lanes, len(firsts), self.test.rows), self.first.dtype)
        for out, p in zip(sums, self.first.primes, strict=True):
            lane = next(flat)
            if p == MERSENNE_61:
                projecting.project_wide(lane, firsts, counts, self.signs, np.uint64(p), out)
                continue
            exact = np.empty(out.shape, np.int64)
            # Residues are below 2**31, so they are the same as signed words.
            own = lane.view(np.int32)
            projecting.project_blocks(own, firsts, counts, self.signs, np.int64(p), exact)
            out[:] = exact % p
        return OpenedProjections(sums, self._combined(flat, firsts, counts, self._factors))

    def add_masks(
        self, opened: OpenedProjections, masks: Iterable[tuple[MaskSelection, Array, slice]]
    ) -> None:
        """Add the chosen words of masks (lanes, count, words) to these blocks of what is opened, in place."""
        lanes, blocks = len(opened.sums), opened.sums.shape[1]
        rest = np.zeros((len(opened.checks), blocks, self.test.rows), opened.sums.dtype)
        for choice, mask, where in masks:
            choice.add_to(self.first, opened.sums[:, where], mask)
            if self.rest:
                choice.add_to(self.rest, rest[:, where], mask[lanes:])
        if self.rest:
            opened.checks[:] = self.rest.add(opened.checks, self.combine(rest))

    def combine(self, sums: Array) -> Array:
        """The combinations of sums (rest lanes, blocks, rows): (rest lanes, blocks, checks)."""
        lanes, blocks, rows = sums.shape
        firsts, counts = np.arange(blocks) * rows, np.full(blocks, rows)
        factors = [_halves(lane.T.astype(np.int64)) for lane in self.weights]
        flat = np.ascontiguousarray(sums).reshape(lanes, blocks * rows)
        return self._combined(flat, firsts, counts, factors)

    def _combined(self, words: Iterable[Array], firsts: Array, counts: Array, factors: list[Array]) -> Array:
        """Sums of blocks of words of each other lane times each factor: (rest lanes, blocks, checks)."""
        out = np.empty((len(self.weights), len(firsts), self.weights.shape[2]), self.first.dtype)
        for lane, halves, own, p in zip(words, factors, out, self._others, strict=True):
            projecting.combine_blocks(lane.view(np.int32), firsts, counts, halves, np.int64(p), own)
        return out

    @cached_property
    def _factors(self) -> list[Array]:
        """What each word is multiplied with in each of the other lanes: combinations of its signs."""
        factors = []
        for lane, p in zip(self.weights, self._others, strict=True):
            sums = np.empty((lane.shape[1], self.test.size), np.int64)
            projecting.combine_signs(self.signs, lane.astype(np.int64), np.int64(p), sums)
            factors.append(_halves(sums))
        return factors

    @property
    def _others(self) -> tuple[int, ...]:
        return self.rest.primes if self.rest else ()


def _halves(factors: Array) -> Array:
    """Residues (checks, size) below 2**31 as `combine_blocks` wants them."""
    return np.concatenate([factors & 0xFFFF, factors >> 16]).astype(np.int32)


def split_lanes(test: Projections, basis: Basis) -> tuple[Basis, Basis | None]:
    """The first lanes, whose sums are opened, and the others, if there are any."""
    lanes = test.lanes(basis)
    return basis.prefix(lanes), Basis(basis.primes[lanes:]) if lanes < basis.lanes else None


def project_integers(values: Array, ell: int, signs: Array) -> Array:
    """Sums of a dealer's own integers (rows, d) in all `ell` segments: (blocks, rows of signs, ell) int64."""
    rows, d = values.shape
    width, size = -(-d // ell), signs.shape[1]
    padded = np.zeros((rows, ell * width), np.int64)
    padded[:, :d] = values
    out = np.empty((-(-rows * width // size), len(signs), ell), np.int64)
    firsts = np.arange(len(out)) * size
    counts = np.minimum(size, rows * width - firsts)
    few = bool(padded.size) and max(int(padded.max()), -int(padded.min())) < 1 << 30
    for segment in range(ell):
        piece = padded[:, segment * width : (segment + 1) * width].reshape(-1)
        sums = np.empty(out.shape[:2], np.int64)
        if few:
            projecting.project_blocks(piece.astype(np.int32), firsts, counts, signs, np.int64(0), sums)
        else:
            projecting.project(piece, signs, sums)
        out[:, :, segment] = sums
    return out


# --- what was told ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OpenedProjections:
    """What a receiver tells of blocks: sums (first lanes, blocks, rows), checks (rest, blocks, checks)."""

    sums: Array
    checks: Array

    @classmethod
    def join(cls, parts: list[OpenedProjections]) -> OpenedProjections:
        """What was told of these blocks, then of those."""
        if len(parts) == 1:
            return parts[0]
        sums, checks = [p.sums for p in parts], [p.checks for p in parts]
        return cls(np.concatenate(sums, axis=1), np.concatenate(checks, axis=1))

    def clear(self, where: slice) -> None:
        """Tell nothing of these blocks."""
        self.sums[:, where] = 0
        self.checks[:, where] = 0

    def of(self, where: slice) -> OpenedProjections:
        """Projections of these blocks alone."""
        return OpenedProjections(self.sums[:, where], self.checks[:, where])

    def parts(self) -> tuple[Array, ...]:
        """Both, flat: (lanes, words)."""
        return tuple(part.reshape(len(part), -1) for part in (self.sums, self.checks) if len(part))


@dataclass(frozen=True)
class DealingFinding:
    """What the words that receivers told say of what a dealer dealt.

    on_code: they lie on one polynomial, those of `receivers` left out.  small: and its values are within T,
    and the same integers in all lanes.
    """

    on_code: bool
    small: bool
    receivers: tuple[int, ...] = ()

    @property
    def good(self) -> bool:
        return self.on_code and self.small and not self.receivers


def passes_test(
    code: LagrangeCode, pattern: ProjectionPattern, told: Mapping[int, OpenedProjections], coins: Coins
) -> bool:
    """Whether all that receivers told lies on one polynomial and its values are within T, in all lanes.

    The polynomial is looked for in random combinations of the words' parity checks.  Off it they all vanish
    with probability below 2^-CHECKED, if the coins, the judge's own, are drawn after all words are told.

    Raises TooFewValues.
    """
    receivers = tuple(sorted(told))
    for own, words in _by_lanes(code, pattern, told):
        checks = ParityChecks.draw(own, own.basis, receivers, 1, checks_needed(own.basis, 0, CHECKED), coins)
        columns = {j: part[:, None] for j, part in words.items()}
        if checks.failing(columns, np.zeros(1, np.int64)) is not None:
            return False
    return within_bound(code, pattern, told)


def judge_projections(
    code: LagrangeCode, pattern: ProjectionPattern, told: Mapping[int, OpenedProjections], errors: int
) -> DealingFinding:
    """Decode values of receivers, at most `errors` of whom sent something else than they hold.

    Raises TooFewValues below threshold(1) + 2 errors.
    """
    off: set[int] = set()
    for own, words in _by_lanes(code, pattern, told):
        verdict = judge_dealing(own, words, errors)
        if verdict.dealer:
            return DealingFinding(False, False)
        off |= set(verdict.receivers)
    if len(off) > errors:
        return DealingFinding(False, False)
    rest = {j: opened for j, opened in told.items() if j not in off}
    return DealingFinding(True, within_bound(code, pattern, rest), tuple(sorted(off)))


def _by_lanes(
    code: LagrangeCode, pattern: ProjectionPattern, told: Mapping[int, OpenedProjections]
) -> list[tuple[LagrangeCode, dict[int, Array]]]:
    """The code over the first lanes and over the others, with what was told there (lanes, words)."""
    bases = [basis for basis in (pattern.first, pattern.rest) if basis]
    parts = {j: opened.parts() for j, opened in told.items()}
    return [
        (LagrangeCode(basis, code.n, code.ell, code.t), {j: part[i] for j, part in parts.items()})
        for i, basis in enumerate(bases)
    ]


def within_bound(
    code: LagrangeCode, pattern: ProjectionPattern, told: Mapping[int, OpenedProjections]
) -> bool:
    """Whether the values of the polynomial are within T, and those of the other lanes the same integers."""
    values = [own.interpolate(words, 1) for own, words in _by_lanes(code, pattern, told)]
    sums = pattern.first.lift_signed(values[0])
    allowed = pattern.test.allowed
    if not ((sums <= allowed) & (sums >= -allowed)).all():
        return False
    if pattern.rest is None:
        return True
    # Values are by segment, then by block and row.
    integers = sums.astype(np.int64).reshape(-1, pattern.test.rows)
    expected = pattern.combine(pattern.rest.reduce(integers))
    return bool((expected.reshape(values[1].shape) == values[1]).all())
