"""Mechanisms, clipping and bounds: what they add, what they claim, what they refuse."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from field.secrets.coins import SeededCoins
from secfc.errors import InputError, PrivacyError
from secfc.privacy import (
    Bound,
    DiscreteLaplaceNoise,
    RandomizedResponse,
    RoundedGaussianNoise,
    clip_norms,
)
from secfc.privacy.accountant import epsilon
from secfc.privacy.audit import label_evidence
from secfc.privacy.mechanisms import LARGEST_ENTRY, PLACE, UNIT, squared_norms

MECHANISMS = [
    RoundedGaussianNoise(3.0, 2.0),
    DiscreteLaplaceNoise(3, 0.5),
    DiscreteLaplaceNoise(3, 0.5, one_entry=True),
]


def coins(label="mechanism"):
    return SeededCoins(3, label)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_the_laws_of_mechanisms(mechanism):
    values = np.zeros((30, 30), np.int32)
    values.flags.writeable = False
    release = mechanism(values, coins=coins())
    assert release.values.dtype == np.int64
    assert release.values.shape == values.shape
    assert release.event == mechanism.event(values.size)  # the cost is known before the data
    assert 0 < epsilon(release.event, 1e-6) < math.inf
    # Noise does not depend on the values: the same coins add the same.
    moved = mechanism(values + 1000, coins=coins())
    assert np.array_equal(moved.values - 1000, release.values)
    assert not np.array_equal(mechanism(values, coins=coins("other")).values, release.values)
    with pytest.raises(TypeError, match="quantize first"):
        mechanism(values.astype(float), coins=coins())


@pytest.mark.parametrize("kind", [RoundedGaussianNoise, DiscreteLaplaceNoise])
def test_inputs_beyond_the_declared_range_are_refused(kind):
    mechanism = kind(1, 2.0, largest=10)
    assert mechanism(np.diag([10, -10]), coins=coins()).values.shape == (2, 2)
    for value in (11, -11):
        with pytest.raises(PrivacyError, match="declared range") as refusal:
            mechanism(np.diag([0, value]), coins=coins())
        assert "11" not in str(refusal.value)  # the value itself is private
    with pytest.raises(ValueError, match="largest="):
        kind(1, 2.0, largest=LARGEST_ENTRY + 1)


@pytest.mark.parametrize("bad", [(0, 1.0), (1.0, 0), (math.inf, 1.0), (1.0, math.nan), (2.0**40, 2.0**20)])
def test_noise_parameters_are_checked(bad):
    with pytest.raises(ValueError, match="must be"):
        RoundedGaussianNoise(*bad)


@given(st.floats(1e-3, 1e9), st.floats(1e-2, 1e4))
def test_the_noise_is_never_below_what_the_event_claims(sensitivity, multiplier):
    least = Fraction(sensitivity) * Fraction(multiplier)
    assert RoundedGaussianNoise(sensitivity, multiplier).sigma.value >= least


@given(st.integers(1, 10**6), st.floats(1e-4, 50))
def test_laplace_noise_is_never_below_what_the_event_claims(sensitivity, e):
    assert sensitivity / DiscreteLaplaceNoise(sensitivity, e).scale <= Fraction(e)


# --- clipping --------------------------------------------------------------------------------------

vectors = st.lists(st.lists(st.integers(-(2**40), 2**40), min_size=3, max_size=3), min_size=1, max_size=6)


@given(vectors, st.integers(0, 2**41))
def test_clipped_norms_never_exceed_the_bound(rows, bound):
    points = np.array(rows)
    before = points.copy()
    out, clipped = clip_norms(points, bound)
    assert np.array_equal(points, before)
    assert not np.shares_memory(out, points)
    for old, new, cut in zip(rows, out.tolist(), clipped, strict=True):
        norm = sum(x * x for x in old)
        assert sum(x * x for x in new) <= bound**2
        assert cut == (norm > bound**2)
        if cut:
            # Truncation costs at most one unit an entry, and the direction stays.
            assert all(abs(y) <= abs(x) and x * y >= 0 for x, y in zip(old, new, strict=True))
            assert math.sqrt(sum(x * x for x in new)) >= bound - 2 * math.sqrt(3) - bound * 2**-20
        else:
            assert old == new


def test_clipping_at_the_edges_of_64_bits():
    edge = np.array([[2**31 - 1, 0], [2**31, 2**31], [2**62, -(2**62)], [-(2**63), 0]])
    assert squared_norms(edge).tolist() == [(2**31 - 1) ** 2, 2**63, 2**125, 2**126]
    out, clipped = clip_norms(edge, 2**31 - 1)
    assert clipped.tolist() == [False, True, True, True]
    assert all(sum(x * x for x in row) <= (2**31 - 1) ** 2 for row in out.tolist())
    assert out[3].tolist() == [-(2**31 - 1), 0]


def test_clipping_wants_integers():
    with pytest.raises(TypeError, match="quantize first"):
        clip_norms(np.ones((2, 2)), 1)
    with pytest.raises(ValueError, match="at least 0"):
        clip_norms(np.ones((2, 2), int), -1)


# --- bounds ----------------------------------------------------------------------------------------


def test_bounds_say_where_they_come_from():
    assert not Bound.given(3).private
    for center in (None, np.zeros(2), np.full(2, np.inf)):
        with pytest.raises(InputError, match="row 1 of the public points is so far out"):
            Bound.from_public(np.array([[0.0, 1.0], [1.7e308, -1.7e308]]), center=center)
    public = Bound.from_public(np.array([[3.0, 4.0], [0.0, 1.0]]), quantile=1.0)
    assert (public.value, public.source) == (5.0, "public data")
    assert Bound.from_public(np.array([[3.0, 4.0]]), center=np.array([3.0, 0.0])).value == 4.0


def test_a_bound_read_off_private_data_is_refused_unless_asked_for():
    with pytest.raises(PrivacyError, match=r"from_public.*leak=True"):
        Bound.from_private(3.0)
    assert Bound.from_private(3.0, leak=True).private


def test_a_bound_in_steps_is_rounded_down():
    assert Bound.given(2.99).steps(10) == 29
    with pytest.raises(ValueError, match="no integer"):
        Bound.given(0.01).steps(10)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_bounds_are_positive_and_finite(bad):
    with pytest.raises(ValueError, match="positive and finite"):
        Bound.given(bad)


# --- labels for others ------------------------------------------------------------------------------


def test_released_labels_are_right_as_often_as_the_theorem_allows():
    k, m, response = 10, 10**6, RandomizedResponse(4.0)
    exact = np.arange(m) % k
    told = response(exact, k, coins=coins("labels"))
    bound = 1 / (1 + (k - 1) * math.exp(-4.0))
    error = math.sqrt(bound * (1 - bound) / m)
    right = (told == exact).mean()
    assert abs(right - bound) < 3 * error
    assert abs(right - (bound + 0.02)) > 3 * error  # the control: a law that is right more often
    assert response.probability(k) == pytest.approx(bound, abs=1e-7)
    # All other labels are equally likely.
    away = np.bincount((told - exact) % k, minlength=k)[1:]
    assert stats.chisquare(away).pvalue > 1e-4
    sizes, errors = response.estimate_sizes(told, k)
    assert (np.abs(sizes - m / k) < 4 * errors).all()


@pytest.mark.parametrize("k", [2, 10, 300])
@pytest.mark.parametrize("size", [1e-3, 1.0, 4.0, 25.0])
def test_labels_of_rows_that_may_be_absent_reach_the_other_optimum_and_keep_their_epsilon(k, size):
    response = RandomizedResponse(size, slots=7)
    own, other = response.label_weights(k)
    with localcontext() as context:
        context.prec = 50
        most = Decimal(size).exp()
        assert own + (k - 1) * other == k * PLACE < 2**62
        assert PLACE <= own <= most * PLACE
        assert most * other >= PLACE
        # The control: one more for the own label, taken off the others alike, breaks one of both.
        assert own + k > most * PLACE or most * (other - 1) < PLACE
    best = min(math.exp(size) / k, 1 - (k - 1) * math.exp(-size) / k)
    assert response.probability(k) == pytest.approx(best, abs=1e-9)


def test_places_without_rows_say_any_label_and_sizes_need_the_number_of_rows():
    k, exact, response = 4, np.repeat([0, 1, 3], [600, 300, 100]), RandomizedResponse(2.0, slots=1500)
    told = response(exact, k, coins=coins("places"))
    assert told.shape == (1500,)
    right = response.probability(k)
    assert abs((told[:1000] == exact).mean() - right) < 4 * math.sqrt(right * (1 - right) / 1000)
    assert stats.chisquare(np.bincount(told[1000:], minlength=k)).pvalue > 1e-4
    rng = np.random.default_rng(0)
    found = [
        response.estimate_sizes(response(exact, k, coins=coins(f"{i}")), k, (1000 + 20 * rng.normal(), 20.0))
        for i in range(300)
    ]
    sizes, errors = (np.array(each) for each in zip(*found, strict=True))
    assert np.abs(sizes.mean(axis=0) - [600, 300, 0, 100]).max() < 4 * errors.mean() / math.sqrt(300)
    assert sizes.std(axis=0) == pytest.approx(errors.mean(axis=0), rel=0.15)
    # The control: as if every place had a row.
    assert response.estimate_sizes(told, k)[0][2] > 50
    response.check_rows(1500, "client a")
    with pytest.raises(InputError, match="client a has 1501 rows, and slots=1500"):
        response.check_rows(1501, "client a")
    assert "From 2.2 on" in (RandomizedResponse(0.5, slots=9).warning(10) or "")


def test_what_released_labels_prove_is_below_their_epsilon_and_above_that_of_half_as_much():
    exact = np.arange(3000) % 3
    for slots, size in ((None, 3.0), (3000, 1.5), (3000, 0.5)):
        told, twice = (
            RandomizedResponse(e, slots)(exact, 3, coins=coins(f"{e}"))[:3000] for e in (size, 2 * size)
        )
        proved, doubled = (label_evidence(exact, t, 3, absent=slots is not None) for t in (told, twice))
        assert 0.6 * size < proved.epsilon < size < doubled.epsilon < 2 * size
    # Who always says the largest cluster says nothing of a row, however often that is right.
    assert label_evidence(np.zeros(3000, int), np.zeros(3000, int), 3, absent=False).epsilon == 0


def test_sizes_are_unbiased_and_their_errors_what_they_scatter():
    k, exact, response = 3, np.repeat([0, 1, 2], [700, 250, 50]), RandomizedResponse(1.0)
    found = [response.estimate_sizes(response(exact, k, coins=coins(f"{i}")), k) for i in range(400)]
    sizes, errors = (np.array(each) for each in zip(*found, strict=True))
    assert np.abs(sizes.mean(axis=0) - [700, 250, 50]).max() < 4 * errors.mean() / 20
    assert sizes.std(axis=0) == pytest.approx(errors.mean(axis=0), rel=0.15)
    # The control: counts of released labels are biased.
    assert np.bincount(response(exact, k, coins=coins()), minlength=k)[2] > 150


@pytest.mark.parametrize("size", [1e-3, 0.1, 1.0, 3.6, 10.0, 25.0])
def test_weights_of_labels_never_exceed_their_epsilon(size):
    with localcontext() as context:
        context.prec = 50
        limit = Decimal(size).exp() * UNIT
        own, other = RandomizedResponse(size).label_weights(10)
        assert other == UNIT
        assert max(UNIT, limit * (1 - Decimal(2) ** -49) - 1) <= own <= limit


def test_labels_of_no_use_are_told_and_of_no_privacy_refused():
    why = RandomizedResponse(0.5).warning(10)
    said = "labels-epsilon=0.5 with k=10: 15 of 100 labels are right, 10 by chance. From 4.4 on 9 in 10 are."
    assert why == said
    assert RandomizedResponse(2.2).warning(10) is None
    sizes, errors = RandomizedResponse(1e-3).estimate_sizes(np.arange(100) % 10, 10)
    assert np.isfinite(sizes).all()
    assert (errors > 1000).all()
    for wrong in (0.0, -1.0, 0.9e-3, 25.1, math.inf):
        with pytest.raises(InputError, match="must be in"):
            RandomizedResponse(wrong)


def test_a_sentence_says_of_what_labels_are():
    drawn = "drawn by its owner under randomized response of epsilon=3.6: of k=3 clusters"
    assert RandomizedResponse(3.6).sentence(3).startswith(f"a label of every row, {drawn}")
    places = "each of 1,000 places of every client, with a row or without"
    assert RandomizedResponse(3.6, slots=1000).sentence(3).startswith(f"a label of {places}, {drawn}")
