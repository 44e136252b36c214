"""Roles, exchanges and blame: how a party says what it sends and whom it waits for.

A role is a generator.  Each `yield` is one line of the paper's algorithm: it hands out messages, names the
peers whose next message it awaits, and is resumed with what came.  No role touches a transport, a clock
or a file; a driver moves the messages.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from secfc.roles.description import Difference

PartyId = str
SERVER: PartyId = "server"

M = TypeVar("M")
R = TypeVar("R")


# Rounds rise strictly from any party to any other.  Each phase of a run begins at one of these.
PHASE = 1 << 32
GREET, ALIGN, AGREE, SHARE, TOSS, SETTLE, PAIR, ITERATE = (phase * PHASE for phase in range(8))
# What parties do before anything of the clustering: they greeted each other, and align no rows yet.
PREPARE = GREET + PHASE // 2

# Of the word that a party ended by an error (`secfc.roles.abort`): after everything else that it says.
END = 1 << 62

# The server's questions are so many rounds apart; those between belong to the answers.
STRIDE = 1 << 10


@dataclass(frozen=True)
class Exchange:
    """What a role yields.

    send: at most one message a peer.  expect: whose message I wait for.  enough: with how many of them I
    can go on without waiting for the rest (all by default); 0: without any, but only those may be missing who
    are gone.  round: stamped on what I send.  accept: the round of what I wait for, `round` by default.
    exact: that one only; without it that one or a newer one of the same phase, as I may have missed what the
    peer said last; step: one that is a multiple of this newer, so that what belongs to a question I missed is
    no question.
    What is newer waits for its turn.  Older and repeated messages are dropped, so a late reply is never
    taken for the next one, and one that is lost is missed, not mistaken.
    phase: what the work before this exchange is booked under.
    heed: whose word that it ended by an error ends the waiting, whoever is awaited.
    taken: set when this exchange repeats one from before a crash: the last round that was taken then from
    each sender.  A driver drops that one and older ones.
    """

    send: Mapping[PartyId, Any] = field(default_factory=dict)
    expect: tuple[PartyId, ...] = ()
    enough: int | None = None
    round: int = 0
    accept: int | None = None
    exact: bool = True
    step: int = 1
    phase: str = ""
    taken: Mapping[PartyId, int] | None = None
    heed: tuple[PartyId, ...] = ()

    @property
    def first(self) -> int:
        """The oldest round that is awaited: what is older is too late."""
        return self.round if self.accept is None else self.accept

    def due(self, rounds: Collection[int]) -> int | None:
        """Which of these rounds of a peer's messages is the one awaited, None if none is."""
        first = self.first
        if self.exact:
            return first if first in rounds else None
        last = first - first % PHASE + PHASE - 1
        return min((r for r in rounds if first <= r <= last and (r - first) % self.step == 0), default=None)


class Inbox(dict[PartyId, Any]):
    """What a driver resumes a role with: messages by sender, and in `rounds` the round of each."""

    def __init__(self, messages: Mapping[PartyId, Any], rounds: Mapping[PartyId, int]) -> None:
        super().__init__(messages)
        self.rounds = dict(rounds)


Role = Generator[Exchange, Mapping[PartyId, Any], R]


class ProtocolError(Exception):
    """Something a peer did, or failed to do, ended the protocol.

    promise: of a run with a budget of differential privacy what it may have spent (`secfc.privacy.ledger`).
    """

    promise: Any = None


class TooFewReplies(ProtocolError):  # noqa: N818 - named for what happened
    """Fewer peers answered than the code needs.

    Parameters
    ----------
    needed
        How many are needed.
    got
        Who answered.
    """

    def __init__(self, needed: int, got: Collection[PartyId]) -> None:
        came = ", ".join(sorted(got)) or "nobody answered"
        super().__init__(
            f"{needed} replies are needed, {len(got)} came ({came}): wait for the silent parties, or "
            "plan with a smaller ell or t to tolerate more losses"
        )
        self.needed, self.got = needed, tuple(sorted(got))


