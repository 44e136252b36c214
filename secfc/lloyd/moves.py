"""What a start asks for that is told sizes and gains, and no label: see `secfc.lloyd.splitting`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Cut:
    """Every cluster in two, on both sides of its mean; answered with the sizes (2 c,) of the halves.

    Each point goes to the nearest of the means plus, for half 2 h, and minus, for half 2 h + 1, one unit of
    the integers along a direction.  groups: the number that each cluster so far has now, -1 for one without
    points; several may become one.  directions: (c, d) of +1 and -1.
    """

    groups: Array
    directions: Array


@dataclass(frozen=True, eq=False)
class Settle:
    """A step of k-means; answered with whether no label changed, and the sizes (c,).  groups: as in `Cut`."""

    groups: Array


@dataclass(frozen=True, eq=False)
class Gauge:
    """What keeping pairs of unions of clusters apart gains; answered with the groups that `choose` makes of
    that.

    sides: (pairs, c), 1 in one union, 2 in the other, 0 in none.  groups: as in `Cut`.  A party that does not
    hear the gains is answered with somebody's word for the groups.
    """

    groups: Array
    sides: Array
    choose: Callable[[tuple[Fraction, ...]], Array]


@dataclass(frozen=True, eq=False)
class Price:
    """What clusters cost; answered with the sums of scaled distances within each (c), or None for a party
    that does not hear them.  groups: as in `Cut`."""

    groups: Array


# What a start asks for: everything in it is public, and it ends with groups, as in `Cut`.
Move = Cut | Settle | Gauge | Price
Moves = Generator[Move, Any, Array]
