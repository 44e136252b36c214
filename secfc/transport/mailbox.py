"""The mailbox of a party: what came for it and was not handed over yet.  No transport, no clock.

Messages are kept by sender and ordered by round, so one that overtakes another waits for its turn.  One that
comes twice counts once, and the first counts.  Rounds rise between any two parties, in what is sent and in
what is awaited, so once a party took a message, or waits for a newer one, older ones of that sender are too
late.  They are dropped, whether they are there or still to come, so memory holds only what may be taken yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from secfc.roles.exchange import END, Exchange, Inbox, PartyId


class Mailbox:
    """Messages of one party, who waits for one exchange after the other."""

    def __init__(self) -> None:
        self.awaited = Exchange()
        # By sender, made as senders turn up: most of thousands of clients never talk to one another.
        self._messages: defaultdict[PartyId, dict[int, Any]] = defaultdict(dict)  # by round
        self._taken: dict[PartyId, int] = {}
        self._first: dict[PartyId, int] = {}  # the oldest round that is not too late

    def wait(self, exchange: Exchange) -> None:
        """The party waits for this from now on: what it took before a crash, or is older, is too late."""
        # What the party says is not its mailbox's to keep: it may be all its shares.
        self.awaited = replace(exchange, send={})
        if exchange.taken:
            self.forget_rounds(exchange.taken)
        for sender in exchange.expect:
            self._drop(sender, exchange.first)

    def keep_message(self, sender: PartyId, number: int, message: Any) -> None:
        """Keep the message of this round, unless it is too late or came before."""
        if number >= self._first.get(sender, 0):
            self._messages[sender].setdefault(number, message)

    def ended(self) -> list[PartyId]:
        """Who said that it ended the run by an error, of those whose word on that counts."""
        return [sender for sender in self.awaited.heed if END in self._messages[sender]]

    def due(self, sender: PartyId) -> int | None:
        """The round of this sender's message that the party waits for, None if it has not come."""
        return self.awaited.due(self._messages[sender])

    def came(self) -> int:
        """How many of those awaited have sent what is awaited."""
        return sum(self.due(sender) is not None for sender in self.awaited.expect)

    def complete(self) -> bool:
        """Whether all of them have, or somebody ended the run."""
        if self.ended():
            return True
        due, messages = self.awaited.due, self._messages
        # Asked after every step of anybody; ends at the first that is missing, as one mostly is.
        return all(due(messages[sender]) is not None for sender in self.awaited.expect)

    def collect(self) -> Inbox:
        """What came of what the party waits for; with it older messages of the same senders are gone."""
        awaited = {sender: self.due(sender) for sender in self.awaited.expect}
        awaited |= dict.fromkeys(self.ended(), END)
        rounds = {sender: number for sender, number in awaited.items() if number is not None}
        inbox = Inbox({sender: self._messages[sender][number] for sender, number in rounds.items()}, rounds)
        self.forget_rounds(rounds)
        return inbox

    def forget_rounds(self, rounds: Mapping[PartyId, int]) -> None:
        """The party has taken these rounds of these senders, so they and what is older are too late."""
        for sender, number in rounds.items():
            self._taken[sender] = max(self.taken(sender), number)
            self._drop(sender, number + 1)

    def taken(self, sender: PartyId) -> int:
        """The last round of this sender that the party took, -1 if none."""
        return self._taken.get(sender, -1)

    def taken_rounds(self) -> dict[PartyId, int]:
        """The last round that the party took, of every sender."""
        return dict(self._taken)

    def count_waiting(self, sender: PartyId) -> int:
        """How many messages of this sender wait to be taken."""
        return len(self._messages[sender])

    def nbytes(self, sender: PartyId) -> int:
        """How many bytes they have."""
        return sum(int(message.nbytes) for message in self._messages[sender].values())

    def _drop(self, sender: PartyId, first: int) -> None:
        """What is older than this round is too late."""
        if first > self._first.get(sender, 0):
            self._first[sender] = first
            messages = self._messages[sender]
            for old in [number for number in messages if number < first]:
                del messages[old]
