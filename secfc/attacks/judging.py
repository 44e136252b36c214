"""How near an attacker's guess came to the truth: figures, sentences and pictures.

Only here the true points enter.  A judge first moves the guess as far as its freedom allows, always in the
guess's favor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from field.arrays import Array
from secfc.attacks.geometry import Freedom, Geometry, Located, Simplex, averaging_matrix
from secfc.attacks.history import Axes, History
from secfc.attacks.rates import Rates
from secfc.attacks.reconstruction import REMEDIES, RowGuesses
from secfc.errors import install_command
from secfc.logs import log_event
from secfc.roles.exchange import SERVER

# What an attack returns: a guess of all points after each question, and what it leaves open.  freedom: what a
# judge may still choose in the guess's favor: nothing, a rotation or reflection and a shift, or these and one
# scale.  parties: who guesses.  ranks: in how many dimensions the points are placed, after each question.
Guess = Geometry | Located | Simplex | History

# Of a history of labels the best counts of these dimensions kept, and powers that weights are raised to.
KEPT = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
POWERS = (0.0, 0.5, 1.0, 1.5, 2.0)


@dataclass(frozen=True)
class RebuiltRows:
    """How many single rows an attack rebuilt.

    how: the attack.  m: rows there are.  guessed: rows that it claims.  exact: of these, real rows, to the
    rounding.  error: root of the squared distance of guesses from their nearest real rows over that of
    what is guessed of these rows by who saw nothing (1 is no gain), None without a guess.
    """

    how: str
    m: int
    guessed: int
    exact: int
    error: float | None

    @property
    def false_guesses(self) -> int:
        """Guesses that are nobody's row."""
        return self.guessed - self.exact

    @property
    def sentence(self) -> str:
        """For people, with what stops it where it worked."""
        if not self.guessed:
            return f"From {self.how} no row could be rebuilt."
        wrong = "none" if not self.false_guesses else f"{self.false_guesses} more"
        rows = f"1 row of {self.m} was" if self.exact == 1 else f"{self.exact} rows of {self.m} were"
        said = f"From {self.how} {rows} rebuilt exactly, and {wrong} wrongly."
        return f"{said} What stops it: {REMEDIES[self.how]}." if self.exact else said

    def figures(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "attack": self.how, "rows": self.m, "guessed": self.guessed, "exact": self.exact,
            "false": self.false_guesses, "relative_error": self.error,
        }  # fmt: skip


def judge_rows(rows: RowGuesses, points: Array, step: float = 0.0) -> RebuiltRows:
    """Hold guessed rows against the true points (m, d), in data units.

    step: of the rounding before the points were clustered; a guess that is within one of a point, in every
    feature that it has, is exact.
    """
    points = np.asarray(points, np.float64)
    exact, off, blind = 0, 0.0, 0.0
    for row in rows.values:
        there = ~np.isnan(row)
        gaps = points[:, there] - row[there]
        nearest = int((gaps**2).sum(axis=1).argmin())
        tolerance = step + 1e-6 * np.abs(points[nearest, there]).max(initial=1e-300)
        exact += bool((np.abs(gaps[nearest]) <= tolerance).all())
        off += float((gaps[nearest] ** 2).sum())
        blind += float(((rows.guess - points[nearest])[there] ** 2).sum())
    error = float(np.sqrt(off / blind)) if blind > 0 else None
    log_event("attacks", "judged", attack=rows.how)
    return RebuiltRows(rows.how, len(points), len(rows.values), exact, error)


@dataclass(frozen=True)
class GuessJudgement:
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


def judge_guess(guess: Guess, points: Array) -> GuessJudgement:
    """Compare a guess with the true points (m, d), in data units.

    Distances are those of the quantized points: compare with these to see the attack's own error.
    Of a history of labels the best of its guesses up to a question counts, and never a worse one later.
    """
    points = np.asarray(points, np.float64)
    if isinstance(guess, History):
        return _best(guess, points)
    spread = float(np.linalg.norm(points - points.mean(axis=0)))
    errors: list[float] = []
    for step, rank in enumerate(guess.ranks):
        if step and rank == guess.ranks[step - 1] and guess.freedom != "similarity":
            errors.append(errors[-1])  # nothing new was placed
            continue
        gap = float(np.linalg.norm(align_guess(guess.after(step), points, guess.freedom) - points))
        errors.append(gap / spread if spread > 0 else 0.0)
    pairs = _pairs_error(guess, points) if isinstance(guess, Geometry) else None
    log_event("attacks", "judged", attack=type(guess).__name__, coalition=",".join(guess.parties))
    return GuessJudgement(
        guess.parties, guess.freedom, len(points), points.shape[1], guess.ranks, tuple(errors), pairs
    )


def shuffled_baseline(points: Array) -> Array:
    """The points in another order, always the same: what a guess is worth that knows nothing of them."""
    return np.asarray(points)[np.random.default_rng(0).permutation(len(points))]


def align_guess(guess: Array, points: Array, freedom: Freedom) -> Array:
    """The guess (m, any) moved onto the points (m, d) as far as its freedom allows: (m, d).

    Orthogonal Procrustes (Schoenemann, Psychometrika 31, 1966) of the centered guess; if it has more than
    d dimensions it is projected on its d main axes first, which only flatters it.
    """
    if freedom == "none":
        return guess
    width = points.shape[1]
    mean = points.mean(axis=0)
    left = guess - guess.mean(axis=0)
    if left.shape[1] > width:
        left = left @ np.linalg.svd(left, full_matrices=False)[2][:width].T
    # The isometry into the points' space that fits best; unit factors of the products of columns.
    first, fit, second = np.linalg.svd(left.T @ (points - mean), full_matrices=False)
    scale = 1.0
    if freedom == "similarity":
        squared = float((left**2).sum())
        scale = float(fit.sum()) / squared if squared > 0 else 0.0
    return np.asarray(mean + left @ (scale * (first @ second)))


