"""What messages cost between the parties: by it, protocols weigh rounds against bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from secfc.data.arguments import REAL, hold


@dataclass(frozen=True)
class Network:
    """What messages cost.  latency: seconds until a message is there; bandwidth: bytes a second, of all.

    Both only weigh rounds against bytes.  Raises ValueError for a negative latency, no bandwidth, or numbers
    that are none.

    >>> Network(latency=0.05, bandwidth=1e6).seconds(rounds=10, nbytes=2_000_000)
    2.5
    """

    latency: float = 0.02
    bandwidth: float = 12.5e6

    def __post_init__(self) -> None:
        hold(self, {"latency": REAL, "bandwidth": REAL})
        if not 0 <= self.latency < math.inf:
            raise ValueError(f"latency={self.latency}: seconds from 0 on are needed, as latency=0.02")
        if not 0 < self.bandwidth < math.inf:
            raise ValueError(
                f"bandwidth={self.bandwidth}: bytes a second above 0 are needed, as bandwidth=12.5e6 for 100 "
                "Mbit/s"
            )

    def seconds(self, rounds: int, nbytes: int) -> float:
        """What so many rounds and bytes take."""
        return rounds * self.latency + nbytes / self.bandwidth
