"""How clients hear one another while they compare: all that is awaited, or an error with who is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from field.arrays import Array
from field.compare.correlated_randomness import NEXT, PartyRandomness
from field.compare.dealer_protocol import Moves, combine_openings
from field.kernels.compiling import run_parallel, split_range
from field.ring.basis import Basis
from secfc.coded.messages import Corrections, MaskedBits, MissingMessages, RequestCorrections
from secfc.coded.policy import DistanceOracle
from secfc.coded.quorum import NOBODY_MISSED, receive_all
from secfc.disclosure.checked.blocks import Blocks
from secfc.disclosure.checked.messages import PartDigests
from secfc.disclosure.checked.steps import CheckingClient
from secfc.disclosure.checked.words import CommitteeWords
from secfc.disclosure.compare.dealer import Dealt
from secfc.disclosure.compare.session import ComparisonSession, check_opening, check_words
from secfc.roles.exchange import END, STRIDE, Exchange, PartyId, Role, to_all

R = TypeVar("R")


@dataclass(frozen=True, eq=False, repr=False)
class StartedComparison:
    """What precedes a comparison is done: what my rows are measured to; whom the dealer missed; words (n,)
    that are left of the dealer's first, None if they are still to come; at a dealer, what is left to deal;
    checking: my part in the check of replies, if these are checked; spoken: at a member, its part in what the
    committee says.  beside: checks of what precedes that began, and go on beside: of sums, and of what was
    said of rounded centers."""

    measured: DistanceOracle
    missing: Array
    words: Array | None = None
    left: Dealt = field(default_factory=Dealt)
    checking: CheckingClient | None = None
    spoken: CommitteeWords | None = None
    beside: tuple[InterleavedRole, ...] = ()

    @property
    def words_of_member(self) -> CommitteeWords:
        """A member's part in what the committee says."""
        if self.spoken is None:
            raise RuntimeError("a member takes part in the check of replies and words")
        return self.spoken


class InterleavedRole:
    """A fragment whose exchanges go between those of another: each is said beside one of that, and waited for
    after it.  Rounds of the two rise together.

    heard: what was heard, if what comes of that is still to be computed."""

    def __init__(self, role: Role[None]) -> None:
        self.role, self.next, self.said = role, next(role, None), False
        self.heard: Mapping[PartyId, Any] | None = None

    def say(self, before: int) -> Role[None]:
        """Send what is due before this round."""
        self.catch_up()
        while self.next is not None and not self.said and self.next.round < before:
            yield self.next.change(expect=())
            if self.next.expect:
                self.said = True
            else:
                self._go_on({})

    def hear(self, before: int, *, later: bool = False) -> Role[None]:
        """Wait for what is due before this round.  later: it is taken by `catch_up`."""
        self.catch_up()
        if self.next is not None and self.said and self.next.first < before:
            self.heard = yield self.next.change(send={})
            if not later:
                self.catch_up()

    def catch_up(self) -> None:
        """Take what was heard."""
        if self.heard is not None:
            heard, self.heard = self.heard, None
            self._go_on(heard)

    @staticmethod
    def say_all(lanes: Sequence[InterleavedRole], before: int) -> Role[None]:
        """Send what is due of several before this round."""
        for lane in lanes:
            yield from lane.say(before)

    @staticmethod
    def hear_all(lanes: Sequence[InterleavedRole], before: int) -> Role[None]:
        """Wait for what is due of several before this round, in the order of rounds."""
        for lane in lanes:
            yield from lane.hear(before)

    @staticmethod
    def take_turns(lanes: Sequence[InterleavedRole], before: int) -> Role[None]:
        """Send what is due of several before this round, then wait for it."""
        yield from InterleavedRole.say_all(lanes, before)
        yield from InterleavedRole.hear_all(lanes, before)

    @staticmethod
    def finish(lanes: Sequence[InterleavedRole], spacing: int, until: int = END) -> Role[None]:
        """Run several to their ends, or to a round, whose steps of one turn lie within so many rounds."""
        for lane in lanes:
            lane.catch_up()
        while due := [lane.next.round for lane in lanes if lane.next is not None and lane.next.round < until]:
            yield from InterleavedRole.take_turns(lanes, min(min(due) + spacing, until))

    def _go_on(self, inbox: Mapping[PartyId, Any]) -> None:
        self.said = False
        try:
            self.next = self.role.send(inbox)
        except StopIteration:
            self.next = None


