"""Labels of new points with any columns: nearest by the features that are observed and known."""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from field.arrays import Array
from field.ring.quantize import Quantizer
from field.secrets.coins import Coins
from secfc.algorithm import Driver
from secfc.data.federation import Federation
from secfc.data.inputs import checked_points
from secfc.data.party import Party
from secfc.errors import Caution, InputError
from secfc.roles.exchange import PartyId
from secfc.roles.messages import compact_labels

if TYPE_CHECKING:  # kernels are loaded when rows are labeled
    from field.kernels.labeling import CenterFilter, LabelBounds
    from secfc.data.row_tiles import RowTiles


Levels = Sequence[tuple[Array, Array]]  # groups (c,) of clusters, and their centers (k, d)
BLOCK = 1 << 18  # distances of rows that are judged together

# Fewer values (m d) are labeled in milliseconds by doubles.
FEW_VALUES = 1 << 17


@dataclass(frozen=True, eq=False, repr=False)
class ExactLabeler:
    """Centers as fractions of integers: new points are rounded as those of the fit were."""

    quantizer: Quantizer
    known: KnownCenters

    @property
    def centers(self) -> Array:
        """Centers (k, d) in data units, NaN where there is none."""
        return np.asarray(self.known.means / self.quantizer.scale)

    def label(self, points: Array, features: Array, owner: str, first_row: int) -> Array:
        whole = self.quantizer(points, owner=owner, first_row=first_row)
        return nearest_offered(whole, self.known.on(features))


@dataclass(frozen=True, eq=False, repr=False)
class FloatLabeler:
    """Centers (k, d) as floats, NaN where there is none, and the metric of SciPy that compares."""

    centers: Array
    metric: str = "sqeuclidean"

    def label(self, points: Array, features: Array, owner: str, first_row: int) -> Array:
        return nearest_known(points, self.centers[:, features], self.metric)


Labeler = ExactLabeler | FloatLabeler


def nearest_known(points: Array, centers: Array, metric: str = "sqeuclidean") -> Array:
    """The nearest of the centers (k, d) without gaps, ties to the lowest index; -1 if all have gaps: (m,)
    int32.

    metric: of SciPy; a row without a direction has cosine distance 1 from all.
    """
    from scipy.spatial.distance import cdist

    whole = np.flatnonzero(~np.isnan(centers).any(axis=1))
    if not len(whole):
        return np.full(len(points), -1, np.int32)
    apart = np.nan_to_num(cdist(points, centers[whole], metric), nan=1.0)
    return np.asarray(whole[apart.argmin(axis=1)], np.int32)


@dataclass(frozen=True, eq=False, repr=False)
class OverlapModel:
    """shared: centers on the features (d,) that several clients observe, which all parties may know.

    own: of each client the centers that it knows, on all its features, and the numbers of these.  named:
    whether the fit had names of features.
    """

    features: tuple[str, ...]
    shared: tuple[Array, Labeler]
    own: Mapping[PartyId, tuple[Array, Labeler]]
    named: bool
    by_name: ClassVar[bool] = True

    def shared_centers(self, names: Sequence[str] | None) -> Array | None:
        """Centers (k, d) in data units of columns in this order, whose nearest is a point's label.

        None if one client alone knows some, or if another metric than Euclid's says which is nearest.
        """
        at, known = self.shared
        angles = isinstance(known, FloatLabeler) and known.metric != "sqeuclidean"
        if angles or len(at) < len(self.features):
            return None
        order = range(len(at)) if names is None else [self.features.index(name) for name in names]
        return known.centers[:, list(order)]

    def predict(
        self, federation: Federation, *, coins: Callable[[PartyId], Coins], drive: Driver
    ) -> list[Array]:
        """Labels of new points: one (m_j,) int32 array a client.  Nobody says anything.

        A client of the fit, by name, knows centers on its own features too, anybody else on shared ones.
        Columns that no center is known on are left aside.  -1 where that leaves none, with a `Caution`.
        """
        names = federation.feature_names
        if names is None and (self.named or federation.d != len(self.features)):
            raise InputError(
                f"new points have {federation.d} columns without names: columns are matched by name. Name "
                "them (Party.features, or feature_names)."
            )
        labels = [self._of(party, names) for party in federation.parties]
        lost = {
            p.name: n
            for p, own in zip(federation.parties, labels, strict=True)
            if (n := int((own < 0).sum()))
        }
        if lost:
            shown = ", ".join(f"{n} of {name}" for name, n in list(lost.items())[:6])
            warnings.warn(
                f"{sum(lost.values())} new points are labeled -1 ({shown}): they share no feature with any "
                "center, or lack of every center some feature that they have.",
                Caution,
                stacklevel=4,
            )
        return labels

    def _of(self, party: Party, names: tuple[str, ...] | None) -> Array:
        at, known = self.own.get(party.name, self.shared)
        columns = party.features or names or self.features
        place = {name: i for i, name in enumerate(columns)}
        common = [
            (i, place[self.features[f]]) for i, f in enumerate(at.tolist()) if self.features[f] in place
        ]
        if not common:
            return np.full(party.points.shape[0], -1, np.int32)
        here, there = (np.array(side) for side in zip(*common, strict=True))
        owner = f"client {party.name!r}"
        return party.label_blocks(lambda first, block: known.label(block[:, there], here, owner, first))


