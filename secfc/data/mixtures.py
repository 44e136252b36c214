"""Data sets with a known truth, and how they are dealt out to clients.

The experiments of SecFC section 5: mixtures of Gaussians (5.1), rotated images of one digit (5.2),
and splits in which a client sees few clusters (5.1).  Plain arrays in, plain arrays out.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from secfc.data.inputs import Array, checked_points, positive_integer
from secfc.errors import InputError

DIGITS = Path(__file__).parent / "digits" / "digits.npz"


def gaussian_mixture(
    m: int,
    d: int,
    k: int,
    sigma: float,
    rng: np.random.Generator,
    box: tuple[float, float] = (-10.0, 10.0),
    *,
    truth: Literal["closest", "component"] = "closest",
) -> tuple[Array, Array]:
    """Points (m, d) of k isotropic Gaussians of equal weight, and their truth (m,), int64.

    Centers are uniform in the cube box**d, which the paper leaves open; sigma >= 0 is the standard
    deviation of every feature.  SecFC section 5.1.

    truth "closest" is the closest center, as the paper's text has it; the lowest index wins a tie, and
    with a large sigma a cluster may be empty.  truth "component" is the Gaussian that the point was
    drawn from, which the paper's figures for sigma = 20 are consistent with.
    """
    m, d, k = positive_integer("m", m), positive_integer("d", d), positive_integer("k", k)
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"rng is a {type(rng).__name__}: a numpy.random.Generator is needed. Pass "
            "numpy.random.default_rng(seed)."
        )
    if not 0 <= sigma < np.inf:
        raise InputError(f"sigma={sigma}: a finite number of at least 0 is needed. Change sigma.")
    low, high = box
    if not -np.inf < low < high < np.inf:
        raise InputError(f"box={box}: two finite numbers, the lower first, are needed. Swap them?")
    centers = rng.uniform(low, high, size=(k, d))
    if truth not in ("closest", "component"):
        raise InputError(f"truth={truth!r}: it must be 'closest' or 'component'.")
    components = rng.integers(k, size=m)
    points = centers[components] + sigma * rng.standard_normal((m, d))
    if truth == "component":
        return points, components
    # One center at a time: sums of squares, exact to rounding, and never an (m, k, d) array.
    squared = np.stack([((points - center) ** 2).sum(axis=1) for center in centers])
    return points, squared.argmin(axis=0)


def rotated_images(images: npt.ArrayLike, turns: Sequence[int] = (0, 1, 2, 3)) -> tuple[Array, Array]:
    """Images turned by quarters, flattened: points (m * len(turns), s * s) float64, and truth.

    images is (m, s, s), or (m, s * s) with the pixels of an image row by row; values are kept.
    The truth of an image turned counterclockwise by turns[h] * 90 degrees is h.  All images at
    turns[0] come first, in the given order, then all at turns[1].  SecFC section 5.2.
    """
    given = np.asarray(images)
    if given.ndim == 2:
        side = int(np.sqrt(given.shape[1]))
        if side * side == given.shape[1]:
            given = given.reshape(-1, side, side)
    if given.ndim != 3 or given.shape[1] != given.shape[2]:
        raise InputError(
            f"images have shape {np.shape(images)}: square images are needed, as (m, s, s) or "
            "(m, s * s). Pad or crop them."
        )
    quarters = [operator.index(turn) for turn in turns]
    if not quarters or len({turn % 4 for turn in quarters}) < len(quarters):
        raise InputError(
            f"turns={tuple(turns)}: one or more different quarter turns are needed. Choose among 0, 1, 2, 3."
        )
    flat = checked_points(given.reshape(len(given), given.shape[1] ** 2), "the set of images")
    square = np.asarray(flat, dtype=np.float64).reshape(given.shape)
    turned = [np.rot90(square, turn, axes=(1, 2)).reshape(len(given), -1) for turn in quarters]
    return np.concatenate(turned), np.repeat(np.arange(len(quarters)), len(given))


def rotated_digits(digit: int = 3) -> tuple[Array, Array]:
    """One handwritten digit at 0, 90, 180 and 270 degrees: points (4 * m, 64) float64, and truth.

    The 8 x 8 images, values 0 to 16, of the UCI digits (secfc/data/digits): the experiment of
    SecFC section 5.2, which uses MNIST, without a download.  Order and truth: `rotated_images`.
    """
    if isinstance(digit, bool) or digit not in range(10):
        raise InputError(f"digit={digit!r}: one of 0 to 9 is needed. Change digit.")
    with np.load(DIGITS, allow_pickle=False) as file:
        return rotated_images(file["images"][file["labels"] == digit])


def deal_rows(
    truth: Array, *, n: int, clusters_per_client: int | None, rng: np.random.Generator
) -> list[Array]:
    """Row numbers of each of n clients, ascending: a partition of the m rows without empty parts.

    truth is (m,) integers, k of them different.  clusters_per_client is k' of SecFC section 5.1:
    every client gets rows of at most k' clusters.  None deals the rows out at random, sizes equal
    within one (the paper's k' = k, independent and identically distributed).

    With k', each client takes the k' clusters that the fewest clients hold so far, ties at random;
    the rows of a cluster are dealt evenly among its holders.  Clusters of equal size thus give
    clients of about equal size.

    Raises InputError when m < n, or n * k' < k.
    """
    if len(truth) < (n := positive_integer("n", n)):
        raise InputError(
            f"m={len(truth)} points cannot be dealt out to n={n} clients: every client needs one. "
            f"Lower n to at most {len(truth)}."
        )
    if clusters_per_client is None:
        shares = np.array_split(rng.permutation(len(truth)), n)
    else:
        shares = _deal_clusters(truth, n, positive_integer("clusters_per_client", clusters_per_client), rng)
    return [np.sort(share) for share in shares]


def _deal_clusters(truth: Array, n: int, k_local: int, rng: np.random.Generator) -> list[Array]:
    clusters = [np.flatnonzero(truth == label) for label in np.unique(truth)]
    k = len(clusters)
    if n * k_local < k:
        raise InputError(
            f"n={n} clients with at most {k_local} clusters each cannot hold all k={k} clusters: "
            "n * clusters_per_client must be at least k. Raise clusters_per_client or n."
        )
    # Taking the least held clusters keeps the numbers of holders equal within one: as n * k' >= k,
    # every cluster has a holder.
    holders: list[list[int]] = [[] for _ in range(k)]
    for client in range(n):
        held = np.array([len(clients) for clients in holders])
        least_held = np.lexsort((rng.random(k), held))
        for cluster in least_held[:k_local]:
            holders[cluster].append(client)
    shares: list[list[int]] = [[] for _ in range(n)]
    for rows, clients in zip(clusters, holders, strict=True):
        parts = np.array_split(rng.permutation(rows), len(clients))
        for client, part in zip(rng.permutation(clients), parts, strict=True):
            shares[client].extend(part.tolist())
    # A cluster with fewer rows than holders can leave a client with nothing.  That client takes one
    # row of the largest, which has two or more because m >= n, and so holds a single cluster.
    for share in shares:
        if not share:
            share.append(max(shares, key=len).pop())
    return [np.array(share, dtype=np.int64) for share in shares]
