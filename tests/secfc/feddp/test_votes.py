"""Without points at the server: votes for candidates in a public ball."""

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import secfc
from field import SeededCoins
from secfc.cli import main
from secfc.data.inputs import InputError
from secfc.feddp import PAPER, Elbow, FedDPKMeans, ServerLloyds, ServerNoise, SharedNoise, Votes
from secfc.feddp.auditing import audit_run, without_row
from secfc.feddp.clients import Statistics
from secfc.feddp.messages import Project
from secfc.feddp.noise import Gaussian
from secfc.feddp.statistics import histogram_sensitivity
from secfc.feddp.votes import descendants, in_ball
from secfc.metrics import accuracy
from secfc.privacy import Neighbors
from secfc.roles.exchange import FaultyServer

DELTA, RADIUS = 1e-6, 3.0
CENTERS = np.array([[1.5, 1.5], [-1.5, 1.0], [0.0, -2.0]])


def federation(n=5, rows=400):
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=(n, rows))
    points = CENTERS[truth] + 0.15 * rng.normal(size=(n, rows, 2))
    return secfc.Federation.from_arrays(list(points), truth=list(truth))


def run(way, data=None, seed=0, **more):
    coins = lambda party: SeededCoins(seed, f"votes {party}")  # noqa: E731
    return secfc.fit(way, data or federation(), seed=seed, coins=coins, **more)


def way(epsilon=2.0, **more):
    return FedDPKMeans(3, epsilon, DELTA, **({"bound": RADIUS} | more))


@pytest.mark.parametrize("noise", [ServerNoise(), SharedNoise()], ids=str)
@pytest.mark.parametrize("neighbors", [Neighbors(), Neighbors("replace")], ids=str)
def test_clusters_are_found_within_the_budget(noise, neighbors):
    result = run(way(noise=noise, neighbors=neighbors))
    assert accuracy(federation().truth, result.flat) > 0.99
    assert 0.9 * 2.0 < result.ledger.epsilon(DELTA) <= 2.0 * (1 + 1e-9)
    what = [entry.what for entry in result.ledger.entries if "exact" not in entry.what]
    assert what[:4] == ["votes for candidates"] * 4
    assert len(what) == 7
    assert np.linalg.norm(result.centers, axis=1).max() <= RADIUS


def test_candidates_and_rounds_grow_with_features_and_stay_as_they_are_given():
    assert [(v.candidates, v.rounds) for v in map(Votes().among, (1, 2, 16, 64))] == [
        (10, 3), (12, 4), (56, 16), (158, 46),
    ]  # fmt: skip
    assert Votes(candidates=5, rounds=1).among(16) == Votes(candidates=5, rounds=1)


def test_no_fact_of_the_data_is_in_the_plan():
    plan = run(way()).plan
    far = secfc.Federation.from_arrays([np.full((7, 2), 1e5)] * 5)
    other = run(way(epsilon=2.0), far).plan
    assert plan.event == other.event
    assert (plan.reach, plan.scale, plan.points.shape) == (other.reach, other.scale, (0, 2))


@pytest.mark.parametrize("relation", ["add/remove", "replace"])
def test_votes_move_within_their_sensitivity(relation):
    """Neighbors that are on candidates, between them, at the wall and far beyond it, where votes tie."""
    plan = way(neighbors=Neighbors(relation)).plan(secfc.algorithm.Public.of(federation(), 8.0))
    candidates = in_ball(plan.bins, 2, RADIUS, np.random.default_rng(1))
    adversaries = [*candidates[:6], (candidates[0] + candidates[1]) / 2, [RADIUS, 0], [1e9, -1e9], [0, 0]]
    rows = np.random.default_rng(2).normal(size=(5, 2))

    def votes(more):
        return Statistics(plan, np.vstack([rows, *more])).weights(np.eye(2), candidates)[0]

    outs = [[]] if relation == "add/remove" else [[np.array([a])] for a in adversaries]
    moved = [np.linalg.norm(votes(out) - votes([np.array([a])])) for out in outs for a in adversaries]
    (part,) = plan.weight_parts(())
    assert part.sensitivity == histogram_sensitivity(plan.neighbors)
    assert max(moved) == pytest.approx(part.sensitivity)  # attained, and never exceeded


class Quieter(ServerNoise):
    """Half the declared noise."""

    def release(self, noise, sensitivity, total, honest, coins, **more):
        return super().release(Gaussian(noise.multiplier / 2), sensitivity, total, honest, coins, **more)


def test_an_audit_of_a_run_spends_at_most_the_claim_and_refutes_half_the_noise():
    data = federation()
    less = without_row(data, data.names[0], 0)
    found, half = (
        audit_run(run(way(noise=n), keep_bodies=True), data, less) for n in (ServerNoise(), Quieter())
    )
    assert not found.refuted, found.faults
    assert 0.2 < found.share <= 1
    assert half.refuted


def test_candidates_come_of_those_with_votes_and_stay_in_the_ball():
    rng = np.random.default_rng(0)
    first = in_ball(60, 3, RADIUS, rng)
    weights = np.zeros(60)
    weights[[3, 8]] = 50.0, 400.0
    then = descendants(first, weights, RADIUS, rng)
    np.testing.assert_array_equal(then[:2], first[[3, 8]])
    assert then.shape == first.shape
    assert np.linalg.norm(then, axis=1).max() <= RADIUS * (1 + 1e-12)
    alone = descendants(first, np.eye(60)[0], RADIUS, rng)  # one alone reaches as far as the ball
    assert len(alone) == 60


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
        run(replace(way(), **given))
    with pytest.raises(InputError, match="candidates=1"):
        Votes(candidates=1)


def test_a_server_that_lets_vote_on_fewer_features_is_refused():
    """A projection of its choice is none that the plan has."""

    def narrow(e):
        if isinstance(e.body, Project) and e.recipient == "client-1":
            return (replace(e, body=Project(np.eye(2) * 2, e.body.proxies, ())),)
        return (e,)

    with pytest.raises(FaultyServer, match="lets vote on other features"):
        run(way(), faults=narrow)


def test_the_shell_takes_a_radius_in_place_of_points(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where labels are written
    data = federation()
    for name, party in zip("abc", data.parties, strict=False):
        np.savetxt(tmp_path / f"{name}.csv", party.read(), delimiter=",", header="x,y", comments="")
    files = [str(tmp_path / f"{name}.csv") for name in "abc"]
    line = ["run", *files, "-k", "3", "--algorithm", "feddp", "--epsilon", "2"]
    done = CliRunner().invoke(main, [*line, "--radius", "3", "--report", str(tmp_path / "report.json")])
    assert done.exit_code == 0, done.output
    assert "votes for candidates" in (tmp_path / "report.json").read_text()
    refused = CliRunner().invoke(
        main, [*line, "--radius", "3", "--protect", "client", "--rows-per-client", "9"]
    )
    assert refused.exit_code == 2
    assert "needs --server-file" in refused.output
