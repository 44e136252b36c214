"""All errors that callers and parties meet, and the numbers by which they are looked up.

    InputError              what a caller passed cannot be used; a ValueError
      IncompatibleOptions   parameters that do not go together
      InputFaults           several faults of one input
      UnknownEncoding       a text file in another encoding than was taken for its own
      MissingFileError      a file that does not exist; a FileNotFoundError as well
      JournalError          a journal that cannot be continued
      PrivacyError          a step that would void a privacy claim
        OverBudget          a run that costs more than its budget
    ProtocolError           something a peer did, or failed to do, ended the run
      TooFewReplies         fewer answered than the code needs
        Indispensable       somebody who cannot be replaced fell silent
        PartiesAway         somebody stayed away, and may come back
      Ended                 another party ended the run, and said so
      FaultyParty           proof that a party broke the protocol
        FaultyClient        a client
        FaultyServer        the server
      SuspectedParties      one of several broke it, and nobody can tell which
      RowsRefused           shares that no honest client sends, of nobody knows whom
      MasksSpent            no mask hides the test of a client's rows
      TooManyDeviating      more clients deviate than are corrected
      TamperedMessage       a message that claims to be from a party, and is not the one due
      PlanMismatch          parties agreed to other parameters
      RowsLost              clients vanished while they shared their rows
      RangeExceeded         a cluster grew beyond what the modulus holds
      LabelsWithheld        labels would explain too much of some column
      BudgetSpent           more was asked for than parties agreed to give away
      UnionFailed           the private set union ended without a result
      DisputedRows          holders of one ID have different data for it
      TooManyHolders        merged rows leave no room in the modulus
      SharedIds             IDs had to be disjoint, and are not
    Caution                 a warning: what was asked for gives less than it may seem to

What only one room raises and catches, and what a site refuses (`secfc.deploy`), stands there.
`secfc/deploy/problems.md` says of each number what happened, who may have done it, and what to do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from field.ring.errors import InvalidValue
from field.ring.errors import install_command as install_command
from secfc.remedies import (
    PYTHON,
    Advice,
    Interface,
    Remedy,
    accept_old_names,
    agree_in_number,
    warn_of_old_name,
)

PartyId = str

# Rounds of an exchange begin anew with each phase of a run (`secfc.roles.exchange`).
PHASE = 1 << 32

# --------------------------------------------------------------------------------------------------
# What callers pass.


class InputError(Advice, InvalidValue):
    """Input that cannot be used.  The message gives the value, the rule and the remedy.

    Parameters
    ----------
    rule
        A sentence, or a whole message.
    remedies
        What would help, if it depends on who reads.
    parameters
        Named before the rule, with their values.
    """


class InputFaults(InputError):  # noqa: N818
    """Several faults of one input, told at once.  faults: two or more."""

    def __init__(self, faults: Sequence[InputError]) -> None:
        super().__init__(f"{len(faults)} faults")
        self.args, self.faults = (faults,), tuple(faults)

    def text(self, interface: Interface = PYTHON) -> str:
        """A line for each fault, in words of an interface."""
        lines = [f"- {fault.text(interface)}" for fault in self.faults]
        return "\n".join((f"{len(lines)} faults:", *lines))


class UnknownEncoding(InputError):  # noqa: N818
    """A text file in another encoding than was taken for its own."""


class IncompatibleOptions(InputError):  # noqa: N818
    """Parameters that do not go together.

    parameters: which, and their values.  rule: why not.  remedies: at least one.
    """

    def __init__(self, parameters: Mapping[str, Any], rule: str, remedies: Sequence[Remedy]) -> None:
        super().__init__(rule, remedies, parameters)
        self.args = (parameters, rule, remedies)


class MissingFileError(InputError, FileNotFoundError):
    """A file that does not exist."""


@contextmanager
def refuse_damaged(message: str) -> Iterator[None]:
    """Within the body a library parses bytes of a file: whatever it raises but for OSError says that they are
    damaged.

    Nothing of ours runs in it, as a fault of the program would pass for one of the file.  Raises InputError.
    """
    try:
        yield
    except (InputError, OSError):
        raise
    except Exception as error:
        raise InputError(message) from error


class JournalError(InputError):
    """A journal that cannot be continued: says why, and what to do.

    Parameters
    ----------
    rule
        A sentence, or a whole message.
    remedies
        What would help, if it depends on who reads.
    parameters
        Named before the rule, with their values.
    """


class PrivacyError(InputError):
    """A step that would void the privacy claim; the message gives value, rule and remedy.

    Parameters
    ----------
    rule
        A sentence, or a whole message.
    remedies
        What would help, in a form for Python, the shell or a site file.
    parameters
        Parameters that the message names before the rule, with their values.
    """


class OverBudget(PrivacyError):  # noqa: N818 - named for what happened
    """A run that costs more than its budget: refused before any data is touched.

    Parameters
    ----------
    rule
        A sentence, or a whole message.
    remedies
        What would help, in a form for Python, the shell or a site file.
    parameters
        Parameters that the message names before the rule, with their values.
    """


class Caution(Advice, UserWarning):
    """What a caller asked for can be done, and gives less than it may seem to.

    Parameters
    ----------
    rule
        A sentence, or a whole message.
    remedies
        What would help, if it depends on who reads.
    parameters
        Named before the rule, with their values.
    """


# --------------------------------------------------------------------------------------------------
# What parties do.


class ProtocolError(Exception):
    """Something a peer did, or failed to do, ended the protocol.

    promise: of a run with a budget of differential privacy what it may have spent (`secfc.privacy.ledger`).
    excluded: whose rows had been left out by then, as far as this party knows.
    """

    promise: Any = None
    excluded: tuple[PartyId, ...] = ()

    def __str__(self) -> str:
        return agree_in_number(super().__str__())


MORE_LOSSES = "plan with a smaller ell, t or deviating to tolerate more losses"


class TooFewReplies(ProtocolError):  # noqa: N818 - named for what happened
    """Fewer peers answered than the code needs.

    By: nobody: a line, a machine, or a clock that is too short.  What to do: see which site is silent,
    start it again, and the same command here; or plan with a smaller `t` or `ell`.

    Parameters
    ----------
    needed
        Number of replies that the code needs.
    got
        Peers that answered.
    otherwise
        Remedy besides waiting.
    """

    def __init__(self, needed: int, got: Collection[PartyId], otherwise: str = MORE_LOSSES) -> None:
        came = ", ".join(sorted(got)) or "nobody answered"
        super().__init__(
            f"{needed} replies are needed, {len(got)} came ({came}): wait for the silent parties, or "
            f"{otherwise}"
        )
        self.needed, self.got = needed, tuple(sorted(got))


class Ended(ProtocolError):  # noqa: N818
    """Another party ended the run with an error of its own, and says the class, whom it names and the round.

    By: the text says its error, whom it names and when; it is a claim of that party.  What to do: read that
    party's own log.

    by: who ended it.  error: the class of its error.  party: whom that error names, if anybody.  Suspicion
    only: it is what `by` says.  round: of its exchange.
    """

    def __init__(self, by: PartyId, error: str, party: PartyId | None, number: int) -> None:
        of = f" about {party}" if party else ""
        super().__init__(
            f"{by} ended the run with {error}{of} (phase {number // PHASE}, exchange {number % PHASE}): "
            "its own log says why and what to do; then start again, with new keys and journals"
        )
        self.by, self.error, self.party, self.round = by, error, party, number


class Indispensable(TooFewReplies):
    """The server, or a client that deals, fell silent for good, and nobody can take its place.

    By: nobody.  What to do: start that party again, then the same command here.

    party: who fell silent.
    """

    def __init__(self, party: PartyId, why: str) -> None:
        ProtocolError.__init__(
            self,
            f"{party} fell silent and is indispensable: {why}. Restart it from its journal if it kept one, "
            "else start again when it is back",
        )
        self.party, self.needed, self.got = party, 1, ()


class PartiesAway(TooFewReplies):
    """Parties were away, or silent, for longer than is waited for, and may come back: nothing was decided
    without them.

    By: nobody: a line, a machine, a reboot.  What to do: start the same command again, here and there, in
    any order: the run goes on. Or go on without them (`secfc deploy go-on`), or end it (`secfc deploy
    abort`).

    parties: who were away.
    """

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
    """A client sent what no honest client sends.

    By: that client: this is proof, given an honest line.  What to do: speak with that site; its log and
    software; a new run without it.

    Parameters
    ----------
    party
        The client.
    why
        What the party did, in words.
    """


class FaultyServer(FaultyParty):
    """The server asked for what the plan does not allow, or sent what no honest server sends.

    By: the server.  What to do: another server.

    Parameters
    ----------
    party
        The server.
    why
        What the party did, in words.
    """


class SuspectedParties(ProtocolError):  # noqa: N818
    """One of several parties, at least, broke the protocol, and nobody can tell which.

    By: one of those that the text names.  What to do: speak with all of them.

    parties: of whom one did.
    """

    def __init__(self, parties: Collection[PartyId], why: str) -> None:
        self.parties = tuple(parties)
        many, few = len(self.parties), self.parties[:8]
        named = ", ".join((*few, f"... ({many} in all)") if many > 12 else self.parties)
        super().__init__(
            f"{why}, so one of {named} computed or sent something else than was due: compare "
            "their software and data, leave out whom you doubt, and start again"
        )


class RowsRefused(ProtocolError):  # noqa: N818
    """Some client shared rows far beyond the bound, or off the code; as rows are merged nobody can be named.

    By: a client, perhaps by a mistake in its data.  What to do: every site checks its bound; without
    merging, the client is named.
    """

    def __init__(self) -> None:
        super().__init__(
            "some client shared values far beyond the public bound, or false shares; as it is hidden whose "
            "rows are whose, nobody can tell which client: run with membership=Open() to have it named"
        )


class MasksSpent(ProtocolError):  # noqa: N818
    """An honest client could not hide the test of its rows: bad luck, of probability below 2**-40.

    By: nobody.  What to do: start anew.
    """

    def __init__(self) -> None:
        super().__init__("no mask hides the test of this client's rows, by bad luck: start again")


@accept_old_names(liars="corrected")
class TooManyDeviating(ProtocolError):  # noqa: N818
    """More clients deviate than the plan corrects.

    By: clients.  What to do: a new run without them.

    Parameters
    ----------
    corrected
        Number of deviating clients that the plan corrects.
    suspects
        Clients that were found to deviate before; as more lied than planned, that is no proof any more.
    """

    def __init__(self, corrected: int, suspects: Collection[PartyId]) -> None:
        who = f" (found before: {', '.join(suspects)})" if suspects else ""
        super().__init__(
            f"more clients deviate than corrected={corrected} allows{who}: correct more (two more clients "
            "each), or leave out clients whose software you doubt"
        )
        self.corrected, self.suspects = corrected, tuple(suspects)


class TamperedMessage(ProtocolError):  # noqa: N818 - named for what happened
    """A message was altered, repeated, or is another party's, though both ends had proved who they are.

    By: whoever carries messages, or that party: suspicion only.  What to do: check the hub, the line and
    the pinned identities.

    Parameters
    ----------
    party
        Party that the message names as its sender.
    why
        What is wrong with it, in words.

    Notes
    -----
    It was altered, repeated, reordered, misdirected, or made for another run or round.  Whoever carries
    messages can have done that, and so can the party itself.
    """

    proof = False

    def __init__(self, party: PartyId, why: str) -> None:
        super().__init__(
            f"{why} from {party} (suspicion only: whoever carries the messages could have done it): "
            "check the connection and the pinned identities, and start again"
        )
        self.party = party


class PlanMismatch(ProtocolError):  # noqa: N818
    """Parties agreed to other public parameters than this one, so no share of a row has been sent.

    By: a mistake, mostly: sites hold different run files, or a client told sites different numbers of
    rows.  What to do: the text names the field and both values: correct the file, compare digests (`secfc
    deploy check`), and start the same commands again.

    Parameters
    ----------
    differing
        For each party what differs, each a `secfc.roles.description.Difference`.
    """

    SHOWN = 6  # differences that the text names

    def __init__(self, differing: Mapping[PartyId, tuple[Any, ...]]) -> None:
        # Where this party is the odd one, all others differ in the same way.
        alike: dict[tuple[Any, ...], list[PartyId]] = {}
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

    By: nobody.  What to do: start anew, with all sites or without those.

    Parameters
    ----------
    parties
        The clients.
    why
        Why the run cannot go on, in words.
    """

    def __init__(self, parties: Collection[PartyId], why: str) -> None:
        super().__init__(f"the rows of {', '.join(parties)} did not reach everybody: {why}")
        self.parties = tuple(parties)


