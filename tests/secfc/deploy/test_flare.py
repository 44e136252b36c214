"""Whole runs over NVIDIA FLARE, provisioned, every party and every process of FLARE's its own: nightly."""

import contextlib
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip(
    "nvflare", reason="NVIDIA FLARE is not installed: pip install 'secfc-clustering[nvflare]'"
)
pytest.importorskip("websockets")

import secfc
from benchmarks.flare import DONE, LEAD, Farm
from field.secrets.coins import SystemCoins
from secfc.cli.deploy.run_file import build_run
from secfc.deploy.flare.policy import write_site_rules
from secfc.deploy.flare.project import write_project
from secfc.deploy.keys import create_key_file
from secfc.roles.exchange import SERVER

pytestmark = [pytest.mark.deployment, pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]

CLIENTS = ("north", "south", "west")
PARTIES = (*CLIENTS, SERVER)
FAILED = "FINISHED:EXECUTION_EXCEPTION"
MARKER = "patient-0815-"
RNG = np.random.default_rng(2)
POINTS = RNG.normal(RNG.integers(0, 3, (90, 1)) * 4, 0.5, (90, 3))
FEATURES = ("x", "y", "z")
APART = [range(0, 30), range(30, 55), range(55, 90)]
SHARED = [range(0, 45), range(30, 70), range(60, 90)]


class Runs(Farm):
    """A farm, and runs on it that are submitted in turn."""

    def __init__(self, home):
        super().__init__(home, {party: create_key_file(home / f"{party}.key").public for party in PARTIES})
        self.number = 0

    def run(self, **words):
        """A run file."""
        return self.run_file(FEATURES, **words)

    def prepare(self, run, rows=APART, floors="", command=()):
        """Run file, site files and data of a run; what every kit knows of it; and its job."""
        self.number += 1
        home = self.home / f"run {self.number}"
        home.mkdir()
        (home / "run.toml").write_text(run.toml())
        for number, party in enumerate(PARTIES):
            folder = home / party
            folder.mkdir()
            text = f'[site]\nparty = "{party}"\nrun = "../run.toml"\nkey = "{self.home}/{party}.key"\n'
            text += "derived_bound = true\n"
            if party != SERVER:
                lines = [",".join(("id", *FEATURES))]
                lines += [",".join((f"{MARKER}{i}", *map(repr, POINTS[i].tolist()))) for i in rows[number]]
                (folder / "rows.csv").write_text("\n".join(lines) + "\n")
                text += '[data]\npath = "rows.csv"\nid_column = "id"\n'
            text += "[floors]\nsmallest_center = 1\n" + (floors if party == CLIENTS[1] else "")
            (folder / "site.toml").write_text(text)
            write_site_rules(self.kits[party], run.session, folder / "site.toml", command or SECFC)
        return home, write_project(run, home / "flare", LEAD)[1]


@contextlib.contextmanager
def started(kind, home):
    made = kind(home)
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def farm(tmp_path_factory):
    with started(Runs, tmp_path_factory.mktemp("flare")) as made:
        yield made


def labels(home, client):
    with (home / client / "results/labels.csv").open() as file:
        return {row["id"]: int(row["label"]) for row in csv.DictReader(file)}


def all_labels(home):
    return {client: labels(home, client) for client in CLIENTS}


def expected(algorithm):
    ids = [[f"{MARKER}{i}" for i in rows] for rows in APART]
    federation = secfc.Federation.from_arrays([POINTS[list(r)] for r in APART], names=CLIENTS, ids=ids)
    found = secfc.fit(algorithm, federation, seed=5).labels
    return {
        c: dict(zip(i, map(int, own), strict=True)) for c, i, own in zip(CLIENTS, ids, found, strict=True)
    }


def nearest_mean(found):
    """Whether every point has the label of the mean that is nearest: Lloyd's algorithm has converged."""
    own = {int(name.removeprefix(MARKER)): label for of in found.values() for name, label in of.items()}
    points, given = POINTS[list(own)], np.array(list(own.values()))
    means = np.array([points[given == h].mean(0) for h in range(3)])
    return (((points[:, None] - means) ** 2).sum(2).argmin(1) == given).all()


SECFC = (sys.executable, "-m", "secfc.cli")
DEFAULT = {"options": {"t": 1}}
EXACT = {
    "default": DEFAULT,
    "distances": {"options": {"t": 1, "disclosure": "distances"}},
    "final labels": {"options": {"t": 1, "disclosure": "final-labels", "max_iter": 4}},
    "k-fed": {"algorithm": "k-fed", "options": {"k_local": 2}},
    "shared centers": {"algorithm": "federated-lloyd", "options": {"floor": 10}},
    "density": {"algorithm": "dbscan", "k": "auto", "options": {"t": 1, "eps": 1.0, "min_samples": 4}},
}


@pytest.mark.parametrize("name", EXACT)
def test_a_run_gives_the_labels_of_fit(farm, name):
    run = farm.run(**EXACT[name])
    home, job = farm.prepare(run)
    assert farm.ended(farm.submit(job)) == DONE
    assert all_labels(home) == expected(build_run(run).algorithm)
    assert not list(home.glob("*/journal/*"))


