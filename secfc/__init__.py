"""Secure federated clustering: exact k-means over coded shares, its rivals and its judges.

    import secfc
    federation = secfc.Federation.from_arrays([x1, x2, x3])
    result = secfc.fit(secfc.SecFC(k=4, t=1), federation, seed=0)
    result.labels

Importing this package is cheap; numba, scikit-learn and galois are loaded when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from secfc._packages import check as _check

_check("field")
_check("psu")

__version__ = "0.1.0"

_HOME = {
    "CenterSeparation": "secfc.starts",
    "Clustering": "secfc.clustering",
    "FaultyClient": "secfc.exchange",
    "FaultyServer": "secfc.exchange",
    "Federation": "secfc.federation",
    "GivenLabels": "secfc.starts",
    "InputError": "secfc.inputs",
    "KFed": "secfc.oneshot",
    "KMeansPlusPlus": "secfc.starts",
    "Lloyd": "secfc.plaintext",
    "Party": "secfc.federation",
    "PlanMismatch": "secfc.exchange",
    "ProtocolError": "secfc.exchange",
    "RandomLabels": "secfc.starts",
    "RandomPoints": "secfc.starts",
    "SecFC": "secfc.coded",
    "TooFewReplies": "secfc.exchange",
    "fit": "secfc.clustering",
}
__all__ = ["__version__", *sorted(_HOME)]

if TYPE_CHECKING:
    from secfc.clustering import Clustering, fit
    from secfc.coded import SecFC
    from secfc.exchange import FaultyClient, FaultyServer, PlanMismatch, ProtocolError, TooFewReplies
    from secfc.federation import Federation, Party
    from secfc.inputs import InputError
    from secfc.oneshot import KFed
    from secfc.plaintext import Lloyd
    from secfc.starts import (
        CenterSeparation,
        GivenLabels,
        KMeansPlusPlus,
        RandomLabels,
        RandomPoints,
    )


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module 'secfc' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
