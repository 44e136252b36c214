"""The estimators: the algorithms as scikit-learn has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from field.arrays import Array
from field.secrets.coins import SystemCoins
from secfc.algorithm import Algorithm, Clustering
from secfc.coded.parameters import Quantization, Release, Runtime, Threshold
from secfc.coded_kmeans.secfc import SecFC
from secfc.data.inputs import as_rows, checked_points, names_listed, names_of, read_all
from secfc.disclosure import NoisySums
from secfc.errors import InputError
from secfc.estimators.base import (
    AvailableIfPublished,
    ClientTables,
    Clusters,
    DealtFederation,
    Federated,
    Gaps,
    ScaleWord,
    Seed,
    Tables,
    federation_of,
)
from secfc.feddp.algorithm import FedDPKMeans
from secfc.feddp.noise import NoisePlacement, ServerNoise, SharedNoise
from secfc.federated.algorithm import FederatedLloyd
from secfc.kfed import KFed
from secfc.kmeans.centers import nearest_center
from secfc.kmeans.starts import GivenLabels
from secfc.pairs import DBSCAN
from secfc.privacy.events import Neighbors, Relation
from secfc.privacy.mechanisms import RandomizedResponse

if TYPE_CHECKING:
    from secfc.coded.membership import Membership
    from secfc.coded.parameters import Centers
    from secfc.coded_kmeans.parameters import MembershipWord, PolicyWord, StartWord
    from secfc.data.resolution import Coarse
    from secfc.disclosure import Disclosure
    from secfc.kmeans.splitting import Splitting
    from secfc.kmeans.starts import Start
    from secfc.overlap.starts import MatchingStart
    from secfc.scaling.scaling import Scaling
    from secfc.scaling.ways import Range, Standardize

    Scaler = Standardize | Range | Scaling


@dataclass(eq=False, repr=False)
class SecFCKMeans(Federated):
    """Exact secure k-means (`secfc.SecFC`): labels are those of plaintext Lloyd on the quantized points.

    n_clusters: also "auto" or "2..12", to be chosen at an elbow. init, n_init, max_iter, disclosure,
    membership: as in `SecFC`, in its words, or values, such as `NoisySums(budget, radius)`; init may also
    be centers (k, d) in data units, which all know: each row begins in the cluster of the nearest, found in
    floating point; n_init="auto" is 1. tol: 0, as steps end when no label changes. t, ell: as in
    `Threshold`; scale, coarse, centers: as in `Quantization`; threads: as in `Runtime`; reveal_centers,
    dendrogram: as in `Release`; t=None is the most that the clients allow, up to a third of them. bound: a
    public bound on absolute values, in data units; read off the data, and so public, if None: new rows
    beyond it cannot be labeled. scale_features: None, "standard", "robust", "range" or "norm".
    missing: what becomes of NaN: "refuse", "drop" such rows (label -1), or the "mean" over all clients, which
    they learn.  n_clients: to whom a single table without groups is dealt; it changes neither labels nor
    centers as long as the automatic scale is the same.  random_state: an integer for starts as of
    `secfc.fit(seed=)`, a generator to draw one from, None for a seed that the clients toss.

    Attributes, and who has them where organizations run the protocol:
    labels_: (m,) int32 in the order of the rows of X.  Public under "assignments" and "distances", and at
    the end under "final-labels"; owners' under "own-labels".
    cluster_centers_: (k, d), with `reveal_centers` only, and public then; NaN for a cluster of fewer than
    three points, or an empty one.  Noisy ones under `NoisySums`.  Otherwise an AttributeError.
    linkage_: Ward's hierarchy of the clusters with points, in scipy's form, with `dendrogram` only; the
    server's.  Otherwise an AttributeError.
    n_iter_: steps of Lloyd's heuristic, public.
    inertia_: squared distances of all points to the means of their clusters, in data units.  Nobody's; the
    server can know it under "distances", and with several starts.
    clients_: names, public.  n_features_in_, feature_names_in_: public.
    result_: everything of all parties (`secfc.Clustering`), nobody's; `result_.learned` says what the
    server learned.  As secret as the data, and a pickle of the estimator holds it.
    """

    n_clusters: Clusters = 8
    _: KW_ONLY
    t: int | None = None
    ell: int = 1
    init: StartWord | Start | ArrayLike | None = None
    n_init: int | Literal["auto"] = 1
    max_iter: int = 300
    tol: float = 0.0
    disclosure: PolicyWord | Disclosure = "assignments"
    membership: MembershipWord | Membership = "open"
    reveal_centers: bool = False
    dendrogram: bool = False
    scale: float | None = None
    bound: float | None = None
    scale_features: ScaleWord | Scaler | None = None
    missing: Gaps = "refuse"
    coarse: Coarse = "refuse"
    threads: int = 1
    centers: Centers = "exact"
    n_clients: int = 3
    random_state: Seed = 0

    def _algorithm(self, seed: int | None, points: Iterable[Array]) -> Algorithm:
        if self.tol != 0:
            raise InputError(
                f"tol={self.tol!r}: steps end when no label changes, exactly; centers are in nobody's hands, "
                "so nobody sees how far they move. Leave tol out, and stop sooner by max_iter"
            )
        n_init = 1 if self.n_init == "auto" else self.n_init
        return SecFC(
            self.n_clusters, Threshold(self.t, self.ell), init=self._start(points), n_init=n_init,
            max_iter=self.max_iter, membership=self.membership, disclosure=self.disclosure,
            quantization=Quantization(
                self.scale, centers=self.centers, coarse=self.coarse,
            ),
            runtime=Runtime(self.threads),
            release=Release(self.reveal_centers, dendrogram=self.dendrogram),
        )  # fmt: skip

    def _start(self, points: Iterable[Array]) -> Any:
        """The label of the nearest center for every row where centers are given; any other start as it is."""
        if callable(self.init) and not hasattr(self.init, "draw_centers"):
            raise InputError(
                "init is a function, which would need all rows in one place: pass centers (k, d), or a word "
                "such as 'bisecting'"
            )
        if not isinstance(self.init, np.ndarray | list | tuple):
            return self.init
        centers = check_array(self.init, dtype=np.float64)
        if centers.shape != (self.n_clusters, self.n_features_in_):
            raise InputError(
                f"init has shape {centers.shape}: centers of shape (n_clusters, n_features) = "
                f"({self.n_clusters}, {self.n_features_in_}) are needed. Pass as many"
            )
        if self._fills:
            raise InputError(
                f"init as centers with missing={self.missing!r}: a row with gaps has no nearest center. Fill "
                "gaps first, or pass a word such as 'bisecting'"
            )
        return GivenLabels([nearest_center(rows, centers) for rows in points])

    @property
    def linkage_(self) -> Array:
        """Ward's hierarchy of the clusters, see the class."""
        if not self.dendrogram:
            raise AttributeError("linkage_ is there with dendrogram=True alone, which opens it to the server")
        found: Array = self.result_.dendrogram.link_clusters()
        return found

    def _check_opened(self) -> None:
        if not self.reveal_centers and not isinstance(self.disclosure, NoisySums):
            raise AttributeError(
                f"reveal_centers={self.reveal_centers!r}: nobody opened the centers of this SecFCKMeans, so "
                "it has no "
                "cluster_centers_, transform and score. Set reveal_centers=True, if the clients consent"
            )


