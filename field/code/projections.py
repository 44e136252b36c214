"""Whether shared integers are small and their shares lie on the code: opened random projections.

A dealer's integers are cut into blocks of N words, where a word is one share of `ell` integers.  `ROWS` rows
of signs 0 (one half), +1 and -1 (a quarter each) are drawn by public coins once all shares are fixed, and the
sums of a block under each row are opened: Reed-Solomon decoding says whether the receivers' sums lie on a
polynomial of the code, and the decoded values whether they are small.  (Modular random projections: Gentry,
Halevi, Lyubashevsky, Eurocrypt 2022; Lyubashevsky, Nguyen, Plancon, Crypto 2022.)

Privacy.  A sum is opened under a mask word: `ell` integers that the dealer drew uniformly from [-B, B] and
dealt like its rows.  An honest sum is at most beta in absolute value, so sum plus mask is uniform on [-(B -
beta), B - beta] given that it lies there, whatever the sum is, and it lies there with a probability that does
not depend on the sum.  A dealer goes through the words of a mask in order, takes a word for the next row if
all its `ell` values lie there, and skips it otherwise, forever; with more than `SPARE` skips it takes up the
next mask.  So which words are skipped says nothing, and neither does what is opened, given that all sums are
within beta, which `rise` makes fail with probability 2 e^-49 a sum at most (signs are sub-Gaussian of
variance 1/2: Hoeffding).  Integers only; nothing is approximated.

Soundness, for anything that was dealt.  *Off the code*: if some parity check of the honest receivers' words
of a block is not zero modulo p, then for any values of the rest and of the mask, of the three values that a
sign gives to the check at most one is zero: each row misses it with probability 1/2 at most.  *Size*: let
some word hold w, centered, with abs(w) > 2 T, and T < P / 4 the bound on what is opened.  For any values c of
the rest and of the mask, c and c + w are not both within T of zero modulo P, nor are c and c - w; so either
the sign 0 passes alone, or +1 and -1 do: each row passes with probability 1/2 at most.  All rows pass with
probability 2^-ROWS under one choice of mask words, and there are `choices` of those, which a dealer may make
with the signs before its eyes: see `miss_bits`.  So what passes is at most 2 T =: `proven`, `stretch` times
as much as an honest dealer has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.correct import Checks, combinations, judge_dealing
from field.code.lagrange_code import LagrangeCode
from field.kernels import projecting
from field.ring.basis import MERSENNE_61, Basis
from field.secrets.coins import Coins

Array = NDArray[Any]

# Rows of signs, and how many words of a mask may be skipped: a false block passes under one mask with
# probability C(ROWS + SPARE, SPARE) / 2**ROWS, below 2**-82.
ROWS, SPARE = 124, 8
WORDS = ROWS + SPARE
# Masks reach so many times as far as sums, per value of a word: so one word in REACH is skipped, where ell <=
# 2.
REACH = 20
# Blocks have at most this many words, a power of two: sums of so many residues below 2**31 are exact in 64
# bits.
LARGEST = 1 << 12
# What is opened fits into 64 bits together with a mask.
MOST = 1 << 60
# Words off the code pass a judge's parity checks with probability below 2**-CHECKED.
CHECKED = 80
# The masks that go with some rows run out with probability below 2**-RUN_OUT.
RUN_OUT = 50


class MaskShortage(Exception):  # noqa: N818 - what happened
    """An honest dealer cannot hide its projections: it had bad luck of probability below 2**-40."""


def rise(size: int) -> int:
    """How many times the largest integer a sum of `size` of them under random signs may be: 7 sqrt(N)."""
    return min(size, math.isqrt(49 * size - 1) + 1)


def stretch(size: int, ell: int, dealers: int = 1) -> int:
    """How many times an honest dealer's largest integer can be what passes the test."""
    return 2 * dealers * (REACH * max(2, ell) - 1) * rise(size)


@dataclass(frozen=True)
class Projections:
    """The test of blocks of `size` words of `ell` integers, honestly at most `max_int` in absolute value.

    dealers: how many add up their rows, where what is tested is the sum.
    """

    size: int
    ell: int
    max_int: int
    dealers: int = 1

    def __post_init__(self) -> None:
        if not (0 < self.size <= LARGEST and self.size & (self.size - 1) == 0):
            raise ValueError(f"size={self.size}: blocks have a power of two of words, at most {LARGEST}")
        if self.ell < 1 or self.dealers < 1 or self.max_int < 1:
            raise ValueError(
                f"ell={self.ell}, dealers={self.dealers}, max_int={self.max_int} must be at least 1"
            )
        if self.proven >= MOST:
            raise ValueError(
                f"integers up to 2**{self.max_int.bit_length()} take masks beyond 2**60: lower the scale"
            )

    @property
    def beta(self) -> int:
        """The largest sum that an honest dealer opens."""
        return rise(self.size) * self.max_int

    @property
    def reach(self) -> int:
        """B: masks are uniform in [-B, B]."""
        return REACH * max(2, self.ell) * self.beta

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
        """Masks that go with so many words, of `WORDS` words each."""
        return spare_masks(self.blocks(words), self.ell)