class RangeExceeded(ProtocolError):  # noqa: N818
    """A cluster grew beyond what the plan's modulus holds, so its distances would not be exact.

    By: nobody: `largest` was set too low.  What to do: leave `largest` out.

    Parameters
    ----------
    size
        Number of points of the cluster.
    largest
        The most points that the modulus holds.
    """

    def __init__(self, size: int, largest: int) -> None:
        super().__init__(
            f"a cluster of {size} points exceeds the plan's largest={largest}: raise largest (the scale "
            "becomes coarser, or a lane is added) or start from a more even clustering"
        )
        self.size, self.largest = size, largest


class LabelsWithheld(ProtocolError):  # noqa: N818 - what happened
    """Labels would explain more of some column's variance than is allowed, so nobody was told any.

    By: nobody, or an owner that chose its columns to read another's.  What to do: ask for fewer clusters, or
    agree on a larger `max_explained`.

    Parameters
    ----------
    allowed
        Thousandths of the variance.
    """

    def __init__(self, allowed: int) -> None:
        super().__init__(
            f"labels would explain more of some column than max_explained={allowed / 1000:g} of its variance "
            "allows, so nobody was told any, nor which column: ask for fewer clusters, or agree on a larger "
            "max_explained"
        )
        self.allowed = allowed


