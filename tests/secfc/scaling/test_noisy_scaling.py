"""Scaling for a part of a budget: what one row moves, what noise is there, and that nothing costs more."""

import dataclasses
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import secfc
from field import SeededCoins
from secfc import NoiseInShares, NoisyStandardize, SecFC
from secfc.algorithm import PublicFacts
from secfc.data.party import RowsWithGaps
from secfc.errors import Caution, InputError, PrivacyError
from secfc.privacy import Bound, Budget, Neighbors, gaussian_multiplier, many_gaussian_runs
from secfc.roles.exchange import SERVER
from secfc.scaling import noisy
from secfc.scaling.algorithm import Scaled
from secfc.scaling.roles import help_to_scale, noisy_scale_at_client
from secfc.transport.simulate import simulate
from tests.small import split

RANGES = ((-10, 25), (-1000, 2500), (9e5, 1.2e6), (-0.1, 0.25))
WIDTHS = np.array([(high - low) / 2 for low, high in RANGES])
DELTA = 1e-6


def points(m=300, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(m, 4)) + rng.integers(0, 3, (m, 1)) * 6) * [1, 100, 1e4, 0.01] + [0, 50, 1e6, 0]


def hold_points(m=300, n=5, **more):
    return split(points(m), n, **more)


def algorithm(epsilon=8.0, policy=NoiseInShares, **more):
    disclosure = policy(Budget(epsilon, DELTA), Bound.given(4.0), **more)
    return SecFC(3, 2, max_iter=3, disclosure=disclosure)


def fit(algorithm, way=None, data=None, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Caution)
        scale = way or NoisyStandardize(RANGES)
        return secfc.fit(algorithm, data or hold_points(), scale_features=scale, **more)


# --- what one row moves -------------------------------------------------------------------------------


def worst(steps, counted):
    """The largest square of the distance of what two values add, or a value and a missing one."""
    z = np.arange(-steps, steps + 1)
    rows = np.stack([z, noisy.unit_squares(z), np.full_like(z, int(noisy.GAMMA * steps))])
    if counted:
        rows = np.concatenate([rows, np.zeros((3, 1), np.int64)], axis=1)
    return int(((rows[:, :, None] - rows[:, None]) ** 2).sum(axis=0).max())


@pytest.mark.parametrize("counted", [False, True])
def test_no_row_moves_the_sums_of_a_feature_by_more_than_is_claimed(monkeypatch, counted):
    for steps in (32, 96, 512):
        monkeypatch.setattr(noisy, "STEPS", steps)
        assert (2 * steps) ** 2 <= worst(steps, counted) <= (2 * steps + 1) ** 2
    # The control: with a little more on squares some rows move them further.
    monkeypatch.setattr(noisy, "BETA", Fraction(57, 32))
    assert worst(512, counted) > (2 * 512 + 1) ** 2


@given(st.integers(-noisy.STEPS, noisy.STEPS), st.integers(-noisy.STEPS, noisy.STEPS))
def test_so_at_the_steps_that_are_used(a, b):
    moved = (a - b) ** 2 + int(noisy.unit_squares(np.int64(a)) - noisy.unit_squares(np.int64(b))) ** 2
    assert moved <= (2 * noisy.STEPS + 1) ** 2
    assert int(noisy.unit_squares(np.int64(a))) == a * a * noisy.BETA // noisy.STEPS


def test_values_out_of_the_range_count_as_its_end():
    way = NoisyStandardize([(0, 10)])
    values = np.array([[-1e300], [3.0], [99.0]])
    found = way.within(None, 1).forward(values)
    assert found.tolist() == [[-1.0], [-0.4], [1.0]]
    there = ~np.isnan(values)
    rows, total, squares = noisy.client_statistics([(found, there)], 2, 1).tolist()
    assert (rows, total) == (3, round(-0.4 * noisy.STEPS))
    assert squares / noisy.STEPS / float(noisy.BETA) == pytest.approx(2.16, abs=1e-5)


