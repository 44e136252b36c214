"""Change one thing at a time in a file, and see whether the tests of that file notice.

    python -m tests.mutation                              # all files of `mutated_files`: hours
    python -m tests.mutation secfc/transport/journal.py -n 40       # forty of that file's mutants
    python -m tests.mutation secfc/transport/journal.py --list      # only name them

A mutant that no test notices (a survivor) is a rule that no test holds.  It gets a test; or, where it changes
nothing that anybody could see, an entry with the reason in `equivalent.toml`, beside this file.  Exits with 1
if there are others, or entries that match no mutant any more.

What lives its file's own tests is tried by those that import the file, a dozen at most, those in the folder
of the same name first.

Files are changed in a copy of the tree, never in place.  Each mutant is tried in a fork of a process that has
the libraries loaded already, so it costs what its tests take.  Kernels are not mutated: their twins in plain
Python (`tests.oracles.field`) hold them, and every mutant would be compiled anew.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants

ROOT = Path(__file__).resolve().parents[2]
COPIED = (
    "field",
    "psu",
    "secfc",
    "tests",
    "benchmarks",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
)
KNOWN = Path(__file__).with_name("equivalent.toml")

A8 = "tests/secfc/active/test_a8_mutants.py"
LABELS = [
    "tests/secfc/active",
    "tests/secfc/disclosure/test_committees.py",
    "tests/secfc/roles/test_protocol.py",
]
SOUNDNESS = "tests/secfc/disclosure/checked/test_soundness.py"
OWN = [f"tests/secfc/disclosure/test_owner_labels{more}.py" for more in ("", "_dealerless", "_hidden")]
UNION = ["tests/psu/test_steps.py", "tests/psu/test_union.py", "tests/psu/test_privacy.py"]
# For each file the tests that hold it, the quick ones first.
TARGETS = {
    "field/compare/dealer_protocol.py": [A8, "tests/field/compare/test_dealt.py"],
    "field/compare/tournament.py": ["tests/field/compare/test_dealt.py"],
    "field/compare/correlated_randomness.py": ["tests/field/compare/test_dealt.py"],
    "field/compare/argmin.py": ["tests/field/compare/test_dealt.py"],
    "field/code/masking.py": [
        f"tests/field/code/test_{name}.py" for name in ("blind", "parts", "linear_digest")
    ],
    "field/code/product_check.py": ["tests/field/code/test_product_check.py", SOUNDNESS],
    "field/code/range_check.py": [SOUNDNESS, "tests/field/code/test_projections.py"],
    "field/code/consistency.py": [
        SOUNDNESS,
        "tests/field/code/test_linear_digest.py",
        "tests/field/code/test_correct.py",
    ],
    "field/compare/rounding.py": ["tests/field/compare/test_rounding.py"],
    "field/compare/shells.py": ["tests/field/compare/test_shells.py"],
    "field/compare/signs.py": ["tests/field/compare/test_signs.py"],
    "field/compare/witnessed.py": ["tests/field/compare/test_witnessed.py"],
    "field/compare/replicated.py": ["tests/field/compare/test_replicated.py"],
    "field/compare/shared_step.py": ["tests/field/compare/test_hidden.py"],
    "psu/opening.py": UNION,
    "psu/masked.py": UNION,
    "psu/together.py": UNION,
    "psu/tables.py": UNION,
    "psu/identify.py": ["tests/psu/test_identify.py"],
    "psu/merge.py": ["tests/psu/test_merge.py"],
    "psu/oblivious.py": ["tests/psu/test_oblivious.py"],
    "secfc/transport/journal.py": [A8, "tests/secfc/transport/test_checkpoint.py"],
    "secfc/transport/checkpoint.py": [A8, "tests/secfc/transport/test_checkpoint.py"],
    "secfc/disclosure/noise/noise.py": [A8, "tests/secfc/disclosure/test_noise.py"],
    "secfc/disclosure/noise/in_shares.py": ["tests/secfc/disclosure/test_noise.py"],
    "secfc/disclosure/noise/sums.py": ["tests/secfc/disclosure/test_noisy_sums.py"],
    "secfc/disclosure/checked/parts.py": ["tests/secfc/disclosure/checked/test_checked_words.py"],
    "secfc/coded_kmeans/query_order.py": [
        "tests/secfc/active/test_a3_questions.py",
        "tests/secfc/disclosure/test_hidden_sizes.py",
    ],
    "secfc/privacy/accountant.py": ["tests/secfc/privacy/test_accounting.py"],
    "secfc/privacy/ledger.py": ["tests/secfc/privacy/test_accounting.py"],
    "secfc/privacy/mechanisms.py": ["tests/secfc/privacy/test_mechanisms.py"],
    "secfc/privacy/events.py": [
        "tests/secfc/privacy/test_accounting.py",
        "tests/secfc/privacy/test_mechanisms.py",
    ],
    "secfc/deploy/consent.py": ["tests/secfc/deploy/test_consent.py"],
    "secfc/deploy/history.py": ["tests/secfc/deploy/test_history.py"],
    "secfc/scaling/moments.py": ["tests/secfc/scaling/test_scaling.py"],
    "secfc/scaling/quartiles.py": ["tests/secfc/scaling/test_quartiles.py"],
    "secfc/scaling/shared_profile.py": ["tests/secfc/scaling/test_shared_profile.py"],
    "secfc/roles/blame.py": ["tests/secfc/roles/test_blame.py"],
    "secfc/disclosure/compare/computing_party.py": [*LABELS, A8],
    "secfc/disclosure/decoded/polynomials.py": LABELS,
    "secfc/disclosure/compare/session.py": LABELS,
    "secfc/disclosure/compare/server.py": [*LABELS, "tests/secfc/roles/test_abort.py"],
    "secfc/disclosure/decoded/distances.py": [
        *LABELS[1:],
        "tests/secfc/disclosure/decoded/test_verification.py",
    ],
    "secfc/disclosure/dealerless/policy.py": ["tests/secfc/disclosure/test_dealerless.py"],
    "secfc/disclosure/dealerless/steps.py": [
        "tests/secfc/disclosure/test_dealerless.py",
        "tests/secfc/disclosure/test_final_labels.py",
        "tests/secfc/active/test_a9_false_distances.py",
    ],
    "secfc/disclosure/final_labels.py": ["tests/secfc/disclosure/test_final_labels.py"],
    "secfc/coded/messages.py": [A8, "tests/secfc/transport/test_wire.py"],
    "secfc/coded/sharing.py": [
        "tests/secfc/roles/test_protocol.py",
        "tests/secfc/coded/test_faults.py",
        "tests/secfc/coded/test_pairing.py",
        "tests/secfc/coded/test_corrected.py",
    ],
    "secfc/coded/input_check.py": [
        "tests/secfc/coded/test_corrected.py",
        "tests/secfc/roles/test_protocol.py",
        "tests/secfc/coded/test_workers.py",
    ],
    "secfc/coded/quorum.py": [
        "tests/secfc/coded/test_corrected.py",
        "tests/secfc/active/test_a20_last_words.py",
    ],
    "secfc/coded/queries.py": ["tests/secfc/roles/test_protocol.py", "tests/secfc/coded/test_faults.py"],
    "secfc/roles/exchange.py": ["tests/secfc/transport/test_mailbox.py"],
    "secfc/transport/link.py": [
        "tests/secfc/transport/test_channels.py",
        "tests/secfc/active/test_a7_waiting.py",
    ],
    "secfc/transport/channel.py": ["tests/secfc/transport/test_channels.py"],
    "secfc/transport/sealed.py": ["tests/secfc/transport/test_sealed.py"],
    "field/compare/tournament_rounds.py": ["tests/field/compare/test_tournament.py"],
    "secfc/coded/policy.py": [*LABELS[1:], "tests/test_docs.py"],
    "secfc/coded/tags.py": ["tests/secfc/coded/test_membership.py"],
    "secfc/coded_kmeans/secfc.py": [
        "tests/secfc/coded_kmeans/test_exactness.py",
        "tests/secfc/coded/test_corrected.py",
    ],
    "secfc/deploy/flare/job.py": [
        "tests/secfc/deploy/test_flare_bridge.py",
        "tests/secfc/deploy/test_flare_kit.py",
    ],
    "secfc/deploy/flare/pieces.py": ["tests/secfc/deploy/test_flare_bridge.py"],
    "secfc/disclosure/assignments.py": ["tests/secfc/disclosure/test_assignments.py"],
    "secfc/disclosure/own_labels.py": [*OWN, "tests/secfc/disclosure/test_hidden_sizes.py"],
    "secfc/disclosure/owner_labels/backend.py": OWN,
    "secfc/disclosure/owner_labels/dealer.py": [*OWN, "tests/secfc/disclosure/test_owner_labels_views.py"],
    "secfc/disclosure/owner_labels/run_state.py": OWN,
    "secfc/disclosure/owner_labels/server.py": OWN,
    "secfc/federated/columns.py": ["tests/secfc/federated/test_course.py"],
    "secfc/federated/starts.py": [
        "tests/secfc/federated/test_samples.py",
        "tests/secfc/federated/test_course.py",
    ],
    "secfc/secure_sum/plan.py": ["tests/secfc/secure_sum/test_aggregate.py"],
    "field/code/reed_solomon.py": ["tests/field/code/test_correct.py"],
    "secfc/coded/source.py": [
        "tests/secfc/active/test_a1_merged_rows.py",
        "tests/secfc/disclosure/test_owner_labels.py",
    ],
    "secfc/coded/union.py": [
        "tests/secfc/coded/test_lying_relay.py",
        "tests/secfc/active/test_a1_merged_rows.py",
    ],
    "secfc/coded_kmeans/algorithm1.py": ["tests/secfc/coded/test_workers.py"],
    "secfc/coded_kmeans/parameters.py": ["tests/secfc/test_pairs.py"],
    "secfc/coded_kmeans/plaintext.py": ["tests/secfc/coded/test_faults.py"],
    "secfc/coded_kmeans/predict.py": ["tests/secfc/active/test_a3_questions.py"],
    "secfc/coded_kmeans/run_summary.py": ["tests/secfc/cli/test_private_membership.py"],
    "secfc/disclosure/compare/candidates.py": ["tests/secfc/test_pairs.py"],
    "secfc/disclosure/compare/dealer.py": ["tests/secfc/disclosure/test_portions.py"],
    "secfc/disclosure/owner_labels/multiplication.py": ["tests/secfc/disclosure/test_owner_labels.py"],
    "secfc/federated/algorithm.py": ["tests/secfc/secure_sum/test_aggregate.py"],
    "secfc/roles/description.py": ["tests/secfc/roles/test_protocol.py"],
    "secfc/roles/messages.py": ["tests/secfc/active/test_a7_memory.py"],
}
# What else is mutated: all of these, by the tests that import it.
FOLDERS = (
    "field/code", "field/compare", "psu", "secfc/coded", "secfc/coded_kmeans", "secfc/deploy",
    "secfc/disclosure", "secfc/federated", "secfc/pairs.py", "secfc/privacy", "secfc/roles", "secfc/scaling",
    "secfc/secure_sum", "secfc/transport",
)  # fmt: skip
COMPILED = {"psu/hashing.py", "psu/kernels.py"}


def mutated_files() -> list[str]:
    """All files that are mutated, sorted."""
    found = {*TARGETS}
    for folder in FOLDERS:
        path = ROOT / folder
        found |= {str(each.relative_to(ROOT)) for each in ([path] if path.is_file() else path.rglob("*.py"))}
    return sorted(file for file in found - COMPILED if not file.endswith("__init__.py"))


def importing_tests(file: str, most: int = 12) -> list[str]:
    """Test files that import a file, or names of it; those in the folder of the same name first."""
    module = file.removesuffix(".py").replace("/", ".")
    found = [test for test, names in imported_names().items() if module in names]
    return sorted(found, key=lambda test: Path(test).parent != Path("tests", file).parent)[:most]


@cache
def imported_names() -> dict[str, set[str]]:
    """Of each test file the modules, and names of modules, that it imports."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        names = found.setdefault(str(path.relative_to(ROOT)), set())
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", metavar="file", help="all of `mutated_files` by default")
    parser.add_argument("-n", type=int, help="try that many mutants of each file, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--lines", help="only mutants in these lines, as 10-90")
    parser.add_argument("--tests", nargs="+", help="run these instead of the file's own")
    parser.add_argument("--list", action="store_true", help="name the mutants and run nothing")
    options = parser.parse_args(argv)
    files = options.files or mutated_files()
    strangers = [f for f in files if not (options.tests or TARGETS.get(f) or importing_tests(f))]
    if strangers:
        parser.error(f"{', '.join(strangers)}: no test imports it or is named in TARGETS: name --tests")
    first, last = (int(x) for x in (options.lines or "0-1000000").split("-"))
    known = tomllib.loads(KNOWN.read_text())["mutant"]
    bad = 0
    with tempfile.TemporaryDirectory(prefix="mutation-") as directory:
        tree = Path(directory)
        if not options.list:
            copy(tree)
        for file in files:
            everything = mutants(ROOT / file)
            mine = [entry for entry in known if entry["file"] == file]
            stale = [entry for entry in mine if not any(explains(entry, m) for m in everything)]
            for entry in stale:
                print("no such mutant any more:", *entry.values())
            chosen = [m for m in everything if first <= m.line <= last]
            if options.n is not None and options.n < len(chosen):
                chosen = random.Random(options.seed).sample(chosen, options.n)
            chosen.sort(key=lambda m: m.line)
            if options.list:
                print(*(f"{file}:{m}" for m in chosen), sep="\n")
                continue
            tries = [options.tests] if options.tests else [TARGETS.get(file, []), importing_tests(file)]
            bad += len(stale) + survivors(tree, file, chosen, tries, mine)
    return int(bad > 0)


