"""Whether decoded distances are below a bound that honest rows keep, told by a few random sums of them.

Distances to honest rows fit in the first lanes; rows that deviate, and pass the test of shared rows, may need
more (`secfc.coded_kmeans.parameters`).  So of the other lanes only random sums are told: with all distances
put into rows of COLUMNS,

    c_aj = sum_q rho_aq D_qj modulo p,  a < TESTS,

and a decoder compares them with the same sums of what it decoded from the first lanes.  Where some D_qj does
not fit there, what was decoded differs from it by a multiple of the first lanes' product, which no other
prime divides: then each sum of its column agrees with probability 1 / p, and all TESTS of them with less than
2**-88.  The coins must be drawn after the rows are shared.  Sums are linear, so they are decoded from sums of
coded distances, blinded or not, and are a function of what would else be told in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.distances import decode_scaled
from field.code.lagrange_code import LagrangeCode
from field.ring.basis import Basis
from field.ring.uint128 import UInt128
from field.secrets.coins import Coins

Array = NDArray[Any]

# Sums of a column modulo a prime, and columns.
TESTS, COLUMNS = 3, 256
# So many distances are worth it: sums and two looks at what is decoded cost as much as a lane of fewer.
WORTH = 1 << 14


def random_sums(basis: Basis, values: Array, seed: bytes) -> Array:
    """(lanes, TESTS, COLUMNS) sums of residues (lanes, *shape), by weights that the seed (32 bytes) says."""
    flat = values.reshape(basis.lanes, -1)
    rows = -(-flat.shape[1] // COLUMNS)
    padded = np.zeros((basis.lanes, rows * COLUMNS), basis.dtype)
    padded[:, : flat.shape[1]] = flat
    weights = basis.sample((TESTS, rows), Coins(seed))
    return np.asarray(basis.matmul(weights, padded.reshape(basis.lanes, rows, COLUMNS)))


def compress_distances(code: LagrangeCode, values: Array, lanes: int, seed: bytes) -> tuple[Array, Array]:
    """Of coded distances (all lanes that may be needed, *shape) the first lanes, and sums of the others."""
    rest = Basis(code.basis.primes[lanes : len(values)])
    return values[:lanes], random_sums(rest, values[lanes:], seed)


def fits_lanes(
    code: LagrangeCode, values: Mapping[int, Array], sums: Mapping[int, Array], seed: bytes
) -> bool:
    """Whether distances decode to integers that the lanes of values (lanes, k, m) hold.

    values, sums: what the same clients, by number, told of their coded distances (`compress_distances`).
    """
    chosen, weights = code.decoding_weights(tuple(sorted(values)), 2)
    lanes, more = len(values[chosen[0]]), len(sums[chosen[0]])
    rest = Basis(code.basis.primes[lanes : lanes + more])
    decoded = np.zeros((more, TESTS, COLUMNS), rest.dtype)
    for client, weight in zip(chosen, weights[lanes : lanes + more].T, strict=True):
        decoded = rest.add(decoded, rest.multiply(sums[client], weight[:, None, None]))
    return np.array_equal(decoded, random_sums(rest, _residues(rest, decode_scaled(code, values)), seed))


def _residues(basis: Basis, integers: UInt128) -> Array:
    """Residues (lanes, *shape) of integers below 2**120."""
    out = np.empty((basis.lanes, *integers.shape), basis.dtype)
    for lane, p in enumerate(basis.primes):
        # high is below 2**56, and a product of two residues below 2**31 leaves room for a third.
        high = integers.high % np.uint64(p) * np.uint64(2**64 % p)
        out[lane] = (high + integers.low % np.uint64(p)) % np.uint64(p)
    return out