@lru_cache(maxsize=256)
def spare_masks(blocks: int, ell: int) -> int:
    """How many masks suffice for so many blocks but with probability 2^-RUN_OUT.

    Masks that do not serve are independent events, so the K masks of b blocks run out if fewer than b of K
    serve: by Chernoff's bound with probability at most exp(-K D), D the divergence of (b - 1) / K from q.
    """
    if blocks == 0:
        return 0
    q = 1 - failing(ell)
    count = blocks
    while count * _divergence((blocks - 1) / count, q) < RUN_OUT * math.log(2):
        count += 1
    return count


def failing(ell: int) -> float:
    """The probability that a mask does not serve: more than SPARE of its words are skipped."""
    # (2 T + 1) / (2 B + 1) > T / B for each of the ell values.
    skipped = 1 - (1 - 1 / (REACH * max(2, ell))) ** ell
    return 1 - sum(math.comb(WORDS, i) * skipped**i * (1 - skipped) ** (WORDS - i) for i in range(SPARE + 1))


def _divergence(a: float, q: float) -> float:
    """Of a coin of probability a from one of probability q, for a below q; 0 above."""
    if a >= q:
        return 0.0
    return (a * math.log(a / q) if a else 0.0) + (1 - a) * math.log((1 - a) / (1 - q))


def choices(masks: int) -> int:
    """In how many ways a dealer may choose the words that hide one block."""
    return masks * math.comb(WORDS, SPARE)


def miss_bits(masks: int, seeds: int) -> float:
    """A false block passes with probability 2^-this at most, if it may be hidden by so many masks.

    seeds: of which a coalition takes the one it likes best (`secfc.roles.toss`).
    """
    return ROWS - math.log2(choices(masks) * seeds)


# --- signs and sums ---------------------------------------------------------------------------------


def draw_signs(size: int, coins: Coins) -> Array:
    """(ROWS, size) int32 of 0, +1 and -1: the same coins give the same."""
    octets = np.empty((ROWS, size), np.uint8)
    coins.fill(octets)
    values: Array = np.array([0, 0, 1, -1], np.int32)[octets & 3]
    return values


