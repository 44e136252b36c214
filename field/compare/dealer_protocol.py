"""Secret comparisons with a dealer: labels from masked distances, and nothing else.

A committee holds M = D + rho modulo P, public among its members; a dealer outside it knows rho and never sees
M.  For every comparison of a `ArgminContest` all members form y = 2 (u M_b - v M_a), and the dealer forms
r = 2 (u rho_b - v rho_a): with z = y - r the wanted bit is the last bit of z, which is y_0 + r_0 + [r > y].
The dealer shares tables of r among the members beforehand, each good for one contest:

1. for every three-bit digit of r the thermometer [digit > v], v < 7: choosing by the public digits of y gives
   shares of excess and equality of every digit;
2. masks of all bits that are opened, and the products of masks of which the bits' products are made;
3. the same for the products of literals that say which outcome wins.

Members open masked bits only: uniform, and independent of everything but the result.  A table used twice
would show the difference of two secrets, so it can be taken once.  The labels' shares must be re-randomized
before they leave the committee (`rerandomize`), since the dealer knows the tables they are made of.

Sound against the dealer alone, and against all members but one without the dealer; the dealer together with
one member knows every distance.  Assumes parties that follow the protocol.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.compare import bitslice
from field.compare.argmin import TREES as TREES
from field.compare.argmin import ArgminContest
from field.compare.argmin import TreeLevel as TreeLevel
from field.compare.argmin import tree_levels as tree_levels
from field.compare.correlated_randomness import (
    NOTHING,
    DealerRandomness,
    PartyRandomness,
    Portion,
    deal_portions,
    sum_streams,
)
from field.compare.correlated_randomness import ONES as ONES
from field.compare.correlated_randomness import PartyTables as PartyTables
from field.compare.correlated_randomness import deal_multiply as deal_multiply
from field.compare.correlated_randomness import multiply_bits as multiply_bits
from field.kernels import DIGIT_BITS, STEPS
from field.kernels.compiling import run_parallel, split_range
from field.ring.basis import SHORT, Basis
from field.secrets.coins import Coins

# --------------------------------------------------------------------------------------------------
# Binary digits of what a contest compares, some blocks at a time, so that nobody holds all of them.


class SlicedDifferences:
    """The binary digits of 2 (u M_b - v M_a) for the comparisons of a contest, some blocks at a time."""

    def __init__(self, schedule: DealerSchedule, values: Array) -> None:
        from field.kernels import comparing

        self._padded = _padded(values, bitslice.WORD * schedule.comparison_words)
        self._pairs, self._weights = schedule.contest.pairs, schedule.weights
        self._per = schedule.comparison_words
        self._garner = comparing.garner(schedule.basis.primes)

    def slice(self, begin: int, out: Array) -> None:
        """Overwrite out (blocks, rows, width) with the digits of block `begin` and those after it."""
        from field.kernels import comparing

        comparing.slice_differences(
            self._padded, self._pairs, self._weights, self._per, begin, *self._garner, out
        )


class SlicedValues:
    """The binary digits of given residues (lanes, comparisons, m), handed out as `SlicedDifferences` does."""

    def __init__(self, schedule: DealerSchedule, values: Array) -> None:
        from field.kernels import comparing

        count, width = schedule.blocks
        padded = _padded(values, bitslice.WORD * schedule.comparison_words).reshape(len(values), -1)
        self._flat = _padded(padded, count * width * bitslice.WORD)
        self._garner = comparing.garner(schedule.basis.primes)

    def slice(self, begin: int, out: Array) -> None:
        """Overwrite out (blocks, rows, width) with the digits of block `begin` and those after it."""
        from field.kernels import comparing

        comparing.slice_integers(self._flat, begin, *self._garner, out)


def _padded(residues: Array, count: int) -> Array:
    """Residues (..., m) with zeros up to (..., count), C-contiguous; not copied if they are so already."""
    if residues.shape[-1] == count:
        return np.ascontiguousarray(residues)
    out = np.zeros((*residues.shape[:-1], count), residues.dtype)
    out[..., : residues.shape[-1]] = residues
    return out


# --------------------------------------------------------------------------------------------------

# A member's moves: yields what it opens, is sent the sum of what all opened (`combine_openings`).
Moves = Generator[Array, Any, Any]

# A table of 2**5 - 6 products takes five bits to one in a round; more bits would cost far more dealing.
WIDEST = 5
# Words of tables that are expanded and used at once, which stay in cache; of few rows these are many blocks,
# as at each call of a cipher or a kernel a thread may have to wait for the others.
CHUNK = 65536


class DealtContest(ABC):
    """A contest that members play in a hand, and that a dealer deals into a deck, each for all of it.

    hand, deck: they may serve more than this contest.  constant: all ones at exactly one member, else 0.
    masked: (lanes, k, m) the distances plus the dealer's masks, equal at all members.  rho: (lanes, k, m)
    residues, what the members' masked distances exceed the distances by.
    """

    @property
    @abstractmethod
    def dealt(self) -> int:
        """Words that the dealer sends to one member."""

    @property
    @abstractmethod
    def dealt_wins(self) -> int:
        """Words that are dealt to one member for `winner_bits`."""

    @abstractmethod
    def code_digits(self, masked: Array, hand: PartyRandomness, constant: Any) -> Moves:
        """A member's share of the codes' binary digits, (places, per)."""

    @abstractmethod
    def winner_bits(self, masked: Array, hand: PartyRandomness, constant: Any) -> Moves:
        """A member's share of who wins each point: (outcomes, per), of which one bit a point is set."""

    def deal_codes(self, rho: Array, deck: DealerRandomness) -> None:
        """The dealer's part of `code_digits`, where all points are dealt at once."""
        raise NotImplementedError

    def deal_wins(self, rho: Array, deck: DealerRandomness) -> None:
        """The dealer's part of `winner_bits`, likewise."""
        raise NotImplementedError

    def compete(self, masked: Array, hand: PartyRandomness, *, lead: bool) -> Moves:
        """A member's part: yields what it opens, is sent the sum of what all members opened.

        lead: True at exactly one member, which adds the public constants.  Where it yields
        `field.compare.correlated_randomness.NEXT` nothing is opened.  Returns its share of the codes' binary
        digits, (places, words(m)) uint64.
        """
        return self.code_digits(masked, hand, ONES if lead else np.uint64(0))

    def deal_words(
        self, rho: Array, streams: Sequence[Coins], corrected: int, before: Array = NOTHING
    ) -> Iterator[Array]:
        """The corrections for one member, words: with them all members share a contest's tables.

        Portion by portion (`field.compare.correlated_randomness`).  before: words that go with them, which
        come first.  streams: one with every member, in the committee's order, fresh for this contest.
        corrected: who gets them.
        """
        return deal_portions(self.deal_portions(rho), streams, corrected, before)

    def blocks_of(self, values: Array) -> Iterator[tuple[DealtContest, Array]]:
        """What is dealt at once: the contest among these points, and their residues (lanes, k, points)."""
        yield self, values

    def deal_portions(self, rho: Array) -> Iterator[Portion]:
        """What is dealt for `compete`, portion by portion."""
        for part, values in self.blocks_of(rho):
            yield part.dealt, partial(part.deal_codes, values)

    def dealing_wins(self, rho: Array) -> Iterator[Portion]:
        """What is dealt for `winner_bits`, portion by portion."""
        for part, values in self.blocks_of(rho):
            yield part.dealt_wins, partial(part.deal_wins, values)

    @property
    def portions(self) -> tuple[int, ...]:
        """Words of each portion that is dealt for `compete`."""
        return (self.dealt,)

    @property
    def portions_of_wins(self) -> tuple[int, ...]:
        """Words of each portion that is dealt for `winner_bits`."""
        return (self.dealt_wins,)


