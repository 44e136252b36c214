"""FedDP-KMeans end to end: budgets, ledgers, noise, degenerate inputs, and what each party sees."""

import math
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian, pld

import secfc
from benchmarks import dp
from benchmarks.server_points import server_side_mixture
from field import SeededCoins
from secfc.algorithm import PublicFacts
from secfc.data.federation import Federation
from secfc.disclosure import NoiseInShares
from secfc.errors import FaultyServer, InputError, OverBudget, PrivacyError, SuspectedParties, TooFewReplies
from secfc.feddp import (
    OURS,
    PAPER,
    Elbow,
    FedDPInit,
    FedDPKMeans,
    GivenCenters,
    ServerKMeansPlusPlus,
    ServerLloyds,
    ServerNoise,
    SharedNoise,
    SpherePacking,
    Votes,
    aggregator,
    clients,
)
from secfc.feddp.aggregator import GroupAnswer
from secfc.feddp.clients import ClientStatistics
from secfc.feddp.messages import Choose, GroupAbout
from secfc.feddp.noise import GaussianStep, HonestCounts, Laplace
from secfc.feddp.server_estimates import (
    Proxies,
    draw_to_mean,
    group_proxies,
    leading_directions,
    split_candidates,
)
from secfc.feddp.statistics import LEAST_REACH
from secfc.metrics import accuracy
from secfc.privacy import Bound, Budget, Neighbors, RandomizedResponse, accountant
from secfc.roles.exchange import SERVER, STRIDE
from secfc.secure_sum.protocol import receive_sum
from secfc.transport.simulate import simulate
from tests.nightly import short

DELTA = 1e-6
CLIENT = Neighbors(unit="client")


def hold_mixture(seed=0, *, n=12, rows=200, d=8, k=3, **held):
    points, truth, _, server = server_side_mixture(
        n, rows, np.random.default_rng(seed), d=d, k=k, variance=0.01, **held
    )
    arrays, truths = (list(a.reshape(n, rows, *a.shape[1:])) for a in (points, truth))
    return Federation.from_arrays(arrays, truth=truths, server_points=server)


@pytest.fixture(scope="module")
def data():
    return hold_mixture()


def test_a_plan_says_where_sums_of_clients_drown_in_the_noise_that_hides_one():
    """A census of 51 states by k=10, d=124: a quarter of the noise at epsilon 1, whatever the bound is."""

    def plan(n, epsilon, unit="client", d=124):
        public = PublicFacts(
            tuple(f"c{i}" for i in range(n)), (20,) * n, d, 8.0,
            server_points=np.random.default_rng(0).normal(size=(30, d)),
        )  # fmt: skip
        return FedDPKMeans(
            10, epsilon, DELTA, neighbors=Neighbors(unit=unit), rows_per_client=20, bound=8.0
        ).plan(public)

    with pytest.warns(UserWarning, match=r"51 clients are at most 0\.28 times .* need epsilon=4, or 181"):
        few = plan(51, 1.0)
    assert round(few.signal, 2) == 0.28
    with pytest.warns(UserWarning, match="Neighbors"):
        assert round(plan(51, 3.95).signal, 1) == 1.0
    enough = plan(51, 4.1)  # a warning would be an error
    assert enough.signal > 1
    assert enough.hopeless is None
    assert plan(51, 1.0, "data point").signal is None


def test_persons_need_rows_that_say_whose_they_are_and_a_part_for_every_client(data):
    n = len(data.parties)
    person = Neighbors(unit="person", rows=2 * n)
    with pytest.raises(InputError, match=r"does not say whose each of its rows is"):
        secfc.fit(algorithm(person), data)
    with pytest.raises(InputError, match=f"rows={n - 1} of one person at n={n} clients"):
        algorithm(Neighbors(unit="person", rows=n - 1)).plan(PublicFacts.of(data))
    with pytest.raises(InputError, match="a person has many"):
        algorithm(Neighbors("replace", "person", n), labels=RandomizedResponse(1.0))
    with pytest.raises(InputError, match="hides a data point or a client"):
        NoiseInShares(Budget(1.0, DELTA), Bound.given(1.0), Neighbors("replace", "person", n))
    # Noise is that many times as wide as for a row, so residuals are clipped nearer.
    one, many = (algorithm(each).plan(PublicFacts.of(data)) for each in (Neighbors(), person))
    assert [part.deviation for part in many.outer_parts()] == [
        pytest.approx(2 * n * part.deviation) for part in one.outer_parts()
    ]
    assert many.event == one.event


def run_noisy(algorithm, data, seed=0, **more):
    return secfc.fit(algorithm, data, seed=seed, coins=lambda party: SeededCoins(seed, party), **more)


VARIANTS = pytest.mark.parametrize("variant", [OURS, PAPER], ids=["ours", "paper"])
LEVELS = pytest.mark.parametrize("neighbors", [Neighbors(), Neighbors("replace"), CLIENT], ids=str)


def algorithm(neighbors=None, *, k=3, epsilon=2.0, **more):
    neighbors = neighbors or Neighbors()
    rows = 200 if neighbors.unit == "client" else None
    more = {"noise": ServerNoise()} | more
    return FedDPKMeans(k, epsilon, DELTA, neighbors=neighbors, rows_per_client=rows, **more)


