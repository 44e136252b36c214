"""A plan: what a run will take, and who will learn what by it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from secfc.algorithm import PublicFacts, is_algorithm
from secfc.coded.joined import JoinedPlan
from secfc.coded.parameters import Network
from secfc.coded.plan import CodedPlan, HiddenOwnerLayout, RowLayout
from secfc.coded_kmeans.secfc import SecFC, leakage_to_clients, leakage_to_server
from secfc.data.inputs import WHOLE, get_parameter, with_parameters
from secfc.errors import InputError
from secfc.feddp.plan import FedDPPlan
from secfc.planning.dry_run import LAN, Asked, Kind, RunCost, scaling_cost, total_cost
from secfc.planning.estimate import QueryPrices, cached_prices
from secfc.planning.feasibility import PlanRequest, count_rows, divide_columns, even_rows, plan_or_explain
from secfc.remedies import word_of
from secfc.roles.exchange import SERVER
from secfc.run_summary import facts_table
from secfc.scaling.algorithm import SCALE_UNSEEN, Scaled

if TYPE_CHECKING:
    from secfc.planning.dp_utility import UtilityForecast


# Copies of its part of all shares and messages that a deployed client holds; a server that deals or decodes.
COPIES, COPIES_OF_SERVER = 6.6, 4.0


@dataclass(frozen=True, eq=False, repr=False)
class Planned:
    """What a run will take and show.

    algorithm, public, plan: as the parties will hold them.  losses: clients that may fall silent.
    network: between the parties.  priced: what questions cost.  steps: of the last clusters that are counted.
    learned: what the server learns, in sentences.  heard: what every client learns of others' points.
    foreseen: what a noise budget costs in quality, where that was simulated.  scaling: what bringing features
    to a common scale adds, None where they stay as they are.
    """

    algorithm: Any
    public: PublicFacts
    plan: Any
    losses: int
    network: Network
    priced: QueryPrices
    steps: int
    learned: tuple[str, ...]
    heard: tuple[str, ...]
    notes: tuple[str, ...] = ()
    foreseen: UtilityForecast | None = None
    scaling: RunCost | None = None

    @property
    def cost(self) -> RunCost:
        """Cost of the whole run."""
        return self.priced.of(self.steps) + (self.scaling or RunCost())

    @property
    def step(self) -> RunCost:
        """Cost of a step of the last clusters."""
        return self.priced.step

    def seconds(self, network: Network | None = None) -> float:
        """Seconds of a run in which every party has a machine like this one.  network: the plan's if None."""
        cost = self.cost
        return cost.slowest + (network or self.network).seconds(round(cost.rounds), cost.nbytes)

    @property
    def one_process_seconds(self) -> float:
        """Seconds of a run in one process, as `secfc run` has it."""
        return self.cost.seconds

    def cost_of(self, questions: Sequence[Asked]) -> RunCost:
        """Cost of a run that asks these queries, whatever was foreseen: for comparing with a run."""
        return total_cost([self.priced.of_kind(asked) for asked in questions])

    @property
    def memory(self) -> int:
        """Bytes that a run of all parties in one process needs, with what a process has loaded."""
        priced = self.priced
        return priced.loaded + priced.freed + priced.growth + priced.server

    @property
    def memory_of_a_party(self) -> int:
        """Bytes of a client that compares, or deals, in its own process, with what that has loaded; others
        take less.

        Beyond its part of what all hold, it has what it sent until the others have taken it, sealed and
        unsealed, and what its journal takes: `COPIES` times that part, as six deployments were measured.
        """
        return self.priced.loaded + round(COPIES * self.priced.growth / max(1, len(self.computing)))

    @property
    def memory_of_the_server(self) -> int:
        """Bytes of a server in its own process: it holds no rows, and deals, or decodes, or merely asks."""
        policy = self.algorithm.capabilities.policy
        asks = policy is not None and policy.capabilities.compares and policy.capabilities.dealer != SERVER
        copies = 0.0 if asks else COPIES_OF_SERVER
        return (
            self.priced.loaded
            + self.priced.server
            + round(copies * self.priced.growth / max(1, len(self.computing)))
        )

    @property
    def computing(self) -> tuple[str, ...]:
        """Who computes."""
        return self.plan.computing if isinstance(self.plan, CodedPlan) else self.public.clients

    @property
    def facts(self) -> dict[str, Any]:
        """By name, in plain values: of the code, if there is one."""
        alone = self.algorithm.capabilities.pairs is not None
        k = None if alone else getattr(self.plan, "k", None) or self.algorithm.k
        found: dict[str, Any] = {
            "algorithm": type(self.algorithm).__name__, "n": len(self.public.clients),
            "m": count_rows(self.algorithm, self.public),
            "d": self.public.d, "k": k if isinstance(k, int | None) else str(k), "losses": self.losses,
            "workers": len(self.computing), "start": start_name(self.algorithm),
        }  # fmt: skip
        if isinstance(self.plan, CodedPlan):
            code, quantizer = self.plan.code, self.plan.quantizer
            found |= {
                "policy": type(self.algorithm.disclosure).__name__, "t": code.t, "ell": code.ell,
                "corrected": self.plan.corrected, "lanes": code.basis.lanes,
                "modulus_bits": code.basis.modulus.bit_length(),
                "steps_between_0_and_bound": quantizer.max_int,
                "replies_needed": code.threshold(2) + 2 * self.plan.corrected,
            }  # fmt: skip
        elif isinstance(self.algorithm, SecFC):
            found |= {
                "policy": type(self.algorithm.disclosure).__name__,
                "t": self.algorithm.restrict_clients(self.public.clients).threshold.t,
                "ell": self.algorithm.threshold.ell,
            }  # fmt: skip
        return found

    @property
    def traffic(self) -> Mapping[Kind, tuple[int, int]]:
        """Messages and bytes by direction and kind."""
        cost = self.cost
        return {kind: (round(cost.messages[kind]), round(size)) for kind, size in cost.sizes.items()}

    def as_object(self) -> dict[str, Any]:
        """For programs: plain values."""
        cost, step = self.cost, self.step
        return {
            "plan": self.facts,
            "network": {"latency": self.network.latency, "bandwidth": self.network.bandwidth},
            "run": {
                "steps": self.steps, "rounds": round(cost.rounds), "messages": cost.count,
                "bytes": cost.nbytes, "seconds": self.seconds(), "seconds_lan": self.seconds(LAN),
                "seconds_one_process": self.one_process_seconds, "memory_one_process": self.memory,
                "memory_party": self.memory_of_a_party, "memory_server": self.memory_of_the_server,
            },
            "step": {
                "rounds": round(step.rounds), "messages": step.count, "bytes": step.nbytes,
                "seconds_one_process": step.seconds,
            },
            "traffic": [
                {"direction": direction, "kind": kind, "messages": count, "bytes": size}
                for (direction, kind), (count, size) in sorted(self.traffic.items())
            ],
            "server_learns": list(self.learned),
            "clients_learn": list(self.heard),
            "rehearsed": {"rows": list(self.priced.rows), "machine": self.priced.machine},
            "notes": list(self.notes),
            "noise": None if self.foreseen is None else self.foreseen.as_object(),
        }  # fmt: skip

    def __repr__(self) -> str:
        from secfc.planning.text import plan_summary

        return "\n".join(f"{name:<9} {value}" for name, value in plan_summary(self))

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from secfc.planning.text import plan_summary

        first = "Foreseen, from a rehearsal on made-up rows; nothing was sent."
        return facts_table("Plan", first, dict(plan_summary(self)), self.learned, "The server will learn:")


