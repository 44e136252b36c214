"""The walls of the house: who may import whom, and what must appear nowhere."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.house import nodes

ROOT = Path(__file__).parent.parent
PACKAGES = ("field", "psu", "secfc")
SOURCES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}

# What each room may import, floor by floor: all of it stands above the room itself, so arrows go down only.
# A room is a folder, with its subfolders unless they have a line of their own, or a file.
FIELD = "field.secrets field.ring field.code"
ROOMS = {
    "field.kernels": "",
    "field.secrets": "field.kernels",
    "field.ring": "field.kernels field.secrets",
    "field.code": "field.kernels field.secrets field.ring",
    "field.compare": f"field.kernels {FIELD}",
    "field.reference": "field.secrets field.ring",
    "psu": f"field.kernels {FIELD}",
    "secfc.logs": "",
    "secfc.remedies": "",
    "secfc.errors": "field.ring secfc.remedies",
    "secfc.roles": "secfc.errors field.secrets field.ring psu",
    "secfc.data": "secfc.errors secfc.remedies field.kernels field.ring",
    "secfc.metrics": "secfc.errors secfc.data",
    "secfc.privacy": "secfc.errors field.secrets field.ring secfc.roles secfc.data",
    "secfc.transport": "secfc.errors field.kernels field.secrets secfc.roles secfc.logs",
    "secfc.run_summary": "",
    "secfc.algorithm": "secfc.errors secfc.remedies field.secrets secfc.roles secfc.data secfc.privacy "
    "secfc.run_summary",
    "secfc.kmeans": f"secfc.errors field.kernels {FIELD} secfc.roles secfc.data secfc.metrics "
    "secfc.algorithm",
    "secfc.attacks": "secfc.errors field.secrets field.code psu secfc.roles secfc.data secfc.privacy "
    "secfc.algorithm secfc.logs",
    "secfc.secure_sum": "secfc.errors field.secrets field.ring field.code secfc.roles",
    "secfc.scaling": "secfc.errors secfc.remedies field.ring field.secrets secfc.roles secfc.data "
    "secfc.privacy secfc.algorithm secfc.secure_sum",
    "secfc.kfed": "secfc.errors field.secrets secfc.roles secfc.data secfc.algorithm secfc.run_summary "
    "secfc.kmeans secfc.attacks",
    "secfc.feddp": "secfc.errors secfc.remedies field.kernels field.secrets field.ring secfc.roles "
    "secfc.data secfc.privacy secfc.algorithm secfc.run_summary secfc.kmeans secfc.secure_sum secfc.attacks",
    "secfc.federated.columns": "secfc.errors secfc.data secfc.algorithm",
    "secfc.federated.model": "secfc.errors field.kernels field.secrets field.ring secfc.roles secfc.data "
    "secfc.algorithm",
    "secfc.overlap": f"secfc.errors {FIELD} secfc.roles secfc.data secfc.algorithm secfc.run_summary "
    "secfc.federated.columns secfc.federated.model",
    "secfc.federated": "secfc.errors field.secrets field.ring secfc.roles secfc.data secfc.algorithm "
    "secfc.run_summary secfc.kmeans secfc.attacks secfc.secure_sum secfc.federated.columns "
    "secfc.federated.model secfc.overlap",
    "secfc.coded": f"secfc.errors secfc.remedies {FIELD} psu secfc.roles secfc.data secfc.privacy "
    "secfc.kmeans",
    "secfc.disclosure.checked": f"secfc.errors {FIELD} secfc.roles secfc.coded",
    "secfc.disclosure.decoded": f"secfc.errors secfc.disclosure.checked {FIELD} secfc.roles secfc.data "
    "secfc.kmeans secfc.coded",
    "secfc.disclosure.compare": f"secfc.errors secfc.remedies field.kernels {FIELD} field.compare "
    "secfc.roles secfc.kmeans secfc.coded secfc.disclosure.decoded secfc.disclosure.checked",
    "secfc.disclosure.dealerless": f"secfc.errors {FIELD} field.compare secfc.roles secfc.coded "
    "secfc.disclosure.decoded secfc.disclosure.checked secfc.disclosure.compare",
    "secfc.disclosure.owner_labels": f"secfc.errors {FIELD} field.compare secfc.roles secfc.kmeans "
    "secfc.coded secfc.disclosure.checked secfc.disclosure.compare secfc.disclosure.dealerless "
    "secfc.disclosure.decoded",
    "secfc.disclosure.noise": f"secfc.errors {FIELD} field.compare secfc.roles secfc.data secfc.privacy "
    "secfc.kmeans secfc.coded secfc.feddp secfc.disclosure.checked secfc.disclosure.compare "
    "secfc.disclosure.dealerless secfc.disclosure.decoded secfc.disclosure.owner_labels",
    "secfc.disclosure": "secfc.remedies field.secrets field.ring secfc.roles "
    "secfc.privacy secfc.kmeans secfc.coded secfc.disclosure.decoded secfc.disclosure.compare "
    "secfc.disclosure.dealerless secfc.disclosure.noise secfc.disclosure.owner_labels",
    "secfc.coded_kmeans": f"secfc.errors secfc.remedies {FIELD} field.compare psu secfc.roles "
    "secfc.data secfc.privacy secfc.algorithm secfc.run_summary secfc.kmeans secfc.attacks secfc.coded "
    "secfc.disclosure secfc.disclosure.checked secfc.disclosure.compare secfc.disclosure.owner_labels",
    "secfc.pairs": "secfc.errors field.secrets field.ring field.code secfc.roles secfc.data secfc.algorithm "
    "secfc.run_summary secfc.kmeans secfc.coded secfc.disclosure secfc.disclosure.compare secfc.coded_kmeans",
    "secfc.pipeline": "secfc.errors field.secrets secfc.roles secfc.data secfc.privacy secfc.transport "
    "secfc.algorithm secfc.scaling secfc.logs",
    "secfc.tiny_runs": "secfc.errors field.kernels field.ring field.compare psu secfc.roles secfc.data "
    "secfc.privacy secfc.algorithm secfc.kmeans secfc.feddp secfc.coded secfc.disclosure "
    "secfc.coded_kmeans secfc.pipeline",
    "secfc.kept_models": "secfc.errors secfc.data secfc.algorithm secfc.kmeans secfc.scaling "
    "secfc.federated.model secfc.coded_kmeans secfc.pipeline",
    "secfc.attack_runs": "secfc.errors field.ring secfc.roles secfc.data secfc.privacy secfc.algorithm "
    "secfc.kmeans secfc.attacks secfc.kfed secfc.feddp secfc.federated secfc.coded_kmeans secfc.pipeline",
    "secfc.estimators": "secfc.errors field.secrets secfc.data secfc.metrics secfc.privacy "
    "secfc.algorithm secfc.kfed secfc.feddp secfc.federated secfc.coded secfc.coded_kmeans secfc.kmeans "
    "secfc.kept_models secfc.pipeline secfc.disclosure secfc.scaling secfc.overlap secfc.pairs",
    "secfc.deploy": "secfc.errors field.secrets secfc.roles secfc.data secfc.transport secfc.algorithm "
    "secfc.logs",
    "secfc.report": "secfc.errors field.ring secfc.roles secfc.data secfc.metrics "
    "secfc.privacy secfc.algorithm secfc.run_summary secfc.kmeans secfc.attacks secfc.scaling secfc.coded "
    "secfc.disclosure secfc.coded_kmeans",
    "secfc.planning": "secfc.errors secfc.remedies field.kernels field.ring field.compare secfc.logs "
    "secfc.roles secfc.data secfc.privacy secfc.algorithm secfc.run_summary secfc.kmeans secfc.coded "
    "secfc.disclosure.compare secfc.feddp secfc.coded_kmeans secfc.pipeline secfc.report secfc.scaling",
    "secfc.grids": "secfc.errors secfc.remedies secfc.roles secfc.data secfc.metrics secfc.algorithm "
    "secfc.report secfc.privacy",
    "secfc.cli.shell": "secfc.errors secfc.remedies field.ring field.kernels psu secfc.roles secfc.data "
    "secfc.transport secfc.algorithm secfc.kmeans secfc.disclosure secfc.report secfc.logs secfc.tiny_runs",
    "secfc.cli": "secfc.errors secfc.remedies field.ring field.compare field.reference psu secfc.roles "
    "secfc.data secfc.privacy secfc.transport secfc.algorithm secfc.kmeans secfc.attacks secfc.kfed "
    "secfc.feddp secfc.overlap secfc.federated secfc.coded secfc.disclosure secfc.coded_kmeans "
    "secfc.pipeline secfc.report secfc.scaling secfc.deploy secfc.logs secfc.grids secfc.planning "
    "secfc.pairs "
    "secfc.tiny_runs secfc.attack_runs secfc.kept_models secfc.cli.shell",
}
# Packages that only name what they offer, what checks them, and words of Python's that are repaired.
DOORS = {"field", "field.arrays", "field.cached", "field.forks", "psu", "secfc", "secfc._packages"}

# Only these may speak of NumPy's generators: experiments, data sets, and starts, which are public.
EXPERIMENTS = (
    "secfc/data/", "secfc/kmeans/starts.py", "secfc/kmeans/bisecting.py", "secfc/kmeans/splitting.py",
    "secfc/kmeans/sampled.py",
    "secfc/pipeline.py", "secfc/attacks/", "secfc/cli/", "secfc/grids/", "secfc/planning/",
    "secfc/tiny_runs.py", "secfc/attack_runs.py",
)  # fmt: skip
# Signatures of servers, which are handed one for starts; and public seeds of starts and of guesses.
STARTS = {
    "secfc/algorithm.py",
    "secfc/kfed.py",
    "secfc/pairs.py",
    "secfc/overlap/common.py",
    "secfc/federated/algorithm.py",
    "secfc/federated/course.py",
    "secfc/federated/plan.py",
    "secfc/overlap/overlap1.py",
    "secfc/overlap/overlap2.py",
    "secfc/feddp/starts.py",
    "secfc/feddp/clients.py",
    "secfc/feddp/aggregator.py",
    "secfc/feddp/algorithm.py",
    "secfc/scaling/algorithm.py",
    "secfc/coded_kmeans/query_order.py",
    "secfc/coded_kmeans/plaintext.py",
    "secfc/coded_kmeans/adversary_view.py",
    "secfc/coded_kmeans/algorithm1.py",
    "secfc/coded_kmeans/secfc.py",
}
# With what kernels inline, a file is as long as it must be: the disk cache notices changes of that file only.
KERNELS = ("field/kernels/", "psu/kernels.py", "psu/hashing.py")


def module_of(path):
    name = path.removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


@cache
def imported(path, source):
    """What a file imports from, and the name or None, anywhere in it, but for type checkers at a door."""
    typing = {
        id(inner)
        for node in nodes(source)
        if path.endswith("__init__.py")
        and isinstance(node, ast.If)
        and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = []
    for node in nodes(source):
        if id(node) in typing:
            continue
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports say where from"
            found += [(node.module, alias.name) for alias in node.names]
    return found


def imports(path, source, modules):
    """The modules that a file imports, anywhere in it; what packages tell type checkers they offer aside."""
    for module, name in imported(path, source):
        full = f"{module}.{name}"
        yield full if full in modules else module


def room_of(module):
    """The room of a module of ours: the longest name in the table that it lies in; None for a door."""
    if module in DOORS:
        return None
    while module and module not in ROOMS:
        module = module.rpartition(".")[0]
    return module


def complaints(sources):
    """Every line of the plan of the house that these files, by path, do not keep."""
    modules = {module_of(path): path for path in sources}
    graph = {}
    for path, source in sources.items():
        own, arrows = module_of(path), set()
        for module in imports(path, source, modules):
            if module.split(".")[0] in ("tests", "benchmarks", "pickle", "random"):
                yield f"{path} imports {module}"
            if module.split(".")[0] == "numba" and not path.startswith(KERNELS):
                yield f"{path} imports numba, which lives in the kernels only"
            if module.split(".")[0] not in PACKAGES:
                continue
            if module != own and module in modules:
                arrows.add(module)
            if PACKAGES.index(module.split(".")[0]) > PACKAGES.index(own.split(".")[0]):
                yield f"{path} imports {module}, of a package above its own"
            here, there = room_of(own), room_of(module)
            if not here and own not in DOORS:
                yield f"{path} is in no room"
            elif here and there is not None and there != here and there not in ROOMS[here].split():
                yield f"{path} imports {module}: {here} may not know {there or module}"
        graph[own] = arrows
        if "np.random" in source or "numpy.random" in source:
            yield from generators(path, source)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield f"files that import one another: {error.args[1]}"


@cache
def generators(path, source):
    """What a file does with NumPy's generators that it may not."""
    return list(find_generators(path, source))


