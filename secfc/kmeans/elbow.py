"""Choosing k: the elbow of the costs of 1, 2, ... clusters, and how clear it is.

The rule is Kneedle's (Satopaa, Albrecht, Irwin, Raghavan, 2011): the elbow is where the curve lies farthest
below the chord from its first point to its last.  Both axes are logarithms.  For points without clusters
costs fall about as k**(-2 / d) (Marriott 1971; Krzanowski and Lai 1988), which is a straight line there,
whatever d is: so such points have no elbow, and the choice hardly depends on the largest k that was tried.
On plain axes every curve has one, and the more candidates, the larger it is.

A choice is public, and parties may have to make the same one: logarithms are decimals, rounded alike on every
machine, of exact costs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import accumulate

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.ring.uint128 import UInt128
from secfc.data.inputs import WHOLE, ValueKind, check_fields, optional_kind
from secfc.errors import InputError
from secfc.kmeans.loop import WeighedClusters, cost_of

CANDIDATES = 20  # most clusters that are tried if nobody says how many
DIGITS = 50  # of logarithms; depths have 40, so that equal ones are
# Depths of an elbow, see `CostCurve.words`; `python -m benchmarks.elbow` measures what they stand for.
CLEAR, FAINT = 0.15, 0.06
NEAR = 0.9  # of the depth of the choice, from which on another is nearly as deep


@dataclass(frozen=True)
class Elbow:
    """Choice of k between `least` and `most`, at the elbow of the costs of 1 to `most` clusters.

    Parameters
    ----------
    most
        Largest number of clusters that is tried, at least least + 2.  None for the square root of the number
        of points, but 3 at least and 20 at most.  `most` itself is never chosen, as no cost beyond it is
        known: make it larger than the k that you expect.  If it is `least`, from 2 on, that is k: nothing is
        chosen, and what a choice is made by is told.
    least
        Fewest clusters, from 1 on; also the choice if the costs have no elbow.

    Examples
    --------
    >>> import numpy as np, secfc
    >>> rng = np.random.default_rng(0)
    >>> points = 9 * rng.integers(0, 2, (60, 2)) + rng.normal(size=(60, 2))
    >>> result = secfc.fit(secfc.SecFC(k=Elbow(most=8)), np.split(points, 3))
    >>> result.k, result.curve.clarity
    (4, 'clear')
    """

    most: int | None = None
    least: int = 1

    def __post_init__(self) -> None:
        check_fields(self, {"most": optional_kind(WHOLE, "the root of the number of points"), "least": WHOLE})
        if self.least < 1:
            raise InputError(f"least={self.least}: there is at least 1 cluster")
        if self.most is not None and self.most < self.least:
            swapped = "exchange them, or " if 1 <= self.most <= self.least - 2 else ""
            raise InputError(
                f"most={self.most} is below least={self.least}: {swapped}raise most to {self.least + 2}"
            )
        if self.most is not None and self.most < self.least + 2 and not self.most == self.least > 1:
            raise InputError(
                f"most={self.most}, least={self.least}: an elbow needs at least three candidates. Raise most "
                f"to {self.least + 2}, or give k as a number"
            )

    def among(self, m: int, what: str = "points") -> Elbow:
        """The elbow with `most` as a number, for so many points.

        Raises ValueError if they are too few: as many clusters as points cost nothing, whatever the data.
        """
        most = self.most
        if most is None:
            most = max(self.least + 2, min(CANDIDATES, math.isqrt(max(m, 0))))
        if most >= m:
            raise InputError(
                f"most={most} clusters of {m} {what}: to choose k there must be more of them than clusters. "
                + ("Lower most" if m > 3 else "Give k as a number")
            )
        return replace(self, most=most)

    def __str__(self) -> str:
        return "auto" if self == Elbow() else f"{self.least}..{'' if self.most is None else self.most}"


K = ValueKind("a whole number of clusters", 'Pass an integer, as 4, or "auto", or an Elbow', WHOLE.taken)


def parse_k(value: int | str | Elbow) -> int | Elbow:
    """The k that a word stands for: "auto", or "2..12" for an elbow among these; a number as it is.

    Raises InputError for another word, and for what is neither.
    """
    if isinstance(value, Elbow):
        return value
    if not isinstance(value, str):
        return int(K.of("k", value))
    word = value.strip().lower()
    if word == "auto":
        return Elbow()
    if re.fullmatch(r"[0-9]{1,9}", word):
        return int(word)
    if not re.fullmatch(r"[0-9]{1,9}\.\.[0-9]{1,9}", word):
        raise InputError(
            f"k={value!r} is no number of clusters: give one, as 4, or say among which to choose, as "
            '"2..12", or "auto"'
        )
    least, most = map(int, word.split(".."))
    return Elbow(most, least)


def largest_k(k: int | Elbow) -> int:
    """The most clusters that may come of a k, whose `most` is known."""
    if isinstance(k, int):
        return k
    if k.most is None:
        raise InputError("most=None: say of how many points, with `among`")
    return k.most


def chord_depths(costs: Sequence[Fraction | float]) -> tuple[Decimal, ...]:
    """How far the curve lies below its chord at k = 1, 2, ..., as a part of the fall of its logarithm.

    0 at both ends; negative above the chord; below 1.  costs: not negative, none above the one before.
    Where some are 0, the first of them lies below by what is left of its way, and those before it above.
    """
    exact, count = [Fraction(cost) for cost in costs], len(costs)
    if count < 3 or exact[0] <= exact[-1]:
        return (Decimal(0),) * count
    with localcontext(Context(prec=DIGITS)):
        width, (first, last) = Decimal(count).ln(), (exact[0], exact[-1])
        found = []
        for k, cost in enumerate(exact, 1):
            # Of a last cost of 0 the limit of ever smaller ones.
            height = _ln(cost / last) / _ln(first / last) if last else Decimal(1 if cost else 0)
            found.append(round(1 - Decimal(k).ln() / width - height, 40))
        return tuple(found)


def _ln(x: Fraction) -> Decimal:
    return (Decimal(x.numerator) / Decimal(x.denominator)).ln()


def elbow(costs: Sequence[Fraction | float], least: int = 1, *, plain: bool = False) -> int:
    """The k from `least` on whose cost lies farthest below the chord, the lowest of several.

    `least` if none lies below it.  costs: of k = 1, 2, ..., the last of which is no candidate.  plain: of
    these the one that lies farthest below the chord on plain axes.
    """
    below = chord_depths(costs)[least - 1 : -1]
    best = max(below, default=Decimal(0))
    if best > 0 and plain:
        whole = [Fraction(cost) for cost in costs]
        step = (whole[0] - whole[-1]) / (len(whole) - 1)
        chosen = range(least, least + len(below))
        return max(
            (k for k, b in zip(chosen, below, strict=True) if b > 0),
            key=lambda k: (-step * k - whole[k - 1], -k),
        )
    return least + below.index(best) if best > 0 else least


@dataclass(frozen=True, repr=False)
class CostCurve:
    """The costs of 1, 2, ... clusters, and the k that was chosen by them.

    costs: sums of squared distances to the means of clusters, exact where a protocol is, in squared data
    units.  silhouettes: the simplified silhouette (Hruschka, de Castro, Campello 2004) of 2, 3, ... clusters,
    if distances were there to tell it, else empty: the mean over points of (b - a) / max(a, b), a and b
    being the distances to the own center and to the nearest other one.  plain: chosen on plain axes, among
    the candidates that lie below the chord on logarithmic ones.  levels: the groups (c,) of clusters that
    were merged when 2, 3, ... of them are left, if a start by splitting merged them.  silhouette: the
    simplified silhouette of the clusters that the run ended with, None where nobody was asked.
    """

    costs: tuple[Fraction | float, ...]
    least: int = 1
    silhouettes: tuple[float, ...] = ()
    plain: bool = False
    levels: tuple[Array, ...] = field(default=(), compare=False)
    silhouette: float | None = None

    def __repr__(self) -> str:
        return f"Curve(k={self.k} of {self.least} to {len(self.costs)}, depth={self.depth:.3f})"

    def over(self, unit: Fraction) -> CostCurve:
        """The curve with costs divided by this."""
        return replace(self, costs=tuple(cost / unit for cost in self.costs))

    @cached_property
    def k(self) -> int:
        """The choice."""
        return elbow(self.costs, self.least, plain=self.plain)

    @cached_property
    def depths(self) -> tuple[float, ...]:
        """How far each k lies below the chord, see `chord_depths`."""
        return tuple(map(float, chord_depths(self.costs)))

    @property
    def has_choice(self) -> bool:
        """Whether there was more than one candidate."""
        return self.least < len(self.costs)

    @property
    def depth(self) -> float:
        """Depth of the k that was chosen below the chord."""
        return self.depths[self.k - 1]

    @property
    def second(self) -> int | None:
        """The candidate that comes next, None if no other lies below the chord."""
        rest = {k: d for k, d in enumerate(self.depths[:-1], 1) if k >= self.least and k != self.k and d > 0}
        return max(rest, key=lambda k: (rest[k], -k), default=None)

    @property
    def clarity(self) -> str:
        """How clear the choice is: "clear", "close" (another k is nearly as deep), "faint" or "none"."""
        if self.depth < FAINT:
            return "none"
        second = self.second
        if second is not None and self.depths[second - 1] >= NEAR * self.depth:
            return "close"
        return "clear" if self.depth >= CLEAR else "faint"

    @property
    def words(self) -> str:
        """How clear the choice is, in a sentence or two."""
        k, most, second = self.k, len(self.costs), self.second
        if not self.has_choice:
            return f"k = {k} was given" + self._silhouette()
        if self.costs[0] <= self.costs[-1]:
            return f"k = {k}: more clusters cost no less, as if all points were equal"
        if self.depth <= 0:
            said = (
                f"No elbow among {self.least} to {most}, so k = {k}, the least: costs fall as steadily as "
                "those of points without clusters"
            )
            return said + self._silhouette()
        clear = {"none": "not clear, and points without clusters may show as much", "close": "close"}
        said = clear.get(self.clarity, self.clarity)
        others = "no other lies below the chord"
        if second is not None:
            comes = (
                f"k = {second} is nearly as deep" if self.clarity == "close" else f"next comes k = {second}"
            )
            others = f"{comes} with {self.depths[second - 1]:.3f}"
        end = f". It is the last candidate: allow more than {most}" if k == most - 1 else ""
        return (
            f"The elbow at k = {k} is {said}: {self.depth:.3f} deep on a scale from 0 to 1, {others}{end}"
            + self._silhouette()
        )

    def _silhouette(self) -> str:
        said = ""
        if self.silhouettes:
            best = int(np.argmax(self.silhouettes)) + 2
            said = f". The simplified silhouette is largest at k = {best} ({max(self.silhouettes):.2f})"
        if self.silhouette is not None:
            what = "That" if said else "The simplified silhouette"
            said += f". {what} of the clusters in the end is {self.silhouette:.2f}"
        return said


def monotone_costs(costs: Sequence[float]) -> tuple[float, ...]:
    """Costs of best-of-several runs, none above the one before: a restart may miss what a smaller k found."""
    return tuple(accumulate(map(float, costs), min))


# --------------------------------------------------------------------------------------------------
# What merging clusters one after another says of how many there are: costs, and silhouettes.

Merges = Sequence[tuple[int, int, Fraction]]  # cluster a, b that becomes part of it, and what that costs

BLOCK = 1 << 16  # points at a time


def merge_cost_curve(
    steps: Merges, weighed: WeighedClusters, labels: Array, sizes: Array, elbow: Elbow
) -> CostCurve:
    """The costs of 1 to `most` clusters, in integer units, merged of clusters of these sizes (c,).

    Of more than c clusters as of c: there are no more.
    """
    most, costs = largest_k(elbow), [cost_of(weighed.within, sizes)]
    for _, _, lost in steps:
        costs.append(costs[-1] + lost)
    costs.reverse()
    wide = (*costs[:most], *costs[-1:] * (most - len(costs)))
    shown = weighed.distances
    return CostCurve(
        wide, elbow.least, () if shown is None else silhouettes(shown, labels, sizes, steps, most)
    )


def silhouettes(scaled: UInt128, labels: Array, sizes: Array, steps: Merges, most: int) -> tuple[float, ...]:
    """Simplified silhouettes of 2 to `most` clusters, see `CostCurve`, from distances (c, m) to c of them.

    For a that b became part of, a point is (s_a D_a + s_b D_b - loss) / (s_a + s_b) from its center, squared.
    """
    totals, m = np.zeros(max(min(most, len(sizes)) + 1, 2)), len(labels)
    for first in range(0, m, BLOCK):
        block = slice(first, min(first + BLOCK, m))
        part = UInt128(scaled.high[:, block], scaled.low[:, block])
        squared = part.to_floats() / sizes[:, None].astype(float) ** 2
        own, count = labels[block].copy(), sizes.astype(float)
        left = len(sizes)
        for a, b, lost in steps:
            if left < len(totals):
                totals[left] += _silhouette(squared, own)
            together = count[a] + count[b]
            both = (count[a] * squared[a] + count[b] * squared[b] - float(lost)) / together
            squared[a] = np.maximum(both, 0)
            squared[b], count[a] = np.inf, together
            own[own == b] = a
            left -= 1
    return tuple((totals[2:] / m).tolist())


def _silhouette(squared: Array, own: Array) -> float:
    """The sum of (b - a) / max(a, b) over points, of squared distances (c, points) to their centers."""
    points = np.arange(len(own))
    near = np.sqrt(squared[own, points])
    others = squared.copy()
    others[own, points] = np.inf
    far = np.sqrt(others.min(axis=0))
    wider = np.maximum(near, far)
    return float(((far - near) / np.where(wider > 0, wider, 1)).sum())
