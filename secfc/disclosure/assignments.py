"""Labels, and no distance of a point: committees of clients compare them in one of two ways.

Under masks and tables that a dealer made (`secfc.disclosure.compare.server.TrustedDealer`), or together
without one (`secfc.disclosure.dealerless.policy`).  Replies are checked before anything is opened
(`secfc.disclosure.checked.steps`): false ones end the run, and nobody is named; without a dealer those of
clients that are no members alone, unless each part is played by two, as among 2 t + 2 clients.  This policy
tolerates clients that fall silent, and ends with clients that lie where it notices them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from field.secrets.coins import Coins
from secfc.coded.plan import CodedPlan, RowLayout
from secfc.coded.policy import ClientPolicy, ExactPolicy, PolicyCapabilities
from secfc.coded.quorum import Screening
from secfc.coded.source import CodedSource
from secfc.disclosure.compare.server import TrustedDealer
from secfc.disclosure.compare.session import (
    LEAST_LANES,
    CommitteeChoice,
    check_consent,
    committee_size,
    comparison_headroom,
)
from secfc.disclosure.dealerless.policy import Dealerless, dealerless_committee
from secfc.roles.exchange import SERVER, PartyId, Role


@dataclass(frozen=True)
class AssignmentsOnly(ExactPolicy):
    """Policy by which the server and the clients learn the labels of every iteration, and nothing more.

    Parameters
    ----------
    dealer
        Trusted dealer of correlated randomness: "server"; a client's name, who then stays outside the
        committee of t + 1 (at least two) clients; or None for no dealer.
    consent
        Whether a start may open distances to the server (`KMeansPlusPlus`).

    Notes
    -----
    If the server deals, nothing more is learned by the server alone, by t clients, or by the server with t
    clients outside the committee.  If a client deals and t = 1, nothing more is learned by any one client,
    with or without the server.  A dealer together with one member of the committee knows every distance.

    Without a dealer (`secfc.disclosure.dealerless.policy`) nothing more is learned by the server together
    with any t clients, t at most 3; each member works two to ten times as long.  With 2 t + 2 clients, one
    party that deviates, the server included, learns nothing more either, unless `Threshold(deviating=0)` is
    set.
    """

    dealer: PartyId | None = SERVER
    consent: bool = False

    @property
    def capabilities(self) -> PolicyCapabilities:
        return PolicyCapabilities("labels", dealer=self.dealer, least_lanes=LEAST_LANES, checks_words=True)

    def how(self, plan: CodedPlan) -> TrustedDealer | Dealerless:
        """How committees compare."""
        if self.dealer is None:
            return Dealerless(self.consent, plan.deviating)
        return TrustedDealer(self.dealer, self.consent)

    def headroom(self, way: Any, public: Any, layout: RowLayout) -> int:
        return comparison_headroom(way, layout)

    def check(self, plan: CodedPlan) -> None:
        """Raises ValueError for clients that cannot compare like this, or a start that opens distances."""
        check_consent(plan, self)
        self.how(plan).check(plan)

    def client(self, plan: CodedPlan, name: PartyId, *, coins: Coins) -> Role[ClientPolicy]:
        return self.how(plan).client(plan, name, coins=coins)

    def server(
        self, plan: CodedPlan, screening: Screening, *, coins: Coins, threads: int
    ) -> Role[CodedSource]:
        return self.how(plan).server(plan, screening)

    def committee_choice(self, plan: CodedPlan) -> CommitteeChoice:
        return (
            dealerless_committee(plan, plan.deviating)
            if self.dealer is None
            else CommitteeChoice(committee_size(plan.code.t), self.dealer, plan.deviating)
        )

    def learned(self, plan: CodedPlan) -> tuple[str, ...]:
        labels = "all labels and cluster sizes, in every iteration (so did every client)"
        return (labels, *self.how(plan).learned(plan), *opened_beside_labels(plan))


def opened_beside_labels(plan: CodedPlan) -> tuple[str, ...]:
    """What the server learned beside labels, in sentences for people."""
    facts = []
    if plan.n_init > 1:
        facts.append("the cost of every cluster at the end of each restart")
    if plan.init.needs_distances:
        facts.append(plan.init.reveals)
    if plan.init.halves:
        facts.append("the reduction in cost of each split that the start tried")
    if plan.init.spare:
        which = "all" if plan.elbow else "neighboring"
        facts.append(f"how far the means of {which} clusters were apart before the start merged some")
    return tuple(facts)
