"""The plan of a coded run: everything public, checked before any data is touched.

SecFC sec. 4 and Appendix A.  All parties hold the same plan and compare its digest first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any, ClassVar, Protocol

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.code.lagrange_code import LagrangeCode
from field.code.range_check import Projections, favored_tries
from field.ring.basis import lanes_for
from field.ring.quantize import Quantizer, cost_modulus, distance_bound, excess_modulus, rounded_weights
from field.ring.quantize import rounding_modulus as needed_to_round
from secfc.coded.parameters import Network
from secfc.errors import IncompatibleOptions, InputError, RangeExceeded, RowsLost
from secfc.kmeans.elbow import Elbow
from secfc.kmeans.starts import RandomLabels, Start, check_choice
from secfc.roles.description import LOCAL, DescribedPlan, RunTerms
from secfc.roles.exchange import PartyId

# --------------------------------------------------------------------------------------------------
# Which of the m rows each client contributes to: the public part of who owns what.
#
# Receivers always add what they receive into rows; whether a client's rows are its own block of them or all
# of them is a value.


class RowLayout(Protocol):
    """The public shape of everybody's contribution."""

    @property
    def m(self) -> int:
        """Points in total."""
        ...

    @property
    def n(self) -> int:
        """Clients."""
        ...

    @property
    def multiple(self) -> int:
        """How many times itself every row is computed on, so that merging rows needs no division."""
        ...

    @property
    def mixed(self) -> bool:
        """Whether several clients share the same rows, so that only their sum is held and tested."""
        ...

    @property
    def explained(self) -> int | None:
        """Thousandths of a column's variance; labels that explain more are told to nobody.  None: all are."""
        ...

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Clients, by number, whose rows are tested together, as only their sum is held."""
        ...

    def span(self, client: int) -> tuple[int, int]:
        """(first row, number of rows) that a client shares."""
        ...

    def padded_features(self, d: int, ell: int) -> int:
        """Features that rows of d are computed on with, zeros included, if they are cut into ell segments."""
        ...

    def word_span(self, client: int, width: int, ell: int) -> tuple[int, int]:
        """(first word, words) of a share of a row, of `width` words, that a client deals."""
        ...

    def without(self, contributors: Array) -> RowLayout:
        """The layout when only these clients, (n,) bool, contribute.

        Raises ValueError if the rows of one client cannot be told from those of others.
        """
        ...


@dataclass(frozen=True)
class PublicOwnerLayout:
    """Client j shares its own counts[j] rows, one client's after the other's.  Owners are public.

    seats: where only some clients compute, the numbers of these, ascending; they are then the n clients, and
    the rows of all others are nobody's.
    """

    counts: tuple[int, ...]
    multiple: int = 1
    seats: tuple[int, ...] = ()

    mixed: ClassVar[bool] = False
    explained: ClassVar[None] = None

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """(first row, number of rows) of everybody's."""
        firsts = accumulate(self.counts, initial=0)
        return tuple(zip(firsts, self.counts, strict=False))

    @property
    def m(self) -> int:
        return sum(self.counts)

    @property
    def n(self) -> int:
        return len(self.seats or self.counts)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        return tuple((j,) for j in range(self.n))

    def span(self, client: int) -> tuple[int, int]:
        return self.spans[self.seats[client] if self.seats else client]

    def without(self, contributors: Array) -> PublicOwnerLayout:
        kept = tuple(c if there else 0 for c, there in zip(self.counts, contributors, strict=True))
        return PublicOwnerLayout(kept, self.multiple, self.seats)

    def padded_features(self, d: int, ell: int) -> int:
        return d

    def word_span(self, client: int, width: int, ell: int) -> tuple[int, int]:
        return 0, width


