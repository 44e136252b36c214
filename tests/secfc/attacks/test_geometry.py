"""The geometry attack: what distances, segments and known points give away, and that it can fail."""

import dataclasses

import numpy as np
import pytest

import secfc
from secfc.attacks.geometry import (
    Geometry,
    Simplex,
    averaging_matrix,
    labels_only,
    locate_points,
    reconstruct_geometry,
)
from secfc.attacks.judging import (
    GuessJudgement,
    between_share,
    judge_guess,
    plot_shares,
    report_lines,
)
from secfc.attacks.views import CannotDecode
from secfc.coded_kmeans.adversary_view import DecodedView
from secfc.data.inputs import build_algorithm
from secfc.kmeans.starts import GivenLabels, KMeansPlusPlus, RandomLabels, RandomPoints
from secfc.roles.exchange import SERVER
from tests.nightly import by_night, every

N = 5  # clients: the fewest for ell=2, t=1


def mixture(m, d, k, sd, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.uniform(-50, 50, (k, d))
    return centers[rng.integers(0, k, m)] + sd * rng.standard_normal((m, d))


class Case:
    """A run, the points as the protocol rounded them, and views of it."""

    def __init__(self, points, k, *, seed=0, faults=None, **parameters):
        self.federation = secfc.Federation.from_arrays(np.array_split(points, N))
        algorithm = build_algorithm(
            secfc.SecFC,
            k=k,
            t=1,
            ell=2,
            **{
                "init": secfc.RandomLabels(),
                "disclosure": secfc.Distances(),
                "coarse": "allow",
                **parameters,
            },
        )
        extra = {} if faults is None else {"faults": faults(algorithm)}
        self.result = secfc.fit(algorithm, self.federation, seed=seed, keep_bodies=True, **extra)
        quantizer = self.result.plan.quantizer
        self.points = quantizer(points) / quantizer.scale

    def view(self, *parties):
        return DecodedView.of(self.result, self.result.plan, parties or SERVER, self.federation)


@pytest.fixture(scope="module")
def full():
    """d=20, k=4, with restarts enough that the centers seen span everything."""
    return Case(mixture(400, 20, 4, 20), 4, n_init=4)


@pytest.fixture(scope="module")
def partial():
    """d=20, k=4, one restart of two iterations without blinding: rank below d."""
    return Case(mixture(400, 20, 4, 20), 4, max_iter=2, disclosure=secfc.Distances(blind=False))


# --- what it recovers ----------------------------------------------------------------------------


@pytest.mark.parametrize("init", every(2, [RandomLabels(), RandomPoints(), KMeansPlusPlus()]), ids=repr)
@pytest.mark.parametrize(("m", "sd"), [(400, 20), *by_night((1000, 1))])
def test_everything_is_recovered_once_the_rank_is_d(init, m, sd):
    case = Case(mixture(m, 20, 4, sd), 4, init=init, n_init=8)
    judgement = judge_guess(reconstruct_geometry(case.view()), case.points)
    assert judgement.ranks[-1] == 20
    assert judgement.error[-1] < 1e-6
    assert judgement.share[-1] > 1 - 1e-12
    assert judgement.pairs < 1e-6
    # Positive control: before the rank is d the same judge finds a larger error.
    assert judgement.ranks[0] < 20
    assert judgement.error[0] > 1e-2
    assert sorted(judgement.ranks) == list(judgement.ranks)


def test_every_step_is_the_projection_on_the_centers_seen(full):
    geometry = reconstruct_geometry(full.view())
    centered = full.points - full.points.mean(axis=0)
    seen = np.empty((0, 20))
    for step, question in enumerate(full.view().questions()):
        seen = np.vstack([seen, averaging_matrix(question.labels, question.k) @ full.points])
        directions = seen - seen.mean(axis=0)
        values, axes = np.linalg.svd(directions, full_matrices=False)[1:]
        axes = axes[values > 1e-9 * values[0]]
        assert geometry.ranks[step] == len(axes)
        found, true = geometry.after(step), centered @ axes.T
        np.testing.assert_allclose(found @ found.T, true @ true.T, atol=1e-6)


def test_the_attacker_knows_how_much_it_recovered(partial):
    geometry = reconstruct_geometry(partial.view())
    centers = np.vstack(
        [averaging_matrix(q.labels, q.k) @ partial.points for q in partial.view().questions()]
    )
    axes = np.linalg.svd(centers - centers.mean(axis=0), full_matrices=False)[2][: geometry.ranks[-1]]
    centered = partial.points - partial.points.mean(axis=0)
    inside = ((centered @ axes.T) ** 2).sum()
    assert geometry.claim == pytest.approx(inside / (centered**2).sum(), rel=1e-9)
    origin = centers[0] - partial.points.mean(axis=0)
    outside = ((centered - origin) ** 2).sum(axis=1) - (((centered - origin) @ axes.T) ** 2).sum(axis=1)
    np.testing.assert_allclose(geometry.outside, outside, rtol=1e-9)
    judgement = judge_guess(geometry, partial.points)
    assert 0.3 < geometry.claim <= judgement.share[-1] + 1e-9 < 1
    # Distances of pairs are known far better than the rank suggests.
    assert judgement.pairs < judgement.error[-1] / 4


def test_a_case_worked_by_hand():
    # Centers (0, 0) and (4, 3): one direction, (4, 3) / 5, along which the points lie at these places.
    points = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 6.0], [4.0, 3.0], [4.0, 3.0]])
    along = np.array([0.0, 6.4, 3.6, 5.0, 5.0])
    case = Case(points, 2, init=GivenLabels(np.array([0, 1, 1, 1, 1])), max_iter=1, scale=1.0)
    geometry = reconstruct_geometry(case.view())
    assert geometry.ranks[0] == 1
    found = geometry.after(0)[:, 0]
    np.testing.assert_allclose(np.abs(found - found[0]), along, atol=1e-12)


