"""MaskedLloyd: Lloyd's heuristic with missing features, over secure sums of integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from field.secrets.coins import Coins
from secfc.account import Account
from secfc.algorithm import Clustering, Outcome, Public
from secfc.data.arguments import REAL, WHOLE, having, hold, optional
from secfc.data.federation import Federation
from secfc.data.party import Party
from secfc.data.resolution import Coarse, check_word
from secfc.overlap import lloyd
from secfc.overlap.lloyd import Known
from secfc.overlap.matching import join, match, uncovered
from secfc.overlap.messages import SharedSums
from secfc.overlap.model import Exactly
from secfc.overlap.plan import OverlapPlan, make_plan
from secfc.overlap.results import completed, in_place
from secfc.overlap.rounding import judged
from secfc.overlap.starts import start_of
from secfc.overlap.starts.automatic import Automatic
from secfc.overlap.starts.grouping import Start
from secfc.roles.agreement import agree
from secfc.roles.description import LOCAL
from secfc.roles.exchange import ITERATE, SERVER, STRIDE, Exchange, PartyId, Role, only, take
from secfc.roles.messages import compact_labels
from secfc.roles.transcript import Run
from secfc.sums import contribute, receive_sum

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Kept:
    """What a client has in the end: its labels at the start and after every step, and the centers that it
    knows.
    """

    history: tuple[Array, ...]
    known: Known
    converged: bool


@dataclass(frozen=True, eq=False, repr=False)
class Found:
    """What the server has in the end: centers on shared features, and whose points were in every sum.

    changed: of each step the number of clients any of whose labels changed.  said: what it saw for the start,
    then other words.
    """

    known: Known
    n_iter: int
    converged: bool
    counted: tuple[tuple[PartyId, ...], ...]
    changed: tuple[int, ...]
    said: tuple[str, ...]


KINDS = {
    "start": having("local", "a start", "Automatic(), or its word in the shell"),
    "max_iter": WHOLE,
    "scale": optional(REAL, "the finest that few lanes hold"),
    "committee": optional(WHOLE, "at most 15"),
    "t": optional(WHOLE, "a third of the committee"),
    "losses": optional(WHOLE, "as many as leave every feature two"),
}


@dataclass(frozen=True)
class MaskedLloyd:
    """k-means of points that are observed on different, partly shared features.

    The cost is the sum of squared distances to centers over observed coordinates.  Sums and numbers of
    points are summed securely (`secfc.sums`), numbers by the pattern of clients that observe a feature;
    labels stay with clients, and so does every coordinate that one client alone observes.

    start: how local clusters are matched, or its word in the shell, as "max-min"; it decides the result
    (random starts fail).  max_iter: steps of
    Lloyd's heuristic.  scale: integer steps a data unit, by default the finest that few lanes hold.
    committee, t: clients that hold shares of sums, and how many of these may collude, by default 15 and a
    third. losses: clients that may vanish, by default as many as leave every shared feature two.  coarse:
    what to do where rounding leaves a feature few steps, as in `SecFC`.

    Not private where sums are not: exact sums of successive steps tell rows (see the page).  Source: Maritan
    and Schenato, Distributed clustering in partially overlapping feature spaces; the objective is that of
    k-POD.
    """

    k: int
    start: Start = Automatic()
    max_iter: int = 300
    scale: float | None = None
    committee: int | None = None
    t: int | None = None
    losses: int | None = None
    coarse: Coarse = field(default="refuse", repr=False, metadata=LOCAL)
    partial: ClassVar[bool] = True  # clients may observe different features

    def __post_init__(self) -> None:
        check_word(self.coarse)
        if isinstance(self.start, str):
            object.__setattr__(self, "start", start_of(self.start))
        hold(self, KINDS)

    def plan(self, public: Public) -> OverlapPlan:
        """Raises ValueError, InputError for clients that no feature connects."""
        return make_plan(
            self,
            public,
            k=self.k,
            max_iter=self.max_iter,
            scale=self.scale,
            committee=self.committee,
            t=self.t,
            losses=self.losses,
        )

    def client(self, plan: OverlapPlan, party: Party, *, coins: Coins) -> Role[Kept]:
        """Find local clusters, have them matched; then sum, hear the centers, label, until nothing
        changes.
        """
        me = party.name
        yield from agree(plan, me, (SERVER, *plan.sums.peers(me)))
        points = plan.quantizer(judged(plan, party, self.coarse), owner=f"client {me!r}")
        labels = yield from join(plan, self.start, me, points, coins)
        mine, k = plan.columns.mine(me), plan.k
        history, known, changed = [compact_labels(labels)], Known.nothing(k, len(mine.features)), True
        for question in range(ITERATE, ITERATE + (plan.max_iter + 1) * STRIDE, STRIDE):
            sums, counts = lloyd.sums_of(points, labels, k)
            vector = plan.contribution(me, sums, counts, changed)
            yield from contribute(plan.sums, me, vector, question + 1, coins, spread=plan.spread)
            inbox = yield Exchange({}, (SERVER,), round=question + STRIDE, phase="listen")
            told = only(take(inbox, SharedSums), SERVER)
            plan.check(me, told.sums, told.counts)
            # What I alone observe, I alone sum; of the rest everybody's sums.
            wide, many = sums.copy(), np.repeat(counts[:, None], len(mine.features), axis=1)
            wide[:, mine.inside] = told.sums
            many[:, mine.inside] = told.counts[:, np.searchsorted(mine.patterns, mine.of)]
            known = known.updated(wide, many, told.there)
            if told.last:
                break
            new = lloyd.nearest(points, known)
            changed, labels = not np.array_equal(new, labels), new
            history.append(compact_labels(labels))
        return Kept(tuple(history), known, not changed)

    def server(self, plan: OverlapPlan, *, rng: np.random.Generator, coins: Coins) -> Role[Found]:
        """Match local clusters; then add, tell every client the sums on its features, until nothing
        changes.
        """
        yield from agree(plan, SERVER)
        matched = yield from match(plan, self.start)
        columns, known = plan.columns, Known.nothing(plan.k, len(plan.columns.shared))
        counted, moved = [], []
        for step in range(plan.max_iter + 1):
            question = ITERATE + step * STRIDE
            got = yield from receive_sum(plan.sums, plan.length, question + 1)
            counted.append(got.clients)
            sums, counts, changed = plan.split(got.total)
            moved.append(changed)
            there, last = np.asarray(counts.any(axis=1)), changed == 0 or step == plan.max_iter
            known = known.updated(sums, counts[:, columns.pattern], there)
            answers = {}
            for client in plan.clients:
                mine = columns.mine(client)
                answers[client] = SharedSums(sums[:, mine.shared], counts[:, mine.patterns], there, last)
            yield Exchange(answers, round=question + STRIDE, phase="tell")
            if last:
                break
        said = (matched.seen, *matched.groups.said, *uncovered(columns, matched.holders(plan.k)))
        return Found(known, step, moved[-1] == 0, tuple(counted), tuple(moved), said)

    def outcome(self, plan: OverlapPlan, party: PartyId, returned: Any) -> Outcome:
        """A client's labels, and centers on its features; the server's centers on shared ones, NaN
        elsewhere.
        """
        columns, scale = plan.columns, plan.quantizer.scale
        if party != SERVER:
            mine = columns.mine(party)
            steps, shared = len(returned.history) - 1, len(mine.shared)
            return Outcome(
                party,
                plan,
                labels=returned.history[-1].astype(np.int32),
                centers=in_place(columns, returned.known.means / scale, mine.features),
                n_iter=steps,
                converged=returned.converged,
                history=returned.history,
                learned=(
                    f"sums and numbers of all clients' points by cluster, on its {shared} shared features, "
                    f"in each of {steps + 1} steps; of a feature that one other observes it can subtract "
                    f"its own",
                ),
                share=returned.known,
                details=returned,
            )
        return Outcome(
            SERVER,
            plan,
            centers=in_place(columns, returned.known.means / scale, columns.shared),
            n_iter=returned.n_iter,
            converged=returned.converged,
            learned=learned(plan, returned),
            excluded=tuple(c for c in plan.clients if any(c not in there for there in returned.counted)),
            share=returned.known,
            details=returned,
        )

    def account(self, result: Clustering, federation: Federation, *, ids: str | None = None) -> Account:
        """What reports say of a run."""
        plan = result.plan
        return Account(
            "masked-lloyd",
            "MaskedLloyd: k-means where clients observe different features, over secure sums",
            {"start": type(self.start).__name__, "max_iter": self.max_iter, "t": plan.sums.code.t},
            "Labels are those of Lloyd's heuristic with missing features on the rounded points, from "
            "matched local clusters; nothing was compared.",
            task=(f"start {type(self.start).__name__}",),
            setup=tuple(("Features", sentence) for sentence in plan.columns.sentences()),
        )

    def collect(self, outcomes: Mapping[PartyId, Outcome], run: Run, counts: tuple[int, ...]) -> Clustering:
        """The clustering.  Its centers are complete, as only an experiment that has all clients' can make
        them; its cost is not known to any party, see `metrics.observed_cost`.
        """
        plan = outcomes[SERVER].plan
        own = {name: outcomes[name] for name in plan.clients if name in outcomes}
        labelers = {name: Exactly(plan.quantizer, outcome.share) for name, outcome in outcomes.items()}
        result = completed(outcomes, run, counts, k=self.k, labelers=labelers)
        return replace(result, history=together(plan, own, counts))


def together(plan: OverlapPlan, own: Mapping[PartyId, Outcome], counts: tuple[int, ...]) -> tuple[Array, ...]:
    """Labels of all points (m,) at the start and after every step; -1 of a client that was cut off."""
    steps = max(len(outcome.history) for outcome in own.values())
    nothing = {name: np.full(count, -1, np.int8) for name, count in zip(plan.clients, counts, strict=True)}
    return tuple(
        np.concatenate([own[name].history[step] if name in own else nothing[name] for name in plan.clients])
        for step in range(steps)
    )


def learned(plan: OverlapPlan, found: Found) -> tuple[str, ...]:
    """What the server learned, in sentences."""
    columns, (start, *more) = plan.columns, found.said
    return (
        start,
        f"sums and numbers of points by cluster on the {len(columns.shared)} features that several clients "
        f"observe, and how many clients' labels changed, in "
        f"each of {found.n_iter + 1} steps; no label, and nothing of the {plan.d - len(columns.shared)} "
        "features that one client observes alone",
        *more,
    )
