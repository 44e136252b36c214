"""What was said in a run: every message, who sent it to whom, and how large it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from secfc.errors import TooFewReplies
from secfc.roles.exchange import SERVER, PartyId


@dataclass(frozen=True)
class Envelope:
    """One message under way.  `body` is None in a transcript that keeps headers only."""

    round: int
    sender: PartyId
    recipient: PartyId
    kind: str
    nbytes: int
    phase: str
    body: Any = None

    def header(self) -> Envelope:
        """The message without its contents."""
        return Envelope(self.round, self.sender, self.recipient, self.kind, self.nbytes, self.phase)


@dataclass(frozen=True, repr=False)
class Transcript:
    """Every message of a run, in order: who sent what to whom, how large, and, if kept, its contents."""

    envelopes: tuple[Envelope, ...]

    def __repr__(self) -> str:
        return f"Transcript({len(self.envelopes)} messages, {self.nbytes()} bytes)"

    def __len__(self) -> int:
        return len(self.envelopes)

    def nbytes(self, sender: PartyId | None = None, recipient: PartyId | None = None) -> int:
        """Bytes sent, optionally by one sender or to one recipient."""
        return sum(
            e.nbytes
            for e in self.envelopes
            if sender in (None, e.sender) and recipient in (None, e.recipient)
        )

    def received(self, *parties: PartyId) -> tuple[Envelope, ...]:
        """What these parties received from anyone outside their coalition."""
        return tuple(e for e in self.envelopes if e.recipient in parties and e.sender not in parties)

    def summary(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Per direction and kind of message: how many, and how many bytes."""
        table: dict[str, dict[str, tuple[int, int]]] = {}
        for e in self.envelopes:
            direction = f"{_side(e.sender)} -> {_side(e.recipient)}"
            count, size = table.setdefault(direction, {}).get(e.kind, (0, 0))
            table[direction][e.kind] = (count + 1, size + e.nbytes)
        return table


def _side(party: PartyId) -> str:
    return "server" if party == SERVER else "client"


@dataclass(frozen=True, repr=False)
class SimulatedRun:
    """results by party; silent: clients that were cut off from the others, and with what error.

    transcript; seconds[party][phase] of wall time spent computing, without loading kernels.
    """

    results: Mapping[PartyId, Any]
    silent: Mapping[PartyId, TooFewReplies]
    transcript: Transcript
    seconds: Mapping[PartyId, Mapping[str, float]]
