"""Plans beside runs: bytes, rounds, time and memory of random settings over all policies and algorithms.

    python -m benchmarks.plan                      # 50 settings, some minutes
    python -m benchmarks.plan --settings 10 --seed 7 --out plan.jsonl

Every plan and every run has a process of its own, so that memory is its own too, and plans are made anew.
Data are mixtures that no plan sees.  A row says what was planned over what was measured.
"""

from __future__ import annotations

import math
import os
import statistics
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.common import Row, peak_gib, run_grid

POLICIES = (
    "Distances()", "AssignmentsOnly()", 'AssignmentsOnly("client-0")', "AssignmentsOnly(dealer=None)",
    "OwnLabels()", 'OwnLabels("client-1")', "OwnLabels(dealer=None)", 'OwnLabels(sizes="hidden")',
    "FinalLabelsOnly()", 'FinalLabelsOnly(dealer="server")', "NoiseInShares",
    "k-FED", "FedDP", "private",
)  # fmt: skip
TIMES = 2.0
FIGURES = ("bytes", "rounds", "seconds", "memory")
BOUND = 8.0


@dataclass(frozen=True)
class Setting:
    """One run.  policy: of POLICIES."""

    policy: str
    n: int
    m: int
    d: int
    k: int
    t: int
    seed: int

    def algorithm(self) -> Any:
        """What is run."""
        import secfc
        from secfc.feddp import ServerNoise
        from secfc.privacy import Bound, Budget

        if self.policy == "DBSCAN":
            return secfc.DBSCAN(BOUND / 4, 4, threshold=self.t)
        if self.policy == "k-FED":
            return secfc.KFed(self.k, k_local=2)
        if self.policy == "FedDP":
            return secfc.FedDPKMeans(self.k, 2.0, 1e-6, noise=ServerNoise())
        if self.policy == "private":
            return secfc.SecFC(self.k, self.t, membership="private")
        if self.policy.startswith("Noise"):
            made = getattr(secfc, self.policy)(Budget(8.0, 1e-6), Bound.given(BOUND))
            return secfc.SecFC(self.k, self.t, disclosure=made, max_iter=5)
        name, _, rest = self.policy.partition("(")
        values = rest.rstrip(")")
        more: dict[str, Any] = {}
        if values == "dealer=None":
            more = {"dealer": None}
        elif values == 'sizes="hidden"':
            more = {"sizes": "hidden"}
        elif values:
            more = {"dealer": values.removeprefix("dealer=").strip('"')}
        return secfc.SecFC(self.k, self.t, disclosure=getattr(secfc, name)(**more))


