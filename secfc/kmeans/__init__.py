"""Lloyd's heuristic: one loop for the oracle and the protocols, and where it starts."""

from __future__ import annotations

from field._moved import handing_on

# Version 0.1.0 had a module of this name.
__getattr__ = handing_on(__name__, ("secfc.kmeans.loop",))
