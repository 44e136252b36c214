"""Without points at the server: votes for candidates in a public ball, and sums over cones."""

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import secfc
from field import SeededCoins
from secfc.cli import main
from secfc.errors import FaultyServer, InputError, SuspectedParties
from secfc.feddp import OURS, PAPER, Cones, Elbow, FedDPKMeans, ServerLloyds, ServerNoise, SharedNoise, Votes
from secfc.feddp.auditing import audit_run, without_row
from secfc.feddp.clients import ClientStatistics, client_contributions
from secfc.feddp.messages import MEAN, NOTHING, SHELLS, GroupAbout, Narrow, Project
from secfc.feddp.noise import GaussianStep
from secfc.feddp.plan import PLACES
from secfc.feddp.server_estimates import nearest_proxy
from secfc.feddp.starts import (
    PointSpread,
    candidate_weights,
    fit_histograms,
    mean_square_along,
    random_directions,
    resample_candidates,
    sample_ball,
    shell_radius,
    vote_positions,
)
from secfc.feddp.statistics import histogram_sensitivity, shells_of, sums_sensitivity
from secfc.metrics import accuracy
from secfc.privacy import Neighbors
from tests.nightly import by_night, covering

DELTA, RADIUS = 1e-6, 3.0
CENTERS = np.array([[1.5, 1.5], [-1.5, 1.0], [0.0, -2.0]])


def hold_blobs(n=5, rows=400):
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=(n, rows))
    points = CENTERS[truth] + 0.15 * rng.normal(size=(n, rows, 2))
    return secfc.Federation.from_arrays(list(points), truth=list(truth))


def cluster_by_votes(way, data=None, seed=0, **more):
    coins = lambda party: SeededCoins(seed, f"votes {party}")  # noqa: E731
    return secfc.fit(way, data or hold_blobs(), seed=seed, coins=coins, **more)


def way(epsilon=2.0, **more):
    return FedDPKMeans(3, epsilon, DELTA, **({"bound": RADIUS} | more))


@pytest.mark.parametrize("noise", [ServerNoise(), SharedNoise()], ids=str)
@pytest.mark.parametrize("neighbors", [Neighbors(), Neighbors("replace")], ids=str)
def test_clusters_are_found_within_the_budget(noise, neighbors):
    result = cluster_by_votes(way(noise=noise, neighbors=neighbors))
    assert accuracy(hold_blobs().truth, result.flat) > 0.99
    assert 0.9 * 2.0 < result.ledger.epsilon(DELTA) <= 2.0 * (1 + 1e-9)
    what = [entry.what for entry in result.ledger.entries if "exact" not in entry.what]
    assert what[:6] == ["votes for candidates"] * 6
    assert what[-1] == "choice against one center"
    assert len(what) == 10
    assert np.linalg.norm(result.centers, axis=1).max() <= RADIUS


def test_candidates_and_rounds_grow_with_features_and_stay_as_they_are_given():
    usual = [Votes().among(100, d, 0.5) for d in (1, 2, 16, 64)]
    assert [(v.candidates, v.rounds, v.lines, v.share) for v in usual] == [
        (10, 4, 0, 0.7), (12, 6, 0, 0.7), (56, 16, 2, 0.7), (158, 32, 2, 0.7),
    ]  # fmt: skip
    assert [Votes().among(k, 2, 0.25).share for k in (3, 100)] == [0.7, 0.85]
    given = Votes(candidates=5, rounds=1, share=0.5, lines=0)
    assert given.among(100, 16, 0.25) == given


def test_no_fact_of_the_data_is_in_the_plan():
    plan = cluster_by_votes(way()).plan
    far = secfc.Federation.from_arrays([np.full((7, 2), 1e5)] * 5)
    other = cluster_by_votes(way(epsilon=2.0), far).plan
    assert plan.event == other.event
    assert (plan.reach, plan.scale, plan.points.shape) == (other.reach, other.scale, (0, 2))


@pytest.mark.parametrize("relation", ["add/remove", "replace"])
def test_votes_move_within_their_sensitivity(relation):
    """Neighbors that are on candidates, between them, at the wall and far beyond it, where votes tie."""
    plan = way(neighbors=Neighbors(relation)).plan(secfc.algorithm.PublicFacts.of(hold_blobs(), 8.0))
    candidates = sample_ball(plan.weighted_count, 2, RADIUS, np.random.default_rng(1))
    adversaries = [*candidates[:6], (candidates[0] + candidates[1]) / 2, [RADIUS, 0], [1e9, -1e9], [0, 0]]
    rows = np.random.default_rng(2).normal(size=(5, 2))

    def votes(more):
        return ClientStatistics(plan, np.vstack([rows, *more])).weights(np.eye(2), candidates)[0]

    outs = [[]] if relation == "add/remove" else [[np.array([a])] for a in adversaries]
    moved = [np.linalg.norm(votes(out) - votes([np.array([a])])) for out in outs for a in adversaries]
    (part,) = plan.weight_parts(())
    assert part.sensitivity == histogram_sensitivity(plan.neighbors)
    assert max(moved) == pytest.approx(part.sensitivity)  # attained, and never exceeded


