"""Settings of the whole suite: reproducible property tests without deadlines (kernels compile once)."""

import gc
import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st

from field.kernels import microkernel
from field.ring import pseudo_mersenne
from field.secrets import coins
from tests import kernels_at_hand
from tests.nightly import NIGHTLY

ROOT = Path(__file__).resolve().parents[1]

settings.register_profile(
    "shrink", deadline=None, max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
# Shrinking runs the test for up to five minutes, and whoever waits needs one failure, the same every time.
settings.register_profile(
    "ci", settings.get_profile("shrink"), phases=[Phase.explicit, Phase.generate], print_blob=True
)
settings.register_profile(
    "nightly", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


DRAWN = random.Random()


@contextmanager
def drawing_by(name: str) -> Iterator[None]:
    """By day the coins of this process follow from a name, so that no outcome is a matter of luck."""
    before = DRAWN.getstate()
    DRAWN.seed(name)
    try:
        yield
    finally:
        DRAWN.setstate(before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    with drawing_by(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    with drawing_by(f"{fixturedef.baseid} {fixturedef.argname} {getattr(request, 'param_index', 0)}"):
        return (yield)


# Journals and ledgers wait for a disc at each word of theirs: a third of the time of their tests.
IN_MEMORY = "/dev/shm"
ROOM = 4 << 30  # bytes


def has_room(folder):
    """Whether temporary files of a suite fit in here, and programs among them run."""
    if not (os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)):
        return False
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """What is done once a suite, before its workers begin, and a filter that needs numba."""
    if NIGHTLY and config.getoption("timeout", 0) is None:
        # Of the wall clock, and the first test of a process compiles kernels: on a busy machine ten minutes.
        config.option.timeout = 3600
    config.addinivalue_line("filterwarnings", "ignore::numba.NumbaPerformanceWarning")
    # Processes that tests start elsewhere would run the installed package, and compile its kernels once more.
    first, *others = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if first != str(ROOT):
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [first, *others])])
    if "TMPDIR" not in os.environ and has_room(IN_MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = IN_MEMORY
    if not NIGHTLY:
        coins.SystemCoins.__init__ = lambda self: coins._OwnedCoins.__init__(self, DRAWN.randbytes(16))
    if not hasattr(config, "workerinput"):
        kernels_at_hand.take_installed()


def pytest_collection(session):
    """Begin with the last file in the second worker: asserts of a fresh checkout are rewritten once."""
    if getattr(session.config, "workerinput", {}).get("workerid") == "gw1":
        for folder in map(Path, session.config.args):
            for path in sorted(folder.rglob("test_*.py"), reverse=True):
                with suppress(Exception, pytest.skip.Exception):  # collecting the file will say what is wrong
                    import_module(".".join(path.resolve().relative_to(ROOT).with_suffix("").parts))


def pytest_collection_finish():
    """What has been imported and collected stays: to look through it for garbage takes .4 s each time.

    What tests make is looked through where 10,000 objects more are alive, not 700: small runs take less.
    Hypothesis registers NumPy's generator with its first example, and asks the collector who has it.
    """
    find(st.none(), lambda _: True)
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


def pytest_collection_modifyitems(config, items):
    """What takes long runs in the nightly profile, or when it is asked for with `-m nightly`.

    Of a file that takes hours `.ci/nightly` runs every so-manieth test, from another one each time.
    """
    part, _, parts = os.environ.get("PART", "1/1").partition("/")
    items[:] = items[int(part) - 1 :: int(parts)]
    if NIGHTLY or "nightly" in (config.getoption("-m") or ""):
        return
    late = {item for item in items if item.get_closest_marker("nightly")}
    if hasattr(config, "workerinput"):  # that one is skipped would be told between processes, of thousands
        items[:] = [item for item in items if item not in late]
    for item in late:
        item.add_marker(pytest.mark.skip(reason="takes long: HYPOTHESIS_PROFILE=nightly runs it"))


@pytest.fixture(scope="module", params=["vector", "portable"])
def kernel_path(request):
    """Runs a module's tests on the register-blocked kernels and on the portable ones."""
    if request.param == "vector" and not microkernel.VECTOR_BITS:
        pytest.skip("this processor has no register-blocked path")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECFC_KERNELS", request.param)
        assert pseudo_mersenne.vectorized() == (request.param == "vector")
        yield request.param
