"""What a run with private membership hides and what it opens, in sentences."""

from __future__ import annotations

from secfc.report.outcome import Outcome


def identity(outcome: Outcome) -> str:
    """What makes two rows the same point."""
    column = outcome.settings.get("id_column")
    if column is None:
        return "no ID column was named, so the rows themselves are the IDs: equal rows are one point"
    return f"rows with equal IDs (column {column!r}) are one point"


def hidden(outcome: Outcome) -> list[str]:
    """What nobody learns."""
    n, t = outcome.federation.n, outcome.result.plan.code.t
    who = "any client" if t == 1 else f"any {t} clients"
    facts = [
        "which client holds which point",
        "how many points a client holds, but for what can be told from how long it computes: that grows with "
        "them, and whoever sees when its messages come sees it",
    ]
    if outcome.settings.get("merge"):
        facts.append("which clients hold a point that several hold, beyond what their number tells")
    facts.append(
        f"the union hides this even from {who} together with the server; they see which points are not their "
        f"own, so that each of these belongs to some of the other {n - t} clients"
    )
    return facts


def opened(outcome: Outcome) -> list[str]:
    """What is opened that open membership does not need."""
    facts = [
        f"to all: the size of the union, m = {outcome.m:,}",
        "to the server: pseudonyms of the IDs, under a key that only clients have",
        "to every client: the same pseudonyms with the key, so it can test whether an ID that it guesses is "
        "in the union" + (
            "; an ID is a whole row here, so that is a test of a guessed row"
            if outcome.settings.get("id_column") is None
            else ""
        ),
    ]  # fmt: skip
    if outcome.settings.get("merge"):
        facts.append(
            "to all: how many clients hold each point (not which), so that it counts once, and which points "
            "have different data at their holders; --no-merge opens none of this, and needs disjoint IDs"
        )
    else:
        facts.append("to all: that no two clients hold the same point")
    return facts
