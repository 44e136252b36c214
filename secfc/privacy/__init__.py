"""Differential privacy: events, mechanisms, ledger, accountant, calibration, bounds and audit.

A mechanism returns noisy integers and an event; a ledger records events and whose view they hold for; the
accountant says what a view costs.  A release without noise is charged as non-private: epsilon is infinite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_HOME = {
    "Bound": "secfc.privacy.calibration",
    "Budget": "secfc.privacy.calibration",
    "clip_norms": "secfc.privacy.mechanisms",
    "Composed": "secfc.privacy.events",
    "DiscreteGaussian": "secfc.privacy.events",
    "DiscreteGaussianNoise": "secfc.privacy.mechanisms",
    "DiscreteLaplace": "secfc.privacy.events",
    "DiscreteLaplaceNoise": "secfc.privacy.mechanisms",
    "DistributedDiscreteGaussian": "secfc.privacy.events",
    "Entry": "secfc.privacy.ledger",
    "EpsilonFinding": "secfc.privacy.audit",
    "Event": "secfc.privacy.events",
    "EVERYBODY": "secfc.privacy.ledger",
    "Gaussian": "secfc.privacy.events",
    "gaussian_multiplier": "secfc.privacy.calibration",
    "GaussianShift": "secfc.privacy.audit",
    "least_factor": "secfc.privacy.calibration",
    "Ledger": "secfc.privacy.ledger",
    "many_gaussian_runs": "secfc.privacy.audit",
    "many_runs": "secfc.privacy.audit",
    "Mechanism": "secfc.privacy.mechanisms",
    "Neighbors": "secfc.privacy.events",
    "NoNoise": "secfc.privacy.mechanisms",
    "NonPrivate": "secfc.privacy.events",
    "NoOp": "secfc.privacy.events",
    "one_run": "secfc.privacy.audit",
    "OverBudget": "secfc.errors",
    "PrivacyError": "secfc.errors",
    "Pure": "secfc.privacy.events",
    "MechanismOutput": "secfc.privacy.mechanisms",
    "RandomizedResponse": "secfc.privacy.mechanisms",
    "Response": "secfc.privacy.events",
    "RoundedGaussian": "secfc.privacy.events",
    "RoundedGaussianNoise": "secfc.privacy.mechanisms",
    "ShiftFinding": "secfc.privacy.audit",
    "split_budget": "secfc.privacy.calibration",
}
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
    from secfc.privacy.mechanisms import DiscreteGaussianNoise as DiscreteGaussianNoise
    from secfc.privacy.mechanisms import DiscreteLaplaceNoise as DiscreteLaplaceNoise
    from secfc.privacy.mechanisms import Mechanism as Mechanism
    from secfc.privacy.mechanisms import MechanismOutput as MechanismOutput
    from secfc.privacy.mechanisms import NoNoise as NoNoise
    from secfc.privacy.mechanisms import RandomizedResponse as RandomizedResponse
    from secfc.privacy.mechanisms import RoundedGaussianNoise as RoundedGaussianNoise
    from secfc.privacy.mechanisms import clip_norms as clip_norms


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module 'secfc.privacy' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