@pytest.mark.parametrize("shift", [0.0, 1000.0])
def test_numbers_stay_sound_for_tight_far_clusters(shift):
    case = Case(mixture(2000, 15, 5, 0.05) + shift, 5, n_init=10, init=KMeansPlusPlus(), scale=2.0**12)
    geometry = reconstruct_geometry(case.view())
    judgement = judge_guess(geometry, case.points)
    assert judgement.ranks[-1] == 15
    assert judgement.error[-1] < 1e-6


def test_what_was_asked_twice_and_empty_clusters_add_nothing():
    # Cluster 2 is empty; the clustering is stable, so the question for the cost repeats the last one.
    points = np.repeat([[0.0, 0, 0], [9.0, 1, 0]], 10, axis=0) + np.linspace(0, 0.1, 20)[:, None]
    case = Case(points, 3, init=GivenLabels(np.repeat([0, 1], 10)), max_iter=1, coarse="allow")
    geometry = reconstruct_geometry(case.view())
    questions = list(case.view().questions())
    assert (questions[-1].labels == questions[0].labels).all()
    assert geometry.ranks == (1,) * len(questions)
    assert np.isfinite(geometry.points).all()
    assert np.isfinite(geometry.outside).all()


def test_an_empty_cluster_is_no_center_at_the_origin():
    # Taken for one, it would add a direction that no center has, and spoil the others.
    labels = np.random.default_rng(0).integers(0, 3, 300)
    case = Case(mixture(300, 8, 3, 1) + 30, 4, init=GivenLabels(labels), max_iter=1)
    geometry = reconstruct_geometry(case.view())
    centers = averaging_matrix(labels, 3) @ case.points
    axes = np.linalg.svd(centers - centers.mean(axis=0), full_matrices=False)[2][:2]
    true = (case.points - case.points.mean(axis=0)) @ axes.T
    assert geometry.ranks[0] == 2
    np.testing.assert_allclose(geometry.after(0) @ geometry.after(0).T, true @ true.T, atol=1e-6)


def test_equal_points_have_no_shape():
    case = Case(np.full((20, 3), 2.5), 2)
    geometry = reconstruct_geometry(case.view())
    assert set(geometry.ranks) == {0}
    assert (geometry.outside == 0).all()
    assert judge_guess(geometry, case.points).error[-1] == 0.0


@pytest.mark.parametrize("k", [1, 7])
def test_one_feature(k):
    case = Case(mixture(60, 1, 3, 2.0), k, init=KMeansPlusPlus())
    judgement = judge_guess(reconstruct_geometry(case.view()), case.points)
    assert judgement.ranks[-1] <= 1
    if k > 1:
        assert judgement.error[-1] < 1e-9


# --- segments ------------------------------------------------------------------------------------