def find_generators(path, source):
    for node in nodes(source if ".random" in source else ""):
        # default_rng, Generator and PCG64 are values; all else of numpy.random is the global generator.
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("np.random", "numpy.random"):
            if node.attr not in ("default_rng", "Generator", "PCG64"):
                yield f"{path} uses the global generator: {node.attr}"
            elif not path.startswith(EXPERIMENTS) and path not in STARTS:
                yield f"{path} draws from a NumPy generator, which is no source of secrets"


def test_arrows_go_down_only():
    seen = set()
    for room, may in ROOMS.items():
        assert set(may.split()) <= seen, f"{room} may know rooms that stand below it in the table"
        seen.add(room)


def test_every_file_keeps_to_the_plan():
    assert not list(complaints(SOURCES))


def test_the_table_allows_nothing_that_nobody_needs():
    needed = {room: set() for room in ROOMS}
    modules = {module_of(path): path for path in SOURCES}
    for path, source in SOURCES.items():
        here = room_of(module_of(path))
        for module in imports(path, source, modules):
            if here and module.split(".")[0] in PACKAGES and (there := room_of(module)) != here and there:
                needed[here].add(there)
    idle = {room: sorted(set(may.split()) - needed[room]) for room, may in ROOMS.items()}
    assert not {room: rooms for room, rooms in idle.items() if rooms}


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("secfc/kfed.py", "from secfc.transport import network"),
        ("secfc/attacks/geometry.py", "from secfc.coded.plan import Plan"),
        ("secfc/kmeans/loop.py", "from secfc.disclosure import Distances"),
        ("secfc/coded/plan.py", "from secfc.coded.quorum import Screening"),
        ("secfc/kfed.py", "from secfc.coded.plan import Plan"),
        ("field/compare/dealer_protocol.py", "rng = np.random.default_rng(0)"),
        ("secfc/secure_sum/protocol.py", "rng = np.random.default_rng(0)"),
        # And some like them.
        ("field/ring/noise.py", "import numpy.random\nnumpy.random.seed(1)"),
        ("secfc/coded_kmeans/predict.py", "def late():\n    from secfc.transport.simulate import simulate"),
        ("secfc/data/files.py", "def late():\n    from secfc.data.federation import Federation"),
        ("secfc/coded/messages.py", "import secfc.coded_kmeans.query_order"),
        ("secfc/feddp/plan.py", "from secfc.coded import plan"),
        ("secfc/roles/agreement.py", "from secfc.transport.wire import encode"),
        ("psu/plan.py", "import secfc"),
        ("field/code/rows.py", "import numba"),
        ("secfc/transport/wire.py", "import pickle"),
        ("secfc/attic.py", "from secfc.roles import exchange"),
    ],
)
def test_a_forbidden_line_is_noticed(path, line):
    changed = {**SOURCES, path: f"{SOURCES.get(path, '')}\n{line}\n"}
    assert [c for c in complaints(changed) if path in c or module_of(path) in c]


