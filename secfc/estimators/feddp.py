"""FedDP-KMeans as an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from secfc.algorithm import Algorithm
from secfc.data.inputs import InputError, as_rows, checked_points, read_all
from secfc.estimators.base import Federated
from secfc.estimators.dealing import DealtFederation
from secfc.feddp.algorithm import FedDPKMeans
from secfc.feddp.noise import NoisePlacement, ServerNoise, SharedNoise
from secfc.privacy.events import Neighbors


class DPKMeans(Federated):
    """Differentially private federated k-means (`secfc.FedDPKMeans`), with points that the server holds.

    n_clusters: also "auto" or "2..12".  epsilon, delta: the budget of all that is released.  protect:
    "point" or "client", whose presence noise hides.  noise: "server", which sees exact sums and adds noise,
    or "shares". steps, t, rows_per_client: as there.  radius: where rows are clipped, from the server's
    points if None. bound: a public bound on absolute values.  server_share: where `fit` is given no
    server_points, the part of X's rows, evenly spread, that stand for public points of the server; they are
    clustered as well.  Noise comes from the operating system: no random_state repeats it.

    Attributes, and who has them where organizations run the protocol:
    cluster_centers_: (k, d), public and noised: they are what the budget pays for.
    labels_: (m,) int32 in the order of the rows of X.  Owners': clients label their own rows by the
    centers.
    n_iter_: steps after the initial centers, 1 at least; public.
    inertia_: squared distances of all points to the means of their clusters.  Nobody's, and not covered by
    the budget: to publish it costs privacy.
    clients_: names, public.  n_features_in_, feature_names_in_: public.
    result_: everything of all parties (`secfc.Clustering`), nobody's; `result_.ledger` says what was spent.
    """

    def __init__(
        self,
        n_clusters: Any = 8,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        protect: str = "point",
        noise: str = "server",
        steps: int | None = None,
        radius: float | None = None,
        rows_per_client: int | None = None,
        t: int | None = None,
        bound: float | None = None,
        server_share: float | None = None,
        n_clients: int = 3,
        random_state: Any = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.protect = protect
        self.noise = noise
        self.steps = steps
        self.radius = radius
        self.rows_per_client = rows_per_client
        self.t = t
        self.bound = bound
        self.server_share = server_share
        self.n_clients = n_clients
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, server_points: Any = None) -> DPKMeans:
        """Run the protocol: X, y, groups as elsewhere.  server_points: (s, d) public points of the server.

        Raises InputError, and what `secfc.fit` raises.
        """
        dealt, whole = self._dealt_to_fit(X, groups)
        if server_points is None:
            held = whole[self._shared(len(whole))]
        else:
            held = read_all(checked_points(as_rows(np.asarray(server_points)), "the server"), "the server")
        federation = replace(dealt.federation, server_points=held)
        self._run(DealtFederation(federation, dealt.rows), whole)
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

    def _algorithm(self, seed: int | None) -> Algorithm:
        noises: Mapping[str, type[NoisePlacement]]
        units, noises = (
            {"point": "data point", "client": "client"},
            {"server": ServerNoise, "shares": SharedNoise},
        )
        for name, table in (("protect", units), ("noise", noises)):
            if getattr(self, name) not in table:
                words = " or ".join(map(repr, table))
                raise InputError(f"{name}={getattr(self, name)!r} is none: use the word {words}")
        return FedDPKMeans(
            self.n_clusters, self.epsilon, self.delta, Neighbors(unit=units[self.protect]), self.steps,  # type: ignore[arg-type]
            noise=noises[self.noise](), bound=self.radius, rows_per_client=self.rows_per_client, t=self.t,
        )  # fmt: skip
