"""Lloyd's steps from coded replies: what the server asks for and decodes (Algorithm 1, lines 14 to 18)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.nearest import decode_nearest, decode_scaled
from field.code.rows import cluster_sizes
from field.ring.basis import Basis
from field.ring.exact import Exact
from field.secrets.coins import SystemCoins
from secfc.coded.messages import Assignment, CodedCenters, CodedDistances, RevealCenters
from secfc.coded.plan import Plan
from secfc.coded.screening import Screening
from secfc.lloyd.loop import Step, Trace, lloyd
from secfc.roles.accept import check_residues
from secfc.roles.exchange import ITERATE, STRIDE, Exchange, PartyId, Role, to_all
from secfc.roles.messages import compact_labels

Array = NDArray[Any]


EVERYBODY = np.empty(0, np.int32)


class CodedSource:
    """A `lloyd.Source` whose distances are decoded from the replies of clients.

    Numbers its questions, so that a late reply to one is never taken for an answer to the next.
    """

    def __init__(self, plan: Plan, present: tuple[PartyId, ...], *, threads: int = 1) -> None:
        self.plan, self.present, self.threads = plan, present, threads
        self.rounds = itertools.count(ITERATE, STRIDE)
        # Replaced by the server's role with what it found out while rows were shared.
        self.screening = Screening(plan, SystemCoins())

    def distances(self, labels: Array, k: int) -> Role[Exact]:
        values = yield from self.replies(labels, k)
        return decode_scaled(self.plan.code, values)

    def drawn(self, newest: Array, draw: Callable[[Exact], int]) -> Role[int]:
        scaled = yield from self.distances(newest, 1)
        # A draw rounds them to floats, so it gets those of the points themselves.
        return draw(scaled.divided(self.plan.layout.multiple**2))

    def separated(self, labels: Array, k: int, factor: int) -> Role[Array]:
        return (yield from self.distances(labels, k)).separated(cluster_sizes(labels, k), factor)

    def step(self, labels: Array, k: int) -> Role[Step]:
        values = yield from self.replies(labels, k)
        sizes = cluster_sizes(labels, k)
        return Step(*decode_nearest(self.plan.code, values, sizes, labels, threads=self.threads))

    def lloyd(self, labels: Array, k: int, max_iter: int) -> Role[Trace]:
        """A whole run of the heuristic."""
        return lloyd(labels, k, max_iter, self)

    def retained(self, sizes: Array) -> Role[Array]:
        """The nearest of the centers that clients retained, of clusters of these sizes: (m,) int32."""
        nobody = np.full(self.plan.m, -1, np.int32)
        values = yield from self.replies(nobody, len(sizes), sizes)
        return decode_nearest(self.plan.code, values, sizes, nobody, threads=self.threads)[0]

    def costs(self, labels: Array, k: int) -> Role[tuple[int, ...]]:
        """For each cluster the sum of scaled distances of its own points: k integers."""
        return (yield from self.distances(labels, k)).within(labels)

    def replies(self, labels: Array, k: int, sizes: Array | None = None) -> Role[dict[int, Array]]:
        """Announce a clustering, receive enough clients' coded distances to its centers, by number.

        sizes: of the clusters that distances are measured to, those of the labels by default.
        """
        lanes = self.plan.lanes(cluster_sizes(labels, k) if sizes is None else sizes)
        return (yield from self.true_replies(labels, k, self.plan.code.basis.prefix(lanes)))

    def true_replies(self, labels: Array, k: int, basis: Basis) -> Role[dict[int, Array]]:
        """The same, modulo these primes."""
        inbox = yield from self.question(labels, k)
        return self.coded(inbox, CodedDistances, basis, (k, self.plan.m), 2)

    def question(self, labels: Array, k: int) -> Role[Mapping[PartyId, Any]]:
        """Ask everybody; any threshold of replies will do."""
        question = Assignment(next(self.rounds), k, compact_labels(labels), EVERYBODY)
        return (yield self.ask(question, self.asked, self.screening.needed(2)))

    @property
    def asked(self) -> tuple[PartyId, ...]:
        """Who is there and was not found lying."""
        return tuple(c for c in self.present if c in self.screening.active)

    def centers(self, labels: Array, k: int) -> Role[Array]:
        """The centers (k, d) in data units, from the shares of the clients that consent."""
        multiple = self.plan.layout.multiple
        # Sums without noise are so many times those of the points, and this division of integers leaves
        # nothing; with noise it leaves less than a step.
        sums = ((yield from self.opened(labels, k)) // multiple).astype(np.float64)
        sizes = cluster_sizes(labels, k)[:, None]
        # A cluster without points, or of too few, has no center, also where there is noise on its sum.
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(
                sizes >= self.plan.smallest_center, sums / (sizes * self.plan.quantizer.scale), np.nan
            )

    def opened(self, labels: Array, k: int) -> Role[Array]:
        """The cluster sums (k, d) as integers."""
        plan = self.plan
        question = RevealCenters(next(self.rounds), k, compact_labels(labels))
        consenting = tuple(c for c in plan.revealing if c in self.asked)
        replies = yield self.ask(question, consenting, self.screening.needed(1))
        shape = (k, plan.code.width(plan.d))
        values = self.coded(replies, CodedCenters, plan.code.basis, shape, 1)
        segments = plan.code.basis.lift_signed(plan.code.interpolate(values, 1))
        return np.concatenate(list(segments), axis=-1)[:, : plan.d]

    def ask(self, question: Any, who: Collection[PartyId], enough: int) -> Exchange:
        return Exchange(to_all(who, question), tuple(who), enough, round=question.round, phase="assign")

    def coded(
        self, inbox: Mapping[PartyId, Any], kind: Any, basis: Basis, shape: tuple[int, ...], degree: int
    ) -> dict[int, Array]:
        """True replies by client number.  Raises FaultyClient, TooFewReplies or LiarsExceeded."""
        replies = self.screening.checked(
            inbox, kind, lambda c, message: check_residues(basis, c, message.values, shape)
        )
        values = {self.plan.clients.index(c): message.values for c, message in replies.items()}
        return self.screening.screened(values, degree)
