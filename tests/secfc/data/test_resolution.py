"""Rounding that loses the data is noticed: by `fit` over all, by a site over its own before it shares any."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.cluster import KMeans

import secfc
from field import SeededCoins
from field.ring.quantize import Quantizer
from secfc import cli
from secfc.algorithm import PublicFacts
from secfc.data.inputs import build_algorithm
from secfc.data.resolution import FINE, LEAST, measure_resolution, of_federation, sample_rows
from secfc.report import against_ordinary
from tests.small import run

NAMES = ("age", "weight", "education", "gain", "hours")


def census(m=300, seed=0, wide=True):
    """Rows as of a census: ages, weights of a hundred thousand and more, years, sparse gains, hours."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 3, m)
    return np.column_stack(
        [
            rng.normal(25 + 20 * groups, 3),
            rng.lognormal(12, 0.6, m) * (1 if wide else 1e-4),
            rng.integers(1, 17, m),
            np.where(rng.random(m) < 0.08, rng.integers(100, 90_000, m), 0) * (1 if wide else 1e-3),
            rng.normal(20 + 10 * groups, 2),
        ]
    )


def split(points, n=5):
    return secfc.Federation.from_arrays(np.array_split(points, n))


def coarse_fit(way=secfc.SecFC, **options):
    # As few bits as a run of millions of points leaves: rounding to 4096 data units.
    common = {"scale": 2.0**-12, "init": "random"} | options
    return build_algorithm(way, k=3, **({"t": 2} if way is secfc.SecFC else {}), **common)


# --- what is counted ------------------------------------------------------------------------------


def steps(columns, scale=1.0, bound=1e9):
    return measure_resolution([np.column_stack(columns)], Quantizer(scale, bound), None).steps


def test_steps_are_those_within_the_interquartile_range():
    uniform = np.linspace(0, 100, 1001)
    assert steps([uniform]) == (pytest.approx(50),)
    assert steps([uniform], scale=1.6) == (pytest.approx(80),)
    assert steps([uniform + 1e6]) == (pytest.approx(50),)


def test_an_outlier_does_not_hide_that_the_others_are_lost():
    values = np.append(np.linspace(0, 1, 1000), 1e8)
    assert steps([values])[0] < 1 < np.std(values)


def test_constant_and_exact_features_lose_nothing():
    binary = np.tile([0.0, 1.0], 50)
    assert steps([np.full(100, 0.3), binary, np.arange(100.0)]) == (np.inf,) * 3
    assert steps([binary], scale=0.25) == (0.25,)  # both become 0


def test_sparse_features_are_judged_by_the_values_that_are_not_equal():
    sparse = np.zeros(1000)
    sparse[:80] = 0.5 + np.arange(80) * 100
    assert steps([sparse])[0] == pytest.approx(3950.5)
    assert steps([sparse], scale=1e-4)[0] == pytest.approx(0.39505)


def test_large_parts_are_sampled_evenly_and_small_ones_whole():
    sorted_ = secfc.Party("a", np.arange(200_000.0)[:, None] * 1.25)
    blocks = list(sample_rows(sorted_, 4096))
    assert sum(map(len, blocks)) == 4096
    found = measure_resolution(blocks, Quantizer(1.0, 1e9), None)
    assert found.steps[0] == pytest.approx(125_000, rel=0.05)
    assert [len(block) for block in sample_rows(secfc.Party("b", np.zeros((7, 1))), 4096)] == [7]


# --- who is told ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [secfc.SecFC, secfc.Lloyd])
@pytest.mark.parametrize("membership", ["open", "private"])
def test_a_fit_that_would_lose_the_data_is_refused_with_the_columns_and_the_remedy(way, membership):
    more = {"membership": membership} if way is secfc.SecFC else {}
    with pytest.raises(secfc.InputError) as error:
        secfc.fit(coarse_fit(way, **more), split(census()))
    for phrase in ("5 of 5 features", "in feature 0", "in feature 2", "largest of which is in feature 1",
                   "bound=", 'coarse="allow"'):  # fmt: skip
        assert phrase in str(error.value), phrase


def test_below_64_steps_is_a_caution_and_above_is_none():
    points = np.random.default_rng(0).uniform(0, 1, (200, 2))  # half of it lies within 0.5
    for scale, told in ((2 * LEAST - 3, "refused"), (2 * LEAST + 3, "warned"), (2 * FINE - 20, "warned")):
        way = secfc.SecFC(2, 2, quantization=secfc.Quantization(scale=float(scale)))
        if told == "refused":
            with pytest.raises(secfc.InputError, match="Below 8 steps"):
                secfc.fit(way, split(points))
        else:
            with pytest.warns(secfc.Caution, match="2 of 2 features has fewer than 64"):
                secfc.fit(way, split(points))
    secfc.fit(
        secfc.SecFC(2, 2, quantization=secfc.Quantization(scale=2.0 * FINE + 20)), split(points)
    )  # warnings are errors here


