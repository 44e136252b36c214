"""The start that fits: by how many local clusters clients have, or by the paper's rule."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace

from secfc.data.inputs import Caution
from secfc.overlap.centroids import Centroids
from secfc.overlap.local import Local, LocalKMeans
from secfc.overlap.starts.constrained import Constrained
from secfc.overlap.starts.grouping import Groups, Start, check_enough
from secfc.overlap.starts.max_min import MaxMin
from secfc.overlap.starts.nearest_merge import NearestMerge
from secfc.overlap.starts.synchronized import Synchronized
from secfc.roles.description import LOCAL


@dataclass(frozen=True)
class Automatic:
    """`Synchronized` where every client has k local clusters, else `Constrained`.

    paper: the rule of Algorithm 1 instead, lines 5 to 11: `NearestMerge` under Assumption 1, `MaxMin` under
    Assumption 2, and else `MaxMin` with a warning.  identical: whether a cluster has the same distribution at
    all clients that have it (Assumption 1.3), which data of one client cannot tell.  What features tell of
    the rest is tested: that clients connect, or that all pairs share a feature.
    """

    paper: bool = False
    identical: bool = True
    local: Local = field(default=LocalKMeans(), metadata=LOCAL)

    def groups(self, found: Centroids, k: int) -> Groups:
        check_enough(found, k)
        start, said = self.chosen(found, k)
        made = start.groups(found, k)
        return replace(
            made, said=(f"local clusters were matched by {type(start).__name__}", *said, *made.said)
        )

    def chosen(self, found: Centroids, k: int) -> tuple[Start, tuple[str, ...]]:
        """The start for these centroids, and words about it."""
        if not self.paper:
            return (Synchronized() if (found.counts == k).all() else Constrained()), ()
        shared = (found.mask[:, None] & found.mask[None]).any(axis=2)
        # Clients that nothing connects are refused before any data move.
        if self.identical:
            return NearestMerge(), ()
        if shared.all():
            return MaxMin(), ()
        sentence = "case not supported, defaulting to Method B (MaxMin): some clients share no feature, and "
        sentence += "clusters are said to differ between clients"
        warnings.warn(
            f"{sentence}. Automatic() without the paper's rule is made for this.", Caution, stacklevel=2
        )
        return MaxMin(), (sentence,)
