"""`secfc deploy check`: would a run work at this site, and does the site agree to it?"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from secfc.cli.deploy.readiness import (
    CheckResult,
    check_bound,
    check_hub,
    check_resources,
    facts_to_judge,
    prepare_kernels,
)
from secfc.cli.deploy.results import existing_results
from secfc.cli.deploy.run_file import (
    Built,
    leakage_sentences,
    serving_sentences,
    shown_by,
    spare_sentence,
    spared_clients,
)
from secfc.cli.deploy.site import LoadedSite
from secfc.cli.shell.errors import cautions_noted
from secfc.cli.shell.help_lines import echo_folded
from secfc.cli.shell.options import argument, command, option
from secfc.cli.shell.screen import time_work
from secfc.deploy.audit_log import verify_chain
from secfc.deploy.keys import identity_fingerprint, is_protected, read_public
from secfc.roles.exchange import SERVER

if TYPE_CHECKING:
    from secfc.data.party import Party


@dataclass(frozen=True)
class SiteCheckOptions:
    """What `secfc deploy check` takes."""

    site: Path = argument("SITE.toml")
    offline: bool = option(False, help="Without asking the hub.")


@command(SiteCheckOptions)
@click.pass_context
def check(context: click.Context, given: SiteCheckOptions) -> None:
    """Look at everything that a run needs at this site, without taking part.

    Files, key, floors, plan, data, memory, disk, kernels, and the hub. Where a floor refuses the run, no data
    are opened. Compare the digest and the fingerprints with the other sites over the telephone.

    \b
    Example:
      secfc deploy check site.toml

    Exit codes: 0 all is well; 1 the hub or the machine is not ready; 2 the files are not; 4 the site does not
    agree.
    """
    place = LoadedSite.read(given.site)
    code = 0
    with cautions_noted():
        for line in check_lines(place, offline=given.offline):
            echo_folded(f"{line.state:4}  {line.what:10}  {line.more}", 18)
            code = code or (line.state == "fail")
    context.exit(int(code))


def check_lines(site: LoadedSite, *, offline: bool) -> Iterator[CheckResult]:
    """Findings, as they are found.  Raises InputError for files that are not ready, BelowFloor."""
    run = site.run
    yield CheckResult("ok", "run file", f"{run.name!r}, digest  {identity_fingerprint(run.digest)}")
    for name, key in run.identities.items():
        own = "  (here)" if name == site.file.party else ""
        yield CheckResult("ok", "party", f"{name:12}  {identity_fingerprint(key)}{own}")
    yield from check_keys(site)
    asked = site.agreed()
    site.check_session()
    if run.schema is not None:
        columns = ", ".join(run.schema.columns)
        yield CheckResult("ok", "schema", f"rows are linked by {columns}; digest  {run.schema.digest[:16]}")
    yield CheckResult("ok", "floors", "this site agrees to what the run asks for")
    for sentence in leakage_sentences(asked):
        yield CheckResult("ok", "shows", sentence)
    for harmless, sentence in serving_sentences(run, asked):
        yield CheckResult("ok" if harmless else "warn", "serves", sentence)
    yield CheckResult("ok" if spared_clients(asked) else "warn", "losses", spare_sentence(run, asked))
    for note in asked.notes:
        yield CheckResult("warn" if "protects nobody" in note else "ok", "note", note)
    rows = 1
    if site.file.party != SERVER:
        party, kept = site.party(asked)
        rows = party.points.shape[0]
        yield from load_rows(site, asked, party, kept)
        site.remembered.check_rows(party, site.file.floors.changed_rows)
        yield from earlier_runs(site, asked, party)
    yield check_audit(site)
    if not site.has_results and (said := existing_results(site.file.results)) is not None:
        yield CheckResult("warn", "results", said)
    yield from check_machine(site, asked, rows)
    if not offline:
        ends: list[CheckResult] = []
        yield asyncio.run(check_hub(site, ends))
        yield from ends


def load_rows(site: LoadedSite, asked: Built, party: Party, kept: Any) -> Iterator[CheckResult]:
    """The site's rows.  Their number is shown on this screen only."""
    columns = site.run.columns.get(site.file.party, site.run.features)
    said = f"{party.points.shape[0]} rows of {', '.join(map(repr, columns[:6]))}"
    yield CheckResult("ok", "data", said if columns else "none: this site only computes")
    if check_bound(site, asked, party, kept):
        what = "its public range" if "ranges" in site.run.preparing else f"{asked.public.bound:g}"
        yield CheckResult("ok", "bound", f"no value is beyond {what}")


def earlier_runs(site: LoadedSite, asked: Built, party: Party) -> Iterator[CheckResult]:
    """What earlier runs over the same rows have shown already, beside what this one would."""
    now, rows = asked.stakes.policy, party.points.shape[0]
    for run, shared in site.remembered.earlier_runs(party, site.run.session):
        name = "an earlier run" if run.name is None else repr(run.name)
        when = "" if run.time is None else f" of {run.time[:10]}"
        if run.policy is None:
            shown, more = "what it showed is not on file", "What it opened stays open"
        else:
            shown = f"it showed ({run.policy}) {shown_by(run.policy)}"
            more = "What it opened stays open"
            if run.policy != now:
                more += f", beside what this run shows ({now}): together they tell more than either"
        which = f"all {rows} rows were" if shared == rows else f"{shared} of the {rows} rows were"
        yield CheckResult("warn", "earlier", f"{which} in {name}{when}: {shown}. {more}")


def check_keys(site: LoadedSite) -> Iterator[CheckResult]:
    """Whether keys that the run file has are to be replaced, and how this site's own lies on disc."""
    known = site.known_keys
    for name, key in site.run.identities.items():
        if (said := known.words(key)) is not None:
            yield CheckResult("warn", "key", f"{name}'s is {said}. New run files pin the key that follows")
    path = next(one for one in site.file.keys if read_public(one) == site.identity.public)
    lies = "under a passphrase" if is_protected(path) else (
        f"as it is, for whoever reads the file: `secfc deploy key {path} --passphrase` changes that"
    )  # fmt: skip
    yield CheckResult("ok", "key", f"{path} lies {lies}")


def check_audit(site: LoadedSite) -> CheckResult:
    """Whether this site's record is as it wrote it."""
    path = site.audit.path
    data = path.read_bytes() if path.exists() else b""
    for found in verify_chain(data):
        return CheckResult("warn", "audit", f"{path}, {found}. See `secfc deploy audit verify`")
    return CheckResult("ok", "audit", f"{path}: {len(data.splitlines())} lines, each as it was written")


def check_machine(site: LoadedSite, asked: Built, rows: int) -> Iterator[CheckResult]:
    """Versions, kernels, and what `check_resources` finds."""
    import numpy as np

    import secfc
    from secfc.roles.description import PROTOCOL

    yield CheckResult(
        "ok", "versions",
        f"secfc {secfc.__version__}, protocol {PROTOCOL}, Python {platform.python_version()}, NumPy "
        f"{np.__version__}; all sites need the same protocol",
    )  # fmt: skip
    _, spent = time_work(lambda: prepare_kernels(asked, facts_to_judge(asked, rows)[0]))
    yield CheckResult("ok", "kernels", f"ready after {spent:.1f} s")
    yield from check_resources(site, asked, rows)
