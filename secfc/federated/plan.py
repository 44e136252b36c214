"""What parties agree on before anything moves, and what the server says of sums."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.cached import cached_property
from field.ring.basis import LANE_PRIMES, Basis
from field.ring.quantize import Quantizer
from secfc.algorithm import PublicFacts
from secfc.data.inputs import require_library
from secfc.errors import FaultyServer, InputError, SuspectedParties
from secfc.federated.columns import Columns
from secfc.federated.model import possible_sums
from secfc.overlap.plan import check_k
from secfc.roles.description import LOCAL, RunTerms, describe_plan, description_digest
from secfc.roles.exchange import SERVER, PartyId
from secfc.roles.messages import Message, is_array, refuse_if
from secfc.secure_sum.protocol import SummandLayout, SumPlan, ToldDigests

Array = NDArray[Any]

# An automatic scale gives at least so many integer steps between 0 and the bound, in as few lanes as hold
# them, and at most MOST: sums of 2**31 points of it stay below 2**62.
LEAST, MOST = 1 << 15, 1 << 31


@dataclass(frozen=True, eq=False, repr=False)
class SharedSums(Message, tag=112):
    """Server to client, after each step: sums (k, s_i) of all points on the features that it shares with
    others, and numbers of points (k, p_i) by the patterns of clients that it belongs to, in integer steps.

    there: clusters that have points anywhere, (k,).  last: whether no label changed, or steps are used up.
    """

    sums: Array
    counts: Array
    there: Array
    last: bool

    def __post_init__(self) -> None:
        refuse_if(
            not is_array(self.sums, "i", 2) or not is_array(self.counts, "i", 2),
            "sums and counts are integers",
        )
        refuse_if(not is_array(self.there, "b", 1), "which clusters have points are truth values")
        refuse_if(len({len(self.sums), len(self.counts), len(self.there)}) > 1, "one row a cluster in each")
        refuse_if(bool((self.counts < 0).any()), "numbers of points are not negative")


@dataclass(frozen=True)
class FederatedPlan:
    """columns: who observes what.  quantizer: how values become integers.  sums: of the secure sum.

    rows: no client has more.  seed: of local clusterings, None for each client's own coins.
    """

    columns: Columns
    quantizer: Quantizer
    sums: SumPlan
    k: int
    max_iter: int
    rows: int
    seed: int | None
    terms: RunTerms = field(compare=False, repr=False, metadata=LOCAL)

    @property
    def clients(self) -> tuple[PartyId, ...]:
        return self.columns.clients

    @property
    def d(self) -> int:
        """Features of all clients together."""
        return self.columns.d

    @property
    def unit(self) -> float:
        """Integer steps a data unit."""
        return self.quantizer.scale

    @cached_property
    def length(self) -> int:
        """Numbers in a sum: sums and counts of every cluster, and how many clients' labels changed."""
        return self.k * (len(self.columns.shared) + len(self.columns.patterns)) + 1

    @cached_property
    def description(self) -> bytes:
        """All that is public, which the server and every client compare (`secfc.roles.description`)."""
        return describe_plan(self, self.terms)

    def digest(self) -> bytes:
        """32 bytes that agree exactly when two parties hold the same public parameters."""
        return description_digest(self.description)

    # --- how one client's numbers lie in a sum

    @cached_property
    def summand_layout(self) -> SummandLayout:
        """Who adds to which numbers of a sum: a client to those of features that it shares, and of its
        patterns.
        """
        s, p = len(self.columns.shared), len(self.columns.patterns)
        rows = np.arange(self.k)[:, None]
        places = {}
        for client in self.clients:
            mine = self.columns.mine(client)
            sums, counts = rows * s + mine.shared, self.k * s + rows * p + mine.patterns
            places[client] = np.concatenate([sums.reshape(-1), counts.reshape(-1), [self.length - 1]])
        return SummandLayout(self.length, places)

    @cached_property
    def topics(self) -> Mapping[PartyId, frozenset[int]]:
        """Topics of what the server tells a client: its shared features, its patterns, and which clusters
        have points.
        """
        s, p = len(self.columns.shared), len(self.columns.patterns)
        own = {c: self.columns.mine(c) for c in self.clients}
        return {c: frozenset([*m.shared, *(s + m.patterns), s + p]) for c, m in own.items()}

    def digests(self, client: PartyId, told: SharedSums) -> ToldDigests:
        """Digests of what a client was told, one a topic."""
        mine, s = self.columns.mine(client), len(self.columns.shared)
        columns = [*zip(mine.shared, told.sums.T, strict=True)]
        columns += zip(s + mine.patterns, told.counts.T, strict=True)
        columns.append((s + len(self.columns.patterns), told.there))
        return ToldDigests(self.topics, {int(topic): ToldDigests.digest(values) for topic, values in columns})

    def contribution(self, client: PartyId, sums: Array, counts: Array, changed: bool) -> Array:
        """What a client adds to a sum, in the places of `summand_layout`: of its sums (k, d_j) and numbers
        of points (k,).
        """
        mine = self.columns.mine(client)
        held = np.repeat(counts[:, None], len(mine.patterns), axis=1)
        return np.concatenate([sums[:, mine.inside].reshape(-1), held.reshape(-1), [int(changed)]])

    def split(self, total: Array) -> tuple[Array, Array, int]:
        """Sums (k, s), counts (k, p), and how many clients' labels changed, of a sum (length,).

        Raises SuspectedParties, everybody, for what no points sum to.
        """
        s, columns = self.k * len(self.columns.shared), self.columns
        sums, counts, changed = total[:s].reshape(self.k, -1), total[s:-1].reshape(self.k, -1), int(total[-1])
        most = self.rows * columns.patterns.sum(axis=1)
        fits = possible_sums(sums, counts, columns.pattern, most, self.quantizer.max_int)
        if not fits or not 0 <= changed <= len(self.clients):
            raise SuspectedParties((*self.clients, SERVER), "no points have the sums that were added up")
        return sums, counts, changed

    def check(self, client: PartyId, sums: Array, counts: Array) -> None:
        """Raises FaultyServer for sums (k, s_j), counts (k, p_j) told to a client that no points have."""
        mine = self.columns.mine(client)
        if sums.shape != (self.k, len(mine.shared)) or counts.shape != (self.k, len(mine.patterns)):
            raise FaultyServer(SERVER, f"sends sums of shape {sums.shape}, of other features or clusters")
        most = self.rows * self.columns.patterns[mine.patterns].sum(axis=1)
        pattern = np.searchsorted(mine.patterns, mine.of)
        if not possible_sums(sums, counts, pattern, most, self.quantizer.max_int):
            raise FaultyServer(SERVER, "sends sums that no points have")


