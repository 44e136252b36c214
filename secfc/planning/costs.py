"""What messages and work add up to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from secfc.coded.network import Network

LAN = Network(latency=0.0005, bandwidth=125e6)  # 1 Gbit/s

# Who sends what to whom: ("client -> server", "LabelShare").
Kind = tuple[str, str]


@dataclass(frozen=True)
class Cost:
    """messages, nbytes: by kind.  rounds: messages that follow one another.  seconds: of all parties,
    one after another; slowest: of the slowest client and the server, which wait for each other."""

    messages: Mapping[Kind, float] = field(default_factory=dict)
    sizes: Mapping[Kind, float] = field(default_factory=dict)
    rounds: float = 0
    seconds: float = 0.0
    slowest: float = 0.0

    @property
    def nbytes(self) -> int:
        """Of all messages."""
        return round(sum(self.sizes.values()))

    @property
    def count(self) -> int:
        """Of messages."""
        return round(sum(self.messages.values()))

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            _sum(self.messages, other.messages, 1),
            _sum(self.sizes, other.sizes, 1),
            self.rounds + other.rounds,
            self.seconds + other.seconds,
            self.slowest + other.slowest,
        )

    def __mul__(self, times: float) -> Cost:
        return Cost(
            {kind: value * times for kind, value in self.messages.items()},
            {kind: value * times for kind, value in self.sizes.items()},
            self.rounds * times,
            self.seconds * times,
            self.slowest * times,
        )


def total(costs: list[Cost]) -> Cost:
    """All of them."""
    out = Cost()
    for cost in costs:
        out = out + cost
    return out


def mean(costs: list[Cost]) -> Cost:
    """Of several of one kind; of times the median, as a machine that is busy only adds."""
    middle = len(costs) // 2
    summed = total(costs) * (1 / len(costs))
    return Cost(
        summed.messages,
        summed.sizes,
        summed.rounds,
        sorted(cost.seconds for cost in costs)[middle],
        sorted(cost.slowest for cost in costs)[middle],
    )


def line(first: Cost, second: Cost, at: Fraction) -> Cost:
    """The straight line through what two sizes cost, at a third: 0 is the first, 1 the second, or beyond.

    Messages are arrays with a row a point, behind a head: their bytes are on that line but for the filling of
    last words.  Nothing costs less than nothing, and work that did not grow is taken as it was.  Rounds do
    not depend on rows, and messages little: they are those of the larger size.
    """
    share = float(at)

    def along(one: float, other: float, least: float = 0.0) -> float:
        return max(least, one + share * (other - one))

    kinds = [*first.sizes, *(kind for kind in second.sizes if kind not in first.sizes)]
    return Cost(
        {kind: second.messages.get(kind, 0) for kind in kinds},
        {kind: along(first.sizes.get(kind, 0), second.sizes.get(kind, 0)) for kind in kinds},
        second.rounds,
        along(first.seconds, second.seconds, first.seconds),
        along(first.slowest, second.slowest, first.slowest),
    )


def _sum(one: Mapping[Kind, float], other: Mapping[Kind, float], times: float) -> dict[Kind, float]:
    return {
        kind: one.get(kind, 0) + times * other.get(kind, 0)
        for kind in [*one, *(kind for kind in other if kind not in one)]
    }
