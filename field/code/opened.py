"""What is opened of a block, and what it says: `field.code.projections` says why that proves something.

In the first lanes the sums of a block under all rows of signs, which fix them as integers; in each other lane
a few uniform combinations of the same sums.  Signs and combinations are public, and follow from coins that
are tossed once all shares are fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.correct import Checks, combinations, judge_dealing
from field.code.lagrange_code import LagrangeCode
from field.code.projections import Choice, Projections
from field.kernels import projecting
from field.ring.basis import MERSENNE_61, Basis
from field.secrets.coins import Coins

Array = NDArray[Any]

# Words off the code pass a judge's parity checks with probability below 2**-CHECKED.
CHECKED = 40
# Four signs for each octet, 64 bits together: 0, 0, 1 or -1 by two bits each.
FOUR: Array = (
    np.array(
        [[(0, 0, 1, -1)[octet >> place & 3] for place in (0, 2, 4, 6)] for octet in range(256)], np.int16
    )
    .view(np.uint64)
    .reshape(-1)
)


# --- signs and sums ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Pattern:
    """What all blocks are projected under: public.

    signs (rows, size) int16 of 0, +1 and -1.  rest: the lanes beyond the first, or None.  weights (rest
    lanes, rows, checks) residues: the combinations of rows.
    """

    test: Projections
    first: Basis
    rest: Basis | None
    signs: Array
    weights: Array

    @classmethod
    def draw(cls, test: Projections, basis: Basis, coins: Coins) -> Pattern:
        """The same coins give the same."""
        first, rest = split(test, basis)
        octets = np.empty(-(-test.rows * test.size // 4), np.uint8)
        coins.fill(octets)
        signs = FOUR[octets].view(np.int16)[: test.rows * test.size].reshape(test.rows, test.size)
        shape = test.rows, test.checks(basis)
        weights = rest.sample(shape, coins) if rest else np.empty((0, *shape), basis.dtype)
        return cls(test, first, rest, signs, weights)

    def sums(self, words: Array, firsts: Array, counts: Array) -> Opened:
        """Of blocks, counts words from firsts on each, of words (lanes, ...) of canonical residues, flat."""
        flat = np.ascontiguousarray(words).reshape(len(words), -1)
        sums = np.empty((self.first.lanes, len(firsts), self.test.rows), flat.dtype)
        for out, lane, p in zip(sums, flat, self.first.primes, strict=False):
            if p == MERSENNE_61:
                projecting.project_wide(lane, firsts, counts, self.signs, np.uint64(p), out)
                continue
            exact = np.empty(out.shape, np.int64)
            # Residues are below 2**31, so they are the same as signed words.
            own = lane.view(np.int32)
            projecting.project_blocks(own, firsts, counts, self.signs, np.int64(p), exact)
            out[:] = exact % p
        return Opened(sums, self._combined(flat[len(sums) :], firsts, counts, self._factors))

    def hide(self, opened: Opened, masks: Iterable[tuple[Choice, Array, slice]]) -> None:
        """Add the chosen words of masks (lanes, count, words) to these blocks of what is opened, in place."""
        lanes, blocks = len(opened.sums), opened.sums.shape[1]
        rest = np.zeros((len(opened.checks), blocks, self.test.rows), opened.sums.dtype)
        for choice, mask, where in masks:
            choice.add_to(self.first, opened.sums[:, where], mask)
            if self.rest:
                choice.add_to(self.rest, rest[:, where], mask[lanes:])
        if self.rest:
            opened.checks[:] = self.rest.add(opened.checks, self.combine(rest))

    def combine(self, sums: Array) -> Array:
        """The combinations of sums (rest lanes, blocks, rows): (rest lanes, blocks, checks)."""
        lanes, blocks, rows = sums.shape
        firsts, counts = np.arange(blocks) * rows, np.full(blocks, rows)
        factors = [_halves(lane.T.astype(np.int64)) for lane in self.weights]
        flat = np.ascontiguousarray(sums).reshape(lanes, blocks * rows)
        return self._combined(flat, firsts, counts, factors)

    def _combined(self, words: Array, firsts: Array, counts: Array, factors: list[Array]) -> Array:
        """Sums of blocks of words (rest lanes, ...) times each factor: (rest lanes, blocks, checks)."""
        out = np.empty((len(words), len(firsts), self.weights.shape[2]), words.dtype)
        for lane, halves, own, p in zip(words, factors, out, self._others, strict=True):
            projecting.combine_blocks(lane.view(np.int32), firsts, counts, halves, np.int64(p), own)
        return out

    @cached_property
    def _factors(self) -> list[Array]:
        """What each word is multiplied with in each of the other lanes: combinations of its signs."""
        factors = []
        for lane, p in zip(self.weights, self._others, strict=True):
            sums = np.empty((lane.shape[1], self.test.size), np.int64)
            projecting.combine_signs(self.signs, lane.astype(np.int64), np.int64(p), sums)
            factors.append(_halves(sums))
        return factors

    @property
    def _others(self) -> tuple[int, ...]:
        return self.rest.primes if self.rest else ()


def _halves(factors: Array) -> Array:
    """Residues (checks, size) below 2**31 as `combine_blocks` wants them."""
    return np.concatenate([factors & 0xFFFF, factors >> 16]).astype(np.int32)


def split(test: Projections, basis: Basis) -> tuple[Basis, Basis | None]:
    """The first lanes, whose sums are opened, and the others, if there are any."""
    lanes = test.lanes(basis)
    return basis.prefix(lanes), Basis(basis.primes[lanes:]) if lanes < basis.lanes else None


def project_integers(values: Array, ell: int, signs: Array) -> Array:
    """Sums of a dealer's own integers (rows, d) in all `ell` segments: (blocks, rows of signs, ell) int64."""
    rows, d = values.shape
    width, size = -(-d // ell), signs.shape[1]
    padded = np.zeros((rows, ell * width), np.int64)
    padded[:, :d] = values
    out = np.empty((-(-rows * width // size), len(signs), ell), np.int64)
    firsts = np.arange(len(out)) * size
    counts = np.minimum(size, rows * width - firsts)
    few = bool(padded.size) and max(int(padded.max()), -int(padded.min())) < 1 << 30
    for segment in range(ell):
        piece = padded[:, segment * width : (segment + 1) * width].reshape(-1)
        sums = np.empty(out.shape[:2], np.int64)
        if few:
            projecting.project_blocks(piece.astype(np.int32), firsts, counts, signs, np.int64(0), sums)
        else:
            projecting.project(piece, signs, sums)
        out[:, :, segment] = sums
    return out


# --- what was told ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Opened:
    """What a receiver tells of blocks: sums (first lanes, blocks, rows), checks (rest, blocks, checks)."""

    sums: Array
    checks: Array

    @classmethod
    def join(cls, parts: list[Opened]) -> Opened:
        """What was told of these blocks, then of those."""
        if len(parts) == 1:
            return parts[0]
        sums, checks = [p.sums for p in parts], [p.checks for p in parts]
        return cls(np.concatenate(sums, axis=1), np.concatenate(checks, axis=1))

    def clear(self, where: slice) -> None:
        """Tell nothing of these blocks."""
        self.sums[:, where] = 0
        self.checks[:, where] = 0

    def of(self, where: slice) -> Opened:
        """The same of these blocks."""
        return Opened(self.sums[:, where], self.checks[:, where])

    def parts(self) -> tuple[Array, ...]:
        """Both, flat: (lanes, words)."""
        return tuple(part.reshape(len(part), -1) for part in (self.sums, self.checks) if len(part))


@dataclass(frozen=True)
class Finding:
    """What the words that receivers told say of what a dealer dealt.

    on_code: they lie on one polynomial, those of `receivers` left out.  small: and its values are within T,
    and the same integers in all lanes.
    """

    on_code: bool
    small: bool
    receivers: tuple[int, ...] = ()

    @property
    def good(self) -> bool:
        return self.on_code and self.small and not self.receivers


def passes(code: LagrangeCode, pattern: Pattern, told: Mapping[int, Opened], coins: Coins) -> bool:
    """Whether all that receivers told lies on one polynomial and its values are within T, in all lanes.

    The polynomial is looked for in random combinations of the words' parity checks.  Off it they all vanish
    with probability below 2^-CHECKED, if the coins, the judge's own, are drawn after all words are told.

    Raises TooFewValues.
    """
    receivers = tuple(sorted(told))
    for own, words in _by_lanes(code, pattern, told):
        checks = Checks.draw(own, own.basis, receivers, 1, combinations(own.basis, 0, CHECKED), coins)
        columns = {j: part[:, None] for j, part in words.items()}
        if checks.failing(columns, np.zeros(1, np.int64)) is not None:
            return False
    return within(code, pattern, told)


def judge(code: LagrangeCode, pattern: Pattern, told: Mapping[int, Opened], errors: int) -> Finding:
    """Of what receivers told, at most `errors` of whom told something else than they hold.

    Raises TooFewValues below threshold(1) + 2 errors.
    """
    off: set[int] = set()
    for own, words in _by_lanes(code, pattern, told):
        verdict = judge_dealing(own, words, errors)
        if verdict.dealer:
            return Finding(False, False)
        off |= set(verdict.receivers)
    if len(off) > errors:
        return Finding(False, False)
    rest = {j: opened for j, opened in told.items() if j not in off}
    return Finding(True, within(code, pattern, rest), tuple(sorted(off)))


def _by_lanes(
    code: LagrangeCode, pattern: Pattern, told: Mapping[int, Opened]
) -> list[tuple[LagrangeCode, dict[int, Array]]]:
    """The code over the first lanes and over the others, with what was told there (lanes, words)."""
    bases = [basis for basis in (pattern.first, pattern.rest) if basis]
    parts = {j: opened.parts() for j, opened in told.items()}
    return [
        (LagrangeCode(basis, code.n, code.ell, code.t), {j: part[i] for j, part in parts.items()})
        for i, basis in enumerate(bases)
    ]


def within(code: LagrangeCode, pattern: Pattern, told: Mapping[int, Opened]) -> bool:
    """Whether the values of the polynomial are within T, and those of the other lanes the same integers."""
    values = [own.interpolate(words, 1) for own, words in _by_lanes(code, pattern, told)]
    sums = pattern.first.lift_signed(values[0])
    allowed = pattern.test.allowed
    if not ((sums <= allowed) & (sums >= -allowed)).all():
        return False
    if pattern.rest is None:
        return True
    # Values are by segment, then by block and row.
    integers = sums.astype(np.int64).reshape(-1, pattern.test.rows)
    expected = pattern.combine(pattern.rest.reduce(integers))
    return bool((expected.reshape(values[1].shape) == values[1]).all())
