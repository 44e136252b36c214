"""What clusters are, for people: a table by feature, what tells each apart, and a picture of that."""

from __future__ import annotations

import math

from secfc.data.clusters import ClusterProfile
from secfc.report.terminal import Grid, Items, Part, Section, Tiles, measured_number, pluralize

ACROSS = 4  # clusters beside one another
SHOWN = 40  # features that are listed; all are in the JSON report
TITLE = "What the clusters are"


def profile_section(profile: ClusterProfile) -> Section:
    """A profile as tables of means and deviations, or shares, and as a picture."""
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
