"""One thread for small matrix products: many clients' are faster so, and sums are reproducible."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any


@cache
def _controller(learning: bool) -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_thread() -> Any:
    """A context, or a decorator's context, in which matrix products use one thread."""
    # A controller knows the libraries of its time, and scikit-learn brings threads of its own.
    return _controller("sklearn.cluster" in sys.modules).limit(limits=1)