class SpokenExchanges:
    """Exchanges with all other members, one after the other.  spoken: what goes with openings, where this is
    checked."""

    def __init__(self, spoken: CommitteeWords | None) -> None:
        self.spoken = spoken

    def __call__(self, send: Mapping[PartyId, MaskedBits]) -> Role[Mapping[PartyId, MaskedBits]]:
        """What all others open."""
        if self.spoken is not None:
            send = self.spoken.attached(send)
        shares = yield from self.exchange(send, MaskedBits)
        if self.spoken is not None:
            self.spoken.receive(shares)
        return shares

    def exchange(self, send: Mapping[PartyId, Any], kind: type[Any]) -> Role[dict[PartyId, Any]]:
        """What all others say, of this kind."""
        raise NotImplementedError

    def finish_check(self) -> Role[None]:
        """Wait for what is left of a check that goes on beside."""
        yield from ()

    def check(self) -> None:
        """Compute what is left of that check, before anything else is said."""


def take_dealt(client: CheckingClient | None, words: CommitteeWords | None) -> Role[None]:
    """Take what members deal for a check, and of those that play my parts.  Raises MissingMessageError."""
    if client is not None:
        yield from client.take()
        if words is not None:
            words.take(client.told)


class CommitteeRounds(SpokenExchanges):
    """One exchange after the other with the other members, all of whom are heard.

    number: the round of the first.  step: its step after the question, which errors name.  checks: a check
    that goes on beside, one step after each of so many exchanges; of several in this order.  spacing: rounds
    from one of these exchanges to the next.
    """

    def __init__(
        self,
        number: int,
        step: int,
        others: tuple[PartyId, ...],
        spoken: CommitteeWords | None = None,
        checks: tuple[Sequence[InterleavedRole], int] = ((), 0),
        spacing: int = 2,
    ) -> None:
        super().__init__(spoken)
        self.number, self.step, self.others, self.spacing = number, step, others, spacing
        self.beside, self.left = checks

    def exchange(self, send: Mapping[PartyId, Any], kind: type[Any]) -> Role[dict[PartyId, Any]]:
        """What all others say, of this kind.  Raises MissingMessageError, and what the check beside does."""
        wait = Exchange(dict(send), self.others, 0, round=self.number, phase="compare")
        if self.left:
            yield wait.change(expect=())
            for lane in self.beside:
                yield from lane.say(self.number + self.spacing)
            wait = wait.change(send={})
        heard: dict[PartyId, Any] = yield from receive_all(wait, kind, self.step)
        if self.left:
            for lane in self.beside:
                yield from lane.hear(self.number + self.spacing, later=True)
        self._turn()
        return heard

    def check(self) -> None:
        for lane in self.beside:
            lane.catch_up()

    def finish_check(self) -> Role[None]:
        while self.left:
            yield from InterleavedRole.take_turns(self.beside, self.number + self.spacing)
            self._turn()
        # Nothing leaves before all of it is done, in whatever rounds it is.
        yield from InterleavedRole.finish(self.beside, STRIDE)

    def _turn(self) -> None:
        more = self.spacing if self.left else 1
        self.number, self.step, self.left = self.number + more, self.step + more, max(0, self.left - 1)


# --------------------------------------------------------------------------------------------------
# How the member that gets corrections has the next portion of them, where a comparison has several.


@dataclass(eq=False, repr=False)
class CorrectionStream:
    """One member's; portions: words of each.  hand: what they are fed to, at a member that gets them.
    next: the number of the one that is next."""

    match: ComparisonSession
    name: PartyId
    dealer: PartyId
    portions: tuple[int, ...]
    hand: PartyRandomness | None
    next: int = 1

    def __call__(self, step: int) -> Role[None]:
        """Ask the dealer for the next portion, and take it, if this member gets any.

        step: the last one of the answer.  Raises NothingHeardError of it.
        """
        match, number = self.match, self.next
        if self.name not in match.correctors or self.hand is None:
            return
        self.next += 1
        yield Exchange(
            {self.dealer: RequestCorrections(number)}, round=match.asked_in(number), phase="compare"
        )
        wait = Exchange({}, (self.dealer,), 0, round=match.given_in(number), phase="compare")
        told = (yield from receive_all(wait, Corrections, step))[self.dealer]
        self.hand.feed(check_words(self.dealer, told.words, (self.portions[number],)))


