"""Data of FedDP-KMeans' experiments, whose server holds related points of its own: a mixture, and real data.

All of App. G.1.  In the US census and Stack Overflow experiments an owner is a state or a person, and of a
chosen group of rows every owner is a client; the server holds a few points of that group and more of other
groups.  The points that the server gets of the chosen group are taken away from the clients: what is public
is not protected.
"""

from __future__ import annotations

from collections.abc import Collection
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from secfc.data.federation import Federation
from secfc.data.inputs import Array, positive_integer, seeded_generator
from secfc.errors import InputError

# ACS "class of worker" codes of the paper's three groups.
EMPLOYMENT = {"non-profit": 2, "federal": 5, "self-employed": 6}
# Its binary features are those of the ACSIncome task but for age and hours, which are numbers, and the class
# of worker: 7 of them, so that every row has norm sqrt(7) = 2.65 (Table 1).
CATEGORIES = ("SCHL", "MAR", "OCCP", "POBP", "RELP", "SEX", "RAC1P")


def server_side_mixture(
    n: int,
    rows: int,
    rng: np.random.Generator,
    *,
    d: int = 100,
    k: int = 10,
    variance: float = 0.5,
    per_component: int = 20,
    uniform: int = 100,
    missing: int = 0,
) -> tuple[Array, Array, Array, Array]:
    """Points (n * rows, d) of a mixture, truth, means (k, d), and what a server holds of it, (s, d).

    Means uniform in [0, 1]**d, covariance `variance` times the
    identity, equal weights; client j holds rows [j * rows, (j + 1) * rows).  The server holds `per_component`
    points of every component and `uniform` points uniform in the cube, related but not of the distribution.
    missing: of so many components, the last ones, it holds none.
    """
    m, d, k = (
        positive_integer("n", n) * positive_integer("rows", rows),
        positive_integer("d", d),
        positive_integer("k", k),
    )
    if not 0 <= missing < k:
        raise InputError(f"missing={missing} of k={k} components: at least one must be left. Lower missing.")
    means = rng.random((k, d))
    truth = rng.integers(k, size=m)
    deviation = np.sqrt(variance)
    points = means[truth] + deviation * rng.standard_normal((m, d))
    held = np.repeat(means[: k - missing], per_component, axis=0)
    near = held + deviation * rng.standard_normal(held.shape)
    return points, truth, means, np.concatenate([near, rng.random((uniform, d))])


def split_with_server(
    points: Array, owners: npt.ArrayLike, groups: npt.ArrayLike, chosen: Collection[Any],
    *, inside: int, outside: int, seed: int, least: int = 1,
) -> Federation:  # fmt: skip
    """A client for every owner of rows of the chosen groups, and a server with points of its own.

    points (m, d), owners (m,) and groups (m,).  The server holds `inside` rows of each chosen group, which no
    client keeps, and `outside` rows of the others.  Owners with fewer than `least` rows take no part.

    Raises InputError if there are too few rows.
    """
    owners, groups = np.asarray(owners), np.asarray(groups)
    if not len(points) == len(owners) == len(groups):
        raise InputError(
            f"{len(points)} points with {len(owners)} owners and {len(groups)} groups: one a point is needed"
        )
    rng = seeded_generator(seed)
    among = np.isin(groups, list(chosen))
    held = []
    for rows, wanted, what in [
        *((np.flatnonzero(groups == group), inside, f"group {group!r}") for group in chosen),
        (np.flatnonzero(~among), outside, "other groups"),
    ]:
        if len(rows) < wanted:
            raise InputError(f"{what} has {len(rows)} rows, the server wants {wanted}: lower the number")
        held.append(rng.choice(rows, wanted, replace=False))
    public = np.concatenate(held)
    among[public] = False
    kept = np.flatnonzero(among)
    names, index = np.unique(owners[kept], return_inverse=True)
    order = np.argsort(index, kind="stable")
    parts = np.split(kept[order], np.cumsum(np.bincount(index, minlength=len(names)))[:-1])
    clients = [(str(name), rows) for name, rows in zip(names, parts, strict=True) if len(rows) >= least]
    if not clients:
        raise InputError(f"no owner has {least} rows of {list(chosen)}: lower least, or choose other groups")
    return Federation.from_arrays(
        [points[rows] for _, rows in clients],
        names=[name for name, _ in clients],
        server_points=np.asarray(points[public], np.float64) if len(public) else None,
    )