@pytest.mark.parametrize("relation", ["add/remove", "replace"])
def test_votes_along_a_line_move_within_their_sensitivity(relation):
    """Neighbors at places of the line, half way between, across it, at the wall and far beyond."""
    plan = way(neighbors=Neighbors(relation), start=Votes(lines=1)).plan(
        secfc.algorithm.PublicFacts.of(hold_blobs(), 8.0)
    )
    line = random_directions(1, 2, np.random.default_rng(1)).T
    along_it = vote_positions(PLACES, RADIUS)
    middle = (along_it[3] + along_it[4]) / 2
    adversaries = [*(line.T * along_it[:, None])[::6], middle * line[:, 0], [-line[1, 0], line[0, 0]]]
    adversaries += [[RADIUS, 0], [1e9, -1e9], [0, 0]]
    rows = np.random.default_rng(2).normal(size=(5, 2))

    def votes(more):
        return ClientStatistics(plan, np.vstack([rows, *more])).weights(line, along_it[:, None])[0]

    outs = [[]] if relation == "add/remove" else [[np.array([a])] for a in adversaries]
    moved = [np.linalg.norm(votes(out) - votes([np.array([a])])) for out in outs for a in adversaries]
    (part,) = plan.line_parts()
    assert max(moved) == pytest.approx(part.sensitivity)  # attained, and never exceeded


@pytest.mark.parametrize("relation", ["add/remove", "replace"])
def test_sums_over_cones_move_within_their_sensitivity(relation):
    """More groups than clusters change nothing: a point is in one, or moves from one to another."""
    plan = wide_way(neighbors=Neighbors(relation)).plan(secfc.algorithm.PublicFacts.of(wide(), 8.0))
    rng = np.random.default_rng(3)
    centers = PointSpread.of([30.0], 30, 40.0).draw_cones(9, rng)  # 30 from 0, where bounds are 10
    origins, reach = centers, plan.reach // 4
    (part,) = plan.group_parts(2, 9, reach, ())
    far = [1e6 * sign * center for center in centers[:2] for sign in (1, -1)]
    sides = [much * center for center in centers[2:4] for much in (0.6, 1.4)]  # of one group, either way
    adversaries = [*far, *sides, centers[0] + centers[1], np.zeros(30), centers[4]]
    rows = rng.normal(size=(5, 30))

    def sums(more):
        return ClientStatistics(plan, np.vstack([rows, *more])).groups(None, centers, origins, reach)[0]

    outs = [[]] if relation == "add/remove" else [[np.array([a])] for a in adversaries]
    moved = [np.linalg.norm(sums(out) - sums([np.array([a])])) for out in outs for a in adversaries]
    assert part.sensitivity == sums_sensitivity(reach, plan.count_unit(reach), plan.neighbors)
    assert 0.95 * part.sensitivity < max(moved) <= part.sensitivity


@pytest.mark.parametrize(("asks", "relation"), covering([MEAN, SHELLS], ["add/remove", "replace"]))
def test_questions_about_a_ball_move_within_their_sensitivity(relation, asks):
    """Neighbors in the middle, at the wall, far beyond it on either side, and on borders of shells."""
    plan = way(neighbors=Neighbors(relation), start=Votes(boxes=1)).plan(
        secfc.algorithm.PublicFacts.of(hold_blobs(), 8.0)
    )
    told = Narrow(np.array([20.0, -7.0, RADIUS / 9]), asks)
    (part,) = plan.narrow(told.origin, told.radius).box_parts(asks)
    sizes = [0, *(told.radius * 2.0 ** (-0.5 * j) for j in range(6)), 1e9, 1.7e308]
    adversaries = [
        told.origin + size * np.array(way) for size in sizes for way in ([1, 0], [-1, 0], [-0.6, 0.8])
    ]
    rows = told.origin + np.random.default_rng(2).normal(size=(5, 2))

    def answer(more):
        mine = ClientStatistics(plan, np.vstack([rows, *more]))
        _, (vector,) = client_contributions(mine, told)
        return vector

    outs = [[]] if relation == "add/remove" else [[np.array([a])] for a in adversaries]
    moved = [np.linalg.norm(answer(out) - answer([np.array([a])])) for out in outs for a in adversaries]
    assert 0.999 * part.sensitivity < max(moved) <= part.sensitivity * (1 + 1e-12)


