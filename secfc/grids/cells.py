"""What a grid asks for: parameters of data, algorithm and run, and every combination of their values."""

from __future__ import annotations

import difflib
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

from secfc.data.inputs import parameter_names
from secfc.errors import InputError
from secfc.remedies import changed_fields, word_of

Cell = dict[str, Any]

# Of the data that are drawn, of how they are dealt out, and of the run; all else is the algorithm's.
DATA = {"n": 10, "m": 1000, "d": 20, "k": 4, "sigma": 1.0, "clusters_per_client": None}
RUN = {"algorithm": "secfc", "policy": None, "seed": 0, "repeat": 0}
DRAWN = ("n", "m", "d", "sigma", "clusters_per_client")  # have no meaning for files
HOMES = {
    "secfc": ("secfc", "SecFC"), "lloyd": ("secfc", "Lloyd"), "k-fed": ("secfc", "KFed"),
    "feddp": ("secfc", "FedDPKMeans"), "federated-lloyd": ("secfc", "FederatedLloyd"),
}  # fmt: skip


def algorithm_class(name: str) -> Any:
    """The class of an algorithm.  Raises InputError."""
    import secfc

    if name not in HOMES:
        raise InputError(f"algorithm={name!r}: there are {', '.join(HOMES)}")
    return getattr(secfc, HOMES[name][1])


def allowed_parameters(algorithm: str) -> tuple[str, ...]:
    """Parameters that a cell of this algorithm may have."""
    own = parameter_names(algorithm_class(algorithm))
    policy = () if algorithm == "secfc" else ("policy",)
    return tuple(name for name in dict.fromkeys((*DATA, *RUN, *own)) if name not in (*policy, "disclosure"))


@dataclass(frozen=True)
class AxesInterface:
    """Axes of a grid, as remedies name them.  algorithm: of the cell.  prefix: before each axis."""

    algorithm: str
    prefix: str = ""

    def name(self, parameter: str) -> str | None:
        """The axis, None where a grid has none; who holds rows of whom is none."""
        axis = "policy" if parameter == "disclosure" else parameter
        there = axis != "membership" and axis in (*allowed_parameters(self.algorithm), "algorithm", "policy")
        return f"{self.prefix}{axis}" if there else None

    def setting(self, parameter: str, value: Any) -> str | None:
        """As `policy=own-labels`; None where no axis says it.

        >>> AxesInterface("secfc", "--set ").setting("max_iter", 5)
        '--set max_iter=5'
        """
        name, shown = self.name(parameter), value
        if is_dataclass(value):
            shown = None if changed_fields(value) else word_of(parameter, value)
            name = name if shown is not None else None
        shown = "..." if value is ... else str(shown).lower() if shown in (None, True, False) else shown
        return None if name is None else f"{name}={shown}"


def check_cell(cell: Mapping[str, Any], *, files: bool) -> None:
    """Raise InputError for a parameter that means nothing there."""
    for name in (*DATA, "seed", "repeat"):
        if name in cell:
            check_number(name, cell[name])
    names = allowed_parameters(cell["algorithm"])
    for name in cell:
        if name == "disclosure":
            raise InputError("disclosure is called policy in a grid: policy=distances, and so on")
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            meant = f"; did you mean {near[0]}?" if near else f": there are {', '.join(names)}"
            raise InputError(f"{name} is no parameter of {cell['algorithm']}{meant}")
        if files and name in DRAWN:
            raise InputError(f"{name}={cell[name]}: the files have their own; leave {name} out")


def check_number(name: str, value: Any) -> None:
    """Raise InputError for a number of data, seed or repetition that is none, or too small."""
    if name == "clusters_per_client" and value is None:
        return
    if name == "sigma":
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise InputError(f"sigma={value!r}: a number of 0 or more is needed, as sigma=1.0")
        return
    least = 0 if name in ("seed", "repeat") else 1
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        rule = "a number of 1 or more" if least else "a whole number of 0 or more"
        raise InputError(f"{name}={value!r}: {rule} is needed, as {name}={DATA.get(name, 0) or 2}")


