"""Kernels that the installed package has compiled already serve the checkout that the tests run from.

numba keeps compiled kernels beside their source, under a digest of it: what an equal file elsewhere has
compiled holds here too. The suite would else spend its first minutes on compiling what the README's first
command compiled a moment ago.
"""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

PACKAGES = "field", "psu", "secfc"


def take(here: Path, installed: Path) -> int:
    """Copies kept kernels of every file that is equal in both places and has none here; says how many."""
    taken = 0
    for source in (file for package in PACKAGES for file in (here / package).rglob("*.py")):
        there, kept = installed / source.relative_to(here), source.parent / "__pycache__"
        names = f"{source.stem}.*.nb[ci]"
        if not there.exists() or there.read_bytes() != source.read_bytes() or [*kept.glob(names)]:
            continue
        for kernel in sorted((there.parent / "__pycache__").glob(names)):
            kept.mkdir(exist_ok=True)
            shutil.copy2(kernel, kept / kernel.name)
            taken += 1
    return taken


def take_installed() -> int:
    """`take` for this checkout, from the environment that the tests run in."""
    return take(Path(__file__).resolve().parents[1], Path(sysconfig.get_path("purelib")))
