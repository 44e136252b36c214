"""One comparison of distances: everything public that its players agree on before it begins."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.compare import dealt
from field.compare.contest import Contest
from field.compare.dealt import Schedule
from field.compare.in_turn import InTurn
from field.compare.rounding import Rounding
from field.compare.shapes import block, levels
from field.compare.tournament import Tournament
from field.kernels.threads import cuts
from field.ring.basis import Basis, lanes_for
from secfc.coded.messages import Compare, LabelShare, Measure
from secfc.coded.plan import Plan
from secfc.disclosure.compare.rivals import Rivals, Sides, rivals_in
from secfc.roles.accept import check_residues
from secfc.roles.exchange import SERVER, STRIDE, PartyId, SuspectedParties, faulty

Array = NDArray[Any]

# So many distances are a part of their own: a message costs as much as summing these up.
WORTH_SPLITTING = 1 << 14
# Rounds after the question's; where centers are rounded, of that, and all but the first once more.
DEAL, SEND, SUM, OPEN = range(1, 5)
# Portions of what is dealt have rounds of their own, above those of a question's steps; so many at most.
GIVEN, PORTIONS = STRIDE - 64, 32


@lru_cache(maxsize=32)
def _schedule(
    contest: Contest, counts: tuple[int, ...], basis: Basis, m: int, d: int, max_int: int
) -> Schedule | Tournament:
    """In levels of so many groups; public as well, over as few lanes of the basis as decide the contest."""

    def lanes(needed: int) -> Basis:
        return basis.prefix(lanes_for(needed, basis.primes))

    if not counts:
        return Schedule(contest, lanes(Schedule.needed(contest, d, max_int)), m)
    return Tournament(contest, lanes(Tournament.needed(contest, counts, d, max_int)), m, counts)


def committee_size(t: int) -> int:
    """Members of whom any t, and at least one, learn nothing."""
    return max(2, t + 1)


@dataclass(frozen=True)
class Seating:
    """Who compares: a committee of so many clients, with the tables of a dealer that is not in it.

    dealer: None if nobody deals.
    """

    size: int
    dealer: PartyId | None = None

    @property
    def dealers(self) -> tuple[PartyId, ...]:
        return () if self.dealer is None else (self.dealer,)


NOBODY = Seating(0)


def arranged(plan: Plan, contest: Contest, m: int, seating: Seating) -> Schedule | Tournament | InTurn:
    """How a contest of so many points goes: all pairs of rows, or what costs least if dealt, in blocks."""
    basis, counts = plan.code.basis, tuple[int, ...]()
    if seating.dealer is not None and not contest.first:
        alike = plan.fraction is not None
        counts = levels(contest.outcomes, basis, m, seating.size, plan.network, alike=alike)
    whole = _schedule(contest, counts, basis, m, plan.d, plan.proven)
    if seating.dealer is None:
        return whole
    size = block(whole, seating.size, plan.network)
    return whole if size >= m else InTurn(whole, size)


@dataclass(frozen=True, eq=False)
class Match:
    """A contest over the plan's points and who plays: responders send masked distances, members compare.

    sizes: (k,) of the clusters that distances are measured to; aside: how far their sums may lie beyond the
    rows', in units of rows.  hidden: whether nobody knows them, so that
    each is 1, or 0 for a cluster that nothing can be in.  A question for numbers of clusters has no contest,
    and is a match where their centers are rounded for it.

    Raises RangeExceeded if one is larger than the plan holds.
    """

    plan: Plan
    question: Compare | Measure
    sizes: Array
    seating: Seating
    hidden: bool = False
    aside: int = 0

    @cached_property
    def contest(self) -> Contest:
        """Which comparisons decide."""
        self.plan.lanes(self.sizes)  # refuses what the plan does not hold
        return self.rivals.contest

    @cached_property
    def rivals(self) -> Rivals:
        """What is compared."""
        if self.hidden:
            return Sides(self.sizes)
        weights = self.plan.weights(self.sizes)
        return rivals_in(self.question, weights, self.plan.code.ell)

    @cached_property
    def rounding(self) -> Rounding | None:
        """How centers of clusters with points are rounded before anything else; None if they are exact."""
        plan = self.plan
        if plan.fraction is None:
            return None
        plan.lanes(self.sizes)
        sizes, width = tuple(self.sizes[self.sizes > 0].tolist()), plan.code.ell * plan.code.width(plan.d)
        largest, multiple = plan.proven + self.aside, plan.layout.multiple
        return Rounding(plan.code.basis, sizes, width, largest, plan.fraction, multiple)

    @property
    def opens(self) -> bool:
        """Whether points are compared, and not numbers of clusters asked for."""
        return not (isinstance(self.question, Measure) or self.question.counts)

    @property
    def shared(self) -> int:
        """The step after the question in which shares of rounded centers are sent; 0 if they are exact."""
        # Opening among three and more takes two steps where much is opened.
        return 0 if self.rounding is None else OPEN + 2 * self.rounding.openings

    def awaiting(self, name: PartyId, step: int) -> Iterator[tuple[int, tuple[PartyId, ...]]]:
        """The steps in which others may wait for a player that goes no further than this step, and who.

        After an opening that is the next; who waits for the dealer has sent its masked values before.
        """
        members = tuple(c for c in self.committee if c != name)
        waits = dict.fromkeys((self.begun + SUM, self.begun + OPEN), members)
        if self.rounding is not None:
            waits |= dict.fromkeys((SUM, OPEN), members)
            waits[self.shared] = tuple(c for c in self.responders if c != name)
            waits[self.begun + SEND] = tuple(c for c in self.parts if c != name)
            if not self.opens:
                waits = {at: who for at, who in waits.items() if at <= self.shared}
        elif step == 0:
            waits[SEND] = members
        if step > DEAL:
            waits.setdefault(step + 1, members)
        yield from ((at, waits[at]) for at in sorted(waits) if at > step)

    @property
    def begun(self) -> int:
        """How many steps later the comparison begins, whose steps are numbered as ever."""
        return max(0, self.shared - 1)

    @cached_property
    def schedule(self) -> Schedule | Tournament | InTurn:
        """How the comparison goes, see `arranged`; undivided where nothing is compared."""
        plan, contest = self.plan, self.contest
        if self.hidden:
            return Schedule(contest, plan.code.basis, plan.m)
        return arranged(plan, contest, self.m, self.seating if self.opens else NOBODY)

    @cached_property
    def m(self) -> int:
        """Points that are compared."""
        return self.rivals.points(self.plan.m)

    @property
    def shape(self) -> tuple[int, int]:
        """Of distances: how many of a point compete, points."""
        return self.rivals.rows, self.m

    @cached_property
    def responders(self) -> tuple[PartyId, ...]:
        return self._names(self.question.responders)

    @cached_property
    def committee(self) -> tuple[PartyId, ...]:
        return self._names(self.question.committee)

    @property
    def corrected(self) -> PartyId:
        """The member that gets the dealer's corrections."""
        return self.committee[self.question.corrected]

    @cached_property
    def parts(self) -> dict[PartyId, slice]:
        """The points whose masked distances a member sums up for the others, by member.

        Few distances are summed up by the corrected member alone, many by all members.
        """
        size, first = len(self.committee), self.question.corrected
        count = max(1, min(size, self.shape[0] * self.m // WORTH_SPLITTING))
        parts = cuts(self.m, count)
        return {self.committee[(first + i) % size]: part for i, part in enumerate(parts)}

    @cached_property
    def context(self) -> bytes:
        """What streams are bound to: whoever was told another question expands other masks."""
        question, schedule, plan = self.question, self.schedule, self.plan
        public = (
            plan.digest(), question.round, question.k, schedule.basis.primes, schedule.m,
            self.sizes.tolist(), plan.fraction, question.responders.tolist(), question.committee.tolist(),
            question.corrected, question.factor, question.subject,
        )  # fmt: skip
        return hashlib.blake2b(repr(public).encode(), digest_size=32, person=b"secfc-match").digest()

    @property
    def feeds(self) -> int:
        """How many portions the dealer may send after the first."""
        return len(self.schedule.parts) if isinstance(self.schedule, InTurn) else 0

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
        used, weights = code.decoding(tuple(self.question.responders.tolist()), 2)
        return np.asarray(weights[: self.schedule.basis.lanes, used.index(self.plan.clients.index(me))])

    def _names(self, numbers: Array) -> tuple[PartyId, ...]:
        return tuple(self.plan.clients[j] for j in numbers.tolist())


def check_words(sender: PartyId, words: Array, shape: tuple[int, ...]) -> Array:
    """Words of this shape.  Raises FaultyClient or FaultyServer naming the sender of anything else."""
    if words.dtype != np.uint64 or words.shape != shape:
        raise faulty(sender, f"sent {words.dtype}{words.shape} where uint64{shape} was due")
    return words


def labels_of(match: Match, shares: Mapping[PartyId, LabelShare]) -> Array:
    """The labels (m,) int32 that all members' shares add up to.

    Raises FaultyClient for words of another shape, SuspectedParties for digits that nobody honest opens: also
    the dealer, as false tables show in the members' shares.
    """
    schedule = match.schedule
    shape = schedule.places, schedule.per
    words = [check_words(c, m.words, shape) for c, m in shares.items()]
    try:
        return match.rivals.labels(dealt.labels(schedule, reduce(np.bitwise_xor, words)))
    except ValueError:
        why = "the shares of the labels add up to clusters that are not there"
        raise SuspectedParties((*match.committee, *match.seating.dealers), why) from None


def check_opening(basis: Basis, sender: PartyId, share: Array, mine: Array) -> Array:
    """Another member's share of what I open a share of: words, or residues (lanes, ...).

    Raises FaultyClient naming the sender of anything else.
    """
    if mine.dtype == np.uint64:
        return check_words(sender, share, mine.shape)
    check_residues(basis, sender, share, mine.shape[1:])
    return share
