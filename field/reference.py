"""SecFC's Algorithm 1 in galois, to be read and to compare with: quantize, share, square, decode, assign.

One prime in place of RNS channels, and no kernel: GF(2**61 - 1), or the next Mersenne prime
that no distance wraps around in.  Slow: microseconds a multiplication, m d k of them a share and step.
Needs galois (extra `reference`).  All parties are in one process: points are as secret as anywhere.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from field.arrays import Array
from field.ring.errors import InvalidValue, install_command
from field.secrets.coins import Coins, SystemCoins

EXPONENTS = (61, 89, 107, 127)  # of Mersenne primes
MOST = 1_000_000  # m d k of what a command compares: a minute a step, or so


def make_field(exponent: int = 61) -> Any:
    """GF(2**exponent - 1), a class of galois arrays.  Its generator is never used, so not looked for."""
    try:
        import galois
    except ImportError as error:
        raise ImportError(
            f"this needs galois, which is not installed: {install_command('[reference]')}"
        ) from error
    return galois.GF(2**exponent - 1, primitive_element=37, verify=False)


def choose_field(rows: Array) -> Any:
    """The smallest field in which no d' of these integers (m, d) wraps: above |S_h|**2 times squared spans.

    |S_h| <= m, and a center is no farther from a point than each span; d' is never negative, so
    the modulus need not be twice as large.  Raises InvalidValue beyond 127 bits.
    """
    span = rows.max(axis=0).astype(object) - rows.min(axis=0).astype(object)
    largest = len(rows) ** 2 * int((span**2).sum())
    for exponent in EXPONENTS:
        if largest < 2**exponent - 1:
            return make_field(exponent)
    raise InvalidValue(f"distances up to {largest} exceed 2**127 - 2, the largest here: lower the scale")


def quantize_points(points: Array, scale: int, field: Any) -> Any:
    """Points (m, d) as field elements: the nearest integer of scale * x (the paper's eq. 3 takes the floor).

    Integers at scale 1 are embedded as they are; below zero they are the upper half of the field.
    """
    rounded = np.rint(np.asarray(points) * scale).astype(np.int64)
    return field(rounded.astype(object) % field.order)


def lagrange_matrix(xs: Any, ys: Any) -> Any:
    """(len(xs), len(ys)): the u-th basis polynomial of the points xs at each of ys."""
    rows = []
    for u, at in enumerate(xs):
        others = np.delete(xs, u)
        rows.append([np.prod(y - others) / np.prod(at - others) for y in ys])
    return type(xs)(np.array(rows, object))


def share_points(rows: Any, ell: int, t: int, n: int, coins: Coins) -> Any:
    """Shares (n, m, d / ell) of field elements (m, d), d a multiple of ell: eq. 2 at alpha_1 to alpha_n."""
    field, (m, d) = type(rows), rows.shape
    uniform = [coins.below(field.order) for _ in range(m * t * (d // ell))]
    noise = field(np.array(uniform, object).reshape(m, t, d // ell))
    segments = np.concatenate([rows.reshape(m, ell, d // ell), noise], axis=1)
    betas, alphas = evaluation_points(field, ell, t, n)
    basis = lagrange_matrix(betas, alphas)
    return field(np.stack([sum_up(basis[u, j] * segments[:, u] for u in range(ell + t)) for j in range(n)]))


def evaluation_points(field: Any, ell: int, t: int, n: int) -> tuple[Any, Any]:
    """beta_1 to beta_(ell + t) of segments and noise, and alpha_1 to alpha_n of clients: all different."""
    numbers = np.arange(1, ell + t + n + 1, dtype=object)
    return field(numbers[: ell + t]), field(numbers[ell + t :])


def sum_up(parts: Any) -> Any:
    """The sum of field arrays."""
    first, *others = parts
    for other in others:
        first = first + other
    return first


def square_distances(share: Any, labels: Array, k: int) -> Any:
    """A client's answers (k, m), ||mu_h - |S_h| x_i||**2 on its share (m, d / ell); zero if S_h is empty."""
    field = type(share)
    answers = field.Zeros((k, len(share)))
    for h in range(k):
        size = int((labels == h).sum())
        if size:
            apart = np.sum(share[labels == h], axis=0) - field(size) * share
            answers[h] = np.sum(apart * apart, axis=1)
    return answers


def decode_distances(answers: Any, ell: int, t: int) -> Array:
    """Integers d' (k, m) of the answers (clients, k, m) of 2 (ell + t) - 1 clients: sums over segments."""
    field, needed = type(answers), 2 * (ell + t) - 1
    betas, alphas = evaluation_points(field, ell, t, needed)
    weights = np.sum(lagrange_matrix(alphas, betas[:ell]), axis=1)
    decoded = sum_up(weights[j] * answers[j] for j in range(needed))
    return np.array(decoded, object)


def assign_points(distances: Array, labels: Array, k: int) -> Array:
    """The nearest center (m,) by exact d' / |S_h|**2; ties to the lowest index, never an empty one."""
    sizes = [int((labels == h).sum()) for h in range(k)]
    there = [h for h in range(k) if sizes[h]]
    means = [[Fraction(int(column[h]), sizes[h] ** 2) for h in there] for column in distances.T]
    return np.array([there[row.index(min(row))] for row in means])


def cluster_points(
    rows: Array, labels: Array, k: int, *, ell: int = 1, t: int = 1, steps: int = 300,
    coins: Coins | None = None,
) -> Array:  # fmt: skip
    """Final labels (m,) of Algorithm 1 on integers (m, d), begun with labels (m,).

    As many clients as the server needs hold shares.  Raises InvalidValue where no field is large enough;
    ImportError without galois.
    """
    rows = np.pad(np.asarray(rows), ((0, 0), (0, -rows.shape[1] % ell)))
    field, n = choose_field(rows), 2 * (ell + t) - 1
    shares = share_points(quantize_points(rows, 1, field), ell, t, n, coins or SystemCoins())
    for _ in range(steps):
        answers = field(np.stack([square_distances(share, labels, k) for share in shares]))
        before, labels = labels, assign_points(decode_distances(answers, ell, t), labels, k)
        if np.array_equal(before, labels):
            break
    return labels