# --------------------------------------------------------------------------------------------------
# Lloyd's heuristic with missing features, on integers: what one client computes, and no messages.
#
# Minimizes the sum over points of squared distances to their center on the features that their client
# observes (k-POD's and Wagstaff's objective, with one mask a client).  A center's coordinate is S / N, sum
# and number of its points over all who observe that feature.  So centers are fractions with a denominator
# for every pattern of clients, and labels compare them exactly: floats only rule out centers that are
# certainly not the nearest.
#
# Rules, all public: ties go to the lowest index; a coordinate without a point keeps its last value; a cluster
# without a value on some feature of a client is not offered to it; one without points anywhere is not offered
# to anybody, so it stays empty, as in `Lloyd`.


@dataclass(frozen=True, eq=False, repr=False)
class KnownCenters:
    """Centers on some features: sums (k, d) int64 over counts (k, d) int64, 0 points where none was ever
    seen.

    there: clusters that have points anywhere, (k,).
    """

    sums: Array
    counts: Array
    there: Array

    @classmethod
    def no_centers(cls, k: int, d: int) -> KnownCenters:
        """No center at all."""
        return cls(np.zeros((k, d), np.int64), np.zeros((k, d), np.int64), np.zeros(k, bool))

    def update_centers(self, sums: Array, counts: Array, there: Array) -> KnownCenters:
        """Known centers after a step: where nobody has a point, the last value stays."""
        new = counts > 0
        return KnownCenters(np.where(new, sums, self.sums), np.where(new, counts, self.counts), there)

    def on(self, features: Array) -> KnownCenters:
        """Known centers on some features only."""
        return KnownCenters(self.sums[:, features], self.counts[:, features], self.there)

    @property
    def complete_clusters(self) -> Array:
        """Clusters with points somewhere and a value on every feature: (k,)."""
        return np.asarray(self.there & (self.counts > 0).all(axis=1))

    def filter_centers(self) -> CenterFilter | None:
        """What labels rows by these centers, exactly; None where none is offered."""
        from field.kernels.labeling import CenterFilter

        offered = np.flatnonzero(self.complete_clusters)
        if not len(offered):
            return None
        return CenterFilter.of(
            self.sums, self.counts, offered, lambda rows: nearest_complete(rows, self, offered)
        )

    @property
    def means(self) -> Array:
        """Centers in integer steps, as floats: (k, d), NaN where there is none."""
        empty = np.full(self.sums.shape, np.nan)
        found: Array = np.divide(self.sums, self.counts, out=empty, where=self.counts > 0)
        return found


