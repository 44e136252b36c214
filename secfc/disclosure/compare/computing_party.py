"""A client's part in comparing distances: responder, member of the committee, or dealer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from field.arrays import Array
from field.code.masking import PairKeys
from field.compare import dealer_protocol
from field.compare.correlated_randomness import PartyRandomness
from field.compare.dealer_protocol import Moves
from field.kernels.compiling import run_parallel
from field.secrets.coins import Coins
from secfc.coded.messages import Corrections, LabelShare, MaskedDistances, MaskedSum, MissingMessages
from secfc.coded.plan import CodedPlan
from secfc.coded.policy import DistanceOracle
from secfc.coded.queries import Query
from secfc.coded.quorum import NOBODY_MISSED, MissingMessageError, receive_all
from secfc.disclosure.checked.parts import tell_shares
from secfc.disclosure.checked.steps import CheckedReplies, CheckingClient, check_further
from secfc.disclosure.checked.words import CommitteeWords
from secfc.disclosure.compare.candidates import FirstPairs, first_pairs
from secfc.disclosure.compare.center_rounding import CenterRounder, SumsChecking
from secfc.disclosure.compare.dealer import (
    Dealt,
    continue_dealing,
    mask_streams,
    part_seeds,
    part_tables,
    players_without_seed,
    start_dealing,
)
from secfc.disclosure.compare.rounds import (
    CommitteeRounds,
    CorrectionStream,
    InterleavedRole,
    StartedComparison,
    conclude_words,
    note_rounds,
    play_games,
    stop_requesting,
    take_dealt,
)
from secfc.disclosure.compare.session import (
    DEAL,
    SEND,
    SUM,
    CommitteeChoice,
    ComparisonSession,
    check_words,
    committee_size,
)
from secfc.roles.exchange import SERVER, Exchange, PartyId, Role, to_all
from secfc.roles.messages import Message, check_residues


class ComputingParty:
    """A client's part in comparisons under masks that a dealer made: it responds, compares, or deals.

    peers: its keys with the other clients; mine: with the dealer, as peer 0; dealt_to: the dealer's with all.
    Each gives every mask once.  coins: secret.
    """

    def __init__(
        self,
        plan: CodedPlan,
        name: PartyId,
        dealer: PartyId,
        peers: PairKeys,
        mine: PairKeys,
        dealt_to: PairKeys | None,
        coins: Coins,
    ) -> None:
        self.plan, self.name, self.dealer = plan, name, dealer
        self.peers, self.mine, self.dealt_to = peers, mine, dealt_to
        self.seating = CommitteeChoice(committee_size(plan.code.t), dealer, plan.deviating)
        self.coins, self.rounder = coins, CenterRounder(plan, name, dealer, mine)
        self.first_pairs = FirstPairs()
        self.said: dict[PartyId, int] = {}  # in which round I said something to each party last

    @property
    def used_keys(self) -> list[PairKeys]:
        return [self.peers, self.mine, *([] if self.dealt_to is None else [self.dealt_to])]

    def check(self, question: Query) -> None:
        """Any players will do."""

    def compare(self, match: ComparisonSession, measured: DistanceOracle) -> Role[Message | None]:
        """My part in one match: deal, send masked distances, compare, as far as these are my roles."""
        begun = yield from self.begin(match, measured)
        if not isinstance(begun, StartedComparison):
            return begun
        return (yield from note_rounds(self.compared(match, begun), self.said))

    def compared(self, match: ComparisonSession, begun: StartedComparison) -> Role[Message]:
        """My part after what precedes."""
        try:
            if self.name in match.committee:
                return (yield from self.judge(match, begun))
            yield from self.respond(match, begun)
            return MissingMessages(0, begun.missing)
        except MissingMessageError as silence:
            return (yield from self.gone(match, silence))

    def respond(self, match: ComparisonSession, begun: StartedComparison) -> Role[None]:
        """Send masked distances, and deal, as far as these are the roles of a client that compares nothing.

        Raises SuspectedParties if replies do not fit, MissingMessageError.
        """
        yield from self.deal_row(match, begun)
        send = self.masked_distances(match, begun.measured, begun.checking)
        number = match.question.round + match.begun
        yield Exchange(dict(send), round=number + SEND, phase="distances")
        yield from InterleavedRole.hear_all(begun.beside, number + DEAL)
        yield from self.tell_further(match, begun)
        lanes = [*begun.beside, InterleavedRole(self.check_replies(match, begun))]
        yield from InterleavedRole.finish(lanes, match.spacing)
        yield from continue_dealing(match, begun.left)

    def deal_row(self, match: ComparisonSession, begun: StartedComparison) -> Role[None]:
        """Say what goes on beside and precedes replies; deal what hides their check, if not done before."""
        yield from InterleavedRole.say_all(begun.beside, match.question.round + match.begun + DEAL)
        if begun.checking is not None and match.follows:
            yield from begun.checking.deal()

    def begin(
        self, match: ComparisonSession, measured: DistanceOracle
    ) -> Role[StartedComparison | Message | None]:
        """Deal, and round the centers; what the server is due if I have no part, or cannot go on."""
        return note_rounds(self.started(match, measured), self.said)

    def started(
        self, match: ComparisonSession, measured: DistanceOracle
    ) -> Role[StartedComparison | Message | None]:
        """What `begin` says."""
        number, dealer = match.question.round, self.dealer
        if self.name not in (dealer, *match.responders, *match.committee):
            return None
        try:
            openings = len(match.schedule.openings) if match.opens else 0
            sums, checking, spoken = yield from self.begin_checks(match, number, openings)
        except MissingMessageError as silence:
            return (yield from self.gone(match, silence))
        missing, left = NOBODY_MISSED, Dealt()
        if self.name == dealer and self.dealt_to is not None:
            missing = players_without_seed(match, self.dealt_to)
            if missing.size:
                told = MissingMessages(0, NOBODY_MISSED)
                yield Exchange(to_all(match.correctors, told), round=number + DEAL, phase="deal")
                # Nothing was dealt: who waits for me hears so, and the server whose seed I lack.
                yield from self.give_up(match, 0)
                return MissingMessages(0, missing)
            game = match.schedule if match.opens else None
            left = yield from start_dealing(match, self.dealt_to, game, self.first_pairs)
        if match.rounding is None or sums is None:
            return StartedComparison(measured, missing, left=left, checking=checking, spoken=spoken)
        try:
            more = match.schedule.portions[0] if match.opens else 0
            sums = replace(sums, masks=left.sums)
            about, words = yield from self.rounder.rounded(match, match.rounding, measured, more, sums)
            if not match.opens:
                yield from InterleavedRole.finish(sums.beside, match.turn)
        except MissingMessageError as silence:
            return (yield from self.gone(match, silence))
        return StartedComparison(about, missing, words, left, checking, spoken, tuple(sums.beside))

    def begin_checks(
        self, match: ComparisonSession, nonce: int, openings: int
    ) -> Role[tuple[SumsChecking | None, CheckingClient | None, CommitteeWords | None]]:
        """My part in the checks of sums and of replies, if they are checked; and, at a member in that of
        words, also of what is said of sums.  What hides them is dealt here, where neither members compare
        meanwhile nor centers are rounded.

        nonce: of its streams with other clients.  openings: how often members open something.
        Raises MissingMessageError.
        """
        wanted = match.checked_sums, match.checked
        if wanted == (None, None) or self.name not in match.players:
            return None, None, None
        others = [j for j, c in enumerate(self.plan.clients) if c != self.name]
        # A stream serves one of two clients as the dealing one, for the first check, then for the second.
        streams = self.peers.streams(nonce, match.context, others)
        rounds = 0 if match.rounding is None else match.rounding.openings
        checks = [
            (None, None) if asked is None else self.start_check(match, asked, opened, streams)
            for asked, opened in zip(wanted, (rounds, openings), strict=True)
        ]
        (sums, divided), (replies, spoken) = checks
        if sums is not None:
            return SumsChecking(sums, divided, replies=replies, said=spoken), replies, spoken
        if replies is not None and not match.follows:
            yield from replies.deal()
            yield from take_dealt(replies, spoken)
        return None, replies, spoken

    def start_check(
        self, match: ComparisonSession, asked: CheckedReplies, openings: int, streams: Mapping[int, Coins]
    ) -> tuple[CheckingClient, CommitteeWords | None]:
        """My part in one check, that of sums before that of replies; and, at a member, in that of words."""
        if self.name not in match.committee:
            return CheckingClient(asked, self.name, streams, self.coins, {}), None
        # Before all other streams with the dealer.
        me, sums = self.plan.clients.index(self.name), asked is match.checked_sums
        spoken = CommitteeWords(
            asked.context, match.blocks, match.committee, match.seating.dealers, self.name, openings,
            part_seeds(match, self.mine, {me: 0}, sums=sums), self.coins,
        )  # fmt: skip
        return CheckingClient(asked, self.name, streams, self.coins, spoken.told()), spoken

    def check_replies(
        self, match: ComparisonSession, begun: StartedComparison, sums: tuple[Array, Array] | None = None
    ) -> Role[None]:
        """Check all replies, where these are checked.  sums: at a member, masked ones and further ones.

        Raises SuspectedParties if something does not fit, MissingMessageError.
        """
        if begun.checking is None:
            return
        about = match.rivals.restrict_points(begun.measured) if self.name in match.responders else None
        columns = None if about is None else match.columns(about)
        rows = None if about is None else about.rows
        kept = partial(self.first_pairs.beside, match.rivals)
        yield from begun.checking.verify(rows, columns, sums, begun.left.masks, kept)
        self.first_pairs.keep_masks(match.question.members, match.rivals, begun.left.masks)

    def gone(self, match: ComparisonSession, silence: MissingMessageError) -> Role[MissingMessages]:
        """What the other members and the server are sent where this one goes no further."""
        yield from self.give_up(match, silence.step)
        numbers = [self.plan.clients.index(c) for c in silence.missing if c != SERVER]
        return MissingMessages(silence.step, np.array(sorted(numbers), np.int32))

    def give_up(self, match: ComparisonSession, step: int) -> Role[None]:
        """Tell the others, in every step in which they may wait for me, so that none waits long."""
        told = MissingMessages(step, NOBODY_MISSED)
        for later, others in match.awaiting(self.name, step):
            number = match.question.round + later
            unheard = (c for c in others if self.said.get(c, -1) < number)
            yield Exchange(to_all(unheard, told), round=number, phase="compare")
        yield from stop_requesting(match, self.name)

    def masked_distances(
        self, match: ComparisonSession, measured: DistanceOracle, checking: CheckingClient | None = None
    ) -> dict[PartyId, MaskedDistances]:
        """What I send to each member, if I am to respond: my masked distances of the points it sums up.

        The first of them also gets what further numbers replies are checked by, with them or after them.
        """
        if self.name not in match.responders:
            return {}
        basis, stream = match.schedule.basis, mask_streams(match, self.mine, (0,))[0]
        values = partial(match.rivals.competing_distances, measured, basis.lanes)
        hiding = dealer_protocol.mask_distances(
            basis, match.weights(self.name), match.shape, values, stream, measured.rows.threads
        )
        further: Array | None = None
        if checking is not None:
            hides = basis.sample((checking.asked.check.more,), stream)
            if match.follows:
                checking.hiding = hides
            else:
                further = basis.add(checking.further(match.columns(measured)), hides)
        cuts = [partial(np.ascontiguousarray, hiding[:, :, part]) for part in match.parts.values()]
        return {
            c: MaskedDistances(values, further=further if c == match.corrected else None)
            for c, values in zip(match.parts, run_parallel(cuts, measured.rows.threads), strict=True)
        }

    def judge(self, match: ComparisonSession, begun: StartedComparison) -> Role[LabelShare]:
        """A member's part: what I tell of the labels' digits, re-randomized.  Raises what `play` does."""
        schedule, spoken = match.schedule, begun.words_of_member

        def compete(masked: Array, hand: PartyRandomness, part: int) -> Moves:
            return schedule.compete(masked, hand, lead=part == 0)

        shares = yield from self.play(match, begun, compete, schedule.portions)
        hidden = spoken.keys.hide(match.context, shares)
        return LabelShare(*tell_shares(match.blocks, spoken.at, match.context, hidden))

    def play(
        self,
        match: ComparisonSession,
        begun: StartedComparison,
        game: Callable[[Array, PartyRandomness, int], Moves],
        portions: tuple[int, ...],
    ) -> Role[dict[int, Any]]:
        """A member's part: the results, by number, of a game of each part that it plays, all words of which
        are checked, as are replies.

        game: of masked distances (lanes, k, m), what the dealer made for a part, and its number.  portions:
        words of each.
        Raises SuspectedParties if replies, or what the committee said, do not fit, MissingMessageError.
        """
        spoken, number = begun.words_of_member, match.question.round + match.begun
        others = tuple(c for c in match.committee if c != self.name)
        # What was sent and summed is let go before the contest, of which much is held.
        masked, further, corrections = yield from self.summed(match, begun, others, portions[0])
        checks = self.check_replies(match, begun, (masked, further))
        spoken.begin(match.schedule.basis, masked, further[:, :0] if match.follows else further)
        hands = part_tables(match, self.mine, spoken.seeds, spoken.parts, corrections)
        games = {q: game(masked, hand, q) for q, hand in hands.items()}
        hand = hands.get(match.question.corrected)
        feed = CorrectionStream(match, self.name, self.dealer, portions, hand)
        pairs = first_pairs(match.rivals, masked)
        del masked, further, corrections
        woven, step = ([*begun.beside, InterleavedRole(checks)], match.interleaved), match.opening
        talk = CommitteeRounds(number + step, match.begun + step, others, spoken, woven, match.spacing)

        def fed() -> Role[None]:
            yield from talk.finish_check()
            yield from feed(talk.step - 1)

        threads = begun.measured.rows.threads
        results = yield from play_games(match, spoken, games, talk, fed, threads)
        yield from conclude_words(spoken, talk)
        self.first_pairs.keep(match.question.members, match.rivals, pairs)
        return results

    def summed(
        self, match: ComparisonSession, begun: StartedComparison, others: tuple[PartyId, ...], due: int
    ) -> Role[tuple[Array, Array, Array | None]]:
        """All masked distances (lanes, k, m), and further replies; for the corrected member also what the
        dealer sent, so many words.

        begun.words: these, where they were heard before.
        """
        first, number = match.begun, match.question.round + match.begun
        yield from self.deal_row(match, begun)
        mine = self.masked_distances(match, begun.measured, begun.checking)
        parts = {c: mine.pop(c) for c in (self.name,) if c in mine}
        corrections = yield from self.hear_dealer(match, begun, mine, due)
        yield from InterleavedRole.hear_all(begun.beside, number + DEAL)
        behind = yield from self.tell_further(match, begun)
        awaited = tuple(c for c in match.responders if c != self.name) if self.name in match.parts else ()
        wait = Exchange({}, awaited, 0, round=number + SEND, phase="distances")
        parts = {**(yield from receive_all(wait, MaskedDistances, first + SEND)), **parts}
        threads = begun.measured.rows.threads
        sums = {self.name: self.added_up(match, parts, threads)} if self.name in match.parts else {}
        del mine, parts
        send = {c: m for m in sums.values() for c in others}
        yield Exchange(send, round=number + SUM, phase="compare")
        # What members vouch for of rounded centers follows.
        yield from InterleavedRole.say_all(begun.beside, number + match.opening)
        wait = Exchange(
            {}, tuple(c for c in match.parts if c != self.name), 0, round=number + SUM, phase="compare"
        )
        sums |= yield from receive_all(wait, MaskedSum, first + SUM)
        yield from InterleavedRole.hear_all(begun.beside, number + match.opening)
        masked, further = self.all_sums(match, sums, threads)
        if match.follows and self.name == match.corrected:
            further = yield from self.add_further(match, behind)
        return masked, further, corrections

    def hear_dealer(
        self, match: ComparisonSession, begun: StartedComparison, send: Mapping[PartyId, Message], due: int
    ) -> Role[Array | None]:
        """What the dealer sent, so many words, at a corrected member; and send my replies."""
        number, heard = match.question.round + match.begun, begun.words is not None
        waits = self.name in match.correctors and not heard
        wait = Exchange(
            dict(send), (self.dealer,) if waits else (), 0, round=number + SEND,
            accept=match.question.round + DEAL, phase="distances",
        )  # fmt: skip
        told = yield from receive_all(wait, Corrections, DEAL)
        if waits:
            return check_words(self.dealer, told[self.dealer].words, (due,))
        return begun.words if self.name in match.correctors else None

    def tell_further(self, match: ComparisonSession, begun: StartedComparison) -> Role[Array | None]:
        """Tell the corrected member what my replies are checked by, (lanes, more), where that follows them.

        It is of row 0, whose dealing is heard here.  Returns it, if I respond.  Raises MissingMessageError.
        """
        checking = begun.checking
        if checking is None or not match.follows:
            return None
        yield from take_dealt(checking, begun.spoken)
        if checking.hiding is None:
            return None
        basis, (step, _) = match.schedule.basis, checking.asked.behind
        mine = basis.add(checking.further(match.columns(begun.measured)), checking.hiding)
        if self.name != match.corrected:
            told = MaskedDistances(np.empty((basis.lanes, 0, 0), basis.dtype), further=mine)
            yield Exchange({match.corrected: told}, round=match.question.round + step, phase="check")
        return mine

    def add_further(self, match: ComparisonSession, mine: Array | None) -> Role[Array]:
        """What replies are checked by, of all responders, that follows these: at the corrected member."""
        checked, basis = match.checked, match.schedule.basis
        if checked is None:
            raise RuntimeError("what follows replies checks them")
        step, _ = checked.behind
        others = tuple(c for c in match.responders if c != self.name)
        wait = Exchange({}, others, 0, round=match.question.round + step, phase="check")
        told = yield from receive_all(wait, MaskedDistances, step)
        each = [] if mine is None else [mine]
        for c, message in told.items():
            check_residues(basis, c, message.values, (0, 0))
            each.append(check_further(basis, c, message.further, checked))
        return basis.add_all(each)

    def added_up(
        self, match: ComparisonSession, parts: Mapping[PartyId, MaskedDistances], threads: int
    ) -> MaskedSum:
        """What all responders told this member, added up, and if it is the corrected one further replies."""
        basis = match.schedule.basis
        checks = [partial(self.residues, match, c, m.values, self.name) for c, m in parts.items()]
        values = run_parallel(checks, threads)
        more = None
        if self.name == match.corrected and match.checked is not None and not match.follows:
            each = [check_further(basis, c, m.further, match.checked) for c, m in parts.items()]
            more = basis.add_all(each)
        return MaskedSum(basis.add_all(values, threads=threads), further=more)

    def all_sums(
        self, match: ComparisonSession, sums: Mapping[PartyId, MaskedSum], threads: int
    ) -> tuple[Array, Array]:
        """All masked distances (lanes, k, m), and further replies, of what members added up."""
        masked = np.empty((match.schedule.basis.lanes, *match.shape), match.schedule.basis.dtype)

        def take(c: PartyId) -> None:
            masked[:, :, match.parts[c]] = self.residues(match, c, sums[c].values, c)

        run_parallel([partial(take, c) for c in match.parts], threads)
        more = sums[match.corrected].further
        due = None if match.follows else match.checked
        further = check_further(match.schedule.basis, match.corrected, more, due)
        return masked, further

    def residues(self, match: ComparisonSession, sender: PartyId, values: Array, member: PartyId) -> Array:
        """Masked distances of the points that this member sums up, checked."""
        part = match.parts[member]
        check_residues(match.schedule.basis, sender, values, (match.shape[0], part.stop - part.start))
        return values
