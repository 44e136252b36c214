"""Private set union: the common row numbers of several parties' IDs, without showing who owns which.

    import psu
    result = psu.union([["ann", "bob"], ["bob", "eve"], ["eve", "dan"]], t=1)
    result.rows          # per client: the row in [0, m) of each of its own IDs

Pure steps, no transport: `psu.together` plays all parties in one process and shows how the steps are
strung into rounds.  Importing the package is cheap: numba is loaded by the first computation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# Two unrelated projects publish packages called `field` and `psu`; secfc checks this marker.
__secfc__ = True

_HOME = {
    "AlreadyUsed": "field.secrets.channels",
    "digests": "psu.identify",
    "Identity": "field.secrets.channels",
    "row_digests": "psu.identify",
    "Server": "psu.plan",
    "Committee": "psu.plan",
    "union": "psu.together",
    "UnionAborted": "psu.errors",
    "UnionPlan": "psu.plan",
    "UnionResult": "psu.together",
}
__all__ = sorted(_HOME)

# The redundant aliases tell type checkers that these names are exported.
if TYPE_CHECKING:
    from field.secrets.channels import AlreadyUsed as AlreadyUsed
    from field.secrets.channels import Identity as Identity
    from psu.errors import UnionAborted as UnionAborted
    from psu.identify import digests as digests
    from psu.identify import row_digests as row_digests
    from psu.plan import Committee as Committee
    from psu.plan import Server as Server
    from psu.plan import UnionPlan as UnionPlan
    from psu.together import UnionResult as UnionResult
    from psu.together import union as union


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module 'psu' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
