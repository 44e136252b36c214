"""The check of inner products: complete, sound by enumeration, and its words say nothing."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from field import SeededCoins
from field.code.lagrange_code import LagrangeCode
from field.code.product_check import TILE, ProductCheck, SquareFold, block_length, miss_bound
from field.ring.basis import LANE_PRIMES, Basis

TINY = ProductCheck(Basis((11,)), 4)
COINS = range(5, 11)  # outside of 0, ..., 2q


def column(*values):
    return np.array([values], np.uint32)


def inner(basis, b, x):
    """<b, x> in each lane."""
    pairs = zip(basis.primes, b.tolist(), x.tolist(), strict=True)
    return np.array([sum(i * j for i, j in zip(u, v, strict=True)) % p for p, u, v in pairs], basis.dtype)


def words_of(check, b, x, s, z, y, *, hiding=(3, 5), first=0, last=0):
    """The three words of a run on plain values; first, last: what is added to products before a coin."""
    basis = check.basis
    dealt = basis.add(check.block_products(b, x), np.zeros_like(check.block_products(b, x)) + first)
    claim = check.evaluate(check.complete(dealt, s), z, 1)
    masked = [
        np.concatenate([np.full((basis.lanes, 1), mask, basis.dtype), check.fold(vector, z)], axis=1)
        for mask, vector in zip(hiding, (b, x), strict=True)
    ]
    products = check.last_products(*masked)
    ends = check.complete(basis.add(products, np.zeros_like(products) + last), claim)
    return tuple(check.evaluate(values, y, 0) for values in (*masked, ends))


@pytest.mark.parametrize("m", [1, 3, 4, 5, 50, 257])
def test_an_inner_product_passes_and_another_number_does_not(m):
    basis = Basis(LANE_PRIMES[:2])
    check, coins = ProductCheck(basis, m), SeededCoins(m, "x")
    b, x = basis.sample((m,), coins), basis.sample((m,), coins)
    s = np.array(
        [
            sum(int(i) * int(j) for i, j in zip(b[n], x[n], strict=True)) % p
            for n, p in enumerate(basis.primes)
        ],
        basis.dtype,
    )
    for z, y in ((2**19, 2**20), (12345, 2**25), (2 * check.q + 1, 2 * check.q + 1)):
        assert check.fits(words_of(check, b, x, s, z, y))
        assert not check.fits(words_of(check, b, x, basis.add(s, np.ones_like(s)), 2**29 - z, y))


@pytest.mark.parametrize("m", [1, 5, 50])
@pytest.mark.parametrize("primes", [LANE_PRIMES[:2], ((1 << 61) - 1,)])
def test_products_are_those_of_polynomials_and_computed_where_no_value_is_given(m, primes, monkeypatch):
    basis, asked = Basis(primes), []
    check, coins = ProductCheck(basis, m), SeededCoins(m, "x")
    b, x = basis.sample((m,), coins), basis.sample((m,), coins)
    u, v = (basis.sample((3, 1 + check.q), coins) for _ in range(2))
    matmul = Basis.matmul
    monkeypatch.setattr(Basis, "matmul", lambda *of: asked.append(of[1].shape[1]) or matmul(*of))
    first, last = check.block_products(b, x), check.last_products(u, v)
    assert asked == [check.q - 1, check.q]  # once for both sides, and for all repetitions
    for n, z in enumerate(check.first):
        assert (first[:, n] == inner(basis, check.fold(b, z), check.fold(x, z))).all()
    for n, y in enumerate(check.last):
        for r in range(3):
            ends = [check.evaluate(np.ascontiguousarray(w[:, r]), y, 0) for w in (u, v)]
            assert (last[:, r, n] == basis.multiply(*ends)).all()


def test_by_shares_it_is_the_same():
    """Products of shares decode at twice the degree and are dealt anew; everything else is linear."""
    code = LagrangeCode(Basis(LANE_PRIMES[:1]), 5, 1, 2)
    basis, coins = code.basis, SeededCoins(1, "x")
    check = ProductCheck(basis, 9)
    b, x = basis.sample((9,), coins), basis.sample((9,), coins)
    s = np.array(
        [sum(int(i) * int(j) for i, j in zip(b[0], x[0], strict=True)) % basis.primes[0]], basis.dtype
    )

    def share(values):
        return [one[:, 0] for one in code.share(values.reshape(1, 1, -1), coins)]

    def again(products):
        values = code.interpolate(dict(enumerate(products)), 2)
        return share(np.ascontiguousarray(values[:, 0]))

    z, y, q = 77, 99, check.q
    bs, xs, ss = share(b), share(x), share(s[:, None])
    dealt = again([check.block_products(*pair) for pair in zip(bs, xs, strict=True)])
    claims = [check.evaluate(check.complete(d, one[:, 0]), z, 1) for d, one in zip(dealt, ss, strict=True)]
    hidden = [share(basis.sample((1,), coins)) for _ in range(2)]
    masked = [
        [np.concatenate([h, check.fold(v, z)], axis=1) for h, v in zip(side, vectors, strict=True)]
        for side, vectors in zip(hidden, (bs, xs), strict=True)
    ]
    ends = again([check.last_products(*pair) for pair in zip(*masked, strict=True)])
    words = [
        [check.evaluate(values, y, 0)[:, None] for values in side]
        for side in (*masked, [check.complete(e, c) for e, c in zip(ends, claims, strict=True)])
    ]
    opened = [code.interpolate(dict(enumerate(side)), 1)[:, 0, 0] for side in words]
    assert check.fits(tuple(opened))
    assert q == 3
    # Words are of the degree of a share: any three of five give the same.
    assert all(
        (code.interpolate({j: side[j] for j in (2, 3, 4)}, 1)[:, 0, 0] == value).all()
        for side, value in zip(words, opened, strict=True)
    )


def folded(fold, x, r, total, z, *, added=0):
    """Of plain values, by repetition: whether what squares fold to at these points holds.

    added: to products before the coin.
    """
    basis, check = fold.basis, fold.check
    dealt = fold.products(x, r)
    dealt, at = basis.add(dealt, np.zeros_like(dealt) + added), fold.fold(x, z)
    for n, point in enumerate(z):
        right = np.ascontiguousarray(at[:, n])
        left = basis.multiply(np.ascontiguousarray(r[:, n]), right)
        values = check.complete(np.ascontiguousarray(dealt[:, n]), total[:, n])
        yield (check.evaluate(values, point, 1) == inner(basis, left, right)).all()


def weighted_squares(basis, x, r):
    squares = basis.squares(x)
    return np.stack([inner(basis, np.ascontiguousarray(r[:, n]), squares) for n in range(r.shape[1])], axis=1)


@pytest.mark.parametrize(("n", "width"), [(1, 1), (5, 1), (3, 2), (40, 9), (TILE + 3, 2)])
def test_squares_of_vectors_fold_and_other_numbers_do_not(n, width):
    basis, coins = Basis(LANE_PRIMES[:2]), SeededCoins(n, "x")
    fold = SquareFold(basis, width)
    x, r = basis.sample((n, width), coins), basis.sample((3, n), coins)
    total, z = weighted_squares(basis, x, r), (2**19, 12345, 2 * fold.check.q + 1)
    assert all(folded(fold, x, r, total, z))
    wrong = basis.add(total, np.ones_like(total))
    assert not any(folded(fold, x, r, wrong, z))
    if width > 1:
        assert not any(folded(fold, x, r, total, z, added=1))


def test_no_false_square_passes_more_coins_of_a_fold_than_the_bound_says():
    """Modulo 11, two features, by enumeration of all that may be added to h."""
    fold, p = SquareFold(Basis((11,)), 2), 11
    x, r = np.array([[[1, 3], [7, 2]]], np.uint32), np.array([[[4, 9]]], np.uint32)
    total = weighted_squares(fold.basis, x, r)
    passed = [
        sum(
            any(folded(fold, x, r, (total + error) % p, (z,), added=np.array(more, np.uint32))) for z in COINS
        )
        for error in range(1, p)
        for more in itertools.product(range(p), repeat=2)
    ]
    assert max(passed) == 2 * fold.check.q - 2


def zeros_at_most(degree, points, sums_to, at, p=11):
    """The most zeros among some points of a polynomial with values of somebody's choice at 0, ..., degree.

    at: points of which the values must add up to a number that is not 0.
    """
    check, most = TINY, 0
    for free in itertools.product(range(p), repeat=degree):
        values = list(free)
        known = sum(values[j] for j in at[:-1])
        values.insert(at[-1], (sums_to - known) % p)
        table = [int(check.evaluate(column(*values), y, 0)[0]) for y in points]
        most = max(most, table.count(0))
    return most


def test_no_lie_passes_more_coins_than_the_bound_says():
    """Modulo 11, blocks of two, by enumeration of all that may be added to h: no wrong sum has more coins."""
    b, x, p = column(1, 0, 3, 7), column(2, 9, 4, 4), 11
    s = np.array([(2 + 0 + 12 + 28) % p], np.uint32)
    for error in range(1, p):
        wrong = (s + error) % p
        for first in itertools.product(range(p), repeat=2):
            # With the last products honest, it passes where the wrong h meets the right one.
            passed = sum(
                TINY.fits(words_of(TINY, b, x, wrong.astype(np.uint32), z, 7, first=column(*first)))
                for z in COINS
            )
            assert passed <= 2 * TINY.q - 2
    # Where they do not meet: H less U V is of degree 4, and its values at 1 and 2 add up to no 0.
    assert zeros_at_most(4, COINS, 1, TINY.blocks) <= 2 * TINY.q


def test_words_are_uniform_whatever_the_vectors_are():
    def law(b, x, y):
        s = np.array([sum(int(i) * int(j) for i, j in zip(b[0], x[0], strict=True)) % 11], np.uint32)
        return Counter(
            tuple(int(w[0]) for w in words_of(TINY, b, x, s, 5, y, hiding=hiding))
            for hiding in itertools.product(range(11), repeat=2)
        )

    vectors = [column(0, 0, 0, 0), column(1, 0, 3, 7), column(10, 2, 5, 1)]
    laws = [law(b, x, 7) for b in vectors for x in vectors]
    assert all(one == laws[0] for one in laws)
    assert len(laws[0]) == 121
    # Controls: at the point of a block a word is a number of the vector, whatever hides it at 0.
    assert law(vectors[1], vectors[1], 1) != law(vectors[2], vectors[1], 1)


def test_a_coin_that_is_known_before_products_are_dealt_lets_any_sum_pass():
    b, x, p, z = column(1, 0, 3, 7), column(2, 9, 4, 4), 11, 5
    wrong = np.array([(2 + 12 + 28 + 1) % p], np.uint32)
    # A point at which a product is dealt is no coin: there any sum passes.
    assert TINY.fits(words_of(TINY, b, x, wrong, z, 3))
    assert not TINY.fits(words_of(TINY, b, x, wrong, z, 7))
    passing = [
        first
        for first in itertools.product(range(p), repeat=2)
        if TINY.fits(words_of(TINY, b, x, wrong, z, 7, first=column(*first)))
    ]
    assert len(passing) == p


@pytest.mark.parametrize(("m", "repetitions", "bits"), [(1000, 3, 68), (16384, 3, 62), (10**6, 3, 53)])
def test_the_table_of_soundness(m, repetitions, bits):
    """Bits of the bound; two repetitions do not reach 2**-57 at any of these."""
    p = min(LANE_PRIMES)
    assert -math.log2(miss_bound(p, m, repetitions)) >= bits
    assert -math.log2(miss_bound(p, m, repetitions)) < bits + 2
    assert -math.log2(miss_bound(p, m, 2)) < 57


def test_the_bound_counts_the_points_that_coins_avoid():
    assert miss_bound(101, 9) == Fraction(3, 101) + Fraction(10, 101 - 7)
    assert miss_bound(101, 9, 2) == miss_bound(101, 9) ** 2
    assert miss_bound(101, 9, 1, 4) == Fraction(4, 101) + Fraction(10 + 6, 101 - 9)


def test_blocks_are_as_short_as_they_can_be():
    assert [block_length(m) for m in (1, 4, 5, 9, 10, 16384)] == [2, 2, 3, 3, 4, 128]