class Ended(ProtocolError):  # noqa: N818
    """Another party, `by`, ended the run with an error of class `error`, in its exchange of this round.

    party: whom that error names, if anybody.  Suspicion only: it is what `by` says.
    """

    def __init__(self, by: PartyId, error: str, party: PartyId | None, number: int) -> None:
        of = f" about {party}" if party else ""
        super().__init__(
            f"{by} ended the run with {error}{of} (phase {number // PHASE}, exchange {number % PHASE}): "
            "its own log says why and what to do; then start again, with new keys and journals"
        )
        self.by, self.error, self.party, self.round = by, error, party, number


class Indispensable(TooFewReplies):
    """`party` fell silent, and nobody can take its place: the server, or a client that deals."""

    def __init__(self, party: PartyId, why: str) -> None:
        ProtocolError.__init__(
            self,
            f"{party} fell silent and is indispensable: {why}. Restart it from its journal if it kept one, "
            "else start again when it is back",
        )
        self.party, self.needed, self.got = party, 1, ()


class PartiesAway(TooFewReplies):
    """`parties` were awaited in vain, and may come back: nothing was decided without them."""

    def __init__(self, parties: Collection[PartyId]) -> None:
        names = ", ".join(sorted(parties))
        ProtocolError.__init__(
            self,
            f"{names} stayed away, or silent, for longer than is waited for. Nothing was decided without "
            f"{names}: start this party again from its journal, which waits anew, or let every party that is "
            "left be told to go on without",
        )
        self.parties, self.needed, self.got = tuple(sorted(parties)), len(parties), ()


class FaultyParty(ProtocolError):  # noqa: N818
    """Proof that `party` broke the protocol: it sent something no honest party sends.

    That assumes a transport that delivers what was sent or nothing: TLS, or `secfc.transport.sealed`.  Over
    an open one whoever carries messages can frame anybody; over a sealed one only with bytes that are no
    message at all.
    """

    def __init__(self, party: PartyId, why: str) -> None:
        super().__init__(f"{party} {why}: exclude it or repair its software, and start again")
        self.party = party


class FaultyClient(FaultyParty):
    """A client broke the protocol; the blame is proof, given an honest transport.

    Parameters
    ----------
    party
        The client.
    why
        What it did, in words.
    """


class FaultyServer(FaultyParty):
    """The server broke the protocol, for example by asking for what the plan does not allow.

    Parameters
    ----------
    party
        The server.
    why
        What it did, in words.
    """


def blame_error(party: PartyId, why: str) -> FaultyParty:
    """The error that blames this party."""
    return (FaultyServer if party == SERVER else FaultyClient)(party, why)


class SuspectedParties(ProtocolError):  # noqa: N818
    """One of `parties`, at least, broke the protocol, and nobody can tell which."""

    def __init__(self, parties: Collection[PartyId], why: str) -> None:
        self.parties = tuple(parties)
        many, few = len(self.parties), self.parties[:8]
        named = ", ".join((*few, f"... ({many} in all)") if many > 12 else self.parties)
        super().__init__(
            f"{why}, so one of {named} computed or sent something else than was due: compare "
            "their software and data, leave out whom you doubt, and start again"
        )


class RowsRefused(ProtocolError):  # noqa: N818
    """Some client shared what no honest client shares, and as rows are merged nobody can be named."""

    def __init__(self) -> None:
        super().__init__(
            "some client shared values far beyond the public bound, or false shares; as it is hidden whose "
            "rows are whose, nobody can tell which client: run with membership=Open() to have it named"
        )


class MasksSpent(ProtocolError):  # noqa: N818
    """An honest client could not hide the test of its rows: bad luck, of probability below 2**-40."""

    def __init__(self) -> None:
        super().__init__("no mask hides the test of this client's rows, by bad luck: start again")