@pytest.mark.parametrize("path", SOURCES)
def test_input_is_not_checked_by_assert(path):
    assert not any(isinstance(node, ast.Assert) for node in nodes(SOURCES[path]))


def run_code(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)


def test_importing_is_cheap():
    heavy = ("numba", "galois", "sympy", "sklearn", "scipy", "pyarrow", "matplotlib", "dp_accounting")
    loaded = run_code(f"import sys, secfc, secfc.cli; print([m for m in {heavy} if m in sys.modules])").stdout
    assert loaded.strip() == "[]"


LOADED = """
import sys
before = set(sys.modules)
import secfc
few = set(sys.modules) - before
from click.testing import CliRunner
import secfc.cli
before = set(sys.modules)
shown = CliRunner().invoke(secfc.cli.main, ["--help"]).output
print(len(few), len(set(sys.modules) - before))
print("rich" in sys.modules, "secfc.cli.clustering.run" in sys.modules, "psu" in shown)
"""


def test_what_people_wait_for_first_loads_little():
    """Counted in modules, which no busy machine changes; by night in seconds (tests/test_first_minute.py)."""
    few, more, rich, command, shown = run_code(LOADED).stdout.split()
    assert int(few) <= 45
    assert int(more) <= 20
    assert (rich, command, shown) == ("False", "False", "True")


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


