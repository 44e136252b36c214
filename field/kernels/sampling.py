"""Kernels that turn uniform words into noise: discrete Laplace, discrete Gaussian, rounded Gaussian.

Discrete laws: Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy" (2020), algorithms
1 to 3, in integers throughout.  Rounded Gaussian: Karney, "Sampling exactly from the normal distribution"
(2016), algorithm N, on 192 binary digits.

A kernel reads words one after another from `words` from position at[0] on.  Helpers take the position and
give the next one beside what they found: it stays in a register, where one in memory took half of the time.
It exceeds len(words) once they have run out.  Every sample is a function of the
stream of words: a sample that runs out of words is not finished, and begins anew at its own first word when
more have come, so that no sample is dropped for being long.
"""

from __future__ import annotations

import numpy as np

from field.kernels.compiling import compiled

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@compiled(inline="always")
def _word(words, i):  # type: ignore[no-untyped-def]
    """Word i, or 0 where they have run out."""
    return words[i] if i < np.uint64(len(words)) else _ZERO


@compiled()
def _below(words, i, bound):  # type: ignore[no-untyped-def]
    """A uniform integer in [0, bound), bound a uint64 of at least 1: exactly, by rejection."""
    if bound == _ONE:
        return _ZERO, i
    if bound <= _LOW:
        # Lemire's method on 32 bits: the product of two numbers below 2**32 fits.
        product, i = (_word(words, i) >> _32) * bound, i + _ONE
        if (product & _LOW) < bound:
            least = ((_ONE << _32) - bound) % bound
            while (product & _LOW) < least and i <= np.uint64(len(words)):
                product, i = (_word(words, i) >> _32) * bound, i + _ONE
        return product >> _32, i
    mask = bound - _ONE
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> np.uint64(shift)
    value, i = _word(words, i) & mask, i + _ONE
    while value >= bound and i <= np.uint64(len(words)):
        value, i = _word(words, i) & mask, i + _ONE
    return value, i


@compiled()
def _exp(words, i, a, b):  # type: ignore[no-untyped-def]
    """True with probability exp(-a / b), 0 <= a <= b: algorithm 1 for arguments up to one."""
    turn = _ONE
    while i <= np.uint64(len(words)):
        value, i = _below(words, i, b)
        if value >= a:
            break
        value, i = _below(words, i, turn)
        if value != _ZERO:
            break
        turn += _ONE
    return (turn & _ONE) == _ONE, i


@compiled()
def _exp_half_square(words, i, a, b):  # type: ignore[no-untyped-def]
    """True with probability exp(-(a / b)**2 / 2), 0 <= a <= b: each trial is a product of simple ones."""
    turn = _ONE
    while i <= np.uint64(len(words)):
        value, i = _below(words, i, b)
        if value >= a:
            break
        value, i = _below(words, i, b)
        if value >= a:
            break
        value, i = _below(words, i, np.uint64(2))
        if value != _ZERO:
            break
        value, i = _below(words, i, turn)
        if value != _ZERO:
            break
        turn += _ONE
    return (turn & _ONE) == _ONE, i


@compiled()
def _all_exp(words, i, times, a, b):  # type: ignore[no-untyped-def]
    """Whether so many trials of `_exp` succeed, the first that fails being the last."""
    kept = True
    for _ in range(times):
        kept, i = _exp(words, i, a, b)
        if not kept:
            break
    return kept, i