@VARIANTS
@LEVELS
def test_the_ledger_meets_the_budget_and_runs_repeat(data, variant, neighbors):
    one = algorithm(neighbors, variant=variant)
    result = run_noisy(one, data)
    spent = result.ledger.epsilon(DELTA)
    # Less than all of it where no split was asked for.
    assert 0.98 * 2.0 < spent <= 2.0 * (1 + 1e-9)
    assert result.ledger.neighbors == neighbors
    # The server added the noise itself: to its eyes nothing was private.
    assert result.ledger.epsilon(DELTA, SERVER) == math.inf
    again = run_noisy(one, data)
    np.testing.assert_array_equal(result.centers, again.centers)
    assert np.isfinite(result.centers).all()
    assert [len(part) for part in result.labels] == list(data.counts)


def test_clusters_are_found_and_labels_are_those_of_the_centers(data):
    result = run_noisy(algorithm(epsilon=8.0), data)
    assert accuracy(data.truth, result.flat) > 0.99
    predicted = np.concatenate(result.predict(data))
    np.testing.assert_array_equal(predicted, result.flat)


def test_gaussian_totals_equal_the_composition_by_hand(data):
    result = run_noisy(algorithm(steps=2), data)
    found = [e.event.noise_multiplier for e in result.ledger.entries if SERVER not in e.seen_by]
    assert len(found) == 6
    by_hand = get_epsilon_gaussian(math.fsum(z**-2 for z in found) ** -0.5, DELTA)
    assert by_hand == pytest.approx(result.ledger.epsilon(DELTA), rel=1e-6)
    # Weights 0.06 : 0.03 : 0.08 : 0.415 : 0.415 of one mechanism, once the choice of the start has its 0.02,
    # and that of a split, which is not asked for here, its 0.01.
    (split,) = result.plan.noises.splits
    shares = np.array([*found, split.multiplier]) ** -2.0
    whole = get_epsilon_gaussian(shares.sum() ** -0.5, DELTA)
    assert whole == pytest.approx(2.0, rel=1e-6)
    expected = [0.0582, 0.0291, 0.0776, 0.02, 0.40255, 0.40255, 0.01]
    np.testing.assert_allclose(shares / shares.sum(), expected, rtol=1e-6)


def test_the_papers_total_equals_the_composition_by_hand(data):
    plan = algorithm(variant=PAPER).plan(PublicFacts.of(data))
    noises = plan.noises
    steps = (noises.outer, noises.sums, noises.weights, noises.counts)
    assert [type(n) for n in steps] == [GaussianStep, GaussianStep, Laplace, Laplace]
    build = pld.privacy_loss_distribution
    total = build.from_gaussian_mechanism(noises.outer.multiplier).compose(
        build.from_gaussian_mechanism(noises.sums.multiplier)
    )
    for laplace in (noises.weights, noises.counts):
        total = total.compose(build.from_laplace_mechanism(1 / laplace.epsilon))
    assert total.get_epsilon_for_delta(DELTA) == pytest.approx(2.0, rel=2e-3)
    # App. G.4: epsilons in proportion 0.2 : 0.2 : 0.45 : 0.15, each Gaussian one at the same delta.
    sizes = [get_epsilon_gaussian(n.multiplier, DELTA) for n in steps[:2]] + [n.epsilon for n in steps[2:]]
    np.testing.assert_allclose(np.array(sizes) / sum(sizes), [0.2, 0.45, 0.2, 0.15], rtol=1e-3)


def test_more_than_the_budget_is_refused_before_data_is_touched(data):
    plan = algorithm().plan(PublicFacts.of(data))
    with pytest.raises(OverBudget, match="more than the budget of epsilon=1"):
        replace(plan, budget=Budget(1.0, DELTA))


def test_noise_of_different_steps_is_independent(data):
    # The published code draws the noise of sums and of counts from one seed.  Correlations of 400 runs of
    # noise alone: for independent noise none of these 240 exceeds 5.5/sqrt(400) but once in 10**5.
    drawn = []
    for seed in range(400):
        coins = SeededCoins(seed, "noise")
        parts = [GaussianStep(3.0).mechanism(100.0), Laplace(0.5).mechanism(10.0)]
        drawn.append(np.concatenate([p(np.zeros(12 + 8 * i, np.int64), coins=coins).values
                                     for i, p in enumerate(parts)]))  # fmt: skip
    correlation = np.corrcoef(np.array(drawn).T)[:12, 12:]
    assert np.abs(correlation).max() < 5.5 / 20
    # Control: one stream for both.
    twins = []
    for seed in range(400):
        twins.append(
            [
                m(np.zeros(1, np.int64), coins=SeededCoins(seed, "noise")).values[0]
                for m in (GaussianStep(3.0).mechanism(100.0), GaussianStep(1.0).mechanism(10.0))
            ]
        )
    assert np.corrcoef(np.array(twins).T)[0, 1] > 5.5 / 20


def test_shared_noise_hides_exact_sums_from_the_server_too(data):
    one = algorithm(noise=SharedNoise(), losses=2, epsilon=8.0, steps=0)
    result = run_noisy(one, data)
    plan = result.plan
    assert result.ledger.epsilon(DELTA, SERVER) == result.ledger.epsilon(DELTA) <= 8.0
    assert len(result.ledger.entries) == 4
    # n = 12, t = 4 colluders leave 8 whose noise counts, and 2 losses leave 6.
    assert plan.sums.honest == 6
    assert {(e.event.honest, e.event.further) for e in result.ledger.entries} == {(8, 0)}
    assert accuracy(data.truth, result.flat) > 0.95
    one = run_noisy(
        one, data, faults=lambda e: () if (e.kind, e.sender) == ("SumShares", "client-5") else (e,)
    )
    assert {(e.event.honest, e.event.further) for e in one.ledger.entries} == {(6, 8 / 6 - 1)}
    assert one.ledger.epsilon(DELTA) <= 8.0
    # A committee that must do without five of its members has no quorum for layers.
    assert algorithm(noise=SharedNoise(), losses=5).plan(PublicFacts.of(data)).sums.quorum is None


