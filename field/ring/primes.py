"""The primes that have kernels: what lanes are made of, and limits that follow from it."""

from __future__ import annotations

MERSENNE_61 = 2**61 - 1
LANE = 1 << 30
# 2**30 - c for these c are the largest primes below 2**30; a test has sympy confirm it.
LANE_PRIMES = tuple(LANE - c for c in (35, 41, 83, 101, 105, 107, 135, 153))
# The folds a -> (a mod 2**30) + c * (a div 2**30) of the kernels are proved for c below this.
FOLD_LIMIT = 256
# Exact comparisons hold integers below 2**128, so four 30-bit lanes are the most a protocol uses.
MAX_LANES = 4