# --------------------------------------------------------------------------------------------------
# FedDP-KMeans as an estimator.


@dataclass(eq=False, repr=False)
class DPKMeans(Federated):
    """Differentially private federated k-means (`secfc.FedDPKMeans`), with points that the server holds.

    n_clusters: also "auto" or "2..12". epsilon, delta: the budget of all that is released. protect: whose
    presence noise hides, "point", "client", "person:6" (of at most 6 rows over all clients) or
    "person-at-client:2"; of persons `fit` is told whose each row is. noise: "shares", where clients add it
    and nobody sees exact sums, or "server", which sees them. steps, t, rows_per_client: as there.
    labels_epsilon, labels_slots: `RandomizedResponse` of all labels, for a budget of its own; without slots
    the budget is for one row replaced, not one more or less. radius: where rows are clipped, from the
    server's points if None. bound: a public bound on absolute values. server_share: where `fit` is given no
    server_points, the part of X's rows, evenly spread, that stand for public points of the server; they are
    clustered as well. Noise comes from the operating system: no random_state repeats it.

    Attributes, and who has them where organizations run the protocol:
    cluster_centers_: (k, d), public and noised: they are what the budget pays for.
    labels_: (m,) int32 in the order of the rows of X.  Owners': clients label their own rows by the
    centers.
    released_labels_: as labels_, what everybody may have of them; None without labels_epsilon.
    n_iter_: steps after the initial centers, 1 at least; public.
    inertia_: squared distances of all points to the means of their clusters.  Nobody's, and not covered by
    the budget: to publish it costs privacy.
    clients_: names, public.  n_features_in_, feature_names_in_: public.
    result_: everything of all parties (`secfc.Clustering`), nobody's; `result_.ledger` says what was spent.
    """

    n_clusters: Clusters = 8
    _: KW_ONLY
    epsilon: float = 1.0
    delta: float = 1e-6
    protect: str = "point"
    noise: Literal["shares", "server"] = "shares"
    steps: int | None = None
    radius: float | None = None
    rows_per_client: int | None = None
    labels_epsilon: float | None = None
    labels_slots: int | None = None
    t: int | None = None
    bound: float | None = None
    server_share: float | None = None
    n_clients: int = 3
    random_state: Seed = 0

    def fit(  # type: ignore[override]
        self,
        X: Tables,
        y: object = None,
        *,
        groups: ArrayLike | None = None,
        server_points: ArrayLike | None = None,
        persons: ArrayLike | None = None,
    ) -> Self:
        """Run the protocol: X, y, groups as elsewhere.  server_points: (s, d) public points of the server.

        persons: (m,) whose each row of X is, where persons are protected; known to its client alone.

        Raises InputError, and what `secfc.fit` raises.
        """
        dealt, whole = self._dealt_to_fit(X, groups)
        if persons is not None:
            dealt = _of_persons(dealt, np.asarray(persons), len(whole))
        if server_points is None and dealt.federation.server_points is not None:
            held = dealt.federation.server_points
        elif server_points is None:
            held = whole[self._shared(len(whole))]
        else:
            held = read_all(checked_points(as_rows(np.asarray(server_points)), "the server"), "the server")
        federation = replace(dealt.federation, server_points=held)
        self._run(DealtFederation(federation, dealt.rows), whole)
        told = self.result_.released_labels
        if told is not None:
            told = [each[: len(own)] for each, own in zip(told, self.result_.labels, strict=True)]
        self.released_labels_ = None if told is None else dealt.gather_labels(told, len(whole))
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    def _shared(self, m: int) -> Any:
        share = self.server_share
        if not isinstance(share, int | float) or isinstance(share, bool) or not 0 < share <= 1:
            raise InputError(
                f"server_share={share!r} and no server_points: the server needs points of its own. Pass "
                "fit(X, server_points=...), or in a simulation a share of X's rows in (0, 1]"
            )
        return np.linspace(0, m - 1, max(1, round(share * m))).round().astype(np.int64)

    def _algorithm(self, seed: int | None, points: Iterable[Array]) -> Algorithm:
        noises: Mapping[str, type[NoisePlacement]]
        noises = {"server": ServerNoise, "shares": SharedNoise}
        if self.noise not in noises:
            raise InputError(f"noise={self.noise!r} is unknown: use the word 'server' or 'shares'")
        labels = None
        if self.labels_epsilon is not None:
            labels = RandomizedResponse(self.labels_epsilon, self.labels_slots)
        elif self.labels_slots is not None:
            raise InputError(f"labels_slots={self.labels_slots} without labels_epsilon: no label is released")
        relation: Relation = "add/remove" if labels is None or labels.slots else "replace"
        return FedDPKMeans(
            self.n_clusters, self.epsilon, self.delta, Neighbors.of_word(relation, self.protect), self.steps,  # type: ignore[arg-type]
            noise=noises[self.noise](), bound=self.radius, rows_per_client=self.rows_per_client, t=self.t,
            labels=labels,
        )  # fmt: skip


