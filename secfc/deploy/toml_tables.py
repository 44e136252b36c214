"""TOML with every value looked at once: what is missing, of another kind or unknown is refused by its key."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from secfc.errors import InputError

_NEEDED: Any = object()


class TomlTable:
    """A table of a file.  where: how errors speak of it."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.where, self._values, self._seen = where, dict(values), set[str]()

    def __repr__(self) -> str:
        return f"Table({self.where!r}, {len(self._values)} keys)"

    @property
    def names(self) -> Collection[str]:
        """The keys, in the order of the file."""
        return tuple(self._values)

    def get(self, key: str, kinds: type | tuple[type, ...], default: Any = _NEEDED) -> Any:
        """A value of one of these kinds.  Raises InputError for another, or none where no default is."""
        self._seen.add(key)
        if key not in self._values:
            if default is _NEEDED:
                raise InputError(f"{self.where}: {key} is missing. Add a line {key} = ...")
            return default
        value = self._values[key]
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            wanted = " or ".join(WORDS[kind] for kind in kinds)
            raise InputError(f"{self.where}: {key} = {_short(value)}: {wanted} is needed")
        return value

    def text(self, key: str, default: Any = _NEEDED) -> str:
        """A string."""
        return str(self.get(key, str, default))

    def number(self, key: str, default: Any = _NEEDED) -> float:
        """A number."""
        return float(self.get(key, (int, float), default))

    def bytes(self, key: str, size: int) -> bytes:
        """So many bytes, in hexadecimal digits."""
        text = self.text(key)
        try:
            data = bytes.fromhex(text)
        except ValueError:
            data = b""
        if len(data) != size:
            raise InputError(
                f"{self.where}: {key} = {_short(text)}: {2 * size} hexadecimal digits are needed"
            )
        return data

    def texts(self, key: str, default: Any = _NEEDED) -> tuple[str, ...]:
        """A list of strings."""
        found = self.get(key, list, default)
        if not all(isinstance(item, str) for item in found):
            raise InputError(f"{self.where}: {key} = {_short(found)}: a list of strings is needed")
        return tuple(found)

    def table(self, key: str, default: Any = _NEEDED) -> TomlTable:
        """A table in it."""
        return TomlTable(self.get(key, dict, default), f"{self.where}, [{key}]")

    def plain(self, key: str) -> dict[str, Any]:
        """A table of values that others look at; empty where there is none."""
        return {k: _tuples(v) for k, v in self.get(key, dict, {}).items()}

    def lists(self, key: str) -> dict[str, tuple[str, ...]]:
        """A table of lists of strings; empty where there is none."""
        part = self.table(key, {})
        return {name: part.texts(name) for name in part.names}

    def finish(self) -> None:
        """Raises InputError for a key that nobody asked for: who writes one expects an effect."""
        if unknown := [key for key in self._values if key not in self._seen]:
            raise InputError(
                f"{self.where}: {unknown[0]!r} is no key that is known. Correct it, or leave it out; known "
                f"are {', '.join(sorted(self._seen))}"
            )


WORDS: Mapping[type, str] = {
    str: "a string", int: "a whole number", float: "a number", bool: "true or false", list: "a list",
    dict: "a table",
}  # fmt: skip


def read_table(path: Path, where: str) -> TomlTable:
    """The table that a file is.  Raises InputError for what is no TOML; OSError."""
    try:
        return TomlTable(tomllib.loads(path.read_text(encoding="utf-8-sig")), where)
    except UnicodeDecodeError:
        raise InputError(f"{where} is no text in UTF-8: save it as that, or write it anew") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is no TOML: {error}. Correct it, or write it anew") from None


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _short(value: Any) -> str:
    # Python writes no number of more than 4,300 digits.
    text = "a long number" if isinstance(value, int) and value.bit_length() > 200 else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
