"""Who is asked in a run, how many suffice, whom the server may believe, and what a silent client changes."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from field.arrays import Array
from field.code.consistency import judge_dealing, locate_deviating, screen_deviating
from field.code.distances import Replies
from field.code.range_check import OpenedProjections, ProjectionPattern, judge_projections
from field.code.reed_solomon import TooManyFalse, off_polynomial
from field.code.rows import cluster_sizes
from field.ring.basis import Basis
from field.secrets.coins import Coins
from secfc.coded.messages import (
    CodedCenters,
    CodedCosts,
    CodedDistances,
    CodedGains,
    DealingChallenge,
    MissingMessages,
    RevealCenters,
    RevealSums,
)
from secfc.coded.plan import CodedPlan
from secfc.coded.queries import Operation, Query, Subject
from secfc.errors import TooFewReplies, TooManyDeviating
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import (
    ITERATE,
    STRIDE,
    Exchange,
    PartyId,
    Role,
    blame_error,
    expect_messages,
    to_all,
)
from secfc.roles.messages import check_all, check_residues, compact_labels, well_formed

# --------------------------------------------------------------------------------------------------
# Whom the server may still believe: deviating clients located, named and no longer asked.
#
# The honest replies are points of one polynomial.  With A deviating clients planned for and not yet found,
# threshold + A replies that agree contain a threshold of honest ones, so what they decode to is true; A lies
# among threshold + 2 A replies are located.  In between, of threshold + A + s replies s lies are located, and
# more are noticed.  Hence, as long as at most A clients lie, whoever else falls silent, every result is exact
# or a typed error, and whoever is named did lie, except with probability `field.code.consistency.miss_bound`.
#
# A dispute is between a dealer and a receiver of whom one must have lied, and nobody can tell which.  Both
# are no longer asked: that costs two replies and takes away one deviating client, so what remains can be told
# apart as before.  A message that is lost between two clients counts as a lie of one of them.
#
# More deviating clients than planned are noticed as long as replies are to spare; without any, and above all
# once disputes have used them up, deviating clients beyond the plan can pass for honest clients, and no
# decoder can tell.
#
# Whose replies are not read cannot be found: where more clients are there than are needed, the server reads a
# part of the replies, and a lie in another changes nothing and stays unnamed.
#
# Assumes a server that follows the protocol: its coins are secret until the replies are there, and what it
# says about deviating clients is believed.  The proofs are the server's own; they do not convince an
# outsider.

M = TypeVar("M")

OFF = "its replies lie off the polynomial of all others"
MALFORMED = "it sent what no honest client sends"
DEALING = "the shares it dealt of its rows lie on no polynomial"
WORDS = "what it published of shares contradicts its own dealing, or more dealers than may lie"
RANGE = "the rows it dealt hold values far beyond the public bound"
BLINDING = "the blinding it dealt lies on no polynomial, or does not sum to zero"


@dataclass(frozen=True)
class BlameState:
    """What is known of the clients' honesty: who deviated, with the proof, and pairs of whom one lied."""

    deviated: Mapping[PartyId, str]
    disputes: tuple[tuple[PartyId, PartyId], ...] = ()


@dataclass(frozen=True)
class DealingVerdict:
    """What published words say of a dealing.

    good: what the doubted receivers (by number) leave lies on one polynomial.  proof: if not, whether that
    is proof against the dealer.
    """

    good: bool
    proof: bool
    doubted: tuple[int, ...]
    why: str = DEALING


