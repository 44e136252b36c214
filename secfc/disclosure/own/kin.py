"""What a client keeps of a run on shared labels, and holds against what is said of it later."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from field.compare.relabeling import Shared
from secfc.disclosure.compare.match import Match
from secfc.roles.exchange import SERVER, PartyId, SuspectedParties

Array = NDArray[Any]


@dataclass(eq=False, repr=False)
class Kin:
    """What a client keeps of one run: its committee, and by step what it holds, and heard.

    states: a secret, and the clusters (K,) that it is among; of a run that is over, the last one.  sizes: as
    opened, and by whom.  seated: committees that took steps of it, with all who played for them.
    """

    committee: list[int] = field(default_factory=list)
    states: dict[int, tuple[Shared, Array]] = field(default_factory=dict)
    sizes: dict[int, tuple[list[int], tuple[PartyId, ...]]] = field(default_factory=dict)
    seated: dict[tuple[PartyId, ...], dict[PartyId, None]] = field(default_factory=dict)

    def seat(self, match: Match) -> None:
        """These play."""
        self.seated.setdefault(match.committee, {}).update(dict.fromkeys(match.players))

    @property
    def players(self) -> tuple[PartyId, ...]:
        """All who played for a step."""
        return tuple({p: None for players in self.seated.values() for p in players})

    def opened(self, step: int, sizes: list[int], members: tuple[PartyId, ...]) -> None:
        """These sizes were opened.  Raises SuspectedParties if others were when the step was taken before."""
        before, _ = self.sizes.get(step, (None, ()))
        if before is not None and before != sizes:
            raise otherwise(dict.fromkeys((*self.players, SERVER)))
        self.sizes[step] = sizes, members

    def check(self, step: int, sizes: list[int]) -> None:
        """Raises SuspectedParties if the server told other sizes than were opened here."""
        opened, members = self.sizes.get(step, (None, ()))
        if opened is not None and opened != sizes:
            # What a member told me may be another share than it told the server; and of a step that several
            # committees took I may have heard another one.
            who = members if len(self.seated) == 1 else self.players
            why = "the server told other sizes than those that were opened"
            raise SuspectedParties(tuple(dict.fromkeys((SERVER, *who))), why)


def otherwise(players: Iterable[PartyId]) -> SuspectedParties:
    """Whoever played when a step that was taken again, from the same labels, opened other sizes."""
    return SuspectedParties(tuple(players), "a step that others took again opened other sizes than before")
