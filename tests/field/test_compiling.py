"""Times of a protocol leave out what goes into compiling kernels and loading them."""

import threading
import time

import numba
import pytest
from numba.core.compiler_lock import global_compiler_lock

from field.kernels.compiling import working_clock
from secfc.roles.exchange import SERVER, Exchange
from secfc.transport.simulate import simulate

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
