"""The walls of the house: who may import whom, and what must appear nowhere."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("field", "psu", "secfc")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
ALGORITHMS = {"coded", "plaintext", "oneshot", "feddp"}
DRIVERS = {"simulate", "wire", "network", "link", "sealed", "journal", "checkpoint"}
KERNEL_FILES = {
    "kernels.py",
    "sampling.py",
    "microkernel.py",
    "decoding.py",
    "correcting.py",
    "projecting.py",
    "comparing.py",
    "replicating.py",
    "hashing.py",
    "compiling.py",
}


def imports(path):
    """(module, whether at the top level of the file) of every import."""
    tree = ast.parse(path.read_text())
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, id(node) in top
            yield from ((f"{node.module}.{alias.name}", id(node) in top) for alias in node.names)


def package_of(path):
    return path.relative_to(ROOT).parts[0]


def allowed(package):
    return PACKAGES[: PACKAGES.index(package) + 1]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_packages_depend_in_one_direction(path):
    own = package_of(path)
    for module, _ in imports(path):
        root = module.split(".")[0]
        if root in PACKAGES:
            assert root in allowed(own), f"{own} must not import {module}"
        assert root not in ("tests", "benchmarks")


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_algorithms_do_not_import_one_another(name):
    home = ROOT / "secfc" / name
    for path in sorted(home.rglob("*.py")) if home.is_dir() else [home.with_suffix(".py")]:
        for module, _ in imports(path):
            parts = module.split(".")
            assert not (parts[0] == "secfc" and len(parts) > 1 and parts[1] in ALGORITHMS - {name}), module


@pytest.mark.parametrize("name", sorted(DRIVERS))
def test_drivers_know_no_algorithm(name):
    path = ROOT / "secfc" / f"{name}.py"
    if path.exists():
        for module, _ in imports(path):
            assert module.split(".")[:2][-1] not in ALGORITHMS, module


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_what_appears_nowhere(path):
    source = path.read_text()
    tree = ast.parse(source)
    assert not any(isinstance(node, ast.Assert) for node in ast.walk(tree)), "assert for input"
    for module, _ in imports(path):
        assert module.split(".")[0] not in ("pickle", "random"), module
        if module.split(".")[0] == "numba":
            assert path.name in KERNEL_FILES, "numba lives in the kernels only"
    for node in ast.walk(tree):
        # np.random.default_rng, Generator, PCG64 and SeedSequence are values; every other use of
        # numpy.random is the global generator.
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("np.random", "numpy.random"):
            assert node.attr in ("default_rng", "Generator", "PCG64", "SeedSequence"), node.attr


def test_no_numpy_generator_reaches_a_secret():
    # Shares, masks and noise are made in these files; none of them may see a NumPy generator.
    for name in (
        "code.py",
        "coins.py",
        "basis.py",
        "rows.py",
        "lagrange.py",
        "correct.py",
        "blind.py",
        "noise.py",
        "bitslice.py",
        "replicated.py",
        "signs.py",
    ):
        assert "np.random" not in (ROOT / "field" / name).read_text()


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)


def test_importing_is_cheap():
    heavy = ("numba", "galois", "sympy", "sklearn", "scipy", "pyarrow", "matplotlib", "dp_accounting")
    loaded = run(f"import sys, secfc, secfc.cli; print([m for m in {heavy} if m in sys.modules])").stdout
    assert loaded.strip() == "[]"


def test_a_foreign_field_is_refused_with_the_remedy(tmp_path):
    (tmp_path / "field.py").write_text("x = 1\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import secfc"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert str(tmp_path / "field.py") in done.stderr
    assert "rename it" in done.stderr


def test_python_2_code_named_psu_is_refused_with_the_remedy(tmp_path):
    (tmp_path / "psu.py").write_text("print 'old'\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import secfc"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip uninstall psu" in done.stderr


def test_files_stay_small():
    long = {str(p.relative_to(ROOT)): n for p in FILES if (n := len(p.read_text().splitlines())) > 450}
    # A kernel stands in one file with what it inlines: the disk cache notices changes of that file only.
    assert {Path(name).name for name in long} <= KERNEL_FILES, long
