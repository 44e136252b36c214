"""Bit-sliced integers against Python's."""

import numpy as np
import pytest

from field.compare import bitslice
from field.ring.basis import LANE_PRIMES, Basis
from tests.oracles.bits import from_blocks, planes_of_residues, to_blocks


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def value_of(planes, count):
    """The integers of planes (rows, words), by Python integers."""
    bits = bitslice.unpack_bits(planes, count).astype(object)
    return sum(row << b for b, row in enumerate(bits))


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000])
def test_packing_round_trips(count, rng):
    bits = rng.integers(0, 2, (3, count)).astype(np.uint8)
    planes = bitslice.pack_bits(bits)
    assert planes.shape == (3, bitslice.word_count(count))
    np.testing.assert_array_equal(bitslice.unpack_bits(planes, count), bits)
    assert planes[0, -1] < 1 << ((count - 1) % 64 + 1) if count % 64 else True
    digits = bits * np.array([[1], [2], [4]])
    np.testing.assert_array_equal(bitslice.from_planes(planes, count), digits.sum(axis=0))


@pytest.mark.parametrize("words", [1, 31, 32, 33, 100])
def test_blocks_round_trip(words, rng):
    planes = rng.integers(0, 2**64, (5, words), np.uint64)
    sliced = to_blocks(planes)
    assert sliced.shape == (bitslice.block_shape(words)[0], 5, bitslice.block_shape(words)[1])
    np.testing.assert_array_equal(from_blocks(sliced, words), planes)


@pytest.mark.parametrize("lanes", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [1, 64, 2049])
def test_integers_are_sliced_as_python_lifts_them(lanes, count, rng):
    basis = Basis(LANE_PRIMES[:lanes])
    values = [int(x) % basis.modulus for x in rng.integers(0, 2**62, count)]
    edges = [
        0,
        1,
        basis.modulus - 1,
        basis.modulus // 2,
        basis.modulus // 2 + 1,
        basis.primes[0] % basis.modulus,
    ]
    values[: len(edges)] = edges[:count]
    values[len(edges) :] = [v**2 % basis.modulus for v in values[len(edges) :]]
    sliced = planes_of_residues(basis, basis.reduce(np.array(values, object)))
    planes = from_blocks(sliced, bitslice.word_count(count))
    assert planes.shape == (30 * lanes, bitslice.word_count(count))
    assert list(value_of(planes, count)) == values


def test_other_primes_are_refused():
    with pytest.raises(ValueError, match=r"2\*\*30 - c"):
        planes_of_residues(Basis((10007,)), np.zeros((1, 5), np.uint32))
