"""The figures and tables of the papers, as grids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Preset:
    """says: what it is.  parts: axes, one grid after the other.  x, y, hue: how it is drawn."""

    says: str
    parts: tuple[Mapping[str, Any], ...]
    x: str
    y: str
    hue: str


BOTH = ["default", "distances"]
# SecFC section 5.2: the defaults of Figure 1, from random labels, so that what is timed are steps.
FIGURE_1 = {"n": 10, "m": 1000, "d": 20, "k": 4, "policy": BOTH, "init": "random"}
# Section 5.1, Tables 1 and 2: k' says how many clusters a client has points of.
TABLE = {"d": 100, "policy": "distances", "seed": list(range(5))}

PRESETS = {
    "secfc-figure-1-n": Preset(
        "time a step over clients (SecFC, Figure 1)", ({**FIGURE_1, "n": [5, 10, 20, 50, 100]},),
        "n", "ms_per_step", "policy",
    ),
    "secfc-figure-1-m": Preset(
        "time a step over points (SecFC, Figure 1)",
        ({**FIGURE_1, "m": [1000, 3000, 10_000, 30_000, 100_000]},),
        "m", "ms_per_step", "policy",
    ),
    "secfc-figure-1-d": Preset(
        "time a step over features (SecFC, Figure 1)", ({**FIGURE_1, "d": [10, 20, 50, 100, 200, 500]},),
        "d", "ms_per_step", "policy",
    ),
    "secfc-table-1": Preset(
        "accuracy over heterogeneity, standard deviation 1 (SecFC, Table 1)",
        (
            {**TABLE, "n": 10, "m": 10_000, "k": 4, "clusters_per_client": [1, 2, 4], "t": 4},
            {**TABLE, "n": 16, "m": 16_384, "k": 16, "clusters_per_client": [2, 4, 16], "t": 5, "ell": 2},
        ),
        "clusters_per_client", "accuracy", "k",
    ),
    "secfc-table-2": Preset(
        "accuracy over heterogeneity, standard deviation 20 (SecFC, Table 2)",
        (
            {**TABLE, "sigma": 20.0, "n": 10, "m": 10_000, "k": 4, "clusters_per_client": [1, 2, 4], "t": 4},
            {
                **TABLE, "sigma": 20.0, "n": 16, "m": 16_384, "k": 16, "clusters_per_client": [2, 4, 16],
                "t": 5, "ell": 2,
            },
        ),
        "clusters_per_client", "accuracy", "k",
    ),
    "k-fed-table": Preset(
        "the same for one-shot k-FED (Dennis, Li and Smith 2021), beside SecFC's Table 1",
        ({"algorithm": "k-fed", "d": 100, "n": 10, "m": 10_000, "k": 4, "clusters_per_client": [1, 2, 4],
          "seed": list(range(5))},),
        "clusters_per_client", "accuracy", "k",
    ),
}  # fmt: skip
