"""Sites as processes: all that a run between organizations needs, in a directory, by its own commands."""

import contextlib
import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from secfc.data.inputs import seeded_generator
from secfc.deploy.keys import create_key_file
from secfc.deploy.runfile import RunFile, Waiting

ROOT = Path(__file__).parents[3]
QUICK = Waiting(arrival=120.0, patience=60.0, rejoin=30.0, pulse=15.0)
HERE = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
SECFC = [sys.executable, "-m", "secfc.cli", "deploy"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Sites:
    """A hub, a server and clients.  rows: by client, (m_j, d); ids: by client, or none."""

    def __init__(self, folder, rows, *, ids=None, columns=None, waiting=QUICK, nursery=None, **terms):
        self.folder, self.rows, self.port = folder, rows, free_port()
        self.features = terms.pop("features", ("x", "y", "z"))
        keys = {}
        for name in (*rows, "server"):
            (folder / name).mkdir()
            keys[name] = create_key_file(folder / name / "site.key").public
        self.run = RunFile(
            "a test", terms.pop("session", os.urandom(32)), f"ws://127.0.0.1:{self.port}", keys,
            self.features,
            seed=terms.pop("seed", 3), columns=columns or {}, waiting=waiting, **terms,
        )  # fmt: skip
        (folder / "run.toml").write_text(self.run.toml())
        for name, points in rows.items():
            self.write_rows(name, points, None if ids is None else ids[name])
            self.write_site(name, ids is not None)
        self.write_site("server", named=False)
        self.processes, self.nursery = {}, nursery
        self.hub_words = ["--plain"]

    def change(self, **terms):
        """Other terms for all; where the hub is, for example."""
        self.run = replace(self.run, **terms)
        (self.folder / "run.toml").write_text(self.run.toml())

    def write_rows(self, name, points, ids=None, file="rows.csv"):
        own = self.run.columns.get(name, self.features)
        with (self.folder / name / file).open("w", newline="") as out:
            writer = csv.writer(out)
            writer.writerow((*(["id"] if ids is not None else []), *own))
            for i, row in enumerate(points.tolist()):
                writer.writerow((*([ids[i]] if ids is not None else []), *row))

    def write_site(self, name, named, floors="", site="derived_bound = true\n"):
        data = "" if name == "server" else '[data]\npath = "rows.csv"\n' + 'id_column = "id"\n' * named
        text = f'[site]\nparty = "{name}"\nrun = "../run.toml"\nkey = "site.key"\n{site}'
        (self.folder / name / "site.toml").write_text(
            f"{text}\n{data}\n" + f"[floors]\n{floors}\n" * (name != "server")
        )

    # --- processes

    def start(self, name, *more, **environment):
        """Start a party, or "hub"; again after it ended."""
        if name == "hub":
            words = ["hub", str(self.folder / "run.toml"), *self.hub_words]
            words += ["--host", "127.0.0.1", "--port", str(self.port)]
        elif name == "check":
            words = ["check"]
        else:
            words = ["serve" if name == "server" else "join", str(self.folder / name / "site.toml")]
        return self.run_words(name, [*words, *more], environment)

    def command(self, name, *words):
        """Start another command of a party."""
        return self.run_words(name, list(words), {})

    def run_words(self, name, words, environment):
        log = self.folder / f"{name}.log"
        if self.nursery is not None:
            process = self.nursery.start(words, log, self.folder, environment)
        else:
            with log.open("ab") as file:
                process = subprocess.Popen(
                    [*SECFC, *words], stdout=file, stderr=file, stdin=subprocess.DEVNULL,
                    cwd=self.folder, env={**HERE, **environment},
                )  # fmt: skip
        self.processes[name] = process
        return process

    def start_all(self):
        for name in ("hub", *self.rows, "server"):
            self.start(name)

    def kill(self, name, number=signal.SIGKILL):
        self.processes[name].send_signal(number)
        self.processes[name].wait(10)

    def wait(self, *names, seconds=150):
        """Exit codes, in the order of the names."""
        end = time.monotonic() + seconds
        return [self.processes[name].wait(max(0.1, end - time.monotonic())) for name in names]

    def everybody(self, seconds=150):
        """Exit codes of all parties, the hub still being there."""
        names = (*self.rows, "server")
        return dict(zip(names, self.wait(*names, seconds=seconds), strict=True))

    def close(self):
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait(10)

    # --- what they say

    def log(self, name):
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def events(self, name):
        lines = [line for line in self.log(name).splitlines() if line.startswith("{")]
        return [json.loads(line) for line in lines]

    def until(self, name, note, seconds=120, count=1):
        """Wait until a party has said so often that it is in this phase."""
        end = time.monotonic() + seconds
        while sum(e.get("note") == note for e in self.events(name)) < count:
            if time.monotonic() > end or self.processes[name].poll() is not None:
                raise AssertionError(f"{name} never came to {note!r}:\n{self.log(name)}")
            time.sleep(0.01)

    def until_said(self, name, words, seconds=120):
        """Wait until these words stand in a log."""
        end = time.monotonic() + seconds
        while words not in self.log(name):
            assert time.monotonic() < end, self.log(name)
            time.sleep(0.01)

    def labels(self, name, path=None):
        with (path or self.folder / name / "results" / "labels.csv").open() as file:
            return np.array([int(line["label"]) for line in csv.DictReader(file)])

    def report(self, name):
        return json.loads((self.folder / name / "results" / "report.json").read_text())


@contextlib.contextmanager
def sites(folder, rows, **more):
    made = Sites(folder, rows, **more)
    try:
        yield made
    finally:
        made.close()


def blobs(counts, seed=1, d=3):
    """Rows by client, of three clusters."""
    rng = seeded_generator(seed)
    rows = [rng.normal(rng.integers(0, 3, (m, 1)) * 6.0, 1.0, (m, d)).round(3) for m in counts]
    return {f"site-{i}": own for i, own in enumerate(rows)}