def start_name(algorithm: Any) -> str | None:
    """The word of how first clusters are drawn, None where an algorithm has no such choice."""
    start = get_parameter(algorithm, "init", None)
    return None if start is None else word_of("init", start) or type(start).__name__


def plan(
    algorithm: Any,
    n: int | None = None,
    m: int | None = None,
    d: int | None = None,
    *,
    losses: int = 0,
    network: Network | None = None,
    steps: int | None = None,
    counts: Sequence[int] | None = None,
    server_points: Any = None,
    bound: float = 1.0,
    public: PublicFacts | None = None,
    trials: int = 0,
    splits: bool = False,
    done: Callable[[int, int], None] = lambda number, total: None,
) -> Planned:
    """Predict what a run of this algorithm will cost and reveal.

    Parameters
    ----------
    algorithm
        Algorithm to run, such as `SecFC(k=4)`.
    n
        Number of clients.
    m
        Number of rows of all clients together.
    d
        Number of features.
    losses
        Clients that may be lost.
    network
        Network between the parties; None for that of the algorithm, else `Network()`.
    steps
        Steps with the final number of clusters, which nobody knows before a run; None for as many as made-up
        rows take.
    counts
        Rows of each client, in place of n and m.
    server_points
        (s, d) points that the server holds, or their number, for algorithms that need them.
    bound
        Public bound on absolute values, in data units; only a scale depends on it.
    public
        Public facts of a deployment, in place of n, m, d, counts and bound.
    trials
        Number of simulations on held-out server points, which measure what a noise budget costs in quality
        (`secfc.planning.dp_utility`).
    splits
        Whether the simulations also find the cheapest split of the budget.
    done
        Function that is called after each simulation with its number and the number of all.

    Returns
    -------
    Planned
        Bytes, rounds, time, memory, and what each party learns.

    Raises
    ------
    Impossible
        For a run that is impossible (an InputError); the message names the nearest possible one.

    Notes
    -----
    A rehearsal on made-up rows takes from a tenth of a second to some seconds, and is kept for later calls.

    Examples
    --------
    >>> import secfc
    >>> secfc.plan(secfc.SecFC(k=3, threshold=5), n=8, m=300, d=2)
    Traceback (most recent call last):
    secfc.planning.feasibility.Impossible: ...Nearest possible: t=3 (not 5); or n=11 (not 8)
    """
    _check_request(algorithm, steps)
    if public is None:
        if trials and isinstance(server_points, int):
            raise InputError(
                f"server_points={server_points} says how many: to simulate what noise costs, pass the points"
            )
        public = public_facts(n, m, d, counts, server_points, bound)
        if algorithm.capabilities.joins:
            public = divide_columns(public)
    scaled, raw = algorithm if isinstance(algorithm, Scaled) else None, public
    if scaled is not None:
        _, noise, public = scaled.settle(public)
        algorithm = scaled.with_rest_of_budget(noise)
    if network is not None and isinstance(algorithm, SecFC):
        algorithm = with_parameters(algorithm, network=network)
    wish = PlanRequest(algorithm, public, losses)
    made = plan_or_explain(wish)
    simulated = _simulated(algorithm, public, trials, splits, done)
    usual = Network()
    if isinstance(algorithm, SecFC):
        algorithm, usual = algorithm.restrict_clients(public.clients), algorithm.runtime.network
        if not isinstance(made, CodedPlan):  # the union comes first; nobody holds what another does
            made = algorithm.complete(public, expect_rows(made, count_rows(algorithm, public)))
    price = cached_prices(algorithm, public, made)
    most, taken = algorithm.capabilities.max_iter, price.steps if steps is None else steps
    if most:
        taken = min(taken, most)
    notes = _notes(made, price, steps, surprising=taken != most)
    server, clients = leakage_sentences(algorithm, made, price)
    scaling, unseen, opened = _plan_scaling(scaled, raw)
    return Planned(
        algorithm, public, made, algorithm.capabilities.losses(made),
        network or usual, price, taken, (*server, *unseen), (*clients, *opened),
        notes, simulated, scaling,
    )  # fmt: skip


