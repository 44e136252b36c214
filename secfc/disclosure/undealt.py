"""Assignments only, without a dealer: clients compare distances that nobody holds, and open the labels.

The responders' blinded replies sum, with decode weights, to the distances; t + 1 members of a committee of
2t + 1 of them take the sum over in t + 1 additive parts.  Each part becomes binary fractions, shared bit by
bit among the committee, and circuits on shared bits find the nearest center of every point (`field.signs`,
`field.circuits`).  The members' shares of the labels go to the server and open to nothing else.

Nobody but the clients has a secret, so the server may join any t clients: what they see is uniform but for
the labels.  With more than half of the clients curious there is no such protocol without a dealer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from field import signs
from field.basis import Basis
from field.bitslice import numbers, words
from field.blind import PairKeys
from field.circuits import top_bit, wins
from field.coins import Coins
from field.contest import Contest
from field.dealt import codes
from field.quantize import Reach
from field.replicated import Committee, Rooms
from secfc.disclosure.distances import BlindedSource, hidden
from secfc.disclosure.joint import Joint, Seats, Stalled, Steps, sit_down
from secfc.disclosure.policy import Answer, Measured
from secfc.exchange import Exchange, PartyId, ProtocolError, Role, TooFewReplies, take, to_all
from secfc.lloyd import Step
from secfc.messages import Compare, LabelShare, MaskedDistances, Message, Unheard, compact_labels
from secfc.pairing import pair_keys
from secfc.plan import Plan
from secfc.sharing import check_residues
from secfc.starts import Start

Array = NDArray[Any]
M = TypeVar("M", bound=Message)


@dataclass(frozen=True)
class Undealt:
    """Server and clients learn the labels of every iteration, and any t clients with the server no more."""

    def reach(self, d: int, m: int, largest: int | None, init: Start) -> Reach:
        return Reach.comparisons(d, m, largest, init.factor)

    def check(self, plan: Plan) -> None:
        """Raises ValueError for a t or a basis that has no circuits, and a start that needs distances."""
        Committee(plan.code.t)
        if not plan.code.basis.folded:
            raise ValueError(
                f"primes {plan.code.basis.primes} have no kernel that compares secrets: leave the basis out"
            )
        if plan.n_init != 1:
            raise ValueError(
                f"n_init={plan.n_init}: restarts are compared by costs: use n_init=1, or a dealer"
            )
        if plan.init.needs_distances:
            raise ValueError(
                f"{type(plan.init).__name__}() opens the {plan.init.reveals}: take another start, or a "
                "policy that may show distances"
            )

    def client(self, plan: Plan, name: PartyId, *, coins: Coins) -> Role[Answer]:
        keys = yield from pair_keys(plan, name, coins)
        return Comparer(plan, plan.clients.index(name), keys, coins)

    def server(self, plan: Plan, present: tuple[PartyId, ...], *, threads: int) -> Role[UndealtSource]:
        yield from ()
        return UndealtSource(plan, present, threads=threads)

    def learned(self, plan: Plan) -> tuple[str, ...]:
        return (
            "all labels and cluster sizes, in every iteration (so did every client), and no distance, not "
            f"even together with any {plan.code.t} of the clients",
        )


# --- client --------------------------------------------------------------------------------------


class Comparer:
    """A client's half: its keys, and the committees it has sat in."""

    def __init__(self, plan: Plan, me: int, keys: PairKeys, coins: Coins) -> None:
        self.plan, self.me, self.keys, self.coins = plan, me, keys, coins
        self.seats: dict[tuple[int, ...], Seats] = {}
        self.rooms = Rooms()

    def __call__(self, question: Any, measured: Measured) -> Role[Message | None]:
        """What the server is due: a share of the labels, or whose silence prevents it."""
        if self.me not in question.responders:
            return None
        contest = contest_of(question.factor, measured.sizes)
        try:
            share = yield from self.compare(question, contest, measured)
        except Stalled as stalled:
            return Unheard(stalled.step, stalled.missing)
        return Unheard(0, np.empty(0, np.int32)) if share is None else LabelShare(share)

    def compare(self, question: Any, contest: Contest, measured: Measured) -> Role[Array | None]:
        """A member's share (places, words) of the labels' codes; None at all others."""
        plan, steps = self.plan, Steps(self.plan.clients, question.round)
        responders, committee = tuple(question.responders.tolist()), tuple(question.committee.tolist())
        lanes = contest.lanes(plan.code.basis.primes, plan.d, plan.quantizer.max_int)
        # Clusters without points are no candidates, so nobody measures distances to them.
        values = np.ascontiguousarray(measured.distances(lanes)[:, contest.labels[contest.first :]])
        if not hidden(plan, self.me, self.keys, plan.code.t, question, values):
            raise Stalled(0, set(responders) - {self.me} - self.keys.peers)
        part = yield from take_over(plan, self.me, steps, responders, committee, values)
        if self.me not in committee:
            return None
        seats = yield from self.seated(committee, steps)
        joint = seats.play(steps, self.keys, self.rooms)
        share = yield from nearest(joint, contest, plan.code.basis.prefix(lanes), part, plan.m)
        return joint.player.opening(share) if seats.is_member else None

    def seated(self, committee: tuple[int, ...], steps: Steps) -> Role[Seats]:
        """My seat in a committee: its keys are dealt the first time that it meets."""
        if committee not in self.seats:
            seats = yield from sit_down(self.plan.code.t, committee, self.me, steps, self.coins)
            self.seats[committee] = seats
        return self.seats[committee]


