"""FedDP-KMeans: differentially private federated k-means with server-side data, and its rivals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# Names that are loaded when they are used, by the module that has them.
_NAMES = {
    "secfc.feddp.algorithm": "FedDPKMeans",
    "secfc.feddp.noise": "ServerNoise SharedNoise",
    "secfc.feddp.plan": "OURS PAPER Variant",
    "secfc.feddp.server_estimates": "Elbow",
    "secfc.feddp.starts": "Cones FedDPInit GivenCenters ServerKMeansPlusPlus ServerLloyds SpherePacking "
    "Votes",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
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
