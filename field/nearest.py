"""From coded replies to labels: decode, lift, compare, in one pass over the replies.

Over 30-bit lanes a fused kernel works chunk by chunk, so that no integer of m times k is stored; over any
other basis the same result comes from the separate steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.basis import LANE
from field.code import LagrangeCode
from field.exact import Exact
from field.kernels import centered
from field.threads import cuts, spread

Array = NDArray[Any]


def decode_scaled(code: LagrangeCode, values: Mapping[int, Array]) -> Exact:
    """Exact scaled distances (k, m) from the replies (lanes, k, m) of enough clients, by number.

    Raises TooFewValues.
    """
    replies, weights, c = _prepare(code, values)
    basis = code.basis.prefix(len(replies[0]))
    if not basis.folded:
        return Exact.lift(basis, code.decode(values, 2))
    from field import decoding

    low = np.empty(replies[0].shape[1:], np.uint64)
    high = np.zeros_like(low)
    decoding.combine(replies, weights, c, low, high)
    return Exact(high, low)


def decode_nearest(
    code: LagrangeCode, values: Mapping[int, Array], sizes: Array, labels: Array, *, threads: int = 1
) -> tuple[Array, tuple[int, ...]]:
    """The nearest center of every row, and each cluster's sum of scaled distances of its own rows.

    values as in `decode_scaled`; sizes (k,); labels (m,) int32, the clusters that the centers belong to.
    The first result is (m,) int32, as `Exact.nearest` decides; the second as `Exact.within` sums.

    Raises TooFewValues.
    """
    replies, weights, c = _prepare(code, values)
    if not code.basis.folded:
        scaled = decode_scaled(code, values)
        return scaled.nearest(sizes), scaled.within(labels)
    from field import decoding

    nearest = np.empty(len(labels), np.int32)
    parts = cuts(len(labels), threads)
    within = np.empty((len(parts), len(sizes), 3), np.uint64)
    sizes = sizes.astype(np.int64)

    def part(q: int, rows: slice) -> None:
        some = [reply[:, :, rows] for reply in replies]
        decoding.decode_nearest(some, weights, c, sizes, labels[rows], nearest[rows], within[q])

    spread([partial(part, q, rows) for q, rows in enumerate(parts)], threads)
    totals = within.astype(object).sum(axis=0)
    return nearest, tuple(sum(word << (64 * q) for q, word in enumerate(row)) for row in totals)


def _prepare(code: LagrangeCode, values: Mapping[int, Array]) -> tuple[list[Array], Array, Array]:
    """The replies that are used, centered decoding weights (lanes, R), and c of every lane."""
    responders = tuple(sorted(values))
    chosen, weights, c = _factors(code, responders, len(values[responders[0]]) if responders else 0)
    return [values[j] for j in chosen], weights, c


@lru_cache(maxsize=256)
def _factors(
    code: LagrangeCode, responders: tuple[int, ...], lanes: int
) -> tuple[tuple[int, ...], Array, Array]:
    chosen, weights = code.decoding(responders, 2)
    primes = code.basis.primes[:lanes]
    rows = [centered(row, p) for row, p in zip(weights, primes, strict=False)]
    return chosen, np.stack(rows), np.array([LANE - p for p in primes], np.int64)
