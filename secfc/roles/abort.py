"""How a run ends by an error: whoever has one tells the others what kind, about whom and when, and no more.

Without that word a party that waits learns of it only as silence.  `broadcast_abort` wraps a role that runs
by itself, inside of `secfc.transport.sealed`, so that the word is as authentic as any other.  Of an internal
error, which is a mistake in the program, they learn that there is one, and nothing of it.  A loss is no such
error (`is_loss`): a party that heard too little, whose disk is full or whose process dies is away.  It can
come back, with its journal, and until then the others wait, or go on as far as the code allows.

The word is a claim of who says it.  A client that lies can so end a run, by name: where deviating clients are
planned for, heed the server alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from secfc.errors import Ended, JournalError, ProtocolError, TooFewReplies
from secfc.roles.exchange import END, SERVER, Exchange, Links, PartyId, Role, blame_error
from secfc.roles.messages import Message, refuse_if

R = TypeVar("R")

NAME = re.compile("[A-Za-z]{1,40}")
# What others are told of an error that no part of the protocol raises on purpose.
INTERNAL = "InternalError"


class Abort(Message, tag=27):
    """Everyone to everyone, instead of anything further: I end this run by an error.

    error: its class, INTERNAL for a mistake in the program; no text.  party: whom it names, "" for nobody.
    number: the round in which it arose.

    Under "sealed transport": party, party.  Seen: that the sender ended the run, the class of its error,
    whom that names, and the round, which may depend on data: no text, no row, no ID.  By deviating: end a
    run, by name, with a claim about anybody: it is called that (`Ended`). Where replies are corrected,
    only the server is heeded.
    """

    error: str
    party: str
    number: int

    def __post_init__(self) -> None:
        refuse_if(NAME.fullmatch(self.error) is None, "the class of an error is up to 40 letters")
        refuse_if(not 0 <= self.number < END, "a run ends in one of its rounds")


def broadcast_abort(
    role: Role[R],
    me: PartyId,
    peers: tuple[PartyId, ...],
    *,
    heed: tuple[PartyId, ...] | None = None,
    links: Links | None = None,
) -> Role[R]:
    """The same role; if it ends by an error and no mere loss, the peers are told, and it ends with theirs.

    heed: whose word ends it, all peers' by default.  links: who speaks with whom; where not all do with
    all, the server tells its peers of such a word.

    Raises Ended, with what a peer said; FaultyClient, FaultyServer for a word about nobody that takes part.
    """
    others, number = peers if heed is None else heed, 0
    parties = (me, *peers) if links is None else links.parties
    passes_on = links is not None and me == SERVER and links.central_set != set(parties)
    try:
        inbox: Any = None
        while True:
            try:
                exchange = role.send(inbox)
                number = exchange.round
                # Whoever opens what comes raises here where that is not the sender's.
                inbox = yield exchange.change(heed=others)
            except StopIteration as done:
                result: R = done.value
                return result
            except Exception as error:
                if not is_loss(error):
                    word = abort_message(error, number)
                    yield Exchange(dict.fromkeys(peers, word), round=END, phase="end")
                raise
            try:
                _listen(inbox, parties)
            except Ended as ended:
                if passes_on:
                    word = Abort(Ended.__name__, ended.by, ended.round)
                    yield Exchange(dict.fromkeys(peers, word), round=END, phase="end")
                raise
    finally:
        role.close()


def abort_message(error: Exception, number: int) -> Abort:
    """What others are told of an error: no text of it, no row, no ID."""
    name = type(error).__name__
    if not (isinstance(error, ProtocolError | ValueError) and NAME.fullmatch(name)):
        return Abort(INTERNAL, "", number)
    party = getattr(error, "party", None)
    return Abort(name, party if isinstance(party, str) else "", number)


def is_loss(error: Exception) -> bool:
    """Whether a party that has this error is away, and can come back: it heard too little, its machine has
    too little room or a fault, or its files are not those that its journal began with.
    """
    machine = isinstance(error, OSError | MemoryError) and not isinstance(error, ValueError)
    return machine or isinstance(error, TooFewReplies | JournalError)


def _listen(inbox: Mapping[PartyId, Any], parties: tuple[PartyId, ...]) -> None:
    for sender, message in inbox.items():
        if isinstance(message, Abort):
            if message.party not in ("", *parties):
                raise blame_error(sender, "ended the run with an error about somebody who takes no part")
            raise Ended(sender, message.error, message.party or None, message.number)
