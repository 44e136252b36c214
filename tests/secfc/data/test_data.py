"""Synthetic mixtures and rotated images: shapes, truth, and the paper's settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from secfc.data.mixtures import DIGITS, gaussian_mixture, rotated_digits, rotated_images
from secfc.errors import InputError

# --- mixtures


def test_truth_is_the_closest_center() -> None:
    # The centers are the first draw of the generator; sigma is large, so that many points are
    # closer to another center than to their own.
    points, truth = gaussian_mixture(300, 2, 5, 8.0, np.random.default_rng(0))
    centers = np.random.default_rng(0).uniform(-10, 10, size=(5, 2))
    squared = ((points[:, None, :] - centers) ** 2).sum(axis=2)
    np.testing.assert_array_equal(truth, squared.argmin(axis=1))
    assert points.shape == (300, 2)
    assert truth.dtype == np.int64


def test_centers_fill_the_box_and_weights_are_equal() -> None:
    rng = np.random.default_rng(1)
    points, truth = gaussian_mixture(40_000, 3, 4, 0.0, rng, box=(2.0, 5.0))
    assert points.min() >= 2.0
    assert points.max() <= 5.0
    assert len(np.unique(points, axis=0)) == 4
    # Each count is binomial(40000, 1/4), standard deviation 87: 6 of them, false alarm < 1e-8.
    np.testing.assert_allclose(np.bincount(truth), 10_000, atol=520)


def test_sigma_is_the_deviation_of_every_feature() -> None:
    points, _ = gaussian_mixture(20_000, 5, 1, 20.0, np.random.default_rng(2))
    # The relative error of a standard deviation is 1 / sqrt(2 m) = 0.005: 6 of them.
    np.testing.assert_allclose(points.std(axis=0), 20.0, rtol=0.03)
    correlation = np.corrcoef(points.T) - np.eye(5)
    assert np.abs(correlation).max() < 0.045  # 6 / sqrt(m)


def test_generator_decides_the_mixture() -> None:
    one, _ = gaussian_mixture(10, 2, 2, 1.0, np.random.default_rng(3))
    same, _ = gaussian_mixture(10, 2, 2, 1.0, np.random.default_rng(3))
    other, _ = gaussian_mixture(10, 2, 2, 1.0, np.random.default_rng(4))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"m": 0}, InputError, "m=0: at least 1"),
        ({"d": 2.0}, TypeError, "d=2.0 is a float"),
        ({"k": -1}, InputError, "k=-1: at least 1"),
        ({"sigma": -1.0}, InputError, "sigma=-1.0: a finite number"),
        ({"sigma": float("nan")}, InputError, "sigma=nan"),
        ({"box": (1.0, 1.0)}, InputError, r"box=\(1.0, 1.0\): two finite numbers"),
        ({"rng": 0}, TypeError, "rng is a int: a numpy.random.Generator .*default_rng"),
    ],
)
def test_unusable_mixtures_are_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    arguments: dict[str, Any] = {
        "m": 5, "d": 2, "k": 2, "sigma": 1.0, "rng": np.random.default_rng(0), **change
    }  # fmt: skip
    with pytest.raises(error, match=message):
        gaussian_mixture(**arguments)


# --- rotations


def test_quarter_turns_are_counterclockwise() -> None:
    image = np.array([[[1, 2], [3, 4]]], dtype=np.uint8)
    points, truth = rotated_images(image)
    np.testing.assert_array_equal(points, [[1, 2, 3, 4], [2, 4, 1, 3], [4, 3, 2, 1], [3, 1, 4, 2]])
    np.testing.assert_array_equal(truth, [0, 1, 2, 3])
    assert points.dtype == np.float64


def test_flat_images_are_read_row_by_row() -> None:
    images = np.arange(2 * 9).reshape(2, 3, 3)
    square, truth = rotated_images(images)
    flat, _ = rotated_images(images.reshape(2, 9))
    np.testing.assert_array_equal(square, flat)
    np.testing.assert_array_equal(truth, [0, 0, 1, 1, 2, 2, 3, 3])
    np.testing.assert_array_equal(square[:2], images.reshape(2, 9))


def test_chosen_turns_name_the_truth() -> None:
    images = np.arange(4).reshape(1, 2, 2)
    points, truth = rotated_images(images, turns=(2, 0))
    np.testing.assert_array_equal(points, [[3, 2, 1, 0], [0, 1, 2, 3]])
    np.testing.assert_array_equal(truth, [0, 1])


@pytest.mark.parametrize(
    ("images", "turns", "message"),
    [
        (np.zeros((2, 3, 4)), (0,), r"shape \(2, 3, 4\): square images"),
        (np.zeros((2, 8)), (0,), r"shape \(2, 8\): square images"),
        (np.zeros(9), (0,), r"shape \(9,\): square images"),
        (np.zeros((0, 3, 3)), (0,), "no points"),
        (np.full((1, 2, 2), np.nan), (0,), "is NaN"),
        (np.zeros((1, 2, 2)), (), r"turns=\(\)"),
        (np.zeros((1, 2, 2)), (0, 4), r"turns=\(0, 4\): one or more different"),
    ],
)
def test_unusable_images_are_refused(images: Any, turns: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rotated_images(images, turns)


def test_rotated_digits_are_four_turns_of_one_digit() -> None:
    from sklearn.datasets import load_digits

    with np.load(DIGITS) as file:
        assert file["images"].astype(np.float64).tobytes() == load_digits().data.tobytes()
        assert (file["labels"] == load_digits().target).all()
    points, truth = rotated_digits(3)
    images = load_digits().images[load_digits().target == 3]
    np.testing.assert_array_equal(np.bincount(truth), [len(images)] * 4)
    for turn in range(4):
        expected = np.rot90(images[5], turn).ravel()
        np.testing.assert_array_equal(points[truth == turn][5], expected)


@pytest.mark.parametrize("digit", [10, -1, "3", True])
def test_unknown_digits_are_refused(digit: Any) -> None:
    with pytest.raises(InputError, match="one of 0 to 9"):
        rotated_digits(digit)


def test_the_component_is_another_truth_than_the_closest_center():
    same = dict(m=2000, d=2, k=3, sigma=8.0)
    points, component = gaussian_mixture(**same, rng=np.random.default_rng(0), truth="component")
    again, closest = gaussian_mixture(**same, rng=np.random.default_rng(0))
    assert (points == again).all()
    assert 0.3 < (component == closest).mean() < 0.9
    with pytest.raises(InputError, match="'closest' or 'component'"):
        gaussian_mixture(**same, rng=np.random.default_rng(0), truth="label")