class ClientRows:
    """A client's rounded rows (m, d): as they are where they are few, else in tiles, in a file if need be.

    blocks: pairs of the first row and integers (b, d) of at most `largest`, all rows in order, each once.
    held: bytes of tiles in memory, None for those of `RowTiles`.
    """

    def __init__(
        self,
        blocks: Iterable[tuple[int, Array]],
        shape: tuple[int, int],
        largest: int,
        held: int | None = None,
    ) -> None:
        self.shape, self._tiles = shape, cast("RowTiles | None", None)
        # Of labels that somebody has, by their id: their sums, and how far centers may go before they change.
        self._summed: dict[int, tuple[Array, Array, LabelBounds | None]] = {}
        self._points = np.empty((0, shape[1]), np.int64)
        if shape[0] * shape[1] < FEW_VALUES:
            self._points = np.concatenate([self._points, *(block for _, block in blocks)])
        else:
            from secfc.data.row_tiles import RowTiles

            self._tiles = RowTiles(blocks, shape, largest, **({} if held is None else {"held": held}))

    def __repr__(self) -> str:
        return f"ClientRows(shape={self.shape})"

    def __getstate__(self) -> dict[str, Any]:
        # Labels elsewhere are others, though at the same place in memory.
        return {**vars(self), "_summed": {}}

    @property
    def points(self) -> Array:
        """All rows in memory: (m, d) int64."""
        return self._points if self._tiles is None else self._tiles.read_all()

    def first_labels(self) -> Array:
        """Labels (m,) of all rows in one cluster."""
        return np.zeros(self.shape[0], np.int32)

    def number_labels(self, labels: Array, groups: Array) -> Array:
        """Labels (m,) int32 by the number of each in groups; -1 stays."""
        if (groups == np.arange(len(groups))).all():
            return labels
        numbered = np.append(groups, -1)[labels].astype(np.int32)
        if (found := self._summed.get(id(labels))) and len(found[1]) == len(groups):
            kept, c = groups >= 0, int(groups.max()) + 1
            sums, counts = np.zeros((c, self.shape[1]), np.int64), np.zeros(c, np.int64)
            np.add.at(sums, groups[kept], found[0][kept])
            np.add.at(counts, groups[kept], found[1][kept])
            self.note_sums(numbered, sums, counts)
        return numbered

    def note_sums(self, labels: Array, sums: Array, counts: Array, bounds: LabelBounds | None = None) -> None:
        """Keep sums (k, d) and numbers (k,) of rows by label, and bounds, while there are these labels (m,).

        Nobody may write to these labels from here on: they are known by their place in memory.
        """
        self._summed[id(labels)] = sums, counts, bounds
        weakref.finalize(labels, self._summed.pop, id(labels), None)

    def keep_labels(self, labels: Array) -> Array:
        """Labels (m,) as a history has them, in few bytes."""
        return compact_labels(labels)

    def label_rows(self, known: KnownCenters, before: Array | None = None) -> Array:
        """The nearest offered center of each row, see `nearest_offered`: (m,) int32.

        before: labels (m,) of which most stay; if sums of them are known, rows that move alone change these.
        """
        if self._tiles is None:
            return nearest_offered(self._points, known)
        labels, filtered = np.full(self.shape[0], -1, np.int32), known.filter_centers()
        if filtered is None:
            return labels
        if before is None or (found := self._summed.get(id(before))) is None:
            self._tiles.label_rows(filtered, labels)
            return labels
        from field.kernels.labeling import LabelBounds

        more, bounds = max(0, len(known.sums) - len(found[1])), found[2] or LabelBounds(len(labels))
        labels[:] = before
        # Bounds go on with the new labels, and are those of no others.
        self._summed[id(before)] = *found[:2], None
        sums, counts = (np.concatenate([x, np.zeros((more, *x.shape[1:]), x.dtype)]) for x in found[:2])
        self._tiles.label_rows(filtered, labels, sums, counts, bounds)
        self.note_sums(labels, sums, counts, bounds)
        return labels

    def sum_rows(self, labels: Array, k: int) -> tuple[Array, Array]:
        """Sums (k, d) and numbers (k,) int64 of rows by label (m,) in [-1, k)."""
        if self._tiles is None:
            return sums_of(self._points, labels, k)
        if (found := self._summed.get(id(labels))) and len(found[1]) == k:
            return found[:2]
        sums, counts = self._tiles.sum_rows(labels, k)
        self.note_sums(labels, sums, counts)
        return sums, counts

    def sum_squares(self) -> int:
        """The sum of squares of all values, exact."""
        if self._tiles is None:
            return sum_of_squares(self._points)
        return sum(sum_of_squares(tiles.astype(np.int64)) for _, tiles in self._tiles.batches())

    def sum_silhouettes(self, labels: Array, levels: Levels) -> Array:
        """Sums (L + 1,) by rows' labels (m,) in steps of 2**-20, see `Near.levels`; last, how many rows."""
        found = np.zeros(len(levels) + 1, np.int64)
        if self._tiles is None:
            return judge_rows(self._points, labels, levels)
        for rows, tiles in self._tiles.batches():
            points = tiles.transpose(0, 2, 1).reshape(-1, self.shape[1])[: rows.stop - rows.start]
            found += judge_rows(points, labels[rows], levels)
        return found

    def find_changed(self, before: Array, after: Array) -> Array:
        """Whether any label (m,) changed: ()."""
        return np.asarray((before != after).any())

    def split_rows(self, labels: Array) -> list[Array]:
        """Labels (m,) by client: of the one that there is."""
        return [labels]

    @property
    def first_rows(self) -> list[int]:
        """The place of each client's first row."""
        return [0]

    def take_rows(self, places: Sequence[Array]) -> ClientRows:
        """Those at ascending places (b,) alone, of each client."""
        return rows_of(self._points[places[0]] if self._tiles is None else self._tiles.read_rows(places[0]))


