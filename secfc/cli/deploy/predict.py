"""`secfc deploy predict`: labels of new rows, after a run, by all its sites together or by one alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from secfc.cli.deploy.join import CarrierOptions, problems_told
from secfc.cli.deploy.keys import make_private
from secfc.cli.deploy.logs import Log
from secfc.cli.deploy.readiness import prepare_kernels
from secfc.cli.deploy.results import MODEL, label_by_centers, load_model_part, scale_new_rows
from secfc.cli.deploy.site import LoadedSite
from secfc.cli.shell.errors import RefusedInput, bad_input
from secfc.cli.shell.options import ANY_PATH, argument, command, option
from secfc.cli.shell.outputs import check_csv, check_output, csv_of, explaining_writes, write_all
from secfc.cli.shell.settings import Overwriting
from secfc.cli.shell.written import own_lines
from secfc.data.model_file import ModelFile
from secfc.deploy.floors import BelowFloor
from secfc.deploy.session import NewRows, predict_together, run_from_journal
from secfc.errors import InputError
from secfc.roles.exchange import SERVER

if TYPE_CHECKING:
    from secfc.cli.deploy.run_file import Built
    from secfc.data.party import Party


@dataclass(frozen=True)
class LabelOptions(Overwriting):
    """What `secfc deploy predict` takes."""

    # fmt: off
    site: Path = argument("SITE.toml")
    new: Path | None = argument("[NEW.csv]")
    model: Path | None = option(None, ANY_PATH, help=
        "What this site kept. Default: model.npz in its results.")
    out: Path = option(Path("predicted.csv"), metavar="OUT.csv", help="Where labels go.")
    # fmt: on
    HELP: ClassVar = {"force": "Overwrite."}


@command(LabelOptions)
def predict(given: LabelOptions) -> None:
    """Label the rows of NEW.csv by the clusters of a run that this site took part in.

    Where centers are hidden all sites and the server take part, each by this command; a site without new rows
    leaves NEW.csv out, and so does the server. Everybody learns how many new rows each site has, and who
    learns their labels is as in the run. The sites agreed beforehand on how many rows may be labeled so, as
    labels of chosen rows tell where centers lie. Where every client knows the centers, a site does it alone.
    Where sites have other columns of the same people, each needs NEW.csv, whoever is not in all gets -1, and
    every site learns which of its people all have.

    \b
    Example:
      secfc deploy predict site.toml next-month.csv --out labels.csv
    """
    make_private()
    new, out, force = given.new, given.out, given.force
    place = LoadedSite.read(given.site)
    path = place.file.results / MODEL if given.model is None else given.model
    with bad_input(OSError):
        kept = ModelFile.read(path)
    _fits(place, kept, path)
    if new is not None:
        check_output(out, "--out", (new,), force=force)
        check_csv(out, "--out")
    if place.file.party == SERVER and new is not None:
        raise RefusedInput("the server has no rows: leave NEW.csv out.")
    if kept.kind == "centers":
        if new is None:
            raise RefusedInput("NEW.csv is missing: every site labels its own rows, with nobody's help.")
        party, which = read_new_rows(place, new)
        _write(out, own_lines(party, label_by_centers(kept, party), which, place.run.schema), force)
        click.echo(f"{party.points.shape[0]} labels written to {out}")
        return
    _together(place, kept, path, new, out, force=force)


def read_new_rows(site: LoadedSite, new: Path) -> tuple[Party, Any]:
    """New rows, read as those of the run were."""
    from secfc.deploy.site import Data

    data = site.file.data or Data(new)
    return replace(site, file=replace(site.file, data=replace(data, path=new))).party(site.agreed())


def _together(
    site: LoadedSite, kept: ModelFile, path: Path, new: Path | None, out: Path, *, force: bool
) -> None:
    """With all other sites and the server."""
    from secfc.coded_kmeans.parameters import PredictionAllowance

    asked, me = site.agreed(), site.file.party
    model, way = load_model_part(kept, asked), _inner(asked)
    party, which = rows_to_label(site, asked, new, joined=model.blocks is not None)
    journal = _journal(site, kept)
    told = int(journal.stem.rpartition("-")[2])
    mine = NewRows(0 if party is None else party.points.shape[0], told)
    limit = PredictionAllowance(kept.left if kept.left is not None else 1 << 62)

    def spend(number: int, counts: tuple[int, ...]) -> None:
        """Once for each number, also if this process dies and comes again."""
        now, points = ModelFile.read(path), model.most_labeled(counts)
        if now.number < number:
            limit.spend(points)  # which refuses, before anything is written or said
            now.after(number, points).write(path)

    def make(coins: Any, _: bytes) -> Any:
        def labeling(counts: tuple[int, ...], session: bytes) -> Any:
            plan = model.plan_for(counts, session)
            if party is None:
                return model.server(way, plan, coins)
            points = (
                party if new is None else scale_new_rows(kept, party)
            )  # its own making is on the run's scale
            return model.client(way, plan, points, coins, None)

        return log.watched(predict_together(site.run.session, site.run.clients, me, mine, spend, labeling))

    with Log.open(me) as log:
        log.say("prepare", note="compiling or loading the kernels")
        prepare_kernels(asked, asked.guessed(1 if party is None else party.points.shape[0]))
        carrier = CarrierOptions().carrier(site, log)
        with problems_told(journal, log):
            found = asyncio.run(run_from_journal(site.work(asked), me, make, site.identity, journal, carrier))
        if party is not None and new is not None:
            _write(out, own_lines(party, found, which, site.run.schema), force)
        journal.unlink(missing_ok=True)
        log.say("done", note=f"labels are in {out}" if new is not None else "helped to label others' rows")


def rows_to_label(site: LoadedSite, asked: Built, new: Path | None, *, joined: bool) -> tuple[Any, Any]:
    """A party's new rows, and which of its file they are: of its own making, as its shares are needed.

    None of the server.  joined: whether columns lie at several sites.  Raises Refused, InputError.
    """
    import numpy as np

    from secfc.data.party import Party as Rows

    me = site.file.party
    if joined:
        check_owner(site, new)
    if me == SERVER:
        return None, None
    if new is not None:
        return read_new_rows(site, new)
    return Rows.without_data(me) if joined else Rows(me, np.zeros((1, asked.public.d))), None


def check_owner(site: LoadedSite, new: Path | None) -> None:
    """Raise Refused, BelowFloor for a site of joined columns that has no new people, or may not find any."""
    me = site.file.party
    if me != SERVER and (new is None) == bool(site.run.columns[me]):
        raise RefusedInput(
            "NEW.csv is missing: people are labeled of whom all owners have columns, so each brings its own."
            if new is None
            else f"{me} has no column by the run file, and only computes: leave NEW.csv out."
        )
    if site.file.floors.total_quota is not None:
        many = "a union of new people's IDs, in which guesses can be tested anew"
        raise BelowFloor("total_quota", many, "guesses are counted, and of runs alone", "Nothing was sent")


def _inner(asked: Any) -> Any:
    from secfc.cli.deploy.run_file import unscaled_algorithm

    return unscaled_algorithm(asked)


def _journal(site: LoadedSite, kept: ModelFile) -> Path:
    """Journal of an interrupted prediction, or of a new one; its name ends with the number of the last."""
    name = f"{site.run.session.hex()[:16]}-predict"
    unfinished = sorted(site.file.journal.glob(f"{name}-*.journal"))
    return unfinished[0] if unfinished else site.file.journal / f"{name}-{kept.number}.journal"


def _fits(site: LoadedSite, kept: ModelFile, path: Path) -> None:
    """Raise InputError for a model of another run or party."""
    if kept.terms != site.run.digest:
        raise InputError(f"{path} is of another run than {site.file.run}: name the files of one run")
    if kept.party != site.file.party:
        raise InputError(f"{path} is {kept.party}'s, and this site is {site.file.party}: name its own")


def _write(out: Path, lines: Iterable[Sequence[Any]], force: bool) -> None:
    with explaining_writes("--out"):
        write_all({out: csv_of(lines)}, overwrite=force, private=(out,))