def make_plan(
    way: Any,
    public: PublicFacts,
    *,
    k: int,
    max_iter: int,
    scale: float | None,
    committee: int | None,
    t: int | None,
    losses: int | None,
) -> FederatedPlan:
    """Raises ValueError for what cannot be: too many clusters, unconnected clients, a scale beyond
    exactness.
    """
    require_library(type(way).__name__, "estimators")
    columns = Columns.of(public)
    columns.check()
    check_k(way, k, public.m)
    if max_iter < 1:
        raise InputError(f"max_iter={max_iter} is too small: it must be at least 1")
    n, rows = len(public.clients), max(public.counts)
    quantizer = Quantizer(finest_sum_scale(public.bound, n, rows) if scale is None else scale, public.bound)
    if public.m * quantizer.max_int >= 2**62:
        raise InputError(
            f"scale={quantizer.scale:g} with bound={public.bound:g} makes sums of m={public.m} points up to "
            f"2**{(public.m * quantizer.max_int).bit_length()}, 2**62 is the most: lower the scale"
        )
    # With fewer holders than two in a sum, it would be one client's own.
    spare = int(columns.mask[:, columns.shared].sum(axis=0).min()) - 2
    most = min(n // 4, spare) if losses is None else losses
    if most > spare:
        feature = columns.features[columns.shared[columns.mask[:, columns.shared].sum(axis=0).argmin()]]
        raise InputError(
            f"losses={losses}: feature {feature!r} is seen by {spare + 2} clients, so with that many lost "
            f"its sum could be one client's own. Tolerate at most {spare} losses"
        )
    sums = SumPlan.of(public.clients, rows * quantizer.max_int, committee=committee, t=t, losses=most)
    return FederatedPlan(columns, quantizer, sums, k, max_iter, rows, public.seed, RunTerms(way, public))


def finest_sum_scale(bound: float, n: int, rows: int) -> float:
    """The finest scale, a power of two, that the fewest lanes hold which leave LEAST steps within the
    bound.
    """
    for lanes in range(1, len(LANE_PRIMES) + 1):
        # 2 n rows max_int < modulus (`SumPlan`).
        most = min(MOST, (Basis(LANE_PRIMES[:lanes]).modulus - 1) // (2 * n * rows))
        if most >= LEAST:
            break
    return math.ldexp(1.0, math.floor(math.log2(most)) - math.ceil(math.log2(bound)))
