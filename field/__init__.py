"""Finite rings, Lagrange codes and secret coins: the arithmetic under secure clustering.

Knows nothing of parties, messages or clustering.  Everything here is a pure function of arrays or a
frozen value.  Importing the package is cheap: numba is loaded by the first computation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# Two unrelated projects publish packages called `field` and `psu`; secfc checks this marker.
__secfc__ = "0.1.0"

_HOME = {
    "Basis": "field.basis",
    "MERSENNE_61": "field.basis",
    "Coins": "field.coins",
    "SeededCoins": "field.coins",
    "SystemCoins": "field.coins",
    "LagrangeCode": "field.code",
    "TooFewValues": "field.code",
    "Quantizer": "field.quantize",
    "coded_rows": "field.rows",
}
__all__ = sorted(_HOME)

# The redundant aliases tell type checkers that these names are exported.
if TYPE_CHECKING:
    from field.basis import MERSENNE_61 as MERSENNE_61
    from field.basis import Basis as Basis
    from field.code import LagrangeCode as LagrangeCode
    from field.code import TooFewValues as TooFewValues
    from field.coins import Coins as Coins
    from field.coins import SeededCoins as SeededCoins
    from field.coins import SystemCoins as SystemCoins
    from field.quantize import Quantizer as Quantizer
    from field.rows import coded_rows as coded_rows


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module 'field' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
