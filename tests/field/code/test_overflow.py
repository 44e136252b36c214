"""Integers that replies decode to in few lanes are reduced to more, in which what did not fit is another."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from field import Basis, LagrangeCode, SeededCoins
from field.code.distances import decode_residues
from field.ring.basis import LANE_PRIMES


def replies(code, integers, seed):
    """Coded distances by number that decode to these integers (k, m), and are else uniform."""
    basis, lanes = code.basis, code.basis.lanes
    chosen, weights = code.decoding_weights(tuple(range(code.threshold(2))), 2)
    values = {j: basis.sample(integers.shape, SeededCoins(seed, f"reply {j}")) for j in chosen}
    for lane, p in enumerate(basis.primes):
        rest = sum(
            int(w) * values[j][lane].astype(object)
            for w, j in zip(weights[lane, 1:], chosen[1:], strict=True)
        )
        values[chosen[0]][lane] = (integers - rest) * pow(int(weights[lane, 0]), -1, p) % p
    assert lanes == len(values[chosen[0]])
    return values


@given(
    st.sampled_from([LANE_PRIMES, (97, 101, 103, 107)]),
    st.integers(1, 3), st.integers(1, 2), st.integers(1, 3), st.sampled_from([1, 255, 700, 2113]),
    st.integers(0, 2**32),
)  # fmt: skip
@example(LANE_PRIMES, 2, 1, 3, 700, 0)
@example(LANE_PRIMES, 3, 1, 2, 256, 1)  # past 64 bits
def test_they_are_the_same_up_to_the_edge_and_not_beyond(primes, lanes, more, k, m, seed):
    lanes = min(lanes, len(primes) - 1)
    more = min(more, len(primes) - lanes)
    code = LagrangeCode(Basis(primes[: lanes + more]), 5, 1, 2)
    held = code.basis.prefix(lanes).modulus
    rng = np.random.default_rng(seed)
    integers = np.array([int(x) for x in rng.integers(0, 2**62, k * m)], object).reshape(k, m) % held
    where = int(rng.integers(k)), int(rng.integers(m))
    for edge, good in ((held - 1, True), (held, False), (code.basis.modulus - 1, False)):
        integers[where] = edge
        told = {j: values[:lanes].copy() for j, values in replies(code, integers, seed).items()}
        # Another bound for each second row, at the integers themselves and below one of them.
        groups = np.arange(m) % 2
        most = np.array([[max(x[q::2], default=0) for q in (0, 1)] for x in integers])
        most[where[0], where[1] % 2] = integers[where] - 1
        found, beyond = decode_residues(code, told, lanes + more, most, groups)
        over = (np.where(integers < held, integers, integers % held) > most[:, groups]).any(axis=0)
        assert (beyond == over).all()
        true = code.basis.reduce(integers)
        assert (found[:lanes] == true[:lanes]).all()
        wrong = found[lanes:] != true[lanes:]
        assert wrong[:, *where].all() == (not good)
        wrong[:, *where] = False
        assert not wrong.any()