def heirs_of_heirs(sources):
    """Classes of coded rows and policies that inherit from several others there, in turn or at once.

    Not messages: a kind of question is a question.
    """
    parents = {}
    for path, source in sources.items():
        if path.startswith(("secfc/coded/", "secfc/disclosure/")):
            for node in nodes(source):
                if isinstance(node, ast.ClassDef) and not any(word.arg == "tag" for word in node.keywords):
                    names = (ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases)
                    parents.setdefault(node.name, set()).update(names)
    for name, bases in parents.items():
        ours = bases & parents.keys()
        if len(ours) > 1 or any(parents[base] & parents.keys() for base in ours):
            yield f"{name} inherits from {sorted(ours)}: hold a value instead"


def test_policies_are_made_of_values_and_not_of_one_another():
    assert not list(heirs_of_heirs(SOURCES))


@pytest.mark.parametrize(
    "line",
    [
        "class Deeper(AnyThreshold):\n    pass\nclass Deepest(Deeper):\n    pass",
        "class Both(AnyThreshold, MaskedQuorum):\n    pass",
        "class Heir(FinalLabelsOnly):\n    pass",
    ],
)
def test_an_heir_of_heirs_is_noticed(line):
    path = "secfc/disclosure/final_labels.py"
    assert list(heirs_of_heirs({**SOURCES, path: f"{SOURCES[path]}\n{line}\n"}))


def test_files_stay_small():
    long = {path: n for path, source in SOURCES.items() if (n := len(source.splitlines())) > 700}
    assert all(path.startswith(KERNELS) for path in long), long
