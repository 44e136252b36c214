"""Which copy of the code a benchmark in a clone runs: the installed one, if it is the same.

Compiled kernels are kept beside the source they were compiled from.  `python -m benchmarks.X` finds the
packages of the clone first, so it would compile all kernels a second time beside an installed copy.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

PACKAGES = ("secfc", "field", "psu")
ROOT = Path(__file__).resolve().parent.parent


def source(folder: Path) -> bytes:
    """A digest of all Python source of the packages in a folder."""
    digest = hashlib.sha256()
    for file in sorted(file for package in PACKAGES for file in (folder / package).rglob("*.py")):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
    return digest.digest()


def prefer_installed(path: list[str], root: Path = ROOT) -> Path | None:
    """Put the folder of an installed copy that equals the clone's code first: that folder, or None."""
    for entry in path:
        folder = Path(entry).resolve()
        if folder == root or not all((folder / name / "__init__.py").is_file() for name in PACKAGES):
            continue
        if source(folder) != source(root):
            return None  # other code: what stands in the clone is measured
        path.remove(entry)
        path.insert(0, entry)
        return folder
    return None


def choose() -> None:
    """Do so for this process, unless the code is loaded already."""
    if not any(name in sys.modules for name in PACKAGES):
        prefer_installed(sys.path)
