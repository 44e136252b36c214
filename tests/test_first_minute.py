"""How long and how large the beginning is: installing, importing, help, the first run.  By night."""

import os
import resource
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parent.parent
MEGABYTE = 1_000_000


def fastest(words, times=7):
    """Seconds of processor time of a command that was run before: the least of some.

    Nothing here waits for anything, so on a quiet machine it is what people wait.
    """
    spent = []
    for _ in range(times + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(words, check=True, capture_output=True, cwd=ROOT)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent[1:])


def test_importing_and_help_are_immediate():
    bare = fastest([sys.executable, "-c", "pass"])
    assert fastest([sys.executable, "-c", "import secfc"]) - bare <= 0.1
    assert fastest([sys.executable, "-m", "secfc.cli", "--help"]) <= 0.2


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A fresh environment with a wheel of the project in it, and how long that took: built, installed."""
    folder = tmp_path_factory.mktemp("first")
    begun = time.perf_counter()
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--quiet", "--no-deps", "-w", folder, ROOT], check=True)
    built = time.perf_counter() - begun
    venv.create(folder / "venv", with_pip=True)
    (wheel,) = folder.glob("*.whl")
    begun = time.perf_counter()
    python = folder / "venv/bin/python"
    subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", wheel], check=True
    )
    return folder, built, time.perf_counter() - begun


def test_a_wheel_without_the_sources_runs(installed):
    folder, built, spent = installed
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
    spans = []
    for _ in range(2):
        begun = time.perf_counter()
        done = subprocess.run(
            [folder / "venv/bin/secfc", "run"],
            cwd=folder,
            env=clean,
            capture_output=True,
            text=True,
            check=False,
        )
        spans.append(time.perf_counter() - begun)
        assert done.returncode == 0, done.stderr
        assert "those of plaintext k-means" in done.stdout
    packages = next((folder / "venv/lib").glob("python*/site-packages"))
    size = sum(
        path.stat().st_size for path in packages.rglob("*") if path.is_file() and not path.is_symlink()
    )
    pip = sum(path.stat().st_size for path in (packages / "pip").rglob("*") if path.is_file())
    print(f"built {built:.0f} s, installed {spent:.0f} s, {size / MEGABYTE:.0f} MB")
    print(f"first run {spans[0]:.0f} s, second {spans[1]:.1f} s")
    assert size - pip <= 450 * MEGABYTE
    assert Path(packages / "secfc/cli/shell/program.py").exists()
    assert not (packages / "tests").exists()
