"""Sums of tiled rows by weights: exact at the edge of what a register holds, whichever path runs."""

import numpy as np
import pytest

from field.code.rows import coded_rows
from field.kernels import microkernel
from field.ring.basis import LANE_PRIMES, Basis
from tests.strategies import extreme_residues


def both(lanes, m, width, k, rows, weights, threads=1):
    basis = Basis(LANE_PRIMES[:lanes])
    found = coded_rows(basis, m, width, threads=threads)
    found.add_rows(0, rows)
    found.finish_rows()  # the slot behind the features holds norms, which are in no sum
    want = [
        [[sum(x * y for x, y in zip(a, b, strict=True)) % p for b in row.T.tolist()] for a in lane.tolist()]
        for row, lane, p in zip(rows.astype(object), weights.astype(object), basis.primes, strict=True)
    ]
    got = found.weighted_sums(weights)
    assert got.dtype == basis.dtype
    assert got.shape == (lanes, k, width)
    assert got.tolist() == want
    return got


@pytest.mark.parametrize(("m", "width", "k"), [(1, 1, 1), (47, 3, 2), (48, 4, 4), (49, 5, 3), (500, 7, 9)])
@pytest.mark.parametrize("threads", [1, 3])
def test_sums_are_those_of_python_integers(m, width, k, threads):
    basis = Basis(LANE_PRIMES[:2])
    rows, weights = extreme_residues(basis, (m, width), m), extreme_residues(basis, (k, m), k)
    both(2, m, width, k, rows, weights, threads)


@pytest.mark.parametrize("signs", [(1, 1), (1, -1)])
def test_all_products_of_the_largest_size_and_of_one_sign(signs):
    # (p - 1) / 2 and its negative are the ends of what a register multiplies; no sum cancels.
    m, p = 48 * 40 + 5, np.array(LANE_PRIMES[:2])
    ends = [(s * (p - 1) // 2 % p).astype(np.uint32)[:, None, None] for s in signs]
    rows, weights = np.broadcast_to(ends[0], (2, m, 5)), np.broadcast_to(ends[1], (2, 3, m))
    both(2, m, 5, 3, rows.copy(), weights.copy())


def test_the_portable_path_gives_the_same(monkeypatch):
    basis = Basis(LANE_PRIMES[:2])
    rows, weights = extreme_residues(basis, (300, 6), 1), extreme_residues(basis, (5, 300), 2)
    first = both(2, 300, 6, 5, rows, weights)
    monkeypatch.setenv("SECFC_KERNELS", "portable")
    assert np.array_equal(first, both(2, 300, 6, 5, rows, weights))


def test_sums_go_on_from_fold_to_fold():
    basis, m = Basis(LANE_PRIMES[:1]), 48 * 200
    rows, weights = extreme_residues(basis, (m, 5), 3), extreme_residues(basis, (64, m), 4)
    assert microkernel._TILES < 200
    got = coded_rows(basis, m, 5)
    got.add_rows(0, rows)
    want = basis.matmul(weights, rows)
    assert np.array_equal(got.weighted_sums(weights), want)
