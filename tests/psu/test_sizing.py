"""The size estimate: accurate at every scale, a function of the union, and loud when it is full."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import psu
from field import SeededCoins
from psu import tables
from psu.identify import tags
from psu.plan import SIZE_MARGIN, UnionPlan
from tests.nightly import by_night


def estimated(ids: Any, seed: int = 0, bound: int = 1 << 24) -> int:
    plan = UnionPlan(3, psu.Server(), seed.to_bytes(16, "little"), bound=bound)
    own, _ = tags(psu.digests(ids), bytes(16))
    return tables.estimate_size(plan, tables.fill_table(plan, plan.slots, own, SeededCoins(seed, "r")))


def test_small_unions_are_nearly_counted() -> None:
    assert estimated([]) == 0
    assert estimated(["one"]) in (1, 2)
    for m in (20, 100, 500):
        assert abs(estimated(range(m)) - m) <= 3 + 0.05 * m


@pytest.mark.parametrize("m", [3000, 9000, *by_night(40_000, 300_000)])
def test_the_standard_deviation_is_as_stated(m: int) -> None:
    # 20 seeded estimates with a deviation of at most 2 %: their spread exceeds 3 % with probability 1e-3.
    errors = np.array([estimated(range(m), seed) / m - 1 for seed in range(20)])
    assert abs(errors.mean()) < 0.015
    assert errors.std() < 0.03
    # Tables are sized with a margin; peeling takes another 10 %.
    assert errors.min() > -(SIZE_MARGIN - 1) - 0.1


def test_a_full_bitmap_says_that_the_bound_is_wrong() -> None:
    assert abs(estimated(range(8000), bound=8192) / 8000 - 1) < 0.1
    with pytest.raises(psu.UnionAborted, match="larger than its bound"):
        estimated(range(40_000), bound=8192)
