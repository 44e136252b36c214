"""FedDP-KMeans: differentially private federated k-means with server-side data, and its rivals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_HOME = {
    "Cones": "secfc.feddp.starts",
    "Elbow": "secfc.feddp.server_estimates",
    "FedDPInit": "secfc.feddp.starts",
    "FedDPKMeans": "secfc.feddp.algorithm",
    "GivenCenters": "secfc.feddp.starts",
    "OURS": "secfc.feddp.plan",
    "PAPER": "secfc.feddp.plan",
    "ServerKMeansPlusPlus": "secfc.feddp.starts",
    "ServerLloyds": "secfc.feddp.starts",
    "ServerNoise": "secfc.feddp.noise",
    "SharedNoise": "secfc.feddp.noise",
    "SpherePacking": "secfc.feddp.starts",
    "Variant": "secfc.feddp.plan",
    "Votes": "secfc.feddp.starts",
}
__all__ = sorted(_HOME)

# The redundant aliases tell type checkers that these names are exported.
if TYPE_CHECKING:
    from secfc.feddp.algorithm import FedDPKMeans as FedDPKMeans
    from secfc.feddp.noise import ServerNoise as ServerNoise
    from secfc.feddp.noise import SharedNoise as SharedNoise
    from secfc.feddp.plan import OURS as OURS
    from secfc.feddp.plan import PAPER as PAPER
    from secfc.feddp.plan import Variant as Variant
    from secfc.feddp.server_estimates import Elbow as Elbow
    from secfc.feddp.starts import Cones as Cones
    from secfc.feddp.starts import FedDPInit as FedDPInit
    from secfc.feddp.starts import GivenCenters as GivenCenters
    from secfc.feddp.starts import ServerKMeansPlusPlus as ServerKMeansPlusPlus
    from secfc.feddp.starts import ServerLloyds as ServerLloyds
    from secfc.feddp.starts import SpherePacking as SpherePacking
    from secfc.feddp.starts import Votes as Votes


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module 'secfc.feddp' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
