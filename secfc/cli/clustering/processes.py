"""`secfc run --processes`: a rehearsal, every party a process of this machine, by `secfc deploy`."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from field.ring.errors import install_command
from secfc.cli.clustering.execute import make_public
from secfc.cli.shell.errors import Failed, RefusedInput, bad_input, cautions_noted
from secfc.cli.shell.method import AskedOptions, Method
from secfc.cli.shell.screen import Screen
from secfc.cli.shell.settings import Settings
from secfc.roles.exchange import SERVER

if TYPE_CHECKING:
    from secfc.data.federation import Federation

# Options that say something about one process that sees all data, or about no run file.
ELSEWHERE = {
    "plot": "draws the costs that one process sees", "checkpoint": "is what every party does by itself here",
    "evaluate": "is for one process that sees all data",
    "publish": "is for one process that sees all data",
    "report": "is for one process that sees all data",
    "model": "keeps the shares of all parties in one file",
}  # fmt: skip
OPENS = (
    "smallest_t = 0",
    "smallest_center = 1",
    "open_dendrogram = true",
)  # nobody is protected from oneself
SECFC = (sys.executable, "-m", "secfc.cli", "deploy")


@dataclass(frozen=True)
class LocalRehearsal:
    """What came of it.  labels: by client.  same: whether they are those of plaintext k-means, None without.

    reports: of every party, as it wrote it.  seconds: from the first process to the last result.
    """

    labels: Mapping[str, Any]
    same: bool | None
    reports: Mapping[str, dict[str, Any]]
    seconds: float

    def figures(self) -> dict[str, Any]:
        """In plain values."""
        sent = {name: sum(report["bytes_sent"].values()) for name, report in self.reports.items()}
        server = self.reports[SERVER]
        return {
            "parties": list(self.reports), "labels_equal_plaintext": self.same, "seconds": self.seconds,
            "bytes_sent": sent, "iterations": server["iterations"], "converged": server["converged"],
            "cost": server["cost"], "learned_by_server": server["learned"],
            "labels_digests": {name: self.reports[name]["labels_digest"] for name in self.labels},
        }  # fmt: skip


def check_rehearsal(asked: AskedOptions) -> None:
    """Raise UsageError, Refused for what a rehearsal does not do."""
    settings = asked.settings
    for name, why in ELSEWHERE.items():
        if getattr(settings, name):
            raise click.UsageError(f"--{name} {why}: leave it out, or leave out --processes.")
    asked.refuse(
        ("ledger",), "{option} counts for the owner of a simulation, and in a rehearsal every site remembers "
        "its own budget: leave it out, or leave out --processes.",
    )  # fmt: skip
    if settings.categorical:
        raise RefusedInput(
            "--categorical: the files of a rehearsal hold numbers alone, where sites bring text: leave it "
            "out, or leave out --processes."
        )
    if missing := [name for name in ("websockets", "tomli_w") if find_spec(name) is None]:
        raise RefusedInput(f"--processes needs {' and '.join(missing)}: {install_command('[deploy]')}.")


@cautions_noted()
def rehearse(method: Method, asked: AskedOptions, federation: Federation, screen: Screen) -> LocalRehearsal:
    """Run it, every party a process, and compare labels with plaintext k-means where that is exact.

    Raises InputError, Refused, and Failed with the last words of the party that failed first.
    """
    from secfc.cli.deploy.run_file import build_run
    from secfc.deploy.runfile import RunFile

    with tempfile.TemporaryDirectory(prefix="secfc-rehearsal-") as name:
        folder = Path(name)
        folder.chmod(0o700)
        with screen.status("Writing the files of every party"), bad_input(OSError):
            run = lay_out(folder, method, asked, federation)
        build_run(RunFile.read(folder / "run.toml"))  # refuses here what all would refuse
        begun = time.monotonic()
        with screen.status(f"Clustering, in {len(run.parties) + 1} processes"):
            run_parties(folder, run.parties)
        spent = time.monotonic() - begun
        reports = {p: json.loads((folder / p / "results/report.json").read_bytes()) for p in run.parties}
        labels = {client: read_labels(folder / client / "results/labels.csv") for client in run.clients}
    with screen.status("Comparing with plaintext k-means"):
        same = compare_with_plaintext(method, asked, federation, labels, reports[SERVER]["groups"])
        return LocalRehearsal(labels, same, reports, spent)


def lay_out(folder: Path, method: Method, asked: AskedOptions, federation: Federation) -> Any:
    """The run file, and a directory for each party: key, site file and rows."""
    from secfc.deploy.keys import create_key_file
    from secfc.deploy.runfile import RunFile, new_session

    features = federation.feature_names or tuple(f"feature {i}" for i in range(federation.d))
    keys, columns, linkage = {}, {}, None if asked.persons else asked.settings.linkage
    for i, party in enumerate((*federation.names, SERVER)):
        (folder / party).mkdir(mode=0o700)
        keys[party] = create_key_file(folder / party / "site.key").public
        text = f'[site]\nparty = {json.dumps(party)}\nrun = "../run.toml"\nkey = "site.key"\n'
        if party != SERVER:
            own = federation.parties[i]
            if federation.observed is not None:
                columns[party] = tuple(features[f] for f in federation.observed[i])
            write_rows(folder / party / "rows.csv", own, columns.get(party, features), linkage)
            named = own.named is not None and linkage is None
            ids = 'id_column = "id"\n' if named else ""
            read = f'[data]\npath = "rows.csv"\n{ids}' if columns.get(party, features) else ""
            text += f"derived_bound = true\n{read}[floors]\n" + "\n".join(OPENS)
        (folder / party / "site.toml").write_text(text + "\n", encoding="utf-8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    run = RunFile(
        "a rehearsal",
        new_session(),
        f"ws://127.0.0.1:{port}",
        keys,
        features,
        method.name,
        clusters_in_words(method, asked),
        run_file_options(method, asked),
        run_file_preparing(asked.settings),
        columns,
        split=asked.settings.split,
        seed=asked.settings.seed,
        schema=linkage,
    )
    (folder / "run.toml").write_text(run.toml(), encoding="utf-8")
    return run


def write_rows(path: Path, party: Any, columns: tuple[str, ...], linkage: Any = None) -> None:
    """Rows as CSV: the shortest decimals that read back, and IDs in the columns of a schema, if any."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        heads = () if party.named is None else ("id",) if linkage is None else linkage.columns
        writer.writerow((*heads, *columns))
        names, row = party.named, 0
        for _, block in party.blocks():
            for values in block.tolist():
                name = (
                    () if not heads else (names[row],) if linkage is None else linkage.texts(party.ids[row])
                )
                writer.writerow((*name, *values))
                row += 1


