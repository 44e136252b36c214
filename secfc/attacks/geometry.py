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
of its squared length lies outside the span found before.  With noisy distances all runs, without any claim.

Known points of one client turn the shape into the points themselves (`locate`): their coordinates in the
span are linear in the points, y - mean y = B^T (x - mean x), and d + 1 points in general position fix B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from field.rows import cluster_sizes
from secfc.exchange import SERVER
from secfc.views import Question, View

Array = NDArray[Any]
Freedom = Literal["none", "isometry", "similarity"]

TOLERANCE = 1e-9  # the share of a direction's squared length that must be new
ROUNDING = 1e4 * 2.0**-52  # of the mean squared distance: what is smaller never makes a direction


# --- guesses -------------------------------------------------------------------------------------


class Guess(Protocol):
    """What an attack returns: a guess of all points after each question, and what it leaves open.

    freedom: what a judge may still choose in the guess's favor: nothing, a rotation or reflection and a
    shift, or these and one scale.  parties: who guesses.  ranks: in how many dimensions the points are
    placed, after each question.
    """

    @property
    def freedom(self) -> Freedom: ...
    @property
    def parties(self) -> tuple[str, ...]: ...
    @property
    def ranks(self) -> tuple[int, ...]: ...

    def after(self, step: int) -> Array:
        """The points (m, some dimensions) guessed after a question; -1 is the last."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Geometry:
    """All points up to rotation, reflection and shift: as secret as the points.

    points: (m, rank) in data units, columns in the order of discovery, so after a question its first
    ranks[question] are known.  outside: (m,) squared distance of each point to the span.
    """

    parties: tuple[str, ...]
    points: Array
    ranks: tuple[int, ...]
    outside: Array
    freedom: ClassVar[Freedom] = "isometry"

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

    def after(self, step: int) -> Array:
        seen = self.geometry.after(step)
        center, origin = self.known.mean(axis=0), seen[self.rows].mean(axis=0)
        # y - origin = B^T (x - center) on the known rows, with B (d, rank) of least norm.
        B = np.linalg.lstsq(self.known - center, seen[self.rows] - origin, rcond=1e-9)[0]
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


def attack(view: View, *, segments: bool = False, tolerance: float = TOLERANCE) -> Geometry:
    """The points that the view's distances fix, up to rotation and reflection.

    segments: take the distances of each segment of the features, which replies that are not blinded
    give away.  Each question then shows up to ell times as many directions.

    Raises CannotDecode if the view holds too few replies, ValueError if it holds no question.
    """
    plan = view.plan
    code, d = plan.code, plan.d
    coordinates = np.empty((plan.m, d))
    if segments:
        width = code.width(d)
        spans = [_Span(coordinates, max(0, min(width, d - u * width)), tolerance) for u in range(code.ell)]
    else:
        spans = [_Span(coordinates, d, tolerance)]
    rank, ranks, last = 0, [], None
    for question in view.questions():
        parts = view.segments(question) if segments else view.distances(question)[None]
        for span, distances in zip(spans, parts, strict=True):
            rank += span.extend(question, distances, rank)
        ranks.append(rank)
        if (question.labels >= 0).any():
            last = (question, parts.sum(axis=0))
    if last is None:
        raise ValueError(f"{', '.join(view.parties)} saw no question of the server: nothing to attack")
    points = coordinates[:, :rank].copy()
    return Geometry(view.parties, points, tuple(ranks), _outside(points, *last))


def locate(view: View, *, segments: bool = False, tolerance: float = TOLERANCE) -> Located:
    """All points in data units, by a coalition of the server with clients that hold points.

    Raises as `attack`; ValueError if the view holds no points.
    """
    rows, known = view.known()
    if not len(rows):
        who = ", ".join(view.parties)
        raise ValueError(f"{who} hold no points: name a client as a party, and pass the federation")
    return Located(attack(view, segments=segments, tolerance=tolerance), rows, known)


def labels_only(view: View) -> Simplex:
    """The baseline: what the labels alone suggest, without any distance; any party can make this guess."""
    questions = list(view.questions())
    if not questions:
        raise ValueError(f"{', '.join(view.parties)} saw no question of the server: no labels")
    return Simplex(view.parties, tuple(q.labels for q in questions), max(q.k for q in questions))


class _Span:
    """Orthonormal directions found in one segment of the features; columns of coordinates (m, d)."""

    def __init__(self, coordinates: Array, limit: int, tolerance: float) -> None:
        self.coordinates, self.limit, self.tolerance = coordinates, limit, tolerance
        self.columns: list[int] = []
        self.before: tuple[Array, Array, Array] | None = None

    def extend(self, question: Question, distances: Array, rank: int) -> int:
        """Take the distances (k, m) of one question into account: how many directions are new.

        rank: how many columns of the coordinates are filled.
        """
        W = averages(question.labels, question.k)
        live = np.asarray(W.any(axis=1))
        if len(self.columns) == self.limit or not live.any():
            return 0
        moves, products, noise = self._differences(W, distances, live)
        self.before = W, distances, live
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

    def _differences(self, W: Array, D: Array, live: Array) -> tuple[Array, Array, Array]:
        """Differences of centers, of length one: averaging rows and products with all points, both
        (moves, m), and what share of the squared length rounding may have made, (moves,).

        A tree over all centers so far: each against its own cluster one question before, or against any
        center of that question if the cluster was empty; in the first question against its first center.
        """
        W0, D0, live0 = self.before or (W, D, np.zeros_like(live))
        root = int(np.argmax(live0 if live0.any() else live))
        same = np.flatnonzero(live)
        parents = np.array([h if h < len(live0) and live0[h] else root for h in same])
        moves, gaps = W[same] - W0[parents], D[same] - D0[parents]
        products = -0.5 * (gaps - gaps.mean(axis=1, keepdims=True))
        squared = np.einsum("hi,hi->h", moves, products)
        noise = ROUNDING * float(D[same].mean())
        moved = squared > noise
        length = np.sqrt(squared[moved])[:, None]
        return moves[moved] / length, products[moved] / length, noise / squared[moved]


def averages(labels: Array, k: int) -> Array:
    """The public averaging matrix (k, m) of a clustering: row h is 1/size on cluster h, zero if empty."""
    sizes = np.maximum(cluster_sizes(labels, k), 1)
    return np.asarray((labels == np.arange(k)[:, None]) / sizes[:, None])


def _outside(points: Array, question: Question, distances: Array) -> Array:
    """Squared distances (m,) of all points to the span of the centers: what it leaves of a distance."""
    W = averages(question.labels, question.k)
    h = int(np.argmax(W.any(axis=1)))  # the first cluster that is not empty
    inside = ((points - W[h] @ points) ** 2).sum(axis=1)
    return np.asarray(np.maximum(distances[h] - inside, 0.0))


# --- judging -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judgement:
    """How near a guess came to the truth, after every question of the server.

    error: distance of the guess from the points, over that of their mean from the points (root of sums
    of squares), after the best choice of what the guess leaves open.  pairs: median relative error of
    guessed distances between two points, None where not guessed.
    """

    parties: tuple[str, ...]
    freedom: Freedom
    m: int
    d: int
    ranks: tuple[int, ...]
    error: tuple[float, ...]
    pairs: float | None = None

    @property
    def share(self) -> tuple[float, ...]:
        """The share of the points' variance that the guess recovers: 1 - error**2, at least 0."""
        return tuple(max(0.0, 1.0 - e * e) for e in self.error)


