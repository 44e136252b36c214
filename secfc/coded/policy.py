"""What every disclosure policy offers to the roles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from field.arrays import Array
from field.cached import cached_property
from field.code import distances
from field.code.rows import ClusterSums, CodedRows
from field.ring.quantize import Quantizer
from field.secrets.coins import Coins
from secfc.coded.messages import CodedCenters, RevealCenters
from secfc.coded.plan import CodedPlan, RowLayout
from secfc.coded.queries import Query
from secfc.coded.quorum import Screening
from secfc.coded.source import CodedSource
from secfc.data.inputs import check_fields
from secfc.kmeans.bisecting import Bisecting
from secfc.kmeans.starts import Start
from secfc.privacy.ledger import EXACT, Ledger
from secfc.roles.exchange import PartyId, Role
from secfc.roles.messages import Message


@dataclass(frozen=True, eq=False, repr=False)
class DistanceOracle:
    """A client's shares, and the clusters whose centers its rows are measured to; computes when asked.

    sizes: (k,) points of each cluster, public.  compute: gives their sums, which are shares, secret.
    halves: whether these are halves of clusters, and each row is measured to both of its own cluster only.
    mine: the rows of the client's own points, secret if owners are hidden; None where nobody asks.
    read: reads the client's own integers (end - begin, d) at rows begin, ... of its span; secret.
    """

    rows: CodedRows
    sizes: Array
    compute: Callable[[], ClusterSums]
    halves: bool = False
    mine: Array | None = None
    read: Callable[[int, int], Array] | None = None

    @cached_property
    def sums(self) -> ClusterSums:
        """Sums of the clusters, computed when first needed: who only watches never needs them."""
        return self.compute()

    def distances(self, lanes: int) -> Array:
        """Coded scaled distances, (lanes, k, m) residues, or (lanes, 2, m) to halves: a share, secret."""
        return (
            distances.half_distances(self.rows, self.sums, lanes)
            if self.halves
            else self.rows.measure_distances(self.sums, lanes)
        )

    def gaps(self, lanes: int) -> Array:
        """By how much the second half of its cluster is nearer (`field.code.distances.half_gaps`): (lanes, m)
        residues, a share, secret."""
        return distances.half_gaps(self.rows, self.sums, lanes)

    def between(self, firsts: Array, seconds: Array) -> Array:
        """What tells how far these clusters are apart (`field.code.distances.between_pairs`): (lanes, pairs)
        residues, a share, secret."""
        return distances.between_pairs(self.rows, self.sums, firsts, seconds)


# A client's part in answering an assignment, given its shares of what it asks about: a fragment that may
# talk to others in rounds after the question's, and returns what the server is due, None for silence.
Answering = Callable[[Query, DistanceOracle], Role[Message | None]]


@dataclass(frozen=True, eq=False, repr=False)
class OwnResult:
    """What a client has in the end where nobody knows all labels: its own, and shares of centers.

    labels: (m,) int32, -1 at rows of others.  sums: of the final clusters, shares, secret; None after a
    prediction, which keeps none, and at who did not hear them.
    """

    labels: Array
    sums: ClusterSums | None


@dataclass(frozen=True, eq=False, repr=False)
class SettledAnswers:
    """Answers of which a client needs nothing any more, once it knows the labels that they opened.

    spent: how far coins and keys are, all that later answers depend on; one number more: a key more came.
    go_over: makes it be as after the answer to a question, without giving it again: nothing is drawn twice.
    """

    spent: Callable[[], tuple[int, ...]]
    go_over: Callable[[Query, tuple[int, ...]], None]


class ClientPolicy(Protocol):
    """How a client answers; and what it hears of the answer from other clients.

    opens: whether clients hear what an answer opens from those who computed it.  opened: that of the last
    question, None if I did not hear all of it: labels (m,) int32; where labels stay shared, whether none
    changed, and the sizes (k,) after the step, in one array.  kept: what I have in the end, where no labels
    are opened to all.  settled: of answers that need not be given again by who resumes; None where later ones
    depend on more.
    """

    @property
    def kept(self) -> OwnResult | None: ...

    @property
    def settled(self) -> SettledAnswers | None: ...

    @property
    def opens(self) -> bool: ...

    @property
    def opened(self) -> Array | None: ...

    def __call__(self, question: Query, measured: DistanceOracle) -> Role[Message | None]:
        """My part."""
        ...

    def watch(self, question: Query, sizes: Array) -> Role[None]:
        """No part of mine, but to hear what others open.  sizes: of the clusters that are measured to."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class DecodedAnswers:
    """The answers of a policy under which the server decodes, and clients hear of no label but from it."""

    answer: Answering
    opens: ClassVar[bool] = False
    opened: ClassVar[None] = None
    kept: ClassVar[None] = None
    settled: ClassVar[None] = None

    def __call__(self, question: Query, measured: DistanceOracle) -> Role[Message | None]:
        return self.answer(question, measured)

    def watch(self, question: Query, sizes: Array) -> Role[None]:
        yield from ()


# What the server sees in every iteration beside the public parameters, and so what it can attack:
# "distances" of all points to all centers, or "noisy distances", and labels; "noisy sums" of rows by cluster;
# "labels" alone; "sizes" of clusters alone; how many "steps" there are; or "nothing" but the result.
Exposure = Literal["distances", "noisy distances", "noisy sums", "labels", "sizes", "steps", "nothing"]


