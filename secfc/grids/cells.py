"""What a grid asks for: parameters of data, algorithm and run, and every combination of their values."""

from __future__ import annotations

import difflib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from secfc.data.inputs import InputError, parameter_names

Cell = dict[str, Any]

# Of the data that are drawn, of how they are dealt out, and of the run; all else is the algorithm's.
DATA = {"n": 10, "m": 1000, "d": 20, "k": 4, "sigma": 1.0, "clusters_per_client": None}
RUN = {"algorithm": "secfc", "policy": None, "seed": 0, "repeat": 0}
DRAWN = ("n", "m", "d", "sigma", "clusters_per_client")  # have no meaning for files
HOMES = {
    "secfc": ("secfc", "SecFC"), "lloyd": ("secfc", "Lloyd"), "k-fed": ("secfc", "KFed"),
    "feddp": ("secfc", "FedDPKMeans"),
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
            meant = f"; did you mean {near[0]}" if near else f": there are {', '.join(names)}"
            raise InputError(f"{name} is no parameter of {cell['algorithm']}{meant}")
        if files and name in DRAWN:
            raise InputError(f"{name}={cell[name]}: the files have their own; leave {name} out")


def check_number(name: str, value: Any) -> None:
    """Raise InputError for a number of data, seed or repetition that is none, or too small."""
    if name == "clusters_per_client" and value is None:
        return
    if name == "sigma" and (isinstance(value, float) or value == 0):
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
