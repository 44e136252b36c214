"""Samplers of integer noise against their laws, their twins and their limits.

Goodness-of-fit tests are seeded.  ALARM is the rate at which one of them would fail for another seed.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from field.ring.basis import LANE_PRIMES, Basis
from field.ring.noise import (
    LARGEST,
    Deviation,
    discrete_gaussian,
    discrete_laplace,
    rounded_gaussian,
    wide_noise,
)
from field.secrets.coins import SeededCoins
from tests.nightly import covering
from tests.oracles.field import Words

ALARM = 1e-5
SAMPLES = 200_000


def coins(label="noise"):
    return SeededCoins(7, label)


def gaussian_law(sigma, x):
    weights = np.exp(
        -(np.arange(-60 * max(1, int(sigma)), 60 * max(1, int(sigma)) + 1) ** 2) / (2 * sigma**2)
    )
    return np.exp(-(x**2) / (2 * sigma**2)) / weights.sum()


def rounded_law(sigma, x):
    return stats.norm.cdf((np.abs(x) + 0.5) / sigma) - stats.norm.cdf((np.abs(x) - 0.5) / sigma)


def laplace_law(scale, x):
    ratio = np.exp(-1 / scale)
    return (1 - ratio) / (1 + ratio) * ratio ** np.abs(x)


def fit(samples, law):
    """The p-value of a chi-square test against a law on the integers, tails pooled to 20 expected each."""
    reach = np.arange(-int(np.abs(samples).max()) - 1, int(np.abs(samples).max()) + 2)
    expected = law(reach) * len(samples)
    inside = reach[expected >= 20]
    low, high = inside.min(), inside.max()
    observed = np.bincount(np.clip(samples, low - 1, high + 1) - low + 1, minlength=high - low + 3)
    middle = expected[(reach >= low) & (reach <= high)]
    tail = (len(samples) - middle.sum()) / 2
    # Both tails are one bin: each alone may expect next to nothing.
    counts = np.append(observed[1:-1], observed[0] + observed[-1])
    wanted = np.append(middle, 2 * tail)
    if wanted[-1] < 5:
        counts, wanted = (
            np.append(counts[1:-1], counts[0] + counts[-1]),
            np.append(wanted[1:-1], wanted[0] + wanted[-1]),
        )
    return stats.chisquare(counts, wanted).pvalue


LAWS = [
    (discrete_gaussian, gaussian_law, (0.5, 1.0, 2.75, 12.0, 40.3)),
    (rounded_gaussian, rounded_law, (0.5, 1.0, 2.75, 12.0, 40.3)),
    (discrete_laplace, laplace_law, (0.5, 1.0, 2.75, 12.0)),
]


def draw(sampler, size, shape, label="noise"):
    size = Fraction(size) if sampler is discrete_laplace else Deviation.at_least(size)
    return sampler(size, shape, coins=coins(label))


@pytest.mark.parametrize(("sampler", "law", "size"), [(s, f, x) for s, f, xs in LAWS for x in xs])
def test_samples_follow_their_law(sampler, law, size):
    held = float(Deviation.at_least(size))
    assert fit(draw(sampler, size, SAMPLES), lambda x: law(held, x)) > ALARM


@pytest.mark.parametrize(("sampler", "law"), [(s, f) for s, f, _ in LAWS])
def test_a_law_five_percent_off_is_noticed(sampler, law):
    assert fit(draw(sampler, 12.0, SAMPLES), lambda x: law(12.6, x)) < ALARM


def test_the_two_gaussians_are_told_apart():
    # At sigma 1/2 rounding a normal variable is not the discrete Gaussian.
    assert fit(draw(rounded_gaussian, 0.5, SAMPLES), lambda x: gaussian_law(0.5, x)) < ALARM


@pytest.mark.parametrize(
    ("bits", "sampler"),
    covering([20, 24, 25, 33, 40, 55], [discrete_gaussian, rounded_gaussian, discrete_laplace]),
)
def test_large_noise_has_its_shape_and_uniform_low_digits(sampler, bits):
    size = 2.0**bits + 2.0 ** (bits - 3)
    samples = draw(sampler, size, SAMPLES)
    ideal = stats.laplace if sampler is discrete_laplace else stats.norm
    cells = np.floor(ideal.cdf(samples / size) * 64).astype(int)
    assert stats.chisquare(np.bincount(cells, minlength=64)).pvalue > ALARM
    assert stats.chisquare(np.bincount(samples & 63, minlength=64)).pvalue > ALARM
    # The variance of n normal samples has relative deviation sqrt(2 / n), of Laplace sqrt(5 / n).
    spread = np.var(samples / size) / (2 if sampler is discrete_laplace else 1)
    assert abs(spread - 1) < 5 * math.sqrt(5 / SAMPLES)


SIZES = (0.3, 0.5, 1.0, 2.75, 1000.5, 4097.1, 2.0**25, 2.0**33 + 2.0**11, 2.0**40, 2.0**55)


@pytest.mark.parametrize("size", SIZES)
def test_gaussians_equal_their_twins_word_for_word(size):
    sigma = Deviation.at_least(size)
    for sampler, twin in ((discrete_gaussian, Words.gaussian), (rounded_gaussian, Words.rounded)):
        words = Words(coins())
        assert sampler(sigma, 60, coins=coins()).tolist() == [twin(words, sigma.value) for _ in range(60)]


@pytest.mark.parametrize(
    "scale", [Fraction(1, 3), Fraction(1), Fraction(22, 7), Fraction(2**40 + 1, 3), Fraction(2**55)]
)
def test_laplace_equals_its_twin_word_for_word(scale):
    words = Words(coins())
    assert discrete_laplace(scale, 60, coins=coins()).tolist() == [words.laplace(scale) for _ in range(60)]


def test_samples_do_not_depend_on_how_many_words_are_drawn_at_once(monkeypatch):
    whole = draw(discrete_gaussian, 100.0, 500)
    # Two words at a time: every sample runs out of them, again and again.
    monkeypatch.setattr("field.ring.noise._WORDS", 2)
    assert draw(discrete_gaussian, 100.0, 500).tolist() == whole.tolist()


@pytest.mark.parametrize(
    "least", [1e-9, 0.1, 0.5, 1.0, math.pi, 1e4 / 3, 2.0**24 + 1, 2.0**55 + 4096, Fraction(1, 3)]
)
def test_a_deviation_is_never_below_what_was_asked(least):
    held = Deviation.at_least(least).value
    assert held >= Fraction(least)
    if least >= 0.5:
        assert held <= Fraction(least) * (1 + Fraction(1, 2**23))
    assert Deviation.at_least(held).value == held


@pytest.mark.parametrize("bad", [0, -1.0, math.inf, math.nan])
def test_a_deviation_is_positive_and_finite(bad):
    with pytest.raises(ValueError, match="positive and finite"):
        Deviation.at_least(bad)


def test_noise_that_leaves_no_room_is_refused():
    with pytest.raises(ValueError, match="lower the scale"):
        Deviation.at_least(float(LARGEST))
    with pytest.raises(ValueError, match="below 2"):
        discrete_laplace(LARGEST, 1, coins=coins())


def test_shapes_and_nothing():
    assert draw(discrete_gaussian, 3.0, (2, 3)).shape == (2, 3)
    assert draw(rounded_gaussian, 3.0, 0).shape == (0,)


# --- wide noise ------------------------------------------------------------------------------------

BASIS = Basis(LANE_PRIMES[:4])


@pytest.mark.parametrize("bits", [3, 49, 50, 51, 70, 105])
def test_wide_noise_has_its_width_and_uniform_low_digits(bits):
    sigma = Fraction(5 * 2**bits, 4)
    noise = BASIS.lift_signed(wide_noise(discrete_gaussian, sigma, 20_000, BASIS, coins=coins()))
    cells = np.floor(stats.norm.cdf(noise.astype(float) / float(sigma)) * 16).astype(int)
    if bits > 40:
        assert stats.chisquare(np.bincount(cells, minlength=16)).pvalue > ALARM
        assert stats.chisquare(np.bincount((noise % 64).astype(int), minlength=64)).pvalue > ALARM
    assert abs(np.var(noise.astype(float)) / float(sigma) ** 2 - 1) < 5 * math.sqrt(2 / 20_000)


@pytest.mark.parametrize("f", [1, 3])
def test_low_digits_of_wide_noise_hide_those_of_the_data(f):
    # The law of x + 2**f Y + U for every x, with Y and U enumerated: its last digits are uniform, and the
    # rest is Y moved by ceil((x - v) / 2**f), as the docstring claims.
    y = {-1: 0.25, 0: 0.5, 1: 0.25}
    for x in range(-9, 10):
        law = {}
        for value, p in y.items():
            for u in range(2**f):
                out = x + 2**f * value + u
                law[out] = law.get(out, 0) + p / 2**f
        for v in range(2**f):
            rest = {(out - v) >> f: p * 2**f for out, p in law.items() if out % 2**f == v}
            assert rest == {math.ceil((x - v) / 2**f) + value: p for value, p in y.items()}


def test_noise_beyond_every_modulus_is_refused():
    with pytest.raises(ValueError, match="lower the scale"):
        wide_noise(discrete_gaussian, Fraction(2**115), 1, BASIS, coins=coins())
