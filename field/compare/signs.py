"""Signs of secret integers from additive shares: no share is lifted, and the sum is taken in binary.

Let integers |x| <= (P - 1)/2 be shared as x = x_0 + ... + x_t modulo P.  Then x / P modulo 1 lies in
[0, 1/2) exactly if x >= 0, and every holder knows x_i / P modulo 1 from its residues alone,

    x_i / P = sum_l ((x_i (P/p_l)**-1) mod p_l) / p_l   modulo 1,

with the inverses folded into the factors of a linear combination.  So a holder's number is this fraction
in fixed point, rounded down, and the sign of x is the most significant bit of the numbers' sum modulo 1.

Rounding: a number of `fraction_digits` binary digits is below its fraction by less than 9/8 of the last
place: one for the digits dropped, an eighth for the rounding of 1/p_l (8 or more binary digits are kept
beyond those and the 30 of a residue).  The first holder adds t + 2 places, so the sum is above x / P by more
than 0 and at most t + 2 places, while x / P <= 1/2 - 1/(2P) for x >= 0 and <= 1 - 1/P for x < 0.  Hence the
sign is exact when 2**(digits - 1) > (t + 2) P.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from field.arrays import Array
from field.compare.bitslice import WORD, block_shape, word_count
from field.ring.basis import Basis

# Terms of a linear combination that the kernel sums without overflow.
MAX_TERMS = 3


def fraction_digits(basis: Basis, t: int) -> int:
    """Binary digits that fractions need, for t + 1 holders."""
    return ((t + 2) * basis.modulus).bit_length() + 1


def share_fractions(
    basis: Basis,
    t: int,
    values: Array,
    chosen: Sequence[Sequence[int]],
    factors: Sequence[Sequence[int]],
    *,
    first: bool,
) -> Array:
    """My numbers for several linear combinations of my additive shares: (digits, combinations, words).

    values (lanes, rows, m) are residues; combination c is of rows chosen[c] (terms,) with integer factors[c]
    (terms,), at most MAX_TERMS, of any size and sign.  first: whether I am the holder that adds the offset.
    Secret, as the shares are.  Each combination begins a new word; beyond m the numbers mean
    nothing.

    Raises ValueError for a basis of other lanes, and for more terms.
    """
    if (terms := max(map(len, factors))) > MAX_TERMS:
        raise ValueError(f"{terms} terms of one combination: at most {MAX_TERMS} products are added")
    scaled = scaled_factors(basis, factors)
    places, m = fraction_digits(basis, t), values.shape[2]
    if not basis.can_fold:
        raise ValueError(
            f"signs modulo {basis.primes} have no kernel: use the 30-bit lanes of Basis.for_bound"
        )
    from field.kernels import comparing

    primes, limbs = _limbs(basis, places)
    offset = _split((t + 2) * first << (32 * limbs.shape[1] - places), limbs.shape[1])
    number, width = block_shape(word_count(m))
    padded = np.zeros((*values.shape[:2], number * width * WORD), np.uint32)
    padded[:, :, :m] = values
    out = np.empty((places, len(chosen), word_count(m)), np.uint64)
    part = np.empty((places, number, width), np.uint64)
    for c, rows in enumerate(np.asarray(chosen, np.int64)):
        comparing.slice_fractions(padded, rows, scaled[:, c], primes, limbs, offset, part)
        out[:, c] = part.reshape(places, number * width)[:, : word_count(m)]
    return out


def scaled_factors(basis: Basis, factors: Sequence[Sequence[int]]) -> Array:
    """Factors times (P/p)**-1, canonical: (lanes, combinations, terms) uint64."""
    inverse = [pow(basis.modulus // p, -1, p) for p in basis.primes]
    table = [
        [[f * inv % p for f in row] for row in factors] for p, inv in zip(basis.primes, inverse, strict=True)
    ]
    return np.array(table, np.uint64)


@lru_cache(maxsize=64)
def _limbs(basis: Basis, places: int) -> tuple[Array, Array]:
    """Primes, and 1/p in enough 32-bit limbs that its rounding costs an eighth of a place: see above."""
    # Residues sum to less than lanes 2**30 <= 2**32, times 2**3, below one place.
    count = max(4, -(-(places + 35) // 32))
    table = np.stack([_split((1 << 32 * count) // p, count) for p in basis.primes])
    return np.array(basis.primes, np.uint64), table


def _split(number: int, count: int) -> Array:
    return np.array([number >> (32 * j) & 0xFFFFFFFF for j in range(count)], np.uint64)
