"""Damaged files of every kind are read as something, or refused as input, and in bounded memory."""

from __future__ import annotations

import gzip
import io
import json
import random
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from secfc import Federation
from secfc.data import dialects
from secfc.data.linkage import Linkage, LinkageField, read_linkage
from secfc.data.model_file import ModelFile
from secfc.data.party import Party
from secfc.deploy.history import PastRun, SiteHistory
from secfc.deploy.runfile import RunFile
from secfc.deploy.site import SiteFile
from secfc.errors import InputError
from secfc.privacy.budget_file import BudgetLedger, RunRecord
from tests.nightly import short

FRAME = pd.DataFrame(
    {"patient": [f"p{i}" for i in range(12)], "age": range(30, 42), "crp": np.linspace(0.5, 9, 12)}
)
SITE = '[site]\nparty = "a"\nrun = "run.toml"\nkey = "a.key"\n\n[data]\npath = "a.csv"\nskip = "1-2"\n'


def rows(path: Path) -> Any:
    read = Federation.from_files(path, id_column="patient")
    return [party.read() for party in read.parties]


def points(path: Path) -> Any:
    return [party.read() for party in Federation.from_files(path).parties]


def sample(folder: Path, kind: str) -> tuple[Path, Callable[[Path], Any]]:
    """A whole file of a kind, and what reads it."""
    path = folder / f"a.{kind}"
    numbers = FRAME[["age", "crp"]].to_numpy()
    if kind == "csv":
        FRAME.to_csv(path, index=False)
    elif kind in ("csv.gz", "csv.zip"):
        FRAME.to_csv(path, index=False, compression={"gz": "gzip", "zip": "zip"}[kind[4:]])
    elif kind == "xlsx":
        FRAME.to_excel(path, index=False)
    elif kind == "parquet":
        FRAME.to_parquet(path)
    elif kind == "npz":
        np.savez(path, X=numbers, feature_names=np.array(["age", "crp"]))
        return path, points
    elif kind == "npy":
        np.save(path, numbers)
        return path, points
    elif kind == "model":
        ModelFile(b"terms", "", "kind", {"a": 1}, {"x": numbers}, 3, 0).write(path)
        return path, ModelFile.read
    elif kind == "ledger":
        book = BudgetLedger(path, bytes(32)).within(4.0)
        book.enter_run(RunRecord("ab" * 8, "2026-01-01T00:00:00", "SecFC", 1.0, 1e-6)).write()
        return path, BudgetLedger.read
    elif kind == "remembered":
        party = Party("a", numbers)
        SiteHistory.load(path).with_run(b"1" * 32, PastRun("11" * 32, 2.0, 300), party).write()
        return path, SiteHistory.load
    elif kind == "run.toml":
        identities = {name: bytes([i]) * 32 for i, name in enumerate(("b", "a", "c", "server"), 1)}
        run = RunFile("a run", bytes(32), "ws://hub", identities, ("age", "crp"), "secfc", 4, {"t": 1}, {})
        path.write_text(run.toml())
        return path, RunFile.read
    elif kind == "site.toml":
        path.write_text(SITE)
        return path, SiteFile.read
    elif kind == "schema.toml":
        path.write_text('[[field]]\ncolumn = "patient"\nwidth = 10\n')
        assert read_linkage(path) == Linkage((LinkageField("patient", width=10),))
        return path, read_linkage
    return path, rows


KINDS = (
    "csv", "csv.gz", "csv.zip", "xlsx", "parquet", "npz", "npy", "model", "ledger", "remembered", "run.toml",
    "site.toml", "schema.toml",
)  # fmt: skip
TOKENS = [b"[" * 3000, b"9" * 5000, b"1e999", b"Infinity", b"NaN", b'"', b"\x00", b"\xff\xfe", b"-", b"\n\n",
          b"{}", b"null", b"\r", b"true", b"<row", b"&#0;"]  # fmt: skip


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The bytes with one to three faults: changed, cut off, left out, repeated or put in."""
    for _ in range(rng.randint(1, 3)):
        at, to = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        match rng.randrange(6):
            case 0:
                data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
            case 1:
                data = data[:at]
            case 2:
                data = data[:at] + data[min(to, at + 40) :]
            case 3:
                data = data[:to] + data[at:to][:2000] + data[to:]
            case 4:
                data = data[:at] + rng.choice(TOKENS) + data[at:]
            case _:
                data = data[:at] + bytes(b ^ 8 for b in data[at : at + 4]) + data[at + 4 :]
        if not data:
            return data
    return data


def damaged_within(data: bytes, rng: random.Random) -> bytes:
    """An archive with a fault in one of its parts, whole as an archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(out, "w") as made:
        names = archive.namelist()
        chosen = rng.choice(names)
        for name in names:
            part = archive.read(name)
            if name != chosen or rng.random() < 0.9:
                made.writestr(name, damaged(part, rng) if name == chosen else part)
    return out.getvalue()


