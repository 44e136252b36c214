"""What lost clients, deviating clients and blinding cost, each over the same work without.

    python -m benchmarks.resilience --out resilience.jsonl
    python -m benchmarks.resilience --m 16384 --d 100 --lanes 3

No table of the paper: it tolerates no deviating clients, and names no cost of its lost clients.  Four kinds
of work, on one thread, in turns, processor times; `ratio` is over the first line of each:

* decode: labels from R = 2 (ell + t - 1) + 1 replies; from those of others after S clients fell silent;
  with A deviating clients tolerated, when nobody lies, when A lie in every value, and when A lie in one value
  each, at the end, where they are found one after another (once a run: who is named is not asked again);
* iteration: a client's distances and the server's decoding, 5 % of the labels moving; the same with A
  deviating clients tolerated; and under zero-sum masks that withstand one colluding client;
* run: an iteration of a whole run, messages included: the slowest client and the server; plain, blinded,
  and with A deviating clients tolerated, where blinding is dealt; S silent from the first question on; A
  lying in it;
* share: a client deals and stores its part of the rows; with dealings checked, it masks them and publishes
  words of all shares it holds, which the server judges.

Targets: decoding with deviating clients <= 2.5 times the plain one, a blinded iteration <= 1.3 times the bare
one.  `exact`: the same labels and sums as the plain way, and the deviating clients by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks.common import Row, in_turns, run_grid, show
from benchmarks.runtime import Seconds, repeated
from field.code.consistency import combine_shares, deal_mask, judge_dealing, mask_words, screen_deviating
from field.code.distances import decode_nearest
from field.code.lagrange_code import LagrangeCode, transfer_matrix
from field.code.masking import PairKeys, add_mask, mask_context, masking_partners
from field.code.rows import coded_rows
from field.ring.basis import LANE_PRIMES, Basis
from field.secrets.coins import SeededCoins, SystemCoins
from secfc.coded.messages import CheckedDistances, CodedDistances
from secfc.data.inputs import build_algorithm
from secfc.data.mixtures import gaussian_mixture
from secfc.roles.exchange import ITERATE, SERVER
from secfc.transport.simulate import Faults, deliver_all

Array = Any
Work = Callable[[], Any]

# (n, ell, t, silent S, deviating clients A) with n = R + S + 2 A.
CODES = ((10, 1, 3, 1, 1), (16, 1, 4, 1, 3), (20, 2, 5, 1, 3))
PLAIN, HONEST, EVERYWHERE, HIDDEN, BLINDED = (
    "plain", "A corrected, all honest", "A deviate, every value", "A deviate, one value each", "blinded",
)  # fmt: skip
# Ratios that are to stay below.
TARGETS = {
    ("decode", HONEST): 2.5,
    ("decode", EVERYWHERE): 2.5,
    ("decode", HIDDEN): 2.5,
    ("iteration", BLINDED): 1.3,
}


def cells(
    sizes: list[tuple[int, int, int]], codes: list[tuple[int, int, int, int, int]], lanes: list[int]
) -> Iterator[Row]:
    """One cell a code, size and number of lanes."""
    for count in lanes:
        for m, d, k in sizes:
            for n, ell, t, silent, corrected in codes:
                yield {
                    "script": "resilience", "n": n, "ell": ell, "t": t, "m": m, "d": d, "k": k,
                    "silent": silent, "corrected": corrected, "lanes": count,
                }  # fmt: skip


def measure(cell: Row, budget: float) -> Iterator[Row]:
    """One row a way of each kind of work."""
    code = LagrangeCode(Basis(LANE_PRIMES[: cell["lanes"]]), cell["n"], cell["ell"], cell["t"])
    for kind, works in (
        ("decode", decoding(code, cell)),
        ("iteration", iterating(code, cell)),
        ("share", sharing(code, cell)),
    ):
        first: Any = None
        verdicts = {}
        for name, (work, right) in works.items():
            result = work()
            first = result if first is None else first
            verdicts[name] = "yes" if right(first, result) else "NO"
        times = in_turns({name: work for name, (work, _) in works.items()}, budget)
        base = next(iter(times.values()))[0]
        for name, (cpu, wall) in times.items():
            yield {
                "work": kind,
                "who": name,
                "cpu_ms": 1e3 * cpu,
                "wall_ms": 1e3 * wall,
                "ratio": cpu / base,
                "target": TARGETS.get((kind, name), 0.0),
                "exact": verdicts[name],
            }
    yield from whole_runs(code, cell, budget)


def screen_nearest(
    code: LagrangeCode, values: dict[int, Array], corrected: int, sizes: Array, labels: Array, coins: Any
) -> Any:
    """Nearest centers from replies of which up to `corrected` are false, and who sent them."""
    good, named = screen_deviating(code, values, 2, corrected, coins)
    return *decode_nearest(code, {j: values[j] for j in good}, sizes, labels), named


# --- decode ----------------------------------------------------------------------------------------


def replies_of(code: LagrangeCode, k: int, m: int) -> dict[int, Array]:
    """Honest replies (lanes, k, m) of all clients: points of random polynomials."""
    needed = code.threshold(2)
    fixed = code.basis.sample((needed, k * m), SeededCoins(0, "replies"))
    values = code.basis.matmul(transfer_matrix(code.basis, code.alphas[:needed], code.alphas), fixed)
    return {j: np.ascontiguousarray(values[:, j]).reshape(-1, k, m) for j in range(code.n)}


def decoding(code: LagrangeCode, cell: Row) -> dict[str, tuple[Work, Callable[[Any, Any], bool]]]:
    """Ways to get labels from replies."""
    m, k, corrected, silent = cell["m"], cell["k"], cell["corrected"], cell["silent"]
    honest = replies_of(code, k, m)
    labels = np.random.default_rng(0).integers(0, k, m).astype(np.int32)
    sizes = np.bincount(labels, minlength=k)
    late = {j: v for j, v in honest.items() if j >= silent}
    coins = SystemCoins()

    def screened(values: dict[int, Array]) -> Work:
        return lambda: screen_nearest(code, values, corrected, sizes, labels, coins)

    def right(named: tuple[int, ...]) -> Callable[[Any, Any], bool]:
        return lambda a, b: bool((a[0] == b[0]).all()) and a[1] == b[1] and b[2:] == (named,)

    everywhere, hidden = dict(honest), dict(honest)
    for j in range(corrected):
        everywhere[j] = code.basis.sample((k, m), SeededCoins(j, "lies"))
        hidden[j] = honest[j].copy()
        hidden[j][0, k - 1, m - 1 - j] ^= 1
    all_ = tuple(range(corrected))
    return {
        PLAIN: (
            lambda: decode_nearest(code, honest, sizes, labels),
            lambda a, b: True,
        ),
        "S silent": (
            lambda: decode_nearest(code, late, sizes, labels),
            lambda a, b: bool((a[0] == b[0]).all()) and a[1] == b[1],
        ),
        HONEST: (screened(honest), right(())),
        EVERYWHERE: (screened(everywhere), right(all_)),
        HIDDEN: (screened(hidden), right(all_)),
    }


# --- iteration -------------------------------------------------------------------------------------


def iterating(code: LagrangeCode, cell: Row) -> dict[str, tuple[Work, Callable[[Any, Any], bool]]]:
    """A client's and the server's work of one iteration, plain, with replies corrected, and blinded."""
    m, k, lanes, corrected = cell["m"], cell["k"], cell["lanes"], cell["corrected"]
    width = code.width(cell["d"])
    rng = np.random.default_rng(0)
    rows = coded_rows(code.basis, m, width)
    rows.add_rows(0, code.basis.sample((m, width), SeededCoins(0, "rows")))
    rows.finish_rows()
    moving = [rng.integers(0, k, m).astype(np.int32)]
    for _ in range(9):
        moved = rng.integers(0, m, max(1, m // 20))
        moving.append(moving[-1].copy())
        moving[-1][moved] = rng.integers(0, k, len(moved))
    honest = replies_of(code, k, m)
    sizes = np.bincount(moving[0], minlength=k)
    responders = tuple(range(code.threshold(2)))
    # The first responder's keys with all others, by seeds of no importance here.
    keys = PairKeys({j: SeededCoins(j, "pair").bytes(16) for j in responders[1:]})
    coins, turn, sums, nonce = SystemCoins(), 0, None, 0

    def client() -> Array:
        nonlocal turn, sums
        turn = (turn + 1) % len(moving)
        sums = rows.sum_clusters(moving[turn], k, sums)
        return rows.measure_distances(sums)

    def masked() -> Array:
        nonlocal nonce
        nonce += 1
        values = client()
        peers = masking_partners(code, responders, 0, lanes, 1)
        context = mask_context(code, responders, lanes, values.shape[1:])
        add_mask(code, responders, 0, keys.streams(nonce, context, peers), values, 1)
        return values

    def server() -> Any:
        return decode_nearest(code, honest, sizes, moving[0])

    def tolerant() -> Any:
        return screen_nearest(code, honest, corrected, sizes, moving[0], coins)

    def same(a: Any, b: Any) -> bool:
        return bool((a[1][0] == b[1][0]).all()) and a[1][1] == b[1][1]

    return {
        PLAIN: (lambda: (client(), server()), same),
        HONEST: (lambda: (client(), tolerant()), same),
        BLINDED: (lambda: (masked(), server()), same),
    }


# --- share -----------------------------------------------------------------------------------------


def sharing(code: LagrangeCode, cell: Row) -> dict[str, tuple[Work, Callable[[Any, Any], bool]]]:
    """Dealing and storing m / n rows of every client, as one client and the server do it."""
    part = max(1, cell["m"] // cell["n"])
    words = mask_words(code, cell["corrected"])
    points = code.basis.sample((part, cell["d"]), SeededCoins(0, "points"))
    coins = SystemCoins()
    shares = code.share(points, coins)
    masks = deal_mask(code, words, coins)
    common = SeededCoins(0, "common")
    width = code.width(cell["d"])
    published = {j: combine_shares(code, shares[j], masks[j], SeededCoins(1, "one")) for j in range(code.n)}

    def deal() -> bool:
        code.share(points, coins)
        store = coded_rows(code.basis, part * code.n, width)
        for place in range(code.n):
            store.add_rows(place * part, shares[place])
        return True

    def checked() -> bool:
        deal()
        deal_mask(code, words, coins)
        for _ in range(code.n):  # one dealer after another, to this receiver
            combine_shares(code, shares[0], masks[0], common)
        # The server judges n dealers for n clients: one judgement a client.
        return judge_dealing(code, published, cell["corrected"]).good

    return {PLAIN: (deal, lambda a, b: a == b), "dealings checked": (checked, lambda a, b: a == b)}


# --- whole runs ------------------------------------------------------------------------------------


def whole_runs(code: LagrangeCode, cell: Row, budget: float) -> Iterator[Row]:
    """An iteration of whole runs, messages included: the slowest client and the server."""
    rng = np.random.default_rng(0)
    points, _ = gaussian_mixture(cell["m"], cell["d"], cell["k"], 20.0, rng, (-50.0, 50.0))
    federation = secfc.Federation.from_arrays(np.array_split(points, code.n))
    common = {
        "k": cell["k"], "t": code.t, "ell": code.ell, "basis": code.basis, "max_iter": 8,
        "disclosure": secfc.Distances(),
    }  # fmt: skip
    bare, tolerant = {"disclosure": secfc.Distances(blind=False)}, {"corrected": cell["corrected"]}
    silent = silence(federation.names[: cell["silent"]])
    deviating = federation.names[: cell["corrected"]]
    lies = lying(deviating, code)
    base = 0.0
    history: Any = None
    for name, options, faults, named in (
        (PLAIN, bare, deliver_all, ()),
        ("S silent", bare, silent, ()),
        (BLINDED, {}, deliver_all, ()),
        ("blinded, S silent", {}, silent, ()),
        (HONEST, bare | tolerant, deliver_all, ()),
        (EVERYWHERE, bare | tolerant, lies, deviating),
        (f"blinded, {HONEST}", tolerant, deliver_all, ()),
        (f"blinded, {EVERYWHERE}", tolerant, lies, deviating),
    ):
        results, samples = repeated(
            build_algorithm(secfc.SecFC, **(common | options)), federation, budget, faults=faults
        )
        result = results[0]
        history = result.history if history is None else history
        same = all((a == b).all() for a, b in zip(history, result.history, strict=True))
        # The last one says that nothing moves, or that there is no time left.
        steps = result.n_iter + (not result.converged)
        cpu = float(np.median([iteration_ms(sample, steps) for sample in samples]))
        base = base or cpu
        yield {
            "work": "run",
            "who": name,
            "policy": str((common | options)["disclosure"]),
            "cpu_ms": cpu,
            "ratio": cpu / base,
            "target": TARGETS.get(("iteration", name), 0.0),
            "exact": "yes" if same and set(result.deviated) == set(named) else "NO",
        }


def iteration_ms(seconds: Seconds, steps: int) -> float:
    """Milliseconds an iteration of the slowest client and the server."""
    clients = [phases for name, phases in seconds.items() if name not in (SERVER, "fit")]
    slowest = max(phases.get("distances", 0.0) + phases.get("blind", 0.0) for phases in clients)
    # The last decoding happens on the way to the final message.
    return 1e3 * (slowest + seconds[SERVER]["assign"] + seconds[SERVER]["finish"]) / steps


def silence(names: tuple[str, ...]) -> Faults:
    """These clients say and hear nothing from the first question on."""
    return lambda e: () if {e.sender, e.recipient} & {*names} and e.round >= ITERATE else (e,)


def lying(names: tuple[str, ...], code: LagrangeCode) -> Faults:
    """These clients send noise for distances."""

    def fault(e: Any) -> Any:
        if e.sender not in names or not isinstance(e.body, CodedDistances | CheckedDistances):
            return (e,)
        lanes, *shape = e.body.values.shape
        noise = code.basis.prefix(lanes).sample(tuple(shape), SeededCoins(0, e.sender))
        return (replace(e, body=replace(e.body, values=noise)),)

    return fault


# --- tables ----------------------------------------------------------------------------------------


def named(cell: Row) -> str:
    """The parameters of a cell."""
    return ", ".join(f"{key}={value}" for key, value in cell.items() if key != "script")


def lines(rows: list[Row]) -> Iterator[list[str]]:
    """One line a way: times, ratio, target."""
    for row in rows:
        target = row["target"]
        met = "" if not target else ("yes" if row["ratio"] <= target else "NO")
        wanted = f"<= {target:g}" if target else ""
        first = row["work"] if row["who"] == PLAIN else ""
        yield [first, row["who"], f"{row['cpu_ms']:.3g}", f"{row['ratio']:.2f}", wanted, met, row["exact"]]


@click.command(help=__doc__.split("\n")[0])
@click.option("--m", "ms", type=click.IntRange(20), multiple=True, default=(1000, 16384, 100_000),
              show_default=True, help="Points.")  # fmt: skip
@click.option("--d", "ds", type=click.IntRange(1), multiple=True, default=(20, 100), show_default=True)
@click.option("--k", "ks", type=click.IntRange(2), multiple=True, default=(4, 16), show_default=True)
@click.option("--lanes", type=click.IntRange(1, 4), multiple=True, default=(2,), show_default=True)
@click.option("--budget", default=0.7, show_default=True, help="Seconds of measuring a kind of work, about.")
@click.option("--quick", is_flag=True, help="The smallest cell.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(
    ms: tuple[int, ...],
    ds: tuple[int, ...],
    ks: tuple[int, ...],
    lanes: tuple[int, ...],
    budget: float,
    quick: bool,
    out: Path | None,
) -> None:
    """Run the grid; print a table a cell."""
    codes = list(CODES[:1] if quick else CODES)
    if quick:
        ms, ds, ks, budget = (100,), (6,), (3,), 0.0
    todo = list(cells([(m, d, k) for m in ms for d in ds for k in ks], codes, list(lanes)))
    rows = []
    with click.progressbar(todo, label="resilience") as bar:
        for row in run_grid(bar, lambda cell: measure(cell, budget), out):
            rows.append(row)
    for cell in {str(r["cell"]): r["cell"] for r in rows}.values():
        columns = ["work", "who", "cpu ms", "ratio", "wanted", "met", "exact"]
        show(named(cell), columns, lines([r for r in rows if r["cell"] == cell]))


if __name__ == "__main__":
    main()
