"""The server's part in comparing distances: it asks, deals if it is the dealer, and adds up labels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field import dealt
from field.blind import PairKeys
from field.rows import cluster_sizes
from secfc.disclosure.dealing import deal
from secfc.disclosure.distances import BlindedSource
from secfc.disclosure.match import DEAL, Match, check_words, committee_size, contest_of, unheard
from secfc.exchange import Exchange, FaultyClient, PartyId, Role, TooFewReplies, take, to_all
from secfc.lloyd import Step
from secfc.messages import CodedCosts, Compare, Corrections, LabelShare, MeasureCost, Unheard, compact_labels
from secfc.plan import Plan

Array = NDArray[Any]


class ComparedSource(BlindedSource):
    """Steps whose labels a committee finds; the server, when it deals, deals and knows the sums of masks.

    A party that falls silent is replaced by another, and the question put anew as a new round, so with fresh
    masks and tables.
    """

    def __init__(
        self,
        plan: Plan,
        present: tuple[PartyId, ...],
        dealer: PartyId,
        keys: PairKeys | None,
        *,
        threads: int = 1,
    ) -> None:
        super().__init__(plan, present, threads=threads)
        self.dealer, self.keys, self.turn = dealer, keys, 0

    @property
    def seats(self) -> int:
        """Clients in a committee."""
        return committee_size(self.plan.code.t)

    def step(self, labels: Array, k: int) -> Role[Step]:
        return Step((yield from self.compare(labels, cluster_sizes(labels, k))), None)

    def separated(self, labels: Array, k: int, factor: int) -> Role[Array]:
        return (yield from self.compare(labels, cluster_sizes(labels, k), factor))

    def retained(self, sizes: Array) -> Role[Array]:
        return (yield from self.compare(np.full(self.plan.m, -1, np.int32), sizes))

    def costs(self, labels: Array, k: int) -> Role[tuple[int, ...]]:
        inbox = yield from self.answered(
            lambda number, chosen: MeasureCost(number, k, compact_labels(labels), chosen)
        )
        values = self.coded(inbox, CodedCosts, self.plan.code.basis, (k,), 2)
        basis = self.plan.code.basis
        return tuple(int(x) for x in basis.lift(self.plan.code.decode(values, 2)))

    def compare(self, labels: Array, sizes: Array, factor: int = 1) -> Role[Array]:
        """The labels (m,) int32 that the centers of clusters of these sizes give."""
        if not sizes.any():
            return np.full(self.plan.m, -1, np.int32)
        contest = contest_of(sizes, factor)
        if contest.outcomes == 1:
            return np.full(self.plan.m, contest.labels[-1], np.int32)
        while True:
            question = self.players(labels, len(sizes), factor)
            match = Match(self.plan, question, sizes)
            yield Exchange(to_all(self.present, question), round=question.round, phase="assign")
            send = {}
            if self.keys is not None:
                corrections = deal(match, self.keys)
                if isinstance(corrections, Corrections):
                    send[match.corrected] = corrections
                else:
                    self.silent |= {self.plan.clients[j] for j in corrections.missing.tolist()}
                    continue
            inbox = yield Exchange(
                send, match.committee, 0, round=question.round + DEAL, accept=question.round, exact=True,
                phase="deal",
            )  # fmt: skip
            shares = [m for m in inbox.values() if isinstance(m, LabelShare)]
            if len(shares) == len(match.committee):
                return self.add_up(match, inbox)
            self.silent |= self.blamed(match, inbox)

    def players(self, labels: Array, k: int, factor: int) -> Compare:
        """A question to those who are able, with its committee."""
        able = [self.plan.clients.index(c) for c in self.present if c not in self.silent]
        members = [j for j in able if self.plan.clients[j] != self.dealer]
        size, needed = self.seats, self.plan.code.threshold(2)
        short = max(needed - len(able), size - len(members))
        if short > 0 or self.dealer in self.silent:
            raise TooFewReplies(len(able) + max(short, 1), [self.plan.clients[j] for j in able])
        self.turn += 1
        return Compare(
            next(self.rounds), k, compact_labels(labels), np.array(able[:needed], np.int32),
            np.array(members[:size], np.int32), self.turn % size, factor,
        )  # fmt: skip

    def add_up(self, match: Match, inbox: Mapping[PartyId, Any]) -> Array:
        """The labels whose shares all members sent."""
        schedule = match.schedule
        shape = (schedule.places, schedule.per)
        shares = [check_words(c, m.words, shape) for c, m in take(inbox, LabelShare).items()]
        return dealt.labels(schedule, reduce(np.bitwise_xor, shares))

    def blamed(
        self, match: Match, inbox: Mapping[PartyId, Any], due: type[LabelShare] = LabelShare
    ) -> set[PartyId]:
        """Whom to do without: members that said nothing, and whom the earliest reports missed.

        If that is nobody new, then the reporters, so that every repetition is without somebody.
        """
        for sender, message in inbox.items():
            if not isinstance(message, (due, Unheard)):
                raise FaultyClient(sender, f"sent {type(message).__name__} where {due.__name__} was due")
        reports = {c: m for c, m in inbox.items() if isinstance(m, Unheard)}
        first = min((m.step for m in reports.values()), default=0)
        earliest = {c: unheard(self.plan, c, m) for c, m in reports.items() if m.step == first}
        missing = {c for c in match.committee if c not in inbox}.union(*earliest.values())
        return missing - self.silent or set(earliest)
