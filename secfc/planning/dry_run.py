"""The run itself, on a few made-up rows: its messages are counted as they are sent, and its work is timed.

The modulus is that of the real plan, and the scale as much finer as there are fewer rows, so that as many
lanes decide and as many bits are compared.  What steps cost is told apart by what the server asks and of how
many clusters, as a start asks other things than a step.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import warnings
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from field.arrays import Array
from field.kernels.compiling import working_clock
from secfc.algorithm import Clustering, PartyOutcome, PublicFacts
from secfc.coded.joined import Joined
from secfc.coded.membership import Private
from secfc.coded.parameters import Network
from secfc.coded.plan import CodedPlan
from secfc.coded.queries import Query
from secfc.coded_kmeans.secfc import SecFC, leakage_to_clients
from secfc.data.federation import Federation
from secfc.data.inputs import get_parameter, with_parameters
from secfc.data.mixtures import gaussian_mixture
from secfc.data.party import Party
from secfc.errors import Caution, InputError
from secfc.kmeans.sampled import LEAST_ROWS, Sampled
from secfc.logs import silence_logs
from secfc.pipeline import find_scale, fit
from secfc.planning.feasibility import count_rows
from secfc.roles.exchange import ITERATE, SERVER, STRIDE, Exchange, PartyId

# --------------------------------------------------------------------------------------------------
# What messages and work add up to.

LAN = Network(latency=0.0005, bandwidth=125e6)  # 1 Gbit/s

# Who sends what to whom: ("client -> server", "LabelShare").
Kind = tuple[str, str]


@dataclass(frozen=True)
class RunCost:
    """messages, nbytes: by kind.  rounds: messages that follow one another.  seconds: of all parties,
    one after another; slowest: of the slowest client and the server, which wait for each other."""

    messages: Mapping[Kind, float] = field(default_factory=dict)
    sizes: Mapping[Kind, float] = field(default_factory=dict)
    rounds: float = 0
    seconds: float = 0.0
    slowest: float = 0.0

    @property
    def nbytes(self) -> int:
        """Total size of all messages, in bytes."""
        return round(sum(self.sizes.values()))

    @property
    def count(self) -> int:
        """Number of messages."""
        return round(sum(self.messages.values()))

    def __add__(self, other: RunCost) -> RunCost:
        return RunCost(
            _sum(self.messages, other.messages, 1),
            _sum(self.sizes, other.sizes, 1),
            self.rounds + other.rounds,
            self.seconds + other.seconds,
            self.slowest + other.slowest,
        )

    def __mul__(self, times: float) -> RunCost:
        return RunCost(
            {kind: value * times for kind, value in self.messages.items()},
            {kind: value * times for kind, value in self.sizes.items()},
            self.rounds * times,
            self.seconds * times,
            self.slowest * times,
        )


def total_cost(costs: list[RunCost]) -> RunCost:
    """All of them."""
    out = RunCost()
    for cost in costs:
        out = out + cost
    return out


def mean_cost(costs: list[RunCost]) -> RunCost:
    """The cost of several of one kind; of times the median, as a machine that is busy only adds."""
    middle = len(costs) // 2
    summed = total_cost(costs) * (1 / len(costs))
    return RunCost(
        summed.messages,
        summed.sizes,
        summed.rounds,
        sorted(cost.seconds for cost in costs)[middle],
        sorted(cost.slowest for cost in costs)[middle],
    )


def extrapolate_cost(first: RunCost, second: RunCost, at: Fraction) -> RunCost:
    """The straight line through what two sizes cost, at a third: 0 is the first, 1 the second, or beyond.

    Messages are arrays with a row a point, behind a head: their bytes are on that line but for the filling of
    last words.  Nothing costs less than nothing, and work that did not grow is taken as it was.  Rounds do
    not depend on rows, and messages little: they are those of the larger size.
    """
    share = float(at)

    def extrapolate(one: float, other: float, least: float = 0.0) -> float:
        return max(least, one + share * (other - one))

    kinds = [*first.sizes, *(kind for kind in second.sizes if kind not in first.sizes)]
    return RunCost(
        {kind: second.messages.get(kind, 0) for kind in kinds},
        {kind: extrapolate(first.sizes.get(kind, 0), second.sizes.get(kind, 0)) for kind in kinds},
        second.rounds,
        extrapolate(first.seconds, second.seconds, first.seconds),
        extrapolate(first.slowest, second.slowest, first.slowest),
    )


def _sum(one: Mapping[Kind, float], other: Mapping[Kind, float], times: float) -> dict[Kind, float]:
    return {
        kind: one.get(kind, 0) + times * other.get(kind, 0)
        for kind in [*one, *(kind for kind in other if kind not in one)]
    }


# --------------------------------------------------------------------------------------------------

# What the server asks, of how many clusters, and of how many pairs of them if of any; what is no question is
# () and comes once.
Asked = tuple[Any, ...]

# Questions with which the last clusters take a step, and one that may follow in the same step.
STEPS, THEN = ("DistanceQuery", "CompareQuery", "CompareOwnQuery", "LloydStepQuery"), "CompareMovedQuery"
BOX, SIGMA = 0.7, 0.15  # of made-up points, in bounds


def resident_memory(*, freed: bool = True) -> int:
    """Bytes that this process has in memory now; 0 where the system does not tell.

    freed: with what it has freed and kept; without, that is given back first, where the C library can.
    """
    if not freed:
        with contextlib.suppress(AttributeError, OSError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@dataclass(eq=False)
class MessageChains:
    """How many messages follow one another at most, each said by who took the one before: `longest`."""

    longest: int = 0
    taken: Counter[PartyId] = field(default_factory=Counter)
    waits: dict[PartyId, Exchange] = field(default_factory=dict)
    sent: defaultdict[tuple[PartyId, PartyId], dict[int, int]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def __call__(self, party: PartyId, exchange: Exchange) -> None:
        """A party took what it waited for, and says and waits for this."""
        before = self.waits.get(party, Exchange())
        for sender in before.expect:
            told = self.sent[sender, party]
            due = before.due(told)
            if due is not None:
                self.taken[party] = max(self.taken[party], told[due])
                self.sent[sender, party] = {number: depth for number, depth in told.items() if number > due}
        self.waits[party] = exchange
        for recipient in exchange.send:
            depth = self.sent[party, recipient][exchange.round] = self.taken[party] + 1
            self.longest = max(self.longest, depth)


@dataclass(eq=False)
class CostRecorder:
    """Adds up what every question costs; pass it to `fit` as `watch`.

    Seconds are as of a machine that does nothing else: of the processor where a clock on the wall, which
    waits for others, counts more of them, and of that where several threads work.
    """

    begun: tuple[float, float] = field(default_factory=lambda: (working_clock(), process_time()))
    order: list[int] = field(default_factory=list)
    asked: dict[int, Asked] = field(default_factory=dict)
    bodies: dict[Asked, Any] = field(default_factory=dict)
    sizes: dict[int, Counter[Any]] = field(default_factory=dict)
    messages: dict[int, Counter[Any]] = field(default_factory=dict)
    rounds: Counter[int] = field(default_factory=Counter)
    spent: dict[int, dict[PartyId, float]] = field(default_factory=dict)
    chains: MessageChains = field(default_factory=lambda: MessageChains())

    def __call__(self, party: PartyId, exchange: Exchange) -> None:
        taken = min(working_clock() - self.begun[0], process_time() - self.begun[1])
        number = exchange.round // STRIDE if exchange.round >= ITERATE else -1
        if number not in self.sizes:
            self.order.append(number)
            self.asked[number] = ()
            self.sizes[number], self.messages[number] = Counter(), Counter()
            self.spent[number] = {}
        before = self.chains.longest
        self.chains(party, exchange)
        self.rounds[number] += self.chains.longest - before
        side = "server" if party == SERVER else "client"
        for recipient, body in exchange.send.items():
            kind = (f"{side} -> {'server' if recipient == SERVER else 'client'}", body.kind)
            self.sizes[number][kind] += body.nbytes
            self.messages[number][kind] += 1
            if side == "server" and number >= 0 and not self.asked[number]:
                self.asked[number] = query_of(body)
                self.bodies[self.asked[number]] = body
        self.spent[number][party] = self.spent[number].get(party, 0.0) + taken
        self.begun = working_clock(), process_time()

    @property
    def questions(self) -> list[tuple[Asked, RunCost]]:
        """What was asked, and what that cost, in its order; first what is no question."""
        return [(self.asked[number], self._cost(number)) for number in self.order]

    def _cost(self, number: int) -> RunCost:
        spent = self.spent[number]
        slowest = max((seconds for party, seconds in spent.items() if party != SERVER), default=0.0)
        return RunCost(
            dict(self.messages[number]),
            dict(self.sizes[number]),
            self.rounds[number],
            sum(spent.values()),
            slowest + spent.get(SERVER, 0.0),
        )


def query_of(question: Any) -> Asked:
    """What a message asks; of no number of clusters where every point is one of its own."""
    if isinstance(question, Query) and question.k == len(question.labels) > 1:
        return (question.kind, 0)
    counts = isinstance(question, Query) and question.operation.opens == "numbers"
    pairs = len(question.detail) if counts and question.subject.detail is not None else 0
    return (question.kind, clusters_of(question), *([pairs] if pairs else []))


def clusters_of(question: Any) -> int:
    """How many clusters a question is about."""
    k = getattr(question, "k", None)
    return k if isinstance(k, int) else len(getattr(question, "sizes", ()))


class LeakageRecorder:
    """An algorithm that notes what its clients say they learned, and is else the same."""

    def __init__(self, algorithm: Any) -> None:
        self._algorithm = algorithm
        # Made-up rows need no finer steps, and fit would replace this object to say so.
        self.capabilities = replace(algorithm.capabilities, coarse=None)
        self.heard: dict[str, None] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._algorithm, name)

    def outcome(self, plan: Any, party: PartyId, returned: Any) -> PartyOutcome:
        """As it is."""
        found: PartyOutcome = self._algorithm.outcome(plan, party, returned)
        if party != SERVER:
            self.heard |= dict.fromkeys(found.learned)
        return found


@dataclass(frozen=True, eq=False)
class DryRun:
    """m: rows.  questions: what was asked in what order, at what cost.  bodies: the last message that asked
    it.  result: of the made-up rows.  heard: what clients learned, in sentences.
    """

    m: int
    questions: tuple[tuple[Asked, RunCost], ...]
    bodies: Mapping[Asked, Any]
    result: Clustering
    heard: tuple[str, ...] = ()

    @property
    def by_kind(self) -> Mapping[Asked, list[RunCost]]:
        """Costs of questions of a kind."""
        found: dict[Asked, list[RunCost]] = {}
        for asked, cost in self.questions:
            found.setdefault(asked, []).append(cost)
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of its messages."""
        return sum(cost.nbytes for _, cost in self.questions)


