"""Lloyd's step on one-hot labels in residues, against Python integers."""

import numpy as np
import pytest

from field.compare import shared_step as hidden
from field.ring.basis import LANE_PRIMES, Basis
from field.secrets.coins import SeededCoins

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
    # So large that sums of squares exceed every prime, and residues differ from lane to lane.
    points = rng.integers(-(2**20), 2**20, (40, 3))
    labels = rng.integers(0, k - (k > 2), 40)  # the last of three and more is empty
    expected, true_sizes = numbers(points, labels, k)
    rows, pairs = BASIS.reduce(points), hidden.ClusterPairs(k)
    Z = one_hot(labels, k)
    sums, sizes = BASIS.matmul(Z, rows), hidden.one_hot_sizes(BASIS, Z)
    assert (BASIS.lift(sizes) == true_sizes).all()
    squares = hidden.pair_products(BASIS, sums, sizes, pairs)
    planes = hidden.bisector_shares(BASIS, squares, 3, pairs)
    columns = np.concatenate([np.ones((3, 1, 40), np.uint32), rows.transpose(0, 2, 1)], axis=1)
    found = BASIS.lift_signed(BASIS.matmul(planes, columns))
    empty = [a for a, b in zip(pairs.first, pairs.second, strict=True) if not true_sizes[b]]
    assert len(empty) == (k - 1 if k > 2 else 0)
    assert (found == np.where(np.array(true_sizes)[pairs.second][:, None] == 0, 0, expected)).all()


@pytest.mark.parametrize("segments", [1, 3])
def test_signs_decide_ties_and_empty_clusters_once_however_many_points_they_are_added_over(segments):
    sizes, pairs, m, d = [0, 4, 1], hidden.ClusterPairs(3), 9, 2
    Z = one_hot(np.repeat(np.arange(3), sizes), 3)
    sums, counts = BASIS.sample((3, d), SeededCoins(3, "sums")), hidden.one_hot_sizes(BASIS, Z)
    squares = hidden.pair_products(BASIS, sums, counts, pairs)
    signed = hidden.signed_bisectors(BASIS, squares, counts, d, pairs, m, segments)[:, :, 0].astype(object)
    plain = hidden.bisector_shares(BASIS, squares, d, pairs)[:, :, 0].astype(object)
    more = segments * (signed + hidden.side_margin(m) * plain) % BASIS.column(2, object)
    more = BASIS.lift_signed(more.astype(BASIS.dtype))
    expected = [-sizes[b] * (sizes[a] - 1) for a, b in zip(pairs.first, pairs.second, strict=True)]
    assert more.tolist() == expected


@pytest.mark.parametrize("k", [2, 5])
def test_the_last_row_of_one_hot_labels_follows_from_the_others(k):
    # Of shares too: the rows of one-hot shares sum to shares of 1, here to 1 themselves.
    whole = one_hot(np.arange(30) % k, k)
    noise = BASIS.sample((k, 30), SeededCoins(0, "shares"))
    others = hidden.one_hot_sizes(BASIS, noise[:, :-1].swapaxes(1, 2))
    noise[:, -1] = BASIS.negate(others)
    shares = BASIS.add(whole, noise.astype(BASIS.dtype))
    for labels in (whole, shares):
        assert (hidden.last_of_one_hot(BASIS, labels[:, :-1]) == labels).all()


def test_exclusive_or_of_bits_in_residues():
    x, y = (BASIS.reduce(np.array([bits])) for bits in ([0, 0, 1, 1], [0, 1, 0, 1]))
    found = hidden.exclusive_or(BASIS, x, y, BASIS.multiply(x, y))
    assert (found == BASIS.reduce(np.array([[0, 1, 1, 0]]))).all()
