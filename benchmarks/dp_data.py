"""Data sets unlike the mixture of the paper, each with what a server holds: for `benchmarks.dp_matrix`.

A set is a function of the folder of data and of a seed.  The server's rows are taken from the clients, as
what is public is not protected.  Scales come from the server's points or from what everybody knows (ages are
below 100), never from the clients' rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.server_points import one_hot, server_side_mixture

Array = Any


@dataclass(frozen=True, eq=False)
class Held:
    """points (m, d) of the clients, in the order of their owners, and the server's (s, d)."""

    points: Array
    server: Array


@dataclass(frozen=True)
class Set:
    """make(folder, rng): the data.  k: clusters asked for.  rows: of a client, where clients are protected,
    else 0.  epsilons: where it is measured.
    """

    make: Callable[[Path | None, np.random.Generator], Held]
    k: int
    epsilons: tuple[float, ...] = (0.1, 0.25, 0.5, 2.0, 8.0)
    rows: int = 0


def taken(points: Array, size: int, rng: np.random.Generator) -> Held:
    """The server holds `size` rows at random; the others are the clients', in random order."""
    order = rng.permutation(len(points))
    return Held(points[order[size:]], points[order[:size]])


def census(folder: Path | None) -> dict[str, Array]:
    """Federal employees of the ACS of 2018, by column."""
    if folder is None:
        raise FileNotFoundError("census sets need --data FOLDER with acs_income_2018_states.npz")
    with np.load(folder / "acs_income_2018_states.npz", allow_pickle=False) as file:
        chosen = file["COW"] == 5
        names = ("AGEP", "SCHL", "MAR", "RELP", "WKHP", "SEX", "RAC1P", "PINCP")
        return {name: file[name][chosen] for name in names}


def bits(folder: Path | None, rng: np.random.Generator) -> Held:
    """One bit a category of schooling, marriage, relationship, sex and race."""
    table = census(folder)
    points = one_hot([table[name] for name in ("SCHL", "MAR", "RELP", "SEX", "RAC1P")])
    return taken(points.astype(np.float64), 1000, rng)


def numbers(size: int) -> Callable[[Path | None, np.random.Generator], Held]:
    """Age, schooling, marriage, hours, sex and income class, each by its known range in [0, 1]."""

    def make(folder: Path | None, rng: np.random.Generator) -> Held:
        table = census(folder)
        ranges = {"AGEP": (0, 100), "SCHL": (1, 24), "MAR": (1, 2), "WKHP": (0, 99), "SEX": (1, 2)}
        ranges["PINCP"] = (0, 1)
        columns = [(table[name].astype(float) - low) / (high - low) for name, (low, high) in ranges.items()]
        return taken(np.stack(columns, axis=1), size, rng)

    return make


def texts(
    *, size: int, held: int | None = None, users: int = 0, terms: int = 128
) -> Callable[[Path | None, np.random.Generator], Held]:
    """Short texts by a stated rule: counts of words, weighted by rarity, of norm 1.

    20 topics over 4000 words: a topic's word r has a chance in proportion to 1/r, in an order of its own; one
    word in three is of the language at large.  A text has 4 to 14 words of one topic, 19,600 texts and the
    server's.  Words are added to one of `terms` terms each, with a random sign.  held: the server's texts
    are of so many topics only.  users: with that many users of 20 texts each, half of one topic of theirs.
    """

    def make(folder: Path | None, rng: np.random.Generator) -> Held:
        topics, words = 20, 4000
        chance = 1 / np.arange(1, words + 1)
        chance /= chance.sum()
        orders = [rng.permutation(words) for _ in range(topics + 1)]
        cell, sign = rng.integers(terms, size=words), rng.choice([-1.0, 1.0], size=words)
        m = users * 20 if users else 19_600
        theme = rng.integers(topics, size=m)
        if users:
            own = np.repeat(rng.integers(topics, size=users), 20)
            theme = np.where(rng.random(m) < 0.5, own, theme)
        theme = np.append(theme, rng.integers(held or topics, size=size))
        lengths = rng.integers(4, 15, size=len(theme))
        text = np.repeat(np.arange(len(theme)), lengths)
        drawn = rng.choice(words, size=len(text), p=chance)
        source = np.where(rng.random(len(text)) < 1 / 3, topics, theme[text])
        word = np.stack(orders)[source, drawn]
        rarity = np.log(words * chance.mean() / chance[np.argsort(orders[topics])] + 10)[word]
        points = np.zeros((len(theme), terms))
        np.add.at(points, (text, cell[word]), sign[word] * rarity)
        points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-9)
        return Held(points[:m], points[m:])

    return make


def mixture(*, clients: int = 100, rows: int = 1000, d: int = 100, k: int = 10, unequal: bool = False) -> Any:
    """The published mixture; unequal: cluster h is drawn h + 1 times as often as the first."""

    def make(folder: Path | None, rng: np.random.Generator) -> Held:
        points, truth, _, server = server_side_mixture(clients, rows, rng, d=d, k=k)
        if unequal:
            kept = rng.random(len(points)) < (truth + 1) / k
            points = points[kept]
        return Held(points, server)

    return make


def heavy_tails(folder: Path | None, rng: np.random.Generator) -> Held:
    """Six columns of amounts: logarithms are normal, so few rows are ten times as long as most."""
    return taken(np.exp(rng.normal(size=(20_000, 6)) * [0.5, 0.7, 0.9, 1.0, 0.6, 0.8]), 400, rng)


def shifted(folder: Path | None, rng: np.random.Generator) -> Held:
    """Clusters of d = 20, whose points at the server come from another instrument: all are moved alike."""
    means = rng.normal(size=(8, 20)) * 1.5
    found = taken(means[rng.integers(8, size=20_000)] + rng.normal(size=(20_000, 20)), 400, rng)
    return Held(found.points, found.server + 1.5 * rng.normal(size=20))


def shipped(name: str, size: int) -> Callable[[Path | None, np.random.Generator], Held]:
    """A set that comes with scikit-learn, by the standard deviations of the server's rows.

    Where these rows hardly differ, as corners of images do, by .001 of their largest value.
    """

    def make(folder: Path | None, rng: np.random.Generator) -> Held:
        from sklearn import datasets

        points = getattr(datasets, f"load_{name}")().data
        found = taken(points, size, rng)
        scale = np.maximum(found.server.std(axis=0), 1e-3 * np.abs(found.server).max())
        return Held(found.points / scale, found.server / scale)

    return make


SETS: dict[str, Set] = {
    "census, bits": Set(bits, 10),
    "census, numbers": Set(numbers(1000), 10),
    "census, 25 points": Set(numbers(25), 20, (0.25, 1.0, 4.0)),
    "texts": Set(texts(size=400), 20),
    "texts, 5 of 20 topics": Set(texts(size=400, held=5), 20),
    "texts of users": Set(texts(size=400, users=900), 10, (0.5, 1.0, 2.0), rows=20),
    "digits": Set(shipped("digits", 200), 10),
    "breast cancer": Set(shipped("breast_cancer", 100), 2),
    "heavy tails": Set(heavy_tails, 10),
    "shifted server": Set(shifted, 8),
    "mixture": Set(mixture(), 10),
    "mixture, unequal": Set(mixture(unequal=True), 10),
    "mixture, k wrong": Set(mixture(), 15),
    "mixture, d = 512": Set(mixture(rows=200, d=512), 10),
    "mixture of clients": Set(mixture(clients=2000, rows=50), 10, (0.5, 1.0, 2.0), rows=50),
}
