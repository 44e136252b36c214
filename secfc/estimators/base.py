"""What all estimators share: rows come in as scikit-learn has them, and labels go out in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import update_wrapper
from os import PathLike
from pathlib import Path
from types import MethodType
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from field.arrays import Array
from secfc.algorithm import Algorithm, Clustering
from secfc.data.federation import Federation
from secfc.data.inputs import by_name, check_losses, names_of
from secfc.errors import InputError
from secfc.metrics import cost, observed_cost
from secfc.pipeline import fit

# Rows of all clients in a table, or a table a client: arrays, data frames, sparse ones too.
Tables = object
Clusters = int | str  # a number, or "auto" or "2..12"
Seed = object  # an integer, a generator of scikit-learn's, or None
Gaps = Literal["refuse", "drop", "mean"]
ScaleWord = Literal["standard", "robust", "range", "norm"]

# What `secfc.fit` takes by the names that estimators have for it.
FIT = ("bound", "scale_features", "missing")


class AvailableIfPublished:
    """A method that is there where centers are published, and elsewhere says why not."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, model: Federated | None, owner: type | None = None) -> Any:
        if model is None:
            return self.method
        model._check_opened()
        return MethodType(self.method, model)


class Federated(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the estimators.  Not for use by itself.

    A subclass names its parameters and builds its algorithm from them (`_algorithm`).
    """

    result_: Any  # `secfc.Clustering`, or of `load` a `KeptModel`
    gaps = False  # whether clients may lack columns

    # --- what a subclass says ----------------------------------------------------------------------

    def _algorithm(self, seed: int | None, points: Iterable[Array]) -> Algorithm:
        """The algorithm of a fit of these points, one array a client."""
        raise NotImplementedError

    def _check_opened(self) -> None:
        """Raise AttributeError where centers are not published, with the reason and the remedy."""

    def _distances(self, whole: Array) -> Array:
        from scipy.spatial.distance import cdist

        distances: Array = cdist(whole, self.cluster_centers_)
        return distances

    # --- scikit-learn -------------------------------------------------------------------------------

    def fit(
        self,
        X: Tables,
        y: object = None,
        sample_weight: ArrayLike | Sequence[ArrayLike] | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Run the protocol on all clients' points.

        Parameters
        ----------
        X
            Points: one table (m, d), an array or a data frame; or one such table per client, as a list, a
            mapping from clients' names, or a `secfc.Federation`.  Of a federation, IDs, persons and server's
            points count too.  Columns of frames are matched by name, and come in the order of the first
            frame.
        y
            Ignored.
        sample_weight
            (m,) whole numbers of at least 0, or one such array per client.  A row of weight w counts and
            costs as w equal rows; a row of weight 0 takes no part, and its label is -1.
        groups
            (m,) the client of each row of a single table.  None divides X into `n_clients` runs of
            consecutive rows.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        InputError
            For data or parameters that do not fit (a ValueError), and what `secfc.fit` raises.
        """
        dealt, whole = self._dealt_to_fit(X, groups)
        self._run(dealt if sample_weight is None else self._repeated(dealt, whole, sample_weight), whole)
        return self

    def _run(self, dealt: DealtFederation, whole: Array, **more: Any) -> None:
        """Fit a federation, and keep what came of it.  whole: all its points, in the order of rows."""
        seed = self._seed()
        more |= {name: getattr(self, name) for name in FIT if hasattr(self, name)}
        algorithm = self._algorithm(seed, (whole[own] for own in dealt.rows))
        self.result_ = fit(algorithm, dealt.federation, seed=seed, **more)
        self.labels_ = dealt.gather_labels(self.result_.labels, len(whole))
        self.clients_ = dealt.federation.names
        self.n_iter_ = max(1, self.result_.n_iter)
        self._n_features_out = self.result_.k
        self.inertia_ = self._inertia(whole, self.result_)

    def _inertia(self, whole: Array, result: Clustering) -> float:
        if self._fills:
            return observed_cost(whole, self.labels_, result.k)
        known = self.labels_ >= 0
        points, labels = (whole, self.labels_) if known.all() else (whole[known], self.labels_[known])
        return cost(points, labels, result.k) if len(points) else float("nan")

    def predict(self, X: Tables, *, groups: ArrayLike | None = None) -> Array:
        """Clusters of new rows, (m,) int32, computed by a protocol between the clients of the fit.

        Parameters
        ----------
        X
            New points, as in `fit`, of clients of the fit.  A client without new rows contributes a row of
            zeros.
        groups
            (m,) the client of each row of a single table; None divides X among all clients.

        Returns
        -------
        ndarray
            (m,) int32 labels in the order of the rows of X.

        Raises
        ------
        InputError
            For data that do not fit those of the fit; NotFittedError before `fit`; BudgetSpent for more rows
            than the clients agreed to label.

        Notes
        -----
        Hidden centers stay hidden, but labels of chosen rows locate them: `secfc.Clustering.predict` says
        what each call tells whom.
        """
        check_is_fitted(self)
        dealt, whole = self._dealt_to_predict(X, groups)
        return dealt.gather_labels(self.result_.predict(dealt.federation), len(whole))

    def save(self, path: str | PathLike[str]) -> None:
        """Write a file by which `load`, or `secfc predict`, labels new rows.

        It holds what every client keeps for that, so of a simulation it is as secret as the data (mode 0600).

        Raises InputError where the algorithm keeps no model, and FileExistsError.
        """
        from secfc.kept_models import model_file_of

        check_is_fitted(self)
        if (kept := model_file_of(self.result_)) is None:
            raise InputError(f"{type(self).__name__} keeps no model that fits a file. Pickle the estimator")
        if not (parent := Path(path).resolve().parent).is_dir():
            raise FileNotFoundError(f"{path}: the directory {parent} does not exist. Create it first")
        if Path(path).exists():
            raise FileExistsError(f"{path} is there already: choose another name, or remove it")
        kept.write(Path(path))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """An estimator that labels new rows (`predict`) by a file of `save`; it has no labels_ of the fit.

        What clients agreed to label is counted down in the file.  Raises InputError for what is no such file.
        """
        from secfc.kept_models import KeptModel

        model, kept = cls(), KeptModel.read(Path(path))
        model.result_, model.clients_, model.n_features_in_ = kept, kept.clients, kept.d
        model._dtype = np.dtype(np.float64)
        if kept.features is not None:
            model.feature_names_in_ = np.array(kept.features, object)
        return model

    def transform(self, X: Tables) -> Array:
        """Distances of rows to the published centers, (m, k) in data units; NaN to a center that stayed
        closed.

        X: as in `fit`; rows of several tables follow one another.  Nobody says anything for it.
        """
        check_is_fitted(self)
        _, whole = self._dealt_to_predict(X, None)
        return self._distances(whole).astype(
            whole.dtype if whole.dtype.kind == "f" else np.float64, copy=False
        )

    def score(self, X: Tables, y: object = None) -> float:
        """Minus the sum of squared distances of rows to their nearest published center, as in KMeans."""
        return -float((np.nanmin(self.transform(X), axis=1) ** 2).sum())

    @property
    def cluster_centers_(self) -> Array:
        """(k, d) in data units; whom they are known to says the class.  AttributeError where nobody opened
        them.
        """
        self._check_opened()
        if "result_" not in self.__dict__:
            raise AttributeError(f"this {type(self).__name__} has no cluster_centers_ yet: fit it first")
        return self._centers(self.result_)

    def _centers(self, result: Clustering) -> Array:
        centers: Array = np.asarray(result.centers)
        return centers.astype(self._dtype, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        try:
            self._check_opened()
        except AttributeError:
            tags.transformer_tags = None
        else:
            tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # --- whose rows are whose -----------------------------------------------------------------------

    @property
    def _fills(self) -> bool:
        """Whether values may be missing."""
        return getattr(self, "missing", "refuse") != "refuse"

    def _seed(self) -> int | None:
        state = getattr(self, "random_state", None)
        if state is None or isinstance(state, int | np.integer):
            return None if state is None else int(state)
        return int(check_random_state(state).randint(2**31 - 1))

    def _checked(self, X: Any, *, reset: bool) -> Array:
        """One table as an array, its columns counted and named on the way."""
        check_losses(X, "a table")
        finite = "allow-nan" if self.gaps or self._fills else True
        try:
            whole: Array = validate_data(self, X, reset=reset, dtype="numeric", ensure_all_finite=finite)
        except ValueError as error:
            if hasattr(self, "missing") and "contains NaN" in str(error):
                rule = str(error).partition(" For supervised")[0]
                raise InputError(f'{rule} Pass missing="mean" or missing="drop", or fill them in') from error
            raise
        if reset:
            self._dtype = whole.dtype if whole.dtype.kind == "f" else np.dtype(np.float64)
        return whole.astype(np.uint8) if whole.dtype.kind == "b" else whole

    def _stacked(self, given: ClientTables, groups: Any, *, reset: bool) -> tuple[Array, list[Array]]:
        """All clients' rows, one client after the other, and the rows of each."""
        if groups is not None:
            raise InputError("groups with one table a client: it says whose rows are whose. Leave groups out")
        if not given.tables:
            raise InputError("there are no clients: at least one table is needed. Add one")
        tables = list(given.tables)
        expected = getattr(self, "feature_names_in_", None)
        if not reset and expected is not None and names_of(tables[0]) is not None:
            # The columns of the fit come first, so all others follow them.
            tables = [_columns(table, list(expected)) for table in tables]
        elif names_of(tables[0]) is not None:
            first = list(names_of(tables[0]) or ())
            by_name([_empty(table) for table in tables])  # refuses tables with other columns
            tables = [_columns(table, first) for table in tables]
        arrays = [self._checked(table, reset=reset and not j) for j, table in enumerate(tables)]
        ends = np.cumsum([len(array) for array in arrays])
        return np.concatenate(arrays), np.split(np.arange(ends[-1]), ends[:-1])

    def _dealt_to_fit(self, X: Any, groups: Any) -> tuple[DealtFederation, Array]:
        names: tuple[str, ...] | None
        if (given := tables_of(X)) is not None:
            whole, rows = self._stacked(given, groups, reset=True)
            names = given.names
        else:
            whole = self._checked(X, reset=True)
            if groups is not None:
                names, rows = by_group(groups, len(whole))
            else:
                n = self.n_clients
                if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
                    raise InputError(
                        f"n_clients={n!r}: a whole number of at least 1 is needed. Pass 3 or more"
                    )
                if len(whole) < n:
                    raise InputError(
                        f"n_samples={len(whole)} cannot be dealt out to n_clients={n}: each needs a row. "
                        "Lower "
                        "n_clients, or pass more rows"
                    )
                names, rows = None, consecutive_blocks(len(whole), int(n))
        self._check_k(len(whole))
        dealt = self._federation(whole, names, rows)
        if isinstance(X, Federation):
            parties = tuple(
                replace(own, ids=given.ids, persons=given.persons)
                for own, given in zip(dealt.federation.parties, X.parties, strict=True)
            )
            known = replace(dealt.federation, parties=parties, server_points=X.server_points)
            dealt = replace(dealt, federation=known)
        return dealt, whole

    def _federation(
        self, whole: Array, names: Sequence[str] | None, rows: Sequence[Array]
    ) -> DealtFederation:
        """Rows dealt to clients, columns by the names that the fit had."""
        dealt = federation_of(whole, names, rows, gaps=self._fills)
        features = getattr(self, "feature_names_in_", None)
        if features is None:
            return dealt
        return replace(dealt, federation=replace(dealt.federation, feature_names=tuple(features)))

    def _repeated(self, dealt: DealtFederation, whole: Array, weights: Any) -> DealtFederation:
        """Every row as often as its weight says, at the client that holds it."""
        if isinstance(weights, list | tuple) and any(np.ndim(own) for own in weights):  # an array a client
            weights = np.concatenate([np.atleast_1d(own) for own in weights])
        given = _check_sample_weight(weights, whole)
        counts = np.rint(given).astype(np.int64)
        if (wrong := (given != counts) | (given < 0)).any():
            row = int(wrong.argmax())
            raise InputError(
                f"sample_weight[{row}]={given[row]:g}: whole numbers of at least 0 are needed, as a weight w "
                "stands for w equal rows. Multiply all weights by one number that makes them whole"
            )
        rows = [np.repeat(own, counts[own]) for own in dealt.rows]
        if empty := [name for name, own in zip(dealt.federation.names, rows, strict=True) if not len(own)]:
            raise InputError(
                f"all rows of client {empty[0]!r} have sample_weight 0: each client needs a row. Leave it out"
            )
        return self._federation(whole, dealt.federation.names, rows)

    def _check_k(self, m: int) -> None:
        k = self.n_clusters
        if isinstance(k, int | np.integer) and not isinstance(k, bool) and m < k:
            raise InputError(
                f"n_samples={m} should be >= n_clusters={k}: lower n_clusters, or pass more rows"
            )

    def _dealt_to_predict(self, X: Any, groups: Any) -> tuple[DealtFederation, Array]:
        clients = self.clients_
        own: Mapping[str, Array]
        if (given := tables_of(X)) is not None:
            whole, rows = self._stacked(given, groups, reset=False)
            if given.names is None and len(rows) != len(clients):
                raise InputError(
                    f"{len(rows)} tables for the {len(clients)} clients of the fit: pass one a client in "
                    "their order, or "
                    "a mapping by their names"
                )
            own = dict(zip(given.names or clients, rows, strict=True))
        else:
            whole = self._checked(X, reset=False)
            if groups is not None:
                own = dict(zip(*by_group(groups, len(whole)), strict=True))
            else:
                own = dict(zip(clients, consecutive_blocks(len(whole), len(clients)), strict=True))
        if strangers := [name for name in own if name not in clients]:
            raise InputError(
                f"client {strangers[0]!r} took no part in the fit: its clients are {', '.join(clients)}"
            )
        nothing = np.array([-1])
        return self._federation(whole, clients, [own.get(name, nothing) for name in clients]), whole


# scikit-learn wraps these where a class is made, for frames to come out: only then may they hide.
for _name in ("transform", "fit_transform", "score"):
    setattr(Federated, _name, AvailableIfPublished(getattr(Federated, _name)))


def _columns(table: Any, names: list[str]) -> Any:
    """A data frame's columns in this order.  Raises InputError if it has others."""
    known = names_of(table)
    if known is None or set(known) != set(names):
        by_name([_Names(names), _Names(known)])
    if list(known or ()) == names:
        return table
    return table.select(names) if hasattr(table, "select") else table[names]


def _empty(table: Any) -> Any:
    return _Names(names_of(table))


class _Names:
    """A table of which only the names of columns are looked at."""

    def __init__(self, names: Any) -> None:
        self.columns = None if names is None else list(names)

    def __getitem__(self, name: str) -> Array:
        return np.empty(0)


# --------------------------------------------------------------------------------------------------
# Whose rows are whose: from what scikit-learn's callers pass to a federation, and labels back into their
# order.


@dataclass(frozen=True, eq=False, repr=False)
class ClientTables:
    """Data as they came: one table a client, with clients' names or None."""

    tables: tuple[Any, ...]
    names: tuple[str, ...] | None


@dataclass(frozen=True, eq=False, repr=False)
class DealtFederation:
    """A federation, and of each of its clients the rows of X that are its own, in its order; -1 for none."""

    federation: Federation
    rows: tuple[Array, ...]

    def gather_labels(self, labels: Sequence[Array], m: int) -> Array:
        """Labels of clients' points as labels of the rows of X: (m,) int32."""
        flat = np.full(m, -1, np.int32)
        for own, rows in zip(labels, self.rows, strict=True):
            flat[rows[rows >= 0]] = own[rows >= 0]
        return flat


def tables_of(X: Any) -> ClientTables | None:
    """What X holds for each client, or None if it is one table.

    Several tables are a mapping of names to tables, a `Federation`, or a list of tables; a list of lists of
    numbers is one table, as everywhere in scikit-learn.
    """
    if isinstance(X, Federation):
        names = X.feature_names
        if names is not None and X.observed is not None:
            raise InputError(
                "this federation's clients observe different features: pass one data frame a client, whose "
                "columns "
                "are matched by name"
            )
        return ClientTables(tuple(party.read() for party in X.parties), X.names)
    if isinstance(X, Mapping) and not hasattr(X, "toarray"):  # some sparse arrays are mappings
        return ClientTables(tuple(X.values()), tuple(map(str, X)))
    if isinstance(X, list | tuple) and X and all(map(_table, X)):
        return ClientTables(tuple(X), None)
    return None


def _table(item: Any) -> bool:
    if isinstance(item, list | tuple):
        return bool(item) and isinstance(item[0], list | tuple | np.ndarray)
    return names_of(item) is not None or len(getattr(item, "shape", ())) == 2


def consecutive_blocks(m: int, n: int, least: int = 1) -> list[Array]:
    """m rows in n runs of consecutive ones, as equal as can be; rows of -1 fill up those that have too
    few.
    """
    parts = np.array_split(np.arange(m), n)
    return [np.concatenate([part, np.full(max(0, least - len(part)), -1, part.dtype)]) for part in parts]


def by_group(groups: Any, m: int) -> tuple[tuple[str, ...], list[Array]]:
    """Names of clients in order of first appearance, and the rows of each.

    Raises InputError for other than one name a row.
    """
    known = np.asarray(groups)
    if known.shape != (m,):
        raise InputError(
            f"groups have shape {known.shape} for {m} rows: the name of its client is needed for each. Pass "
            f"({m},)."
        )
    if known.dtype.kind == "O":
        if any(name is None or name != name for name in known):
            raise InputError("groups have missing names: each row needs its client. Fill them in.")
        known = known.astype(str)
    elif known.dtype.kind == "f" and not np.isfinite(known).all():
        raise InputError("groups have missing names: each row needs its client. Fill them in.")
    names, first, codes = np.unique(known, return_index=True, return_inverse=True)
    order = np.argsort(first)
    sorted_rows = np.argsort(codes, kind="stable")
    parts = np.split(sorted_rows, np.cumsum(np.bincount(codes))[:-1])
    return tuple(str(names[g]) for g in order), [parts[g] for g in order]


def federation_of(
    X: Array, names: Sequence[str] | None, rows: Sequence[Array], **more: Any
) -> DealtFederation:
    """Rows of X dealt to clients.  A row of -1 is a row of zeros, of whose label nobody will ask."""
    arrays = []
    for own in rows:
        if len(own) and own[-1] - own[0] == len(own) - 1 and own[0] >= 0:
            arrays.append(X[own[0] : own[-1] + 1])  # consecutive, and no copy
        else:
            points = X[own]
            points[own < 0] = 0
            arrays.append(points)
    return DealtFederation(Federation.from_arrays(arrays, names=names, **more), tuple(rows))
