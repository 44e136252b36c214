"""What a curious server could rebuild of the points, in sentences and for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from secfc.attacks.judging import Judgement
from secfc.report.curious import LABELS, NO_RUN, Finding

COMMAND = "secfc attack geometry"


def rebuilt(finding: Finding) -> list[str]:
    """What the attacks found, one sentence each; what was not tried is said as well."""
    if not finding.asked:
        return []
    labels, nothing = finding.judgements.get(LABELS), finding.judgements.get(NO_RUN)
    if not finding.used:
        return [f"what these let it rebuild was not tried, for the size of the data: {COMMAND} does"]
    first = finding.exposes in ("sizes", "steps")
    which = "the first labels, the only ones that it saw," if first else "labels alone"
    guess = f"what {which} let it guess was not tried, which needs pip install 'secfc-clustering[attacks]'"
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


def _exact(alone: Judgement, joint: Judgement, guess: str) -> list[str]:
    return [
        f"tried: these distances place all {alone.m:,} points up to rotation and reflection, with "
        f"{_share(alone)} (rank {alone.ranks[-1]} of {alone.d}, relative error {alone.error[-1]:.2g}); "
        f"{guess}, and scale too is open then",
        f"tried: together with {joint.parties[-1]} it knows that client's points, which turn the shape "
        f"into positions: all {joint.m:,} points in data units, with {_share(joint)}",
    ]


def _noisy(alone: Judgement, joint: Judgement, guess: str) -> list[str]:
    return [
        f"tried: from such noisy distances it rebuilds {_share(alone)}, up to rotation, reflection and scale "
        f"(rank {alone.ranks[-1]} of {alone.d}); {guess}",
        f"tried: together with {joint.parties[-1]}, whose points turn the shape into positions, "
        f"{_share(joint)} in data units",
        "other attacks may do better; what none can exceed is the budget of differential privacy, below",
    ]


def as_object(finding: Finding | None) -> dict[str, Any] | None:
    """The same for programs: after each question the share of variance, the rank and the error."""
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


def _share(judgement: Judgement) -> str:
    return f"{_percent(judgement)} of their variance"


def _percent(judgement: Judgement) -> str:
    return f"{100 * judgement.share[-1]:.1f} %"


def outsider(finding: Finding) -> str:
    """What labels are worth to whoever knows nothing else, beside what is known without any run.

    Empty where that was not tried.
    """
    labels, nothing = finding.judgements.get(LABELS), finding.judgements.get(NO_RUN)
    if labels is None or nothing is None:
        return ""
    return f"labels tell outsiders {_percent(labels)} of the variance, no run at all {_percent(nothing)}"