def as_list(value: Any) -> tuple[Any, ...]:
    """The values of a parameter: one, or all that a list names."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return (value,)
    return tuple(value)


def grid_cells(axes: Mapping[str, Any], *, files: bool = False) -> Iterator[Cell]:
    """Every combination, the last parameter fastest; whatever is not named has its default.

    Raises InputError for an empty list, an unknown parameter, or a value that JSON cannot keep.
    """
    values = {name: as_list(value) for name, value in axes.items()}
    for name, listed in values.items():
        if not listed:
            raise InputError(f"{name}=[]: name at least one value")
    for chosen in itertools.product(*values.values()):
        cell = dict(zip(values, chosen, strict=True))
        cell = {**RUN, **cell}
        if "policy" not in allowed_parameters(str(cell["algorithm"])) and cell["policy"] is None:
            del cell["policy"]
        elif cell.get("policy", "") is None:
            cell["policy"] = "default"
        check_cell(cell, files=files)
        cell = {"k": DATA["k"], **cell} if files else {**DATA, **cell}
        try:
            cell_name(cell)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{cell}: a value that is no number, word or list of them cannot be kept in rows ({error}). "
                "Use the words of the shell, as init='bisecting'"
            ) from None
        yield cell


def cell_name(cell: Mapping[str, Any]) -> str:
    """A cell as text: equal for equal parameters, in any order."""
    return json.dumps(cell, sort_keys=True, allow_nan=False)


# --------------------------------------------------------------------------------------------------
# The figures and tables of the papers, as grids.


@dataclass(frozen=True)
class Preset:
    """says: what it is.  parts: axes, one grid after the other.  x, y, hue: how it is drawn."""

    says: str
    parts: tuple[Mapping[str, Any], ...]
    x: str
    y: str
    hue: str


BOTH = ["default", "distances"]
# SecFC section 5.2: the defaults of Figure 1, from random labels, so that what is timed are steps.
FIGURE_1 = {"n": 10, "m": 1000, "d": 20, "k": 4, "policy": BOTH, "init": "random"}
# Section 5.1, Tables 1 and 2: k' says how many clusters a client has points of.
TABLE = {"d": 100, "policy": "distances", "seed": list(range(5))}

PRESETS = {
    "secfc-figure-1-n": Preset(
        "time a step over clients (SecFC, Figure 1)", ({**FIGURE_1, "n": [5, 10, 20, 50, 100]},),
        "n", "ms_per_step", "policy",
    ),
    "secfc-figure-1-m": Preset(
        "time a step over points (SecFC, Figure 1)",
        ({**FIGURE_1, "m": [1000, 3000, 10_000, 30_000, 100_000]},),
        "m", "ms_per_step", "policy",
    ),
    "secfc-figure-1-d": Preset(
        "time a step over features (SecFC, Figure 1)", ({**FIGURE_1, "d": [10, 20, 50, 100, 200, 500]},),
        "d", "ms_per_step", "policy",
    ),
    "secfc-table-1": Preset(
        "accuracy over heterogeneity, standard deviation 1 (SecFC, Table 1)",
        (
            {**TABLE, "n": 10, "m": 10_000, "k": 4, "clusters_per_client": [1, 2, 4], "t": 4},
            {**TABLE, "n": 16, "m": 16_384, "k": 16, "clusters_per_client": [2, 4, 16], "t": 5, "ell": 2},
        ),
        "clusters_per_client", "accuracy", "k",
    ),
    "secfc-table-2": Preset(
        "accuracy over heterogeneity, standard deviation 20 (SecFC, Table 2)",
        (
            {**TABLE, "sigma": 20.0, "n": 10, "m": 10_000, "k": 4, "clusters_per_client": [1, 2, 4], "t": 4},
            {
                **TABLE, "sigma": 20.0, "n": 16, "m": 16_384, "k": 16, "clusters_per_client": [2, 4, 16],
                "t": 5, "ell": 2,
            },
        ),
        "clusters_per_client", "accuracy", "k",
    ),
    "k-fed-table": Preset(
        "the same for one-shot k-FED (Dennis, Li and Smith 2021), beside SecFC's Table 1",
        ({"algorithm": "k-fed", "d": 100, "n": 10, "m": 10_000, "k": 4, "clusters_per_client": [1, 2, 4],
          "seed": list(range(5))},),
        "clusters_per_client", "accuracy", "k",
    ),
}  # fmt: skip
