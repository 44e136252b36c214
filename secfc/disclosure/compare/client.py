"""Client side of sessions in which committees compare distances."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar, Protocol

import numpy as np

from field.arrays import Array
from field.code.distances import between_pairs, split_halves
from field.code.masking import PairKeys
from field.ring.basis import Basis
from field.secrets.coins import Coins
from secfc.coded.messages import CodedCosts, CodedGains, LabelShare, MissingMessages
from secfc.coded.plan import CodedPlan
from secfc.coded.policy import DistanceOracle, SettledAnswers
from secfc.coded.queries import Operation, Query
from secfc.coded.quorum import NOBODY_MISSED
from secfc.disclosure.compare.candidates import FirstPairs, candidates_in
from secfc.disclosure.compare.rounds import StartedComparison
from secfc.disclosure.compare.session import CommitteeChoice, ComparisonSession, labels_from_shares
from secfc.disclosure.decoded.replies import CheckedAnswer, check_responders, mask_values
from secfc.errors import FaultyServer
from secfc.roles.exchange import SERVER, STRIDE, Exchange, PartyId, Role, expect_messages, to_all
from secfc.roles.messages import Message


class ComparisonBackend(Protocol):
    """How a client compares: its part in every match."""

    @property
    def seating(self) -> CommitteeChoice:
        """Who compares with it."""
        ...

    @property
    def coins(self) -> Coins:
        """Its coins: secret."""
        ...

    @property
    def first_pairs(self) -> FirstPairs:
        """What it has of blocks of points."""
        ...

    def check(self, question: Query) -> None:
        """Raises FaultyServer for players that this way of comparing does not allow."""
        ...

    def compare(self, match: ComparisonSession, measured: DistanceOracle) -> Role[Message | None]:
        """Its part in one match; what the server is due, None for silence."""
        ...

    def begin(
        self, match: ComparisonSession, measured: DistanceOracle
    ) -> Role[StartedComparison | Message | None]:
        """Its part in what precedes a comparison, the rounding of centers; if it ends with that, what the
        server is due."""
        ...

    @property
    def used_keys(self) -> list[PairKeys]:
        """All its keys that give masks once."""
        ...


class ComparisonClient:
    """A client's answers: called with a question, it plays its part, and hears the labels that are opened.

    keys: with the other clients, each of which gives every mask once.  player: how it compares.
    consent: whether the server may see distances, which a start needs.
    Costs, and distances that were consented to, are blinded against the server with t clients.
    """

    opens: ClassVar[bool] = True
    kept: ClassVar[None] = None

    def __init__(
        self, plan: CodedPlan, name: PartyId, keys: PairKeys, player: ComparisonBackend, *, consent: bool
    ) -> None:
        self.plan, self.name, self.keys, self.player, self.consent = plan, name, keys, player, consent
        self.me = plan.clients.index(name)
        self.colluding = max(1, plan.code.t)
        # Costs are opened for one assignment a restart, and one that k is chosen by, however often lost
        # replies make it be asked again.
        self.restarts = (plan.n_init if plan.n_init > 1 else 0) + (plan.elbow is not None)
        self.costed: set[bytes] = set()
        self.opened: Array | None = None
        self.left_out: set[int] = set()  # clients that the server did without, so called silent

    def __repr__(self) -> str:
        return f"Participant({self.name!r}, secret)"

    @property
    def settled(self) -> SettledAnswers:
        """Between two answers a client has nothing but keys, coins, and whom it did without."""
        player = self.player

        def go_over(question: Query, spent: tuple[int, ...]) -> None:
            self.check_players(question)
            player.coins.skip_to(spent[0])
            for keys, nonce in zip(player.used_keys, spent[1:], strict=True):
                keys.last = nonce

        return SettledAnswers(
            lambda: (player.coins.drawn, *(keys.last for keys in player.used_keys)), go_over
        )

    @property
    def decodable(self) -> CheckedAnswer:
        """How I answer what the server decodes."""
        return CheckedAnswer(self.plan, self.me, self.keys, self.player.coins, self.colluding)

    def __call__(self, question: Query, measured: DistanceOracle) -> Role[Message | None]:
        self.opened = None
        match question.operation:
            case compares if compares.opens == "labels":
                match = self.match(question, measured.sizes)
                return self.told(match, question, self.player.compare(match, measured))
            case Operation.COST:
                self.check_measured(question)
                self.costed.add(question.labels.tobytes())
                if len(self.costed) > self.restarts:
                    raise FaultyServer(SERVER, "asked for costs of more assignments than the plan has")
                return self.cost(question, measured)
            case Operation.GAIN:
                self.check_measured(question)
                return self.gains(question, measured, *split_halves(question.k // 2))
            case Operation.LOSS:
                self.check_measured(question)
                return self.gains(question, measured, *question.detail.T)
            case distances if distances.opens == "distances" and self.consent:
                return self.decodable(question, measured)
            case _:
                raise FaultyServer(
                    SERVER, f"asked for {question.operation.opens}, which this policy never shows"
                )

    def watch(self, question: Query, sizes: Array) -> Role[None]:
        """No part of mine, but to hear what others open.  sizes: of the clusters that are measured to."""
        self.opened = None
        if question.operation.opens == "labels":
            yield from self.hear(self.match(question, sizes), question, {})

    def check_measured(self, question: Query) -> None:
        """Raises FaultyServer for other players than the plan has: a committee where centers are rounded."""
        if self.plan.fraction is not None:
            self.check_players(question)
        elif question.committee is not None:
            raise FaultyServer(SERVER, "asked a committee to round centers, which are exact")
        else:
            check_responders(self.plan, question)

    def match(self, question: Query, sizes: Array) -> ComparisonSession:
        """The comparison that is asked for.  Raises FaultyServer for one that the plan does not have."""
        self.check_players(question)
        if (
            candidates_in(question.subject, sizes, self.plan.code.ell, self.plan.d).labels_by_sizes(
                self.plan.m
            )
            is not None
        ):
            raise FaultyServer(
                SERVER, "asked to compare what sizes decide: fewer than two clusters with points"
            )
        found = ComparisonSession(self.plan, question, sizes, self.player.seating)
        keeping = self.name in (*found.committee, *self.player.seating.dealers)
        self.player.first_pairs.forget(found.rivals)
        if keeping and self.player.first_pairs.lacking(question.members, found.rivals):
            raise FaultyServer(SERVER, "asked about two blocks of points of which one was not asked about")
        return found

    def told(self, match: ComparisonSession, question: Query, answer: Role[Message | None]) -> Role[None]:
        """Answer the server, and if I am in the committee, tell all clients before it what I tell it.

        So whoever asks about these labels next asks clients that know them.
        """
        message = yield from answer
        number, mine = question.round, dict[PartyId, LabelShare | MissingMessages]()
        if self.name in match.committee:
            share = message if isinstance(message, LabelShare) else MissingMessages(0, NOBODY_MISSED)
            others = (c for c in self.plan.clients if c != self.name)
            yield Exchange(to_all(others, share), round=label_check_round(question), phase="open")
            mine = {self.name: share}
        send = {} if message is None else {SERVER: message}
        yield Exchange(send, round=number, phase="distances")
        yield from self.hear(match, question, mine)

    def hear(
        self, match: ComparisonSession, question: Query, mine: Mapping[PartyId, LabelShare | MissingMessages]
    ) -> Role[None]:
        """What the committee opens, unless one of it could not, or is not heard.  mine: my own word of it."""
        members = tuple(c for c in match.committee if c != self.name)
        wait = Exchange({}, members, 0, round=label_check_round(question), phase="open")
        inbox = {**mine, **(yield wait)}
        told = {c: m for c, m in inbox.items() if not isinstance(m, MissingMessages)}
        shares = expect_messages(told, LabelShare)
        if len(shares) == len(match.committee):
            self.opened = labels_from_shares(match, shares)

    def check_players(self, question: Query) -> None:
        """Raises FaultyServer for players or a comparison that the plan does not have."""
        check_responders(self.plan, question)
        self.check_committee(question.members)
        blocks = self.player.seating.of(len(question.members))
        if blocks is not None and question.corrected >= len(blocks.parts):
            raise FaultyServer(SERVER, f"corrects part {question.corrected} of {len(blocks.parts)}")
        self.check_order(question.responders.tolist(), question.members.tolist())
        if question.subject.factor not in (1, self.plan.init.factor):
            raise FaultyServer(SERVER, f"asked to compare by a factor of {question.subject.factor}")
        self.player.check(question)

    def check_committee(self, committee: Array) -> None:
        """Raises FaultyServer for a committee (numbers of clients) in which fewer could learn more."""
        members, seating = committee.tolist(), self.player.seating
        strangers = any(j >= self.plan.code.n or self.plan.clients[j] == seating.dealer for j in members)
        if strangers or seating.of(len(members)) is None:
            rule = f"{seating.fewest} clients{' or more' * bool(seating.deviating)} that do not deal"
            raise FaultyServer(SERVER, f"asked for another committee than {rule}")

    def check_order(self, responders: list[int], committee: list[int]) -> None:
        """Raises FaultyServer for other players than the first in the plan's order that are not left out.

        Who was once left out, as silent, stays out: so the server can seat another client only for good, and
        only as often as clients may fall silent.
        """
        dealing = {j for j, c in enumerate(self.plan.clients) if c == self.player.seating.dealer}
        skipped = set(range(max(responders) + 1)) - set(responders)
        skipped |= set(range(max(committee) + 1)) - set(committee) - dealing
        players = {*responders, *committee}
        if committee != sorted(committee) or players & (skipped | self.left_out):
            raise FaultyServer(SERVER, "asked for other players than the first that did not fall silent")
        self.left_out |= skipped

    def cost(self, question: Query, measured: DistanceOracle) -> Role[Message | None]:
        """My coded distances of every cluster's own points, summed and blinded."""
        basis = self.plan.code.basis

        def sums(about: DistanceOracle) -> Array:
            return own_distance_sums(basis, about.distances(basis.lanes), question.labels)

        return self.number_a_cluster(question, measured, sums, CodedCosts)

    def gains(
        self, question: Query, measured: DistanceOracle, firsts: Array, seconds: Array
    ) -> Role[Message | None]:
        """What tells how far the means of these clusters, or halves of them, are apart, blinded."""

        def squares(about: DistanceOracle) -> Array:
            if self.plan.fraction is None:
                return about.between(firsts, seconds)
            # All stand for as many points, so as far apart as if for one each.
            return between_pairs(
                about.rows, replace(about.sums, sizes=np.minimum(about.sizes, 1)), firsts, seconds
            )

        return self.number_a_cluster(question, measured, squares, CodedGains)

    def number_a_cluster(
        self,
        question: Query,
        measured: DistanceOracle,
        compute: Callable[[DistanceOracle], Array],
        reply: type[CodedCosts | CodedGains],
    ) -> Role[Message | None]:
        """Numbers (lanes, clusters), if I am to respond, blinded against the server with t clients.

        Of exact centers, or of those that a committee rounds before.
        """
        after = 0
        if self.plan.fraction is not None:
            match = ComparisonSession(self.plan, question, measured.sizes, self.player.seating)
            after = match.numbered
            begun = yield from self.player.begin(match, measured)
            if not isinstance(begun, StartedComparison):
                return begun
            measured = begun.measured
            if self.me not in question.responders:
                return MissingMessages(0, begun.missing)
        about = measured

        def blind(masked: Query, further: Array | None) -> Message:
            values = compute(about)
            strangers = mask_values(self.plan, self.me, self.keys, self.colluding, masked, values, further)
            if strangers.size:
                return MissingMessages(0, strangers)
            return reply(values) if further is None else CodedGains(values, further=further)

        return (yield from self.decodable.reply_checked(question, measured, blind, after))


def label_check_round(question: Query) -> int:
    """The round in which clients tell one another the labels that an answer opens: its last one."""
    return question.round + STRIDE - 1


def own_distance_sums(basis: Basis, distances: Array, labels: Array) -> Array:
    """For each cluster the sum of its own points' coded distances (lanes, k, m): (lanes, k) residues."""
    inside = np.flatnonzero(labels >= 0)
    own = labels[inside]
    totals = np.zeros(distances.shape[:2], np.uint64)
    for lane, p in enumerate(basis.primes):
        # Fewer than 2**30 points of residues below 2**30.
        np.add.at(totals[lane], own, distances[lane, own, inside].astype(np.uint64))
        totals[lane] %= np.uint64(p)
    return totals.astype(basis.dtype)