def judge(guess: Guess, points: Array) -> Judgement:
    """Compare a guess with the true points (m, d), in data units.

    Distances are those of the quantized points: compare with these to see the attack's own error.
    """
    points = np.asarray(points, np.float64)
    spread = float(np.linalg.norm(points - points.mean(axis=0)))
    errors: list[float] = []
    for step, rank in enumerate(guess.ranks):
        if step and rank == guess.ranks[step - 1] and guess.freedom != "similarity":
            errors.append(errors[-1])  # nothing new was placed
            continue
        gap = float(np.linalg.norm(aligned(guess.after(step), points, guess.freedom) - points))
        errors.append(gap / spread if spread > 0 else 0.0)
    pairs = _pairs_error(guess, points) if isinstance(guess, Geometry) else None
    return Judgement(
        guess.parties, guess.freedom, len(points), points.shape[1], guess.ranks, tuple(errors), pairs
    )


def aligned(guess: Array, points: Array, freedom: Freedom) -> Array:
    """The guess (m, any) moved onto the points (m, d) as far as its freedom allows: (m, d).

    Orthogonal Procrustes (Schoenemann, Psychometrika 31, 1966) of the centered guess, padded with zeros
    or, if it has more than d dimensions, projected on its d main axes, which only flatters it.
    """
    if freedom == "none":
        return guess
    from scipy.linalg import orthogonal_procrustes

    width = points.shape[1]
    mean = points.mean(axis=0)
    left = guess - guess.mean(axis=0)
    if left.shape[1] > width:
        left = left @ np.linalg.svd(left, full_matrices=False)[2][:width].T
    padded = np.zeros((len(points), width))
    padded[:, : left.shape[1]] = left
    rotation, fit = orthogonal_procrustes(padded, points - mean)
    scale = 1.0
    if freedom == "similarity":
        squared = float((padded**2).sum())
        scale = fit / squared if squared > 0 else 0.0
    return np.asarray(mean + scale * (padded @ rotation))


