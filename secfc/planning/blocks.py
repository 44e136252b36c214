"""Comparisons of many rows go in blocks, which a rehearsal of few rows never sees: what that adds and saves.

A block more is the rounds of a contest once more, with its opened bits shared out among more messages; bytes
stay, and what is opened at once becomes less (`field.compare.in_turn`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from secfc.planning.costs import Cost

OPENED = "MaskedBits"


@dataclass(frozen=True)
class Blocks:
    """Of one question.  count: of blocks.  rounds: of the contest in one of them."""

    count: int
    rounds: int

    def priced(self, cost: Cost) -> Cost:
        """What the question costs in blocks, if it costs this at once."""
        more = {kind: many * self.count for kind, many in cost.messages.items() if kind[1] == OPENED}
        return replace(
            cost, messages={**cost.messages, **more}, rounds=cost.rounds + (self.count - 1) * self.rounds
        )

    def held(self, cost: Cost) -> float:
        """Bytes of its messages that are there at once."""
        bits = sum(size for kind, size in cost.sizes.items() if kind[1] == OPENED)
        return cost.nbytes - bits + bits / self.count
