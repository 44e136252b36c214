"""A party as a child of FLARE's job process: started, started again after a crash, ended with the job.

FLARE ends a job when one of its processes dies, so the role lives in a process of its own; it goes on from
its journal.  What it prints stays in a file of the site: FLARE sees how it ended, a number, and nothing else.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from secfc.deploy.history import REMEMBERED, SiteHistory
from secfc.deploy.runfile import RunFile
from secfc.deploy.site import SiteFile
from secfc.errors import InputError

# A party that was killed so often, each time within so many seconds, is not started again.
CRASHES, QUICK = 5, 60.0
# Exit codes of a party whose part is done.
WELL = (0, 5)
# Seconds between being asked to end and being made to.
MERCY = 5.0

# Instead of 2, where a party refuses since its part of this run was done before.
REFUSED, DONE_BEFORE = 2, 200

# What ended a party, in words that may travel, by its exit code.
WORDS = {
    0: "its part is done",
    1: "the protocol failed there",
    2: "it refuses its run file, site file or data, or another party does, before anything of rows was said",
    4: "the run is below its floors",
    5: "its part is done, without some of the sites",
    75: "its run is suspended, and goes on when the job does",
    130: "its operator interrupted it",
    DONE_BEFORE: "its part of this run was done before, and its results lie there: no job is needed. A new "
    "run needs a run file with a new session (`secfc deploy init`)",
}


def explain_exit_code(code: int) -> str:
    """What an exit code means, and where to look."""
    said = WORDS.get(code, f"it was killed by signal {-code}, too often" if code < 0 else f"exit code {code}")
    return said if code in (*WELL, DONE_BEFORE) else f"{said}: the reason is in the log beside its site file"


def is_done_before(path: Path) -> bool:
    """Whether the run of this site file has ended here: rows were used in it, and its journal is gone.

    False where the files cannot be read: whoever starts the party says why.
    """
    try:
        site = SiteFile.read(path)
        session = RunFile.read(site.run).session
        known = SiteHistory.load(path.parent / REMEMBERED).runs.values()
    except (InputError, OSError):
        return False
    return not site.journal_of(session).exists() and any(run.session == session.hex() for run in known)


class Child:
    """command: of the party.  log: where what it prints goes.  ended: told its exit code, once."""

    def __init__(self, command: Sequence[str], log: Path, ended: Callable[[int], None]) -> None:
        self.command, self.log, self.ended = list(command), log, ended
        self.process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._stopping = False
        self._thread = threading.Thread(target=self._keep, name="secfc child", daemon=True)

    def __repr__(self) -> str:
        return f"Child({self.process.pid if self.process else None})"

    def start(self) -> None:
        """Start it, and keep it until it ends of itself."""
        self._thread.start()

    def _keep(self) -> None:
        crashes = 0
        while True:
            begun = time.monotonic()
            with self._lock:
                if self._stopping:
                    return
                with self.log.open("ab") as log:
                    self.process = subprocess.Popen(
                        self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                    )
            code = self.process.wait()
            crashes = crashes + 1 if time.monotonic() - begun < QUICK else 1
            if self._stopping:
                return
            if code >= 0 or crashes >= CRASHES:
                self.ended(code)
                return

    def stop(self) -> None:
        """End it, if it has not ended: its journal stays, so that the next job goes on from there."""
        with self._lock:
            self._stopping = True
            process = self.process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(MERCY)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