def test_segments_give_strictly_more_without_blinding(partial):
    summed = judge_guess(reconstruct_geometry(partial.view()), partial.points)
    split = judge_guess(reconstruct_geometry(partial.view(), segments=True), partial.points)
    for step in range(len(summed.ranks)):
        assert split.ranks[step] > summed.ranks[step]
        assert split.share[step] > summed.share[step] + 0.02
    assert split.ranks[0] == 2 * summed.ranks[0] == 6


def test_segments_of_features_that_do_not_divide():
    case = Case(mixture(200, 7, 3, 20), 3, n_init=3, disclosure=secfc.Distances(blind=False))
    judgement = judge_guess(reconstruct_geometry(case.view(), segments=True), case.points)
    assert judgement.ranks[-1] == 7
    assert judgement.error[-1] < 1e-9


def test_segments_give_nothing_with_blinding(partial):
    case = Case(mixture(400, 20, 4, 20), 4, max_iter=2)
    assert (case.result.flat == partial.result.flat).all()
    plain, blinded = partial.view(), case.view()
    for a, b in zip(plain.questions(), blinded.questions(), strict=True):
        assert (plain.distances(a) == blinded.distances(b)).all()
        assert (
            not np.isclose(plain.segment_distances(a), blinded.segment_distances(b), rtol=0.1)
            .any(axis=1)
            .all()
        )
    summed = judge_guess(reconstruct_geometry(blinded), case.points)
    assert summed == judge_guess(reconstruct_geometry(plain), partial.points)
    split = judge_guess(reconstruct_geometry(blinded, segments=True), case.points)
    assert max(split.share) == 0.0
    # Even a judge that chooses the scale finds next to nothing.
    assert similar(reconstruct_geometry(blinded, segments=True).points, case.points) < 0.2
    assert similar(reconstruct_geometry(plain, segments=True).points, case.points) > 0.9


def similar(guess, points):
    """The share of variance recovered under the best rotation, reflection and scale."""
    left, right = guess - guess.mean(axis=0), points - points.mean(axis=0)
    nuclear = np.linalg.svd(left.T @ right, compute_uv=False).sum()
    return (nuclear / (np.linalg.norm(left) * np.linalg.norm(right))) ** 2


# --- known points --------------------------------------------------------------------------------


def test_the_server_with_one_client_learns_all_points(full):
    located = locate_points(full.view(SERVER, "client-0"))
    assert located.points.shape == full.points.shape
    spread = np.linalg.norm(full.points - full.points.mean(axis=0))
    assert np.linalg.norm(located.points - full.points) / spread < 1e-6
    judgement = judge_guess(located, full.points)
    assert judgement.freedom == "none"
    assert judgement.error[-1] < 1e-6
    # Positive control: the judge allows no alignment here, so turned points are not recovered.
    turned = dataclasses.replace(located, known=located.known[:, ::-1])
    assert judge_guess(turned, full.points).error[-1] > 0.5


def test_one_iteration_gives_a_client_and_the_server_all_centers(full):
    # The span of the first question's centers is fixed exactly, although its rank is only 3.
    located = locate_points(full.view(SERVER, "client-0"))
    question = next(full.view().questions())
    W = averaging_matrix(question.labels, question.k)
    others = np.arange(80, 400)
    directions = (W[1:] - W[0]) @ full.points
    found, true = located.after(0)[others] @ directions.T, full.points[others] @ directions.T
    np.testing.assert_allclose(found, true, rtol=0, atol=1e-6 * np.abs(true).max())


@pytest.mark.parametrize(("count", "exact"), [(21, True), (20, False), (1, False)])
def test_d_plus_1_known_points_are_needed(full, count, exact):
    view = full.view(SERVER, "client-0").view
    held = view.held["client-0"]
    few = dataclasses.replace(held, rows=held.rows[:count], points=held.points[:count])
    judgement = judge_guess(
        locate_points(DecodedView(dataclasses.replace(view, held={"client-0": few}))), full.points
    )
    assert (judgement.error[-1] < 1e-6) == exact
    if not exact:
        assert judgement.error[-1] > 1e-2


def test_without_points_or_replies_the_errors_say_so(full):
    with pytest.raises(ValueError, match="hold no points"):
        locate_points(full.view())
    with pytest.raises(CannotDecode, match="client-1 saw 1 reply"):
        reconstruct_geometry(full.view("client-1"))


# --- controls: the attack can fail ---------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Noisy(DecodedView):
    """Distances replaced by noise of the same mean."""

    def distances(self, question):
        true = super().distances(question)
        return np.random.default_rng(question.number).exponential(true.mean(), true.shape)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Permuted(DecodedView):
    """The right distances, with labels that belong to other points."""

    def questions(self):
        order = np.random.default_rng(0).permutation(self.m)
        for question in super().questions():
            yield dataclasses.replace(question, labels=question.labels[order])


