"""Own labels: a committee keeps the labels shared, and tells owners theirs at the end.

A client's half.  State is what each member of the committee holds: shares of the labels, as bits and as
residues (`field.compare.assignment_step`).  In every step but the first, whose labels are public,

1. members share their parts of the labels with the responders (`field.code.masking`);
2. responders sum points by labels: products of shares, dealt anew among the responders with the degree of
   shares again;
3. responders measure distances to the centers with these sums; replies are checked, and members compare them
   under the dealer's masks, as under `AssignmentsOnly`; who wins stays shared, and becomes residues;
4. members open the sizes, re-randomized among them, and whether any label changed.

Of several restarts the server then asks what clusters cost, of each one number: what that takes is shared as
under 1 and 2, and hidden by the responders.

At the end all clients get shares of the centers by 1 and 2, and every owner the members' shares of its own
rows' labels.  What the dealer's masks hide is opened among the members only; whatever leaves the committee is
hidden under coins that the dealer does not know.  The argument: `secfc/disclosure/owner_labels/README.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np

from field.arrays import Array
from field.code.rows import ClusterSums, CodedRows, coded_rows
from field.compare import dealer_protocol
from field.compare.assignment_step import SharedContest, SharedLabels, cluster_code
from field.secrets.coins import Coins
from secfc.coded.messages import CodedCosts, CodedGains, LabelShare, MissingMessages, SizeShare
from secfc.coded.plan import CodedPlan
from secfc.coded.policy import DistanceOracle, LabelSharing, OwnResult
from secfc.coded.queries import Operation, Query
from secfc.coded.quorum import NOBODY_MISSED
from secfc.disclosure.checked.parts import tell_shares
from secfc.disclosure.checked.products import STEPS
from secfc.disclosure.checked.steps import DIGESTS, stop_checking
from secfc.disclosure.compare.client import ComparisonClient, label_check_round
from secfc.disclosure.compare.rounds import note_rounds, stop_requesting
from secfc.disclosure.compare.server import TrustedDealer
from secfc.disclosure.compare.session import DEAL, ComparisonSession
from secfc.disclosure.dealerless.policy import Dealerless
from secfc.disclosure.dealerless.steps import AnswerRounds, StalledStep
from secfc.disclosure.decoded.replies import mask_values
from secfc.disclosure.owner_labels.backend import LabelSharingBackend, StartedQuery
from secfc.disclosure.owner_labels.dealer import DealerBackend
from secfc.disclosure.owner_labels.dealerless import DealerlessBackend
from secfc.disclosure.owner_labels.multiplication import (
    JointCheck,
    SecureMultiplication,
    checks_squares,
    label_bits,
    requested_costs,
    requested_gaps,
    session_for,
    sizes_from_shares,
    split_sum_shares,
    step_continuation,
    union_sum_shares,
)
from secfc.disclosure.owner_labels.output import (
    LAST,
    HiddenOwners,
    PublicOwners,
    labels_of_own_points,
    select_owner_rows,
)
from secfc.disclosure.owner_labels.run_state import ClientRunState, HeldLabels
from secfc.errors import FaultyServer, LabelsWithheld
from secfc.roles.exchange import SERVER, Exchange, PartyId, Role, expect_messages, to_all
from secfc.roles.messages import Message

# Whoever goes no further says so while checks go on beside openings (`ComparisonSession.woven_until`), and
# for so many steps: somebody whom all hear listens in one of them, if only after responders checked what
# others have no part in.
HEARD_BY_ALL = 4 + 2 * STEPS


class OwnerLabelsClient:
    """A client's answers where labels stay shared.

    participant: what it checks, and how it answers all but steps.  way: how it shares and compares.
    sharing: what is opened of labels.
    """

    opens: ClassVar[bool] = True
    settled: ClassVar[None] = None

    def __init__(
        self, participant: ComparisonClient, way: LabelSharingBackend, coins: Coins, sharing: LabelSharing
    ) -> None:
        self.sharing = sharing
        self.participant, self.way = participant, way
        self.plan, self.name, self.me = participant.plan, participant.name, participant.me
        self.opened, self.kept = cast("Array | None", None), cast("OwnResult | None", None)
        self.runs: dict[int, ClientRunState] = {}
        self.products = SecureMultiplication(self.plan, self.me, way.peers, coins, way.held)
        self.rows: Array = np.empty(0, np.int64)  # of my points; secret if owners are hidden
        self.read: Callable[[int, int], Array] | None = None  # my integers at rows; secret
        self.said: dict[PartyId, int] = {}  # in which round I said something to each party last

    def __repr__(self) -> str:
        return f"Keeper({self.name!r}, secret)"

    def __call__(self, question: Query, measured: DistanceOracle) -> Role[Message | None]:
        self.opened = None
        if measured.mine is not None:
            self.rows, self.read = measured.mine, measured.read
        match question.operation:
            case Operation.LLOYD_STEP | Operation.SPLIT:
                match = self.match(question)
                return self.told(match, self.unless_stalled(match, self.advance(match, measured)))
            case Operation.EXPLAINED if self.plan.layout.explained is not None:
                match = self.match(question)
                return self.told(match, self.unless_stalled(match, self.judge_columns(match, measured)))
            case Operation.CLUSTER_COST | Operation.SPLIT_GAIN:
                match = self.match(question)
                return self.unless_stalled(match, self.numbers(match, measured))
            case Operation.REVEAL_LABELS if self.sharing.everybody:
                match = self.match(question)
                return self.heard(self.participant.told(match, question, self.show(match)))
            case Operation.DELIVER_LABELS if not self.sharing.everybody:
                return self.deliver(self.match(question), measured)
            case Operation.PREDICT_LABELS:
                return self.locate(self.located(question, measured.sizes), measured)
            case step if step.opens == "labels" and self.sharing.everybody and (question.labels < 0).all():
                return self.heard(self.participant(question, measured))
            case step if step.compares:
                raise FaultyServer(SERVER, "asked for labels, which this policy never shows")
            case _:
                return self.participant(question, measured)

    def watch(self, question: Query, sizes: Array) -> Role[None]:
        self.opened = None
        operation = question.operation
        if operation.opens == "sizes":
            yield from self.hear(self.match(question), {})
        elif operation is Operation.REVEAL_LABELS:
            yield from self.heard(self.participant.hear(self.match(question), question, {}))
        elif self.sharing.everybody:
            yield from self.heard(self.participant.watch(question, sizes))
        elif operation.opens == "own labels":
            # Members tell me my labels all the same, if they know which; of the centers I keep nothing.
            delivers = operation is Operation.DELIVER_LABELS
            match = self.match(question) if delivers else self.located(question, sizes)
            if not (delivers and self.plan.layout.mixed):
                owners = PublicOwners(self.plan, self.me)
                labels, _ = yield from labels_of_own_points(match, len(match.sizes), owners, None)
                self.kept = None if labels is None else OwnResult(labels, None)

    def heard(self, answer: Role[Message | None]) -> Role[Message | None]:
        """An answer whose labels all hear."""
        message = yield from answer
        self.opened = self.participant.opened
        return message

    def show(self, match: ComparisonSession) -> Role[Message | None]:
        """My share of the labels, for all, if I am in the committee."""

        def answer() -> Role[Message | None]:
            yield from ()
            state = self.state(match)
            if state is None:
                return None
            shares = {q: dealer_protocol.winner_code(match.contest, s.bits) for q, s in state.parts.items()}
            hidden = self.way.hiding(match, state.keys)(shares, None)
            return LabelShare(*tell_shares(match.blocks, self.at(match), match.context, hidden))

        self.participant.opened = None
        return self.unless_stalled(match, answer())

    def match(self, question: Query) -> ComparisonSession:
        """The step that is asked for.  Raises FaultyServer for one that the plan does not have."""
        self.participant.check_players(question)
        at = question.at
        if at.step:
            self.run(question).check(at.step, at.sizes.tolist())
        match = session_for(self.plan, question, self.way.seating, self.sharing)
        if np.count_nonzero(match.sizes) < 2:
            raise FaultyServer(SERVER, "asked for what sizes decide: fewer than two clusters with points")
        return match

    def located(self, question: Query, sizes: Array) -> ComparisonSession:
        """The comparison of new points with kept centers, of clusters of these sizes as far as told."""
        return replace(self.participant.match(question, sizes), hidden=self.sharing.hidden)

    def run(self, question: Query) -> ClientRunState:
        """The run that a question is about."""
        return self.runs.setdefault(question.at.run, ClientRunState())

    # --- a step

    def advance(self, match: ComparisonSession, measured: DistanceOracle) -> Role[Message | None]:
        """My part in one step: deal, respond, compare, as far as these are my roles."""
        question = match.question
        if self.name not in (*match.seating.dealers, *match.responders, *match.committee):
            return None
        steps, old = self.steps(match), self.state(match)
        begun = yield from self.way.begin(match, steps, step_continuation(match, self.sharing))
        sums = None
        if question.at.step:
            one_hot = yield from self.products.labeled(match, steps, old)
            to = question.responders.tolist()
            proofs: list[Role[None]] | None = [] if match.proves else None
            sums = yield from self.centers(match, steps, measured.rows, one_hot, to, proofs)
            begun = replace(begun, proof=proofs[0] if proofs else None)
        measured = self.centered(match, measured, sums)
        moved = yield from self.way.moved(match, steps, begun, measured, None if old is None else old.parts)
        if moved is None:
            return MissingMessages(0, begun.missing)
        (new, _), run, step = moved, self.run(question), question.at.step
        held = run.states[step]
        run.states = {step: held, step + 1: HeldLabels(new, np.flatnonzero(match.sizes), begun.keys)}
        return self.size_share(match, begun, *moved)

    def judge_columns(self, match: ComparisonSession, measured: DistanceOracle) -> Role[Message | None]:
        """My part in finding whether labels explain more of some column than is allowed.

        A step in which a column is a point, of cluster 0, and goes to 1 where they do.
        """
        if self.name not in match.players:
            return None
        about = replace(match, plan=self.plan, sizes=match.question.subject.now, hidden=False)
        basis, steps, held = self.plan.code.basis, self.steps(match), self.state(about)
        begun = yield from self.way.begin(match, steps, step_continuation(match, self.sharing))
        one_hot = yield from self.products.labeled(about, steps, held)
        proofs: list[Role[None]] | None = [] if match.proves else None
        excess = yield from self.products.excess(match, steps, measured.rows, one_hot, proofs)
        columns = coded_rows(basis, match.plan.m, 1, threads=measured.rows.threads)
        if excess.size:
            columns.add_rows(0, excess)
        columns.finish_rows()
        plane = np.tile(np.array([0, 1], basis.dtype), (basis.lanes, 1, 1))
        numbers = DistanceOracle(columns, match.sizes, lambda: columns.encode_sums(plane, match.sizes))
        within, sides, old = np.zeros(match.plan.m, np.int64), np.arange(2), None
        if held is not None:
            old = {q: self.way.public(match, q, within, sides) for q in held.parts}
        begun = replace(begun, proof=proofs[0] if proofs else None)
        moved = yield from self.way.moved(match, steps, begun, numbers, old)
        if moved is None:
            return MissingMessages(0, begun.missing)
        return self.size_share(match, begun, *moved)

    def size_share(
        self,
        match: ComparisonSession,
        begun: StartedQuery,
        new: Mapping[int, SharedLabels],
        same: bool | Mapping[int, Array] | None,
    ) -> SizeShare:
        """What I tell of sizes after a step, if of any, and of whether it changed labels."""
        hide, first = self.way.hiding(match, begun.keys), self.plan.code.basis.prefix(1)
        rows, p = 0 if self.sharing.hidden or match.hidden else None, np.uint64(first.primes[0])
        own = {q: each.parts[:1, :rows].sum(axis=2, dtype=np.uint64) % p for q, each in new.items()}
        own = {q: sums.astype(np.uint32) for q, sums in own.items()}
        if isinstance(same, Mapping):
            own = {q: np.concatenate([sums, same[q]], axis=1) for q, sums in own.items()}
        if self.way.held is not None:
            # Each member has a share of its own, also where two play a part.
            return SizeShare(next(iter(own.values())), same is True)
        values, digests = tell_shares(match.blocks, self.at(match), match.context, hide(own, first))
        return SizeShare(values.reshape(1, -1), False, digests)

    def centers(
        self,
        match: ComparisonSession,
        steps: AnswerRounds,
        rows: CodedRows,
        one_hot: Array | None,
        to: Sequence[int],
        proofs: list[Role[None]] | None = None,
    ) -> Role[Array]:
        """Shares of the sums of clusters, or if sizes are hidden of what tells their sides, for these.

        proofs: see `SecureMultiplication.verify`.
        """
        share = self.products.sides if match.hidden else self.products.sums
        return share(match, steps, rows, one_hot, to, proofs)

    def kept_of(self, match: ComparisonSession, rows: CodedRows, sums: Array) -> ClusterSums:
        """Sums of clusters, as distances are measured to them or numbers made of them."""
        return (
            rows.encode_sums(sums, match.sizes) if match.hidden else self.products.expanded(match, rows, sums)
        )

    def centered(
        self, match: ComparisonSession, measured: DistanceOracle, sums: Array | None
    ) -> DistanceOracle:
        """What distances are measured to, with my share of the sums of clusters; None if labels are known."""
        question, rows = match.question, measured.rows

        def compute() -> ClusterSums:
            found = measured.sums if sums is None else self.kept_of(match, rows, sums)
            if question.operation is Operation.SPLIT:
                whole = rows.residues(found)
                both = split_sum_shares(self.plan, self.me, whole, question.subject.now, question.detail)
                found = rows.encode_sums(both, match.sizes)
            return found

        return DistanceOracle(rows, match.sizes, compute)

    def state(self, match: ComparisonSession) -> HeldLabels | None:
        """What I hold of the labels that a question is about, if I am in its committee.

        Raises FaultyServer for a step of which this committee has none.
        """
        question = match.question
        if self.name not in match.committee:
            return None
        committee, run, at = question.members.tolist(), self.run(question), question.at
        if at.step == 0:
            known, alive = question.labels.astype(np.int64), np.flatnonzero(at.sizes)
            run.committee = committee
            public = {q: self.way.public(match, q, known, alive) for q in self.way.parts(match)}
            run.states = {0: HeldLabels(public, alive, None)}
        if at.step not in run.states or run.committee != committee:
            raise FaultyServer(SERVER, f"asked for step {at.step} of a run whose labels others share")
        held = run.states[at.step]
        # Clusters with points, by sizes, and of the others nobody is in any.
        there = np.flatnonzero((match.sizes if match.hidden else at.sizes)[held.clusters])
        numbers = np.unique(at.groups[held.clusters[there]], return_inverse=True)[1]
        basis, nobody = self.plan.code.basis, np.zeros(self.plan.m, np.int64)
        merged = {}
        for q, shared in held.parts.items():
            ones = self.way.public(match, q, nobody, np.arange(2)).parts[:, 0]
            merged[q] = shared.among(there).merge_groups(basis, numbers, ones)
        return replace(held, parts=merged)

    # --- what a run costs

    def numbers(self, match: ComparisonSession, measured: DistanceOracle) -> Role[Message | None]:
        """My part in what clusters cost, or splits gain: numbers that responders hide."""
        question = match.question
        players = match.players if match.rounding is not None else (*match.responders, *match.committee)
        if self.name not in players:
            return None
        steps, state = self.steps(match), self.state(match)
        if state is not None:
            run = self.run(question)
            run.states = {question.at.step: run.states[question.at.step]}  # which may be the last of it
        begun = None
        if match.rounding is not None:
            begun = yield from self.way.begin(match, steps, None)
        weighs, rows = question.operation is Operation.CLUSTER_COST, measured.rows
        one_hot = yield from self.products.labeled(match, steps, state)
        to, joint = question.responders.tolist(), JointCheck(None, [])
        if one_hot is not None:
            # All is checked at once, before a number leaves.
            count = self.plan.m if weighs else len(match.question.detail)
            blinded = 0 if weighs or self.plan.code.ell == 1 else count
            what = "sums or squares of rows" if weighs else "sums of rows or gains"
            joint = self.products.joined(match, count * rows.width, what, blinded)
        sums = yield from self.products.sums(match, steps, rows, one_hot, to, joint=joint)
        norms = (yield from self.products.norms(match, steps, rows, one_hot, joint)) if weighs else None
        centers = None
        if begun is not None:
            centers = yield from self.rounded(match, steps, begun, rows, sums)
        if one_hot is None:
            return MissingMessages(0, NOBODY_MISSED)
        if norms is not None:
            yield from self.products.verify(match, steps, joint.verifier, joint.claims)
            return self.blind_numbers(
                match, steps, CodedCosts(requested_costs(match, one_hot, norms, sums, centers))
            )
        gaps = requested_gaps(match, sums, centers)
        if checks_squares(self.plan):
            return CodedGains((yield from self.products.squares(match, steps, gaps, joint)))
        return self.blind_numbers(match, steps, CodedGains(self.plan.code.basis.squares(gaps)))

    def blind_numbers(
        self, match: ComparisonSession, steps: AnswerRounds, reply: CodedCosts | CodedGains
    ) -> Message:
        """A reply whose numbers are masked, or whose keys I lack for that."""
        # The next round's nonce: the streams of this one dealt labels.
        lacking = mask_values(
            self.plan, self.me, self.way.peers, self.participant.colluding,
            replace(match.question, round=match.question.round + 1), reply.values,
        )  # fmt: skip
        return StalledStep(steps.step, lacking.tolist()).report if lacking.size else reply

    def rounded(
        self, match: ComparisonSession, steps: AnswerRounds, begun: StartedQuery, rows: CodedRows, sums: Array
    ) -> Role[Array | None]:
        """My share (lanes, K, width) of the rounded centers of clusters, or unions, if I respond."""
        question = match.question

        def compute() -> ClusterSums:
            if question.operation is Operation.SPLIT_GAIN:
                now = question.subject.now
                both = union_sum_shares(self.plan.code.basis, sums, question.detail, now)
                return rows.encode_sums(both, match.sizes)
            return self.products.expanded(match, rows, sums)

        exact = DistanceOracle(rows, match.sizes, compute)
        about, _ = yield from self.way.rounded(match, steps, begun, exact)
        if self.name not in match.responders:
            return None
        return np.ascontiguousarray(rows.residues(about.sums)[:, match.sizes > 0])

    # --- the end

    def deliver(self, match: ComparisonSession, measured: DistanceOracle) -> Role[Message]:
        """My part in the end: every owner its own labels, and all clients shares of the centers."""
        owners = self.owners

        def answer() -> Role[tuple[Mapping[int, Message] | None, ClusterSums]]:
            steps, state = self.steps(match), self.state(match)
            everybody = range(len(self.plan.clients))
            one_hot = yield from self.products.labeled(match, steps, state)
            sums = yield from self.centers(match, steps, measured.rows, one_hot, everybody)
            told: Mapping[int, Message] | None = None
            if isinstance(owners, HiddenOwners):
                told = yield from select_owner_rows(
                    owners, match, steps, one_hot, self.products, measured.rows
                )
            elif state is not None:
                hide, bits = self.way.hiding(match, state.keys), {q: s.bits for q, s in state.parts.items()}
                told = owners.told(match, hide(self.digits(match, bits), None))
            return told, self.kept_of(match, measured.rows, sums)

        return self.to_owners(match, len(match.sizes), owners, answer())

    @property
    def owners(self) -> PublicOwners | HiddenOwners:
        """Who is told which labels at the end of a run."""
        if self.plan.layout.mixed:
            key = self.plan.code.basis.prefix(1).sample((1,), self.products.coins)
            return HiddenOwners(self.plan, self.me, self.rows, self.read, int(key[0, 0]))
        return PublicOwners(self.plan, self.me)

    def locate(self, match: ComparisonSession, measured: DistanceOracle) -> Role[Message]:
        """My part in labeling new points: each owner learns its own labels, nobody anything else."""

        owners = PublicOwners(self.plan, self.me)

        def answer() -> Role[tuple[Mapping[int, Message] | None, None]]:
            steps = self.steps(match)
            begun = yield from self.way.begin(match, steps, SharedContest(match.schedule))
            bits = yield from self.way.won(match, steps, begun, measured)
            if bits is None:
                return None, None
            hide = self.way.hiding(match, begun.keys)
            return owners.told(match, hide(self.digits(match, bits), None)), None

        return self.to_owners(match, len(match.sizes), owners, answer())

    def to_owners(
        self,
        match: ComparisonSession,
        k: int,
        owners: PublicOwners | HiddenOwners,
        answer: Role[tuple[Mapping[int, Message] | None, Any]],
    ) -> Role[Message]:
        """What the server is due: that I have my labels, or whose silence prevents it.

        answer: what I tell owners, if I am to; and what I keep.
        """
        told, sums, report = None, None, MissingMessages(0, NOBODY_MISSED)
        try:
            told, sums = yield from note_rounds(answer, self.said)
        except StalledStep as stalled:
            yield from self.give_up(match, stalled)
            report = stalled.report
        labels, missing = yield from labels_of_own_points(match, k, owners, told)
        if labels is None:
            return report if report.step else MissingMessages(LAST, np.array(sorted(missing), np.int32))
        if not report.step:
            self.kept = OwnResult(labels, sums)
        return report

    # --- what all of these share

    def steps(self, match: ComparisonSession) -> AnswerRounds:
        """The exchanges after that of the dealer."""
        return AnswerRounds(self.plan.clients, match.question.round + DEAL, match.question.digest)

    def at(self, match: ComparisonSession) -> int:
        """My number in the committee."""
        return match.committee.index(self.name)

    def digits(self, match: ComparisonSession, bits: Mapping[int, Array]) -> dict[int, Array]:
        """By part shares (places, words) of labels' digits, of those of who wins, (K, words)."""
        alive, places = np.flatnonzero(match.sizes), label_bits(len(match.sizes))
        return {q: cluster_code(alive, won, places) for q, won in bits.items()}

    def unless_stalled(self, match: ComparisonSession, answer: Role[Message | None]) -> Role[Message | None]:
        """An answer, or whose silence prevents it."""
        try:
            return (yield from note_rounds(answer, self.said))
        except StalledStep as stalled:
            yield from self.give_up(match, stalled)
            return stalled.report

    def give_up(self, match: ComparisonSession, stalled: StalledStep) -> Role[None]:
        """Tell all that may wait for me, so that none waits long."""
        others = [c for c in self.plan.clients if c != self.name]
        told = MissingMessages(stalled.report.step, NOBODY_MISSED)
        last = max(stalled.step + HEARD_BY_ALL, match.woven_until - DEAL)
        steps = set(range(stalled.step + 1, last + 1))
        for step in sorted(steps | ({stalled.later} if stalled.later > stalled.step else set())):
            # What a check says beside an opening was said before that was waited for.
            number = match.question.round + DEAL + step
            unheard = (c for c in others if self.said.get(c, -1) < number)
            yield Exchange(to_all(unheard, told), round=number, phase="compare")
        for checked in (match.checked_sums, match.checked):
            if checked is not None and self.said.get(SERVER, -1) < checked.round(DIGESTS, SERVER):
                yield from stop_checking(checked, self.name, stalled.step + DEAL)
        yield from stop_requesting(match, self.name)

    def told(self, match: ComparisonSession, answer: Role[Message | None]) -> Role[None]:
        """Answer the server, and if I am in the committee, tell all clients before it what I tell it."""
        message = yield from answer
        question, mine = match.question, dict[PartyId, Message]()
        if self.name in match.committee:
            share = message if isinstance(message, SizeShare) else MissingMessages(0, NOBODY_MISSED)
            others = (c for c in self.plan.clients if c != self.name)
            yield Exchange(to_all(others, share), round=label_check_round(question), phase="open")
            mine = {self.name: share}
        send = {} if message is None else {SERVER: message}
        yield Exchange(send, round=question.round, phase="distances")
        yield from self.hear(match, mine)

    def hear(self, match: ComparisonSession, mine: Mapping[PartyId, Message]) -> Role[None]:
        """What the committee opens, unless one of it could not, or is not heard.  mine: my own word of it."""
        question = match.question
        run, members = self.run(question), tuple(c for c in match.committee if c != self.name)
        run.seat(match)
        inbox = {**mine, **(yield Exchange({}, members, 0, round=label_check_round(question), phase="open"))}
        shares = expect_messages(
            {c: m for c, m in inbox.items() if not isinstance(m, MissingMessages)}, SizeShare
        )
        if len(shares) == len(match.committee):
            same, sizes = sizes_from_shares(match, shares, self.sharing)
            if question.operation is not Operation.EXPLAINED:
                run.opened(question.at.step + 1, sizes.tolist(), match.committee)
            elif not same:
                raise LabelsWithheld(self.plan.layout.explained or 0)
            self.opened = np.array([same, *sizes.tolist()])


def sharing_client(
    how: TrustedDealer | Dealerless, sharing: LabelSharing, plan: CodedPlan, name: PartyId, coins: Coins
) -> Role[OwnerLabelsClient]:
    """A client whose committee compares like this, once it has its keys.  sharing: what is opened."""
    if isinstance(how, Dealerless):
        member = yield from how.member(plan, name, coins=coins)
        return OwnerLabelsClient(how.participant(plan, member), DealerlessBackend(member), coins, sharing)
    dealt = yield from how.member(plan, name, coins=coins)
    return OwnerLabelsClient(how.participant(plan, dealt), DealerBackend(dealt, coins), coins, sharing)
