"""Register-blocked kernels and decoding against Python integers, at the edges of their bounds."""

from fractions import Fraction
from math import prod

import numpy as np
import pytest

from field.kernels import decoding, microkernel

CS = (35, 41, 83, 101, 4035)  # 2^30 - c; the last is no prime, but near the largest c allowed

vector = pytest.mark.skipif(microkernel.VECTOR_BITS == 0, reason="no vector kernels here")


def centered(v, p):
    v = v % p
    return np.where(v > p // 2, v - p, v)


def residues(rng, shape, p, worst):
    """Random centered residues, or all at the largest magnitude with the sign of worst."""
    half = (p - 1) // 2
    return np.full(shape, worst * half) if worst else rng.integers(-half, half + 1, shape)


def grouped(matrix):
    n, terms = matrix.shape
    groups = -(-n // microkernel.GROUP)
    padded = np.zeros((groups * microkernel.GROUP, terms), np.int64)
    padded[:n] = matrix
    return np.ascontiguousarray(padded.reshape(groups, microkernel.GROUP, terms).swapaxes(1, 2))


def row_major(tiles):
    return tiles.swapaxes(1, 2).reshape(-1, tiles.shape[1])


SHAPES = [
    *[(50, width, 3) for width in (1, 22, 23, 24, 30, 31, 53, 54, 61, 62, 63, 92, 93)],
    *[(49, 20, k) for k in range(1, 18)],
    *[(m, 5, 5) for m in (1, 2, 47, 48, 95, 96, 97, 143, 200)],
]


@vector
@pytest.mark.parametrize("worst", [0, 1, -1])
def test_distance_tiles(worst):
    rng = np.random.default_rng(1)
    for i, (m, width, k) in enumerate(SHAPES):
        c = CS[i % len(CS)]
        p = (1 << 30) - c
        n_tiles = -(-m // microkernel.TILE)
        tiles = residues(rng, (n_tiles, width + 1, microkernel.TILE), p, worst).astype(np.int32)
        matrix = residues(rng, (k, width + 1), p, 1 if worst else 0)
        weights = grouped(matrix)
        init = residues(rng, 4 * len(weights), p, worst)
        want = (matrix.astype(object) @ row_major(tiles)[:m].T + init[:k, None]) % p
        out = np.zeros((k, m + 3), np.uint32)
        microkernel.distance_tiles(tiles, weights, init, c, out[:, :m])
        assert (out[:, :m] == want).all(), (m, width, k, c)
        assert not out[:, m:].any()


@vector
@pytest.mark.parametrize("worst", [0, 1, -1])
def test_matmul_columns(worst):
    rng = np.random.default_rng(2)
    terms = [1, 2, 5, 10, 11, 12, 15, 16, 26, 27, 31, 62, 63, 93]
    for n, K, N in [(i % 9 + 1, K, 49 + i) for i, K in enumerate(terms)] + [
        (3, 5, N) for N in (1, 23, 24, 25, 47, 48, 95, 96, 200)
    ]:
        c = CS[(n + N) % len(CS)]
        p = (1 << 30) - c
        matrix = residues(rng, (n, K), p, worst)
        # Canonical columns are allowed, and p - 1 is the hardest of them.
        x = np.full((K, N), p - 1) if worst else rng.integers(0, p, (K, N))
        want = (matrix.astype(object) @ x) % p
        for dtype in (np.int32, np.uint32):
            out = np.empty((n, N), np.uint32)
            microkernel.matmul_columns(grouped(matrix), x.astype(dtype), c, out)
            assert (out == want).all(), (n, K, N, c)


@vector
@pytest.mark.parametrize(("m", "width", "k"), [(1, 1, 1), (100, 31, 5), (97, 62, 4), (200, 93, 7)])
def test_client_iteration(m, width, k):
    """Shares added into tiles, then sums, weights and distances: s_h^2 |x - S_h / s_h|^2."""
    rng = np.random.default_rng(3)
    for i, worst in enumerate((0, 1, -1)):
        c = CS[i]
        p = (1 << 30) - c
        rows = residues(rng, (m, width), p, worst) % p
        more = rng.integers(0, p, (-(-m // 2), width))
        tiles = np.zeros((-(-m // microkernel.TILE), width + 1, microkernel.TILE), np.int32)
        microkernel.add_rows(tiles, rows.astype(np.uint32), 0, c)
        microkernel.add_rows(tiles, more.astype(np.uint32), m - len(more), c)
        rows[m - len(more) :] += more
        x = centered(rows, p)
        assert (row_major(tiles)[:m, :width] == x).all()
        assert not row_major(tiles)[m:].any()
        microkernel.fill_norms(tiles, c)
        x = x.astype(object)
        assert (row_major(tiles)[:m, width] == centered((x**2).sum(1), p)).all()

        old, new = rng.integers(-1, k, (2, m), dtype=np.int32)
        sums = np.zeros((k, width), np.int64)
        nowhere = np.full(m, -1, np.int32)
        assert microkernel.update_sums(tiles, nowhere, old, sums) == (old >= 0).sum()
        assert microkernel.update_sums(tiles, old, new, sums) == (old != new).sum()
        assert (sums == [(x * (new == h)[:, None]).sum(0) for h in range(k)]).all()

        sizes = np.bincount(new[new >= 0], minlength=k)
        groups = -(-k // 4)
        weights = np.full((groups, width + 1, 4), 7)
        init = np.full(4 * groups, 7)
        microkernel.fill_weights(sums, sizes, c, weights, init)
        out = np.empty((k, m), np.uint32)
        microkernel.distance_tiles(tiles, weights, init, c, out)
        s = sizes.astype(object)[:, None, None]
        assert (out == ((s * x - sums.astype(object)[:, None]) ** 2).sum(2) % p).all()


@pytest.mark.parametrize("width", [7, 8, 19])
def test_moving_otherwise_equals_moving_by_row(width):
    rng = np.random.default_rng(6)
    tiles = rng.integers(-(2**29), 2**29, (5, width + 1, microkernel.TILE), np.int32)
    for m in (1, 47, 48, 49, 200, 240):
        old, new = rng.integers(-1, 4, (2, m), dtype=np.int32)
        row, tile, square = np.zeros((3, 4, width), np.int64)
        microkernel._move_by_row(tiles, old, new, row)
        microkernel._move_by_tile(tiles, old, new, tile)
        microkernel._move_by_square(tiles, old, new, square)
        assert (row == tile).all()
        assert (row == square).all()
        assert row.any() or (old == new).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_weights_of_large_sums(sign):
    p = (1 << 30) - 35
    sums = np.full((2, 3), sign * 2**62)
    sizes = np.array([0, p - 1])
    weights, init = np.empty((1, 4, 4), np.int64), np.empty(4, np.int64)
    microkernel.fill_weights(sums, sizes, 35, weights, init)
    big = sums.astype(object)
    want = centered(-2 * sizes.astype(object)[:, None] * big, p)
    assert (want == weights[0, :3, :2].T).all()
    assert weights[0, 3].tolist() == [0, 1, 0, 0]
    assert (init[:2] == centered((big**2).sum(1), p)).all()


def shared(rng, secrets, primes, R, gap):
    """Replies and weights that decode to the integers in secrets (k, m), rows `gap` apart."""
    k, m = secrets.shape
    weights = np.array([residues(rng, R, p, 0) | 1 for p in primes])
    replies = [np.zeros((len(primes), k, m + gap), np.uint32)[:, :, :m] for _ in range(R)]
    for lane, p in enumerate(primes):
        rest = secrets % p
        for j in range(R - 1):
            values = rng.integers(0, p, (k, m))
            values[:, ::3] = p - 1
            replies[j][lane] = values
            rest = rest - values.astype(object) * int(weights[lane, j])
        replies[-1][lane] = (rest * pow(int(weights[lane, -1]), -1, p) % p).astype(np.uint32)
    return replies, weights


@pytest.mark.parametrize(
    ("cs", "R", "k", "m"),
    [
        ((35,), 9, 2, 100),
        ((35, 41), 3, 3, 7),
        ((41, 35), 13, 4, 300),
        ((35, 41), 31, 2, 530),
        ((35, 41), 1, 2, 2113),
        ((83, 35, 41), 13, 4, 200),
        ((101, 83, 41, 35), 16, 3, 130),
        ((35, 41, 83, 101), 47, 2, 5),
    ],
)
@pytest.mark.parametrize("ties", [False, True])
def test_decode(cs, R, k, m, ties):
    rng = np.random.default_rng(4)
    primes = [(1 << 30) - c for c in cs]
    sizes = rng.integers(1, 50, k)
    sizes[rng.integers(0, k)] = 0
    if ties:
        secrets = rng.integers(0, 3, (k, m)).astype(object) * sizes[:, None].astype(object) ** 2
    else:
        draws = rng.integers(0, 2**30, (4, k, m)).astype(object)
        secrets = sum(d << (30 * i) for i, d in enumerate(draws)) % prod(primes)
    replies, weights = shared(rng, secrets, primes, R, gap=5 * ties)

    low, high = np.empty((k, m), np.uint64), np.zeros((k, m), np.uint64)
    decoding.combine(replies, weights, np.array(cs), low, high)
    assert (low.astype(object) + (high.astype(object) << 64) == secrets).all()

    old = rng.integers(-1, k, m, dtype=np.int32)
    want = [
        min((Fraction(secrets[h, i], int(sizes[h]) ** 2), h) for h in range(k) if sizes[h])[1]
        for i in range(m)
    ]
    labels, within = old.copy(), np.empty((k, 3), np.uint64)
    decoding.decode_nearest(replies, weights, np.array(cs), sizes, labels, labels, within)
    assert labels.tolist() == want
    for h in range(k):
        total = sum(secrets[h, old == h]) if sizes[h] else 0
        assert sum(int(w) << (64 * i) for i, w in enumerate(within[h])) == total


def test_near_ties_are_decided_by_integers():
    """D / s^2 one part in 2^80 apart, beyond what float64 can see."""
    rng = np.random.default_rng(5)
    cs = (35, 41, 83)
    base = 1 << 84
    secrets = np.array([[base, base + 1], [base + 1, base], [base, base]], object)
    replies, weights = shared(rng, secrets, [(1 << 30) - c for c in cs], 5, gap=0)
    labels, within = np.full(2, -1, np.int32), np.empty((3, 3), np.uint64)
    for sizes, want in ([3, 3, 3], [0, 1]), ([0, 3, 3], [2, 1]), ([0, 0, 0], [-1, -1]):
        decoding.decode_nearest(replies, weights, np.array(cs), np.array(sizes), labels, labels, within)
        assert labels.tolist() == want
        labels[:] = -1
