"""Runs between organizations, every party a process: whole runs, deaths, refusals."""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("websockets")

import secfc
from secfc.cli.deploy.record import decided_without
from secfc.cli.shell.program import main
from secfc.data.model_file import ModelFile
from secfc.deploy.keys import create_key_file
from secfc.pairs import TOLD
from secfc.roles.description import PROTOCOL
from tests.nightly import by_night, short
from tests.secfc.deploy.sites import QUICK, ROOT, blobs, free_port, sites

pytestmark = pytest.mark.deployment


ROWS = blobs((17, 20, 14, 22, 19))
THREE = dict(list(ROWS.items())[:3])
SOME = short(THREE, nightly=ROWS)


def wanted(algorithm, rows, names=None, bound=32.0):
    """Labels by client as `fit` gives them, of these clients alone."""
    names = tuple(rows) if names is None else names
    federation = secfc.Federation.from_arrays([rows[n] for n in names], names=names)
    result = secfc.fit(algorithm, federation, seed=3, bound=bound)
    return dict(zip(names, result.labels, strict=True))


IDS = {
    name: [f"id {j}" for j in range(10 * i, 10 * i + len(own))] for i, (name, own) in enumerate(ROWS.items())
}
# The same ID is the same row, at whichever site.
POOL = np.concatenate(list(ROWS.values()))
SHARED = {name: POOL[[int(name.split()[1]) for name in own]] for name, own in IDS.items()}
BASE = {"bound": 32.0, "t": 1}
DEFAULT = secfc.SecFC(k=3, threshold=1)
TREE = secfc.Release(dendrogram=True)


def case(options, way, **more):
    return {"options": options, "k": 3, **more}, way


CASES = {
    "own labels": case({**BASE, "disclosure": "own-labels"}, secfc.SecFC(3, 1, disclosure=secfc.OwnLabels())),
}
MORE = {
    "default": case(BASE, DEFAULT),
    "no bound": case({"t": 1}, DEFAULT),
    "distances": case({**BASE, "disclosure": "distances"}, secfc.SecFC(3, 1, disclosure=secfc.Distances())),
    "final labels": case(
        {**BASE, "disclosure": "final-labels", "max_iter": 3},
        secfc.SecFC(3, 1, disclosure=secfc.FinalLabelsOnly(), max_iter=3, init=secfc.RandomLabels()),
    ),
    "no dealer": case({**BASE, "dealer": "none"}, secfc.SecFC(3, 1, disclosure=secfc.AssignmentsOnly(None))),
    "hidden sizes": case(
        {**BASE, "disclosure": "own-labels", "sizes": "hidden", "init": "random", "max_iter": 3},
        secfc.SecFC(3, 1, disclosure=secfc.OwnLabels(sizes="hidden"), init=secfc.RandomLabels(), max_iter=3),
    ),
    "corrected": case(
        {**BASE, "disclosure": "distances", "corrected": 1},
        secfc.SecFC(3, secfc.Threshold(1, corrected=1), disclosure=secfc.Distances()),
    ),
    "workers": case({**BASE, "workers": 3}, secfc.SecFC(3, 1, runtime=secfc.Runtime(workers=3))),
    "named workers": case(
        {**BASE, "workers": ["site-3", "site-0", "site-1"]},
        secfc.SecFC(3, 1, runtime=secfc.Runtime(workers=("site-3", "site-0", "site-1"))),
    ),
    "chosen k": case(BASE, secfc.SecFC("2..4", 1), k="2..4"),
    "k-fed": case({"k_local": 2}, secfc.KFed(3, 2, seed=3), algorithm="k-fed"),
    "dbscan": case(
        {**BASE, "eps": 4.0, "min_samples": 3},
        secfc.DBSCAN(4.0, 3, threshold=1),
        k="auto",
        algorithm="dbscan",
    ),
    "lloyd": case({"bound": 32.0}, secfc.Lloyd(3), algorithm="lloyd"),
    "masked": case({"bound": 32.0}, secfc.FederatedLloyd(3), algorithm="federated-lloyd"),
}


@pytest.mark.parametrize("name", [*CASES, *(pytest.param(name, marks=pytest.mark.nightly) for name in MORE)])
def test_a_run_gives_every_site_the_labels_of_fit(tmp_path, nursery, name):
    terms, algorithm = {**CASES, **MORE}[name]
    with sites(tmp_path, ROWS, nursery=nursery, **terms) as run:
        for client in ROWS:
            run.write_site(client, named=False, floors="smallest_t = 0\nsmallest_center = 1")
        run.start_all()
        assert set(run.everybody().values()) == {0}, run.log("server")
        want = wanted(algorithm, ROWS, bound=terms["options"].get("bound"))
        for client in ROWS:
            assert (run.labels(client) == want[client]).all()
            assert run.report(client)["terms"] == run.run.digest.hex()
            # Nothing that could be resumed, or read by others, is left.
            assert not list((tmp_path / client / "journal").iterdir())
            assert (tmp_path / client / "results" / "labels.csv").stat().st_mode & 0o777 == 0o600
        assert run.start("site-0", "--force").wait(90) == 2
        assert "was used at this site" in run.log("site-0")
        run.change(session=bytes(32))
        assert run.start("site-0").wait(90) == 2
        assert "exists already" in run.log("site-0")


