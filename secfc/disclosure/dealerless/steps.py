"""Computing together on bits that any t of 2t + 1 clients, or more, know nothing of: role fragments.

The mathematics is in `field.compare.replicated`, `field.compare.witnessed` and `field.compare.circuits`; here
is who tells whom, and what happens when somebody falls silent: the fragment ends with `StalledStep`, and the
server asks again, in new rounds and so under new masks, without whom it blames.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from field.arrays import Array
from field.code.masking import PairKeys
from field.compare.circuits import Circuit
from field.compare.replicated import ReplicatedCommittee, ReplicatedPlayer, ScratchArrays
from field.compare.witnessed import FalseWords, Shared, Told, WitnessedCommittee, WitnessedPlayer
from field.secrets.coins import Coins
from secfc.coded.messages import MaskedBits, MissingMessages
from secfc.errors import FaultyClient
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import SERVER, Exchange, PartyId, Role, expect_messages
from secfc.roles.messages import Message, is_array, refuse_if

M = TypeVar("M", bound=Message)
R = TypeVar("R")


# What committees that compute without a dealer say.


class SetKeys(Message, tag=50):
    """Client to client: keys (keys, 16) uint8 of the sets of clients that both belong to, which it drew.

    Under AssignmentsOnly(dealer=None): client, client.  Seen: keys of sets of `t + 1`: the clients
    outside any `t` share one that these lack.  By deviating: give members of a set different keys: wrong
    labels, unnoticed.

    Under OwnLabels(dealer=None): as under `AssignmentsOnly(dealer=None)`.

    Under FinalLabelsOnly(); NoisySums(dealer=None): as under `OwnLabels(dealer=None)`.
    """

    keys: Array

    def __post_init__(self) -> None:
        rule = "keys of sets are (keys, 16) bytes"
        refuse_if(not is_array(self.keys, "u", 2), rule)
        refuse_if(self.keys.shape[1] != 16 or self.keys.dtype != np.uint8, rule)


class SeatDigest(Message, tag=221):
    """Client to client: a digest (32 bytes) of keys of sets that both belong to, as the sender was told them.

    To who plays the same part also of this part.

    Under "without a dealer, with parts played by two": client, client of the committee.  Seen: a digest
    of keys of common sets, and between the two of a part of their replies: of what the receiver has.  By
    deviating: another one ends the run. So different keys or replies to two are noticed before anything
    is computed with them.
    """

    digest: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.digest) != 32, f"a digest has 32 bytes, this one has {len(self.digest)}")


class WitnessedBits(Message, tag=222):
    """Client to client: shares of bits, and a tag of those that another tells the recipient.

    words: (groups, rows, words) uint64, uniform to any t recipients.  vouched: 16 bytes; none if it vouches
    for nothing.

    Under "without a dealer, with parts played by two": client, client of the committee.  Seen: words of
    shared bits under masks that the coalition lacks, and a tag of words that another sends, under a key
    of two.  By deviating: false words, or a false tag: noticed by each receiver before it computes on
    them, but for `2**-100`.
    """

    words: Array
    vouched: bytes

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.words, "u", 3), "shares of bits are words, (groups, rows, words)")
        size = len(self.vouched)
        refuse_if(size not in (0, 16), f"a tag has 16 bytes or none, this one has {size}")


class StalledStep(Exception):  # noqa: N818 - what happened
    """Messages of these clients (their numbers) did not come, in this step of an answer; -1 is before all.

    later: a step, further on, in which others wait for me already; 0 if there is none.
    """

    def __init__(self, step: int, missing: Collection[int], later: int = 0) -> None:
        super().__init__(f"step {step} waits for clients {sorted(missing)}")
        self.step, self.missing, self.later = step, np.array(sorted(missing), np.int32), later

    @property
    def report(self) -> MissingMessages:
        """What the server is told: a step above 0, so counted from two before the first; who was not heard
        earlier is why others were not."""
        return MissingMessages(max(1, self.step + 2), self.missing)


class AnswerRounds:
    """The exchanges of one answer, in rounds after the question's, all masks of which are bound to it."""

    def __init__(self, clients: tuple[PartyId, ...], number: int, subject: bytes = b"") -> None:
        self.clients, self.number, self.subject, self.step = clients, number, subject, 0

    @property
    def nonce(self) -> int:
        """A number for the masks of the next exchange: it only grows, also from answer to answer."""
        return self.number + self.step + 1

    def skip(self) -> None:
        """Leave out a step that others may take."""
        self.step += 1

    def exchange(
        self, send: Mapping[int, Message], expect: Collection[int], kind: type[M]
    ) -> Role[dict[int, M]]:
        """Send to clients, and receive from others, by number.

        Raises Stalled if not all of them speak, or one goes no further; FaultyClient for another kind of
        message.
        """
        received, silent = yield from self.heard(send, expect, kind)
        if len(received) < len(expect):
            # Who says that it goes no further is there, and not to blame.
            raise StalledStep(self.step, silent)
        return received

    def heard(
        self, send: Mapping[int, Message], expect: Collection[int], kind: type[M]
    ) -> Role[tuple[dict[int, M], set[int]]]:
        """Exchange where some may be gone: what the others sent, and who sent nothing at all."""
        self.step += 1
        peers = {self.clients[i]: i for i in expect}
        inbox = yield Exchange(
            {self.clients[i]: message for i, message in send.items()}, tuple(peers), 0,
            round=self.number + self.step, phase="compare",
        )  # fmt: skip
        further = {
            name: message for name, message in inbox.items() if not isinstance(message, MissingMessages)
        }
        received = {peers[name]: message for name, message in expect_messages(further, kind).items()}
        return received, {peers[name] for name in peers if name not in inbox}


