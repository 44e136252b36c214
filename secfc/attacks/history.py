"""The guess from labels alone, of all steps and restarts: more than the final labels suggest.

Near a random start the borders between clusters are random hyperplanes, so the labels of a step measure one
of k values of every point, as in 1-bit compressed sensing; more steps and restarts, more measurements.  Two
ways to use them:

    directions   one-hot columns of the labelings, centered and side by side: points that are often together
                 are near.  The first left singular vectors, to be scaled by a power of the singular value.
    fit          what the first way forgets: labels b that answer labels a name the nearest of the means of
                 a's clusters, and the means are public averages of the points.  So maximize over points
                 Y (m, rank), with means c = W_a Y,
                     sum over (a, b) and i of  log softmax_h(-|y_i - c_h|**2)[b_i]  -  |Y|**2 / 2
                 from the directions on, by L-BFGS (Liu and Nocedal, Mathematical Programming 45, 1989).
                 Where clusters are halved, only the halves of the own one were compared; but it is mostly the
                 nearest, and to take it for that finds more.

A step that moves few points says little but what the one before said, so it counts only when enough have
moved since the last that counted: that mostly makes both ways better, and cheaper.

A judge takes the best of a small family: way, rank, power, and after which step the guess was made.  With the
truth at hand that is an upper bound over this family, so no figure depends on how an attacker would choose;
it is no bound on other attacks.  Nothing here sees a point or a distance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from secfc.algorithm import Clustering
from secfc.attacks.geometry import Freedom
from secfc.attacks.views import SeenDistances
from secfc.errors import InputError
from secfc.roles.exchange import PartyId

Axes = tuple[Array, Array]  # orthonormal columns (m, rank), and their weights (rank,), falling

APART, APART_FIT = 0.1, 0.03  # the share of points that must have moved
RANK, RANK_FIT = 32, 24  # dimensions, at most
TIMES = 6  # how often a guess is made anew, at ever rarer steps
# Work: products of two labels of a point, columns; terms and unknowns of one likelihood.
PRODUCTS, COLUMNS, TERMS, UNKNOWNS = 1 << 26, 1024, 3 << 19, 1 << 18
STEPS, MEMORY = 30, 4  # of L-BFGS
LENGTH = 2.0  # root mean square of a point that the fit starts from
NOBODY = np.float32(-1e9)  # the score of an empty cluster


class AnsweredLabeling(NamedTuple):
    """Labels asked about, in [-1, k), and those that answered."""

    asked: Array
    answer: Array
    k: int


@dataclass(frozen=True, eq=False, repr=False)
class History:
    """Labelings that a coalition saw, in order: a guess (`attacks.judging`) and a family of better ones.

    labelings: (m,) integers in [-1, ks[s]) each; -1: in no cluster.  d: features of a point.
    answer: the labels that answered the last ones, if these were seen and are no step of their own.
    halved: which of them are of halves, 2 h and 2 h + 1 of cluster h, where the nearer of the own answers.
    """

    parties: tuple[PartyId, ...]
    labelings: tuple[Array, ...]
    ks: tuple[int, ...]
    d: int
    answer: Array | None = None
    halved: frozenset[int] = frozenset()
    freedom: ClassVar[Freedom] = "similarity"

    def __repr__(self) -> str:
        return f"History({', '.join(self.parties)}: {len(self.labelings)} labelings)"

    @property
    def ranks(self) -> tuple[int, ...]:
        """Dimensions of the plainest guess after each step."""
        return tuple(len(self.main_axes(step)[0][1]) for step in range(len(self.labelings)))

    def after(self, step: int) -> Array:
        """The plainest guess: directions scaled by their singular values."""
        columns, weights = self.main_axes(step)[0]
        return np.asarray(columns * weights)

    def main_axes(self, step: int) -> tuple[Axes, ...]:
        """The main axes of every guess made at a step, or at the last step before it that made any."""
        step %= len(self.labelings)
        return self._made[max(made for made in self._made if made <= step)]

    @cached_property
    def _made(self) -> dict[int, tuple[Axes, ...]]:
        last = len(self.labelings) - 1
        steps = {0, last, *np.geomspace(1, max(last, 1), TIMES - 1).astype(int).tolist()}
        return {step: self._guesses(step) for step in sorted(steps) if step <= last}

    def _guesses(self, step: int) -> tuple[Axes, ...]:
        """Guesses from the labelings up to this step, and from the answer if it is the last."""
        labelings, ks = self.labelings[: step + 1], self.ks[: step + 1]
        if self.answer is not None and len(labelings) == len(self.labelings):
            labelings, ks = (*labelings, self.answer), (*ks, ks[-1])
        rank = min(self.d, max(RANK, max(ks)))
        latest = main_directions(labelings[-1:], ks[-1:], rank)
        answers = linked_answers(labelings, ks, self.halved)
        most = min(math.isqrt(PRODUCTS // len(labelings[0])), COLUMNS // max(ks))
        thinned, every = (informative_answers(labelings, answers, apart, most) for apart in (APART, 0.0))
        if not thinned:
            return (latest,)
        found = main_directions([labelings[s] for s in thinned], [ks[s] for s in thinned], rank)
        whole = main_directions([labelings[s] for s in every], [ks[s] for s in every], rank)
        chosen = informative_answers(labelings, answers, APART_FIT, TERMS // (max(ks) * len(labelings[0])))
        if not chosen or not len(found[1]):
            return found, whole, latest
        pairs = [AnsweredLabeling(labelings[s - 1], labelings[s], ks[s]) for s in chosen]
        return found, whole, latest, fit_axes(pairs, found)


def label_history(seen: SeenDistances, result: Clustering | None = None) -> History:
    """The labelings of all questions in a view; any party can make this guess.

    result: of the run, if its last question is among them: of one start the labels it ended with count too.

    Raises ValueError if they saw no question.
    """
    questions = list(seen.questions())
    if result is not None and result.dendrogram is not None:
        questions.pop()  # what merging would cost of the labels it ended with, less its empty clusters
    if not questions:
        raise InputError(f"{', '.join(seen.parties)} saw no question of the server: no labels")
    labelings, ks = tuple(q.labels for q in questions), tuple(q.k for q in questions)
    # Of several restarts the best is not the last, and each but the last told its end by itself.
    answer = result.history[-1] if result is not None and result.plan.n_init == 1 else None
    halved = frozenset(s for s, q in enumerate(questions) if not q.whole)
    return History(seen.parties, labelings, ks, seen.d, answer, halved)


# --- which labelings count -----------------------------------------------------------------------


def linked_answers(
    labelings: Sequence[Array], ks: Sequence[int], halved: frozenset[int] = frozenset()
) -> list[bool]:
    """Which labelings answer the one before; the others start something, and say nothing of the points.

    A start leaves points out, or is drawn without regard to the labels before it.  A restart has a step, and
    a start that is asked about again, as somebody fell silent, does not answer itself.  Nor are clusters an
    answer that were split or merged, nor halves of other clusters than the halves before.
    """
    answers: list[bool] = []
    for s, labels in enumerate(labelings):
        before = labelings[s - 1] if s else np.full_like(labels, -1)
        alike = s > 0 and ks[s - 1] == ks[s] and (s in halved) == (s - 1 in halved)
        if alike and s in halved:
            alike = np.array_equal(before // 2, labels // 2)
        follows = _depend(before, labels) if any(answers[-1:]) else not np.array_equal(before, labels)
        answers.append(alike and bool((labels >= 0).all()) and follows)
    return answers


def informative_answers(
    labelings: Sequence[Array], answers: Sequence[bool], apart: float, most: int
) -> list[int]:
    """Which answers count: the first and the last after a start, and those that moved a share of the points
    since the last that counted.  If they are more than `most`, a larger share is asked for, and at last the
    first of them count.
    """
    chosen: list[int] = []
    while apart < 1:
        chosen = []
        for s, answer in enumerate(answers):
            ends = not answers[s - 1] or not any(answers[s + 1 : s + 2])
            if answer and (ends or np.mean(labelings[s] != labelings[chosen[-1]]) >= apart):
                chosen.append(s)
        if len(chosen) <= most:
            break
        apart = 2 * apart or APART_FIT
    return chosen[:most]


def _depend(before: Array, after: Array) -> bool:
    """Whether two labelings depend on each other: the chi-squared statistic, four deviations off."""
    both = (before >= 0) & (after >= 0)
    table = np.zeros((int(before.max()) + 1, int(after.max()) + 1))
    np.add.at(table, (before[both], after[both]), 1)
    table = table[table.any(axis=1)][:, table.any(axis=0)]
    freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
    if freedom <= 0:
        return len(table) > 0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    return bool(((table - expected) ** 2 / expected).sum() > freedom + 4 * math.sqrt(2 * freedom))


# --- the two ways --------------------------------------------------------------------------------


def main_directions(labelings: Sequence[Array], ks: Sequence[int], rank: int) -> Axes:
    """Left singular vectors (m, at most rank) of the centered one-hot columns, and singular values."""
    from scipy.linalg import eigh

    m, first = len(labelings[0]), np.cumsum([0, *ks])
    columns = _sparse(labelings, first).T.tocsr()
    means = np.asarray(columns.mean(axis=0)).ravel()
    gram = (columns.T @ columns).toarray() - m * np.outer(means, means)
    squared, vectors = eigh(gram, subset_by_index=(max(len(gram) - rank, 0), len(gram) - 1))
    kept = np.flatnonzero(squared > 1e-9 * m)[::-1]
    values, vectors = np.sqrt(squared[kept]), vectors[:, kept]
    return (columns @ vectors - means @ vectors) / values, values


def fit_axes(pairs: Sequence[AnsweredLabeling], start: Axes) -> Axes:
    """The main axes of the points that best explain answers (see the module), from those given."""
    from scipy.optimize import minimize

    m = len(start[0])
    rank = min(RANK_FIT, max(UNKNOWNS // m, 1))
    columns, weights = start[0][:, :rank], start[1][:rank]
    points = columns * (weights * LENGTH * math.sqrt(m) / np.linalg.norm(weights))
    likelihood = _Likelihood(pairs)
    options = {"maxiter": STEPS, "maxcor": MEMORY}
    best = minimize(likelihood, points.ravel(), jac=True, method="L-BFGS-B", options=options)
    points = best.x.reshape(points.shape)
    columns, weights, _ = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    kept = weights > 1e-6 * weights[0]
    return columns[:, kept], weights[kept]


class _Likelihood:
    """Minus the logarithm of what the fit maximizes, and its gradient; 32-bit floats, as it only guides."""

    def __init__(self, pairs: Sequence[AnsweredLabeling]) -> None:
        self.pairs, self.m = pairs, len(pairs[0].asked)
        self.first = np.cumsum([0, *(pair.k for pair in pairs)])
        asked = _sparse([pair.asked for pair in pairs], self.first)
        sizes = np.asarray(asked.sum(axis=1)).ravel()
        asked.data /= np.repeat(np.maximum(sizes, 1), np.diff(asked.indptr)).astype(np.float32)
        self.averages, self.back = asked, asked.T.tocsr()
        self.empty = np.where(sizes > 0, np.float32(0), NOBODY)

    def __call__(self, flat: Array) -> tuple[float, Array]:
        points = flat.reshape(self.m, -1).astype(np.float32)
        centers = self.averages @ points
        # -|y - c|**2 without |y|**2, which all clusters share.
        less = self.empty - (centers * centers).sum(axis=1)
        value, gradient, moved = 0.5 * float(flat @ flat), points.copy(), np.empty_like(centers)
        across = np.ascontiguousarray(points.T)
        for pair, low in zip(self.pairs, self.first, strict=False):
            rows = slice(low, low + pair.k)
            c = centers[rows]
            scores = 2 * c @ across + less[rows, None]
            value += _surplus(scores, pair.answer)
            gradient -= 2 * (scores.T @ c)
            moved[rows] = 2 * (scores @ points - scores.sum(axis=1)[:, None] * c)
        gradient -= self.back @ moved
        return value, gradient.astype(np.float64).ravel()


def _surplus(scores: Array, answer: Array) -> float:
    """Minus the logarithm of an answer's probability by scores (h, m), which become what it has beyond it."""
    mine = answer[None].astype(np.int64)
    scores -= scores.max(axis=0)
    value = -float(np.take_along_axis(scores, mine, axis=0).sum(dtype=np.float64))
    np.exp(scores, out=scores)
    total = scores.sum(axis=0)
    scores /= -total
    np.put_along_axis(scores, mine, np.take_along_axis(scores, mine, axis=0) + 1, axis=0)
    return value + float(np.log(total).sum(dtype=np.float64))


def _sparse(labelings: Sequence[Array], first: Array) -> Any:
    """One-hot rows (first[-1], m) of labelings, each from its first row on; sparse, 32-bit floats."""
    from scipy.sparse import csr_matrix

    points = np.arange(len(labelings[0]))
    rows = np.concatenate([labels[labels >= 0] + low for labels, low in zip(labelings, first, strict=False)])
    columns = np.concatenate([points[labels >= 0] for labels in labelings])
    ones = np.ones(len(rows), np.float32)
    return csr_matrix((ones, (rows, columns)), shape=(int(first[-1]), len(points)))