def _best(guess: History, points: Array) -> GuessJudgement:
    """The judgement of the best guess of a family, of those made so far, after each question."""
    best, shares, ranks = (0.0, 0), [], []
    family: tuple[Axes, ...] = ()
    for step in range(len(guess.labelings)):
        if guess.main_axes(step) is not family:
            family = guess.main_axes(step)
            best = max(best, *(_best_share(axes, points) for axes in family))
        shares.append(best[0])
        ranks.append(best[1])
    errors = tuple(float(np.sqrt(max(0.0, 1.0 - share))) for share in shares)
    return GuessJudgement(guess.parties, guess.freedom, len(points), points.shape[1], tuple(ranks), errors)


def _best_share(axes: Axes, points: Array) -> tuple[float, int]:
    """The largest share of variance for any rank and power, and that rank.

    A guess G with the best scale leaves 1 - |G^T X|*^2 / (|G|^2 |X|^2), where |.|* sums singular values.
    Those of weighted columns are roots of the eigenvalues of a small matrix.
    """
    columns, weights = axes
    centered = points - points.mean(axis=0)
    total, found = float((centered**2).sum()), (0.0, 0)
    if not len(weights) or not total > 0:
        return found
    products = columns.T @ centered
    gram = products @ products.T
    for rank in sorted({min(rank, len(weights)) for rank in (*KEPT, len(weights))}):
        for power in POWERS:
            scale = (weights[:rank] / weights[0]) ** power
            squared = np.linalg.eigvalsh(scale[:, None] * gram[:rank, :rank] * scale)
            fit = float(np.sqrt(np.maximum(squared, 0)).sum()) ** 2 / float((scale**2).sum())
            found = max(found, (fit / total, rank))
    return found


def between_share(labels: Array, points: Array) -> float:
    """The share of variance that the true centers of these clusters explain.

    No guess that puts every cluster in one place can recover more: the ceiling of `labels_only`.
    """
    centered = points - points.mean(axis=0)
    means = averaging_matrix(labels, int(labels.max()) + 1) @ centered
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


def report_lines(judgement: GuessJudgement, most: int = 6) -> list[str]:
    """What the guesser learned, in a few lines for people: at most `most` questions are shown."""
    j = judgement
    asked = len(j.ranks)
    changes = [s for s in range(asked) if s == 0 or j.ranks[s] != j.ranks[s - 1]]
    picks = np.linspace(0, len(changes) - 1, min(most - 1, len(changes)))
    shown = sorted({changes[round(float(p))] for p in picks} | {asked - 1})
    who = " and ".join("the server" if p == SERVER else p for p in j.parties)
    lines = [f"{who} can place all {j.m} points, {_OPEN[j.freedom]}:"]
    for s in shown:
        when = f"after query {s + 1:>{len(str(asked))}} of {asked}"
        rank = f"rank {j.ranks[s]:>{len(str(j.d))}} of {j.d}"
        lines.append(f"  {when}: {j.share[s]:>6.1%} of variance ({rank}, error {j.error[s]:.2g})")
    if j.pairs is not None:
        lines.append(f"  and tell the distance of any two points within {j.pairs:.1g} (median, relative)")
    return lines


def plot_shares(judgements: dict[str, GuessJudgement]) -> Any:
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


def plot_rebuilt(findings: list[RebuiltRows]) -> Any:
    """A matplotlib Figure: for each attack the rows that it rebuilt, and those that it guessed wrongly."""
    figure, axes = _figure(6.4, 1.2 + 0.5 * len(findings))
    names = [one.how for one in findings]
    exact, wrong = [one.exact for one in findings], [one.false_guesses for one in findings]
    axes.barh(names, exact, color="tab:orange", label="rows rebuilt exactly")
    axes.barh(names, wrong, left=exact, color="0.75", label="guesses that are nobody's row")
    for place, one in enumerate(findings):
        axes.annotate(f" {one.exact} of {one.m}", (one.guessed, place), va="center")
    axes.set_xlim(0, max(1, *(one.guessed for one in findings)) * 1.25)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.invert_yaxis()
    axes.set_xlabel("rows")
    figure.legend(loc="outside upper left", frameon=False, ncols=2)
    return figure


def plot_rates(found: Mapping[str, Rates]) -> Any:
    """A matplotlib Figure of the ROC of every attack on both axes logarithmic: few false alarms count."""
    figure, axes = _figure(5.6, 5.0)
    least = 1.0
    for name, rates in found.items():
        false, true = np.array([pair for pair in rates.curve if pair[0] > 0]).T
        least = min(least, *rates.at, 0.1)
        axes.plot(false, true, label=f"{name}: AUC {rates.auc.value:.2f}, {rates.runs} runs")
    line = np.array([least / 10, 1.0])
    axes.plot(line, line, color="0.6", linewidth=0.8, linestyle="--", label="chance")
    axes.set(xlabel="false alarms", ylabel="members recognized", xscale="log", yscale="log")
    axes.set(xlim=(least / 2, 1), ylim=(least / 2, 1.05))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", frameon=False, fontsize="small")
    return figure


def _figure(width: float, height: float) -> tuple[Any, Any]:
    import importlib

    try:
        figures = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise ImportError(f"plots need matplotlib: {install_command('[plot]')}") from error
    figure = figures.Figure(figsize=(width, height), layout="constrained", dpi=120)
    return figure, figure.subplots()
