"""Sharing labels under what a dealer makes: a client's part in the steps of
`secfc.disclosure.owner_labels.client`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from field.arrays import Array
from field.code.masking import PairKeys
from field.compare.assignment_step import AssignmentStep, SharedContest, SharedLabels
from field.compare.correlated_randomness import PartyRandomness
from field.compare.dealer_protocol import Moves
from field.secrets.coins import Coins
from secfc.coded.messages import Corrections, MissingMessages
from secfc.coded.policy import DistanceOracle
from secfc.coded.quorum import NOBODY_MISSED, MissingMessageError
from secfc.disclosure.checked.parts import PartKeys
from secfc.disclosure.compare.computing_party import ComputingParty
from secfc.disclosure.compare.dealer import Dealt, players_without_seed, start_dealing
from secfc.disclosure.compare.rounds import InterleavedRole, StartedComparison
from secfc.disclosure.compare.session import DEAL, CommitteeChoice, ComparisonSession, check_words
from secfc.disclosure.dealerless.steps import AnswerRounds, StalledStep
from secfc.disclosure.owner_labels.backend import Hiding, StartedQuery
from secfc.errors import FaultyServer
from secfc.roles.exchange import SERVER, Exchange, PartyId, Role, expect_messages, expect_one, to_all

R = TypeVar("R")


@dataclass(frozen=True, eq=False, repr=False)
class DealerBackend:
    """A client's part; coins: its own, secret."""

    member: ComputingParty
    coins: Coins

    @property
    def name(self) -> PartyId:
        return self.member.name

    @property
    def seating(self) -> CommitteeChoice:
        """Who compares."""
        return self.member.seating

    @property
    def peers(self) -> PairKeys:
        """Keys with the other clients."""
        return self.member.peers

    @property
    def held(self) -> Callable[[ComparisonSession, SharedLabels], Array] | None:
        """Members do not respond."""
        return None

    def parts(self, match: ComparisonSession) -> tuple[int, ...]:
        """Numbers of the parts that this member plays."""
        return match.blocks.played_by(match.committee.index(self.name))

    def public(self, match: ComparisonSession, part: int, labels: Array, clusters: Array) -> SharedLabels:
        """A part's share of labels (m,) that everybody knows, among these clusters (K,)."""
        return SharedLabels.public(match.plan.code.basis, labels, clusters, lead=part == 0)

    def hiding(self, match: ComparisonSession, keys: PartKeys | None) -> Hiding:
        """Under masks that members alone know, which add up to zero."""
        if keys is None:
            raise FaultyServer(SERVER, "asked members to tell labels that all know")
        return partial(keys.hide, match.context)

    def begin(
        self, match: ComparisonSession, steps: AnswerRounds, game: AssignmentStep | SharedContest | None
    ) -> Role[StartedQuery]:
        """Deal, if that is my role, or hear the dealer, if it speaks of this first."""
        openings = 0 if game is None else game.openings
        # Others of this question take the question's own number, and numbers above.
        sums, checking, spoken = yield from self.unless_missing(
            self.member.begin_checks(match, match.question.round - 1, openings)
        )
        missing, left = NOBODY_MISSED, Dealt()
        if self.name == self.member.dealer and self.member.dealt_to is not None:
            missing = players_without_seed(match, self.member.dealt_to)
            if missing.size:
                told = MissingMessages(0, NOBODY_MISSED)
                yield Exchange(
                    to_all(match.correctors, told), round=match.question.round + DEAL, phase="deal"
                )
                # Nothing was dealt: the server hears whose seed I lack.
                raise StalledStep(-1, missing.tolist())
            left = yield from start_dealing(match, self.member.dealt_to, game)
        due = 0 if game is None else game.portions[0]
        due += 0 if match.rounding is None else match.rounding.dealt
        corrections = yield from self.corrected(match, steps, due)
        return StartedQuery(
            game, missing, corrections, left=left, checking=checking, sums=sums, spoken=spoken
        )

    def moved(
        self,
        match: ComparisonSession,
        steps: AnswerRounds,
        begun: StartedQuery,
        measured: DistanceOracle,
        old: Mapping[int, SharedLabels] | None,
    ) -> Role[tuple[dict[int, SharedLabels], bool | Mapping[int, Array] | None] | None]:
        """At a member its parts' shares of the labels after a step, and of what is 0 if none changed."""

        def step(masked: Array, hand: PartyRandomness, part: int) -> Moves:
            game, keys = begun.game, begun.keys
            if old is None or keys is None or not isinstance(game, AssignmentStep):
                raise RuntimeError("a member takes a step from labels that it has a share of")
            coins = keys.coins(part, match.context, b"step")
            return game.play(masked, old[part], hand, coins, lead=part == 0)

        found = yield from self.played(match, steps, begun, measured, step)
        if found is None:
            return None
        changes = {q: share for q, (_, share) in found.items() if share is not None}
        return {q: new for q, (new, _) in found.items()}, changes or None

    def won(
        self, match: ComparisonSession, steps: AnswerRounds, begun: StartedQuery, measured: DistanceOracle
    ) -> Role[dict[int, Array] | None]:
        """At a member its parts' shares of who wins each point, (K, words)."""
        if self.name not in match.players:
            return None

        def contest(masked: Array, hand: PartyRandomness, part: int) -> Moves:
            if not isinstance(begun.game, SharedContest):
                raise RuntimeError("of a contest alone the winners are shared")
            return begun.game.play(masked, hand, lead=part == 0)

        return (yield from self.played(match, steps, begun, measured, contest))

    def played(
        self,
        match: ComparisonSession,
        steps: AnswerRounds,
        begun: StartedQuery,
        measured: DistanceOracle,
        game: Callable[[Array, PartyRandomness, int], Moves],
    ) -> Role[dict[int, Any] | None]:
        """At a member what a game of each of its parts comes to, see `ComputingParty.play`.

        Of distances to rounded centers, if these are.  Who is no member responds, and deals.
        """
        beside = [] if begun.proof is None else [InterleavedRole(begun.proof)]
        measured, begun = yield from self.rounded(match, steps, begun, measured, beside)
        about = StartedComparison(
            measured,
            begun.missing,
            begun.corrections,
            begun.left,
            begun.checking,
            begun.spoken,
            tuple(beside),
        )
        if self.name not in match.committee or begun.game is None:
            yield from self.unless_missing(self.member.respond(match, about))
            return None
        return (yield from self.unless_missing(self.member.play(match, about, game, begun.game.portions)))

    def unless_missing(self, part: Role[R]) -> Role[R]:
        """A part of an answer whose steps are counted from the question.  Raises StalledStep."""
        try:
            return (yield from part)
        except MissingMessageError as silence:
            clients = self.member.plan.clients
            missing = {clients.index(c) for c in silence.missing if c != SERVER}
            raise StalledStep(silence.step - DEAL, missing) from None

    def rounded(
        self,
        match: ComparisonSession,
        steps: AnswerRounds,
        begun: StartedQuery,
        measured: DistanceOracle,
        beside: list[InterleavedRole] | None = None,
    ) -> Role[tuple[DistanceOracle, StartedQuery]]:
        """What distances are measured to, and what is left of the dealer's words.

        Who responds waits for shares of centers while members divide.  beside: checks that go on beside, also
        after this; else all of them end here.  Raises Stalled.
        """
        if match.rounding is None or begun.sums is None:
            return measured, begun
        clients, last, more = self.member.plan.clients, match.shared - DEAL, begun.due
        lanes = [] if beside is None else beside
        checking = replace(begun.sums, masks=begun.left.sums, beside=lanes)
        try:
            measured, left = yield from self.member.rounder.rounded(
                match, match.rounding, measured, more, checking, begun.corrections
            )
            if beside is None:
                yield from InterleavedRole.finish(lanes, match.turn)
        except MissingMessageError as silence:
            missing = {clients.index(c) for c in silence.missing if c != SERVER}
            raise StalledStep(max(1, silence.step - DEAL), missing, last) from None
        steps.step = match.numbered - 1 - DEAL
        return measured, replace(begun, corrections=left if self.name in match.correctors else None)

    def corrected(self, match: ComparisonSession, steps: AnswerRounds, words: int) -> Role[Array | None]:
        """What a client that deals, and then speaks of other things, sends to this member, if to it.

        A server deals while clients compute, so it is heard when that is used.
        """
        dealer, number = self.member.dealer, match.question.round
        if self.name not in match.correctors or dealer == SERVER:
            return None
        now, then = number + DEAL + steps.step, number + DEAL
        inbox = yield Exchange({}, (dealer,), 0, round=now, accept=then, phase="compare")
        told = inbox.get(dealer)
        if told is None or isinstance(told, MissingMessages):
            gone = {match.plan.clients.index(dealer)} if told is None else set[int]()
            raise StalledStep(steps.step, gone)
        return check_words(
            dealer, expect_one(expect_messages({dealer: told}, Corrections), dealer).words, (words,)
        )
