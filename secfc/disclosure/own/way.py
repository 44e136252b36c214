"""How a committee shares labels and compares: what `secfc.disclosure.own.keeper` asks of it.

Dealt (`secfc.disclosure.own.dealing`), or without a dealer (`secfc.disclosure.own.together`).  Both hold
labels in the same form, so all that is computed of them, and told of them, is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from field.code.blind import PairKeys
from field.compare.relabeling import Relabeling, Shared, Winning
from secfc.coded.dealing_messages import Corrections
from secfc.coded.policy import Measured
from secfc.disclosure.compare.match import Match, Seating
from secfc.disclosure.joint.steps import Seats, Steps
from secfc.roles.exchange import Role

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Begun:
    """A question that a client began to answer.

    game: what is dealt for.  missing: whose seeds a dealer lacks.  corrections: of the dealer, if heard yet.
    seats: of a committee without a dealer, at a member.  left: at a dealer, what is left to deal.
    """

    game: Relabeling | Winning | None
    missing: Array
    corrections: Array | None = None
    seats: Seats | None = None
    left: Iterator[tuple[int, Corrections]] = field(default_factory=lambda: iter(()))

    @property
    def due(self) -> int:
        """Words of the first portion that is dealt for the game."""
        return 0 if self.game is None else self.game.portions[0]


class Way(Protocol):
    """A client's part.  peers: its keys with the other clients."""

    @property
    def seating(self) -> Seating:
        """Who compares."""
        ...

    @property
    def peers(self) -> PairKeys: ...

    @property
    def held(self) -> Callable[[Match, Shared], Array] | None:
        """How a member's part of labels becomes its share of them (lanes, K - 1, m), if members respond."""
        ...

    def public(self, match: Match, labels: Array, clusters: Array) -> Shared:
        """A member's share of labels (m,) that everybody knows, among these clusters (K,)."""
        ...

    def begin(self, match: Match, steps: Steps, game: Relabeling | Winning | None) -> Role[Begun]:
        """What comes first of an answer.  game: None where nothing is compared."""
        ...

    def rounded(
        self, match: Match, steps: Steps, begun: Begun, measured: Measured
    ) -> Role[tuple[Measured, Begun]]:
        """What distances are measured to instead where centers are rounded, and what is left of the dealer's
        words then."""
        ...

    def moved(
        self, match: Match, steps: Steps, begun: Begun, measured: Measured, old: Shared | None
    ) -> Role[tuple[Shared, bool | None] | None]:
        """At a member its share of the labels after a step, and whether none changed, None if not tested."""
        ...

    def won(self, match: Match, steps: Steps, begun: Begun, measured: Measured) -> Role[Array | None]:
        """At a member its share of who wins each point, (K, words)."""
        ...
