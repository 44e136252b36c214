"""What SecFC says of the budget it spends, so that another part of it may pay for what comes before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from secfc.algorithm import Public
from secfc.coded.membership import Open
from secfc.privacy.calibration import Budget
from secfc.privacy.events import Event
from secfc.privacy.neighbors import Neighbors


@dataclass(frozen=True)
class Spending:
    """The budget of an algorithm whose policy adds noise (`secfc.scaling.noisy.Spending`).

    way: SecFC with such a policy.
    """

    way: Any

    @property
    def budget(self) -> Budget:
        """For everything that is released."""
        budget: Budget = self._policy.budget
        return budget

    @property
    def neighbors(self) -> Neighbors:
        """Whom the budget protects."""
        neighbors: Neighbors = self._policy.neighbors
        return neighbors

    @property
    def by_client(self) -> bool:
        """Whether it protects all points of a client, so that noise depends on how many there are."""
        return self.neighbors.unit == "client"

    def within(self, budget: Budget) -> Any:
        """The same algorithm for another budget, such as what is left of one."""
        return replace(self.way, disclosure=replace(self._policy, budget=budget))

    def releases(self, budget: Budget, public: Public) -> Event:
        """All that a run for a budget releases at most; with private membership, as if no row had two owners.

        Raises as the plan does.
        """
        way = replace(self.within(budget), membership=Open())
        policy: Any = way.disclosure
        event: Event = policy.released(way.plan(public))
        return event

    @property
    def _policy(self) -> Any:
        return self.way.disclosure
