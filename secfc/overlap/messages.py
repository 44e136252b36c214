"""What parties say where features overlap.  No message holds a coordinate of a feature that one client has
alone.
"""

from __future__ import annotations

import numpy as np

from field.arrays import Array
from secfc.roles.messages import (
    FARTHEST,
    Message,
    check_centers,
    check_centers_or_none,
    check_labels,
    is_array,
    refuse_if,
)


class LocalCentroids(Message, tag=110):
    """Client to server, for a start: the means (K_i, s_i) of its local clusters on features that others
    observe too, in data units, in the clear; and rows of each (K_i,).

    Under "`FederatedLloyd`, and where clients observe different features": client, server.  Seen: means
    of its local clusters on features that others observe too (of `Overlap1(send="medoids")` **rows of its
    data**), **in the clear**, and rows of each; its own features are never sent.  By deviating: any
    centroids: another start, unnoticed.
    """

    centers: Array
    weights: Array

    def __post_init__(self) -> None:
        refuse_if(
            not is_array(self.weights, "i", 1) or len(self.weights) == 0, "weights are a vector of integers"
        )
        refuse_if(int(self.weights.min()) < 1, "every local cluster has a row")
        check_centers(self.centers, "local centroids")
        refuse_if(len(self.centers) != len(self.weights), "every local centroid has a weight")


class LocalGroups(Message, tag=111):
    """Server to client, for a start: the global cluster in [-1, k) of each of its local ones (K_i,).

    Under "`FederatedLloyd`, and where clients observe different features": server, client.  Seen: which
    of its local clusters are of one cluster: public to that client.  By deviating: the server: match at
    will; labels start elsewhere, unnoticed.
    """

    k: int
    labels: Array

    def __post_init__(self) -> None:
        check_labels(self.labels, self.k, "the clusters of local ones")


def _check_partial(centers: Array, what: str) -> None:
    """Rows of floats, each entry NaN or below 2**400."""
    refuse_if(not is_array(centers, "f", 2), f"{what} are rows of floats")
    # Both pass over NaN, and make no array of the size of the message.
    ends = np.fmax.reduce(centers, axis=None, initial=0.0), -np.fmin.reduce(centers, axis=None, initial=0.0)
    refuse_if(not max(ends) <= FARTHEST, f"{what} are below 2**400")


class GlobalCentroids(Message, tag=113):
    """Server to client in Overlap1: global centroids (k, s_i) on the features that it shares, in data units.

    NaN where none is known.  last: whether these are the final ones.

    Under "`FederatedLloyd`, and where clients observe different features": server, client.  Seen: the
    merged centroids on features that the client shares.  By deviating: the server: false ones, unnoticed.
    """

    centers: Array
    last: bool

    def __post_init__(self) -> None:
        _check_partial(self.centers, "global centroids")


class AlignedCentroids(Message, tag=114):
    """Client to server in Overlap1: its local centroids (k, s_i), each in the place of its global one, in
    the clear.

    weights: rows of each (k,), 0 and a row of NaN where it has none.

    Under "`FederatedLloyd`, and where clients observe different features": client, server.  Seen: means
    of its local clusters (with `send="medoids"` **rows of its data**), **in the clear**, and rows of
    each, in every round of `Overlap1`.  By deviating: any centroids: other results, unnoticed.
    """

    centers: Array
    weights: Array

    def __post_init__(self) -> None:
        check_centers_or_none(self.centers, "aligned centroids")
        refuse_if(not is_array(self.weights, "i", 1), "weights are a vector of integers")
        refuse_if(len(self.centers) != len(self.weights), "every aligned centroid has a weight")
        refuse_if(bool((self.weights < 0).any()), "weights are not negative")
        absent = self.weights[np.isnan(self.centers).any(axis=1)]
        refuse_if(bool((absent > 0).any()), "weights are 0 where there is no centroid")


class LocalGaussians(Message, tag=115):
    """Client to server in Overlap2: what describes its local clusters on features that others observe too.

    centers, variances: (K_i, s_i).  weights: rows of each.  factors: (K_i, r, s_i), whose Gram matrices are
    the covariances, r = 0 if these stay.  boxes: (K_i, 2, s_i), least and largest values, or (K_i, 0, s_i).

    Under "`FederatedLloyd`, and where clients observe different features": client, server.  Seen: in
    `Overlap2`, means, variances or covariances of local clusters, **in the clear**, on features that
    others observe too; with `boxes` least and largest values, which are single rows'.  By deviating: any
    description: other matches, unnoticed.
    """

    centers: Array
    variances: Array
    weights: Array
    factors: Array
    boxes: Array

    def __post_init__(self) -> None:
        refuse_if(
            not is_array(self.weights, "i", 1) or len(self.weights) == 0, "weights are a vector of integers"
        )
        refuse_if(int(self.weights.min()) < 1, "every local cluster has a row")
        check_centers(self.centers, "local centroids")
        check_centers(self.variances, "variances")
        refuse_if(self.variances.shape != self.centers.shape, "a variance for every entry of a centroid")
        refuse_if(bool((self.variances < 0).any()), "variances are not negative")
        for extra, what in ((self.factors, "factors"), (self.boxes, "boxes")):
            refuse_if(not is_array(extra, "f", 3), f"{what} are three axes of floats")
            check_centers(extra.reshape(len(extra) * extra.shape[1], extra.shape[2]), what)
            refuse_if(
                extra.shape[::2] != self.centers.shape, f"{what} of every local cluster, on its features"
            )
        refuse_if(len(self.weights) != len(self.centers), "every local centroid has a weight")
        refuse_if(self.boxes.shape[1] not in (0, 2), "a box has a least and a largest corner")


class CentroidShares(Message, tag=116):
    """Client to a member of the committee, for a start over distances: its share of its local centroids, and
    of zeros.

    values: (lanes, K_i, s_i) residues, centroids on features that others observe too.  zeros: (lanes, p_i, k,
    k), one for each distance that there may be, by pair of clients.  Uniform to any t members together.

    Under "`FederatedLloyd`, and where clients observe different features": client, member.  Seen: with
    `Synchronized(over="distances")`: uniform at any `t` members, and how many local clusters the client
    has.  By deviating: any centroids: another start, unnoticed; other shapes are refused, naming it.
    """

    values: Array
    zeros: Array

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.values, "u", 3), "shares of local centroids are three axes of residues")
        refuse_if(not is_array(self.zeros, "u", 4), "shares of zeros are four axes of residues")


class CodedPairDistances(Message, tag=117):
    """Member of the committee to server: its shares (lanes, P) of squared distances between local centroids
    of any two clients that share a feature, and how many local clusters each client has (n,).

    Under "`FederatedLloyd`, and where clients observe different features": member, server.  Seen: blinded
    shares of squared distances between local centroids of different clients, which the server learns.
    They may fix centroids up to shift, rotation and reflection; a client that joins it places those of
    others by its own.  By deviating: of `w` shares `w - 2 t - 1` false ones are noticed
    (`SuspectedParties`), more make another start, **unnoticed**; numbers of clusters that differ between
    members end the run, suspicion of all.
    """

    values: Array
    counts: Array

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.values, "u", 2), "shares of distances are two axes of residues")
        refuse_if(
            not is_array(self.counts, "i", 1) or len(self.counts) == 0, "counts are a vector of integers"
        )
        refuse_if(int(self.counts.min()) < 1, "every client has a local cluster")
