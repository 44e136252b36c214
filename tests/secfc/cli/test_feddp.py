"""`secfc dp`: centers under differential privacy from files, and a server's file."""

import csv
import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks.server_points import server_side_mixture
from tests.small import invoke

run = partial(invoke, "dp", "--verbose")


@pytest.fixture
def files(tmp_path, monkeypatch):
    points, _, _, server = server_side_mixture(4, 200, np.random.default_rng(0), d=3, k=3, variance=0.005)
    for name, rows in [*((f"c{j}", points[200 * j : 200 * (j + 1)]) for j in range(4)), ("server", server)]:
        np.savetxt(tmp_path / f"{name}.csv", rows, delimiter=",", header="a,b,c", comments="")
    monkeypatch.chdir(tmp_path)
    return [f"c{j}.csv" for j in range(4)]


FEDDP = ("-k", 3, "--epsilon", 3)


@pytest.mark.parametrize(
    "more", [(), ("--noise", "server"), ("--protect", "client", "--rows-per-client", 200, "--radius", 1.5)]
)
def test_the_report_says_what_was_spent(files, more):
    done = invoke(
        "dp",
        "--verbose",
        *files,
        *FEDDP,
        "--server-file",
        "server.csv",
        *more,
        "--json",
        "--labels",
        "out.csv",
    )
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["privacy"]["epsilon"]["everybody"] <= 3.000001
    assert ("server" in report["privacy"]["epsilon"]) == ("server" in more)
    protected = "zero-out one client" if "client" in more else "add/remove one data point"
    assert report["privacy"]["neighbors"] == protected
    assert np.shape(report["centers"]) == (3, 3)


