"""Blinding by dealt polynomials: any threshold of replies decodes, and lies are located as in bare ones.

In every question a few clients deal, each to all, shares of polynomials whose values at the data points sum
to zero; everybody adds what it was dealt to its coded distances (`field.code.masking`).  One honest dealer
hides everything but the sum.  A false dealing could change the sum or make honest replies look false, so it
is checked (`secfc.coded.input_check`) before a reply is believed: mask words are dealt along, receivers
publish random words with their replies, and the server puts the question anew, to other dealers, if the words
are off.

The rounds after a question's: +1 shares between clients, who then tell the server whose came, and the
server's challenge; +2 replies.  A client that lacks a share stays silent, as one that is lost.  A dealer also
tells whose key never came to it: whoever has its key all the same expands another share than it dealt, which
is nobody's lie, and is not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from field.arrays import Array
from field.code.consistency import combine_shares, mask_words
from field.code.masking import PairKeys, blinding_share, deal_from_seeds, mask_context, seeded_clients
from field.ring.basis import Basis
from field.secrets.coins import Coins
from secfc.coded.input_check import challenge_coins, check_count
from secfc.coded.messages import BlindingShares, CheckedDistances, DealingChallenge
from secfc.coded.plan import CodedPlan
from secfc.coded.policy import DistanceOracle
from secfc.coded.queries import Operation, Query, Subject
from secfc.coded.quorum import BLINDING, WORDS, Quorum, ServerContext
from secfc.errors import FaultyServer, TooFewReplies, TooManyDeviating
from secfc.roles.exchange import SERVER, Exchange, PartyId, Role, expect_messages, to_all
from secfc.roles.messages import Contributors, check_residues, compact_labels, well_formed


def count_dealers(plan: CodedPlan, colluding: int) -> int:
    """How many clients must deal so that one of them is honest.

    As many as a threshold who collude with the server know all replies: nothing could be hidden from more.
    """
    return min(colluding + 1, plan.code.threshold(2))


# --- client --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class BlindedAnswer:
    """How client number `me` answers under dealt blinding against `colluding` clients.  Secret."""

    plan: CodedPlan
    me: int
    keys: PairKeys
    coins: Coins
    colluding: int

    def __call__(self, question: Query, measured: DistanceOracle) -> Role[None]:
        responders = question.responders.tolist()
        dealers = tuple(responders[: count_dealers(self.plan, self.colluding)])
        values = measured.distances(self.plan.lanes(measured.sizes))
        yield Exchange(phase="distances")  # nothing to say: the work so far is booked
        lanes, size = len(values), values[0].size
        if len(dealers) < count_dealers(self.plan, self.colluding):
            raise FaultyServer(SERVER, "named fewer clients that deal than the plan has")
        width = size + mask_words(self.plan.code, self.plan.corrected)
        basis = self.plan.code.basis.prefix(lanes)
        shares, send, lacking = self.expanded(question, dealers, lanes, width)
        # Who was found to deviate, or is gone, is no responder: it gets nothing and sends nothing.
        to = {self.plan.clients[j]: BlindingShares(s) for j, s in send.items() if j in responders}
        awaited = tuple(
            self.plan.clients[i]
            for i in dealers
            if i != self.me and self.me not in seeded_clients(self.plan.code, i, lanes)
        )
        inbox = yield Exchange(to, awaited, 0, round=question.round + 1, phase="blind")
        came = well_formed(inbox, BlindingShares, lambda c, m: check_residues(basis, c, m.values, (width,)))
        shares |= {self.plan.clients.index(c): m.values for c, m in came.items()}
        complete = np.array([i in shares for i in dealers])
        told = np.append(complete, lacking) if self.me in dealers else complete
        inbox = yield Exchange(
            {SERVER: Contributors(told)}, (SERVER,), round=question.round + 1, phase="blind"
        )
        seeds = [challenge.seed for challenge in expect_messages(inbox, DealingChallenge).values()]
        if complete.all() and any(seeds):
            dealt = [shares[i] for i in dealers]
            message = blind_distances(self.plan, dealers, values, dealt, seeds[0])
            yield Exchange({SERVER: message}, round=question.round + 2, phase="blind")

    def expanded(
        self, question: Query, dealers: tuple[int, ...], lanes: int, width: int
    ) -> tuple[dict[int, Array], dict[int, Array], Array]:
        """The shares (lanes, width) that need no message, by dealer, and those I deal out, by receiver.

        And, if I deal, the clients (n,) bool whose share I do not know, as I lack their keys.
        """
        code, law, number = self.plan.code, (lanes, (width,)), question.round
        shares: dict[int, Array] = {}
        send: dict[int, Array] = {}
        lacking = np.zeros(len(self.plan.clients), np.bool_)
        for place, dealer in enumerate(dealers):
            seeded = seeded_clients(code, dealer, lanes)
            context = mask_context(code, (dealer,), *law, question.digest)
            if dealer == self.me:
                own = self.coins.bytes(16)
                streams = self.keys.streams(number + place, context, seeded)
                # Whoever has no key with me is gone, or its key was late; it may have mine.
                lacking[[j for j in seeded if j not in streams and j != self.me]] = True
                streams |= {j: Coins(self.coins.bytes(16)) for j in seeded if j not in streams}
                send = deal_from_seeds(code, self.me, streams | {self.me: Coins(own)}, *law)
                if self.me in seeded:
                    shares[dealer] = blinding_share(code, *law, Coins(own))
                else:
                    shares[dealer] = send.pop(self.me)
            elif self.me in seeded:
                streams = self.keys.streams(number + place, context, (dealer,))
                if dealer in streams:  # else its key never came
                    shares[dealer] = blinding_share(code, *law, streams[dealer])
        return shares, send, lacking


def blind_distances(
    plan: CodedPlan, dealers: tuple[int, ...], values: Array, shares: list[Array], seed: bytes
) -> CheckedDistances:
    """Coded distances (lanes, k, m) under shares (lanes, k * m + words), and the words that check those.

    The distances are changed in place.
    """
    basis = plan.code.basis.prefix(len(values))
    flat = values.reshape(len(values), -1)
    size, words = flat.shape[1], []
    for dealer, share in zip(dealers, shares, strict=True):
        for lane, p in enumerate(basis.primes):
            basis.add_to_lane(flat[lane], share[lane, :size], p)
        coins = challenge_coins(seed, dealer)
        words.append(combine_shares(plan.code, share[:, :size], share[:, size:], coins))
    return CheckedDistances(values, np.stack(words, axis=1))


# --- server --------------------------------------------------------------------------------------


class DealtQuorum(Quorum):
    """All are asked under dealt blinding: any threshold of replies will do, and dealers can be replaced.

    unfit: clients that shall not deal any more, since somebody missed or doubts their shares: no proof.
    """

    def __init__(self, desk: ServerContext, colluding: int = 1) -> None:
        super().__init__(desk)
        self.colluding = colluding
        self.unfit: set[PartyId] = set()

    def ask_distances(
        self, labels: Array, k: int, basis: Basis, operation: Operation = Operation.DISTANCE
    ) -> Role[dict[int, Array]]:
        while True:
            values = yield from self.attempt(labels, k, basis, operation)
            if values is not None:
                return values

    def attempt(
        self, labels: Array, k: int, basis: Basis, operation: Operation
    ) -> Role[dict[int, Array] | None]:
        """Put the question to everybody, blinded by some dealers; None to do so again with others.

        Every repetition leaves a dealer out, so there are at most as many as clients.
        """
        screening, asked = self.desk.screening, self.desk.there
        if len(asked) < screening.needed(2):
            raise TooFewReplies(screening.needed(2), asked)
        needed = count_dealers(self.plan, self.colluding)
        dealers = tuple(c for c in asked if c not in self.unfit)[:needed]
        if len(dealers) < needed:
            raise TooFewReplies(needed, dealers)
        first = (*dealers, *(c for c in asked if c not in dealers))
        numbers = np.array(screening.numbers(first), np.int32)
        subject = Subject(operation, k, compact_labels(labels))
        question = Query(next(self.desk.rounds), subject, numbers)
        inbox = yield Exchange(
            to_all(asked, question), asked, screening.needed(2),
            round=question.round, accept=question.round + 1, phase="assign",
        )  # fmt: skip

        def check(sender: PartyId, message: Contributors) -> None:
            check_count(needed + len(self.plan.clients) * (sender in dealers), sender, message)

        reports = screening.checked(inbox, Contributors, check)
        if len(reports) < screening.needed(2):
            raise TooFewReplies(screening.needed(2), tuple(reports))
        complete = {c: report.complete[:needed] for c, report in reports.items()}
        # Whose share a dealer does not know, though they are there: its key came to them, not theirs to it.
        unknown = {
            c: set(screening.names(np.flatnonzero(reports[c].complete[needed:]))) & set(reports)
            for c in dealers
            if c in reports
        }
        strange = set().union(*unknown.values())
        whole = tuple(c for c in reports if complete[c].all() and c not in strange)
        missed = {c for c in dealers if c not in reports or unknown[c]}
        missed |= {c for i, c in enumerate(dealers) if any(not came[i] for came in complete.values())}
        enough = len(whole) >= screening.needed(2)
        challenge = screening.challenge() if enough else DealingChallenge(b"")
        # With a share missing somewhere the question can be put anew, so no reply is waited for to the end.
        inbox = yield Exchange(
            to_all(asked, challenge), whole if enough else (), 0 if missed else screening.needed(2),
            round=question.round + 1, accept=question.round + 2, phase="assign",
        )  # fmt: skip
        if not enough:
            self.unfit |= missed
            return None
        return self.believed(dealers, missed, inbox, basis, self.shape(k, operation))

    def believed(
        self,
        dealers: tuple[PartyId, ...],
        missed: set[PartyId],
        inbox: Mapping[PartyId, Any],
        basis: Basis,
        shape: tuple[int, int],
    ) -> dict[int, Array] | None:
        """The true replies, by number, or None if these dealers must be replaced."""
        screening = self.desk.screening
        words = len(dealers), mask_words(self.plan.code, self.plan.corrected)

        def check(sender: PartyId, message: CheckedDistances) -> None:
            check_residues(basis, sender, message.values, shape)
            check_residues(basis, sender, message.words, words)

        replies = screening.checked(inbox, CheckedDistances, check)
        doubted: set[PartyId] = set()
        replaced = False
        for i, dealer in enumerate(dealers):
            active = [c for c in replies if c in screening.active]
            published = {self.plan.clients.index(c): replies[c].words[:, i] for c in active}
            judgement = screening.judged(published, 2, zero_sum=True)
            if judgement.proof:
                screening.blame(dealer, BLINDING)
            elif self.plan.clients.index(dealer) in judgement.doubted:
                screening.blame(dealer, WORDS)
            if not judgement.good or judgement.doubted:
                # A receiver whose words are off lied, or was dealt a false share: it does not count here.
                missed = missed | {dealer}
                doubted |= set(screening.names(judgement.doubted))
            replaced |= not judgement.good
        if replaced:
            self.unfit |= missed
            return None
        usable = {c: m.values for c, m in replies.items() if c in screening.active and c not in doubted}
        try:
            return screening.screened(dict(zip(screening.numbers(usable), usable.values(), strict=True)), 2)
        except (TooFewReplies, TooManyDeviating):
            if not missed:
                raise
            self.unfit |= missed
            return None
