"""Every cell of a grid, some at a time, each kept as soon as it is there: data, one run, one row."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import math
import os
import platform
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import secfc
from secfc.algorithm import Clustering
from secfc.data.federation import Federation
from secfc.data.inputs import build_algorithm, get_parameter, require_library
from secfc.data.mixtures import gaussian_mixture
from secfc.errors import Caution, InputError
from secfc.grids.cells import DATA, RUN, AxesInterface, Cell, algorithm_class, cell_name, grid_cells
from secfc.grids.rows import ResultFile, Row
from secfc.metrics import accuracy, cost, labels_digest
from secfc.privacy.budget_file import EnteredRun, LedgerTerms, RunRecord, entering_run, new_name
from secfc.privacy.ledger import Promise
from secfc.remedies import advice_text, word_of
from secfc.report.costs import count_rounds
from secfc.report.data import in_row_order, pool_points
from secfc.roles.exchange import SERVER

Shown = Callable[[int, int, Row], None]


def grid(
    *,
    out: str | Path | None = None,
    files: Sequence[str | Path] = (),
    jobs: int = 1,
    preset: str | None = None,
    watch: Shown | None = None,
    backend: str | None = None,
    reading: Mapping[str, Any] | None = None,
    evaluate: bool = False,
    ledger: LedgerTerms | None = None,
    prefix: str = "",
    **axes: Any,
) -> list[Row]:
    """Run every combination of parameters.

    Parameters
    ----------
    out
        File of JSON lines.  Rows in it that this version of the code measured are not measured again, so an
        interrupted grid resumes; half a line that a crash left is dropped.
    files
        Files to cluster instead of a mixture, one per client.
    jobs
        Processes at a time (joblib); times are comparable with one only.
    preset
        A paper's figure (`secfc.grids.PRESETS`), whose axes are then the defaults.
    watch
        Function that is called with the number of finished cells, the number of all, and the new row.
    backend
        Backend of joblib, such as "dask" within `distributed.Client(...)`; it must reach `files` and have
        this package.
    reading
        Keywords of `Federation.from_files`.
    evaluate
        Whether rows of runs with a budget on files also have cost, accuracy and labels' digest, for which no
        budget pays; rows on drawn data always have them.
    ledger
        Ledger in which all runs with a budget on files are entered, as one.
    prefix
        Text before an axis that notes and errors recommend, such as "--set " in the shell.
    **axes
        Parameters by name, each a value or a list of values.  For drawn mixtures of Gaussians: n, m, d, k,
        sigma (standard deviation), clusters_per_client.  For runs: algorithm ("secfc", "federated-lloyd",
        "lloyd", "k-fed", "feddp"), policy ("default", "distances", ... of SecFC), seed, repeat (a number that
        only tells runs apart), and parameters of the algorithm's class (t, ell, init, n_init, max_iter, ...)
        in the words of the shell.

    Returns
    -------
    list of dict
        Tidy rows in the order of the combinations: parameters; ms_per_step of all parties and by role; bytes,
        messages, n_iter; cost and accuracy where whoever has all data may know them; labels_digest; versions.
        Nothing else of the data.  The row of a cell that fails has "status": "failed" and its error; the
        other cells still run.

    Raises
    ------
    InputError
        For unknown parameters, or an `out` that holds something else.
    OSError
        For files.

    Examples
    --------
    >>> import secfc
    >>> rows = secfc.grid(n=[3, 5], m=60, d=2, k=2, max_iter=2)
    >>> [row["n"] for row in rows], rows[0]["status"]
    ([3, 5], 'ok')
    """
    listed = all_cells(preset, axes, files=bool(files))
    kept = ResultFile(None if out is None else Path(out), code_version())
    cells = {cell_name(cell): cell for cell in listed}
    found = {name: rows[-1] for name in cells if (rows := kept.successes(name))}
    todo = [cell for name, cell in cells.items() if name not in found]
    if jobs != 1 or backend is not None:
        require_library("jobs or backend of a grid", "grid")
    paths = tuple(str(Path(file).resolve()) for file in files)
    told, spent = dict(reading or {}), list[float]()
    with entering_cells(todo, paths, told, ledger) as entered:
        measure = partial(measure_cell, files=paths, options=told, evaluate=evaluate, prefix=prefix)
        for row in _measured(todo, measure, jobs, backend):
            kept.add([row])
            found[row["cell"]] = row
            spent.append(row.get("epsilon_spent", math.inf if row["status"] != "ok" else 0.0))
            if watch is not None:
                watch(len(found), len(cells), row)
        entered.cost = math.fsum(spent)
    return [found[cell_name(cell)] for cell in listed]


def all_cells(preset: str | None, axes: Mapping[str, Any], *, files: bool = False) -> list[Cell]:
    """Every cell, of a preset or of axes alone.  Raises InputError."""
    from secfc.grids.cells import PRESETS

    if preset is None:
        return list(grid_cells(axes, files=files))
    if preset not in PRESETS:
        raise InputError(f"preset={preset!r}: there are {', '.join(PRESETS)}")
    if files:
        raise InputError(f"preset={preset!r} draws its own data: leave files out")
    return [cell for part in PRESETS[preset].parts for cell in grid_cells({**part, **axes})]


def _measured(
    todo: Sequence[Cell], measure: Callable[[Cell], Row], jobs: int, backend: str | None
) -> Iterator[Row]:
    """The rows, as they come."""
    if jobs == 1 and backend is None:
        yield from map(measure, todo)
        return
    joblib: Any = importlib.import_module("joblib")
    if backend in (None, "loky"):  # numerical libraries in every process take one thread
        chosen = joblib.parallel_config(backend="loky", inner_max_num_threads=1)
    else:
        chosen = joblib.parallel_config(backend=backend)
    work = [joblib.delayed(measure)(cell) for cell in todo]
    with chosen:
        try:
            rows: Iterable[Row] = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(work)
        except ValueError:  # a backend that returns everything at the end
            rows = joblib.Parallel(n_jobs=jobs)(work)
        yield from rows


# Phases of every step, of whoever works in them.
LOOP = ("distances", "compare", "deal", "assign", "blind")


def measure_cell(
    cell: Cell,
    files: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    *,
    evaluate: bool = False,
    prefix: str = "",
) -> Row:
    """The row of a cell; of one that fails, its error.  options: of `Federation.from_files`.

    evaluate: whether figures of files that no budget pays for are in it.  prefix: see `grid`.
    """
    advise = partial(advice_text, interface=AxesInterface(cell["algorithm"], prefix))
    row: Row = {**cell, "cell": cell_name(cell), "code": code_version(), **machine_facts()}
    row["date"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        federation = (
            draw_federation(cell) if not files else load_files(tuple(files), tuple((options or {}).items()))
        )
        return {**row, "status": "ok", **run_figures(cell, federation, advise, exact=evaluate or not files)}
    except (InputError, ValueError, OverflowError, secfc.ProtocolError) as error:
        return {**row, "status": "failed", "error": f"{error_name(error)}{advise(error)}"}
    except Exception as error:  # a fault of ours does not end a grid of hours; its place is kept
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        return {**row, "status": "failed", "error": said}


def error_name(error: Exception) -> str:
    """The name of an error, but for those of callers, whose message says all."""
    return "" if isinstance(error, InputError) else f"{type(error).__name__}: "


def draw_federation(cell: Cell) -> Federation:
    """A mixture of k Gaussians, dealt out to n clients; the same for one seed, whatever clusters it."""
    rng = np.random.default_rng([int(cell["seed"]), int(cell["repeat"])])
    m, d, k = (int(cell[name]) for name in ("m", "d", "k"))
    points, truth = gaussian_mixture(m, d, k, float(cell["sigma"]), rng, truth="component")
    each = cell["clusters_per_client"]
    return Federation.from_labelled(
        points, truth, n=int(cell["n"]), seed=int(cell["seed"]),
        clusters_per_client=None if each is None else int(each),
    )  # fmt: skip


@cache
def load_files(files: tuple[str, ...], options: tuple[tuple[str, Any], ...]) -> Federation:
    """The points of files, read once a process."""
    return Federation.from_files([Path(file) for file in files], **dict(options))


def make_algorithm(cell: Cell) -> Any:
    """What a cell runs; of one thread unless it says otherwise."""
    made = algorithm_class(cell["algorithm"])
    own = {name: value for name, value in cell.items() if name not in (*DATA, *RUN) or name == "k"}
    own["k"] = int(own["k"])
    if cell["algorithm"] == "secfc" and cell.get("policy", "default") != "default":
        own["disclosure"] = cell["policy"]
    if cell["algorithm"] == "k-fed":  # as many as a client has points of, where that was said
        own = {"k_local": int(cell.get("clusters_per_client") or own["k"]), **own}
    return build_algorithm(made, **own)


def promised_budgets(cells: Sequence[Cell]) -> tuple[Promise, ...]:
    """What these cells may spend, of those that have a budget.  Cells that cannot be made fail, and have
    none.
    """
    found = []
    for cell in cells:
        with contextlib.suppress(InputError, ValueError, TypeError):
            found.append(make_algorithm(cell).capabilities.promise())
    return tuple(one for one in found if one is not None)


@contextlib.contextmanager
def entering_cells(
    cells: Sequence[Cell], files: tuple[str, ...], options: Mapping[str, Any], ledger: LedgerTerms | None
) -> Iterator[EnteredRun]:
    """Within the body these cells may spend on the people of the files: one entry of a ledger for all.

    Raises PrivacyError, OverBudget or InputError before anything is released.
    """
    promised = promised_budgets(cells) if files and ledger is not None else ()
    if ledger is None or not promised:
        yield EnteredRun()
        return
    if any(one.neighbors != promised[0].neighbors for one in promised):
        raise InputError("cells under different neighbors: their costs do not add up. Give each a ledger")
    budgets = [one.budget for one in promised]
    run = RunRecord(
        new_name(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), f"a grid of {len(promised)} runs",
        math.fsum(b.epsilon for b in budgets), math.fsum(b.delta for b in budgets),
    )  # fmt: skip
    parties = load_files(files, tuple(options.items())).parties
    with entering_run(ledger, run, promised[0].neighbors, parties) as entered:
        yield entered


def run_figures(
    cell: Cell, federation: Federation, advise: Callable[[Any], str] = str, *, exact: bool = True
) -> Row:
    """What a run took and came to.  advise: a caution in words.

    exact: whether cost, accuracy and labels' digest of a run with a budget are told, for which it does not
    pay.
    """
    way = make_algorithm(cell)
    load_kernels(cell["algorithm"], cell.get("policy"), cell.get("init"))
    spent = {"cpu": time.process_time(), "wall": time.perf_counter()}
    with warnings.catch_warnings(record=True) as cautions:
        warnings.simplefilter("always", Caution)
        result = secfc.fit(way, federation, seed=int(cell["seed"]))
    cpu, wall = time.process_time() - spent["cpu"], time.perf_counter() - spent["wall"]
    sent = result.transcript.envelopes
    steps = max(1, count_steps(result))
    row: Row = {
        **{name: value for name, value in resolved_parameters(way, result).items() if name not in cell},
        "notes": "; ".join(dict.fromkeys(advise(one.message) for one in cautions)),
        "n_iter": result.n_iter,
        "converged": bool(result.converged),
        "steps": count_steps(result),
        "fit_ms": 1e3 * wall,
        "fit_cpu_ms": 1e3 * cpu,
        **step_times(result, steps),
        "messages": len(sent),
        "bytes": sum(e.nbytes for e in sent),
        "bytes_per_step": sum(e.nbytes for e in sent if e.phase in LOOP) / steps,
    }
    if (promise := way.capabilities.promise()) is not None:
        row["epsilon_spent"] = result.ledger.epsilon(promise.budget.delta)
        if not exact:
            return row
    points, labels = pool_points(federation, result).stacked(), in_row_order(result, result.labels)
    there = labels >= 0
    row["cost"] = cost(points[there], labels[there], result.k)
    truth = [party.truth for party in federation.parties if party.truth is not None]
    if len(truth) == federation.n:
        row["accuracy"] = accuracy(in_row_order(result, truth)[there], labels[there])
    row["labels_digest"] = labels_digest(result.labels)
    return row


@cache
def load_kernels(algorithm_name: str, policy: str | None, init: str | None) -> None:
    """Load the kernels that such runs need, once a process: no row's time."""
    small = {**DATA, **RUN, "n": 3, "m": 60, "d": 2, "k": 2, "algorithm": algorithm_name, "max_iter": 1}
    if algorithm_name == "k-fed":
        del small["max_iter"]
    more = {"policy": policy, "init": init}
    cell = {**small, **{name: value for name, value in more.items() if value is not None}}
    with (
        warnings.catch_warnings(action="ignore", category=Caution),
        contextlib.suppress(InputError, ValueError, OverflowError, TypeError, secfc.ProtocolError),
    ):
        secfc.fit(make_algorithm(cell), draw_federation(cell), seed=0)


