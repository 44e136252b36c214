"""Splits of one labelled data set over clients that observe different features (Maritan and Schenato,
section 6).

The paper says how much features overlap, and "feature importance analysis" for which.  That matters more than
the algorithm, so a rule has a name here, and the rule of a figure is told with it:

even    feature i goes to client i mod n: of images an even grid of pixels
ranked  features by their F score under the true labels, in strata of n, one of each stratum to each client
random  as they come

A1: windows on a line, consecutive ones with 30 % in common; rows at random.  A2: 10 % common to all, the rest
dealt out; rows by person, or sorted, so that clients differ.  Circle: windows of 40 % on a circle, each
cluster at 6 of 10 clients that cover and connect, so that clients have fewer clusters than there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import secfc

Array = Any
RULES = ("even", "ranked", "random")


@dataclass(frozen=True)
class Problem:
    """parts: rows of each client, complete (m_i, d).  truth: classes of each.  mask: who observes what, (n,
    d).
    """

    parts: list[Array]
    truth: list[Array]
    mask: Array
    k: int

    def federation(self) -> secfc.Federation:
        """The clients with what they observe."""
        names = [f"f{f:04}" for f in range(self.mask.shape[1])]
        return secfc.Federation.from_arrays(
            [part[:, seen] for part, seen in zip(self.parts, self.mask, strict=True)],
            truth=self.truth,
            names=[f"site-{i:02}" for i in range(len(self.parts))],
            features=[[names[f] for f in np.flatnonzero(seen)] for seen in self.mask],
        )


def load(name: str, folder: Path) -> tuple[Array, Array, Array | None]:
    """Points, classes from 0, and persons: "har" (WALKING, SITTING), "qmnist" (0, 3, 7) or "dim"
    (DIM-128).
    """
    if name == "har":
        z = np.load(folder / "har561_recomputed.npz")
        keep = np.isin(z["y"], [0, 3])
        return z["X"][keep].astype(float), (z["y"][keep] == 3).astype(int), z["subject"][keep].astype(int) - 1
    if name == "qmnist":
        z = np.load(folder / "qmnist_037_writers.npz")
        return z["X"].astype(float), np.searchsorted([0, 3, 7], z["y"]), z["writer"].astype(int)
    z = np.load(folder / "dimsets.npz")
    return z["dim128_X"].astype(float), z["dim128_y"].astype(int) - 1, None


CLIENTS = {"har": (30, 2), "qmnist": (10, 3), "dim": (10, 16)}


def f_scores(points: Array, truth: Array) -> Array:
    """Variance between classes over that within, of each feature."""
    mean, between, within = points.mean(axis=0), 0.0, 0.0
    for c in np.unique(truth):
        own = points[truth == c]
        between = between + len(own) * (own.mean(axis=0) - mean) ** 2
        within = within + ((own - own.mean(axis=0)) ** 2).sum(axis=0)
    return between / (within + 1e-9 * max(points.var(axis=0).max(), 1e-12) * len(points))


def dealt(features: Array, rule: str, n: int, scores: Array, rng: np.random.Generator) -> list[Array]:
    """Features in n lists by a rule, about equally many each."""
    if rule == "even":
        return [features[i::n] for i in rng.permutation(n)]
    if rule == "random":
        return np.array_split(rng.permutation(features), n)
    ranked = features[np.argsort(-scores[features], kind="stable")]
    lists: list[list[int]] = [[] for _ in range(n)]
    for first in range(0, len(ranked), n):
        stratum = ranked[first : first + n]
        for feature, slot in zip(stratum, rng.permutation(n)[: len(stratum)], strict=True):
            lists[slot].append(int(feature))
    return [rng.permutation(own) for own in lists]


def chain(d: int, n: int, rule: str, scores: Array, rng: np.random.Generator, overlap: float = 0.3) -> Array:
    """A1: (n, d) masks of windows on a line."""
    order = np.concatenate(dealt(np.arange(d), rule, n, scores, rng))
    width = d / ((1 - overlap) * (n - 1) + 1)
    mask = np.zeros((n, d), bool)
    for i in range(n):
        first, last = round(i * width * (1 - overlap)), round(i * width * (1 - overlap) + width)
        mask[i, order[first : d if i == n - 1 else last]] = True
    return mask


def common(d: int, n: int, rule: str, scores: Array, rng: np.random.Generator, share: float = 0.1) -> Array:
    """A2: (n, d) masks with a share of the features common to all, and the rest dealt out."""
    every = round(1 / share)
    if rule == "even":
        both = np.arange(int(rng.integers(every)), d, every)
    elif rule == "random":
        both = rng.permutation(d)[: round(share * d)]
    else:
        ranked = np.argsort(-scores, kind="stable")
        both = np.array([rng.choice(ranked[i : i + every]) for i in range(0, d, every)])[: round(share * d)]
    mask = np.zeros((n, d), bool)
    mask[:, both] = True
    for row, own in zip(mask, dealt(np.setdiff1d(np.arange(d), both), rule, n, scores, rng), strict=True):
        row[own] = True
    return mask


def problem(name: str, split: str, rule: str, seed: int, data: tuple[Array, Array, Array | None]) -> Problem:
    """One split of a data set: "A1", "A2", or "circle" (of DIM-128)."""
    points, truth, person = data
    rng = np.random.default_rng(seed)
    (n, k), d = CLIENTS[name], points.shape[1]
    scores = f_scores(points, truth) if rule == "ranked" else np.zeros(d)
    if split == "A1":
        mask = chain(d, n, rule, scores, rng)
        parts = np.array_split(rng.permutation(len(points)), n)
    elif split == "A2":
        mask = common(d, n, rule, scores, rng)
        parts = by_person(name, points, truth, person, n, rng)
    else:
        mask, parts = circle(points, truth, n, rng)
    return Problem([points[rows] for rows in parts], [truth[rows] for rows in parts], mask, k)


def by_person(
    name: str, points: Array, truth: Array, person: Array | None, n: int, rng: np.random.Generator
) -> list[Array]:
    """Rows of A2: a person each, or every cluster sorted by its first feature."""
    if person is None:
        parts: list[list[int]] = [[] for _ in range(n)]
        for c in np.unique(truth):
            rows = np.flatnonzero(truth == c)
            rows = rows[np.argsort(points[rows, 0], kind="stable")]
            for i, own in zip(rng.permutation(n), np.array_split(rows, n), strict=True):
                parts[i] += own.tolist()
        return [np.array(own) for own in parts]
    who, rows = np.unique(person, return_counts=True)
    chosen = who[:n] if name == "har" else rng.choice(who[rows >= 30], n, replace=False)
    return [np.flatnonzero(person == one) for one in chosen]


def circle(
    points: Array, truth: Array, n: int, rng: np.random.Generator, width: float = 0.4, hold: int = 6
) -> tuple[Array, list[Array]]:
    """Windows on a circle, and every cluster at `hold` clients that observe all features and connect."""
    d = points.shape[1]
    order = rng.permutation(d)
    mask = np.zeros((n, d), bool)
    for i in range(n):
        mask[i, order[np.arange(int(i * d / n), int(i * d / n + width * d)) % d]] = True
    parts: list[list[int]] = [[] for _ in range(n)]
    for c in np.unique(truth):
        while True:
            holders = rng.choice(n, hold, replace=False)
            if mask[holders].any(axis=0).all() and connected(mask[holders]):
                break
        rows = rng.permutation(np.flatnonzero(truth == c))
        for i, own in zip(holders, np.array_split(rows, hold), strict=True):
            parts[i] += own.tolist()
    return mask, [np.array(own) for own in parts]


def connected(mask: Array) -> bool:
    """Whether features lead from any client to any other."""
    reached = mask[0]
    for _ in mask:
        reached = mask[(mask & reached).any(axis=1)].any(axis=0)
    return bool((mask & reached).any(axis=1).all())