class LiarsExceeded(ProtocolError):  # noqa: N818
    """More clients lie than the plan can tell from honest ones.

    Parameters
    ----------
    liars
        How many are planned for.
    suspects
        Clients that were found lying before; as more lied than planned, that is no proof any more.
    """

    def __init__(self, liars: int, suspects: Collection[PartyId]) -> None:
        who = f" (found before: {', '.join(suspects)})" if suspects else ""
        super().__init__(
            f"more clients lie than the planned max_cheaters={liars}{who}: plan for more (two more clients "
            "each), or leave out clients whose software you doubt"
        )
        self.liars, self.suspects = liars, tuple(suspects)


class PlanMismatch(ProtocolError):  # noqa: N818
    """Parties agreed to other public parameters than this one, so no share has been sent.

    Parameters
    ----------
    differing
        For each of them what differs, each a `secfc.roles.description.Difference`.
    """

    SHOWN = 6  # differences that the text names

    def __init__(self, differing: Mapping[PartyId, tuple[Difference, ...]]) -> None:
        # Where this party is the odd one, all others differ in the same way.
        alike: dict[tuple[Difference, ...], list[PartyId]] = {}
        for party in sorted(differing):
            alike.setdefault(differing[party], []).append(party)
        groups = []
        for found, parties in alike.items():
            facts = "; ".join(map(str, found[: self.SHOWN]))
            more = f"; and {len(found) - self.SHOWN} more" if len(found) > self.SHOWN else ""
            groups.append(
                f"{', '.join(parties)} {'hold' if parties[1:] else 'holds'} a different plan: {facts}{more}"
            )
        super().__init__(
            f"{'. '.join(groups)}. No share has been sent: settle on one value, give it at every site, and "
            "start again"
        )
        self.differing = dict(differing)
        self.parties = tuple(sorted(differing))


class RowsLost(ProtocolError):  # noqa: N818
    """Clients vanished while they shared their rows, and the run cannot go on without those.

    Parameters
    ----------
    parties
        The clients.
    why
        Why it cannot, in words.
    """

    def __init__(self, parties: Collection[PartyId], why: str) -> None:
        super().__init__(f"the rows of {', '.join(parties)} did not reach everybody: {why}")
        self.parties = tuple(parties)


class RangeExceeded(ProtocolError):  # noqa: N818
    """A cluster grew beyond what the plan's modulus holds, so its distances would not be exact.

    Parameters
    ----------
    size
        Its points.
    largest
        The most points that the modulus holds.
    """

    def __init__(self, size: int, largest: int) -> None:
        super().__init__(
            f"a cluster of {size} points exceeds the plan's largest={largest}: raise largest (the scale "
            "becomes coarser, or a lane is added) or start from a more even clustering"
        )
        self.size, self.largest = size, largest


class BudgetSpent(ProtocolError):  # noqa: N818
    """More was asked for than parties agreed to give away: `asked` beyond what is `left` of `limit`."""

    def __init__(self, what: str, asked: int, left: int, limit: int, remedy: str) -> None:
        super().__init__(f"{asked} {what}: {left} of {limit} are left. {remedy}")
        self.asked, self.left, self.limit = asked, left, limit


class UnionFailed(ProtocolError):  # noqa: N818
    """The private set union ended without a result.

    Parameters
    ----------
    why
        What happened, in words.
    parties
        Whom that points at, perhaps nobody.
    proof
        Whether no honest client could have caused it.
    """

    def __init__(self, why: str, parties: Collection[PartyId], proof: bool) -> None:
        super().__init__(why)
        self.parties, self.proof = tuple(parties), proof


