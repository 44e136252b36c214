"""FedDP-KMeans: differentially private federated k-means with server-side data, and its rivals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_HOME = {
    "Cones": "starts",
    "Elbow": "elbow",
    "FedDPInit": "starts",
    "FedDPKMeans": "algorithm",
    "GivenCenters": "starts",
    "OURS": "variant",
    "PAPER": "variant",
    "ServerKMeansPlusPlus": "starts",
    "ServerLloyds": "starts",
    "ServerNoise": "noise",
    "SharedNoise": "noise",
    "SpherePacking": "starts",
    "Variant": "variant",
    "Votes": "starts",
}
__all__ = sorted(_HOME)

# The redundant aliases tell type checkers that these names are exported.
if TYPE_CHECKING:
    from secfc.feddp.algorithm import FedDPKMeans as FedDPKMeans
    from secfc.feddp.elbow import Elbow as Elbow
    from secfc.feddp.noise import ServerNoise as ServerNoise
    from secfc.feddp.noise import SharedNoise as SharedNoise
    from secfc.feddp.starts import Cones as Cones
    from secfc.feddp.starts import FedDPInit as FedDPInit
    from secfc.feddp.starts import GivenCenters as GivenCenters
    from secfc.feddp.starts import ServerKMeansPlusPlus as ServerKMeansPlusPlus
    from secfc.feddp.starts import ServerLloyds as ServerLloyds
    from secfc.feddp.starts import SpherePacking as SpherePacking
    from secfc.feddp.starts import Votes as Votes
    from secfc.feddp.variant import OURS as OURS
    from secfc.feddp.variant import PAPER as PAPER
    from secfc.feddp.variant import Variant as Variant


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module 'secfc.feddp' has no attribute {name!r}")
    return getattr(importlib.import_module(f"secfc.feddp.{_HOME[name]}"), name)