@pytest.mark.parametrize("kind", ["Project", "Choose", "GroupAbout"])
def test_a_server_that_asks_clients_different_questions_is_noticed_before_they_add(data, kind):
    seen = Counter()

    def faults(e):
        seen[e.kind] += 1
        if e.kind != kind or e.recipient != "client-7":
            return (e,)
        seen["CodedSum"] = 0
        where = {"Project": "proxies", "Choose": "starts", "GroupAbout": "origins"}[kind]
        moved = getattr(e.body, where) * 0.999
        return (replace(e, body=replace(e.body, **{where: moved})),)

    with pytest.raises(SuspectedParties, match="told something else before a sum") as caught:
        run_noisy(algorithm(steps=0), data, faults=faults)
    assert SERVER in caught.value.parties
    assert not seen["CodedSum"]


def test_a_radius_far_beyond_all_points_is_no_fault():
    near = Federation.from_arrays([np.eye(4, 2)] * 3, server_points=np.eye(9, 2))
    plan = algorithm(k=2, bound=1e6).plan(PublicFacts.of(near, 8.0))
    assert plan.scale < 1
    assert plan.outer_reach == LEAST_REACH


def test_noise_for_losses_stays_out_where_nobody_is_lost(data):
    # Variances of 465 numbers (d = 30), 15 / 10 or 15 / 7 of what is needed, with a deviation of 7 %.
    rng = np.random.default_rng(0)
    held, rows = rng.normal(size=(40, 30)), rng.normal(size=(15, 4, 30))
    one = Federation.from_arrays(list(rows), server_points=held)
    way = algorithm(noise=SharedNoise(), steps=0, epsilon=1.0)
    for noise, lost, expected in (
        (SharedNoise(), 0, 15 / 10), (SharedNoise(), 1, 14 / 7), (SharedNoise(layered=False), 0, 15 / 7)
    ):  # fmt: skip

        def faults(e, lost=lost):
            return () if lost and (e.kind, e.sender) == ("SumShares", "client-5") else (e,)

        result = run_noisy(replace(way, noise=noise), one, faults=faults)
        part, there = result.plan.outer_parts()[0], [c for c in range(15) if not lost or c != 5]
        parties = [one.parties[j] for j in there]
        exact = sum(ClientStatistics(result.plan, party.read()).outer()[0] for party in parties)
        off = result.details.server.released[0].values - exact
        assert np.mean((off / part.deviation) ** 2) == pytest.approx(expected, rel=0.25)
        assert result.ledger.epsilon(DELTA) <= 1.0


def test_the_honest_clients_noise_reaches_sigma():
    # 2000 numbers from 6 of 12 clients: the sample variance is off by 15 % about once in 10**5.
    noise, place = GaussianStep(4.0), SharedNoise()
    total = sum(
        place.share_noise(
            noise, 1000.0, np.zeros(2000, np.int64), HonestCounts(6, 6), SeededCoins(7, f"client-{j}")
        )
        for j in range(6)
    )
    assert np.std(total) == pytest.approx(4000.0, rel=0.075)


def test_enormous_budgets_are_not_spent_to_the_end(data):
    # Noise below what samplers or bounds prove anything of is never added.
    public = PublicFacts.of(data)
    for epsilon in (30.0, 1e9):
        plan = algorithm(epsilon=epsilon, noise=SharedNoise()).plan(public)
        assert 20 < accountant.epsilon(plan.event, DELTA) <= min(epsilon, 3000)
        with pytest.raises(InputError, match="proves at most 24"):
            algorithm(epsilon=epsilon, noise=ServerNoise()).plan(public)


def test_shared_noise_with_laplace_steps_is_refused(data):
    with pytest.raises(ValueError, match="Gaussian"):
        algorithm(noise=SharedNoise(), variant=PAPER).plan(PublicFacts.of(data))


# --- inputs stay, bounds are enforced --------------------------------------------------------------


@VARIANTS
@LEVELS
def test_callers_arrays_stay_as_they_are(variant, neighbors):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((30, 4)) * 100 for _ in range(6)]
    before = [a.copy() for a in arrays]
    held = rng.standard_normal((40, 4))
    data = Federation.from_arrays(arrays, server_points=held)
    run_noisy(algorithm(neighbors, k=2, variant=variant), data)
    for a, b in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(held, data.server_points)


@pytest.mark.parametrize("more", [{}, {"bound": 2.0, "start": Votes(rounds=2)}])
def test_a_row_beyond_all_floats_is_clipped_as_any_other_and_no_run_fails(data, more):
    # Whether a run fails, and what its plan says, must not depend on one row.
    held = data.server_points if not more else None
    arrays = [party.read() for party in data.parties]
    far = [np.append(arrays[0], [np.resize([1.79e308, -1.79e308], 8)], axis=0), *arrays[1:]]
    near = [np.append(arrays[0], [np.resize([1e9, -1e9], 8)], axis=0), *arrays[1:]]
    one, two = (
        run_noisy(algorithm(**more), Federation.from_arrays(each, server_points=held)) for each in (far, near)
    )
    assert one.plan.description == two.plan.description
    np.testing.assert_array_equal(one.centers, two.centers)
    assert one.details.shortened == two.details.shortened
    assert np.isfinite(one.centers).all()


