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
    "AssignmentsOnly": "secfc.disclosure",
    "Caution": "secfc.inputs",
    "CenterSeparation": "secfc.starts",
    "Clustering": "secfc.clustering",
    "DisputedRows": "secfc.exchange",
    "Distances": "secfc.disclosure",
    "FaultyClient": "secfc.exchange",
    "FaultyServer": "secfc.exchange",
    "FedDPKMeans": "secfc.feddp.algorithm",
    "Federation": "secfc.federation",
    "FinalLabelsOnly": "secfc.disclosure",
    "GivenLabels": "secfc.starts",
    "InputError": "secfc.inputs",
    "JournalError": "secfc.journal",
    "KFed": "secfc.oneshot",
    "LiarsExceeded": "secfc.exchange",
    "KMeansPlusPlus": "secfc.starts",
    "Lloyd": "secfc.plaintext",
    "NoiseAtServer": "secfc.disclosure",
    "NoiseInShares": "secfc.disclosure",
    "Open": "secfc.membership",
    "Party": "secfc.federation",
    "PlanMismatch": "secfc.exchange",
    "Private": "secfc.membership",
    "ProtocolError": "secfc.exchange",
    "RandomLabels": "secfc.starts",
    "RandomPoints": "secfc.starts",
    "RangeExceeded": "secfc.exchange",
    "RowsLost": "secfc.exchange",
    "SecFC": "secfc.coded",
    "TamperedMessage": "secfc.sealed",
    "TooFewReplies": "secfc.exchange",
    "TooManyHolders": "secfc.exchange",
    "SharedIds": "secfc.exchange",
    "UnionFailed": "secfc.exchange",
    "fit": "secfc.clustering",
}
__all__ = ["__version__", *sorted(_HOME)]

# The redundant aliases tell type checkers that these names are exported.
if TYPE_CHECKING:
    from secfc.clustering import Clustering as Clustering
    from secfc.clustering import fit as fit
    from secfc.coded import SecFC as SecFC
    from secfc.disclosure import AssignmentsOnly as AssignmentsOnly
    from secfc.disclosure import Distances as Distances
    from secfc.disclosure import FinalLabelsOnly as FinalLabelsOnly
    from secfc.disclosure import NoiseAtServer as NoiseAtServer
    from secfc.disclosure import NoiseInShares as NoiseInShares
    from secfc.exchange import DisputedRows as DisputedRows
    from secfc.exchange import FaultyClient as FaultyClient
    from secfc.exchange import FaultyServer as FaultyServer
    from secfc.exchange import LiarsExceeded as LiarsExceeded
    from secfc.exchange import PlanMismatch as PlanMismatch
    from secfc.exchange import ProtocolError as ProtocolError
    from secfc.exchange import RangeExceeded as RangeExceeded
    from secfc.exchange import RowsLost as RowsLost
    from secfc.exchange import SharedIds as SharedIds
    from secfc.exchange import TooFewReplies as TooFewReplies
    from secfc.exchange import TooManyHolders as TooManyHolders
    from secfc.exchange import UnionFailed as UnionFailed
    from secfc.feddp.algorithm import FedDPKMeans as FedDPKMeans
    from secfc.federation import Federation as Federation
    from secfc.federation import Party as Party
    from secfc.inputs import Caution as Caution
    from secfc.inputs import InputError as InputError
    from secfc.journal import JournalError as JournalError
    from secfc.membership import Open as Open
    from secfc.membership import Private as Private
    from secfc.oneshot import KFed as KFed
    from secfc.plaintext import Lloyd as Lloyd
    from secfc.sealed import TamperedMessage as TamperedMessage
    from secfc.starts import CenterSeparation as CenterSeparation
    from secfc.starts import GivenLabels as GivenLabels
    from secfc.starts import KMeansPlusPlus as KMeansPlusPlus
    from secfc.starts import RandomLabels as RandomLabels
    from secfc.starts import RandomPoints as RandomPoints


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module 'secfc' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    """What help(), pydoc and completion offer: all public names, also those that are not loaded yet."""
    return sorted({*globals(), *__all__})