BALLS = {"right": (1, 0), "four times": (4, 0), "thirty times": (30, 0), "twenty off": (21, 20)}


@pytest.mark.parametrize("name", ["thirty times", *by_night("right", "four times", "twenty off")])
def test_a_ball_that_is_too_large_or_elsewhere_costs_nothing(name):
    wider, off = BALLS[name]
    arrays = [party.read() + off * RADIUS * np.array([0.6, 0.8]) for party in hold_blobs().parties]
    moved = secfc.Federation.from_arrays(arrays)
    found = cluster_by_votes(way(start=Votes(boxes=2), bound=RADIUS * wider), moved)
    truth = CENTERS + off * RADIUS * np.array([0.6, 0.8])
    apart = np.linalg.norm(truth[:, None] - found.centers[None], axis=2).min(axis=1)
    assert apart.max() < 0.3
    assert found.ledger.epsilon(DELTA) <= 2.0 * (1 + 1e-9)
    np.testing.assert_array_equal(np.concatenate(found.predict(moved)), found.flat)


def test_shells_by_hand():
    rows = np.array([[64, 0], [46, 0], [45, 0], [0, -32], [33, 0], [1, 0], [0, 0]])
    assert shells_of(rows, 64, 5).tolist() == [0, 0, 1, 2, 1, 4, 4]
    assert shell_radius(np.array([0.0, 0, 50, 900, 50]), 1.0, 8.0) == pytest.approx(4)
    assert shell_radius(np.array([3.0, -3, 2, 1, -1]), 2.0, 8.0) == 8.0  # nothing is known


def test_a_server_that_asks_about_another_ball_is_refused():
    def wider(e):
        return (replace(e, body=replace(e.body, ball=np.full(3, 99.0))) if e.kind == "Narrow" else e,)

    with pytest.raises(FaultyServer, match="another ball"):
        secfc.fit(way(start=Votes(boxes=1)), hold_blobs(), faults=wider)


def test_a_client_that_is_given_another_last_ball_than_others_ends_the_run():
    """No sum is asked for with that ball, and yet it is compared."""

    def faults(e):
        if e.kind == "Narrow" and e.recipient == "client-1" and e.body.asks == NOTHING:
            e = replace(e, body=replace(e.body, ball=e.body.ball * 0.99))
        return (e,)

    with pytest.raises(SuspectedParties, match="told something else before a sum"):
        secfc.fit(way(start=Votes(boxes=1)), hold_blobs(), faults=faults)


class Quieter(ServerNoise):
    """Half the declared noise."""

    def release_sum(self, noise, sensitivity, total, honest, coins, **more):
        return super().release_sum(
            GaussianStep(noise.multiplier / 2), sensitivity, total, honest, coins, **more
        )


def test_an_audit_of_a_run_spends_at_most_the_claim_and_refutes_half_the_noise():
    data = hold_blobs()
    less = without_row(data, data.names[0], 0)
    start = Votes(boxes=2)
    found, half = (
        audit_run(cluster_by_votes(way(noise=n, start=start), keep_bodies=True), data, less)
        for n in (ServerNoise(), Quieter())
    )
    assert {c.what for c in found.contributions} >= {"sum and number of all rows"}
    assert not found.is_refuted, found.faults
    assert 0.2 < found.share <= 1
    assert half.is_refuted


def test_clusters_that_are_noise_give_way_to_one_center_and_others_stay():
    rows = np.random.default_rng(0).normal(size=(600, 13))
    few = secfc.Federation.from_arrays(np.split(rows, 3))
    for chosen in (True, False):
        given = way(0.3, bound=8.0, noise=ServerNoise(), variant=replace(OURS, chosen=chosen))
        result = cluster_by_votes(given, few)
        assert result.ledger.epsilon(DELTA) <= 0.3 * (1 + 1e-9)
        near = ((rows[:, None] - result.centers) ** 2).sum(axis=2).min(axis=1).sum()
        single = len(np.unique(result.centers, axis=0)) == 1
        # Control: without the choice clusters cost more than the mean of all rows does.
        assert (near < 1.02 * (rows**2).sum()) == single == chosen
    assert len(np.unique(cluster_by_votes(way()).centers, axis=0)) == 3


