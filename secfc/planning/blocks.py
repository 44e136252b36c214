"""Comparisons of many rows go in blocks, which a rehearsal of few rows never sees: what that adds and saves.

A block more is the rounds of a contest once more, with its opened bits shared out among more messages, and a
request and a portion of what is dealt; bytes stay, and what is there at once becomes less
(`field.compare.in_turn`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from secfc.planning.costs import Cost

OPENED, DEALT, ASKED = "MaskedBits", "Corrections", "Ready"
# Of a portion that is asked for: the request, and the portion.
TURN = 2


@dataclass(frozen=True)
class Blocks:
    """Of one question.  count: of blocks.  rounds: of the contest in one of them."""

    count: int
    rounds: int

    def priced(self, cost: Cost) -> Cost:
        """What the question costs in blocks, if it costs this at once."""
        if self.count == 1:
            return cost
        more = self.count - 1
        messages = dict(cost.messages)
        for kind, many in cost.messages.items():
            if kind[1] == OPENED:
                messages[kind] = many * self.count
            elif kind[1] == DEALT:
                messages[kind] = many + more
                dealer, member = kind[0].split(" -> ")
                messages[f"{member} -> {dealer}", ASKED] = more
        return replace(cost, messages=messages, rounds=cost.rounds + more * (self.rounds + TURN))

    def held(self, cost: Cost) -> float:
        """Bytes of its messages that are there at once: of what is dealt, a portion and the next one."""
        parts = {OPENED: 1, DEALT: 2}
        return sum(
            size * min(1.0, parts.get(kind[1], self.count) / self.count) for kind, size in cost.sizes.items()
        )
