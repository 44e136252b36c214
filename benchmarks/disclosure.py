"""What every disclosure policy costs and gives away: time, bytes and rounds an iteration, variance recovered.

    python benchmarks/disclosure.py --out disclosure.jsonl
    python benchmarks/disclosure.py --quick

All parties run in one process, and time is processor time of all of them together; beside it the time that
one member of a committee takes from the masked distances on, and the dealer, by the clock on the wall.
A step is one clustering that distances are measured to.
Bytes are of all messages of a step, of those to the busiest recipient, of these without what a dealer sends
ahead, and the most that one party sends another without that.  Recovered is the share of the points' variance
that a curious server rebuilds by the end of a run from random labels, up to rotation and reflection, from all
that the policy shows it; beside it the same from the labels that it shows, of all steps or of the last.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks.common import Row, run_grid, show
from field.compare.replicated import MAX_T
from secfc.coded_kmeans.adversary_view import QueryRecorder
from secfc.data.mixtures import gaussian_mixture
from secfc.disclosure import (
    AssignmentsOnly,
    Disclosure,
    Distances,
    FinalLabelsOnly,
    NoiseInShares,
    OwnLabels,
)
from secfc.privacy import Bound, Budget
from secfc.report.leakage import curious_server
from secfc.roles.exchange import ITERATE


@dataclass(frozen=True)
class Way:
    """A policy for given points, which coalition learns no distance of a point, and what it measures.

    most: the largest t that it allows.  distances: so many, of all points to all centers, take seconds.
    """

    policy: Callable[[Any], Disclosure]
    withstands: str
    most: int = 99
    distances: int = 1 << 20


def noisy(points: Any) -> Disclosure:
    """A budget that is generous, and still buys noise of the order of all distances."""
    return NoiseInShares(Budget(8, 1e-6), Bound.given(float(np.linalg.norm(points, axis=1).max())))


POLICIES = {
    "distances": Way(lambda points: Distances(), "t clients; the server sees distances"),
    "noise in shares, epsilon 8": Way(noisy, "t clients; the server sees noisy distances", distances=40_000),
    "assignments, the server deals": Way(
        lambda points: AssignmentsOnly(), "t clients; server + t outside the committee"
    ),
    "assignments, a client deals": Way(
        lambda points: AssignmentsOnly("client-0"), "server + t clients, unless dealer + member"
    ),
    "assignments, nobody deals": Way(lambda points: AssignmentsOnly(None), "server + t clients", MAX_T),
    "own labels, the server deals": Way(
        lambda points: OwnLabels(), "t clients; server + t outside the committee"
    ),
    "own labels, nobody deals": Way(lambda points: OwnLabels(None), "server + t clients", MAX_T),
    "own labels, hidden sizes, the server deals": Way(
        lambda points: OwnLabels(sizes="hidden"), "t clients; server + t outside the committee"
    ),
    "final labels only": Way(lambda points: FinalLabelsOnly(), "server + t clients", MAX_T),
}
# (n, t, m, d, k)
SETTINGS = [(10, 4, 1000, 20, 4), (10, 4, 10_000, 100, 4), (10, 1, 10_000, 20, 4), (16, 1, 16_384, 100, 16)]
QUICK = [(5, 1, 100, 5, 3)]
# Questions that steps begin with.
ASKED = ("DistanceQuery", "CompareQuery", "CompareOwnQuery", "LloydStepQuery")
# Steps of the long run; of each run so many, or two if one takes this many seconds.
STEPS, REPEATS, SLOW = 10, 5, 2.0


def cells(settings: list[tuple[int, ...]]) -> Iterator[Row]:
    """One cell a setting and policy."""
    for n, t, m, d, k in settings:
        for policy in (name for name, way in POLICIES.items() if m * k <= way.distances):
            yield {"n": n, "t": t, "m": m, "d": d, "k": k, "policy": policy}


def measure(cell: Row) -> Iterator[Row]:
    """Costs of a step, as the difference of two runs, and what the server can rebuild."""
    rng = np.random.default_rng([cell["m"], cell["d"]])
    points, _ = gaussian_mixture(cell["m"], cell["d"], cell["k"], 20.0, rng, (-50.0, 50.0))
    federation = secfc.Federation.from_arrays(np.array_split(points, cell["n"]))
    way = POLICIES[cell["policy"]]
    policy, t = way.policy(points), min(cell["t"], way.most)

    def timed(most: int) -> tuple[float, Any, QueryRecorder, Row]:
        algorithm = secfc.SecFC(
            k=cell["k"], threshold=t, init=secfc.RandomLabels(), max_iter=most, disclosure=policy
        )
        bound = float(np.abs(points).max())
        runs: list[tuple[float, Any, QueryRecorder]] = []
        # The first run may load kernels; slow ones are as good as many.
        while len(runs) < REPEATS and (len(runs) < 2 or runs[0][0] < SLOW):
            witness, start = QueryRecorder(), time.process_time()
            result = secfc.fit(algorithm, federation, seed=0, watch=witness, bound=bound)
            runs.append((time.process_time() - start, result, witness))
        # By the clock, so the least of several runs.
        parties = {
            name: min(a_step(r, phase) for _, r, _ in runs)
            for name, phase, kind in (
                ("member_ms", "compare", "MaskedBits"),
                ("dealer_ms", "deal", "Corrections"),
            )
            if any(e.kind == kind for e in runs[0][1].transcript.envelopes)
        }
        return *min(runs, key=lambda r: r[0]), parties

    (short, one, _, _), (long, result, witness, parties) = timed(1), timed(STEPS)
    more = steps(result) - steps(one)
    everything, online = (difference(result, one, ahead=ahead) for ahead in (True, False))
    finding = curious_server(witness, result, policy, federation)
    labels = finding.judgements["labels alone"]
    yield {
        "withstands": way.withstands,
        "t": t,
        "lanes": result.plan.code.basis.lanes,
        "scale": result.plan.quantizer.scale,
        "ms": (long - short) / more * 1e3,
        "run_ms": long * 1e3,
        **parties,
        "bytes": sum(everything.values()) / more,
        "bytes_most": most_received(everything) / more,
        "bytes_online": most_received(online) / more,
        "bytes_pair": max(online.values()) / more,
        "rounds": rounds(result),
        "recovered": finding.judgements.get(policy.capabilities.exposes, labels).share[-1],
        "labels_alone": labels.share[-1],
    }


def steps(result: Any) -> int:
    """Clusterings that distances were measured to: questions, or the steps that clients took unasked."""
    asked = {e.round for e in result.transcript.envelopes if e.kind in ASKED}
    return len(asked) or int(result.n_iter)


def a_step(result: Any, phase: str) -> float:
    """Milliseconds of a step that the busiest party spends in a phase."""
    return max(table.get(phase, 0.0) for table in result.seconds.values()) / steps(result) * 1e3


def difference(long: Any, short: Any, *, ahead: bool) -> Counter[tuple[str, str]]:
    """Bytes by sender and recipient that one run sends more than another."""
    table = traffic(long, ahead=ahead)
    table.subtract(traffic(short, ahead=ahead))
    return table


def most_received(table: Counter[tuple[str, str]]) -> int:
    """Bytes that the busiest recipient gets."""
    received: Counter[str] = Counter()
    for (_, recipient), size in table.items():
        received[recipient] += size
    return max(received.values())


def traffic(result: Any, *, ahead: bool) -> Counter[tuple[str, str]]:
    """Bytes by sender and recipient since the first question, with or without those dealt ahead."""
    table: Counter[tuple[str, str]] = Counter()
    for e in result.transcript.envelopes:
        if e.round >= ITERATE and (ahead or e.kind != "Corrections"):
            table[e.sender, e.recipient] += e.nbytes
    return table


def rounds(result: Any) -> int:
    """Messages that follow one another in a step: the last question's rounds, and the reply."""
    end = min(e.round for e in result.transcript.envelopes if e.kind in ("FinalResult", "DeliverLabels"))
    envelopes = [e for e in result.transcript.envelopes if ITERATE <= e.round < end]
    asked = [e.round for e in envelopes if e.kind in ASKED]
    if not asked:  # one question for all steps
        return round(len({e.round for e in envelopes}) / steps(result))
    return len({e.round for e in envelopes if e.round >= max(asked)}) + 1


