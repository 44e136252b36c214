"""Labels and nothing else: committees of clients compare distances that nobody holds, in one of two ways.

Under masks and tables that a dealer made (`secfc.disclosure.compare.dealt`), or together without one
(`secfc.disclosure.joint.undealt`).  Assumes parties that follow the protocol: a lying client makes wrong
labels, unnoticed, since nothing about a reply can be checked that is not disclosed; so this policy tolerates
clients that fall silent, and not clients that lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from field.secrets.coins import Coins
from secfc.coded.layout import Layout
from secfc.coded.plan import Plan
from secfc.coded.policy import Answer, Exactly, Exposure
from secfc.coded.screening import Screening
from secfc.coded.source import CodedSource
from secfc.disclosure.compare.consent import LEAST_LANES, check_consent, opened, room_to_compare
from secfc.disclosure.compare.dealt import Dealt
from secfc.disclosure.compare.match import Seating, committee_size
from secfc.disclosure.joint.undealt import Undealt, seating
from secfc.roles.exchange import SERVER, PartyId, Role


@dataclass(frozen=True)
class AssignmentsOnly(Exactly):
    """The server and the clients learn the labels of every iteration, and nothing more.

    dealer: who deals masks and tables, the server or a client that then stays outside the committee of t + 1
    clients (at least two).  A dealer together with one member of the committee knows every distance; apart
    from that, dealt by the server, nothing is learned by the server alone, by t clients, or by the server
    with t clients outside the committee.  Dealt by a client, and t = 1, nothing is learned by any one client,
    with or without the server.  None: nobody deals (`secfc.disclosure.joint.undealt`), and nothing is learned
    by the server together with any t clients, t at most 3; a member works two to ten times as long. consent:
    whether a start may open distances to the server (`KMeansPlusPlus`).
    """

    dealer: PartyId | None = SERVER
    consent: bool = False

    exposes: ClassVar[Exposure] = "labels"
    least_lanes: ClassVar[int] = LEAST_LANES

    @cached_property
    def how(self) -> Dealt | Undealt:
        """How committees compare."""
        return Undealt(self.consent) if self.dealer is None else Dealt(self.dealer, self.consent)

    def headroom(self, way: Any, public: Any, layout: Layout) -> int:
        return room_to_compare(way, layout)

    def check(self, plan: Plan) -> None:
        """Raises ValueError for clients that cannot compare like this, or a start that opens distances."""
        check_consent(plan, type(self).__name__, self.consent)
        self.how.check(plan)

    def client(self, plan: Plan, name: PartyId, *, coins: Coins) -> Role[Answer]:
        return self.how.client(plan, name, coins=coins)

    def server(self, plan: Plan, screening: Screening, *, coins: Coins, threads: int) -> Role[CodedSource]:
        return self.how.server(plan, screening)

    def seating(self, plan: Plan) -> Seating:
        return seating(plan) if self.dealer is None else Seating(committee_size(plan.code.t), self.dealer)

    def learned(self, plan: Plan) -> tuple[str, ...]:
        labels = "all labels and cluster sizes, in every iteration (so did every client)"
        return (labels, *self.how.learned(plan), *opened(plan))