def _of_persons(dealt: DealtFederation, persons: Array, m: int) -> DealtFederation:
    """Rows dealt to clients, who know whose they are.  Raises InputError for other than one name a row."""
    if persons.shape != (m,):
        raise InputError(
            f"persons have shape {persons.shape} for {m} rows: each row needs its person. Pass ({m},)"
        )
    parties = tuple(
        replace(own, persons=persons[rows].tolist())
        for own, rows in zip(dealt.federation.parties, dealt.rows, strict=True)
    )
    return replace(dealt, federation=replace(dealt.federation, parties=parties))


# --------------------------------------------------------------------------------------------------
# k-FED as an estimator.


@dataclass(eq=False, repr=False)
class KFedKMeans(Federated):
    """One-shot federated k-means (`secfc.KFed`), not private: the server receives means of clients' points.

    n_clusters: also "auto" or "2..12".  k_local: clusters that a client looks for in its own points, None for
    n_clusters; fewer where clients hold few of them.  n_clients: to whom a single table without
    groups is dealt. random_state: an integer for starts, a generator to draw one from, None for another every
    time.

    Attributes, and who has them where organizations run the protocol:
    labels_: (m,) int32 in the order of the rows of X.  Owners', and the server's, which is told them.
    cluster_centers_: (k, d), public: means of clients' local centers.
    n_iter_: 1, as there is one round.
    inertia_: squared distances of all points to the means of their clusters.  Nobody's.
    clients_: names, public.  n_features_in_, feature_names_in_: public.
    result_: everything of all parties (`secfc.Clustering`), nobody's.
    """

    n_clusters: Clusters = 8
    _: KW_ONLY
    k_local: int | None = None
    n_clients: int = 3
    random_state: Seed = 0

    def _algorithm(self, seed: int | None, points: Iterable[Array]) -> Algorithm:
        drawn = int.from_bytes(SystemCoins().bytes(4), "little") if seed is None else seed
        return KFed(self.n_clusters, self.k_local, drawn)  # type: ignore[arg-type]  # None is its default


