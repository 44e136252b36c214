"""Circuits in the clear, against Python integers."""

import numpy as np
import pytest

from field.compare import circuits
from field.compare.argmin import ArgminContest
from field.compare.bitslice import from_planes, pack_bits, unpack_bits
from field.compare.dealer_protocol import winner_code
from tests.field.compare.players import clear


def planes(values, rows):
    bits = np.array([[v >> b & 1 for v in values] for b in range(rows)], np.uint8)
    return pack_bits(bits)[None]


@pytest.mark.parametrize("rows", [2, 3, 7, 8, 93])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 9])
def test_the_top_bit_of_a_sum(rows, count):
    rng = np.random.default_rng(rows * count)
    values = [[int(x) << 31 | int(x) for x in rng.integers(0, 2**62, 200)] for _ in range(count)]
    values = [[v >> 3 & (1 << rows) - 1 for v in some] for some in values]
    for i, some in enumerate(values):
        some[:3] = [(1 << rows) - 1, 0, (1 << rows) - 1 if i < 2 else 0]
    top = clear(circuits.top_bit([planes(some, rows) for some in values]))
    expected = [sum(column) >> (rows - 1) & 1 for column in zip(*values, strict=True)]
    assert unpack_bits(top[0], 200).tolist() == expected


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6, 7, 8, 13, 16])
def test_the_winner_is_the_least_and_the_first_of_equals(k):
    rng = np.random.default_rng(k)
    values = rng.integers(0, 4, (k, 300))
    contest = ArgminContest.nearest(np.ones(k, np.int64))
    bits = np.array([values[b] < values[a] for a, b, _, _ in contest.comparisons], np.uint8).reshape(-1, 300)
    won = clear(
        circuits.winner_products(
            pack_bits(bits)[None], contest.literals, contest.wanted, lambda ones: ones[None]
        )
    )
    one_hot = unpack_bits(won[0], 300)
    assert (one_hot.sum(axis=0) == 1).all()
    assert (one_hot.argmax(axis=0) == values.argmin(axis=0)).all()
    assert (from_planes(winner_code(contest, won[0]), 300) == values.argmin(axis=0)).all()
