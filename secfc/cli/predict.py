"""`secfc predict`: labels of new points, by the model that `secfc run --model` kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from secfc.cli.shell.errors import RefusedInput, bad_input, cautions_told
from secfc.cli.shell.options import argument, command, names_of, option, parse_names
from secfc.cli.shell.outputs import check_csv, check_output, csv_of, explaining_writes, write_all
from secfc.cli.shell.screen import Screen
from secfc.cli.shell.settings import Overwriting, Owners, TextFiles
from secfc.cli.shell.verbosity import is_quiet
from secfc.cli.shell.written import next_names

if TYPE_CHECKING:
    from secfc.data.federation import Federation

OUT = Path("secfc-predicted.csv")


@dataclass(frozen=True)
class PredictOptions(Owners, TextFiles, Overwriting):
    """What `secfc predict` takes."""

    # fmt: off
    model: Path = argument("MODEL")
    files: tuple[Path, ...] = argument("FILE...")
    missing: str = option("refuse", ["refuse", "drop", "mean"], help=
        "Empty cells, NA and NaN. drop: such rows get no label. mean: of the run, if it had --missing mean.")
    client: tuple[str, ...] | None = option(metavar="NAME,...", parse=parse_names, help=
        "Whose FILEs are, in their order; without, names of files say it.")
    out: Path | None = option(metavar="OUT.csv", help=
        f"Where labels go. Default: {OUT}, with a number if that is there.")
    # fmt: on
    HELP: ClassVar = {"id_column": "Names of the points; copied to the labels."}


@command(PredictOptions)
def predict(given: PredictOptions) -> None:
    """Label the points of FILEs by the model that `secfc run --model MODEL` kept.

    One FILE a client, called like that of the run or given in the same order; columns are matched by name. A
    client may have no FILE. Where centers are hidden they stay so: the parties label new points over shares.
    After --split columns people are labeled whom all owners have, and each owner learns who these are.

    \b
    Examples:
      secfc run a.csv b.csv c.csv -k 4 --model model.npz
      secfc predict model.npz a.csv b.csv c.csv
      secfc predict model.npz next/a.csv --id-column patient --out labels.csv
      secfc predict model.npz next.xlsx --client a --missing drop
    """
    from secfc.data.model_file import ModelFile
    from secfc.kept_models import joined_columns, label_clients, new_points

    model, screen = given.model, Screen.stderr()
    out = given.out or (OUT if given.force else next_names((OUT,))[0])
    with bad_input(OSError):
        kept = ModelFile.read(model)
    if kept.party:
        raise RefusedInput(f"{model} is the part of {kept.party} alone: use `secfc deploy predict`.")
    check_output(out, "--out", (*given.files, model), force=given.force)
    check_csv(out, "--out")
    with screen.status("Reading the data"), bad_input(OSError):
        owners = {f: getattr(given, f) for f in names_of(Owners)}
        federation, rows = new_points(
            kept, given.files, given.missing, given.client or (), dialect=given.dialect(), **owners
        )
    with screen.status("Labeling"), bad_input(), cautions_told():
        labels = label_clients(kept, model, federation)
    out = out if given.force else next_names((out,))[0]  # which another may have taken meanwhile
    with explaining_writes("--out"):
        write_all({out: csv_of(predicted_lines(federation, labels, rows))}, overwrite=given.force)
    count = sum(map(len, rows.values()))
    if not is_quiet():
        click.echo(f"{count} {'label' if count == 1 else 'labels'} written to {out}")
        if (gone := sum(int((own < 0).sum()) for own in labels)) and joined_columns(kept) is not None:
            click.echo(
                f"{gone} {'person is' if gone == 1 else 'people are'} not at all owners of columns, and have "
                "label -1; each owner learned which of its own people all have."
            )


def predicted_lines(
    federation: Federation, labels: Sequence[Any], rows: Mapping[str, Sequence[int]]
) -> Iterator[Sequence[Any]]:
    """Rows of the file, as `secfc run` writes them.  rows: by client with new points, which they are."""
    named = any(party.ids for party in federation.parties if party.name in rows)
    yield ("client", "row", *(("id",) if named else ()), "label")
    for party, own in zip(federation.parties, labels, strict=True):
        if party.name in rows:
            ids = party.ids or ("",) * len(own)
            for row, label, one in zip(rows[party.name], own.tolist(), ids, strict=True):
                name = (one,) if named else ()
                shown = tuple(
                    n.decode("utf-8", "backslashreplace") if isinstance(n, bytes) else n for n in name
                )
                yield (party.name, row, *shown, label)
