"""What a run writes, looked at before anything is computed."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from field.ring.errors import install_command
from secfc.cli.shell.errors import RefusedInput
from secfc.cli.shell.method import AskedOptions
from secfc.cli.shell.outputs import (
    STDOUT,
    check_csv,
    check_folder,
    check_output,
    check_picture,
    csv_of,
    explaining_writes,
    json_text,
    write_all,
)
from secfc.cli.shell.settings import LABELS, REPORT, ForOfficers, Settings

if TYPE_CHECKING:
    from secfc.data.federation import Federation
    from secfc.data.linkage import Linkage
    from secfc.data.party import Party
    from secfc.report import Report


def check_officer(given: ForOfficers) -> None:
    """Raise UsageError for words without a page, Refused for a page that is no page."""
    if given.fill and given.officer is None:
        raise click.UsageError("--fill is about a page: add --officer page.html, or leave it out.")
    if given.officer is not None and given.officer.suffix.lower() not in PAGES:
        raise RefusedInput(f"--officer {given.officer}: name a file that ends in .html.")


PAGES = (".html", ".htm")


def check_distinct(settings: Settings, labels: Path | None, reports: Sequence[Path]) -> None:
    """Raise Refused for two results that would go to one place."""
    if labels == STDOUT and settings.as_json:
        raise RefusedInput("--labels - and --json both want stdout: name a file, as --labels labels.csv.")
    others = [report.resolve() for report in reports]
    public = None if settings.publish is None else settings.publish.resolve()
    if labels and labels.resolve() in (*others, public):
        raise RefusedInput(f"--labels and --report are both {labels}: give them different names.")
    if public in others:
        raise RefusedInput(f"--publish {settings.publish} is a --report too: give it another name.")
    if len(set(others)) < len(others):
        raise RefusedInput(f"--report {reports[-1]} is there twice: name every file once.")
    taken = (*others, public, labels and labels.resolve())
    for option, path in (("--plot", settings.plot), ("--officer", settings.officer)):
        if path and path.resolve() in taken:
            raise RefusedInput(f"{option} {path} is written to already: give it another name.")


def check_unlabeled(settings: Settings) -> None:
    """Raise Refused where labels are to be written of a run in which nobody has any."""
    for option, path in (("--labels", settings.labels), ("--site-labels", settings.site_labels)):
        if path is not None:
            raise RefusedInput(
                f"{option} {path}: under noisy sums of joined columns nobody has a label, which would tell "
                f"one owner of the columns of others: leave {option} out."
            )


def next_names(names: Sequence[Path]) -> tuple[Path, ...]:
    """Names of files in this folder, or the same with the first number from 2 on that none of them has."""
    for number in itertools.count(1):
        tried = tuple(n if number == 1 else n.with_stem(f"{n.stem}-{number}") for n in names)
        if not any(path.exists() for path in tried):
            break
    return tried


def free_names(names: Sequence[Path | None]) -> list[Path | None]:
    """Each name, or its next that is neither taken nor another of these; None stays."""
    found = list[Path | None]()
    for place, name in enumerate(names):
        others = {other for other in (*found, *names[place + 1 :]) if other is not None}
        while name is not None and (name.exists() or name in others):
            name = next(
                tried
                for number in itertools.count(2)
                if not (tried := name.with_stem(f"{name.stem}-{number}")).exists() and tried not in others
            )
        found.append(name)
    return found


def check_kinds(settings: Settings, reports: Sequence[Path]) -> None:
    """Raise Refused, UsageError for what cannot be written, or says nothing."""
    if settings.plot and not find_spec("matplotlib"):
        raise RefusedInput(f"--plot needs matplotlib: {install_command('[plot]')}.")
    for option, path in (("--publish", settings.publish), *(("--report", report) for report in reports)):
        if path is not None and path.suffix.lower() not in (".json", *PAGES):
            raise RefusedInput(f"{option} {path}: name a file that ends in .json or in .html.")
    if settings.readers == "holders" and not any(report.suffix.lower() in PAGES for report in reports):
        raise RefusedInput("--readers holders is about a page: add --report page.html, or leave it out.")


@dataclass(frozen=True)
class Outputs:
    """Output files, None for none; checked before anything is computed.

    sites: a directory for a file of each site.  readers: whom pages are for.  published: where what may be
    published goes.  linkage: whose columns make IDs.  private: whether files of labels are their owner's
    alone, as IDs say who is where.  released: where labels go that everybody may have.
    """

    labels: Path | None
    reports: tuple[Path, ...]
    force: bool
    readers: str = "everybody"
    published: Path | None = None
    sites: Path | None = None
    linkage: Any = None
    private: bool = False
    released: Path | None = None

    @classmethod
    def of(cls, asked: AskedOptions) -> Outputs:
        """The output files of a run.  Raises Refused for one that could not or must not be written."""
        settings = asked.settings
        labels, reports = settings.labels, settings.report
        if unlabeled := settings.split == "columns" and asked.get("disclosure") == "noisy-sums":
            check_unlabeled(settings)
        if settings.files:
            own = (LABELS, REPORT) if settings.force else next_names((LABELS, REPORT))
            labels = labels or (None if settings.site_labels or unlabeled else own[0])
            if not (reports or settings.as_json or settings.processes):
                reports = own[1:]
        check_distinct(settings, labels, reports)
        check_officer(settings)
        named = (("--labels", None if labels == STDOUT else labels), *(("--report", one) for one in reports))
        for option in ("publish", "plot", "model", "officer"):
            named = (*named, (f"--{option}", getattr(settings, option)))
        released = beside_published(settings.publish) if asked.get("labels_epsilon") is not None else None
        named = (*named, ("--publish", released))
        for option, path in named:
            if path is not None:
                check_output(path, option, asked.read, force=settings.force)
        check_picture(settings.plot, "--plot")
        check_csv(labels, "--labels")
        check_kinds(settings, reports)
        if settings.site_labels is not None:
            check_folder(settings.site_labels, "--site-labels", force=settings.force)
        return cls(
            labels, reports, settings.force, settings.readers, settings.publish, settings.site_labels,
            settings.linkage, asked.get("membership") == "private", released,
        )  # fmt: skip

    def free(self) -> Outputs:
        """These outputs, by the next free name where one was taken during the run: its budget is spent."""
        if self.force:
            return self
        filled = self.sites is not None and self.sites.exists() and any(self.sites.iterdir())
        labels, published, released, sites, *reports = free_names([
            None if self.to_stdout else self.labels, self.published, self.released,
            self.sites if filled else None, *self.reports,
        ])  # fmt: skip
        return replace(
            self, labels=labels or self.labels, reports=tuple(filter(None, reports)), published=published,
            released=released, sites=sites or self.sites,
        )  # fmt: skip

    @property
    def wanted(self) -> bool:
        """Whether labels go anywhere."""
        return self.labels is not None or self.sites is not None

    @property
    def to_stdout(self) -> bool:
        """Whether stdout is for the labels."""
        return self.labels == STDOUT

    def write_labels(
        self, federation: Federation, labels: Any, kept: Any, texts: dict[Path, Callable[[Any], None]]
    ) -> None:
        """Write the labels of all clients, None if none are given out, and these texts; or nothing."""

        named = set()
        if labels is not None and self.sites is not None:
            with explaining_writes("--site-labels"):
                self.sites.mkdir(mode=0o700, exist_ok=True)
            files = of_each_site(self.sites, federation, labels, kept, self.linkage)
            named |= set(files)
            texts = {**texts, **files}
        if labels is not None and self.labels is not None and not self.to_stdout:
            named |= {self.labels} if self.private else set()
            texts = {**texts, self.labels: csv_of(label_lines(federation, labels, kept, self.linkage))}
        with explaining_writes("--labels, --site-labels and --report"):
            write_all(texts, overwrite=self.force, private=named)
        if self.to_stdout and labels is not None:
            csv_of(label_lines(federation, labels, kept, self.linkage))(sys.stdout)

    def write(
        self,
        federation: Federation,
        labels: Any,
        kept: Any,
        found: Report,
        sketch: Callable[[], Any] = lambda: None,
        released: Any = None,
    ) -> None:
        """Write all files, or none of them.  sketch: makes a picture of points, for pages that show it.

        released: labels that everybody may have, an array a client.
        """
        from secfc.report import as_html, as_json

        texts: dict[Path, Callable[[Any], None]] = {}
        for path in self.reports:
            if path.suffix.lower() not in PAGES:
                texts[path] = lambda file: print(json_text(as_json(found)), file=file)
                continue
            holders = self.readers == "holders"
            page = as_html(found, holders=holders, sketch=sketch() if holders else None)
            texts[path] = partial(print_page, page)
        if self.published is not None and self.published.suffix.lower() in PAGES:
            texts[self.published] = partial(print_page, as_html(found.publishable))
        elif self.published is not None:
            texts[self.published] = lambda file: print(json_text(as_json(found.publishable)), file=file)
        if self.released is not None and released is not None:
            texts[self.released] = csv_of(released_lines(federation.names, released))
        self.write_labels(federation, labels, kept, texts)


def beside_published(published: Path | None) -> Path | None:
    """Output file of released labels, beside the published report."""
    return None if published is None else published.with_name(f"{published.stem}-labels.csv")


def print_page(page: str, file: Any) -> None:
    """Write a page to an open file."""
    file.write(page)


# --------------------------------------------------------------------------------------------------
# Labels as files: a line a row, with the IDs that sites gave their rows.

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


def released_lines(clients: Iterable[str], found: Iterable[Any]) -> Iterator[Line]:
    """Rows of the file of released labels, its header first: client, row of the run or place, label.

    found: (m_j,) of each client, -1 of one that did not answer.  Nothing else than was released.
    """
    yield ("client", "row", "label")
    for name, labels in zip(clients, found, strict=True):
        yield from ((name, row, label) for row, label in enumerate(labels.tolist()) if label >= 0)


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
    """Output file of a site's labels, whatever the site is called."""
    safe = "".join(c if c.isalnum() or c in "-_. " else f"%{ord(c):02x}" for c in name)
    return folder / f"{safe.lstrip('.') or '%2e'}.csv"


def _header(with_ids: bool, linkage: Linkage | None) -> tuple[str, ...]:
    if not with_ids:
        return ()
    return ("id",) if linkage is None else linkage.columns


def _each(party: Party, labels: Any, kept: Any) -> Iterator[tuple[int, int, Any]]:
    places = party.places if kept is None or party.rows is not None else kept
    ids = party.ids or ("",) * len(labels)
    return zip(places.tolist(), labels[:].tolist(), ids, strict=True)  # labels may lie in parts elsewhere


def _cells(name: Any, linkage: Linkage | None) -> Line:
    """An ID as it can be written; empty cells for a client without."""
    if linkage is not None:
        return linkage.texts(name)
    return (name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name,)
