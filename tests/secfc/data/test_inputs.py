"""Checks at the door: blocks, reading, counts and seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from secfc.data import inputs
from secfc.data.inputs import (
    as_rows,
    checked_points,
    positive_integer,
    read_all,
    row_blocks,
    seeded_generator,
)
from secfc.errors import InputError


def test_input_errors_are_value_errors() -> None:
    assert issubclass(InputError, ValueError)


def test_errors_name_the_feature_where_names_are_known() -> None:
    points = np.array([[1.0, np.inf]])
    with pytest.raises(InputError, match="x, row 0, feature 'height'"):
        list(row_blocks(points, "x", features=["age", "height"]))


def test_a_block_has_at_least_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "BLOCK_BYTES", 1)
    assert [start for start, _ in row_blocks(np.zeros((3, 100)), "x")] == [0, 1, 2]


def test_blocks_of_an_array_share_its_memory() -> None:
    points = np.zeros((4, 2))
    for _, block in row_blocks(points, "x"):
        assert np.shares_memory(block, points)


def test_reading_an_array_does_not_copy_it() -> None:
    points = np.zeros((4, 2))
    assert np.shares_memory(read_all(checked_points(points, "x"), "x"), points)


def test_matrices_become_arrays() -> None:
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix([[1.0, 2.0]])
    assert type(checked_points(matrix, "x")) is np.ndarray


def test_nested_lists_become_arrays_and_ragged_ones_are_refused() -> None:
    assert as_rows([[1, 2], [3, 4]]).shape == (2, 2)
    with pytest.raises(InputError, match="not a table"):
        as_rows([[1, 2], [3]])


@pytest.mark.parametrize("value", [1, 7, np.int64(3)])
def test_counts_are_plain_integers(value: Any) -> None:
    assert type(positive_integer("k", value)) is int
    assert positive_integer("k", value) == value


@pytest.mark.parametrize("value", [1.0, True, "1", None, np.float64(2)])
def test_counts_of_other_types_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=r"k=.*pass an integer"):
        positive_integer("k", value)


def test_seeds_reproduce_and_differ() -> None:
    draws = [seeded_generator(seed).random(4).tolist() for seed in (0, 0, 1, 2**100)]
    assert draws[0] == draws[1]
    assert len({tuple(draw) for draw in draws}) == 3
