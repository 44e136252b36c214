"""Kernels that turn uniform words into noise: discrete Laplace, discrete Gaussian, rounded Gaussian.

Discrete laws: Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy" (2020), algorithms
1 to 3, in integers throughout.  Rounded Gaussian: Karney, "Sampling exactly from the normal distribution"
(2016), algorithm N, on 192 binary digits.

A kernel reads words one after another from `words` at position at[0].  Every sample is a function of the
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


@compiled()
def _word(words, at):  # type: ignore[no-untyped-def]
    """The next word, or 0 once they have run out; then at[0] exceeds len(words)."""
    i = at[0]
    at[0] = i + 1
    return words[i] if i < len(words) else _ZERO


@compiled()
def _below(words, at, bound):  # type: ignore[no-untyped-def]
    """A uniform integer in [0, bound), bound a uint64 of at least 1: exactly, by rejection."""
    if bound == _ONE:
        return _ZERO
    if bound <= _LOW:
        # Lemire's method on 32 bits: the product of two numbers below 2**32 fits.
        product = (_word(words, at) >> _32) * bound
        if (product & _LOW) < bound:
            least = ((_ONE << _32) - bound) % bound
            while (product & _LOW) < least and at[0] <= len(words):
                product = (_word(words, at) >> _32) * bound
        return product >> _32
    mask = bound - _ONE
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> np.uint64(shift)
    value = _word(words, at) & mask
    while value >= bound and at[0] <= len(words):
        value = _word(words, at) & mask
    return value


@compiled()
def _exp(words, at, a, b):  # type: ignore[no-untyped-def]
    """True with probability exp(-a / b), 0 <= a <= b: algorithm 1 for arguments up to one."""
    turn = _ONE
    while at[0] <= len(words):
        if not (_below(words, at, b) < a and _below(words, at, turn) == _ZERO):
            break
        turn += _ONE
    return (turn & _ONE) == _ONE


@compiled()
def _exp_half_square(words, at, a, b):  # type: ignore[no-untyped-def]
    """True with probability exp(-(a / b)**2 / 2), 0 <= a <= b: each trial is a product of simple ones."""
    turn = _ONE
    while at[0] <= len(words):
        if not (
            _below(words, at, b) < a
            and _below(words, at, b) < a
            and _below(words, at, np.uint64(2)) == _ZERO
            and _below(words, at, turn) == _ZERO
        ):
            break
        turn += _ONE
    return (turn & _ONE) == _ONE


@compiled()
def _laplace(words, at, t, s):  # type: ignore[no-untyped-def]
    """One integer x with probability proportional to exp(-abs(x) s / t): algorithm 2."""
    one = np.uint64(1)
    while at[0] <= len(words):
        u = _below(words, at, t)
        if not _exp(words, at, u, t):
            continue
        v = _ZERO
        # With t below 2**56, u + t v stays below 2**63 for v < 127; longer runs, of probability exp(-127),
        # stop there.
        while v < np.uint64(126) and _exp(words, at, one, one):
            v += _ONE
        size = np.int64((u + t * v) // s)
        negative = _word(words, at) & _ONE
        if negative and size == 0:
            continue
        return -size if negative else size
    return np.int64(0)


@compiled()
def laplace(words, at, t, s, out):  # type: ignore[no-untyped-def]
    """Fill out (N,) int64 with discrete Laplace noise of scale t / s; returns how many are done."""
    for i in range(len(out)):
        start = at[0]
        out[i] = _laplace(words, at, t, s)
        if at[0] > len(words):
            at[0] = start
            return i
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
    for i in range(len(out)):
        start = at[0]
        while at[0] <= len(words):
            y = _laplace(words, at, t, _ONE)
            reach = np.uint64(abs(y)) * step
            D = reach - lowest if reach >= lowest else lowest - reach
            q, r = D // B, D % B
            kept = True
            for _ in range(q * q):
                kept = kept and _exp(words, at, _ONE, half)
                if not kept:
                    break
            for _ in range(q if kept else _ZERO):
                kept = kept and _exp(words, at, r, B)
            if kept and _exp_half_square(words, at, r, B):
                out[i] = y
                break
        if at[0] > len(words):
            at[0] = start
            return i
    return len(out)


@compiled()
def _falls(words, at, k, x1, x0):  # type: ignore[no-untyped-def]
    """True with probability exp(-x (2k + x) / (2k + 2)), x = (x1, x0) / 2**128: Karney's algorithm B.

    Comparisons of uniform numbers look at 128 digits; a tie, of probability 2**-128, counts as not less.
    """
    y1, y0 = x1, x0
    even = True
    while at[0] <= len(words):
        z1, z0 = _word(words, at), _word(words, at)
        if not (z1 < y1 or (z1 == y1 and z0 < y0)):
            break
        choice = _below(words, at, np.uint64(2 * k + 2))
        if choice > np.uint64(2 * k):
            break
        if choice == np.uint64(2 * k):
            r1, r0 = _word(words, at), _word(words, at)
            if not (r1 < x1 or (r1 == x1 and r0 < x0)):
                break
        y1, y0 = z1, z0
        even = not even
    return even


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
    for i in range(len(out)):
        start = at[0]
        while at[0] <= len(words):
            k = 0
            while k < 63 and _exp(words, at, _ONE, half):
                k += 1
            kept = True
            for _ in range(k * (k - 1)):
                kept = kept and _exp(words, at, _ONE, half)
                if not kept:
                    break
            if not kept:
                continue
            x2, x1, x0 = _word(words, at), _word(words, at), _word(words, at)
            for _ in range(k + 1):
                kept = kept and _falls(words, at, k, x2, x1)
                if not kept:
                    break
            if not kept:
                continue
            negative = _word(words, at) & _ONE
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
            out[i] = -np.int64(size) if negative else np.int64(size)
            break
        if at[0] > len(words):
            at[0] = start
            return i
    return len(out)
