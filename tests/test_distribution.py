"""What would be published: a wheel of the packages and nothing else, and a source archive to build from."""

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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
    legs = jobs["suite"]["strategy"]["matrix"]["include"]
    named = [line.split(":: ")[-1] for line in project["classifiers"] if ":: Python :: 3." in line]
    assert [each["resolution"] for each in legs] == ["lowest-direct"] + ["highest"] * (len(legs) - 1)
    assert project["requires-python"] == f">={named[0]}"
    # A newer one is tried before it is named.
    assert [each["python"] for each in legs][: len(named)] == named
    assert {"run": ".ci/run"} in jobs["run"]["steps"]


def test_public_ci_has_every_kernel_and_what_other_tests_skip_without():
    legs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["suite"]
    assert {each["kernels"] for each in legs["strategy"]["matrix"]["include"]} == {"vector", "portable"}
    asked = {extra for each in legs["strategy"]["matrix"]["include"] for extra in each["extras"].split(",")}
    assert asked == {"test", "nvflare", "dask"}
    assert {"SECFC_KERNELS": "${{ matrix.kernels }}"} in [each.get("env") for each in legs["steps"]]


def test_public_ci_runs_by_day_what_only_it_installs():
    """Tests that need FLARE or Dask run by night, where neither may be installed."""
    steps = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["long"]["steps"]
    *_, install, run = (each["run"] for each in steps if "run" in each)
    assert "'.[test,nvflare,dask]'" in install
    assert "-m nightly" in run
    files = [word for word in run.split() if word.endswith(".py")]
    assert all((ROOT / file).exists() for file in files)
    needed = " ".join((ROOT / file).read_text() for file in files)
    assert all(word in needed for word in ("nvflare", "distributed", "--quick", "@pytest.mark.nightly"))


def faults_of_tag(tag, headings):
    """What is wrong with releasing this state under a tag: it is the version, and what changed says so."""
    if tag != f"v{secfc.__version__}":
        yield f"the tag {tag} is not v{secfc.__version__}, which secfc.__version__ says"
    if headings[:1] != [secfc.__version__]:
        yield f"what changed stands under {headings[0]}"


def test_a_tag_is_the_version_and_what_changed_stands_under_it():
    headings = re.findall("^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    listed = ["git", "tag", "--points-at", "HEAD", "--list", "v[0-9]*"]
    tags = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    assert not [fault for tag in tags for fault in faults_of_tag(tag, headings)]
    assert len([*faults_of_tag("v99.0.0", ["Unreleased"])]) == 2
    assert not [*faults_of_tag(f"v{secfc.__version__}", [secfc.__version__])]


def test_the_paper_cites_what_its_bibliography_has_and_names_no_author_for_the_owner():
    paper, entries = (ROOT / "paper.md").read_text(), (ROOT / "paper.bib").read_text()
    assert set(re.findall(r"@([a-z]+)\b", paper)) == set(re.findall(r"^@\w+\{(\w+),", entries, re.MULTILINE))
    assert "LEFT TO THE OWNER" in paper


def test_the_lock_of_ci_has_a_version_that_fits_of_all_that_is_installed():
    """If this fails: the command in the first lines of .ci/lock.txt, by uv."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    tools = (ROOT / ".ci/tools.in").read_text().split()
    locked = [
        Requirement(line) for line in (ROOT / ".ci/lock.txt").read_text().splitlines() if line[0] != "#"
    ]
    versions = {canonicalize_name(one.name): str(one.specifier).removeprefix("==") for one in locked}
    for line in (*project["dependencies"], *extras["test"], *extras["docs"], *tools):
        asked = Requirement(line)
        assert versions[canonicalize_name(asked.name)] in asked.specifier, line


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.nightly
def test_wheel_and_source_are_what_they_should_be_and_the_same_again(tmp_path):
    """Built of the checkout, and of the source archive in another folder, whose files are of another time."""
    for name in ("build", "hatchling", "twine"):
        pytest.importorskip(name, reason="they build and check: pip install -r .ci/tools.in")
    first, second = tmp_path / "first", tmp_path / "second"

    def call_module(*words):
        epoch = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, check=True, env=epoch)

    call_module("build", "--no-isolation", "--outdir", first, ROOT)
    call_module("twine", "check", "--strict", *sorted(first.iterdir()))
    (wheel,), (source,) = first.glob("*.whl"), first.glob("*.tar.gz")
    assert not list(faults_of_wheel(set(zipfile.ZipFile(wheel).namelist()), tracked()))
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        archive.extractall(tmp_path, filter="data")
    assert SOURCE | tracked() <= names
    assert not {name for name in names if name.startswith((".git/", ".github", ".ci", ".venv"))}
    (unpacked,) = tmp_path.glob("secfc_clustering-*/")
    for path in unpacked.rglob("*"):
        os.utime(path, (1e9, 1e9))
    call_module("build", "--no-isolation", "--outdir", second, unpacked)
    assert digests(first) == digests(second)