def test_the_text_is_for_people(files):
    done = run(*files, *FEDDP, "--server-file", "server.csv")
    assert done.exit_code == 0, done.output
    for line in ("FedDP-KMeans", "Not exact, by intent", "add/remove one data point", "noisy centers"):
        assert line in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*FEDDP,), "may show to everybody (--server-file)"),
        ((*FEDDP[:-2], "--server-file", "server.csv"), "Give one (--epsilon)"),
        ((*FEDDP, "--server-file", "server.csv", "--protect", "client"), "(--rows-per-client)"),
        ((*FEDDP, "--server-file", "server.csv", "--bound", 2), "it is called --radius here"),
        (("-k", 3, "--publish", "p.json"), "Give one (--epsilon)"),
        ((*FEDDP, "--server-file", "server.csv", "--publish", "p.txt"), "ends in .json or in .html"),
        (
            (*FEDDP, "--server-file", "server.csv", "--publish", "p.html", "--report", "p.html"),
            "is a --report too",
        ),
        ((*FEDDP, "--disclosure", "distances"), "it is for another command, `secfc run`"),
        ((*FEDDP, "--server-file", "none.csv"), "does not exist"),
        (
            (*FEDDP, "--server-file", "server.csv", "--protect", "client", "--labels-epsilon", 3),
            "--protect point",
        ),
        (("-k", 3, "--labels-epsilon", 3, "--radius", 2), "Give one (--epsilon)"),
        ((*FEDDP, "--server-file", "server.csv", "--labels", "server.csv", "--force"), "one of the input"),
    ],
)
def test_what_does_not_fit_is_refused(files, arguments, message):
    done = run(*files, *arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_budgets_that_promise_or_use_too_little_are_told_on_the_screen(files):
    options = (*files, "-k", 3, "--server-file", "server.csv", "--noise", "server")
    wide = run(*options, "--epsilon", 3, "--delta", 0.01, "--publish", "p.json")
    assert "for 800 data points: a claim with delta above 1/800" in " ".join(wide.stderr.split())
    assert "800" not in json.dumps(json.loads(Path("p.json").read_text())["notes"])
    unused = run(*options, "--epsilon", 100, "--force")
    assert unused.exit_code == 2
    assert "epsilon=100: Gaussian noise of one party proves at most 24.31" in " ".join(unused.output.split())


def test_labels_for_others_cost_beside_centers(files):
    more = ("--labels-epsilon", 2, "--ledger", "spent.json", "--total-epsilon", 5)
    done = run(*files, *FEDDP, "--server-file", "server.csv", *more)
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    for line in (
        "epsilon = 5, delta = 1e-06",
        "Centers 3, labels 2, one row: 5; a label is right with probability 0.79",
        "replace one data point; centers 3, labels 2",  # in the summary, which is all that most read
    ):
        assert line in said
    again = run(*files, *FEDDP, "--server-file", "server.csv", *more)
    assert again.exit_code == 2
    assert "5" in again.output


def test_a_release_that_comes_again_is_said_once_with_its_number(files):
    done = invoke("dp", "--verbose", *files, *FEDDP, "--radius", 2)
    said = " ".join(done.output.split())
    assert said.count("released to everybody: votes for candidates") == 1
    assert re.search(r"released to everybody: votes for candidates \(x \d+\)", said)


def test_released_labels_go_beside_what_may_be_published(files):
    done = invoke(
        "dp",
        "--verbose",
        *files,
        *FEDDP,
        "--server-file",
        "server.csv",
        "--labels-epsilon",
        "4:300",
        "--publish",
        "p.html",
    )
    assert done.exit_code == 0, done.output
    assert "p.html and p-labels.csv (may be published)" in " ".join(done.output.split())
    page = Path("p.html").read_text()
    assert "300 a client, as given; rows keep theirs if one is gone" in page
    with open("p-labels.csv", newline="") as file:
        told = list(csv.DictReader(file))
    assert len(told) == 300 * len(files)
    assert list(told[0]) == ["client", "row", "label"]
    assert {int(line["label"]) for line in told} == {0, 1, 2}
    for options, said in (
        (("--labels-epsilon", 4, "--publish", "p.json"), "p-labels.csv exists already"),
        (("--labels-epsilon", "4:x"), "'4:x' is no epsilon: write 3, or 3:500"),
        (("--labels-epsilon", "4:0"), "slots=0 must be at least 1"),
        (("--labels-epsilon", "26"), "must be in [0.001, 25]"),
        (("--labels-epsilon", "2:3"), "slots=3 labels are released"),
        (("--labels-epsilon", 0.5, "--noise", "server", "--epsilon", 100), "proves at most 24.31"),
    ):
        again = run(*files, *FEDDP, "--server-file", "server.csv", *options)
        assert again.exit_code == 2, again.output
        assert said in " ".join(again.output.split())
    few = run(*files, *FEDDP, "--server-file", "server.csv", "--labels-epsilon", 0.1)
    assert "36 of 100 labels are right, 33 by chance" in " ".join(few.output.split())


def test_only_what_the_budget_paid_for_is_reported(files):
    options = (*files, *FEDDP, "--server-file", "server.csv", "--labels", "out.csv")
    report = json.loads(run(*options, "--json").stdout)
    unpaid = (
        "cost", "seconds", "truth", "attack", "files", "m", "points_held", "clients", "cluster_sizes",
        "labels_digest", "labels_digests", "notes_on_data",
    )  # fmt: skip
    assert [report[name] for name in unpaid] == [None] * len(unpaid)
    assert np.shape(report["centers"]) == (3, 3)
    more = ("--json", "--evaluate", "--force", "--publish", "public.json")
    more = json.loads(run(*options, *more).stdout)
    public = json.loads(Path("public.json").read_text())
    assert public == {**more, "evaluation": None}
    assert [more[name] for name in unpaid] == [None] * len(unpaid)
    assert (more["evaluation"]["m"], sum(more["evaluation"]["cluster_sizes"])) == (800, 800)
    assert more["evaluation"]["covered_by_epsilon"] is False
    shown = run(*options, "--report", "out.json", "--force").stdout
    assert not re.search(r"\b800\b(?!\.)(?<!\.800)", shown)  # the number of rows, not digits of a center
    for exact in ("Sizes", "Cost", "Computing time"):
        assert exact not in shown, exact
    assert "not covered by epsilon" in shown  # the labels, which every client finds for itself
    shown = run(*options, "--report", "out.json", "--force", "--evaluate").stdout
    before, after = shown.split("NOT covered by epsilon")
    for exact in ("m = 800 points", "Sizes", "Cost", "Computing time"):
        assert exact not in before, exact
        assert exact in after, exact


def test_persons_are_protected_by_their_ids(files):
    for name in files:
        rows = np.loadtxt(name, delimiter=",", skiprows=1)
        both = np.hstack([np.arange(len(rows))[:, None] // 4, rows])
        np.savetxt(name, both, delimiter=",", header="who,a,b,c", fmt="%.12g", comments="")
    way = (*files, *FEDDP, "--server-file", "server.csv", "--labels", "out.csv", "--json", "--protect")
    n = len(files)
    done = invoke("dp", "--force", *way, f"person:{2 * n}", "--id-column", "who")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["privacy"]["neighbors"] == f"add/remove one person, of at most {2 * n} rows"
    assert "at most 2 of one person" in json.dumps(report["privacy"])
    assert report["parameters"]["protect"] == f"person:{2 * n}"
    for unit, more, said in (
        (f"person:{n}", (), "(--id-column)"),
        (f"person:{n - 1}", ("--id-column", "who"), f"(--protect person:{n})"),
        ("person", (), "write person:6 for one of"),
        ("person-at-client:2", ("--id-column", "who", "--labels-epsilon", 2), "a person has many"),
    ):
        done = invoke("dp", "--force", *way, unit, *more)
        assert done.exit_code != 0
        assert said in done.output, (unit, done.output)
