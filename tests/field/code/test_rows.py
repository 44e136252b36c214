"""Chosen rows are those with their numbers, at edges of tiles and of threads' cuts."""

import numpy as np
import pytest

from field.code.rows import coded_rows
from field.ring.basis import LANE_PRIMES, MERSENNE_61, Basis
from field.secrets.coins import SeededCoins


@pytest.mark.parametrize("basis", [Basis(LANE_PRIMES[:3]), Basis((MERSENNE_61,))], ids=["folded", "plain"])
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 47, 48, 49, 96, 97, 193])
def test_chosen_rows_are_those_with_these_numbers(basis, threads, count):
    values = basis.sample((200, 5), SeededCoins(1, "rows"))
    rows = coded_rows(basis, 200, 5, threads=threads)
    rows.add_rows(0, values)
    rows.finish_rows()
    chosen = np.sort(np.random.default_rng(count).choice(200, count, replace=False))
    some = rows.select_rows(chosen)
    assert (some.read_rows(0, count) == values[:, chosen]).all()
    # With all that tiles hold of a row, as its squared norm, by which distances are measured.
    sums = rows.sum_clusters(np.zeros(200, np.int32), 1)
    assert (some.measure_distances(sums) == rows.measure_distances(sums)[:, :, chosen]).all()
