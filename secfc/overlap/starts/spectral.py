"""Clients matched one to one by the distances of their local clusters alone: permutation synchronization.

Every two clients that share a feature are matched by the Hungarian method.  These matchings may contradict
one another; leading eigenvectors of all of them together say what they agree on (Pachauri, Kondor and Singh,
Solving the multi-way matching problem by permutation synchronization, NeurIPS 2013).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LEAST = 1e-6  # the weight of a matching that is no better than any other, so that it still connects
STEPS = 50  # of matching all clients to groups and averaging these


def spectral(squared: Array, owner: Array, k: int) -> Array:
    """Groups (N,) in [0, k) of local clusters, each group with at most one of a client.

    squared: (N, N) distances, NaN where unknown.  owner: the client of each, (N,) ascending; one client at
    least has k.  A pair of clients weighs 1 - cost / mean cost, so distances of different pairs need no
    common scale.  Groups are numbered as the clusters of the first client that has k of them.
    """
    from scipy.optimize import linear_sum_assignment

    clients = [np.flatnonzero(owner == j) for j in range(int(owner.max()) + 1)]
    agreed = np.zeros(squared.shape)
    for i, own in enumerate(clients):
        for other in clients[i + 1 :]:
            block = squared[np.ix_(own, other)]
            if np.isnan(block).any():
                continue
            rows, columns = linear_sum_assignment(block)
            mean = float(block.mean()) * len(rows)
            weight = max(1 - float(block[rows, columns].sum()) / mean, LEAST) if mean > 0 else LEAST
            agreed[own[rows], other[columns]] = agreed[other[columns], own[rows]] = weight
    degree = np.sqrt(np.maximum(agreed.sum(axis=1), LEAST * LEAST))
    _, vectors = np.linalg.eigh(agreed / degree[:, None] / degree[None] + np.eye(len(owner)))
    rows = vectors[:, -k:]
    rows = rows / np.maximum(np.sqrt((rows**2).sum(axis=1, keepdims=True)), 1e-300)
    whole = [own for own in clients if len(own) == k]
    best, labels = -np.inf, np.full(len(owner), -1)
    for own in whole:
        found = _matched(rows, clients, rows[own])
        groups = np.stack([rows[found == g].sum(axis=0) for g in range(k)])
        # How much the rows of a group point in one direction.
        score = float(np.sqrt((groups**2).sum(axis=1)).sum())
        if score > best + 1e-9:
            best, labels = score, found
    order = np.empty(k, np.int64)
    order[labels[whole[0]]] = range(k)
    return np.asarray(order[labels])


def _matched(rows: Array, clients: list[Array], groups: Array) -> Array:
    """Every client's rows matched one to one to groups (k, .), which then become their means, and again."""
    from scipy.optimize import linear_sum_assignment

    labels = np.full(len(rows), -1)
    for _ in range(STEPS):
        new = np.full(len(rows), -1)
        for own in clients:
            at, group = linear_sum_assignment(-rows[own] @ groups.T)
            new[own[at]] = group
        if (new == labels).all():
            break
        labels = new
        groups = np.stack([rows[labels == g].mean(axis=0) for g in range(len(groups))])
    return labels
