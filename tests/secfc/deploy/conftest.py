"""What tests of runs between organizations share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.secfc.deploy.nursery import Nursery
from tests.secfc.deploy.sites import HERE


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Processes of one that is loaded once: each run ends its own."""
    made = Nursery(HERE)
    yield made
    made.close()
