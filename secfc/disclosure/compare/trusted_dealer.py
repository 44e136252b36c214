"""Assignments only, with a dealer: a committee compares distances under masks that only the dealer knows.

Per iteration (see `field.compare.dealer_protocol`): every responder weighs its coded distances, so that they
sum up to the distances, adds a mask that it shares with the dealer, and sends each member of the committee
the points that this member sums up; the members tell one another the sums and open masked bits, round by
round; the server gets shares of the labels' digits, re-randomized among the members, and adds them up.

Who may collude: see `AssignmentsOnly`.  Messages between clients must stay between them, so over a network
that the server carries they are sealed (`secfc.transport.sealed`) under identities that clients pinned: a
dealing server that reads what members say to one another knows every distance.
"""

from __future__ import annotations

from dataclasses import dataclass

from field.secrets.coins import Coins
from secfc.coded.plan import CodedPlan
from secfc.coded.quorum import CheaterIdentification, ServerContext
from secfc.coded.sharing import pair_keys
from secfc.coded.source import CodedSource
from secfc.disclosure.compare.client import ComparisonClient
from secfc.disclosure.compare.computing_party import ComputingParty
from secfc.disclosure.compare.dealer import collect_seeds, mask_seeds
from secfc.disclosure.compare.server import CommitteeServer
from secfc.disclosure.compare.session import CommitteeChoice, committee_size, may_open_distances
from secfc.disclosure.decoded.distances import CheckedQuorum, MaskedQuorum
from secfc.errors import InputError
from secfc.roles.exchange import SERVER, PartyId, Role


@dataclass(frozen=True)
class TrustedDealer:
    """dealer: the server, or a client outside the committee.  consent: whether a start may open distances."""

    dealer: PartyId
    consent: bool = False

    def check(self, plan: CodedPlan) -> None:
        """Raises ValueError for a dealer that takes no part, and for too few clients."""
        if self.dealer not in (SERVER, *plan.clients):
            names = ", ".join(plan.clients[:3]) + (", ..." if len(plan.clients) > 3 else "")
            raise InputError(f"dealer={self.dealer!r} takes no part: name {SERVER!r} or a client ({names})")
        needed = committee_size(plan.code.t) + (self.dealer != SERVER)
        if plan.code.n < needed:
            raise InputError(
                f"n={plan.code.n} clients: a committee of {committee_size(plan.code.t)}"
                + (f" besides the dealer {self.dealer!r}" if self.dealer != SERVER else "")
                + f" needs {needed}",
                ["add clients", ("disclosure", "distances", "show the server distances")],
            )

    def client(self, plan: CodedPlan, name: PartyId, *, coins: Coins) -> Role[ComparisonClient]:
        return self.participant(plan, (yield from self.member(plan, name, coins=coins)))

    def participant(self, plan: CodedPlan, member: ComputingParty) -> ComparisonClient:
        """How a member answers where labels are opened."""
        return ComparisonClient(
            plan, member.name, member.peers, member, consent=may_open_distances(plan, self.consent)
        )

    def member(self, plan: CodedPlan, name: PartyId, *, coins: Coins) -> Role[ComputingParty]:
        """A client's part in comparisons, with keys that it agreed on with the others."""
        keys = yield from pair_keys(plan, name, coins)
        mine, dealt_to = yield from mask_seeds(plan, name, self.dealer, coins)
        return ComputingParty(plan, name, self.dealer, keys, mine, dealt_to, coins)

    def server(self, plan: CodedPlan, screening: CheaterIdentification) -> Role[CodedSource]:
        committees = yield from self.committees(plan, screening)
        return CodedSource(CheckedQuorum(committees.quorum), committees)

    def committees(self, plan: CodedPlan, screening: CheaterIdentification) -> Role[CommitteeServer]:
        """The server's part: who compares, and what it deals."""
        keys = None
        if self.dealer == SERVER:
            keys = yield from collect_seeds(plan, plan.clients)
        quorum = MaskedQuorum(ServerContext(plan, screening))
        return CommitteeServer(quorum, self.committee_choice(plan), keys)

    def committee_choice(self, plan: CodedPlan) -> CommitteeChoice:
        """Who compares."""
        return CommitteeChoice(committee_size(plan.code.t), self.dealer, plan.deviating)

    def learned(self, plan: CodedPlan) -> tuple[str, ...]:
        """What becomes of distances, for people."""
        seating, who = self.committee_choice(plan), "it" if self.dealer == SERVER else self.dealer
        blocks = seating.among(plan.code.n - (self.dealer != SERVER))
        members = seating.size if blocks is None else blocks.players
        joined = f"with one of these clients {who} would learn every distance"
        return (
            f"no distance of a point: {members} clients compared them under masks that {who} dealt; {joined}",
        )
