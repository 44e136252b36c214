"""What a site has in the end: the labels of its own rows, and a report of what was said and learned."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click import ClickException

from secfc.cli.deploy.record import kept_consents, kept_decisions
from secfc.cli.deploy.run_file import labels_rows, unscaled_algorithm
from secfc.cli.shell.errors import RefusedInput, Suspended, caution_text, tell_notes
from secfc.cli.shell.outputs import check_output, csv_of, json_text, write_all
from secfc.cli.shell.written import PAGES, beside_published, own_lines, print_page, released_lines
from secfc.data.clusters import ClusterProfile
from secfc.data.model_file import ModelFile
from secfc.data.party import SeenRows
from secfc.errors import InputError, ProtocolError, problem_id
from secfc.report.data import labels_digest
from secfc.report.json import strict_json, tree_as_object
from secfc.roles.exchange import SERVER

if TYPE_CHECKING:
    from secfc.algorithm import PartyOutcome
    from secfc.cli.deploy.logs import Log
    from secfc.cli.deploy.run_file import Built
    from secfc.cli.deploy.site import LoadedSite
    from secfc.data.party import Party
    from secfc.report import Report


# --------------------------------------------------------------------------------------------------
# What a site keeps of a run to label new points later, and how it does.

MODEL = "model.npz"
# Algorithms whose clients know all centers, and label new points by themselves.
OPEN = ("k-fed", "feddp", "federated-lloyd")


def kept_of(
    site: LoadedSite, asked: Built, outcome: PartyOutcome, rows: Party | None = None
) -> ModelFile | None:
    """What this party keeps, None if it cannot label anything.  rows: its own, None of the server."""
    import numpy as np

    from secfc.coded_kmeans.model_share import ModelShare
    from secfc.coded_kmeans.secfc import SecFC

    terms, party, way = site.run.digest, site.file.party, unscaled_algorithm(asked)
    facts: dict[str, Any] = {"scaling": None}
    if outcome.scaling is not None:
        facts["scaling"] = asdict(outcome.scaling.scaling)
    elif rows is not None and rows.features != ():
        facts["seen"] = asdict(SeenRows.of([rows]))
    if isinstance(way, SecFC):
        retained = ModelShare.of(way, outcome)
        if retained is None:
            return None
        more, arrays = retained.values()
        facts["owner's scale"] = retained.scale and asdict(retained.scale)
        return ModelFile(terms, party, "shares", facts | more, arrays, retained.plan.predictions)
    if site.run.algorithm in OPEN and outcome.centers is not None and outcome.labels is not None:
        centers = np.asarray(outcome.centers, np.float64)
        if np.isnan(centers).all(axis=0).any():  # of columns that others observe
            return None
        return ModelFile(terms, party, "centers", facts, {"centers": centers})
    return None


def scale_new_rows(kept: ModelFile, party: Any) -> Any:
    """New rows as the rows of the run were scaled."""
    from secfc.scaling.scaling import Scaling

    facts, seen = kept.facts["scaling"], kept.facts.get("seen")
    known: Any = None if facts is None else Scaling(**facts)
    saw = known if seen is None else SeenRows(**seen)
    fits = saw is not None and len(saw.centers) == party.points.shape[1]
    if fits and (far := saw.far_note([party])) is not None:
        tell_notes([caution_text(far)])
    return party if known is None else known.party(party)


def label_by_centers(kept: ModelFile, party: Any) -> Any:
    """Labels of new rows by centers that this party knows."""
    from secfc.kmeans.centers import nearest_center
    from secfc.scaling.scaling import Scaling

    centers, facts = kept.arrays["centers"], kept.facts["scaling"]
    if facts is not None:
        # Means of rows that were divided by their norms are divided by none.
        centers = replace(Scaling(**facts), norm=False).forward(centers, "the centers")
    return nearest_center(scale_new_rows(kept, party).read(), centers)


def load_model_part(kept: ModelFile, asked: Built) -> Any:
    """This party's part of the model.  Raises InputError for one that does not fit the run."""
    from secfc.coded_kmeans.model_share import ModelShare
    from secfc.scaling.scaling import Scaling

    scale = kept.facts.get("owner's scale")
    public = (
        replace(asked.public, derived=False)
        if unscaled_algorithm(asked) is not asked.algorithm
        else asked.public
    )
    try:
        way = unscaled_algorithm(asked)
        return ModelShare.read(way, public, kept.facts, kept.arrays, scale and Scaling(**scale))
    except (ValueError, KeyError) as error:
        raise InputError(f"the model does not fit the run file ({error}): restore both") from error


# --------------------------------------------------------------------------------------------------

LABELS, REPORT, FAILURE, RELEASED = "labels.csv", "report.json", "failure.json", "released-labels.csv"
PUBLISHABLE = "publishable.json"
# Bytes of a label with its row and ID, roughly, and of a report.
LINE, SMALL = 40, 1 << 16


