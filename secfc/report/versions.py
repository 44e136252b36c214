"""What computed a result."""

from __future__ import annotations

import importlib.metadata
import platform

import secfc


def versions() -> dict[str, str]:
    """Versions of this package, of Python, and of what computes."""
    return {
        "secfc": secfc.__version__,
        "python": platform.python_version(),
        "numpy": importlib.metadata.version("numpy"),
        "numba": importlib.metadata.version("numba"),
    }
