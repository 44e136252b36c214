"""SecFC's Figure 1: computing time per iteration of client and server over n, d and m; k, ell and t too.

    python -m benchmarks.runtime --out runtime.jsonl
    python -m benchmarks.runtime --vary n --vary m

Defaults: n = 10 clients, m = 1000 points of d = 20 features, k = 4 Gaussians of standard deviation 1,
ell = 1, t = ceil(n / 3) or the most that n allows.  Each cell runs SecFC (random start) and k-FED (k' = k)
on the same points, all parties in turn on one thread in this process; a first run is not counted, then
medians.  Times are processor times; rows hold the wall times of `Clustering.seconds` beside (`wall_...`), and
the least of all repeats (`least_...`), which other work on the machine changes least.

The policy is the paper's, `Distances(blind=False)`, from which a server can rebuild the shape of the data;
the default, `AssignmentsOnly()`, is measured beside it (`default_...`): there a server's work includes
dealing masks, and the slowest client is one of the t + 1 that compare.

Per iteration: `client` is the mean of the clients, `slowest` the slowest, `server` decoding and assigning.
`sharing` is the mean of the clients, once a run.  `k-FED` is a client (mean) and the server, the whole run.
Wire times are not measured: they are computed from the bytes of the messages for links of 1 Gbit/s
(--gigabit), one of the server and one of each client, without latency.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks.common import Row, run_grid, show
from secfc.algorithm import Clustering
from secfc.data.mixtures import gaussian_mixture
from secfc.disclosure import Disclosure

Seconds = Mapping[str, Mapping[str, float]]

# As in the paper clients answer in the clear and the server decodes distances; as many answer as it needs.
PAPER = secfc.Distances(blind=False)
DEFAULT = secfc.AssignmentsOnly()
# Phases of every iteration, of whoever works in them.
LOOP = ("distances", "compare", "deal", "assign")

SERVER = "server"
DEFAULTS = {"n": 10, "m": 1000, "d": 20, "k": 4, "ell": 1}
GRIDS: dict[str, list[int]] = {
    "n": [5, 10, 20, 50, 100],
    "d": [10, 20, 50, 100, 200, 500],
    "m": [1000, 3000, 10_000, 30_000, 100_000],
    "k": [2, 4, 8, 16, 32],
    "ell": [1, 2, 3, 4],
    "t": [1, 2, 3, 4],
}
# The default cell and a larger one end to end, run to convergence.
TARGETS: list[Row] = [
    {"vary": "target", **DEFAULTS, "t": 4},
    {"vary": "target", "n": 16, "m": 16384, "d": 100, "k": 16, "ell": 2, "t": 5},
]


def cells(vary: list[str], quick: bool) -> Iterator[Row]:
    """One cell a value of one parameter, the others at their defaults."""
    for name in vary:
        if name == "target":
            yield from TARGETS[:1] if quick else TARGETS
            continue
        for value in GRIDS[name][:2] if quick else GRIDS[name]:
            cell = {"vary": name, **DEFAULTS, "t": 0} | {name: value}
            if name == "ell":
                cell |= {"n": 16, "t": 4}
            if name != "t" and not cell["t"]:
                cell["t"] = min(-(-cell["n"] // 3), (cell["n"] + 1) // 2 - cell["ell"])
            if quick:
                cell["m"] //= 4
            yield cell


def measure(cell: Row, budget: float, gigabit: float, *, beside: bool = True) -> Iterator[Row]:
    """SecFC and k-FED on the data of one cell: one row of medians; beside: the default policy, too."""
    n, m, d, k = (cell[name] for name in ("n", "m", "d", "k"))
    points, truth = gaussian_mixture(m, d, k, 1.0, np.random.default_rng(0))
    federation = secfc.Federation.from_labelled(points, truth, n=n, seed=0)
    results, samples = repeated(algorithm(cell, PAPER), federation, budget)
    usual = default(cell, federation, budget) if beside else {}
    _, others = repeated(secfc.KFed(k=k, k_local=k), federation, budget / 4)
    result, steps = results[0], rounds(results[0])
    times = [per_iteration(sample, steps) for sample in samples]
    walls = [per_iteration(one.seconds, steps) for one in results]
    yield {
        "policy": str(PAPER),
        "n_iter": result.n_iter,
        "lanes": result.plan.code.basis.lanes,
        "repeats": len(results),
        **medians(times),
        **{f"wall_{name}": value for name, value in medians(walls).items()},
        **wire(result, gigabit),
        "fit_ms": 1e3 * float(np.median([sample["fit"]["cpu"] for sample in samples])),
        "wall_fit_ms": 1e3 * float(np.median([sample["fit"]["wall"] for sample in samples])),
        "kfed_ms": float(np.median([client_and_server(sample) for sample in others])),
        "converged": result.converged,
        **{f"least_{name}": min(one[name] for one in times) for name in times[0]},
        "least_kfed_ms": min(client_and_server(sample) for sample in others),
        **usual,
    }


def algorithm(cell: Row, policy: Disclosure) -> secfc.SecFC:
    """SecFC for a cell under a disclosure policy; a warning about ell > 1 is no news here."""
    # From the paper's start, so that what is timed are steps.
    start = secfc.RandomLabels()
    return secfc.SecFC(
        k=cell["k"], threshold=secfc.Threshold(cell["t"], cell["ell"]), init=start, disclosure=policy
    )


def default(cell: Row, federation: secfc.Federation, budget: float) -> Row:
    """The same under the default policy: what a run costs whose server sees labels only."""
    results, samples = repeated(algorithm(cell, DEFAULT), federation, budget)
    steps = results[0].n_iter
    found = medians([loop(sample, steps) for sample in samples])
    sent = sum(e.nbytes for e in results[0].transcript.envelopes if e.phase in LOOP) / steps
    return {
        "default_policy": str(DEFAULT),
        **{f"default_{name}": value for name, value in found.items()},
        "default_iteration_bytes": sent,
        "default_fit_ms": 1e3 * float(np.median([sample["fit"]["cpu"] for sample in samples])),
        "default_n_iter": steps,
    }


class Timed:
    """An algorithm that books processor seconds of its roles as `Clustering.seconds` books wall seconds."""

    def __init__(self, algorithm: Any) -> None:
        self.algorithm = algorithm
        self.plan, self.outcome, self.collect = algorithm.plan, algorithm.outcome, algorithm.collect
        # What rounding may lose is judged where the algorithm is made.
        self.capabilities = dataclasses.replace(algorithm.capabilities, coarse=None)
        self.seconds: dict[str, dict[str, float]] = {}

    def client(self, plan: Any, party: secfc.Party, *, coins: Any) -> Iterator[Any]:
        """The role of a client."""
        return self.timed(party.name, self.algorithm.client(plan, party, coins=coins))

    def server(self, plan: Any, *, rng: np.random.Generator, coins: Any) -> Iterator[Any]:
        """The role of the server."""
        return self.timed(SERVER, self.algorithm.server(plan, rng=rng, coins=coins))

    def timed(self, name: str, role: Any) -> Iterator[Any]:
        """The role, with a clock."""
        phases = self.seconds.setdefault(name, {})
        value = None
        while True:
            start = time.process_time()
            try:
                exchange = role.send(value)
            except StopIteration as done:
                phases["finish"] = phases.get("finish", 0.0) + time.process_time() - start
                return done.value
            phases[exchange.phase] = phases.get(exchange.phase, 0.0) + time.process_time() - start
            value = yield exchange


def repeated(
    algorithm: Any, federation: Any, budget: float, **options: Any
) -> tuple[list[Clustering], list[Seconds]]:
    """Results and processor seconds of fits with one seed and these options, after a warm-up.

    Three or more, as many as the budget of seconds allows; one if there is none.
    """
    secfc.fit(algorithm, federation, seed=0, **options)
    results: list[Clustering] = []
    samples: list[Seconds] = []
    end = time.perf_counter() + budget
    while len(results) < (3 if budget else 1) or (time.perf_counter() < end and len(results) < 21):
        timed = Timed(algorithm)
        cpu, wall = time.process_time(), time.perf_counter()
        results.append(secfc.fit(timed, federation, seed=0, **options))
        whole = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        samples.append(timed.seconds | {"fit": whole})
    return results, samples


def medians(samples: list[dict[str, float]]) -> dict[str, float]:
    """The median of every figure."""
    return {name: float(np.median([sample[name] for sample in samples])) for name in samples[0]}


def rounds(result: Clustering) -> int:
    """How often distances were asked for: the iterations, and one more if they did not converge."""
    asked = [e.recipient for e in result.transcript.envelopes if e.kind == "DistanceQuery"]
    return max(map(asked.count, asked))


def per_iteration(seconds: Seconds, steps: int) -> dict[str, float]:
    """Milliseconds of one run: per iteration, and of the sharing."""
    clients = [phases for name, phases in seconds.items() if name not in (SERVER, "fit")]
    each = [1e3 * phases["distances"] / steps for phases in clients]
    sharing = [1e3 * phases["share"] for phases in clients]
    # The last decoding happens on the way to the final message.
    deciding = 1e3 * (seconds[SERVER]["assign"] + seconds[SERVER]["finish"]) / steps
    return {
        "client_ms": float(np.mean(each)),
        "slowest_client_ms": max(each),
        "server_ms": deciding,
        "all_parties_ms": sum(each) + deciding,
        "sharing_ms": float(np.mean(sharing)),
        "sharing_all_ms": sum(sharing),
    }


def loop(seconds: Seconds, steps: int) -> dict[str, float]:
    """Milliseconds an iteration of one run whose clients compare distances."""
    spent = {
        name: 1e3 * sum(phases.get(phase, 0.0) for phase in LOOP) / steps
        for name, phases in seconds.items()
        if name != "fit"
    }
    server = spent.pop(SERVER)
    each = list(spent.values())
    return {
        "client_ms": float(np.mean(each)),
        "slowest_client_ms": max(each),
        "server_ms": server,
        "all_parties_ms": sum(each) + server,
    }


def client_and_server(seconds: Seconds) -> float:
    """Milliseconds of a whole run: a client, in the mean, and the server."""
    totals = {name: 1e3 * sum(phases.values()) for name, phases in seconds.items() if name != "fit"}
    server = totals.pop(SERVER)
    return float(np.mean(list(totals.values()))) + server


def wire(result: Clustering, gigabit: float) -> dict[str, float]:
    """Bytes of questions and replies, without those that replies are checked by, and what links of this many
    Gbit/s would take for them."""
    steps, envelopes = rounds(result), result.transcript.envelopes
    sharing = [e for e in envelopes if e.kind == "RowShares"]
    down = sum(e.nbytes for e in envelopes if e.kind == "DistanceQuery") / steps
    up = sum(e.nbytes for e in envelopes if e.kind == "CodedDistances") / steps
    busiest = max(sum(e.nbytes for e in sharing if e.sender == name) for name in result.plan.clients)
    bytes_per_ms = gigabit * 1e9 / 8 / 1e3
    return {
        "gigabit": gigabit,
        "iteration_bytes": down + up,
        "sharing_bytes": sum(e.nbytes for e in sharing),
        "wire_ms": (down + up) / bytes_per_ms,
        "sharing_wire_ms": busiest / bytes_per_ms,
    }


# --- tables ----------------------------------------------------------------------------------------


COLUMNS = {
    "client": "client_ms",
    "slowest": "slowest_client_ms",
    "server": "server_ms",
    "wire*": "wire_ms",
    "sharing": "sharing_ms",
    "wire* of it": "sharing_wire_ms",
    "k-FED": "kfed_ms",
    "whole fit": "fit_ms",
    "client, default": "default_client_ms",
    "slowest, default": "default_slowest_client_ms",
    "server, default": "default_server_ms",
    "whole fit, default": "default_fit_ms",
}


def print_tables(rows: list[Row]) -> None:
    """A table a parameter, then the two end-to-end targets."""
    for name in GRIDS:
        members = [r for r in rows if r["cell"]["vary"] == name]
        if members:
            fixed = {key: v for key, v in members[0]["cell"].items() if key not in ("vary", name)}
            if name == "n":
                fixed["t"] = "ceil(n/3)"
            show(
                f"Milliseconds over {name}, {PAPER}, beside the default, {DEFAULT}; "
                + ", ".join(f"{key}={v}" for key, v in fixed.items()),
                [name, *COLUMNS, "KiB/iter.", "iter.", "lanes"],
                [
                    [r["cell"][name], *(f"{r[c]:.3g}" for c in COLUMNS.values()),
                     f"{r['iteration_bytes'] / 1024:.4g}", r["n_iter"], r["lanes"]]
                    for r in members
                ],
            )  # fmt: skip
    lines = list(targets(rows))
    if lines:
        show("End to end", ["target", "cell", "wanted", "measured", "met"], lines)
    if lines:
        show(
            f"The same under the default, {DEFAULT}", ["cell", "all parties, an iteration", "whole fit"],
            [[str(r["cell"]), f"{r['default_all_parties_ms']:.3g} ms", f"{r['default_fit_ms']:.3g} ms"]
             for r in rows if r["cell"]["vary"] == "target"],
        )  # fmt: skip
    if rows:
        click.echo(f"* computed from bytes for links of {rows[0]['gigabit']:g} Gbit/s, not measured")


def targets(rows: list[Row]) -> Iterator[list[str]]:
    """The end-to-end targets that the rows speak of."""
    for row in rows:
        cell = row["cell"]
        if cell["vary"] != "target":
            continue
        setting = ", ".join(f"{key}={v}" for key, v in cell.items() if key != "vary")
        if cell["m"] == DEFAULTS["m"]:
            name, limit, value = (
                "all clients in turn and the server, an iteration",
                1.0,
                row["all_parties_ms"],
            )
        else:
            name, limit, value = "sharing to final labels, all parties", 1000.0, row["fit_ms"]
            setting += f" ({row['n_iter']} iterations)"
        name += f", {PAPER}"
        met = "yes" if value < limit else "NO"
        yield [name, setting, f"< {limit:g} ms", f"{value:.3g} ms", met]


@click.command(help=__doc__.split("\n")[0])
@click.option("--vary", type=click.Choice([*GRIDS, "target"]), multiple=True, help="Only this parameter.")
@click.option("--budget", default=1.0, show_default=True, help="Seconds of measuring a cell, about.")
@click.option("--gigabit", default=1.0, show_default=True, help="Gbit/s of the links of computed wire times.")
@click.option("--quick", is_flag=True, help="Two values of every parameter, and a quarter of the points.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(vary: tuple[str, ...], budget: float, gigabit: float, quick: bool, out: Path | None) -> None:
    """Run the grid; print a table a parameter and the end-to-end targets."""
    todo = list(cells(list(vary or [*GRIDS, "target"]), quick))
    rows = []
    with click.progressbar(todo, label="runtime") as bar:
        for row in run_grid(bar, lambda cell: measure(cell, 0.0 if quick else budget, gigabit), out):
            rows.append(row)
    print_tables(rows)


if __name__ == "__main__":
    main()
