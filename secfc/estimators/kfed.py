"""k-FED as an estimator."""

from __future__ import annotations

from typing import Any

from field.secrets.coins import SystemCoins
from secfc.algorithm import Algorithm
from secfc.estimators.base import Federated
from secfc.kfed import KFed


class KFedKMeans(Federated):
    """One-shot federated k-means (`secfc.KFed`), not private: the server receives means of clients' points.

    n_clusters: also "auto" or "2..12".  k_local: clusters that a client looks for in its own points, None
    for n_clusters; fewer where clients hold few of them.  n_clients: to whom a single table without groups
    is dealt. random_state: an integer for starts, a generator to draw one from, None for another every
    time.

    Attributes, and who has them where organizations run the protocol:
    labels_: (m,) int32 in the order of the rows of X.  Owners', and the server's, which is told them.
    cluster_centers_: (k, d), public: means of clients' local centers.
    n_iter_: 1, as there is one round.
    inertia_: squared distances of all points to the means of their clusters.  Nobody's.
    clients_: names, public.  n_features_in_, feature_names_in_: public.
    result_: everything of all parties (`secfc.Clustering`), nobody's.
    """

    def __init__(
        self, n_clusters: Any = 8, *, k_local: int | None = None, n_clients: int = 3, random_state: Any = 0
    ) -> None:
        self.n_clusters = n_clusters
        self.k_local = k_local
        self.n_clients = n_clients
        self.random_state = random_state

    def _algorithm(self, seed: int | None) -> Algorithm:
        drawn = int.from_bytes(SystemCoins().bytes(4), "little") if seed is None else seed
        k_local = self.n_clusters if self.k_local is None else self.k_local
        return KFed(self.n_clusters, k_local, drawn)
