"""Reed-Solomon decoding of words of one symbol a client: who is off the polynomial of the others.

The Euclidean algorithm on syndromes (Sugiyama, Kasahara, Hirasawa, Namekawa, "A method for solving key
equation for decoding Goppa codes", 1975) on Python integers: a few words are decoded, never a whole reply
(`field.code.consistency` chooses them).  Unique decoding: with n symbols of a polynomial fixed by R of them,
up to (n - R) / 2 errors are located.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from field.arrays import Array
from field.code.lagrange_code import LagrangeCode, TooFewValues, barycentric_weights, transfer_matrix


class TooManyFalse(Exception):  # noqa: N818 - what happened, as TooFewValues
    """More values are off every polynomial than are to be corrected.

    corrected  how many the caller tolerates
    got    how many clients replied
    suspects  clients located so far, possibly none and possibly honest: no proof
    """

    def __init__(self, corrected: int, got: int, needed: int, suspects: tuple[int, ...]) -> None:
        super().__init__(
            f"more than corrected={corrected} of {got} replies are false; {needed} that agree are needed: "
            "ask more clients and correct more (two more replies each), or leave suspects out"
        )
        self.corrected, self.got, self.needed, self.suspects = corrected, got, needed, suspects


def sorted_clients(
    code: LagrangeCode, values: Mapping[int, Any], degree: int, corrected: int
) -> tuple[int, ...]:
    """The clients, sorted.  Raises TooFewValues below threshold(degree) + 2 corrected."""
    if corrected < 0:
        raise ValueError(f"corrected={corrected} is negative: it counts the deviating clients to be found")
    needed = code.threshold(degree) + 2 * corrected
    if len(values) < needed:
        raise TooFewValues(needed, len(values))
    return tuple(sorted(values))


def locate_words(
    code: LagrangeCode, words: Mapping[int, Array], degree: int, corrected: int
) -> tuple[int, ...]:
    """The clients off the polynomial in any lane of any word, sorted: words[j] is (lanes, words).

    One word at a time is decoded, without the clients already found: removing an error before decoding
    needs one value less, so what remains locates the errors that remain.

    Raises TooFewValues and TooManyFalse as `locate`, with the same limits.
    """
    left = sorted_clients(code, words, degree, corrected)
    # Fewer agreeing symbols than this may agree on a polynomial of the deviating clients' choice.
    needed = code.threshold(degree) + corrected
    table = np.stack([words[j] for j in left], axis=1)
    off = off_polynomial(code, table, left, degree)
    found: list[int] = []
    while off.any():
        lane, w = (int(i) for i in np.argwhere(off)[0])
        wrong = _errors(code, lane, [int(x) for x in table[lane, :, w]], left, degree)
        kept = [i for i in range(len(left)) if i not in wrong]
        left, table = tuple(left[i] for i in kept), table[:, kept]
        off = off_polynomial(code, table, left, degree)
        decoded = len(left) >= needed and not off[lane, w]
        if decoded and wrong:
            found = sorted(set(words) - set(left))
        if not decoded or len(found) > corrected:
            raise TooManyFalse(corrected, len(words), needed, tuple(found))
    return tuple(found)


def off_polynomial(code: LagrangeCode, table: Array, clients: tuple[int, ...], degree: int) -> Array:
    """Which words of (lanes, clients, words) lie on no polynomial: bool (lanes, words).

    The first R symbols give the others; with R or fewer clients none is off.
    """
    needed = code.threshold(degree)
    alphas = code.alphas
    points = tuple(alphas[j] for j in clients)
    if len(points) <= needed:
        return np.zeros((table.shape[0], table.shape[2]), bool)
    basis = code.basis.prefix(table.shape[0])
    matrix = transfer_matrix(basis, points[:needed], points[needed:])
    return np.asarray((basis.matmul(matrix, table[:, :needed]) != table[:, needed:]).any(axis=1))


def _errors(
    code: LagrangeCode, lane: int, word: list[int], clients: tuple[int, ...], degree: int
) -> list[int]:
    """Positions of the errors in a word of one lane, if at most (len(word) - R) / 2.

    With w_j = 1 / prod_{i != j} (x_j - x_i) the syndromes S_l = sum_j w_j y_j x_j^l, l < n - R, are zero for
    every polynomial.  Errors e_j make sum_l S_l / x^(l+1) = sum_j w_j e_j / (x - x_j), a fraction whose
    denominator is the error locator: up to a constant the cofactor of S(x) = sum_l S_l x^(n-R-1-l) in the
    Euclidean algorithm on (x^(n-R), S), stopped at the first remainder of degree below (n - R) / 2.
    With more errors the answer is arbitrary: the caller checks it.
    """
    p = code.basis.primes[lane]
    alphas = code.alphas
    xs = [alphas[j] % p for j in clients]
    spare = len(xs) - code.threshold(degree)
    terms = [w * y % p for w, y in zip(barycentric_weights(tuple(xs), p), word, strict=True)]
    syndromes = []
    for _ in range(spare):
        syndromes.append(sum(terms) % p)
        terms = [term * x % p for term, x in zip(terms, xs, strict=True)]
    a, b = [0] * spare + [1], _trimmed(syndromes[::-1])
    # Invariant: b = v S modulo x^(n-R), and a = u S modulo x^(n-R).
    u: list[int] = []
    v = [1]
    while 2 * (len(b) - 1) >= spare:
        quotient, remainder = _divide(a, b, p)
        a, b = b, remainder
        u, v = v, _minus_product(u, quotient, v, p)
    return [i for i, x in enumerate(xs) if _value(v, x, p) == 0]


# Polynomials are lists of Python integers modulo p, lowest coefficient first, without leading zeros.


def _value(f: list[int], x: int, p: int) -> int:
    total = 0
    for coefficient in reversed(f):
        total = (total * x + coefficient) % p
    return total


def _minus_product(f: list[int], g: list[int], h: list[int], p: int) -> list[int]:
    """f - g h."""
    out = f + [0] * (len(g) + len(h) - 1 - len(f))
    for i, a in enumerate(g):
        for j, b in enumerate(h):
            out[i + j] = (out[i + j] - a * b) % p
    return _trimmed(out)


def _divide(a: list[int], b: list[int], p: int) -> tuple[list[int], list[int]]:
    """Quotient and remainder; b is not zero."""
    rest = list(a)
    quotient = [0] * max(0, len(a) - len(b) + 1)
    lead = pow(b[-1], -1, p)
    for shift in range(len(quotient) - 1, -1, -1):
        scale = rest[shift + len(b) - 1] * lead % p
        quotient[shift] = scale
        for i, x in enumerate(b):
            rest[shift + i] = (rest[shift + i] - scale * x) % p
    return _trimmed(quotient), _trimmed(rest)


def _trimmed(f: list[int]) -> list[int]:
    while f and f[-1] == 0:
        f.pop()
    return f
