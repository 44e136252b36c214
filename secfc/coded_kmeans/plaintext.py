"""Centralized k-means on integers: the baseline that sees everything, and the oracle of exactness.

Clients send their quantized points in the clear; the server runs the same Lloyd loop, with the same
starts and the same comparisons, that the secure protocol runs.  No privacy at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from field.arrays import Array
from field.code.rows import cluster_sizes
from field.ring.quantize import FRACTION, Quantizer, round_centers, rounded_weights
from field.secrets.coins import Coins
from secfc.algorithm import Capabilities, Clustering, Driver, PartyOutcome, PublicFacts, join_outcomes
from secfc.coded.parameters import Quantization
from secfc.coded.plan import PublicOwnerLayout
from secfc.coded_kmeans import parameters
from secfc.coded_kmeans.parameters import OF_LLOYD, PolicyWord, StartWord, choose_range
from secfc.coded_kmeans.run_summary import summarize_lloyd
from secfc.data.federation import Federation
from secfc.data.inputs import check_fields
from secfc.data.party import Party
from secfc.disclosure import AssignmentsOnly, Disclosure
from secfc.errors import FaultyClient, FaultyServer, InputError
from secfc.kmeans.elbow import CostCurve, Elbow, largest_k, parse_k
from secfc.kmeans.loop import PlainSource, RoundedSource, Trace, best_of_restarts, is_cheaper, lloyd
from secfc.kmeans.starts import RestartLabels, Start, check_choice, restart_generators
from secfc.roles.agreement import agree_with_server
from secfc.roles.description import LOCAL, DescribedPlan, RunTerms
from secfc.roles.exchange import (
    SERVER,
    SHARE,
    Exchange,
    PartyId,
    Role,
    SimulatedRun,
    expect_all,
    expect_messages,
    expect_one,
    to_all,
)
from secfc.roles.messages import FinalResult, Message, is_array, refuse_if
from secfc.run_summary import RunSummary


class RawPoints(Message, tag=10):
    """Client to server in the centralized baseline: the points themselves, quantized (m_j, d)."""

    points: Array

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.points, "i", 2), "quantized points are rows of signed integers")


@dataclass(frozen=True)
class PlainPlan(DescribedPlan):
    """What the parties agree on."""

    quantizer: Quantizer
    clients: tuple[PartyId, ...]
    counts: tuple[int, ...]
    k: int | Elbow
    d: int
    fraction: int | None = None
    terms: RunTerms | None = field(default=None, compare=False, repr=False, metadata=LOCAL)


@dataclass(frozen=True, repr=False, eq=False)
class PlainModel:
    """Integer cluster sums and sizes, to label new points as exactly as old ones."""

    quantizer: Quantizer
    sums: Array
    sizes: Array
    fraction: int | None = None
    by_name: ClassVar[bool] = False

    def predict(
        self, federation: Federation, *, coins: Callable[[PartyId], Coins], drive: Driver
    ) -> list[Array]:
        """Nearest centers of new points: one (m_j,) int32 array a client.  Nobody says anything."""
        sums, sizes = self.sums, self.sizes
        if self.fraction is not None:
            sums, sizes = round_centers(sums, sizes, self.fraction), rounded_weights(sizes, self.fraction)

        def label(owner: str, first: int, block: Array) -> Array:
            points = self.quantizer(block, owner=owner, first_row=first)
            return PlainSource(points).label_points(sums, sizes)

        return [p.label_blocks(partial(label, f"client {p.name!r}")) for p in federation.parties]


@dataclass(frozen=True)
class Lloyd:
    """Plaintext integer Lloyd on the pooled data, with the results of `SecFC`.

    Parameters
    ----------
    k
        Number of clusters, from 1 to m; `Elbow(most, least)`, "auto" or "2..12" chooses it.
    init
        Initialization, as a value or word of `SecFC`.
    n_init
        Restarts, from 1 on, of which the cheapest is kept.
    max_iter
        Maximum number of steps in each restart, from 1 on.
    quantization
        Fixed-point precision, a `Quantization`.
    disclosure
        Policy of the secure run to compare with, for an equal automatic scale (where that run has ell <= 2).

    Warnings
    --------
    Not private: the server receives every point.
    """

    k: int | Elbow
    init: Start = None  # type: ignore[assignment]  # resolved below
    n_init: int = 1
    max_iter: int = 300
    quantization: Quantization = Quantization()
    disclosure: Disclosure = AssignmentsOnly()

    if TYPE_CHECKING:  # words stand for values

        def __init__(
            self,
            k: int | str | Elbow,
            init: StartWord | Start | None = None,
            n_init: int = 1,
            max_iter: int = 300,
            quantization: Quantization = ...,
            disclosure: PolicyWord | Disclosure = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        check_fields(self, OF_LLOYD)
        object.__setattr__(self, "k", parse_k(self.k))
        object.__setattr__(self, "disclosure", parameters.parse_disclosure(self.disclosure))
        object.__setattr__(self, "init", parameters.default_start(self.init, self.disclosure))

    @property
    def capabilities(self) -> Capabilities:
        """Those of `SecFC` that concern rounding and steps."""
        return Capabilities(
            policy=self.disclosure,
            coarse=self.quantization.coarse,
            max_iter=self.max_iter,
            restarts=self.n_init,
            account=self.account,
        )

    def plan(self, public: PublicFacts) -> PlainPlan:
        """The same quantizer that SecFC would choose.  Raises ValueError."""
        quantizer = choose_range(self, public, PublicOwnerLayout(public.counts), ell=1, t=1).quantizer
        for name, value in (("max_iter", self.max_iter), ("n_init", self.n_init)):
            if value < 1:
                raise InputError(f"{name}={value} is too small: it must be at least 1")
        k = self.k.among(public.m) if isinstance(self.k, Elbow) else self.k
        if not 1 <= largest_k(k) <= public.m:
            raise InputError(f"k={k} clusters of m={public.m} points: 1 <= k <= m is needed")
        self.init.check_sizes(public.m, largest_k(k))
        check_choice(self.init, k)
        fraction = FRACTION if self.quantization.centers == "rounded" else None
        return PlainPlan(
            quantizer, public.clients, public.counts, k, public.d, fraction, RunTerms(self, public)
        )

    def client(self, plan: PlainPlan, party: Party, *, coins: Coins) -> Role[Array]:
        """Send my points in the clear, receive all labels."""
        yield from agree_with_server(plan, party.name)
        points = plan.quantizer(party.read(), owner=f"client {party.name!r}")
        inbox = yield Exchange({SERVER: RawPoints(points)}, (SERVER,), round=SHARE, phase="send")
        final = expect_one(expect_messages(inbox, FinalResult), SERVER)
        labels = final.labels
        fits = final.k == plan.k if isinstance(plan.k, int) else final.k <= largest_k(plan.k)
        if not fits or len(labels) != sum(plan.counts):
            why = f"labeled {len(labels)} points of m={sum(plan.counts)}, or not with k={plan.k}"
            raise FaultyServer(SERVER, why)
        start = sum(plan.counts[: plan.clients.index(party.name)])
        return np.asarray(labels[start : start + len(points)], np.int32)

    def server(
        self, plan: PlainPlan, *, rng: np.random.Generator, coins: Coins
    ) -> Role[tuple[Trace, PlainModel, CostCurve | None]]:
        """Pool the points and run Lloyd's heuristic."""
        yield from agree_with_server(plan, SERVER)
        arrived = yield Exchange({}, plan.clients, round=SHARE, phase="receive")
        inbox = expect_all(expect_messages(arrived, RawPoints), plan.clients)
        for (sender, message), count in zip(inbox.items(), plan.counts, strict=True):
            largest = plan.quantizer.max_int
            outside = bool(((message.points > largest) | (message.points < -largest)).any())
            if message.points.shape != (count, plan.d) or outside:
                raise FaultyClient(sender, f"sent other than {count} points of d={plan.d} within the bound")
        points = np.concatenate([inbox[c].points for c in plan.clients])
        plain = PlainSource(points)
        source = plain if plan.fraction is None else RoundedSource(plain, plan.fraction)
        each, drawing = restart_generators(rng, self.n_init), RestartLabels(self.init, len(points), plan.k)

        def run_restart() -> Role[Trace]:
            start, k = yield from drawing(next(each), source)
            return (yield from lloyd(start, k, self.max_iter, source))

        trace: Trace = yield from best_of_restarts(self.n_init, run_restart, is_cheaper)
        yield Exchange(
            to_all(plan.clients, FinalResult(trace.k, trace.labels, None)), round=SHARE, phase="cluster"
        )
        labels = trace.labels.astype(np.int32)
        model = PlainModel(
            plan.quantizer, plain.sum_clusters(labels, trace.k), cluster_sizes(labels, trace.k), plan.fraction
        )
        return trace, model, drawing.curve

    def outcome(self, plan: PlainPlan, party: PartyId, returned: Any) -> PartyOutcome:
        """Labels of a client's points; of the server everything."""
        if party != SERVER:
            return PartyOutcome(party, plan, labels=returned, learned=("all labels at the end",))
        trace, model, curve = returned
        scale = plan.quantizer.scale
        with np.errstate(invalid="ignore"):
            centers = model.sums / (model.sizes[:, None] * plan.quantizer.scale)
        return PartyOutcome(
            party,
            plan,
            centers=centers,
            cost=trace.cost(plan.quantizer.scale),
            n_iter=trace.n_iter,
            converged=trace.converged,
            history=trace.history,
            stability=trace.stability,
            learned=("every point of every client",),
            share=model,
            curve=None if curve is None else curve.over(Fraction(scale) ** 2),
        )

    def account(self, result: Clustering, federation: Federation, *, ids: str | None = None) -> RunSummary:
        """What reports say of a run."""
        return summarize_lloyd(self)

    def collect(
        self, outcomes: Mapping[PartyId, PartyOutcome], run: SimulatedRun, counts: tuple[int, ...]
    ) -> Clustering:
        """The clustering, its centers included."""
        return join_outcomes(
            outcomes, run, counts, k=len(outcomes[SERVER].share.sizes), model=outcomes[SERVER].share
        )
