"""Who is asked in a run: whom, how many of them suffice, and what happens when one falls silent."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.reed_solomon import off_polynomial
from field.code.rows import cluster_sizes
from field.ring.basis import Basis
from secfc.coded.blame import CheaterIdentification
from secfc.coded.messages import (
    CodedCenters,
    CodedCosts,
    CodedDistances,
    CodedGains,
    MissingMessages,
    RevealCenters,
    RevealSums,
)
from secfc.coded.plan import CodedPlan
from secfc.coded.queries import Operation, Query, Subject
from secfc.errors import SuspectedParties
from secfc.roles.checks import check_residues
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
from secfc.roles.messages import compact_labels

Array = NDArray[Any]

EVERYBODY = np.empty(0, np.int32)


class ServerContext:
    """Where the server asks from: the plan, whom it may believe, and the numbers of its questions.

    Numbers rise, so that a late reply to one question is never taken for an answer to the next.
    """

    def __init__(self, plan: CodedPlan, screening: CheaterIdentification) -> None:
        self.plan, self.screening = plan, screening
        self.rounds = itertools.count(ITERATE, STRIDE)

    @property
    def there(self) -> tuple[PartyId, ...]:
        """Who is there and was not found lying."""
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
        """True replies by client number.  Raises FaultyClient, TooFewReplies or LiarsExceeded."""
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

        So many shares are waited for, if so many clients consent, that t false ones lie on no polynomial.
        Raises SuspectedParties for these, where none are planned for.
        """
        plan, desk, k = self.plan, self.desk, question.k
        consenting = tuple(c for c in plan.revealing if c in desk.there)
        least = plan.code.threshold(1) + plan.code.t
        enough = max(desk.screening.needed(1), min(len(consenting), least))
        inbox = yield desk.ask(question, consenting, enough)
        values = desk.believed(inbox, CodedCenters, plan.code.basis, (k, plan.code.width(plan.d)), 1)
        who = tuple(sorted(values))
        table = np.stack([values[j].reshape(plan.code.basis.lanes, -1) for j in who], axis=1)
        if off_polynomial(plan.code, table, who, 1).any():
            why = "shares of the centers lie on no polynomial; none were opened"
            raise SuspectedParties(tuple(plan.clients[j] for j in who), why)
        segments = plan.code.basis.lift_signed(plan.code.interpolate(values, 1))
        return np.concatenate(list(segments), axis=-1)[:, : plan.d]

    def replies(
        self, labels: Array, k: int, sizes: Array | None = None, operation: Operation = Operation.DISTANCE
    ) -> Role[dict[int, Array]]:
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
# Who is left out when an answer did not come about: those that are gone, and as few others as possible.
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