class Screening:
    """The clients that are asked, and how many of them may still lie.

    coins: secret, drawn from when the replies are there.  Not a frozen value: what changes is what the server
    found out.
    """

    def __init__(self, plan: CodedPlan, coins: Coins, standing: BlameState | None = None) -> None:
        self.plan, self.coins = plan, coins
        self.standing = standing or BlameState({})
        self.present: tuple[PartyId, ...] = plan.clients

    @property
    def left(self) -> int:
        """How many of the active clients may lie."""
        deviated, disputes = self.standing.deviated, self.standing.disputes
        return (
            self.plan.corrected - len(deviated) - sum(deviated.keys().isdisjoint(pair) for pair in disputes)
        )

    @property
    def active(self) -> tuple[PartyId, ...]:
        """Who is present, was not found to deviate, and is in no dispute, in the order of the plan."""
        out = {*self.standing.deviated, *(c for pair in self.standing.disputes for c in pair)}
        return tuple(c for c in self.present if c not in out)

    def needed(self, degree: int) -> int:
        """Replies that must agree, and with which the server can go on."""
        return self.plan.code.threshold(degree) + self.left

    def challenge(self) -> DealingChallenge:
        """A fresh one, to be sent when all that it is about has arrived."""
        return DealingChallenge(self.coins.bytes(32))

    def blame(self, client: PartyId, why: str) -> None:
        """Name a client with proof.  Raises TooManyDeviating if this is one too many."""
        self._learn(BlameState({**self.standing.deviated, client: why}, self.standing.disputes))

    def part(self, dealer: PartyId, receiver: PartyId) -> None:
        """Ask neither of two clients any more, one of whom lied.  Raises TooManyDeviating."""
        self._learn(BlameState(self.standing.deviated, (*self.standing.disputes, (dealer, receiver))))

    def _learn(self, standing: BlameState) -> None:
        suspects = tuple(self.standing.deviated)
        self.standing = standing
        if self.left < 0:
            raise TooManyDeviating(self.plan.corrected, suspects)

    def checked(
        self, inbox: Mapping[PartyId, Any], kind: type[M], check: Callable[[PartyId, M], None]
    ) -> dict[PartyId, M]:
        """The messages of active clients, each of this type and passing the check.

        check raises FaultyClient.  Its sender is named then, which ends the run only as `blame` says.
        """
        inbox = {c: m for c, m in inbox.items() if c in self.active}
        if not self.plan.corrected:
            return check_all(inbox, kind, check)
        good = well_formed(inbox, kind, check)
        for sender in inbox:
            if sender not in good:
                self.blame(sender, MALFORMED)
        return good

    def screened(self, values: Mapping[int, Array], degree: int) -> dict[int, Array]:
        """Enough replies (lanes, *shape), by number, that are true; whoever was found to deviate is named.

        values: canonical residues of active clients, of this degree in their shares.

        Raises TooFewReplies, TooManyDeviating.
        """
        needed, left, code = self.needed(degree), self.left, self.plan.code
        if len(values) < needed:
            raise TooFewReplies(needed, self.names(values))
        if not self.plan.corrected:
            return dict(values)
        found = min(left, len(values) - needed)
        try:
            if found == self.plan.corrected:
                usable, deviated = screen_deviating(code, values, degree, found, self.coins)
            else:
                # Somebody is missing or has lied before: read everything there is.
                deviated = locate_deviating(code, values, degree, found, self.coins)
                usable = tuple(j for j in values if j not in deviated)
        except TooManyFalse:
            raise TooManyDeviating(self.plan.corrected, tuple(self.standing.deviated)) from None
        for client in self.names(deviated):
            self.blame(client, OFF)
        return {j: values[j] for j in usable}

    def judged(self, words: Mapping[int, Array], degree: int, *, zero_sum: bool = False) -> DealingVerdict:
        """Whether a dealing of this degree is false, by the words (lanes, words) of active receivers."""
        found = min(self.left, len(words) - self.needed(degree))
        if found < 0:
            return DealingVerdict(False, False, ())
        verdict = judge_dealing(self.plan.code, words, found, degree=degree, zero_sum=zero_sum)
        # Fewer words leave less to blame on receivers: the verdict then holds, but proves nothing.
        return DealingVerdict(not verdict.dealer, verdict.dealer and found == self.left, verdict.receivers)

    def judged_rows(
        self, pattern: ProjectionPattern, words: Mapping[int, OpenedProjections]
    ) -> DealingVerdict:
        """Whether rows that were dealt are false or out of range, by masked projections of them."""
        errors = min(self.left, len(words) - self.needed(1))
        if errors < 0:
            return DealingVerdict(False, False, ())
        if not next(iter(words.values())).sums.size:
            return DealingVerdict(True, False, ())
        finding = judge_projections(self.plan.code, pattern, words, errors)
        good, why = finding.on_code and finding.small, RANGE if finding.on_code else DEALING
        return DealingVerdict(good, not good and errors == self.left, finding.receivers, why)

    def names(self, numbers: Iterable[int]) -> tuple[PartyId, ...]:
        """The names of clients by number."""
        return tuple(self.plan.clients[j] for j in numbers)

    def numbers(self, clients: Iterable[PartyId]) -> tuple[int, ...]:
        """The numbers of clients by name."""
        return tuple(self.plan.clients.index(c) for c in clients)