# --------------------------------------------------------------------------------------------------
# FederatedLloyd as an estimator.


@dataclass(eq=False, repr=False)
class FederatedKMeans(Federated):
    """k-means over secure sums: clients see all centers, traffic grows with no row (`secfc.FederatedLloyd`).

    X: a list or mapping of data frames, whose columns may differ: together they have d, in order of first
    appearance.  Or one table (m, d) in which a column that is NaN in all rows of a client is one that it
    does not observe; any other NaN is refused.  A feature that several clients observe is shared.

    n_clusters, start, n_init, max_iter, scale, t, floor, blind, coarse: as in `FederatedLloyd`, with the
    shell's words for start; n_clusters also "auto" or "2..12".
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

    n_clusters: int = 8
    _: KW_ONLY
    start: str | MatchingStart | Splitting | ArrayLike | None = None
    n_init: int = 1
    max_iter: int = 300
    scale: float | None = None
    t: int | None = None
    floor: int = 1
    blind: bool = True
    bound: float | None = None
    coarse: Coarse = "refuse"
    n_clients: int = 3
    random_state: Seed = 0

    def _algorithm(self, seed: int | None, points: Iterable[Array]) -> Algorithm:
        return FederatedLloyd(
            self.n_clusters, self.start, self.n_init, self.max_iter, self.scale, t=self.t,  # type: ignore[arg-type]
            floor=self.floor, blind=self.blind, coarse=self.coarse,
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
        arrays = [_spread_columns(table, own, place) for table, own in zip(given.tables, named, strict=True)]
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


def _spread_columns(table: Any, names: Sequence[str], place: Mapping[str, int]) -> Array:
    """The values of a client (m_j, d), at the places of its columns among those of all: NaN elsewhere."""
    values = check_array(table, dtype="numeric", ensure_all_finite="allow-nan")
    spread = np.full((len(values), len(place)), np.nan)
    spread[:, [place[name] for name in names]] = values
    return spread


# --------------------------------------------------------------------------------------------------
# DBSCAN as an estimator.


@dataclass(eq=False, repr=False)
class SecFCDBSCAN(Federated):
    """Density clusters (`secfc.DBSCAN`): labels are scikit-learn's, on points as whole numbers.

    eps, min_samples, dealer: as there.  t, ell: as in `Threshold`; scale, coarse: as in `Quantization`;
    threads: as in `Runtime`.  bound, scale_features, missing, n_clients, random_state: as in `SecFCKMeans`.
    There is no predict: cluster old and new rows together.

    Attributes, and who has them where organizations run the protocol:
    labels_: (m,) int32 in the order of the rows of X, -1 for noise.  Owners', and the server's, which
    learns which two points are near.
    clients_: names, public.  n_features_in_, feature_names_in_: public.
    result_: everything of all parties (`secfc.Clustering`), nobody's.
    """

    eps: float = 0.5
    min_samples: int = 5
    _: KW_ONLY
    dealer: str | None = "server"
    t: int | None = None
    ell: int = 1
    scale: float | None = None
    bound: float | None = None
    scale_features: ScaleWord | Scaler | None = None
    missing: Gaps = "refuse"
    coarse: Coarse = "refuse"
    threads: int = 1
    n_clients: int = 3
    random_state: Seed = 0

    def _algorithm(self, seed: int | None, points: Iterable[Array]) -> Algorithm:
        return DBSCAN(
            self.eps, self.min_samples, threshold=Threshold(self.t, self.ell),
            quantization=Quantization(self.scale, coarse=self.coarse), runtime=Runtime(self.threads),
            dealer=self.dealer,
        )  # fmt: skip

    def _check_opened(self) -> None:
        raise AttributeError(
            "SecFCDBSCAN has no centers, so no cluster_centers_, transform, score, predict. Cluster old and "
            "new rows together"
        )

    def _check_k(self, m: int) -> None:
        """Any number of rows will do."""

    predict = AvailableIfPublished(Federated.predict)
