"""One-time tables and masks, shared between members who hold streams with a dealer.

The dealer and a member expand the same streams in the same order: tables, which at one member are replaced by
corrections so that all shares sum up to what the dealer wants, and masks, which are whatever the streams sum
up to.  Words are shared by exclusive or, residues by addition modulo every prime.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from field.arrays import Array
from field.code.masking import MaskReused
from field.ring.basis import Basis
from field.secrets.coins import Coins

NOTHING: Array = np.empty(0, np.uint64)


class PartyTables:
    """One member's share of the tables of one contest: a stream it shares with the dealer, and corrections.

    corrections: (dealt,) words that replace the stream's tables, for the one member that gets them; masks
    always come from the stream.  Can be taken once.
    """

    def __init__(self, stream: Coins, corrections: Array | None = None) -> None:
        self._stream: Coins | None = stream
        self._corrections = corrections

    def __repr__(self) -> str:
        return f"Tables(taken={self._stream is None}, secret)"

    def __reduce__(self) -> Any:
        raise TypeError("Tables are secret: they are never copied or stored")

    def take(self) -> PartyRandomness:
        """What a member plays with.  Raises MaskReused the second time."""
        if self._stream is None:
            raise MaskReused(
                "These tables were used in a contest: ask the dealer for new ones with a new nonce"
            )
        tables, masks = _branches(self._stream)
        corrections, self._stream, self._corrections = self._corrections, None, None
        return PartyRandomness(tables if corrections is None else _Words(corrections), masks)


class _Words:
    """Words handed out in order, as a stream would; portion by portion, none of which is cut."""

    def __init__(self, words: Array) -> None:
        self.begin(words)

    def begin(self, words: Array) -> None:
        self._words, self._next = words, 0

    def next(self, shape: tuple[int, ...]) -> Array:
        size = math.prod(shape)
        self._next += size
        part = self._words[self._next - size : self._next].reshape(shape)
        # Kernels are compiled for arrays that may be written to, which a received message is not.
        return part if part.flags.writeable else part.copy()


def _branches(stream: Coins) -> tuple[Coins, Coins]:
    """A stream for tables and one for masks: whoever gets corrections skips the first."""
    masks = Coins(stream.bytes(16))
    return stream, masks


class PartyRandomness:
    """A member's shares of tables and of masks, in the order in which the dealer makes them."""

    def __init__(self, source: Coins | _Words, masks: Coins) -> None:
        self._source, self._masks = source, masks

    def feed(self, words: Array) -> None:
        """The next portion of corrections, at the member that gets them; the last one is used up."""
        if isinstance(self._source, _Words):
            self._source.begin(words)

    def table(self, space: Array) -> Array:
        """The next share of tables, words of the shape of `space`: put there, unless they lie elsewhere."""
        if isinstance(self._source, _Words):
            return self._source.next(space.shape)
        self._source.fill(space)
        return space

    def masks(self, shape: tuple[int, ...]) -> Array:
        """The next share of masks, words."""
        out = np.empty(shape, np.uint64)
        self._masks.fill(out)
        return out

    def residues(self, basis: Basis, shape: tuple[int, ...]) -> Array:
        """The next share, modulo every prime, of values that the dealer chose: (lanes, *shape)."""
        if isinstance(self._source, Coins):
            return basis.sample(shape, self._source)
        return _residues(basis, self._source.next((residue_words(basis, shape),)), shape)

    def uniform(self, basis: Basis, shape: tuple[int, ...]) -> Array:
        """The next share of uniform residues, (lanes, *shape), whose sum the dealer knows."""
        return basis.sample(shape, self._masks)


