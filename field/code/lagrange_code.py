"""Lagrange coded computing: shares on which polynomials are computed (SecFC sec. 4.1, eq. (2)).

A vector is cut into ell segments; with t uniform noise segments they are the values at betas of a
polynomial f of degree ell + t - 1, and client j's share is f(alphas[j]).  Any t shares are independent of
the data (Yu et al., AISTATS 2019, Theorem 1).  A function of degree g of the shares is a polynomial of
degree g (ell + t - 1), so any g (ell + t - 1) + 1 results determine it.

Does not protect against t + 1 clients together.  ell + t fix the polynomial; but t + 1 shares and the ell
segments satisfy one linear relation with small integer coefficients, from which small values follow.  Hides
nothing from whoever collects enough results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from field.arrays import Array
from field.ring.basis import Basis
from field.ring.errors import InvalidValue
from field.secrets.coins import Coins

# --------------------------------------------------------------------------------------------------
# The matrix that carries the values of a polynomial at some points to its values at others.
#
# Lagrange interpolation, SecFC eq. (2): a polynomial of degree below len(xs) is fixed by its values at xs,
# and its value at y is sum_u f(x_u) prod_{v != u} (y - x_v) / (x_u - x_v).  Encoding, decoding and the
# repair of lost shares are this one matrix at different points.


def batch_inverses(values: list[int], p: int) -> list[int]:
    """Inverses modulo p with a single modular inversion (Montgomery's trick, Math. Comp. 48, 1987).

    Raises ValueError if a value is zero modulo p.
    """
    prefix = [1]
    for value in values:
        prefix.append(prefix[-1] * value % p)
    inverse = pow(prefix[-1], -1, p)
    out = [0] * len(values)
    for i in range(len(values) - 1, -1, -1):
        out[i] = inverse * prefix[i] % p
        inverse = inverse * values[i] % p
    return out


@lru_cache(maxsize=1024)
def barycentric_weights(xs: tuple[int, ...], p: int) -> tuple[int, ...]:
    """1 / prod_{v != u} (x_u - x_v) modulo p for every u; xs are distinct modulo p."""
    products = []
    for x in xs:
        product = 1
        for other in xs:
            if other != x:
                product = product * (x - other) % p
        products.append(product)
    return tuple(batch_inverses(products, p))


def transfer_rows(xs: tuple[int, ...], ys: tuple[int, ...], p: int) -> list[list[int]]:
    """Rows of the matrix that carries values at xs to values at ys modulo p: len(ys) x len(xs).

    xs are distinct modulo p.  A y that is among the xs gets a unit row.
    """
    # The entry is w_u L(y) / (y - x_u), w the barycentric weights and L(y) = prod_v (y - x_v).
    weights = barycentric_weights(xs, p)
    rows = []
    for y in ys:
        if any((y - x) % p == 0 for x in xs):
            rows.append([int((y - x) % p == 0) for x in xs])
            continue
        gaps = batch_inverses([(y - x) % p for x in xs], p)
        full = 1
        for x in xs:
            full = full * (y - x) % p
        rows.append([full * w * g % p for w, g in zip(weights, gaps, strict=True)])
    return rows


@lru_cache(maxsize=256)
def transfer_matrix(basis: Basis, xs: tuple[int, ...], ys: tuple[int, ...]) -> Array:
    """One matrix for all lanes: (lanes, len(ys), len(xs)) canonical residues, read-only."""
    matrix = np.array([transfer_rows(xs, ys, p) for p in basis.primes], basis.dtype)
    matrix.setflags(write=False)
    return matrix


# --------------------------------------------------------------------------------------------------


class TooFewValues(Exception):  # noqa: N818 - the protocol's word for it, see TooFewReplies
    """Too few evaluations to interpolate a polynomial of this degree.

    Parameters
    ----------
    needed
        Number of evaluations that the degree needs.
    got
        Number of evaluations that came.
    """

    def __init__(self, needed: int, got: int) -> None:
        super().__init__(f"{got} evaluations do not fix the polynomial: {needed} are needed")
        self.needed, self.got = needed, got


@dataclass(frozen=True)
class LagrangeCode:
    """Lagrange code of the shares: n clients, ell segments, threshold t.

    Parameters
    ----------
    basis
        Primes of the residues; each must exceed n + ell + t.
    n
        Number of clients, each with one share.
    ell
        Segments into which a point is cut (packing factor), from 1 on.
    t
        Colluding clients tolerated: any t shares are uniform and independent of the points.

    Raises
    ------
    InvalidValue
        For n < 2 (ell + t - 1) + 1, which cannot decode a squared distance.

    References
    ----------
    Yu et al., Lagrange Coded Computing, AISTATS 2019; SecFC sec. 4.1.
    """

    basis: Basis
    n: int
    ell: int
    t: int

    def __post_init__(self) -> None:
        for name, value, least in (("n", self.n, 1), ("ell", self.ell, 1), ("t", self.t, 0)):
            if value < least:
                raise InvalidValue(f"{name}={value} is too small: it must be at least {least}")
        if self.threshold(2) > self.n:
            raise InvalidValue(
                f"n={self.n} clients cannot decode a squared distance with ell={self.ell}, t={self.t}: "
                f"2*(ell+t-1)+1 = {self.threshold(2)} are needed. Lower ell or t, or add clients."
            )
        smallest = min(self.basis.primes)
        if self.n + self.ell + self.t >= smallest:
            raise InvalidValue(
                f"n={self.n}, ell={self.ell}, t={self.t} need {self.n + self.ell + self.t} distinct "
                f"non-zero points, the prime {smallest} has {smallest - 1}: use larger primes"
            )

    def threshold(self, degree: int) -> int:
        """How many evaluations determine a polynomial of this degree in the shares."""
        return degree * (self.ell + self.t - 1) + 1

    @property
    def betas(self) -> tuple[int, ...]:
        """Evaluation points of the ell segments and t noise segments: 1, ..., ell + t."""
        return tuple(range(1, self.ell + self.t + 1))

    @property
    def alphas(self) -> tuple[int, ...]:
        """Evaluation points of the clients' shares: the n points after the betas, so the two are disjoint."""
        return tuple(range(self.ell + self.t + 1, self.ell + self.t + 1 + self.n))

    def width(self, d: int) -> int:
        """Features of one share of d features: d / ell, d padded with zeros to a multiple of ell."""
        return -(-d // self.ell)

    def share(self, points: Array, coins: Coins) -> list[Array]:
        """One share a client of points (lanes, rows, d): n arrays (lanes, rows, width(d)).

        points are canonical residues and secret; so is each share until its owner has it.
        """
        values = self._segments(points)
        for lane, p in enumerate(self.basis.primes):
            if self.t:
                coins.fill_residues(p, values[lane, self.ell :])
        return self._carry(values, self.betas, self.alphas)

    def extend(
        self, points: Array, shares: Array, known: Sequence[int], clients: Sequence[int]
    ) -> list[Array]:
        """Shares of these clients of points (lanes, rows, d) of which t others have these shares.

        shares: (lanes, t, rows, width(d)), of the clients `known`; uniform and secret, as noise is.
        """
        values = self._segments(points)
        values[:, self.ell :] = shares
        given = (*self.betas[: self.ell], *(self.alphas[j] for j in known))
        return self._carry(values, given, tuple(self.alphas[j] for j in clients))

    def _segments(self, points: Array) -> Array:
        """The ell segments of points (lanes, rows, d), and room for t more: (lanes, ell + t, rows, width)."""
        lanes, rows, d = points.shape
        width = self.width(d)
        values = np.empty((lanes, self.ell + self.t, rows, width), self.basis.dtype)
        for segment in range(self.ell):
            piece = points[:, :, segment * width : (segment + 1) * width]
            values[:, segment, :, : piece.shape[2]] = piece
            values[:, segment, :, piece.shape[2] :] = 0
        return values

    def _carry(self, values: Array, given: tuple[int, ...], wanted: tuple[int, ...]) -> list[Array]:
        """The values at other points of polynomials that have these, (lanes, given, rows, width)."""
        lanes, _, rows, width = values.shape
        matrix = transfer_matrix(self.basis, given, wanted)
        encoded = self.basis.matmul(matrix, values.reshape(lanes, len(given), rows * width))
        # Each in memory of its own, which goes when its message does, and which is sent as it lies.
        return [encoded[:, j].reshape(lanes, rows, width).copy() for j in range(len(wanted))]

    def decode(self, values: Mapping[int, Array], degree: int) -> Array:
        """Sum over the ell data points of a polynomial known at some share points: (lanes, *shape).

        values[j] is (lanes, *shape), client j's evaluation at alphas[j].  Any threshold(degree) clients
        suffice; which ones does not change the result.  SecFC sec. 4.1, below eq. (2).

        Raises TooFewValues.
        """
        chosen, weights = self.decoding_weights(tuple(sorted(values)), degree)
        combined = self._combine(weights[:, None, :], [values[j] for j in chosen])
        return np.asarray(combined[:, 0])

    def interpolate(self, values: Mapping[int, Array], degree: int) -> Array:
        """The polynomial's values at the ell data points, unsummed: (lanes, ell, *shape).

        Raises TooFewValues.
        """
        chosen = self._enough(tuple(sorted(values)), degree)
        points = tuple(self.alphas[j] for j in chosen)
        matrix = transfer_matrix(self.basis, points, self.betas[: self.ell])
        return self._combine(matrix, [values[j] for j in chosen])

    def decoding_weights(self, responders: tuple[int, ...], degree: int) -> tuple[tuple[int, ...], Array]:
        """Who is used among sorted responders, and the decoding weights: (lanes, used) residues."""
        chosen = self._enough(responders, degree)
        return chosen, _decoding_weights(self, chosen)

    def _enough(self, responders: tuple[int, ...], degree: int) -> tuple[int, ...]:
        needed = self.threshold(degree)
        if len(responders) < needed:
            raise TooFewValues(needed, len(responders))
        return responders[:needed]

    def _combine(self, matrix: Array, values: list[Array]) -> Array:
        lanes, *shape = values[0].shape
        basis = self.basis.prefix(lanes)
        columns = np.stack([v.reshape(lanes, -1) for v in values], axis=1)
        return basis.matmul(matrix[:lanes], columns).reshape(lanes, matrix.shape[1], *shape)


@lru_cache(maxsize=1024)
def _decoding_weights(code: LagrangeCode, chosen: tuple[int, ...]) -> Array:
    """sum_u of the rows that carry values at the chosen alphas to the ell data points."""
    points = tuple(code.alphas[j] for j in chosen)
    matrix = transfer_matrix(code.basis, points, code.betas[: code.ell]).astype(object)
    total = matrix.sum(axis=1) % np.array(code.basis.primes, object)[:, None]
    weights = np.array(total, code.basis.dtype)
    weights.setflags(write=False)
    return weights
