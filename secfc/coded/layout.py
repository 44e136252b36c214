"""Which of the m rows each client contributes to: the public part of who owns what.

Receivers always add what they receive into rows; whether a client's rows are its own block of them or all
of them is a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, Protocol

from numpy.typing import NDArray

Array = NDArray[Any]


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

    @property
    def multiple(self) -> int:
        """How many times itself every row is computed on, so that merging rows needs no division."""
        ...

    @property
    def mixed(self) -> bool:
        """Whether several clients share the same rows, so that only their sum is held and tested."""
        ...

    def span(self, client: int) -> tuple[int, int]:
        """(first row, number of rows) that a client shares."""
        ...

    def without(self, contributors: Array) -> Layout:
        """The layout when only these clients, (n,) bool, contribute.

        Raises ValueError if the rows of one client cannot be told from those of others.
        """
        ...


@dataclass(frozen=True)
class OwnRows:
    """Client j shares its own counts[j] rows, one client's after the other's.  Owners are public.

    seats: where only some clients compute, the numbers of these, ascending; they are then the n clients, and
    the rows of all others are nobody's.
    """

    counts: tuple[int, ...]
    multiple: int = 1
    seats: tuple[int, ...] = ()

    mixed: ClassVar[bool] = False

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """(first row, number of rows) of everybody's."""
        firsts = accumulate(self.counts, initial=0)
        return tuple(zip(firsts, self.counts, strict=False))

    @property
    def m(self) -> int:
        return sum(self.counts)

    @property
    def n(self) -> int:
        return len(self.seats or self.counts)

    def span(self, client: int) -> tuple[int, int]:
        return self.spans[self.seats[client] if self.seats else client]

    def without(self, contributors: Array) -> OwnRows:
        kept = tuple(c if there else 0 for c, there in zip(self.counts, contributors, strict=True))
        return OwnRows(kept, self.multiple, self.seats)


@dataclass(frozen=True)
class AllRows:
    """Every client shares all m rows, zeros where it owns none.  Owners are hidden (SecFC App. B).

    held: where rows are merged, a digest of how many clients hold each, which all parties thereby compare.
    """

    m: int
    n: int
    multiple: int = 1
    held: bytes = b""

    mixed: ClassVar[bool] = True

    def span(self, client: int) -> tuple[int, int]:
        return 0, self.m

    def without(self, contributors: Array) -> AllRows:
        if not contributors.all():
            raise ValueError(
                "a client was lost while all rows were shared: its zeros and points are mixed into the "
                "others' sums. Start again without it"
            )
        return self