def stop_requesting(match: ComparisonSession, name: PartyId) -> Role[None]:
    """Tell the dealer that no portion will be asked for, if I am the member that gets them."""
    dealer = match.seating.dealer
    if name in match.correctors and dealer is not None:
        for number in range(1, match.feeds + 1):
            told = MissingMessages(0, NOBODY_MISSED)
            yield Exchange({dealer: told}, round=match.asked_in(number), phase="compare")


# --------------------------------------------------------------------------------------------------
# How a committee opens what its members have shares of: all tell all, or each adds up a cut for all.

# One exchange with the other members, all of whom are heard.
Talk = Callable[[Mapping[PartyId, MaskedBits]], Role[Mapping[PartyId, MaskedBits]]]

# From so many bytes on it is worth a round more that every member adds up a cut, and tells the others the
# sum: of c members all together tell 2 (c - 1) times what is opened, not c (c - 1) times.  Where parts are
# played by several, all are told directly if that takes no more messages than members.
WORTH_PARTS = 1 << 15


def play_games(
    match: ComparisonSession,
    spoken: CommitteeWords,
    games: Mapping[int, Moves],
    talk: SpokenExchanges,
    feed: Callable[[], Role[None]] | None = None,
    threads: int = 1,
) -> Role[dict[int, Any]]:
    """The results of the parts that I play, of whose words nothing is left to check by others.

    feed: has the next portion of corrections ready, where there are several.  threads: of the processor, for
    parts that move at the same time.  Raises SuspectedParties if what the committee said does not fit.
    """
    told: Array | None = None
    while True:
        said, results = play_parts(games, told, threads, [*spoken.take_due(), talk.check])
        if results:
            return results
        if feed is not None and next(iter(said.values())) is NEXT:
            yield from feed()
            told = None
            continue
        me, basis = spoken.name, spoken.basis
        told = yield from reconstruct_parts(basis, match.blocks, match.committee, me, said, talk, threads)
        spoken.hold(said, told)


def conclude_words(spoken: CommitteeWords, talk: SpokenExchanges) -> Role[None]:
    """Check all that was said, where several play each part, before anything leaves the committee.

    A last coin is opened beside what is left of a check of replies, as every opening is.

    Raises SuspectedParties if it does not fit.
    """
    others = [c for c in spoken.committee if c != spoken.name]
    if spoken.blocks.deviating:
        yield from talk({c: MaskedBits(np.empty(0, np.uint64)) for c in others})
    yield from talk.finish_check()
    if spoken.blocks.deviating:
        spoken.conclude((yield from talk.exchange(to_all(others, spoken.digests()), PartDigests)))


def conclude_beside(
    spoken: CommitteeWords, number: int, steps: tuple[int, int], then: Role[None]
) -> Role[None]:
    """Check all that was said, in steps of their own beside what follows; and then what nobody says before.

    number: of the question.  Raises SuspectedParties, MissingMessageError.
    """
    others = tuple(c for c in spoken.committee if c != spoken.name)
    if spoken.blocks.deviating:
        coin, digests = (CommitteeRounds(number + step, step, others, spoken) for step in steps)
        yield from coin({c: MaskedBits(np.empty(0, np.uint64)) for c in others})
        spoken.conclude((yield from digests.exchange(to_all(others, spoken.digests()), PartDigests)))
    yield from then


def note_rounds(answer: Role[R], said: dict[PartyId, int]) -> Role[R]:
    """An answer, of which the round is noted in which something was said to each party last."""
    try:
        exchange = next(answer)
        while True:
            said.update(dict.fromkeys(exchange.send, exchange.round))
            exchange = answer.send((yield exchange))
    except StopIteration as done:
        result: R = done.value
        return result