def clusters_in_words(method: Method, asked: AskedOptions) -> int | str:
    """How many, in words of the shell."""
    k = asked.k
    if method.finds:
        return "auto"
    if isinstance(k, int):
        return k
    return f"{k.least}..{k.most}" if k.most else "auto"


def run_file_options(method: Method, asked: AskedOptions) -> dict[str, Any]:
    """What was asked of the method, as a run file says it."""
    from secfc.cli.deploy.run_file import ELSEWHERE as OWN

    said = {}
    for name in asked.given:
        value = asked.options[name]
        if name not in OWN and name in method.names and value is not None:
            said[name] = str(value.resolve()) if isinstance(value, Path) else value
    if not asked.settings.files and "bound" in method.names:
        said["bound"] = make_bound(asked)
    return said


def make_bound(asked: AskedOptions) -> float:
    """The public bound; without one that of the demonstration's pixels."""
    return float(asked["bound"] or 16.0)


def run_file_preparing(settings: Settings) -> dict[str, Any]:
    """How features are prepared, as a run file says it."""
    said: dict[str, Any] = {
        "standardize": settings.standardize, "to_range": settings.to_range,
        "scale_share": settings.scale_share, "limit": settings.limit, "outside": settings.outside,
    }  # fmt: skip
    if settings.ranges is not None:
        said["ranges"] = ",".join(f"{name}={low}:{high}" for name, low, high in settings.ranges)
    if settings.missing == "mean":
        said["missing"] = "mean"
    return {name: value for name, value in said.items() if value}


