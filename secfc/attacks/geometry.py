"""The server's geometry attack: distances of all points to public averages of the points fix their shape.

SecFC says that the server learns only distances of points to centers and nothing about the points.  But a
center is an average W_h X over rows that the server itself announced, so with row h of D the distances to
it, and for two centers c, c' with averaging rows W, W',

    N = -1/2 ((D - D') - its mean over the points)  =  (X - mean) (c - c')^T          (m)
    (W - W') N  =  |c - c'|**2.

Every difference of centers is thus a direction of which the server knows the length, its products with all
others, and every point's coordinate along it.  Orthogonalized, the directions seen so far give exactly the
centered points projected on the span of all centers, up to rotation and reflection; and what remains of a
distance is every point's distance to that span.  Once the span is everything the server has the distance
of any two points.

Numerics: differences to the same cluster's center one question before are scaled to length one, so that
slow late steps of Lloyd's heuristic count as much as the first; a direction is new if more than `tolerance`
of its squared length lies outside the span found before.

With noisy distances whose deviation is known, a difference counts if its squared length stands out of the
noise by `STANDS_OUT` deviations.  That is what the same linear algebra gives, and no bound on cleverer
attacks: that is the budget of the noise.

Known points of one client turn the shape into the points themselves (`locate_points`): their coordinates in
the span are linear in the points, y - mean y = B^T (x - mean x), and d + 1 points in general position fix B.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.code.rows import cluster_sizes
from secfc.attacks.views import SeenDistances, SeenQuery
from secfc.errors import InputError
from secfc.roles.exchange import SERVER

Freedom = Literal["none", "isometry", "similarity"]

TOLERANCE = 1e-9  # the share of a direction's squared length that must be new
STANDS_OUT = 4.0  # deviations of a squared length
ROUNDING = 1e4 * 2.0**-52  # of the mean squared distance: what is smaller never makes a direction


# --- guesses -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Geometry:
    """All points up to rotation, reflection and shift: as secret as the points.

    points: (m, rank) in data units, columns in the order of discovery, so after a question its first
    ranks[question] are known.  outside: (m,) squared distance of each point to the span.  freedom: with
    noise the judge may choose the scale as well.
    """

    parties: tuple[str, ...]
    points: Array
    ranks: tuple[int, ...]
    outside: Array
    freedom: Freedom = "isometry"

    def __repr__(self) -> str:
        return f"Geometry(m={len(self.points)}, ranks={self.ranks}, secret)"

    @property
    def claim(self) -> float:
        """The share of variance in the span, as the attacker itself can tell without the truth.

        Exact if every point was in a cluster in the last question.
        """
        placed = float((self.points**2).sum())
        total = placed + float(self.outside.sum())
        return placed / total if total > 0 else 1.0

    def after(self, step: int) -> Array:
        return self.points[:, : self.ranks[step]]

    def between(self, first: Array, second: Array) -> Array:
        """Guessed squared distances of pairs of rows, in squared data units.

        What lies outside the span is taken as orthogonal, which it nearly is for many features.
        """
        gaps = self.points[first] - self.points[second]
        return np.asarray((gaps**2).sum(axis=1) + self.outside[first] + self.outside[second])


@dataclass(frozen=True, eq=False, repr=False)
class Located:
    """All points in data units, from the geometry and the points of clients in the coalition.

    geometry: of the same view.  rows (p,), known (p, d): the coalition's own points.  Exact within the
    span if the known points have d + 1 in general position; a direction that they do not fix is guessed
    at their mean.
    """

    geometry: Geometry
    rows: Array
    known: Array
    freedom: ClassVar[Freedom] = "none"

    def __repr__(self) -> str:
        return f"Located({self.geometry!r}, known={self.known.shape})"

    @property
    def parties(self) -> tuple[str, ...]:
        return self.geometry.parties

    @property
    def ranks(self) -> tuple[int, ...]:
        return self.geometry.ranks

    @property
    def points(self) -> Array:
        """The final guess: (m, d)."""
        return self.after(-1)

    @cached_property
    def _inverse(self) -> Array:
        return np.linalg.pinv(self.known - self.known.mean(axis=0), rcond=1e-9)

    def after(self, step: int) -> Array:
        seen = self.geometry.after(step)
        center, origin = self.known.mean(axis=0), seen[self.rows].mean(axis=0)
        # y - origin = B^T (x - center) on the known rows, with B (d, rank) of least norm.
        B = self._inverse @ (seen[self.rows] - origin)
        guess = center + (seen - origin) @ B.T
        guess[self.rows] = self.known
        return np.asarray(guess)


@dataclass(frozen=True, eq=False, repr=False)
class Simplex:
    """The guess from labels alone: every cluster is one corner of a regular simplex.

    Labels say which points belong together and nothing of where clusters lie, so the symmetric guess
    puts them all equally far apart; its size is unknown, and the judge may choose it.
    history: (m,) labels of each question.
    """

    parties: tuple[str, ...]
    history: tuple[Array, ...]
    k: int
    freedom: ClassVar[Freedom] = "similarity"

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(max(len(np.unique(labels)) - 1, 0) for labels in self.history)

    def after(self, step: int) -> Array:
        # Label -1, a point in no cluster, stands at the origin.
        return np.asarray(self.history[step][:, None] == np.arange(self.k), np.float64)


# --- the attack ----------------------------------------------------------------------------------


def reconstruct_geometry(
    seen: SeenDistances,
    *,
    segments: bool = False,
    tolerance: float = TOLERANCE,
    deviation: Callable[[SeenQuery], float] | None = None,
) -> Geometry:
    """The points that distances fix as they were seen, up to rotation and reflection.

    segments: take the distances of each segment of the features, which replies that are not blinded
    give away.  Each question then shows up to ell times as many directions.
    deviation: of the noise on all distances of a question, in squared data units; None if they are exact.

    Only questions that are whole are used: distances of each point to halves of its own cluster add to what
    the server knows, and not to this guess.

    Raises CannotDecode if they hold too few replies, ValueError if it holds no question.
    """
    coordinates = np.empty((seen.m, seen.d))
    widths = seen.segment_widths if segments else (seen.d,)
    spans = [_Span(coordinates, width, tolerance) for width in widths]
    rank, ranks, last = 0, [], None
    for question in seen.questions():
        if not question.whole:
            ranks.append(rank)
            continue
        parts = seen.segment_distances(question) if segments else seen.distances(question)[None]
        for span, distances in zip(spans, parts, strict=True):
            rank += span.extend(question, distances, rank, deviation(question) if deviation else 0.0)
        ranks.append(rank)
        if (question.labels >= 0).any():
            last = (question, parts.sum(axis=0))
    if last is None:
        raise InputError(f"{', '.join(seen.parties)} saw no question of the server: nothing to attack")
    points = coordinates[:, :rank].copy()
    freedom: Freedom = "similarity" if deviation else "isometry"
    return Geometry(seen.parties, points, tuple(ranks), _outside(points, *last), freedom)


def locate_points(seen: SeenDistances, *, segments: bool = False, tolerance: float = TOLERANCE) -> Located:
    """All points in data units, by a coalition of the server with clients that hold points.

    Raises as `reconstruct_geometry`; ValueError if they hold no points.
    """
    rows, known = seen.known()
    if not len(rows):
        who = ", ".join(seen.parties)
        raise InputError(f"{who} hold no points: name a client as a party, and pass the federation")
    return Located(reconstruct_geometry(seen, segments=segments, tolerance=tolerance), rows, known)


def labels_only(seen: SeenDistances) -> Simplex:
    """The baseline: what the labels alone suggest; any party can make this guess."""
    questions = list(seen.questions())
    if not questions:
        raise InputError(f"{', '.join(seen.parties)} saw no question of the server: no labels")
    return Simplex(seen.parties, tuple(q.labels for q in questions), max(q.k for q in questions))


def place_by_distances(
    squares: Array, dimensions: int, freedom: Freedom = "isometry", parties: tuple[str, ...] = (SERVER,)
) -> Geometry:
    """All points by squared distances (m, m) of every two of them, as whoever was given a matrix has them.

    Classical scaling: exact, up to rotation and reflection, in as many dimensions as the points have.
    """
    middle = squares - squares.mean(axis=0)
    weights, directions = np.linalg.eigh(-0.5 * (middle - middle.mean(axis=1, keepdims=True)))
    kept = np.argsort(weights)[::-1][:dimensions]
    points = directions[:, kept] * np.sqrt(np.maximum(weights[kept], 0.0))
    return Geometry(parties, points, (len(kept),), np.zeros(len(points)), freedom)


def place_by_neighbors(near: Array, dimensions: int) -> Geometry:
    """All points by which two are near, (m, m) bool, as a server of near pairs has it: a lower bound.

    Steps along shortest paths stand for distances, up to one scale; what no path joins is one step farther
    than the longest path.
    """
    reached, steps, front = near.copy(), near.astype(np.float64), 1.0
    links = near.astype(np.float32)
    while True:
        wider = (reached.astype(np.float32) @ links) > 0
        if (wider == reached).all():
            break
        front += 1
        steps[wider & ~reached] = front
        reached = wider
    steps[~reached] = front + 1
    np.fill_diagonal(steps, 0.0)
    return place_by_distances(steps**2, dimensions, "similarity")


class _Span:
    """Orthonormal directions found in one segment of the features; columns of coordinates (m, d)."""

    def __init__(self, coordinates: Array, limit: int, tolerance: float) -> None:
        self.coordinates, self.limit, self.tolerance = coordinates, limit, tolerance
        self.columns: list[int] = []
        self.before: tuple[Array, Array, Array, float] | None = None

    def extend(self, question: SeenQuery, distances: Array, rank: int, deviation: float) -> int:
        """Take the distances (k, m) of one question into account: how many directions are new.

        rank: how many columns of the coordinates are filled.  deviation: of the noise on each distance.
        """
        W = averaging_matrix(question.labels, question.k)
        live = np.asarray(W.any(axis=1))
        if len(self.columns) == self.limit or not live.any():
            return 0
        moves, products, noise = self._differences(W, distances, live, deviation)
        self.before = W, distances, live, deviation
        Y = self.coordinates[:, self.columns]
        rest = products - (moves @ Y) @ Y.T
        gram = moves @ rest.T
        weights, directions = np.linalg.eigh((gram + gram.T) / 2)
        new = np.flatnonzero(weights > np.maximum(self.tolerance, noise @ directions**2))[::-1]
        new = new[: self.limit - len(self.columns)]
        columns = list(range(rank, rank + len(new)))
        self.coordinates[:, columns] = rest.T @ (directions[:, new] / np.sqrt(weights[new]))
        self.columns += columns
        return len(new)

    def _differences(self, W: Array, D: Array, live: Array, deviation: float) -> tuple[Array, Array, Array]:
        """Differences of centers, of length one: averaging rows and products with all points, both
        (moves, m), and what share of the squared length rounding or noise may have made, (moves,).

        A tree over all centers so far: each against its own cluster one question before, or against any
        center of that question if the cluster was empty; in the first question against its first center.
        """
        W0, D0, live0, deviation0 = self.before or (W, D, np.zeros_like(live), deviation)
        root = int(np.argmax(live0 if live0.any() else live))
        same = np.flatnonzero(live)
        parents = np.array([h if h < len(live0) and live0[h] else root for h in same])
        moves, gaps = W[same] - W0[parents], D[same] - D0[parents]
        products = -0.5 * (gaps - gaps.mean(axis=1, keepdims=True))
        squared = np.einsum("hi,hi->h", moves, products)
        # The noise of half a difference of distances, averaged over the points that the move is made of.
        each = 0.5 * math.hypot(deviation, deviation0) * np.linalg.norm(moves, axis=1)
        noise = ROUNDING * float(np.abs(D[same]).mean()) + STANDS_OUT * each
        moved = squared > noise
        length = np.sqrt(squared[moved])[:, None]
        return moves[moved] / length, products[moved] / length, noise[moved] / squared[moved]


def averaging_matrix(labels: Array, k: int) -> Array:
    """The public averaging matrix (k, m) of a clustering: row h is 1/size on cluster h, zero if empty."""
    sizes = np.maximum(cluster_sizes(labels, k), 1)
    return np.asarray((labels == np.arange(k)[:, None]) / sizes[:, None])


def _outside(points: Array, question: SeenQuery, distances: Array) -> Array:
    """Squared distances (m,) of all points to the span of the centers: what it leaves of a distance."""
    W = averaging_matrix(question.labels, question.k)
    h = int(np.argmax(W.any(axis=1)))  # the first cluster that is not empty
    inside = ((points - W[h] @ points) ** 2).sum(axis=1)
    return np.asarray(np.maximum(distances[h] - inside, 0.0))
