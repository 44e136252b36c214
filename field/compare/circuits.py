"""Circuits over shared bits: generators that hand out layers of products and are sent their results.

Shared bits are planes (held, rows, words): XOR is local on any of them.  A layer of products costs one
round; it is answered with one array (gates, words) for every component held, which is good until the
next layer.  What a component is, who holds it and how products are made is the driver's business: with one
component and `&` a circuit runs in the clear, with `field.compare.replicated` it runs on shares.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

import numpy as np

from field.arrays import Array
from field.compare.replicated import Gates

R = TypeVar("R")
Circuit = Generator[tuple[Gates, ...], Sequence[Array], R]

# A share (held, rows, words) of public planes (rows, words).
Constant = Callable[[Array], Array]
ONES = np.uint64(2**64 - 1)


def top_bit(numbers: Sequence[Array]) -> Circuit[Array]:
    """The most significant bit of a sum modulo 2**rows, least significant row first: (held, words).

    numbers: at least one, (held, at least 2 rows, words), all overwritten.  Carry-save additions, three
    numbers to two at a time, then one tree of carries: for two numbers of 93 rows 267 products in 8
    rounds, for three 359 in 9.
    """
    left = list(numbers)
    while len(left) > 2:
        left = yield from _save_carries(left)
    if len(left) == 1:
        return left[0][:, -1]
    return (yield from _top_of_two(*left))


def _save_carries(numbers: list[Array]) -> Circuit[list[Array]]:
    """Three numbers become two of the same sum, for every three of them, in one layer."""
    rows = numbers[0].shape[1] - 1
    every = np.arange(rows)
    triples = [numbers[i : i + 3] for i in range(0, len(numbers) - 2, 3)]
    for x, y, z in triples:
        y ^= x
        z ^= x
    products = yield tuple(Gates(y, every, z, every) for _, y, z in triples)
    out = numbers[3 * len(triples) :]
    for q, (x, y, z) in enumerate(triples):
        # The sum is x ^ y ^ z; the majority (x^y)(x^z) ^ x is the carry into the next row, and that of
        # the top row leaves the sum.
        y ^= z
        y ^= x
        for component, values in zip(x, products, strict=True):
            np.bitwise_xor(component[:-1], values[q * rows : (q + 1) * rows], out=component[1:])
            component[0] = 0
        out += [y, x]
    return out


def _top_of_two(x: Array, y: Array) -> Circuit[Array]:
    from field.kernels.comparing import add_rows, set_rows

    rows = x.shape[1] - 1
    every = np.arange(rows)
    top = x[:, -1] ^ y[:, -1]
    # A row generates a carry (x y) or propagates one (x ^ y); nodes are adjacent ranges of rows, kept in
    # the row of their highest member, the lowest range first.
    products = yield (Gates(x, every, y, every),)
    propagate = np.bitwise_xor(x, y, out=y)
    generate = x
    for component, values in zip(generate, products, strict=True):
        component[:-1] = values
    nodes = every
    while len(nodes) > 1:
        low, high = nodes[: len(nodes) // 2 * 2 : 2], nodes[1::2]
        # Nothing enters the lowest range, so what it propagates is never asked for.
        products = yield (
            Gates(propagate, high, generate, low),
            Gates(propagate, high[1:], propagate, low[1:]),
        )
        for component, values in zip(generate, products, strict=True):
            add_rows(component, high, values[: len(high)])
        for component, values in zip(propagate, products, strict=True):
            set_rows(component, high[1:], values[len(high) :])
        nodes = np.concatenate([high, nodes[len(nodes) // 2 * 2 :]])
    return np.asarray(top ^ generate[:, nodes[0]])


def winner_products(bits: Array, literals: Array, wanted: Array, constant: Constant) -> Circuit[Array]:
    """For each outcome whether all of its literals hold: (held, outcomes, words).

    bits: (held, comparisons, words).  literals, wanted: (outcomes, f), see
    `field.compare.argmin.ArgminContest`.
    """
    outcomes, count = literals.shape
    ones = constant(np.full((1, bits.shape[2]), ONES))
    if not count:
        return np.repeat(ones, outcomes, axis=1)
    # The rows are the comparisons, then their negations.
    rows = np.concatenate([bits, bits ^ ones], axis=1)
    factors = literals + np.where(wanted, 0, bits.shape[1])
    while factors.shape[1] > 1:
        half = factors.shape[1] // 2
        left, right, rest = (
            factors[:, q].reshape(-1) for q in (slice(half), slice(half, 2 * half), slice(2 * half, None))
        )
        products = yield (Gates(rows, left, rows, right),)
        rows = np.concatenate([np.stack(products), rows[:, rest]], axis=1)
        number = np.arange(rows.shape[1])
        factors = np.concatenate(
            [
                number[: outcomes * half].reshape(outcomes, half),
                number[outcomes * half :].reshape(outcomes, -1),
            ],
            axis=1,
        )
    return np.ascontiguousarray(rows[:, factors[:, 0]])
