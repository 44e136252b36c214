"""Labels as files: a line a row, with the IDs that sites gave their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secfc.cli.outputs import csv_of

if TYPE_CHECKING:
    from secfc.data.federation import Federation
    from secfc.data.linkage import Linkage
    from secfc.data.party import Party

Line = Sequence[Any]


def label_lines(
    federation: Federation,
    found: Sequence[Any],
    kept: Mapping[str, Any] | None = None,
    linkage: Linkage | None = None,
) -> Iterator[Line]:
    """Rows of a file of all clients, its header first: client, row, ID if any client has IDs, label.

    found: labels, an array a client.  kept: by client which of its rows these are, where some were dropped.
    linkage: whose columns make an ID; they are written as they were compared.
    """
    with_ids = any(party.ids is not None for party in federation.parties)
    yield ("client", "row", *_header(with_ids, linkage), "label")
    for party, labels in zip(federation.parties, found, strict=True):
        rows = None if kept is None else kept[party.name]
        for row, label, name in _each(party, labels, rows):
            yield (party.name, row, *(_cells(name, linkage) if with_ids else ()), label)


def own_lines(party: Party, labels: Any, kept: Any = None, linkage: Linkage | None = None) -> Iterator[Line]:
    """Rows of the file of one site: row (counted from 0 in its file), ID if rows have one, label.

    labels: (m_j,), -1 for a row that has none.  kept: which of its rows these are, None for all.
    """
    with_ids = party.ids is not None
    yield ("row", *_header(with_ids, linkage), "label")
    for row, label, name in _each(party, labels, kept):
        yield (row, *(_cells(name, linkage) if with_ids else ()), label)


def of_each_site(
    folder: Path, federation: Federation, found: Sequence[Any], kept: Any, linkage: Linkage | None
) -> dict[Path, Callable[[Any], None]]:
    """What is written to a file of each site, with its own IDs and labels only."""
    sites = zip(federation.parties, found, strict=True)
    return {
        site_file(folder, party.name): csv_of(
            own_lines(party, labels, None if kept is None else kept[party.name], linkage)
        )
        for party, labels in sites
    }


def site_file(folder: Path, name: str) -> Path:
    """Where the labels of a site go, whatever it is called."""
    safe = "".join(c if c.isalnum() or c in "-_. " else f"%{ord(c):02x}" for c in name)
    return folder / f"{safe.lstrip('.') or '%2e'}.csv"


def _header(with_ids: bool, linkage: Linkage | None) -> tuple[str, ...]:
    if not with_ids:
        return ()
    return ("id",) if linkage is None else linkage.columns


def _each(party: Party, labels: Any, kept: Any) -> Iterator[tuple[int, int, Any]]:
    places = party.places if kept is None or party.rows is not None else kept
    ids = party.ids or ("",) * len(labels)
    return zip(places.tolist(), labels.tolist(), ids, strict=True)


def _cells(name: Any, linkage: Linkage | None) -> Line:
    """An ID as it can be written; empty cells for a client without."""
    if linkage is not None:
        return linkage.texts(name)
    return (name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name,)
