"""Centers rounded to a grid, of sums that nobody holds: a committee divides by public sizes, with a dealer.

The committee holds M = A + R modulo P, public among its members, R uniform and known to a dealer that never
sees M.  Of a cluster of s points with the sum S, |S| <= s L, in rows that are `multiple` times their data,

    A = 2**(q + 1) S + s multiple + D C,   D = 2 s multiple,   C = ceil(2**q L / multiple)

is in [0, P), and floor(A / D) - C is 2**q S / (s multiple) rounded to the nearest integer, half a step
upward: the center, on a grid of 2**-q steps (`field.ring.quantize`).  With b = [R > M], whether the sum of A
and R wrapped around, A is M + b P - R, so if r and r' are the remainder and the quotient of R by D,

    floor(A / D) = floor((M + b P) / D) - r' - [r > (M + b P) mod D].

Both cases of the last bit are compared, and b itself: three comparisons of a public number with one of the
dealer's, by the tables of `field.compare.dealer_protocol`.  Their bits are opened under masks; the dealer
deals r', the masks, and the products of the first with the others in shares that sum up modulo every prime,
and from these the center's shares are linear.

All that is opened is uniform: M, and three bits.  Nothing here is statistical.  Sizes are public.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.compare import bitslice
from field.compare.argmin import ArgminContest
from field.compare.correlated_randomness import DealerRandomness, PartyRandomness, residue_words
from field.compare.dealer_protocol import (
    ONES,
    DealerSchedule,
    Moves,
    SlicedValues,
    compare_masked,
    deal_compare,
)
from field.ring.basis import Basis
from field.ring.errors import InvalidValue
from field.ring.quantize import FRACTION, largest_rounded_center, rounding_modulus

# What is dealt in residues of every number: its quotient, three masks of bits, two products of masks.
DEALT = 6


@dataclass(frozen=True, eq=False)
class CenterRounding:
    """Everything public about rounding the centers of clusters with points.

    sizes: (K,) points of each, all positive.  width: numbers of a sum.  largest: of the integers in rows, in
    absolute value.  Raises ValueError if the modulus does not hold what is divided.
    """

    basis: Basis
    sizes: tuple[int, ...]
    width: int
    largest: int
    fraction: int = FRACTION
    multiple: int = 1

    def __post_init__(self) -> None:
        most = rounding_modulus(max(self.sizes), self.largest, self.fraction, self.multiple)
        if self.basis.modulus <= most:
            raise InvalidValue(
                f"rounding centers of up to {max(self.sizes)} rows takes a modulus above "
                f"2**{most.bit_length()}, the {self.basis.lanes} lanes hold less than "
                f"2**{self.basis.modulus.bit_length()}: lower the scale, or add a lane"
            )

    @property
    def count(self) -> int:
        """How many numbers are rounded."""
        return len(self.sizes) * self.width

    @property
    def shape(self) -> tuple[int, int]:
        """Bounds of sums and of centers."""
        return len(self.sizes), self.width

    @cached_property
    def schedule(self) -> DealerSchedule:
        """Three comparisons of every number."""
        three = replace(ArgminContest.sign(1), comparisons=((0, 0, 0, 1),) * 3)
        return DealerSchedule(three, self.basis, self.count)

    @property
    def dealt(self) -> int:
        """Words that the dealer sends to one member."""
        return self.schedule.dealt + residue_words(self.basis, (DEALT, self.count))

    @property
    def openings(self) -> int:
        """How often members open something."""
        return len(self.schedule.openings)

    @cached_property
    def divisors(self) -> Array:
        """D of every number: (numbers,) Python integers."""
        each = [2 * size * self.multiple for size in self.sizes]
        return np.repeat(np.array(each, object), self.width)

    @property
    def center(self) -> int:
        """C."""
        return largest_rounded_center(self.largest, self.fraction, self.multiple)

    def compete(self, masked: Array, hand: PartyRandomness, *, lead: bool) -> Moves:
        """A member's part: yields what it opens, is sent the sum of what all members opened.

        masked: (lanes, K, width) sums plus the dealer's masks, equal at all members.  lead: True at exactly
        one member, which adds the public constants.  Returns its share of the rounded centers, which all
        members' add up to: (lanes, K, width) residues.
        """
        over, modulus = self.divisors, self.basis.modulus
        whole = self.numbers(masked, offset=True)
        quotients = [whole // over, (whole + modulus) // over]
        remainders = [whole % over, (whole + modulus) % over]
        public = np.stack([whole, *remainders])
        values = SlicedValues(self.schedule, self.basis.reduce(public))
        opened, _ = yield from compare_masked(self.schedule, values, hand, ONES if lead else np.uint64(0))
        # The last bit of y - r is y_0 + r_0 + [r > y]; r_0 is in the mask.
        b, f, g = bitslice.unpack_bits(opened, self.count).astype(np.int64) ^ (public & 1).astype(np.int64)
        sb, sf, sg = 1 - 2 * b, 1 - 2 * f, 1 - 2 * g
        # Of a center, with bits that are one where their mask is not: b + sb beta, f + sf phi, g + sg gamma.
        gap = quotients[1] - quotients[0] + f - g
        constant = quotients[0] - self.center - f + b * gap
        factors = [-1 + 0 * b, sb * gap, (b - 1) * sf, -b * sg, sb * sf, -sb * sg]
        dealt = hand.residues(self.basis, (DEALT, self.count))
        total = self.basis.reduce(constant.astype(object) if lead else np.zeros(self.count, np.int64))
        for row, factor in enumerate(factors):
            product = self.basis.multiply(dealt[:, row], self.basis.reduce(factor.astype(object)))
            total = self.basis.add(total, product)
        return total.reshape(self.basis.lanes, *self.shape)

    def deal(self, rho: Array, deck: DealerRandomness) -> None:
        """The dealer's part; rho: (lanes, K, width) residues, by which the masked sums exceed the sums."""
        whole = self.numbers(rho, offset=False)
        rest = whole % self.divisors
        secret = np.stack([whole, rest, rest])
        masks = deal_compare(self.schedule, SlicedValues(self.schedule, self.basis.reduce(secret)), deck)
        bits = bitslice.unpack_bits(masks, self.count).astype(np.int64) ^ (secret & 1).astype(np.int64)
        beta, phi, gamma = bits
        wanted = np.stack([whole // self.divisors, beta, phi, gamma, beta * phi, beta * gamma])
        part = deck.residues(self.basis, (DEALT, self.count))
        part[...] = self.basis.add(self.basis.reduce(wanted), self.basis.negate(part))

    def numbers(self, residues: Array, *, offset: bool) -> Array:
        """A, or what its mask is, of residues (lanes, K, width): (numbers,) Python integers in [0, P)."""
        flat = residues.reshape(self.basis.lanes, -1)
        twice = self.basis.reduce(np.array([2 << self.fraction]))
        values = self.basis.lift(self.basis.multiply(flat, twice)).astype(object)
        if offset:
            values = (values + self.divisors // 2 + self.divisors * self.center) % self.basis.modulus
        return np.asarray(values, object)