EVERYBODY = np.empty(0, np.int32)


class ServerContext:
    """Where the server asks from: the plan, whom it may believe, and the numbers of its questions.

    Numbers rise, so that a late reply to one question is never taken for an answer to the next.
    """

    def __init__(self, plan: CodedPlan, screening: Screening) -> None:
        self.plan, self.screening = plan, screening
        self.rounds = itertools.count(ITERATE, STRIDE)

    @property
    def there(self) -> tuple[PartyId, ...]:
        """Who is there and was not found to deviate."""
        return self.screening.active

    def ask(
        self, question: Query | RevealCenters | RevealSums, awaited: tuple[PartyId, ...], enough: int
    ) -> Exchange:
        """Ask those whose answers are awaited."""
        return Exchange(to_all(awaited, question), awaited, enough, round=question.round, phase="assign")

    def believed(
        self,
        inbox: Mapping[PartyId, Any],
        kind: type[CodedDistances | CodedCosts | CodedGains | CodedCenters],
        basis: Basis,
        shape: tuple[int, ...],
        degree: int,
    ) -> dict[int, Array]:
        """True replies by client number.  Raises FaultyClient, TooFewReplies or TooManyDeviating."""
        replies = self.screening.checked(
            inbox, kind, lambda c, message: check_residues(basis, c, message.values, shape)
        )
        values = {self.plan.clients.index(c): message.values for c, message in replies.items()}
        return self.screening.screened(values, degree)


class Quorum(ABC):
    """Whom a source asks for coded distances and centers, and what it gets of them."""

    def __init__(self, desk: ServerContext) -> None:
        self.desk, self.plan = desk, desk.plan

    @abstractmethod
    def ask_distances(
        self, labels: Array, k: int, basis: Basis, operation: Operation = Operation.DISTANCE
    ) -> Role[dict[int, Array]]:
        """Announce a clustering; enough clients' true coded distances, modulo these primes, by number.

        operation: what is asked; where there is noise, nothing else.
        """

    def shape(self, k: int, operation: Operation) -> tuple[int, int]:
        """Shape of the distances that such a query asks for: how many a point, and points."""
        return 2 if operation.halves else k, self.plan.m

    def offset(self, labels: Array, k: int) -> int:
        """What was added to every last distance so that noise leaves no sum negative; 0 without noise."""
        return 0

    def ask_sums(self, labels: Array, k: int) -> Role[Array]:
        """The sums of clusters (k, d) as integers, from the shares of the clients that consent."""
        return (
            yield from self.collect_sums(RevealCenters(next(self.desk.rounds), k, compact_labels(labels)))
        )

    def collect_sums(self, question: RevealCenters | RevealSums) -> Role[Array]:
        """The sums of clusters (k, d) as integers, in answer to a query.

        All who consent and are there are waited for: of w shares w - ell - t false ones lie on no polynomial.
        Raises SuspectedParties for these, where none are planned for; TooFewReplies if losses leave no share
        more than centers decode from, though there was one.
        """
        plan, desk, k = self.plan, self.desk, question.k
        consenting = tuple(c for c in plan.revealing if c in desk.there)
        inbox = yield desk.ask(question, consenting, 0)
        values = desk.believed(inbox, CodedCenters, plan.code.basis, (k, plan.code.width(plan.d)), 1)
        # With one share more than decode them a lie is noticed; where replies are corrected it was before.
        who, least = tuple(sorted(values)), plan.code.threshold(1) + (plan.corrected == 0)
        least = min(least, len(plan.revealing))
        if len(who) < least:
            raise TooFewReplies(least, [plan.clients[j] for j in who])
        table = np.stack([values[j].reshape(plan.code.basis.lanes, -1) for j in who], axis=1)
        if off_polynomial(plan.code, table, who, 1).any():
            why = "shares of the centers lie on no polynomial; none were opened"
            told = (plan.clients[j] for j in who)
            raise suspect_parties("CodedCenters", why, tellers=told, dealers=plan.clients)
        segments = plan.code.basis.lift_signed(plan.code.interpolate(values, 1))
        return np.concatenate(list(segments), axis=-1)[:, : plan.d]

    def replies(
        self, labels: Array, k: int, sizes: Array | None = None, operation: Operation = Operation.DISTANCE
    ) -> Role[Replies]:
        """Coded distances modulo as many primes as decide them.

        sizes: of the clusters that distances are measured to, those of the labels by default.
        """
        lanes = self.plan.lanes(cluster_sizes(labels, k) if sizes is None else sizes)
        return (yield from self.ask_distances(labels, k, self.plan.code.basis.prefix(lanes), operation))