def test_the_largest_sums_fit():
    ones = np.ones((1000, 1))
    one = noisy.client_statistics([(ones, ones > 0)], 3, 1)
    assert (one[1:] <= 2000 * noisy.STEPS).all()  # as the plan of the sum allows a row
    assert int(one.max()) * ((1 << 28) // 1000 + 1) < 2**63


# --- what noise there is ------------------------------------------------------------------------------


def opened(way, inner, data, runs):
    """Scaled means of the scalings that clients find, over runs (runs, d), and the plan."""
    public = dataclasses.replace(PublicFacts.of(data, way.limit), seed=0)
    scaled = Scaled(inner, way)
    plan = scaled.plan(public)

    def once(run):
        roles = {
            p.name: noisy_scale_at_client(way, plan, p, coins=SeededCoins(run, p.name)) for p in data.parties
        }
        results = simulate(roles | {SERVER: help_to_scale(plan)}).results
        found = [results[p.name] for p in data.parties]
        assert found.count(found[0]) == len(found)
        return found[0].scaling

    return [once(run) for run in range(runs)], plan


def test_means_deviate_by_what_was_claimed():
    data = hold_points(60)
    found, plan = opened(NoisyStandardize(RANGES), algorithm(20.0), data, 75)
    middle = np.array([(low + high) / 2 for low, high in RANGES])
    errors = (np.array([one.centers for one in found]) - data.stacked().mean(axis=0)) / WIDTHS
    claimed = plan.noise.whole / noisy.STEPS / 60
    assert np.abs(np.array(found[0].centers) - middle).max() > 0
    # 300 normal numbers: their mean square has a deviation of 8 % of it, in a run that is always the same.
    share = (errors**2).mean() / claimed**2
    assert 0.75 < share < 1.25
    assert not 0.75 < share / 4 < 1.25  # the control: half the noise would be seen
    # The noise of clients that do not collude reaches the multiplier that the ledger charges.
    noise = plan.noise
    assert noise.sensitivity >= (2 * noisy.STEPS + 1) * math.sqrt(noise.features)
    assert noise.honest == 5 - 1 - 2
    assert math.sqrt(noise.honest) * float(noise.each.value) >= noise.multiplier * noise.sensitivity
    assert noise.event.each * math.sqrt(noise.honest) == pytest.approx(noise.multiplier)


def test_an_audit_of_sums_confirms_the_claim_and_catches_half_the_noise():
    """A row at one end of all ranges or at the other, under the noise that the honest alone add."""
    way, runs = NoisyStandardize(RANGES), 8000
    public = dataclasses.replace(PublicFacts.of(hold_points(60), way.limit), seed=0)
    declared = Scaled(algorithm(20.0), way).plan(public).noise
    there = np.ones((1, 4), bool)
    ends = [noisy.client_statistics([(end * there, there)], 2, 4) for end in (-1.0, 1.0)]
    gap = (ends[1] - ends[0])[1:]
    for less, caught in ((1, False), (2, True)):
        # Of all runs at once: each has its own numbers.
        noise = dataclasses.replace(declared, multiplier=declared.multiplier / less, features=4 * runs)
        scores = []
        for side, end in enumerate(ends):
            total = np.concatenate([end[:1], np.tile(end[1:], runs)])
            for client in range(declared.honest):
                total = noisy.add_noise_part(total, noise, SeededCoins(side, f"audit {client}"))
            scores.append(total[1:].reshape(runs, -1) @ gap)
        middle = float((ends[0] + ends[1])[1:] @ gap) / 2
        found = many_gaussian_runs(scores[1], scores[0], threshold=middle, alarm=1e-6)
        assert found.refutes(declared.event) == caught


@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_both_together_cost_the_budget_and_not_more(epsilon):
    result = fit(algorithm(epsilon))
    total = result.ledger.epsilon(DELTA)
    assert 0.99 * epsilon < total <= epsilon
    said = [entry.what for entry in result.ledger.entries if "everybody" in entry.seen_by]
    assert any(what.startswith("labels") for what in said)
    assert said[-1].startswith("scaling: of every feature a noisy mean and deviation")
    # Each alone costs less, and the scale its share of the inverse variance of all: a second accountant.
    labels, scale = (e.event for e in result.ledger.entries if e.what.startswith(("labels", "scaling")))
    full = gaussian_multiplier(Budget(epsilon, DELTA)) ** -2
    assert scale.multiplier**-2 == pytest.approx(0.1 * full, rel=1e-4)
    assert sum(e.multiplier**-2 for e in labels.events) == pytest.approx(0.9 * full, rel=1e-3)


def test_clients_are_protected_for_noise_on_all_their_rows():
    data = secfc.Federation.from_arrays(np.split(points(300), [20, 50, 100, 180]))
    way = NoisyStandardize(RANGES)
    public = PublicFacts.of(data, way.limit)
    plans = [
        Scaled(algorithm(8.0, neighbors=Neighbors("replace", unit)), way).plan(public)
        for unit in ("data point", "client")
    ]
    one, all_rows = (plan.noise for plan in plans)
    assert all_rows.sensitivity == pytest.approx(120 * one.sensitivity)
    result = fit(algorithm(8.0, neighbors=Neighbors("replace", "client")), data=data)
    assert result.ledger.neighbors.unit == "client"
    assert result.ledger.epsilon(DELTA) <= 8


def test_an_enormous_budget_finds_what_no_noise_finds():
    exact = secfc.fit(secfc.Lloyd(3, init=secfc.RandomPoints()), hold_points(), scale_features="standard")
    found = fit(algorithm(1e7))
    assert found.scaling.hidden == ()
    assert np.allclose(found.scaling.scaling.centers, exact.scaling.scaling.centers, atol=1e-2 * WIDTHS)
    assert np.array(found.scaling.scaling.units) == pytest.approx(exact.scaling.scaling.units, rel=2e-2)
    # The control: at a small one it does not.
    assert fit(algorithm(0.5)).scaling.scaling.units != pytest.approx(exact.scaling.scaling.units, rel=2e-2)


def test_the_server_hears_nothing_of_the_sums():
    result = fit(algorithm(), keep_bodies=True)
    scale = [e for e in result.transcript.envelopes if e.phase == "scale"]
    assert {e.kind for e in scale if e.recipient == SERVER} == {"Contributors"}
    assert {e.kind for e in scale} == {
        "Contributors",
        "SumShares",
        "SumDigest",
        "CodedSum",
        "OpenedSumsDigest",
    }
    assert any(text.startswith("nothing about feature scales") for text in result.learned)


# --- rules --------------------------------------------------------------------------------------------


def scale(totals, way=None, multiplier=0.01):
    noise = noisy.ScaleNoise(multiplier, 2.0 * noisy.STEPS, 2, 5, 2, 1, Budget(1, DELTA))
    return noise, noisy.scaling_from_sums(
        way or NoisyStandardize([(0, 10)]), noise, np.array(totals, object), None, 1
    )


def test_a_variance_within_its_noise_is_taken_for_the_least_that_is_seen():
    for squares in (-5 * noisy.STEPS, 0, 1):
        noise, found = scale([100, 0, squares])
        assert found.hidden == (0,)
        least = 2 * noise.whole / noisy.STEPS / 100 / float(noisy.BETA)
        assert found.scaling.units == (pytest.approx(5 * math.sqrt(least)),)
    # Where noise is all there is, it is the public range.
    _, found = scale([100, 0, 0], multiplier=1e3)
    assert found.scaling.units == (5.0,)
    assert found.hidden == (0,)
    # A mean beyond the range is at its end, and a variance no more than the mean allows.
    _, found = scale([100, 500 * noisy.STEPS, 900 * noisy.STEPS])
    assert found.scaling.centers == (10.0,)
    assert found.scaling.units[0] < 2
    _, found = scale([100, 0, 10**12])
    assert (found.hidden, found.scaling.units) == ((), (5.0,))


def test_a_constant_column_stays_constant_and_is_named():
    whole = points()
    whole[:, 2] = 1e6
    data = secfc.Federation.from_arrays(np.array_split(whole, 5))
    with pytest.warns(Caution, match=r"noise hides the deviation of feature 2, .* narrower public range"):
        # Noise of fixed coins: that of others hides a deviation in most runs and not in all.
        result = secfc.fit(
            algorithm(1e4), data, scale_features=NoisyStandardize(RANGES), coins=lambda c: SeededCoins(1, c)
        )
    assert result.scaling.hidden == (2,)
    assert np.ptp(result.scaling.scaling.federation(data).stacked()[:, 2]) == 0


def test_missing_values_are_the_noisy_mean():
    whole = points(600)
    holes = np.random.default_rng(1).random(whole.shape) < 0.3
    gaps = np.where(holes, np.nan, whole)
    data = secfc.Federation.from_arrays(np.array_split(gaps, 5), gaps=True)
    result = fit(algorithm(1e7), NoisyStandardize(RANGES, missing="mean"), data)
    scaling = result.scaling.scaling
    assert np.allclose(scaling.fill, np.nanmean(gaps, axis=0), atol=0.01 * WIDTHS)
    assert np.array(scaling.units) == pytest.approx(np.nanstd(gaps, axis=0), rel=0.03)
    assert result.ledger.epsilon(DELTA) <= 1e7
    assert isinstance(data.parties[0].points, RowsWithGaps)
    with pytest.raises(InputError, match="is NaN"):
        fit(algorithm(), data=data)


def test_what_is_kept_needs_no_range_and_costs_nothing():
    way = NoisyStandardize(RANGES[:2] + RANGES[3:], keep=(2,), limit=1e7)
    public = PublicFacts.of(hold_points(), way.limit)
    plan = Scaled(algorithm(), way).plan(public)
    assert plan.noise.features == 3
    (found, *_), _ = opened(way, algorithm(), hold_points(), 1)
    assert (found.centers[2], found.units[2]) == (0.0, 1.0)


def test_points_of_the_server_cost_nothing():
    data = hold_points(server_points=points(80, 1))
    inner = secfc.FedDPKMeans(3, 5.0, DELTA)
    result = fit(inner, data=data)
    assert result.scaling.noise is None
    assert not any("scaling" in entry.what for entry in result.ledger.entries)
    assert result.ledger.epsilon(DELTA) <= 5


def test_a_lost_client_is_left_out_and_noise_suffices():
    def faults(e):
        return () if e.sender == "client-4" and e.phase == "scale" else (e,)

    data = hold_points()
    result = fit(algorithm(1e7), data=data, faults=faults)
    rest = np.concatenate([p.read() for p in data.parties[:4]])
    assert np.allclose(result.scaling.scaling.centers, rest.mean(axis=0), atol=1e-2 * WIDTHS)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: NoisyStandardize(RANGES, share=1.0), InputError, r"share=1.0 must be in \(0, 1\)"),
        (lambda: NoisyStandardize(((1, 1),)), InputError, "its first end is less than its second"),
        (lambda: fit(algorithm(), NoisyStandardize(RANGES[:3])), InputError, "3 ranges for d=4 features"),
        (lambda: fit(algorithm(), NoisyStandardize({"a": (0, 1)})), InputError, "give all of them"),
        (lambda: fit(SecFC(3, 1)), InputError, r"SecFC has none .*NoiseInShares.*Standardize"),
        (lambda: fit(secfc.Lloyd(3)), InputError, "Lloyd has none"),
        (lambda: fit(algorithm(), data=hold_points(60, 2)), InputError, "n=2 clients cannot scale"),
        (
            lambda: fit(SecFC(3, 2, disclosure=NoiseInShares(Budget(1, 0), Bound.given(1)))),
            PrivacyError,
            "delta=0",
        ),
    ],
)
def test_what_is_refused(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_sites_that_would_spend_different_parts_stop_before_anything_moves():
    data = hold_points()
    one, two = (Scaled(algorithm(), NoisyStandardize(RANGES, share)) for share in (0.1, 0.2))
    public = dataclasses.replace(PublicFacts.of(data, 10.0), seed=0)
    plans = {p.name: (two if j == 3 else one) for j, p in enumerate(data.parties)}
    roles = {
        p.name: plans[p.name].client(plans[p.name].plan(public), p, coins=SeededCoins(0, p.name))
        for p in data.parties
    }
    roles[SERVER] = one.server(one.plan(public), rng=np.random.default_rng(0), coins=SeededCoins(0, SERVER))
    with pytest.raises(secfc.PlanMismatch, match=r"scaling\.share is"):
        simulate(roles)
