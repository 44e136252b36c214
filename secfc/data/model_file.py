"""The file in which one party keeps its part of a model: numbers and arrays, no code; secret as a journal.

An .npz file: arrays, and a JSON text of everything else, with a checksum over all.  It names the run and the
party that it belongs to, and how many new points may still be labeled, which is written down before anything
is said.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from field.arrays import Array
from secfc.data.inputs import write_private
from secfc.errors import InputError, refuse_damaged

PartyId = str

VERSION = 1


@dataclass(frozen=True, eq=False, repr=False)
class ModelFile:
    """terms: the digest of the run file (32 bytes), zeros without one.  party: whose it is, "" for all.
    kind: "shares", of hidden centers, or "centers", which the party knows.  facts, arrays: of the model.
    left: new points that may still be labeled, None without a limit.  number: of the last prediction.
    """

    terms: bytes
    party: PartyId
    kind: str
    facts: Mapping[str, Any]
    arrays: Mapping[str, Array] = field(default_factory=dict)
    left: int | None = None
    number: int = 0

    def __repr__(self) -> str:
        return f"Kept({self.party!r}, {self.kind})"

    def after(self, number: int, points: int) -> ModelFile:
        """With this prediction, of so many new points at all sites, spent."""
        return replace(self, number=number, left=None if self.left is None else self.left - points)

    def write(self, path: Path) -> None:
        """To its file, of mode 0600, whole or not at all.  Raises OSError."""
        text = json.dumps({
            "version": VERSION, "terms": self.terms.hex(), "party": self.party, "kind": self.kind,
            "facts": dict(self.facts), "left": self.left, "number": self.number,
        }, sort_keys=True)  # fmt: skip
        arrays = {name: np.ascontiguousarray(array) for name, array in self.arrays.items()}
        out = io.BytesIO()
        sum_ = np.frombuffer(_checksum(text, arrays), np.uint8)
        np.savez(out, secfc=np.frombuffer(text.encode(), np.uint8), checksum=sum_, **arrays)  # type: ignore[arg-type]
        write_private(path, out.getvalue())

    @classmethod
    def read(cls, path: Path) -> ModelFile:
        """Raises InputError for a file that is none, is damaged or of a newer version; OSError."""
        with (
            refuse_damaged(
                f"{path} is no model: `secfc run --model` writes one, and `secfc deploy join` to its results"
            ),
            np.load(path, allow_pickle=False) as found,
        ):
            arrays = {name: found[name] for name in found.files if name not in ("secfc", "checksum")}
            text, sum_ = found["secfc"].tobytes().decode(), found["checksum"].tobytes()
            said = json.loads(text)
            version = said["version"]
        if sum_ != _checksum(text, arrays):
            raise InputError(f"{path} was changed since it was written: restore it")
        if version != VERSION:
            raise InputError(
                f"{path} is of version {version}, and this software reads {VERSION}: use the software that "
                "wrote it"
            )
        return cls(
            bytes.fromhex(said["terms"]), said["party"], said["kind"], said["facts"], arrays, said["left"],
            said["number"],
        )  # fmt: skip


def _checksum(text: str, arrays: Mapping[str, Array]) -> bytes:
    state = hashlib.blake2b(text.encode(), digest_size=16, person=b"secfc model")
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        state.update(f"{name} {array.dtype.str} {array.shape}".encode())
        state.update(array.tobytes())
    return state.digest()