@pytest.mark.nightly
@pytest.mark.parametrize("crash", [False, True])
def test_sites_share_centers_by_the_floor_that_init_writes_and_label_new_rows_alone(tmp_path, nursery, crash):
    with sites(tmp_path, THREE, nursery=nursery) as run:
        path, keys = tmp_path / "run.toml", run.run.identities
        words = [f"--client={name}={keys[name].hex()}" for name in THREE]
        words += [f"--server={keys['server'].hex()}", f"--hub={run.run.hub}", "--features=x,y,z", "-k", "2"]
        words += ["--set=disclosure=centers", "--set=bound=32", "--seed=3", "--force"]
        done = CliRunner().invoke(main, ["deploy", "init", str(path), *words])
        assert done.exit_code == 0, done.output
        assert "floor = 10" in path.read_text()
        # A site says in its own file that it takes part; else nothing of it is opened.
        floors = 'policies = ["federated-lloyd"]\nopen_centers = {}\nsmallest_center = {}'
        for least, centers, why in ((10, "false", "`open_centers`"), (11, "true", "`smallest_center`")):
            run.write_site("site-0", named=False, floors=floors.format(centers, least))
            assert run.start("site-0").wait(90) == 4
            assert why in run.log("site-0")
        for name in THREE:
            run.write_site(name, named=False, floors=floors.format("true", 10))
        run.start_all()
        if crash:
            run.until("site-1", "sum")
            run.kill("site-1")
            run.start("site-1")
        assert set(run.everybody().values()) == {0}, run.log("server")
        want = wanted(secfc.FederatedLloyd(2, floor=10), THREE)
        for name in THREE:
            assert (run.labels(name) == want[name]).all()
            (said,) = run.report(name)["learned"]
            assert said.startswith("sums and numbers of all clients' points by cluster")
            assert "of any two questions differ by at least 10 rows, if by any; three together" in said
            assert len(run.report(name)["centers"]) == 2
        (said,) = run.report("server")["learned"]
        assert said.endswith("under pads: no sum, center or label")
        assert run.report("server")["centers"] is None
        assert not (tmp_path / "server" / "results" / "model.npz").exists()
        new = tmp_path / "new.csv"
        own = [str(tmp_path / "site-0" / file) for file in ("site.toml", "rows.csv")]
        assert run.command("predict", "predict", *own, "--out", str(new)).wait(90) == 0
        again = run.labels("site-0", new)
        assert (again == want["site-0"]).mean() > 0.9  # the floor keeps few rows from the nearest center


@pytest.mark.parametrize(("victims", "more"), [
    (("hub", "server", *SOME), {}),
    *(pytest.param((name,), {}, marks=pytest.mark.nightly) for name in ("site-2", "server", "hub")),
    *(
        pytest.param((name,), {"workers": ["site-0", "site-1", "site-2"]}, marks=pytest.mark.nightly)
        for name in ("site-2", "site-3", "server")
    ),
])  # fmt: skip
def test_whoever_is_killed_and_started_again_loses_nothing(tmp_path, nursery, victims, more):
    options = {"bound": 32.0, "t": 1, "init": "random", "n_init": 4, **more}
    with sites(tmp_path, SOME, k=3, options=options, nursery=nursery) as run:
        run.start_all()
        run.until("site-0", "clustering")
        for name in victims:
            run.kill(name)
        for name in victims:
            run.start(name)
        assert set(run.everybody().values()) == {0}, "\n".join(run.log(n) for n in (*victims, "server"))
        want = wanted(secfc.SecFC(k=3, threshold=1, init=secfc.RandomLabels(), n_init=4), SOME)
        for client in SOME:
            assert (run.labels(client) == want[client]).all()


@pytest.mark.nightly
@pytest.mark.parametrize("phase", ["comparing the plan", "clustering"])
def test_density_clusters_go_on_where_a_site_and_the_server_were_killed(tmp_path, nursery, phase):
    rows = blobs((400, 300, 500))
    options = {**BASE, "eps": 2.0, "min_samples": 4}
    with sites(tmp_path, rows, k="auto", algorithm="dbscan", options=options, nursery=nursery) as run:
        run.start_all()
        run.until("site-1", phase)
        for name in ("site-1", "server"):
            run.kill(name)
        for name in ("site-1", "server"):
            run.start(name)
        assert set(run.everybody().values()) == {0}, run.log("server")
        want = wanted(secfc.DBSCAN(2.0, 4, threshold=1), rows)
        for name in rows:
            assert (run.labels(name) == want[name]).all()
            assert run.report(name)["learned"] == [TOLD]
        assert any("of every two points whether" in said for said in run.report("server")["learned"])


@pytest.mark.nightly
def test_groups_of_clusters_are_told_to_sites_that_consent_and_the_tree_to_the_server_alone(
    tmp_path, nursery
):
    options = {**BASE, "disclosure": "own-labels", "init": "random", "linkage": "single", "cut": 2}
    with sites(tmp_path, ROWS, k=6, options=options, nursery=nursery) as run:
        assert run.start("site-0").wait(90) == 4  # no site takes part that has not said so
        assert "`open_dendrogram`" in run.log("site-0")
        for name in ROWS:
            run.write_site(name, named=False, floors="open_dendrogram = true")
        run.start_all()
        run.until("site-1", "clustering")
        for name in ("site-1", "server"):
            run.kill(name)
        for name in ("site-1", "server"):
            run.start(name)
        assert set(run.everybody().values()) == {0}, run.log("server")
        federation = secfc.Federation.from_arrays(list(ROWS.values()), names=tuple(ROWS))
        way = secfc.SecFC(6, 1, secfc.RandomLabels(), disclosure=secfc.OwnLabels(), release=TREE)
        want = secfc.fit(way, federation, seed=3, bound=32.0)
        tree, groups = run.report("server")["dendrogram"], run.report("server")["groups"]
        assert tree["distances"] == want.dendrogram.distances.tolist()
        for name, labels in zip(ROWS, want.cut(2, "single"), strict=True):
            assert (run.labels(name) == labels).all()
            assert run.report(name)["groups"] == groups
            assert run.report(name)["dendrogram"] is None


