"""From rehearsals of a few rows to what a run of all rows costs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import secfc
from field.compare.bitslice import WIDTH, WORD
from field.compare.blockwise import BlockwiseContest
from secfc.algorithm import PublicFacts
from secfc.coded.plan import CodedPlan
from secfc.coded.queries import Operation, Query, Subject
from secfc.disclosure.compare.candidates import candidates_in
from secfc.disclosure.compare.session import CommitteeChoice, ComparisonSession, committee_size
from secfc.planning.dry_run import (
    STEPS,
    THEN,
    Asked,
    DryRun,
    Kind,
    RunCost,
    extrapolate_cost,
    mean_cost,
    resident_memory,
    run_dry,
    total_cost,
)
from secfc.planning.feasibility import count_rows

# --------------------------------------------------------------------------------------------------
# Comparisons of many rows go in blocks, which a rehearsal of few rows never sees: what that adds and saves.
#
# A block more is the rounds of a contest once more, with its opened bits shared out among more messages, and
# a request and a portion of what is dealt; bytes stay, and what is there at once becomes less
# (`field.compare.blockwise`).

OPENED, DEALT, ASKED = "MaskedBits", "Corrections", "RequestCorrections"
# Of a portion that is asked for: the request, and the portion.
TURN = 2


@dataclass(frozen=True)
class BlockCount:
    """Blocks of one query.  count: of blocks.  rounds: of the contest in one of them."""

    count: int
    rounds: int

    def priced(self, cost: RunCost) -> RunCost:
        """What the question costs in blocks, if it costs this at once."""
        if self.count == 1:
            return cost
        more = self.count - 1
        messages = dict(cost.messages)
        for kind, many in cost.messages.items():
            if kind[1] == OPENED:
                messages[kind] = many * self.count
            elif kind[1] == DEALT:
                messages[kind] = many + more
                dealer, member = kind[0].split(" -> ")
                messages[f"{member} -> {dealer}", ASKED] = more
        return replace(cost, messages=messages, rounds=cost.rounds + more * (self.rounds + TURN))

    def held(self, cost: RunCost) -> float:
        """Bytes of its messages that are there at once: of what is dealt, a portion and the next one."""
        parts = {OPENED: 1, DEALT: 2}
        return sum(
            size * min(1.0, parts.get(kind[1], self.count) / self.count) for kind, size in cost.sizes.items()
        )


# --------------------------------------------------------------------------------------------------

# The first rehearsal loads and builds what later ones find there.  The second is of so many rows that its
# work can be told from what any message costs, the third of so many more that its messages would have about
# these bytes if all of them grew with rows: never of what a clock says, so that a plan says the same again.
LEAST, WORK, COMPARED = 64, 2.5e7, 4800
BYTES, MORE = 8e7, (2, 16)
# Rows of the second and third of an algorithm that asks about pairs, which work and bytes grow with.
PAIRED = (256, 768)


@dataclass(frozen=True, eq=False, repr=False)
class QueryPrices:
    """What questions cost.

    order: the questions of a rehearsal, in their order; kinds: their costs at the real number of rows.
    step: a step of the last clusters, as the last one.  steps: how many a rehearsal took.  rows: of these.
    growth: bytes that all parties need beside what was loaded.  server: those of the server alone.  freed:
    what a rehearsal of all parties freed and the process kept, as one that runs all of them does.
    """

    order: tuple[Asked, ...]
    kinds: Mapping[Asked, RunCost]
    step: RunCost
    steps: int
    rows: tuple[int, ...]
    growth: int
    loaded: int
    learned: tuple[str, ...]
    heard: tuple[str, ...]
    last: Asked | None
    machine: str = ""
    server: int = 0
    freed: int = 0

    @property
    def steps_known(self) -> bool:
        """Whether there are steps that a user may know better."""
        return self.last is not None

    def of_kind(self, asked: Asked) -> RunCost:
        """Cost of a query; of one that was never rehearsed, as of the same kind whose clusters are nearest, a
        cluster as much."""
        if asked in self.kinds:
            return self.kinds[asked]
        alike = [known for known in self.kinds if known and asked and known[0] == asked[0]]
        if not alike:
            return self.step
        near: Asked = min(alike, key=lambda known: _far(known, asked))
        found: RunCost = self.kinds[near] * (asked[1] / max(1, near[1]))
        return found

    def of(self, steps: int) -> RunCost:
        """Cost of a whole run with so many steps of the last clusters."""
        whole = total_cost([self.kinds[asked] for asked in self.order])
        return whole + self.step * (steps - self.steps) if self.steps_known else whole


@cache
def machine_name() -> str:
    """What this machine is."""
    return f"{platform.system()} {platform.machine()}, NumPy {np.__version__}"


def rehearsal_sizes(public: PublicFacts, m: int, k: int, least: int) -> tuple[int, int]:
    """Rows of the first two rehearsals, of m, of which a run needs at least so many."""
    n = len(public.clients)
    first = max(LEAST, least, 4 * n, 6 * k, 2 * k * k if k < 12 else 0)
    second = max(int(min(WORK / (n * public.d * k), COMPARED / k)), 4 * first)
    return min(first, m), min(second, m)


def rehearsals_of(
    algorithm: Any, public: PublicFacts, plan: Any, m: int, k: int
) -> tuple[int, int, int | None]:
    """Rows of three rehearsals, of m; None where the second says how many the third has."""
    first, second = rehearsal_sizes(public, m, k, algorithm.capabilities.least(plan))
    if algorithm.capabilities.pairs is None:
        return first, second, None
    second, third = (min(m, max(first, rows)) for rows in PAIRED)
    return first, second, third


def next_size(low: DryRun, m: int) -> int:
    """Rows of the rehearsal after one, of m: all, or as many as fill the layout of compared bits."""
    least, most = MORE
    rows, full = round(low.m * min(most, max(least, BYTES / max(1, low.nbytes)))), WORD * WIDTH
    return m if rows >= m else max(rows // full, 1) * full if rows > full // 2 else rows


def price_queries(algorithm: Any, public: PublicFacts, plan: Any) -> QueryPrices:
    """What questions of this algorithm cost on this machine."""
    m = count_rows(algorithm, public)
    k = _most(plan if hasattr(plan, "k") else algorithm, m)
    first, second, third = rehearsals_of(algorithm, public, plan, m, k)
    points = 0 if public.server_points is None else len(public.server_points)

    def rehearsed(rows: int) -> DryRun:
        return run_dry(algorithm, public, plan, rows, k, points)

    rehearsed(first)
    low = rehearsed(second)
    high = low if second == m else rehearsed(third or next_size(low, m))
    kinds, held = _lines(algorithm, plan, low, high, m)
    tiles = () if algorithm.capabilities.pairs is None else algorithm.capabilities.pairs(plan)
    _price_tiles(algorithm, plan, tiles, (low, high), kinds, held)
    order = _in_order(high, len(tiles))
    steps = [asked for asked in order if asked and asked[0] in STEPS and asked[1]]
    last = steps[-1] if steps else None
    step, taken = RunCost(), 0
    if last is not None:
        step = kinds[last] + kinds.get((THEN, *last[1:]), RunCost())
        taken = sum(asked[1:] == last[1:] for asked in steps)
    kept, loaded = resident_memory(), resident_memory(freed=False)
    return QueryPrices(
        order, kinds, step, taken, (low.m, high.m), _growth(kinds, held), loaded, high.result.learned,
        high.heard, last, machine_name(), max(map(_held_of_pairs, tiles), default=0), kept - loaded,
    )  # fmt: skip


def _lines(
    algorithm: Any, plan: Any, low: DryRun, high: DryRun, m: int
) -> tuple[dict[Asked, RunCost], dict[Asked, float]]:
    """Costs by question at m rows, and how many bytes of its messages are there at once."""
    large = {asked: mean_cost(costs) for asked, costs in high.by_kind.items()}
    found = large
    if low.m != high.m:
        small = {asked: mean_cost(costs) for asked, costs in low.by_kind.items()}
        both = {
            asked: extrapolate_cost(small[asked], large[asked], Fraction(m - low.m, high.m - low.m))
            for asked in large if asked in small
        }  # fmt: skip
        found = both | {
            asked: _grown(asked, large, both, m / high.m) for asked in large if asked not in small
        }
    if algorithm.capabilities.level:  # two rehearsals may differ by questions
        found = {asked: replace(cost, sizes=large[asked].sizes) for asked, cost in found.items()}
    policy = algorithm.capabilities.policy
    blocks = {asked: BlockCount(*count_blocks(policy, plan, high.bodies.get(asked))) for asked in found}
    held = {asked: blocks[asked].held(cost) for asked, cost in found.items()}
    return {asked: blocks[asked].priced(cost) for asked, cost in found.items()}, held


def _in_order(rehearsed: DryRun, tiles: int) -> tuple[Asked, ...]:
    """What is asked; what a rehearsal asks once about all pairs is asked of so many tiles."""
    asked = [one for one, _ in rehearsed.questions]
    return tuple(one for one in asked for _ in range(tiles if tiles and one[1:] == (0,) else 1))


def _price_tiles(
    algorithm: Any, plan: Any, tiles: Sequence[Subject], both: tuple[DryRun, DryRun],
    kinds: dict[Asked, RunCost], held: dict[Asked, float],
) -> None:  # fmt: skip
    """Let costs of what is asked about pairs be those of these tiles, in place."""
    if not tiles or both[0].m == both[1].m:
        return
    for asked in [asked for asked in kinds if asked[1:] == (0,)]:
        costs = [mean_cost(run.by_kind[asked]) for run in both]
        bodies = [run.bodies[asked] for run in both]
        kinds[asked], held[asked] = _tiles(algorithm.capabilities.policy, plan, tiles, costs, bodies)


def _tiles(
    policy: Any, plan: Any, tiles: Sequence[Subject], costs: Sequence[RunCost], bodies: Sequence[Query]
) -> tuple[RunCost, float]:
    """Mean cost of questions about these pairs, by what two about fewer cost; and what the largest holds."""
    few, many = (_count_pairs(body.subject) for body in bodies)
    counts = Counter(map(_count_pairs, tiles))
    asked = {_count_pairs(tile): tile for tile in tiles}
    total, most = RunCost(), 0.0
    for pairs, times in counts.items():
        cost = extrapolate_cost(costs[0], costs[1], Fraction(pairs - few, many - few))
        blocks = BlockCount(*count_blocks(policy, plan, replace(bodies[1], subject=asked[pairs])))
        total, most = total + blocks.priced(cost) * times, max(most, blocks.held(cost))
    return total * (1 / len(tiles)), most


def _count_pairs(asked: Subject) -> int:
    """How many pairs of points a question is about."""
    m = len(asked.labels)
    if asked.operation is not Operation.WITHIN:
        return asked.k * m
    return candidates_in(asked, np.ones(m, np.int64), 1, 1).count_points(m)


def _held_of_pairs(asked: Subject) -> int:
    """Bytes that the server has of all pairs in the end."""
    return len(asked.labels) ** 2 // 8 * (1 if asked.operation is Operation.WITHIN else 64)


def _grown(
    asked: Asked, large: Mapping[Asked, RunCost], both: Mapping[Asked, RunCost], times: float
) -> RunCost:
    """What a question costs that one of two rehearsals asked, in as many rounds.

    Its messages grow as those of the nearest question of its kind that both asked, else with the rows.
    """
    cost, alike = large[asked], [known for known in both if known and asked and known[0] == asked[0]]
    if not alike:
        return replace(cost * times, messages=cost.messages, rounds=cost.rounds)
    near = min(alike, key=lambda known: _far(known, asked))
    old, new = large[near], both[near]

    def growth_of(kind: Kind) -> float:
        before = old.sizes.get(kind, 0)
        return new.sizes.get(kind, 0) / before if before else times

    work = new.seconds / old.seconds if old.seconds else times
    return replace(
        cost * work, messages=cost.messages, rounds=cost.rounds,
        sizes={kind: size * growth_of(kind) for kind, size in cost.sizes.items()},
    )  # fmt: skip


def _far(known: Asked, asked: Asked) -> tuple[int, int]:
    """How many clusters, then pairs, two questions of a kind are apart."""
    return abs(known[1] - asked[1]), abs(sum(known[2:]) - sum(asked[2:]))


def _growth(kinds: Mapping[Asked, RunCost], held: Mapping[Asked, float]) -> int:
    """Bytes that parties hold together.

    Shares stay for the whole run, and messages of a question for as long as it takes; arrays in the making
    are half as much again.
    """
    shares = sum(size for (_, kind), size in kinds.get((), RunCost()).sizes.items() if kind == "RowShares")
    most = max((nbytes for asked, nbytes in held.items() if asked), default=0)
    return round(1.5 * (shares + most))


def _most(way: Any, m: int) -> int:
    """The most clusters that a plan or an algorithm has of m rows."""
    from secfc.kmeans.elbow import largest_k

    k = way.k
    return k if isinstance(k, int) else largest_k(k.among(m))


# --------------------------------------------------------------------------------------------------
# Rehearsals are kept on disk, so that the same plan is there at once when it is looked at again.
#
# Nothing of anybody's data is in them: rows are made up.  A change of the code, of libraries or of the
# machine makes them anew.  The directory is `SECFC_CACHE`, by default `~/.cache/secfc`; where it cannot be
# written, nothing is kept.

PARTS = ("messages", "sizes")


def cached_prices(algorithm: Any, public: PublicFacts, plan: Any) -> QueryPrices:
    """What questions cost: as it was found before, else found now."""
    file = cache_directory() / f"{cache_key(algorithm, public)}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return from_json(json.loads(file.read_text(encoding="utf-8")))
    found = price_queries(algorithm, public, plan)
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        waiting = file.with_suffix(f".{os.getpid()}")
        waiting.write_text(json.dumps(to_json(found)), encoding="utf-8")
        waiting.replace(file)
    return found


def cache_directory() -> Path:
    """Where."""
    base = os.environ.get("SECFC_CACHE")
    return Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "secfc"


def cache_key(algorithm: Any, public: PublicFacts) -> str:
    """Key of the same algorithm, the same public facts and the same code on the same machine."""
    points = public.server_points
    held = b"" if points is None else points.tobytes()
    facts = (algorithm, public.clients, public.counts, public.d, public.bound, public.observed, public.seed)
    said = repr((facts, machine_name(), os.cpu_count(), code_digest()))
    return hashlib.blake2b(said.encode() + held, digest_size=16).hexdigest()


@cache
def code_digest() -> str:
    """What changes when a file of the packages does."""
    root = Path(secfc.__file__).parents[1]
    files = [file for package in ("field", "psu", "secfc") for file in sorted((root / package).rglob("*.py"))]
    stamps = [(file.name, (found := file.stat()).st_mtime_ns, found.st_size) for file in files]
    return hashlib.blake2b(repr(stamps).encode(), digest_size=16).hexdigest()


def to_json(found: QueryPrices) -> dict[str, Any]:
    """As JSON has it."""
    return {
        **{name: getattr(found, name) for name in
           ("order", "steps", "rows", "growth", "loaded", "learned", "heard", "last", "machine", "server",
            "freed")},
        "step": _cost(found.step),
        "kinds": [[asked, _cost(cost)] for asked, cost in found.kinds.items()],
    }  # fmt: skip


def from_json(text: dict[str, Any]) -> QueryPrices:
    """Raises KeyError, TypeError or ValueError for what is none."""
    last = text["last"]
    return QueryPrices(
        tuple(map(tuple, text["order"])),
        {tuple(asked): _read(cost) for asked, cost in text["kinds"]},
        _read(text["step"]),
        int(text["steps"]),
        tuple(text["rows"]),
        int(text["growth"]),
        int(text["loaded"]),
        tuple(text["learned"]),
        tuple(text["heard"]),
        None if last is None else tuple(last),
        str(text["machine"]),
        int(text["server"]),
        int(text["freed"]),
    )


def _cost(cost: RunCost) -> dict[str, Any]:
    tables = {name: [[*kind, value] for kind, value in getattr(cost, name).items()] for name in PARTS}
    return {**asdict(cost), **tables}


def _read(text: dict[str, Any]) -> RunCost:
    tables = {name: {(way, kind): value for way, kind, value in text[name]} for name in PARTS}
    return RunCost(**{**text, **tables})


# In how many blocks of rows a question's comparison goes: asked before there is a run.


def count_blocks(policy: Any, plan: Any, question: Any) -> tuple[int, int]:
    """How many blocks of the plan's rows there are, and how often bits are opened in each; (1, 0) for all at
    once.

    question: as it was asked in a rehearsal, of however few rows.  Clusters are taken to be nearly equally
    large: how many blocks there are depends on their sizes as little as bytes do, but for sizes that are all
    equal, which are no secret in a tournament, and take fewer lanes and rounds.
    """
    if policy is None or not isinstance(plan, CodedPlan) or not isinstance(question, Query):
        return 1, 0
    dealer = policy.capabilities.dealer
    if dealer is None or not question.operation.compares:
        return 1, 0
    if policy.capabilities.exposes == "steps" and question.operation.shared and question.at.step:
        return 1, 0
    if question.operation is Operation.WITHIN and len(question.labels) != plan.m:
        return 1, 0  # of a rehearsal: see `_tiles`
    rivals = 2 * question.k if question.operation is Operation.SPLIT else question.k
    sizes = np.clip(plan.m // rivals - np.arange(rivals), 1, plan.largest)
    seating = CommitteeChoice(committee_size(plan.code.t), dealer)
    schedule = ComparisonSession(plan, question, sizes, seating).schedule
    if not isinstance(schedule, BlockwiseContest):
        return 1, 0
    return len(schedule.parts), len(schedule.whole.openings)