def _plan_scaling(
    scaled: Scaled | None, raw: PublicFacts
) -> tuple[RunCost | None, tuple[str, ...], tuple[str, ...]]:
    """What bringing features to a common scale adds; what the server learns of it, and every client."""
    if scaled is None:
        return None, (), ()
    plan = scaled.plan(raw)
    cost = scaling_cost(scaled, plan, raw)
    if plan.sums is None and plan.magnitudes is None:
        return cost, (), ()
    return cost, (SCALE_UNSEEN,), (scaled.scaling.opened,)


def expect_rows(draft: Any, m: int) -> RowLayout:
    """The layout of m rows that parties find, if nobody holds what another does, or all owners hold all."""
    if isinstance(draft, JoinedPlan):
        return draft.layout(np.ones(m, bool))
    return HiddenOwnerLayout(m, len(draft.clients))


def _check_request(algorithm: Any, steps: int | None) -> None:
    """Raise InputError for what is no algorithm, and for steps that are no number from 1 on."""
    if not is_algorithm(algorithm):
        raise InputError(
            f"the algorithm is {type(algorithm).__name__}: pass a value such as SecFC(k=4, threshold=2)"
        )
    if steps is not None and (not isinstance(steps, int) or steps < 1):
        raise InputError(f"steps={steps!r}: a number from 1 on is needed, or leave it out")