def play_parts(
    games: Mapping[int, Moves], told: Array | None, threads: int, beside: Sequence[Callable[[], None]] = ()
) -> tuple[dict[int, Array], dict[int, Array]]:
    """What each part opens next, given what was opened last; or, at the end, its share of the result.

    beside: what else is to be done meanwhile.
    """

    def play_one(game: Moves) -> tuple[bool, Array]:
        try:
            return False, game.send(told)
        except StopIteration as done:
            return True, done.value

    moves = [partial(play_one, game) for game in games.values()]
    # What has parts of its own is last: whoever has nothing else to do takes some of them.
    tasks: list[Callable[[], Any]] = [*moves, *beside]
    moved = run_parallel(tasks, threads)[: len(moves)]
    said, shares = (
        {q: value for q, (ended, value) in zip(games, moved, strict=True) if ended is which}
        for which in (False, True)
    )
    return said, shares


def reconstruct(
    basis: Basis, members: Sequence[PartyId], me: PartyId, mine: Array, talk: Talk
) -> Role[Array]:
    """What all members' shares add up to, of which this is mine: words, or residues (lanes, ...).

    members: the same order at all of them.  Raises FaultyClient for a share of another shape.
    """
    alone = Blocks((len(members),), 0)
    return (yield from reconstruct_parts(basis, alone, members, me, {members.index(me): mine}, talk))


def reconstruct_parts(
    basis: Basis,
    blocks: Blocks,
    members: Sequence[PartyId],
    me: PartyId,
    mine: Mapping[int, Array],
    talk: Talk,
    threads: int = 1,
) -> Role[Array]:
    """What all parts open adds up to; the first one of a part tells it to those who do not play it.

    mine: what the parts that I play open, by number.  threads: of the processor.
    """
    at, others = members.index(me), [c for c in members if c != me]
    some = next(iter(mine.values()))
    words = some.dtype == np.uint64
    ring = basis if words else basis.prefix(len(some))
    add_up = partial(combine_openings, ring, threads=threads)
    nothing = some.reshape(-1)[:0] if words else some.reshape(len(some), -1)[:, :0]

    made: dict[tuple[int, tuple[int, ...]], Array] = {}

    def told(cut: Mapping[int, Array], to: int) -> Array:
        """What I tell a member of what my parts open: of one cut the same to all who lack the same parts."""
        parts = blocks.told_to(at, to)
        if (key := (id(cut), parts)) not in made:
            made[key] = add_up([cut[q] for q in parts]) if parts else nothing
        return made[key]

    def exchanged(send: Mapping[PartyId, Array], due: Mapping[PartyId, Array]) -> Role[list[Array]]:
        # Who is told the same gets one message.
        each = {id(share): MaskedBits(share) for share in send.values()}
        heard = yield from talk({c: each[id(share)] for c, share in send.items()})
        return [check_opening(ring, c, heard[c].words, due[c]) for c in others]

    def summed(cuts: Sequence[Mapping[int, Array]]) -> Role[Array]:
        """What my cut adds up to, of one cut a member, which I tell that member my words of."""
        shape = next(iter(cuts[at].values()))
        speaks = {i: bool(blocks.told_to(i, at)) for i in range(len(members))}
        due = {c: shape if speaks[i] else nothing for i, c in enumerate(members)}
        send = {c: told(cuts[i], i) for i, c in enumerate(members) if c != me}
        heard = yield from exchanged(send, due)
        return add_up([*cuts[at].values(), *(share for share in heard if share.size)])

    flat = {q: x.reshape(-1) if words else x.reshape(len(x), -1) for q, x in mine.items()}
    length = next(iter(flat.values())).shape[-1]
    if blocks.direct <= len(members) or some.nbytes < WORTH_PARTS or length < len(members):
        return (yield from summed([mine] * len(members)))
    where = split_range(length, len(members))
    cuts = [{q: np.ascontiguousarray(x[..., cut]) for q, x in flat.items()} for cut in where]
    total = yield from summed(cuts)
    due = {c: next(iter(cuts[i].values())) for i, c in enumerate(members)}
    sums = {
        me: total,
        **dict(zip(others, (yield from exchanged(dict.fromkeys(others, total), due)), strict=True)),
    }
    out = np.empty_like(next(iter(flat.values())))
    for c, cut in zip(members, where, strict=True):
        out[..., cut] = sums[c]
    return out.reshape(some.shape)
