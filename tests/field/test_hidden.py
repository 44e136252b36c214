"""Lloyd's step on one-hot labels in residues, against Python integers."""

import numpy as np
import pytest

from field import hidden
from field.basis import LANE_PRIMES, Basis

BASIS = Basis(LANE_PRIMES[:3])


def one_hot(labels, k):
    return BASIS.reduce((labels[None] == np.arange(k)[:, None]).astype(np.int64))


def numbers(points, labels, k):
    """s_a**2 s_b**2 times the difference of squared distances to centers b and a, for all a < b."""
    sums = [points[labels == h].sum(axis=0).astype(object) for h in range(k)]
    sizes = [int((labels == h).sum()) for h in range(k)]
    out = []
    for a in range(k):
        for b in range(a + 1, k):
            # s_b x - S_b is s_b times the difference to center b.
            far = [((sizes[h] * points.astype(object) - sums[h]) ** 2).sum(axis=1) for h in (a, b)]
            out.append(sizes[a] ** 2 * far[1] - sizes[b] ** 2 * far[0])
    return np.array(out), sizes


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_numbers_compare_centers(k):
    rng = np.random.default_rng(k)
    points = rng.integers(-500, 501, (40, 3))
    labels = rng.integers(0, k - (k > 2), 40)  # the last of three and more is empty
    expected, true_sizes = numbers(points, labels, k)
    rows, pairs = BASIS.reduce(points), hidden.Pairs(k)
    Z = one_hot(labels, k)
    sums, sizes = hidden.cluster_sums(BASIS, Z, rows), hidden.cluster_sizes(BASIS, Z)
    assert (BASIS.lift(sizes) == true_sizes).all()
    squares = hidden.squares(BASIS, sums, sizes, pairs)
    planes = hidden.planes(BASIS, squares, 3, pairs)
    columns = np.concatenate([np.ones((3, 1, 40), np.uint32), rows.transpose(0, 2, 1)], axis=1)
    found = BASIS.lift_signed(hidden.differences(BASIS, planes, columns))
    empty = [a for a, b in zip(pairs.first, pairs.second, strict=True) if not true_sizes[b]]
    assert len(empty) == (k - 1 if k > 2 else 0)
    assert (found == np.where(np.array(true_sizes)[pairs.second][:, None] == 0, 0, expected)).all()