@dataclass(frozen=True)
class HiddenOwnerLayout:
    """Every client shares all m rows, zeros where it owns none.  Owners are hidden (SecFC App. B).

    held: where rows are merged, a digest of how many clients hold each, which all parties thereby compare.
    """

    m: int
    n: int
    multiple: int = 1
    held: bytes = b""

    mixed: ClassVar[bool] = True
    explained: ClassVar[None] = None

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        return (tuple(range(self.n)),)

    def span(self, client: int) -> tuple[int, int]:
        return 0, self.m

    def without(self, contributors: Array) -> HiddenOwnerLayout:
        if not contributors.all():
            raise InputError(
                "a client was lost while all rows were shared: its zeros and points are mixed into the "
                "others' sums. Start again without it"
            )
        return self

    def padded_features(self, d: int, ell: int) -> int:
        return d

    def word_span(self, client: int, width: int, ell: int) -> tuple[int, int]:
        return 0, width


@dataclass(frozen=True)
class ColumnLayout:
    """Client j shares its columns of all m rows: the shares of a row lie side by side.

    blocks: of each client the numbers of its columns among all d, ascending; () of one that has no data.
    Clients with the same columns have other people each, and share zeros for those of others.
    kept: where rows were found, a digest of which of the union they are, which all parties thereby compare.
    explained: see `RowLayout`.
    """

    m: int
    blocks: tuple[tuple[int, ...], ...]
    kept: bytes = b""
    explained: int | None = None

    multiple: ClassVar[int] = 1

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        each = dict.fromkeys((block, j if not block else -1) for j, block in enumerate(self.blocks))
        return tuple(
            (j,) if j >= 0 else tuple(i for i, own in enumerate(self.blocks) if own == block)
            for block, j in each
        )

    @property
    def mixed(self) -> bool:
        return len(self.groups) < self.n

    @property
    def n(self) -> int:
        return len(self.blocks)

    def span(self, client: int) -> tuple[int, int]:
        return 0, self.m if self.blocks[client] else 0

    def padded_features(self, d: int, ell: int) -> int:
        # Each block is cut into segments by itself.
        return ell * sum(-(-len(self.blocks[group[0]]) // ell) for group in self.groups)

    def word_span(self, client: int, width: int, ell: int) -> tuple[int, int]:
        words = [-(-len(self.blocks[group[0]]) // ell) for group in self.groups]
        at = next(i for i, group in enumerate(self.groups) if client in group)
        return sum(words[:at]), words[at]

    def without(self, contributors: Array) -> ColumnLayout:
        if not all(there for there, block in zip(contributors, self.blocks, strict=True) if block):
            raise InputError(
                "a client was lost while columns were shared: no other has its columns. Start again"
            )
        return self


# --------------------------------------------------------------------------------------------------

# Shares leave in messages of about this many residues a lane, so memory does not grow with m.
CHUNK_RESIDUES = 1 << 16


@dataclass(frozen=True, eq=False)
class RowBatch:
    """Rows begin, ..., end - 1, which follow one another, and the blocks in their words.

    words: (first, number) of those of a row that were dealt.
    firsts, counts (blocks,) int64: where in these words each block begins, and how many it has.
    """

    begin: int
    end: int
    words: tuple[int, int]
    firsts: Array
    counts: Array

    @classmethod
    def of(cls, parts: list[tuple[int, int]], words: tuple[int, int], block: int) -> RowBatch:
        """Blocks of the rows of messages, begin to end each: a block never reaches into the next message.

        words: (first, number) of those of each row that were dealt.
        """
        begin, width = parts[0][0], words[1]
        cuts = [
            (first, min(block, (to - begin) * width - first))
            for at, to in parts
            for first in range((at - begin) * width, (to - begin) * width, block)
        ]
        firsts, counts = np.array(cuts, np.int64).reshape(-1, 2).T.copy()
        return cls(begin, parts[-1][1], words, firsts, counts)


@dataclass(frozen=True)
class CodedPlan(DescribedPlan):
    """Everything public about a run; all parties hold the same one (`digest`)."""

    code: LagrangeCode
    quantizer: Quantizer
    clients: tuple[PartyId, ...]
    layout: RowLayout
    d: int
    k: int  # the most that it may be, if there is an elbow to choose it by
    max_iter: int
    n_init: int
    init: Start
    revealing: tuple[PartyId, ...]
    largest: int  # points in the largest cluster that distances are measured to
    headroom: int = 1  # how many times the largest distance of honest rows must fit
    corrected: int = 0  # deviating clients that change no label; named are those whose replies are read
    block: int = 1  # words of a row's share that are tested together (`field.code.range_check`)
    terms: RunTerms | None = field(
        default=None, compare=False, repr=False, metadata=LOCAL
    )  # described beside it
    seed: int | None = None  # of random starts; None for coins that clients toss
    smallest_center: int = 1  # points of the smallest cluster whose center is opened
    predictions: int = 1  # new points that may be labeled after the run
    elbow: Elbow | None = None  # by which k is chosen, with `most` a number
    network: Network = Network()  # what messages cost, by which comparisons take their shape
    workers: tuple[PartyId, ...] = ()  # who holds shares and computes; nobody named: all clients
    fraction: int | None = None  # binary digits behind the point of rounded centers; None: they are exact
    deviating: int = 0  # clients of a committee that change no label and learn nothing by deviating
    dendrogram: bool = False  # whether what merging two of the final clusters costs is opened

    def __post_init__(self) -> None:
        least = {
            "k": self.k, "max_iter": self.max_iter, "n_init": self.n_init,
            "smallest_center": self.smallest_center, "predictions": self.predictions,
        }  # fmt: skip
        for name, value in least.items():
            if value < 1:
                raise InputError(f"{name}={value} is too small: it must be at least 1")
        if self.k > self.m:
            raise InputError(f"k={self.k} clusters of m={self.m} points: lower k or add points")
        if len(self.clients) != self.layout.n or len(self.computing) != self.code.n:
            raise InputError(f"{len(self.computing)} clients for a code of n={self.code.n}")
        if self.m >= 2**30:
            raise InputError(f"m={self.m} points: cluster sizes are compared exactly below 2**30")
        if self.largest < 1:
            raise InputError(f"largest={self.largest} is too small: it must be at least 1")
        if (self.init.halves or self.init.grows) and self.largest < self.m:
            raise IncompatibleOptions(
                {"largest": self.largest, "init": self.init},
                f"the first halves of this start may have nearly all m={self.m} points",
                [("largest", None), ("init", "random")],
            )
        if (needed := self._needed()) >= self.code.basis.modulus:
            raise InputError(
                f"distances up to 2**{needed.bit_length()} do not fit the modulus: lower the scale"
            )
        if self.largest * self.proven >= self.code.basis.modulus // 2:
            raise InputError(
                f"rows that pass the test, up to 2**{self.proven.bit_length()}, do not fit the "
                "modulus: lower the scale"
            )
        self.init.check_sizes(self.m, self.k)
        check_choice(self.init, self.choice)
        if self.elbow is not None:
            self.elbow.among(self.m)
        strangers = set(self.revealing) - set(self.computing)
        if strangers:
            what = "worker, who holds shares" if self.workers else "client"
            raise InputError(
                f"{', '.join(sorted(strangers))} cannot reveal centers: not a {what}. Name some of "
                f"{', '.join(self.computing[:3])}{', ...' * (len(self.computing) > 3)}"
            )
        if self.revealing and len(self.revealing) < self.code.threshold(1):
            raise InputError(
                f"{len(self.revealing)} clients cannot reveal the centers: ell+t = "
                f"{self.code.threshold(1)} must consent"
            )
        self._check_corrected()

    def _needed(self) -> int:
        """What the modulus must exceed."""
        needed = distance_bound(self.headroom * self.d, self.quantizer.max_int, self.heaviest)
        if self.fraction is not None:
            multiple = self.layout.multiple
            most = needed_to_round(self.largest, self.proven + self.aside, self.fraction, multiple)
            costs = 0
            if self.n_init > 1 or self.elbow is not None:
                costs = cost_modulus(self.d, self.largest, self.layout.multiple * self.quantizer.max_int)
            needed = max(needed, most, costs)
        if self.layout.explained is not None:
            needed = max(needed, excess_modulus(self.m, self.quantizer.max_int))
        return needed

    def _check_corrected(self) -> None:
        code, more = self.code, 2 * self.corrected
        if self.corrected < 0:
            raise InputError(f"corrected={self.corrected} is negative: it counts deviating clients")
        if code.threshold(2) + more > code.n:
            raise InputError(
                f"n={code.n} clients cannot correct {self.corrected} with ell={code.ell}, t={code.t}: "
                f"2*(ell+t-1)+1+2*{self.corrected} = {code.threshold(2) + more} are needed",
                ["lower ell or t", ("corrected", ..., "allow for fewer"), "add clients"],
            )
        if self.corrected and self.revealing and len(self.revealing) < code.threshold(1) + more:
            raise InputError(
                f"{len(self.revealing)} clients cannot reveal the centers with corrected={self.corrected}: "
                f"ell+t+2*corrected = {code.threshold(1) + more} must consent"
            )

    @property
    def m(self) -> int:
        return self.layout.m

    @property
    def aside(self) -> int:
        """How far beyond rows centers of halves may lie that a start cuts, in what rows are computed in."""
        return self.layout.multiple if self.init.grows else 0

    @property
    def heaviest(self) -> int:
        """How many points the center stands for that most stand for: see `rounded_weights`."""
        return self.largest if self.fraction is None else 1 << self.fraction

    def weights(self, sizes: Array) -> Array:
        """How many points the sums stand for from which distances to clusters of these sizes (k,) follow:
        as many, or the same number for each where centers are rounded (`field.ring.quantize`)."""
        return sizes if self.fraction is None else rounded_weights(sizes, self.fraction)

    @property
    def choice(self) -> int | Elbow:
        """Number of clusters of the first labels."""
        return self.k if self.elbow is None else self.elbow

    def chosen(self, k: int) -> CodedPlan:
        """The plan for k clusters, once k is known."""
        return self if self.elbow is None else replace(self, k=k, elbow=None)

    @cached_property
    def of_columns(self) -> CodedPlan:
        """The plan that compares one number of each column, as a row of its owner, of a `ColumnLayout`."""
        layout: Any = self.layout
        return replace(
            self, layout=PublicOwnerLayout(tuple(map(len, layout.blocks))), d=1, k=2, n_init=1, largest=1,
            init=RandomLabels(), revealing=(), elbow=None, fraction=None,
        )  # fmt: skip

    @property
    def computing(self) -> tuple[PartyId, ...]:
        """Who holds shares and computes on them, in the order of the code's points."""
        return self.workers or self.clients

    @cached_property
    def resting(self) -> tuple[PartyId, ...]:
        """The clients that deal shares of their rows, and hear the result."""
        working = set(self.computing)
        return tuple(c for c in self.clients if c not in working)

    @cached_property
    def numbers(self) -> Mapping[PartyId, int]:
        """The number of every client, of those who deal."""
        return {name: j for j, name in enumerate(self.clients)}

    @cached_property
    def seats(self) -> Mapping[PartyId, int]:
        """The number of every worker among the code's points."""
        return {name: seat for seat, name in enumerate(self.computing)}

    @cached_property
    def at_work(self) -> CodedPlan:
        """The run among the computing parties: its clients are the workers, its rows those of all."""
        if not self.workers:
            return self
        seats = tuple(self.numbers[name] for name in self.workers)
        layout: Any = replace(self.layout, seats=seats)  # type: ignore[type-var]
        return replace(self, clients=self.workers, workers=(), layout=layout)

    @cached_property
    def chunk(self) -> int:
        """Rows in one message of shares."""
        return max(1, CHUNK_RESIDUES // max(width for _, width in self.word_spans))

    @cached_property
    def word_spans(self) -> tuple[tuple[int, int], ...]:
        """(first word, words) of a share of a row that each client deals."""
        width = self.code.width(self.d)
        spans = (self.layout.word_span(j, width, self.code.ell) for j in range(len(self.clients)))
        return tuple(spans)

    @cached_property
    def chunks(self) -> tuple[int, ...]:
        """How many messages of shares each client sends to each peer."""
        return tuple(-(-self.layout.span(j)[1] // self.chunk) for j in range(len(self.clients)))

    @cached_property
    def _parts(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        counts = [self.layout.span(j)[1] for j in range(len(self.clients))]
        return tuple(
            tuple((begin, min(begin + self.chunk, count)) for begin in range(0, count, self.chunk))
            for count in counts
        )

    def part(self, client: int, number: int) -> tuple[int, int]:
        """(begin, end) within a client's span of the rows in its message of this number."""
        return self._parts[client][number]

    @cached_property
    def projections(self) -> Projections:
        """The test that everybody's rows pass before they are used."""
        # Of all whose rows are added up, t may choose their masks together.
        dealers = max(map(len, self.groups))
        colluding = max(1, self.code.t) if dealers > 1 else 1
        words = (self.words(j, i) for j, chunks in enumerate(self.chunks) for i in range(chunks))
        # Beside t that compute any others may deal false rows.
        tries = favored_tries(self.code.n, self.code.t, len(self.clients) if self.workers else self.code.t)
        return Projections(
            self.block, self.code.ell, self.quantizer.max_int, dealers, colluding,
            -(-max(words, default=1) // self.block), tries,
        )  # fmt: skip

    @property
    def proven(self) -> int:
        """The largest integer in rows that passed the test, as they are computed on."""
        return self.layout.multiple * self.projections.proven

    @property
    def scale(self) -> Fraction:
        """Steps a data unit of the rows that are computed on, exactly."""
        return self.layout.multiple * Fraction(self.quantizer.scale)

    @property
    def radius(self) -> int:
        """The L2 norm that no honest row exceeds, as rows are computed on; for policies that shorten rows."""
        return self.layout.multiple * (self.quantizer.radius or 1)

    @property
    def longest(self) -> int:
        """The L2 norm up to which distances are told apart: `radius`, of rows whose holders vouch for them.

        Of joined columns any that passes the test of rows, as an owner's false ones stand beside honest ones.
        """
        if not isinstance(self.layout, ColumnLayout):
            return self.radius
        return math.isqrt(self.d * self.proven**2) + 1

    @cached_property
    def feature_order(self) -> Array:
        """The features (d,) as whole rows have them, segment by segment; -1 for zeros that fill one up.

        Of joined columns a segment has a part of one owner's after that of another's.
        """
        if not isinstance(self.layout, ColumnLayout):
            return np.arange(self.d)
        ell, parts = self.code.ell, list[Array]()
        for group in self.groups:
            block = self.layout.blocks[group[0]]
            part = np.full(ell * -(-len(block) // ell), -1)
            part[: len(block)] = block
            parts.append(part.reshape(ell, -1))
        return np.concatenate(parts, axis=1).reshape(-1)

    @property
    def features(self) -> int:
        """Features of rows as owners have them, without zeros that fill up segments."""
        return int(np.count_nonzero(self.feature_order >= 0))

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Clients, by number, whose rows are tested together."""
        return self.layout.groups

    def words(self, client: int, number: int) -> int:
        """Words of the rows in a client's message of this number."""
        begin, end = self.part(client, number)
        return (end - begin) * self.word_spans[client][1]

    def masks(self, client: int, number: int) -> int:
        """Masks that it carries."""
        return self.projections.masks(self.words(client, number))

    @cached_property
    def blocks_of(self) -> tuple[tuple[int, ...], ...]:
        """How many blocks the rows in each message of each client make."""
        return tuple(
            tuple(self.projections.blocks(self.words(j, number)) for number in range(chunks))
            for j, chunks in enumerate(self.chunks)
        )

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """How many blocks the rows of each client make."""
        return tuple(sum(blocks) for blocks in self.blocks_of)

    @cached_property
    def block_slices(self) -> tuple[slice, ...]:
        """Places of the blocks of each group of dealers among all that a receiver reports."""
        ends = np.cumsum([0, *(self.blocks[group[0]] for group in self.groups)]).tolist()
        return tuple(slice(begin, end) for begin, end in pairwise(ends))

    @cached_property
    def batches(self) -> tuple[RowBatch, ...]:
        """The blocks of all groups in their order, with rows as they are read: a message of them at once."""
        out: list[RowBatch] = []
        opened: list[tuple[int, int]] = []
        words = (0, 0)
        for group in self.groups:
            first, following = self.layout.span(group[0])[0], self.word_spans[group[0]]
            if opened and following != words:
                out.append(RowBatch.of(opened, words, self.block))
                opened = []
            words = following
            for number in range(self.chunks[group[0]]):
                begin, end = (first + row for row in self.part(group[0], number))
                if opened and end - opened[0][0] > self.chunk:
                    out.append(RowBatch.of(opened, words, self.block))
                    opened = []
                opened.append((begin, end))
        return tuple([*out, *([RowBatch.of(opened, words, self.block)] if opened else [])])

    def kept_rows(self, contributors: Array) -> Array:
        """The rows of these clients, (n,) bool, among all m: ascending."""
        if contributors.all():
            return np.arange(self.m)
        spans = [self.layout.span(j) for j in np.flatnonzero(contributors).tolist()]
        kept = [np.arange(first, first + count) for first, count in spans]
        return np.unique(np.concatenate([np.arange(0), *kept]))

    def without(self, contributors: Array) -> CodedPlan:
        """The plan when only these clients' rows, (n,) bool, count: the rest move up.

        The others still compute, if they are there.  Raises RowsLost if that is not possible.
        """
        if contributors.all():
            return self
        lost = tuple(c for c, there in zip(self.clients, contributors, strict=True) if not there)
        try:
            layout = self.layout.without(contributors)
            return self if layout is self.layout else replace(self, layout=layout)
        except InputError as error:
            raise RowsLost(lost, str(error)) from error

    def excluded(self, shared: CodedPlan) -> tuple[PartyId, ...]:
        """The clients whose rows counted in the plan that was shared under, and do not here."""
        return tuple(
            c for j, c in enumerate(self.clients) if shared.layout.span(j)[1] and not self.layout.span(j)[1]
        )

    def lanes(self, sizes: Array) -> int:
        """Lanes that decide the distances to clusters of these sizes.

        The fewest primes, in order, whose product exceeds d (2 eta s)**2 for the largest cluster s of
        this iteration: what is public decides, so every party drops the same lanes.

        Raises RangeExceeded if that cluster is larger than the plan holds.
        """
        size = int(sizes.max())
        if size > self.largest:
            raise RangeExceeded(size, self.largest)
        if self.fraction is not None:
            size = self.heaviest
        bound = distance_bound(self.headroom * self.d, self.quantizer.max_int, size)
        return lanes_for(bound, self.code.basis.primes)

    def honest_range(self, size: int) -> int:
        """The largest distance to a cluster of this size if all rows are within the bound."""
        return distance_bound(self.layout.multiple**2 * self.d, self.quantizer.max_int, size)

    def honest_lanes(self, sizes: Array) -> int:
        """Lanes that decide these distances if all rows are within the bound; see `lanes`."""
        most = self.honest_range(int(sizes.max()))
        return min(self.lanes(sizes), lanes_for(most, self.code.basis.primes))

    def deciding_lanes(self, sizes: Array) -> int:
        """Lanes in which a check of distances fixes how they compare, as integers within `honest_range`.

        (s_h / g)**2 D_a - (s_a / g)**2 D_h, g = gcd(s_a, s_h), is at most that of a cluster of lcm(s_a, s_h)
        points in absolute value, so two of them that are the same modulo more than twice as much are equal.
        """
        widest = int(np.lcm.outer(sizes.astype(np.int64), sizes.astype(np.int64)).max())
        return max(self.lanes(sizes), lanes_for(2 * self.honest_range(widest), self.code.basis.primes))

    @property
    def further_facts(self) -> dict[str, object]:
        """How rows are shared in parts, and how many masks their check keeps."""
        masks = self.projections.odds.masks(CHUNK_RESIDUES // self.block)
        return {"chunk": self.chunk, "masks": masks}
