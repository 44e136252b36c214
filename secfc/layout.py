"""Which of the m rows each client contributes to: the public part of who owns what.

Receivers always add what they receive into rows; whether a client's rows are its own block of them or all
of them is a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Layout(Protocol):
    """The public shape of everybody's contribution."""

    @property
    def m(self) -> int:
        """Points in total."""
        ...

    @property
    def n(self) -> int:
        """Clients."""
        ...

    def span(self, client: int) -> tuple[int, int]:
        """(first row, number of rows) that a client shares."""
        ...


@dataclass(frozen=True)
class OwnRows:
    """Client j shares its own counts[j] rows, one client's after the other's.  Owners are public."""

    counts: tuple[int, ...]

    @property
    def m(self) -> int:
        return sum(self.counts)

    @property
    def n(self) -> int:
        return len(self.counts)

    def span(self, client: int) -> tuple[int, int]:
        return sum(self.counts[:client]), self.counts[client]


@dataclass(frozen=True)
class AllRows:
    """Every client shares all m rows, zeros where it owns none.  Owners are hidden (SecFC App. B)."""

    m: int
    n: int

    def span(self, client: int) -> tuple[int, int]:
        return 0, self.m