def count_steps(result: Clustering) -> int:
    """How many steps were asked of all: iterations, and those of starts and restarts."""
    return count_rounds(result) or result.n_iter


def step_times(result: Clustering, steps: int) -> Row:
    """Wall milliseconds a step, of all parties together, of a client, of the slowest, and of the server."""
    spent = {
        party: sum(seconds for phase, seconds in phases.items() if phase in LOOP)
        for party, phases in result.seconds.items()
    }
    clients = [seconds for party, seconds in spent.items() if party != SERVER]
    each = 1e3 / steps
    return {
        "ms_per_step": each * sum(spent.values()),
        "client_ms_per_step": each * float(np.mean(clients)) if clients else 0.0,
        "slowest_client_ms_per_step": each * max(clients, default=0.0),
        "server_ms_per_step": each * spent.get(SERVER, 0.0),
    }


@cache
def machine_facts() -> Row:
    """What figures depend on beside their parameters."""
    return {
        "python": platform.python_version(),
        "numpy": importlib.metadata.version("numpy"),
        "numba": importlib.metadata.version("numba"),
        "machine": f"{platform.system()} {platform.machine()}",
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
    }


@cache
def cpu_model() -> str:
    """The processor as its system calls it, "unknown" where it does not say."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or "unknown"


def resolved_parameters(way: Any, result: Clustering) -> Row:
    """What a run was made with where nobody said it: t, segments, the scale, and starts."""
    code, quantizer = (get_parameter(result.plan, name, None) for name in ("code", "quantizer"))
    found = {
        "t": get_parameter(code, "t", None), "ell": get_parameter(code, "ell", None),
        "scale": get_parameter(quantizer, "scale", None), "n_init": get_parameter(way, "n_init", None),
    }  # fmt: skip
    if (start := get_parameter(way, "init", None)) is not None:
        found["init"] = word_of("init", start) or type(start).__name__
    return {name: value for name, value in found.items() if value is not None}


@cache
def code_version() -> str:
    """What tells this code from another: the version, and of a clone its commit with what was changed."""
    import hashlib
    import subprocess

    root = Path(secfc.__file__).parents[1]
    if not (root / ".git").exists():
        return str(secfc.__version__)

    def git(*words: str) -> bytes:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, check=True).stdout

    try:
        commit = git("rev-parse", "--short=12", "HEAD").decode().strip()
        changed = git("diff", "HEAD", "--", "secfc", "field", "psu")
    except (OSError, subprocess.CalledProcessError):
        return str(secfc.__version__)
    digest = f"+{hashlib.sha256(changed).hexdigest()[:8]}" if changed else ""
    return f"{secfc.__version__} {commit}{digest}"
