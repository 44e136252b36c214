"""Computing on coded rows: the plan, who contributes which, sharing and testing them, decoding, and blame."""

from __future__ import annotations

from field._moved import handing_on

# Version 0.1.0 had a module of this name.
__getattr__ = handing_on(__name__, ("secfc.coded_kmeans.secfc",))
