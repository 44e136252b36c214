"""What would be published: a wheel of the packages and nothing else, and a source archive to build from."""

import subprocess
import tarfile
import venv
import zipfile

import pytest

from tests.test_architecture import PACKAGES, ROOT

# What a wheel has beside the packages, and what whoever builds and tests needs of a source archive.
BESIDE = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
SOURCE = {
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "tests/conftest.py",
    "benchmarks/README.md",
}


def tracked():
    """Files of the packages that belong to the checkout."""
    listed = ["git", "ls-files", *PACKAGES]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    return {path for path in found if path}


def faults_of_wheel(names, files):
    """What a wheel of these names lacks of the packages' files, or has beside them."""
    inside = {name for name in names if ".dist-info/" not in name}
    beside = {name.partition(".dist-info/")[2] for name in names} - {""}
    yield from (f"{name} is missing" for name in files - inside)
    yield from (f"{name} is too much" for name in inside - files)
    yield from (f"{name} beside the packages" for name in beside ^ BESIDE)


def test_what_a_wheel_lacks_or_has_too_much_is_noticed():
    files = tracked()
    good = files | {f"secfc_clustering-1.dist-info/{name}" for name in BESIDE}
    assert {f"{package}/py.typed" for package in PACKAGES} <= files
    assert not list(faults_of_wheel(good, files))
    without = {name for name in good if not name.endswith("/entry_points.txt")}
    for wrong in (good - {"psu/py.typed"}, good | {"tests/small.py"}, without):
        assert len(list(faults_of_wheel(wrong, files))) == 1


@pytest.mark.nightly
def test_wheel_and_source_are_what_they_should_be(tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    python, out = tmp_path / "venv/bin/python", tmp_path / "dist"

    def call_module(*words):
        subprocess.run([python, "-m", *words], cwd=ROOT, check=True)

    call_module("pip", "--disable-pip-version-check", "install", "--quiet", "build", "twine")
    call_module("build", "--outdir", out, ROOT)
    call_module("twine", "check", "--strict", *sorted(out.iterdir()))
    (wheel,), (source,) = out.glob("*.whl"), out.glob("*.tar.gz")
    assert not list(faults_of_wheel(set(zipfile.ZipFile(wheel).namelist()), tracked()))
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert SOURCE | tracked() <= names
    assert not {name for name in names if name.startswith((".git/", ".ci", ".venv"))}