class DisputedRows(ProtocolError):  # noqa: N818
    """Holders of one ID have different data for it.

    Parameters
    ----------
    rows
        The disputed rows, which everybody learns.
    ids
        Those IDs of them that this party holds; another party's error has none.  They are in no text.
    file
        Where they were written, if they were.
    """

    def __init__(self, rows: Collection[int], ids: Collection[Any], file: str = "") -> None:
        # IDs of patients belong on no screen and in no log: `ids` has them.
        mine = len(list(ids))
        super().__init__(
            f"{len(rows)} IDs have different data at different holders "
            f"(rows {list(rows)[:5]}). This party holds {mine or 'none'} of them"
            f"{f', listed in {file}' if file else ''}: the holders must agree on "
            'one version, use distinct IDs, or choose on_conflict="separate" or "mean"'
        )
        self.rows, self.ids, self.file = tuple(rows), tuple(ids), file

    def kept_in(self, file: str) -> DisputedRows:
        """The same error, which says where this party's IDs were written."""
        return DisputedRows(self.rows, self.ids, file)


class TooManyHolders(ProtocolError):  # noqa: N818
    """Rows have so many different numbers of holders that merging them leaves no room in the modulus.

    Parameters
    ----------
    counts
        The numbers of holders that occur.
    multiple
        Their least common multiple, by which all rows grow.
    why
        What does not fit, in words.
    """

    def __init__(self, counts: Collection[int], multiple: int, why: str) -> None:
        listed = ", ".join(map(str, list(counts)[:20]))
        super().__init__(
            f"rows of the union have {listed} holders, so merging them without a division takes all rows "
            f"{multiple}-fold, the least common multiple, and that does not fit: {why}. Give what several "
            "clients hold to one of them before the run, so that fewer counts occur; lower the scale; say "
            "how large a cluster can get (largest); or show the server distances (disclosure), which leaves "
            "more room"
        )
        self.counts, self.multiple = tuple(counts), multiple


class SharedIds(ProtocolError):  # noqa: N818
    """IDs had to be disjoint, and several clients hold some.

    Parameters
    ----------
    m
        The size of the union.

    Notes
    -----
    Whose they are, which and how many is not opened, so nobody is named: a client that misstated its own
    would end a run in the same way.
    """

    def __init__(self, m: int) -> None:
        super().__init__(
            f"merge=False needs IDs that no two clients share, and in this union of m={m} some are shared "
            "(which, and whose, was not opened): let points with equal IDs count once with "
            "Private(merge=True), or give every point an ID that no other client uses. Without an ID column "
            "equal rows are equal IDs"
        )
        self.m = m


def expect_messages(inbox: Mapping[PartyId, Any], kind: type[M]) -> dict[PartyId, M]:
    """The inbox, every message of which must be of this type.

    Raises FaultyClient or FaultyServer naming the sender of anything else.
    """
    for sender, message in inbox.items():
        if not isinstance(message, kind):
            due = getattr(kind, "__name__", kind)  # a union of types has no name
            raise blame_error(sender, f"sent {type(message).__name__} where {due} was due")
    return dict(inbox)


def expect_one(inbox: Mapping[PartyId, Any], party: PartyId) -> Any:
    """The message of the one peer that was awaited.

    Raises TooFewReplies if it fell silent, Indispensable if that was the server.
    """
    if party not in inbox:
        if party == SERVER:
            raise Indispensable(SERVER, "it asks the questions, and only its answers are awaited here")
        raise TooFewReplies(1, tuple(inbox))
    return inbox[party]


def expect_all(inbox: Mapping[PartyId, M], parties: Collection[PartyId]) -> Mapping[PartyId, M]:
    """The messages of peers who all were awaited.

    Raises TooFewReplies if any fell silent.
    """
    if len(inbox) < len(parties):
        raise TooFewReplies(len(parties), tuple(inbox))
    return inbox


def to_all(recipients: Iterable[PartyId], message: Any) -> dict[PartyId, Any]:
    """The same message to every recipient."""
    return dict.fromkeys(recipients, message)


def run_alone(role: Generator[Exchange, Any, R]) -> R:
    """Run a role, or a fragment of one, that has nobody to talk to.

    Raises ProtocolError if it wants to communicate.
    """
    try:
        next(role)
    except StopIteration as done:
        result: R = done.value
        return result
    raise ProtocolError("a role without peers wants to communicate")
