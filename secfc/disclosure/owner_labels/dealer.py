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
from field.compare import dealer_protocol
from field.compare.assignment_step import AssignmentStep, SharedContest, SharedLabels
from field.compare.correlated_randomness import PartyRandomness
from field.secrets.coins import Coins
from secfc.coded.messages import Corrections, MaskedDistances, MaskedSum, MissingMessages
from secfc.coded.policy import DistanceOracle
from secfc.coded.quorum import NOBODY_MISSED, MissingMessageError
from secfc.disclosure.checked.parts import PartKeys
from secfc.disclosure.checked.steps import MASKS
from secfc.disclosure.checked.words import CommitteeWords
from secfc.disclosure.compare.computing_party import ComputingParty
from secfc.disclosure.compare.dealer import (
    Dealt,
    continue_dealing,
    part_tables,
    players_without_seed,
    start_dealing,
)
from secfc.disclosure.compare.rounds import (
    CorrectionStream,
    SpokenExchanges,
    StartedComparison,
    conclude_words,
    play_games,
)
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
        corrections = yield from self.corrected(match, steps, due, first=True)
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
        game, hand = begun.game, (yield from self.hand(match, steps, begun, measured))
        if hand is None or old is None or begun.spoken is None or not isinstance(game, AssignmentStep):
            return None
        (masked, tables), keys = hand, begun.spoken.keys
        games = {
            q: game.play(masked, old[q], table, keys.coins(q, match.context, b"step"), lead=q == 0)
            for q, table in tables.items()
        }
        found = yield from self.played(match, steps, begun.spoken, games, game.portions, tables)
        changes = {q: share for q, (_, share) in found.items() if share is not None}
        return {q: new for q, (new, _) in found.items()}, changes or None

    def won(
        self, match: ComparisonSession, steps: AnswerRounds, begun: StartedQuery, measured: DistanceOracle
    ) -> Role[dict[int, Array] | None]:
        """At a member its parts' shares of who wins each point, (K, words)."""
        if self.name not in match.players:
            return None
        game, hand = begun.game, (yield from self.hand(match, steps, begun, measured))
        if hand is None or begun.spoken is None or not isinstance(game, SharedContest):
            return None
        masked, tables = hand
        games = {q: game.play(masked, table, lead=q == 0) for q, table in tables.items()}
        return (yield from self.played(match, steps, begun.spoken, games, game.portions, tables))

    def hand(
        self, match: ComparisonSession, steps: AnswerRounds, begun: StartedQuery, measured: DistanceOracle
    ) -> Role[tuple[Array, dict[int, PartyRandomness]] | None]:
        """What a member compares: masked distances, from rounded centers if these are, and by part tables.

        Whoever deals is no member, and goes on dealing here.  Replies are checked before.
        """
        measured, begun = yield from self.rounded(match, steps, begun, measured)
        sums = yield from self.masked(match, steps, begun, measured)
        corrections = begun.corrections
        if corrections is None:
            corrections = yield from self.corrected(match, steps, begun.due, first=False)
        yield from self.check_replies(match, steps, begun, measured, sums)
        if sums is None or begun.spoken is None:
            yield from continue_dealing(match, begun.left)
            return None
        begun.spoken.begin(match.schedule.basis, *sums)
        spoken = begun.spoken
        return sums[0], part_tables(match, self.member.mine, spoken.seeds, spoken.parts, corrections)

    def check_replies(
        self,
        match: ComparisonSession,
        steps: AnswerRounds,
        begun: StartedQuery,
        measured: DistanceOracle,
        sums: tuple[Array, Array] | None,
    ) -> Role[None]:
        """Check all replies, before anything of them leaves the committee.  sums: at a member, see `masked`.

        Raises StalledStep, SuspectedParties if something does not fit.
        """
        if match.checked is None:
            return
        about = StartedComparison(measured, begun.missing, left=begun.left, checking=begun.checking)
        yield from self.unless_missing(self.member.check_replies(match, about, sums))
        steps.step = match.checked.begun + MASKS - DEAL

    def unless_missing(self, part: Role[R]) -> Role[R]:
        """A part of an answer whose steps are counted from the question.  Raises StalledStep."""
        try:
            return (yield from part)
        except MissingMessageError as silence:
            clients = self.member.plan.clients
            missing = {clients.index(c) for c in silence.missing if c != SERVER}
            raise StalledStep(silence.step - DEAL, missing) from None

    def rounded(
        self, match: ComparisonSession, steps: AnswerRounds, begun: StartedQuery, measured: DistanceOracle
    ) -> Role[tuple[DistanceOracle, StartedQuery]]:
        """What distances are measured to, and what is left of the dealer's words.

        Who responds waits for shares of centers while members divide.  Raises Stalled.
        """
        if match.rounding is None or begun.sums is None:
            return measured, begun
        at, clients = steps.step, self.member.plan.clients
        last, more = at + match.shared - DEAL, begun.due
        checking = replace(begun.sums, masks=begun.left.sums)
        try:
            measured, left = yield from self.member.rounder.rounded(
                match, match.rounding, measured, more, checking, at, begun.corrections
            )
        except MissingMessageError as silence:
            missing = {clients.index(c) for c in silence.missing if c != SERVER}
            raise StalledStep(max(1, at + silence.step - DEAL), missing, last) from None
        steps.step = last
        return measured, replace(begun, corrections=left if self.name in match.correctors else None)

    def masked(
        self, match: ComparisonSession, steps: AnswerRounds, begun: StartedQuery, measured: DistanceOracle
    ) -> Role[tuple[Array, Array] | None]:
        """All distances plus the dealer's masks (lanes, K, m), and further replies, at a member; elsewhere
        nothing.
        """
        others = [match.plan.clients.index(c) for c in match.committee if c != self.name]
        numbers = {c: match.plan.clients.index(c) for c in match.plan.clients}
        mine = self.member.masked_distances(match, measured, begun.checking)
        sums_up = self.name in match.parts
        awaited = [numbers[c] for c in match.responders if c != self.name] if sums_up else []
        send = {numbers[c]: message for c, message in mine.items() if c != self.name}
        received = yield from steps.exchange(send, awaited, MaskedDistances)
        if self.name not in match.committee:
            return None
        sums = dict[PartyId, MaskedSum]()
        if sums_up:
            parts = {match.plan.clients[j]: message for j, message in received.items()}
            parts |= {c: mine[c] for c in (self.name,) if c in mine}
            sums[self.name] = self.member.added_up(match, parts)
        awaited = [numbers[c] for c in match.parts if c != self.name]
        told = {j: message for j in others for message in sums.values()}
        heard = yield from steps.exchange(told, awaited, MaskedSum)
        sums |= {match.plan.clients[j]: message for j, message in heard.items()}
        return self.member.all_sums(match, sums)

    def corrected(
        self, match: ComparisonSession, steps: AnswerRounds, words: int, *, first: bool
    ) -> Role[Array | None]:
        """What the dealer sends to this member, if to it.

        A server deals while clients compute, so it is heard last; of a client that deals, and then speaks of
        other things, this must be heard first.
        """
        dealer, number = self.member.dealer, match.question.round
        if self.name not in match.correctors or first != (dealer != SERVER):
            return None
        now, then = number + DEAL + steps.step, number + DEAL
        inbox = yield Exchange({}, (dealer,), 0, round=now, accept=then, phase="compare")
        told = inbox.get(dealer)
        if told is None or isinstance(told, MissingMessages):
            gone = {match.plan.clients.index(dealer)} if told is None and dealer != SERVER else set[int]()
            raise StalledStep(steps.step, gone)
        return check_words(
            dealer, expect_one(expect_messages({dealer: told}, Corrections), dealer).words, (words,)
        )

    def played(
        self,
        match: ComparisonSession,
        steps: AnswerRounds,
        spoken: CommitteeWords,
        games: Mapping[int, dealer_protocol.Moves],
        portions: tuple[int, ...],
        tables: Mapping[int, PartyRandomness],
    ) -> Role[dict[int, Any]]:
        """The results of games of the parts that I play, of all words of which nothing is left to check."""
        hand = tables.get(match.question.corrected)
        feed = CorrectionStream(match, self.name, self.member.dealer, portions, hand)

        def fed() -> Role[None]:
            try:
                yield from feed(steps.step)
            except MissingMessageError as silence:
                gone = {match.plan.clients.index(c) for c in silence.missing if c != SERVER}
                raise StalledStep(steps.step, gone) from None

        talk = AnswerExchanges(steps, spoken)
        found = yield from play_games(match, spoken, games, talk, fed)
        yield from conclude_words(spoken, talk)
        return found


class AnswerExchanges(SpokenExchanges):
    """Exchanges of a committee in the steps of an answer."""

    def __init__(self, steps: AnswerRounds, spoken: CommitteeWords) -> None:
        super().__init__(spoken)
        self.steps = steps

    def exchange(self, send: Mapping[PartyId, Any], kind: type[Any]) -> Role[dict[PartyId, Any]]:
        """What all others say, of this kind.  Raises StalledStep."""
        clients = self.steps.clients
        numbers = {clients.index(c): message for c, message in send.items()}
        received = yield from self.steps.exchange(numbers, numbers, kind)
        return {clients[j]: message for j, message in received.items()}
