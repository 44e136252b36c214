"""Every message that parties exchange: frozen, checked when built, silent about its contents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psu.messages import Message as Message

Array = NDArray[Any]


def compact_labels(labels: Array) -> Array:
    """Labels in the smallest signed type that holds them, -1 included."""
    top = int(labels.max(initial=0))
    return labels.astype(np.int8 if top < 2**7 else np.int16 if top < 2**15 else np.int32)


@dataclass(frozen=True, eq=False, repr=False)
class Hello(Message):
    """Everyone to everyone, first: the digest of the plan the sender agreed to (32 bytes)."""

    digest: bytes


@dataclass(frozen=True, eq=False, repr=False)
class Introduction(Message):
    """Client to client, before a union: its public signing key (32 bytes)."""

    public: bytes


@dataclass(frozen=True, eq=False, repr=False)
class PublicKey(Message):
    """Client to client: its ephemeral X25519 key (32 bytes), from which masks of replies follow."""

    key: bytes

    def __post_init__(self) -> None:
        if len(self.key) != 32:
            raise ValueError(f"a public key has 32 bytes, this one has {len(self.key)}")


@dataclass(frozen=True, eq=False, repr=False)
class Multiplicities(Message):
    """Server to every client, after a union: how many clients hold each row (m,), and disputed rows.

    Shows how many hold a row, not which.  disputed: rows whose holders have different data, ascending.
    """

    held: Array
    disputed: Array


@dataclass(frozen=True, eq=False, repr=False)
class Shares(Message):
    """Client to client: its share for the recipient of some rows.

    start: the first row, in the numbering of all m rows.  values: (lanes, rows, width) residues, uniform
    to the recipient.
    """

    start: int
    values: Array

    def __post_init__(self) -> None:
        if self.values.ndim != 3 or self.start < 0:
            raise ValueError("shares are (lanes, rows, width) residues from a row of at least 0")


@dataclass(frozen=True, eq=False, repr=False)
class Contributors(Message):
    """After sharing, client to server: whose rows I have completely, (n,) bool; later, whose noise.

    Then server to every client: whose rows count.
    """

    complete: Array

    def __post_init__(self) -> None:
        if self.complete.ndim != 1 or self.complete.dtype != np.bool_:
            raise ValueError("contributors are one truth value a client")


@dataclass(frozen=True, eq=False, repr=False)
class Assignment(Message):
    """Server to every client: the clustering to measure distances to.

    labels: (m,) in [-1, k), -1 for a point that is in no cluster (only while a start is drawn).
    responders: numbers of the clients whose replies are wanted, ascending int32; empty for all.
    """

    round: int
    k: int
    labels: Array
    responders: Array

    def __post_init__(self) -> None:
        labels = self.labels
        if labels.ndim != 1 or labels.dtype.kind != "i" or self.k < 1:
            raise ValueError("an assignment is a vector of signed integer labels and k of at least 1")
        if labels.size and not (int(labels.min()) >= -1 and int(labels.max()) < self.k):
            raise ValueError(f"labels must lie in [-1, {self.k})")


@dataclass(frozen=True, eq=False, repr=False)
class CodedDistances(Message):
    """Client to server: its coded distance of every point to every center, (lanes, k, m) residues."""

    values: Array


@dataclass(frozen=True, eq=False, repr=False)
class NoiseShares(Message):
    """Client to client: its share for the recipient of the noise it adds, uniform to the recipient.

    values: residues, (lanes, k, m) for distances, (lanes, k, width) for the sums of clusters.
    """

    values: Array


@dataclass(frozen=True, eq=False, repr=False)
class RevealCenters(Message):
    """Server to consenting clients: send your share of these clusters' centers."""

    round: int
    k: int
    labels: Array


@dataclass(frozen=True, eq=False, repr=False)
class CodedCenters(Message):
    """Consenting client to server: its share of the cluster sums, (lanes, k, width) residues."""

    values: Array


@dataclass(frozen=True, eq=False, repr=False)
class Final(Message):
    """Server to every client: the result.  labels (m,); centers (k, d) only if they were revealed."""

    k: int
    labels: Array
    centers: Array | None


@dataclass(frozen=True, eq=False, repr=False)
class RawPoints(Message):
    """Client to server in the centralized baseline: the points themselves, quantized (m_j, d)."""

    points: Array


@dataclass(frozen=True, eq=False, repr=False)
class LocalCenters(Message):
    """Client to server in k-FED: local centers (k', d) in data units, in the clear."""

    centers: Array


@dataclass(frozen=True, eq=False, repr=False)
class CenterLabels(Message):
    """Server to client in k-FED: the cluster of each of its centers (k',), and all centers (k, d)."""

    labels: Array
    centers: Array


@dataclass(frozen=True, eq=False, repr=False)
class OwnLabels(Message):
    """Client to server in k-FED: the cluster of each of its points (m_j,), for the common result."""

    labels: Array