@compiled()
def _laplace(words, i, t, s):  # type: ignore[no-untyped-def]
    """One integer x with probability proportional to exp(-abs(x) s / t): algorithm 2."""
    while i <= np.uint64(len(words)):
        u, i = _below(words, i, t)
        kept, i = _exp(words, i, u, t)
        if not kept:
            continue
        v = _ZERO
        # With t below 2**56, u + t v stays below 2**63 for v < 127; longer runs, of probability exp(-127),
        # stop there.
        while v < np.uint64(126):
            kept, i = _exp(words, i, _ONE, _ONE)
            if not kept:
                break
            v += _ONE
        size = np.int64((u + t * v) // s)
        negative, i = _word(words, i) & _ONE, i + _ONE
        if negative and size == 0:
            continue
        return (-size if negative else size), i
    return np.int64(0), i


@compiled()
def laplace(words, at, t, s, out):  # type: ignore[no-untyped-def]
    """Fill out (N,) int64 with discrete Laplace noise of scale t / s; returns how many are done."""
    i = np.uint64(at[0])
    for done in range(len(out)):
        at[0] = i
        out[done], i = _laplace(words, i, t, s)
        if i > np.uint64(len(words)):
            return done
    at[0] = i
    return len(out)


@compiled()
def gaussian(words, at, s, f, out):  # type: ignore[no-untyped-def]
    """Fill out (N,) int64 with discrete Gaussian noise, sigma = s / 2**f; returns how many are done.

    Algorithm 3: a proposal y from the discrete Laplace law of scale t is kept with probability
    exp(-(abs(y) - sigma**2 / t)**2 / (2 sigma**2)).  With D / B = abs(abs(y) - sigma**2 / t) / sigma and
    D = q B + r that is exp(-1/2)**(q q) exp(-r / B)**q exp(-(r / B)**2 / 2), three exact trials.
    """
    half = np.uint64(2)
    # Whole sigma, t = sigma: D = abs(abs(y) - s) and B = s, y below 127 s < 2**63 for s < 2**56.
    # Else s <= 2**24, f <= 25 and t 2**f <= s + 2**f, so B = t s 2**f <= 2**51, and for abs(y) < 127 t the
    # product y t 4**f stays below 127 (s + 2**f)**2 < 2**59.
    t = s if f == _ZERO else (s >> f) + _ONE
    lowest = s if f == _ZERO else s * s
    step = _ONE if f == _ZERO else t << (f + f)
    B = s if f == _ZERO else (t * s) << f
    i = np.uint64(at[0])
    for done in range(len(out)):
        at[0] = i
        while i <= np.uint64(len(words)):
            y, i = _laplace(words, i, t, _ONE)
            reach = np.uint64(abs(y)) * step
            D = reach - lowest if reach >= lowest else lowest - reach
            q, r = D // B, D % B
            kept, i = _all_exp(words, i, q * q, _ONE, half)
            if kept:
                kept, i = _all_exp(words, i, q, r, B)
            if kept:
                kept, i = _exp_half_square(words, i, r, B)
            if kept:
                out[done] = y
                break
        if i > np.uint64(len(words)):
            return done
    at[0] = i
    return len(out)


@compiled()
def _falls(words, i, k, x1, x0):  # type: ignore[no-untyped-def]
    """True with probability exp(-x (2k + x) / (2k + 2)), x = (x1, x0) / 2**128: Karney's algorithm B.

    Comparisons of uniform numbers look at 128 digits; a tie, of probability 2**-128, counts as not less.
    """
    y1, y0 = x1, x0
    even = True
    while i <= np.uint64(len(words)):
        z1, z0, i = _word(words, i), _word(words, i + _ONE), i + np.uint64(2)
        if not (z1 < y1 or (z1 == y1 and z0 < y0)):
            break
        choice, i = _below(words, i, np.uint64(2 * k + 2))
        if choice > np.uint64(2 * k):
            break
        if choice == np.uint64(2 * k):
            r1, r0, i = _word(words, i), _word(words, i + _ONE), i + np.uint64(2)
            if not (r1 < x1 or (r1 == x1 and r0 < x0)):
                break
        y1, y0 = z1, z0
        even = not even
    return even, i


@compiled()
def _carry(word, s, carry):  # type: ignore[no-untyped-def]
    """The two parts of word * s + carry, s and carry below 2**32: (low 64 bits, the rest)."""
    low = (word & _LOW) * s + carry
    high = (word >> _32) * s + (low >> _32)
    return (high << _32) | (low & _LOW), high >> _32


@compiled()
def rounded(words, at, s, e, out):  # type: ignore[no-untyped-def]
    """Fill out (N,) int64 with round(sigma Z), Z standard normal, sigma = s 2**e; returns how many are done.

    Z = +-(k + x): k and x by Karney's algorithm N.  s <= 2**24, -25 <= e <= 32, so that s (k + 1) 2**e
    stays below 2**63 for k < 64, and k = 64 has probability exp(-2000).
    """
    half = np.uint64(2)
    i = np.uint64(at[0])
    for done in range(len(out)):
        at[0] = i
        while i <= np.uint64(len(words)):
            k = 0
            while k < 63:
                more, i = _exp(words, i, _ONE, half)
                if not more:
                    break
                k += 1
            kept, i = _all_exp(words, i, k * (k - 1), _ONE, half)
            if not kept:
                continue
            x2, x1, x0 = _word(words, i), _word(words, i + _ONE), _word(words, i + half)
            i += np.uint64(3)
            for _ in range(k + 1):
                kept, i = _falls(words, i, k, x2, x1)
                if not kept:
                    break
            if not kept:
                continue
            negative, i = _word(words, i) & _ONE, i + _ONE
            _, carry = _carry(x0, s, _ZERO)
            _, carry = _carry(x1, s, carry)
            fraction, carry = _carry(x2, s, carry)
            whole = np.uint64(k) * s + carry
            if e >= 0:
                # The e digits after the point move before it, the next one rounds.
                moved = (fraction >> np.uint64(63 - e)) if e > 0 else fraction >> np.uint64(63)
                size = (whole << np.uint64(e)) + ((moved + _ONE) >> _ONE)
            else:
                size = (whole + (_ONE << np.uint64(-e - 1))) >> np.uint64(-e)
            out[done] = -np.int64(size) if negative else np.int64(size)
            break
        if i > np.uint64(len(words)):
            return done
    at[0] = i
    return len(out)
