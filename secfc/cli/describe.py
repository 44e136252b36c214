"""`secfc describe`: what the clusters of a file of labels are, from the rows that were labeled."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click
import numpy as np

from secfc.cli.clustering.preprocessing import agree_on_categories
from secfc.cli.shell.errors import bad_input, cautions_told
from secfc.cli.shell.options import argument, command
from secfc.cli.shell.outputs import json_text
from secfc.cli.shell.settings import Categories, DataFiles, Printing
from secfc.errors import InputError

if TYPE_CHECKING:
    from secfc.data.clusters import ClusterProfile


@dataclass(frozen=True)
class DescribeOptions(DataFiles, Categories, Printing):
    """What `secfc describe` takes."""

    labels: Path = argument("LABELS.csv")
    files: tuple[Path, ...] = argument("FILE...")
    HELP: ClassVar = {
        "as_json": "Print the profile as JSON on stdout, and nothing else.",
        "columns": "Features to describe, also such that were not clustered. Default: all columns.",
    }


@command(DescribeOptions, "describe")
def describe_labels(given: DescribeOptions) -> None:
    """Say what the clusters of LABELS.csv are, from the rows of FILEs: of each the points, and of each
    feature mean, deviation and how far they are from those of all.

    LABELS.csv is what `secfc run`, `secfc predict` or a deployment wrote; a site has its own, and its own
    FILE. Means are those of these rows, so the screen is for those who may see them. Nothing is sent. Rows
    that have no label are left out, as are missing cells.

    \b
    Examples:
      secfc describe secfc-labels.csv a.csv b.csv c.csv --id-column patient
      secfc describe results/labels.csv mine.csv --categorical sex --exclude day
    """
    profile = profile_of(given)
    if given.as_json:
        from secfc.report.json import strict_json

        click.echo(json_text(strict_json(profile.as_object())))
        return
    from rich.console import Console

    from secfc.report.clusters import profile_section
    from secfc.report.terminal import print_section

    print_section(Console(markup=False, highlight=False, emoji=False), profile_section(profile))


def profile_of(given: DescribeOptions) -> ClusterProfile:
    """The clusters of the labels, from the rows of the files.  Raises InputError."""
    from secfc.data.clusters import profile_clusters
    from secfc.data.federation import Federation

    with bad_input(OSError), cautions_told():
        federation = Federation.from_files(
            given.files, client_column=given.client_column, columns=given.columns, id_column=given.id_column,
            label_column=given.label_column, gaps=True, categorical=dict(given.categorical),
            agree=agree_on_categories, dialect=given.dialect(), exclude=given.exclude or (),
        )  # fmt: skip
        labels = read_labels(given.labels)
    parts = [np.asarray(party.points[0 : party.points.shape[0]], float) for party in federation.parties]
    each = [
        labels_of(given.labels, labels, party.name, len(part), federation.n)
        for party, part in zip(federation.parties, parts, strict=True)
    ]
    flat = np.concatenate(each)
    if not (flat >= 0).any():
        raise InputError(f"{given.labels} labels none of the rows of the files. Give those of the run.")
    return profile_clusters(np.concatenate(parts), flat, int(flat.max()) + 1, federation.feature_names)


def read_labels(path: Path) -> dict[str | None, dict[int, int]]:
    """Labels by client, None where the file is of one, and by row.  Raises InputError, OSError."""
    wrong = InputError(
        f"{path} is no file of labels, whose columns are client, row, id and label, or row, id and label. "
        "Give what `secfc run`, `secfc predict` or `secfc deploy join` wrote."
    )
    found: dict[str | None, dict[int, int]] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, strict=True)
            if not {"row", "label"} <= set(rows.fieldnames or ()):
                raise wrong
            for row in rows:
                found.setdefault(row.get("client"), {})[int(row["row"])] = int(row["label"])
    except (ValueError, TypeError, csv.Error) as error:
        raise wrong from error
    return found


def labels_of(
    path: Path, labels: Mapping[str | None, Mapping[int, int]], name: str, count: int, n: int
) -> Any:
    """The labels (count,) of a client's rows, -1 for none.  Raises InputError."""
    own = labels.get(name, labels.get(None, {}) if n == 1 else {})
    if own and (max(own) >= count or min(own) < 0 or max(own.values()) >= 1 << 16):
        raise InputError(
            f"{path} has a row {max(own)} of client {name!r}, whose file has {count} (counted from 0). Give "
            "the files that were labeled."
        )
    found = np.full(count, -1)
    for row, label in own.items():
        found[row] = label
    return found
