"""One thread for small matrix products: many clients' are faster so, and sums are reproducible."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_thread() -> Any:
    """A context, or a decorator's context, in which matrix products use one thread."""
    return _controller().limit(limits=1)
