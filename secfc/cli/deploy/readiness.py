"""Whether this site can take part: its values, memory and disk; and its kernels, before any clock starts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secfc import tiny_runs
from secfc.cli.deploy.run_file import Built
from secfc.cli.deploy.site import LoadedSite
from secfc.cli.shell.errors import bad_input
from secfc.errors import InputError
from secfc.logs import silence_logs
from secfc.roles.exchange import SERVER

if TYPE_CHECKING:
    from secfc.algorithm import PublicFacts
    from secfc.data.party import Party
    from secfc.scaling.scaling import Scaling

# Bytes of a process before it holds rows; of a compared pair of centers, for each row, that a party holds at
# once, and that its journal keeps in a step: as eight deployments of up to 250,000 rows were measured, of
# 4, 8 and 16 clusters, whose memory was within 1.5 of what this says.
LOADED, HELD, KEPT = 250 << 20, 400, 90
# Steps that an estimate is for; and those of which a client that compares keeps all that it was told, until
# every peer is past them.
STEPS, OPEN_STEPS = 20, 2


@dataclass(frozen=True)
class CheckResult:
    """A finding.  state: "ok", "warn" or "fail"."""

    state: str
    what: str
    more: str


def check_bound(site: LoadedSite, asked: Built, party: Party, kept: Any) -> bool:
    """Whether the run file has a bound or ranges that end a run of values beyond, which all values keep.

    kept: which of the file's rows these are, None for all.  Raises InputError with the first cell beyond it.
    """
    import numpy as np

    from secfc.data.party import raw_blocks

    public = asked.public
    if (limits := public_limits(asked)) is None:
        return False
    own = None if public.observed is None else public.observed[public.clients.index(party.name)]
    all_names = public.features or site.run.features
    names = all_names if own is None else [all_names[i] for i in own]
    limits = limits.among(own)
    for first, block in raw_blocks(party.points):
        far = np.abs(block - np.array(limits.centers)) > limits.limit * np.array(limits.units)
        if len(beyond := np.argwhere(far)):
            row, column = (first + beyond[0][0], beyond[0][1])
            at = int(row if kept is None else kept[row])
            least, most = (
                limits.centers[column] + sign * limits.units[column] * limits.limit for sign in (-1, 1)
            )
            what, word = ("public range", "--prepare ranges") if least + most else ("bound", "--set bound")
            path = None if site.file.data is None else site.file.data.path
            raise InputError(
                f"{path}, line {at + 2} (row {at}, from 0), column {names[column]!r}: the value is beyond "
                f"the {what} of the run, {least:g} to {most:g}. Correct it, or agree on a larger {what} "
                f"({word}=... of `secfc deploy init`)"
            )
    return True


def public_limits(asked: Built) -> Scaling | None:
    """Between which values all must lie, by feature; None where nothing public ends a run of others."""
    from secfc.scaling.algorithm import Scaled
    from secfc.scaling.scaling import Scaling
    from secfc.scaling.ways import FillMeans, Range

    features, d = asked.public.features, asked.public.d
    if asked.algorithm.capabilities.joins and asked.asked.settings.standardize:
        return None  # each owner brings its columns to scale by itself
    way = asked.algorithm.scaling if isinstance(asked.algorithm, Scaled) else FillMeans(asked.public.bound)
    if isinstance(way, Range) and way.ranges is not None and way.outside == "refuse":
        return way.public_scaling(features, d, None)
    if asked.derived or "bound" not in asked.method.names or not isinstance(way, FillMeans):
        return None
    return Scaling((0.0,) * d, (1.0,) * d, way.limit) if way.outside == "refuse" else None


def check_resources(
    site: LoadedSite, asked: Built, rows: int, known: PublicFacts | None = None
) -> Iterator[CheckResult]:
    """Memory and disk.  known: once the sites have told their rows."""
    public, when = (known, "") if known is not None else facts_to_judge(asked, rows)
    memory, journal = estimate_bytes(asked, public, settling=site.file.party != SERVER)
    free = available_memory()
    short = free is not None and memory > free
    yield CheckResult(
        "fail" if short else "ok", "memory",
        f"about {format_bytes(memory)} are needed{when}"
        + ("" if free is None else f", {format_bytes(free)} are free")
        + (": fewer rows, or another machine" if short else ""),
    )  # fmt: skip
    for folder in (site.file.journal, site.file.results):
        there = next(path for path in (folder, *folder.resolve().parents) if path.exists())
        if not os.access(there, os.W_OK):
            yield CheckResult(
                "fail", "disk", f"{there} may not be written to: change that, or name another directory"
            )
            continue
        left = shutil.disk_usage(there).free
        need = journal if folder == site.file.journal else rows * 40
        low = need > left
        yield CheckResult(
            "fail" if low else "ok", "disk",
            f"{folder}: about {format_bytes(need)} for {STEPS} steps, {format_bytes(left)} are free"
            + (": make room" if low else ""),
        )  # fmt: skip


def facts_to_judge(asked: Built, rows: int) -> tuple[PublicFacts, str]:
    """What a run is judged by before its sites met, and what that assumes, in words.

    All others are taken to have as many rows as this one, or few where so many could not be clustered.
    """
    try:
        asked.draft(alike := asked.guessed(rows, rows))
    except InputError:
        return asked.guessed(rows), " if the other sites have few rows; all as many could not be clustered"
    return alike, " if all sites have as many rows"


def estimate_bytes(asked: Built, public: PublicFacts, *, settling: bool) -> tuple[int, int]:
    """Bytes of memory and of a journal, roughly: shares of all rows, and what a comparing client hears.

    settling: whether the journal drops what is over for all, as a client's does unless labels stay shared.
    """
    from secfc.coded.plan import CodedPlan

    inner: Any = asked.draft(public)
    # Before a union of IDs a plan has no code, and says no k.
    lanes = inner.code.basis.lanes if isinstance(inner, CodedPlan) else 2
    m, k = sum(public.counts), int(getattr(inner, "k", 8) or 8)
    shares = 4 * lanes * m * (len(asked.public.features or ()) + 1)
    if asked.stakes.policy not in ("assignments", "own-labels", "final-labels"):
        told = 4 * lanes * m * k if asked.stakes.policy not in ("feddp", "k-fed") else 1 << 16
        return LOADED + 2 * shares + 24 * lanes * m * k, shares + STEPS * told
    pairs = min(k * (k - 1) // 2, 8 * k)
    steps = OPEN_STEPS if settling and asked.stakes.policy == "assignments" else STEPS
    return LOADED + 2 * shares + HELD * m * pairs, shares + steps * KEPT * m * pairs


def available_memory() -> int | None:
    """Bytes of memory that are free, None where the system does not say."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        return next(int(line.split()[1]) << 10 for line in text.splitlines() if "MemAvailable" in line)
    except (OSError, StopIteration, ValueError):
        return None


def format_bytes(nbytes: int) -> str:
    """For people."""
    power = min(3, (len(str(nbytes)) - 1) // 3)
    return f"{nbytes // 1000**power} {('B', 'KB', 'MB', 'GB')[power]}"


def prepare_kernels(asked: Built, public: PublicFacts) -> None:
    """Load or compile what the run needs, for these numbers of rows."""
    algorithm: Any = asked.algorithm.capabilities.inner or asked.algorithm
    plan = asked.draft(public)
    with bad_input(OverflowError):
        if hasattr(plan, "union"):  # only a draft, before IDs are united
            plan = asked.method.foresee(algorithm, public)
        with silence_logs():
            tiny_runs.prepare_kernels(algorithm, plan)
