"""The rows a client computes on: residues of m rows, their cluster sums and coded distances.

The rows are shares, sums of shares, or anything else in the ring; nothing here knows which.  Distances
are SecFC's d~ = ||sum of the cluster - size * row||**2 modulo every prime (Algorithm 1, lines 8 to 10).
Folded lanes are stored as feature-major tiles and use ||S||**2 - 2 s S.x + s**2 ||x||**2, one product with
the squared norm as one more feature; scalar lanes use the formula as it stands.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from field.arrays import Array
from field.kernels import microkernel
from field.kernels import scalar as kernels
from field.kernels.compiling import run_parallel, split_range
from field.ring import pseudo_mersenne
from field.ring.basis import LANE, Basis

# --------------------------------------------------------------------------------------------------
# Where a party's rows lie: in memory, or in a file of its own that is mapped to memory.
#
# A mapped file lets a party hold more shares than it has memory: pages that are not in use are written out
# and dropped, and read again where a step comes to them.  The file has no name from the moment it exists,
# nobody else may open it (mode 0600), and it goes with the process, however that ends.  What was written
# stays on the disc until something else is written there: shares are as secret there as in memory, so a disc
# that others may read later must be encrypted.


class NoRoomError(OSError):
    """A folder takes no file of the size that is needed."""


@dataclass(frozen=True)
class Storage:
    """Room for large arrays: in memory, or in files without a name in a folder, a file an array."""

    folder: Path | None = None

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """A writable array of zeros, C-contiguous.

        Raises NoRoomError if the folder cannot be written to, or its disc has no room for all of it.
        """
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if self.folder is None or not size:
            return np.zeros(shape, dtype)
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                # All of it now: a disc that is full later would kill the process without a word.
                _reserve(file.fileno(), size)
                mapped = mmap.mmap(file.fileno(), size)
        except OSError as error:
            why = f"no file of {size:,} bytes in {self.folder}: {error.strerror}"
            raise NoRoomError(error.errno, why) from error
        return np.frombuffer(mapped, dtype).reshape(shape)


def _reserve(file: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
        return
    blank = bytes(1 << 20)
    for start in range(0, size, len(blank)):
        os.write(file, blank[: size - start])


MEMORY = Storage()


# --------------------------------------------------------------------------------------------------

# Rows that are read and multiplied at a time.
PART = 1 << 11
# Labels that are not known, so no later sums follow from these.
NOBODYS = np.empty(0, np.int32)


@dataclass(frozen=True, eq=False, repr=False)
class ClusterSums:
    """Sums of the rows of each cluster: values (lanes, k, width), sizes (k,).  Shares: secret."""

    values: Array
    sizes: Array
    labels: Array

    def __repr__(self) -> str:
        return f"ClusterSums(k={len(self.sizes)}, secret)"


class CodedRows(ABC):
    """m rows of `width` residues in every lane, filled by `add` and then read.

    Build with `coded_rows`.  Memory: one copy of the rows, and one slot a row more in folded lanes.
    squares: (lanes, m), shares of their squares of the degree of a share, where these were dealt.
    """

    squares: Array | None = None

    def __init__(
        self, basis: Basis, m: int, width: int, *, threads: int = 1, storage: Storage = MEMORY
    ) -> None:
        self.basis, self.m, self.width = basis, m, width
        self.threads, self.storage = threads, storage

    def __repr__(self) -> str:
        return f"{type(self).__name__}(lanes={self.basis.lanes}, m={self.m}, width={self.width}, secret)"

    @abstractmethod
    def add_rows(self, start: int, values: Array) -> None:
        """Add canonical residues (lanes, rows, width) into rows start, start + 1, ..."""

    @abstractmethod
    def read_lane(self, lane: int, begin: int, end: int) -> Array:
        """Rows begin, ..., end - 1 as canonical residues of one lane: (end - begin, width), a copy."""

    def read_rows(self, begin: int, end: int) -> Array:
        """Rows begin, ..., end - 1 of all lanes: (lanes, end - begin, width)."""
        return np.stack([self.read_lane(lane, begin, end) for lane in range(self.basis.lanes)])

    @abstractmethod
    def scale_rows(self, rows: Array, factors: Array) -> None:
        """Multiply rows (c,) by factors (lanes, c), canonical residues; before `finish`."""

    @abstractmethod
    def select_rows(self, rows: Array) -> CodedRows:
        """New rows of the same kind that hold these, ascending; before `finish`."""

    @abstractmethod
    def finish_rows(self) -> None:
        """Say that the last row was added; prepares what distances need."""

    @abstractmethod
    def sum_clusters(self, labels: Array, k: int, previous: ClusterSums | None = None) -> ClusterSums:
        """Cluster sums for labels (m,) int32 in [-1, k), -1 meaning no cluster.

        With the previous sums only the rows whose label changed are touched.
        """

    @abstractmethod
    def measure_distances(self, sums: ClusterSums, lanes: int | None = None) -> Array:
        """Coded scaled distances of every row to every center: (lanes, k, m) canonical residues."""

    @abstractmethod
    def multiply_rows(self, factors: Array, initial: Array) -> Array:
        """initial[:, h] + factors[:, h] . row for every row: (lanes, k, m) canonical residues.

        factors (lanes, k, width) and initial (lanes, k) are canonical residues, of the lanes that are wanted.
        """

    @abstractmethod
    def residues(self, sums: ClusterSums) -> Array:
        """The cluster sums as canonical residues: (lanes, k, width)."""

    @abstractmethod
    def encode_sums(self, values: Array, sizes: Array) -> ClusterSums:
        """Cluster sums that are known, as canonical residues (lanes, k, width), of clusters of sizes (k,)."""

    def weighted_sums(self, weights: Array) -> Array:
        """Sums of rows times weights (lanes, k, m), residues of the lanes wanted: (lanes, k, width)."""
        lanes, k = weights.shape[:2]
        basis, total = self.basis.prefix(lanes), np.zeros((lanes, k, self.width), self.basis.dtype)
        # Rows that stay in cache while they are read and multiplied.
        for begin in range(0, self.m, PART):
            rows = self.read_rows(begin, min(begin + PART, self.m))[:lanes]
            product = basis.matmul(np.ascontiguousarray(weights[:, :, begin : begin + PART]), rows)
            total = basis.add(total, product)
        return total

    def norms(self) -> Array:
        """Squared norms of all rows: (lanes, m) canonical residues."""
        parts = (self.read_rows(begin, min(begin + PART, self.m)) for begin in range(0, self.m, PART))
        return np.concatenate([self.basis.squares(rows) for rows in parts], axis=1)


class RunningSums:
    """Cluster sums of rows as last asked for: from them the next follow by the rows that moved."""

    def __init__(self, rows: CodedRows) -> None:
        self.rows = rows
        self._last: ClusterSums | None = None

    def __repr__(self) -> str:
        return f"RunningSums({self.rows!r})"

    def of(self, labels: Array, k: int) -> ClusterSums:
        """See `CodedRows.sum_clusters`."""
        self._last = self.rows.sum_clusters(labels, k, self._last)
        return self._last


class TiledRows(CodedRows):
    """Rows over 30-bit lanes 2**30 - c: centered int32 in tiles (lanes, tiles, width + 1, 48)."""

    def __init__(
        self, basis: Basis, m: int, width: int, *, threads: int = 1, storage: Storage = MEMORY
    ) -> None:
        super().__init__(basis, m, width, threads=threads, storage=storage)
        count, self._normed = -(-m // kernels.TILE), 0  # lanes whose squared norms are there
        self._tiles = storage.zeros((basis.lanes, count, width + 1, kernels.TILE), np.int32)

    def add_rows(self, start: int, values: Array) -> None:
        for tiles, lane, p in zip(self._tiles, values, self.basis.primes, strict=True):
            microkernel.add_rows(tiles, lane, start, np.int64(LANE - p))

    def read_lane(self, lane: int, begin: int, end: int) -> Array:
        out = np.empty((end - begin, self.width), self.basis.dtype)
        microkernel.read_rows(self._tiles[lane], begin, np.int64(LANE - self.basis.primes[lane]), out)
        return out

    def scale_rows(self, rows: Array, factors: Array) -> None:
        tile, slot = np.divmod(rows, kernels.TILE)
        for tiles, lane, p in zip(self._tiles, factors, self.basis.primes, strict=True):
            # A centered residue times a canonical one is below 2**59.
            product = tiles[tile, : self.width, slot] * lane[:, None].astype(np.int64) % p
            tiles[tile, : self.width, slot] = kernels.centered(product, p)

    def select_rows(self, rows: Array) -> CodedRows:
        chosen = TiledRows(self.basis, len(rows), self.width, threads=self.threads, storage=self.storage)
        tasks = [
            partial(microkernel.select_rows, source, rows[cut], target[piece])
            for source, target in zip(self._tiles, chosen._tiles, strict=True)
            for piece, cut in chosen.task_shape()
        ]
        run_parallel(tasks, self.threads)
        return chosen

    def finish_rows(self) -> None:
        self._normed = 0

    def sum_clusters(self, labels: Array, k: int, previous: ClusterSums | None = None) -> ClusterSums:
        # A row that moves is added and taken off: where most do, it takes less to sum all.
        few = previous is not None and previous.values.shape[1] == k
        if previous is None or not few or 2 * np.count_nonzero(previous.labels != labels) > self.m:
            old = np.full(self.m, -1, np.int32)
            values = np.zeros((self.basis.lanes, k, self.width), np.int64)
        else:
            old, values = previous.labels, previous.values
        # Pieces of a lane sum into arrays of their own, which are then added: exact in any order.
        pieces = self.task_shape()
        moved = np.zeros((len(pieces), *values.shape), np.int64)
        run_parallel(
            [
                partial(microkernel.update_sums, tiles[piece], old[rows], labels[rows], moved[q, lane])
                for lane, tiles in enumerate(self._tiles)
                for q, (piece, rows) in enumerate(pieces)
            ],
            self.threads,
        )
        values = values + moved.sum(axis=0)
        return ClusterSums(values, cluster_sizes(labels, k), labels)

    def measure_distances(self, sums: ClusterSums, lanes: int | None = None) -> Array:
        weights = [
            pseudo_mersenne.center_weights(sums.values[lane], sums.sizes, self.width + 1, p)
            for lane, p in enumerate(self.basis.primes[:lanes])
        ]
        for lane in range(self._normed, len(weights)):
            microkernel.fill_norms(self._tiles[lane], np.int64(LANE - self.basis.primes[lane]))
        self._normed = max(self._normed, len(weights))
        return self._multiplied(weights, len(sums.sizes))

    def multiply_rows(self, factors: Array, initial: Array) -> Array:
        # The slot of squared norms counts nothing.
        padded = np.concatenate([factors, np.zeros_like(factors[:, :, :1])], axis=2)
        weights = [
            (pseudo_mersenne.group_rows(lane, p), pseudo_mersenne.group_rows(first[:, None], p).reshape(-1))
            for lane, first, p in zip(padded, initial, self.basis.primes, strict=False)
        ]
        return self._multiplied(weights, factors.shape[1])

    def _multiplied(self, weights: list[tuple[Array, Array]], k: int) -> Array:
        """Distances (`folded.measure_distances`) of the rows by weights and initial values, a pair a lane."""
        out = np.empty((len(weights), k, self.m), np.uint32)
        tasks = [
            partial(pseudo_mersenne.distances, tiles[piece], *factors, p, lane[:, rows])
            for tiles, factors, p, lane in zip(self._tiles, weights, self.basis.primes, out, strict=False)
            for piece, rows in self.task_shape()
        ]
        run_parallel(tasks, self.threads)
        return out

    def task_shape(self) -> list[tuple[slice, slice]]:
        """Tiles and rows that one task handles, such that all threads have work."""
        count = -(-self.m // kernels.TILE)
        parts = 1 if self.threads == 1 else -(-self.threads // self.basis.lanes)
        return [
            (cut, slice(cut.start * kernels.TILE, min(self.m, cut.stop * kernels.TILE)))
            for cut in split_range(count, parts)
        ]

    def weighted_sums(self, weights: Array) -> Array:
        if not pseudo_mersenne.vectorized() or self.width + 1 < microkernel.ACROSS:
            return super().weighted_sums(weights)
        lanes, k = weights.shape[:2]
        pieces = self.task_shape()
        # As in `sums`, pieces sum into arrays of their own.
        parts = np.zeros((len(pieces), lanes, k, self.width), np.int64)
        run_parallel(
            [
                partial(pseudo_mersenne.weighted_sums, tiles[piece], piece.start, lane, p, parts[q, at])
                for at, (tiles, lane, p) in enumerate(
                    zip(self._tiles, weights, self.basis.primes, strict=False)
                )
                for q, (piece, _) in enumerate(pieces)
            ],
            self.threads,
        )
        return np.asarray(parts.sum(axis=0) % self.basis.prefix(lanes).column(3), self.basis.dtype)

    def residues(self, sums: ClusterSums) -> Array:
        return np.asarray(sums.values % self.basis.column(3), self.basis.dtype)

    def encode_sums(self, values: Array, sizes: Array) -> ClusterSums:
        return ClusterSums(values.astype(np.int64), sizes, NOBODYS)


class PlainRows(CodedRows):
    """Rows over any other prime: canonical uint64 residues (lanes, m, width)."""

    def __init__(
        self, basis: Basis, m: int, width: int, *, threads: int = 1, storage: Storage = MEMORY
    ) -> None:
        super().__init__(basis, m, width, threads=threads, storage=storage)
        self._rows = storage.zeros((basis.lanes, m, width), np.uint64)

    def add_rows(self, start: int, values: Array) -> None:
        for rows, lane, p in zip(self._rows, values, self.basis.primes, strict=True):
            kernels.add_to_rows(rows, start, lane, np.uint64(p))

    def read_lane(self, lane: int, begin: int, end: int) -> Array:
        return self._rows[lane, begin:end].astype(self.basis.dtype)

    def scale_rows(self, rows: Array, factors: Array) -> None:
        scaled = self.basis.multiply(self._rows[:, rows].astype(self.basis.dtype), factors[:, :, None])
        self._rows[:, rows] = scaled

    def select_rows(self, rows: Array) -> CodedRows:
        chosen = PlainRows(self.basis, len(rows), self.width, storage=self.storage)
        chosen._rows[:] = self._rows[:, rows]
        return chosen

    def finish_rows(self) -> None:
        pass

    def sum_clusters(self, labels: Array, k: int, previous: ClusterSums | None = None) -> ClusterSums:
        values = np.zeros((self.basis.lanes, k, self.width), np.uint64)
        for rows, lane, p in zip(self._rows, values, self.basis.primes, strict=True):
            kernels.sum_rows(rows, labels, np.uint64(p), lane)
        return ClusterSums(values, cluster_sizes(labels, k), labels)

    def measure_distances(self, sums: ClusterSums, lanes: int | None = None) -> Array:
        lanes = lanes or self.basis.lanes
        out = np.empty((lanes, len(sums.sizes), self.m), self.basis.dtype)
        for lane in range(lanes):
            p = np.uint64(self.basis.primes[lane])
            kernels.distance_rows(self._rows[lane], sums.values[lane], sums.sizes, p, out[lane])
        return out

    def multiply_rows(self, factors: Array, initial: Array) -> Array:
        basis = self.basis.prefix(len(factors))
        columns = np.ascontiguousarray(self._rows[: basis.lanes].transpose(0, 2, 1)).astype(basis.dtype)
        return basis.add(basis.matmul(factors, columns), initial[:, :, None])

    def residues(self, sums: ClusterSums) -> Array:
        return sums.values.astype(self.basis.dtype)

    def encode_sums(self, values: Array, sizes: Array) -> ClusterSums:
        return ClusterSums(values.astype(np.uint64), sizes, NOBODYS)


def coded_rows(basis: Basis, m: int, width: int, *, threads: int = 1, storage: Storage = MEMORY) -> CodedRows:
    """Empty coded rows in the storage form that suits the basis.

    Parameters
    ----------
    basis
        Primes of the residues.
    m
        Number of rows.
    width
        Features of one share: d / ell, rounded up.
    threads
        Processor threads of computations on the rows.
    storage
        Where the rows are kept: in memory, or in files of a folder.

    Returns
    -------
    CodedRows
        Rows (lanes, m, width), to be filled with shares; secret once filled.
    """
    return (TiledRows if basis.can_fold else PlainRows)(basis, m, width, threads=threads, storage=storage)


def cluster_sizes(labels: Array, k: int) -> Array:
    """Points of every cluster: (k,) int64; label -1 counts for none."""
    counts = np.zeros((4, k + 1), np.int64)
    # Kernels are compiled for arrays of one type that may be written to, as a received message may not.
    fits = labels.dtype == np.int32
    if fits and kernels.count_labels(np.require(labels, requirements=["C", "W"]), counts):
        return np.asarray(counts.sum(axis=0)[1:])
    # Shifted by one, the rows of no cluster fall into a bin of their own.
    return np.bincount(labels.astype(np.int64) + 1, minlength=k + 1)[1:]
