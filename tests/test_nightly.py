"""The short suite ends soon where a property fails, and the same way every time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from tests.nightly import NIGHTLY


def examples_of_failure(profile):
    """Each example of a property that fails above 100, in order."""
    seen = []

    @settings(settings.get_profile(profile), database=None)
    @given(st.integers(0, 1000))
    def property_(number):
        seen.append(number)
        assert number <= 100

    with pytest.raises(AssertionError):
        property_()
    return seen


def test_a_failing_example_is_reproduced_and_shrunk_only_on_request():
    first = examples_of_failure("ci")
    failing = [number for number in first if number > 100]
    assert len(set(failing)) == 1
    assert examples_of_failure("ci") == first
    assert examples_of_failure("shrink")[-1] == 101 < failing[0]


def test_a_matrix_product_takes_one_thread_by_day():
    np.ones((2, 2)) @ np.ones((2, 2))
    threads = {found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"}
    assert threads
    assert NIGHTLY or threads == {1}
