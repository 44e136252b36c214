"""Without what extras install: the main job runs, and whatever needs an extra says so before any work."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from field.ring import errors
from field.ring.errors import install_command
from secfc.data import inputs
from secfc.data.inputs import require_library
from secfc.errors import InputError
from secfc.kmeans.centers import squared_distances
from secfc.metrics import accuracy
from tests.house import nodes
from tests.test_house import SOURCES

BLOCKED = """
import sys
class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in "scipy sklearn galois dp_accounting pyarrow openpyxl matplotlib".split():
            raise ModuleNotFoundError(f"{name} is blocked")
sys.meta_path.insert(0, Refusing())
from click.testing import CliRunner
import secfc.cli
for line in sys.argv[1:]:
    done = CliRunner().invoke(secfc.cli.main, line.split())
    print(done.exit_code, line, repr(done.exception) if done.exit_code not in (0, 2) else "", done.output)
"""


def blocked(*lines: str) -> str:
    """The output of command lines in a process where no extra can be imported."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, *lines], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_main_job_runs_and_extras_are_named_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in "abc":
        rows = [f"{x:.3f},{y:.3f},{'pq'[int(x > 0)]}" for x, y in rng.normal(size=(12, 2))]
        Path(f"{name}.csv").write_text("x,y,kind\n" + "\n".join(rows) + "\n")
    files = "run a.csv b.csv c.csv -k 2"
    told = blocked(
        f"{files} --label-column kind --force --reveal-centers --consent --verbose",
        f"{files} --label-column kind --algorithm k-fed --force",
        f"{files} --label-column kind --epsilon 5 --radius 3 --force",
        f"{files.replace('run', 'overlap')} --columns x,y --start automatic --force",
        "run a.csv b.csv c.csv -k 2..4 --columns x,y --plot costs.png --force",
        "attack geometry a.csv b.csv c.csv -k 2 --label-column kind",
        "audit a.csv b.csv c.csv -k 2 --columns x,y --server-file a.csv --epsilon 1",
        "attack membership a.csv b.csv c.csv -k 2 --columns x,y --reveal-centers",
    )
    assert told.startswith("0 run a.csv"), told
    guess = " ".join(told.split("\n2 ")[0].split())
    assert re.search(r"let it guess was not tried, which needs [^,]*pip install [^,]*\[attacks\]", guess)
    expected = {
        "--algorithm k-fed needs scikit-learn": "estimators",
        "--epsilon needs dp-accounting": "dp",
        "FederatedLloyd needs scikit-learn": "estimators",
        "--plot needs matplotlib": "plot",
        "secfc attack needs scipy": "attacks",
        "secfc audit needs dp-accounting": "dp",
        "secfc attack membership needs scipy": "attacks",
    }
    for what, extra in expected.items():
        # There the installed copy runs, if there is one, and here the checkout.
        remedy = rf", which is not installed\. Run [^\n]*pip install [^\n]*\[{extra}\]'?\.\n"
        assert re.search(re.escape(what) + remedy, told), told
    assert told.count("\n2 ") == len(expected), told


def test_every_extra_is_in_the_project_file() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    given = project["optional-dependencies"]
    for extra, modules in inputs.EXTRAS.items():
        for module in modules:
            name = inputs.KNOWN_AS.get(module, module)
            assert any(line.startswith(name) for line in given[extra]), (extra, name)
            if extra != "dask":  # a cluster is for who has one
                assert any(line.startswith(name) for line in given["test"]), name
            assert not any(line.startswith(name) for line in project["dependencies"]), name


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    require_library("this", "estimators")
    monkeypatch.setitem(inputs.EXTRAS, "estimators", ("no_such_module",))
    remedy = re.escape(install_command("[estimators]"))
    with pytest.raises(InputError, match=rf"^this needs no_such_module, .* Run {remedy}\.$"):
        require_library("this", "estimators")


@pytest.mark.parametrize(
    ("modules", "line", "expected"),
    [
        (["pip"], "/env/bin:/usr/bin", "pip install"),
        (["pip"], "/usr/bin", "/env/bin/python -m pip install"),
        ([], "/env/bin:/usr/bin", "uv pip install --python /env/bin/python"),
    ],
    ids=["activated", "not activated", "uv"],
)
def test_a_command_installs_for_the_python_that_runs(monkeypatch, modules, line, expected) -> None:
    monkeypatch.setattr(sys, "executable", "/env/bin/python")
    monkeypatch.setattr(errors.shutil, "which", lambda name: f"{line.split(':')[0]}/{name}")
    monkeypatch.setattr(errors, "find_spec", lambda name: name in modules or None)
    monkeypatch.setattr(errors, "ROOT", Path(__file__).parents[2])
    assert install_command("[dp]") == f"{expected} -e '{errors.ROOT}[dp]'"
    monkeypatch.setattr(errors, "ROOT", Path("/env/lib/python3.11/site-packages"))
    assert install_command("[dp]") == f"{expected} 'secfc-clustering[dp]'"
    assert install_command("pyarrow") == f"{expected} pyarrow"


def commands_of_installing(source: str) -> list[str]:
    """Texts of a file, but docstrings, that say how to install something."""
    found = [*nodes(source)]
    said = [node.value for node in found if isinstance(node, ast.Constant)]
    for node in found:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            said.remove(node.value.value)
    return [text for text in said if isinstance(text, str) and "pip install" in text]


def test_nobody_but_who_knows_how_it_was_installed_says_what_to_install() -> None:
    """`_packages` speaks of the index alone: there a stranger has the name of a package."""
    assert commands_of_installing("x = f'{y}: pip install secfc[dp]'") == [": pip install secfc[dp]"]
    told = {path for path, source in SOURCES.items() if commands_of_installing(source)}
    assert told == {"secfc/_packages.py"}


def test_matching_and_distances_are_those_of_scipy() -> None:
    rng = np.random.default_rng(1)
    for shape in [(1, 1), (1, 5), (5, 1), (4, 4), (3, 7), (9, 6), (20, 20)] * 5:
        truth, labels = rng.integers(shape[0], size=300), rng.integers(shape[1], size=300)
        table = np.zeros(shape, np.int64)
        np.add.at(table, (truth, labels), 1)
        assert accuracy(truth, labels) == table[linear_sum_assignment(table, maximize=True)].sum() / 300
    points, centers = rng.normal(size=(200, 7)), rng.normal(size=(5, 7))
    np.testing.assert_allclose(squared_distances(points, centers), cdist(points, centers, "sqeuclidean"))
