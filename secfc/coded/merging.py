"""Rows that several clients hold, divided by how many hold them, without opening how many.

Every client has shared its points at its rows, zeros elsewhere, so a row is held as N = c x (or the sum of
its holders' versions), c of n clients holding it.  Once more it shares an indicator, 1 at its rows: their sum
is [c].  Dealers, t + 1 clients of whom one is honest, deal secret rho (one a row and lane) and s (one a
value), and -s and 0 once more on polynomials of twice the degree.  With tau = ell + t - 1 the degree of all
shares,

    w = rho c + 0,    v = rho N - s        are opened to the server, as polynomials of degree 2 tau,
    [y] = (v + [s]) / w = N / c            is degree tau again, and each client computes its share of it.

What that shows (to the server with any t clients that follow the protocol): w is uniform, as rho is and c
in [1, n] is invertible; v is uniform, as s is; both polynomials are uniform among those with these values,
as the dealt 0 and -s are.  So nothing of c or of x, exactly, whatever c is.  w = 0, of probability 1/p a lane
and row, is a matter of rho alone: that row is dealt anew.  Twice in a row is a row that nobody holds.

Not withstood: a client that deals another indicator than 0 or 1, or answers falsely.  The run may then go on
with rows that are residues of any size (`field.code.projections` tests N, not y), by which A1's cheater reads
others' data from labels; with opened counts (`psu.merge`) no row grows beyond its test.  Two random
coefficients a holder instead of the indicator do not help: then not even N is tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.lagrange import transfer_matrix
from field.code.lagrange_code import LagrangeCode
from field.ring.basis import Basis
from field.secrets.coins import Coins

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Blinds:
    """Shares of one dealer, or sums of them: secret.

    low (lanes, rows, 1 + width): of rho, then of s.  high, the same shape: of 0 and -s on polynomials of
    twice the degree.
    """

    low: Array
    high: Array


def dealers(code: LagrangeCode) -> int:
    """How many of the first clients deal blinds: one of them does not collude."""
    return code.t + 1


def deal_blinds(code: LagrangeCode, rows: int, width: int, coins: Coins) -> list[Blinds]:
    """One dealer's blinds for rows of `width` residues a share: an item a client."""
    basis, ell = code.basis, code.ell
    s = basis.sample((ell, rows, width), coins)
    rho = np.broadcast_to(basis.sample((1, rows, 1), coins), (basis.lanes, ell, rows, 1))
    low = np.concatenate([rho, s], axis=3)
    # `share` cuts the last axis into segments.
    lows = code.share(np.concatenate(list(low.transpose(1, 0, 2, 3)), axis=2), coins)
    high = np.concatenate([np.zeros_like(rho), basis.negate(s)], axis=3)
    return [Blinds(*both) for both in zip(lows, _deal_high(code, high, coins), strict=True)]


def _deal_high(code: LagrangeCode, values: Array, coins: Coins) -> list[Array]:
    """Shares of segments (lanes, ell, rows, words) on uniform polynomials of degree 2 (ell + t - 1)."""
    basis, (lanes, ell, *shape) = code.basis, values.shape
    # These clients' shares are the free values, so they fix the polynomial together with the segments.
    free = code.threshold(2) - ell
    known = np.concatenate([values, basis.sample((free, *shape), coins)], axis=1).reshape(
        lanes, ell + free, -1
    )
    points = (*code.betas[:ell], *code.alphas[:free])
    rest = basis.matmul(transfer_matrix(basis, points, code.alphas[free:]), known)
    return [a.reshape(lanes, *shape) for a in [*known[:, ell:].swapaxes(0, 1), *rest.swapaxes(0, 1)]]


def deal_indicator(code: LagrangeCode, held: Array, coins: Coins) -> list[Array]:
    """Shares of whether I hold each row, (rows,) bool: (lanes, rows, 1), an item a client."""
    whole = np.repeat(held.astype(np.int64)[:, None], code.ell, axis=1)
    return code.share(code.basis.reduce(whole), coins)


def masked(basis: Basis, blinds: Blinds, count: Array, rows: Array) -> Array:
    """My summand of w and v, (lanes, rows, 1 + width): from my shares of count (.., 1), rows (.., width)."""
    rho = np.ascontiguousarray(blinds.low[:, :, :1])
    product = basis.multiply(np.concatenate([count, rows], axis=2), rho)
    return basis.add(product, np.ascontiguousarray(blinds.high))


def divided(code: LagrangeCode, told: dict[int, Array]) -> tuple[Array, Array]:
    """What the server makes of `masked` from threshold(2) clients or more: v / w and 1 / w, both uniform.

    v / w is (lanes, ell, rows, width), 1 / w (lanes, rows).  Where w is 0 in any lane both are 0 in all.

    Raises TooFewValues.
    """
    basis, opened = code.basis, code.interpolate(told, 2)
    w = opened[:, 0, :, 0]
    inverse = np.where((w == 0).any(axis=0), basis.dtype.type(0), inverses(basis, w))
    return basis.multiply(np.ascontiguousarray(opened[..., 1:]), inverse[:, None, :, None]), inverse


def finished(
    code: LagrangeCode, me: int, blinds: Blinds, quotient: Array, inverse: Array, factor: int
) -> Array:
    """My share of factor N / c, (lanes, rows, width), from what the server says; 0 where 1 / w is."""
    basis, (lanes, ell, *shape) = code.basis, quotient.shape
    matrix = transfer_matrix(basis, code.betas[:ell], (code.alphas[me],))
    mine = basis.matmul(matrix, quotient.reshape(lanes, ell, -1)).reshape(lanes, *shape)
    s = basis.multiply(np.ascontiguousarray(blinds.low[:, :, 1:]), inverse[:, :, None])
    whole = np.array([factor % p for p in basis.primes], basis.dtype)[:, None, None]
    return basis.multiply(basis.add(mine, s), whole)


def inverses(basis: Basis, values: Array) -> Array:
    """Inverses of residues (lanes, N), 0 of 0, by Fermat's little theorem."""
    out = np.empty_like(values)
    for lane, p in enumerate(basis.primes):
        one = Basis((p,))
        base = np.ascontiguousarray(values[lane : lane + 1])
        power = np.ones_like(base)
        for bit in bin(p - 2)[2:]:
            power = one.multiply(power, power)
            power = one.multiply(power, base) if bit == "1" else power
        out[lane] = power[0]
    return out
