"""The type of arrays in annotations; what their shapes and kinds are, docstrings say."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
