"""Differential privacy: events, mechanisms, ledger, accountant, calibration, bounds and audit.

A mechanism returns noisy integers and an event; a ledger records events and whose view they hold for; the
accountant says what a view costs.  A release without noise is charged as non-private: epsilon is infinite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_HOME = {
    name: f"secfc.privacy.{module}"
    for module, names in {
        "audit": "Finding ShiftFinding many_gaussian_runs many_runs one_run",
        "bounds": "Bound",
        "calibration": "Budget gaussian_multiplier solve split",
        "clipping": "clip",
        "errors": "OverBudget PrivacyError",
        "events": "Composed DiscreteGaussian DiscreteLaplace DistributedDiscreteGaussian Event Gaussian NoOp "
        "NonPrivate Pure RoundedGaussian",
        "ledger": "EVERYBODY Entry Ledger",
        "mechanisms": "DiscreteGaussianNoise DiscreteLaplaceNoise Mechanism NoNoise Release "
        "RoundedGaussianNoise",
        "neighbors": "Neighbors",
        "tradeoff": "Shift",
    }.items()
    for name in names.split()
}
__all__ = sorted(_HOME)

# The redundant aliases tell type checkers that these names are exported.
if TYPE_CHECKING:
    from secfc.privacy.audit import Finding as Finding
    from secfc.privacy.audit import ShiftFinding as ShiftFinding
    from secfc.privacy.audit import many_gaussian_runs as many_gaussian_runs
    from secfc.privacy.audit import many_runs as many_runs
    from secfc.privacy.audit import one_run as one_run
    from secfc.privacy.bounds import Bound as Bound
    from secfc.privacy.calibration import Budget as Budget
    from secfc.privacy.calibration import gaussian_multiplier as gaussian_multiplier
    from secfc.privacy.calibration import solve as solve
    from secfc.privacy.calibration import split as split
    from secfc.privacy.clipping import clip as clip
    from secfc.privacy.errors import OverBudget as OverBudget
    from secfc.privacy.errors import PrivacyError as PrivacyError
    from secfc.privacy.events import Composed as Composed
    from secfc.privacy.events import DiscreteGaussian as DiscreteGaussian
    from secfc.privacy.events import DiscreteLaplace as DiscreteLaplace
    from secfc.privacy.events import DistributedDiscreteGaussian as DistributedDiscreteGaussian
    from secfc.privacy.events import Event as Event
    from secfc.privacy.events import Gaussian as Gaussian
    from secfc.privacy.events import NonPrivate as NonPrivate
    from secfc.privacy.events import NoOp as NoOp
    from secfc.privacy.events import Pure as Pure
    from secfc.privacy.events import RoundedGaussian as RoundedGaussian
    from secfc.privacy.ledger import EVERYBODY as EVERYBODY
    from secfc.privacy.ledger import Entry as Entry
    from secfc.privacy.ledger import Ledger as Ledger
    from secfc.privacy.mechanisms import DiscreteGaussianNoise as DiscreteGaussianNoise
    from secfc.privacy.mechanisms import DiscreteLaplaceNoise as DiscreteLaplaceNoise
    from secfc.privacy.mechanisms import Mechanism as Mechanism
    from secfc.privacy.mechanisms import NoNoise as NoNoise
    from secfc.privacy.mechanisms import Release as Release
    from secfc.privacy.mechanisms import RoundedGaussianNoise as RoundedGaussianNoise
    from secfc.privacy.neighbors import Neighbors as Neighbors
    from secfc.privacy.tradeoff import Shift as Shift


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module 'secfc.privacy' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
