"""The claim of the project: SecFC's labels are plaintext Lloyd's at every iteration."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import secfc
from field import Basis, reference
from field.basis import LANE_PRIMES, MERSENNE_61
from field.quantize import distance_bound
from secfc.starts import STARTS, CenterSeparation, GivenLabels, RandomPoints
from tests.strategies import coded_cases, points_of

pytestmark = pytest.mark.usefixtures("kernel_path")


def start_of(case, m, k):
    if case["init"] == "given":
        labels = np.random.default_rng(case["seed"]).integers(-1, k, m)
        labels[0] = 0
        return GivenLabels(labels)
    return STARTS[case["init"]]


def reference_lloyd(points, labels, k, max_iter):
    """Lloyd's heuristic by Python integers and fractions alone: the labels after every step."""
    history = [labels]
    for _ in range(max_iter):
        sizes = np.bincount(labels[labels >= 0], minlength=k)
        new = np.array(reference.nearest(reference.scaled_distances(points, labels, k), sizes))
        history.append(new)
        if (new == labels).all():
            break
        labels = new
    return history


@given(coded_cases())
def test_labels_equal_plaintext_lloyd_at_every_iteration(case):
    points = points_of(case)
    federation = secfc.Federation.from_arrays(np.array_split(points, case["n"]))
    shared = {
        "k": case["k"], "init": start_of(case, case["m"], case["k"]), "scale": case["scale"],
        "rounding": case["rounding"], "basis": case["basis"], "n_init": case["n_init"], "max_iter": 20,
    }  # fmt: skip
    secure = secfc.fit(secfc.SecFC(t=case["t"], ell=case["ell"], **shared), federation, seed=case["seed"])
    plain = secfc.fit(secfc.Lloyd(**shared), federation, seed=case["seed"])
    assert len(secure.history) == len(plain.history)
    assert all((a == b).all() for a, b in zip(secure.history, plain.history, strict=True))
    assert secure.cost == plain.cost
    assert (secure.flat == plain.flat).all()
    # The oracle itself, from its first labels on, against Python integers and fractions.
    integers = secure.plan.quantizer(points)
    expected = reference_lloyd(integers, plain.history[0].astype(int), case["k"], 20)
    assert len(expected) == len(plain.history)
    assert all((a == b).all() for a, b in zip(plain.history, expected, strict=True))


@given(st.integers(0, 2**32), st.sampled_from([None, Basis((MERSENNE_61,)), Basis(LANE_PRIMES[:3])]))
def test_data_at_the_bound_with_every_point_in_one_cluster(seed, basis):
    # The largest distance the plan allows for: all points in one cluster, at opposite corners.
    rng = np.random.default_rng(seed)
    points = np.where(rng.random((24, 5)) < 0.5, -4.0, 4.0)
    points[:23] = 4.0
    points[23] = -4.0
    federation = secfc.Federation.from_arrays(np.array_split(points, 5))
    init = GivenLabels(np.zeros(24, int))
    secure = secfc.fit(secfc.SecFC(k=2, t=1, ell=2, init=init, basis=basis), federation, bound=4.0)
    plain = secfc.fit(secfc.Lloyd(k=2, init=init, basis=basis), federation, bound=4.0)
    assert all((a == b).all() for a, b in zip(secure.history, plain.history, strict=True))
    assert secure.cost == plain.cost


def test_cost_is_that_of_float_arithmetic_on_the_quantized_points():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(300, 4))
    federation = secfc.Federation.from_arrays(np.array_split(points, 5))
    result = secfc.fit(secfc.SecFC(k=3, t=1, ell=2), federation)
    from secfc.metrics import cost

    whole = result.plan.quantizer(points) / result.plan.quantizer.scale
    assert result.cost == pytest.approx(cost(whole, result.flat, 3), rel=1e-12)


def test_float_lloyd_agrees_within_the_quantization():
    # A different test from exactness: scikit-learn in floating point, from the same start.
    from sklearn.cluster import KMeans

    rng = np.random.default_rng(1)
    centers = rng.uniform(-10, 10, (4, 6))
    points = centers[rng.integers(0, 4, 400)] + rng.normal(size=(400, 6))
    start = points[rng.choice(400, 4, replace=False)]
    labels = np.full(400, -1)
    for h, s in enumerate(start):
        labels[np.flatnonzero((points == s).all(axis=1))[0]] = h
    federation = secfc.Federation.from_arrays(np.array_split(points, 7))
    result = secfc.fit(secfc.SecFC(k=4, t=2, ell=1, init=GivenLabels(labels)), federation)
    theirs = KMeans(4, init=start, n_init=1, tol=0).fit(points)
    assert (theirs.labels_ == result.flat).all()
    assert result.cost == pytest.approx(theirs.inertia_, rel=1e-4)


def test_a_hand_worked_case_with_a_tie_an_empty_cluster_a_singleton_and_duplicates():
    # 1-D points 0 0 2 4 10; clusters {0, 0, 4} and {2} and {} and {10}: centers 4/3, 2, none, 10.
    points = np.array([[0.0], [0.0], [2.0], [4.0], [10.0]])
    federation = secfc.Federation.from_arrays(np.split(points, 5))
    init = GivenLabels([0, 0, 1, 0, 3])
    result = secfc.fit(secfc.SecFC(k=4, t=1, ell=1, init=init), federation)
    # 4 is nearer to 2 than to 4/3, so {0, 0}, {2, 4}, {}, {10}; then nothing moves but no point ties.
    assert [h.tolist() for h in result.history] == [[0, 0, 1, 0, 3], [0, 0, 1, 1, 3], [0, 0, 1, 1, 3]]
    # 2 is as far from 1 as from 3: the lower index wins.
    tie = secfc.fit(
        secfc.SecFC(k=2, t=1, ell=1, init=GivenLabels([0, 0, 1, -1, -1]), max_iter=1),
        secfc.Federation.from_arrays([[[0.0]], [[2.0]], [[3.0]], [[2.0]], [[9.0]]]),
    )
    assert tie.history[1].tolist() == [0, 0, 1, 0, 1]


