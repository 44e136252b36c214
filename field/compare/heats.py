"""One level of a tournament: contests within groups of neighbors, all at once.  Everything here is public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.compare import bitslice
from field.compare.contest import Contest

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Heat:
    """The contests of one level.  Whoever is alone in a group goes on without one.

    sizes: (n,) of the contestants' clusters, all 1 where they are equal or secret.  count: groups, fewer than
    contestants.  They are even, and of neighbors: a tie goes to the lower contestant of a group, and later to
    the lower group, so to the lowest of all.
    """

    sizes: tuple[int, ...]
    count: int

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The contestants of each group, ascending."""
        return grouping(len(self.sizes), self.count)

    @cached_property
    def full(self) -> Array:
        """Numbers of the groups that have a contest."""
        return np.array([g for g, rows in enumerate(self.groups) if len(rows) > 1], np.int64)

    @cached_property
    def alone(self) -> Array:
        """Numbers of all other groups."""
        return np.array([g for g, rows in enumerate(self.groups) if len(rows) == 1], np.int64)

    @property
    def digits(self) -> int:
        """Binary digits of a place within a group."""
        return (max(map(len, self.groups)) - 1).bit_length()

    @property
    def pairs(self) -> bool:
        """Whether a group has one comparison at most, so that its bit is the winner's place."""
        return self.digits == 1

    @cached_property
    def members(self) -> Array:
        """(groups, 2**digits) the contestant at each place, -1 for none."""
        out = np.full((self.count, 1 << self.digits), -1, np.int64)
        for group, rows in enumerate(self.groups):
            out[group, : len(rows)] = rows
        return out

    @cached_property
    def places(self) -> Array:
        """(places, 3) group, place and contestant, of whoever is not the first of its group."""
        there = np.argwhere(self.members[:, 1:] >= 0) + np.array([0, 1])
        return np.concatenate([there, self.members[*there.T][:, None]], axis=1)

    @cached_property
    def contest(self) -> Contest:
        """The contests within all groups, as one: its outcomes are the contestants of full groups."""
        literals: list[list[int]] = []
        wanted: list[list[bool]] = []
        comparisons: list[tuple[int, int, int, int]] = []
        most = max(map(len, self.groups)) - 1
        for group in self.full.tolist():
            rows = self.groups[group]
            own = nearest_of(self.sizes, rows)
            for row, signs in zip(own.literals.tolist(), own.wanted.tolist(), strict=True):
                more = most - len(row)
                literals.append([len(comparisons) + q for q in row + row[:1] * more])
                wanted.append(signs + signs[:1] * more)
            comparisons += [(rows[a], rows[b], u, v) for a, b, u, v in own.comparisons]
        return Contest(
            self.sizes, tuple(comparisons), np.array(literals), np.array(wanted),
            np.arange(len(literals), dtype=np.int32),
        )  # fmt: skip

    @cached_property
    def outcomes(self) -> Array:
        """(places,) the outcome of the contest that is whoever stands at a place."""
        number = {h: q for q, h in enumerate(h for g in self.full.tolist() for h in self.groups[g])}
        return np.array([number[h] for h in self.places[:, 2].tolist()], np.int64)

    def digits_of(self, bits: Array) -> Array:
        """The binary digits of each full group's place, (full * digits, per), of the places' bits."""
        out = np.zeros((self.count, self.digits, bits.shape[1]), np.uint64)
        for (group, place, _), bit in zip(self.places.tolist(), bits, strict=True):
            for digit in range(self.digits):
                if place >> digit & 1:
                    out[group, digit] ^= bit
        return out[self.full].reshape(-1, bits.shape[1])

    def numbers(self, digits: Array, m: int) -> Array:
        """(full, m) uint8 places with these binary digits (full * digits, per)."""
        planes = digits.reshape(len(self.full), self.digits, -1)
        return np.stack([bitslice.numbers(group, m).astype(np.uint8) for group in planes])


@lru_cache(maxsize=512)
def heat(sizes: tuple[int, ...], count: int) -> Heat:
    """The same object for the same values, as it keeps what it computed."""
    return Heat(sizes, count)


def grouping(k: int, count: int) -> tuple[tuple[int, ...], ...]:
    """So many even groups of neighbors."""
    return tuple(tuple(range(g * k // count, (g + 1) * k // count)) for g in range(count))


def nearest_of(sizes: tuple[int, ...], rows: Sequence[int]) -> Contest:
    """The contest among these clusters alone."""
    return Contest.nearest(np.array([sizes[h] for h in rows]))
