"""The server's part in comparing distances: it asks, deals if it is the dealer, and adds up labels.

`TrustedDealer` gives clients and server their parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

import numpy as np

from field.arrays import Array
from field.code.distances import widest_multiple
from field.code.masking import PairKeys
from field.code.rows import cluster_sizes
from field.secrets.coins import Coins
from secfc.coded.messages import CodedCosts, CodedGains, LabelShare, MissingMessages
from secfc.coded.plan import CodedPlan
from secfc.coded.queries import ComparisonCommittee, Operation, Query, Subject
from secfc.coded.quorum import NOBODY_MISSED, Screening, ServerContext, exclude_dropouts
from secfc.coded.sharing import pair_keys
from secfc.coded.source import CodedSource
from secfc.disclosure.checked.steps import tell_mask_sums
from secfc.disclosure.compare.candidates import FirstPairs, about_block, candidates_in
from secfc.disclosure.compare.client import ComparisonClient
from secfc.disclosure.compare.computing_party import ComputingParty
from secfc.disclosure.compare.dealer import (
    Dealt,
    DealtComputation,
    collect_seeds,
    continue_dealing,
    mask_seeds,
    start_dealing,
)
from secfc.disclosure.compare.session import (
    DEAL,
    CommitteeChoice,
    ComparisonSession,
    committee_size,
    labels_from_shares,
    may_open_distances,
    should_prune,
)
from secfc.disclosure.decoded.distances import CheckedQuorum, MaskedQuorum
from secfc.disclosure.decoded.replies import verify_replies
from secfc.errors import FaultyClient, Indispensable, InputError, TooFewReplies
from secfc.kmeans.loop import Step, WeighedClusters, all_pairs, gains_between, gains_of_squares, scaled_costs
from secfc.roles.exchange import SERVER, Exchange, PartyId, Role, expect_messages, to_all
from secfc.roles.messages import Message, compact_labels

M = TypeVar("M", bound=Message)


def names_somebody(inbox: Mapping[PartyId, Any]) -> bool:
    """Whether the first report of a step that was not finished names anybody: later ones follow from it."""
    reports = [m for m in inbox.values() if isinstance(m, MissingMessages) and (m.step or m.missing.size)]
    first = min((m.step for m in reports), default=0)
    return any(m.missing.size for m in reports if m.step == first)


@dataclass(frozen=True, eq=False)
class CommitteeSeats:
    """Who plays for a question of this number."""

    round: int
    responders: Array
    committee: ComparisonCommittee

    def asked(self, subject: Subject) -> Query:
        """The question about this to them."""
        return Query(self.round, subject, self.responders, self.committee)


class CommitteeServer:
    """A committee finds the labels; the server, when it deals, deals and knows the sums of masks.

    A party that falls silent is replaced by another, and the question put anew as a new round, so with fresh
    masks and tables.  quorum: who responds, which also tells costs.  keys: of a server that deals.
    """

    def __init__(self, quorum: MaskedQuorum, seating: CommitteeChoice, keys: PairKeys | None = None) -> None:
        self.quorum, self.plan, self.desk = quorum, quorum.plan, quorum.desk
        self.seating, self.keys, self.turn = seating, keys, 0
        self.first_pairs = FirstPairs()
        if keys is not None:
            # Who sent no seed takes no part: no attempt is begun that could not be dealt.
            quorum.silent |= {c for j, c in enumerate(self.plan.clients) if j not in keys.peers}

    def take_step(self, labels: Array, k: int, moved: int | None = None) -> Role[Step]:
        sizes = cluster_sizes(labels, k)
        if not should_prune(self.plan, labels, sizes, moved, self.seating):
            return Step((yield from self.compare(Operation.COMPARE, labels, sizes)), None)
        found = yield from self.compare(Operation.COMPARE_OWN, labels, sizes)
        if (found < 0).any():
            bits = np.packbits(found < 0, bitorder="little")
            found = yield from self.compare(Operation.COMPARE_MOVED, labels, sizes, detail=bits)
        return Step(found, None)

    def separate_points(self, labels: Array, k: int, factor: int) -> Role[Array]:
        return (yield from self.compare(Operation.COMPARE, labels, cluster_sizes(labels, k), factor=factor))

    def halve_clusters(self, labels: Array, c: int) -> Role[Array]:
        return (yield from self.compare(Operation.COMPARE_HALVES, labels, cluster_sizes(labels, 2 * c)))

    def label_new_points(self, sizes: Array) -> Role[Array]:
        return (yield from self.compare(Operation.COMPARE, np.full(self.plan.m, -1, np.int32), sizes))

    def cluster_costs(self, labels: Array, k: int) -> Role[tuple[int | Fraction, ...]]:
        subject = Subject(Operation.COST, k, compact_labels(labels))
        within = yield from self.number_a_cluster(subject, CodedCosts, k)
        if self.plan.fraction is None:
            return within
        return scaled_costs(within, cluster_sizes(labels, k), self.plan.fraction)

    def gains_of_halves(self, labels: Array, c: int) -> Role[tuple[Fraction, ...]]:
        sizes = cluster_sizes(labels, 2 * c)
        if not widest_multiple(sizes):
            return gains_between((0,) * c, sizes)
        subject = Subject(Operation.GAIN, 2 * c, compact_labels(labels))
        squares = yield from self.number_a_cluster(subject, CodedGains, c)
        return self.losses_of_squares(squares, sizes.reshape(-1, 2))

    def losses_of_merges(self, labels: Array, c: int, pairs: Array) -> Role[tuple[Fraction, ...]]:
        subject = Subject(Operation.LOSS, c, compact_labels(labels), detail=pairs)
        squares = yield from self.number_a_cluster(subject, CodedGains, len(pairs))
        return self.losses_of_squares(squares, cluster_sizes(labels, c)[pairs])

    def losses_of_squares(self, squares: tuple[int, ...], sizes: Array) -> tuple[Fraction, ...]:
        """What merging clusters of sizes (pairs, 2) costs, by what was opened of how far they are apart."""
        if self.plan.fraction is None:
            return gains_between(squares, sizes)
        return gains_of_squares(squares, sizes, self.plan.fraction)

    def weigh_merges(self, labels: Array, c: int) -> Role[WeighedClusters]:
        within = yield from self.cluster_costs(labels, c)
        losses = () if c == 1 else (yield from self.losses_of_merges(labels, c, all_pairs(c)))
        return WeighedClusters(losses, within, None)

    def number_a_cluster(
        self, subject: Subject, reply: type[CodedCosts | CodedGains], count: int
    ) -> Role[tuple[int, ...]]:
        """Integers that a threshold of clients have shares of, `count` of them."""
        if self.plan.fraction is None:
            sizes = cluster_sizes(subject.labels, subject.k)
            inbox = yield from self.quorum.answered(
                lambda number, chosen: Query(number, subject, chosen),
                partial(verify_replies, self.desk, sizes, (count,)),
            )
        else:
            inbox = yield from self.rounded(subject, count)
        basis = self.plan.code.basis
        values = self.desk.believed(inbox, reply, basis, (count,), 2)
        return tuple(int(x) for x in basis.lift(self.plan.code.decode(values, 2)))

    def rounded(self, subject: Subject, count: int) -> Role[Mapping[PartyId, Any]]:
        """The replies of all responders, so many numbers, to a question for which a committee rounds centers
        before.

        Raises SuspectedParties for false ones, as far as they are checked.
        """
        sizes = cluster_sizes(subject.labels, subject.k)
        while True:
            match = ComparisonSession(self.plan, self.seats().asked(subject), sizes, self.seating)
            inbox, gone = yield from self.asked(match)
            reports = {c: m for c, m in inbox.items() if isinstance(m, MissingMessages)}
            replies = {c: inbox[c] for c in match.responders if c in inbox and c not in reports}
            told = replies if len(replies) == len(match.responders) else None
            failed = yield from verify_replies(
                self.desk, sizes, (count,), match.question, told, match.numbered
            )
            if told is not None and failed is None:
                return told
            self.quorum.silent |= self.lost(match, *(failed or (gone, reports)))

    def asked(self, match: ComparisonSession) -> Role[tuple[Mapping[PartyId, Any], set[PartyId]]]:
        """What all players answer, to whom the server deals if it is the dealer; and who said nothing."""
        awaited = tuple(c for c in self.plan.clients if c in match.players)
        return (yield from self.answers(match, awaited, match.schedule if match.opens else None))

    def answers(
        self, match: ComparisonSession, awaited: tuple[PartyId, ...], game: DealtComputation | None
    ) -> Role[tuple[Mapping[PartyId, Any], set[PartyId]]]:
        """What these clients answer, and who of them said nothing.

        game: what is dealt for, beside the rounding of centers.
        """
        question, unheard = match.question, set[PartyId]()
        yield Exchange(to_all(self.desk.there, question), round=question.round, phase="assign")
        rounds = match.rounding is not None and not match.opens
        if self.keys is not None and (game is not None or rounds):
            left = yield from start_dealing(match, self.keys, game, self.first_pairs)
            unheard = (yield from self.told_masks(match, left)) or unheard
            if not unheard:
                self.first_pairs.keep_masks(question.members, match.rivals, left.masks)
            yield from continue_dealing(match, left)
        inbox = yield Exchange(
            {}, awaited, 0, round=question.round + DEAL, accept=question.round, phase="deal"
        )
        gone = set(awaited) - set(inbox)
        if gone or not unheard or names_somebody(inbox):
            return inbox, gone
        # Else it is whom the server did not hear while replies were checked.
        named = {c for c, m in inbox.items() if isinstance(m, MissingMessages)}
        return {c: MissingMessages(0, NOBODY_MISSED) if c in named else inbox[c] for c in inbox}, unheard

    def told_masks(self, match: ComparisonSession, left: Dealt) -> Role[set[PartyId] | None]:
        """Tell what masks add up to, where replies are checked; whom I did not hear, None if all."""
        for checked, masks in ((match.checked_sums, left.sums), (match.checked, left.masks)):
            if checked is not None and masks is not None:
                unheard = yield from tell_mask_sums(checked, masks)
                if unheard is not None:
                    return unheard
        return None

    def compare(
        self, operation: Operation, labels: Array, sizes: Array, factor: int = 1, detail: Array | None = None
    ) -> Role[Array]:
        """The labels (m,) int32 that the centers of clusters of these sizes give; see `Subject`."""
        subject = Subject(operation, len(sizes), compact_labels(labels), factor, detail)
        known = candidates_in(subject, sizes, self.plan.code.ell, self.plan.d).labels_by_sizes(self.plan.m)
        asked = [subject]  # the last one first: what another one waits for
        while known is None:
            seats = self.seats()
            match = ComparisonSession(self.plan, seats.asked(asked[-1]), sizes, self.seating)
            if lacking := self.first_pairs.lacking(match.question.members, match.rivals):
                asked.append(about_block(subject, lacking[0]))
                match = ComparisonSession(self.plan, seats.asked(asked[-1]), sizes, self.seating)
            inbox, gone = yield from self.asked(match)
            shares, reports = self.sorted(match, inbox, LabelShare)
            if len(shares) < len(match.committee):
                self.quorum.silent |= self.lost(match, gone, reports)
                continue
            found = labels_from_shares(match, shares)
            if self.keys is None:
                self.first_pairs.keep(match.question.members, match.rivals, None)
            if len(asked) == 1:
                return found
            asked.pop()
        return known

    def seats(self) -> CommitteeSeats:
        """Who plays next, and the number of the question that they play for.

        Raises TooFewReplies, and Indispensable if it is the dealer that fell silent.
        """
        silent, dealer = self.quorum.silent, self.seating.dealer
        able = [self.plan.clients.index(c) for c in self.desk.there if c not in silent]
        members = [j for j in able if self.plan.clients[j] != dealer]
        blocks, needed = self.seating.among(len(members)), self.plan.code.threshold(2)
        short = max(needed - len(able), self.seating.fewest - len(members))
        if dealer is not None and dealer in silent:
            raise Indispensable(dealer, "it alone deals the masks of every comparison")
        if short > 0 or blocks is None:
            raise TooFewReplies(len(able) + max(short, 1), [self.plan.clients[j] for j in able])
        self.turn += 1
        responders, committee = (
            np.array(able[:needed], np.int32),
            np.array(members[: blocks.players], np.int32),
        )
        corrected = self.turn % min(blocks.players, len(blocks.parts))
        return CommitteeSeats(next(self.desk.rounds), responders, ComparisonCommittee(committee, corrected))

    def sorted(
        self, match: ComparisonSession, inbox: Mapping[PartyId, Any], due: type[M]
    ) -> tuple[dict[PartyId, M], dict[PartyId, MissingMessages]]:
        """What members of the committee sent, as is due of them, and who could not, or had another part.

        Raises FaultyClient naming the sender of anything else.
        """
        reports = {c: m for c, m in inbox.items() if isinstance(m, MissingMessages)}
        shares = expect_messages({c: m for c, m in inbox.items() if c not in reports}, due)
        for sender in shares:
            if sender not in match.committee:
                raise FaultyClient(sender, f"sent {due.__name__}, which is not its part")
        return shares, reports

    def lost(
        self, match: ComparisonSession, gone: set[PartyId], reports: Mapping[PartyId, MissingMessages]
    ) -> set[PartyId]:
        """Whom to do without: at least one who was not left out before, so that repetitions end."""
        lost = exclude_dropouts(self.plan, gone, reports, spared=self.seating.dealers)
        members = {c: report.step for c, report in reports.items() if c in match.committee}
        # Where nobody is named, it is who went no further first, as without a word of the dealer.
        first = min(members.values(), default=0)
        return lost - self.quorum.silent or {c for c, step in members.items() if step == first}


@dataclass(frozen=True)
class TrustedDealer:
    """How a committee compares distances under masks that only the dealer knows: each role's part.

    Per iteration (see `field.compare.dealer_protocol`): every responder weighs its coded distances, so that
    they sum up to the distances, adds a mask that it shares with the dealer, and sends each member of the
    committee the points that this member sums up; the members tell one another the sums and open masked bits,
    round by round; the server gets shares of the labels' digits, re-randomized among the members, and adds
    them up.

    Who may collude: see `AssignmentsOnly`.  Messages between clients must stay between them, so over a
    network that the server carries they are sealed (`secfc.transport.sealed`) under identities that clients
    pinned: a dealing server that reads what members say to one another knows every distance.

    dealer: the server, or a client outside the committee.  consent: whether a start may open distances.
    """

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

    def server(self, plan: CodedPlan, screening: Screening) -> Role[CodedSource]:
        committees = yield from self.committees(plan, screening)
        return CodedSource(CheckedQuorum(committees.quorum), committees)

    def committees(self, plan: CodedPlan, screening: Screening) -> Role[CommitteeServer]:
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