def existing_results(folder: Path) -> str | None:
    """What is to be done about results that are there already; None if there are none."""
    there = [folder / name for name in (LABELS, REPORT, RELEASED, PUBLISHABLE) if (folder / name).exists()]
    return (
        f"{there[0]} exists already: this run, or another, ended. Move it away, name another directory "
        "(results) in the site file, or overwrite it with --force."
        if there
        else None
    )


@dataclass(frozen=True)
class Results:
    """Files of one directory, looked at before anything is computed."""

    folder: Path
    force: bool
    published: Path | None = None

    @classmethod
    def at(cls, folder: Path, *, force: bool, published: Path | None = None) -> Results:
        """published: where what may be published goes, too.

        Raises Refused for results that are there already, or a directory that cannot be made."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise RefusedInput(f"results = {folder}: {error.strerror}. Name another directory.") from error
        if not os.access(folder, os.W_OK):
            raise RefusedInput(f"results = {folder} may not be written to: change that, or name another.")
        if not force and (said := existing_results(folder)) is not None:
            raise RefusedInput(said)
        return cls(folder, force, published)

    def check_published(self, asked: Built) -> None:
        """Raise Refused where nothing may be published, or not there."""
        if self.published is None:
            return
        if asked.stakes.epsilon is None:
            raise RefusedInput(
                "--publish: this run has no budget of differential privacy, so nothing of it is noisy. "
                "Leave it out, or agree on a run with an epsilon."
            )
        if self.published.suffix.lower() not in (".json", *PAGES):
            raise RefusedInput(f"--publish {self.published}: name a file that ends in .json or in .html.")
        check_output(self.published, "--publish", (), force=self.force)

    def check_room(self, rows: int) -> None:
        """Raise Suspended where the results of so many rows have no room."""
        need, free = LINE * rows + SMALL, shutil.disk_usage(self.folder).free
        if free < need:
            raise Suspended(
                f"{self.folder}: {need:,} bytes are needed for results, {free:,} are free. Make room there, "
                "or name another directory (results) in the site file; then the same command goes on."
            )

    def write_failure(
        self, site: LoadedSite, asked: Built, log: Log, started: datetime, error: Exception
    ) -> None:
        """What is known here of a run that did not end well, until it does; a full disc keeps nothing."""
        origin = error.__cause__ if isinstance(error, ClickException) and error.__cause__ else error
        excluded = origin.excluded if isinstance(origin, ProtocolError) else ()
        found = {
            **run_facts(site, asked, log, started),
            "excluded": list(dict.fromkeys((*excluded, *site.without()))),
            "outcome": "suspended" if getattr(error, "exit_code", 1) == Suspended.exit_code else "failed",
            "error": type(error.__cause__ if isinstance(error, ClickException) else error).__name__,
            "problem": problem_id(error) or (error.__cause__ and problem_id(error.__cause__)),
            "said": str(error),
        }
        with suppress(OSError):
            write_all(
                {self.folder / FAILURE: lambda file: print(json_text(found), file=file)}, overwrite=True
            )

    def write(
        self, site: LoadedSite, asked: Built, party: Any, kept: Any, outcome: Any, log: Log, started: datetime
    ) -> None:
        """All of them or none.  Raises Refused where others came meanwhile, OSError."""
        found = party_report(site, asked, outcome, log, started)
        texts = {self.folder / REPORT: lambda file: print(json_text(found), file=file)}
        if party is not None and outcome.labels is not None and labels_rows(asked):
            lines = own_lines(party, outcome.labels, kept, site.run.schema)
            texts[self.folder / LABELS] = csv_of(lines)
        texts |= self.publishable_texts(site, asked, outcome)
        try:
            write_all(texts, overwrite=self.force, private=(self.folder / LABELS,))
        except FileExistsError as error:  # of a run at the same time
            said = existing_results(self.folder) or f"{error.filename}: {error.strerror}. Move it away."
            raise RefusedInput(f"{said} The same command then writes this run's results.") from error
        (self.folder / FAILURE).unlink(missing_ok=True)
        if (kept := kept_of(site, asked, outcome, party)) is not None:
            kept.write(self.folder / MODEL)

    def publishable_texts(self, site: LoadedSite, asked: Built, outcome: Any) -> dict[Path, Any]:
        """What writes each file that may be published."""
        if site.file.party != SERVER or (statement := publishable_report(site, asked, outcome)) is None:
            return {}
        from secfc.report import as_html, as_json

        text, out = json_text(as_json(statement)), self.published
        texts: dict[Path, Any] = {self.folder / PUBLISHABLE: partial(print_page, text + "\n")}
        if out is not None:
            page = as_html(statement) if out.suffix.lower() in PAGES else text + "\n"
            texts[out] = partial(print_page, page)
        if (told := outcome.released_labels) is not None:
            lines = list(released_lines(told, told.values()))
            for path in filter(None, (self.folder / RELEASED, beside_published(out))):
                texts[path] = csv_of(lines)
        return texts

    def add_decisions(self, site: LoadedSite) -> bool:
        """Bring the report up to what others told on their way out: whether it changed.  Raises OSError."""
        found = json.loads((self.folder / REPORT).read_text(encoding="utf-8"))
        if found["decisions"] == (told := kept_decisions(site)):
            return False
        found["decisions"] = told
        write_all({self.folder / REPORT: lambda file: print(json_text(found), file=file)}, overwrite=True)
        return True


def publishable_report(site: LoadedSite, asked: Built, outcome: PartyOutcome) -> Report | None:
    """What the server may publish of a run with a budget; None without one, or where scaling came first.

    It knows no exact number, so all of it is public, or noisy and paid for.
    """
    way, run = asked.algorithm, site.run
    tell = way.capabilities.account
    if asked.stakes.epsilon is None or tell is None or unscaled_algorithm(asked) is not way:
        return None
    from secfc.report.data import Report, identity_risk

    account = tell(outcome, None)
    k = outcome.plan.k if outcome.centers is None else len(outcome.centers)
    unknown: dict[str, Any] = dict.fromkeys(
        (
            "comparison", "ordinary", "resolution", "quantizer", "digests", "curve", "changes", "origin",
            "counts", "cost", "scores", "seconds", "wall", "finding",
        )
    )  # fmt: skip
    return Report(
        account=account,
        parameters={"algorithm": account.name, "k": k, **account.parameters},
        source=f"run {run.name!r} of {len(run.clients)} sites, terms {run.digest.hex()}",
        n=len(run.clients),
        d=len(run.features),
        columns=tuple(run.features),
        notes=account.notes,
        n_iter=outcome.n_iter or 0,
        converged=bool(outcome.converged),
        held=outcome.held,
        moved=False,
        steps=0,
        centers=outcome.centers,
        withheld=(),
        traffic={},
        learned=outcome.learned,
        ledger=outcome.ledger,
        delta=account.delta or 0.0,
        deviated={},
        disputes=(),
        excluded=tuple(outcome.excluded),
        evaluated=False,
        cost_known=False,
        risk=identity_risk(outcome, None, account.delta or 0.0, noisy=True),
        **unknown,
    ).publishable


def party_report(site: LoadedSite, asked: Built, outcome: Any, log: Log, started: datetime) -> dict[str, Any]:
    """This party's report: nothing of others but what it learned."""
    own = outcome.labels
    return {
        **run_facts(site, asked, log, started),
        "rows": None if own is None else len(own),
        "labels_digest": None if own is None or not labels_rows(asked) else labels_digest([own]),
        "iterations": outcome.n_iter,
        "converged": outcome.converged,
        "held_by_floor": outcome.held,
        "stability": outcome.stability,
        "cost": outcome.cost,
        "sizes": [sizes.tolist() for sizes in outcome.sizes] or None,
        "centers": None if outcome.centers is None else _finite(outcome.centers),
        "excluded": list(outcome.excluded),
        "deviated": dict(outcome.deviated),
        "dendrogram": tree_as_object(outcome.dendrogram),
        "groups": None if outcome.groups is None else outcome.groups.tolist(),
        "learned": list(outcome.learned),
        "profile": strict_json(outcome.details.as_object())
        if isinstance(outcome.details, ClusterProfile)
        else None,
    }