def synthetic_rows(
    public: PublicFacts,
    m: int,
    k: int,
    *,
    server_points: int = 0,
    membership: Any = None,
    seed: int = 0,
) -> Federation:
    """So many rows, as a mixture of k Gaussians has them, dealt to the clients in turn, within the bound.

    membership: whether rows have IDs follows of it, and whether clients have other columns of all rows.
    """
    rng, n, d = np.random.default_rng(seed), len(public.clients), public.d
    points, _ = gaussian_mixture(m + server_points, d, k, SIGMA, rng, (-BOX, BOX))
    points = public.bound * np.clip(points, -1, 1)
    arrays = [points[:m][j::n] for j in range(n)]
    columns = public.observed
    if isinstance(membership, Joined):
        return deal_columns(public, points[:m], ids=membership.align == "ids")
    ids = isinstance(membership, Private)
    if columns is not None:
        arrays = [array[:, list(columns[j])] for j, array in enumerate(arrays)]
    named = public.features or tuple(f"feature {f}" for f in range(d))
    return Federation.from_arrays(
        arrays,
        names=public.clients,
        ids=[[f"{j}/{row}" for row in range(len(array))] for j, array in enumerate(arrays)] if ids else None,
        persons=[range(len(array)) for array in arrays],
        server_points=points[m:] if server_points else None,
        features=None if columns is None else [tuple(named[f] for f in own) for own in columns],
    )