def project(basis: Basis, words: Array, signs: Array) -> Array:
    """Sums of words (lanes, ...) of canonical residues, flat: (lanes, blocks, ROWS) canonical."""
    lanes, size = len(words), signs.shape[1]
    flat = np.ascontiguousarray(words).reshape(lanes, -1)
    sums = np.empty((lanes, -(-flat.shape[1] // size), ROWS), np.int64)
    if basis.primes[0] == MERSENNE_61:
        wide = np.empty(sums.shape[1:], np.uint64)
        projecting.project_wide(flat[0], signs, np.uint64(MERSENNE_61), wide)
        return wide[None]
    for lane, p in enumerate(basis.primes[:lanes]):
        # Residues are below 2**31, so they are the same as signed words.
        projecting.project(flat[lane].view(np.int32), signs, sums[lane])
        sums[lane] %= p
    return sums.astype(basis.dtype)


def project_blocks(
    basis: Basis, words: Array, firsts: Array, counts: Array, signs: Array, out: Array
) -> None:
    """Sums of counts words from firsts on of (lanes, ...), flat, into out (lanes, blocks, ROWS)."""
    lanes = len(words)
    flat = np.ascontiguousarray(words).reshape(lanes, -1)
    if basis.primes[0] == MERSENNE_61:
        for b, (first, count) in enumerate(zip(firsts.tolist(), counts.tolist(), strict=True)):
            out[:, b : b + 1] = project(basis, flat[:, first : first + count], signs)
        return
    for lane, p in enumerate(basis.primes[:lanes]):
        projecting.project_blocks(flat[lane].view(np.int32), firsts, counts, signs, np.int64(p), out[lane])


def project_integers(values: Array, ell: int, signs: Array) -> Array:
    """The same sums of a dealer's own integers (rows, d) in all `ell` segments: (blocks, ROWS, ell) int64."""
    rows, d = values.shape
    width = -(-d // ell)
    out = np.empty((-(-rows * width // signs.shape[1]), ROWS, ell), np.int64)
    for segment in range(ell):
        piece = np.zeros((rows, width), np.int64)
        own = values[:, segment * width : (segment + 1) * width]
        piece[:, : own.shape[1]] = own
        sums = np.empty(out.shape[:2], np.int64)
        projecting.project(piece.reshape(-1), signs, sums)
        out[:, :, segment] = sums
    return out


# --- masks ------------------------------------------------------------------------------------------


def draw_masks(test: Projections, count: int, coins: Coins) -> Array:
    """Uniform integers in [-B, B]: (count, WORDS, ell) int64, secret."""
    span = 2 * test.reach + 1
    words = coins.residues(span, (count, WORDS, test.ell), dtype=np.uint64)
    # Below 2**62, so signed words hold them.
    return words.astype(np.int64) - test.reach


def deal_masks(code: LagrangeCode, masks: Array, coins: Coins) -> list[Array]:
    """One share a client of masks (count, WORDS, ell): n arrays (lanes, count, WORDS), uniform at any t."""
    count, words, ell = masks.shape
    residues = code.basis.reduce(masks.reshape(count * words, ell))
    return [share.reshape(-1, count, words) for share in code.share(residues, coins)]


@dataclass(frozen=True, eq=False)
class Choice:
    """Which words of which masks hide the blocks of a dealer: public.

    masks (blocks,) int32: numbers, each at most once.  used (blocks, WORDS) bool: ROWS of each mask, in
    order.
    """

    masks: Array
    used: Array

    def fits(self, blocks: int, masks: int) -> bool:
        """Whether it is of the right form for so many blocks and masks."""
        numbers = self.masks
        if numbers.shape != (blocks,) or self.used.shape != (blocks, WORDS):
            return False
        inside = bool((numbers >= 0).all() and (numbers < masks).all())
        return inside and len(set(numbers.tolist())) == blocks and bool((self.used.sum(axis=1) == ROWS).all())

    def hide(self, basis: Basis, sums: Array, masks: Array) -> Array:
        """Sums (lanes, blocks, ROWS) under the chosen words of masks (lanes, count, WORDS): the same
        shape."""
        hidden = sums.copy()
        self.add_to(basis, hidden, masks)
        return hidden

    def add_to(self, basis: Basis, sums: Array, masks: Array) -> None:
        """The same in place.  Trusts that it fits."""
        for lane, p in enumerate(basis.primes[: len(sums)]):
            projecting.add_masks(masks[lane], self.masks, self.used, np.uint64(p), sums[lane])


def choose(test: Projections, sums: Array, masks: Array) -> Choice:
    """How a dealer hides its sums (blocks, ROWS, ell) under its masks (count, WORDS, ell): both secret.

    A mask is used for one block or none.  Raises MaskShortage with probability below 2^-40.
    """
    if sums.size and (int(sums.max()) > test.beta or int(sums.min()) < -test.beta):
        raise MaskShortage
    numbers, used = np.empty(len(sums), np.int32), np.zeros((len(sums), WORDS), np.bool_)
    number = 0
    for block, values in enumerate(sums):
        while number < len(masks):
            places = _serving(values, masks[number], test.most)
            number += 1
            if places is not None:
                numbers[block] = number - 1
                used[block, places] = True
                break
        else:
            raise MaskShortage
    return Choice(numbers, used)


def _serving(values: Array, mask: Array, most: int) -> Array | None:
    """Ascending places of words that hide these values (ROWS, ell), or None after too many skips."""
    places = np.empty(ROWS, np.int64)
    return places if projecting.serving(values, mask, most, SPARE, places) else None


# --- what is opened ----------------------------------------------------------------------------------


def small(test: Projections, basis: Basis, residues: Array) -> Array:
    """Which residues (lanes, ...) are those of an integer of at most T in absolute value: bool (...)."""
    lanes, product = 0, 1
    while product <= 2 * test.allowed + 1 and lanes < basis.lanes:
        product *= basis.primes[lanes]
        lanes += 1
    values = basis.prefix(lanes).lift_signed(residues[:lanes])
    within = np.asarray((values <= test.allowed) & (values >= -test.allowed), bool)
    if lanes == basis.lanes:
        return within
    # The first lanes leave one candidate, which the others confirm.
    candidates = np.where(within, values, 0).astype(np.int64)
    confirmed: Array = (basis.reduce(candidates) == residues).all(axis=0)
    return np.asarray(within & confirmed)


@dataclass(frozen=True)
class Finding:
    """What the words that receivers told say of what a dealer dealt.

    on_code: they lie on one polynomial, those of `receivers` left out.  small: and its values are within T.
    """

    on_code: bool
    small: bool
    receivers: tuple[int, ...] = ()

    @property
    def good(self) -> bool:
        return self.on_code and self.small and not self.receivers


def passes(code: LagrangeCode, test: Projections, told: Mapping[int, Array], coins: Coins) -> bool:
    """Whether all words (lanes, words) by receiver lie on one polynomial and its values are within T.

    The polynomial is looked for in random combinations of the words' parity checks.  Off it they all vanish
    with probability below 2^-CHECKED, if the coins, the judge's own, are drawn after all words are told.

    Raises TooFewValues.
    """
    receivers = tuple(sorted(told))
    count = combinations(code.basis, 0, CHECKED)
    checks = Checks.draw(code, code.basis, receivers, 1, count, coins)
    columns = {j: words[:, None] for j, words in told.items()}
    if checks.failing(columns, np.zeros(1, np.int64)) is not None:
        return False
    return bool(small(test, code.basis, code.interpolate(told, 1)).all())


def judge(code: LagrangeCode, test: Projections, told: Mapping[int, Array], errors: int) -> Finding:
    """Of words (lanes, words) by receiver, at most `errors` of whom told something else than they hold.

    Raises TooFewValues below threshold(1) + 2 errors.
    """
    verdict = judge_dealing(code, told, errors)
    if verdict.dealer:
        return Finding(False, False)
    rest = {j: words for j, words in told.items() if j not in verdict.receivers}
    within = small(test, code.basis, code.interpolate(rest, 1)).all()
    return Finding(True, bool(within), verdict.receivers)
