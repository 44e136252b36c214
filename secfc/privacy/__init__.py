"""Differential privacy: events, mechanisms, ledger, accountant, calibration, bounds and audit.

A mechanism returns noisy integers and an event; a ledger records events and whose view they hold for; the
accountant says what a view costs.  A release without noise is charged as non-private: epsilon is infinite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# Names that are loaded when they are used, by the module that has them.
_NAMES = {
    "secfc.errors": "OverBudget PrivacyError",
    "secfc.privacy.audit": "EpsilonFinding GaussianShift many_gaussian_runs many_runs one_run ShiftFinding",
    "secfc.privacy.calibration": "Bound Budget gaussian_multiplier least_factor split_budget",
    "secfc.privacy.events": "Composed DiscreteGaussian DiscreteLaplace DistributedDiscreteGaussian "
    "Event Gaussian Neighbors NonPrivate NoOp Pure Response RoundedGaussian",
    "secfc.privacy.ledger": "Entry EVERYBODY Ledger",
    "secfc.privacy.mechanisms": "clip_norms DiscreteLaplaceNoise Mechanism "
    "MechanismOutput RandomizedResponse RoundedGaussianNoise",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOME)

# The redundant aliases tell type checkers that these names are exported.
if TYPE_CHECKING:
    from secfc.errors import OverBudget as OverBudget
    from secfc.errors import PrivacyError as PrivacyError
    from secfc.privacy.audit import EpsilonFinding as EpsilonFinding
    from secfc.privacy.audit import GaussianShift as GaussianShift
    from secfc.privacy.audit import ShiftFinding as ShiftFinding
    from secfc.privacy.audit import many_gaussian_runs as many_gaussian_runs
    from secfc.privacy.audit import many_runs as many_runs
    from secfc.privacy.audit import one_run as one_run
    from secfc.privacy.calibration import Bound as Bound
    from secfc.privacy.calibration import Budget as Budget
    from secfc.privacy.calibration import gaussian_multiplier as gaussian_multiplier
    from secfc.privacy.calibration import least_factor as least_factor
    from secfc.privacy.calibration import split_budget as split_budget
    from secfc.privacy.events import Composed as Composed
    from secfc.privacy.events import DiscreteGaussian as DiscreteGaussian
    from secfc.privacy.events import DiscreteLaplace as DiscreteLaplace
    from secfc.privacy.events import DistributedDiscreteGaussian as DistributedDiscreteGaussian
    from secfc.privacy.events import Event as Event
    from secfc.privacy.events import Gaussian as Gaussian
    from secfc.privacy.events import Neighbors as Neighbors
    from secfc.privacy.events import NonPrivate as NonPrivate
    from secfc.privacy.events import NoOp as NoOp
    from secfc.privacy.events import Pure as Pure
    from secfc.privacy.events import Response as Response
    from secfc.privacy.events import RoundedGaussian as RoundedGaussian
    from secfc.privacy.ledger import EVERYBODY as EVERYBODY
    from secfc.privacy.ledger import Entry as Entry
    from secfc.privacy.ledger import Ledger as Ledger
    from secfc.privacy.mechanisms import DiscreteLaplaceNoise as DiscreteLaplaceNoise
    from secfc.privacy.mechanisms import Mechanism as Mechanism
    from secfc.privacy.mechanisms import MechanismOutput as MechanismOutput
    from secfc.privacy.mechanisms import RandomizedResponse as RandomizedResponse
    from secfc.privacy.mechanisms import RoundedGaussianNoise as RoundedGaussianNoise
    from secfc.privacy.mechanisms import clip_norms as clip_norms


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module 'secfc.privacy' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