class CrowdRows(ClientRows):
    """Rounded rows (m, d) of several clients, one after another, of which one speaks for all.

    counts: rows of each.  What is summed is summed for each, (g, ...).
    """

    def __init__(self, rows: Sequence[ClientRows], largest: int) -> None:
        blocks = [own.points for own in rows]
        self.whole, self.counts = np.concatenate(blocks), [len(block) for block in blocks]
        super().__init__([(0, self.whole)], self.whole.shape, largest)
        self.owner = np.repeat(np.arange(len(blocks)), self.counts)

    def sum_rows(self, labels: Array, k: int) -> tuple[Array, Array]:
        """Sums (g, k, d) and numbers (g, k) int64 of rows by label (m,) in [-1, k)."""
        g, kept = len(self.counts), np.flatnonzero(labels >= 0)
        sums, counts = sums_of(self.whole[kept], self.owner[kept] * k + labels[kept], g * k)
        return sums.reshape(g, k, -1), counts.reshape(g, k)

    def sum_squares(self) -> Any:
        """The sum of squares of all values of each, exact: (g,) Python integers."""
        return np.array([sum_of_squares(own) for own in self.split_rows(self.whole)], object)

    def sum_silhouettes(self, labels: Array, levels: Levels) -> Array:
        """Sums (g, L + 1) of each."""
        parts = zip(self.split_rows(self.whole), self.split_rows(labels), strict=True)
        return np.stack([judge_rows(own, mine, levels) for own, mine in parts])

    def find_changed(self, before: Array, after: Array) -> Array:
        """Whether any label (m,) of each changed: (g,)."""
        return np.bincount(self.owner[before != after], minlength=len(self.counts)) > 0

    def split_rows(self, labels: Array) -> list[Array]:
        """Labels (m,) by client."""
        return np.split(labels, np.cumsum(self.counts)[:-1])

    @property
    def first_rows(self) -> list[int]:
        """The place of each client's first row."""
        return [0, *np.cumsum(self.counts)[:-1].tolist()]

    def take_rows(self, places: Sequence[Array]) -> ClientRows:
        """Those at ascending places (b,) alone, of each client."""
        parts = zip(self.split_rows(self.whole), places, strict=True)
        few = [rows_of(own[at]) for own, at in parts]
        return CrowdRows(few, largest_of(np.concatenate([own.points for own in few])))


def largest_of(whole: Array) -> int:
    """The largest absolute value of integers of any shape."""
    return max(int(whole.max(initial=0)), -int(whole.min(initial=0)))


def rows_of(whole: Array) -> ClientRows:
    """Rows of these integers (b, d) in memory."""
    return ClientRows([(0, whole)], whole.shape, largest_of(whole))


