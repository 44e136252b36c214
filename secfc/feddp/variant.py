"""Variants of FedDP-KMeans as values: the paper's, ours, and every one between them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Variant:
    """What is done differently from the paper; all False is the paper, with the sensitivities it needs.

    centered: the public mean of the server's points is subtracted before anything is clipped.
    symmetric: noise of the outer product is symmetric, a factor sqrt(2) smaller off the diagonal; at client
    level the trace is left out of what is clipped.
    gaussian: histograms and counts get Gaussian noise too, and all steps are calibrated as one mechanism.
    joint: sums and counts are one vector with one noise; at client level they replace means of means.
    chosen: after FedDP-Init's weights clients are asked whether their points are nearer to what it found than
    to k-means of the server's points alone, for `CHOICE` of the budget; without evidence the latter starts.
    residuals: sums are of differences to the weighted means of the server's points, which are shorter.
    cleaned: weights within the noise are dropped, or drawn together where they are more than it together,
    before the server's points are clustered.
    shrunk: centers are drawn towards those means as far as the noise explains the distance (Stein).

    quantile: of the norms of public points, where rows are clipped; client_quantile: of the norms of
    simulated clients' statistics, where those are.  residual_quantile: of the
    residuals of proxies, where those of rows are clipped; None: where the error foreseen is least, from noise
    and from clipping (`estimates.clipping_error`).  count: the unit of counts in joint vectors, in bounds on
    rows.  strong: weights of fewer standard deviations are dropped.  merged: the server's points are merged
    into so many a cluster at most, so that each stands for more points than noise; None: they are not.
    directions: that many a cluster are kept of the outer product at most, one at least, as far as they stand
    out of the noise: k hold the centers of clusters that are far apart, and real ones are not.
    """

    centered: bool = True
    symmetric: bool = True
    gaussian: bool = True
    joint: bool = True
    chosen: bool = True
    residuals: bool = True
    cleaned: bool = True
    shrunk: bool = True
    quantile: float = 0.9
    residual_quantile: float | None = None
    client_quantile: float = 0.5
    count: float = 0.1
    strong: float = 3.0
    merged: int | None = 30
    directions: int = 2

    def __post_init__(self) -> None:
        if self.joint and not self.gaussian:
            raise ValueError("joint=True with gaussian=False: one vector has one noise. Set gaussian=True.")
        if self.chosen and not self.gaussian:
            raise ValueError(
                "chosen=True with gaussian=False: choices have Gaussian noise. Set chosen=False."
            )
        for name in ("quantile", "residual_quantile", "client_quantile"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1:
                raise ValueError(f"{name}={value} must lie in (0, 1]")
        if self.directions < 1:
            raise ValueError(f"directions={self.directions}: at least one a cluster")
        if self.merged is not None and self.merged < 2:
            raise ValueError(f"merged={self.merged}: at least two points a cluster, or None for all")
        for name in ("count", "strong"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)} must be positive")


OURS = Variant()
# The bound on rows is the radius of the server's points (sec. 5.1); nothing is dropped, drawn or joined.
PAPER = Variant(
    centered=False, symmetric=False, gaussian=False, joint=False, chosen=False, residuals=False,
    cleaned=False, shrunk=False, quantile=1.0, client_quantile=0.9, merged=None, directions=1,
)  # fmt: skip
# Shares of the sum of all epsilons for outer product, weights, sums, counts, by level: App. G.4.
PAPER_SHARES = {"data point": (0.2, 0.2, 0.45, 0.15), "client": (0.35, 0.1, 0.45, 0.1)}
# Weights of the steps of one Gaussian mechanism, for outer product, weights, sums and counts.
OUR_WEIGHTS = {"data point": (0.25, 0.05, 0.7), "client": (0.35, 0.1, 0.55)}
# With steps of FedDP-Lloyds behind, whose sums decide: those of step 3 need only tell clusters apart.  From
# these totals on, by level: the smaller the budget, the more the start is in want of it.
OUR_WEIGHTS_BEFORE_LLOYD = {
    "data point": (
        (0.0, (0.25, 0.05, 0.2, 0.5)),
        (0.3, (0.12, 0.06, 0.22, 0.6)),
        (0.5, (0.08, 0.04, 0.18, 0.7)),
        (1.0, (0.06, 0.03, 0.16, 0.75)),
    ),
    "client": ((0.0, (0.25, 0.08, 0.22, 0.45)), (1.0, (0.12, 0.06, 0.22, 0.6))),
}
# The share of a choice among starts, taken off the others' alike.
CHOICE = 0.02