def explains(entry: dict[str, str], mutant: Mutant) -> bool:
    """Whether an entry of equivalent.toml is about this mutant of its file; no `new` is about any."""
    return (
        entry["where"] in mutant.where
        and entry["old"] == mutant.old
        and entry.get("new", mutant.new) == mutant.new
    )


def copy(tree: Path) -> None:
    """The files that tests need, compiled kernels among them."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            # Times are kept, else the kernels' cache is stale.
            shutil.copytree(source, tree / name, copy_function=shutil.copy2)
        else:
            shutil.copy2(source, tree / name)


def survivors(
    tree: Path, file: str, chosen: list[Mutant], tries: list[list[str]], known: list[dict[str, str]]
) -> int:
    """Try each mutant of one file, and say which lived; how many of these are not explained."""
    path, original = tree / file, (ROOT / file).read_bytes()
    start = time.monotonic()
    left = {mutant: "equivalent" for mutant in chosen if any(explains(entry, mutant) for entry in known)}
    for asked in tries:
        trying = [mutant for mutant in chosen if left.get(mutant, "lived") == "lived"]
        if not trying or not asked:
            continue
        path.write_bytes(original)
        begun = time.monotonic()
        if attempt(tree, asked, 3600.0) != "lived":
            raise SystemExit(f"the tests of {file} fail without any mutant: {' '.join(asked)}")
        patience = 20 + 4 * (time.monotonic() - begun)
        for mutant in trying:
            path.write_bytes(mutant.apply(original))
            left[mutant] = attempt(tree, asked, patience)
    path.write_bytes(original)
    for mutant in chosen:
        if left[mutant] == "lived":
            print(f"{file}:{mutant}", flush=True)
    count, took = Counter(left.values()), time.monotonic() - start
    print(f"{file}: {len(chosen)} mutants in {took:.0f} s, {dict(count)}", flush=True)
    return count["lived"]


def attempt(tree: Path, tests: list[str], patience: float) -> str:
    """What became of the tree as it is now: lived, killed or timed out."""
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        os._exit(_run(tree, tests))
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "lived" if status == 0 else "killed"
        time.sleep(0.02)
    # Also what the tests started.
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timed out"


def _run(tree: Path, tests: list[str]) -> int:
    """In the child: the exit code of the tests, in the copy and with its modules."""
    os.chdir(tree)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    # The size and the second of a mutant may be those of the last one: no bytecode may outlive it.
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    for cached in tree.glob("*/**/*.pyc"):
        cached.unlink()
    sys.path[:] = [str(tree), *(p for p in sys.path if Path(p or ".").resolve() != ROOT)]
    for name in [m for m in sys.modules if m.split(".")[0] in ("field", "psu", "secfc", "tests")]:
        del sys.modules[name]
    import pytest

    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))


def preload() -> None:
    """Load what every test loads; nothing of the tree itself, and nothing that starts threads."""
    import _pytest.config  # noqa: F401
    import cryptography.hazmat.primitives.ciphers  # noqa: F401
    import galois  # noqa: F401
    import numba  # noqa: F401
    import numpy  # noqa: F401
    import scipy.stats  # noqa: F401
    import sklearn.datasets  # noqa: F401
    import sympy  # noqa: F401


if __name__ == "__main__":
    preload()
    raise SystemExit(main())
