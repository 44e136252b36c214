"""Rows in memory and in a scratch file have the same labels and sums; the file is its process's alone."""

import errno
import os
import stat

import numpy as np
import pytest

from field.kernels.labeling import TILE, CenterFilter
from secfc.data import row_tiles
from secfc.data.row_tiles import RowTiles
from secfc.errors import InputError


def blocks_of(rows, sizes):
    """The rows in blocks of these sizes, again and again."""
    first = 0
    while first < len(rows):
        for size in sizes:
            yield first, rows[first : first + size]
            first += size


@pytest.mark.parametrize("held", [0, 1 << 20])
@pytest.mark.parametrize("m", [1, 256, 1500])
def test_steps_are_those_of_rows_in_memory(monkeypatch, held, m):
    monkeypatch.setattr(row_tiles, "BATCH_BYTES", 512 * 3 * 2)
    rng = np.random.default_rng(m)
    rows = rng.integers(-99, 100, (m, 3))
    tiled = RowTiles(blocks_of(rows, (100, 700, 1)), rows.shape, 99, held=held)
    assert (tiled._file is None) == bool(held)
    labels = rng.integers(-1, 4, m).astype(np.int8)
    sums, counts = tiled.sum_rows(labels, 4)
    assert (sums == [rows[labels == h].sum(axis=0) for h in range(4)]).all()
    assert (counts == [(labels == h).sum() for h in range(4)]).all()
    centers = rng.integers(-99, 100, (4, 3))
    exact = ((rows[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    filtered = CenterFilter.of(
        centers,
        np.ones((4, 1), int),
        np.arange(4),
        lambda r: ((r[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1).astype(np.int32),
    )
    moved = (exact != labels).sum()
    assert tiled.label_rows(filtered, labels, sums, counts) == moved
    assert (labels == exact).all()
    assert (sums == [rows[exact == h].sum(axis=0) for h in range(4)]).all()
    assert (counts == np.bincount(exact, minlength=4)).all()
    tiled.close()


def test_a_scratch_file_has_no_name_and_is_its_owners(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rows = np.zeros((300, 2), np.int64)
    tiled = RowTiles([(0, rows)], rows.shape, 1, held=0)
    found = os.fstat(tiled._file.fileno())
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert found.st_size == 3 * TILE * 2 * 2  # tiles of rows of two numbers of two bytes
    # Whatever ends the process, nobody has to remove it.
    assert found.st_nlink == 0
    assert not list(tmp_path.iterdir())
    tiled._file.truncate(9)
    with pytest.raises(OSError, match="cut short"):
        list(tiled.batches())


def test_a_full_disk_is_said_with_a_remedy(monkeypatch):
    class Full:
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self):
            pass

    monkeypatch.setattr("tempfile.TemporaryFile", lambda **how: Full())
    with pytest.raises(InputError, match=r"no room for 1 MiB .* set TMPDIR"):
        RowTiles([(0, np.zeros((256, 3000), np.int64))], (256, 3000), 1, held=0)