def deal_columns(public: PublicFacts, points: Any, *, ids: bool) -> Federation:
    """Their columns of these rows for the clients of a joined table, dealt to those with the same in turn."""
    blocks, parties = public.observed or (), list[Party]()
    named = public.features or tuple(f"feature {f}" for f in range(public.d))
    for j, (name, block) in enumerate(zip(public.clients, blocks, strict=True)):
        if not block:
            parties.append(Party.without_data(name))
            continue
        rows = range(blocks[:j].count(block), len(points), blocks.count(block))
        who = tuple(map(str, rows)) if ids else None
        parties.append(Party(name, points[rows][:, list(block)], None, who, tuple(named[f] for f in block)))
    return Federation(tuple(parties))


def sentences_for_clients(algorithm: Any, told: Any, result: Clustering) -> tuple[str, ...]:
    """What clients learned, in sentences: those of the plan, or as each said."""
    if isinstance(algorithm, SecFC):
        return leakage_to_clients(algorithm, result.plan)
    return tuple(told.heard) if isinstance(told, LeakageRecorder) else ()


class OneCluster:
    """What stands for a clusterer that the server alone knows."""

    def fit_predict(self, distances: Array) -> Array:
        """Labels (m,) of one cluster, by distances (m, m)."""
        return np.zeros(len(distances), np.int64)


