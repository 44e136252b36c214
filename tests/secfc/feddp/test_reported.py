"""What reports of private runs say of noise, and of what was taken for public."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import secfc
from benchmarks.server_points import server_side_mixture
from field.secrets.coins import SeededCoins
from secfc import Federation, report
from secfc.feddp import OURS, FedDPKMeans, ServerLloyds, ServerNoise, SharedNoise
from secfc.feddp.algorithm import noise_warning
from secfc.privacy import Bound, Budget, Neighbors


@pytest.fixture(scope="module")
def data():
    points, _, _, server = server_side_mixture(12, 200, np.random.default_rng(0), d=8, k=3, variance=0.01)
    return Federation.from_arrays(list(points.reshape(12, 200, -1)), server_points=server)


@pytest.mark.parametrize("shrunk", [False, True])
def test_the_noise_that_is_told_of_centers_is_that_of_centers(data, shrunk):
    """Over runs that differ in their noise alone: noise on sums, and on the counts that divide them."""
    way = FedDPKMeans(
        3, 2.0, 1e-6, start=ServerLloyds(), steps=1, variant=replace(OURS, shrunk=shrunk), bound=1.5
    )
    few = Federation.from_arrays(np.array_split(data.stacked(), 4), server_points=data.server_points)
    found = [
        secfc.fit(way, few, seed=0, coins=lambda party, i=i: SeededCoins(i, party)).details.server
        for i in range(24)
    ]
    moved = np.array([one.centers for one in found])
    measured = np.sqrt(((moved - moved.mean(axis=0)) ** 2).sum(axis=2).mean(axis=0) * 24 / 23)
    told = np.mean([one.blur for one in found], axis=0)
    assert told == pytest.approx(measured, rel=0.25)
    assert told.min() > 0


def test_sizes_have_error_bars_of_all_noise_and_small_groups_are_told(data):
    way = FedDPKMeans(3, 1.0, 1e-6)
    runs = [secfc.fit(way, data, seed=0, coins=lambda p, i=i: SeededCoins(i, p)) for i in range(16)]
    servers = [one.details.server for one in runs]
    off = [s.counts - np.bincount(r.flat, minlength=3) for r, s in zip(runs, servers, strict=True)]
    error = servers[0].miscounted
    assert np.std(off) == pytest.approx(error, rel=0.3)
    # The control: of the noise of those alone who must be honest.
    assert error == pytest.approx(np.sqrt(12 / 8) * servers[0].least / 2, rel=1e-3)
    found = report.make_report(runs[0], federation=data, algorithm=way).publishable
    told = report.as_json(found)["privacy"]["centers"]
    assert told["sizes"] == servers[0].counts.tolist()
    assert told["error"] == error
    assert told["moved"] == [blur or None for blur in servers[0].blur.tolist()]
    people = " ".join(report.as_text(found).split())
    assert f"0 {told['sizes'][0]:,.0f} {error:,.0f} {told['moved'][0]:.3g}" in people
    assert (
        f"fewer than {told['least']:,.0f} rows is within the noise: it has a center of the server's" in people
    )
    assert "of 100 of the server's points, and rows far from their center pull it less" in people
    tiny = report.make_report(
        secfc.fit(way := FedDPKMeans(3, 0.05, 1e-6, start=ServerLloyds()), data, seed=0),
        federation=data, algorithm=way,
    )  # fmt: skip
    assert "(0 of 3 here)" not in tiny.account.centers.bias[0]
    # A center that no rows moved is not one without noise.
    assert None in tiny.account.centers.moved
    assert "unknown" in report.as_text(tiny.publishable)
    clients = FedDPKMeans(3, 4.0, 1e-6, neighbors=Neighbors(unit="client"), rows_per_client=200)
    told = report.make_report(secfc.fit(clients, data, seed=0), federation=data, algorithm=clients)
    assert told.account.centers.sizes is None


def test_centers_that_noise_can_confuse_are_told(data):
    server = secfc.fit(FedDPKMeans(3, 8.0, 1e-6), data, seed=0).details.server
    centers = np.array([[0.0, 0.0], [1.0, 0.0], [9.0, 0.0]])
    assert noise_warning(replace(server, centers=centers, blur=np.array([0.5, 0.5, 4.0])), 1.0) is None
    told = noise_warning(replace(server, centers=centers, blur=np.array([0.51, 0.5, 4.0])), 1.0)
    assert told.startswith("1 center lies nearer to another of the k=3 than twice the noise on it")
    assert noise_warning(replace(server, centers=centers, blur=np.full(3, 5.0)), 1.0).startswith(
        "3 centers lie"
    )
    assert noise_warning(replace(server, centers=centers[:1], blur=np.full(1, 5.0)), 1.0) is None


def test_runs_whose_clusters_are_noise_say_so_and_others_do_not(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        good = secfc.fit(way := FedDPKMeans(3, 8.0, 1e-6), data, seed=0)
    assert report.make_report(good, federation=data, algorithm=way).account.notes == ()
    few = Federation.from_arrays([p.read()[:4] for p in data.parties], server_points=data.server_points)
    way = FedDPKMeans(3, 0.2, 1e-6, start=ServerLloyds())
    with pytest.warns(UserWarning, match="no cluster of the k=3 has more points than noise"):
        poor = secfc.fit(way, few, seed=0, coins=lambda party: SeededCoins(0, party))
    found = report.make_report(poor, federation=few, algorithm=way).publishable
    assert found.notes == found.account.notes != ()
    assert found.notes[0] in report.as_json(found)["notes"]


@pytest.mark.parametrize("noise", [ServerNoise(), SharedNoise()])
def test_a_report_tells_every_release_its_noise_and_what_was_assumed(data, noise):
    way = FedDPKMeans(3, 4.0, 1e-6, bound=1.5, noise=noise, neighbors=Neighbors("replace"))
    result = secfc.fit(way, data, seed=0)
    found = report.make_report(result, federation=data, algorithm=way)
    told = report.as_json(found.publishable)["privacy"]
    assert [one["what"] for one in told["noise"]] == [
        one["what"] for one in told["released"] if "everybody" in one["seen_by"]
    ]
    assert [one["noise"] for one in told["noise"]] == [one.noise for one in result.details.server.released]
    assert told["assumed"]["radius"] == "1.5, as given: known without looking at the data"
    assert told["assumed"]["clients"].startswith("the names of n = 12 clients")
    people = " ".join(report.as_text(found).split())
    for said in (
        "replace one data point: epsilon = 4",
        "rows longer than 1.5 are shortened to it (given)",
        "how many rows were shortened, which no budget pays for",
        "a sum of fewer than 9 of n = 12 clients is refused",
        "t = 4: no 4 members together learn",
    ):
        assert said in people


def test_noise_on_distances_is_told_beside_the_largest_distance(data):
    """A point's own distances are hidden by noise as wide as they are, unless the budget is large."""

    def way(epsilon):
        return secfc.SecFC(
            3, 1, max_iter=2, disclosure=secfc.NoiseInShares(Budget(epsilon, 1e-6), Bound.given(1.5))
        )

    with pytest.warns(UserWarning, match=r"noise of .* lies on every squared distance, .* none exceeds 9:"):
        result = secfc.fit(way(1.0), data, bound=1.5, seed=0)
    found = report.make_report(result, federation=data, algorithm=way(1.0)).publishable
    (one,) = report.as_json(found)["privacy"]["noise"]
    assert (one["size"], one["signal"]) == (3 * 2400, None)
    assert one["noise"] > 9
    assert found.account.assumed["questions"].startswith("3 are paid for")
    assert any("mostly noise at epsilon=1" in note for note in found.notes)
    assert found.notes[0].startswith(
        "of 100 labels at most 35 are right under this noise, 33 by chance. At eps"
    )
    assert "a release of labels can have 58: FedDPKMeans(labels=RandomizedResponse(...))" in found.notes[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plenty = secfc.fit(way(1e4), data, bound=1.5, seed=0)
    found = report.make_report(plenty, federation=data, algorithm=way(1e4))
    assert found.account.noise[0].noise < 9
    assert found.account.notes == ()
