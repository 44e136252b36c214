"""Kept kernels are used as written or not at all; times of a protocol leave out compiling and loading."""

import errno
import importlib.util
import tempfile
import threading
import time

import numba
import pytest
from numba.core.compiler_lock import global_compiler_lock

from field.kernels.compiling import CheckedCacheFile, run_parallel, working_clock
from secfc.roles.exchange import SERVER, Exchange
from secfc.transport.simulate import simulate
from tests.nightly import in_turns

SLEEP = 0.2


def both(work):
    """Seconds that work takes by the clock on the wall, and by the one of work."""
    wall, worked = time.perf_counter(), working_clock()
    work()
    return time.perf_counter() - wall, working_clock() - worked


def under_the_lock():
    with global_compiler_lock, global_compiler_lock:
        time.sleep(SLEEP)


def in_another_thread():
    thread = threading.Thread(target=under_the_lock)
    thread.start()
    thread.join()


@pytest.mark.parametrize("work", [under_the_lock, in_another_thread])
def test_time_under_the_lock_of_the_compiler_is_not_work(work):
    wall, worked = both(work)
    assert wall >= SLEEP
    assert worked < wall - 0.9 * SLEEP


def test_other_time_is():
    wall, worked = both(lambda: time.sleep(SLEEP))
    assert worked >= 0.9 * SLEEP
    assert worked <= wall + 0.01


def test_the_first_call_of_a_kernel_is_compiling():
    kernel = numba.njit(lambda x: sum([x * i for i in range(10)]))
    wall, worked = both(lambda: kernel(3))
    assert worked < wall / 2


def test_a_simulation_books_work_only():
    def role():
        under_the_lock()
        yield Exchange({}, (), phase="share")
        under_the_lock()

    seconds = simulate({SERVER: role(), "a": role()}).seconds
    assert set(seconds["a"]) == {"share", "finish"}
    for spent in (*seconds["a"].values(), *seconds[SERVER].values()):
        assert spent < SLEEP / 2


# --- kept kernels ----------------------------------------------------------------------------------

SOURCE = """
from field.kernels.compiling import compiled

@compiled()
def squares(n):
    total = 0
    for i in range(n):
        total += i * i
    return total
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "kernel_of_a_test.py").write_text(SOURCE)
    return tmp_path


def call(folder, hits):
    """Use the kernel as a new process would: (its value, whether it was loaded) as it must be."""
    spec = importlib.util.spec_from_file_location("kernel_of_a_test", folder / "kernel_of_a_test.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.squares(10) == 285
    assert sum(module.squares.stats.cache_hits.values()) == hits


def kept(folder):
    files = [*(folder / "__pycache__").glob("*.nb[ic]")]
    assert len(files) == 2
    return files


def test_a_kept_kernel_is_loaded(folder):
    call(folder, 0)
    kept(folder)
    call(folder, 1)


@pytest.mark.parametrize(
    ("damage", "kind"), in_turns(["empty", "short", "flipped", "other", "gone"], [".nbi", ".nbc"])
)
def test_a_damaged_kernel_is_compiled_again_and_kept(folder, kind, damage):
    call(folder, 0)
    (file,) = [file for file in kept(folder) if file.suffix == kind]
    whole = file.read_bytes()
    for at in (0, len(whole) // 3, len(whole) // 2, len(whole) - 1):
        flipped = bytearray(whole)
        flipped[at] ^= 16
        bad = {"empty": b"", "short": whole[:at], "flipped": bytes(flipped), "other": b"no kernel" * 9}
        file.unlink() if damage == "gone" else file.write_bytes(bad[damage])
        call(folder, 0)
        assert file.exists()
        call(folder, 1)


def test_kernels_of_an_image_are_loaded_where_nothing_can_be_written(folder, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder / "kept"))
    call(folder, 0)  # the image is built
    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    monkeypatch.setattr(CheckedCacheFile, "_open_for_write", refuse)
    call(folder, 1)


def test_a_full_or_locked_folder_is_said_and_ends_nothing(folder, monkeypatch):
    def refuse(self, path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(CheckedCacheFile, "_open_for_write", refuse)
    with pytest.warns(RuntimeWarning, match=r"No space left on device.*NUMBA_CACHE_DIR"):
        call(folder, 0)


# --- work spread over threads


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_tasks_with_tasks_of_their_own_come_to_their_ends_in_order(threads):
    def inner(i):
        return run_parallel([lambda j=j: (i, j) for j in range(4)], threads)

    found = run_parallel([lambda i=i: inner(i) for i in range(5)], threads)
    assert found == [[(i, j) for j in range(4)] for i in range(5)]


def test_each_of_two_tasks_has_a_thread_and_one_thread_has_both():
    met = threading.Barrier(2)
    assert run_parallel([lambda: met.wait(30) >= 0] * 2, 2) == [True, True]
    with pytest.raises(threading.BrokenBarrierError):
        run_parallel([lambda: met.wait(0.1)] * 2, 1)


def test_who_waits_for_a_task_takes_over_what_it_spreads_and_nothing_else():
    me, begun, over = threading.get_ident(), threading.Event(), threading.Event()
    met, strangers = threading.Barrier(2), []

    def stranger():
        run_parallel([lambda: strangers.append(threading.get_ident())] * 50, 2)
        over.set()

    def spread():
        if threading.get_ident() == me:
            return begun.wait(30)
        begun.set()
        together = run_parallel([lambda: met.wait(30) >= 0] * 2, 2)
        threading.Thread(target=stranger).start()
        return all(together) and over.wait(30)

    assert run_parallel([spread] * 2, 2) == [True, True]
    assert len(strangers) == 50
    assert me not in strangers


@pytest.mark.parametrize("threads", [2, 3])
def test_the_error_of_the_first_task_is_raised_once_all_have_ended(threads):
    ended = []

    def work(i):
        time.sleep(0.02 * (3 - i))
        ended.append(i)
        if i % 2:
            raise ValueError(i)

    with pytest.raises(ValueError, match="1"):
        run_parallel([lambda i=i: work(i) for i in range(4)], threads)
    assert sorted(ended) == [0, 1, 2, 3]