def site_file(folder, name):
    return (str(folder / name / "site.toml"),)


@pytest.mark.nightly
def test_a_run_that_can_do_without_nobody_waits_suspends_and_goes_on_whoever_comes_last(tmp_path, nursery):
    options = {"bound": 32.0, "t": 1, "init": "random", "n_init": 4}
    soon = replace(QUICK, arrival=20.0, rejoin=2.0)
    with sites(tmp_path, THREE, k=3, options=options, nursery=nursery, waiting=soon) as run:
        run.start_all()
        run.until("site-1", "clustering")
        run.kill("site-1")
        assert set(run.wait("site-0", "site-2", "server")) == {75}
        assert "SECFC-103" in run.log("server")
        assert "Ended" not in "".join(run.log(name) for name in THREE)
        for name in ("site-0", "site-2", "server"):
            failed = json.loads((tmp_path / name / "results" / "failure.json").read_text())
            assert (failed["outcome"], failed["problem"]) == ("suspended", "SECFC-103")
            assert [a["until"] for a in failed["absences"] if a["party"] == "site-1"] == [None]
            own = [tmp_path / name / "audit.jsonl", tmp_path / name / "results" / "failure.json"]
            done = CliRunner().invoke(main, ["deploy", "audit", "verify", *map(str, own)])
            assert (done.exit_code, "it is as it was when" in done.output) == (0, True), done.output
        path = site_file(tmp_path, "site-0")
        assert run.command("status", "status", *path).wait(60) == 0
        assert "no process runs; the same command goes on" in run.log("status")
        assert "away      site-1" in run.log("status")
        assert run.command("go-on", "go-on", *path, "--without", "site-1").wait(60) == 2
        assert "nobody can be done without" in run.log("go-on")
        for name in ("server", "site-2", "site-0", "site-1"):
            run.start(name)
        assert set(run.everybody().values()) == {0}, run.log("server")
        want = wanted(secfc.SecFC(k=3, threshold=1, init=secfc.RandomLabels(), n_init=4), THREE)
        for client in THREE:
            assert (run.labels(client) == want[client]).all()
            assert not list((tmp_path / client / "journal").iterdir())
            assert not (tmp_path / client / "results" / "failure.json").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("phase", ["compiling or loading the kernels", "comparing the plan"])
def test_rows_that_changed_before_any_share_are_named_and_the_run_goes_on_once_they_are_back(
    tmp_path, nursery, phase
):
    options = {"bound": 32.0, "t": 1, "init": "random", "n_init": 4}
    with sites(tmp_path, THREE, k=3, options=options, nursery=nursery) as run:
        run.start_all()
        run.until("site-1", phase)
        run.kill("site-1")
        run.write_rows("site-1", np.vstack([THREE["site-1"], [[1.0, 2.0, 3.0]]]))
        assert run.start("site-1").wait(30) == 2  # of `rejoin`, which the others wait
        assert "the number of its rows, or the power of two that their values reach, changed" in run.log(
            "site-1"
        )
        run.write_rows("site-1", THREE["site-1"])
        run.start("site-1")
        assert set(run.everybody().values()) == {0}, run.log("server")
        want = wanted(secfc.SecFC(k=3, threshold=1, init=secfc.RandomLabels(), n_init=4), THREE)
        for client in THREE:
            assert (run.labels(client) == want[client]).all()


def test_an_operator_ends_a_run_for_good(tmp_path, nursery):
    options = {"bound": 32.0, "t": 1, "init": "random", "n_init": 40}
    with sites(tmp_path, THREE, k=3, options=options, nursery=nursery) as run:
        path = site_file(tmp_path, "site-0")
        assert run.command("abort", "abort", *path).wait(60) == 2
        run.start_all()
        run.until("site-0", "clustering")
        assert run.command("again", "join", *path).wait(60) == 2
        assert "is in use" in run.log("again")
        assert not (tmp_path / "site-0" / "results" / "failure.json").exists()
        assert run.command("abort", "abort", *path).wait(60) == 2
        assert "in use" in run.log("abort")
        assert run.command("clean", "clean", *path).wait(60) == 2
        assert "a process takes part" in run.log("clean")
        run.kill("site-0")
        assert run.command("clean", "clean", *path).wait(60) == 2
        assert "the run goes on" in run.log("clean")
        assert run.command("abort", "abort", *path).wait(60) == 0
        assert run.start("site-0").wait(60) == 2
        assert "AbortedByOperator" in run.log("site-0")
        assert run.command("clean", "clean", *path).wait(60) == 0
        assert not list((tmp_path / "site-0" / "journal").iterdir())
        assert (tmp_path / "site-0" / "remembered.json").exists()
        assert run.command("clean", "clean", *path).wait(60) == 0
        assert "nothing is left" in run.log("clean")


