"""What would be published: a wheel of the packages and nothing else, and a source archive to build from."""

import re
import subprocess
import tarfile
import tomllib
import venv
import zipfile

import pytest
import yaml

import secfc
from tests.test_architecture import PACKAGES, ROOT

# What a wheel has beside the packages, and what whoever builds and tests needs of a source archive.
BESIDE = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
SOURCE = {
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "paper.md",
    "paper.bib",
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


def test_the_version_is_semantic_and_stands_in_one_place():
    """`secfc.__version__`; who cites it and who reads what changed find the same number."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"] == {"path": "secfc/__init__.py"}
    assert re.fullmatch(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", secfc.__version__)
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == secfc.__version__
    headings = re.findall("^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert secfc.__version__ in headings[:2]
    assert set(headings[:1]) <= {"Unreleased", secfc.__version__}


def test_public_ci_has_both_ends_of_what_the_project_says_it_runs_on():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    ends = [(each["python"], each["resolution"]) for each in jobs["suite"]["strategy"]["matrix"]["include"]]
    named = [line.split(":: ")[-1] for line in project["classifiers"] if ":: Python :: 3." in line]
    assert ends == [(named[0], "lowest-direct"), (named[-1], "highest")]
    assert project["requires-python"] == f">={named[0]}"
    assert {"run": ".ci/run"} in jobs["run"]["steps"]


def test_the_paper_cites_what_its_bibliography_has_and_names_no_author_for_the_owner():
    paper, entries = (ROOT / "paper.md").read_text(), (ROOT / "paper.bib").read_text()
    assert set(re.findall(r"@([a-z]+)\b", paper)) == set(re.findall(r"^@\w+\{(\w+),", entries, re.MULTILINE))
    assert "LEFT TO THE OWNER" in paper


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
    assert not {name for name in names if name.startswith((".git/", ".github", ".ci", ".venv"))}