def test_who_says_so_may_lose_them():
    with pytest.warns(secfc.Caution, match="rounding loses"):
        secfc.fit(coarse_fit(coarse="warn"), split(census()))
    lost = secfc.fit(coarse_fit(coarse="allow"), split(census()))
    assert lost.n_iter > 0
    with pytest.raises(secfc.InputError, match="one of 'refuse', 'warn', 'allow'"):
        coarse_fit(coarse="ignore")


def test_a_scale_coarser_than_the_data_does_not_give_one_cluster_silently():
    points = np.random.default_rng(0).normal(size=(100, 2)) * 0.01
    with pytest.raises(secfc.InputError, match="raise the scale"):
        secfc.fit(secfc.SecFC(3, 2, quantization=secfc.Quantization(scale=1.0)), split(points), bound=1.0)
    all_ = secfc.fit(
        secfc.SecFC(3, 2, quantization=secfc.Quantization(scale=1.0, coarse="allow")),
        split(points),
        bound=1.0,
    )
    assert len(set(all_.flat.tolist())) == 1


def test_a_site_judges_its_own_rows_before_it_shares_any():
    parties = split(census()).parties
    public = PublicFacts.of(split(census()))
    way = coarse_fit()
    plan = way.plan(public)
    role = way.client(plan, parties[0], coins=SeededCoins(0, "client-0"))
    hello = next(role)
    assert {type(message).__name__ for message in hello.send.values()} == {"Hello"}
    from secfc.roles.exchange import Inbox

    answers = {peer: next(iter(hello.send.values())) for peer in hello.expect}
    with pytest.raises(secfc.InputError, match="the data of client 'client-0'"):
        role.send(Inbox(answers, dict.fromkeys(answers, hello.round)))


def test_a_site_of_few_rows_warns_only():
    few = secfc.Party("client-0", census(12))
    from secfc.data.resolution import check_resolution_at_site

    with pytest.warns(secfc.Caution, match="client 'client-0'"):
        check_resolution_at_site(coarse_fit(), Quantizer(2.0**-12, 2.0**24), few)
    check_resolution_at_site(coarse_fit(coarse="allow"), Quantizer(2.0**-12, 2.0**24), few)


def test_where_noise_pays_nothing_is_judged():
    from secfc.privacy import Bound, Budget, Neighbors

    noise = secfc.NoiseInShares(Budget(8, 1e-6), radius=Bound.given(1e6), neighbors=Neighbors("replace"))
    way = secfc.SecFC(3, 2, max_iter=2, disclosure=noise)
    assert secfc.fit(way, split(census()), bound=1e6).n_iter == 2


# --- ordinary k-means -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_ordinary_k_means_is_that_of_another_implementation(seed):
    points = census(seed=seed, wide=False)
    start = np.random.default_rng(seed).integers(0, 3, len(points)).astype(np.int32)
    centers = np.stack([points[start == h].mean(axis=0) for h in range(3)])
    other = KMeans(3, init=centers, n_init=1, max_iter=300, tol=0, algorithm="lloyd").fit(points)
    found = against_ordinary(points, start, other.labels_, 3, 300)
    assert (found.equal, found.ties) == (len(points), 0)
    assert found.same


def test_a_difference_is_counted_and_ties_are_said():
    points = np.array([[0.0], [1.0], [2.0], [10.0], [12.0]])
    start = np.array([0, 0, 1, 1, 1], np.int32)
    found = against_ordinary(points, start, np.array([0, 0, 0, 1, 0]), 2, 10)
    assert (found.equal, found.points, found.ties) == (4, 5, 0)
    tie = np.array([[-3.0], [0.0], [1.5]])
    found = against_ordinary(tie, np.array([0, 0, 1], np.int32), np.array([0, 0, 1]), 2, 9)
    assert (found.equal, found.ties) == (3, 1)


def test_equal_to_floating_point_where_the_scale_is_fine_and_not_where_it_is_not():
    points = census(900)
    results = {}
    for scale in (1.0, 2.0**-12):
        result = secfc.fit(coarse_fit(scale=scale, coarse="allow"), split(points), seed=2)
        results[scale] = against_ordinary(points, result.history[0], result.flat, 3, 300)
    assert results[1.0].same
    assert not results[2.0**-12].same