@dataclass(frozen=True)
class PolicyCapabilities:
    """What a policy shows and stands: each declares its own, and planners, reports and attacks read it.

    exposes: what the server sees in every iteration, and so what reports and attacks assume.
    dealer: who deals masks and tables for comparisons; None if nobody does, or nothing is compared.
    corrects: whether it checks what clients send by the screening that it is given; without, a run with
    corrected above 0 is refused.
    exact: whether labels are those of exact k-means; then a cost is known, and new points may be labeled.
    least_lanes: lanes below which an automatic scale would be too coarse.
    checks_words: whether several clients can play each part of what its committees compare by, so that what
    they say is checked.
    sums: how often sums are opened under noise, where that is all that is asked.
    """

    exposes: Exposure
    dealer: PartyId | None = None
    corrects: bool = False
    exact: bool = True
    least_lanes: int = 2
    checks_words: bool = False
    sums: int = 0

    @property
    def compares(self) -> bool:
        """Whether clients compare distances, which then nobody decodes."""
        return self.exposes not in ("distances", "noisy distances")

    def weigh_centers(self, m: int) -> int:
        """The number of points, m at most, of which a center that distances are measured to is the sum."""
        return 1 if self.sums else m

    @property
    def rounds(self) -> bool:
        """Whether centers may be rounded: by sizes that all hear, and by what somebody deals."""
        return self.exposes in ("labels", "sizes") and self.dealer is not None


@dataclass(frozen=True)
class LabelSharing:
    """How runs go where labels stay shared among a committee.

    hidden: whether sizes of clusters are never opened.  everybody: whether all are told the labels at the
    end, and not their owners alone.  tested: whether all are told after a step if a label changed.  looks:
    whether after the last step that is allowed one more is taken, of which nothing else is used.
    """

    hidden: bool = False
    everybody: bool = False
    tested: bool = True
    looks: bool = True


class Disclosure(Protocol):
    """A policy.  Both fragments run once, after the rows are shared and before the first iteration."""

    @property
    def capabilities(self) -> PolicyCapabilities:
        """What it shows and stands."""
        ...

    @property
    def sharing(self) -> LabelSharing | None:
        """How labels stay shared through a run; None where steps open them, or runs are one question."""
        ...

    def committee_choice(self, plan: CodedPlan) -> Any:
        """Who compares, if a step may ask in two questions (`secfc.disclosure.compare.session`); else
        None.
        """
        ...

    def deviation(self, plan: CodedPlan, labels: Array, k: int) -> float:
        """Standard deviation of the noise on squared distances to clusters of these labels (m,).

        Of those that the server sees, in squared data units; 0 where there is none.
        """
        ...

    @property
    def start(self) -> Start:
        """The best start that it allows, for who names none."""
        ...

    def headroom(self, way: Any, public: Any, layout: RowLayout) -> int:
        """How many times the largest distance the modulus must hold, for a `SecFC` on public facts.

        Raises ValueError if this policy does not fit them.
        """
        ...

    def stretch_headroom(self, headroom: int, stretch: int, layout: RowLayout) -> int:
        """Headroom where clients that deviate may have integers `stretch` times as large as honest
        ones."""
        ...

    def clip_quantizer(self, quantizer: Quantizer) -> Quantizer:
        """The quantizer that makes rows fit this policy."""
        ...

    def squares(self, plan: CodedPlan) -> bool:
        """Whether squares of rows are shared before the first query, as replies are checked by them."""
        ...

    def check(self, plan: CodedPlan) -> None:
        """Raises ValueError for a plan that this policy cannot follow, before any data is touched."""
        ...

    def client(self, plan: CodedPlan, name: PartyId, *, coins: Coins) -> Role[ClientPolicy]:
        """How a client answers."""
        ...

    def server(
        self, plan: CodedPlan, screening: Screening, *, coins: Coins, threads: int
    ) -> Role[CodedSource]:
        """Source of the server's steps.  screening: whom it may ask and believe."""
        ...

    def open_centers(
        self,
        plan: CodedPlan,
        name: PartyId,
        question: RevealCenters,
        compute: Callable[[], Array],
        coins: Coins,
    ) -> Role[Message | None]:
        """A consenting client's answer, given how to compute its shares of the sums (lanes, k, width)."""
        ...

    def ledger(self, plan: CodedPlan) -> Ledger:
        """What the run costs in differential privacy, by view."""
        ...

    def learned(self, plan: CodedPlan) -> tuple[str, ...]:
        """What the server learned, in sentences for people."""
        ...


class ExactPolicy:
    """What policies without noise share: rows as they come, exact centers, no differential privacy."""

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def start(self) -> Start:
        return Bisecting()

    @property
    def sharing(self) -> LabelSharing | None:
        return None

    def committee_choice(self, plan: CodedPlan) -> Any:
        return None

    def deviation(self, plan: CodedPlan, labels: Array, k: int) -> float:
        return 0.0

    def headroom(self, way: Any, public: Any, layout: RowLayout) -> int:
        return 1

    def stretch_headroom(self, headroom: int, stretch: int, layout: RowLayout) -> int:
        # Distances are squares.
        return headroom * stretch**2

    def clip_quantizer(self, quantizer: Quantizer) -> Quantizer:
        return quantizer

    def squares(self, plan: CodedPlan) -> bool:
        return plan.init.factor > 1

    def check(self, plan: CodedPlan) -> None:
        """Fits every plan."""

    def open_centers(
        self,
        plan: CodedPlan,
        name: PartyId,
        question: RevealCenters,
        compute: Callable[[], Array],
        coins: Coins,
    ) -> Role[CodedCenters | None]:
        yield from ()
        return CodedCenters(compute())

    def ledger(self, plan: CodedPlan) -> Ledger:
        return EXACT