def test_every_step_clips_also_those_of_the_baselines(data):
    # One point far away moves what a client adds by the bound and no more, in FedDP-Lloyds as well.
    for start, steps in ((ServerLloyds(), 1), (FedDPInit(), 0)):
        plan = algorithm(start=start, variant=PAPER).plan(PublicFacts.of(data))
        rows = data.parties[0].read()
        far = np.append(rows, [np.full(8, 1e9)], axis=0)
        centers = plan.points[:3]
        for number in (steps,):
            projection = np.eye(8) if number == 0 else None
            origins = np.zeros((3, 8))
            one, two = (
                ClientStatistics(plan, x).groups(projection, centers, origins, plan.reach)
                for x in (rows, far)
            )
            assert np.linalg.norm(two[0] - one[0]) <= plan.reach
            assert np.abs(two[1] - one[1]).sum() == secfc.feddp.statistics.UNIT


def test_many_rows_are_labeled_as_few_are(data, monkeypatch):
    # By tiles, and by doubles: far centers, equal ones, and rows as near to one as to another.
    plan = algorithm(start=ServerLloyds(), variant=PAPER).plan(PublicFacts.of(data))
    mine = ClientStatistics(plan, data.parties[0].read())
    about = mine.clipped[:4] / plan.scale
    centers = np.concatenate([about, about[:2], (about[:2] + about[2:]) / 2, about[:1] + 1e9, -about])
    few = mine.label_rows(None, centers)
    monkeypatch.setattr(clients, "FEW_VALUES", 0)
    assert "tiles" not in vars(mine)
    assert (mine.label_rows(None, centers) == few).all()
    assert "tiles" in vars(mine)
    assert len(set(few.tolist())) > 2


def test_bounds_come_from_public_points_or_the_caller(data):
    public = PublicFacts.of(data)
    assert algorithm().plan(public).radius.source == "public data"
    assert algorithm(bound=2.0).plan(public).radius == Bound.given(2.0)
    with pytest.raises(PrivacyError, match="read off private data"):
        Bound.from_private(3.0)
    leaky = run_noisy(algorithm(bound=Bound.from_private(3.0, leak=True)), data)
    assert leaky.ledger.epsilon(DELTA) == math.inf


@VARIANTS
def test_plans_do_not_depend_on_private_data(data, variant):
    other = Federation.from_arrays(
        [np.ones((5, 8)) * 1e6 for _ in data.parties], server_points=data.server_points
    )
    for neighbors in (Neighbors(), CLIENT):
        publics = [replace(PublicFacts.of(f), session=bytes(32)) for f in (data, other)]
        plans = [algorithm(neighbors, variant=variant).plan(public) for public in publics]
        assert plans[0].digest() == plans[1].digest()


def test_one_thread_holds_for_libraries_that_come_later():
    # The server needs scikit-learn, with threads of its own, after clients have used matrix products.
    code = (
        "from secfc.feddp.server_estimates import on_one_thread, one_thread\n"
        "with one_thread():\n    pass\n"
        "import sklearn.cluster\n"
        "from threadpoolctl import threadpool_info as info\n"
        "def most():\n    return max(library['num_threads'] for library in info())\n"
        "with one_thread():\n    print(most())\n"
        "print(on_one_thread(most)(), most())\n"
    )
    options = {"capture_output": True, "text": True, "check": True, "cwd": Path(__file__).parents[3]}
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "OMP_NUM_THREADS": "2"}, **options)
    assert done.stdout == "1\n1 2\n"


# --- hard inputs ------------------------------------------------------------------------------------


@VARIANTS
def test_tiny_data_and_budgets_end_with_finite_centers(variant):
    # 10 clients of 20 points: weights and counts are noise, many of them negative.
    data = hold_mixture(n=10, rows=20, k=3, per_component=2, uniform=4)
    for seed in range(3):
        result = run_noisy(algorithm(variant=variant, epsilon=0.02), data, seed)
        assert np.isfinite(result.centers).all()
        assert result.centers.shape == (3, 8)


@VARIANTS
def test_as_many_server_points_as_clusters(variant):
    data = hold_mixture(k=3, per_component=1, uniform=0)
    result = run_noisy(algorithm(variant=variant, epsilon=8.0), data)
    # Each point is alone in its group, which says nothing about how far clients' points lie from it.
    assert accuracy(data.truth, result.flat) > 0.95


