"""The nightly set, shard by shard: a file of tests, or a part; five mutants of a file of code; `.ci/lowest`.

    .ci/nightly                              # what has no record of this state of the files, the oldest first
    .ci/nightly --mutants 60 mutants         # of mutants alone, for an hour
    .ci/nightly --minutes 60 secfc/deploy    # shards with this in their names, for an hour
    .ci/nightly --list                       # only name them

Each shard that has ended has its row in `docs/nightly.md`, which is all that is kept: if the command is ended
and begun again, it goes on with what is left.  Each processor runs one.  None begins after the minutes; what
began goes on.  Mutants of all files would take days: a night tries those of a few, the next night of others.
Exits with 1 if a row, new or old, tells of failures.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.mutation.__main__ import mutated_files

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "docs" / "nightly.md"
MUTANTS = "mutants of "
LOWEST = ".ci/lowest"
# Files that take hours: each part has every so-manieth test, from another one on.
PARTS = {"tests/secfc/active/test_a7_losses.py": 12, "tests/secfc/coded/test_faults.py": 24}
# Of a pytest run, and of one of mutants, whose lives are failures.
COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)\b")
LIVES = re.compile(r"^\S+: (\d+) mutants in \d+ s, (\{.*\})$", re.MULTILINE)
HEAD = """# Nightly runs

What `.ci/nightly` ran, one line a shard, as it was last run: the nightly set of a file of tests or a part of
it, five mutants of a file, or `.ci/lowest`. A shard that has no line has not run by this command. `seed` is
that of Hypothesis, chooses mutants, and which part of losses and of altered words is tried. A mutant that
lived is no fault, but a rule that no test holds, and counts as failed.
Lines of an older commit are of other files than now: the command begins with the oldest.

{sums}

Of mutants, what all runs drew, also of files that ran again since; who lived then may be held by now:

{scores}

Seed 0 is no draw: 150 mutants in 139 files were chosen by hand, and written down before any was tried.
62 of them lived. Tests hold 58 of these since, one was of code that is gone, and three change nothing.
A product of odd primes is never twice a number (`argmin.py`: `<` for `<=`). The term that `side_margin`
exceeds stays below it without its 1. Sums of squares of numbers up to 2**33 (`sum_of_squares`) are exact
below 2**29 of them.

| shard | day | commit | seed | ended well | skipped | failed | seconds | failures |
|---|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class ShardRecord:
    """What one shard came to.  failures: names of tests, or places of mutants that lived."""

    name: str
    day: str
    commit: str
    seed: int
    passed: int
    skipped: int
    failed: int
    seconds: int
    failures: str

    def __str__(self) -> str:
        return "| " + " | ".join(str(value).replace("|", "/") for value in astuple(self)) + " |"


def read_record(text: str) -> dict[str, ShardRecord]:
    """Rows by their shards."""
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 9 and cells[3].isdigit():
            name, day, commit, *numbers, failures = cells
            rows[name] = ShardRecord(name, day, commit, *map(int, numbers), failures)
    return rows


def write_record(rows: dict[str, ShardRecord], scores: list[Score], path: Path = RECORD) -> None:
    draft = path.with_suffix(".tmp")
    head = HEAD.format(sums="\n".join(sum_by_commit(rows)), scores="\n".join(add_up(scores)))
    draft.write_text(head + "".join(f"{rows[name]}\n" for name in sorted(rows)))
    draft.replace(path)


class Score(NamedTuple):
    """What became of mutants of so many files, of one day, state of the files and draw."""

    day: str
    commit: str
    seed: int
    files: int
    mutants: int
    lived: int