@pytest.mark.parametrize("where", ["journal", *by_night("results")])
def test_a_full_disc_is_a_sentence_and_what_ended_comes_from_the_journal_alone(tmp_path, nursery, where):
    options = {"bound": 32.0, "t": 1, "init": "random", "n_init": 4}
    soon = replace(QUICK, arrival=15.0, rejoin=4.0)
    with sites(tmp_path, THREE, k=3, options=options, nursery=nursery, waiting=soon) as run:
        disc = tmp_path / "site-1" / where
        disc.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(disc)]).returncode:
            pytest.skip("nothing can be mounted here")
        try:
            run.start_all()
            run.until("site-1", "clustering")
            with contextlib.suppress(OSError), (disc / "filling").open("wb") as file:
                file.write(bytes(1 << 21))
            assert run.wait("site-1") == [75], run.log("site-1")
            assert f"{disc}" in run.log("site-1")
            assert "No space left on device. Make room there" in run.log("site-1")
            assert "Traceback" not in run.log("site-1")
            (disc / "filling").unlink()
            if where == "results":  # all others end, and their results are there
                assert set(run.wait("site-0", "site-2", "server")) == {0}
                run.kill("hub")
            run.start("site-1")
            assert set(run.everybody().values()) == {0}, run.log("site-1")
            want = wanted(secfc.SecFC(k=3, threshold=1, init=secfc.RandomLabels(), n_init=4), THREE)
            for client in THREE:
                assert (run.labels(client) == want[client]).all()
            assert not list((tmp_path / "site-1" / "journal").iterdir())
        finally:
            run.close()
            subprocess.run(["umount", str(disc)], check=True)


def test_no_room_for_results_is_found_before_anything(tmp_path, nursery):
    with sites(tmp_path, THREE, k=3, options=BASE, nursery=nursery) as run:
        disc = tmp_path / "site-1" / "results"
        disc.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k,mode=700", "tmpfs", str(disc)]).returncode:
            pytest.skip("nothing can be mounted here")
        try:
            assert run.start("site-1").wait(60) == 75
            assert "bytes are needed for results" in run.log("site-1")
            assert not (tmp_path / "site-1" / "journal").exists()
        finally:
            subprocess.run(["umount", str(disc)], check=True)


PHASES = ("sharing points", "agreeing on keys")


def gave_up(run, name):
    """Whether a party went on without somebody before it had its results."""
    events = [event["event"] for event in run.events(name)]
    return "given-up" in events[: events.index("results")]


@pytest.mark.nightly
@pytest.mark.parametrize("phase", [
    "clustering", *PHASES,
])  # fmt: skip
def test_one_that_never_comes_back_is_done_without(tmp_path, nursery, phase):
    options = {**BASE, "init": "random", "n_init": 4}
    algorithm = secfc.SecFC(3, 1, init=secfc.RandomLabels(), n_init=4)
    with sites(tmp_path, ROWS, k=3, options=options, nursery=nursery) as run:
        run.start_all()
        run.until("site-3", phase)
        run.kill("site-3")
        left = [name for name in ROWS if name != "site-3"]
        for name in (*left, "server"):  # before they are told so, they wait
            assert (
                run.command("go-on", "go-on", *site_file(tmp_path, name), "--without", "site-3").wait(60) == 0
            )
        assert set(run.wait(*left, "server")) == {5}, run.log("server")
        excluded = run.report("server")["excluded"]
        gone_on = {name for name in (*left, "server") if gave_up(run, name)}
        assert gone_on == {*left, "server"} or not excluded
        for name in (*left, "server"):  # what each site can show an auditor
            report = run.report(name)
            assert report["excluded"] == excluded
            assert report["gone_on_without"] == ["site-3"]
            assert gone_on <= set(report["decisions"])  # signed by each that gave it up and went on
            assert {tuple(decided_without(one)) for one in report["decisions"].values()} == {("site-3",)}
            own = [tmp_path / name / "audit.jsonl", tmp_path / name / "results" / "report.json"]
            for word in ("verify", "show"):
                done = CliRunner().invoke(main, ["deploy", "audit", word, *map(str, own)])
                assert done.exit_code == 0, done.output
            assert done.output.count(": to go on without site-3") >= len(gone_on)
            away = [a["until"] for a in report["absences"] if a["party"] == "site-3"]
            # Whoever had all that it needs may not see it.
            assert away == [None] or (not away and name not in gone_on)
        own = tmp_path / "site-0" / "rows.csv"
        assert run.report("site-0")["data_sha256"] == hashlib.sha256(own.read_bytes()).hexdigest()
        assert "without site-3" in run.log("site-0")
        want = wanted(algorithm, ROWS, left if excluded else None)
        assert excluded in ([], ["site-3"])
        for client in left:
            assert (run.labels(client) == want[client]).all()


@pytest.mark.nightly
def test_one_that_pauses_is_waited_for_and_one_that_stays_away_is_left_out(tmp_path, nursery):
    options = {**BASE, "init": "random", "n_init": 4}
    algorithm = secfc.SecFC(3, 1, init=secfc.RandomLabels(), n_init=4)
    quick = replace(QUICK, rejoin=1.0, pulse=3.0)
    with sites(tmp_path, ROWS, k=3, options=options, nursery=nursery, waiting=quick) as run:
        run.start_all()
        run.until("site-1", "clustering")
        run.processes["site-1"].send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        run.processes["site-1"].send_signal(signal.SIGCONT)
        run.until("site-4", "clustering")
        run.processes["site-4"].send_signal(signal.SIGSTOP)
        left = [name for name in ROWS if name != "site-4"]
        for name in (*left, "server"):
            assert (
                run.command("go-on", "go-on", *site_file(tmp_path, name), "--without", "site-4").wait(60) == 0
            )
        assert set(run.wait(*left, "server")) == {5}, run.log("server")
        assert (tmp_path / "site-1" / "results" / "labels.csv").exists()
        want = wanted(algorithm, ROWS)
        for client in left:
            assert (run.labels(client) == want[client]).all()


