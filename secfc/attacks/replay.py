"""What the server learned from a run that wrote nothing down: its view, computed again, and the attack on it.

In one process there is a witness of every question of the server, and the points are at hand.  So what the
server decoded, distances of the quantized points to public averages of them, follows up to rounding, without
any message having been kept: a `Replay` is the `View` of the server, alone or with a client, of the same run.

What is tried depends on the disclosure policy (`Disclosure.exposes`): the geometry attack where the server
sees distances, all or those that a start opened, beside the guess that labels alone allow.  Noise on what it
saw is drawn anew, with the same deviation: a run of the same law, not the same one.  Large runs are attacked
with their first questions only, of which the server then learned at least that much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.rows import cluster_sizes
from secfc.attacks.geometry import Located, Simplex, attack, averages, labels_only
from secfc.attacks.judging import Judgement, judge
from secfc.clustering import Clustering
from secfc.disclosure import Disclosure, Exposure
from secfc.exchange import SERVER, Exchange, PartyId
from secfc.federation import Federation
from secfc.messages import Assignment
from secfc.views import Held, Question, View

Array = NDArray[Any]

# Work that a report may cost, in products: about two seconds.
LIMIT = 2 * 10**9


@dataclass(eq=False)
class Witness:
    """Keeps the server's questions of a run: pass it to `fit` as `watch`, or call it from yours.

    measured: the numbers of those whose distances go to the server, under every policy.
    """

    questions: list[Question] = field(default_factory=list)
    measured: set[int] = field(default_factory=set)

    def __call__(self, party: PartyId, exchange: Exchange) -> None:
        asked = next((m for m in exchange.send.values() if isinstance(m, Assignment)), None)
        if party == SERVER and asked is not None:
            self.questions.append(Question(asked.round, asked.labels, asked.k, {}))
            if type(asked) is Assignment:  # others ask for something that is made of distances
                self.measured.add(asked.round)


@dataclass(frozen=True, eq=False, repr=False)
class Replay(View):
    """The server's view, with the distances computed from the points instead of decoded from replies.

    asked: its questions.  points: (m, d), the quantized points in data units, in the order of rows: what
    the judge compares with as well.  deviation: of the noise on the distances of a question.
    """

    asked: tuple[Question, ...]
    points: Array
    deviation: Callable[[Question], float] | None = None

    @classmethod
    def witnessed(
        cls,
        witness: Witness,
        result: Clustering,
        federation: Federation,
        known: PartyId | None = None,
    ) -> Replay:
        """The view of the server, together with client `known` if there is one.

        Raises ValueError for a run that left rows out or had no rounding.
        """
        rows = result.rows
        if rows is None or result.excluded:
            raise ValueError(
                "the run left out a client's rows, or had no server that asks: replay another run"
            )
        m = 1 + max((int(own.max()) for own in rows if len(own)), default=-1)
        points = np.zeros((m, federation.d))
        held, quantizer = {}, result.plan.quantizer
        for party, own in zip(federation.parties, rows, strict=True):
            points[own] = quantizer(party.read()) / quantizer.scale
            if party.name == known:
                held[party.name] = Held(own, party.read())
        parties = (SERVER,) if known is None else (SERVER, known)
        return cls(result.plan, parties, (), held, tuple(witness.questions), points)

    def questions(self) -> Iterator[Question]:
        yield from self.asked

    def distances(self, question: Question) -> Array:
        from scipy.spatial.distance import cdist

        points = self.points
        centers = averages(question.labels, question.k) @ points
        centers[cluster_sizes(question.labels, question.k) == 0] = np.nan
        exact = np.asarray(cdist(centers, points, "sqeuclidean"))
        if self.deviation is None:
            return exact
        # An experiment's noise, which protects nobody: the same every time that this question is looked at.
        rng = np.random.default_rng(question.number)
        return exact + self.deviation(question) * rng.standard_normal(exact.shape)


@dataclass(frozen=True)
class Finding:
    """What a curious server could make of a run.

    exposes: what the disclosure policy shows it.  judgements: of every attack that was tried, by what it
    used: the distances, noisy or not, the same with the points of a client, the labels alone.
    asked: questions of the server.  used: how many of the first ones the attacks were given.
    """

    exposes: Exposure
    judgements: Mapping[str, Judgement]
    asked: int
    used: int


def curious_server(
    witness: Witness,
    result: Clustering,
    policy: Disclosure,
    federation: Federation,
    *,
    limit: float = LIMIT,
) -> Finding:
    """What the server, and the server with the client that has most points, learned beyond the labels.

    policy: of the run.
    limit: how many products the attacks may cost, about; they get as many first questions as that buys.
    """
    exposes, asked, m, d = policy.exposes, len(witness.questions), federation.m, federation.d
    shown = exposes in ("distances", "noisy distances")
    # A start may open distances that the policy else hides.
    opened = {q.number for q in witness.questions if shown or q.number in witness.measured}
    # Distances; orthogonalization and alignment, whose products cost a sixteenth; passes over the points.
    costs = [m * (d * (q.k + d / 16 + 16) if q.number in opened else q.k) for q in witness.questions]
    used = int(np.searchsorted(np.cumsum(costs), limit, "right"))
    if not used:
        return Finding(exposes, {}, asked, 0)
    friend = federation.names[int(np.argmax(federation.counts))]
    both = Replay.witnessed(Witness(witness.questions[:used]), result, federation, friend)
    seen = replace(both, asked=tuple(q for q in both.asked if q.number in opened))
    if exposes == "noisy distances":
        seen = replace(seen, deviation=lambda q: policy.deviation(result.plan, q.labels, q.k))
    from threadpoolctl import threadpool_limits

    found: dict[str, Judgement] = {}
    # The products are small: where the processor is busy, threads of the BLAS wait longer than they work.
    with threadpool_limits(1, "blas"):
        if seen.asked:
            what = exposes if shown else "distances"
            shape = attack(seen, deviation=seen.deviation)
            found[what] = judge(replace(shape, parties=(SERVER,)), both.points)
            found[f"{what} and the points of {friend}"] = judge(Located(shape, *both.known()), both.points)
        # Of labels that are hidden on the way, the first and the last.
        history = labels_only(both).history if exposes != "nothing" else tuple(result.history)
        found["labels alone"] = judge(Simplex((SERVER,), history, result.k), both.points)
    return Finding(exposes, found, asked, used)