def test_candidates_come_of_those_with_votes_and_stay_in_the_ball():
    rng = np.random.default_rng(0)
    first = sample_ball(60, 3, RADIUS, rng)
    weights = np.zeros(60)
    weights[[3, 8]] = 50.0, 400.0
    then = resample_candidates(first, weights, RADIUS, rng)
    np.testing.assert_array_equal(then[:2], first[[3, 8]])
    assert then.shape == first.shape
    assert np.linalg.norm(then, axis=1).max() <= RADIUS * (1 + 1e-12)
    alone = resample_candidates(first, np.eye(60)[0], RADIUS, rng)  # one alone reaches as far as the ball
    assert len(alone) == 60


def test_votes_of_all_rounds_say_more_than_those_of_the_last():
    """Half of the candidates are where nothing is, and noise gives each of them votes now and then."""
    rng = np.random.default_rng(4)
    points = np.repeat(CENTERS, 300, axis=0) + 0.1 * rng.normal(size=(900, 2))
    asked = [
        np.concatenate([CENTERS + 0.2 * rng.normal(size=(3, 2)), sample_ball(30, 2, 9.0, rng)])
        for _ in "12345"
    ]
    votes = [
        np.bincount(nearest_proxy(points, each), minlength=33) + 60.0 * rng.normal(size=33) for each in asked
    ]
    able = [candidate_weights(v, 60.0, 3) > 0 for v in votes]
    every = np.concatenate([each[there] for each, there in zip(asked, able, strict=True)])
    weights = fit_histograms(every, asked, votes, 60.0, 3)

    def astray(candidates, found):
        away = np.linalg.norm(candidates[:, None] - CENTERS, axis=2).min(axis=1) > 1
        return found[away].sum()

    assert weights.min() >= 0
    assert 600 < weights.sum() < 1100  # of 900 votes; what is drawn to 0 is some of each
    last = max(astray(each, candidate_weights(v, 60.0, 3)) for each, v in zip(asked, votes, strict=True))
    assert last > 100  # in one round alone noise is as good as a cluster
    assert astray(every, weights) < last / 2
    assert np.count_nonzero(fit_histograms(every, asked, [-v for v in votes], 60.0, 3)) == 3


def test_the_spread_of_points_follows_from_their_votes_along_lines():
    rng = np.random.default_rng(5)
    points = rng.normal(size=(4000, 40)) * 0.5 + 0.2
    found = []
    for _ in range(20):
        on = points @ random_directions(1, 40, rng)[0]
        counts = np.bincount(
            nearest_proxy(on[:, None], vote_positions(PLACES, 20.0)[:, None]), minlength=PLACES
        )
        found.append(mean_square_along(counts + 100.0 * rng.normal(size=PLACES), 100.0, 20.0))
    spread = PointSpread.of(found, 40, 20.0)
    square = (points**2).sum(axis=1).mean()
    assert 0.7 * square < spread.square < 1.4 * square
    about = spread.about(points.mean(axis=0)[None])
    assert about.square < spread.square
    assert about.reach < spread.reach < 20.0
    apart = np.concatenate([about.mean + 2.0, about.mean - 2.0])
    assert about.within(apart, np.array([500.0, 500.0])).reach < about.reach
    assert np.sqrt(square) * 0.8 < spread.ball_radius(20.0) < np.sqrt(square) * 1.25
    assert spread.ball_radius(1.0) == 1.0  # candidates stay in the public ball


def test_cones_are_fewer_where_noise_is_more_and_begin_at_the_mean():
    spread = PointSpread.of([1.0], 40, 20.0)
    assert [spread.groups(2000.0, noise, 4, 12) for noise in (1.0, 10.0, 1000.0)] == [12, 9, 4]
    centers = spread.draw_cones(6, np.random.default_rng(0))
    away = np.linalg.norm(centers - spread.mean, axis=1)
    np.testing.assert_allclose(away, away[0])


def wide(n=5, rows=400):
    """Three clusters in 30 features, as far apart as their points are wide."""
    rng = np.random.default_rng(6)
    truth = rng.integers(3, size=(n, rows))
    centers = 1.5 * rng.normal(size=(3, 30))
    points = centers[truth] + 0.5 * rng.normal(size=(n, rows, 30))
    return secfc.Federation.from_arrays(list(points), truth=list(truth))


def wide_way(**more):
    return FedDPKMeans(3, 2.0, DELTA, **({"bound": 40.0} | more))