# --- refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("floors", "floor"), [
    ('policies = ["own-labels"]', "policies"), ("smallest_t = 2", "smallest_t"),
    ("largest_epsilon = 1", "largest_epsilon"), ("total_epsilon = 1", "total_epsilon"),
    ("fewest_clients = 6", "fewest_clients"),
    ("show_sizes = false", "show_sizes"), ('coordinators = ["' + "00" * 32 + '"]', "coordinators"),
])  # fmt: skip
def test_terms_below_a_floor_are_refused_before_any_data_are_opened(tmp_path, nursery, floors, floor):
    with sites(tmp_path, ROWS, k=3, options=BASE, nursery=nursery) as run:
        run.write_site("site-0", named=False, floors=floors)
        rows = tmp_path / "site-0" / "rows.csv"
        rows.unlink()
        os.mkfifo(rows)  # whoever opened it would wait here for ever
        assert run.start("site-0").wait(90) == 4
        assert f"`{floor}`" in run.log("site-0")
        assert not (tmp_path / "site-0" / "remembered.json").exists()


@pytest.mark.nightly
def test_budgets_add_up_over_runs_and_resuming_spends_nothing_twice(tmp_path, nursery):
    noise = {"t": 1, "epsilon": 6.0, "radius": 20.0, "max_iter": 1}
    with sites(tmp_path, ROWS, k=3, options=noise, nursery=nursery) as run:
        run.write_site("site-0", named=False, floors="total_epsilon = 10")
        run.start_all()
        run.until("site-0", "sharing points")
        run.kill("site-0")
        run.start("site-0")
        assert set(run.everybody().values()) == {0}, run.log("site-0")
        # Another run on the same rows, at this site.
        other = replace(run.run, session=bytes(32))
        (tmp_path / "run.toml").write_text(other.toml())
        assert run.start("site-0", "--force").wait(90) == 4
        assert "after 6 in earlier runs" in run.log("site-0")


@pytest.mark.nightly
def test_quotas_add_up_over_runs_and_resuming_grants_nothing_twice(tmp_path, nursery):
    hidden = {"t": 1, "membership": "private", "quota": 300, "init": "random", "max_iter": 1}
    with sites(tmp_path, ROWS, k=3, options=hidden, nursery=nursery) as run:
        run.write_site("site-0", named=False, floors="total_quota = 500")
        run.start_all()
        run.until_said("site-0", "tags: blinded")
        run.kill("site-0")
        run.start("site-0")
        assert set(run.everybody().values()) == {0}, run.log("site-0")
        assert '"guesses"' in (tmp_path / "site-0" / "remembered.json").read_text()
        assert not list((tmp_path / "site-0").rglob("*.journal"))
        other = replace(run.run, session=bytes(32))
        (tmp_path / "run.toml").write_text(other.toml())
        assert run.start("site-0", "--force").wait(90) == 4
        assert "a quota of 300, after 300 in earlier runs" in run.log("site-0")


@pytest.mark.parametrize(("change", "why"), [
    (lambda text: text.replace("t = 1", "t = 2"), "options.t is 2 here and 1 there"),
    *by_night((lambda text: text.replace("k = 3", "k = 4"), "k is 4 here and 3 there")),
])  # fmt: skip
def test_another_run_file_is_named_to_all_at_once(tmp_path, nursery, change, why):
    endless = replace(QUICK, arrival=600.0, patience=600.0)  # nobody waits for that
    with sites(tmp_path, ROWS, k=3, options=BASE, nursery=nursery, waiting=endless) as run:
        own = tmp_path / "site-2" / "run.toml"
        own.write_text(change(run.run.toml()))
        site = tmp_path / "site-2" / "site.toml"
        site.write_text(site.read_text().replace("../run.toml", "run.toml"))
        run.start_all()
        assert set(run.everybody(seconds=90).values()) == {2}
        assert why in run.log("site-2")
        assert all("site-2" in run.log(name) for name in ROWS)
        # Nothing was shared, so once it is mended the same commands run.
        own.write_text(run.run.toml())
        for name in (*ROWS, "server"):
            assert not (tmp_path / name / "remembered.json").exists()
            run.start(name)
        assert set(run.everybody(seconds=90).values()) == {0}, run.log("site-2")


@pytest.mark.nightly
@pytest.mark.parametrize("changed", [True, False])  # False: control, of the same process without the change
def test_a_site_of_another_version_is_named_before_any_share_and_runs_once_it_is_upgraded(tmp_path, changed):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "sitecustomize.py").write_text(
        f"import secfc.roles.description as told\ntold.PROTOCOL += {int(changed)}\n"
    )
    with sites(tmp_path, THREE, k=3, options=BASE) as run:
        for name in ("hub", "site-0", "site-2", "server"):
            run.start(name)
        run.start("site-1", PYTHONPATH=f"{tmp_path / 'other'}:{ROOT}")
        assert set(run.everybody().values()) == ({2} if changed else {0}), run.log("site-1")
        for name in (*THREE, "server") if changed else ():
            assert f"protocol is {PROTOCOL + 1}" in run.log("site-1")
            assert not list((tmp_path / name / "journal").glob("*.journal"))
            assert not (tmp_path / name / "remembered.json").exists()
            run.start(name)
        assert set(run.everybody().values()) == {0}, run.log("site-1")
        want = wanted(secfc.SecFC(3, 1), THREE)
        assert all((run.labels(client) == want[client]).all() for client in THREE)


