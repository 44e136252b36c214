"""Rehearsals are kept on disk, so that the same plan is there at once when it is looked at again.

Nothing of anybody's data is in them: rows are made up.  A change of the code, of libraries or of the machine
makes them anew.  The directory is `SECFC_CACHE`, by default `~/.cache/secfc`; where it cannot be written,
nothing is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import secfc
from secfc.algorithm import Public
from secfc.planning.costs import Cost
from secfc.planning.estimate import Priced, machine, priced

PARTS = ("messages", "sizes")


def kept(algorithm: Any, public: Public, plan: Any) -> Priced:
    """What questions cost: as it was found before, else found now."""
    file = directory() / f"{key(algorithm, public)}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return read(json.loads(file.read_text()))
    found = priced(algorithm, public, plan)
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        waiting = file.with_suffix(f".{os.getpid()}")
        waiting.write_text(json.dumps(written(found)))
        waiting.replace(file)
    return found


def directory() -> Path:
    """Where."""
    base = os.environ.get("SECFC_CACHE")
    return Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "secfc"


def key(algorithm: Any, public: Public) -> str:
    """Of the same algorithm, the same public facts and the same code on the same machine."""
    points = public.server_points
    held = b"" if points is None else points.tobytes()
    facts = (algorithm, public.clients, public.counts, public.d, public.bound, public.observed, public.seed)
    said = repr((facts, machine(), os.cpu_count(), code()))
    return hashlib.blake2b(said.encode() + held, digest_size=16).hexdigest()


@cache
def code() -> str:
    """What changes when a file of the packages does."""
    root = Path(secfc.__file__).parents[1]
    files = [file for package in ("field", "psu", "secfc") for file in sorted((root / package).rglob("*.py"))]
    stamps = [(file.name, (found := file.stat()).st_mtime_ns, found.st_size) for file in files]
    return hashlib.blake2b(repr(stamps).encode(), digest_size=16).hexdigest()


def written(found: Priced) -> dict[str, Any]:
    """As JSON has it."""
    return {
        **{name: getattr(found, name) for name in
           ("order", "steps", "rows", "growth", "loaded", "learned", "heard", "last", "machine")},
        "step": _cost(found.step),
        "kinds": [[asked, _cost(cost)] for asked, cost in found.kinds.items()],
    }  # fmt: skip


def read(text: dict[str, Any]) -> Priced:
    """Raises KeyError, TypeError or ValueError for what is none."""
    last = text["last"]
    return Priced(
        tuple(map(tuple, text["order"])),
        {tuple(asked): _read(cost) for asked, cost in text["kinds"]},
        _read(text["step"]),
        int(text["steps"]),
        tuple(text["rows"]),
        int(text["growth"]),
        int(text["loaded"]),
        tuple(text["learned"]),
        tuple(text["heard"]),
        None if last is None else tuple(last),
        str(text["machine"]),
    )


def _cost(cost: Cost) -> dict[str, Any]:
    tables = {name: [[*kind, value] for kind, value in getattr(cost, name).items()] for name in PARTS}
    return {**asdict(cost), **tables}


def _read(text: dict[str, Any]) -> Cost:
    tables = {name: {(way, kind): value for way, kind, value in text[name]} for name in PARTS}
    return Cost(**{**text, **tables})
