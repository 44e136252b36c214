"""One comparison of distances: everything public that its players agree on before it begins."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.code.reply_check import SumCheck
from field.code.rows import cluster_sizes
from field.compare import dealer_protocol
from field.compare.argmin import ArgminContest
from field.compare.blockwise import BlockwiseContest, block_points, choose_levels
from field.compare.correlated_randomness import residue_words
from field.compare.dealer_protocol import DealerSchedule
from field.compare.rounding import CenterRounding
from field.compare.shared_step import side_margin
from field.compare.shells import ShellTournament, shell_modulus
from field.compare.tournament import Tournament
from field.kernels.compiling import split_range
from field.ring.basis import Basis, lanes_for
from field.ring.quantize import headroom
from secfc.coded.messages import LabelShare
from secfc.coded.plan import CodedPlan, RowLayout
from secfc.coded.policy import DistanceOracle
from secfc.coded.queries import Operation, Query
from secfc.disclosure.checked.blocks import Blocks, Traffic, cheapest_blocks, shapes
from secfc.disclosure.checked.parts import split_shares
from secfc.disclosure.checked.products import STEPS as PROVING
from secfc.disclosure.checked.products import checking_steps
from secfc.disclosure.checked.steps import (
    COINS,
    DEAL_ROW,
    DIGESTS,
    EARLIER,
    MASKS,
    PRODUCTS,
    ROWS,
    STEPS,
    CheckedReplies,
)
from secfc.disclosure.compare.candidates import (
    BisectorSide,
    Candidates,
    NearestCenter,
    NearestShell,
    OwnCenterWins,
    candidates_in,
)
from secfc.errors import IncompatibleOptions
from secfc.remedies import Remedy
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import SERVER, STRIDE, PartyId, blame_error
from secfc.roles.messages import check_residues

# So many distances are a part of their own: a message costs as much as summing these up.
WORTH_SPLITTING = 1 << 14
# Rounds after the question's; where centers are rounded, of that, and all but the first once more.
DEAL, SEND, SUM, OPEN = range(1, 5)
# Beside so many openings more than others words for V are told where sums are checked meanwhile, as these
# wait for that: six steps go beside openings.
LATER = 2
# Portions of what is dealt have rounds of their own, above those of a question's steps; so many at most.
GIVEN, PORTIONS = STRIDE - 64, 32


@lru_cache(maxsize=32)
def _schedule(
    contest: ArgminContest, counts: tuple[int, ...], basis: Basis, m: int, d: int, max_int: int
) -> DealerSchedule | Tournament:
    """In levels of so many groups; public as well, over as few lanes of the basis as decide the contest."""

    def lanes(needed: int) -> Basis:
        return basis.prefix(lanes_for(needed, basis.primes))

    if not counts:
        return DealerSchedule(contest, lanes(DealerSchedule.needed(contest, d, max_int)), m)
    return Tournament(contest, lanes(Tournament.needed(contest, counts, d, max_int)), m, counts)


# What comparing 16 centers sends and takes, whatever the number of points: by this committees are chosen.
PROPORTIONS = Traffic(corrections=2147, opened=647, sums=256, played=200)


def committee_size(t: int) -> int:
    """Members of whom any t, and at least one, learn nothing."""
    return max(2, t + 1)


@dataclass(frozen=True)
class CommitteeChoice:
    """Who compares: a committee of so many clients, with the tables of a dealer that is not in it.

    dealer: None if nobody deals.  deviating: clients that never are all who play a part; where there are any,
    a committee has more clients than `size`, in blocks.
    """

    size: int
    dealer: PartyId | None = None
    deviating: int = 0

    @property
    def dealers(self) -> tuple[PartyId, ...]:
        return () if self.dealer is None else (self.dealer,)

    @property
    def fewest(self) -> int:
        """Clients without whom there is no committee."""
        return self.size + self.deviating

    def among(self, available: int) -> Blocks | None:
        """The cheapest committee of so many clients that do not deal; None if they are too few."""
        if self.deviating and self.dealer is None:
            return self.of(self.fewest) if available >= self.fewest else None
        if self.deviating:
            return cheapest_blocks(available, self.size - 1, self.deviating, PROPORTIONS)
        return self.of(self.size) if available >= self.size else None

    def of(self, players: int) -> Blocks | None:
        """The committee of so many clients; None if there is no such."""
        if not self.deviating:
            return Blocks((players,), 0) if players == self.size else None
        if self.dealer is None:
            each = self.deviating + 1
            return Blocks((each,) * (players // each), self.deviating) if players == self.fewest else None
        found = shapes(players, self.size - 1, self.deviating)
        return next((blocks for blocks in found if blocks.players == players), None)


NOBODY = CommitteeChoice(0)


def arrange_contest(
    plan: CodedPlan, contest: ArgminContest, m: int, seating: CommitteeChoice
) -> DealerSchedule | Tournament | BlockwiseContest:
    """How a contest of so many points goes: all pairs of rows, or what costs least if dealt, in blocks."""
    basis, counts = plan.code.basis, tuple[int, ...]()
    if seating.dealer is not None and not contest.first:
        alike = plan.fraction is not None
        counts = choose_levels(contest.outcomes, basis, m, seating.size, plan.network, alike=alike)
    whole = _schedule(contest, counts, basis, m, plan.d, plan.proven)
    if seating.dealer is None:
        return whole
    size = block_points(whole, seating.size, plan.network)
    return whole if size >= m else BlockwiseContest(whole, size)


@dataclass(frozen=True, eq=False)
class ComparisonSession:
    """A contest over the plan's points and who plays: responders send masked distances, members compare.

    sizes: (k,) of the clusters that distances are measured to; aside: how far their sums may lie beyond the
    rows', in units of rows.  hidden: whether nobody knows them, so that
    each is 1, or 0 for a cluster that nothing can be in.  A question for numbers of clusters has no contest,
    and is a match where their centers are rounded for it.

    Raises RangeExceeded if one is larger than the plan holds.
    """

    plan: CodedPlan
    question: Query
    sizes: Array
    seating: CommitteeChoice
    hidden: bool = False
    aside: int = 0

    @cached_property
    def contest(self) -> ArgminContest:
        """Which comparisons decide."""
        self.plan.lanes(self.sizes)  # refuses what the plan does not hold
        return self.rivals.contest

    @cached_property
    def rivals(self) -> Candidates:
        """What is compared."""
        if self.hidden:
            return BisectorSide(self.sizes, self.plan.m)
        weights = self.plan.weights(self.sizes)
        return candidates_in(self.question.subject, weights, self.plan.code.ell, self.plan.d)

    @cached_property
    def rounding(self) -> CenterRounding | None:
        """How centers of clusters with points are rounded before anything else; None if they are exact."""
        plan = self.plan
        if plan.fraction is None:
            return None
        plan.lanes(self.sizes)
        sizes, width = tuple(self.sizes[self.sizes > 0].tolist()), plan.code.ell * plan.code.width(plan.d)
        largest, multiple = plan.proven + self.aside, plan.layout.multiple
        return CenterRounding(plan.code.basis, sizes, width, largest, plan.fraction, multiple)

    @property
    def opens(self) -> bool:
        """Whether points are compared, and not numbers of clusters asked for."""
        return self.question.operation.opens != "numbers"

    @property
    def shared(self) -> int:
        """The step after the question in which shares of rounded centers are sent; 0 if they are exact."""
        # Opening among three and more takes two steps where much is opened.
        return self.dividing + 2 * self.spacing * self.rounding.openings if self.rounding else 0

    @property
    def summed(self) -> int:
        """The step that precedes sums of clusters whose centers are rounded."""
        # Squares of points, of which costs are made, are dealt anew after sums.
        return self.before + (self.question.operation is Operation.CLUSTER_COST)

    @property
    def dividing(self) -> int:
        """The step in which the rounding of centers opens its first words."""
        return self.summed + OPEN + 1

    @property
    def turn(self) -> int:
        """Steps of each of the turns from shares of rounded centers to replies, in which checks go on."""
        return self.spacing + 2

    def beside(self, opening: int, place: int) -> int:
        """A step beside so many openings of rounding after the first; after the last, beside what follows."""
        count = 0 if self.rounding is None else self.rounding.openings
        if opening < count:
            return self.dividing + self.spacing * opening + place
        return self.shared + self.turn * (opening - count) + place

    @property
    def turns(self) -> int:
        """How many turns there are before replies, so that all of a check has its place."""
        return 0 if self.rounding is None else max(2, PROVING - 1 - self.rounding.openings)

    @property
    def concluding(self) -> tuple[int, int, int]:
        """The steps in which members check what they said of rounded centers, and then vouch for shares."""
        count = 0 if self.rounding is None else self.rounding.openings
        coin, digests = (self.beside(count + turn, self.spacing) for turn in (0, 1))
        return coin, digests, self.begun + OPEN

    @property
    def numbered(self) -> int:
        """The step after the question in which what hides the check of numbers of clusters is dealt, where
        their centers are rounded before; 0 if they are exact."""
        return self.shared and self.begun + OPEN + 1

    def awaiting(self, name: PartyId, step: int) -> Iterator[tuple[int, tuple[PartyId, ...]]]:
        """The steps in which others may wait for a player that goes no further than this step, and who.

        After an opening that is the next; who waits for the dealer has sent its masked values before.  Steps
        in which a server waits are so much earlier as its rounds are (`CheckedReplies.round`).  What goes
        beside an opening may have been said before that was waited for.
        """
        members = tuple(c for c in self.committee if c != name)
        waits = dict.fromkeys((self.begun + SUM, self.begun + self.opening), members)
        for checked in (self.checked_sums, self.checked):
            if checked is not None:
                waits |= self.awaiting_check(name, checked) | self.awaiting_further(name, checked)
        if self.rounding is not None:
            responders = tuple(c for c in self.responders if c != name)
            coin, digests, vouched = self.concluding
            waits |= dict.fromkeys((self.summed + SUM, self.dividing, coin, digests), members)
            waits |= dict.fromkeys((self.shared, vouched), responders)
            waits[self.begun + SEND] = tuple(c for c in self.parts if c != name)
            if self.checked is not None:
                waits[self.checked.dealt] = tuple(c for c in self.players if c != name)
            if step == 0:
                waits[SEND] = tuple(c for c in self.correctors if c != name)
            if not self.opens:
                waits = {at: who for at, who in waits.items() if at <= vouched}
                if name in self.responders[: self.plan.code.t + 1]:
                    waits[self.numbered] = responders
        elif step == 0:
            waits[SEND] = members
        if step > DEAL:
            waits.setdefault(self.following(step), members)
        yield from ((at, waits[at]) for at in sorted(waits) if at % EARLIER > step)

    def awaiting_check(self, name: PartyId, checked: CheckedReplies) -> dict[int, tuple[PartyId, ...]]:
        """Steps of a check in which others may wait for a player, and who."""
        others = {
            step: tuple(c for c in who if c not in (name, SERVER))
            for step, who in (
                (COINS, checked.witnesses),
                (DIGESTS, self.players),
                (ROWS, self.responders),
                (PRODUCTS, self.committee),
                (MASKS, self.committee),
            )
        }
        mine = [
            step
            for step in others
            if name
            in (
                checked.witnesses
                if step <= DIGESTS
                else self.responders
                if step <= PRODUCTS
                else self.seating.dealers
            )
        ]
        waits = {checked.at(step): others[step] for step in mine}
        if self.seating.dealer == SERVER and name in checked.witnesses:
            # What a server hears of a check precedes all else.
            waits[checked.at(DIGESTS) - EARLIER] = (SERVER,)
        return waits

    def awaiting_further(self, name: PartyId, checked: CheckedReplies) -> dict[int, tuple[PartyId, ...]]:
        """Steps in which others may wait for further replies that come behind the others, and who."""
        told, added = checked.behind
        if checked.adder == name:
            return {added: tuple(c for c in self.committee if c != name)}
        return {} if checked.adder is None or name not in self.responders else {told: (checked.adder,)}

    @cached_property
    def checked(self) -> CheckedReplies | None:
        """How replies are checked before anything is opened; None where they are not."""
        dealer, operation = self.seating.dealer, self.question.operation
        unseen = operation.opens in ("sizes", "noisy sums", "pairs") or operation is Operation.PREDICT_LABELS
        if operation.opens != "labels" and not unseen:
            return None
        # Where nobody deals so many take a part of the replies over.
        alike = 1 if dealer is not None else self.seating.deviating + 1
        adding = self.committee if dealer is not None else self.committee[: alike * (self.plan.code.t + 1)]
        # Of labels that stay shared nobody knows who adds up to a sum.
        exact = self.plan.fraction is None and not self.before
        exact = exact and np.array_equal(cluster_sizes(self.question.labels, self.question.k), self.sizes)
        check = self.rivals.reply_check(self.question.labels, exact)
        dealt = self.begun + DEAL if self.follows else DEAL_ROW
        if self.rounding is not None:
            dealt = self.shared + self.spacing + 1
        return CheckedReplies(
            self.plan, check, self.schedule.basis, self.context, self.question.round, self.begun,
            self.responders, adding, dealer, dealt=dealt, alike=alike, slots=self.slots,
            later=self.later, adder=self.corrected if self.follows else None,
        )  # fmt: skip

    @property
    def woven(self) -> bool:
        """Whether members compare, under what somebody dealt, while replies are checked."""
        return self.seating.dealer is not None and self.question.operation.compares

    @property
    def follows(self) -> bool:
        """Whether row 0, and what replies are checked by, follow them: they do not wait for its dealing."""
        return self.woven and self.rounding is None

    @property
    def interleaved(self) -> int:
        """How many steps of a check go beside the first openings of a comparison."""
        return STEPS + self.follows + self.later if self.woven else 0

    @property
    def later(self) -> int:
        """So many openings later than where no sums are checked beside."""
        return LATER * (self.proves and self.follows)

    @property
    def woven_until(self) -> int:
        """The step from which nothing goes beside openings: every player has listened to all before."""
        return self.begun + self.opening + self.spacing * self.interleaved

    @property
    def slots(self) -> tuple[int, ...]:
        """The steps beside these openings, for the check of replies."""
        each = range(self.interleaved)
        return tuple(self.begun + self.opening + self.spacing * (turn + 1) - 1 for turn in each)

    @property
    def proves(self) -> bool:
        """Whether sums by labels that stay shared are checked while members compare, or divide, too."""
        step = self.question.subject.shared
        sizes = self.woven and self.question.operation.opens == "sizes"
        return sizes and step is not None and step.step > 0 and checking_steps(self.plan) > 0

    @property
    def spacing(self) -> int:
        """Rounds between two openings beside which checks go on."""
        return 2 + self.proves

    @property
    def proving(self) -> list[int]:
        """The steps in which sums are checked while members compare: before replies, then beside openings."""
        if self.rounding is not None:
            return [self.summed, *(self.beside(opening, 1) for opening in range(PROVING - 1))]
        first = self.begun + self.opening + 1
        return [self.begun, *range(first, first + 3 * (PROVING - 1), 3)]

    @property
    def before(self) -> int:
        """Steps in which responders sum points by labels that stay shared and check that, before all else."""
        at = self.question.subject.shared
        if at is None or at.step == 0:
            return 0
        # And one in which row 0 is dealt, where that waits for sums.  Numbers are checked last.
        checking = 1 if self.proves else checking_steps(self.plan) * self.opens
        return (4 if self.hidden else 2) + checking + (self.follows or self.rounding is not None)

    @cached_property
    def checked_sums(self) -> CheckedReplies | None:
        """How sums of clusters are checked before their centers are rounded; None where they are not."""
        dealer, rounding, code = self.seating.dealer, self.rounding, self.plan.code
        if dealer is None or rounding is None:
            return None
        context = hashlib.blake2b(self.context, digest_size=32, person=b"secfc-sums").digest()
        check = SumCheck(len(rounding.sizes), code.ell, code.width(self.plan.d))
        slots = tuple(self.beside(opening, self.spacing - 1) for opening in range(STEPS + 1))
        return CheckedReplies(
            self.plan, check, rounding.basis, context, self.question.round, self.summed, self.responders,
            self.committee, dealer, what="sums of clusters in reply", dealt=self.summed + DEAL, slots=slots,
            adder=self.corrected,
        )  # fmt: skip

    @property
    def opening(self) -> int:
        """The step in which a comparison opens its first words."""
        # What follows replies precedes: what they are checked by, or what centers are.
        if self.woven:
            return OPEN + 1
        return OPEN if self.checked is None else OPEN + STEPS

    def following(self, step: int) -> int:
        """The step in which somebody may wait for what follows this one: the next opening."""
        divided = 0 if self.rounding is None else 2 * self.rounding.openings
        beside = ((self.dividing, divided), (self.begun + self.opening, self.interleaved))
        for first, turns in beside:
            if first <= step < first + self.spacing * turns:
                return step + self.spacing - (step - first) % self.spacing
        return step + 1

    def columns(self, measured: DistanceOracle) -> Array:
        """A responder's shares of the sums that take part, (lanes, clusters, width)."""
        lanes = self.schedule.basis.lanes
        return np.ascontiguousarray(measured.rows.residues(measured.sums)[:lanes, self.rivals.columns])

    @property
    def begun(self) -> int:
        """How many steps later the comparison begins, whose steps are numbered as ever."""
        return self.before if self.rounding is None else self.shared + self.turn * self.turns - SEND

    @cached_property
    def schedule(self) -> DealerSchedule | Tournament | BlockwiseContest:
        """How the comparison goes, see `arrange_contest`; undivided where nothing is compared."""
        plan, contest = self.plan, self.contest
        if self.hidden:
            return DealerSchedule(contest, plan.code.basis, plan.m)
        if isinstance(self.rivals, NearestShell):
            rows, radius = self.rivals.rows, self.rivals.radius
            needed = shell_modulus(radius, plan.longest, 2 * plan.radius)
            basis = plan.code.basis.prefix(lanes_for(needed, plan.code.basis.primes))
            levels = tuple[int, ...]()
            if rows > 1:
                levels = choose_levels(rows, basis, plan.m, self.seating.size, plan.network, alike=True)
            return ShellTournament.arrange(contest, basis, plan.m, self.rivals.known, levels)
        return arrange_contest(plan, contest, self.m, self.seating if self.opens else NOBODY)

    @cached_property
    def m(self) -> int:
        """Points that are compared."""
        return self.rivals.count_points(self.plan.m)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of distances: how many of a point compete, and points."""
        return self.rivals.rows, self.m

    @cached_property
    def responders(self) -> tuple[PartyId, ...]:
        return self._names(self.question.responders)

    @cached_property
    def committee(self) -> tuple[PartyId, ...]:
        return self._names(self.question.members)

    @cached_property
    def blocks(self) -> Blocks:
        """Which of the committee plays which part of what is dealt."""
        found = self.seating.of(len(self.committee))
        return Blocks((len(self.committee),), 0) if found is None else found

    @cached_property
    def correctors(self) -> tuple[PartyId, ...]:
        """The members that get the dealer's corrections: all who play the part that these are of."""
        return tuple(self.committee[i] for i in self.blocks.parts[self.question.corrected])

    @property
    def corrected(self) -> PartyId:
        """The first of these."""
        return self.correctors[0]

    @cached_property
    def parts(self) -> dict[PartyId, slice]:
        """The points whose masked distances a member sums up for the others, by member.

        Few distances are summed up by the corrected member alone, many by all members.
        """
        size, first = len(self.committee), self.committee.index(self.corrected)
        count = max(1, min(size, self.shape[0] * self.m // WORTH_SPLITTING))
        parts = split_range(self.m, count)
        return {self.committee[(first + i) % size]: part for i, part in enumerate(parts)}

    @cached_property
    def context(self) -> bytes:
        """What streams are bound to: whoever was told another question expands other masks."""
        question, schedule, plan = self.question, self.schedule, self.plan
        public = (
            plan.digest(), question.round, schedule.basis.primes, schedule.m, self.sizes.tolist(),
            plan.fraction, question.digest,
        )  # fmt: skip
        return hashlib.blake2b(repr(public).encode(), digest_size=32, person=b"secfc-match").digest()

    @property
    def feeds(self) -> int:
        """How many portions the dealer may send after the first."""
        return len(self.schedule.parts) if isinstance(self.schedule, BlockwiseContest) else 0

    def asked_in(self, portion: int) -> int:
        """The round in which the corrected member asks for a portion: one that is not used between the two.

        To the server answers have the number of the question, and this comes before them.
        """
        number = self.question.round
        return number - PORTIONS + portion if self.seating.dealer == SERVER else self.given_in(portion)

    def given_in(self, portion: int) -> int:
        """The round in which the dealer sends a portion: the first one early, others after all else."""
        return self.question.round + (GIVEN + portion if portion else DEAL)

    @property
    def players(self) -> tuple[PartyId, ...]:
        """All who take part."""
        return tuple(dict.fromkeys((*self.committee, *self.responders, *self.seating.dealers)))

    def weights(self, me: PartyId) -> Array:
        """(lanes,) the weight of a responder's distances in their decoded sum."""
        code = self.plan.code
        used, weights = code.decoding_weights(tuple(self.question.responders.tolist()), 2)
        return np.asarray(weights[: self.schedule.basis.lanes, used.index(self.plan.clients.index(me))])

    def _names(self, numbers: Array) -> tuple[PartyId, ...]:
        return tuple(self.plan.clients[j] for j in numbers.tolist())


def check_words(sender: PartyId, words: Array, shape: tuple[int, ...]) -> Array:
    """Words of this shape.  Raises FaultyClient or FaultyServer naming the sender of anything else."""
    if words.dtype != np.uint64 or words.shape != shape:
        raise blame_error(sender, f"sent {words.dtype}{words.shape} where uint64{shape} was due")
    return words


def labels_from_shares(match: ComparisonSession, shares: Mapping[PartyId, LabelShare]) -> Array:
    """The labels (m,) int32 that all members' shares add up to.

    Raises FaultyClient for words of another shape, SuspectedParties where clients of a part do not agree, and
    for digits that nobody honest opens: of the dealer too, whose false tables show in shares.
    """
    schedule, blocks, committee = match.schedule, match.blocks, match.committee
    words, digests = dict[PartyId, Array](), dict[PartyId, bytes]()
    for i, c in enumerate(committee):
        told, share = len(blocks.told_by(i)), shares[c]
        checked = check_words(c, share.words, (told * schedule.places, schedule.comparison_words))
        words[c] = checked.reshape(told, schedule.places, schedule.comparison_words)
        digests[c] = share.digests
    parts = split_shares(blocks, committee, match.context, words, digests)
    try:
        return match.rivals.labels_of_winners(
            dealer_protocol.labels_from_code(schedule, reduce(np.bitwise_xor, parts))
        )
    except ValueError:
        why, dealers = "the shares of the labels add up to clusters that are not there", match.seating.dealers
        raise suspect_parties(
            "LabelShare", why, committee=committee, dealers=dealers, server=SERVER
        ) from None


def check_opening(basis: Basis, sender: PartyId, share: Array, mine: Array) -> Array:
    """Another member's share of what I open a share of: words, or residues (lanes, ...).

    Raises FaultyClient naming the sender of anything else.
    """
    if mine.dtype == np.uint64:
        return check_words(sender, share, mine.shape)
    check_residues(basis, sender, share, mine.shape[1:])
    return share


# --------------------------------------------------------------------------------------------------
# Whether a step first asks which points another center wins, and then for the nearest centers of these.
#
# A point stays where it is unless some other center beats its own: k - 1 comparisons, all at once, where a
# contest among all centers takes more of them or selects winners on the way.  Once few points move, nearly
# all of a step is that.  All labels are public, so nothing more is seen: which points move follows from the
# labels before and after.  It takes the rounds of two comparisons, so what a network charges for rounds and
# bytes decides, and how many points moved in the step before; all of it is public, and all parties decide
# alike.

# Centers with points below which asking first never saves a comparison.
LEAST = 3
# After clusters were split, and in the first step of a run from a start that splits, at most one point in so
# many moves: on ten data sets .21 of all, half of them below .05.
IN_SPLITS = 5


def should_prune(
    plan: CodedPlan, labels: Array, sizes: Array, moved: int | None, seating: CommitteeChoice
) -> bool:
    """Whether the step from labels (m,) of clusters of these sizes asks in two questions.

    moved: how many points changed their label in the step before; None where none was counted.
    """
    if np.count_nonzero(sizes) < LEAST or (labels < 0).any():
        return False
    if moved is None:
        moved = plan.m // IN_SPLITS if plan.init.halves else plan.m
    weights = plan.weights(sizes)
    own, all_of = OwnCenterWins(labels, weights, plan.code.ell).contest, NearestCenter(weights).contest
    if plan.code.basis.modulus <= own.needed(plan.d, plan.proven):
        return False
    at_once = _seconds(plan, all_of, plan.m, seating)
    return _seconds(plan, own, plan.m, seating) + _seconds(plan, all_of, max(1, moved), seating) < at_once


def _seconds(plan: CodedPlan, contest: ArgminContest, m: int, seating: CommitteeChoice) -> float:
    """What the messages of one question about so many points take.

    As if they were dealt for: without a dealer every comparison sends more, and both ways alike.
    """
    schedule, size = arrange_contest(plan, contest, m, seating), seating.size
    rows = 1 + max(max(a, b) for a, b, _, _ in contest.comparisons)
    # Responders but one or so send all their rows, and members to one another what they add up to.
    told = (plan.code.threshold(2) + size - 2) * residue_words(schedule.basis, (rows, m))
    words = told + schedule.dealt + sum(schedule.openings) * size * (size - 1)
    # Rounding centers takes about as many steps as the tree of a comparison.
    before = OPEN if plan.fraction is None else 2 * OPEN + len(schedule.openings)
    return plan.network.seconds(before + len(schedule.openings), 8 * words)


# --------------------------------------------------------------------------------------------------
# What policies share under which clients compare distances unseen, and may consent to opening some.

LEAST_LANES = 3  # two leave few steps: what is compared grows with sizes**4


def comparison_headroom(way: Any, layout: RowLayout) -> int:
    """How many times the largest distance the modulus must hold, see `Disclosure.headroom`.

    Raises ValueError for a basis without kernels, also of a plaintext run to compare with.
    """
    basis = way.quantization.basis
    if basis is not None and not basis.can_fold:
        raise IncompatibleOptions(
            {"basis": basis.primes, "disclosure": way.disclosure},
            "these primes have no kernel that compares distances in secret, which needs 30-bit lanes",
            [("basis", None), ("disclosure", "distances")],
        )
    if way.quantization.centers == "rounded":
        return 2 * int(way.init.factor)  # all centers stand for as many points
    return headroom(layout.m, way.quantization.largest, way.init.factor)


def bisector_headroom(way: Any, layout: RowLayout) -> int:
    """Headroom where nobody knows the sizes, see `field.compare.shared_step.signed_bisectors`."""
    return comparison_headroom(way, layout) * (side_margin(layout.m) + 1)


@dataclass(frozen=True)
class Rule:
    """What a policy cannot do: whether this run asks for it, by which parameter, why not, and remedies."""

    broken: bool
    parameter: str
    value: Any
    why: str
    remedies: tuple[Remedy, ...]


def refuse_broken(policy: Any, *rules: Rule) -> None:
    """Raises IncompatibleOptions for the first rule of a policy that is broken."""
    for rule in rules:
        if rule.broken:
            raise IncompatibleOptions(
                {rule.parameter: rule.value, "disclosure": policy}, rule.why, rule.remedies
            )


def check_consent(plan: CodedPlan, policy: Any) -> None:
    """Raises IncompatibleOptions for a start that opens distances under a policy without consent."""
    why = f"this start opens to the server the {plan.init.reveals}"
    remedies: tuple[Remedy, ...] = (("init", "random"), ("consent", True, "allow it"))
    broken = plan.init.needs_distances and not policy.consent
    refuse_broken(policy, Rule(broken, "init", plan.init, why, remedies))


def may_open_distances(plan: CodedPlan, consent: bool) -> bool:
    """Whether the server may ask for distances: only for a start that was consented to."""
    return consent and plan.init.needs_distances
