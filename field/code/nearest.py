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

from field.code.correct import BITS, Checks, clear, locate, screen
from field.code.lagrange_code import LagrangeCode
from field.kernels.scalar import centered
from field.kernels.threads import cuts, spread
from field.ring.basis import LANE
from field.ring.exact import Exact
from field.secrets.coins import Coins

Array = NDArray[Any]


def decode_scaled(code: LagrangeCode, values: Mapping[int, Array]) -> Exact:
    """Exact scaled distances (k, m) from the replies (lanes, k, m) of enough clients, by number.

    Raises TooFewValues.
    """
    replies, weights, c = _prepare(code, values)
    basis = code.basis.prefix(len(replies[0]))
    if not basis.folded:
        return Exact.lift(basis, code.decode(values, 2))
    from field.kernels import decoding

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
    if not code.basis.folded:
        scaled = decode_scaled(code, values)
        return scaled.nearest(sizes), scaled.within(labels)
    decoder = _Decoder(code, values, sizes, labels, threads)
    decoder.decode(tuple(sorted(values)))
    return decoder.result


def screen_nearest(
    code: LagrangeCode,
    values: Mapping[int, Array],
    liars: int,
    sizes: Array,
    labels: Array,
    coins: Coins,
    *,
    everybody: bool = False,
    threads: int = 1,
    bits: int = BITS,
) -> tuple[Array, tuple[int, ...], tuple[int, ...]]:
    """What `decode_nearest` gives although up to `liars` clients lie, and the liars that were named.

    The same as `field.code.correct.screen` and then `decode_nearest`, with the same coins, errors and
    probability, in one pass over the replies: the lies are looked for where the distances are decoded.
    A cluster without points is neither decoded nor checked.  everybody: check all values and not just
    threshold(2) + liars of them, as `field.code.correct.locate` does, and name whoever lies.

    Raises TooFewValues and TooManyLiars.
    """
    if not code.basis.folded:
        if everybody:
            named = locate(code, values, 2, liars, coins, bits=bits)
            good = tuple(j for j in values if j not in named)
        else:
            good, named = screen(code, values, 2, liars, coins, bits=bits)
        return *decode_nearest(code, {j: values[j] for j in good}, sizes, labels), named
    decoder = _Decoder(code, values, sizes, labels, threads)
    read = len(values) if everybody else None
    _, named = clear(code, values, 2, liars, coins, decoder.attempt, bits=bits, read=read)
    return *decoder.result, named


class _Decoder:
    """Fused decoding of 30-bit lanes, in one part a thread; keeps what is done when a check fails."""

    def __init__(
        self, code: LagrangeCode, values: Mapping[int, Array], sizes: Array, labels: Array, threads: int
    ) -> None:
        self.code, self.values, self.labels, self.threads = code, values, labels, threads
        self.sizes = sizes.astype(np.int64)
        self.parts = cuts(len(labels), threads)
        self.done = np.zeros((len(self.parts), 1), np.int64)
        self.nearest = np.empty(len(labels), np.int32)
        self.within = np.zeros((len(self.parts), len(sizes), 3), np.uint64)

    def attempt(self, checks: Checks) -> tuple[int, int] | None:
        """Decode what is left from those clients if no check fails, or say (h, i) where the first does."""
        return self.decode(checks.clients, checks.factors)

    def decode(self, clients: tuple[int, ...], checks: Array | None = None) -> tuple[int, int] | None:
        values = {j: self.values[j] for j in clients}
        chosen, weights, c = _factors(self.code, clients, len(next(iter(values.values()))) if values else 0)
        # The decoding uses the first of the clients, the checks all.
        replies = [values[j] for j in (chosen if checks is None else clients)]
        places: list[tuple[int, int] | None] = spread(
            [partial(self._part, q, replies, weights, c, checks) for q in range(len(self.parts))],
            self.threads,
        )
        failing = [q for q, place in enumerate(places) if place is not None]
        if not failing:
            return None
        # Parts behind it are decoded again: what counts as done is all before the first failing check.
        self.done[failing[0] + 1 :] = 0
        return places[failing[0]]

    def _part(self, q: int, replies: list[Array], weights: Array, c: Array, checks: Any) -> Any:
        from field.kernels import decoding

        rows = self.parts[q]
        place = decoding.decode_nearest(
            [reply[:, :, rows] for reply in replies], weights, c, self.sizes, self.labels[rows],
            self.nearest[rows], self.within[q], checks, self.done[q],
        )  # fmt: skip
        return None if place is None else (place[0], rows.start + place[1])

    @property
    def result(self) -> tuple[Array, tuple[int, ...]]:
        totals = self.within.astype(object).sum(axis=0)
        return self.nearest, tuple(sum(word << (64 * q) for q, word in enumerate(row)) for row in totals)


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
