"""FedDP-KMeans under audit: what one row, or one client, did to every release of a run.

Two readers of the same run.  The `everyone else` attacker (`canary_score`) knows all points but one, and
everything that was broadcast or released: it computes what the others add, and the likelihood ratio of the
canary.  The experimenter (`audit_run`) has all points, and checks sensitivities and noise without repetition
(`secfc.privacy.audit`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from field.arrays import Array
from secfc.algorithm import Clustering
from secfc.attacks.reconstruction import KnownSums
from secfc.attacks.views import View
from secfc.data.federation import Federation
from secfc.errors import InputError
from secfc.feddp.clients import ClientStatistics, Question, client_contributions, own_rows
from secfc.feddp.messages import NOTHING, Choose, GroupAbout, Narrow, Project
from secfc.feddp.noise import GaussianStep
from secfc.feddp.plan import FedDPPlan, NoisePart
from secfc.feddp.starts import FedDPInit
from secfc.privacy.audit import (
    ALARM,
    AuditedRun,
    CanaryContribution,
    GaussianShift,
    MovedRelease,
    label_evidence,
    log_likelihood_ratio,
)
from secfc.roles.exchange import SERVER, PartyId
from secfc.secure_sum.protocol import visible_sums

Points = Mapping[PartyId, Array]


@dataclass(frozen=True, eq=False, repr=False)
class AuditedTranscript:
    """What everybody has of a run: the plan, what the server asked, and what was released, in order.

    told: of each sum the message that it answers, None for the first of FedDP-Init.  released: the noisy
    integers of its parts.
    """

    plan: FedDPPlan
    told: tuple[Question | None, ...]
    released: tuple[tuple[Array, ...], ...]

    @classmethod
    def of(cls, result: Clustering) -> AuditedTranscript:
        """What everybody has of a run whose transcript kept its contents.

        Raises ValueError for one that did not, or that went on without some clients: their points are in some
        sums and not in others, so no two data sets are told apart by it.
        """
        plan = result.plan
        if result.excluded:
            raise InputError(
                f"{', '.join(result.excluded)} took no part to the end: who was in which sum is then a "
                "matter of that run. Audit a run that has all clients"
            )
        if not isinstance(plan, FedDPPlan):
            raise InputError(
                f"a run under a {type(plan).__name__}: only FedDPKMeans releases noisy sums to audit"
            )
        first = plan.clients[0]
        heard = [e for e in result.transcript.envelopes if e.sender == SERVER and e.recipient == first]
        if any(e.body is None for e in heard):
            raise InputError(
                "the transcript kept no contents, so what was asked cannot be told: run "
                "secfc.fit(..., keep_bodies=True)"
            )
        told = [e.body for e in heard if isinstance(e.body, Project | Choose | GroupAbout | Narrow)]
        asked = ([None] if isinstance(plan.start, FedDPInit) else []) + told
        flat = iter(result.details.server.released)
        released = []
        for number, message in enumerate(asked):
            count = _parts(plan, message, number, asked)
            released.append(tuple(next(flat).values for _ in range(count)))
        return cls(plan, tuple(asked), tuple(released))

    def __repr__(self) -> str:
        return f"Public(releases={sum(map(len, self.released))})"

    def numbered(self) -> Iterator[tuple[Question | None, int, Array | None]]:
        """Every message, the number of its step of FedDP-Lloyds, and the projection then."""
        initial = isinstance(self.plan.start, FedDPInit)
        projection, number = None, 0 if initial else 1
        for message in self.told:
            if isinstance(message, Project):
                projection = message.projection
            yield message, number, projection
            number += isinstance(message, GroupAbout)

    def statistics(self, points: Points) -> list[tuple[list[NoisePart], list[Array]]]:
        """What these clients' points (m_j, d) add to every sum, in parts; without rows nothing."""
        every = {name: ClientStatistics(self.plan, rows) for name, rows in points.items() if len(rows)}
        found = []
        for message, number, projection in self.numbered():
            total: list[Array] = []
            parts: list[NoisePart] = []
            for mine in every.values():
                parts, vectors = client_contributions(mine, message, number, projection)
                total = [a + b for a, b in zip(total, vectors, strict=True)] if total else list(vectors)
            found.append((parts, total))
        return found


def _parts(plan: FedDPPlan, message: Any, place: int, asked: list[Any]) -> int:
    """How many parts, each with a noise of its own, one sum has."""
    if not isinstance(message, GroupAbout):
        return not (isinstance(message, Narrow) and message.asks == NOTHING)
    return 1 if plan.variant.joint else 2


def canary_evidence(public: AuditedTranscript, others: Points, canary: Points) -> list[MovedRelease]:
    """What is known of every release by who knows the others' points, and the canary.

    others: points of every client without the canary.  canary: with it, of those clients that differ.
    """
    without = public.statistics(others)
    changed = public.statistics(canary)
    before = public.statistics({name: others[name] for name in canary})
    found = []
    for (parts, vectors), (_, more), (_, less), noisy in zip(
        without, changed, before, public.released, strict=True
    ):
        for i, part in enumerate(parts):
            if not isinstance(part.noise, GaussianStep):
                raise InputError(
                    f"{part.what} carries {type(part.noise).__name__} noise: only Gaussian releases add up "
                    "to one shift. Audit a variant without Laplace noise, as OURS"
                )
            base = vectors[i].astype(np.float64)
            added = (more[i].astype(np.float64) if more else 0.0) - (
                less[i].astype(np.float64) if less else 0.0
            )
            found.append(MovedRelease(np.asarray(noisy[i], np.float64), base, base + added, part.deviation))
    return found


