"""Resuming after a crash: a role that keeps a journal, whatever the algorithm, policy or driver.

A role is deterministic given its secret coins and what it was told.  `keep_journal` wraps any role and writes
both down; to resume, the role is built anew with the same coins and told the same again, without waiting for
anybody.  What it then sends it sent before, so peers that have taken it drop it by its round, and peers that
have not, because it was lost in the crash or because they crashed themselves, take it now.

No mask or key serves two contents: what a party was told is on file before the party acts on it, and what it
sends is on file as a digest before anything of it leaves.  When it repeats itself it must arrive at the same
digest, else it stops before it sends: its data, coins, parameters or software are not those of before.

Resuming costs the computing time of what is repeated, not the waiting.  A journal holds all that its party
was told: the server's grows by all replies of every iteration.  Of a request that is over for all, what a
client was told and said is dropped where it says what came of it (`Exchange.settled`).  Until then a large
word of the server stands there as its digest: the server keeps it in memory, or makes it anew
(`Exchange.again`).  What came of a request that is over here alone is on file beside that: who resumes asks
its peers whether they lack what it said for it, and repeats it only then (`Exchange.meets`).  Sealed roles
are wrapped outside of `secfc.transport.sealed`, so that greetings and ciphertexts repeat as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import quote

from field.secrets.coins import Coins, SystemCoins
from secfc.errors import JournalError, ProtocolError, TooFewReplies
from secfc.roles.exchange import SERVER, Exchange, Inbox, PartyId, Role, Settled
from secfc.transport.journal import Journal, exchange_digest, settled_path
from secfc.transport.journal import parameters_fingerprint as parameters_fingerprint
from secfc.transport.records import Place, SettledStep

R = TypeVar("R")
NONE: Mapping[str, str] = MappingProxyType({})


def keep_journal(
    role: Role[R], journal: Journal, *, harmless: Mapping[str, str] = NONE, settling: bool = False
) -> Role[R]:
    """The same role, keeping this journal: resumed from where the journal ends.

    The role must be new and made with `journal.coins()`, or others that are the same whenever it is made;
    experiment seeds must be the same too.  Drivers must hand it an `Inbox`.

    A run that ends with blame, of whomever, ends the journal (`Journal.end`): its masks and keys were used,
    and what was told under them must meet no other messages.  After mere losses it goes on: the answers among
    which some were missing are forgotten, as nothing followed from them, and are awaited again.

    harmless: phases in which nothing secret is said yet.  A run that ends in them by an error, as for a
    mistake that is found then, leaves no journal, so that it begins anew once the mistake is mended.  With
    each, what is said in it follows from: named where it is not what it was.

    settling: whether steps that are over for all are replaced by what came of them, as far as the driver says
    what peers have taken (`Inbox.heard`).  Who resumes then does not say again what was said in them.

    Raises JournalError if the role does not send what it sent before; the journal stays, and the peers, who
    are told nothing, wait (`secfc.roles.abort.is_loss`).
    """
    said, steps = False, OpenSteps(journal, settling)
    try:
        inbox: Any = None
        while True:
            try:
                exchange = role.send(inbox)
            except StopIteration as done:
                journal.write_done()
                result: R = done.value
                return result
            except TooFewReplies:
                journal.forget_took()
                raise
            except (ProtocolError, ValueError) as error:
                if not said and harmless:
                    journal.discard()
                elif isinstance(error, ProtocolError):
                    journal.end(type(error).__name__)
                raise
            said = said or exchange.phase not in harmless
            steps.note_over(exchange)
            new = journal.at_end
            steps.note_sent(exchange, write_or_compare(journal, exchange, harmless))
            if (inbox := (yield from steps.skip_over(exchange))) is not None:
                continue
            inbox = journal.next_took()
            if live := inbox is None:
                inbox = yield exchange.change(again=journal.again, said=not new)
                journal.write_took(inbox, (SERVER,) if steps.told_again(exchange) else ())
            else:
                inbox = journal.take_again(inbox, (yield resend_exchange(exchange, journal, inbox)))
            steps.note_taken(inbox, live=live)
    finally:
        role.close()


def write_or_compare(journal: Journal, exchange: Exchange, origins: Mapping[str, str] = NONE) -> bytes:
    """The digest of what an exchange sends, put on file, or the same as there.  Raises JournalError.

    origins: by phase, what a party says in it follows from.
    """
    sends, before = exchange_digest(exchange.round, exchange.send), journal.next_sent()
    if before is None:
        journal.write_sent(sends)
    elif before != sends:
        origin = origins.get(exchange.phase, "data, coins, parameters or software")
        raise JournalError(
            f"{journal.party} would not send what it sent before (phase {exchange.phase!r}): {origin} "
            f"changed since {journal.path} began. Restore that, and the same command goes on; or end this "
            "run at all parties, and start again in another directory"
        )
    return sends


class OpenSteps:
    """Steps of a role that are over here, until nobody can ask for anything of them.

    That is once every peer has taken for good what it was sent in them, or something later.  settling:
    whether they are replaced then.
    """

    def __init__(self, journal: Journal, settling: bool) -> None:
        self.journal, self.settling = journal, settling
        self.over: list[SettledStep] = []
        self.came: tuple[Settled, Place] | None = None  # of the step that is over, and where that stands
        self.lacks = False  # whether a peer may lack what was said in a step, and so in later ones
        self.begin: Place | None = None  # of the step that goes on
        self.settles = False  # whether the role can do with what comes of that
        self.since = -1  # the round of the server's first word in it
        self.taken: dict[PartyId, int] = {}
        self.sent: dict[PartyId, int] = {}

    def note_over(self, exchange: Exchange) -> None:
        """A step ends before this exchange, if that awaits a request: what came of it is on file."""
        self.came, journal = None, self.journal
        if exchange.step == 1 or self.begin is None or exchange.settled is None:
            return
        came, sent = exchange.settled(), {**self.sent, **dict.fromkeys(exchange.send, exchange.round)}
        if not journal.skip_outcome():
            journal.write_outcome(self.begin, came, self.since, sent, self.taken)
        self.came = came, journal.next_place

    def skip_over(self, exchange: Exchange) -> Role[Inbox | None]:
        """What came of the step that begins here, if it was over before this party resumed and nobody lacks
        what was said in it; without any peer nobody does.
        """
        journal, begin = self.journal, self.begin
        if self.lacks or begin is None or begin.at != journal.next_place.at or begin.at not in journal.over:
            return None
        step = journal.over[begin.at]
        met: Any = yield meet_exchange(exchange, journal, step)
        unsure = find_unsure_peers(journal, step)
        self.lacks = met is not None and any(met.heard(peer) < step.sent[peer] for peer in unsure)
        if self.lacks:
            return None
        self.over.append(step)
        self.begin = None
        return journal.skip_step(step)

    def note_sent(self, exchange: Exchange, digest: bytes) -> None:
        """This exchange is on file; a step ends with it, and the next one begins, if it awaits a request."""
        self.sent |= dict.fromkeys(exchange.send, exchange.round)
        if exchange.step == 1 or not self.settling:
            return
        here = self.journal.next_place
        if self.begin is not None and self.came is not None:
            came, over = self.came
            step = SettledStep(self.begin, over, here, came, self.since, self.sent, self.taken, digest)
            self.over.append(step)
            self.journal.note_over(step)
        self.begin, self.taken, self.sent, self.settles, self.since = here, {}, {}, exchange.settles, -1

    def told_again(self, exchange: Exchange) -> bool:
        """Whether a journal need not hold what the server says here, who can say it again.

        The server's journal has all of a run, so it says again whatever it said, without any client's help.
        """
        return self.begin is not None and self.settles and exchange.step == 1

    def note_taken(self, inbox: Inbox, *, live: bool) -> None:
        """This was taken; what is over for all by now is settled.  live: whether it came just now."""
        if not self.taken:
            self.since = inbox.rounds.get(SERVER, -1)
        self.taken |= inbox.rounds
        if any(isinstance(message, Settled) for message in inbox.values()):
            self.begin = None  # it is settled already
        if not (live and self.over and self.begin):
            return

        def is_over(step: SettledStep) -> bool:
            return all(inbox.heard(peer) >= number for peer, number in step.sent.items())

        if done := list(takewhile(is_over, self.over)):
            self.begin = self.journal.settle_steps(done)[self.begin.at]
            self.over = list(self.journal.over.values())


def find_unsure_peers(journal: Journal, step: SettledStep) -> tuple[PartyId, ...]:
    """Peers that may lack what this party sent in a step: all of whom it has nothing later on file.

    What they said within the step they may have said before they took that.
    """
    last = max((*step.sent.values(), *step.taken.values()), default=-1)
    return tuple(peer for peer in step.sent if journal.taken.get(peer, -1) <= last)


def meet_exchange(exchange: Exchange, journal: Journal, step: SettledStep) -> Exchange:
    """The exchange as it is sent again before a step that was over, to hear who lacks something of that."""
    taken, again = {**journal.taken, **journal.again}, journal.again
    return exchange.change(
        expect=(), enough=None, step=1, taken=taken, again=again, settled=None, heed=(),
        meets=find_unsure_peers(journal, step),
    )  # fmt: skip


def replay(role: Role[R]) -> R:
    """What a role that keeps a journal returned before (`Journal.done`): from the file, without any peer."""
    while True:
        try:
            role.send(None)  # type: ignore[arg-type]
        except StopIteration as done:
            result: R = done.value
            return result


def resend_exchange(exchange: Exchange, journal: Journal, inbox: Inbox) -> Exchange:
    """The exchange as it is sent again: its answers are on file, but for what is left out of this one.

    If nothing is left out, a word that the run ended waits for an exchange that hears it.
    """
    asked, again = tuple(journal.left_out), journal.again
    accept = max((inbox.rounds[peer] for peer in asked), default=None)
    taken = {**journal.taken, **again}
    return exchange.change(
        expect=asked, enough=None, accept=accept, exact=True, step=1, taken=taken, again=again, settled=None,
        heed=exchange.heed if asked else (),
    )  # fmt: skip


@dataclass(frozen=True, repr=False)
class Checkpoint:
    """The journals of parties in one process, in one directory: a context, closed at its end.

    Without journals, nothing is kept and coins are the operating system's.
    """

    journals: Mapping[PartyId, Journal]

    @classmethod
    def open(cls, directory: Path | str | None, parties: tuple[PartyId, ...], run: bytes) -> Checkpoint:
        """The journals of these parties, begun where there are none; no journals without a directory.

        run: names the parameters, see `Journal.open` and `parameters_fingerprint`.

        Raises JournalError, also if only some parties have a history; OSError.
        """
        journals: dict[PartyId, Journal] = {}
        here = cls(journals)
        if directory is None:
            return here
        try:
            for party in parties:
                journals[party] = Journal.open(journal_path(directory, party), party, run)
            # All journals are begun before any party acts.
            lost = [party for party, journal in journals.items() if journal.created]
            if lost and not all(journal.fresh for journal in journals.values()):
                raise JournalError(
                    f"{directory} has a history of other parties and none of {', '.join(lost)}: restore the "
                    "missing files, or start again in another directory"
                )
        except BaseException:
            here.close()
            raise
        return here

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all journals."""
        for journal in self.journals.values():
            journal.close()

    def coins(self, party: PartyId) -> Coins:
        """The party's coins from their beginning."""
        return self.journals[party].coins() if party in self.journals else SystemCoins()

    def role(self, party: PartyId, role: Role[R]) -> Role[R]:
        """The party's role, keeping its journal."""
        return keep_journal(role, self.journals[party]) if party in self.journals else role


def journal_path(directory: Path | str, party: PartyId) -> Path:
    """Where the journal of a party is kept."""
    return Path(directory) / f"{quote(party, safe=' ')[:200]}.journal"


def remove_journals(directory: Path | str, parties: tuple[PartyId, ...]) -> None:
    """Delete the journals of these parties, and the directory if nothing else is in it."""
    for party in parties:
        path = journal_path(directory, party)
        settled_path(path).unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    with suppress(OSError):
        Path(directory).rmdir()