def lines(rows: list[Row]) -> Iterator[list[str]]:
    """One line a setting and policy."""
    for row in rows:
        cell = row["cell"]
        first = cell["policy"] == "distances"
        t = "" if row["t"] == cell["t"] else f" (t={row['t']})"
        yield [
            f"n={cell['n']}, t={cell['t']}, m={cell['m']}, d={cell['d']}, k={cell['k']}" if first else "",
            cell["policy"] + t, row["withstands"], str(row["lanes"]),
            *(f"{row[name]:.1f}" for name in ("ms", "run_ms")),
            *(f"{row[name]:.1f}" if name in row else "" for name in ("member_ms", "dealer_ms")),
            *(f"{row[name] / 1e6:.2f}" for name in ("bytes", "bytes_most", "bytes_online", "bytes_pair")),
            str(row["rounds"]),
            *(f"{row[name]:.2f}" for name in ("recovered", "labels_alone")),
        ]  # fmt: skip


@click.command()
@click.option("--quick", is_flag=True, help="One tiny setting.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="JSON lines.")
def main(quick: bool, out: Path | None) -> None:
    """What every disclosure policy costs and gives away."""
    rows = list(run_grid(cells(QUICK if quick else SETTINGS), measure, out))
    header = [
        "setting", "policy", "withstands", "lanes", "ms a step", "ms a run", "member", "dealer",
        "MB a step", "to one", "online", "pair", "rounds", "recovered", "labels alone",
    ]  # fmt: skip
    show("What a policy costs and gives away", header, lines(rows))


if __name__ == "__main__":
    main()
