"""What the server of FedDP-KMeans tells its clients."""

from __future__ import annotations

from field.arrays import Array
from secfc.roles.messages import Message, check_centers, check_labels, refuse_if

NOTHING, MEAN, SHELLS = range(3)  # what is asked about a ball


def _check_bounds(bounds: tuple[int, ...]) -> None:
    refuse_if(len(bounds) > 2 or min(bounds, default=1) < 1, "at most two bounds, of at least one step each")


class Project(Message, tag=58):
    """Server to every client in FedDP-Init, step 2: say which projected proxies your points are nearest to.

    projection (d, p); proxies (s, p), public points projected.  bounds: where a client's counts are
    clipped, if clients are the unit of privacy.

    Under "secure sums and FedDP-KMeans": server, client.  Seen: a projection and public points.  By
    deviating: the server: a projection of its choice; it gets a sum, within the budget.
    """

    projection: Array
    proxies: Array
    bounds: tuple[int, ...]

    def __post_init__(self) -> None:
        check_centers(self.projection, "directions")
        check_centers(self.proxies, "proxies")
        wrong = self.projection.shape[1] != self.proxies.shape[1]
        refuse_if(wrong, "proxies have as many features as there are directions")
        _check_bounds(self.bounds)


class Choose(Message, tag=61):
    """Server to every client: say which starts, or one center for all, are nearer to your points.

    starts: (starts, k, d), centers of each; with the last one the others are compared.  cap: in integer steps
    squared, where a point's difference of squared distances is clipped.  bounds: where a client's differences
    are, if clients are the unit of privacy.

    Under "secure sums and FedDP-KMeans": server, client.  Seen: two starts: public points, weighted by
    noisy counts, or not; where noisy moments show a center between two clusters, also the first with each
    cluster split, and before later steps again; where the server has no points, centers and their mean.
    By deviating: the server: starts of its choice; it gets a noisy sum, within the budget.
    """

    starts: Array
    cap: int
    bounds: tuple[int, ...]

    def __post_init__(self) -> None:
        refuse_if(
            self.starts.ndim != 3 or len(self.starts) < 2, "there are two starts to choose from, or more"
        )
        check_centers(self.starts.reshape(-1, self.starts.shape[2]), "centers of starts")
        refuse_if(self.cap < 1, "differences are clipped to at least one step")
        _check_bounds(self.bounds)


class GroupAbout(Message, tag=59):
    """Server to every client in FedDP-KMeans: sum your points by the nearest of these centers.

    centers: (k, p) projected, or (k, d); `projected` says which.  origins: (k, d), what is subtracted before
    points are clipped to `reach` integer steps.  bounds: where a client's vectors are clipped, if clients are
    the unit of privacy.

    Under "secure sums and FedDP-KMeans": server, client.  Seen: centers, noisy.  By deviating: the
    server: centers of its choice; it gets a noisy sum, within the budget. This, `Project`, `Choose` and
    `Narrow` must be the same to all: members compare digests before they add.
    """

    centers: Array
    origins: Array
    reach: int
    bounds: tuple[int, ...]
    projected: bool = False

    def __post_init__(self) -> None:
        check_centers(self.centers, "centers")
        check_centers(self.origins, "origins")
        refuse_if(len(self.centers) != len(self.origins), "every center has an origin")
        refuse_if(self.reach < 1, "points are clipped to at least one integer step")
        _check_bounds(self.bounds)


class Narrow(Message, tag=62):
    """Server to every client without points at the server: rows lie about this center, within this radius.

    ball: (d + 1,), its center and its radius in data units, from then on.  asks: for the sum of all rows
    about it and their number (MEAN), for how many lie in each shell about it (SHELLS), or for nothing.

    Under "secure sums and FedDP-KMeans": server, client.  Seen: with `boxes=` alone: a ball about rows,
    of noisy sums and counts.  By deviating: the server: a ball of its choice within the plan's radius; it
    gets a noisy sum, or noisy numbers of rows by distance, within the budget.
    """

    ball: Array
    asks: int

    def __post_init__(self) -> None:
        refuse_if(self.ball.ndim != 1 or len(self.ball) < 2, "a ball has a center and a radius")
        check_centers(self.ball[None], "balls")
        refuse_if(not self.ball[-1] > 0, "a radius is positive")
        refuse_if(self.asks not in (NOTHING, MEAN, SHELLS), "a ball is asked about in one of three ways")

    @property
    def origin(self) -> Array:
        """Its center (d,)."""
        return self.ball[:-1]

    @property
    def radius(self) -> float:
        """Its radius."""
        return float(self.ball[-1])


class NoisyCenters(Message, tag=60):
    """Server to every client: the differentially private centers (k, d), about the plan's origin.

    Under "secure sums and FedDP-KMeans": server, client.  Seen: the result.  By deviating: the server:
    false centers, unnoticed; different ones to clients are noticed by members (`LastDigest`).
    """

    centers: Array

    def __post_init__(self) -> None:
        check_centers(self.centers, "centers")


class NoisyLabels(Message, tag=234):
    """Client to server after the centers: the label of each of its rows, under randomized response.

    Under "secure sums and FedDP-KMeans": client, server.  Seen: with `labels=RandomizedResponse(epsilon)`
    alone: a label of each row, and how many rows there are; with `slots` as many labels for every client.
    Drawn once a run, so of a row they tell what epsilon allows.  By deviating: a client: any labels of
    its own rows, unnoticed; one of no cluster ends the run and names it.
    """

    labels: Array

    def __post_init__(self) -> None:
        check_labels(self.labels, 1 << 31, "a list of released labels", 0)