class Apart(Runs):
    """A farm whose sites have made their keys themselves, by the commands of the page.  sent: files."""

    def provision(self, project):
        page = (Path(write_site_rules.__code__.co_filename).parent / "README.md").read_text()
        init, ask, approve, package = re.findall(r"^(nvflare (?:cert|package) .*?) *#", page, re.MULTILINE)
        root, self.sent = self.home / "root", []
        root.mkdir()
        found = json.loads(project.read_text())
        server = next(one for one in found["participants"] if one["type"] == "server")
        ports = {name: server[name] for name in ("fed_learn_port", "admin_port")}
        profile = {"name": "secfc", "scheme": "tcp", "connection_security": "mtls"}
        profile["server"] = {"host": "localhost", **ports}
        (root / "profile.yaml").write_text(json.dumps(profile))
        self.typed(init, root)
        print_of = ["openssl", "x509", "-in", "ca/rootCA.pem", "-noout", "-fingerprint", "-sha256"]
        seen = subprocess.run(print_of, cwd=root, check=True, capture_output=True, text=True).stdout
        package = package.replace("SHA256:...", "SHA256:" + seen.strip().partition("=")[2])
        for one in found["participants"]:
            name = one["name"]
            (own := self.home / "own" / name).mkdir(parents=True)
            (own / f"{name}.yml").write_text(json.dumps({"name": "secfc", "participants": [one]}))
            self.typed(ask.replace("north", name), own)
            self.send(own / name / f"{name}.request.zip", root)
            self.typed(approve.replace("north", name), root)
            self.send(root / f"{name}.signed.zip", own)
            self.typed(package.replace("north", name), own)
        names = [one["name"] for one in found["participants"]]
        return {name: self.home / "own" / name / "workspace/secfc/prod_00" / name for name in names}

    def typed(self, line, folder):
        """A line of the page, in somebody's folder."""
        environment = {**os.environ, "HOME": str(folder)}
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        done = subprocess.run(
            line, shell=True, cwd=folder, env=environment, text=True, capture_output=True,
            stdin=subprocess.DEVNULL, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, (line, done.stdout + done.stderr)

    def send(self, path, folder):
        self.sent.append(shutil.copy(path, folder))


def test_sites_that_make_their_own_keys_by_the_commands_of_the_page_run_and_no_key_is_sent(tmp_path):
    with started(Apart, tmp_path) as made:
        assert len(made.sent) == 2 * (len(PARTIES) + 1)
        for path in made.sent:
            with zipfile.ZipFile(path) as sent:
                assert not any(b"PRIVATE KEY" in sent.read(name) for name in sent.namelist())
        for folder in (tmp_path / "root", *(tmp_path / "own").iterdir()):
            keys = [path for path in folder.rglob("*") if path.suffix == ".key"]
            assert keys
            assert {path.stat().st_mode & 0o777 for path in keys} == {0o600}
            assert {path.name for path in keys} <= {
                "rootCA.key",
                f"{folder.name}.key",
                "client.key",
                "server.key",
            }
        run = made.run(**DEFAULT)
        home, job = made.prepare(run)
        assert made.ended(made.submit(job)) == DONE
        assert all_labels(home) == expected(build_run(run).algorithm)


def test_a_job_of_a_run_that_has_ended_says_so_in_its_own_error(farm):
    _, job = farm.prepare(farm.run(**DEFAULT))
    assert farm.ended(farm.submit(job)) == DONE
    number = farm.submit(job)
    assert farm.ended(number) == FAILED
    words, root = b"its part of this run was done before", farm.kits[SERVER].folder
    written = [path for path in root.rglob("*") if path.is_file() and number in str(path)]
    assert any(words in path.read_bytes() for path in written), written


def test_rows_whose_owners_are_hidden_get_one_label_at_all_sites(farm):
    run = farm.run(options={"t": 1, "membership": "private", "init": "random"})
    home, job = farm.prepare(run, SHARED)
    assert farm.ended(farm.submit(job)) == DONE
    found, own = all_labels(home), {}
    for of in found.values():
        for name, label in of.items():
            assert own.setdefault(name, label) == label
    assert nearest_mean(found)


def test_a_private_run_labels_every_row(farm):
    options = {"epsilon": 1000.0, "delta": 1e-6, "server_file": "public.csv"}
    home, job = farm.prepare(farm.run(algorithm="feddp", options=options))
    text = "\n".join([",".join(FEATURES), *(",".join(map(repr, p)) for p in POINTS[::5].tolist())])
    (home / "public.csv").write_text(text + "\n")
    assert farm.ended(farm.submit(job)) == DONE
    assert nearest_mean(all_labels(home))


def until(reached, seconds=90):
    end = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.02)


def under_way(home):
    """Whether a run's sites have all told something that is in their journals."""
    return all(sum(f.stat().st_size for f in (home / c / "journal").glob("*")) > 3000 for c in PARTIES)