# --- the shell ------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for j, part in enumerate(np.array_split(census(), 5)):
        np.savez(f"{j}.npz", X=part, feature_names=NAMES)
    return [f"{j}.npz" for j in range(5)]


def test_the_shell_refuses_warns_and_says_how_far_labels_are_those_of_ordinary_k_means(files):
    few = ("-k", "3", "--init", "random", "--max-iter", "4")
    coarse = (*few, "--scale", "0.0002")
    refused = run(*files, *coarse)
    assert refused.exit_code == 2
    for phrase in ("in 'education'", "largest of which is in 'weight'", "(--bound)", "--coarse allow"):
        assert phrase in refused.stderr, phrase
    assert not Path("secfc-labels.csv").exists()
    allowed = run(*files, *coarse, "--coarse", "allow", "--disclosure", "distances")
    assert allowed.exit_code == 0, allowed.output
    shown = " ".join(allowed.stdout.split())
    assert "rounding loses much of the data: the spread of 5 of 5 features" in shown
    found = json.loads(Path("secfc-report.json").read_text())
    equal = found["unrounded"]["equal"]
    assert equal < 300
    assert f"equal those of ordinary k-means from the same start at {equal} of 300 points" in shown
    assert "Rounding to integers made the difference" in shown
    assert found["steps_in_spread"]["'education'"] < LEAST
    assert any("rounding loses" in note for note in found["notes"])
    fine = run(*files, *few, "--disclosure", "distances", "--scale", "16", "--force")
    assert "at 300 of 300 points." in " ".join(fine.stdout.split())
    assert "rounding loses" not in fine.stdout


def test_a_scale_of_almost_nothing_speaks_of_the_user_s_data(files):
    refused = run(*files, "-k", "3", "--scale", "1e-9")
    assert refused.exit_code == 2
    assert "2120" not in refused.stderr
    assert "lanes" not in refused.stderr
    assert "raise the scale if you set it (--scale)" in refused.stderr
    assert run(*files, "-k", "3", "--scale", "1e-9", "--coarse", "allow", "--init", "random").exit_code == 0


def test_an_attack_is_refused_and_told_to_go_on_alike(files):
    options = ("attack", "geometry", *files, "-k", "3", "--scale", "0.0002", "--max-iter", "3")
    refused = CliRunner().invoke(cli.main, options)
    assert refused.exit_code == 2
    assert "--coarse allow" in refused.stderr
    allowed = CliRunner().invoke(cli.main, [*options, "--coarse", "allow"])
    assert allowed.exit_code == 0, allowed.output


def test_a_federation_is_judged_by_its_names():
    federation = secfc.Federation(split(census()).parties, NAMES)
    assert of_federation(federation, Quantizer(2.0**-12, 2.0**22)).names[2] == "'education'"


# --- what steps cost ------------------------------------------------------------------------------


def masks_a_word(m, scale, **parameters):
    """How many words of masks go with a word of a client's rows."""
    public = PublicFacts(("a", "b", "c", "d", "e"), (m // 5,) * 5, 20, 16.0)
    plan = build_algorithm(
        secfc.SecFC, k=8, t=1, init="random", scale=scale, coarse="allow", **parameters
    ).plan(public)
    return plan.masks(0, 0) * plan.projections.words / plan.words(0, 0)


@pytest.mark.parametrize("scale", [1.0, 3.0, 64.0])
def test_the_test_of_many_rows_costs_few_masks(scale):
    """A lane that is saved, or a step that is gained, is not worth a hundred times the rows."""
    assert masks_a_word(100_000, scale) < 1


def test_steps_for_which_masks_would_be_gigabytes_are_refused_with_a_remedy():
    with pytest.raises(ValueError, match=r"4 lanes .*Round centers.*at most 171 steps fit"):
        masks_a_word(1_000_000, 16.0)
    assert masks_a_word(1_000_000, 8.0) < 3
    # Few rows may: it is the only way to have so many steps, and costs little.
    assert masks_a_word(1000, 2.0**14) > 100


def test_clients_that_observe_all_features_are_warned_of_rounding_once():
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.normal(size=900) * 1e-4, rng.normal(size=900) * 1000])
    federation = secfc.Federation.from_arrays(np.array_split(points, 6))
    with pytest.warns(secfc.Caution, match="rounding loses much of the data") as told:
        secfc.fit(secfc.FederatedLloyd(3, max_iter=2, coarse="warn"), federation, seed=1)
    assert len(told) == 1
    with pytest.raises(secfc.InputError, match="Below 8 steps this is refused"):
        secfc.fit(secfc.FederatedLloyd(3), federation, seed=1)