def test_fewer_server_points_than_clusters_are_refused(data):
    few = Federation(data.parties, server_points=data.server_points[:2])
    with pytest.raises(InputError, match="the server holds 2 points, k=3"):
        run_noisy(algorithm(), few)
    with pytest.raises(InputError, match="the server holds 0 points"):
        run_noisy(algorithm(), Federation(data.parties))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": -1}, "steps=-1"),
        ({"start": ServerLloyds(), "steps": 0}, "nothing would be learned"),
        ({"shares": (1.0, 2.0)}, "3 positive numbers"),
        ({"epsilon": 0.0}, "epsilon=0"),
        ({"delta": 0.2}, r"delta=0\.2.* Give less than 1 / number of units"),
        ({"neighbors": CLIENT, "rows_per_client": None}, "rows_per_client=None"),
        ({"start": ServerLloyds(), "k": Elbow(5)}, "an Elbow needs"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_the_remedy(data, arguments, message):
    given = {"k": 3, "epsilon": 1.0, "delta": DELTA} | arguments
    with pytest.raises(InputError, match=message):
        run_noisy(FedDPKMeans(**given), data)


@pytest.mark.parametrize(("name", "wrong", "right"), [
    ("steps", -1, 0), ("rows_per_client", 0, 1), ("committee", 0, 1), ("t", -1, 0), ("losses", -1, 0),
    ("bound", 0.0, 0.5), ("bound", float("nan"), 2), ("bound", float("inf"), 1e9),
    ("shares", (0.0, 1.0, 1.0), (1, 1, 1)),
])  # fmt: skip
def test_numbers_that_mean_nothing_are_refused_when_it_is_made(name, wrong, right):
    with pytest.raises(InputError, match=f"{name}=.*needed. Pass"):
        FedDPKMeans(3, 1.0, DELTA, **{name: wrong})
    FedDPKMeans(3, 1.0, DELTA, **{name: right})
    with pytest.raises(InputError, match="t=3 of a committee of 3"):
        FedDPKMeans(3, 1.0, DELTA, committee=3, t=3)
    FedDPKMeans(3, 1.0, DELTA, committee=3, t=2)


@pytest.mark.parametrize("lost", [1, 3])
def test_clients_that_vanish_are_left_out(data, lost):
    def faults(e):
        return () if e.sender in data.names[:lost] and e.kind == "SumShares" else (e,)

    result = run_noisy(algorithm(epsilon=8.0), data, faults=faults)
    assert accuracy(data.truth, result.flat) > 0.99
    assert result.excluded == data.names[:lost]
    # Who hears nothing either ends for itself.
    deaf = run_noisy(
        algorithm(epsilon=8.0), data, faults=lambda e: () if "client-5" in (e.sender, e.recipient) else (e,)
    )
    assert deaf.excluded == ("client-5",)
    assert (deaf.labels[5] == -1).all()
    # Who only missed the end has no labels, but contributed.
    late = run_noisy(
        algorithm(epsilon=8.0), data,
        faults=lambda e: () if (e.kind, e.recipient) == ("NoisyCenters", "client-5") else (e,),
    )  # fmt: skip
    assert (late.excluded, (late.labels[5] == -1).all()) == ((), True)
    with pytest.raises(TooFewReplies, match="12 replies are needed"):
        run_noisy(algorithm(losses=0), data, faults=faults)


# --- initial centers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [ServerKMeansPlusPlus(), ServerLloyds(), SpherePacking()])
def test_every_start_runs_through_the_same_lloyd_steps(data, start):
    result = run_noisy(algorithm(start=start, steps=2), data)
    what = [e.what for e in result.ledger.entries if SERVER not in e.seen_by]
    assert what == [f"sums and counts of step {i} of FedDP-Lloyds" for i in (1, 2)]
    assert result.ledger.epsilon(DELTA) == pytest.approx(2.0)


def test_given_centers_of_private_origin_make_the_run_non_private(data):
    centers = np.stack([data.stacked()[data.truth == h].mean(axis=0) for h in range(3)])
    private = run_noisy(algorithm(start=GivenCenters(centers)), data)
    assert private.ledger.epsilon(DELTA) == math.inf
    assert accuracy(data.truth, private.flat) == 1
    public = run_noisy(algorithm(start=GivenCenters(centers, public=True)), data)
    assert public.ledger.epsilon(DELTA) == pytest.approx(2.0)


def test_spheres_are_packed_apart():
    points = np.random.default_rng(0).standard_normal((50, 3))
    radius = np.linalg.norm(points, axis=1).max()
    centers = SpherePacking().draw_centers(points, 4, np.random.default_rng(1))
    gaps = [np.linalg.norm(centers[i] - centers[j]) for i in range(4) for j in range(i)]
    to_wall = radius - np.abs(centers).max()
    # Four spheres of radius r/2 fit, and random search finds nearly that.
    assert min(min(gaps) / 2, to_wall) > 0.3 * radius


def test_a_step_of_lloyd_is_taken_and_the_start_has_more_of_a_small_budget(data):
    public = PublicFacts.of(data)

    def steps(one):
        return len(one.plan(public).noises.lloyd)

    def start(neighbors, epsilon):
        """The share of the budget that the outer product has."""
        plan = algorithm(neighbors, epsilon=epsilon).plan(public)
        return sum(e.noise_multiplier**-2 for e in plan.event.events[:1]) / sum(
            e.noise_multiplier**-2 for e in plan.event.events
        )

    for neighbors in (None, CLIENT):
        assert [steps(algorithm(neighbors, epsilon=e)) for e in (0.1, 4.0)] == [3, 3]
    # The rest is for choices: that of the start, and where rows are protected, of splits before two steps.
    for neighbors, rest, epsilons, shares in (
        (None, 0.96, (0.1, 0.3, 0.5, 1.0), (0.22, 0.1, 0.08, 0.06)),
        (CLIENT, 0.98, (0.5, 1.0), (0.2, 0.12)),
    ):
        found = [start(neighbors, epsilon) for epsilon in epsilons]
        np.testing.assert_allclose(found, rest * np.array(shares), rtol=1e-6)
    # One cluster is not split, nor are several of one feature: nothing is set aside for it.
    narrow = Federation.from_arrays([np.ones((9, 1))] * 5, server_points=np.arange(9.0)[:, None])
    for way, given, many in (
        (algorithm(), data, 2), (algorithm(k=1), data, 0), (algorithm(k=2), narrow, 0),
    ):  # fmt: skip
        noises = way.plan(PublicFacts.of(given)).noises
        assert len(noises.splits) == many
        squares = [one.multiplier**-2 for one in (noises.choice, noises.lloyd[0][0])]
        assert squares[1] / squares[0] == pytest.approx(0.83 / 3 * (0.98 - 0.01 * many) / 0.02)
    assert steps(algorithm(variant=PAPER, epsilon=2.0)) == 0
    assert steps(algorithm(start=ServerLloyds(), epsilon=0.1)) == 1


def missing(held=3, k=9, d=12):
    """A federation of k clusters, of which the server has points of `held` alone."""
    rng = np.random.default_rng(3)
    means = rng.normal(size=(k, d)) * 3
    label, own = rng.integers(k, size=9000), rng.integers(held, size=150)
    points, server = (means[z] + rng.normal(size=(len(z), d)) for z in (label, own))
    return Federation.from_arrays(np.array_split(points, 5), server_points=server), means


def cost_of(centers, points):
    return float(((points[:, None] - centers[None]) ** 2).sum(2).min(1).mean())


def test_the_choice_is_asked_after_sums_and_finds_clusters_that_the_server_has_no_points_of():
    data, means = missing()
    points = np.concatenate([party.read() for party in data.parties])
    result = run_noisy(algorithm(k=9, epsilon=8.0), data)
    asked = [one.what for one in result.ledger.entries if SERVER not in one.seen_by]
    assert asked.index("choice of the start") == asked.index("sums and counts") + 1
    one_step = run_noisy(algorithm(k=9, epsilon=8.0, start=ServerLloyds(), steps=1), data)
    best, ours, rival = (cost_of(c, points) for c in (means, result.centers, one_step.centers))
    assert ours - best < 0.3 * (rival - best)


def test_few_rows_far_from_all_centers_decide_the_choice_of_the_start(monkeypatch):
    """FedDP-Init cuts a large cluster in two and leaves out a small one, which the server has points of."""
    rng = np.random.default_rng(6)
    means, label = np.array([[0.0, 0.0], [6.0, 0.0], [30.0, 0.0]]), rng.choice(3, 3100, p=(0.67, 0.3, 0.03))
    points = means[label] + rng.normal(size=(3100, 2))
    data = Federation.from_arrays(np.array_split(points[100:], 5), server_points=points[:100])
    plain = aggregator.Aggregator.centers

    def poor(books, number, *given):
        found = yield from plain(books, number, *given)
        return found if number else np.array([[-0.7, 0.0], [0.7, 0.0], [6.0, 0.0]]) - books.plan.origin

    monkeypatch.setattr(aggregator.Aggregator, "centers", poor)
    assert cost_of(run_noisy(algorithm(steps=1), data).centers, points) < 3
    # Control: clipped at what nine rows in ten say, most rows are for the cut.
    monkeypatch.setattr(aggregator, "clipped_least", lambda *given: 0.9)
    assert cost_of(run_noisy(algorithm(steps=1), data).centers, points) > 10


def test_where_centers_move_by_noise_alone_a_question_is_asked_again_and_answers_are_joined():
    rng = np.random.default_rng(0)
    means = np.eye(6) * 8
    points, server = (means[rng.integers(6, size=m)] + rng.normal(size=(m, 6)) for m in (6000, 3000))
    data = Federation.from_arrays(np.array_split(points, 5), server_points=server)

    def asked(k, epsilon, data):
        result = run_noisy(algorithm(k=k, epsilon=epsilon), data, keep_bodies=True)
        heard = [e for e in result.transcript.envelopes if e.recipient == "client-0"]
        found = [e.body for e in heard if isinstance(e.body, GroupAbout)][1:]
        assert len(found) == 3
        return found

    first, *more = asked(6, 0.3, data)
    for one in more:
        np.testing.assert_array_equal(one.centers, first.centers)
        assert one.reach == first.reach
    first, second, _ = asked(9, 20.0, missing()[0])
    assert (first.centers != second.centers).any()


def test_two_answers_together_have_the_noise_of_both_budgets():
    one, two = (
        GroupAnswer(np.full((1, 2), s), np.array([c]), dev, 2 * dev, 40, 0.9, ())
        for s, c, dev in ((1.0, 10.0, 1.0), (2.0, 20.0, 2.0))
    )
    both = one.join(two)
    np.testing.assert_allclose(both.sums, 1.2)
    np.testing.assert_allclose(both.counts, 12.0)
    assert both.deviation == pytest.approx(0.8**0.5)
    assert both.miscounted == pytest.approx(2 * 0.8**0.5)


def test_rows_beyond_the_radius_of_the_outer_product_still_move_centers():
    """Two clusters of three lie beyond the 90 % quantile: no budget removes a radius that is too small."""
    rng = np.random.default_rng(1)
    means = np.array([[0.0, 0], [0, 0.5], [40, 0], [-40, 3]])
    held = [0] * 140 + [1] * 140 + [2] * 12 + [3] * 8
    points = means[rng.integers(4, size=8000)] + 0.1 * rng.normal(size=(8000, 2))
    server = means[held] + 0.1 * rng.normal(size=(300, 2))
    data = Federation.from_arrays(np.array_split(points, 5), server_points=server)
    result = run_noisy(algorithm(k=4, epsilon=2.0), data)
    plan = result.plan
    assert plan.outer_reach < 0.3 * plan.reach
    assert cost_of(result.centers, points) < 0.1
    short = replace(algorithm(k=4, epsilon=2.0), bound=plan.outer_reach / plan.scale)
    assert cost_of(run_noisy(short, data).centers, points) > 100


def test_centers_of_few_points_are_drawn_to_the_mean_as_far_as_they_scatter_by_chance():
    rng = np.random.default_rng(0)
    noise, apart = rng.normal(size=(60, 50)), rng.normal(size=(60, 50)) + 30 * np.eye(50)[np.arange(60) % 6]
    for points, least, most in ((noise, 0.0, 0.6), (apart, 0.95, 1.0)):
        groups = group_proxies(Proxies(points, None, np.ones(60)), 6, 0)
        drawn, mean = draw_to_mean(groups, points), points.mean(axis=0)
        part = np.linalg.norm(drawn - mean) / np.linalg.norm(groups.anchors - mean)
        assert least <= part <= most


def test_many_server_points_are_merged_and_share_weights():
    data = hold_mixture(per_component=60, uniform=120, k=2)
    one = algorithm(k=2, variant=replace(OURS, merged=20))
    assert one.plan(PublicFacts.of(data)).weighted_count == 40
    result = run_noisy(one, data)
    proxies = result.details.server.proxies
    assert proxies.weights.shape == (240,)
    assert len(set(proxies.weights[proxies.weights > 0])) <= 40
    assert accuracy(data.truth, result.flat) > 0.95


def test_directions_are_those_that_stand_out_of_the_noise():
    # Noise of sd 3 on 60 features, beside a variance that all directions share: its eigenvalues reach
    # 2 * 3 * sqrt(60) = 46 about 1000, and those above them by 100 are found, from k on and up to 2 k.
    rng = np.random.default_rng(0)
    upper = np.triu(rng.normal(0, 3, (60, 60)), 1)
    for spikes, found in ((0, 4), (3, 4), (6, 6), (20, 8)):
        matrix = upper + upper.T + np.diag(1000.0 + 100 * (np.arange(60) < spikes))
        directions = leading_directions(matrix, 3.0, 4, 8)
        assert directions.shape == (60, found)
        np.testing.assert_allclose(directions.T @ directions, np.eye(found), atol=1e-9)
        if spikes:
            assert (directions[:spikes, -min(spikes, found) :] ** 2).sum() > 0.8 * min(spikes, found)
    assert leading_directions(np.eye(3), 1.0, 4, 8).shape == (3, 3)


# --- choosing k ---------------------------------------------------------------------------------------


def test_the_elbow_finds_k_at_no_cost():
    data = hold_mixture(k=5, n=12, rows=400)
    result = run_noisy(algorithm(k=Elbow(12), epsilon=4.0), data)
    assert result.k == 5
    assert 0.98 * 4.0 < result.ledger.epsilon(DELTA) <= 4.0 * (1 + 1e-9)


def test_elbows_by_hand():
    from secfc.feddp.server_estimates import elbow

    assert elbow(np.array([100.0, 60, 10, 9, 8, 7])) == 3
    assert elbow(np.array([5.0, 5, 5])) == 1


# --- views --------------------------------------------------------------------------------------------


def test_golden_views(data):
    done = run_noisy(algorithm(steps=1), data, keep_bodies=True)
    n, c, sums = 12, 12, 5
    to_server = Counter(e.kind for e in done.transcript.received(SERVER))
    assert to_server == {"Hello": n, "Contributors": c * sums, "CodedSum": c * sums}
    to_client = Counter(e.kind for e in done.transcript.received("client-3"))
    assert to_client == {
        "Hello": n,
        "SumShares": (n - 1) * sums,
        "SumDigest": (n - 1) * sums,
        "Contributors": sums,
        "Project": 1,
        "Choose": 1,
        "GroupAbout": 2,
        "NoisyCenters": 1,
        "LastDigest": n - 1,
    }


def test_clients_outside_the_committee_speak_to_it_and_the_server_alone():
    data = hold_mixture(n=20)
    done = run_noisy(algorithm(steps=1, committee=5), data, keep_bodies=True)
    committee = {e.sender for e in done.transcript.envelopes if e.kind == "CodedSum"}
    assert len(committee) == 5
    for e in done.transcript.envelopes:
        assert {e.sender, e.recipient} & {*committee, SERVER}, "no word between those who do not add"
    kinds = Counter(e.kind for e in done.transcript.envelopes if e.sender not in {*committee, SERVER})
    assert kinds == {"PlanDigest": 15 * 6, "SumShares": 15 * 5 * 5, "LastDigest": 15 * 5}
    assert not [e for e in done.transcript.envelopes if e.kind == "Hello"], "descriptions grow with n"


def test_a_server_that_asks_for_more_steps_than_planned_is_refused(data):
    one = algorithm()
    plan = one.plan(PublicFacts.of(data))

    def twice(role):
        """The server's role, asking once more at the end."""
        inbox = None
        while True:
            exchange = role.send(inbox)
            if exchange.phase == "finish":
                centers = next(iter(exchange.send.values())).centers
                again = GroupAbout(centers, centers, 10, ())
                yield replace(exchange, send=dict.fromkeys(plan.clients, again))
                return
            inbox = yield exchange

    roles = {p.name: one.client(plan, p, coins=SeededCoins(0, p.name)) for p in data.parties}
    roles[SERVER] = twice(one.server(plan, rng=np.random.default_rng(0), coins=SeededCoins(0, SERVER)))
    with pytest.raises(FaultyServer, match="GroupAbout out of turn"):
        simulate(roles)


@pytest.mark.parametrize("turn", [1, 2], ids=["before the first step", "twice before the second"])
def test_a_server_that_asks_for_more_splits_than_planned_is_refused(data, turn):
    one = algorithm()
    plan = one.plan(PublicFacts.of(data))

    def asks_for_splits(role):
        """The server's role, with a choice in place of every question from this step on."""
        steps, inbox = 0, None
        while True:
            exchange = role.send(inbox)
            if any(isinstance(told, GroupAbout) for told in exchange.send.values()):
                steps += 1
                if steps > turn:
                    starts = np.stack([next(iter(exchange.send.values())).centers] * 2)
                    told = dict.fromkeys(plan.clients, Choose(starts, 10, ()))
                    yield replace(exchange, send=told)
                    yield from receive_sum(plan.sums, 1, exchange.round + 1)
                    yield replace(exchange, send=told, round=exchange.round + STRIDE)
                    return
            inbox = yield exchange

    roles = {p.name: one.client(plan, p, coins=SeededCoins(0, p.name)) for p in data.parties}
    roles[SERVER] = asks_for_splits(
        one.server(plan, rng=np.random.default_rng(0), coins=SeededCoins(0, SERVER))
    )
    with pytest.raises(FaultyServer, match="Choose out of turn"):
        simulate(roles)


def test_a_sealed_run_says_nothing_in_the_clear(data):
    small = Federation(data.parties[:4], server_points=data.server_points)
    result = run_noisy(algorithm(epsilon=8.0), small, sealed=True)
    assert {e.kind for e in result.transcript.envelopes} == {"Greeting", "Countersign", "Sealed"}
    assert accuracy(small.truth, result.flat) > 0.95


def test_a_center_between_two_clusters_is_found_in_the_moments_and_split():
    """Clusters 0 and 1 share a center, cluster 2 has two; of rows nothing is known but their moments."""
    rng = np.random.default_rng(0)
    means = np.eye(4)[:3] * 6
    points = np.repeat(means, 500, axis=0) + rng.normal(size=(1500, 4))
    moments, counts = points.T @ points, np.array([1000.0, 250.0, 250.0])
    centers = np.stack([(means[0] + means[1]) / 2, means[2] + 0.1, means[2] - 0.1])
    candidates = split_candidates(moments, 1.0, centers, counts)
    assert len(candidates) == 2
    off = [np.linalg.norm(each[:, None] - means, axis=2).min(axis=0).max() for each in candidates]
    assert min(off) < 0.8 < 3 < max(off)  # which of them it is, clients say
    # Right centers, one direction that noise explains, or spread in all directions alike: nothing to split.
    assert split_candidates(moments, 1.0, means, np.full(3, 500.0)) == ()
    assert split_candidates(moments, 1e4, centers, counts) == ()
    assert split_candidates(moments + 1e5 * np.eye(4), 1.0, centers, counts) == ()


@pytest.mark.nightly
@pytest.mark.parametrize("epsilon", [2.0, 16.0])
def test_two_clusters_of_which_the_server_has_no_point_are_found(epsilon, monkeypatch):
    cell = {"setting": "silo", "unit": "data point", "k": 10, "chosen": "", "clients": 100, "rows": 1000,
            "missing": 2, "method": "ours", "epsilon": epsilon, "seed": 3}  # fmt: skip
    (found,) = dp.measure(cell, 1, None)
    assert found["excess"] < {2.0: 0.05, 16.0: 0.005}[epsilon]
    monkeypatch.setattr(aggregator, "split_candidates", lambda *given: ())
    (without,) = dp.measure(cell, 1, None)
    assert without["excess"] > 0.5


def test_before_later_steps_clients_are_asked_for_another_split_where_noisy_moments_show_one(monkeypatch):
    rng = np.random.default_rng(5)
    means = rng.random((8, 40)) * 2
    label, own = rng.integers(8, size=16_000), rng.integers(5, size=150)
    points, server = (means[z] + 0.6 * rng.normal(size=(len(z), 40)) for z in (label, own))
    data = Federation.from_arrays(np.array_split(points, 5), server_points=server)

    def play():
        result = run_noisy(algorithm(k=8, epsilon=16.0), data)
        asked = [one.what for one in result.ledger.entries if SERVER not in one.seen_by]
        choices = [one.noise for one in result.details.server.released if one.what.startswith("choice")]
        assert max(choices) < 300 * min(choices)  # all of them in data units squared, not in steps
        spent = result.ledger.epsilon(DELTA)
        assert spent <= 16.0 * (1 + 1e-9)
        return cost_of(result.centers, points) - cost_of(means, points), "choice of a split" in asked

    found, asked = play()
    assert asked
    assert found < 0.02
    # Control: with the split that comes with the choice of the start alone, a cluster stays lost.
    monkeypatch.setattr(aggregator, "choose_split", lambda plan, books, centers, number: none(centers))
    left, asked = play()
    assert not asked
    assert left > 0.1


def none(centers):
    return centers
    yield


@pytest.mark.nightly
def test_errors_of_centers_halve_with_every_step_down_to_noise():
    """Theorem 2: |mu - nu_T| <= c (2**-T sqrt(n / |G|) sigma + T Delta log(n) / (epsilon n w))."""
    rng = np.random.default_rng(1)
    means = 6.0 * np.eye(8)[:3]
    points = np.repeat(means, 1000, axis=0) + rng.normal(size=(3000, 8))
    federation = Federation.from_arrays(np.array_split(points, 5), server_points=points[:60] + 0.1)
    start = means + 0.45 * (np.roll(means, 1, axis=0) - means)  # many points are nearer to another one
    errors = {0: np.linalg.norm(start - means, axis=1).max()}
    for steps in short((1, 4), nightly=(1, 2, 4)):
        way = FedDPKMeans(
            3, 20.0, 1e-6, steps=steps, start=GivenCenters(start), variant=PAPER, noise=ServerNoise()
        )
        centers = secfc.fit(way, federation, seed=steps).centers
        errors[steps] = np.linalg.norm(centers - means, axis=1).max()
    floor = 0.35  # of 1000 rows a cluster, and of noise
    assert errors[1] > floor  # one step is not enough, so that it is steps that do it
    assert all(error <= errors[0] / 2**t + floor for t, error in errors.items())
    assert errors[4] < floor
