"""A picture of the clustered points, for whoever may see them."""

from __future__ import annotations

import numpy as np

from secfc.algorithm import Clustering
from secfc.data.federation import Federation
from secfc.report.outcome import in_row_order, pooled
from secfc.report.parts import Dots

POINTS = 600


def sketch(result: Clustering, federation: Federation) -> Dots | None:
    """At most 600 points in the plane in which they spread most, None where rows lack features.

    Whoever sees it sees two numbers of single rows: it is for holders of the data.
    """
    if federation.observed is not None:
        return None
    points, labels = pooled(federation, result).stacked(), in_row_order(result, result.labels)
    kept = np.flatnonzero(labels >= 0)
    kept = kept[np.linspace(0, len(kept) - 1, min(POINTS, len(kept))).astype(np.int64)]
    shown = points[kept] - points[kept].mean(axis=0)
    spread = shown.std(axis=0)
    shown = shown / np.where(spread > 0, spread, 1.0)
    if shown.shape[1] < 2:
        shown = np.column_stack((shown, np.zeros(len(shown))))
    axes = np.linalg.svd(shown, full_matrices=False)[2][:2]
    plane = shown @ axes.T
    what = (
        f"{len(kept):,} of {len(points):,} points, in the plane in which standardized features spread most; "
        "colors are clusters"
    )
    dots = [(float(x), float(y), int(h)) for (x, y), h in zip(plane, labels[kept], strict=True)]
    return Dots(what, dots)
