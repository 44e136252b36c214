"""What a curious server could make of a run: the attacks on what its policy shows, beside labels alone.

What is tried depends on the disclosure policy (`PolicyCapabilities.exposes`): the geometry attack where the
server sees distances, all or those that a start opened, beside the guess that labels alone allow.  Noise on
what it saw is drawn anew, with the same deviation: a run of the same law, not the same one.  Large runs are
attacked with their first questions only, of which the server then learned at least that much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from secfc.algorithm import Clustering
from secfc.attacks.geometry import Located, reconstruct_geometry
from secfc.attacks.history import History, label_history
from secfc.attacks.judging import GuessJudgement, judge_guess, shuffled_baseline
from secfc.coded_kmeans.adversary_view import QueryRecorder, ServerView
from secfc.data.federation import Federation
from secfc.data.inputs import is_installed
from secfc.disclosure import Disclosure, Exposure
from secfc.errors import install_command
from secfc.roles.exchange import SERVER

# Work that a report may cost, in products: about two seconds.
LIMIT = 2 * 10**9

# The guess from labels, and what the same guess is worth to whoever saw no labels of these points.
LABELS, NO_RUN = "labels alone", "labels of other points"


@dataclass(frozen=True)
class ServerFinding:
    """What a curious server could make of a run.

    exposes: what the disclosure policy shows it.  judgements: of every attack that was tried, by what it
    used: the distances, noisy or not, the same with the points of a client, the labels alone (with scipy),
    and labels that are dealt to other points, beside which the last is to be seen.
    asked: questions of the server.  used: how many of the first ones the attacks were given.
    """

    exposes: Exposure
    judgements: Mapping[str, GuessJudgement]
    asked: int
    used: int


def curious_server(
    witness: QueryRecorder,
    result: Clustering,
    policy: Disclosure,
    federation: Federation,
    *,
    limit: float = LIMIT,
) -> ServerFinding:
    """What the server, and the server with the client that has most points, learned beyond the labels.

    policy: of the run.
    limit: how many products the attacks on distances may cost, about; all get as many first questions as that
    buys.  The guess from labels bounds its own work.
    """
    exposes, asked, m, d = policy.capabilities.exposes, len(witness.questions), federation.m, federation.d
    shown = exposes in ("distances", "noisy distances")
    # A start may open distances that the policy else hides.
    opened = {q.number for q in witness.questions if shown or q.number in witness.measured}
    # Distances; orthogonalization and alignment, whose products cost a sixteenth; passes over the points.
    costs = [m * (d * (q.k + d / 16 + 16) if q.number in opened else q.k) for q in witness.questions]
    used = int(np.searchsorted(np.cumsum(costs), limit, "right"))
    if not used:
        return ServerFinding(exposes, {}, asked, 0)
    friend = federation.names[int(np.argmax(federation.counts))]
    both = ServerView.of_recording(QueryRecorder(witness.questions[:used]), result, federation, friend)
    seen = replace(both, asked=tuple(q for q in both.asked if q.number in opened))
    if exposes == "noisy distances":
        seen = replace(seen, deviation=lambda q: policy.deviation(result.plan, q.labels, q.k))
    from threadpoolctl import threadpool_limits

    found: dict[str, GuessJudgement] = {}
    # The products are small: where the processor is busy, threads of the BLAS wait longer than they work.
    with threadpool_limits(1, "blas"):
        if seen.asked:
            what = exposes if shown else "distances"
            shape = reconstruct_geometry(seen, deviation=seen.deviation)
            found[what] = judge_guess(replace(shape, parties=(SERVER,)), both.points)
            found[f"{what} and the points of {friend}"] = judge_guess(
                Located(shape, *both.known()), both.points
            )
        if not is_installed("scipy"):
            return ServerFinding(exposes, found, asked, used)
        labels = labels_seen(exposes, replace(both, parties=(SERVER,)), result, whole=used == asked)
        found[LABELS] = judge_guess(labels, both.points)
        found[NO_RUN] = judge_guess(labels, shuffled_baseline(both.points))
    return ServerFinding(exposes, found, asked, used)


def labels_seen(exposes: Exposure, seen: ServerView, result: Clustering, *, whole: bool) -> History:
    """The labels that the server saw under a policy.  whole: whether the view has all questions."""
    if exposes == "nothing":  # labels are hidden on the way, and the first are random
        return History((SERVER,), result.history[-1:], (result.k,), seen.d)
    first_alone = exposes in ("sizes", "steps")
    return label_history(seen, result if whole and not first_alone else None)


# --------------------------------------------------------------------------------------------------
# What a curious server could rebuild of the points, in sentences and for programs.

COMMAND = "secfc attack geometry"


def attack_sentences(finding: ServerFinding) -> list[str]:
    """What the attacks found, one sentence each; what was not tried is said as well."""
    if not finding.asked:
        return []
    labels, nothing = finding.judgements.get(LABELS), finding.judgements.get(NO_RUN)
    if not finding.used:
        return [f"what these let it rebuild was not tried, for the size of the data: {COMMAND} does"]
    first = finding.exposes in ("sizes", "steps")
    which = "the first labels, the only ones that it saw," if first else "labels alone"
    guess = f"what {which} let it guess was not tried, which needs {install_command('[attacks]')}"
    if labels is not None:
        against = "" if nothing is None else f", against {_percent(nothing)} without any run"
        guess = f"{which} let it guess {_share(labels)}{against}"
    tried = [judgement for name, judgement in finding.judgements.items() if name not in (LABELS, NO_RUN)]
    if tried:
        alone, joint = tried
        lines = (_noisy if finding.exposes == "noisy distances" else _exact)(alone, joint, guess)
    else:
        lines = [guess if labels is None else f"tried: {guess}, up to rotation, reflection and scale"]
    if finding.used < finding.asked:
        lines.append(
            f"it could do at least that: only the first {finding.used} of its {finding.asked} questions were "
            f"tried, for the size of the data; {COMMAND} tries all"
        )
    return lines


def _exact(alone: GuessJudgement, joint: GuessJudgement, guess: str) -> list[str]:
    return [
        f"tried: these distances place all {alone.m:,} points up to rotation and reflection, with "
        f"{_share(alone)} (rank {alone.ranks[-1]} of {alone.d}, relative error {alone.error[-1]:.2g}); "
        f"{guess}, and scale too is open then",
        f"tried: together with {joint.parties[-1]} it knows that client's points, which turn the shape "
        f"into positions: all {joint.m:,} points in data units, with {_share(joint)}",
    ]


def _noisy(alone: GuessJudgement, joint: GuessJudgement, guess: str) -> list[str]:
    return [
        f"tried: from such noisy distances it rebuilds {_share(alone)}, up to rotation, reflection and scale "
        f"(rank {alone.ranks[-1]} of {alone.d}); {guess}",
        f"tried: together with {joint.parties[-1]}, whose points turn the shape into positions, "
        f"{_share(joint)} in data units",
        "other attacks may do better; what none can exceed is the budget of differential privacy, below",
    ]


def attacks_as_json(finding: ServerFinding | None) -> dict[str, Any] | None:
    """What attacks found, for programs: after each question the share of variance, the rank and the error."""
    if finding is None:
        return None
    return {
        "exposes": finding.exposes,
        "questions": finding.asked,
        "questions_used": finding.used,
        "judgements": {
            name: {**asdict(judgement), "share": list(judgement.share)}
            for name, judgement in finding.judgements.items()
        },
    }


def _share(judgement: GuessJudgement) -> str:
    return f"{_percent(judgement)} of their variance"


def _percent(judgement: GuessJudgement) -> str:
    return f"{100 * judgement.share[-1]:.1f} %"


def outsider_baseline(finding: ServerFinding) -> str:
    """What labels are worth to whoever knows nothing else, beside what is known without any run.

    Empty where that was not tried.
    """
    labels, nothing = finding.judgements.get(LABELS), finding.judgements.get(NO_RUN)
    if labels is None or nothing is None:
        return ""
    return f"outsiders explain {_percent(labels)} of the variance from labels, {_percent(nothing)} without"
