"""`secfc attack membership`: what it finds, draws and refuses, and the game under it."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import secfc
from secfc.attacks.membership import OpenedRun, draw_halves, membership_scores, select_half
from secfc.attacks.rates import score_rates
from secfc.attacks.views import OUTSIDER, View
from secfc.cli import main
from secfc.kfed import local_clusters
from secfc.roles.exchange import SERVER


@pytest.fixture
def files(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    means = rng.uniform(0, 4, (3, 12))
    for name in ("a", "b", "c", "public"):
        points = means[rng.integers(3, size=60)] + rng.normal(size=(60, 12))
        header = ",".join("abcdefghijkl")
        np.savetxt(tmp_path / f"{name}.csv", points, delimiter=",", header=header, comments="")
    monkeypatch.chdir(tmp_path)
    return ["a.csv", "b.csv", "c.csv", "-k", "3"]


def membership(*arguments):
    return CliRunner().invoke(main, ["attack", "membership", *map(str, arguments)])


def test_k_fed_gives_members_away_to_all_and_more_to_its_server(files, tmp_path):
    done = membership(
        *files, "--algorithm", "k-fed", "--k-local", 3, "--runs", 24, "--alarms", 0.05, "--json",
        "--plot", "roc.png",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    found = {name: one["auc"] for name, one in json.loads(done.stdout)["attacks"].items()}
    assert found["opened centers"]["low"] > 0.6
    assert found["local centers, by the server"]["low"] > found["opened centers"]["high"]
    assert found["nothing of the run"]["low"] < 0.53
    assert (tmp_path / "roc.png").stat().st_size > 10_000


def test_noise_stops_it(files):
    more = ("--algorithm", "feddp", "--server-file", "public.csv", "--epsilon", 1, "--noise", "server")
    done = membership(*files, *more, "--runs", 20, "--alarms", 0.1)
    assert done.exit_code == 0, done.output
    text = done.output
    assert float(text.split("From opened centers: AUC ")[1].split()[0]) < 0.57
    assert "of 100 people" in text
    assert "What stops it" in text


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--runs", 4, "--alarms", 0.01), "360 non-members in 4 runs cannot resolve a rate of 0.01 false "),
        (("--runs", 4), "360 non-members in 4 runs cannot resolve a rate of 0.2 false alarms: 500 are"),
        (("--runs", 4, "--alarms", 0.5), "no centers were opened: nothing to attack"),
        (("--k-local", 2), "--k-local has no meaning for --algorithm secfc"),
        (("--runs", 3), "3 is not in the range"),
    ],
)
def test_what_does_not_fit_is_refused(files, more, message):
    done = membership(*files, *more)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_the_attack_reads_what_was_opened_and_nothing_else():
    """Whatever else exists of the runs is poisoned: the scores stay what they are."""
    rng = np.random.default_rng(0)
    means = rng.uniform(0, 3, (3, 8))
    points = means[rng.integers(3, size=120)] + rng.normal(size=(120, 8))
    data = secfc.Federation.from_arrays(np.array_split(points, 3))
    kept, opened = [], []
    for number in range(12):
        mine = draw_halves(data, np.random.default_rng(number))
        part = select_half(data, mine)
        assert part.counts == (20, 20, 20)
        result = secfc.fit(secfc.Lloyd(3), part, seed=number)
        seen = OpenedRun.of(View.of(result, result.plan, OUTSIDER), 20)
        opened.append(OpenedRun(seen.centers.copy(), seen.sizes.copy()))
        kept.append(np.concatenate(mine))
        result.labels[0][:] = -7
        result.plan.__dict__.clear()
        for party in part.parties:
            party.__dict__.clear()
    found = membership_scores(opened, points)
    assert score_rates(found, kept, alarms=()).auc.value > 0.65
    rng.shuffle(points)  # the attack keeps nothing of its own
    swapped = [rng.permutation(mine) for mine in kept]
    assert abs(score_rates(found, swapped, alarms=()).auc.value - 0.5) < 0.06


def test_what_cannot_be_attacked_is_refused():
    data = secfc.Federation.from_arrays(np.random.default_rng(0).normal(size=(3, 10, 2)))
    result = secfc.fit(secfc.KFed(2, 2), data, keep_bodies=True)
    with pytest.raises(ValueError, match="the coalition holds all points itself"):
        OpenedRun.of(View.of(result, result.plan, data.names), 10)
    assert OpenedRun.of(View.of(result, result.plan, OUTSIDER), 15).sizes.tolist() == [15, 15]
    opened = [OpenedRun(np.zeros((1, 2)), np.ones(1))] * 3
    with pytest.raises(ValueError, match="3 runs: at least 4"):
        membership_scores(opened, np.zeros((1, 2)))
    with pytest.raises(ValueError, match="no centers were opened: nothing to attack"):
        membership_scores([OpenedRun(np.full((1, 2), np.nan), np.ones(1))] * 4, np.zeros((1, 2)))


def test_the_servers_local_centers_of_k_fed():
    data = secfc.Federation.from_arrays(np.random.default_rng(0).normal(size=(3, 30, 2)))
    result = secfc.fit(secfc.KFed(4, 2), data, keep_bodies=True)
    found = local_clusters(View.of(result, result.plan, SERVER))
    assert {name: float(sizes.sum()) for name, (_, sizes) in found.items()} == dict.fromkeys(data.names, 30.0)
    centers, sizes = found["client-0"]
    assert np.allclose(sizes @ centers / 30, data.parties[0].read().mean(axis=0)) or len(set(sizes)) < 2
    with pytest.raises(ValueError, match="client-1 saw no local centers"):
        local_clusters(View.of(result, result.plan, "client-1"))
