"""SecFC as an estimator."""

from __future__ import annotations

from typing import Any

from secfc.algorithm import Algorithm
from secfc.coded.parameters import Quantization, Release, Runtime, Threshold
from secfc.coded_kmeans.secfc import SecFC
from secfc.estimators.base import Federated


class SecFCKMeans(Federated):
    """Exact secure k-means (`secfc.SecFC`): labels are those of plaintext Lloyd on the quantized points.

    n_clusters: also "auto" or "2..12", to be chosen at an elbow.  init, n_init, max_iter, disclosure,
    membership: as in `SecFC`, in its words.  t, ell: as in `Threshold`; scale, coarse, centers: as in
    `Quantization`; threads: as in `Runtime`; reveal_centers: as in `Release`;
    t=None is the most that the clients allow, up to a third of them.  bound: a public bound on absolute
    values, in data units; read off the data, and so public, if None: new rows beyond it cannot be labeled.
    scale_features: None, "standard" or "range".  n_clients: to whom a single table without groups is dealt;
    it changes neither labels nor centers as long as the automatic scale is the same.  random_state: an
    integer for starts as of `secfc.fit(seed=)`, a generator to draw one from, None for a seed that the
    clients toss.

    Attributes, and who has them where organizations run the protocol:
    labels_: (m,) int32 in the order of the rows of X.  Public under "assignments" and "distances", and at
    the end under "final-labels"; owners' under "own-labels".
    cluster_centers_: (k, d), with `reveal_centers` only, and public then; NaN for a cluster of fewer than
    three points, or an empty one.  Otherwise an AttributeError.
    n_iter_: steps of Lloyd's heuristic, public.
    inertia_: squared distances of all points to the means of their clusters, in data units.  Nobody's; the
    server can know it under "distances", and with several starts.
    clients_: names, public.  n_features_in_, feature_names_in_: public.
    result_: everything of all parties (`secfc.Clustering`), nobody's; `result_.learned` says what the
    server learned.  As secret as the data, and a pickle of the estimator holds it.
    """

    def __init__(
        self,
        n_clusters: Any = 8,
        *,
        t: int | None = None,
        ell: int = 1,
        init: Any = None,
        n_init: int = 1,
        max_iter: int = 300,
        disclosure: Any = "assignments",
        membership: Any = "open",
        reveal_centers: bool = False,
        scale: float | None = None,
        bound: float | None = None,
        scale_features: Any = None,
        coarse: str = "refuse",
        threads: int = 1,
        centers: str = "exact",
        n_clients: int = 3,
        random_state: Any = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.t = t
        self.ell = ell
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.disclosure = disclosure
        self.membership = membership
        self.reveal_centers = reveal_centers
        self.scale = scale
        self.bound = bound
        self.scale_features = scale_features
        self.coarse = coarse
        self.threads = threads
        self.centers = centers
        self.n_clients = n_clients
        self.random_state = random_state

    def _algorithm(self, seed: int | None) -> Algorithm:
        return SecFC(
            self.n_clusters, Threshold(self.t, self.ell), init=self.init, n_init=self.n_init,
            max_iter=self.max_iter, membership=self.membership, disclosure=self.disclosure,
            quantization=Quantization(
                self.scale, centers=self.centers, coarse=self.coarse,  # type: ignore[arg-type]  # a word
            ),
            runtime=Runtime(self.threads), release=Release(self.reveal_centers),
        )  # fmt: skip

    def _check_opened(self) -> None:
        if not self.reveal_centers:
            raise AttributeError(
                f"reveal_centers={self.reveal_centers!r}: nobody opened the centers of this SecFCKMeans, so "
                "it has no "
                "cluster_centers_, transform and score. Set reveal_centers=True, if the clients consent"
            )