def take_over(
    plan: Plan,
    me: int,
    steps: Steps,
    responders: tuple[int, ...],
    committee: tuple[int, ...],
    values: Array,
) -> Role[Array | None]:
    """A member's additive part (lanes, k, m) of all distances; None at others, which tell a member theirs.

    values: my blinded reply.  The members' parts sum to the distances; blinded replies are uniform but for
    their weighted sum, and no member tells its own.
    """
    members = committee[: plan.code.t + 1]
    others = [i for i in responders if i not in members]
    if me not in members:
        to = members[others.index(me) % len(members)]
        yield from steps.exchange({to: MaskedDistances(values)}, (), MaskedDistances)
        return None
    told = others[members.index(me) :: len(members)]
    received = yield from steps.exchange({}, told, MaskedDistances)
    basis = plan.code.basis.prefix(len(values))
    for i, message in received.items():
        check_residues(basis, plan.clients[i], message.values, values.shape[1:])
    return weighted_sum(plan, responders, {me: values, **{i: r.values for i, r in received.items()}})


def weighted_sum(plan: Plan, responders: tuple[int, ...], values: Mapping[int, Array]) -> Array:
    """Sum of some responders' values (lanes, k, m) with their decode weights: canonical residues."""
    chosen, weights = plan.code.decoding(responders, 2)
    total = np.zeros_like(next(iter(values.values())))
    basis = plan.code.basis.prefix(len(total))
    for i, value in values.items():
        for lane in range(basis.lanes):
            weight = int(weights[lane, chosen.index(i)])
            basis.add_scaled(lane, total[lane].reshape(-1), value[lane].reshape(-1), weight)
    return total


def nearest(joint: Joint, contest: Contest, basis: Basis, part: Array | None, m: int) -> Role[Array]:
    """Shares (held, places, words) of the digits of every point's code, from the members' parts."""
    t, count = joint.seats.committee.t, len(contest.comparisons)
    shape = signs.digits(basis, t), count * words(m)
    planes = None
    if part is not None:
        chosen = [(b, a) for a, b, _, _ in contest.comparisons]
        factors = [(u, -v) for _, _, u, v in contest.comparisons]
        first = joint.seats.place == 0
        planes = signs.fractions(basis, t, part, chosen, factors, first=first).reshape(shape)
    dealt = yield from joint.deal(planes, shape)
    bits = yield from joint.run(top_bit(dealt))
    won = yield from joint.run(
        wins(bits.reshape(len(bits), count, -1), contest.literals, contest.wanted, joint.player.constant)
    )
    return np.stack([codes(contest, component) for component in won])


def contest_of(factor: int, sizes: Array) -> Contest:
    return Contest.nearest(sizes) if factor == 1 else Contest.separated(sizes, factor)


