"""What the page tells people to type: three hospitals, an installation without internet, a unit."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import pytest

pytest.importorskip("websockets")

from tests.secfc.deploy.sites import HERE, blobs, free_port

pytestmark = [pytest.mark.deployment, pytest.mark.nightly]

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "secfc" / "deploy" / "README.md").read_text()
OFFLINE = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
NOBODY = 10001


def blocks(name):
    """The shell's lines between two marks of the page."""
    part = PAGE.split(f"<!-- {name} -->")[1].split(f"<!-- end of {name} -->")[0]
    return re.findall(r"```sh\n(.*?)```", part, re.DOTALL)


def hospitals(folder, environment, before=()):
    """The page's three hospitals in this folder, whose secfc is the first on the environment's path."""
    script = blocks("hospitals")[0].replace("8443", str(free_port()))
    for name, own in zip("abc", blobs((40, 50, 60), d=2).values(), strict=True):
        (folder / name).mkdir()
        rows = [f"{name}{i},{x},{y}" for i, (x, y) in enumerate(own.tolist())]
        (folder / name / "patients.csv").write_text("\n".join(("patient,age,pressure", *rows)) + "\n")
    (folder / "office").mkdir()
    if before:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    ending = "\ncode=$?; sleep 1; kill $hub; wait; exit $code\n"
    done = subprocess.run(
        [*before, "bash", "-c", script + ending], cwd=folder, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "row,id,label\n0,a0," in done.stdout
    for name in "abc":
        labels = folder / name / "results" / "labels.csv"
        assert len(labels.read_text().splitlines()) > 40
        assert labels.stat().st_mode & 0o777 == 0o600
    return done.stdout


def test_the_hospitals_of_the_page_come_to_labels(tmp_path):
    tool = tmp_path / "secfc"
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m secfc.cli "$@"\n')
    tool.chmod(0o700)
    (tmp_path / "sites").mkdir()
    environment = {**HERE, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    hospitals(tmp_path / "sites", environment)
    walk = subprocess.run(
        ["bash", "-ec", blocks("keys")[0] + blocks("audit")[0]], cwd=tmp_path / "sites", env=environment,
        capture_output=True, text=True,
    )  # fmt: skip
    assert walk.returncode == 0, walk.stdout + walk.stderr
    assert "policy own-labels" in walk.stdout
    assert walk.stdout.count("accepted until 2999-01-31") == 5
    assert json.loads((tmp_path / "sites/a/audit.jsonl").read_text().splitlines()[-1])["what"] == "rotate"


@pytest.fixture(scope="module")
def carried(tmp_path_factory):
    """The directory of wheels that the page gathers, where an index is within reach."""
    folder = tmp_path_factory.mktemp("gathered")
    clone = folder / "clone"
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    gathering = subprocess.run(
        ["bash", "-ec", blocks("wheelhouse")[0]], cwd=clone, env=os.environ | {"PATH": path},
        capture_output=True, text=True,
    )  # fmt: skip
    if "No matching distribution" in gathering.stderr:
        pytest.skip("no index is within reach")
    assert gathering.returncode == 0, gathering.stderr
    return clone / "wheels"


def install(carried, folder):
    """The page's line in a new environment, whose pip knows no index: what it said and with what code."""
    venv.create(folder / "venv", with_pip=True)
    environment = {"PATH": f"{folder / 'venv' / 'bin'}:/usr/bin:/bin", **OFFLINE}
    return subprocess.run(
        ["bash", "-c", blocks("wheelhouse")[1]], cwd=carried.parent, env=environment,
        capture_output=True, text=True,
    )  # fmt: skip


@pytest.fixture
def open_path():
    """A folder that another user may enter: pytest's own are their owner's, and each start makes them so."""
    with tempfile.TemporaryDirectory(prefix="secfc-page-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_it_is_installed_without_an_index_and_runs_for_a_user_who_may_write_nothing_else(carried, open_path):
    done = install(carried, open_path)
    assert done.returncode == 0, done.stderr
    sites, cache = open_path / "sites", open_path / "cache"
    sites.mkdir()
    cache.mkdir()
    environment = {
        "PATH": f"{open_path / 'venv' / 'bin'}:/usr/bin:/bin",
        "HOME": "/nonexistent",
        "NUMBA_CACHE_DIR": str(cache),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    before = ()
    if os.getuid() == 0 and shutil.which("setpriv"):
        before = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs")
        os.chown(cache, NOBODY, NOBODY)
    said = hospitals(sites, environment, before)
    assert "Traceback" not in said
    assert list(cache.rglob("*.nbi"))  # compiled kernels were kept where they may be


def test_a_wheel_that_was_exchanged_is_not_installed(carried, tmp_path):
    shutil.copytree(carried, tmp_path / "wheels")
    wheel = next((tmp_path / "wheels").glob("click-*.whl"))
    was = hashlib.sha256(wheel.read_bytes()).hexdigest()
    with wheel.open("ab") as file:
        file.write(b"\0")
    done = install(tmp_path / "wheels", tmp_path)
    assert done.returncode != 0
    assert "DO NOT MATCH" in done.stderr
    assert was in done.stderr
    assert not (tmp_path / "venv" / "bin" / "secfc").exists()


def test_systemd_accepts_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd here")
    units = re.findall(r"```ini\n(\[Unit\].*?)```", PAGE, re.DOTALL)
    assert len(units) == 2
    tool = tmp_path / "secfc"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    said = {}
    wrong = units[0].replace("ProtectSystem=strict", "ProtectSystem=firm")
    for name, unit in (("good", units[0]), ("hub", units[1]), ("bad", wrong)):
        path = tmp_path / f"{name}.service"
        path.write_text(unit.replace("/opt/secfc/bin/secfc", str(tool)))
        done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True)
        said[name] = [line for line in done.stderr.splitlines() if path.name in line]
    assert said["good"] == said["hub"] == []
    assert said["bad"]  # it would have said so
