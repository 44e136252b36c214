"""Grids of runs: every combination of parameters, each one a tidy row (README.md).

import secfc
rows = secfc.grid(n=[5, 10], m=1000, policy=["default", "distances"], out="rows.jsonl")
"""

from secfc.grids.cells import PRESETS
from secfc.grids.engine import grid

__all__ = ["PRESETS", "grid"]