def read_scores(text: str) -> list[Score]:
    cells = ([cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines())
    return [Score(*row[:2], *map(int, row[2:])) for row in cells if len(row) == 6 and row[2].isdigit()]


def keep_score(scores: list[Score], row: ShardRecord) -> list[Score]:
    """The scores with that of one shard more; one of tests, or that did not begin, has none."""
    if not row.name.startswith(MUTANTS) or row.failures.startswith("exit code"):
        return scores
    same = [each for each in scores if each[:3] == (row.day, row.commit, row.seed)]
    drawn, lived, others = row.passed + row.failed, row.failed, [each for each in scores if each not in same]
    for each in same:
        drawn, lived = drawn + each.mutants, lived + each.lived
    files = sum(each.files for each in same) + 1
    return [*others, Score(row.day, row.commit, row.seed, files, drawn, lived)]


def add_up(scores: list[Score]) -> Iterator[str]:
    """The table of scores, and their sum."""
    yield "| day | commit | seed | files | mutants | lived |"
    yield "|---|---|---|---|---|---|"
    yield from ("| " + " | ".join(map(str, score)) + " |" for score in scores)
    files, mutants, lived = (sum(score[at] for score in scores) for at in (3, 4, 5))
    yield f"| all | | | {files} | {mutants} | {lived} |"


def sum_by_commit(rows: dict[str, ShardRecord]) -> Iterator[str]:
    """The table of what parts of several days add up to: of which state of the files each speaks."""
    yield "| commit | days | shards of tests | failed | files of mutants | mutants | lived |"
    yield "|---|---|---|---|---|---|---|"
    last = {row.commit: row.day for row in sorted(rows.values(), key=lambda row: row.day)}
    commits = sorted(last, key=lambda commit: (last[commit], commit))
    for commit in [*commits, *["all"] * (len(commits) > 1)]:
        these = [row for row in rows.values() if commit in (row.commit, "all")]
        mutants = [row for row in these if row.name.startswith(MUTANTS)]
        tests, days = [row for row in these if row not in mutants], sorted({row.day for row in these})
        begun = [row for row in mutants if not row.failures.startswith("exit code")]
        lived = sum(row.failed for row in begun)
        failed = sum(row.failed for row in these) - lived
        tried = lived + sum(row.passed for row in begun)
        when = " to ".join(dict.fromkeys((days[0], days[-1])))
        cells = (commit, when, len(tests), failed, len(mutants), tried, lived)
        yield "| " + " | ".join(map(str, cells)) + " |"


def shard_names() -> Iterator[str]:
    """All there are."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = str(path.relative_to(ROOT))
        parts = PARTS.get(name, 1)
        yield from (name if parts == 1 else f"{name} {part}/{parts}" for part in range(1, parts + 1))
    yield from (MUTANTS + file for file in mutated_files())
    yield LOWEST


def call_git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


@cache
def is_current(commit: str) -> bool:
    """Whether files are those of a commit, but for the record."""
    same = ["git", "diff", "--quiet", commit, "--", ".", f":(exclude){RECORD.relative_to(ROOT)}"]
    return subprocess.run(same, cwd=ROOT, capture_output=True, check=False).returncode == 0


def due_shards(
    names: list[str], rows: dict[str, ShardRecord], current: Callable[[str], bool], words: list[str]
) -> list[str]:
    """Shards with one of these words that have no current row, those without any first, then the oldest."""
    asked = [name for name in names if not words or any(word in name for word in words)]
    left = [name for name in asked if name not in rows or not current(rows[name].commit)]
    return sorted(left, key=lambda name: rows[name].day if name in rows else "")


def summarize(name: str, output: str, code: int) -> tuple[int, int, int, str]:
    """Of a run's output: how many ended well, were skipped, failed; and which failed."""
    if name.startswith(MUTANTS):
        found = LIVES.search(output)
        lives = re.findall(r"^(\S+:\d+.*)$", output, re.MULTILINE)
        if found is None:
            return 0, 0, 1, f"exit code {code}"
        lived = [line for line in lives if line != found[0]]
        return int(found[1]) - len(lived), 0, len(lived), "; ".join(lived)
    counts = {
        kind.rstrip("s"): int(number) for number, kind in COUNT.findall(output[output.rfind("\n", 0, -1) :])
    }
    failed = counts.get("failed", 0) + counts.get("error", 0)
    names = re.findall(r"^(?:FAILED|ERROR) \S+?\.py(?:::(.+?))?(?: - .*)?$", output, re.MULTILINE)
    if code not in (0, 5) and not failed:
        return counts.get("passed", 0), counts.get("skipped", 0), 1, f"exit code {code}"
    return counts.get("passed", 0), counts.get("skipped", 0), failed, "; ".join(names)


def run_shard(name: str, seed: int) -> ShardRecord:
    """Run one, and show what it said if it failed."""
    # Files of tests lie on a disc, as not by day.  What mutants and the lowest run is of the short suite.
    env, begun = {"TMPDIR": tempfile.gettempdir(), **os.environ}, time.monotonic()
    if name == LOWEST:
        words = [LOWEST]
    elif name.startswith(MUTANTS):
        file = name.removeprefix(MUTANTS)
        words = [sys.executable, "-m", "tests.mutation", file, "-n", "5", "--seed", str(seed)]
    else:
        file, _, part = name.partition(" ")
        words = [sys.executable, "-m", "pytest", file, f"--hypothesis-seed={seed}"]
        env |= {"HYPOTHESIS_PROFILE": "nightly", "NIGHT": str(seed), "PART": part or "1/1"}
    told = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run(words, cwd=ROOT, env=env, check=False, **told)
    *counts, failures = summarize(name, done.stdout, done.returncode)
    if done.returncode not in (0, 5):
        print(done.stdout, flush=True)
    commit, spent = call_git("rev-parse", "--short=7", "HEAD"), round(time.monotonic() - begun)
    commit += "" if is_current(commit) else " and changes"
    return ShardRecord(name, f"{datetime.now(UTC):%Y-%m-%d}", commit, seed, *counts, spent, failures)


def run_shards(names: list[str], run: Callable[[str], ShardRecord], end: float) -> Iterator[ShardRecord]:
    """Run those that begin before an end of the clock, one a processor, and yield each as it ends."""
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    try:
        begun = [pool.submit(lambda name=n: run(name) if time.monotonic() < end else None) for n in names]
        yield from (row for done in as_completed(begun) if (row := done.result()) is not None)
    finally:
        pool.shutdown(cancel_futures=True)


def main() -> int:
    about, _, lines = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        ".ci/nightly", description=about, epilog=lines, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", help="parts of names of shards")
    parser.add_argument("--minutes", type=float, default=360.0, help="after which no shard begins (360)")
    parser.add_argument(
        "--mutants",
        type=float,
        default=10.0,
        help="minutes after which, all else begun, no file of mutants does (10)",
    )
    parser.add_argument(
        "--seed", type=int, default=int(datetime.now(UTC).strftime("%Y%m%d")), help="(the day)"
    )
    parser.add_argument("--list", action="store_true", help="only name what is left")
    given = parser.parse_args()
    rows, scores = read_record(RECORD.read_text()), read_scores(RECORD.read_text())
    names = list(shard_names())
    rows = {name: row for name, row in rows.items() if name in names}
    due = due_shards(names, rows, is_current, given.words)
    if given.list:
        print(*due, sep="\n")
        due = []
    end = time.monotonic() + 60 * given.minutes
    mutants = [name for name in due if name.startswith(MUTANTS)]
    for shards, minutes in (
        ([name for name in due if name not in mutants], math.inf),
        (mutants, given.mutants),
    ):
        last = min(end, time.monotonic() + 60 * minutes)
        for row in run_shards(shards, lambda name: run_shard(name, given.seed), last):
            rows[row.name], scores = row, keep_score(scores, row)
            write_record(rows, scores)
            print(row, flush=True)
    return int(any(row.failed for row in rows.values()))


if __name__ == "__main__":
    raise SystemExit(main())
