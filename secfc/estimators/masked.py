"""MaskedLloyd as an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from secfc.algorithm import Algorithm, Clustering
from secfc.data.inputs import InputError, names_listed, names_of
from secfc.estimators.base import Federated
from secfc.estimators.dealing import ClientTables, DealtFederation, federation_of
from secfc.overlap.masked import MaskedLloyd

Array = NDArray[Any]


class MaskedKMeans(Federated):
    """k-means where clients observe different, partly shared features (`secfc.MaskedLloyd`).

    X: a list or mapping of data frames, whose columns may differ: together they have d, in order of first
    appearance.  Or one table (m, d) in which a column that is NaN in all rows of a client is one that it
    does not observe; any other NaN is refused.  A feature that several clients observe is shared.

    n_clusters, start, max_iter, scale, t, coarse: as in `MaskedLloyd`, with the shell's words for start.
    bound: a public bound on absolute values, read off the data if None.  n_clients: to whom a single table
    without groups is dealt.  random_state: as in `SecFCKMeans`.

    Attributes, and who has them where organizations run the protocol:
    labels_: (m,) int32, clients' rows in their order.  Owners'.
    cluster_centers_: (k, d) in data units: public on shared features, as the server and the clients that
    observe them learn; NaN on features that one client alone observes, whose means stay with it.
    n_iter_: steps, public.
    inertia_: squared distances of points to centers over observed features.  Nobody's.
    clients_: names, public.  n_features_in_, feature_names_in_: public.
    result_: everything of all parties (`secfc.Clustering`), nobody's.

    transform(X): distances over the features that a row has and that are shared.
    """

    gaps = True

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        start: Any = "automatic",
        max_iter: int = 300,
        scale: float | None = None,
        t: int | None = None,
        bound: float | None = None,
        coarse: str = "refuse",
        n_clients: int = 3,
        random_state: Any = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.start = start
        self.max_iter = max_iter
        self.scale = scale
        self.t = t
        self.bound = bound
        self.coarse = coarse
        self.n_clients = n_clients
        self.random_state = random_state

    def _algorithm(self, seed: int | None) -> Algorithm:
        return MaskedLloyd(
            self.n_clusters, start=self.start, max_iter=self.max_iter, scale=self.scale,
            t=self.t, coarse=self.coarse,  # type: ignore[arg-type]
        )  # fmt: skip

    def _stacked(self, given: ClientTables, groups: Any, *, reset: bool) -> tuple[Array, list[Array]]:
        """Frames side by side, by the names of their columns: NaN where a client has none of a name."""
        named = [names for table in given.tables if (names := names_of(table)) is not None]
        known = reset or hasattr(self, "feature_names_in_")
        if groups is not None or not named or len(named) < len(given.tables) or not known:
            return super()._stacked(given, groups, reset=reset)
        union = list(dict.fromkeys(chain.from_iterable(named)))
        if reset:
            self.feature_names_in_, self.n_features_in_ = np.array(union, object), len(union)
            self._dtype = np.dtype(np.float64)
        place = {name: f for f, name in enumerate(self.feature_names_in_)}
        if strange := [name for name in union if name not in place]:
            raise InputError(
                f"{names_listed(strange)}: no client had this in the fit, which knows "
                f"{names_listed(list(place))}. "
                "Leave it out"
            )
        arrays = []
        for table, own in zip(given.tables, named, strict=True):
            values = check_array(table, dtype="numeric", ensure_all_finite="allow-nan")
            arrays.append(np.full((len(values), len(place)), np.nan))
            arrays[-1][:, [place[name] for name in own]] = values
        ends = np.cumsum([len(array) for array in arrays])
        return np.concatenate(arrays), np.split(np.arange(ends[-1]), ends[:-1])

    def _federation(
        self, whole: Array, names: Sequence[str] | None, rows: Sequence[Array]
    ) -> DealtFederation:
        """Rows dealt to clients, each of which has a name for every column, and observes those with
        values.
        """
        features = getattr(self, "feature_names_in_", [f"x{f}" for f in range(whole.shape[1])])
        return federation_of(whole, names, rows, features=[tuple(features)] * len(rows))

    def _inertia(self, whole: Array, result: Clustering) -> float:
        from secfc.metrics import observed_cost

        return observed_cost(whole, self.labels_, result.k)

    def _centers(self, result: Clustering) -> Array:
        columns = result.plan.columns
        return np.where(np.isin(np.arange(result.plan.d), columns.shared), np.asarray(result.centers), np.nan)

    def _distances(self, whole: Array) -> Array:
        found = np.empty((len(whole), self.result_.k))
        for h, center in enumerate(self.cluster_centers_):
            apart = whole - center
            found[:, h] = np.sqrt(np.where(np.isnan(apart), 0.0, apart**2).sum(axis=1))
        return found
