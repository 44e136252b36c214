"""One-time tables and masks, shared between members who hold streams with a dealer.

The dealer and a member expand the same streams in the same order: tables, which at one member are replaced by
corrections so that all shares sum up to what the dealer wants, and masks, which are whatever the streams sum
up to.  Words are shared by exclusive or, residues by addition modulo every prime.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.blind import MaskReused
from field.ring.basis import Basis
from field.secrets.coins import Coins

Array = NDArray[Any]


NOTHING: Array = np.empty(0, np.uint64)


class Tables:
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

    def take(self) -> Hand:
        """What a member plays with.  Raises MaskReused the second time."""
        if self._stream is None:
            raise MaskReused(
                "These tables were used in a contest: ask the dealer for new ones with a new nonce"
            )
        tables, masks = _branches(self._stream)
        corrections, self._stream, self._corrections = self._corrections, None, None
        return Hand(tables if corrections is None else _Words(corrections), masks)


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


class Hand:
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


class Deck:
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
        return total(basis, shape, self._masks)


def _sum(out: Array, streams: Sequence[Coins]) -> Array:
    """Overwrite out, contiguous words, with the sum of what the streams yield next."""
    streams[0].fill(out)
    if len(streams) > 1:
        word = np.empty_like(out)
        for stream in streams[1:]:
            stream.fill(word)
            out ^= word
    return out


def total(basis: Basis, shape: tuple[int, ...], streams: Sequence[Coins]) -> Array:
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
