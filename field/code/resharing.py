"""Secrets that some clients hold in additive parts, shared anew among clients that compute on them.

Every holder deals its part: a polynomial of degree ell + t - 1 with the part at every one of the ell data
points, so that products with coded points are of the parts with every segment.  Its values at t of the
receivers are expanded from seeds that it shares with them, and nothing is sent for these; with the part they
fix it.  So any t receivers hold uniform values, whatever the part; shares of several holders' parts add up to
shares of the secret.

(A polynomial of degree t that equals the part at all ell data points would be private against t - ell + 1
receivers only.)

A product of shares has twice the degree.  `weighted_part` makes of one client's share of a product what it
deals of it, such that the shares of what all of them deal add up to shares of degree ell + t - 1 again
(Ben-Or, Goldwasser and Wigderson, STOC 1988), segment by segment.

Everything here is secret, residues in every lane.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.lagrange_code import LagrangeCode, transfer_matrix
from field.ring.basis import Basis
from field.secrets.coins import Coins

Array = NDArray[Any]


def seeded_receivers(code: LagrangeCode, holder: int, receivers: tuple[int, ...]) -> tuple[int, ...]:
    """The t receivers whose shares of a holder's part follow from seeds.

    Those after it, on the circle of receivers: as there are more than 2 t of them, a seed of two clients
    serves one of them as the holder, never both.
    """
    at = receivers.index(holder) if holder in receivers else -1
    return tuple(receivers[(at + s) % len(receivers)] for s in range(1, code.t + 1))


def deal_part(
    code: LagrangeCode,
    part: Array,
    holder: int,
    receivers: tuple[int, ...],
    seeds: Sequence[Coins],
    further: Sequence[int] = (),
) -> dict[int, Array]:
    """The shares (lanes, N) of a part (lanes, N) for all receivers that do not expand theirs, by number.

    Of a part (lanes, ell, N) each data point has its own values.
    seeds: of those that do, in the order of `seeded_receivers`, each good for once (`expand_share`).
    further: clients that get shares as well, and compute nothing on them.
    """
    known = seeded_receivers(code, holder, receivers)
    others = (*(j for j in receivers if j not in known), *further)
    basis, ell = code.basis, code.ell
    points = (*code.betas[:ell], *(code.alphas[j] for j in known))
    matrix = transfer_matrix(basis, points, tuple(code.alphas[j] for j in others))
    if part.ndim == 2:
        # The same value at all data points: their columns as one.
        first = matrix[:, :, :ell].sum(axis=2, dtype=np.uint64) % basis.column(2, np.uint64)
        matrix = np.concatenate([first.astype(basis.dtype)[:, :, None], matrix[:, :, ell:]], axis=2)
        part = part[:, None]
    expanded = [expand_share(code, part.shape[2], seed)[:, None] for seed in seeds]
    shares = basis.matmul(matrix, np.concatenate([part, *expanded], axis=1))
    return {j: np.ascontiguousarray(shares[:, q]) for q, j in enumerate(others)}


def uniform_receivers(code: LagrangeCode, holder: int, receivers: tuple[int, ...]) -> tuple[int, ...]:
    """The receivers whose shares of what a holder draws follow from seeds, as of `seeded_receivers`.

    With its own share, if it receives one, they are ell + t.
    """
    if holder not in receivers:
        return receivers[: code.ell + code.t]
    at = receivers.index(holder)
    return tuple(receivers[(at + s) % len(receivers)] for s in range(1, code.ell + code.t))


def deal_uniform(
    code: LagrangeCode,
    basis: Basis,
    size: int,
    holder: int,
    receivers: tuple[int, ...],
    streams: Mapping[int, Coins],
) -> dict[int, Array]:
    """The shares (lanes, size) of uniform values at all segments, of the holder and who expands none.

    basis: the first lanes of the code's.  streams: each good for once, with `uniform_receivers`; of a holder
    that receives a share also its own coins.  Any t shares are uniform, and given these what is shared is.
    """
    known = uniform_receivers(code, holder, receivers)
    given = known if holder not in receivers else (holder, *known)
    others = tuple(j for j in receivers if j not in given)
    columns = np.stack([basis.sample((size,), streams[j]) for j in given], axis=1)
    found: dict[int, Array] = {}
    if others:
        points = tuple(code.alphas[j] for j in given)
        matrix = transfer_matrix(basis, points, tuple(code.alphas[j] for j in others))
        shares = basis.matmul(matrix, columns)
        found = {j: np.ascontiguousarray(shares[:, q]) for q, j in enumerate(others)}
    return found if holder not in receivers else {**found, holder: np.ascontiguousarray(columns[:, 0])}


def expand_share(code: LagrangeCode, size: int, seed: Coins) -> Array:
    """A receiver's share (lanes, size) that follows from a seed."""
    return code.basis.sample((size,), seed)


def weighted_part(code: LagrangeCode, holders: tuple[int, ...], me: int, product: Array) -> Array:
    """What client me deals of its share (lanes, rows, width) of a product: (lanes, rows, ell * width).

    To be shared with `LagrangeCode.share` by every holder, threshold(2) of them, ascending.
    """
    alphas = tuple(code.alphas[j] for j in holders)
    matrix = transfer_matrix(code.basis, alphas, code.betas[: code.ell])
    column = matrix[:, :, holders.index(me)]
    return np.concatenate(
        [code.basis.multiply(product, column[:, u, None, None]) for u in range(code.ell)], axis=2
    )
