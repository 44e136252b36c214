"""What a curious server could make of a run: the attacks on what its policy shows, beside labels alone.

What is tried depends on the disclosure policy (`Disclosure.exposes`): the geometry attack where the server
sees distances, all or those that a start opened, beside the guess that labels alone allow.  Noise on what it
saw is drawn anew, with the same deviation: a run of the same law, not the same one.  Large runs are attacked
with their first questions only, of which the server then learned at least that much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from secfc.algorithm import Clustering
from secfc.attacks.geometry import Located, attack
from secfc.attacks.history import History, history
from secfc.attacks.judging import Judgement, judge, shuffled
from secfc.data.extras import installed
from secfc.data.federation import Federation
from secfc.disclosure import Disclosure, Exposure
from secfc.exact.replay import Replay, Witness
from secfc.roles.exchange import SERVER

# Work that a report may cost, in products: about two seconds.
LIMIT = 2 * 10**9

# The guess from labels, and what the same guess is worth to whoever saw no labels of these points.
LABELS, NO_RUN = "labels alone", "labels of other points"


@dataclass(frozen=True)
class Finding:
    """What a curious server could make of a run.

    exposes: what the disclosure policy shows it.  judgements: of every attack that was tried, by what it
    used: the distances, noisy or not, the same with the points of a client, the labels alone (with scipy),
    and labels that are dealt to other points, beside which the last is to be seen.
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
    limit: how many products the attacks on distances may cost, about; all get as many first questions as that
    buys.  The guess from labels bounds its own work.
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
        if not installed("scipy"):
            return Finding(exposes, found, asked, used)
        if exposes == "nothing":  # labels are hidden on the way, and the first are random
            labels = History((SERVER,), result.history[-1:], (result.k,), d)
        elif exposes in ("sizes", "steps"):  # the first labels are all it saw
            labels = history(replace(both, parties=(SERVER,)))
        else:
            labels = history(replace(both, parties=(SERVER,)), result if used == asked else None)
        found[LABELS] = judge(labels, both.points)
        found[NO_RUN] = judge(labels, shuffled(both.points))
    return Finding(exposes, found, asked, used)
