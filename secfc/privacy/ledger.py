"""The ledger: what was released, to whose view, and what that costs each view in total."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from secfc.errors import InputError, PrivacyError
from secfc.privacy import accountant
from secfc.privacy.calibration import Budget
from secfc.privacy.events import Composed, Event, Neighbors, NonPrivate
from secfc.roles.exchange import PartyId

EVERYBODY: PartyId = "everybody"


@dataclass(frozen=True)
class Entry:
    """One event of a ledger, and who saw it.

    Parameters
    ----------
    event
        What was released, for the accountant.
    what
        The release in words.
    seen_by
        Names of parties; EVERYBODY among them for a public release.
    """

    event: Event
    what: str
    seen_by: frozenset[PartyId]


@dataclass(frozen=True)
class Ledger:
    """Append-only list of releases under one neighboring relation: `record` returns a longer ledger.

    Parameters
    ----------
    neighbors
        The neighboring relation of all entries.
    entries
        Releases so far.
    """

    neighbors: Neighbors = field(default_factory=Neighbors)
    entries: tuple[Entry, ...] = ()

    def record(
        self, event: Event, *, what: str, seen_by: PartyId | Collection[PartyId] = EVERYBODY
    ) -> Ledger:
        """This ledger and one more entry."""
        seen = frozenset([seen_by] if isinstance(seen_by, str) else seen_by)
        if not seen:
            raise InputError(f"{what!r} was seen by nobody: name the parties, or EVERYBODY")
        return replace(self, entries=(*self.entries, Entry(event, what, seen)))

    def join(self, other: Ledger) -> Ledger:
        """Both ledgers' entries.  Raises PrivacyError if they protect different neighbors."""
        if other.neighbors != self.neighbors:
            raise PrivacyError(
                f"one ledger protects {self.neighbors}, the other {other.neighbors}: costs under different "
                "relations do not add up; keep them apart"
            )
        return replace(self, entries=self.entries + other.entries)

    def total(self, view: PartyId | Collection[PartyId] = EVERYBODY) -> Event:
        """All that a view saw, as one event.

        view: a party, several of them together (a coalition), or EVERYBODY: what each party and the public
        saw.
        """
        members = {view} if isinstance(view, str) else set(view)
        return Composed(tuple(e.event for e in self.entries if EVERYBODY in e.seen_by or members & e.seen_by))

    def epsilon(self, delta: float, view: PartyId | Collection[PartyId] = EVERYBODY) -> float:
        """The proved epsilon of a view; infinite if it saw anything without noise."""
        return accountant.epsilon(self.total(view), delta)

    @property
    def views(self) -> tuple[PartyId, ...]:
        """EVERYBODY, and the parties that saw more than everybody did."""
        named = sorted({name for entry in self.entries for name in entry.seen_by} - {EVERYBODY})
        return (EVERYBODY, *named)


# Results that follow from the data without noise: what every algorithm without differential privacy costs.
EXACT = Ledger().record(NonPrivate(), what="results without noise")


# --------------------------------------------------------------------------------------------------
# What an algorithm promises: a budget, and whom it protects.


@dataclass(frozen=True)
class Promise:
    """A budget for everything that a run releases, under these neighbors."""

    budget: Budget
    neighbors: Neighbors

    def wide(self, n: int, m: int) -> str | None:
        """What is wrong with delta for n clients with m points together, in a sentence; None if nothing is.

        A mechanism that publishes each unit with probability delta keeps the promise.
        """
        # Persons are no more than data points, and how many they are is nobody's to say.
        what = self.neighbors.level
        units = n if what == "client" else m
        if self.budget.delta * units <= 1:
            return None
        return (
            f"delta={self.budget.delta:g} for {units} {what}s: a claim with delta above "
            f"1/{units} allows that one of them is published whole. Take delta well below {1 / units:.1g}"
        )

    def failure_sentence(self) -> str:
        """What a run that ended early may have cost, in a sentence."""
        return (
            f"It may have released what epsilon={self.budget.epsilon:g} at delta={self.budget.delta:g} pays "
            "for: count that as spent"
        )
