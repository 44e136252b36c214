"""Integers as residues modulo a few primes ("lanes").

The ring Z_P with P the product of distinct primes is F_p1 x F_p2 x ...: arithmetic, and every protocol
over it, runs lane by lane, and the Chinese remainder theorem lifts the lanes back to an exact integer.
One prime is simply one lane; the literal field of SecFC's Appendix A with q = 2**61 - 1 is
`Basis((MERSENNE_61,))`.

Two families of primes have kernels: 30-bit primes 2**30 - c with small c (fast: 32-bit residues, folds
instead of divisions), and every other prime below 2**31 as well as 2**61 - 1 (exact and plain).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from typing import Any

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.kernels import LANE_BITS
from field.ring.errors import InvalidValue
from field.secrets.coins import Coins

# The primes that have kernels, and limits that follow from them.
MERSENNE_61 = 2**61 - 1
LANE = 1 << LANE_BITS
# 2**30 - c for these c are the largest primes below 2**30; a test has sympy confirm it.
LANE_PRIMES = tuple(LANE - c for c in (35, 41, 83, 101, 105, 107, 135, 153))
# The folds a -> (a mod 2**30) + c * (a div 2**30) of the kernels are proved for c below this.
FOLD_LIMIT = 256
# Exact comparisons hold integers below 2**128, so four 30-bit lanes are the most a protocol uses.
MAX_LANES = 4
# Residues of two arrays, below which NumPy adds them faster than kernels, a call of which each lane takes.
FEW = 1 << 13
# Products of a matrix by another, below which NumPy adds them up faster, and terms of a sum of them within 64
# bits: each product is below 2**60.
FEW_PRODUCTS = 1 << 11
TERMS = 16
# Bytes of arrays, below which a second thread takes longer to be woken than it saves.
SHORT = 1 << 18


@lru_cache(maxsize=256)
def _column(primes: tuple[int, ...], ndim: int, dtype: np.dtype[Any]) -> Array:
    found = np.array(primes, dtype).reshape((-1,) + (1,) * (ndim - 1))
    found.flags.writeable = False
    return found


@dataclass(frozen=True)
class Basis:
    """Distinct primes, whose residue arrays have shape (lanes, ...), axis 0 the prime.

    Parameters
    ----------
    primes
        Distinct primes: below 2**31, for residues stored as uint32, or 2**61 - 1 alone, as uint64.

    Raises
    ------
    InvalidValue
        For no prime, equal primes, or numbers that are no such primes.

    Notes
    -----
    Residues are canonical: in [0, p).
    """

    primes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.primes:
            raise InvalidValue("a basis needs at least one prime: try Basis.for_bound(bound)")
        if len(set(self.primes)) != len(self.primes):
            raise InvalidValue(f"primes={self.primes} repeat: the lanes must be distinct primes")
        for p in self.primes:
            if not (2 < p < 2**31 or p == MERSENNE_61):
                raise InvalidValue(f"prime {p} has no kernel: use primes below 2**31, or 2**61 - 1 alone")
            if p not in LANE_PRIMES and p != MERSENNE_61 and not _is_prime(p):
                raise InvalidValue(f"{p} is not a prime: a residue could have no inverse")
        if MERSENNE_61 in self.primes and len(self.primes) > 1:
            raise InvalidValue("2**61 - 1 stands alone: mix 30-bit primes instead of adding lanes to it")

    @classmethod
    def for_bound(cls, bound: int) -> Basis:
        """The fewest 30-bit lanes whose product exceeds `bound`.

        Raises ValueError if more than MAX_LANES would be needed.
        """
        for lanes in range(1, MAX_LANES + 1):
            basis = cls(LANE_PRIMES[:lanes])
            if basis.modulus > bound:
                return basis
        raise InvalidValue(
            f"integers up to 2**{bound.bit_length()} need more than {MAX_LANES} lanes of 30 bits: "
            "lower the scale, the bound of the data or the number of points"
        )

    @cached_property
    def lanes(self) -> int:
        return len(self.primes)

    @cached_property
    def modulus(self) -> int:
        return math.prod(self.primes)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint64 if self.primes[0] == MERSENNE_61 else np.uint32)

    @cached_property
    def can_fold(self) -> bool:
        """Whether every prime is 2**30 - c with c small enough for the folding kernels."""
        return all(0 < LANE - p < FOLD_LIMIT for p in self.primes)

    def prefix(self, lanes: int) -> Basis:
        """The basis of the first `lanes` primes."""
        return self if lanes == self.lanes else Basis(self.primes[:lanes])

    def column(self, ndim: int, dtype: Any = np.int64) -> Array:
        """The primes shaped (lanes, 1, ..., 1) with `ndim` axes, to broadcast over residues."""
        return _column(self.primes, ndim, np.dtype(dtype))

    def reduce(self, ints: Array) -> Array:
        """Residues of integers of either sign, any size (object arrays too): (lanes, *shape)."""
        ints = np.asarray(ints)
        if ints.dtype.kind not in "iuO":
            raise TypeError(f"dtype {ints.dtype} is not an integer type: quantize the data first")
        if ints.dtype != np.int64:
            return np.stack([np.asarray(ints % p, self.dtype) for p in self.primes])
        from field.kernels.scalar import reduce_small

        out = np.empty((self.lanes, *ints.shape), self.dtype)
        for lane, p in enumerate(self.primes):
            reduce_small(ints.reshape(-1), np.int64(p), out[lane].reshape(-1))
        return out

    def lift(self, residues: Array) -> Array:
        """The integers in [0, modulus) with these residues: uint64, or Python ints past 64 bits.

        residues is (lanes, *shape), canonical; the result has shape `shape`.
        """
        if self.lanes == 1:
            return np.asarray(residues[0], np.uint64)
        dtype: Any = np.uint64 if self.modulus <= 2**64 else object
        digits = self.digits(residues)
        value = digits[-1].astype(dtype)
        for digit, p in zip(digits[-2::-1], self.primes[-2::-1], strict=True):
            value = value * dtype(p) if dtype is np.uint64 else value * p
            value = value + digit.astype(dtype)
        return np.asarray(value)

    def lift_signed(self, residues: Array) -> Array:
        """The integers in (-modulus/2, modulus/2) with these residues: int64, or Python ints."""
        value = self.lift(residues)
        if self.modulus < 2**63:
            signed = value.astype(np.int64)
            return np.where(signed > self.modulus // 2, signed - self.modulus, signed)
        value = value.astype(object)
        return np.asarray(value - (value > self.modulus // 2).astype(object) * self.modulus)

    def digits(self, residues: Array) -> list[Array]:
        """Mixed-radix digits v_0, v_1, ... with x = v_0 + p_0 (v_1 + p_1 (v_2 + ...)): int64 arrays.

        Garner's algorithm.  Every product is of a residue and an inverse below 2**31, so below 2**62.
        """
        digits: list[Array] = []
        for lane, p in enumerate(self.primes):
            value = residues[lane].astype(np.int64)
            for earlier, digit in zip(self.primes, digits, strict=False):
                value = (value - digit) % p * pow(earlier, -1, p) % p
            digits.append(value)
        return digits

    def sample(self, shape: tuple[int, ...], coins: Coins) -> Array:
        """Secret uniform residues: (lanes, *shape)."""
        out = np.empty((self.lanes, *shape), self.dtype)
        for lane, p in enumerate(self.primes):
            coins.fill_residues(p, out[lane])
        return out

    def add(self, a: Array, b: Array) -> Array:
        """Sum of residues, lane by lane, with numpy broadcasting behind axis 0."""
        if 1 < a.ndim == b.ndim and a.size + b.size < FEW and a.dtype == b.dtype == self.dtype:
            # A call of a kernel a lane takes longer.  Where the sum is below the prime the difference wraps
            # around, and is larger.
            small: Array = a + b
            return np.asarray(np.minimum(small, small - self.column(small.ndim, self.dtype)))
        # Not single residues: a lane of them is no array that a kernel could write to.
        if a.ndim > 1 and a.shape == b.shape and a.flags.c_contiguous and b.flags.c_contiguous:
            from field.kernels.scalar import add_flat

            out = np.empty_like(a)
            for lane, p in enumerate(self.primes):
                add_flat(a[lane].reshape(-1), b[lane].reshape(-1), self.dtype.type(p), out[lane].reshape(-1))
            return out
        # Two residues below 2**31 (or 2**61) sum without overflow in 32 (or 64) bits.
        total = a + b
        limit = self.column(total.ndim, self.dtype)
        return np.asarray(np.where(total >= limit, total - limit, total))

    def add_to_lane(self, out: Array, residues: Array, p: int) -> None:
        """out += residues modulo the prime p, in place: C-contiguous canonical residues of one shape."""
        from field.kernels.scalar import add_into

        add_into(out.reshape(-1), residues.reshape(-1), self.dtype.type(p))

    def add_all(self, values: Sequence[Array], *, threads: int = 1) -> Array:
        """The sum of residues (lanes, ..., q), one or more, C-contiguous and none of them.

        threads: of the processor, each of which adds up a lane.
        """
        from field.kernels.compiling import run_parallel

        out = np.empty(values[0].shape, self.dtype)

        def add_up(lane: int, p: int) -> None:
            out[lane] = values[0][lane]
            for value in values[1:]:
                self.add_to_lane(out[lane], value[lane], p)

        tasks = [partial(add_up, lane, p) for lane, p in enumerate(self.primes)]
        run_parallel(tasks, threads if out.nbytes > SHORT else 1)
        return out

    def negate(self, a: Array) -> Array:
        """Additive inverses, lane by lane."""
        return np.where(a == 0, a, self.column(a.ndim, self.dtype) - a)

    def multiply(self, a: Array, b: Array) -> Array:
        """Products of residues, lane by lane, with numpy broadcasting behind axis 0."""
        from field.kernels.scalar import fold_flat, multiply_61

        if self.dtype == np.uint64:
            shape = np.broadcast_shapes(a.shape, b.shape)
            # Copies, also where an axis has length 0 or 1: kernels take no views that NumPy broadcasts.
            left, right = (
                np.ascontiguousarray(x) if x.shape == shape else np.broadcast_to(x, shape).copy()
                for x in (a, b)
            )
            return np.asarray(multiply_61(left.reshape(-1), right.reshape(-1)).reshape(shape))
        # Both factors are below 2**31, so the product is below 2**62.
        wide = np.multiply(a, b, dtype=np.uint64)
        if self.can_fold and wide.size >= FEW:
            out = np.empty(wide.shape, self.dtype)
            for part, found, p in zip(wide, out, self.primes, strict=True):
                fold_flat(part.reshape(-1), np.int64(LANE - p), np.int64(p), found.reshape(-1))
            return out
        return (wide % self.column(wide.ndim, np.uint64)).astype(self.dtype)

    def squares(self, a: Array) -> Array:
        """Sums of squares of residues (lanes, ..., q) over the last axis, lane by lane: (lanes, ...)."""
        each = self.multiply(a, a)
        if self.dtype == np.uint64:
            return reduce(self.add, np.moveaxis(each, -1, 0))
        # Fewer than 2**33 residues below 2**31.
        total: Array = each.sum(axis=-1, dtype=np.uint64)
        return (total % self.column(total.ndim, np.uint64)).astype(self.dtype)

    def add_scaled(
        self, out: Array, residues: Array, factors: Sequence[Sequence[int]], *, threads: int = 1
    ) -> None:
        """out += sum_q factors[lane][q] residues[q], in place.

        out (lanes, N), contiguous rows of any stride; residues (q, lanes, >= N), C-contiguous; canonical.
        threads: of the processor, each of which adds up a lane.
        """
        from field.kernels import scalar as kernels
        from field.kernels.compiling import run_parallel

        def add_up(lane: int, p: int) -> None:
            if self.can_fold:
                centered = np.array([f - p if f > p // 2 else f for f in factors[lane]], np.int64)
                c = np.int64(LANE - p)
                kernels.add_scaled_lane(out[lane], residues, np.int64(lane), centered, c, np.int64(p))
                return
            for factor, words in zip(factors[lane], residues, strict=True):
                plain = words[lane, : out.shape[1]]
                kernels.add_scaled_plain(out[lane], plain, np.uint64(factor), np.uint64(p))

        tasks = [partial(add_up, lane, p) for lane, p in enumerate(self.primes)]
        run_parallel(tasks, threads if out.nbytes > SHORT else 1)

    def matmul(self, matrix: Array, columns: Array) -> Array:
        """Product of small matrices with wide ones: (lanes, r, q) and (lanes, q, N) to (lanes, r, N).

        Both are canonical residues.
        """
        if self.can_fold:
            if matrix.shape[2] <= TERMS and matrix.size * columns.shape[2] < FEW_PRODUCTS:
                sums = np.matmul(matrix.astype(np.uint64), columns.astype(np.uint64))
                return np.asarray(sums % self.column(3, np.uint64), self.dtype)
            from field.ring import pseudo_mersenne

            return pseudo_mersenne.matmul(matrix, columns, self.primes)
        from field.kernels import scalar as kernels

        return kernels.scalar_matmul(matrix, columns, self.primes)

    def weigh_groups(
        self, weights: Array, groups: Sequence[Array], values: Array, *, threads: int = 1
    ) -> Array:
        """What values add up to, group by group, by weights and at last by one: (lanes, groups, R + 1, rows).

        weights (lanes, R, m) and values (lanes, rows, m): canonical.  groups: indices below m, one group or
        more.  threads: of the processor, each of which takes a cut of all indices.
        """
        from field.kernels import scalar as kernels
        from field.kernels.compiling import run_parallel, split_range

        order, ends = np.concatenate(groups), np.cumsum([0, *map(len, groups)])
        weights, values = (np.require(each, requirements=["C", "W"]) for each in (weights, values))
        weigh = kernels.weigh_groups if self.dtype == np.uint32 else kernels.weigh_groups_plain
        cuts = split_range(len(order), threads)
        shape = self.lanes, len(groups), weights.shape[1] + 1, values.shape[1]
        found = np.zeros((len(cuts), *shape), self.dtype)
        tasks = [
            partial(weigh, weights[lane], order, within, values[lane], np.uint64(p), part[lane])
            for part, cut in zip(found, cuts, strict=True)
            for within in [np.clip(ends, cut.start, cut.stop)]
            for lane, p in enumerate(self.primes)
        ]
        run_parallel(tasks, threads)
        # Residues add up to the same in any order.
        return reduce(self.add, found)

    def check(self, residues: Array, shape: tuple[int, ...]) -> None:
        """Refuse an array that is not (lanes, *shape) canonical residues of this basis.

        Raises ValueError that names what is wrong, never a value.
        """
        if residues.dtype != self.dtype or residues.shape != (self.lanes, *shape):
            raise ValueError(
                f"residues are {residues.dtype}{residues.shape}, expected {self.dtype}{(self.lanes, *shape)}"
            )
        # One number of all lanes says it of nearly every array, in half the time for a small one.
        if residues.size and int(residues.max()) >= min(self.primes):
            largest = residues.max(axis=tuple(range(1, residues.ndim))).tolist()
            for top, p in zip(largest, self.primes, strict=True):
                if top >= p:
                    raise ValueError(f"residues modulo {p} are not canonical: every one must be below it")


def lanes_for(bound: int, primes: Sequence[int]) -> int:
    """How many of the primes, in order, have a product above `bound` (all of them if none)."""
    product = 1
    for lanes, p in enumerate(primes, 1):
        product *= p
        if product > bound:
            return lanes
    return len(primes)


def _is_prime(p: int) -> bool:
    from sympy import isprime

    return bool(isprime(p))
