"""Of what kinds the parameters of SecFC and of its plaintext twin are."""

from __future__ import annotations

from pathlib import Path

from field.ring.basis import Basis
from secfc.coded.network import Network
from secfc.coded.workers import WORKERS
from secfc.data.arguments import COUNT, REAL, WHOLE, Kind, instance, optional

FOLDER = Kind(
    "a folder that is there",
    'Pass its path, such as "/scratch", or None to hold shares in memory',
    lambda v: str(v) if isinstance(v, str | Path) and Path(v).is_dir() else None,
    none=True,
)
CONSENT = Kind(
    "True, False or names of clients",
    'Pass True, or a tuple such as ("client-0", "client-1")',
    lambda v: v if isinstance(v, bool | tuple) else tuple(v) if isinstance(v, list) else None,
)
OF_LLOYD = {
    "n_init": WHOLE,
    "max_iter": WHOLE,
    "scale": optional(REAL, "the finest that fits"),
    "basis": optional(instance(Basis, "Basis((MERSENNE_61,))"), "chosen"),
    "largest": optional(WHOLE, "all points"),
}
OF_SECFC = OF_LLOYD | {
    "t": optional(WHOLE, "chosen for the number of clients"),
    "ell": WHOLE,
    "reveal_centers": CONSENT,
    "threads": COUNT,
    "scratch": FOLDER,
    "liars": WHOLE,
    "smallest_center": WHOLE,
    "predictions": optional(WHOLE, "ten times as many as points"),
    "workers": WORKERS,
    "network": instance(Network, "Network(latency=0.02)"),
}