@pytest.mark.nightly
@pytest.mark.parametrize("when", ["clustering", "compiling or loading the kernels"])
def test_a_second_process_with_a_key_of_a_site_changes_no_label(tmp_path, nursery, when):
    """A copy of a site's directory is started by mistake, as on a machine that stands by."""
    options = {**BASE, "init": "random", "n_init": 4}
    with sites(tmp_path, THREE, k=3, options=options, nursery=nursery) as run:
        shutil.copytree(tmp_path / "site-1", tmp_path / "copy")
        run.start_all()
        run.until("site-1", when)
        second = run.command("copy", "join", str(tmp_path / "copy" / "site.toml"))
        run.until_said("copy", '"event": "came"')
        time.sleep(3)
        second.kill()
        second.wait(10)
        assert '"event": "broke"' in run.log("site-1")
        assert not (tmp_path / "copy" / "results" / "labels.csv").exists()
        codes = run.everybody()
        for name in (*THREE, "server"):  # who was disturbed goes on by the same command
            run.start(name) if codes[name] else None
        assert set(run.everybody().values()) == {0}, run.log("site-1")
        want = wanted(secfc.SecFC(3, 1, init=secfc.RandomLabels(), n_init=4), THREE)
        assert all((run.labels(client) == want[client]).all() for client in THREE)


def test_a_cell_beyond_the_bound_is_found_before_anything_and_mended(tmp_path, nursery):
    with sites(tmp_path, THREE, k=3, options=BASE, nursery=nursery) as run:
        wrong = THREE["site-1"].copy()
        wrong[4, 2] = 999.25
        run.write_rows("site-1", wrong)
        run.start_all()
        assert run.wait("site-1") == [2]
        assert "rows.csv, line 6 (row 4, from 0), column 'z'" in run.log("site-1")
        assert "999" not in run.log("site-1")
        run.write_rows("site-1", THREE["site-1"])
        run.start("site-1")  # the others have waited
        assert set(run.everybody().values()) == {0}, run.log("site-1")


@pytest.mark.nightly
def test_a_site_of_140_000_rows_runs_beside_two_of_2_000(tmp_path, nursery):
    rows = blobs((140_000, 2000, 2000), d=20)
    features, options = tuple(f"x{i}" for i in range(20)), {**BASE, "max_iter": 3}
    with sites(tmp_path, rows, k=3, options=options, features=features, nursery=nursery) as run:
        assert run.start("check", str(tmp_path / "site-0" / "site.toml"), "--offline").wait(90) == 0
        assert "all as many could not be clustered" in run.log("check")
        run.start_all()
        assert set(run.everybody().values()) == {0}, run.log("site-0")
        want = wanted(secfc.SecFC(k=3, threshold=1, max_iter=3), rows)
        assert all((run.labels(name) == want[name]).all() for name in rows)


def test_a_key_that_the_run_file_does_not_have_is_refused_at_home_and_at_the_hub(tmp_path, nursery):
    with sites(tmp_path, ROWS, k=3, options=BASE, nursery=nursery) as run:
        other = create_key_file(tmp_path / "other.key")
        key = tmp_path / "site-2" / "site.key"
        kept = key.read_bytes()
        key.write_bytes((tmp_path / "other.key").read_bytes())
        assert run.start("site-2").wait(90) == 2
        assert "another key than the run file has for site-2" in run.log("site-2")
        # With a run file of its own that pins it, the hub does not let it in.
        own = tmp_path / "site-2" / "run.toml"
        own.write_text(run.run.toml().replace(run.run.identities["site-2"].hex(), other.public.hex()))
        site = tmp_path / "site-2" / "site.toml"
        site.write_text(site.read_text().replace("../run.toml", "run.toml"))
        run.start("hub")
        assert run.start("site-2").wait(90) == 1
        assert "does not let 'site-2' in" in run.log("site-2")
        assert kept not in key.read_bytes()


def test_an_interrupted_site_resumes(tmp_path, nursery):
    options = {**BASE, "init": "random", "n_init": 4}
    with sites(tmp_path, SOME, k=3, options=options, nursery=nursery) as run:
        run.write_site("site-1", named=False, site='threads = 2\nscratch = "fast"\n')
        (tmp_path / "site-1" / "fast").mkdir()
        run.start_all()
        run.until("site-0", "clustering")
        mapped = Path(f"/proc/{run.processes['site-1'].pid}/maps")
        assert not mapped.exists() or str(tmp_path / "site-1" / "fast") in mapped.read_text()
        run.processes["site-0"].send_signal(signal.SIGINT)
        assert run.processes["site-0"].wait(90) == 130
        run.start("site-0")
        assert set(run.everybody().values()) == {0}


@pytest.mark.nightly
def test_check_says_what_is_ready_and_what_is_not(tmp_path, nursery):
    with sites(tmp_path, ROWS, k=3, options=BASE, nursery=nursery) as run:
        path = str(tmp_path / "site-0" / "site.toml")
        assert run.start("check", path).wait(90) == 1
        assert "fail  hub" in run.log("check")
        assert run.start("check", path, "--offline").wait(90) == 0
        run.start("hub")
        run.until_said("hub", "listens")
        assert run.start("check", path).wait(90) == 0
        assert "knows this party" in run.log("check")
        assert "14 rows" not in run.log("check")  # of others nothing is known
        run.write_rows("site-0", ROWS["site-0"] * 100)
        assert run.start("check", path, "--offline").wait(90) == 2
        assert "beyond the bound" in run.log("check")
        run.write_site("site-0", named=False, floors="smallest_t = 3")
        assert run.start("check", path, "--offline").wait(90) == 4


