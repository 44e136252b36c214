"""The paper's policy: the server decodes distances, from replies that show nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from field.arrays import Array
from field.code.distances import Replies
from field.code.rows import cluster_sizes
from field.ring.basis import Basis
from field.ring.quantize import headroom
from field.secrets.coins import Coins
from secfc.coded.messages import CodedDistances, MissingMessages
from secfc.coded.plan import CodedPlan, RowLayout
from secfc.coded.policy import ClientPolicy, DecodedAnswers, DistanceOracle, ExactPolicy, PolicyCapabilities
from secfc.coded.queries import Operation, Query, Subject
from secfc.coded.quorum import AnyThreshold, Quorum, Screening, ServerContext, exclude_dropouts
from secfc.coded.sharing import pair_keys
from secfc.coded.source import CodedSource, decoding_source
from secfc.data.inputs import SWITCH, WHOLE, check_fields
from secfc.disclosure.decoded.polynomials import BlindedAnswer, DealtQuorum
from secfc.disclosure.decoded.replies import (
    CheckedAnswer,
    told_lanes,
    verify_replies,
)
from secfc.errors import TooFewReplies
from secfc.kmeans.bisecting import Bisecting
from secfc.kmeans.starts import Start
from secfc.roles.exchange import Exchange, PartyId, Role, to_all
from secfc.roles.messages import compact_labels


@dataclass(frozen=True)
class Distances(ExactPolicy):
    """Policy by which the server decodes the exact distance of every point to every center, as in the paper.

    Parameters
    ----------
    blind
        Whether replies are masked so that the server learns only their weighted sum, the distance.  Unmasked
        replies determine the whole polynomial: the distance of every segment of the features, and values at
        the noise points.
    colluding
        Clients that may collude with the server and still learn no more than distances from the replies of
        others.  Every two more cost each responder two more streams of masks, or each one more dealing.
    dealt
        Whether masks are polynomials that colluding + 1 clients deal anew in every query
        (`secfc.disclosure.decoded.polynomials`), so that any threshold of replies suffices: for runs in which
        clients often drop out.  Otherwise masks sum to zero over a fixed set of threshold(2) responders, and
        if one drops out, others are asked with fresh masks.

    Warnings
    --------
    Over iterations distances fix the shape of the data up to rotation and reflection, and with d + 1 known
    points the data themselves (`secfc.attacks.geometry`).

    Notes
    -----
    Replies without masks, or with masks that sum to zero, are checked before use
    (`secfc.disclosure.decoded.replies`): up to t deviating clients end the run, and are not named.

    Where replies are corrected (`Threshold(corrected=)`), replies and dealings are checked, and values off
    the polynomial are traced to their client (`secfc.coded.quorum`).  That needs unmasked or dealt replies,
    so masks are then always dealt.
    """

    blind: bool = True
    colluding: int = 1
    dealt: bool = False

    capabilities: ClassVar[PolicyCapabilities] = PolicyCapabilities("distances", corrects=True)
    start: ClassVar[Start] = Bisecting()

    def __post_init__(self) -> None:
        check_fields(self, {"blind": SWITCH, "colluding": WHOLE, "dealt": SWITCH})

    def client(self, plan: CodedPlan, name: PartyId, *, coins: Coins) -> Role[ClientPolicy]:
        if self.located(plan) and not self.blind:
            yield from ()
            return DecodedAnswers(partial(bare_reply, plan))
        keys = yield from pair_keys(plan, name, coins)
        me = plan.clients.index(name)
        if self.located(plan):
            return DecodedAnswers(BlindedAnswer(plan, me, keys, coins, self.colluding))
        return DecodedAnswers(CheckedAnswer(plan, me, keys, coins, self.colluding, bare=not self.blind))

    def server(
        self, plan: CodedPlan, screening: Screening, *, coins: Coins, threads: int
    ) -> Role[CodedSource]:
        yield from ()
        return decoding_source(self.quorum(ServerContext(plan, screening)), threads)

    def headroom(self, way: Any, public: Any, layout: RowLayout) -> int:
        # What is checked decides comparisons of honest rows (`CodedPlan.deciding_lanes`).
        return headroom(layout.m, way.quantization.largest)

    def squares(self, plan: CodedPlan) -> bool:
        return super().squares(plan) and not self.located(plan)

    def stretch_headroom(self, headroom: int, stretch: int, layout: RowLayout) -> int:
        # And holds the distances of all rows that pass their test.
        return max(headroom, stretch**2)

    def quorum(self, desk: ServerContext) -> Quorum:
        """Who is asked."""
        if self.located(desk.plan):
            return DealtQuorum(desk, self.colluding) if self.blind else AnyThreshold(desk)
        return CheckedQuorum(MaskedQuorum(desk))

    def located(self, plan: CodedPlan) -> bool:
        """Whether any threshold of replies is decoded, of which false ones may be located, and none is
        checked by shares of rows."""
        return bool(plan.corrected) or (self.dealt if self.blind else plan.code.t == 0)

    def learned(self, plan: CodedPlan) -> tuple[str, ...]:
        facts = [
            "all labels and cluster sizes, in every iteration (so did every client)",
            "the exact distance of every point to every center, in every iteration: over iterations these "
            "fix the shape of the data up to rotation and reflection",
        ]
        if plan.code.ell > 1 and not self.blind:
            facts.append(
                f"the same distances for each of the ell={plan.code.ell} segments of the features, if it "
                "interpolates the replies instead of summing them"
            )
        if plan.init.reveals:
            facts.append(plan.init.reveals)
        return tuple(facts)


# --- client --------------------------------------------------------------------------------------


def bare_reply(plan: CodedPlan, question: Query, measured: DistanceOracle) -> Role[CodedDistances | None]:
    """The reply of the paper: a share of the whole polynomial."""
    yield from ()
    return CodedDistances(measured.distances(plan.lanes(measured.sizes)))


# --- server --------------------------------------------------------------------------------------


# What checks replies to a query, None if some are missing: who said no more, and who could not go on; None if
# nothing was wrong.
Verifier = Callable[
    [Query, Mapping[PartyId, Any] | None], Role[tuple[set[PartyId], dict[PartyId, MissingMessages]] | None]
]


class MaskedQuorum(Quorum):
    """Exactly threshold(2) clients answer, and all of them must.

    The masks of a responding set cancel only together.  When some stay silent, or lack the key of one that
    died before it had told all, the question is put anew to a set without it, as a new round, so with fresh
    masks.

    silent: whom this quorum does without.
    """

    def __init__(self, desk: ServerContext) -> None:
        super().__init__(desk)
        self.silent: set[PartyId] = set()

    def ask_distances(
        self, labels: Array, k: int, basis: Basis, operation: Operation = Operation.DISTANCE
    ) -> Role[dict[int, Array]]:
        subject = Subject(operation, k, compact_labels(labels))
        inbox = yield from self.answered(lambda number, chosen: Query(number, subject, chosen))
        return self.desk.believed(inbox, CodedDistances, basis, self.shape(k, operation), 2)

    def answered(
        self, ask: Callable[[int, Array], Query], verify: Verifier | None = None
    ) -> Role[Mapping[PartyId, Any]]:
        """The replies of a responding set that is there, to a question with its round and its numbers.

        verify: how they are checked, if they are.
        """
        needed, desk = self.plan.code.threshold(2), self.desk
        while True:
            able = [c for c in desk.there if c not in self.silent]
            if len(able) < needed:
                raise TooFewReplies(needed, able)
            asked = tuple(able[:needed])
            numbers = np.array([self.plan.clients.index(c) for c in asked], np.int32)
            question = ask(next(desk.rounds), numbers)
            inbox = yield Exchange(
                to_all(desk.there, question), asked, 0, round=question.round, phase="assign"
            )
            reports = {c: m for c, m in inbox.items() if isinstance(m, MissingMessages)}
            whole, gone = len(inbox) - len(reports) == needed, set(asked) - set(inbox)
            failed = None if verify is None else (yield from verify(question, inbox if whole else None))
            if whole and failed is None:
                return inbox
            if failed is not None:
                gone, reports = failed
            lost = exclude_dropouts(self.plan, gone, reports)
            self.silent |= lost or set(reports)


class CheckedQuorum(Quorum):
    """Responders, all of whose replies are checked (`secfc.disclosure.decoded.replies`)."""

    def __init__(self, responders: MaskedQuorum) -> None:
        super().__init__(responders.desk)
        self.responders = responders

    def ask_distances(
        self, labels: Array, k: int, basis: Basis, operation: Operation = Operation.DISTANCE
    ) -> Role[dict[int, Array]]:
        return self.responders.ask_distances(labels, k, basis, operation)

    def replies(
        self, labels: Array, k: int, sizes: Array | None = None, operation: Operation = Operation.DISTANCE
    ) -> Role[Replies]:
        plan, shape = self.plan, self.shape(k, operation)
        measured = cluster_sizes(labels, k) if sizes is None else sizes
        subject = Subject(operation, k, compact_labels(labels))
        asked: list[Query] = []

        def ask(number: int, chosen: Array) -> Query:
            asked.append(Query(number, subject, chosen))
            return asked[-1]

        decoded: list[Array] = []
        verify = partial(verify_replies, self.desk, measured, shape, passed=decoded.append)
        inbox = yield from self.responders.answered(ask, verify)
        if decoded:
            return decoded[-1]
        basis = plan.code.basis.prefix(told_lanes(plan, measured, False))
        return self.desk.believed(inbox, CodedDistances, basis, shape, 2)
