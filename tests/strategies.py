"""Hypothesis strategies shared by the tests, and the exhaustive fields they use."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from field import Basis
from field.ring.basis import LANE_PRIMES, MERSENNE_61

# Every storage and kernel family: one to four folded lanes, the paper's field, and plain primes.
BASES = (
    Basis(LANE_PRIMES[:1]),
    Basis(LANE_PRIMES[:2]),
    Basis(LANE_PRIMES[:3]),
    Basis(LANE_PRIMES[:4]),
    Basis((MERSENNE_61,)),
    Basis((2**31 - 1, 10007)),
)
bases = st.sampled_from(BASES)


def extreme_residues(basis: Basis, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Residues drawn mostly from the edges of each lane: 0, 1, (p-1)/2, (p+1)/2, p-2, p-1."""
    rng = np.random.default_rng(seed)
    out = np.empty((basis.lanes, *shape), basis.dtype)
    for lane, p in enumerate(basis.primes):
        edges = np.array([0, 1, p // 2, p // 2 + 1, p - 2, p - 1], np.uint64)
        uniform = rng.integers(0, p, shape, dtype=np.uint64)
        out[lane] = np.where(rng.random(shape) < 0.7, rng.choice(edges, shape), uniform)
    return out


@st.composite
def coded_cases(draw: st.DrawFn) -> dict[str, object]:
    """Parameters of a small run: n often exactly at the threshold, ell not dividing d, ties, duplicates."""
    ell = draw(st.integers(1, 4))
    t = draw(st.integers(1, 3))
    n = 2 * (ell + t - 1) + 1 + draw(st.sampled_from([0, 0, 1, 2]))
    d = draw(st.integers(1, 9))
    m = draw(st.integers(n, n + 40))
    k = draw(st.integers(1, min(m, 7)))
    return {
        "n": n, "ell": ell, "t": t, "d": d, "m": m, "k": k,
        "values": draw(st.sampled_from(["grid", "real", "edge", "equal"])),
        "init": draw(st.sampled_from(["random", "random-points", "k-means++", "center-separation", "given"])),
        "scale": draw(st.sampled_from([None, None, 1.0, 0.5, 3.7, 256.0])),
        "rounding": draw(st.sampled_from(["nearest", "floor"])),
        "basis": draw(st.sampled_from([None, None, None, Basis((MERSENNE_61,)), Basis(LANE_PRIMES[:3])])),
        "n_init": draw(st.sampled_from([1, 1, 2])),
        "seed": draw(st.integers(0, 2**32)),
    }  # fmt: skip


def points_of(case: dict[str, object]) -> np.ndarray:
    """Data of a case: a coarse grid (ties and duplicates), reals, values at the bound, or all equal."""
    rng = np.random.default_rng(case["seed"])
    shape = (case["m"], case["d"])
    kind = case["values"]
    if kind == "grid":
        return rng.integers(-2, 3, shape).astype(float)
    if kind == "real":
        return rng.normal(0, 3, shape)
    if kind == "edge":
        return rng.choice([-8.0, 8.0, 0.0], shape)
    return np.full(shape, 1.25)
