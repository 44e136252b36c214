"""How finely points may be quantized, and how many of their words are tested together.

What passes the test of shared rows (`field.code.range_check`) may be some thousand times as large as what an
honest client has, and must not wrap around the modulus either.  So the range is chosen for such rows: small
blocks leave more steps, large blocks cost less.  Public facts decide, and every party chooses the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

from field.code.range_check import LARGEST, MOST, soundness_slack
from field.ring.basis import LANE_PRIMES, MAX_LANES, Basis
from field.ring.quantize import FRACTION, MAX_INT, Quantizer, cost_modulus, distance_bound, finest_scale
from field.ring.quantize import rounding_modulus as needed_to_round
from secfc.algorithm import PublicFacts
from secfc.coded.parameters import Quantization
from secfc.coded.plan import RowLayout
from secfc.errors import InputError
from secfc.remedies import Remedy

# An automatic scale gives at least so many integer steps between 0 and the bound: 64 in a sixteenth of it.
STEPS = 1 << 10
# Lanes below which rounded centers leave few steps.
ROUNDED_LANES = 2
# Below this many words a block costs more masks than it has words.
LEAST_BLOCK = 1 << 6
# A client with no more words than these may have blocks of one, which leave the most steps and cost some 130
# masks a word; beyond, that would be gigabytes.
FEW_WORDS = 1 << 14


class RangeSettings(Protocol):
    """What an algorithm says about its range."""

    @property
    def quantization(self) -> Quantization: ...
    @property
    def disclosure(self) -> Any: ...
    @property
    def init(self) -> Any: ...


@dataclass(frozen=True)
class CodeRange:
    """basis, quantizer; block: words that are tested together; headroom: see `CodedPlan`."""

    basis: Basis
    quantizer: Quantizer
    block: int
    headroom: int


@dataclass(frozen=True)
class _Wish:
    """What a range must hold: `headroom` times the distances of d features to clusters of m points.

    multiple: how many times itself every row is computed on.  colluding: see `Projections`.  rounds: of how
    many points centers are rounded, so that they stand for m; 0 if they are exact.  aside: how many steps
    beyond rows their coordinates may lie.
    """

    disclosure: Any
    plain: int
    d: int
    m: int
    ell: int
    dealers: int
    multiple: int
    colluding: int
    rounds: int = 0
    aside: int = 0

    def headroom(self, block: int) -> int:
        wide: int = self.disclosure.stretch_headroom(self.plain, self.stretch(block))
        # Distances, and noise on them, grow with the square of rows.
        return wide * self.multiple**2

    @property
    def points(self) -> int:
        """Points of the largest cluster."""
        return self.rounds or self.m

    @property
    def common(self) -> _Wish:
        """What automatic scales are chosen by: the same for one segment as for two, and for plain Lloyd."""
        return replace(self, ell=max(2, self.ell))

    def stretch(self, block: int) -> int:
        return soundness_slack(block, self.ell, self.dealers, self.colluding)

    def needed(self, block: int, max_int: int) -> int:
        distances = distance_bound(self.headroom(block) * self.d, max_int, self.m)
        largest = self.multiple * (self.stretch(block) * max_int + self.aside)
        costs = cost_modulus(self.d, self.rounds, self.multiple * max_int)
        return max(distances, costs, needed_to_round(self.rounds, largest, FRACTION, self.multiple))

    def most(self, basis: Basis, block: int) -> int:
        """The largest integer of an honest client that this basis holds."""
        held = math.isqrt((basis.modulus - 1) // (self.headroom(block) * self.d)) // (2 * self.m)
        if self.rounds:
            # What is divided is at most 2**(q + 2) times the largest sum, and the size.
            each = self.rounds * self.multiple << (FRACTION + 2)
            within = (basis.modulus - 1 - self.rounds * self.multiple) // each - self.aside
            held = min(held, max(0, within) // self.stretch(block))
            # Costs may be opened: as many distances are added up, of honest rows.
            costs = (basis.modulus - 1) // (self.rounds * self.d)
            held = min(held, math.isqrt(costs) // (2 * self.m * self.multiple))
        return min(held, MAX_INT, (MOST - 1) // self.stretch(block))


def choose_range(way: RangeSettings, public: PublicFacts, layout: RowLayout, ell: int, t: int) -> CodeRange:
    """With a scale: the smallest basis that holds it.  With a basis: its finest scale.

    With neither: the fewest lanes (at least the policy's) that leave STEPS steps between 0 and the bound, at
    their finest scale.  Blocks are the largest with which that is so.

    Raises ValueError, with the numbers, if the wish cannot be held.
    """
    if way.quantization.largest is not None and way.quantization.largest < 1:
        raise InputError(f"largest={way.quantization.largest} is too small: it must be at least 1")
    plain = way.disclosure.headroom(way, public, layout)
    dealers, colluding = (layout.n, max(1, t)) if layout.mixed else (1, 1)
    size, rounds = way.quantization.largest or layout.m, 0
    if way.quantization.centers == "rounded":
        size, rounds = 1 << FRACTION, size
    aside = 1 if rounds and way.init.grows else 0
    wish = _Wish(
        way.disclosure, plain, public.d, size, ell, dealers, layout.multiple, colluding, rounds, aside
    )
    rows = layout.m if layout.mixed else max(layout.span(j)[1] for j in range(layout.n))
    words = rows * public.d
    sizes = block_sizes(words)
    if way.quantization.scale is not None:
        given = Quantizer(way.quantization.scale, public.bound, way.quantization.rounding)
        return _given_scale(way, public, wish, (*sizes, _least(words, sizes)), given)
    if way.quantization.basis is not None:
        # A field that was asked for may leave few steps.
        return _finest(way, public, wish, way.quantization.basis, sizes, _least(words, sizes))
    least = ROUNDED_LANES if wish.rounds else way.disclosure.capabilities.least_lanes
    for lanes in range(least, MAX_LANES + 1):
        basis = Basis(LANE_PRIMES[:lanes])
        if wish.common.most(basis, sizes[-1]) >= STEPS:
            return _finest(way, public, wish, basis, sizes, sizes[-1])
    left = wish.common.most(Basis(LANE_PRIMES[:MAX_LANES]), sizes[-1])
    less = _less(way, wish.common, sizes[-1], STEPS)
    raise InputError(
        f"m={wish.points} points of d={wish.d} features leave {left} integer steps between 0 and the bound "
        f"in {MAX_LANES} lanes of 30 bits, where {STEPS} are wanted, and room for rows that a client may "
        "pass off as within it",
        [
            *less,
            ("largest", ..., "say how large a cluster can get"),
            "take fewer points",
            ("disclosure", "distances", "show the server distances"),
            ("scale", ..., "give a scale if so few steps will do"),
        ],
    )


def _less(way: RangeSettings, wish: _Wish, block: int, steps: int) -> tuple[Remedy, ...]:
    """What rounding centers would save, as a remedy before others; nothing if it cannot be."""
    if wish.rounds or not way.disclosure.capabilities.rounds:
        return ()
    rounded = replace(wish, plain=2, m=1 << FRACTION, rounds=wish.m)
    for lanes in range(ROUNDED_LANES, MAX_LANES + 1):
        if rounded.most(Basis(LANE_PRIMES[:lanes]), block) >= steps:
            return (("centers", "rounded", f"round centers, which leaves {steps} steps in {lanes} lanes"),)
    return ()


def block_sizes(words: int) -> tuple[int, ...]:
    """Sizes of blocks to choose from, for clients with so many words: powers of two, the largest first."""
    top = min(LARGEST, 1 << max(0, words - 1).bit_length())
    least = min(top, LEAST_BLOCK)
    return tuple(1 << b for b in range(top.bit_length() - 1, least.bit_length() - 2, -1))


def _least(words: int, sizes: tuple[int, ...]) -> int:
    """The smallest block that may be taken where no other leaves the steps that were asked for."""
    return 1 if words <= FEW_WORDS else sizes[-1]


def _finest(
    way: RangeSettings, public: PublicFacts, wish: _Wish, basis: Basis, sizes: tuple[int, ...], least: int
) -> CodeRange:
    common = wish.common
    chosen = next((size for size in sizes if common.most(basis, size) >= STEPS), least)
    headroom, most = common.headroom(chosen), common.most(basis, chosen)
    scale = finest_scale(basis, headroom * wish.d, wish.m, public.bound, most=most)
    quantizer = Quantizer(scale, public.bound, way.quantization.rounding)
    # What masks reach less far leaves room for larger blocks.
    held = (size for size in sizes if wish.most(basis, size) >= quantizer.max_int)
    block = max(chosen, next(held, chosen))
    return CodeRange(basis, quantizer, block, wish.headroom(block))


def _given_scale(
    way: RangeSettings, public: PublicFacts, wish: _Wish, sizes: tuple[int, ...], quantizer: Quantizer
) -> CodeRange:
    bases = [Basis(LANE_PRIMES[:lanes]) for lanes in range(1, MAX_LANES + 1)]
    if way.quantization.basis is not None:
        bases = [way.quantization.basis]
    for basis in bases:
        for block in sizes:
            if wish.most(basis, block) >= quantizer.max_int:
                return CodeRange(basis, quantizer, block, wish.headroom(block))
    widest, needed = bases[-1], wish.needed(sizes[-1], quantizer.max_int)
    if way.quantization.basis is None:
        raise InputError(
            f"scale={quantizer.scale:g} with bound={public.bound:g}, m={wish.points}: integers up to "
            f"2**{needed.bit_length()} need more than {MAX_LANES} lanes of 30 bits",
            [
                *_less(way, wish, sizes[-1], quantizer.max_int),
                f"lower the scale (at most {wish.most(widest, sizes[-1])} steps fit between 0 and the bound)",
                "lower the bound of the data",
                "take fewer points",
            ],
        )
    raise InputError(
        f"scale={quantizer.scale:g} with bound={public.bound:g}, m={wish.points} makes distances, or what is "
        f"computed from them, up to 2**{needed.bit_length()}, the modulus is below "
        f"2**{widest.modulus.bit_length()}: lower the scale or add lanes"
    )