def _notes(made: Any, price: QueryPrices, steps: int | None, *, surprising: bool) -> tuple[str, ...]:
    """What whoever plans should know.  surprising: whether a run may take another number of steps."""
    why = made.hopeless if isinstance(made, FedDPPlan) else None
    more = f"made-up rows took {price.steps} steps; yours may take more: plan with more steps"
    return (
        *(() if why is None else (why,)),
        *((more,) if steps is None and price.steps_known and surprising else ()),
    )


def _simulated(
    algorithm: Any, public: PublicFacts, trials: int, splits: bool, done: Callable[[int, int], None]
) -> UtilityForecast | None:
    """What noise costs, where that is asked for."""
    if not trials and not splits:
        return None
    from secfc.planning import dp_utility

    others = dp_utility.candidate_splits(algorithm) if splits else ()
    return dp_utility.forecast_utility(
        algorithm, public, trials=trials or dp_utility.TRIALS, others=others, done=done
    )


def public_facts(
    n: int | None,
    m: int | None,
    d: int | None,
    counts: Sequence[int] | None,
    server_points: Any,
    bound: float,
) -> PublicFacts:
    """The public facts that a run will have.  Raises InputError for what is missing, or cannot be."""
    if counts is not None:
        n, m = len(counts), sum(counts)
    for name, value, what in (("n", n, "clients"), ("m", m, "rows in total"), ("d", d, "features")):
        if value is None:
            raise InputError(
                f"{name} is missing: say how many {what}, as {name}={ {'n': 10, 'm': 10000, 'd': 20}[name] }"
            )
        if WHOLE.of(name, value) < 1:
            raise InputError(f"{name}={value}: at least 1 is needed")
    n, m, d = WHOLE.of("n", n), WHOLE.of("m", m), WHOLE.of("d", d)
    if m < n:
        raise InputError(
            f"m={m} rows of n={n} clients: every client needs one. Nearest possible: m={n} (not {m}); or "
            f"n={m} (not {n})"
        )
    if counts is not None and min(counts) < 1:
        raise InputError(f"counts has {min(counts)}: every client needs a row. Leave the others out")
    if isinstance(server_points, int):
        # As the rows that a rehearsal makes up.
        server_points = np.random.default_rng(1).uniform(-0.7, 0.7, (server_points, d)) * bound
    if not (math.isfinite(bound) and bound > 0):
        raise InputError(f"bound={bound}: a positive number is needed, in data units")
    names = tuple(f"client-{j}" for j in range(n))
    rows = even_rows(m, n) if counts is None else tuple(int(count) for count in counts)
    return PublicFacts(names, rows, d, float(bound), session=bytes(32), server_points=server_points, seed=0)


def leakage_sentences(
    algorithm: Any, made: Any, price: QueryPrices
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the server and every client learn: the policy's sentences of this plan, else of a rehearsal."""
    if isinstance(algorithm, SecFC) and isinstance(made, CodedPlan):
        return leakage_to_server(algorithm, made), leakage_to_clients(algorithm, made)
    return price.learned, price.heard