class AnyThreshold(Quorum):
    """All are asked, and any threshold of replies will do."""

    def ask_distances(
        self, labels: Array, k: int, basis: Basis, operation: Operation = Operation.DISTANCE
    ) -> Role[dict[int, Array]]:
        desk = self.desk
        question = Query(next(desk.rounds), Subject(operation, k, compact_labels(labels)), EVERYBODY)
        inbox = yield desk.ask(question, desk.there, desk.screening.needed(2))
        return desk.believed(inbox, CodedDistances, basis, self.shape(k, operation), 2)


# --------------------------------------------------------------------------------------------------
# Whom to exclude after a failed response: those that are gone, and as few others as possible.
#
# Everybody who was asked to play answers the server, be it only that somebody was not heard
# (`MissingMessages`).  So who says nothing is gone, and is what most reports are about.  Between two that are
# there, one of whom did not hear the other, nobody can tell who is at fault: then one of the two is left out.

NOBODY_MISSED = np.empty(0, np.int32)


class MissingMessageError(Exception):
    """A step ended without these parties' messages, perhaps nobody's, so this client can go no further."""

    def __init__(self, step: int, missing: tuple[PartyId, ...]) -> None:
        super().__init__(f"step {step}")
        self.step, self.missing = step, missing


def receive_all(exchange: Exchange, kind: Any, step: int) -> Role[dict[PartyId, Any]]:
    """What every awaited party sent.  Raises MissingMessageError if one did not, or goes no further."""
    inbox = expect_messages((yield exchange), kind | MissingMessages)
    missing = tuple(c for c in exchange.expect if c not in inbox)
    if missing or any(isinstance(message, MissingMessages) for message in inbox.values()):
        raise MissingMessageError(step, missing)
    return inbox


def missing_peers(plan: CodedPlan, sender: PartyId, report: MissingMessages) -> set[PartyId]:
    """Whom a report says that its sender did not hear, perhaps nobody.

    Raises FaultyClient or FaultyServer naming the sender if there are no such clients.
    """
    missing = report.missing
    if missing.size and not 0 <= int(missing.min()) <= int(missing.max()) < len(plan.clients):
        raise blame_error(sender, f"missed clients of other numbers than 0 to {len(plan.clients) - 1}")
    return {plan.clients[j] for j in missing.tolist()} - {sender}


def exclude_dropouts(
    plan: CodedPlan,
    gone: Collection[PartyId],
    reports: Mapping[PartyId, MissingMessages],
    spared: Collection[PartyId] = (),
) -> set[PartyId]:
    """Whom to do without: who is gone, and one of every two of whom one did not hear the other.

    Only the earliest reports that name anybody count: later ones follow from what they say.  Whoever is in
    most such pairs goes first, so a client that hears nobody costs nobody else its place; of two that are in
    no other, the one that was not heard.  spared: who cannot be replaced.
    """
    out = set(gone)
    missed = {c: missing_peers(plan, c, report) for c, report in reports.items()}
    first = min((reports[c].step for c, names in missed.items() if names), default=0)
    pairs = [(c, other) for c in missed if reports[c].step == first for other in sorted(missed[c])]
    while pairs := [pair for pair in pairs if not out & {*pair}]:
        said = {c: sum(c == named for _, named in pairs) for pair in pairs for c in pair}
        within = {c: sum(c in pair for pair in pairs) for c in said}
        out.add(max(said, key=lambda c: (c not in spared, within[c], said[c])))
    return out
