"""Secure federated clustering: exact k-means over coded shares, its rivals and its judges.

    import secfc
    result = secfc.fit(secfc.SecFC(k=4), [x1, x2, x3])  # one (m_j, d) array or data frame a client
    result.labels  # one array a client
    result.predict([y1, y2, y3])

Algorithms, for `fit`: `SecFC`; `Lloyd`, its plaintext twin; `KFed` and `FedDPKMeans`; `FederatedLloyd`,
`CommonFeatures`, `Overlap1` and `Overlap2` for clients with different features; `Scaled`, any of them on a
common scale; `grid` runs every combination of parameters.

What the server may see: `AssignmentsOnly`, `OwnLabels`, `FinalLabelsOnly`, `Distances`,
`NoiseInShares`, `NoisySums`.  How a run starts: `Bisecting`, `Splitting`, `KMeansPlusPlus`,
`RandomLabels` and others.  What can go wrong: `InputError` for what callers pass, `ProtocolError` for what
parties do, `Caution` as a warning.  `secfc.estimators` has the algorithms as scikit-learn does.

Importing this package is cheap; numba and scikit-learn are loaded when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from secfc._packages import check as _check

_check("field")
_check("psu")

__version__ = "0.1.0"

# Names that are loaded when they are used, by the module that has them.
_NAMES = {
    "secfc.algorithm": "Clustering",
    "secfc.coded.joined": "Joined",
    "secfc.coded.membership": "Open Private",
    "secfc.coded.parameters": "Network Quantization Release Runtime Threshold",
    "secfc.coded_kmeans.plaintext": "Lloyd",
    "secfc.coded_kmeans.secfc": "SecFC",
    "secfc.data.dialects": "Dialect",
    "secfc.data.federation": "Federation",
    "secfc.data.parted_rows": "DaskRows",
    "secfc.data.party": "Party",
    "secfc.data.sources": "ArrowRows",
    "secfc.disclosure": "AssignmentsOnly Distances FinalLabelsOnly NoiseInShares NoisySums OwnLabels",
    "secfc.errors": "Caution DisputedRows FaultyClient FaultyServer InputError JournalError "
    "TooManyDeviating PlanMismatch ProtocolError RangeExceeded RowsLost SharedIds TamperedMessage "
    "TooFewReplies TooManyHolders UnionFailed",
    "secfc.feddp.algorithm": "FedDPKMeans",
    "secfc.federated.algorithm": "FederatedLloyd",
    "secfc.grids.engine": "grid",
    "secfc.kfed": "KFed",
    "secfc.kmeans.bisecting": "Bisecting",
    "secfc.kmeans.elbow": "Elbow",
    "secfc.kmeans.sampled": "Sampled",
    "secfc.kmeans.splitting": "Splitting",
    "secfc.kmeans.starts": "CenterSeparation GivenLabels KMeansPlusPlus RandomLabels RandomPoints",
    "secfc.overlap.common": "CommonFeatures",
    "secfc.overlap.overlap1": "Overlap1",
    "secfc.overlap.overlap2": "Overlap2",
    "secfc.overlap.starts": "Automatic Constrained MaxMin NearestMerge Synchronized",
    "secfc.pairs": "DBSCAN Precomputed",
    "secfc.pipeline": "fit",
    "secfc.planning.planned": "plan",
    "secfc.scaling.algorithm": "Scaled",
    "secfc.scaling.noisy": "NoisyStandardize",
    "secfc.scaling.scaling": "Scaling",
    "secfc.scaling.ways": "Range Standardize UnitNorm",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = ["__version__", *sorted(_HOME)]

# The redundant aliases tell type checkers that these names are exported.
if TYPE_CHECKING:
    from secfc.algorithm import Clustering as Clustering
    from secfc.coded.joined import Joined as Joined
    from secfc.coded.membership import Open as Open
    from secfc.coded.membership import Private as Private
    from secfc.coded.parameters import Network as Network
    from secfc.coded.parameters import Quantization as Quantization
    from secfc.coded.parameters import Release as Release
    from secfc.coded.parameters import Runtime as Runtime
    from secfc.coded.parameters import Threshold as Threshold
    from secfc.coded_kmeans.plaintext import Lloyd as Lloyd
    from secfc.coded_kmeans.secfc import SecFC as SecFC
    from secfc.data.dialects import Dialect as Dialect
    from secfc.data.federation import Federation as Federation
    from secfc.data.parted_rows import DaskRows as DaskRows
    from secfc.data.party import Party as Party
    from secfc.data.sources import ArrowRows as ArrowRows
    from secfc.disclosure import AssignmentsOnly as AssignmentsOnly
    from secfc.disclosure import Distances as Distances
    from secfc.disclosure import FinalLabelsOnly as FinalLabelsOnly
    from secfc.disclosure import NoiseInShares as NoiseInShares
    from secfc.disclosure import NoisySums as NoisySums
    from secfc.disclosure import OwnLabels as OwnLabels
    from secfc.errors import Caution as Caution
    from secfc.errors import DisputedRows as DisputedRows
    from secfc.errors import FaultyClient as FaultyClient
    from secfc.errors import FaultyServer as FaultyServer
    from secfc.errors import InputError as InputError
    from secfc.errors import JournalError as JournalError
    from secfc.errors import PlanMismatch as PlanMismatch
    from secfc.errors import ProtocolError as ProtocolError
    from secfc.errors import RangeExceeded as RangeExceeded
    from secfc.errors import RowsLost as RowsLost
    from secfc.errors import SharedIds as SharedIds
    from secfc.errors import TamperedMessage as TamperedMessage
    from secfc.errors import TooFewReplies as TooFewReplies
    from secfc.errors import TooManyDeviating as TooManyDeviating
    from secfc.errors import TooManyHolders as TooManyHolders
    from secfc.errors import UnionFailed as UnionFailed
    from secfc.feddp.algorithm import FedDPKMeans as FedDPKMeans
    from secfc.federated.algorithm import FederatedLloyd as FederatedLloyd
    from secfc.grids.engine import grid as grid
    from secfc.kfed import KFed as KFed
    from secfc.kmeans.bisecting import Bisecting as Bisecting
    from secfc.kmeans.elbow import Elbow as Elbow
    from secfc.kmeans.sampled import Sampled as Sampled
    from secfc.kmeans.splitting import Splitting as Splitting
    from secfc.kmeans.starts import CenterSeparation as CenterSeparation
    from secfc.kmeans.starts import GivenLabels as GivenLabels
    from secfc.kmeans.starts import KMeansPlusPlus as KMeansPlusPlus
    from secfc.kmeans.starts import RandomLabels as RandomLabels
    from secfc.kmeans.starts import RandomPoints as RandomPoints
    from secfc.overlap.common import CommonFeatures as CommonFeatures
    from secfc.overlap.overlap1 import Overlap1 as Overlap1
    from secfc.overlap.overlap2 import Overlap2 as Overlap2
    from secfc.overlap.starts import Automatic as Automatic
    from secfc.overlap.starts import Constrained as Constrained
    from secfc.overlap.starts import MaxMin as MaxMin
    from secfc.overlap.starts import NearestMerge as NearestMerge
    from secfc.overlap.starts import Synchronized as Synchronized
    from secfc.pairs import DBSCAN as DBSCAN
    from secfc.pairs import Precomputed as Precomputed
    from secfc.pipeline import fit as fit
    from secfc.planning.planned import plan as plan
    from secfc.scaling.algorithm import Scaled as Scaled
    from secfc.scaling.noisy import NoisyStandardize as NoisyStandardize
    from secfc.scaling.scaling import Scaling as Scaling
    from secfc.scaling.ways import Range as Range
    from secfc.scaling.ways import Standardize as Standardize
    from secfc.scaling.ways import UnitNorm as UnitNorm


def __getattr__(name: str) -> Any:
    import importlib

    if name == "LiarsExceeded":
        from secfc.remedies import warn_of_old_name

        warn_of_old_name(name, name := "TooManyDeviating")
    if name not in _HOME:
        import difflib

        # Python suggests what a module has loaded, and these names are loaded when they are used.
        near = difflib.get_close_matches(name.lower(), [known.lower() for known in _HOME], n=3, cutoff=0.7)
        near += ["secfc"] if name.lower() in ("kmeans", "k_means") else []
        meant = " or ".join(known for known in _HOME if known.lower() in near)
        hint = f": did you mean {meant}?" if meant else ": dir(secfc) lists what there is"
        if name[0] != "_" and (place := _place_of(name)):
            hint = f": import it, from {place} import {name}"
        raise AttributeError(f"module 'secfc' has no attribute {name!r}{hint}")
    globals()[name] = found = getattr(importlib.import_module(_HOME[name]), name)
    return found


def _place_of(name: str) -> str | None:
    """The package, of those that users import from, which has this name or a module of this name."""
    import importlib
    import importlib.util

    if importlib.util.find_spec(f"secfc.{name}"):
        return "secfc"
    for package in ("secfc.privacy", "secfc.report", "secfc.estimators"):
        try:
            if hasattr(importlib.import_module(package), name):
                return package
        except ImportError:  # an extra that is not installed
            continue
    return None


def __dir__() -> list[str]:
    """What help(), pydoc and completion offer: all public names, also those that are not loaded yet."""
    own = {name for name in globals() if name.startswith("__")}
    return sorted({*own, *__all__})