def attempt(path: Path, data: bytes, read: Callable[[Path], Any]) -> str:
    """Read these bytes: "read" or "refused"; all other errors come through."""
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read(path)
        except (InputError, OSError):
            return "refused"
    return "read"


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, kind: str) -> None:
    path, read = sample(tmp_path, kind)
    data, rng, found = path.read_bytes(), random.Random(kind), set[str]()
    assert attempt(path, data, read) == "read"
    count = short(40, nightly=3500)
    if kind == "xlsx":
        count //= 2
    for number in range(count):
        inside = kind in ("xlsx", "npz", "model", "csv.zip") and number % 2 == 0
        found.add(attempt(path, (damaged_within if inside else damaged)(data, rng), read))
    assert "refused" in found


SHAPE = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1073741824, 8192), }"
HUGE = b"\x93NUMPY\x01\x00v\x00" + SHAPE.ljust(117) + b"\n"

HOSTILE: dict[str, tuple[str, bytes]] = {
    "nesting, of a ledger": ("ledger", b'{"runs":' + b"[" * 100_000),
    "nesting, of what is remembered": ("remembered", b"[" * 100_000),
    "nesting, of TOML": ("run.toml", b"x = " + b"[" * 100_000),
    "nesting, of a schema": ("schema.toml", b"x = " + b"[" * 100_000),
    "5,000 digits, of JSON": ("remembered", b'{"version": ' + b"9" * 5000 + b"}"),
    "5,000 digits, of TOML": ("run.toml", b"x = " + b"9" * 5000),
    "5,000 digits, of a cell": ("csv", b"patient,x\np0," + b"9" * 5000 + b"\np1,2\n"),
    "an infinite version": ("ledger", json.dumps({"version": float("inf")}).encode()),
    "an infinite limit": ("site.toml", SITE.encode() + b"\n[floors]\ntotal_epsilon = inf\n"),
    "an array that asks for much": ("npy", HUGE),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(tmp_path: Path, name: str) -> None:
    kind, data = HOSTILE[name]
    path, read = sample(tmp_path, kind)
    assert attempt(path, data, read) == "refused"


@pytest.mark.parametrize("columns", [20_000])
def test_many_columns_take_time_in_proportion(tmp_path: Path, columns: int) -> None:
    """A header is looked through once and not once for each of its names."""
    path = tmp_path / "a.csv"
    names = ",".join(f"x{i}" for i in range(columns))
    path.write_text(f"{names}\n" + ",".join(["1.5"] * columns) + "\n")
    assert Federation.from_files(path).d == columns


@pytest.mark.parametrize("kind", ["csv.gz", "csv.zip", "xlsx", "npz"])
def test_an_archive_that_unpacks_to_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Beyond 64 MB no more than 200 times its own bytes; here beyond 4 kB no more than as many."""
    path, read = sample(tmp_path, kind)
    if kind == "csv.gz":
        path.write_bytes(gzip.compress(b"patient,x\n" + b"".join(b"p%d,1\n" % i for i in range(10_000))))
    elif kind == "csv.zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.csv", "patient,x\n" + "p,1\n" * 10_000)
    elif kind == "npz":
        np.savez_compressed(path, X=np.zeros((10_000, 2)), feature_names=np.array(["age", "crp"]))
    assert kind == "csv.zip" or attempt(path, path.read_bytes(), read) == "read"
    monkeypatch.setattr(dialects, "UNPACKED", 1 << 12)
    monkeypatch.setattr(dialects, "FOLD", 1)
    with pytest.raises(InputError, match="unpacks to more than 1 times its bytes"):
        read(path)


def test_a_cell_takes_few_bytes(tmp_path: Path) -> None:
    """At most 64 bytes a cell of numbers at once, as Python counts what it allocates."""
    path, count = tmp_path / "a.csv", 40_000
    path.write_text("x,y,z,w\n" + "1.5,22.25,-3.125,1e-3\n" * count)
    Federation.from_files(path)
    tracemalloc.start()
    Federation.from_files(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 64 * 4 * count