@dataclass(frozen=True, eq=False, repr=False)
class SharedKeySeats:
    """A committee of clients: numbers[p] is the client in place p; sets are the keys of the sets I am in."""

    committee: ReplicatedCommittee | WitnessedCommittee
    numbers: tuple[int, ...]
    place: int
    sets: PairKeys
    shared: Mapping[int, bytes]

    @property
    def is_member(self) -> bool:
        return self.place in self.committee.members

    def client(self, places: Collection[int]) -> list[int]:
        return [self.numbers[p] for p in places]

    def agree(self, steps: AnswerRounds, part: Sequence[Array], suspects: Collection[PartyId]) -> Role[None]:
        """Compare, by digests, that all have the same keys of sets, and the two of a part the same part.

        Else two would compute different words, see `field.compare.witnessed`.  part: mine, which those who
        play it tell one another a digest of.  Raises SuspectedParties of suspects.
        """
        committee = self.committee
        own = hashlib.blake2b(digest_size=32, person=b"secfc-own-part")
        for array in part:
            own.update(np.ascontiguousarray(array).data)
        mine = {}
        for p, i in enumerate(self.numbers):
            if p != self.place:
                same = committee.part_of(p) == committee.part_of(self.place)
                text = self.shared[p] + (own.digest() if same else b"")
                mine[i] = SeatDigest(hashlib.blake2b(text, digest_size=32, person=b"secfc-seats").digest())
        received = yield from steps.exchange(mine, list(mine), SeatDigest)
        if any(received[i].digest != mine[i].digest for i in mine):
            why = (
                "two were told different keys, or different parts of replies; nothing was computed with them"
            )
            raise suspect_parties("SeatDigest", why, players=suspects, server=SERVER)

    def play(
        self, steps: AnswerRounds, keys: PairKeys, rooms: ScratchArrays
    ) -> CommitteeComputation | WitnessedComputation:
        """My part of one computation, under masks of its own: its first step has a round of its own.

        Raises Stalled for a client whose key never came.
        """
        context = b"secfc joint" + bytes(str(self.numbers), "ascii") + steps.subject
        others = {i: p for p, i in enumerate(self.numbers) if p != self.place}
        pairs = keys.streams(steps.nonce, context, others)
        if len(pairs) < len(others):
            raise StalledStep(steps.step, set(others) - set(pairs))
        streams = {others[i]: stream for i, stream in pairs.items()}
        sets = self.sets.streams(steps.nonce, context)
        if isinstance(self.committee, WitnessedCommittee):
            player = WitnessedPlayer(self.committee, self.place, streams, sets, rooms)
            return WitnessedComputation(self, steps, player)
        return CommitteeComputation(
            self, self.committee, steps, ReplicatedPlayer(self.committee, self.place, streams, sets, rooms)
        )


def setup_replicated_keys(
    committee: ReplicatedCommittee | WitnessedCommittee,
    numbers: tuple[int, ...],
    me: int,
    steps: AnswerRounds,
    coins: Coins,
) -> Role[SharedKeySeats]:
    """Deal the keys of all sets of places, each by the first of the set."""
    place = numbers.index(me)
    held = committee.held(place)
    mine = {q: coins.bytes(16) for q in held if committee.sets[q][0] == place}
    send = {}
    for p, i in enumerate(numbers):
        common = [key for q, key in mine.items() if p in committee.sets[q]]
        if p != place and common:
            send[i] = SetKeys(np.frombuffer(b"".join(common), np.uint8).reshape(-1, 16).copy())
    dealers = {p: [q for q in held if committee.sets[q][0] == p] for p in range(place)}
    dealers = {p: sets for p, sets in dealers.items() if sets}
    received = yield from steps.exchange(send, [numbers[p] for p in dealers], SetKeys)
    for p, sets in dealers.items():
        keys = received[numbers[p]].keys
        if len(keys) != len(sets):
            raise FaultyClient(
                steps.clients[numbers[p]], f"dealt {len(keys)} keys where {len(sets)} were due"
            )
        mine |= {q: key.tobytes() for q, key in zip(sets, keys, strict=True)}
    shared = {}
    for p in set(range(committee.size)) - {place}:
        both = b"".join(mine[q] for q in held if p in committee.sets[q])
        shared[p] = hashlib.blake2b(both, digest_size=32, person=b"secfc-set-keys").digest()
    return SharedKeySeats(committee, numbers, place, PairKeys(mine), shared)


