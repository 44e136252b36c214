"""Signs of integers that nobody holds, against Python integers."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from field.compare import circuits, signs
from field.compare.bitslice import pack_bits, unpack_bits, word_count
from field.ring.basis import LANE_PRIMES, MERSENNE_61, Basis
from field.secrets.coins import SeededCoins
from tests.field.compare import players
from tests.oracles import field as reference
from tests.oracles.bits import from_blocks, planes_of_residues

FOLDED = [Basis(LANE_PRIMES[:lanes]) for lanes in (1, 2, 3, 4)]


def split(basis, values, holders, seed):
    """Additive shares (lanes, count) modulo P of integers of either sign."""
    count = len(values)
    shares = [basis.sample((count,), SeededCoins(seed, f"holder {i}")) for i in range(holders - 1)]
    last = basis.reduce(np.array(values, object))
    for share in shares:
        last = basis.add(last, basis.negate(share).astype(basis.dtype))
    return [*shares, last.astype(basis.dtype)]


def number(bits):
    """Planes of single bits (places, count) as Python integers."""
    return sum(row.astype(object) << b for b, row in enumerate(bits))


def edges(basis):
    half = (basis.modulus - 1) // 2
    return [0, 1, -1, 2, -2, half, -half, half - 1, 1 - half, half // 2, -half // 2]


@pytest.mark.parametrize("basis", FOLDED, ids=lambda b: f"{b.lanes} lanes")
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("m", [1, 64, 2049])
def test_fractions_equal_their_twin(basis, first, m):
    rng = np.random.default_rng(m)
    values = basis.sample((3, m), SeededCoins(m, "values"))
    values[:, :, 0] = np.array(basis.primes, np.uint32)[:, None] - 1
    chosen = [(0, 1), (2, 0), (1, 1)]
    factors = [[int(x) - 2**62 for x in rng.integers(0, 2**63 - 1, 2)] for _ in chosen]
    factors[0] = [-1, -1]
    found = signs.share_fractions(basis, 2, values, chosen, factors, first=first)
    assert found.shape == (signs.fraction_digits(basis, 2), 3, word_count(m))
    scaled = signs.scaled_factors(basis, factors)
    some = np.unique(np.append(rng.integers(0, m, 40), [0, m - 1]))
    exact = reference.fractions(basis, values[:, :, some], np.array(chosen), scaled, 4 * first, len(found))
    error = number(exact) - number(unpack_bits(found, m)[:, :, some])
    # 1/p is rounded down, which may cost the last place of a number, and never more.
    assert set(np.unique(error % 2 ** len(found))) <= {0, 1}
    assert m == 1 or (error != 0).mean() < 0.2


def test_the_rounding_stays_within_its_bound():
    # The largest residues in every lane round the most.
    for basis, t in itertools.product(FOLDED, (1, 2, 3)):
        places = signs.fraction_digits(basis, t)
        values = np.array(basis.primes, np.uint32)[:, None, None] - np.uint32(1)
        bits = unpack_bits(signs.share_fractions(basis, t, values, [(0,)], [[1]], first=False), 1)[:, 0]
        exact = sum(Fraction((p - 1) * pow(basis.modulus // p, -1, p) % p, p) for p in basis.primes) % 1
        lost = exact * 2**places - int(number(bits)[0])
        assert 0 <= lost < Fraction(9, 8)
        assert 2 ** (places - 1) > (t + 2) * basis.modulus


@pytest.mark.parametrize("basis", FOLDED, ids=lambda b: f"{b.lanes} lanes")
@pytest.mark.parametrize("t", [1, 2, 3])
def test_signs_at_the_edges(basis, t):
    rng = np.random.default_rng(t)
    values = edges(basis) * 20
    for seed in range(3):
        shares = split(basis, values, t + 1, seed)
        # Shares that wrap around all at once, or not at all.
        shares[0][:, : len(edges(basis))] = int(rng.integers(0, 2))
        total = sum(s.astype(np.uint64) for s in shares[:-1]) % basis.column(2, np.uint64)
        rest = basis.add(basis.reduce(np.array(values, object)), basis.negate(total.astype(np.uint32)))
        shares[-1] = rest.astype(np.uint32)
        numbers = [
            signs.share_fractions(basis, t, s[:, None], [(0,)], [[1]], first=i == 0)
            for i, s in enumerate(shares)
        ]
        top = players.clear(circuits.top_bit([n.reshape(1, len(n), -1) for n in numbers]))
        assert unpack_bits(top[0], len(values)).tolist() == [int(v < 0) for v in values]


@given(st.integers(1, 3), st.integers(0, 2**32), st.lists(st.integers(-(2**88), 2**88), min_size=1))
def test_signs_of_anything(t, seed, values):
    basis = FOLDED[2]
    numbers = [
        signs.share_fractions(basis, t, s[:, None], [(0,)], [[1]], first=i == 0)
        for i, s in enumerate(split(basis, values, t + 1, seed))
    ]
    top = players.clear(circuits.top_bit([n.reshape(1, len(n), -1) for n in numbers]))
    assert unpack_bits(top[0], len(values)).tolist() == [int(v < 0) for v in values]


@pytest.mark.parametrize("primes", [(7, 11), (13,), (3, 5, 7)])
@pytest.mark.parametrize("t", [1, 2])
def test_every_integer_and_every_sharing_of_a_tiny_ring(primes, t):
    basis = Basis(primes)
    P, places = basis.modulus, signs.fraction_digits(basis, t)
    one = signs.scaled_factors(basis, [[1]])
    x = np.arange(P)
    table = reference.fractions(basis, basis.reduce(x)[:, None], np.array([(0,)]), one, 0, places)
    floors = number(table[:, 0])
    for first in range(P) if t == 1 else range(0, P, 5):
        for second in range(P) if t == 2 else (0,):
            total = floors + int(floors[first]) + (int(floors[second]) if t == 2 else 0) + t + 2
            value = (x + first + (second if t == 2 else 0)) % P
            negative = value > P // 2
            assert ((total >> (places - 1) & 1).astype(bool) == negative).all()


@pytest.mark.parametrize("primes", [(10007,), (MERSENNE_61,)])
def test_other_primes_are_refused(primes):
    basis = Basis(primes)
    with pytest.raises(ValueError, match="have no kernel"):
        signs.share_fractions(basis, 1, basis.reduce(np.zeros((1, 5), np.int64)), [(0,)], [[1]], first=True)


@pytest.mark.parametrize("basis", FOLDED, ids=lambda b: f"{b.lanes} lanes")
def test_as_many_terms_are_added_as_the_kernel_holds_and_no_more(basis):
    # The largest residues, under the factor that is the largest in every lane.
    most, primes = signs.MAX_TERMS, np.array(basis.primes, np.uint32)[:, None, None]
    values = np.repeat(primes - np.uint32(1), most + 1, 1)
    factor = -sum(basis.modulus // p for p in basis.primes)
    assert (signs.scaled_factors(basis, [[factor]])[:, 0, 0] == primes[:, 0, 0] - 1).all()
    found = signs.share_fractions(basis, 1, values, [range(most)], [[factor] * most], first=False)
    sums = np.array([[[most * (basis.modulus // p) % p]] for p in basis.primes], np.uint32)
    assert (found == signs.share_fractions(basis, 1, sums, [(0,)], [[1]], first=False)).all()
    factors = [[factor] * (most + 1), [1]]
    with pytest.raises(ValueError, match="4 terms of one combination"):
        signs.share_fractions(basis, 1, values, [range(most + 1), (0,)], factors, first=False)


def test_fewer_digits_would_err():
    # The bound is not idle: with the digits of the modulus alone a tie or a largest value turns.
    basis, t = Basis((7, 11)), 2
    places, wrong = (basis.modulus).bit_length(), 0
    one = signs.scaled_factors(basis, [[1]])
    table = reference.fractions(basis, basis.reduce(np.arange(77))[:, None], np.array([(0,)]), one, 0, places)
    floors = number(table[:, 0])
    for a, b in itertools.product(range(77), repeat=2):
        total = floors + int(floors[a]) + int(floors[b]) + t + 2
        wrong += int(
            (((total >> (places - 1)) & 1).astype(bool) != ((np.arange(77) + a + b) % 77 > 38)).sum()
        )
    assert wrong > 0


def test_planes_of_integers_agree_with_fractions_of_one():
    # The two slicings of the house number their planes alike: least significant first.
    basis = FOLDED[0]
    values = basis.reduce(np.arange(5))
    planes = from_blocks(planes_of_residues(basis, values), 1)
    assert (number(unpack_bits(planes, 5)) == np.arange(5)).all()
    assert (pack_bits(unpack_bits(planes, 5)) == planes).all()
