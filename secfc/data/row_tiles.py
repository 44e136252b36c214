"""One party's rounded rows in tiles, gone through in their order: in memory, or in a scratch file.

What a client does with its rows in every step takes sums by cluster and labels alone, so rows need not be in
memory at once.  The scratch file has no name and mode 0600: it is gone with the process, however that ends.
"""

from __future__ import annotations

import errno
import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from field.arrays import Array
from field.kernels.labeling import (
    TILE,
    CenterFilter,
    LabelBounds,
    label_tiles,
    sum_tiles,
    tile_kind,
    tile_rows,
)
from secfc.errors import InputError

HELD_BYTES = 1 << 28  # of tiles in memory; more are in a scratch file
BATCH_BYTES = 1 << 23  # of tiles that are looked at together, one at least


class RowTiles:
    """Integer rows (m, d), in batches of about BATCH_BYTES.

    blocks: pairs of the first row and integers (b, d), all rows in order, of at most `largest`, below
    `field.kernels.labeling.LARGEST`, in absolute value; gone through once.  held: the bytes in memory.

    Raises InputError where a scratch file is needed and there is no room for it.
    """

    def __init__(
        self,
        blocks: Iterable[tuple[int, Array]],
        shape: tuple[int, int],
        largest: int,
        *,
        held: int = HELD_BYTES,
    ) -> None:
        self.shape, self._largest, kind = shape, largest, np.dtype(tile_kind(largest))
        self._tile = (shape[1], TILE)
        self._bytes = shape[1] * TILE * kind.itemsize  # of a tile
        count = -(-shape[0] // TILE)
        self._together = min(count, max(1, BATCH_BYTES // self._bytes))  # tiles of a batch
        self._tiles = np.empty((count, *self._tile), kind) if count * self._bytes <= held else None
        self._file: Any = None
        if self._tiles is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - as long as these rows
            weakref.finalize(self, self._file.close)
            self._buffer = np.empty((self._together, *self._tile), kind)
        for first, whole in _whole_tiles(blocks, shape[1]):
            tiles = tile_rows(whole, largest)
            if self._tiles is not None:
                self._tiles[first // TILE : first // TILE + len(tiles)] = tiles
            else:
                self._write(tiles)

    def __repr__(self) -> str:
        return f"RowTiles(shape={self.shape})"

    def _write(self, tiles: Array) -> None:
        left = memoryview(tiles.data).cast("B")
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            self._file.close()
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            needed = -(-self.shape[0] // TILE) * self._bytes
            raise InputError(
                f"{tempfile.gettempdir()} has no room for {needed >> 20} MiB of rounded rows, which are read "
                "in every step. Make room there, or set TMPDIR to a folder on a disk that has it."
            ) from error

    def batches(self) -> Iterator[tuple[slice, Array]]:
        """Rows and their tiles, in order; those of a file are overwritten by the next ones."""
        for first in range(0, self.shape[0], self._together * TILE):
            rows = slice(first, min(first + self._together * TILE, self.shape[0]))
            at, count = first // TILE, -(-(rows.stop - first) // TILE)
            if self._tiles is not None:
                yield rows, self._tiles[at : at + count]
                continue
            tiles = self._buffer[:count]
            left, place = memoryview(tiles.data).cast("B"), at * self._bytes
            while left:
                got = os.preadv(self._file.fileno(), [left], place)
                if not got:
                    raise OSError(errno.EIO, "a scratch file of rounded rows was cut short")
                left, place = left[got:], place + got
            yield rows, tiles

    def read_all(self) -> Array:
        """All rows in memory: (m, d) int64."""
        parts = (
            tiles.transpose(0, 2, 1).reshape(-1, self.shape[1]).astype(np.int64)
            for _, tiles in self.batches()
        )
        return np.concatenate(list(parts))[: self.shape[0]]

    def read_rows(self, places: Array) -> Array:
        """Those at ascending places (b,): (b, d) int64."""
        found = np.empty((len(places), self.shape[1]), np.int64)
        for rows, tiles in self.batches():
            mine = slice(*np.searchsorted(places, [rows.start, rows.stop]))
            at = places[mine] - rows.start
            found[mine] = tiles[at // TILE, :, at % TILE]
        return found

    def sum_rows(self, labels: Array, k: int) -> tuple[Array, Array]:
        """Sums (k, d) and numbers (k,) int64 of rows by label (m,) in [-1, k)."""
        sums, counts = np.zeros((k, self.shape[1]), np.int64), np.zeros(k, np.int64)
        for rows, tiles in self.batches():
            sum_tiles(tiles, labels[rows].astype(np.int32), sums, counts)
        return sums, counts

    def label_rows(
        self,
        filtered: CenterFilter,
        labels: Array,
        sums: Array | None = None,
        counts: Array | None = None,
        bounds: LabelBounds | None = None,
    ) -> int:
        """As `field.kernels.labeling.label_tiles`, with labels (m,) of any type that holds them.

        bounds: of these labels, as the last call that had these bounds left them; they are those of the new.
        """
        moved = 0
        if bounds is not None:
            bounds.follow_centers(filtered)
        for rows, tiles in self.batches():
            now, own = labels[rows].astype(np.int32), None if bounds is None else bounds.of_rows(rows)
            moved += label_tiles(tiles, filtered, now, sums, counts, largest=self._largest, bounds=own)
            labels[rows] = now
        if bounds is not None:
            bounds.moved = moved
        return moved

    def close(self) -> None:
        """Let go of the rows, and of their file."""
        self._tiles = None
        if self._file is not None:
            self._file.close()


def _whole_tiles(blocks: Iterable[tuple[int, Array]], d: int) -> Iterator[tuple[int, Array]]:
    """Blocks of whole tiles, and what is left in the end."""
    kept, first = np.empty((0, d), np.int64), 0
    for _, block in blocks:
        kept = np.concatenate([kept, block]) if len(kept) else block
        if now := len(kept) // TILE * TILE:
            yield first, kept[:now]
            first, kept = first + now, kept[now:]
    if len(kept):
        yield first, kept