# --- server --------------------------------------------------------------------------------------


class UndealtSource(BlindedSource):
    """Steps whose labels a committee opens.  Whoever falls silent is left out of the next attempt."""

    def step(self, labels: Array, k: int) -> Role[Step]:
        sizes = np.bincount(labels[labels >= 0], minlength=k)
        return Step((yield from self.opened(labels, k, sizes)), None)

    def retained(self, sizes: Array) -> Role[Array]:
        return (yield from self.opened(np.full(self.plan.m, -1, np.int32), len(sizes), sizes))

    def separated(self, labels: Array, k: int, factor: int) -> Role[Array]:
        """The cores (m,) int32 of `Exact.separated`."""
        sizes = np.bincount(labels[labels >= 0], minlength=k)
        return (yield from self.opened(labels, k, sizes, factor))

    def opened(self, labels: Array, k: int, sizes: Array, factor: int = 1) -> Role[Array]:
        """The labels (m,) int32 of the contest among centers of clusters of these sizes."""
        if not sizes.any():
            return np.full(self.plan.m, -1, np.int32)
        contest = contest_of(factor, sizes)
        if contest.outcomes == 1:
            return np.full(self.plan.m, contest.labels[-1], np.int32)

        def ask(number: int, asked: Array, committee: Array) -> Compare:
            return Compare(number, k, compact_labels(labels), asked, committee, 0, factor)

        return open_labels(contest, self.plan.m, (yield from self.answered_by_members(ask, LabelShare)))

    def answered_by_members(
        self, ask: Callable[[int, Array, Array], Message], kind: type[M]
    ) -> Role[dict[PartyId, M]]:
        """The answers of the members of a committee that is there, by name.

        ask: makes the question from its round, the numbers of the responders and those of the committee.

        Raises TooFewReplies.
        """
        needed, t = self.plan.code.threshold(2), self.plan.code.t
        while True:
            able = [c for c in self.present if c not in self.silent]
            if len(able) < needed:
                raise TooFewReplies(needed, able)
            asked = np.array([self.plan.clients.index(c) for c in able[:needed]], np.int32)
            number, committee = next(self.rounds), asked[: 2 * t + 1]
            names = tuple(self.plan.clients[i] for i in committee)
            inbox = yield Exchange(
                to_all(self.present, ask(number, asked, committee)), names, 0,
                round=number, exact=True, phase="assign",
            )  # fmt: skip
            answers = {c: reply for c, reply in inbox.items() if isinstance(reply, kind)}
            if len(answers) == t + 1:
                return answers
            take({c: reply for c, reply in inbox.items() if c not in answers}, Unheard)
            self.silent |= self.blamed(names, inbox)

    def blamed(self, committee: tuple[PartyId, ...], inbox: Mapping[PartyId, Any]) -> set[PartyId]:
        """Whom the next attempt leaves out: who is silent, else who was missed first.

        One silence is followed by others, as everybody waits for somebody.
        """
        silent = {c for c in committee if c not in inbox}
        missed = [r for r in inbox.values() if isinstance(r, Unheard) and r.missing.size]
        if not silent and not missed:
            raise ProtocolError("the committee neither opened labels nor missed anybody: start again")
        first = min((reply.step for reply in missed), default=0)
        return silent or {
            self.plan.clients[i] for reply in missed if reply.step == first for i in reply.missing.tolist()
        }


def open_labels(contest: Contest, m: int, shares: Mapping[PartyId, LabelShare]) -> Array:
    """The labels (m,) int32 that the members' shares XOR to.

    Raises ProtocolError if they are none.
    """
    shape = contest.places, words(m)
    for sender, share in shares.items():
        if share.words.shape != shape or share.words.dtype != np.uint64:
            raise ProtocolError(f"{sender} shared labels of another shape: repair its software")
    found = numbers(np.bitwise_xor.reduce([share.words for share in shares.values()]), m)
    if int(found.max()) >= len(contest.labels):
        raise ProtocolError("the members' shares open to no labels: one of them computed falsely")
    return np.asarray(contest.labels[found], np.int32)