def shrink_algorithm(algorithm: Any, plan: Any, m: int, real: int) -> Any:
    """The algorithm for m rows in place of the real ones, at the modulus of their plan."""
    if algorithm.capabilities.coarse is not None:
        algorithm = with_parameters(algorithm, coarse="allow")
    if algorithm.capabilities.level:  # sums of as many bits, of values that are floats
        finer = min(real / m, 2**51 / plan.quantizer.max_int)
        if isinstance(start := get_parameter(algorithm, "start", None), Sampled):
            # A floor does not hold of samples of so few rows: then all are one.
            rows = m if plan.floor > 1 else start.rows * m // real
            start = replace(start, rows=max(LEAST_ROWS, plan.k, rows))
            algorithm = with_parameters(algorithm, start=start)
        return with_parameters(algorithm, scale=plan.quantizer.scale * finer)
    if algorithm.capabilities.pairs is not None:  # of whose range the number of rows is no part
        if get_parameter(algorithm, "clusterer", ...) is None:
            algorithm = with_parameters(algorithm, clusterer=OneCluster())
        return with_parameters(algorithm, basis=plan.code.basis, scale=plan.quantizer.scale)
    if not (isinstance(algorithm, SecFC) and isinstance(plan, CodedPlan)):
        return algorithm
    largest = algorithm.quantization.largest
    smaller = None if largest is None else max(1, largest * m // real)
    # Bytes weigh against rounds as they will.
    network = algorithm.runtime.network
    network = replace(network, bandwidth=network.bandwidth * m / real)
    algorithm = with_parameters(algorithm, basis=plan.code.basis, largest=smaller, network=network)
    if not algorithm.disclosure.capabilities.exact:
        return algorithm
    # Rounded centers stand for as many points, however many there are.
    finer = 1.0 if plan.fraction is not None else real / m
    return with_parameters(algorithm, scale=plan.quantizer.scale * finer)


def with_quota(algorithm: Any, federation: Federation, share: float) -> Any:
    """The algorithm with a quota of tags for this share of the rows, if it has one."""
    membership = algorithm.capabilities.membership
    if not isinstance(membership, Private | Joined) or membership.quota is None:
        return algorithm
    quota = max(*federation.counts, math.ceil(membership.quota * share))
    return replace(algorithm, membership=replace(membership, quota=quota))


def scaling_cost(scaled: Any, plan: Any, public: PublicFacts) -> RunCost:
    """What bringing features to a common scale adds, whatever the rows.  plan: of `Scaled`, of all rows."""
    federation, recorder = synthetic_rows(public, 4 * len(public.clients), 1), CostRecorder()
    with warnings.catch_warnings(), silence_logs():
        warnings.simplefilter("ignore", Caution)
        find_scale(scaled, plan, federation, recorder)
    return total_cost([cost for _, cost in recorder.questions])


def run_dry(algorithm: Any, public: PublicFacts, plan: Any, m: int, k: int, server_points: int) -> DryRun:
    """One run of m made-up rows.  plan: of the real rows."""
    membership, real = algorithm.capabilities.membership, count_rows(algorithm, public)
    federation = synthetic_rows(public, m, k, server_points=server_points, membership=membership)
    way = with_quota(shrink_algorithm(algorithm, plan, m, real), federation, m / real)
    recorder = CostRecorder()
    told: Any = way if isinstance(way, SecFC) else LeakageRecorder(way)
    with warnings.catch_warnings(), silence_logs():
        warnings.simplefilter("ignore", Caution)
        try:
            result = fit(told, federation, bound=public.bound, seed=public.seed or 0, watch=recorder)
        except InputError:
            scale = get_parameter(algorithm, "scale")
            if not isinstance(told, SecFC) or told.quantization.scale == scale:
                raise
            # No finer scale fits: then some lanes less decide than there will be.
            told, recorder = with_parameters(way, scale=scale), CostRecorder()
            result = fit(told, federation, bound=public.bound, seed=public.seed or 0, watch=recorder)
    heard = sentences_for_clients(algorithm, told, result)
    return DryRun(m, tuple(recorder.questions), recorder.bodies, result, heard)