def run_facts(site: LoadedSite, asked: Built, log: Log, started: datetime) -> dict[str, Any]:
    """What a party knows of a run whatever became of it."""
    run, stakes = site.run, asked.stakes
    budget = None if stakes.epsilon is None else {"epsilon": stakes.epsilon, "delta": stakes.delta}
    return {
        "run": run.name,
        "session": run.session.hex(),
        "terms": run.digest.hex(),
        "party": site.file.party,
        "parties": list(run.parties),
        "algorithm": run.algorithm,
        "policy": stakes.policy,
        "k": run.k,
        "t": stakes.t,
        "started": started.isoformat(timespec="seconds"),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "gone_on_without": list(site.without()),
        "decisions": kept_decisions(site),
        "absences": [{"party": peer, "since": since, "until": until} for peer, since, until in log.absences],
        "versions": software_versions(),
        "data_sha256": None if site.file.data is None else file_digest(site.file.data.path),
        "consents": kept_consents(site),
        "budget": budget,
        "rounds": log.rounds,
        "bytes_sent": log.sent,
    }


def software_versions() -> dict[str, str]:
    """What ran here."""
    import numpy as np

    import secfc
    from secfc.roles.description import PROTOCOL

    python = platform.python_version()
    return {"secfc": secfc.__version__, "protocol": str(PROTOCOL), "python": python, "numpy": np.__version__}


def file_digest(path: Path) -> str:
    """SHA-256 of a file, as `sha256sum` says it: of what it holds now.  Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def failure_digest(site: LoadedSite) -> str | None:
    """SHA-256 of what lies in results of this run, which has not ended well; None for nothing.  OSError."""
    path = site.file.results / FAILURE
    if not path.exists() or json.loads(path.read_bytes()).get("session") != site.run.session.hex():
        return None
    return file_digest(path)


def _finite(centers: Any) -> list[list[float] | None]:
    """Centers, None for one that stays closed."""
    return [row.tolist() if row[0] == row[0] else None for row in centers]
