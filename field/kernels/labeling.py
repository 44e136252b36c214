"""Nearest centers of integer rows, exactly and at the speed of single precision: integers decide.

Rows stand in tiles (d, TILE), feature by feature, so that all loops run over rows side by side.  Scores
|c|^2 - 2 x.c about an integer middle are float32.  A row whose best score leads the second by more than the
slack is decided, others go to whatever the caller decides exactly with: no label depends on how a processor
rounds.

The slack.  Let u = 2^-24, x and c a row and a center less the middle.  x is an integer and c a quotient of
integers, from both of which the middle is taken before anything is rounded: a common shift costs no digit.
Conversion to float32 is off by u of each factor, and the sum of |c|^2 and d products by (d + 5) u of the sum
of their sizes, in any order, fused or not (Higham, Accuracy and Stability, section 3.1; d as a multiple of
four).  Cauchy and Schwarz bound that sum, so a score is off by at most
(d + 10) u (|c|^2 + 2 |x| |c|) (1 + 2^-6), for (d + 10) u < 2^-10: the last factor pays for higher powers of
u, for float64 before float32, and for the roundings of |x|, of the slack and of the difference of two scores.
Two scores are off by twice that, with the largest |c|.

The bounds.  Let A be the squared distance of a row that float32 decided to its center, and L = lead - slack.
Any other center is farther away by L / sqrt(4 A + 2 L) at least: sqrt(A + L) - sqrt A is L over the sum of
both roots, which is at most the root of twice A + L + A.  A is at most |x|^2 (1 + 2 (d + 14) u) + score + 2
slack.  Until its own center and the one that went farthest of all others have gone so far together, the row
keeps its label, and is not looked at: the difference of Hamerly's two bounds (Making k-means even faster, SDM
2010).  Ways are added up as float32 and rounded up, bounds rounded down: 2^-18 of them pay for a dozen
roundings.

Sums are exact: of the rows of a tile that moved one by one in int64, or, where many did, as a product with
-1, 0 and 1 in float32, which holds TILE * 2^15 < 2^24.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from field.arrays import Array
from field.kernels.compiling import compiled

TILE = 128
# With more features the slack has no proof; none of these would be decided by single precision anyway.
MOST_FEATURES = 1 << 13
UNIT = 2.0**-24
# Rows in tiles are below this in absolute value: a difference of two is a float64 exactly.
LARGEST = 1 << 52
# So many moved rows in a tile for each center make a product with masks faster than one addition a row.
MANY = 4
# Where at most one row of so many can have another label, these alone are looked at.
FEW = 4
# Bounds are kept where at most one row of so many got another label in the step before.
STEADY = 32


@compiled()
def _fill_tiles(points: Any, tiles: Any) -> None:
    for i in range(points.shape[0]):
        for f in range(points.shape[1]):
            tiles[i // TILE, f, i % TILE] = points[i, f]


@compiled()
def _shift_tile(tile: Any, middle: Any, x: Any, norm: Any) -> None:
    """x = tile - middle, rounded once, and norm = |x|^2; exact where middle is float32 and rows are int16.

    middle: float32, float64, or int32 where no difference leaves it.
    """
    kind = middle.dtype.type
    for i in range(TILE):
        norm[i] = np.float32(0)
    for f in range(tile.shape[0]):
        row, out, m = tile[f], x[f], middle[f]
        for i in range(TILE):
            v = np.float32(kind(kind(row[i]) - m))
            out[i] = v
            norm[i] += v * v


@compiled(fastmath={"contract", "nsz"})
def _add_scores(x: Any, c: Any, scores: Any) -> None:
    """scores[h, i] += sum_f c[h, f] x[f, i]; c is padded to multiples of four both ways."""
    for h in range(0, c.shape[0], 4):
        a0, a1, a2, a3 = scores[h], scores[h + 1], scores[h + 2], scores[h + 3]
        for f in range(0, c.shape[1], 4):
            x0, x1, x2, x3 = x[f], x[f + 1], x[f + 2], x[f + 3]
            p0, p1, p2, p3 = c[h, f], c[h, f + 1], c[h, f + 2], c[h, f + 3]
            q0, q1, q2, q3 = c[h + 1, f], c[h + 1, f + 1], c[h + 1, f + 2], c[h + 1, f + 3]
            r0, r1, r2, r3 = c[h + 2, f], c[h + 2, f + 1], c[h + 2, f + 2], c[h + 2, f + 3]
            s0, s1, s2, s3 = c[h + 3, f], c[h + 3, f + 1], c[h + 3, f + 2], c[h + 3, f + 3]
            for i in range(TILE):
                u0, u1, u2, u3 = x0[i], x1[i], x2[i], x3[i]
                a0[i] += p0 * u0 + p1 * u1 + p2 * u2 + p3 * u3
                a1[i] += q0 * u0 + q1 * u1 + q2 * u2 + q3 * u3
                a2[i] += r0 * u0 + r1 * u1 + r2 * u2 + r3 * u3
                a3[i] += s0 * u0 + s1 * u1 + s2 * u2 + s3 * u3


@compiled()
def _choose_best(scores: Any, numbers: Any, best: Any, lead: Any, labels: Any) -> None:
    """The center of the least score, by its number, and its lead before the second; ties to the first."""
    for i in range(TILE):
        best[i], lead[i], labels[i] = scores[0, i], np.float32(np.inf), numbers[0]
    for h in range(1, numbers.size):
        row, number = scores[h], numbers[h]
        for i in range(TILE):
            v, b, second = row[i], best[i], lead[i]
            other = v if v > b else b
            lead[i] = other if other < second else second
            labels[i] = number if v < b else labels[i]
            best[i] = v if v < b else b
    for i in range(TILE):
        lead[i] -= best[i]


@compiled(fastmath={"contract", "nsz", "reassoc"})
def _add_masked(x: Any, new: Any, old: Any, mask: Any, sums: Any, counts: Any) -> None:
    """Adds the int16 rows x of a tile to sums by their new labels and takes them from those of old ones.

    Exact in any order: at most TILE numbers of size at most 2^15 are added up, 2^23 in all.
    """
    for h in range(sums.shape[0]):
        count, some = 0, False
        for i in range(TILE):
            step = (new[i] == h) - (old[i] == h)
            mask[i] = np.float32(step)
            count += step
            some |= step != 0
        counts[h] += count
        if some:
            for f in range(sums.shape[1]):
                row, total = x[f], np.float32(0)
                for i in range(TILE):
                    total += np.float32(row[i]) * mask[i]
                sums[h, f] += np.int64(total)


@compiled()
def _move_rows(x: Any, new: Any, old: Any, sums: Any, counts: Any) -> None:
    for i in range(TILE):
        a, b = old[i], new[i]
        if a == b:
            continue
        if a >= 0:
            counts[a] -= 1
            for f in range(sums.shape[1]):
                sums[a, f] -= np.int64(x[f, i])
        if b >= 0:
            counts[b] += 1
            for f in range(sums.shape[1]):
                sums[b, f] += np.int64(x[f, i])


@compiled(error_model="numpy")
def _bound_rows(
    best: Any, lead: Any, norm: Any, slack: Any, gone: Any, first: Any, width: Any, new: Any, until: Any
) -> None:
    """Up to where of `gone` at its label a decided row keeps it; others have -1."""
    far, shrink = np.float32(0), np.float32(1 - 2.0**-18)
    for i in range(width):
        far = max(far, norm[i])
    least = slack[0] + slack[1] * np.sqrt(far)
    for i in range(width):
        sure = lead[i] - least
        own = best[i] + norm[i] * slack[2] + (least + least)
        gap = shrink * sure / np.sqrt(np.float32(4) * own + (sure + sure))
        keeps = shrink * (gap + gone[max(new[i], 0)])
        until[first + i] = keeps if new[i] >= 0 and sure > 0 else np.float32(-1)


@compiled()
def find_free(labels: Any, until: Any, gone: Any, places: Any) -> Any:
    """Lists the rows, by place, that may be nearer to another center than that of their label; how many."""
    count = 0
    for i in range(labels.size):
        places[count] = i
        count += not until[i] > gone[max(labels[i], 0)]
    return count


@compiled()
def _gather_rows(tiles: Any, places: Any, found: Any) -> None:
    """Rows at ascending places as tiles, read tile by tile."""
    first = 0
    while first < places.size:
        tile, end = places[first] // TILE, first
        while end < places.size and places[end] // TILE == tile:
            end += 1
        for f in range(tiles.shape[1]):
            for i in range(first, end):
                found[i // TILE, f, i % TILE] = tiles[tile, f, places[i] % TILE]
        first = end


@compiled()
def _take_labels(labels: Any, first: Any, width: Any, new: Any, old: Any) -> None:
    for i in range(width):
        old[i] = labels[first + i]
    for i in range(width, TILE):
        new[i] = old[i] = np.int32(-1)


@compiled()
def _hold_back(
    lead: Any,
    norm: Any,
    slack: Any,
    width: Any,
    first: Any,
    new: Any,
    old: Any,
    undecided: Any,
    before: Any,
    none: Any,
) -> Any:
    """Lists rows whose lead is too small, with their label before, after `none` others; takes it for now."""
    far = np.float32(0)
    for i in range(width):
        far = max(far, norm[i])
    least, clear = slack[0] + slack[1] * np.sqrt(far), True
    for i in range(width):
        clear &= lead[i] > least
    if not clear:
        for i in range(width):
            if not lead[i] > least:
                undecided[none], before[none], new[i] = first + i, old[i], np.int32(-1)
                none += 1
    return none


@compiled()
def _keep_labels(labels: Any, first: Any, width: Any, new: Any, old: Any) -> Any:
    """Labels in place, and how many are other than before."""
    changed = 0
    for i in range(TILE):
        changed += new[i] != old[i]
    if changed:
        for i in range(width):
            labels[first + i] = new[i]
    return changed


@compiled()
def _sweep_tiles(
    tiles: Any,
    middle: Any,
    centers: Any,
    squares: Any,
    numbers: Any,
    slack: Any,
    labels: Any,
    sums: Any,
    counts: Any,
    undecided: Any,
    before: Any,
    until: Any,
    gone: Any,
) -> Any:
    """Labels in place, and sums and counts of what moved; how many rows are undecided, and how many moved.

    slack: of a tile, by |x|^0 and |x|^1.  sums, until without rows: nobody asks for them.
    """
    x, scores = np.zeros((centers.shape[1], TILE), np.float32), np.empty((centers.shape[0], TILE), np.float32)
    norm, best = np.empty(TILE, np.float32), np.empty(TILE, np.float32)
    lead, mask = np.empty(TILE, np.float32), np.empty(TILE, np.float32)
    new, old = np.empty(TILE, np.int32), np.empty(TILE, np.int32)
    few = MANY * counts.size if tiles.itemsize == 2 else np.int64(TILE)
    none, moved = 0, 0
    for tile in range(tiles.shape[0]):
        first = tile * TILE
        width = min(TILE, labels.size - first)
        _shift_tile(tiles[tile], middle, x, norm)
        for h in range(scores.shape[0]):
            for i in range(TILE):
                scores[h, i] = squares[h]
        _add_scores(x, centers, scores)
        _choose_best(scores, numbers, best, lead, new)
        _take_labels(labels, first, width, new, old)
        none = _hold_back(lead, norm, slack, width, first, new, old, undecided, before, none)
        if until.size:
            _bound_rows(best, lead, norm, slack, gone, first, width, new, until)
        changed = _keep_labels(labels, first, width, new, old)
        moved += changed
        if changed > few:
            _add_masked(tiles[tile], new, old, mask, sums, counts)
        elif changed and counts.size:
            _move_rows(tiles[tile], new, old, sums, counts)
    return none, moved


def largest_value(points: Array) -> int:
    """The largest absolute value among integer rows, 0 if there are none."""
    return max(-int(points.min(initial=0)), int(points.max(initial=0)))


def tile_kind(largest: int) -> type[np.signedinteger[Any]]:
    """The type of tiles whose rows do not exceed this in absolute value, below LARGEST."""
    return np.int16 if largest < 2**15 else np.int32 if largest < 2**31 else np.int64


def tile_rows(points: Array, largest: int | None = None) -> Array:
    """Integer rows (m, d) below LARGEST as tiles (count, d, TILE) of the narrowest type; zeros fill the last.

    largest: what no row exceeds in absolute value, None to look.
    """
    kind = tile_kind(largest_value(points) if largest is None else largest)
    tiles = np.zeros((-(-len(points) // TILE), points.shape[1], TILE), kind)
    _fill_tiles(np.ascontiguousarray(points, np.int64), tiles)
    return tiles


@compiled()
def sum_tiles(tiles: Any, labels: Any, sums: Any, counts: Any) -> None:
    """Adds the rows to sums (k, d) and counts (k,) int64 by labels (m,) int32 in [-1, k)."""
    new, none = np.empty(TILE, np.int32), np.full(TILE, np.int32(-1))
    mask = np.empty(TILE, np.float32)
    for tile in range(tiles.shape[0]):
        for i in range(TILE):
            at = tile * TILE + i
            new[i] = labels[at] if at < labels.size else np.int32(-1)
        if tiles.itemsize == 2:
            _add_masked(tiles[tile], new, none, mask, sums, counts)
        else:
            _move_rows(tiles[tile], new, none, sums, counts)


@dataclass(frozen=True, eq=False, repr=False)
class CenterFilter:
    """Centers sums / counts as single precision can rule them out, and what decides where it cannot.

    middle: integers (d,) as float64.  centers: -2 (c - middle), (k, d), and squares |c - middle|^2, (k,),
    padded.  numbers: of the centers, ascending, (k,) int32.  reach: the largest |c - middle|.  decide: labels
    (c,) of integer rows (c, d), exactly.  exact: c - middle (k, d), but for two roundings of float64.
    """

    middle: Array
    centers: Array
    squares: Array
    numbers: Array
    reach: float
    decide: Callable[[Array], Array]
    exact: Array

    @classmethod
    def of(cls, sums: Array, counts: Array, numbers: Array, decide: Callable[[Array], Array]) -> CenterFilter:
        """The filter of centers sums (k, d) over counts (k, d) or (k, 1), int64, offered by `numbers`.

        Exact while counts (|row| + |mean|) < 2**63.
        """
        sums, counts = sums[numbers], counts[numbers]
        middle = np.rint((sums / counts).mean(axis=0))
        # Two roundings of float64, however far from 0 all centers are.
        centers = (sums - counts * middle.astype(np.int64)) / counts
        k, d = centers.shape
        padded = np.zeros((-(-k // 4) * 4, -(-d // 4) * 4), np.float32)
        padded[:k, :d] = -2 * centers
        squares = np.full(len(padded), np.inf, np.float32)
        squares[:k] = exact = (centers**2).sum(axis=1)
        return cls(
            middle, padded, squares, numbers.astype(np.int32), float(np.sqrt(exact.max())), decide, centers
        )

    @property
    def slack(self) -> Array:
        """By how much the best score of a row x leads where it decides: slack[0] + slack[1] |x|; and slack[2]
        times the sum of squares of float32, as `_shift_tile` has it, |x|^2 does not exceed.
        """
        d = len(self.middle)
        unit = 2 * (d + 10) * UNIT * (1 + 2.0**-6) if d <= MOST_FEATURES else np.inf
        wide = 1 + 2 * (d + 14) * UNIT
        return np.array([unit * self.reach**2, unit * 2 * self.reach, wide], np.float32)

    def bound_moves(self, last: CenterFilter) -> Array:
        """How much nearer any other center may have come to a row than its own, by that (k,), since the
        centers of `last`, of the same numbers: how far its own has gone, and the farthest gone of others.
        """
        apart = self.middle - last.middle
        gone = np.sqrt(((self.exact - last.exact + apart) ** 2).sum(axis=1))
        # Of float64: centers are two roundings off, their difference two of |c|, |c'| and the shift, the norm
        # d + 2 of itself.
        size = self.reach + last.reach + float(np.sqrt((apart**2).sum()))
        gone = gone * (1 + 2.0**-30) + size * 2.0**-49
        farthest = int(gone.argmax())
        others = np.full(len(gone), gone[farthest])
        others[farthest] = np.delete(gone, farthest).max(initial=0.0)
        return np.asarray(gone + others)


class LabelBounds:
    """Until when rows (m,) surely keep the labels that a filter gave them, as centers go on.

    until: (m,) float32, what `gone` (numbers,) at a row's label must not reach; -1 for a row to be looked at.
    moved: how many rows got another label in the last step; after many, bounds cost more than they save.
    """

    def __init__(self, m: int) -> None:
        self.until, self.gone, self.moved = np.full(m, -1, np.float32), np.empty(0, np.float32), m
        self.last: CenterFilter | None = None

    def follow_centers(self, filtered: CenterFilter) -> None:
        """Take it that rows are labeled by these centers next, and have the labels of those before."""
        last, self.last = self.last, filtered
        if last is None or not self.steady or not np.array_equal(last.numbers, filtered.numbers):
            self.until.fill(-1)
            # Rows may still have the label of a center that is gone.
            self.gone = np.zeros(max(len(self.gone), int(filtered.numbers.max()) + 1), np.float32)
            return
        there = filtered.numbers
        total = (self.gone[there] + filtered.bound_moves(last)).astype(np.float32)
        self.gone[there] = np.nextafter(total, np.float32(np.inf))

    @property
    def steady(self) -> bool:
        """Whether few rows moved."""
        return self.moved * STEADY <= len(self.until)

    def of_rows(self, rows: slice) -> tuple[Array, Array] | None:
        """Bounds of some rows, as `label_tiles` takes them; None after many moved."""
        return (self.until[rows], self.gone) if self.steady else None


def label_tiles(
    tiles: Array,
    filtered: CenterFilter,
    labels: Array,
    sums: Array | None = None,
    counts: Array | None = None,
    *,
    largest: int = LARGEST,
    bounds: tuple[Array, Array] | None = None,
) -> int:
    """The nearest center of each row, ties to the lowest number, in place of labels (m,) int32; how many new.

    sums (k, d) and counts (k,) int64 of the rows by label, -1 for none, become those of the new labels; None
    where nobody asks.  largest: what no row exceeds in absolute value.  bounds: of `LabelBounds` that follow
    these centers, and whose last labels these are; those of rows that are looked at are made anew.
    """
    m, d = len(labels), tiles.shape[1]
    until, gone = (np.empty(0, np.float32),) * 2 if bounds is None else bounds
    if bounds is not None:
        places = np.empty(m + 1, np.int64)
        places = places[: find_free(labels, until, gone, places)]
        if len(places) <= m // FEW:
            some = np.zeros((-(-len(places) // TILE), d, TILE), tiles.dtype)
            _gather_rows(tiles, places, some)
            own, each = labels[places], np.full(len(places), -1, np.float32)
            moved = 0
            if len(places):
                moved = label_tiles(some, filtered, own, sums, counts, largest=largest, bounds=(each, gone))
            labels[places], until[places] = own, each
            return moved
    if sums is None or counts is None:
        sums, counts = np.empty((0, d), np.int64), np.empty(0, np.int64)
    undecided, before = np.empty(m, np.int64), np.empty(m, np.int32)
    # Differences of int32 that stay below 2^31 need no float64, which is half as wide.
    narrow = tiles.itemsize == 4 and largest + np.abs(filtered.middle).max() < 2**31
    kind = np.float32 if tiles.itemsize == 2 else np.int32 if narrow else np.float64
    middle = filtered.middle.astype(kind)
    none, moved = _sweep_tiles(
        tiles, middle, filtered.centers, filtered.squares, filtered.numbers, filtered.slack, labels, sums,
        counts, undecided, before, until, gone,
    )  # fmt: skip
    at = undecided[:none]
    if none:
        rows = tiles[at // TILE, :, at % TILE].astype(np.int64)
        labels[at] = decided = filtered.decide(rows)
        if len(counts):
            np.add.at(sums, decided, rows)
            counts += np.bincount(decided, minlength=len(counts))
        moved -= int((before[:none] >= 0).sum()) - int((decided != before[:none]).sum())
    return int(moved)
