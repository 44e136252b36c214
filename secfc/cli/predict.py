"""`secfc predict`: labels of new points, by the model that `secfc run --model` kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from secfc.cli.errors import RefusedInput, bad_input
from secfc.cli.options import argument, command, names_of, option
from secfc.cli.outputs import check_output, csv_of, explaining_writes, write_all
from secfc.cli.screen import Screen
from secfc.cli.settings import Overwriting, Owners, TextFiles
from secfc.cli.verbosity import is_quiet

if TYPE_CHECKING:
    from secfc.algorithm import Clustering
    from secfc.data.federation import Federation
    from secfc.data.model_file import ModelFile

OUT = Path("secfc-predicted.csv")
NOBODY = bytes(32)


def kept_of(result: Clustering, texts: Sequence[str] = ()) -> ModelFile | None:
    """The model of a run, for a file; None if there is none that could be kept.

    texts: the columns of text whose categories became features.
    """
    from secfc.coded_kmeans.model_share import to_plain_values
    from secfc.coded_kmeans.predict import CodedModel
    from secfc.data.model_file import ModelFile
    from secfc.kmeans.centers import CentersModel
    from secfc.scaling.algorithm import ScaledModel

    model: Any = result.model
    facts: dict[str, Any] = {"features": None if result.features is None else list(result.features)}
    facts["clients"], facts["scaling"] = list(result.plan.clients), None
    facts["texts"] = list(texts)
    if isinstance(model, ScaledModel):
        facts["scaling"], model = asdict(model.scaling), model.model
    if isinstance(model, CodedModel):
        facts["model"], arrays = to_plain_values(model)
        return ModelFile(NOBODY, "", "shares", facts, arrays)
    if isinstance(model, CentersModel):
        return ModelFile(NOBODY, "", "centers", facts, {"centers": model.centers})
    return None


def model_of(kept: ModelFile) -> Any:
    """The model that was kept."""
    from secfc.coded_kmeans.model_share import from_plain_values as shares
    from secfc.kmeans.centers import CentersModel
    from secfc.scaling.algorithm import ScaledModel
    from secfc.scaling.scaling import Scaling

    hidden = kept.kind == "shares"
    model: Any = shares(kept.facts["model"], kept.arrays) if hidden else CentersModel(kept.arrays["centers"])
    scaling = kept.facts["scaling"]
    return model if scaling is None else ScaledModel(model, Scaling(**scaling))


@dataclass(frozen=True)
class PredictOptions(Owners, TextFiles, Overwriting):
    """What `secfc predict` takes."""

    # fmt: off
    model: Path = argument("MODEL")
    files: tuple[Path, ...] = argument("FILE...")
    missing: str = option("refuse", ["refuse", "drop", "mean"], help=
        "Empty cells, NA and NaN. drop: such rows get no label. mean: of the run, if it had --missing mean.")
    out: Path = option(OUT, metavar="OUT.csv", help="Where labels go.")
    # fmt: on
    HELP: ClassVar = {"id_column": "Names of the points; copied to the labels."}


@command(PredictOptions)
def predict(given: PredictOptions) -> None:
    """Label the points of FILEs by the model that `secfc run --model MODEL` kept.

    One FILE a client, called like that of the run or given in the same order; columns are matched by name. A
    client may have no FILE. Where centers are hidden they stay so: the parties label new points over shares.

    \b
    Examples:
      secfc run a.csv b.csv c.csv -k 4 --model model.npz
      secfc predict model.npz a.csv b.csv c.csv
      secfc predict model.npz next/a.csv --id-column patient --out labels.csv
      secfc predict model.npz next/a.xlsx --missing drop
    """
    from secfc.data.model_file import ModelFile

    model, out, screen = given.model, given.out, Screen.stderr()
    with bad_input(OSError):
        kept = ModelFile.read(model)
    if kept.party:
        raise RefusedInput(f"{model} is the part of {kept.party} alone: use `secfc deploy predict`.")
    check_output(out, "--out", (*given.files, model), force=given.force)
    with screen.status("Reading the data"):
        how = {f: getattr(given, f) for f in (*names_of(TextFiles), *names_of(Owners))}
        federation, rows = new_points(kept, given.files, given.missing, **how)
    with screen.status("Labeling"), bad_input():
        labels = label_clients(kept, model, federation)
    with explaining_writes("--out"):
        write_all({out: csv_of(label_lines(federation, labels, rows))}, overwrite=given.force)
    count = sum(map(len, rows.values()))
    if not is_quiet():
        click.echo(f"{count} {'label' if count == 1 else 'labels'} written to {out}")


def new_points(
    kept: ModelFile, files: Sequence[Path], missing: str = "refuse", **how: str | None
) -> tuple[Federation, dict[str, list[int]]]:
    """New points of all clients of the run, and by client which of its rows they are.

    A client that has none is not in there, and has a blank row.  how: as for `Federation.from_files`.
    """
    import numpy as np

    from secfc.data.federation import Federation, drop_incomplete_rows
    from secfc.data.files import category_names as names_of
    from secfc.data.party import Party

    clients, features = list(kept.facts["clients"]), kept.facts["features"]
    scaling = kept.facts["scaling"]
    if missing == "mean" and (scaling is None or scaling["fill"] is None):
        raise RefusedInput(
            "--missing mean: the run had no --missing mean, so no mean is known. Use --missing drop."
        )
    categories = categories_of(kept)
    bits = set(names_of(categories))
    columns = None if features is None else tuple(name for name in features if name not in bits)
    with bad_input(OSError):
        read = Federation.from_files(
            files, columns=columns, gaps=missing != "refuse", categorical=categories,
            **how,  # type: ignore[arg-type]
        )  # fmt: skip
    found = {party.name: party for party in read.parties}
    if not set(found) <= set(clients):
        if len(found) != len(clients):
            raise RefusedInput(
                f"{', '.join(list(found)[:6])}: these are not the clients of the run, which are "
                f"{', '.join(clients[:6])}. Call files like those of the run, or give one for each, in order."
            )
        found = {name: replace(party, name=name) for name, party in zip(clients, read.parties, strict=True)}
    rows = {name: list(range(party.points.shape[0])) for name, party in found.items()}
    if missing == "drop":
        with bad_input():
            left, kept_rows = drop_incomplete_rows(replace(read, parties=tuple(found.values())))
        whole = dict(zip(found, kept_rows, strict=True))
        found = {party.name: party for party in left.parties}
        rows = {name: whole[name].tolist() for name in found}
    # On a scale of the run the middle is a row that no limit refuses.
    blank = np.zeros((1, read.d)) if scaling is None else np.nan_to_num([scaling["centers"]])
    parties = [found.get(name, Party(name, blank)) for name in clients]
    named = any(party.ids for party in found.values())
    if named:  # a row of zeros needs a name of the same kind
        kind = type(next(party.ids for party in found.values() if party.ids)[0])
        parties = [p if p.ids else replace(p, ids=(kind(),)) for p in parties]
    made = Federation(tuple(parties), feature_names=read.feature_names)
    return (made if features is None else made.ordered(features)), rows


def categories_of(kept: ModelFile) -> dict[str, tuple[str, ...]]:
    """The categories of each column of text, as the run's features name them."""
    features = kept.facts["features"] or ()
    return {
        column: tuple(name.removeprefix(f"{column}=") for name in features if name.startswith(f"{column}="))
        for column in kept.facts.get("texts", ())
    }


def label_clients(kept: ModelFile, path: Path, federation: Federation) -> list[Any]:
    """Labels by client.  What the clients agreed to label is written down as spent first."""
    from secfc.pipeline import predict_with_model

    with bad_input(KeyError, TypeError, ValueError):  # of a file that is none
        model = model_of(kept)
    shares = getattr(model, "model", model)
    if kept.kind == "shares":
        left = kept.facts["model"]["left"]
        for client, allowance in shares.allowances.items():
            left[client] = allowance.left - federation.m
        if min(left.values()) >= 0:  # else the parties refuse
            kept.write(path)
    return predict_with_model(model, federation)


def label_lines(
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
