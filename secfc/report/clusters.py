"""What clusters are, for people: a table by feature, what tells each apart, and a picture of that."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from secfc.data.clusters import ClusterProfile
from secfc.report.terminal import Grid, Items, Part, Section, Tiles, measured_number, pluralize

ACROSS = 4  # clusters beside one another
SHOWN = 40  # features that are listed; all are in the JSON report
TITLE = "What the clusters are"


@dataclass(frozen=True)
class Stability:
    """How far several starts found the same clusters (`Clustering.stability`), or why nobody says."""

    mean_adjusted_rand: float | None
    words: str

    @classmethod
    def of(cls, measured: float | None, parameters: Mapping[str, Any]) -> Stability | None:
        """parameters: of the run, as reports have them.  None of what has no starts of its own."""
        starts, policy = parameters.get("n_init"), parameters.get("disclosure")
        if starts is None:
            return None
        if measured is not None:
            others = f"{pluralize(starts - 1, 'other start')} and those kept"
            return cls(measured, f"adjusted Rand index {measured:.2f} of the labels of {others}, on average")
        if policy in ("noise", "noisy-sums"):
            return cls(None, "not measured: noise alone makes labels of other starts differ")
        if policy in ("own-labels", "final-labels"):
            return cls(None, f"not measured: under {policy} nobody sees the labels that starts end with")
        if starts > 1:
            return cls(None, "not measured: clients keep the labels of the cheapest start alone")
        return cls(None, "not measured of a single start: --n-init 10 compares ten")


def profile_section(profile: ClusterProfile, stability: Stability | None = None) -> Section:
    """A profile as tables of means and deviations, or shares, and a picture; and how stable it is."""
    listed = range(min(len(profile.names), SHOWN))
    grids: list[Part] = []
    for first in range(0, profile.k, ACROSS):
        some = range(first, min(first + ACROSS, profile.k))
        rows = [("points", f"{int(profile.sizes.sum()):,}", *(f"{profile.sizes[h]:,}" for h in some))]
        for f in listed:
            whole = _figure(profile, f, profile.mean[f], profile.deviation[f])
            own = (_figure(profile, f, profile.means[h, f], profile.deviations[h, f]) for h in some)
            rows.append((profile.names[f], whole, *own))
        grids.append(Grid(("mean (deviation)", "all", *(f"cluster {h}" for h in some)), rows))
    said = [_sentence(profile, h) for h in range(profile.k)]
    if stability is not None:
        said.append(f"Over starts: {stability.words}.")
    if len(profile.names) > SHOWN:
        said.append(f"The first {SHOWN} of {len(profile.names)} features are shown.")
    tiles = Tiles(
        "means of clusters less that of all, in deviations of all",
        tuple(f"cluster {h}" for h in range(profile.k)),
        tuple((profile.names[f], tuple(profile.differences[:, f].tolist())) for f in listed),
    )
    return Section(TITLE, (*grids, Items(said), tiles))


def _figure(profile: ClusterProfile, feature: int, mean: float, deviation: float) -> str:
    if math.isnan(mean):
        return ""
    if profile.is_share(feature):
        return f"{100 * mean:.0f} %"
    return f"{measured_number(mean)} ({measured_number(deviation, 2)})"


def _sentence(profile: ClusterProfile, cluster: int) -> str:
    """What tells a cluster apart."""
    points = pluralize(int(profile.sizes[cluster]), "point")
    apart = ", ".join(f"{name} {value:+.1f}" for name, value in profile.telling(cluster))
    near = profile.silhouettes[cluster]
    shape = "" if math.isnan(near) else f"; silhouette {near:.2f}"
    said = f"{apart} deviations from the mean of all" if apart else "half a deviation from all in no feature"
    return f"cluster {cluster}, {points}: {said}{shape}"