@pytest.mark.parametrize("noise", [ServerNoise(), SharedNoise()], ids=str)
@pytest.mark.parametrize("neighbors", [Neighbors(), Neighbors("replace")], ids=str)
def test_where_features_are_many_sums_over_cones_find_clusters_within_the_budget(noise, neighbors):
    result = cluster_by_votes(wide_way(noise=noise, neighbors=neighbors), wide())
    assert isinstance(result.plan.start, Cones)
    assert accuracy(wide().truth, result.flat) > 0.99
    assert 0.9 * 2.0 < result.ledger.epsilon(DELTA) <= 2.0 * (1 + 1e-9)
    what = [entry.what for entry in result.ledger.entries if "exact" not in entry.what]
    steps = [f"sums and counts of step {number} of FedDP-Lloyds" for number in range(1, 7)]
    assert what == ["votes along a line"] * 2 + steps + ["choice against one center"]
    sizes = [one.size for one in result.details.server.released]
    assert sizes[2] == 31
    assert sizes[3] == sizes[5] > sizes[6] == 3 * 31


def test_an_audit_of_cones_spends_at_most_the_claim_and_refutes_half_the_noise():
    data = wide()
    less = without_row(data, data.names[0], 0)
    found, half = (
        audit_run(cluster_by_votes(wide_way(noise=n), data, keep_bodies=True), data, less)
        for n in (ServerNoise(), Quieter())
    )
    assert not found.is_refuted, found.faults
    assert half.is_refuted


def test_more_groups_than_clusters_are_for_the_first_steps_alone():
    """A server that asks for them in the last step is refused."""

    def many(e):
        if isinstance(e.body, GroupAbout) and e.recipient == "client-1" and len(e.body.centers) == 3:
            centers = np.tile(e.body.centers, (3, 1))
            return (replace(e, body=replace(e.body, centers=centers, origins=centers)),)
        return (e,)

    with pytest.raises(FaultyServer, match="k=9 clusters"):
        cluster_by_votes(wide_way(), wide(), faults=many)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bound": None}, "server_points, or the radius"),
        ({"neighbors": Neighbors(unit="client"), "rows_per_client": 9}, "protect data points"),
        ({"start": ServerLloyds()}, "ServerLloyds starts from them"),
        ({"k": Elbow(5)}, "give k as a number"),
        ({"variant": PAPER}, "such as OURS"),
        ({"shares": (1.0, 1.0, 1.0)}, "share="),
        ({"steps": 0}, "one step"),
        ({"delta": 0.2}, "delta=0.2"),
    ],
)
def test_what_needs_points_is_refused_with_the_remedy(given, message):
    with pytest.raises(InputError, match=message):
        cluster_by_votes(replace(way(), **given))
    with pytest.raises(InputError, match="candidates=1"):
        Votes(candidates=1)
    with pytest.raises(InputError, match="groups=0"):
        Cones(groups=0)
    one = secfc.Federation.from_arrays([np.zeros((9, 1))] * 5)
    with pytest.raises(InputError, match="d=1"):
        cluster_by_votes(way(start=Cones()), one)


def test_a_server_that_lets_vote_on_fewer_features_is_refused():
    """A projection of its choice is none that the plan has."""

    def narrow(e):
        if isinstance(e.body, Project) and e.recipient == "client-1":
            wide = np.eye(2) * 2 if e.body.proxies.shape[1] == 2 else np.eye(2)
            return (replace(e, body=Project(wide, np.zeros((30, 2)), ())),)
        return (e,)

    with pytest.raises(FaultyServer, match="lets vote along other lines"):
        cluster_by_votes(way(start=Votes(lines=1)), faults=narrow)
    with pytest.raises(FaultyServer, match="lets vote on other features"):
        cluster_by_votes(way(), faults=narrow)


def test_the_shell_takes_a_radius_in_place_of_points(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where labels are written
    data = hold_blobs()
    for name, party in zip("abc", data.parties, strict=False):
        np.savetxt(tmp_path / f"{name}.csv", party.read(), delimiter=",", header="x,y", comments="")
    files = [str(tmp_path / f"{name}.csv") for name in "abc"]
    line = ["dp", *files, "-k", "3", "--epsilon", "2"]
    done = CliRunner().invoke(main, [*line, "--radius", "3", "--report", str(tmp_path / "report.json")])
    assert done.exit_code == 0, done.output
    assert "votes for candidates" in (tmp_path / "report.json").read_text()
    refused = CliRunner().invoke(
        main, [*line, "--radius", "3", "--protect", "client", "--rows-per-client", "9"]
    )
    assert refused.exit_code == 2
    assert "(--server-file), or use --protect point" in refused.output
