"""What tests of runs between organizations share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.secfc.deploy.nursery import Nursery
from tests.secfc.deploy.sites import HERE


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Processes that are all ended with the tests of a file."""
    made = Nursery(HERE)
    yield made
    made.close()