def between_share(labels: Array, points: Array) -> float:
    """The share of variance that the true centers of these clusters explain.

    No guess that puts every cluster in one place can recover more: the ceiling of `labels_only`.
    """
    centered = points - points.mean(axis=0)
    means = averages(labels, int(labels.max()) + 1) @ centered
    total = float((centered**2).sum())
    return float((means[labels[labels >= 0]] ** 2).sum()) / total if total > 0 else 1.0


def _pairs_error(guess: Geometry, points: Array, count: int = 10_000) -> float | None:
    rng = np.random.default_rng(0)  # a sample, the same for every guess
    first, second = rng.integers(0, len(points), (2, count))
    true = np.sqrt(((points[first] - points[second]) ** 2).sum(axis=1))
    apart = true > 0
    gaps = np.abs(np.sqrt(guess.between(first, second)) - true)[apart] / true[apart]
    return float(np.median(gaps)) if len(gaps) else None


# --- for people ----------------------------------------------------------------------------------

_OPEN = {
    "none": "in data units",
    "isometry": "up to rotation and reflection",
    "similarity": "up to rotation, reflection and scale",
}


def report_lines(judgement: Judgement, most: int = 6) -> list[str]:
    """What the guesser learned, in a few lines for people: at most `most` questions are shown."""
    j = judgement
    asked = len(j.ranks)
    changes = [s for s in range(asked) if s == 0 or j.ranks[s] != j.ranks[s - 1]]
    picks = np.linspace(0, len(changes) - 1, min(most - 1, len(changes)))
    shown = sorted({changes[round(float(p))] for p in picks} | {asked - 1})
    who = " and ".join("the server" if p == SERVER else p for p in j.parties)
    lines = [f"{who} can place all {j.m} points, {_OPEN[j.freedom]}:"]
    for s in shown:
        when = f"after {s + 1:>{len(str(asked))}} of {asked} questions"
        rank = f"rank {j.ranks[s]:>{len(str(j.d))}} of {j.d}"
        lines.append(
            f"  {when}: {j.share[s]:>6.1%} of the variance ({rank}, relative error {j.error[s]:.2g})"
        )
    if j.pairs is not None:
        lines.append(f"  and tell the distance of any two points within {j.pairs:.1g} (median, relative)")
    return lines


def plot_shares(judgements: dict[str, Judgement]) -> Any:
    """A matplotlib Figure of the share of variance recovered after each question, one line a judgement."""
    figure, axes = _figure(6.4, 3.8)
    for name, judgement in judgements.items():
        steps = np.arange(1, len(judgement.share) + 1)
        axes.plot(steps, 100 * np.array(judgement.share), marker="o", markersize=3, label=name)
    axes.set(xlabel="questions of the server", ylabel="variance recovered (%)", ylim=(-3, 103))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    axes.legend(loc="best", frameon=False)
    return figure


def plot_points(guess: Guess, points: Array, step: int = -1, most: int = 1500) -> Any:
    """A matplotlib Figure of true and recovered points on the two main axes of the true ones, joined.

    most: how many points are drawn.  Shows private data.
    """
    points = np.asarray(points, np.float64)
    moved = aligned(guess.after(step), points, guess.freedom)
    mean = points.mean(axis=0)
    axes2 = np.linalg.svd(points - mean, full_matrices=False)[2][:2].T
    rows = np.random.default_rng(0).permutation(len(points))[:most]
    true, found = (points[rows] - mean) @ axes2, (moved[rows] - mean) @ axes2
    if true.shape[1] < 2:  # d = 1
        true, found = (np.pad(a, ((0, 0), (0, 1))) for a in (true, found))
    figure, axes = _figure(5.6, 5.2)
    for pair in np.stack([true, found], axis=1):
        axes.plot(*pair.T, color="0.8", linewidth=0.5, zorder=1)
    axes.scatter(*true.T, s=14, facecolors="none", edgecolors="tab:blue", label="true", zorder=2)
    axes.scatter(*found.T, s=4, color="tab:orange", label="recovered", zorder=3)
    axes.set(xlabel="first main axis", ylabel="second main axis", aspect="equal")
    axes.set_title(f"rank {guess.ranks[step]} of {points.shape[1]}", fontsize="medium")
    axes.legend(loc="best", frameon=False)
    return figure


def _figure(width: float, height: float) -> tuple[Any, Any]:
    import importlib

    try:
        figures = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'secfc-clustering[plot]'") from error
    figure = figures.Figure(figsize=(width, height), layout="constrained", dpi=120)
    return figure, figure.subplots()
