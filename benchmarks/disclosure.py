"""What every disclosure policy costs and gives away: time, bytes and rounds an iteration, variance recovered.

    python benchmarks/disclosure.py --out disclosure.jsonl
    python benchmarks/disclosure.py --quick

All parties run in one process, and time is processor time of all of them together; beside it the time that
one member of a committee takes from the masked distances on, and the dealer, by the clock on the wall.
Bytes are of all messages of an iteration, of those to the busiest recipient, and of these without what a
dealer sends ahead.  Recovered is the share of the points' variance that a curious server rebuilds by the end
of a run from random labels, up to rotation and reflection, from all that the policy shows it; beside it the
same from labels alone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks.common import Row, run_grid, show
from secfc.attacks.replay import Witness, curious_server
from secfc.data import gaussian_mixture
from secfc.disclosure import AssignmentsOnly, Disclosure, Distances
from secfc.exchange import ITERATE

POLICIES: dict[str, tuple[Disclosure, str]] = {
    "distances": (Distances(), "nobody: the server sees distances"),
    "assignments, the server deals": (AssignmentsOnly(), "the server; t clients; server + t outside"),
    "assignments, a client deals": (
        AssignmentsOnly("client-0"),
        "server + t clients, unless dealer + member",
    ),
}
# (n, t, m, d, k)
SETTINGS = [(10, 4, 1000, 20, 4), (10, 4, 10_000, 100, 4), (10, 1, 10_000, 20, 4), (16, 1, 16_384, 100, 16)]
QUICK = [(5, 1, 400, 5, 3)]
STEPS, REPEATS = 10, 3


def cells(settings: list[tuple[int, ...]]) -> Iterator[Row]:
    """One cell a setting and policy."""
    for n, t, m, d, k in settings:
        for policy in POLICIES:
            yield {"n": n, "t": t, "m": m, "d": d, "k": k, "policy": policy}


def measure(cell: Row) -> Iterator[Row]:
    """Costs of an iteration, as the difference of two runs, and what the server can rebuild."""
    rng = np.random.default_rng([cell["m"], cell["d"]])
    points, _ = gaussian_mixture(cell["m"], cell["d"], cell["k"], 20.0, rng, (-50.0, 50.0))
    federation = secfc.Federation.from_arrays(np.array_split(points, cell["n"]))
    policy, withstands = POLICIES[cell["policy"]]

    def timed(steps: int) -> tuple[float, Any, Witness, Row]:
        way = secfc.SecFC(k=cell["k"], t=cell["t"], max_iter=steps, disclosure=policy)
        runs = []
        for _ in range(REPEATS):
            witness, start = Witness(), time.process_time()
            result = secfc.fit(way, federation, seed=0, watch=witness)
            runs.append((time.process_time() - start, result, witness))
        # By the clock, so the least of several runs.
        parties = {
            name: min(a_step(r, phase) for _, r, _ in runs)
            for name, phase in (("member_ms", "compare"), ("dealer_ms", "deal"))
            if policy.exposes == "labels"
        }
        return *min(runs, key=lambda r: r[0]), parties

    (short, one, _, _), (long, result, witness, parties) = timed(1), timed(STEPS)
    steps = result.n_iter - one.n_iter
    extra = Counter(traffic(result))
    extra.subtract(traffic(one))
    online = Counter(traffic(result, ahead=False))
    online.subtract(traffic(one, ahead=False))
    finding = curious_server(witness, result, policy, federation)
    yield {
        "withstands": withstands,
        "ms": (long - short) / steps * 1e3,
        "run_ms": long * 1e3,
        **parties,
        "bytes": sum(extra.values()) / steps,
        "bytes_most": max(extra.values()) / steps,
        "bytes_online": max(online.values()) / steps,
        "rounds": rounds(result),
        "recovered": finding.judgements.get("distances", finding.judgements["labels alone"]).share[-1],
        "labels_alone": finding.judgements["labels alone"].share[-1],
    }


def a_step(result: Any, phase: str) -> float:
    """Milliseconds of a step that the busiest party spends in a phase."""
    steps = len({e.round for e in result.transcript.envelopes if e.kind == "Compare"})
    return float(max(table.get(phase, 0.0) for table in result.seconds.values()) / steps * 1e3)


def traffic(result: Any, *, ahead: bool = True) -> dict[str, int]:
    """Bytes that each party received since the first question, with or without those dealt ahead."""
    table: Counter[str] = Counter()
    for e in result.transcript.envelopes:
        if e.round >= ITERATE and (ahead or e.kind != "Corrections"):
            table[e.recipient] += e.nbytes
    return table


def rounds(result: Any) -> int:
    """Messages that follow one another in an iteration: the last question's rounds, and the reply."""
    envelopes = [e for e in result.transcript.envelopes if e.round >= ITERATE and e.kind != "Final"]
    last = max(e.round for e in envelopes if e.kind in ("Assignment", "Compare"))
    return len({e.round for e in envelopes if e.round >= last}) + 1


def lines(rows: list[Row]) -> Iterator[list[str]]:
    """One line a setting and policy."""
    for row in rows:
        cell = row["cell"]
        first = cell["policy"] == "distances"
        yield [
            f"n={cell['n']}, t={cell['t']}, m={cell['m']}, d={cell['d']}, k={cell['k']}" if first else "",
            cell["policy"], row["withstands"], f"{row['ms']:.1f}", f"{row['run_ms']:.0f}",
            *(f"{row[name]:.1f}" if name in row else "" for name in ("member_ms", "dealer_ms")),
            f"{row['bytes'] / 1e6:.2f}",
            f"{row['bytes_most'] / 1e6:.2f}", f"{row['bytes_online'] / 1e6:.2f}", str(row["rounds"]),
            f"{row['recovered']:.2f}", f"{row['labels_alone']:.2f}",
        ]  # fmt: skip


@click.command()
@click.option("--quick", is_flag=True, help="One tiny setting.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="JSON lines.")
def main(quick: bool, out: Path | None) -> None:
    """What every disclosure policy costs and gives away."""
    rows = list(run_grid(cells(QUICK if quick else SETTINGS), measure, out))
    header = [
        "setting", "policy", "withstands", "ms a step", "ms a run", "ms of a member", "ms of the dealer",
        "MB a step", "MB to one", "online", "rounds", "recovered", "labels alone",
    ]  # fmt: skip
    show("What a policy costs and gives away", header, lines(rows))


if __name__ == "__main__":
    main()