@dataclass(frozen=True, eq=False, repr=False)
class CommitteeComputation:
    """One computation of a committee, at one of its places."""

    seats: SharedKeySeats
    committee: ReplicatedCommittee
    steps: AnswerRounds
    player: ReplicatedPlayer

    def deal(self, planes: Array | None, shape: tuple[int, int]) -> Role[list[Array]]:
        """My shares of the members' bits (rows, words); planes: my own, if I am a member."""
        dealt = self.player.begin_deal(planes, shape)
        place, committee = self.seats.place, self.committee
        # Shares are computed on in place, and what is told belongs to whom it is told.
        told = None if planes is None else self.player.told(dealt[place]).copy()
        received = yield from self._tell(told, shape, committee.members)
        return self.player.end_deal(dealt, received)

    def run(self, circuit: Circuit[R]) -> Role[R]:
        """The result of a circuit on shares."""
        try:
            layer = next(circuit)
            while True:
                product = self.player.begin(layer)
                told = self.player.told(product)
                received = yield from self._tell(told, told.shape, range(self.committee.size))
                layer = circuit.send(self.player.end(product, received))
        except StopIteration as done:
            result: R = done.value
            return result

    def _tell(
        self, told: Array | None, shape: tuple[int, ...], speakers: Collection[int]
    ) -> Role[dict[int, Array]]:
        committee, numbers = self.committee, self.seats.numbers
        receivers = () if told is None else committee.receivers(self.seats.place)
        senders = {numbers[p]: p for p in committee.senders(self.seats.place) if p in speakers}
        message = MaskedBits(told) if told is not None else None
        send = {numbers[p]: message for p in receivers if message is not None}
        received = yield from self.steps.exchange(send, list(senders), MaskedBits)
        for i, bits in received.items():
            if bits.words.shape != shape or bits.words.dtype != np.uint64:
                raise FaultyClient(
                    self.steps.clients[i], f"told bits {bits.words.shape} where {shape} were due"
                )
        return {senders[i]: bits.words for i, bits in received.items()}


@dataclass(frozen=True, eq=False, repr=False)
class WitnessedComputation:
    """One computation of a committee, at one of its places, in which every word has a witness."""

    seats: SharedKeySeats
    steps: AnswerRounds
    player: WitnessedPlayer

    def deal(self, planes: Array | None, shape: tuple[int, int]) -> Role[list[Array]]:
        """My shares of all parts' bits (rows, words); planes: those of my own part."""
        return (yield from self._heard(self.player.begin_deal(planes, shape)))

    def run(self, circuit: Circuit[R]) -> Role[R]:
        """The result of a circuit on shares."""
        try:
            layer = next(circuit)
            while True:
                (product,) = yield from self._heard(self.player.begin(layer))
                layer = circuit.send(list(product))
        except StopIteration as done:
            result: R = done.value
            return result

    def _heard(self, shared: Shared) -> Role[list[Array]]:
        """Shares with what all others say of them.

        Raises SuspectedParties for what no witness vouches for.
        """
        numbers, due = self.seats.numbers, self.player.speakers(shared)
        told = self.player.tell(shared)
        send = {numbers[p]: WitnessedBits(each.words, each.tag) for p, each in told.items()}
        received = yield from self.steps.exchange(send, [numbers[p] for p in due], WitnessedBits)
        heard, rows = {}, shared.shares[0].shape[1:]
        for p, (count, tagged) in due.items():
            bits = received[numbers[p]]
            shape = count, *rows
            if bits.words.shape != shape or bits.words.dtype != np.uint64 or bool(bits.vouched) != tagged:
                raise FaultyClient(
                    self.steps.clients[numbers[p]], f"told bits {bits.words.shape} where {shape} were due"
                )
            heard[p] = Told(bits.words, bits.vouched)
        try:
            return self.player.end(shared, heard)
        except FalseWords as false:
            names = [self.steps.clients[numbers[p]] for p in false.players]
            why = "two that compute the same bits told different ones; nothing of this step was opened"
            raise suspect_parties("WitnessedBits", why, players=names, server=SERVER) from None


Computation = CommitteeComputation | WitnessedComputation