@pytest.mark.parametrize("kind", [Noisy, Permuted])
def test_noise_and_permuted_labels_defeat_the_attack(full, kind):
    view = full.view()
    judgement = judge_guess(reconstruct_geometry(kind(view.view)), full.points)
    assert judgement.error[-1] > 0.5
    # The same class with nothing replaced succeeds.
    assert judge_guess(reconstruct_geometry(DecodedView(view.view)), full.points).error[-1] < 1e-6


# --- labels alone, and the judge -----------------------------------------------------------------


def test_labels_alone_recover_less_than_distances_and_at_most_their_ceiling(full):
    view = full.view()
    baseline = judge_guess(labels_only(view), full.points)
    assert baseline.freedom == "similarity"
    for step, question in enumerate(view.questions()):
        assert baseline.share[step] <= between_share(question.labels, full.points) + 1e-9
    assert 0.2 < baseline.share[-1] < 0.7 < judge_guess(reconstruct_geometry(view), full.points).share[-1]


def test_a_simplex_is_recovered_by_labels_alone():
    # Positive control of the baseline: where clusters are equally far apart and tight it is the truth.
    labels = np.arange(60) % 3
    judgement = judge_guess(Simplex((SERVER,), (labels,), 3), 7.0 * np.eye(3)[labels])
    assert judgement.error[-1] < 1e-12


def test_the_judge_allows_what_the_guess_leaves_open_and_no_more():
    rng = np.random.default_rng(3)
    points = rng.normal(size=(100, 6)) * np.arange(1, 7)
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]

    def error(guess):
        return judge_guess(Geometry((SERVER,), guess, (guess.shape[1],), np.zeros(100)), points).error[0]

    assert error(points @ turn + 5.0) < 1e-12
    assert error(-points) < 1e-12
    assert error(1.5 * points) == pytest.approx(0.5)
    assert error(np.zeros((100, 0))) == pytest.approx(1.0)
    assert error(100 * rng.normal(size=(100, 6))) > 1
    assert error(points[rng.permutation(100)]) > 0.5


def test_share_is_never_negative():
    judgement = GuessJudgement((SERVER,), "isometry", 10, 2, (1, 2), (3.0, 0.5))
    assert judgement.share == (0.0, 0.75)


# --- for people ----------------------------------------------------------------------------------


def test_report_lines():
    judgement = GuessJudgement(
        (SERVER, "client-0"), "none", 500, 20, (3, 6, 6, 20), (0.8, 0.5, 0.5, 1e-9), 0.0123
    )
    assert report_lines(judgement) == [
        "the server and client-0 can place all 500 points, in data units:",
        "  after query 1 of 4:  36.0% of variance (rank  3 of 20, error 0.8)",
        "  after query 2 of 4:  75.0% of variance (rank  6 of 20, error 0.5)",
        "  after query 4 of 4: 100.0% of variance (rank 20 of 20, error 1e-09)",
        "  and tell the distance of any two points within 0.01 (median, relative)",
    ]


def test_report_lines_stay_few_and_keep_first_and_last():
    steps = tuple(range(1, 51))
    lines = report_lines(GuessJudgement((SERVER,), "isometry", 500, 50, steps, (0.5,) * 50), most=6)
    assert len(lines) == 6
    assert "after query  1 of 50" in lines[1]
    assert "after query 50 of 50" in lines[-1]


def test_nothing_secret_is_printed(full):
    view = full.view(SERVER, "client-0")
    for guess in (reconstruct_geometry(view), locate_points(view), labels_only(view)):
        assert "array" not in repr(guess)
        assert len(repr(guess)) < 300


def test_figures_are_drawn(full, tmp_path):
    pytest.importorskip("matplotlib")
    geometry = reconstruct_geometry(full.view())
    judgement = judge_guess(geometry, full.points)
    figure = plot_shares(
        {"distances": judgement, "labels": judge_guess(labels_only(full.view()), full.points)}
    )
    drawn = figure.axes[0].lines[0].get_ydata()
    np.testing.assert_allclose(drawn, 100 * np.array(judgement.share))
    figure.savefig(tmp_path / "shares.png")
    assert (tmp_path / "shares.png").stat().st_size > 1000
