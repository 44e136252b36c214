"""Rows in files without a name: the same residues, and nothing left behind."""

import errno
import os
import stat
import tempfile

import numpy as np
import pytest

import secfc
from field.code import rows
from field.code.rows import MEMORY, NoRoomError, Storage
from secfc.data.inputs import build_algorithm
from secfc.errors import InputError
from tests.nightly import every


@pytest.mark.parametrize("where", ["memory", "scratch"])
def test_zeros_can_be_written_and_read_again(tmp_path, where):
    room = MEMORY if where == "memory" else Storage(tmp_path)
    array = room.zeros((2, 3, 5), np.int32)
    assert type(array) is np.ndarray
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert not array.any()
    array[1, 2] = -7
    assert array.sum() == -35
    assert room.zeros((0, 3), np.uint64).shape == (0, 3)


def test_the_file_has_no_name_and_nobody_else_may_open_it(tmp_path, monkeypatch):
    made = []
    real = tempfile.TemporaryFile

    def recorded(**options):
        made.append(file := real(**options))
        made.append(os.fstat(file.fileno()))
        return file

    monkeypatch.setattr(rows.tempfile, "TemporaryFile", recorded)
    array = Storage(tmp_path).zeros((1000,), np.int64)
    array[:] = 1
    assert stat.S_IMODE(made[1].st_mode) == 0o600
    assert made[1].st_nlink == 0
    assert not list(tmp_path.iterdir())


def test_a_disc_without_room_is_found_at_once_and_not_when_it_is_written_to(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(rows, "_reserve", full)
    with pytest.raises(NoRoomError, match=r"no file of 8,000 bytes in .*: No space left"):
        Storage(tmp_path).zeros((1000,), np.int64)
    points = np.random.default_rng(0).normal(size=(60, 2))
    federation = secfc.Federation.from_arrays(np.array_split(points, 3))
    with pytest.raises(InputError, match=r"No space left.*Name another folder"):
        secfc.fit(secfc.SecFC(2, 1, runtime=secfc.Runtime(scratch=str(tmp_path))), federation)


@pytest.mark.parametrize(
    "options",
    every(2, [{}, {"disclosure": "distances"}, {"centers": "rounded"}, {"disclosure": "own-labels"}]),
    ids=str,
)
def test_labels_are_the_same_from_scratch(tmp_path, options):
    points = np.random.default_rng(0).normal(size=(90, 3))
    federation = secfc.Federation.from_arrays(np.array_split(points, 3))
    here = secfc.fit(build_algorithm(secfc.SecFC, k=3, t=1, max_iter=4, **options), federation, seed=1)
    there = secfc.fit(
        build_algorithm(secfc.SecFC, k=3, t=1, max_iter=4, scratch=str(tmp_path), **options),
        federation,
        seed=1,
    )
    assert (here.flat == there.flat).all()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_refused():
    with pytest.raises(
        InputError, match="scratch='/nowhere/at all' is a str: a folder that is there is needed"
    ):
        secfc.SecFC(2, 1, runtime=secfc.Runtime(scratch="/nowhere/at all"))