@pytest.mark.nightly
@pytest.mark.parametrize(("options", "preparing"), [
    ({**BASE, "disclosure": "own-labels"}, {}),
    (BASE, {}), ({"t": 1}, {"standardize": "robust"}), ({"t": 1}, {"standardize": "norm"}),
])  # fmt: skip
def test_new_rows_are_labeled_by_all_sites_together(tmp_path, nursery, options, preparing):
    new = {"site-0": POOL[50:55] + 0.01, "site-3": POOL[:2] + 0.01}
    with sites(tmp_path, ROWS, k=3, options=options, preparing=preparing, nursery=nursery) as run:
        run.start_all()
        assert set(run.everybody().values()) == {0}, run.log("server")
        for name in ROWS:
            assert (tmp_path / name / "results" / "model.npz").stat().st_mode & 0o777 == 0o600
        for again in range(2):
            for name in (*ROWS, "server"):
                words = [str(tmp_path / name / "site.toml")]
                if name in new:
                    run.write_rows(name, new[name], file="new.csv")
                    words += [
                        str(tmp_path / name / "new.csv"),
                        "--out",
                        str(tmp_path / f"{name}.{again}.csv"),
                    ]
                run.command(name, "predict", *words)
            if again:  # one of them dies, and the same command goes on
                run.until("site-3", "sharing points", count=2 + again)
                run.kill("site-3")
                run.command("site-3", "predict", *(
                    str(tmp_path / "site-3" / "site.toml"), str(tmp_path / "site-3" / "new.csv"), "--out",
                    str(tmp_path / f"site-3.{again}.csv"),
                ))  # fmt: skip
            assert set(run.everybody().values()) == {0}, run.log("site-3")
        policy = {"own-labels": secfc.OwnLabels()}.get(options.get("disclosure"), secfc.AssignmentsOnly())
        federation = secfc.Federation.from_arrays(list(ROWS.values()), names=list(ROWS))
        fit = secfc.fit(
            secfc.SecFC(3, 1, disclosure=policy), federation, seed=3, bound=options.get("bound"),
            scale_features=preparing.get("standardize"),
        )  # fmt: skip
        points = [new.get(name, np.ones((1, 3))) for name in ROWS]
        want = dict(
            zip(ROWS, fit.predict(secfc.Federation.from_arrays(points, names=list(ROWS))), strict=True)
        )
        for name in new:
            for again in range(2):
                assert run.labels(name, tmp_path / f"{name}.{again}.csv").tolist() == want[name].tolist()
        # Nothing is labeled beyond what sites agreed on, also after many calls.
        left = ModelFile.read(tmp_path / "site-0" / "results" / "model.npz").left
        assert left == 10 * len(POOL) - 2 * sum(map(len, points))


@pytest.mark.nightly
def test_new_people_whose_columns_lie_at_several_sites_are_labeled_by_all_of_them(tmp_path, nursery):
    table = np.concatenate(list(blobs((50, 40)).values())) * [1.0, 30.0, 1.0]
    columns, names = {"a": ("x", "y"), "b": ("z",), "h": ()}, [f"p{i}" for i in range(90)]
    parts = {"a": table[:, :2], "b": table[:, 2:], "h": np.zeros((0, 0))}

    def some(who):
        kept = [i for i in range(90) if who(i)]
        return {name: points[kept] if len(points) else points for name, points in parts.items()}, {
            name: [names[i] for i in kept] if name != "h" else [] for name in parts
        }

    fitted, ids = some(lambda i: i < 70)
    new, others = some(lambda i: i >= 60)
    new["b"], others["b"] = new["b"][5:], others["b"][5:]
    more = {"split": "columns", "options": {"t": 1}, "preparing": {"standardize": True}, "k": 3}
    with sites(tmp_path, fitted, ids=ids, columns=columns, nursery=nursery, **more) as run:
        text = (tmp_path / "h" / "site.toml").read_text().partition("[data]")[0]
        (tmp_path / "h" / "site.toml").write_text(text)
        run.start_all()
        assert set(run.everybody().values()) == {0}, run.log("server")
        words = {name: [str(tmp_path / name / "site.toml")] for name in (*parts, "server")}
        assert run.command("a", "predict", *words["a"]).wait(90) == 2
        assert "people are labeled of whom all owners have columns" in run.log("a")
        for name in "ab":
            run.write_rows(name, new[name], others[name], file="new.csv")
            words[name] += [str(tmp_path / name / "new.csv"), "--out", str(tmp_path / f"{name}.csv")]
        for name, own in words.items():
            run.command(name, "predict", *own)
        run.until("b", "finding the union of IDs", count=2)
        run.kill("b")
        run.command("b", "predict", *words["b"])
        assert set(run.everybody().values()) == {0}, run.log("b")

        def held_by(points, ids):
            named = {
                "names": list("ab"),
                "ids": [ids["a"], ids["b"]],
                "features": [columns["a"], columns["b"]],
            }
            held = secfc.Federation.from_arrays([points["a"], points["b"]], **named)
            return secfc.Federation((*held.parties, secfc.Party.without_data("h")))

        way = secfc.SecFC(3, 1, membership="joined")
        result = secfc.fit(way, held_by(fitted, ids), seed=3, scale_features="standard")
        for name, want in zip("ab", result.predict(held_by(new, others)), strict=False):
            assert run.labels(name, tmp_path / f"{name}.csv").tolist() == want.tolist()
            assert -1 in want or name == "b"


@pytest.mark.nightly
def test_sites_bring_text_and_label_new_rows_of_text(tmp_path, nursery):
    ranks = {name: np.arange(len(own)) % 3 for name, own in ROWS.items()}
    coded = {
        name: np.column_stack([own[:, 0], 9 * (ranks[name] == 1), ranks[name]]) for name, own in ROWS.items()
    }
    rows = {name: coded[name].astype(object) for name in ROWS}
    for name, own in rows.items():
        own[:, 2] = np.array(["I", "II", "III"], object)[ranks[name]]
    prepare = {"categorical": "z=I<II<III"}
    with sites(tmp_path, rows, k=3, options=BASE, preparing=prepare, nursery=nursery) as run:
        run.start_all()
        assert set(run.everybody().values()) == {0}, run.log("server")
        want = wanted(DEFAULT, coded)
        for name in rows:
            assert run.labels(name).tolist() == want[name].tolist()
        run.write_rows("site-1", rows["site-1"], file="new.csv")
        for name in (*rows, "server"):
            words = [str(tmp_path / name / "site.toml")]
            words += [str(tmp_path / name / "new.csv")] * (name == "site-1")
            run.command(name, "predict", *words, *(["--out", str(tmp_path / "new.csv")] * (name == "site-1")))
        assert set(run.everybody().values()) == {0}, run.log("site-1")
        assert run.labels("site-1", tmp_path / "new.csv").tolist() == want["site-1"].tolist()


