"""Final labels only: nobody sees the labels, sizes or the number of changes of any step but the last.

The steps are those of `secfc.disclosure.owner_labels.client` with hidden sizes, dealt or not, and only the
end differs: all are told the labels.  Server and clients see the first labels, after each step one bit,
whether any label changed, unless the number of steps is fixed, and the last labels.  A committee that loses a
client loses the labels with it: another one takes all steps again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from field.secrets.coins import Coins
from secfc.coded.plan import CodedPlan, RowLayout
from secfc.coded.policy import ClientPolicy, ExactPolicy, LabelSharing, PolicyCapabilities
from secfc.coded.quorum import Screening
from secfc.coded.source import CodedSource
from secfc.disclosure.compare.server import TrustedDealer
from secfc.disclosure.compare.session import (
    LEAST_LANES,
    Rule,
    bisector_headroom,
    check_consent,
    refuse_broken,
)
from secfc.disclosure.dealerless.policy import Dealerless
from secfc.disclosure.decoded.distances import CheckedQuorum
from secfc.disclosure.owner_labels.client import sharing_client
from secfc.disclosure.owner_labels.server import OwnerLabelsServer
from secfc.kmeans.starts import RandomLabels, Start
from secfc.remedies import Remedy
from secfc.roles.exchange import PartyId, Role


@dataclass(frozen=True)
class FinalLabelsOnly(ExactPolicy):
    """Policy by which server and clients learn the final labels and the number of steps alone.

    Parameters
    ----------
    consent
        Whether a start may open distances to the server (`KMeansPlusPlus`).
    stop
        Whether one bit is opened after every step, "did any label change", so that the run ends when none
        did. False always runs max_iter steps, and the number of steps reveals nothing.  A run that ends at
        max_iter cannot tell whether another step would change a label, and reports that it did not converge.
    dealer
        Trusted dealer of correlated randomness: None, the server, or a client's name.  With a dealer, who may
        collude is as under `AssignmentsOnly(dealer)`, and t and ell are free.

    Notes
    -----
    t clients together with the server learn no more.  Without a dealer n >= 2t + 1, t at most 3 and ell = 1
    are needed.  In any case the policy allows one start, which opens nothing, and its modulus, m**2 / 4 times
    as large, holds any sizes.
    """

    consent: bool = False
    stop: bool = True
    dealer: PartyId | None = None

    @property
    def capabilities(self) -> PolicyCapabilities:
        return PolicyCapabilities("nothing", dealer=self.dealer, least_lanes=LEAST_LANES, checks_words=True)

    def how(self, plan: CodedPlan) -> TrustedDealer | Dealerless:
        """How committees compare."""
        if self.dealer is None:
            return Dealerless(self.consent, plan.deviating)
        return TrustedDealer(self.dealer, self.consent)

    @property
    def start(self) -> Start:
        return RandomLabels()  # others open labels

    @property
    def sharing(self) -> LabelSharing:
        """What is opened of labels."""
        return LabelSharing(hidden=True, everybody=True, tested=self.stop, looks=False)

    def headroom(self, way: Any, public: Any, layout: RowLayout) -> int:
        return bisector_headroom(way, layout)

    def check(self, plan: CodedPlan) -> None:
        """Raises ValueError for what would have to be opened on the way."""
        check_consent(plan, self)
        self.how(plan).check(plan)
        opens: Remedy = ("disclosure", "assignments")
        refuse_broken(
            self,
            Rule(
                self.dealer is None and plan.code.ell != 1, "ell", plan.code.ell,
                "secret labels multiply whole points", (("ell", 1), opens),
            ),
            Rule(
                plan.n_init != 1, "n_init", plan.n_init,
                "nobody knows the costs of restarts", (("n_init", 1), opens),
            ),
            Rule(
                plan.largest != plan.m, "largest", plan.largest,
                "sizes are secret, and cannot be checked against it", (("largest", None), opens),
            ),
            Rule(
                plan.init.factor != 1 or plan.init.halves, "init", plan.init,
                "only final labels are opened, and this start opens others",
                (("init", "random"), ("init", "random-points"), opens),
            ),
        )  # fmt: skip

    def client(self, plan: CodedPlan, name: PartyId, *, coins: Coins) -> Role[ClientPolicy]:
        return (yield from sharing_client(self.how(plan), self.sharing, plan, name, coins))

    def server(
        self, plan: CodedPlan, screening: Screening, *, coins: Coins, threads: int
    ) -> Role[CodedSource]:
        committees = yield from self.how(plan).committees(plan, screening)
        runs = OwnerLabelsServer(committees, self.sharing)
        return CodedSource(CheckedQuorum(committees.quorum), committees, runs, runs)

    def learned(self, plan: CodedPlan) -> tuple[str, ...]:
        count = "the number of steps until no label changed, " if self.stop else ""
        facts = [f"the first labels, {count}and the final labels and cluster sizes (so did every client)"]
        if self.dealer is None:
            facts.append(
                "no other label and no distance of a point, not even together with any "
                f"{plan.code.t} of the clients"
            )
        else:
            facts += ["no other label", *self.how(plan).learned(plan)]
        if plan.init.needs_distances:
            facts.append(plan.init.reveals)
        return tuple(facts)
