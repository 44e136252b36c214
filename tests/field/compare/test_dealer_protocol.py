"""Sums of what several opened are those of Python's integers, however many threads add them up."""

from functools import reduce

import numpy as np
import pytest

from field.compare import dealer_protocol
from field.compare.dealer_protocol import combine_openings
from field.ring import basis as bases
from field.ring.basis import LANE_PRIMES, MERSENNE_61, Basis
from field.secrets.coins import SeededCoins

FOLDED, PLAIN = Basis(LANE_PRIMES[:3]), Basis((MERSENNE_61,))
THREADS = pytest.mark.parametrize("threads", [1, 2, 3])


@pytest.fixture(autouse=True)
def cut_also_what_is_short(monkeypatch):
    for module in (bases, dealer_protocol):
        monkeypatch.setattr(module, "SHORT", 0)


@pytest.mark.parametrize("basis", [FOLDED, PLAIN], ids=["folded", "plain"])
@THREADS
@pytest.mark.parametrize("many", [1, 2, 5])
def test_sums_of_residues_are_those_of_python_and_new(basis, threads, many):
    values = [basis.sample((7,), SeededCoins(i, "values")) for i in range(many)]
    values[0][:, 0] = [p - 1 for p in basis.primes]
    found = basis.add_all(values, threads=threads)
    primes = np.array(basis.primes, object)[:, None]
    want = sum(value.astype(object) for value in values) % primes
    assert (found == want.astype(basis.dtype)).all()
    assert not any(np.shares_memory(found, value) for value in values)


@THREADS
@pytest.mark.parametrize("size", [1, 2, 3, 64, 65])
def test_openings_of_words_are_their_exclusive_or(threads, size):
    rng = np.random.default_rng(size)
    openings = [rng.integers(0, 2**64, (size, 3), np.uint64) for _ in range(4)]
    kept = [opening.copy() for opening in openings]
    for many in range(1, 5):
        found = combine_openings(FOLDED, openings[:many], threads=threads)
        assert (found == reduce(np.bitwise_xor, openings[:many])).all()
    assert all((a == b).all() for a, b in zip(openings, kept, strict=True))