def canary_score(public: AuditedTranscript, others: Points, canary: Points) -> float:
    """The log likelihood ratio of the canary being in: the `everyone else` attacker's score of a run."""
    return log_likelihood_ratio(canary_evidence(public, others, canary))


def audit_run(
    result: Clustering, federation: Federation, others: Points, *, alarm: float = ALARM
) -> AuditedRun:
    """The audit of one run on `federation` against the claim of its plan: see `secfc.privacy.audit`.

    others: the points of all clients without the canary, of persons those that clients take, a neighbor of
    the federation under the plan's relation (`without_row`, `without_client`).

    Raises ValueError as `AuditedTranscript.of` does, and for Laplace noise.
    """
    public = AuditedTranscript.of(result)
    have = {
        party.name: party.read()[own_rows(party, public.plan.rows_at(party.name))]
        for party in federation.parties
    }
    differ = {name: rows for name, rows in have.items() if not _same(rows, others.get(name))}
    if not differ:
        raise InputError("both data sets are the same: leave out the canary in the second")
    base = {name: others.get(name, rows[:0]) for name, rows in have.items()}
    releases = canary_evidence(public, base, differ)
    named = [part for parts, _ in public.statistics(have) for part in parts]
    contributions = []
    for part, release in zip(named, releases, strict=True):
        noise = release.noisy - release.with_it
        e = release.with_it - release.without
        contributions.append(
            CanaryContribution(
                part.what,
                part.size,
                float(np.sqrt(e @ e)),
                part.sensitivity,
                part.deviation,
                float(np.sqrt(np.mean(noise**2))),
            )
        )
    response, labels = public.plan.labels, None
    if response is not None and result.released_labels is not None:
        each = zip(result.labels, result.released_labels, strict=True)
        told = np.concatenate([told[: len(own)] for own, told in each])
        absent = response.slots is not None
        labels = label_evidence(result.flat, told, result.k, absent=absent, alarm=alarm)
    claim = 0.0 if response is None else response.epsilon
    allowed = GaussianShift.of_event(public.plan.event).mu ** 2
    return AuditedRun(tuple(contributions), allowed, alarm, labels, claim)


def _same(rows: Array, other: Array | None) -> bool:
    return other is not None and rows.shape == other.shape and bool((rows == other).all())


def without_row(federation: Federation, client: PartyId, row: int) -> dict[PartyId, Array]:
    """The points of all clients, but for one row.  Raises InputError if there is none."""
    points = {party.name: party.read() for party in federation.parties}
    if client not in points or not 0 <= row < len(points[client]):
        raise InputError(
            f"row {row} of {client!r} is no point of the federation: its clients are "
            f"{', '.join(federation.names)}, rows are counted from 0"
        )
    points[client] = np.delete(points[client], row, axis=0)
    return points


def without_client(federation: Federation, client: PartyId) -> dict[PartyId, Array]:
    """The points of all clients, but for those of one.  Raises InputError if there is none of that name."""
    points = {party.name: party.read() for party in federation.parties}
    if client not in points:
        raise InputError(f"{client!r} is no client: the clients are {', '.join(federation.names)}")
    points[client] = points[client][:0]
    return points


# --------------------------------------------------------------------------------------------------
# What messages of FedDPKMeans mean to whoever saw them: sums by step, exact or noisy, and centers.


def step_sums(view: View) -> KnownSums:
    """Sums and numbers of points by cluster, of every question about clusters (a start's, then steps'), in
    integer steps of the data; of other numbers of clusters than the last (`Cones`) none.

    Of sums about origins: `KnownSums.sums` has these added again, rounded.  Empty without the server.  Noisy
    sums are what they are, so hardly any number of points is whole.
    """
    plan: FedDPPlan = view.plan
    asked = {e.round: e.body for e in view.messages if isinstance(e.body, GroupAbout)}
    # The last ball is what all questions about clusters are in.
    for ball in [e.body for e in view.messages if isinstance(e.body, Narrow) and e.body.asks == NOTHING][:1]:
        plan = plan.narrow(ball.origin, ball.radius)
    told = visible_sums(plan.sums, view.messages)
    found, counted = [], []
    last = len(asked[max(asked)].origins) if asked else 0
    for number, about in sorted(asked.items()):
        total = told.get(number + 3)
        if total is None:
            continue
        k, d = about.origins.shape
        unit = plan.count_unit(about.reach)
        counts = total[k * d : k * d + k]
        if k != last:
            continue
        whole = np.where(counts % unit == 0, counts // unit, -1)
        origins = np.rint(about.origins * plan.scale).astype(np.int64)
        found.append(total[: k * d].reshape(k, d) + whole[:, None] * origins)
        counted.append(whole[:, None])
    if not found:
        return KnownSums(
            np.zeros((0, 0, plan.d), np.int64), np.zeros((0, 0, 1), np.int64), np.zeros(plan.d, int)
        )
    return KnownSums(np.stack(found), np.stack(counted), np.zeros(plan.d, np.int64))
