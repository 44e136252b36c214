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
    """Exact secure k-means (`secfc.SecFC`): labels equal those of plaintext Lloyd on the quantized points.

    Parameters
    ----------
    n_clusters
        Number of clusters; "auto", or a range such as "2..12", chooses it at the elbow of the costs.
    t
        Colluding clients tolerated (threshold t); None for the most that the clients allow, up to a third.
    ell
        Segments into which a point is cut (packing factor), as in `secfc.Threshold`.
    init
        Initialization: a word or value of `secfc.SecFC`, or public centers (k, d) in data units.  With
        centers each row begins in the cluster of its nearest center, computed in floating point.
    n_init
        Restarts, of which the cheapest is kept; "auto" is 1.
    max_iter
        Maximum number of steps of Lloyd's heuristic in each restart.
    tol
        Must be 0: steps end when no label changes.
    disclosure
        What the server learns: a word or value of `secfc.SecFC`, such as "own-labels" or `NoisySums(budget,
        radius)`.
    membership
        Whether owners of rows are public: a word or value of `secfc.SecFC`.
    reveal_centers
        Whether all clients consent to open the final centers.
    dendrogram
        Whether the server learns the costs of merging final clusters, from which `linkage_` follows.
    scale
        Fixed-point precision: integers per data unit, as in `secfc.Quantization`; None chooses it.
    bound
        Public bound on absolute values, in data units.  None reads it off the data, which makes it public;
        new rows beyond the bound cannot be labeled.
    scale_features
        Feature scaling: None, "standard", "robust", "range", "norm", or a value such as `Standardize()`.
    missing
        What happens to NaN: "refuse"; "drop" drops such rows (label -1); "mean" imputes the mean over all
        clients, which the clients learn.
    coarse
        What happens if rounding leaves a feature few steps: "refuse", "warn" or "allow".
    threads
        Processor threads of each party.
    centers
        "exact" means, or means "rounded" to a grid, as in `secfc.Quantization`.
    n_clients
        Number of clients among which a single table without `groups` is divided, in runs of consecutive rows.
        It changes neither labels nor centers as long as the automatic scale is unchanged.
    random_state
        Seed of starts: an integer as for `secfc.fit(seed=)`, a generator to draw one from, or None for a seed
        that the clients toss.

    Attributes
    ----------
    labels_
        (m,) int32 in the order of the rows of X.  Public under "assignments" and "distances", and at the end
        under "final-labels"; owners' under "own-labels".
    cluster_centers_
        (k, d) in data units, public; only with `reveal_centers`, or noisy under `NoisySums`, else an
        AttributeError.  A row is NaN for a cluster of fewer than three points.
    linkage_
        Ward's hierarchy of the nonempty clusters in SciPy's form, the server's; only with `dendrogram`, else
        an AttributeError.
    n_iter_
        Steps of Lloyd's heuristic; public.
    inertia_
        Sum of squared distances of all points to the means of their clusters, in squared data units.
        Nobody's; under "distances", or with several restarts, the server can compute it.
    clients_
        Names of the clients; public.
    n_features_in_, feature_names_in_
        Number and names of the features; public.
    result_
        Result of all parties (`secfc.Clustering`), nobody's; `result_.learned` says what the server learned.
        The result, and a pickle of the estimator, are as secret as the data.

    Notes
    -----
    "Public" values are known to all parties, "owners'" to the client whose rows they are about, and
    "nobody's" to the simulation alone, because it runs all parties.
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
    """Differentially private federated k-means (`secfc.FedDPKMeans`), from points of the server or a radius.

    Parameters
    ----------
    n_clusters
        Number of clusters; "auto", or a range such as "2..12", chooses it on the server's points, at no cost
        to the budget.
    epsilon
        Privacy budget of all releases but labels, above 0.
    delta
        Second part of the budget, in (0, 1).
    protect
        Whose presence the noise hides: "point", "client", "person:6" (at most 6 rows over all clients) or
        "person-at-client:2" (at most 2 rows at each client).  For persons, `fit` needs `persons`.
    noise
        "shares": clients add noise to shares, and nobody sees exact sums.  "server": the server sees exact
        sums and adds the noise.
    steps
        Steps after the initial centers; None for the default of `secfc.FedDPKMeans`.
    radius
        Length to which rows are clipped, in data units; None derives it from the server's points.  Where the
        server has none, rows lie within it about 0.
    rows_per_client
        Public rough number of rows of a client; needed for protect="client" only.
    labels_epsilon
        Separate budget for releasing all labels by `RandomizedResponse`; None releases no label.
    labels_slots
        Public number of labels that each client releases.  Without it the budget of labels holds for one row
        replaced, not for one row more or less.
    t
        Colluding clients tolerated by the secure sums; None for a third of the committee.
    bound
        Public bound on absolute values, in data units.
    server_share
        Part of X's rows, in (0, 1], that stand for the server's public points where `fit` has no
        `server_points`.  These rows are evenly spaced, and are clustered as well.
    n_clients
        Number of clients among which a single table without `groups` is divided, in runs of consecutive rows.
    random_state
        Seed of starts, as in `SecFCKMeans`; the noise comes from the operating system, so no seed repeats it.

    Attributes
    ----------
    cluster_centers_
        (k, d) noisy centers in data units; public: the budget pays for them.
    labels_
        (m,) int32 in the order of the rows of X.  Owners': each client labels its own rows by the centers.
    released_labels_
        (m,) noisy labels, public; None without `labels_epsilon`.
    n_iter_
        Steps after the initial centers, at least 1; public.
    inertia_
        Sum of squared distances of all points to the means of their clusters, in squared data units.
        Nobody's; the budget does not cover its publication.
    clients_
        Names of the clients; public.
    n_features_in_, feature_names_in_
        Number and names of the features; public.
    result_
        Result of all parties (`secfc.Clustering`), nobody's; `result_.ledger` says what budget was spent.

    Notes
    -----
    "Public" values are known to all parties, "owners'" to the client whose rows they are about, and
    "nobody's" to the simulation alone, because it runs all parties.
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
        """Run the protocol on all clients' points, with points that the server holds, or within a radius.

        Parameters
        ----------
        X
            Points, as in `SecFCKMeans.fit`.
        y
            Ignored.
        groups
            (m,) the client of each row of a single table.
        server_points
            (s, d) public points of the server, in data units; None takes those of a federation, or
            `server_share`.
        persons
            (m,) whose each row of X is, where `protect` names persons; known to the client of the row alone.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        InputError
            For data or parameters that do not fit, and what `secfc.fit` raises.
        """
        dealt, whole = self._dealt_to_fit(X, groups)
        if persons is not None:
            dealt = _of_persons(dealt, np.asarray(persons), len(whole))
        held: Array | None
        if server_points is None and dealt.federation.server_points is not None:
            held = dealt.federation.server_points
        elif server_points is None:
            held = None
            if self.server_share is not None or self.radius is None:
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
                "fit(X, server_points=...), or in a simulation a share of X's rows in (0, 1], or do without: "
                "radius=, within which rows are known to lie about 0"
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

    Parameters
    ----------
    n_clusters
        Number of clusters; "auto", or a range such as "2..12", chooses it by the costs of merging local
        centers.
    k_local
        Clusters that each client looks for in its own points; None for `n_clusters`.  A client that holds
        fewer distinct points looks for fewer.
    n_clients
        Number of clients among which a single table without `groups` is divided, in runs of consecutive rows.
    random_state
        Seed of starts: an integer as for `secfc.fit(seed=)`, a generator to draw one from, or None for a
        fresh seed.

    Attributes
    ----------
    labels_
        (m,) int32 in the order of the rows of X.  Owners' and the server's.
    cluster_centers_
        (k, d) means of clients' local centers, in data units; public.
    n_iter_
        1: there is one round.
    inertia_
        Sum of squared distances of all points to the means of their clusters, in squared data units;
        nobody's.
    clients_
        Names of the clients; public.
    n_features_in_, feature_names_in_
        Number and names of the features; public.
    result_
        Result of all parties (`secfc.Clustering`), nobody's.

    Notes
    -----
    "Public" values are known to all parties, "owners'" to the client whose rows they are about, and
    "nobody's" to the simulation alone, because it runs all parties.
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
    """k-means over secure sums (`secfc.FederatedLloyd`): clients see all centers, traffic grows with no row.

    Parameters
    ----------
    n_clusters
        Number of clusters; "auto", or a range such as "2..12", chooses it by the costs of merging.
    start
        Initialization: a word of the shell, a value or centers (k, d), as in `secfc.FederatedLloyd`.
    n_init
        Restarts, of which the cheapest is kept.
    max_iter
        Maximum number of steps of Lloyd's heuristic.
    scale
        Fixed-point precision: integers per data unit; None chooses it.
    t
        Colluding clients tolerated by the secure sums; None for a third of the committee.
    floor
        Minimum number of rows by which two opened sums differ, beside the rows of any t clients; 1 for no
        rule.
    blind
        Whether clients mask the totals that the server opens, so that the server learns none.
    bound
        Public bound on absolute values, in data units; None reads it off the data.
    coarse
        What happens if rounding leaves a feature few steps: "refuse", "warn" or "allow".
    n_clients
        Number of clients among which a single table without `groups` is divided, in runs of consecutive rows.
    random_state
        Seed of starts: an integer as for `secfc.fit(seed=)`, a generator to draw one from, or None for a seed
        that the clients toss.

    Attributes
    ----------
    labels_
        (m,) int32, clients' rows in their order.  Owners'.
    cluster_centers_
        (k, d) in data units.  Public on shared features, NaN on a feature that one client alone observes: its
        means stay with that client.
    n_iter_
        Steps of Lloyd's heuristic; public.
    inertia_
        Sum of squared distances of points to centers over observed features, in squared data units; nobody's.
    clients_
        Names of the clients; public.
    n_features_in_, feature_names_in_
        Number and names of the features; public.
    result_
        Result of all parties (`secfc.Clustering`), nobody's.

    Notes
    -----
    X is a list or mapping of data frames, whose columns may differ; d counts their union, in order of first
    appearance.  Or X is one table (m, d): a column that is NaN in all rows of a client is one that the client
    does not observe, and any other NaN is refused.  A feature that several clients observe is shared.
    `transform` measures distances over the shared features that a row has.

    "Public" values are known to all parties, "owners'" to the client whose rows they are about, and
    "nobody's" to the simulation alone, because it runs all parties.
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
    """Density clusters (`secfc.DBSCAN`): labels equal scikit-learn's on the quantized points.

    Parameters
    ----------
    eps
        Largest distance of two neighboring points, in data units, or of scaled features.
    min_samples
        Number of points near a core point, including itself, from 1 on.
    dealer
        Who deals masks and tables: "server", a client's name, or None for nobody.
    t
        Colluding clients tolerated (threshold t); None for the most that the clients allow, up to a third.
    ell
        Segments into which a point is cut (packing factor).
    scale
        Fixed-point precision: integers per data unit; None chooses it.
    bound
        Public bound on absolute values, in data units; None reads it off the data.
    scale_features
        Feature scaling, as in `SecFCKMeans`.
    missing
        What happens to NaN, as in `SecFCKMeans`.
    coarse
        What happens if rounding leaves a feature few steps: "refuse", "warn" or "allow".
    threads
        Processor threads of each party.
    n_clients
        Number of clients among which a single table without `groups` is divided, in runs of consecutive rows.
    random_state
        Without effect on labels, as there is no start: an integer, a generator, or None.

    Attributes
    ----------
    labels_
        (m,) int32 in the order of the rows of X, -1 for noise.  Owners', and the server's, which learns for
        every two points whether they are near.
    clients_
        Names of the clients; public.
    n_features_in_, feature_names_in_
        Number and names of the features; public.
    result_
        Result of all parties (`secfc.Clustering`), nobody's.

    Notes
    -----
    There is no `predict`: cluster old and new rows together.

    "Public" values are known to all parties, "owners'" to the client whose rows they are about, and
    "nobody's" to the simulation alone, because it runs all parties.
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
