"""Finite rings, Lagrange codes and secret coins: the arithmetic under secure clustering.

Knows nothing of parties, messages or clustering.  Everything here is a pure function of arrays or a
frozen value.  Importing the package is cheap: numba is loaded by the first computation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import field.forks

# Two unrelated projects publish packages called `field` and `psu`; secfc checks this marker.
__secfc__ = True

_HOME = {
    "Basis": "field.ring.basis",
    "coded_rows": "field.code.rows",
    "Coins": "field.secrets.coins",
    "LagrangeCode": "field.code.lagrange_code",
    "MERSENNE_61": "field.ring.basis",
    "Quantizer": "field.ring.quantize",
    "SeededCoins": "field.secrets.coins",
    "SystemCoins": "field.secrets.coins",
    "TooFewValues": "field.code.lagrange_code",
}
__all__ = sorted(_HOME)

# The redundant aliases tell type checkers that these names are exported.
if TYPE_CHECKING:
    from field.code.lagrange_code import LagrangeCode as LagrangeCode
    from field.code.lagrange_code import TooFewValues as TooFewValues
    from field.code.rows import coded_rows as coded_rows
    from field.ring.basis import MERSENNE_61 as MERSENNE_61
    from field.ring.basis import Basis as Basis
    from field.ring.quantize import Quantizer as Quantizer
    from field.secrets.coins import Coins as Coins
    from field.secrets.coins import SeededCoins as SeededCoins
    from field.secrets.coins import SystemCoins as SystemCoins


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module 'field' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