def load_vectors(
    path: str | PathLike[str], chosen: Collection[Any], *, inside: int = 10, outside: int = 1000,
    seed: int = 0, least: int = 1,
) -> Federation:  # fmt: skip
    """Text embeddings, or any vectors of people: an .npz file with X (m, d), user (m,) and topic (m,).

    chosen: topics whose rows the clients hold; see `split_with_server`.
    """
    with np.load(path, allow_pickle=False) as file:
        missing = {"X", "user", "topic"} - set(file.files)
        if missing:
            raise InputError(
                f"{path} has no array {', '.join(sorted(missing))}: X (m, d), user (m,) and topic (m,) are "
                "needed. Save it with numpy.savez."
            )
        points, users, topics = file["X"], file["user"], file["topic"]
    return split_with_server(
        points, users, topics, chosen, inside=inside, outside=outside, seed=seed, least=least
    )


def load_census(
    path: str | PathLike[str], employment: str, *, inside: int = 20, outside: int = 1000, seed: int = 0
) -> Federation:
    """The US census task: people of one employment type, a client a state, one bit a category.

    path: an .npz file with arrays state (index), COW and the categories (m,) each, or a folder of folktables'
    ACS data of 2018 (package folktables), which is not downloaded here.  employment: "non-profit", "federal"
    or "self-employed".
    """
    if employment not in EMPLOYMENT:
        raise InputError(f"employment={employment!r}: it must be one of {', '.join(EMPLOYMENT)}")
    table = _census_table(path)
    work = table["COW"].astype(np.int64)
    code = EMPLOYMENT[employment]
    # Rows of other types serve to draw the server's points only; all types share one set of categories.
    rng = seeded_generator(seed)
    others = np.flatnonzero(np.isin(work, list(EMPLOYMENT.values())) & (work != code))
    others = np.sort(rng.choice(others, min(len(others), 20 * outside), replace=False))
    rows = np.concatenate([np.flatnonzero(work == code), others])
    points = one_hot([table[name][rows] for name in CATEGORIES])
    return split_with_server(
        points, table["state"][rows], work[rows], (code,), inside=inside, outside=outside, seed=seed
    )


def one_hot(columns: list[Array]) -> Array:
    """One bit (m, sum of distinct values) uint8 for every value of every column (m,), in ascending order."""
    parts = []
    for column in columns:
        values, index = np.unique(column, return_inverse=True)
        bits = np.zeros((len(column), len(values)), np.uint8)
        bits[np.arange(len(column)), index.reshape(-1)] = 1
        parts.append(bits)
    return np.concatenate(parts, axis=1)


def _census_table(path: str | PathLike[str]) -> dict[str, Array]:
    from pathlib import Path

    wanted = ("state", "COW", *CATEGORIES)
    if Path(path).is_file():
        with np.load(path, allow_pickle=False) as file:
            missing = set(wanted) - set(file.files)
            if missing:
                raise InputError(f"{path} has no array {', '.join(sorted(missing))}: a census file needs it")
            return {name: file[name] for name in wanted}
    try:
        import folktables  # type: ignore[import-not-found]
    except ImportError as error:
        raise InputError(
            f"{path} is no .npz file, and reading a folder needs folktables: pip install folktables"
        ) from error
    # It would make a folder that is not there.
    if not Path(path).is_dir():
        raise InputError(f"{path} is neither an .npz file nor a folder of folktables: give one of them")
    source = folktables.ACSDataSource(
        survey_year="2018", horizon="1-Year", survey="person", root_dir=str(path)
    )
    try:
        everybody = source.get_data(download=False)
    except FileNotFoundError as error:
        raise InputError(
            f"{path} lacks data of some states: {error} Or save what there is as an .npz file."
        ) from error
    frame = folktables.adult_filter(everybody)
    columns = {"state": "ST"} | {name: name for name in wanted[1:]}
    return {name: frame[column].to_numpy() for name, column in columns.items()}
