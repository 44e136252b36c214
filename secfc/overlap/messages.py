"""What parties say where features overlap.  No message holds a coordinate of a feature that one client has
alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from secfc.roles.checks import check_centers, check_labels, is_array, refuse
from secfc.roles.messages import Message

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class LocalCentroids(Message, tag=110):
    """Client to server, for a start: the means (K_i, s_i) of its local clusters on features that others
    observe too, in data units, in the clear; and rows of each (K_i,).
    """

    centers: Array
    weights: Array

    def __post_init__(self) -> None:
        refuse(
            not is_array(self.weights, "i", 1) or len(self.weights) == 0, "weights are a vector of integers"
        )
        refuse(int(self.weights.min()) < 1, "every local cluster has a row")
        check_centers(self.centers, "local centroids")
        refuse(len(self.centers) != len(self.weights), "every local centroid has a weight")


@dataclass(frozen=True, eq=False, repr=False)
class LocalGroups(Message, tag=111):
    """Server to client, for a start: the global cluster in [-1, k) of each of its local ones (K_i,)."""

    k: int
    labels: Array

    def __post_init__(self) -> None:
        check_labels(self.labels, self.k, "the clusters of local ones")


@dataclass(frozen=True, eq=False, repr=False)
class SharedSums(Message, tag=112):
    """Server to client, after each step: sums (k, s_i) of all points on the features that it shares with
    others, and numbers of points (k, p_i) by the patterns of clients that it belongs to, in integer steps.

    there: clusters that have points anywhere, (k,).  last: whether no label changed, or steps are used up.
    """

    sums: Array
    counts: Array
    there: Array
    last: bool

    def __post_init__(self) -> None:
        refuse(
            not is_array(self.sums, "i", 2) or not is_array(self.counts, "i", 2),
            "sums and counts are integers",
        )
        refuse(not is_array(self.there, "b", 1), "which clusters have points are truth values")
        refuse(len({len(self.sums), len(self.counts), len(self.there)}) > 1, "one row a cluster in each")
        refuse(bool((self.counts < 0).any()), "numbers of points are not negative")
