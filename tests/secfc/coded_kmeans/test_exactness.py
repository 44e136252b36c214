"""The claim of the project: SecFC's labels are plaintext Lloyd's at every iteration."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import secfc
from field import Basis
from field.ring.basis import LANE_PRIMES, MERSENNE_61
from field.ring.quantize import distance_bound
from secfc.data.inputs import build_algorithm, with_parameters
from secfc.disclosure import AssignmentsOnly, Distances
from secfc.kmeans.starts import STARTS, CenterSeparation, GivenLabels, RandomPoints
from tests.nightly import trials
from tests.oracles import field as reference
from tests.strategies import coded_cases, points_of

pytestmark = pytest.mark.usefixtures("kernel_path")

LABELS = AssignmentsOnly(consent=True)
POLICIES = [Distances(), LABELS]
by_policy = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)


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


@trials(12)
@given(coded_cases(), st.sampled_from(POLICIES))
def test_labels_equal_plaintext_lloyd_at_every_iteration(case, policy):
    points = points_of(case)
    federation = secfc.Federation.from_arrays(np.array_split(points, case["n"]))
    shared = {
        "k": case["k"], "init": start_of(case, case["m"], case["k"]), "scale": case["scale"],
        "rounding": case["rounding"], "basis": case["basis"], "n_init": case["n_init"], "max_iter": 20,
        "coarse": "allow",
        "disclosure": policy if case["basis"] is None or case["basis"].can_fold else Distances(),
    }  # fmt: skip
    secure = secfc.fit(
        build_algorithm(secfc.SecFC, t=case["t"], ell=case["ell"], **shared), federation, seed=case["seed"]
    )
    if case["ell"] > 2:
        # Masks of words of many values reach further, so an automatic scale is coarser than the baseline's.
        shared |= {"scale": secure.plan.quantizer.scale}
    plain = secfc.fit(build_algorithm(secfc.Lloyd, **shared), federation, seed=case["seed"])
    assert len(secure.history) == len(plain.history)
    assert all((a == b).all() for a, b in zip(secure.history, plain.history, strict=True))
    if shared["disclosure"] is LABELS and case["n_init"] == 1:
        assert secure.cost is None, "nobody asked for the cost of the only start"
    else:
        assert secure.cost == plain.cost
    assert (secure.flat == plain.flat).all()
    # The oracle itself, from its first labels on, against Python integers and fractions.
    integers = secure.plan.quantizer(points)
    expected = reference_lloyd(integers, plain.history[0].astype(int), case["k"], 20)
    assert len(expected) == len(plain.history)
    assert all((a == b).all() for a, b in zip(plain.history, expected, strict=True))


AT_THE_BOUND = [
    (None, Distances()), (Basis((MERSENNE_61,)), Distances()), (Basis(LANE_PRIMES[:3]), Distances()),
    (None, LABELS), (Basis(LANE_PRIMES[:3]), LABELS),
]  # fmt: skip


@given(st.integers(0, 2**32), st.sampled_from(AT_THE_BOUND))
def test_data_at_the_bound_with_every_point_in_one_cluster(seed, way):
    # The largest distance the plan allows for: all points in one cluster, at opposite corners.
    rng = np.random.default_rng(seed)
    points = np.where(rng.random((24, 5)) < 0.5, -4.0, 4.0)
    points[:23] = 4.0
    points[23] = -4.0
    federation = secfc.Federation.from_arrays(np.array_split(points, 5))
    init = GivenLabels(np.zeros(24, int))
    shared = {"k": 2, "init": init, "basis": way[0], "disclosure": way[1]}
    secure = secfc.fit(build_algorithm(secfc.SecFC, t=1, ell=2, **shared), federation, bound=4.0)
    plain = secfc.fit(build_algorithm(secfc.Lloyd, **shared), federation, bound=4.0)
    assert all((a == b).all() for a, b in zip(secure.history, plain.history, strict=True))
    assert secure.cost == (plain.cost if way[1] is not LABELS else None)


def test_cost_is_that_of_float_arithmetic_on_the_quantized_points():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(300, 4))
    federation = secfc.Federation.from_arrays(np.array_split(points, 5))
    result = secfc.fit(secfc.SecFC(k=3, threshold=secfc.Threshold(1, 2), disclosure=Distances()), federation)
    from secfc.metrics import cost

    whole = result.plan.quantizer(points) / result.plan.quantizer.scale
    assert result.cost == pytest.approx(cost(whole, result.flat, 3), rel=1e-12)


@by_policy
def test_float_lloyd_agrees_within_the_quantization(policy):
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
    algorithm = secfc.SecFC(k=4, threshold=secfc.Threshold(2, 1), init=GivenLabels(labels), disclosure=policy)
    result = secfc.fit(algorithm, federation)
    theirs = KMeans(4, init=start, n_init=1, tol=0).fit(points)
    assert (theirs.labels_ == result.flat).all()
    if policy is not LABELS:
        assert result.cost == pytest.approx(theirs.inertia_, rel=1e-4)


@by_policy
def test_a_hand_worked_case_with_a_tie_an_empty_cluster_a_singleton_and_duplicates(policy):
    # 1-D points 0 0 2 4 10; clusters {0, 0, 4} and {2} and {} and {10}: centers 4/3, 2, none, 10.
    points = np.array([[0.0], [0.0], [2.0], [4.0], [10.0]])
    federation = secfc.Federation.from_arrays(np.split(points, 5))
    init = GivenLabels([0, 0, 1, 0, 3])
    result = secfc.fit(
        secfc.SecFC(k=4, threshold=secfc.Threshold(1, 1), init=init, disclosure=policy), federation
    )
    # 4 is nearer to 2 than to 4/3, so {0, 0}, {2, 4}, {}, {10}; then nothing moves but no point ties.
    assert [h.tolist() for h in result.history] == [[0, 0, 1, 0, 3], [0, 0, 1, 1, 3], [0, 0, 1, 1, 3]]
    # 2 is as far from 1 as from 3: the lower index wins.
    tie = secfc.fit(
        secfc.SecFC(k=2, threshold=1, init=GivenLabels([0, 0, 1, -1, -1]), max_iter=1, disclosure=policy),
        secfc.Federation.from_arrays([[[0.0]], [[2.0]], [[3.0]], [[2.0]], [[9.0]]]),
    )
    assert tie.history[1].tolist() == [0, 0, 1, 0, 1]


def test_lanes_are_dropped_exactly_where_the_largest_cluster_allows():
    points = np.random.default_rng(3).normal(size=(60, 3))
    federation = secfc.Federation.from_arrays(np.array_split(points, 5))
    shown = {"basis": Basis(LANE_PRIMES[:3]), "disclosure": Distances()}
    plan = secfc.fit(build_algorithm(secfc.SecFC, k=2, t=1, **shown), federation, bound=8.0).plan
    eta = plan.quantizer.max_int
    first, second = LANE_PRIMES[0], LANE_PRIMES[0] * LANE_PRIMES[1]
    for size in range(1, 61):
        needed = distance_bound(3 * plan.headroom, eta, size)
        expected = 1 if needed < first else 2 if needed < second else 3
        assert plan.lanes(np.array([size, 60 - size if size >= 30 else 1])) == max(
            expected, plan.lanes(np.array([1]))
        )


def test_fewer_lanes_change_nothing_but_bytes():
    rng = np.random.default_rng(5)
    points = np.concatenate([rng.normal(c, 0.1, (40, 2)) for c in (-3, 0, 3)])
    federation = secfc.Federation.from_arrays(np.array_split(points, 5))
    # eta = 2048, what passes for it 4368 times that, d = 2: two lanes decide clusters of up to 42 points.
    init = GivenLabels([0] * 50 + [1] * 30 + [2] * 40)
    shared = {"k": 3, "init": init, "scale": 512.0, "disclosure": Distances()}
    algorithm = build_algorithm(secfc.SecFC, t=1, ell=2, basis=Basis(LANE_PRIMES[:3]), **shared)
    result = secfc.fit(algorithm, federation, bound=4.0)
    plain = secfc.fit(build_algorithm(secfc.Lloyd, **shared), federation, bound=4.0)
    assert all((a == b).all() for a, b in zip(result.history, plain.history, strict=True))
    sizes = {e.nbytes for e in result.transcript.envelopes if e.kind == "CodedDistances"}
    row = 2 * 3  # replies of row 0, which check the others: three in each of two repetitions
    # Told in the lanes that honest rows need, and checked in those that rows which passed do.
    assert sizes == {(2 * 3 * 120 + lanes * row) * 4 for lanes in (2, 3)}


@by_policy
def test_center_separation_keeps_only_points_within_a_third(policy):
    # 1-D: centers at 1 and 9 from {0, 2} and {8, 10}; 4 and 5 belong to neither core.
    points = np.array([[0.0], [2.0], [8.0], [10.0], [4.0], [5.0]])
    federation = secfc.Federation.from_arrays(np.split(points, 3))
    base = GivenLabels([0, 0, 1, 1, 0, 1])
    result = secfc.fit(
        secfc.SecFC(k=2, threshold=1, init=CenterSeparation(base), disclosure=policy), federation
    )
    # Means are 2 and 23/3: 9 (x-2)**2 <= (x-23/3)**2 only for x in [-5/6, 41/12]; similarly above.
    assert result.history[0].tolist() == [0, 0, 1, 1, -1, -1]


def test_restarts_keep_the_cheapest():
    rng = np.random.default_rng(8)
    points = np.concatenate([rng.normal(c, 0.3, (15, 2)) for c in range(0, 40, 5)])
    federation = secfc.Federation.from_arrays(np.array_split(points, 5))
    improved = 0
    for seed in range(5):
        common = {"k": 8, "t": 1, "init": RandomPoints(), "disclosure": Distances()}
        costs = [
            secfc.fit(build_algorithm(secfc.SecFC, **common, n_init=r), federation, seed=seed).cost
            for r in (1, 2, 5)
        ]
        assert costs == sorted(costs, reverse=True)
        improved += costs[-1] < costs[0]
    assert improved >= 3


def test_a_bound_on_clusters_buys_a_finer_scale_and_is_enforced_at_its_edge():
    points = np.concatenate([np.zeros((30, 2)), np.ones((20, 2)), np.full((10, 2), 3.0)])
    federation = secfc.Federation.from_arrays(np.array_split(points, 5))
    init = GivenLabels([0] * 30 + [1] * 20 + [2] * 10)
    common = {"k": 3, "t": 1, "init": init, "disclosure": Distances()}
    coarse = secfc.fit(build_algorithm(secfc.SecFC, **common), federation)
    fine = secfc.fit(build_algorithm(secfc.SecFC, **common, largest=30), federation)
    assert fine.plan.quantizer.scale == 2 * coarse.plan.quantizer.scale
    assert (fine.flat == coarse.flat).all()
    with pytest.raises(secfc.RangeExceeded, match="a cluster of 30 points exceeds the plan's largest=29"):
        secfc.fit(build_algorithm(secfc.SecFC, **common, largest=29), federation)
    # Comparing takes room for two clusters of half the points each, so only less than that is finer.
    labels_only = dict(common, disclosure=LABELS)
    scales = [
        secfc.fit(build_algorithm(secfc.SecFC, **labels_only, largest=size), federation).plan.quantizer.scale
        for size in (60, 30)
    ]
    assert scales[0] == scales[1]
    with pytest.raises(secfc.InputError, match="largest=-1 is too small"):
        secfc.fit(build_algorithm(secfc.SecFC, **common, largest=-1, scale=4.0), federation)


@by_policy
def test_threads_change_no_result(policy):
    points = np.random.default_rng(9).normal(size=(1200, 7))
    federation = secfc.Federation.from_arrays(np.array_split(points, 5))
    algorithm = secfc.SecFC(
        k=4, threshold=secfc.Threshold(1, 2), init=RandomPoints(), max_iter=2, disclosure=policy
    )
    one, two = (
        secfc.fit(
            with_parameters(algorithm, threads=t),
            federation,
        )
        for t in (1, 2)
    )
    assert all((a == b).all() for a, b in zip(one.history, two.history, strict=True))
    assert one.cost == two.cost
