"""Sensitivities of decoded distances and sums: no neighbors, random or adversarial, exceed them.

The same search runs against deliberately smaller claims and finds violations.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secfc.coded.plan import HiddenOwnerLayout, PublicOwnerLayout
from secfc.disclosure import NoiseInShares
from secfc.disclosure.noise.in_shares import ReleaseCounts
from secfc.disclosure.noise.noise import (
    distance_sensitivity,
    largest_distance_sensitivity,
    parts_in_turn,
    sum_sensitivity,
    unit_parts,
)
from secfc.errors import PrivacyError
from secfc.privacy import Budget, Neighbors
from secfc.privacy.calibration import Bound
from tests.oracles.field import scaled_distances

POINT, CLIENT = Neighbors("replace"), Neighbors("replace", "client")
B = 1000  # the norm that no row exceeds


def normalized(points, labels, k):
    """All squared distances (k, m) from what SecFC decodes, in units of B**2; 0 for an empty cluster."""
    sizes = np.bincount(labels, minlength=k)
    scaled = scaled_distances(points, labels, k).astype(float)
    return scaled / np.maximum(sizes, 1)[:, None].astype(float) ** 2 / B**2


def sums(points, labels, k):
    return np.stack([points[labels == h].sum(axis=0) for h in range(k)]) / B


def moved(points, other, labels, k):
    """By how much the distances and the sums move, in the L2 norm."""
    a, b = (normalized(p, labels, k) for p in (points, other))
    c, d = (sums(p, labels, k) for p in (points, other))
    return float(np.linalg.norm(a - b)), float(np.linalg.norm(c - d))


def corners(rng, m, d, spread):
    """Rows of norm B: random directions, or the two ends of one axis, which is where the worst cases are."""
    if rng.random() < 0.5:
        rows = np.zeros((m, d))
        rows[:, 0] = rng.choice([-1, 1], m)
    else:
        rows = rng.normal(size=(m, d))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.trunc(rows * B * (1 if spread else rng.random((m, 1)))).astype(np.int64)


def neighbors_of(rng, points, own):
    """The same with other rows for one unit: far opposite, or anywhere."""
    other = points.copy()
    other[own] = -points[own] if rng.random() < 0.5 else corners(rng, int(own.sum()), points.shape[1], True)
    return other


def worst_case(m, s, k):
    """x_i = -B u outside the cluster, B u inside; one of the s rows jumps from B u to -B u; 1-d."""
    labels = np.concatenate([np.zeros(s, int), 1 + np.arange(m - s) % (k - 1)])
    points = np.where(labels == 0, B, -B)[:, None]
    other = points.copy()
    other[0] = -B
    return points, other, labels


def claims(unit, layout, labels, k):
    rows, inside = unit_parts(unit, layout, labels, k)
    sizes = np.bincount(labels, minlength=k)
    return distance_sensitivity(len(labels), sizes, rows, inside), sum_sensitivity(inside)


@pytest.mark.parametrize("unit", [POINT, CLIENT], ids=str)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(1, 6))
def test_parts_of_rows_that_fall_to_clusters_in_turn_are_those_of_their_labels(unit, counts, k):
    layout = PublicOwnerLayout(tuple(counts))
    labels = (np.arange(layout.m) % k).astype(np.int32)
    sizes, *parts = parts_in_turn(unit, layout, k)
    assert sizes.tolist() == np.bincount(labels, minlength=k).tolist()
    for ours, theirs in zip(parts, unit_parts(unit, layout, labels, k), strict=True):
        assert ours.tolist() == theirs.tolist()


def test_noise_on_more_rows_than_fit_in_memory_is_planned():
    budget = Budget(epsilon=300.0, delta=1e-6)
    for unit in (POINT, CLIENT):
        policy = NoiseInShares(budget, Bound.given(3.0), unit)
        noise = policy.noise(ReleaseCounts(3, 1, 3, 5, 1), 64)
        layout = PublicOwnerLayout((1 << 44,) * 3)
        assert noise.on_distances_in_turn(layout, 3) <= noise.largest(layout.m, 3, 1 << 44) * 64**2
        assert noise.largest_on_sums(layout, 3, 2) > 0


@pytest.mark.parametrize("unit", [POINT, CLIENT], ids=str)
@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 5), st.integers(2, 4))
def test_no_neighbors_exceed_the_sensitivity(unit, seed, n, k):
    rng = np.random.default_rng(seed)
    counts = tuple(rng.integers(1, 5, n).tolist())
    layout, m = PublicOwnerLayout(counts), sum(counts)
    labels = rng.integers(0, k, m)
    points = corners(rng, m, int(rng.integers(1, 4)), rng.random() < 0.8)
    own = np.zeros(m, bool)
    if unit is POINT:
        own[rng.integers(m)] = True
    else:
        first, count = layout.span(int(rng.integers(n)))
        own[first : first + count] = True
    distances, centers = moved(points, neighbors_of(rng, points, own), labels, k)
    claimed, claimed_sums = claims(unit, layout, labels, k)
    assert distances <= claimed
    assert centers <= claimed_sums
    assert claimed <= largest_distance_sensitivity(m, k, int(own.sum() if unit is POINT else max(counts)))


@pytest.mark.parametrize(("m", "s", "k"), [(40, 1, 2), (40, 4, 2), (300, 5, 3), (60, 30, 2)])
def test_the_bound_is_nearly_attained(m, s, k):
    points, other, labels = worst_case(m, s, k)
    distances, centers = moved(points, other, labels, k)
    claimed, claimed_sums = claims(POINT, PublicOwnerLayout((m,)), labels, k)
    assert 0.55 * claimed < distances <= claimed
    assert centers == pytest.approx(claimed_sums)


@pytest.mark.parametrize("forgotten", ["own row", "other rows", "half the diameter"])
def test_the_search_finds_claims_that_are_too_small(forgotten):
    # Controls: each forgets a part of the sensitivity.
    m, s, k = 60, 2, 2
    points, other, labels = worst_case(m, s, k)
    if forgotten == "own row":
        # A large cluster: what moves most is the row itself.
        points, other, labels = worst_case(6, 5, 2)
        m, s = 6, 5
    column = 4 * (2 - 1 / s) / s
    claim = {
        "own row": math.sqrt(m - 1) * column,
        "other rows": 4 * math.sqrt(k),
        "half the diameter": math.sqrt(16 * k + (m - 1) * column**2) / 2,
    }[forgotten]
    assert moved(points, other, labels, k)[0] > claim


def test_clients_move_more_than_points():
    labels = np.arange(60) % 3
    layout = PublicOwnerLayout((20, 20, 20))
    point, client = claims(POINT, layout, labels, 3), claims(CLIENT, layout, labels, 3)
    assert client[0] > 4 * point[0]
    assert client[1] > 6 * point[1]
    # Clients of one row are data points.
    assert claims(CLIENT, PublicOwnerLayout((1,) * 60), labels, 3) == claims(POINT, layout, labels, 3)


def test_rows_in_no_cluster_and_empty_clusters():
    labels = np.array([0, 0, -1, 1])
    rows, inside = unit_parts(POINT, PublicOwnerLayout((4,)), labels, 3)
    assert rows.tolist() == [1, 1, 1]
    assert inside.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    # The singleton is the worst: its own row against two clusters, and three others against itself.
    assert distance_sensitivity(4, np.array([2, 1, 0]), rows, inside) == pytest.approx(math.sqrt(32 + 3 * 16))


def test_what_cannot_be_bounded_is_refused():
    labels = np.zeros(4, int)
    with pytest.raises(PrivacyError, match="are replaced"):
        unit_parts(Neighbors("add/remove"), PublicOwnerLayout((4,)), labels, 1)
    with pytest.raises(PrivacyError, match="open membership"):
        unit_parts(CLIENT, HiddenOwnerLayout(4, 2), labels, 1)