# Long enough to be killed in.
LONG = {"options": {"t": 1, "n_init": 12}}


def test_a_child_that_is_killed_is_started_again_and_the_job_goes_on(farm):
    run = farm.run(**LONG)
    home, job = farm.prepare(run)
    number = farm.submit(job)
    until(lambda: under_way(home))
    for party in ("north", SERVER):
        before = farm.processes_of(party)["role"]
        assert before
        farm.kill(party, "role")
        until(lambda: set(farm.processes_of(party)["role"]) - set(before))  # noqa: B023
    assert farm.ended(number) == DONE
    assert all_labels(home) == expected(build_run(run).algorithm)


@pytest.mark.parametrize("kinds", [("job",), ("site", "job", "role")])
def test_a_job_that_lost_a_process_goes_on_when_it_is_submitted_again(farm, kinds):
    run = farm.run(**LONG)
    home, job = farm.prepare(run)
    number = farm.submit(job)
    until(lambda: under_way(home))
    farm.kill("south", *kinds)
    if "site" in kinds:
        farm.start("south")
    assert farm.ended(number) != DONE
    until(lambda: not any(farm.processes_of(party)["role"] for party in PARTIES))
    assert list(home.glob("south/journal/*"))
    assert farm.ended(farm.submit(job)) == DONE
    assert all_labels(home) == expected(build_run(run).algorithm)


def test_a_site_that_refuses_ends_the_job_at_once(farm):
    home, job = farm.prepare(farm.run(**DEFAULT), floors="smallest_t = 2\n")
    (home / "south/rows.csv").unlink()  # nobody opens it
    number = farm.submit(job)
    until(lambda: (home / "south/site.log").exists())
    assert farm.ended(number) == FAILED
    assert "smallest_t" in (home / "south/site.log").read_text()
    assert not list(home.glob("*/results/*"))


def test_a_job_of_another_run_file_is_refused(farm):
    home, job = farm.prepare(farm.run(**DEFAULT))
    other = (home / "run.toml").read_text().replace("k = 3", "k = 2")
    (home / "run.toml").write_text(other)
    assert farm.ended(farm.submit(job)) == FAILED
    assert not list(home.glob("*/site.log"))


def test_a_job_with_code_or_another_class_is_refused_everywhere(farm):
    home, job = farm.prepare(farm.run(**DEFAULT))
    code = home / "code"
    shutil.copytree(job, code)
    (code / "site/custom").mkdir()
    (code / "site/custom/evil.py").write_text(f"open({str(home / 'mark')!r}, 'w')\n")
    ended = farm.ended(farm.submit(code))
    assert ended != DONE
    other = home / "other"
    shutil.copytree(job, other)
    config = other / "site/config/config_fed_client.json"
    content = json.loads(config.read_text())
    content["components"][0]["path"] = "nvflare.app_common.np.np_trainer.NPTrainer"
    config.write_text(json.dumps(content))
    assert farm.ended(farm.submit(other)) != DONE
    assert not (home / "mark").exists()
    assert not list(home.glob("*/site.log"))


def test_no_id_is_in_any_file_of_flare(farm):
    def marked(folder):
        return [f for f in folder.rglob("*") if f.is_file() and MARKER.encode() in f.read_bytes()]

    home, job = farm.prepare(farm.run(**DEFAULT))
    assert farm.ended(farm.submit(job)) == DONE
    assert len(marked(home)) == 2 * len(CLIENTS)  # rows, labels
    assert not marked(farm.home / "flare")
    assert not [f for f in farm.home.glob("*.out") if MARKER.encode() in f.read_bytes()]


def in_memory(pid, marker):
    """How often a process holds these bytes now."""
    found = 0
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            if rights.startswith("rw") and "[v" not in line:
                start, end = (int(x, 16) for x in span.split("-"))
                with contextlib.suppress(OSError, OverflowError):
                    memory.seek(start)
                    found += memory.read(end - start).count(marker)
    return found


@pytest.mark.parametrize("how", ["sealed", "open"])
def test_what_clients_tell_each_other_is_nowhere_in_flare(farm, how):
    marker = SystemCoins().bytes(12).hex()
    script = str(Path(__file__).with_name("whisper.py"))
    _, job = farm.prepare(farm.run(), command=(sys.executable, script, how, marker))
    number = farm.submit(job)
    until(lambda: all(farm.processes_of(party)["whisper"] for party in PARTIES))
    seen, end = 0, time.monotonic() + 15
    while time.monotonic() < end and any(farm.processes_of(party)["whisper"] for party in PARTIES):
        for found in map(farm.processes_of, PARTIES):
            for pid in (*found["site"], *found["job"]):
                with contextlib.suppress(OSError):
                    seen += in_memory(pid, (marker * 3).encode())
    farm.ended(number)
    files = [f for f in (farm.home / "flare").rglob("*") if f.is_file()]
    written = [f for f in files if marker * 3 in f.read_text("latin-1")]
    assert not written
    # The control: what is not sealed is found.
    assert (seen == 0) == (how == "sealed")