def residue_words(basis: Basis, shape: tuple[int, ...]) -> int:
    """Words that hold residues (lanes, *shape), two a word."""
    return -(-basis.lanes * math.prod(shape) // 2)


def _residues(basis: Basis, words: Array, shape: tuple[int, ...]) -> Array:
    """The residues (lanes, *shape) in these words, in place."""
    return words.view(np.uint32)[: basis.lanes * math.prod(shape)].reshape(basis.lanes, *shape)


class DealerRandomness:
    """What the dealer makes of its streams with all members: the masks, and corrections in order.

    Corrections are made in portions; before: words that one begins with, so that those of many points are
    never copied.
    """

    def __init__(self, streams: Sequence[Coins], corrected: int) -> None:
        branches = [_branches(stream) for stream in streams]
        self._sources = [tables for j, (tables, _) in enumerate(branches) if j != corrected]
        self._masks = [masks for _, masks in branches]
        self.begin(0)

    def begin(self, words: int, before: Array = NOTHING) -> None:
        """The next portion of corrections, of so many words after those before."""
        self.corrections, self._next = np.empty(len(before) + words, np.uint64), len(before)
        self.corrections[: len(before)] = before

    def table(self, shape: tuple[int, ...]) -> Array:
        """The next part of the corrections, to add the table to: the sum of the others' shares of it."""
        size = math.prod(shape)
        part = self.corrections[self._next : self._next + size].reshape(shape)
        self._next += size
        return _sum(part, self._sources)

    def masks(self, shape: tuple[int, ...]) -> Array:
        """The next masks, that the members have shares of."""
        return _sum(np.empty(shape, np.uint64), self._masks)

    def residues(self, basis: Basis, shape: tuple[int, ...]) -> Array:
        """The next part of the corrections, (lanes, *shape): the sum of the others' shares of residues.

        To be replaced by what the dealer's residues exceed it by.
        """
        size = residue_words(basis, shape)
        part = self.corrections[self._next : self._next + size]
        self._next += size
        part[-1:] = 0  # which the residues may fill by half
        out = _residues(basis, part, shape)
        _add_up(basis, self._sources, out)
        return out

    def uniform(self, basis: Basis, shape: tuple[int, ...]) -> Array:
        """The sum of the members' next uniform residues, (lanes, *shape)."""
        return sum_streams(basis, shape, self._masks)


def _sum(out: Array, streams: Sequence[Coins]) -> Array:
    """Overwrite out, contiguous words, with the sum of what the streams yield next."""
    streams[0].fill(out)
    if len(streams) > 1:
        word = np.empty_like(out)
        for stream in streams[1:]:
            stream.fill(word)
            out ^= word
    return out


def sum_streams(basis: Basis, shape: tuple[int, ...], streams: Sequence[Coins]) -> Array:
    """The sum of the uniform residues (lanes, *shape) that the streams yield next."""
    out = np.empty((basis.lanes, *shape), basis.dtype)
    _add_up(basis, streams, out)
    return out


def _add_up(basis: Basis, streams: Sequence[Coins], out: Array) -> None:
    """Overwrite out (lanes, *shape) with the sum of what `basis.sample` draws from the streams next."""
    # A lane of every stream in turn, so that what is added was drawn a moment ago.
    words = np.empty(out.shape[1:], basis.dtype)
    for lane, p in enumerate(basis.primes):
        streams[0].fill_residues(p, out[lane])
        for stream in streams[1:]:
            stream.fill_residues(p, words)
            basis.add_to_lane(out[lane], words, p)


# --------------------------------------------------------------------------------------------------
# What a dealer sends to one member, portion by portion, so that nobody holds the tables of all points.
#
# A contest in blocks of rows (`field.compare.blockwise`) has a portion a block.  Members yield `NEXT` before
# they use another one: the member that gets corrections has to have it then, and all others go on.

# So many words, and who puts them into a deck.
Portion = tuple[int, Callable[[DealerRandomness], None]]


class _Next:
    def __repr__(self) -> str:
        return "NEXT"


# What a member yields in place of what it opens, where it needs the next portion.
NEXT: Any = _Next()


def deal_portions(
    portions: Iterable[Portion], streams: Sequence[Coins], corrected: int, before: Array = NOTHING
) -> Iterator[Array]:
    """The words of every portion, for the corrected member; each is made when it is asked for.

    streams: one with every member.  before: words that the first portion begins with.
    """
    deck = DealerRandomness(streams, corrected)
    for words, fill in portions:
        deck.begin(words, before)
        before = NOTHING
        fill(deck)
        yield deck.corrections


# --------------------------------------------------------------------------------------------------
# Products of bits that are opened under masks of which all products are shared.
#
# Each factor is public as b = x + a under a mask a, so the product of the x is the sum over sets S of factors
# of the product of the b outside of S, times that of the a in S: local, given shares of the products of
# masks.

ONES = np.uint64(2**64 - 1)


def multiply_bits(
    bits: Array, masks: Array, groups: tuple[int, ...], hand: PartyRandomness, constant: Any
) -> Array:
    """A share of the product of each group: (outcomes, groups, per), of masked bits (outcomes, f, per)."""
    from field.kernels import comparing

    outcomes, _, per = bits.shape
    out = np.empty((outcomes, len(groups), per), np.uint64)
    begin = 0
    for number, size in enumerate(groups):
        table = hand.table(np.empty((2**size - 1 - size, outcomes, per), np.uint64))
        comparing.fold_factors(bits, masks, begin, size, table, constant, number, out)
        begin += size
    return out


def mask_monomials(masks: Array, table: Array, constant: Array) -> list[Array]:
    """Shares of the products of masks (outcomes, f, per) over subsets, 2**f of (outcomes, per).

    Those of two masks and more are in the table (2**f - 1 - f, outcomes, per); constant: of none.
    """
    terms, row = [constant], 0
    for d in range(masks.shape[1]):
        terms.append(masks[:, d])
        terms.extend(table[row : row + 2**d - 1])
        row += 2**d - 1
    return terms


def deal_multiply(masks: Array, groups: tuple[int, ...], deck: DealerRandomness) -> None:
    """Tables of the products of masks (outcomes, f, per) over subsets of two and more of each group."""
    outcomes, _, per = masks.shape
    begin = 0
    for size in groups:
        subset_products(masks[:, begin : begin + size], deck.table((2**size - 1 - size, outcomes, per)))
        begin += size


def subset_products(masks: Array, table: Array) -> list[Array]:
    """The products of masks (outcomes, f, per) over subsets, in the order of `mask_monomials`.

    Those of two masks and more are added to the table (2**f - 1 - f, outcomes, per).
    """
    products, row = [np.broadcast_to(ONES, (len(masks), masks.shape[2]))], 0
    for d in range(masks.shape[1]):
        mask = masks[:, d]
        fresh = [product & mask for product in products[1:]]
        for product in fresh:
            table[row] ^= product
            row += 1
        products += [mask, *fresh]
    return products