def judge_rows(points: Array, labels: Array, levels: Levels) -> Array:
    """As `ClientRows.sum_silhouettes`, of integer points (m, d), without those in clusters of no group."""
    found = np.zeros(len(levels) + 1, np.int64)
    # Levels share most centers: distances to each are taken once, as differences, without cancellation.
    centers, places = np.unique(np.concatenate([own for _, own in levels]), axis=0, return_inverse=True)
    cuts = np.split(places.reshape(-1), np.cumsum([len(own) for _, own in levels])[:-1])
    block = max(1, BLOCK // len(centers))
    for first in range(0, len(points), block):
        finest = labels[first : first + block]
        kept = np.flatnonzero(levels[-1][0][finest] >= 0)
        columns, at = points[first : first + block][kept].T.astype(float), np.arange(len(kept))
        found[-1] += len(kept)
        squares = np.stack([((columns - center[:, None]) ** 2).sum(axis=0) for center in centers])
        for level, ((groups, _), place) in enumerate(zip(levels, cuts, strict=True)):
            own, others = groups[finest[kept]], squares[place]
            near = np.sqrt(others[own, at])
            others[own, at] = np.inf
            far = np.sqrt(others.min(axis=0))
            wider = np.maximum(near, far)
            # Each of at most 2**20, of fewer than 2**31 rows.
            steps = np.rint(2.0**20 * (far - near) / np.where(wider > 0, wider, 1))
            found[level] += int(steps.astype(np.int64).sum())
    return found


def sum_of_squares(points: Array) -> int:
    """The sum of squares of integers of any shape, exact."""
    # Halves below 2**16: 2**31 products of them sum to less than 2**63.  Where numbers exceed 2**31, so
    # that high halves are larger, products of these are Python integers.
    high, low = points >> 16, points & 0xFFFF
    wide = largest_of(points) >= 2**31
    top = int((high.astype(object) ** 2).sum()) if wide else int((high * high).sum())
    cross = int((high.astype(object) * low).sum()) if wide else int((high * low).sum())
    return (top << 32) + (cross << 17) + int((low * low).sum())


def sums_of(points: Array, labels: Array, k: int) -> tuple[Array, Array]:
    """Sums (k, d) int64 and numbers (k,) int64 of integer points (m, d) by label in [-1, k)."""
    # m points of at most max_int sum to less than 2**62: the plan sees to it.
    order = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels[order], np.arange(k + 1))
    counts, sums = np.diff(edges).astype(np.int64), np.zeros((k, points.shape[1]), np.int64)
    if len(there := np.flatnonzero(counts)):
        sums[there] = np.add.reduceat(points[order[: edges[-1]]], edges[there], axis=0, dtype=np.int64)
    return sums, counts


