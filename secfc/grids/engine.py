"""Every cell of a grid, some at a time, each kept as soon as it is there."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from secfc.data.inputs import require_library
from secfc.errors import InputError
from secfc.grids.cells import Cell, cell_name, grid_cells
from secfc.grids.measure import code_version, entering_cells, measure_cell
from secfc.grids.rows import ResultFile, Row
from secfc.privacy.budget_file import LedgerTerms

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
    **axes: Any,
) -> list[Row]:
    """Run every combination of parameters.

    Parameters
    ----------
    out
        A file of JSON lines.  Rows of it that this same code measured are not measured again, so a grid that
        was interrupted goes on; half a line that a crash left is dropped.
    files
        Files to cluster instead of a mixture, one a client.
    jobs
        Processes at a time (joblib); times are worth comparing with one.
    preset
        A paper's figure (`secfc.grids.PRESETS`), whose axes are then the defaults.
    watch
        Called with how many are done, of how many, and the row that came.
    backend
        Of joblib, as "dask" within `distributed.Client(...)`; it must reach `files` and have this package.
    reading
        Options of `Federation.from_files`.
    evaluate
        Whether rows of runs with a budget on files have cost, accuracy and labels' digest too, for which no
        budget pays; of drawn data they always have.
    ledger
        Where all runs with a budget on files are entered, as one.
    **axes
        Parameters by name, a value or a list of values each: n, m, d, k, sigma, clusters_per_client of a
        mixture of Gaussians that is drawn (m points of d features, standard deviation sigma); algorithm
        ("secfc", "lloyd", "k-fed", "feddp"), policy ("default", "distances", "own-labels", ... of SecFC),
        seed, repeat (a number that only tells runs apart); and what the algorithm's class takes (t, ell,
        init, n_init, max_iter, ...), in the words of the shell.

    Returns
    -------
    list of dict
        Tidy rows in the order of the combinations: parameters, ms_per_step (all parties) and of whom, bytes,
        messages, n_iter, cost and accuracy where they are known to whoever has all data, labels_digest, and
        versions; nothing else of the data.  A cell that fails has "status": "failed" and its error in its
        row; others go on.

    Raises
    ------
    InputError
        For parameters that do not exist or an `out` that holds something else.
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
        for row in _measured(todo, paths, told, jobs, backend, evaluate):
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
    todo: Sequence[Cell],
    files: tuple[str, ...],
    reading: dict[str, Any],
    jobs: int,
    backend: str | None,
    evaluate: bool,
) -> Iterator[Row]:
    """The rows, as they come."""
    if jobs == 1 and backend is None:
        for cell in todo:
            yield measure_cell(cell, files, reading, evaluate=evaluate)
        return
    joblib: Any = importlib.import_module("joblib")
    if backend in (None, "loky"):  # numerical libraries in every process take one thread
        chosen = joblib.parallel_config(backend="loky", inner_max_num_threads=1)
    else:
        chosen = joblib.parallel_config(backend=backend)
    work = [joblib.delayed(measure_cell)(cell, files, reading, evaluate=evaluate) for cell in todo]
    with chosen:
        try:
            rows: Iterable[Row] = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(work)
        except ValueError:  # a backend that returns everything at the end
            rows = joblib.Parallel(n_jobs=jobs)(work)
        yield from rows
