"""Lagrange codes: shares, what is computed and decoded on them, and what shows that they were dealt well."""

from __future__ import annotations

from field._moved import handing_on

# Version 0.1.0 had a module of this name.
__getattr__ = handing_on(__name__, ("field.code.lagrange_code",))
