"""Who owns which points: the private input of one client, and of all clients together.

SecFC section 3: n clients hold disjoint sets of points with the same d features.
A `Federation` is the input of an experiment run in one process; a deployment builds one `Party`
at each site and never a `Federation`.

Arrays in memory are checked in full when a `Party` is built.  Lazy points (a `numpy.memmap`, a
Parquet file, any `Rows`) are not read then: `Party.blocks`, `Party.read`, `Federation.stacked` and
`Federation.largest` check every row they return, slices of `Party.points` are not checked.

Nothing here protects the points.  Objects print their shapes only, and arrays are kept as
read-only views, so that no step can change the caller's data in place.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from secfc.data.dialects import Dialect
from secfc.data.files import Agree, load_parties, union_of_categories
from secfc.data.inputs import (
    BLOCK_BYTES,
    Array,
    Rows,
    as_rows,
    by_name,
    checked_names,
    checked_points,
    format_value,
    kind_name,
    names_listed,
    names_of,
    read_all,
    seeded_generator,
)
from secfc.data.linkage import Linkage
from secfc.data.mixtures import deal_rows
from secfc.data.party import (
    SERVER,
    Identifier,
    Party,
    RowsWithGaps,
    _checked_truth,
    _kind,
    as_gap_rows,
    client_tables,
)
from secfc.errors import Caution, InputError

__all__ = ["SERVER", "Array", "Federation", "Identifier", "InputError", "Party", "Rows"]


class UnobservedFeature(Caution):
    """A column that is empty at every client that has it."""


@dataclass(frozen=True, eq=False, repr=False)
class Federation:
    """Inputs of all clients, in the order of `parties`.

    Parameters
    ----------
    parties
        One or more clients with distinct names; all with the same d features, or each with some of them.
    feature_names
        d distinct names, or None.  If parties name their features (`Party.features`), the union of these
        names, in order of first appearance; if all have equal names, their columns are brought into that
        order.
    server_points
        (s, d) points that the server itself holds, in data units, or None.
    aside
        Names of columns that `on_common` left out.

    Raises
    ------
    InputError
        For parties or names that do not fit.

    Warns
    -----
    Caution
        If columns are empty at every client that has them.
    """

    parties: tuple[Party, ...]
    feature_names: tuple[str, ...] | None = None
    server_points: Array | None = None
    aside: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        parties = _checked_parties(self.parties)
        if parties[0].features is not None:
            union = tuple(dict.fromkeys(name for party in parties for name in party.features or ()))
            names = union if self.feature_names is None else tuple(self.feature_names)
            if set(names) != set(union):
                raise InputError(
                    f"feature_names are {names_listed(names)}, and clients observe {names_listed(union)}: "
                    "leave feature_names out, or name these."
                )
            object.__setattr__(self, "feature_names", names)
            if all(len(party.features or ()) == len(names) for party in parties):
                parties = tuple(_in_order(party, names) for party in parties)
        object.__setattr__(self, "parties", parties)
        if lost := self.unobserved:
            warnings.warn(
                UnobservedFeature(
                    f"{names_listed(lost)}: no client observes this, the column is empty wherever it stands, "
                    "and left out. Fill it in, or remove it"
                ),
                stacklevel=4,
            )
        if self.feature_names is not None:
            names = checked_names(self.feature_names, self.d, "the federation")
            object.__setattr__(self, "feature_names", names)
        if self.server_points is not None:
            object.__setattr__(self, "server_points", self._checked_server_points(self.server_points))

    def _checked_server_points(self, given: Array) -> Array:
        """The server's points (s, d), of all features or of those that all observe.  Raises InputError."""
        points = read_all(checked_points(given, "the server"), "the server")
        observed = self.observed or ()
        both = len(set.intersection(*map(set, observed))) if observed else self.d
        if points.shape[1] not in (self.d, both):
            raise InputError(
                f"the server's points have {points.shape[1]} features and the clients' "
                f"{self.d}: all must have the same. Give the server the clients' features."
            )
        return points

    def __repr__(self) -> str:
        return f"Federation(n={self.n}, m={self.m}, d={self.d})"

    @property
    def n(self) -> int:
        """Clients."""
        return len(self.parties)

    @property
    def unobserved(self) -> tuple[str, ...]:
        """Columns that some client has and none observes, in order of first appearance."""
        here = {name for party in self.parties for name in party.features or ()}
        lost = dict.fromkeys(name for party in self.parties for name in party.unobserved)
        return tuple(name for name in lost if name not in here)

    @property
    def common_names(self) -> tuple[str, ...] | None:
        """Names of the features that all clients observe, in the order of the columns; None without names."""
        if self.feature_names is None or self.observed is None:
            return self.feature_names
        both = set.intersection(*(set(own) for own in self.observed))
        return tuple(name for f, name in enumerate(self.feature_names) if f in both)

    def on_common(self) -> Federation:
        """The same points on the features that all clients observe; the server's as they are.

        Raises InputError if there is none.
        """
        names = self.common_names
        if self.observed is None:
            return self
        if not names:
            raise InputError(
                "no feature is common to all clients: on what each observes they can be clustered by "
                "FederatedLloyd, or give all clients a common feature."
            )
        parties = []
        for party in self.parties:
            own = list(party.features or ())
            points = party.read()[:, [own.index(name) for name in names]]
            parties.append(replace(party, points=points, features=names))
        apart = tuple(name for name in self.feature_names or () if name not in names)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Caution)  # it was said of this one already
            return Federation(tuple(parties), names, self.server_points, (*self.aside, *apart))

    @property
    def m(self) -> int:
        """Points of all clients together."""
        return sum(self.counts)

    @property
    def d(self) -> int:
        """Features, of all clients together."""
        named = self.feature_names if self.parties[0].features is not None else None
        return self.parties[0].points.shape[1] if named is None else len(named)

    @property
    def observed(self) -> tuple[tuple[int, ...], ...] | None:
        """Numbers of the features of each client's columns, None if all clients observe all d."""
        names = self.feature_names
        if names is None or all(party.points.shape[1] == self.d for party in self.parties):
            return None
        place = {name: i for i, name in enumerate(names)}
        return tuple(tuple(place[name] for name in party.features or ()) for party in self.parties)

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each client."""
        return tuple(party.name for party in self.parties)

    @property
    def counts(self) -> tuple[int, ...]:
        """Points of each client, m_j."""
        return tuple(party.points.shape[0] for party in self.parties)

    @property
    def truth(self) -> Array | None:
        """Ground truth of all points in client order, (m,), or None if any client lacks it."""
        known = [party.truth for party in self.parties if party.truth is not None]
        return np.concatenate(known) if len(known) == self.n else None

    def stacked(self) -> Array:
        """All points in client order, (m, d); for the plaintext oracle and evaluation only.

        What a client does not observe is NaN.
        """
        if self.observed is None:
            return np.concatenate([party.read() for party in self.parties])
        whole = np.full((self.m, self.d), np.nan)
        for rows, party, columns in zip(self.split(whole), self.parties, self.observed, strict=True):
            rows[:, list(columns)] = party.read()
        return whole

    def join_columns(self, rows: Sequence[Array]) -> Array:
        """The rows (m, d) of people of whom each client has other columns, zeros where none has any.

        rows: of each client's points the row that it is, -1 for none.
        """
        m = 1 + max(int(own.max(initial=-1)) for own in rows)
        whole, parts = np.zeros((m, self.d)), self.split(np.nan_to_num(self.stacked()))
        for own, part in zip(rows, parts, strict=True):
            whole[own[own >= 0]] += part[own >= 0]
        return whole

    def ordered(self, features: Sequence[str]) -> Federation:
        """The federation with its features in this order, which names all of them.

        Raises InputError if it has other features, or none with names.
        """
        names = self.feature_names
        if isinstance(features, str) or not isinstance(features, Sequence | np.ndarray):
            raise InputError(
                f"features={format_value(features)} is {kind_name(features)}: pass a list of names."
            )
        if names is None or set(names) != set(features):
            raise InputError(
                f"the features are {names_listed(names or ())}, and {names_listed(features)} are needed: "
                "features are matched by name. Give the same columns."
            )
        if names == tuple(features):
            return self
        if self.parties[0].features is not None:
            return replace(self, feature_names=tuple(features))
        order = [names.index(name) for name in features]
        held = self.server_points
        return replace(
            self,
            parties=tuple(replace(party, points=party.read()[:, order]) for party in self.parties),
            feature_names=tuple(features),
            server_points=None if held is None else held[:, order],
        )

    def split(self, flat: Array) -> list[Array]:
        """One (m_j, ...) view a client, in client order, of an array of shape (m, ...)."""
        flat = np.asarray(flat)
        if flat.ndim == 0 or len(flat) != self.m:
            raise InputError(
                f"an array of shape {flat.shape} cannot be split over clients: its first axis must "
                f"have one entry for each of the {self.m} points. Pass the array in client order."
            )
        return np.split(flat, np.cumsum(self.counts)[:-1])

    def largest(self) -> float:
        """Largest absolute value over all clients' points, in data units.

        The result is a function of private data.  A plan that uses it makes it public: a bound
        known beforehand (a sensor's range, 255 for pixels) reveals nothing and should be preferred.
        """
        # The least int64 has no absolute value in int64: ends are compared as Python floats.
        return max(
            float(largest)
            for party in self.parties
            for largest in party.map_blocks(lambda _, block: max(float(block.max()), -float(block.min())))
        )

    @classmethod
    def from_arrays(
        cls,
        arrays: Iterable[npt.ArrayLike | Rows],
        *,
        names: Sequence[str] | None = None,
        ids: Sequence[Sequence[Identifier] | None] | None = None,
        persons: Sequence[Sequence[Identifier] | Array | None] | None = None,
        truth: Sequence[npt.ArrayLike | None] | None = None,
        server_points: npt.ArrayLike | None = None,
        features: Sequence[Sequence[str]] | None = None,
        union: bool = False,
        gaps: bool = False,
    ) -> Federation:
        """A federation of one (m_j, d) array a client; names default to client-0, client-1, ...

        names, ids, persons and truth have one entry a client.  Data frames (of pandas, polars or pyarrow) are
        matched by the names of their columns, in the order of the first one.  features: names of the columns
        of each client's array, where clients observe different ones; union: the same of data frames.  A
        column that is NaN throughout is not observed.  gaps: values may be NaN, missing, for
        `fit(missing=...)`.

        Example: `Federation.from_arrays([x, y], features=[("age", "pulse"), ("pulse", "weight")])`.

        Raises InputError.
        """
        if isinstance(arrays, np.ndarray) and arrays.ndim <= 2:
            raise InputError(
                f"arrays is one array of shape {arrays.shape}: a list of arrays is needed, one a "
                "client. Use Federation.from_labelled to deal one data set out to clients."
            )
        if isinstance(arrays, Mapping):
            names, arrays = list(map(str, arrays)) if names is None else names, list(arrays.values())
        given = client_tables(arrays)
        common: tuple[str, ...] | None = None
        if union and features is None:
            features, given = _union(given)
        if features is None:
            common, (*given, server_points) = by_name([*given, server_points])
        points = [as_gap_rows(as_rows(item)) if gaps else as_rows(item) for item in given]
        if server_points is not None:
            server_points = read_all(checked_points(as_rows(server_points), "the server"), "the server")
        n = len(points)
        names = [f"client-{j}" for j in range(n)] if names is None else _one_each(names, n, "names")
        every_truth, every_ids = _one_each(truth, n, "truth"), _one_each(ids, n, "ids")
        every_persons = _one_each(persons, n, "persons")
        own = [None if f is None else tuple(f) for f in _one_each(features, n, "features")]
        return cls(
            tuple(
                map(
                    Party, names, points, every_truth, every_ids, own, repeat(()), repeat(None), every_persons
                )
            ),
            feature_names=common,
            server_points=server_points,
        )

    @classmethod
    def from_labelled(
        cls,
        points: npt.ArrayLike | Rows,
        truth: npt.ArrayLike,
        *,
        n: int,
        clusters_per_client: int | None = None,
        seed: int = 0,
    ) -> Federation:
        """One labelled data set dealt out to n clients, each with points of few clusters.

        points is (m, d); truth is (m,) integers or strings (strings become codes in sorted order).
        clusters_per_client is k' of SecFC section 5.1: a client holds points of at most k' of the
        k clusters; None deals all points out at random.  Every point goes to exactly one client,
        every client gets one or more, and keeps them in the order of their rows.  `data.deal`
        says how.  The seed is public.

        Raises InputError when m < n, or n * clusters_per_client < k.
        """
        features, (points,) = by_name([points])
        whole = read_all(checked_points(as_rows(points), "the data set"), "the data set")
        labels = np.asarray(truth)
        if labels.dtype.kind in "US":
            labels = np.unique(labels, return_inverse=True)[1]
        labels = _checked_truth(labels, len(whole), "the data set")
        parts = deal_rows(labels, n=n, clusters_per_client=clusters_per_client, rng=seeded_generator(seed))
        dealt = cls.from_arrays([whole[p] for p in parts], truth=[labels[p] for p in parts])
        return replace(dealt, feature_names=features)

    @classmethod
    def from_files(
        cls,
        paths: str | PathLike[str] | Sequence[str | PathLike[str]],
        *,
        client_column: str | None = None,
        columns: Sequence[str] | None = None,
        id_column: str | None = None,
        label_column: str | None = None,
        union: bool = False,
        gaps: bool = False,
        categorical: Mapping[str, Sequence[str] | None] | None = None,
        agree: Agree = union_of_categories,
        dialect: Dialect | None = None,
        exclude: Sequence[str] = (),
        linkage: Linkage | None = None,
        drop_unfit: bool = False,
        repeated: bool = False,
    ) -> Federation:
        """A federation read from CSV, Excel, Parquet, .npz or .npy files; see `files.load_parties`."""
        parties, features = load_parties(
            paths,
            client_column=client_column,
            columns=columns,
            id_column=id_column,
            label_column=label_column,
            union=union,
            gaps=gaps,
            categorical=categorical,
            agree=agree,
            dialect=dialect,
            exclude=exclude,
            linkage=linkage,
            drop_unfit=drop_unfit,
            repeated=repeated,
        )
        return cls(parties, feature_names=features)


def _checked_parties(parties: Iterable[Party]) -> tuple[Party, ...]:
    if not isinstance(parties, Iterable):
        raise InputError(
            f"the clients are {kind_name(parties)}: a list of Party is needed. Use Federation((party, "
            f"...)), or "
            "Federation.from_arrays."
        )
    parties = tuple(parties)
    if not parties:
        raise InputError("the federation has no clients: at least one is needed. Add a Party.")
    for party in parties:
        if not isinstance(party, Party):
            raise InputError(
                f"a client is a {type(party).__name__}: a Party is needed. Use Party(name, "
                "points), or Federation.from_arrays."
            )
    names = [party.name for party in parties]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"several clients are named {repeated[0]!r}: names must differ. Rename one.")
    _check_alike(parties)
    return parties


def _check_alike(parties: tuple[Party, ...]) -> None:
    """Raises InputError for clients whose features or IDs could not be compared."""
    first = parties[0]
    bare = [party.name for party in parties if party.features is None]
    if 0 < len(bare) < len(parties):
        raise InputError(
            f"client {bare[0]!r} names no features and others do: features are matched by name. Give "
            "Party.features to all clients, or to none."
        )
    for party in parties[1:] if bare else ():
        if party.points.shape[1] != first.points.shape[1]:
            raise InputError(
                f"client {party.name!r} has {party.points.shape[1]} features and client "
                f"{first.name!r} {first.points.shape[1]}: all must have the same. Select the "
                "common features, or name each client's (Party.features)."
            )
    kinds = {_kind(party.ids[0]).__name__: party.name for party in parties if party.ids}
    if len(kinds) > 1:
        (one, client), (other, peer) = list(kinds.items())[:2]
        raise InputError(
            f"client {client!r} has {one} ids and client {peer!r} {other} ids: they could never be "
            "equal. Convert all to one kind."
        )


def _in_order(party: Party, names: tuple[str, ...]) -> Party:
    """The same client, which observes all of them, with its columns in this order."""
    features = party.features or ()
    if features == names:
        return party
    order = [features.index(name) for name in names]
    return replace(party, points=party.read()[:, order], features=names)


def _union(tables: Sequence[Any]) -> tuple[list[tuple[str, ...]], list[Any]]:
    """Names of columns, and values, of each data frame."""
    names, values = [], []
    for number, table in enumerate(tables):
        known, (rows,) = by_name([table])
        if known is None:
            raise InputError(
                f"table {number} (counted from 0) has no column names: columns of a union are matched by "
                "name. Pass data frames, or the names of each array's columns (features=)."
            )
        names.append(known)
        values.append(rows)
    return names, values


def _one_each(items: Sequence[Any] | None, n: int, what: str) -> list[Any]:
    """One entry for each of n clients, None for each where there are no items.  Raises InputError."""
    if items is None:
        return [None] * n
    if not hasattr(items, "__len__"):
        raise InputError(
            f"{what}={format_value(items)} is {kind_name(items)}: one entry a client is needed. Pass a list "
            f"of {n}."
        )
    if isinstance(items, str) or len(items) != n:
        raise InputError(
            f"{what} has {len(items)} entries for {n} clients: one a client is needed. Pass a list of {n}."
        )
    return list(items)


# --------------------------------------------------------------------------------------------------
# The federation that callers mean by what they have at hand.


def as_federation(data: Any, *, union: bool = False, gaps: bool = False) -> Federation:
    """The federation that is meant by what callers have at hand.

    data: a `Federation`; or a list of arrays (m_j, d), of data frames or of parties, one a client; or a
    mapping of a client's name to its array or frame.  union: frames may have different columns.
    gaps: values may be NaN.

    Raises InputError, for one table too: whose rows are whose must be said.
    """
    if isinstance(data, Federation):
        return data
    if isinstance(data, Mapping):
        if not data:
            raise InputError("the federation has no clients: at least one is needed. Add name: points.")
        given, names = list(data.values()), [str(name) for name in data]
    else:
        names, given = None, client_tables(data)
        if given and all(isinstance(item, Party) for item in given):
            return Federation(tuple(given))
    tables = [names_of(item) for item in given]
    differ = all(tables) and len({frozenset(table or ()) for table in tables}) > 1
    return Federation.from_arrays(given, names=names, union=union and differ, gaps=gaps)


# --------------------------------------------------------------------------------------------------
# Rows that miss nothing: what is left where rows with gaps are dropped.


def drop_incomplete_rows(federation: Federation) -> tuple[Federation, list[Array]]:
    """The rows of every client that miss nothing, and which rows these are: (m_j,) int64 each.

    A client whose rows all miss something takes no part.  Nothing is said to anybody; how many rows are left
    is public where row counts are.

    Raises InputError if no row is left.
    """
    parties, kept = [], []
    for party in federation.parties:
        rows = complete_rows(party)
        kept.append(rows)
        if len(rows):
            parties.append(select_rows(party, rows))
    if not parties:
        raise InputError(
            f"every row of all {federation.n} clients misses some value: none would be left",
            [
                ("columns", ..., "leave columns out that are often missing"),
                ("missing", "mean", "take missing values for the mean"),
            ],
        )
    return replace(federation, parties=tuple(parties)), kept


def complete_rows(party: Party) -> Array:
    """Rows that miss nothing: (r,) int64."""
    m, d = party.points.shape
    step = max(1, BLOCK_BYTES // (8 * d))
    found = [
        ~np.isnan(np.asarray(party.points[a : a + step], np.float64)).any(axis=1) for a in range(0, m, step)
    ]
    return np.flatnonzero(np.concatenate(found))


def select_rows(party: Party, rows: Array) -> Party:
    """A client with these of its rows, in memory; the client itself if these are all."""
    if len(rows) == party.points.shape[0]:
        return replace(party, points=party.points.values) if isinstance(party.points, RowsWithGaps) else party
    whole = np.asarray(party.points[0 : party.points.shape[0]])
    return replace(
        party,
        points=whole[rows],
        truth=None if party.truth is None else party.truth[rows],
        ids=None if party.ids is None else tuple(party.ids[row] for row in rows.tolist()),
        rows=party.places[rows],
        persons=None if party.persons is None else party.persons[rows],
    )


def scatter_values(
    parts: Sequence[Array], left: tuple[str, ...], federation: Federation, kept: list[Array]
) -> list[Array]:
    """One value a row of all clients (m_j,) from those of the rows that were kept; -1 for the others.

    left: the clients that parts belong to.
    """
    whole = []
    for party, rows in zip(federation.parties, kept, strict=True):
        values = np.full(party.points.shape[0], -1, parts[0].dtype)
        if party.name in left:
            values[rows] = parts[left.index(party.name)]
        whole.append(values)
    return whole
