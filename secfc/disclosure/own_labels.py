"""Own labels: each client learns the labels of its own points, and nobody those of others.

The labels stay shared among a committee from the first step to the last
(`secfc.disclosure.owner_labels.client`); at the end each owner gets shares of the labels of its own rows.
The server, and all clients, learn the first labels, which nobody's points have part in, the sizes of the
clusters after each step unless they are hidden, and the number of steps.  Replies are checked before
anything is opened, without a dealer but for those of the `t + 1` members that have parts of them; of all else
it assumes parties that follow the protocol, as `AssignmentsOnly` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from field.ring.errors import InvalidValue
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
    committee_size,
    comparison_headroom,
    refuse_broken,
)
from secfc.disclosure.dealerless.policy import Dealerless
from secfc.disclosure.decoded.distances import CheckedQuorum
from secfc.disclosure.owner_labels.client import sharing_client
from secfc.disclosure.owner_labels.server import OwnerLabelsServer
from secfc.kmeans.splitting import Splitting
from secfc.kmeans.starts import RandomLabels, Start
from secfc.privacy.events import NonPrivate
from secfc.privacy.ledger import Ledger
from secfc.remedies import Remedy
from secfc.roles.exchange import SERVER, PartyId, Role


@dataclass(frozen=True)
class OwnLabels(ExactPolicy):
    """Policy by which each client learns the labels of its own points, and all learn sizes and steps.

    Parameters
    ----------
    dealer
        Trusted dealer of correlated randomness: "server"; a client's name, who then stays outside the
        committee of t + 1 (at least two) clients; or None for no dealer, which needs ell = 1 and t at most 3,
        and takes two to five times the work.
    consent
        Whether a start may open distances to the server (`KMeansPlusPlus`).
    sizes
        "open"; or "hidden", if sizes of clusters are never opened to anybody.  Hidden sizes allow one start
        (`n_init`) and no opened centers, and the modulus is m**2 / 4 times as large.

    Notes
    -----
    If the server deals, nothing more is learned by the server alone, by any t clients, or by the server with
    t clients outside the committee.  If a client deals, nothing more is learned by any t clients without
    either the dealer or the members, with or without the server.  A dealer together with one member of the
    committee learns all labels and every distance, of every step.  Without a dealer nothing more is learned
    by the server together with any t clients.

    Under `Private()` membership an owner receives the labels of the rows that it holds.  Nobody learns which
    rows these are, not even a dealer with members, as long as at most t clients are among them.

    With several restarts (`n_init`) the server also learns the cost of each cluster at the end, and owners
    the labels of the cheapest restart alone.  With `Splitting()`, the default start, the server learns the
    gains of splits; where k is chosen, costs of clusters once.  The start must open no labels of points.

    Examples
    --------
    >>> import secfc
    >>> way = secfc.SecFC(k=2, disclosure=secfc.OwnLabels())
    >>> result = secfc.fit(way, [[[0, 0], [9, 9]], [[0, 1]], [[9, 8], [1, 0]]])
    >>> result.sizes[-1].tolist(), result.history  # sizes are open, labels of all points are nobody's
    ([2, 3], ())
    """

    dealer: PartyId | None = SERVER
    consent: bool = False
    sizes: Literal["open", "hidden"] = "open"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sizes not in ("open", "hidden"):
            raise InvalidValue(f'sizes={self.sizes!r} of clusters are "open" to all, or "hidden": name one')

    @property
    def hidden(self) -> bool:
        """Whether sizes are never opened."""
        return self.sizes == "hidden"

    @property
    def start(self) -> Start:
        """Cuts are chosen by sizes; of those that open labels there is none."""
        return RandomLabels() if self.hidden else Splitting()

    @property
    def capabilities(self) -> PolicyCapabilities:
        return PolicyCapabilities(
            "steps" if self.hidden else "sizes",
            dealer=self.dealer,
            least_lanes=LEAST_LANES,
            checks_words=True,
        )

    @property
    def sharing(self) -> LabelSharing:
        """What is opened of labels."""
        return LabelSharing(hidden=self.hidden)

    def how(self, plan: CodedPlan) -> TrustedDealer | Dealerless:
        """How committees compare."""
        if self.dealer is None:
            return Dealerless(self.consent, plan.deviating)
        return TrustedDealer(self.dealer, self.consent)

    def headroom(self, way: Any, public: Any, layout: RowLayout) -> int:
        return bisector_headroom(way, layout) if self.hidden else comparison_headroom(way, layout)

    def check(self, plan: CodedPlan) -> None:
        """Raises ValueError for what would have to be opened on the way, or clients that cannot compare."""
        check_consent(plan, self)
        self.how(plan).check(plan)
        opens: Remedy = ("disclosure", "assignments")
        first = "random" if self.hidden else "splitting"
        refuse_broken(
            self,
            Rule(
                self.dealer is None and plan.code.ell != 1, "ell", plan.code.ell,
                "without a dealer labels multiply whole points", (("ell", 1), opens),
            ),
            Rule(
                self.hidden and plan.n_init != 1, "n_init", plan.n_init,
                "of restarts of hidden sizes nobody knows the cost",
                (("n_init", 1), ("sizes", "open"), opens),
            ),
            Rule(
                self.hidden and bool(plan.revealing), "reveal_centers", True,
                "centers are sums over sizes, which are never opened",
                (("reveal_centers", None), ("sizes", "open"), opens),
            ),
            Rule(
                self.hidden and plan.largest != plan.m, "largest", plan.largest,
                "hidden sizes cannot be checked against it", (("largest", None), ("sizes", "open"), opens),
            ),
            Rule(
                plan.init.factor != 1 or plan.init.halves, "init", plan.init,
                "labels are opened to owners only, and this start opens them", (("init", first), opens),
            ),
        )  # fmt: skip

    def client(self, plan: CodedPlan, name: PartyId, *, coins: Coins) -> Role[ClientPolicy]:
        return (yield from sharing_client(self.how(plan), self.sharing, plan, name, coins))

    def server(
        self, plan: CodedPlan, screening: Screening, *, coins: Coins, threads: int
    ) -> Role[CodedSource]:
        committees = yield from self.how(plan).committees(plan, screening)
        runs = OwnerLabelsServer(committees, self.sharing)
        quorum, grow = CheckedQuorum(committees.quorum), runs.grow_clusters
        return CodedSource(quorum, committees, runs, runs, grow, runs.price_merges)

    def ledger(self, plan: CodedPlan) -> Ledger:
        return Ledger().record(
            NonPrivate(),
            what="labels to owners of points without noise" + ("" if self.hidden else ", and sizes"),
        )

    def learned(self, plan: CodedPlan) -> tuple[str, ...]:
        """What the server learned, in sentences for people."""
        facts = [
            (
                "the first labels"
                + ("" if self.hidden else ", the sizes of the clusters after each step")
                + ", and how many steps there were (so did every client)"
            ),
            "no label of any point after a step, "
            + ("no size of a cluster, " if self.hidden else "")
            + f"and {self.unseen(plan)}",
        ]
        if plan.init.grows:
            facts.append("while a start was drawn, the sizes of all halves, and what every split gains")
        if plan.n_init > 1:
            facts.append("what every cluster costs at the end of each restart")
        if plan.init.needs_distances:
            facts.append(plan.init.reveals)
        return tuple(facts)

    def unseen(self, plan: CodedPlan) -> str:
        """What becomes of distances, and who would have to join whom, for people."""
        if self.dealer is None:
            return f"no distance of a point, not even together with any {plan.code.t} of the clients"
        who = "it" if self.dealer == SERVER else self.dealer
        members = committee_size(plan.code.t)
        return (
            f"no distance of a point: {members} clients kept the labels shared under masks that {who} dealt; "
            f"with one of these clients {who} would learn all of them"
        )
