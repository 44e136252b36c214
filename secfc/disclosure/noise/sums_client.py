"""A client in steps of noisy sums: compares, adds up rows by shared labels, and deals noise on the sums."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from typing import ClassVar

import numpy as np

from field.arrays import Array
from field.code.lane_check import count_sums, noise_deviation, weigh_numbers
from field.code.masking import deal_values
from field.code.rows import ClusterSums, CodedRows
from field.compare import shells
from field.compare.assignment_step import AssignmentStep, SharedLabels
from field.compare.shells import residual_sums
from field.ring.noise import discrete_gaussian, wide_noise
from field.secrets.coins import Coins, StoredCoins
from secfc.coded.messages import CodedCenters, MissingMessages, NoiseShares
from secfc.coded.policy import DistanceOracle
from secfc.coded.queries import Operation, Query
from secfc.coded.quorum import NOBODY_MISSED
from secfc.disclosure.checked.messages import CheckedPart
from secfc.disclosure.checked.products import checking_steps, one_hot_claim, weight_claim
from secfc.disclosure.compare.session import ComparisonSession
from secfc.disclosure.dealerless.steps import AnswerRounds, StalledStep
from secfc.disclosure.noise.in_shares import NoiseDealer
from secfc.disclosure.noise.noise import Noise
from secfc.disclosure.noise.sums_question import SumsQuestion
from secfc.disclosure.owner_labels.client import OwnerLabelsClient
from secfc.disclosure.owner_labels.multiplication import cut_segments, public_shares
from secfc.disclosure.owner_labels.run_state import HeldLabels
from secfc.errors import BudgetSpent, FaultyServer
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import SERVER, STRIDE, Role
from secfc.roles.messages import Message, check_residues

# The step of an answer before that in which labels are dealt to responders: a comparison takes fewer.
COMPARED = STRIDE // 4


class NoisySumsClient:
    """A client's answers.  keeper: how it compares and shares labels.

    limit: of paid questions; checks: of labels, that are paid for.  A question that is put anew carries the
    noise that it had, see `NoiseDealer`.
    """

    opens: ClassVar[bool] = False
    opened: ClassVar[None] = None
    kept: ClassVar[None] = None
    settled: ClassVar[None] = None

    def __init__(
        self, keeper: OwnerLabelsClient, noise: Noise, coins: Coins, limit: int, checks: int
    ) -> None:
        self.keeper, self.noise, self.coins = keeper, noise, coins
        self.checks = self.paid_checks = checks
        self.plan, self.name, self.me = keeper.plan, keeper.name, keeper.me
        self.paid = NoiseDealer(keeper.plan, keeper.name, noise, coins, limit)

    def __repr__(self) -> str:
        return f"NoisySumsClient({self.name!r}, secret)"

    def watch(self, question: Query, sizes: Array) -> Role[None]:
        yield from ()

    def __call__(self, question: Query, measured: DistanceOracle) -> Role[Message | None]:
        """My part.  Raises FaultyServer for anything but noisy sums, BudgetSpent for unpaid ones."""
        if question.operation is not Operation.NOISY_SUMS:
            raise FaultyServer(SERVER, f"sent {question.kind}, which this policy never answers")
        self.keeper.participant.check_players(question)
        asked = SumsQuestion.of(self.plan, question)
        if len(asked.dealers) < self.noise.honest + self.plan.code.t:
            raise FaultyServer(SERVER, "asked for sums under less noise than was agreed")
        match = asked.match(self.plan, question, self.keeper.way.seating)
        return self.keeper.unless_stalled(match, self.add_up(match, asked, measured))

    def add_up(
        self, match: ComparisonSession, asked: SumsQuestion, measured: DistanceOracle
    ) -> Role[Message | None]:
        """Compare, share the labels, add up rows and noise, as far as these are my roles."""
        if self.me not in asked.dealers and self.name not in match.players:
            return None
        dealt, subject = self.deal(match.question, asked), self.subject(match.question)
        steps, k = self.keeper.steps(match), match.question.k
        labels = yield from self.compare(match, steps, asked, measured)
        summed = yield from self.keeper.products.dealt(match, steps, labels, shells.SHELLS + k - 1)
        yield from self.check_labels(match, steps, summed)
        total = None if summed is None else self.sums(asked, measured.rows, summed)
        responders = match.question.responders.tolist()
        awaited = [j for j in asked.dealers if j != self.me] if total is not None else []
        send = {j: NoiseShares(dealt[j], subject) for j in responders if dealt and j != self.me}
        received = yield from steps.exchange(send, awaited, NoiseShares)
        if total is None:
            return MissingMessages(0, NOBODY_MISSED)
        return CodedCenters(self.noised(total, subject, [dealt[self.me]] if dealt else [], received))

    def compare(
        self, match: ComparisonSession, steps: AnswerRounds, asked: SumsQuestion, measured: DistanceOracle
    ) -> Role[HeldLabels | None]:
        """At a member its parts' shares of the shells that rows lie in, and of their weights in clusters."""
        way, basis = self.keeper.way, self.plan.code.basis
        game = AssignmentStep(match.schedule, basis, tested=False)

        def about() -> ClusterSums:
            centers = public_shares(self.plan, self.me, asked.centers)
            return measured.rows.encode_sums(centers, match.sizes)

        try:
            begun = yield from way.begin(match, steps, game)
            # Nothing is compared with labels before: there are none.
            before = None
            if self.name in match.committee:
                nothing = np.zeros(0, np.uint64)
                before = dict.fromkeys(way.parts(match), SharedLabels(nothing, nothing))
            measured = DistanceOracle(measured.rows, match.sizes, about)
            found = yield from way.moved(match, steps, begun, measured, before)
        except StalledStep as stalled:
            raise StalledStep(stalled.step, stalled.missing.tolist(), COMPARED + 1) from None
        steps.step = COMPARED
        if found is None:
            return None
        held = {q: SharedLabels(x.bits, shells.sum_outcomes(basis, x.parts)) for q, x in found[0].items()}
        return HeldLabels(held, np.arange(match.contest.outcomes), begun.keys)

    def check_labels(self, match: ComparisonSession, steps: AnswerRounds, summed: Array | None) -> Role[None]:
        """Check that each row is in one shell, and weighs in one cluster, if I respond; else others do.

        A row counted more often would move sums further than noise covers, and one that lanes have in other
        shells or clusters would be told beside the noise, which they have alike.  Raises SuspectedParties,
        and BudgetSpent for a check beyond those that are paid for: each opens sums of labels under noise.
        """
        products, basis, alike = self.keeper.products, self.plan.code.basis, count_sums(self.plan.code.basis)
        verifier = None if summed is None else products.verifier(match, 3 * self.plan.m, alike=alike)
        if verifier is None or summed is None:
            steps.step += checking_steps(self.plan) and 1 + checking_steps(self.plan)
            return
        send, kept = verifier.deal(self.check_noise(len(match.question.responders), alike))
        received = yield from steps.exchange(send, list(send), CheckedPart)
        hiding = reduce(basis.add, verifier.take(received, alike), kept[self.me])
        once = one_hot_claim(basis, np.ascontiguousarray(summed[:, : shells.SHELLS]))
        weighs = weight_claim(basis, *shells.shell_weights(basis, summed))

        def sums(coins: Coins) -> Array:
            numbers = shells.code_rows(basis, summed).reshape(basis.lanes, -1)
            return basis.add(hiding, weigh_numbers(basis, numbers, coins))

        yield from verifier.verify(steps.exchange, [once, weighs], alike=sums if alike else None)

    def check_noise(self, dealers: int, count: int) -> Array:
        """My noise (lanes, ell, count) on the sums that a check of labels opens, fresh as its coins are."""
        if not self.checks:
            raise BudgetSpent(
                "more check of labels", 1, self.checks, self.paid_checks,
                "Each is a release: plan for more lost clients (absent=...)",
            )  # fmt: skip
        self.checks -= 1
        code, sigma = self.plan.code, Fraction(noise_deviation(dealers))
        return wide_noise(discrete_gaussian, sigma, (code.ell, count), code.basis, coins=self.coins)

    def sums(self, asked: SumsQuestion, rows: CodedRows, summed: Array) -> Array:
        """My share (lanes, k, width + 1) of the sums without noise."""
        basis, (_, weights) = self.plan.code.basis, shells.shell_weights(self.plan.code.basis, summed)
        about = public_shares(self.plan, self.me, asked.centers)
        return residual_sums(basis, rows.weighted_sums(weights), weights, about, asked.unit)

    def subject(self, question: Query) -> bytes:
        """32 bytes that agree where the same was asked, of the same, and its noise is of the same release."""
        release = self.paid.number_release(self.about(question))
        return hashlib.sha256(question.digest + str(release).encode()).digest()

    def about(self, question: Query) -> bytes:
        """32 bytes of what is asked, whoever deals noise on it."""
        return hashlib.sha256(question.detail[: -len(self.plan.clients)].tobytes()).digest()

    def deal(self, question: Query, asked: SumsQuestion) -> Sequence[Array]:
        """Shares (lanes, k, width + 1) of my noise, for every client; nothing if I deal none.

        At the first data point weights have noise, and at others values that say nothing.

        Raises BudgetSpent.
        """
        if self.me not in asked.dealers:
            return ()
        code, (k, d) = self.plan.code, asked.centers.shape
        sigma = self.noise.client_deviation(asked.sensitivity, self.noise.sums, k * (d + 1))
        names = frozenset(self.plan.clients[j] for j in asked.dealers)
        seed = self.paid.seed(self.about(question), names)
        noise = wide_noise(discrete_gaussian, sigma, (k, d + 1), code.basis, coins=StoredCoins(seed))
        weighed = code.basis.sample((code.ell, k, 1), self.coins)
        weighed[:, 0] = noise[:, :, d:]
        noise = np.concatenate([cut_segments(self.plan, noise[:, :, :d]), weighed], axis=3)
        # The polynomials are fresh where the noise is not.
        return deal_values(code, noise, self.coins)

    def noised(
        self, total: Array, subject: bytes, own: Sequence[Array], received: dict[int, NoiseShares]
    ) -> Array:
        """My share of the sums, with noise.  Raises SuspectedParties if another was asked something else."""
        basis = self.plan.code.basis
        for share in own:
            total = basis.add(total, share)
        for j, message in received.items():
            sender = self.plan.clients[j]
            if message.asked != subject:
                why = f"{sender} dealt noise for another question than mine"
                raise suspect_parties("NoiseShares", why, server=SERVER, sender=sender)
            check_residues(basis, sender, message.values, total.shape[1:])
            total = basis.add(total, message.values)
        return np.asarray(total)
