"""What a site has in the end: the labels of its own rows, and a report of what was said and learned."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secfc.cli.deploy.model import MODEL, kept_of
from secfc.cli.errors import Refused
from secfc.cli.labels import own_lines
from secfc.cli.outputs import csv_of, dumped, write_all
from secfc.report.digests import labels_digest

if TYPE_CHECKING:
    from secfc.cli.deploy.building import Built
    from secfc.cli.deploy.logs import Log
    from secfc.cli.deploy.place import Site

LABELS, REPORT = "labels.csv", "report.json"


@dataclass(frozen=True)
class Results:
    """Files of one directory, looked at before anything is computed."""

    folder: Path
    force: bool

    @classmethod
    def at(cls, folder: Path, *, force: bool) -> Results:
        """Raises Refused for results that are there already, or a directory that cannot be made."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise Refused(f"results = {folder}: {error.strerror}. Name another directory.") from error
        for name in (LABELS, REPORT):
            if (folder / name).exists() and not force:
                raise Refused(
                    f"{folder / name} exists already: this run, or another, ended. Move it away, name "
                    "another directory (results) in the site file, or overwrite it with --force."
                )
        return cls(folder, force)

    def write(
        self, site: Site, asked: Built, party: Any, kept: Any, outcome: Any, log: Log, started: datetime
    ) -> None:
        """All of them or none.  Raises OSError."""
        found = report(site, asked, outcome, log, started)
        texts = {self.folder / REPORT: lambda file: print(dumped(found), file=file)}
        if party is not None and outcome.labels is not None:
            lines = own_lines(party, outcome.labels, kept, site.run.schema)
            texts[self.folder / LABELS] = csv_of(lines)
        write_all(texts, overwrite=self.force, private=(self.folder / LABELS,))
        if (kept := kept_of(site, asked, outcome)) is not None:
            kept.write(self.folder / MODEL)


def report(site: Site, asked: Built, outcome: Any, log: Log, started: datetime) -> dict[str, Any]:
    """Of this party: nothing of others but what it learned."""
    run, own, stakes = site.run, outcome.labels, asked.stakes
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
        "rows": None if own is None else len(own),
        "labels_digest": None if own is None else labels_digest([own]),
        "iterations": outcome.n_iter,
        "converged": outcome.converged,
        "cost": outcome.cost,
        "sizes": [sizes.tolist() for sizes in outcome.sizes] or None,
        "centers": None if outcome.centers is None else _finite(outcome.centers),
        "excluded": list(outcome.excluded),
        "liars": dict(outcome.liars),
        "learned": list(outcome.learned),
        "budget": budget,
        "rounds": log.rounds,
        "bytes_sent": log.sent,
    }


def _finite(centers: Any) -> list[list[float] | None]:
    """Centers, None for one that stays closed."""
    return [row.tolist() if row[0] == row[0] else None for row in centers]
