"""Random sums of the lanes that are left out say whether what decodes from the others is all there is."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from field import Basis, LagrangeCode, SeededCoins
from field.code.wraparound_check import COLUMNS, TESTS, compress_distances, fits_lanes
from field.ring.basis import LANE_PRIMES


def replies(code, integers, seed):
    """Coded distances by number that decode to these integers (k, m), and are else uniform."""
    basis, lanes = code.basis, code.basis.lanes
    chosen, weights = code.decoding_weights(tuple(range(code.threshold(2))), 2)
    values = {
        j: basis.sample(integers.shape, SeededCoins(seed, f"reply {j}")).astype(np.uint32) for j in chosen
    }
    for lane, p in enumerate(basis.primes):
        rest = sum(
            int(w) * values[j][lane].astype(object)
            for w, j in zip(weights[lane, 1:], chosen[1:], strict=True)
        )
        values[chosen[0]][lane] = (integers - rest) * pow(int(weights[lane, 0]), -1, p) % p
    assert lanes == len(values[chosen[0]])
    return values


@given(
    st.integers(1, 3), st.integers(1, 2), st.integers(1, 3), st.sampled_from([1, 255, 256, 700]),
    st.integers(0, 2**32),
)  # fmt: skip
@example(2, 1, 3, 700, 0)
@example(3, 1, 2, 256, 1)  # past 64 bits
def test_they_fit_up_to_the_edge_and_not_beyond(lanes, more, k, m, seed):
    more = min(more, 4 - lanes)
    code = LagrangeCode(Basis(LANE_PRIMES[: lanes + more]), 5, 1, 2)
    held = code.basis.prefix(lanes).modulus
    rng = np.random.default_rng(seed)
    integers = np.array([int(x) for x in rng.integers(0, 2**62, k * m)], object).reshape(k, m) % held
    where = int(rng.integers(k)), int(rng.integers(m))
    for edge, good in ((held - 1, True), (held, False), (code.basis.modulus - 1, False)):
        integers[where] = edge
        coins = rng.bytes(32)
        parts = {
            j: compress_distances(code, values, lanes, coins)
            for j, values in replies(code, integers, seed).items()
        }
        values, sums = ({j: part[q] for j, part in parts.items()} for q in range(2))
        assert {s.shape for s in sums.values()} == {(more, TESTS, COLUMNS)}
        assert fits_lanes(code, values, sums, coins) is good
        # Of other coins the sums are others.
        assert not fits_lanes(code, values, sums, bytes(32))
