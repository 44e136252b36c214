"""What one party keeps of a run to label new points later, in plain values: for files, and other processes.

A client keeps its shares of the final centers, which are secret as any share is; the server keeps how large
clusters are and who was found lying.  The plan is not kept but made again, from the same terms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from field.code.rows import ClusterSums
from field.secrets.coins import Coins
from secfc.algorithm import Outcome, Public
from secfc.coded.layout import AllRows, OwnRows
from secfc.coded.plan import Plan
from secfc.coded.screening import Standing
from secfc.data.party import Party
from secfc.exact.predict import Allowance, predicting_client, predicting_server, prediction_plan
from secfc.roles.exchange import Role

if TYPE_CHECKING:
    from secfc.exact.secfc import SecFC

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Retained:
    """One party's part of a model.

    plan: of the run.  sizes: (k,) points of each cluster, as far as all know them.  sums: a client's
    shares of the centers, None for the server, and for a client that missed the end.  standing: the server's.
    """

    plan: Plan
    sizes: Array
    sums: ClusterSums | None
    standing: Standing

    @classmethod
    def of(cls, way: SecFC, outcome: Outcome) -> Retained | None:
        """From what a party has of a run; None if it cannot help to label anything."""
        if not way.disclosure.exact:
            return None
        nobody = Standing({})
        if isinstance(outcome.share, ClusterSums):
            return cls(outcome.plan, outcome.share.sizes, outcome.share, nobody)
        if not isinstance(outcome.details, Standing):
            return None
        if outcome.sizes:
            sizes = np.asarray(outcome.sizes[-1], np.int64)
        elif outcome.history:
            labels = outcome.history[-1]
            sizes = np.bincount(labels[labels >= 0], minlength=outcome.plan.k).astype(np.int64)
        else:
            return None
        if getattr(way.disclosure, "sizes", "open") == "hidden":
            sizes = (sizes > 0).astype(np.int64)  # all that anybody knows
        return cls(outcome.plan, sizes, None, outcome.details)

    # --- in plain values

    def values(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Numbers and words, as JSON has them, and arrays."""
        layout = self.plan.layout
        own = isinstance(layout, OwnRows)
        facts = {
            "rows": list(layout.counts) if isinstance(layout, OwnRows) else layout.m,
            "hidden": not own,
            "multiple": layout.multiple,
            "held": layout.held.hex() if isinstance(layout, AllRows) else "",
            "bound": self.plan.terms.public.bound if self.plan.terms else None,
            "liars": dict(self.standing.liars),
            "disputes": [list(pair) for pair in self.standing.disputes],
        }
        arrays = {"sizes": self.sizes}
        if self.sums is not None:
            arrays |= {"values": self.sums.values, "labels": self.sums.labels}
        return facts, arrays

    @classmethod
    def read(
        cls, way: SecFC, public: Public, facts: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> Retained:
        """From plain values, and the terms of the run.  Raises ValueError for what does not fit them."""
        public = replace(public, bound=float(facts["bound"]))
        layout: Any
        if facts["hidden"]:
            layout = AllRows(
                int(facts["rows"]), len(public.clients), int(facts["multiple"]), bytes.fromhex(facts["held"])
            )
        else:
            counts = tuple(map(int, facts["rows"]))
            public = replace(public, counts=counts)
            layout = OwnRows(counts, int(facts["multiple"]))
        plan, sizes, sums = way.complete(public, layout), arrays["sizes"], None
        if "values" in arrays:
            sums = ClusterSums(arrays["values"], sizes, arrays["labels"])
            if sums.values.shape[:2] != (plan.code.basis.lanes, len(sizes)):
                raise ValueError("the shares do not fit the plan of the run")
        standing = Standing(dict(facts["liars"]), tuple((a, b) for a, b in facts["disputes"]))
        return cls(plan, sizes, sums, standing)

    # --- roles

    def plan_for(self, counts: tuple[int, ...], session: bytes) -> Plan:
        """The plan under which so many new points of each client are labeled; session: see `Public`."""
        features = None if self.plan.terms is None else self.plan.terms.public.features
        return prediction_plan(self.plan, counts, features, self.sizes, session)

    def client(
        self, way: SecFC, plan: Plan, party: Party, coins: Coins, allowance: Allowance | None
    ) -> Role[Array]:
        """Labels of a client's new points."""
        return predicting_client(
            way.disclosure, plan, party, self.sums, len(self.sizes), coins=coins, allowance=allowance
        )

    def server(self, way: SecFC, plan: Plan, coins: Coins) -> Role[None]:
        """The server's part."""
        return predicting_server(way.disclosure, plan, self.sizes, self.standing, coins=coins)