def run_parties(folder: Path, parties: tuple[str, ...]) -> None:
    """Run a hub and every party to the end.  Raises Failed."""
    url = (folder / "run.toml").read_text(encoding="utf-8").partition('hub = "ws://')[2].partition('"')[0]
    host, _, port = url.partition(":")
    words = {"hub": ["hub", "run.toml", "--plain", "--host", host, "--port", port]}
    for party in parties:
        words[party] = ["serve" if party == SERVER else "join", f"{party}/site.toml"]
    with run_processes(folder, words) as started:
        waiting = set(parties)
        while waiting:
            for party in sorted(waiting):
                code = started[party].poll()
                if code:
                    raise Failed(f"{party} ended with exit code {code}: {last_line(folder, party)}")
                if code == 0:
                    waiting.discard(party)
            time.sleep(0.02)


@contextlib.contextmanager
def run_processes(
    folder: Path, words: Mapping[str, list[str]]
) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """These commands, each in a process that is gone when the body is left."""
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, line in words.items():
            with (folder / f"{name}.log").open("wb") as log:
                started[name] = subprocess.Popen(
                    [*SECFC, *line], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                )  # fmt: skip
        yield started
    finally:
        for process in started.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for process in started.values():
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def last_line(folder: Path, party: str) -> str:
    """What a party said last."""
    lines = (folder / f"{party}.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return next((line for line in reversed(lines) if line.startswith("Error")), lines[-1] if lines else "")


def read_labels(path: Path) -> Any:
    """Labels of a client's rows (m_j,)."""
    import numpy as np

    with path.open(encoding="utf-8") as file:
        return np.array([int(line["label"]) for line in csv.DictReader(file)], np.int32)


def compare_with_plaintext(
    method: Method,
    asked: AskedOptions,
    federation: Federation,
    labels: Mapping[str, Any],
    groups: Sequence[int] | None,
) -> bool | None:
    """Whether these are the labels of plaintext k-means, by the groups (k,) that clusters were joined in.

    None where that is not verified.
    """
    import numpy as np

    from secfc.cli.clustering.preprocessing import prepare_points
    from secfc.coded.membership import Open
    from secfc.data.inputs import with_parameters
    from secfc.pipeline import fit

    prepared = prepare_points(asked, federation)
    points, asked = prepared.points, prepared.asked(asked)
    public = make_public(points, asked, prepared.bound)
    choice = method.choose(asked, public)
    union = not isinstance(choice.algorithm.capabilities.membership, Open | None)
    if choice.twin is None or prepared.noisy or union:
        return None  # rows of a union are in an order of their own
    plan: Any = choice.algorithm.plan(public)
    twin = with_parameters(choice.twin, scale=plan.quantizer.scale)
    plain = fit(twin, points, seed=asked.settings.seed, bound=public.bound)
    wanted = [own if groups is None else np.array(groups)[own] for own in plain.labels]
    return all(own.tolist() == labels[name].tolist() for name, own in zip(points.names, wanted, strict=True))


def print_rehearsal(found: LocalRehearsal, federation: Federation, *, as_json: bool) -> None:
    """On stdout."""
    from secfc.cli.shell.outputs import json_text

    figures = found.figures()
    if as_json:
        click.echo(json_text(figures))
        return
    said = {True: "they are those of plaintext k-means", False: "THEY ARE NOT those of plaintext k-means"}
    same = "they were not compared" if found.same is None else said[found.same]
    labeled = sum(int((own >= 0).sum()) for own in found.labels.values())
    click.echo(
        f"A rehearsal on this machine, which saw all data: {federation.n} clients, the server and a hub, "
        f"each a process of its own.\n{labeled} rows were labeled in {found.seconds:.1f} s, from the "
        f"first process to the last result; {same}."
    )
    total = sum(figures["bytes_sent"].values())
    click.echo(f"The parties sent {total / 1e6:.1f} MB before sealing; the server learned:")
    for sentence in figures["learned_by_server"]:
        click.echo(f"  {sentence}")
    click.echo("Between machines the same is `secfc deploy`: see `secfc deploy --help`.")
