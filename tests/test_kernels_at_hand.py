"""Compiled kernels are taken from an installed package only where its source is the same."""

import subprocess
import sys
from pathlib import Path

from tests.kernels_at_hand import take


def test_only_kernels_of_equal_files_are_taken_and_none_is_overwritten(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for root, other in ((here, "x = 1"), (there, "x = 2")):
        (root / "field" / "__pycache__").mkdir(parents=True)
        (root / "field" / "same.py").write_text("y = 1")
        (root / "field" / "other.py").write_text(other)
        (root / "field" / "own.py").write_text("z = 1")
    for name in ("same.f-3.py311.nbi", "same.f-3.py311.1.nbc", "other.f-3.py311.nbi", "own.f-3.py311.nbi"):
        (there / "field" / "__pycache__" / name).write_text("theirs")
    (here / "field" / "__pycache__" / "own.f-3.py311.nbi").write_text("ours")
    assert take(here, there) == 2
    kept = {file.name: file.read_text() for file in (here / "field" / "__pycache__").iterdir()}
    assert kept == {
        "same.f-3.py311.nbi": "theirs",
        "same.f-3.py311.1.nbc": "theirs",
        "own.f-3.py311.nbi": "ours",
    }
    assert take(here, there) == 0


def test_processes_that_tests_start_elsewhere_run_the_checkout(tmp_path: Path) -> None:
    line = [sys.executable, "-c", "import secfc; print(secfc.__file__)"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).parents[1] == Path(__file__).parents[1]
