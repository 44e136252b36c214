"""Output files: checked before anything is computed, and written whole or not at all."""

from __future__ import annotations

import csv
import errno
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from field.ring.errors import install_command
from secfc.cli.shell.errors import RefusedInput

STDOUT = Path("-")  # what it means by custom


def check_output(path: Path, option: str, inputs: Iterable[Path], *, force: bool) -> None:
    """Raise Refused if this file could not or must not be written."""
    if path == STDOUT:
        raise RefusedInput(
            f"{option} - would make a file of that name: name a file. --json prints the report."
        )
    try:
        _check(path, option, inputs, force)
    except OSError as error:  # a directory that may not be searched, a name that is too long
        raise RefusedInput(f"{option} {path}: {error.strerror}. Name another.") from error


TABLES = (".xlsx", ".xls", ".parquet", ".feather", ".npz", ".npy", ".gz", ".zip")


def check_csv(path: Path | None, option: str) -> None:
    """Raise Refused for a name that promises another kind of table than CSV."""
    if path is not None and path.suffix.lower() in TABLES:
        raise RefusedInput(
            f"{option} {path}: what is written is CSV, and a file called so is another kind. Name "
            f"{path.with_suffix('.csv')}, which spreadsheets open."
        )


PICTURES = (".png", ".pdf", ".svg", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".eps", ".ps", ".svgz")


def check_picture(path: Path | None, option: str) -> None:
    """Raise Refused for a picture whose name says no format that there is."""
    if path is not None and path.suffix.lower() not in PICTURES:
        raise RefusedInput(
            f"{option} {path}: the ending of its name says the format of a picture, one of "
            f"{', '.join(PICTURES)}. Name {path.with_name(path.name + '.png')}."
        )


def _check(path: Path, option: str, inputs: Iterable[Path], force: bool) -> None:
    parent = path.resolve().parent
    if not parent.is_dir():
        raise RefusedInput(f"{option} {path}: the directory {parent} does not exist. Create it first.")
    if path.is_dir():
        raise RefusedInput(f"{option} {path} is a directory: name a file in it.")
    if path.exists() and not path.is_file():
        raise RefusedInput(f"{option} {path} is no regular file, and would be replaced. Name another.")
    if any(path.exists() and file.exists() and path.samefile(file) for file in inputs):
        raise RefusedInput(f"{option} {path} is one of the input files. Name another.")
    if path.exists() and not force:
        raise RefusedInput(
            f"{path} exists already. Choose another name with {option}, or overwrite with --force."
        )
    if path.exists() and not os.access(path, os.W_OK):
        raise RefusedInput(f"{option} {path} may not be written to. Change its permissions, or name another.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise RefusedInput(f"{option} {path}: files may not be created in {parent}. Name another directory.")


def check_folder(path: Path, option: str, *, force: bool) -> None:
    """Raise Refused if this is no directory that is empty or can be made.  force: or holds files."""
    try:
        if path.exists() and not path.is_dir():
            raise RefusedInput(f"{option} {path} is a file: name a directory.")
        if path.is_dir() and any(path.iterdir()) and not force:
            raise RefusedInput(
                f"{option} {path} holds files: name another directory, or overwrite with --force."
            )
        parent = path if path.is_dir() else path.resolve().parent
        if not parent.is_dir():
            raise RefusedInput(f"{option} {path}: the directory {parent} does not exist. Create it first.")
        if not os.access(parent, os.W_OK | os.X_OK):
            raise RefusedInput(
                f"{option} {path}: nothing may be created in {parent}. Name another directory."
            )
    except OSError as error:
        raise RefusedInput(f"{option} {path}: {error.strerror}. Name another.") from error


@contextmanager
def explaining_writes(options: str) -> Iterator[None]:
    """Within the body, a failure to write is the user's to mend, with these options."""
    try:
        yield
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        raise RefusedInput(
            f"the results could not be written ({name}{error.strerror}). Choose another place with {options}."
        ) from error


def csv_of(lines: Iterable[Sequence[Any]]) -> Callable[[Any], None]:
    """A function that writes these lines to an open file."""
    return lambda file: csv.writer(file, lineterminator="\n").writerows(lines)


def json_text(report: Mapping[str, Any]) -> str:
    """A report as JSON text."""
    return json.dumps(report, indent=2, allow_nan=False)


def write_all(
    texts: Mapping[Path, Callable[[Any], None]], *, overwrite: bool, private: Collection[Path] = ()
) -> None:
    """Write files so that each is complete or untouched, and none is touched if one cannot be written.

    texts[path] is handed an open text file.  An existing file keeps its permissions, a link its place.
    private: of these paths, those that only their owner may read, also where they exist.

    Raises OSError: FileExistsError for an existing file without overwrite, and for no regular file.
    """
    ready: dict[Path, Path] = {}
    try:
        for path, write in texts.items():
            target = path.resolve()
            if target.exists() and not target.is_file():  # a device must never be replaced by a file
                raise FileExistsError(errno.EEXIST, "it is no regular file", str(target))
            draft = target.with_name(f".secfc-{os.getpid()}-{len(ready)}.tmp")
            mode = 0o600 if path in private else 0o666
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            ready[draft] = target
            if target.exists() and path not in private:
                draft.chmod(target.stat().st_mode & 0o777)
            with open(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
        for target in ready.values():
            if target.exists() and not overwrite:
                raise FileExistsError(errno.EEXIST, "it exists already", str(target))
        for draft, target in ready.items():
            os.replace(draft, target)
    finally:
        for draft in ready:
            draft.unlink(missing_ok=True)


def write_picture(figure: Callable[[], Any], path: Path, option: str = "--plot") -> None:
    """Write the picture that `figure` makes, asked for with this option.  Raises Refused."""
    try:
        figure().savefig(path, dpi=150)
    except ImportError as error:
        raise RefusedInput(f"{option} needs matplotlib: {install_command('[plot]')}.") from error
    except (OSError, ValueError) as error:
        raise RefusedInput(f"{option} {path} cannot be written: {error}") from error