@dataclass(frozen=True, eq=False)
class DealerSchedule(DealtContest):
    """Everything public about one run of a contest: how much is dealt, opened and in which order.

    m points; basis the lanes that decide the contest (`ArgminContest.lanes`).
    """

    contest: ArgminContest
    basis: Basis
    m: int

    @staticmethod
    def needed(contest: ArgminContest, d: int, max_int: int) -> int:
        """What the modulus must exceed."""
        return contest.needed(d, max_int)

    @property
    def places(self) -> int:
        """Binary digits of a code."""
        return self.contest.places

    @property
    def labels(self) -> Array:
        """(codes,) what each code means."""
        return self.contest.labels

    @cached_property
    def comparison_words(self) -> int:
        """Words of one comparison of all points."""
        return bitslice.word_count(self.m)

    @cached_property
    def words(self) -> int:
        return len(self.contest.comparisons) * self.comparison_words

    @cached_property
    def blocks(self) -> tuple[int, int]:
        return bitslice.block_shape(self.words)

    @cached_property
    def levels(self) -> tuple[TreeLevel, ...]:
        return tree_levels(self.basis.lanes)

    @property
    def digits(self) -> int:
        return self.levels[0].inputs

    @cached_property
    def products(self) -> tuple[tuple[int, ...], ...]:
        """Sizes of the groups of literals multiplied in each further round; the last is one group."""
        factors = self.contest.literals.shape[1]
        rounds = 1
        while WIDEST**rounds < factors:
            rounds += 1
        out = []
        for left in range(rounds, 0, -1):
            size = next(a for a in range(1, factors + 1) if a**left >= factors)
            groups = -(-factors // size)
            out.append(tuple(len(part) for part in np.array_split(np.arange(factors), groups)))
            factors = groups
        return tuple(out)

    def product_rows(self, groups: tuple[int, ...]) -> int:
        """Words a point word and outcome of the tables of one level of products."""
        return sum(2**size - 1 - size for size in groups)

    @cached_property
    def tables(self) -> tuple[int, ...]:
        """Words of the tables of every round, in order."""
        count, width = self.blocks
        rows = [STEPS * self.digits, *(level.rows for level in self.levels)]
        wins = self.contest.outcomes * self.comparison_words
        return (*(r * count * width for r in rows), *(self.product_rows(g) * wins for g in self.products))

    @property
    def dealt(self) -> int:
        return sum(self.tables)

    @cached_property
    def openings(self) -> tuple[int, ...]:
        """Words that a member opens in each round."""
        count, width = self.blocks
        rows = [self.levels[0].opened, *(2 * len(level.nodes) - 1 for level in self.levels)]
        wins = self.contest.outcomes * self.comparison_words
        return (*(r * count * width for r in rows), *(len(g) * wins for g in self.products[:-1]))

    @cached_property
    def weights(self) -> Array:
        """What every comparison weighs distances by: see `ArgminContest.weights`."""
        return self.contest.weights(self.basis.primes)

    def code_digits(self, masked: Array, hand: PartyRandomness, constant: Any) -> Moves:
        return winner_code(self.contest, (yield from self.winner_bits(masked, hand, constant)))

    def deal_codes(self, rho: Array, deck: DealerRandomness) -> None:
        self.deal_wins(rho, deck)

    @property
    def dealt_wins(self) -> int:
        return self.dealt

    def winner_bits(self, masked: Array, hand: PartyRandomness, constant: Any) -> Moves:
        bits, masks = yield from compare_masked(self, SlicedDifferences(self, masked), hand, constant)
        bits, masks = yield from outcome_factors(self, bits, masks, hand, constant)
        return multiply_bits(bits, masks, self.products[-1], hand, constant)[:, 0]

    def deal_wins(self, rho: Array, deck: DealerRandomness) -> None:
        masks = deal_compare(self, SlicedDifferences(self, rho), deck)
        deal_multiply(deal_factors(self, masks, deck), self.products[-1], deck)


# --- masks of distances -----------------------------------------------------------------------------


def mask_distances(
    basis: Basis,
    weights: Array,
    shape: tuple[int, ...],
    values: Callable[[], Array],
    stream: Coins,
    threads: int = 1,
) -> Array:
    """weights * values + rho: what a client sends of its coded distances (lanes, *shape), uniform residues.

    weights: (lanes,) the client's weight in the decoded sum.  values: computes the distances.  stream: one
    it shares with the dealer, who expands the same rho with `total_mask`.  threads: of the processor.
    """
    # What has parts of its own is last: whoever has drawn the masks takes some of them.
    tasks: list[Callable[[], Array]] = [partial(basis.sample, shape, stream), values]
    out, found = run_parallel(tasks, threads)
    flat, factors = found.reshape(basis.lanes, -1), [[weight] for weight in weights.tolist()]
    basis.add_scaled(out.reshape(basis.lanes, -1), flat[None], factors, threads=threads)
    return out


def total_mask(basis: Basis, shape: tuple[int, ...], streams: Sequence[Coins]) -> Array:
    """The sum of all clients' masks, (lanes, *shape) residues: the dealer's secret."""
    return sum_streams(basis, shape, streams)


# --- committee ------------------------------------------------------------------------------------


def combine_openings(basis: Basis, openings: Sequence[Array], *, threads: int = 1) -> Array:
    """The sum of what all members opened: of bits in words, or of residues (lanes, ..., q) uint32.

    One of one only is that itself.  threads: of the processor, each of which adds up a cut.
    """
    first = openings[0]
    if len(openings) == 1:
        return first
    if first.dtype != np.uint64:
        return basis.add_all(openings, threads=threads)
    out = np.empty(first.shape, np.uint64)
    total, (one, two, *rest) = out.reshape(-1), [opening.reshape(-1) for opening in openings]

    def combine(cut: slice) -> None:
        np.bitwise_xor(one[cut], two[cut], out=total[cut])
        for opening in rest:
            total[cut] ^= opening[cut]

    cuts = split_range(total.size, threads if out.nbytes > SHORT else 1)
    run_parallel([partial(combine, cut) for cut in cuts], threads)
    return out


def compare_masked(
    schedule: DealerSchedule,
    differences: SlicedDifferences | SlicedValues,
    hand: PartyRandomness,
    constant: Any,
) -> Moves:
    """Every comparison's bit as opened under a mask, and the mask's share: two (comparisons, per)."""
    opening, masks, parity = _leaves(schedule, differences, hand, constant)
    for level in schedule.levels:
        opened = yield opening
        opening, masks = _level(schedule, level, opened, masks, hand, constant)
    opening[:, 0] ^= parity
    opened = yield opening
    return _per_comparison(schedule, opened), _per_comparison(schedule, masks)


def outcome_factors(
    schedule: DealerSchedule, bits: Array, masks: Array, hand: PartyRandomness, constant: Any
) -> Moves:
    """What an outcome's win is the product of, opened bits and mask shares: (outcomes, f, per) each, f <= 5.

    bits, masks: of all comparisons (comparisons, per).
    """
    # From comparisons to literals: a negated one is its opened bit flipped.
    literals = schedule.contest.literals
    flips = np.where(schedule.contest.wanted, np.uint64(0), ONES)[:, :, None]
    bits, masks = bits[literals] ^ flips, masks[literals]
    for groups in schedule.products[:-1]:
        shares = multiply_bits(bits, masks, groups, hand, constant)
        masks = hand.masks(shares.shape)
        bits = yield shares ^ masks
    return bits, masks


def _leaves(
    schedule: DealerSchedule,
    differences: SlicedDifferences | SlicedValues,
    hand: PartyRandomness,
    constant: Any,
) -> tuple[Array, Array, Array]:
    """Masked digit bits (blocks, rows, width), their masks, and the parity share (blocks, width)."""
    from field.kernels import comparing

    count, width = schedule.blocks
    digits, shape = schedule.digits, (count, schedule.levels[0].opened, width)
    opening, parity = np.empty(shape, np.uint64), np.empty((count, width), np.uint64)
    chunks = _chunks(count, STEPS * digits * width)
    most = chunks[0].stop
    planes, tables = (np.empty((most, r * digits, width), np.uint64) for r in (DIGIT_BITS, STEPS))
    masks = hand.masks(shape)
    for part in chunks:
        y, table = planes[: part.stop - part.start], tables[: part.stop - part.start]
        differences.slice(part.start, y)
        comparing.leaves(y, hand.table(table), masks[part], constant, opening[part], parity[part])
    return opening, masks, parity


def _level(
    schedule: DealerSchedule,
    level: TreeLevel,
    opened: Array,
    masks: Array,
    hand: PartyRandomness,
    constant: Any,
) -> tuple[Array, Array]:
    """Masked outputs of one level of nodes, (blocks, rows, width), and their masks."""
    from field.kernels import comparing

    count, width = schedule.blocks
    fresh = hand.masks((count, 2 * len(level.nodes) - 1, width))
    opening = np.empty_like(fresh)
    chunks = _chunks(count, level.rows * width)
    tables = np.empty((chunks[0].stop, level.rows, width), np.uint64)
    for part in chunks:
        table = hand.table(tables[: part.stop - part.start])
        comparing.evaluate(
            table, masks[part], opened[part], level.nodes, constant, fresh[part], opening[part]
        )
    return opening, fresh


def _chunks(count: int, words: int) -> list[slice]:
    """Blocks that are expanded and used together, the most first.  words: of a block's table."""
    most = max(1, CHUNK // words)
    return [slice(begin, min(begin + most, count)) for begin in range(0, count, most)]


def _per_comparison(schedule: DealerSchedule, sliced: Array) -> Array:
    """One row of blocks (blocks, 1, width) as (comparisons, per)."""
    return sliced.reshape(-1)[: schedule.words].reshape(-1, schedule.comparison_words)


def winner_code(contest: ArgminContest, wins: Array) -> Array:
    """The binary digits (places, per) of the winner's code, from bits (or shares) of who wins, (k, per)."""
    out = np.zeros((contest.places, wins.shape[1]), np.uint64)
    for h, won in enumerate(wins, contest.first):
        for place in range(contest.places):
            if h >> place & 1:
                out[place] ^= won
    return out


def rerandomize(share: Array, streams: Sequence[Coins]) -> Array:
    """The share plus a share of zero, from a stream with every other member: what may leave the committee."""
    for stream in streams:
        mask = np.empty_like(share)
        stream.fill(mask)
        share = share ^ mask
    return share


def labels_from_code(schedule: Any, planes: Array) -> Array:
    """The labels (m,) int32 with these codes' binary digits (places, words(m)).

    Raises ValueError for a code that means nothing, which no honest committee opens.
    """
    numbers, known = bitslice.from_planes(planes, schedule.m), schedule.labels
    if int(numbers.max(initial=0)) >= len(known):
        raise ValueError(f"code {int(numbers.max())} of a label: there are {len(known)}, counted from 0")
    found = np.asarray(known[numbers], np.int32)
    # Some codes of a tournament belong to nobody; only a contest with such an outcome leaves points out.
    if not schedule.contest.first and int(found.min(initial=0)) < 0:
        raise ValueError("the code of a label that no cluster has")
    return found


# --- dealer -----------------------------------------------------------------------------------------


def deal_compare(
    schedule: DealerSchedule, differences: SlicedDifferences | SlicedValues, deck: DealerRandomness
) -> Array:
    """Tables of all comparisons; the masks under which their bits are opened, (comparisons, per)."""
    from field.kernels import comparing

    count, width = schedule.blocks
    rows = STEPS * schedule.digits
    chunks = _chunks(count, rows * width)
    planes = np.empty((chunks[0].stop, DIGIT_BITS * schedule.digits, width), np.uint64)
    masks = deck.masks((count, schedule.levels[0].opened, width))
    for part in chunks:
        r = planes[: part.stop - part.start]
        differences.slice(part.start, r)
        comparing.thermometers(r, deck.table((len(r), rows, width)))
    for level in schedule.levels:
        for part in _chunks(count, level.rows * width):
            table = deck.table((part.stop - part.start, level.rows, width))
            comparing.mask_products(masks[part], level.nodes, table)
        masks = deck.masks((count, 2 * len(level.nodes) - 1, width))
    return _per_comparison(schedule, masks)


def deal_factors(schedule: DealerSchedule, masks: Array, deck: DealerRandomness) -> Array:
    """Tables of all products but the last; the masks of the last ones' factors, (outcomes, f, per)."""
    masks = masks[schedule.contest.literals]
    for groups in schedule.products[:-1]:
        deal_multiply(masks, groups, deck)
        masks = deck.masks((len(masks), len(groups), schedule.comparison_words))
    return masks