def test_lanes_are_dropped_exactly_where_the_largest_cluster_allows():
    points = np.random.default_rng(3).normal(size=(60, 3))
    federation = secfc.Federation.from_arrays(np.array_split(points, 5))
    plan = secfc.fit(secfc.SecFC(k=2, t=1, basis=Basis(LANE_PRIMES[:3])), federation, bound=8.0).plan
    eta = plan.quantizer.max_int
    first, second = LANE_PRIMES[0], LANE_PRIMES[0] * LANE_PRIMES[1]
    for size in range(1, 61):
        needed = distance_bound(3, eta, size)
        expected = 1 if needed < first else 2 if needed < second else 3
        assert plan.lanes(np.array([size, 60 - size if size >= 30 else 1])) == max(
            expected, plan.lanes(np.array([1]))
        )


def test_fewer_lanes_change_nothing_but_bytes():
    rng = np.random.default_rng(5)
    points = np.concatenate([rng.normal(c, 0.1, (40, 2)) for c in (-3, 0, 3)])
    federation = secfc.Federation.from_arrays(np.array_split(points, 5))
    # eta = 256, d = 2: one lane decides clusters of up to 45 points, two lanes all 120.
    init = GivenLabels([0] * 50 + [1] * 30 + [2] * 40)
    algorithm = secfc.SecFC(k=3, t=1, ell=2, init=init, basis=Basis(LANE_PRIMES[:2]), scale=64.0)
    result = secfc.fit(algorithm, federation, bound=4.0)
    plain = secfc.fit(secfc.Lloyd(k=3, init=init, scale=64.0), federation, bound=4.0)
    assert all((a == b).all() for a, b in zip(result.history, plain.history, strict=True))
    sizes = {e.nbytes for e in result.transcript.envelopes if e.kind == "CodedDistances"}
    assert sizes == {1 * 3 * 120 * 4, 2 * 3 * 120 * 4}


def test_center_separation_keeps_only_points_within_a_third():
    # 1-D: centers at 1 and 9 from {0, 2} and {8, 10}; 4 and 5 belong to neither core.
    points = np.array([[0.0], [2.0], [8.0], [10.0], [4.0], [5.0]])
    federation = secfc.Federation.from_arrays(np.split(points, 3))
    base = GivenLabels([0, 0, 1, 1, 0, 1])
    result = secfc.fit(secfc.SecFC(k=2, t=1, init=CenterSeparation(base)), federation)
    # Means are 2 and 23/3: 9 (x-2)**2 <= (x-23/3)**2 only for x in [-5/6, 41/12]; similarly above.
    assert result.history[0].tolist() == [0, 0, 1, 1, -1, -1]


def test_restarts_keep_the_cheapest():
    rng = np.random.default_rng(8)
    points = np.concatenate([rng.normal(c, 0.3, (15, 2)) for c in range(0, 40, 5)])
    federation = secfc.Federation.from_arrays(np.array_split(points, 5))
    improved = 0
    for seed in range(5):
        costs = [
            secfc.fit(secfc.SecFC(k=8, t=1, init=RandomPoints(), n_init=r), federation, seed=seed).cost
            for r in (1, 2, 5)
        ]
        assert costs == sorted(costs, reverse=True)
        improved += costs[-1] < costs[0]
    assert improved >= 3


def test_a_bound_on_clusters_buys_a_finer_scale_and_is_enforced_at_its_edge():
    points = np.concatenate([np.zeros((30, 2)), np.ones((20, 2)), np.full((10, 2), 3.0)])
    federation = secfc.Federation.from_arrays(np.array_split(points, 5))
    init = GivenLabels([0] * 30 + [1] * 20 + [2] * 10)
    coarse = secfc.fit(secfc.SecFC(k=3, t=1, init=init), federation)
    fine = secfc.fit(secfc.SecFC(k=3, t=1, init=init, largest=30), federation)
    assert fine.plan.quantizer.scale == 2 * coarse.plan.quantizer.scale
    assert (fine.flat == coarse.flat).all()
    with pytest.raises(secfc.RangeExceeded, match="a cluster of 30 points exceeds the plan's largest=29"):
        secfc.fit(secfc.SecFC(k=3, t=1, init=init, largest=29), federation)
    with pytest.raises(secfc.InputError, match="largest=-1 is too small"):
        secfc.fit(secfc.SecFC(k=3, t=1, init=init, largest=-1, scale=4.0), federation)


def test_threads_change_no_result():
    points = np.random.default_rng(9).normal(size=(3000, 7))
    federation = secfc.Federation.from_arrays(np.array_split(points, 5))
    one, two = (secfc.fit(secfc.SecFC(k=5, t=1, ell=2, threads=t), federation) for t in (1, 2))
    assert all((a == b).all() for a, b in zip(one.history, two.history, strict=True))
    assert one.cost == two.cost