def possible_sums(sums: Array, counts: Array, pattern: Array, rows: Array, most: int) -> bool:
    """Whether some points have these sums (k, s) and numbers (k, p), as far as that can be seen.

    pattern: of each feature, (s,).  rows: the most points that the clients of a pattern have, (p,).  most:
    the largest value of a point's coordinate.
    """
    sums, counts = sums.astype(np.int64), counts.astype(np.int64)
    if (counts < 0).any() or (counts.astype(object).sum(axis=0) > rows).any():
        return False
    # |sums| <= counts * most, divided by most: products might not fit.
    there = counts[:, pattern]
    return bool(((sums // most >= -there) & (-(-sums // most) <= there)).all())


def nearest_offered(points: Array, known: KnownCenters) -> Array:
    """The nearest offered center of integer points (m, d), exactly; ties to the lowest index: (m,) int32.

    -1 where no center is offered.
    """
    offered = np.flatnonzero(known.complete_clusters)
    if not len(offered):
        return np.full(len(points), -1, np.int32)
    if points.size < FEW_VALUES:
        return nearest_complete(points, known, offered)
    from field.kernels.labeling import LARGEST, label_tiles, largest_value, tile_rows

    largest, filtered = largest_value(points), known.filter_centers()
    if largest >= LARGEST or filtered is None:
        return nearest_complete(points, known, offered)
    labels = np.full(len(points), -1, np.int32)
    label_tiles(tile_rows(points, largest), filtered, labels, largest=largest)
    return labels


def nearest_complete(points: Array, known: KnownCenters, offered: Array) -> Array:
    """The nearest of offered centers, one at least, by doubles and integers: (m,) int32."""
    centers = known.means[offered]
    scores, slack = _scores(points, centers)
    possible = scores - slack <= (scores + slack).min(axis=1, keepdims=True)
    labels: Array = offered[possible.argmax(axis=1)].astype(np.int32)
    close = np.flatnonzero(possible.sum(axis=1) > 1)
    if len(close):
        labels[close] = offered[_exactly(points[close], known, offered)]
    return labels


def _scores(points: Array, centers: Array) -> tuple[Array, Array]:
    """||c||**2 - 2 x c of every pair, which differs from the squared distance by ||x||**2, and its error
    bound.

    Integers below 2**53 are floats exactly; a center is one rounding off, at most u = 2**-53 of it.  A dot
    product of d terms, summed in any order, fused or not, is off by at most d u / (1 - d u) times that of the
    absolute values (Higham, Accuracy and Stability, section 3.1), which Cauchy and Schwarz bound by the
    norms. With the roundings of centers, norms and of the last difference that is less than (d + 8) 2**-52 of
    ||c||**2 + 2 ||x|| ||c||, for d below 2**40.
    """
    # About a point in their midst, in whole steps, so that a common shift costs no digits.
    middle = np.rint(centers.mean(axis=0))
    x, c = points - middle, centers - middle
    squares = (c**2).sum(axis=1)
    scores = squares - 2 * (x @ c.T)
    reach = squares + 2 * np.sqrt((x**2).sum(axis=1))[:, None] * np.sqrt(squares)
    # Centers moved by a rounding of their own size before the shift, however small they are after it.
    moved = np.abs(centers).max(axis=1, initial=0.0) * 2.0**-52 * np.sqrt(points.shape[1])
    shift = 2 * moved * (np.sqrt((x**2).sum(axis=1))[:, None] + np.sqrt(squares) + moved)
    return scores, reach * (points.shape[1] + 8) * 2.0**-52 + shift


def _exactly(points: Array, known: KnownCenters, offered: Array) -> Array:
    """The place in `complete_clusters` of the nearest center, by integers of any size: (m,)."""
    counts = known.counts[offered].astype(object)
    sums = known.sums[offered].astype(object)
    multiple = math.lcm(*map(int, known.counts[offered].reshape(-1)))
    factors = multiple // counts
    wide = points.astype(object) * multiple
    scaled = np.stack([((wide - s * f) ** 2).sum(axis=1) for s, f in zip(sums, factors, strict=True)])
    return np.asarray(scaled.argmin(axis=0), np.int64)


# --------------------------------------------------------------------------------------------------
# Rows that a client puts together itself, so that no sum it adds to can tell one of them.


def bunch_rows(points: Array, rows: int) -> Array:
    """Each row's place taken by the mean of a bunch of at least so many near rows: (m, d).

    Cut where values reach widest, at the median, while both halves have enough.  Which rows are together
    depends on all values, and not on their order; with others, or other columns, bunches are others.  Means
    of a bunch are equal, so it is in one cluster in every step, and no sum of clusters, and no combination of
    sums of any number of questions, or of runs over the same rows, has a part of it: whatever centers others
    make, and if all of them look on.  Equal rows may be a bunch: then its mean is theirs.

    points: (m, d), finite, of one client.  rows: from 1 on, at most m.

    Raises InputError.

    Source: microaggregation, as in Domingo-Ferrer and Mateo-Sanz (IEEE TKDE 14(1), 2002), by cuts as in
    LeFevre, DeWitt and Ramakrishnan, Mondrian (ICDE 2006).
    """
    points = np.asarray(checked_points(np.asarray(points), "whoever bunches"), float)
    if not 1 <= rows <= len(points):
        raise InputError(f"rows={rows}: a bunch has from 1 to all m={len(points)} rows of the client")
    out, parts = np.empty_like(points), [np.arange(len(points))]
    while parts:
        part = parts.pop()
        if len(part) < 2 * rows:
            out[part] = points[part].mean(axis=0)
            continue
        widest = np.ptp(points[part], axis=0).argmax()
        # By all columns where the first one ties, so that the order of rows does not matter.
        order = np.lexsort((*points[part].T[::-1], points[part, widest]))
        parts += np.split(part[order], [len(part) // 2])
    return out
