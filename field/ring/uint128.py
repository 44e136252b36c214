"""Exact non-negative integers below 2**128, as two uint64 halves: what a distance is compared as.

Four 30-bit lanes make values below 2**120, past 64 bits and past floats.  `UInt128` holds them without a
Python object each, compares fractions with cross-multiplied integers and totals without overflow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from field.arrays import Array
from field.ring.basis import MAX_LANES, Basis


@dataclass(frozen=True, eq=False, repr=False)
class UInt128:
    """high * 2**64 + low, two uint64 arrays of one shape.

    As scaled distances the shape is (k, m): one row a center, so that a row is contiguous.
    """

    high: Array
    low: Array

    def __repr__(self) -> str:
        return f"Exact(shape={self.shape})"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.low.shape

    @classmethod
    def lift(cls, basis: Basis, residues: Array) -> UInt128:
        """The integers in [0, modulus) with residues (lanes, *shape)."""
        from field.kernels import scalar as kernels

        shape = residues.shape[1:]
        if basis.lanes == 1:
            return cls(np.zeros(shape, np.uint64), residues[0].astype(np.uint64))
        if basis.lanes > MAX_LANES:
            raise ValueError(f"{basis.lanes} lanes exceed 128 bits: at most {MAX_LANES} are compared")
        if basis.modulus <= 2**64:
            return cls(np.zeros(shape, np.uint64), basis.lift(residues))
        digits = np.stack(basis.digits(residues.reshape(basis.lanes, -1)))
        high, low = np.empty((2, digits.shape[1]), np.uint64)
        kernels.join_digits(digits, np.array(basis.primes, np.int64), high, low)
        return cls(high.reshape(shape), low.reshape(shape))

    @classmethod
    def of(cls, integers: Array) -> UInt128:
        """From an array of Python integers in [0, 2**128)."""
        values = np.asarray(integers, object)
        return cls((values >> 64).astype(np.uint64), (values & (2**64 - 1)).astype(np.uint64))

    def of_points(self, points: Array) -> UInt128:
        """The columns of these points (c,): (k, c)."""
        return UInt128(np.take(self.high, points, axis=1), np.take(self.low, points, axis=1))

    def integers(self) -> Array:
        """As an array of Python integers."""
        return np.asarray(self.high.astype(object) * 2**64 + self.low.astype(object))

    def to_floats(self) -> Array:
        """As float64, within a relative error of 2**-52."""
        return np.asarray(np.ldexp(self.high.astype(np.float64), 64) + self.low)

    def divided(self, by: int) -> UInt128:
        """The whole parts of the quotients by a positive integer."""
        return self if by == 1 else UInt128.of(self.integers() // by)

    def nearest(self, sizes: Array) -> Array:
        """The center h minimizing scaled[h, i] / sizes[h]**2, exactly: (m,) int32.

        Ties go to the lowest index; an empty cluster never wins; -1 if all are empty.
        """
        from field.kernels import scalar as kernels

        labels = np.empty(self.shape[1], np.int32)
        kernels.nearest_center(self.high, self.low, sizes.astype(np.int64), labels)
        return labels

    def separated(self, sizes: Array, factor: int) -> Array:
        """The center whose factor-fold squared distance is at most every other's, or -1: (m,) int32."""
        from field.kernels import scalar as kernels

        if factor * int(sizes.max()) ** 2 >= 2**64:
            raise ValueError(f"clusters of {int(sizes.max())} points are too large for this comparison")
        labels = np.empty(self.shape[1], np.int32)
        kernels.separated_center(self.high, self.low, sizes.astype(np.int64), np.int64(factor), labels)
        return labels

    def within(self, labels: Array) -> tuple[int, ...]:
        """For every center the sum over its own points of scaled[h, i]: k Python integers."""
        from field.kernels import scalar as kernels

        totals = np.zeros((self.shape[0], 4), np.uint64)
        kernels.total_within(self.high, self.low, labels, totals)
        return tuple(sum(int(x) << (32 * q) for q, x in enumerate(row)) for row in totals)
