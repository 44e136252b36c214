"""Labels and nothing else: a committee compares distances under masks that only a dealer knows.

Per iteration (see `field.compare.dealt`): every responder weighs its coded distances, so that they sum up to
the distances, adds a mask that it shares with the dealer, and sends each member of the committee the points
that this member sums up; the members tell one another the sums and open masked bits, round by round; the
server gets shares of the labels' digits, re-randomized among the members, and adds them up.

Who may collude: see `AssignmentsOnly`.  Messages between clients must stay between them, so over a network
that the server carries they are sealed (`secfc.transport.sealed`) under identities that clients pinned: a
dealing server that reads what members say to one another knows every distance.  Assumes parties that follow
the protocol: a lying client makes wrong labels, unnoticed, since nothing about a reply can be checked that is
not disclosed; so this policy tolerates clients that fall silent, and not clients that lie.
"""

from __future__ import annotations

from dataclasses import dataclass

from field.secrets.coins import Coins
from secfc.coded.pairing import pair_keys
from secfc.coded.plan import Plan
from secfc.coded.policy import Answer, Comparing
from secfc.disclosure.compare.dealer import collect_seeds, mask_seeds
from secfc.disclosure.compare.match import committee_size
from secfc.disclosure.compare.member import Participant
from secfc.disclosure.compare.server import ComparedSource
from secfc.disclosure.joint.undealt import Undealt
from secfc.roles.exchange import SERVER, PartyId, Role


@dataclass(frozen=True)
class AssignmentsOnly(Comparing):
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

    def check(self, plan: Plan) -> None:
        """Raises ValueError for too few clients, or a start that opens distances."""
        super().check(plan)
        if self.dealer is None:
            return Undealt(self.consent).check(plan)
        if self.dealer not in (SERVER, *plan.clients):
            names = ", ".join(plan.clients[:3]) + (", ..." if len(plan.clients) > 3 else "")
            raise ValueError(f"dealer={self.dealer!r} takes no part: name {SERVER!r} or a client ({names})")
        needed = committee_size(plan.code.t) + (self.dealer != SERVER)
        if plan.code.n < needed:
            raise ValueError(
                f"n={plan.code.n} clients: a committee of {committee_size(plan.code.t)}"
                + (f" besides the dealer {self.dealer!r}" if self.dealer != SERVER else "")
                + f" needs {needed}: add clients, or show the server distances with disclosure=Distances()"
            )

    def client(self, plan: Plan, name: PartyId, *, coins: Coins) -> Role[Answer]:
        if self.dealer is None:
            return (yield from Undealt(self.consent).client(plan, name, coins=coins))
        peers = yield from pair_keys(plan, name, coins)
        mine, dealt_to = yield from mask_seeds(plan, name, self.dealer, coins)
        return Participant(plan, name, self.dealer, peers, mine, dealt_to, consent=self.may_ask(plan))

    def server(
        self, plan: Plan, present: tuple[PartyId, ...], *, coins: Coins, threads: int
    ) -> Role[ComparedSource]:
        if self.dealer is None:
            return (yield from Undealt(self.consent).server(plan, present, coins=coins, threads=threads))
        keys = None
        if self.dealer == SERVER:
            keys = yield from collect_seeds(plan, plan.clients)
        return ComparedSource(plan, present, self.dealer, keys, threads=threads)

    def learned(self, plan: Plan) -> tuple[str, ...]:
        if self.dealer is None:
            return Undealt(self.consent).learned(plan)
        who, members = "it" if self.dealer == SERVER else self.dealer, committee_size(plan.code.t)
        joined = f"with one of these clients {who} would learn every distance"
        return (
            "all labels and cluster sizes, in every iteration (so did every client)",
            f"no distance: {members} clients compared them under masks that {who} dealt; {joined}",
            *self.opened(plan),
        )