def settings(many: int, seed: int) -> Iterator[Setting]:
    """Random ones, every policy in turn."""
    rng = np.random.default_rng(seed)
    for i in range(many):
        policy = POLICIES[i % len(POLICIES)]
        costly = (
            "None" in policy or policy.startswith("FinalLabels") or policy == "private" or "hidden" in policy
        )
        n = int(rng.integers(5, 9 if costly else 15))
        t = int(rng.integers(1, min(3 if costly else 5, (n - 1) // 2) + 1))
        m = round(math.exp(rng.uniform(math.log(200), math.log(2000 if costly else 12000))))
        k = int(rng.integers(2, 6 if costly else 9))
        yield Setting(policy, n, m, int(rng.integers(2, 40)), k, t, i)


def data(setting: Setting) -> Any:
    """Rows of a run: as many clusters as are looked for, which touch."""
    import secfc

    rng = np.random.default_rng([setting.seed, 77])
    centers = rng.uniform(-4, 4, (setting.k, setting.d))
    chosen = rng.integers(setting.k, size=setting.m)
    points = np.clip(centers[chosen] + rng.normal(0, 1.3, (setting.m, setting.d)), -BOUND, BOUND)
    arrays = np.array_split(points, setting.n)
    ids = None
    if setting.policy == "private":
        ids = [[f"{j}-{row}" for row in range(len(array))] for j, array in enumerate(arrays)]
    held = centers[rng.integers(setting.k, size=100)] + rng.normal(0, 1.3, (100, setting.d))
    return secfc.Federation.from_arrays(
        arrays, ids=ids, server_points=np.clip(held, -BOUND, BOUND) if setting.policy == "FedDP" else None
    )


def planned(setting: Setting) -> Row:
    """What a plan says, and what it takes to say it."""
    import time

    import secfc

    begun = time.perf_counter()
    os.environ["SECFC_CACHE"] = tempfile.mkdtemp()
    points = 100 if setting.policy == "FedDP" else None
    found = secfc.plan(
        setting.algorithm(), setting.n, setting.m, setting.d, bound=BOUND, server_points=points
    )
    cost = found.cost
    return {
        "bytes": cost.nbytes, "rounds": cost.rounds, "seconds": found.one_process_seconds,
        "memory": found.memory, "steps": found.steps,
        "took": time.perf_counter() - begun, "priced": found.priced,
    }  # fmt: skip


def measured(setting: Setting) -> Row:
    """What a run takes, in a process of its own that has had a small one."""
    import secfc
    from secfc.planning.dry_run import CostRecorder, total_cost

    # What is loaded, or calibrated, once in a process is no work of a run.
    secfc.fit(setting.algorithm(), data(replace(setting, m=max(60, 3 * setting.n))), bound=BOUND)
    recorder = CostRecorder()
    result = secfc.fit(setting.algorithm(), data(setting), bound=BOUND, watch=recorder)
    cost = total_cost([cost for _, cost in recorder.questions])
    return {
        "bytes": result.transcript.nbytes(), "rounds": cost.rounds, "seconds": cost.seconds,
        "memory": peak_gib() * 2**30,
        "steps": result.n_iter, "asked": [asked for asked, _ in recorder.questions],
    }  # fmt: skip


def compared(setting: Setting) -> Row:
    """Both, and their ratios: as planned, and given what the run asked, which depends on data."""
    with ProcessPoolExecutor(2, get_context("spawn"), max_tasks_per_child=1) as pool:
        plan, run = (pool.submit(work, setting).result() for work in (planned, measured))
    priced, asked = plan.pop("priced"), run.pop("asked")
    from secfc.planning.dry_run import total_cost

    given = total_cost([priced.of_kind(one) for one in asked])
    known = {
        "bytes": given.nbytes,
        "rounds": given.rounds,
        "seconds": given.seconds,
        "memory": plan["memory"],
    }
    return {
        **asdict(setting), "plan": plan, "run": run,
        "ratio": {name: plan[name] / run[name] for name in FIGURES},
        "given": {name: known[name] / run[name] for name in FIGURES},
    }  # fmt: skip


def within(row: Row, which: str, name: str) -> bool:
    """Whether plan and run are within TIMES."""
    return bool(1 / TIMES <= row[which][name] <= TIMES)


def table(rows: list[Row]) -> str:
    """For people."""
    lines = [
        f"{'policy':<34}{'n':>3}{'m':>7}{'d':>4}{'k':>3}{'t':>3}  planned / measured: "
        "bytes rounds  time memory | given the questions: bytes rounds  time | plan took"
    ]
    for row in rows:
        one, two = row["ratio"], row["given"]
        lines.append(
            f"{row['policy']:<34}{row['n']:>3}{row['m']:>7}{row['d']:>4}{row['k']:>3}{row['t']:>3}{'':22}"
            f"{one['bytes']:6.2f} {one['rounds']:6.2f} {one['seconds']:5.2f} {one['memory']:6.2f} |{'':21}"
            f"{two['bytes']:6.2f} {two['rounds']:6.2f} {two['seconds']:5.2f} | {row['plan']['took']:5.1f} s"
        )
    for which, what in (("ratio", "as planned"), ("given", "given the questions that the run asked")):
        said = ", ".join(
            f"{name} {sum(within(row, which, name) for row in rows)}/{len(rows)} (median "
            f"{statistics.median(row[which][name] for row in rows):.2f})"
            for name in FIGURES
        )
        lines.append(f"within {TIMES:g} times, {what}: {said}")
    return "\n".join(lines)


@click.command()
@click.option("--settings", "many", default=50, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=0, show_default=True)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="JSON lines; what is there is kept."
)
def main(many: int, seed: int, out: Path | None) -> None:
    """Print planned over measured for random settings."""
    cells = [asdict(setting) for setting in settings(many, seed)]
    rows = list(run_grid(cells, lambda cell: [compared(Setting(**cell))], out))
    click.echo(table(rows))


if __name__ == "__main__":
    main()