@pytest.mark.nightly
def test_models_that_do_not_fit_are_refused(tmp_path, nursery):
    path = tmp_path / "site-0" / "results" / "model.npz"
    with sites(tmp_path, ROWS, k=3, options={"k_local": 2}, algorithm="k-fed", nursery=nursery) as run:
        for client in ROWS:
            run.write_site(client, named=False, floors="smallest_t = 0\nsmallest_center = 1")
        run.start_all()
        assert set(run.everybody().values()) == {0}, run.log("server")
        words = [str(tmp_path / "site-0" / "site.toml"), str(tmp_path / "site-0" / "rows.csv")]
        # Centers are known: a site labels alone.
        out = tmp_path / "own.csv"
        assert run.command("predict", "predict", *words, "--out", str(out)).wait(90) == 0
        federation = secfc.Federation.from_arrays(list(ROWS.values()), names=list(ROWS))
        fit = secfc.fit(secfc.KFed(3, 2, seed=3), federation, seed=3)
        assert run.labels("site-0", out).tolist() == fit.predict(federation)[0].tolist()
        whole = path.read_bytes()
        for data, why in (
            (whole[:-30], "is no model"), (b"junk", "is no model"),
            ((tmp_path / "site-1" / "results" / "model.npz").read_bytes(), "is site-1's"),
        ):  # fmt: skip
            path.write_bytes(data)
            assert run.command("predict", "predict", *words, "--force", "--out", str(out)).wait(90) == 2
            assert why in run.log("predict")
        path.write_bytes(whole)
        (tmp_path / "run.toml").write_text(replace(run.run, name="another").toml())
        assert run.command("predict", "predict", *words, "--force", "--out", str(out)).wait(90) == 2
        assert "of another run" in run.log("predict")


@pytest.mark.nightly
def test_sites_learn_what_clusters_are_over_all_of_them(tmp_path, nursery):
    labels = {name: np.arange(len(own)) % 3 for name, own in ROWS.items()}
    rows = {name: np.column_stack([own, labels[name]]) for name, own in ROWS.items()}
    options = {**BASE, "reveal_centers": True}
    asked = {"algorithm": "profile", "options": options, "features": ("x", "y", "z", "label")}
    with sites(tmp_path, rows, k=3, nursery=nursery, **asked) as run:
        run.start_all()
        assert set(run.everybody().values()) == {0}, run.log("server")
        whole, label = POOL, np.concatenate(list(labels.values()))
        for name in rows:
            found = json.loads((tmp_path / name / "results" / "report.json").read_text())["profile"]
            for h, cluster in enumerate(found["clusters"]):
                assert cluster["mean"] == pytest.approx(whole[label == h].mean(axis=0), rel=1e-9)
                assert cluster["median"] == [None] * 3
        server = json.loads((tmp_path / "server" / "results" / "report.json").read_text())
        assert server["profile"] is None


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["default", "masked"])
def test_a_site_whose_rows_a_dask_cluster_reads_has_the_labels_of_fit_also_if_the_cluster_is_lost(
    tmp_path, nursery, name
):
    distributed = pytest.importorskip("distributed")
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    options = {**BASE, "init": "random", "n_init": 4} if name == "default" else {"bound": 32.0, "n_init": 40}
    way = {
        "default": secfc.SecFC(3, 1, secfc.RandomLabels(), n_init=4),
        "masked": secfc.FederatedLloyd(3, n_init=40),
    }[name]
    terms = {"options": options, "algorithm": "secfc" if name == "default" else "federated-lloyd"}
    port = free_port()

    def cluster():
        return distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, scheduler_port=port
        )

    patient = replace(QUICK, patience=180.0, rejoin=180.0)
    with sites(tmp_path, THREE, k=3, nursery=nursery, waiting=patient, **terms) as run:
        for client in THREE:
            run.write_site(client, named=False, floors="smallest_t = 0\nsmallest_center = 1")
        columns = dict(zip("xyz", THREE["site-1"].T, strict=True))
        pq.write_table(pa.table(columns), tmp_path / "site-1" / "rows.parquet", row_group_size=6)
        path = tmp_path / "site-1" / "site.toml"
        dask = f'"rows.parquet"\ndask = "tcp://127.0.0.1:{port}"'
        path.write_text(path.read_text().replace('"rows.csv"', dask))
        with cluster():
            run.start_all()
            run.until("site-1", *({"default": ("clustering",), "masked": ("sum", 120, 3)}[name]))
        if name == "masked":  # the other has all its rows by then
            assert run.wait("site-1") == [75]
            assert "the Dask cluster lost its work" in run.log("site-1")
            assert "Traceback" not in run.log("site-1")
        with cluster():
            if run.processes["site-1"].poll() is not None:
                run.start("site-1")
            assert set(run.everybody().values()) == {0}, run.log("site-1")
        want = wanted(way, THREE)
        for client in THREE:
            assert (run.labels(client) == want[client]).all()