class BudgetSpent(ProtocolError):  # noqa: N818
    """More predictions, or repeats, were asked for than parties agreed to give away.

    By: nobody, or whoever asks too often.  What to do: agree on more, in a new run.

    asked: beyond what is left of limit.
    """

    def __init__(self, what: str, asked: int, left: int, limit: int, remedy: str) -> None:
        super().__init__(f"{asked} {what}: {left} of {limit} are left. {remedy}")
        self.asked, self.left, self.limit = asked, left, limit


class UnionFailed(ProtocolError):  # noqa: N818
    """The private set union ended without a result.

    By: the text says whom it points at.  What to do: start anew.

    Parameters
    ----------
    why
        What happened, in words.
    parties
        Parties to which the evidence points; may be empty.
    proof
        Whether no honest client could have caused it.
    """

    def __init__(self, why: str, parties: Collection[PartyId], proof: bool) -> None:
        super().__init__(why)
        self.parties, self.proof = tuple(parties), proof


class DisputedRows(ProtocolError):  # noqa: N818
    """Holders of one ID have different data for it.

    By: a site's data.  What to do: compare the data of these IDs at home.

    Parameters
    ----------
    rows
        The disputed rows, which everybody learns.
    ids
        IDs of disputed rows that this party holds; another party's error has none.  No text shows them.
    file
        File to which these IDs were written, or empty.
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

    By: nobody.  What to do: fewer sites, or `merge = false`.

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

    By: a site's data, or a false count.  What to do: merge them, or find the row.

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


# --------------------------------------------------------------------------------------------------
# A number for every way in which a run ends by an error: the same in every version, to be looked up.


# By the class of the error.  A number that was given away never means anything else.
PROBLEMS = {
    # Losses: nobody is blamed, and the same command goes on where the run was.
    "TooFewReplies": 101,
    "Indispensable": 102,
    "PartiesAway": 103,
    # What parties agreed on.
    "PlanMismatch": 201,
    "RangeExceeded": 202,
    "BudgetSpent": 203,
    "DisputedRows": 204,
    "TooManyHolders": 205,
    "SharedIds": 206,
    "UnionFailed": 207,
    "MasksSpent": 208,
    "RowsLost": 209,
    "LabelsWithheld": 210,
    # Somebody broke the protocol.
    "FaultyClient": 301,
    "FaultyServer": 302,
    "SuspectedParties": 303,
    "RowsRefused": 304,
    "TooManyDeviating": 305,
    "TamperedMessage": 306,
    # Another party ended the run, and said so.
    "Ended": 401,
    # Between organizations, before the run.
    "BelowFloor": 501,
    "NotAdmitted": 502,
}


def problem_id(error: BaseException) -> str | None:
    """The id of an error, as "SECFC-301"; None for one that has none."""
    for kind in type(error).__mro__:
        if kind.__name__ in PROBLEMS:
            return f"SECFC-{PROBLEMS[kind.__name__]}"
    return None


def __getattr__(name: str) -> Any:
    if name == "LiarsExceeded":
        warn_of_old_name(name, "TooManyDeviating")
        return TooManyDeviating
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
