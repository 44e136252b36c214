"""The command line: what it prints, what it writes, what it refuses, and how it ends."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import os
import pty
import re
import shlex
import signal
import stat
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

import secfc
from field.kernels import compiling
from field.ring.basis import MERSENNE_61, Basis
from field.ring.errors import install_command
from secfc import cli, metrics, report, tiny_runs
from secfc.cli import methods
from secfc.cli.clustering import run as program_module
from secfc.cli.clustering.run import APART, dp, overlap
from secfc.cli.clustering.run import run as program_run
from secfc.cli.methods import secfc as shell
from secfc.cli.shell import method as options
from secfc.cli.shell import outputs, program, screen
from secfc.cli.shell.method import ChosenAlgorithm, Method
from secfc.cli.shell.options import Whole, fields_of, option
from secfc.coded_kmeans import parameters as words
from secfc.data.inputs import EXTRAS
from secfc.data.mixtures import rotated_digits
from secfc.errors import InputError
from secfc.kmeans.starts import STARTS
from secfc.roles.exchange import SHARE, Exchange
from tests.nightly import by_night, every, short
from tests.small import run

PROGRAM = [sys.executable, "-m", "secfc.cli"]


def said(result: Result) -> str:
    """What stderr says beside the log that --verbose asks for."""
    return "".join(line for line in result.stderr.splitlines(True) if not line.startswith('{"time"'))


def strict_json(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def written() -> set[str]:
    """Files in the working directory that are not inputs, hidden ones too."""
    return {name for name in os.listdir() if name not in INPUTS}


INPUTS = {"a.csv", "b.csv", "c.csv", "all.csv", "a.npy", "b.npy", "c.npy"}
CSV = ("a.csv", "b.csv", "c.csv")
NPY = ("a.npy", "b.npy", "c.npy")


@pytest.fixture(autouse=True)
def _hospitals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three hospitals with 20, 21 and 22 points of three well separated kinds, as CSV and .npy."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    pooled = []
    for j, name in enumerate("abc"):
        kinds = rng.integers(0, 3, 20 + j)
        points = np.array([[0, 0], [30, 5], [5, 30]])[kinds] + rng.normal(size=(20 + j, 2))
        np.save(f"{name}.npy", points)
        lines = [
            f"P{j}{row:02d},{x:.3f},{y:.3f},kind-{kind}"
            for row, ((x, y), kind) in enumerate(zip(points, kinds, strict=True))
        ]
        Path(f"{name}.csv").write_text("pid,age,weight,kind\n" + "\n".join(lines) + "\n")
        pooled += [f"{name},{line}" for line in lines]
    Path("all.csv").write_text("site,pid,age,weight,kind\n" + "\n".join(rng.permutation(pooled)) + "\n")


# --- the demonstration -----------------------------------------------------------------------------


def test_the_demonstration_explains_itself_and_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "SLOW", 600.0)  # the first run on a machine compiles
    root = Path(__file__).parents[3]
    first = (
        (root / "README.md").read_text().split("<!-- commands -->")[1].split("secfc run ")[1].splitlines()[0]
    )
    result = run(*first.split())
    assert result.exit_code == 0, result.output
    for phrase in (
        "m = 732 points, d = 64 features, n = 10 clients",
        "k = 4 clusters",
        "t = 4",
        "ell = 1",
        "3 lanes",
        "90 bits",
        "64 steps a data unit",
        "Exact: the labels equal those of plaintext k-means",
        "Accuracy 99.",
        "Iterations ",
        "decode and assign",
        "ms a step",
        "slowest client",
        "deal masks and tables",
        "client -> client bits opened under masks",
        "client -> server shares of the labels",
        "What the server learned",
        "What every client learned\n- all labels and cluster sizes, in every iteration",
        "no point and no center",
        "no distance of a point: 7 clients compared them under masks that it dealt",
        "tried: labels alone let it guess",
    ):
        assert phrase in re.sub(" +", " ", result.stdout), phrase
    # The first screen of the page says what everybody's first run ends with.
    digest = re.search(r"^Same labels (\w{16}) on any machine", result.stdout, re.MULTILINE).group(1)  # type: ignore[union-attr]
    assert re.search(
        r"Labels +those of plaintext k-means \(Lloyd\), exactly, in all of 1\d steps", result.stdout
    )
    assert f"`Same labels {digest}`" in (root / "README.md").read_text().split("<!-- commands -->")[0]
    assert "distances place" not in result.stdout
    assert said(result) == ""
    assert written() == set()


def test_a_second_implementation_is_compared_with_and_can_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    for name in "abc":
        np.save(f"{name}.npy", rng.normal(size=(8, 2)) + 9 * np.arange(8)[:, None] // 4)
    line = ("a.npy", "b.npy", "c.npy", "-k", "2", "--verify-reference", "--force", "--no-attack")
    shown = " ".join(run(*line).stdout.split())
    assert "final labels are those of a reference over GF(2**61 - 1), in galois, from the same start" in shown
    monkeypatch.setattr("field.reference.assign_points", lambda distances, labels, k: 0 * labels)
    shown = " ".join(run(*line).stdout.split())
    assert re.search(r"\d+ OF 24 LABELS DIFFER from a reference", shown), shown
    monkeypatch.setitem(sys.modules, "galois", None)
    assert install_command("[reference]") in " ".join(run(*line).stdout.split())
    monkeypatch.setattr("field.reference.MOST", 95)
    assert "m d k = 96 takes it hours, 95 is the most" in " ".join(run(*line).stdout.split())
    shown = " ".join(run(*line, "--disclosure", "own-labels").stdout.split())
    assert "it begins with labels that this policy shows nobody" in shown


def test_a_run_that_shows_distances_says_so_and_what_they_give_away() -> None:
    shown = " ".join(run("--disclosure", "distances").stdout.split())
    for phrase in (
        "distance of every point to every center, and over iterations these fix the shape of the data",
        "--disclosure assignments shows it labels only",
        "client -> server coded distances",
        "tried: these distances place all 732 points",
    ):
        assert phrase in shown, phrase


def test_the_report_of_the_demonstration_is_that_of_the_library() -> None:
    result = run("--json")
    assert result.exit_code == 0
    assert said(result) == ""
    assert written() == set()
    found = strict_json(result.stdout)
    points, truth = rotated_digits(3)
    federation = secfc.Federation.from_labelled(points, truth, n=10, clusters_per_client=2, seed=0)
    fitted = secfc.fit(secfc.SecFC(4, threshold=4), federation, seed=0)
    matrix = (Path(__file__).parents[3] / "benchmarks/same_labels.toml").read_text()
    assert tomllib.loads(matrix)["digest"] == found["labels_digest"]
    assert found["verified"] is True
    assert found["verification"]["iterations"] == found["n_iter"] == fitted.n_iter
    assert fitted.cost is None
    assert found["cost_known_to_server"] is False
    assert found["truth"]["accuracy"] == metrics.accuracy(federation.truth, fitted.flat) > 0.98
    assert found["cluster_sizes"] == np.bincount(fitted.flat, minlength=4).tolist()
    assert found["clients"] == dict(zip(federation.names, federation.counts, strict=True))
    assert found["learned"] == list(fitted.learned)
    assert found["clients_learned"] == ["all labels and cluster sizes, in every iteration"]
    assert found["transcript"]["bytes"] == fitted.transcript.nbytes()
    assert found["steps"] == report.count_rounds(fitted) > fitted.n_iter
    parameters = found["parameters"]
    assert (parameters["k"], parameters["t"], parameters["ell"], parameters["seed"]) == (4, 4, 1, 0)
    assert parameters["scale"] == fitted.plan.quantizer.scale
    assert parameters["primes"] == list(fitted.plan.code.basis.primes)
    assert found["versions"]["secfc"] == secfc.__version__
    assert found["versions"]["numpy"] == np.__version__


@pytest.mark.parametrize("algorithm", ["secfc", "lloyd", "k-fed"])
def test_a_sealed_run_says_so_and_clusters_the_same(algorithm: str) -> None:
    few = () if algorithm == "k-fed" else ("--init", "random", "--max-iter", "3")
    line = (*NPY, "-k", "4", "--algorithm", algorithm, *few, "--force", "--report")
    open_text, text = (
        run(*line, f"{name}.json", *more).stdout for name, *more in (("open",), ("sealed", "--sealed"))
    )
    open_run, sealed = (strict_json(Path(f"{name}.json").read_text()) for name in ("open", "sealed"))
    assert (sealed["cluster_sizes"], sealed["steps"]) == (open_run["cluster_sizes"], open_run["steps"])
    assert (open_run["parameters"]["sealed"], sealed["parameters"]["sealed"]) == (False, True)
    assert sealed.get("attack") == open_run.get("attack")
    contents = {kind for direction in sealed["transcript"]["by_direction"].values() for kind in direction}
    assert contents == {"Greeting", "Countersign", "Sealed"}
    assert "encrypted and authenticated" in text
    assert "encrypted and authenticated" not in open_text


# --- files -----------------------------------------------------------------------------------------


def read_labels(path: str = "secfc-labels.csv") -> list[list[str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_files_give_the_labels_of_the_library_with_ids() -> None:
    result = run(*CSV, "-k", "3", "--id-column", "pid", "--label-column", "kind", "--seed", "3")
    assert result.exit_code == 0, result.output
    assert "secfc-labels.csv (for data holders), secfc-report.json" in result.stdout
    federation = secfc.Federation.from_files(CSV, id_column="pid", label_column="kind")
    fitted = secfc.fit(secfc.SecFC(3, threshold=1), federation, seed=3)
    expected = [
        [party.name, str(row), str(party.ids[row]), str(label)]
        for party, labels in zip(federation.parties, fitted.labels, strict=True)
        for row, label in enumerate(labels)
        if party.ids
    ]
    assert read_labels() == [["client", "row", "id", "label"], *expected]
    found = strict_json(Path("secfc-report.json").read_text())
    assert found["truth"] == {"accuracy": 1.0, "adjusted_rand": 1.0, "purity": 1.0}
    assert found["m"] == 63
    assert found["verified"] is True
    assert written() == {"secfc-labels.csv", "secfc-report.json"}


def test_one_file_for_all_clients_gives_the_same_points_the_same_clusters() -> None:
    options = ("-k", "3", "--id-column", "pid", "--label-column", "kind", "--init", "k-means++", "--consent")
    assert run(*CSV, *options, "--labels", "each", "--report", "each.json").exit_code == 0
    together = run("all.csv", *options, "--client-column", "site", "--labels", "one", "--report", "one.json")
    assert together.exit_code == 0, together.output
    each = {(client, name): label for client, _, name, label in read_labels("each")[1:]}
    one = {(client, name): label for client, _, name, label in read_labels("one")[1:]}
    assert each.keys() == one.keys()
    pairs = {(each[key], one[key]) for key in each}
    assert len(pairs) == 3  # one name for one name


def test_without_ids_there_is_no_id_column_and_columns_are_chosen() -> None:
    result = run(*CSV, "-k", "2", "--columns", " weight , age", "--json")
    assert result.exit_code == 0, result.output
    assert read_labels()[0] == ["client", "row", "label"]
    assert strict_json(result.stdout)["d"] == 2
    assert written() == {"secfc-labels.csv"}  # with --json the report is on stdout


def test_a_name_with_a_comma_can_be_chosen() -> None:
    for name in "abc":
        Path(f"{name}.csv").write_text('"age, years",weight,text\n1,2,x\n3,4,y\n')
    assert run(*CSV, "-k", "2", "--columns", '"age, years",weight').exit_code == 0


ONE_PRIME = ("bisecting", "k-means++")  # by day


@pytest.mark.parametrize(
    ("init", "field"),
    [
        *every(2, ((init, "ring") for init in STARTS if init != "splitting")),
        *every(2, ((init, "mersenne61") for init in reversed(ONE_PRIME))),
        *by_night(
            ("splitting", "ring"),
            *((init, "mersenne61") for init in STARTS if init not in (*ONE_PRIME, "splitting")),
        ),
    ],
)
def test_every_start_and_field_is_exact(init: str, field: str) -> None:
    starts = short("2", nightly="3")
    shown, grown = field == "mersenne61" or init == "bisecting", init == "splitting"
    more = ("--disclosure", "distances") if shown else ("--consent",)
    more = ("--disclosure", "own-labels") if grown else more
    result = run(
        *NPY, "-k", "5", "--init", init, "--field", field, *more, "--n-init", starts, "--rounding", "floor",
        "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    found = strict_json(result.stdout)
    assert found["verified"] is True
    parameters = found["parameters"]
    basis = Basis((MERSENNE_61,)) if field == "mersenne61" else None
    policy = secfc.Distances() if shown else secfc.AssignmentsOnly(consent=True)
    policy = secfc.OwnLabels() if grown else policy
    algorithm = secfc.SecFC(
        5,
        threshold=1,
        init=STARTS[init],
        n_init=int(starts),
        quantization=secfc.Quantization(basis=basis, rounding="floor"),
        disclosure=policy,
    )
    fitted = secfc.fit(algorithm, secfc.Federation.from_files(NPY), seed=0)
    assert found["cost"] == fitted.cost
    assert parameters["primes"] == list(fitted.plan.code.basis.primes)
    assert (parameters["init"], parameters["n_init"], parameters["rounding"]) == (init, int(starts), "floor")


def test_every_option_reaches_the_algorithm() -> None:
    result = run(
        *NPY, "-k", "4", "-t", "1", "--ell", "1", "--max-iter", "1", "--scale", "64", "--bound", "50",
        "--reveal-centers", "--seed", "7", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    found = strict_json(result.stdout)
    parameters = found["parameters"]
    assert parameters["max_iter"] == found["n_iter"] == 1
    assert (parameters["scale"], parameters["bound"], parameters["bound_from_data"]) == (64, 50, False)
    assert parameters["seed"] == 7
    algorithm = secfc.SecFC(
        4,
        threshold=1,
        max_iter=1,
        quantization=secfc.Quantization(scale=64),
        release=secfc.Release(reveal_centers=True),
    )
    fitted = secfc.fit(algorithm, secfc.Federation.from_files(NPY), seed=7, bound=50)
    assert found["converged"] is fitted.converged
    assert fitted.centers is not None
    np.testing.assert_array_equal(np.array(found["centers"], float), fitted.centers)
    assert parameters["reveal_centers"] == ["a", "b", "c"]
    assert found["learned"][-1] == "the centers of clusters of at least 3 points"


def test_the_baselines_run_and_claim_nothing() -> None:
    lloyd = strict_json(run(*NPY, "-k", "3", "--algorithm", "lloyd", "--json").stdout)
    fed = strict_json(run(*NPY, "-k", "3", "--algorithm", "k-fed", "--json", "--force").stdout)
    assert lloyd["verified"] is None
    assert fed["verified"] is None
    assert lloyd["learned"] == ["every point of every client"]
    assert fed["parameters"]["k_local"] == 3
    assert fed["cost_known_to_server"] is False
    labels = [int(line[-1]) for line in read_labels()[1:]]
    assert fed["cost"] == metrics.cost(secfc.Federation.from_files(NPY).stacked(), labels, 3)


def test_an_empty_cluster_has_no_center_in_strict_json() -> None:
    for name in NPY:
        np.save(name, np.ones((2, 2)))
    found = strict_json(run(*NPY, "-k", "3", "--algorithm", "lloyd", "--json").stdout)
    assert 0 in found["cluster_sizes"]
    assert [None, None] in found["centers"]


def test_names_are_printed_as_they_are() -> None:
    Path("a.npy").rename("[red]a:smile:.npy")
    result = run("[red]a:smile:.npy", "b.npy", "c.npy", "-k", "2", "--labels", "[red]:smile:")
    assert result.exit_code == 0
    assert "[red]a:smile:.npy, b.npy" in result.stdout
    assert "Written     [red]:smile: (for data holders)" in result.stdout
    assert read_labels("[red]:smile:")[1][0] == "[red]a:smile:"


# --- how t is chosen -------------------------------------------------------------------------------


@pytest.mark.parametrize("n", range(1, 31))
@pytest.mark.parametrize("ell", [1, 2, 3])
def test_the_default_t_is_the_largest_that_fits_and_at_most_a_third(n: int, ell: int) -> None:
    fitting = [t for t in range(1, n) if 2 * (ell + t - 1) + 1 <= n and t <= -(-n // 3)]
    if fitting:
        t, chosen_ell, notes = words.choose_code(n, None, ell)
        assert (t, chosen_ell) == (max(fitting), ell)
        assert f"t={t} was chosen" in notes[0]
        # Who packs is told what it costs.
        assert [f"but t+1={t + 1} can read" in note for note in notes[1:]] == [True] * (ell > 1)
    else:
        with pytest.raises(InputError, match="= 3 are needed" if n < 3 and ell == 1 else "Add clients"):
            words.choose_code(n, None, ell)


def test_no_noise_is_a_warning() -> None:
    result = run(*NPY, "-k", "2", "-t", "0")
    assert result.exit_code == 0
    assert "t=0 protects nobody" in result.stdout


@pytest.mark.parametrize(("asked", "told"), [((), False), (("--deviating", "0"), True)])
def test_a_committee_in_which_one_client_reads_is_a_warning(asked: tuple[str, ...], told: bool) -> None:
    result = run(*NPY, "-k", "2", "-t", "1", *asked)
    assert result.exit_code == 0
    printed = " ".join(result.stdout.split())
    assert ("one client of the committee that deviates can read the others' rows" in printed) is told


# --- refusals --------------------------------------------------------------------------------------


def _bad_files() -> None:
    Path("ragged.csv").write_text("x,y\n1,2\n3\n")
    Path("nan.csv").write_text("x,y\n1,2\nnan,3\n")
    Path("empty.csv").write_text("")
    Path("notes.doc").write_text("1,2\n")
    os.mkfifo("pipe")  # stands for a device: a failing test must not replace a real one
    np.save("huge.npy", np.array([[1e308, 1.0]]))
    np.save("tiny.npy", np.array([[1e-320, 0.0]]))


BAD: list[tuple[str, str]] = [
    ("a.npy b.npy c.npy", "-k is missing"),
    ("nowhere.csv -k 2", "nowhere.csv does not exist"),
    (". -k 2", "is a directory"),
    ("notes.doc -k 2", ".xlsx, .sql, .parquet"),
    ("ragged.csv -k 2", "line 3"),
    ("nan.csv -k 2", "NaN"),
    ("empty.csv -k 2", "empty"),
    ("a.csv b.csv c.csv -k 2", "--id-column"),
    ("a.csv b.csv c.csv -k 2 --columns height", "no column 'height'"),
    ("a.csv b.csv c.csv -k 2 --columns age,,weight", "list of column names"),
    ("all.csv -k 2 --columns age,weight", "= 3 are needed"),
    ("all.csv -k 2 --columns age,weight --client-column ward", "no column 'ward'"),
    ("a.npy b.npy -k 2", "= 3 are needed"),
    ("a.npy b.npy c.npy -k 0", "'-k'"),
    ("a.npy b.npy c.npy -k two", "'-k'"),
    ("a.npy b.npy c.npy -k 64", "k=64 clusters of m=63"),
    ("a.npy b.npy c.npy -k 64 --algorithm lloyd", "k=64 clusters of m=63"),
    ("a.npy b.npy c.npy -k 64 --algorithm k-fed", "k=64 clusters of m=63"),
    ("a.npy b.npy c.npy -k 3 --algorithm k-fed --k-local 4", "--k-local 4: it must lie in [1, k=3]"),
    ("a.npy b.npy c.npy -k 2 -t 2", "Lower ell or t, or add clients"),
    ("a.npy b.npy c.npy -k 2 --ell 2", "use --ell 1"),
    ("a.npy b.npy c.npy -k 2 --ell 0", "'--ell'"),
    ("a.npy b.npy c.npy -k 2 --bound 3", "outside the public bound"),
    ("a.npy b.npy c.npy -k 2 --bound inf", "positive finite"),
    ("a.npy b.npy c.npy -k 2 --bound=-1", "positive finite"),
    ("a.npy b.npy c.npy -k 2 --scale nan", "positive finite"),
    ("a.npy b.npy c.npy -k 2 --scale 1e30", "lower the scale"),
    ("a.npy b.npy c.npy -k 2 --scale 1e9 --field mersenne61 --disclosure distances", "lower the scale"),
    ("a.npy b.npy c.npy -k 2 --seed -1", "'--seed'"),
    ("a.npy b.npy c.npy -k 2 --max-iter 0", "'--max-iter'"),
    ("a.npy b.npy c.npy -k 2 --init best", "'--init'"),
    ("a.npy b.npy huge.npy -k 2", "rescale"),
    ("tiny.npy -k 1 -t 0", "rescale"),
    ("a.npy a.npy b.npy -k 2", "given twice"),
    ("--columns age", "--columns needs a FILE"),
    ("--client-column site", "--client-column needs a FILE"),
    ("-t 9", "Lower ell or t"),
    ("--k-local 2", "no meaning for --algorithm secfc"),
    ("--algorithm lloyd -t 1", "-t has no meaning"),
    ("--algorithm k-fed --no-verify", "no meaning for --algorithm k-fed"),
    ("a.npy b.npy c.npy -k 2 --labels missing/out.csv", "does not exist. Create it first"),
    ("a.npy b.npy c.npy -k 2 --report .", "is a directory"),
    ("a.npy b.npy c.npy -k 2 --labels same --report same", "different names"),
    ("a.npy b.npy c.npy -k 2 --force --labels a.npy", "one of the input files"),
    ("a.npy b.npy c.npy -k 2 --force --labels pipe", "would be replaced"),
    ("a.npy b.npy c.npy -k 2 --report a.csv", "exists already"),
    ("a.npy b.npy c.npy -k 2 --labels -", "both want stdout"),
    ("a.npy b.npy c.npy -k 2 --report -", "file of that name"),
    ("a.npy b.npy c.npy -k 2 --bound 1e200", "rescale the data"),
    ("a.npy b.npy c.npy -k 2 --bound 1e-200", "rescale the data"),
]


@pytest.mark.parametrize(("line", "message"), BAD, ids=[line for line, _ in BAD])
def test_bad_usage_and_bad_input_end_with_2_a_message_and_no_output(line: str, message: str) -> None:
    _bad_files()
    before = written()
    result = run(*line.split(), "--json")
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert written() == before
    assert isinstance(result.exception, SystemExit)


def test_messages_name_options_where_the_library_names_parameters() -> None:
    Path("a.csv").write_text("id_column,x\nq,1\n")
    result = run("a.csv", "-k", "1")
    assert "column 'id_column': the cell is not a number" in result.stderr
    assert "leave the column out (--exclude), name it as IDs (--id-column)" in result.stderr
    assert "have every category of a text made a feature (--categorical)" in result.stderr


def test_labels_to_stdout_leave_the_report_to_stderr_and_no_file_of_that_name() -> None:
    result = run(*NPY, "-k", "2", "--labels", "-", "--report", "report.json")
    assert result.exit_code == 0, result.output
    rows = list(csv.reader(io.StringIO(result.stdout)))
    assert rows[0] == ["client", "row", "label"]
    assert len(rows) == 1 + 63
    assert "Exact: the labels equal" in result.stderr
    assert written() == {"report.json"}


def test_the_report_says_where_it_came_from() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    options = ("-k", "3", "--columns", "weight,age", "--report", "where it came from.json")
    result = run(*CSV, *options)
    assert result.exit_code == 0, result.output
    assert "Columns     weight, age\n" in result.stdout
    found = strict_json(Path("where it came from.json").read_text())
    assert found["columns"] == ["weight", "age"]
    assert shlex.split(found["command"]) == ["secfc", "run", "--verbose", *CSV, *options]
    assert before <= datetime.fromisoformat(found["started"]) <= datetime.now(UTC)
    assert found["files"] == [
        {"path": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name in CSV
        if (content := Path(name).read_bytes())
    ]


def test_a_column_of_ids_that_is_clustered_is_pointed_out() -> None:
    rng = np.random.default_rng(1)
    for j, name in enumerate("abc"):
        rows = [f"{1000 * j + row},{row % 9},{rng.normal():.3f}" for row in rng.permutation(1500)]
        Path(f"{name}.csv").write_text("pid,age,weight\n" + "\n".join(rows) + "\n")
    result = run(*CSV, "-k", "2", "--no-attack")
    shown = " ".join(result.stdout.split())
    assert "Columns pid, age, weight" in shown
    assert "column 'pid' holds a different whole number in every row" in shown
    assert "--id-column" in shown
    assert "column 'age'" not in shown
    assert "column 'weight'" not in shown
    named = run(*CSV, "-k", "2", "--no-attack", "--id-column", "pid", "--force")
    assert "different whole number" not in named.stdout
    # One number twice, far down, and it is no ID.
    with open("a.csv", "a") as file:
        file.write("0,1,1.0\n")
    assert "different whole number" not in run(*CSV, "-k", "2", "--no-attack", "--force").stdout


# --- output files ----------------------------------------------------------------------------------


def test_existing_files_are_kept_without_force_and_replaced_with_it() -> None:
    Path("secfc-report.json").write_text("precious")
    result = run(*NPY, "-k", "2", "--report", "secfc-report.json")
    assert result.exit_code == 2
    assert "secfc-report.json exists already" in result.stderr
    assert "--force" in result.stderr
    assert written() == {"secfc-report.json"}
    assert run(*NPY, "-k", "2").exit_code == 0  # names that nobody gave are numbered
    assert Path("secfc-report.json").read_text() == "precious"
    assert written() == {"secfc-report.json", "secfc-report-2.json", "secfc-labels-2.csv"}
    assert run(*NPY, "-k", "2", "--force").exit_code == 0
    assert strict_json(Path("secfc-report.json").read_text())["parameters"]["k"] == 2


def test_names_that_another_run_takes_meanwhile_cost_no_results(monkeypatch) -> None:
    whole = program_module.execute

    def execute(*args: Any) -> Any:
        for name in ("secfc-labels.csv", "told.json", "sites/c0.csv", "m.npz", "page.html"):
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).write_text("another's")
        return whole(*args)

    monkeypatch.setattr(program_module, "execute", execute)
    said = run(
        *NPY, "-k", "2", "--report", "told.json", "--report", "told-2.json", "--model", "m.npz",
        "--officer", "page.html", "--labels", "secfc-labels.csv", "--site-labels", "sites",
    )  # fmt: skip
    assert said.exit_code == 0, said.stderr
    names = {"secfc-labels-2.csv", "told-2.json", "told-3.json", "sites-2/", "m-2.npz", "page-2.html"}
    assert names <= set(re.split(r"[\s,]+", said.stdout))
    assert all(Path(name).exists() for name in names)
    assert len([*Path("sites-2").iterdir()]) > 1
    taken = ("secfc-labels.csv", "told.json", "m.npz", "page.html")
    assert {Path(name).read_text() for name in taken} == {"another's"}
    assert len(Path("secfc-labels-2.csv").read_text().splitlines()) > 1
    assert strict_json(Path("told-2.json").read_text())["parameters"]["k"] == 2


def test_a_replaced_file_keeps_its_permissions_and_a_link_its_place() -> None:
    target = Path("kept.csv")
    target.write_text("old")
    target.chmod(0o600)
    Path("link.csv").symlink_to(target)
    assert run(*NPY, "-k", "2", "--labels", "link.csv", "--force").exit_code == 0
    assert Path("link.csv").is_symlink()
    assert target.read_text().startswith("client,row,label\n")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_nothing_is_written_when_one_file_cannot_be() -> None:
    Path("first").write_text("old")

    def good(file: Any) -> None:
        file.write("new")

    def bad(file: Any) -> None:
        file.write("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        outputs.write_all({Path("first"): good, Path("second"): bad}, overwrite=True)
    assert Path("first").read_text() == "old"
    assert written() == {"first"}
    with pytest.raises(FileExistsError):
        outputs.write_all({Path("second"): good, Path("first"): good}, overwrite=False)
    assert written() == {"first"}
    os.mkfifo("pipe")
    with pytest.raises(FileExistsError, match="no regular file"):
        outputs.write_all({Path("first"): good, Path("pipe"): good}, overwrite=True)
    assert Path("first").read_text() == "old"
    assert Path("pipe").is_fifo()
    assert written() == {"first", "pipe"}


def test_a_full_disk_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = run(*NPY, "-k", "2")
    assert result.exit_code == 2
    assert "could not be written (No space left on device)" in result.stderr
    assert written() == set()


def test_a_directory_without_permission_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    locked = Path("locked").resolve()
    locked.mkdir()
    access = os.access
    # The superuser may write anywhere, so the answer of the system is put in its mouth.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != locked and access(path, mode))
    result = run(*NPY, "-k", "2", "--labels", "locked/out.csv")
    assert result.exit_code == 2
    assert "files may not be created" in result.stderr
    assert written() == {"locked"}


# --- verification, faults and bugs -----------------------------------------------------------------


def test_labels_that_differ_from_plaintext_fail_and_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    twin = tiny_runs.plaintext_twin

    def other(algorithm: Any) -> Any:
        return secfc.Lloyd(algorithm.k, init=secfc.RandomPoints(), max_iter=twin(algorithm).max_iter)

    monkeypatch.setattr(tiny_runs, "plaintext_twin", other)
    result = run(*NPY, "-k", "3")
    assert result.exit_code == 1
    assert "NOT EXACT: the labels differ from plaintext k-means (Lloyd) at the start" in result.stdout
    assert "not those of plaintext k-means. None were written." in result.stderr
    assert written() == {"secfc-report.json"}
    found = strict_json(Path("secfc-report.json").read_text())
    assert found["verified"] is False
    assert found["verification"]["first_difference"] == 0
    unverified = run(*NPY, "-k", "3", "--no-verify", "--force")
    assert unverified.exit_code == 0
    assert "Not verified" in unverified.stdout


def test_one_wrong_label_in_one_iteration_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def tamper(secure: Any, plain: Any) -> Any:
        plain.history[2][5] += 1
        return compare(secure, plain)

    compare = report.compare_labelings
    monkeypatch.setattr(report, "compare_labelings", tamper)
    result = run("--init", "random", "--json")
    assert result.exit_code == 1
    assert strict_json(result.stdout)["verification"] == {
        "against": "plaintext Lloyd, same start and seed",
        "iterations": 9,
        "first_difference": 2,
        "points_that_differ": 1,
    }


def _raising(error: BaseException) -> Callable[..., Any]:
    def fit(*_: Any, **__: Any) -> Any:
        raise error

    return fit


def test_a_fault_of_a_party_ends_with_1_and_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secfc.pipeline.fit", _raising(secfc.TooFewReplies(5, ["a"])))
    result = run(*NPY, "-k", "2")
    assert result.exit_code == 1
    assert "Error: the protocol failed: 5 replies are needed" in result.stderr
    assert written() == set()


def test_an_interruption_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secfc.pipeline.fit", _raising(KeyboardInterrupt()))
    result = run(*NPY, "-k", "2")
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    assert written() == set()


@pytest.mark.parametrize("error", [ValueError("ours"), IndexError("ours"), AssertionError()])
def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr("secfc.pipeline.fit", _raising(error))
    result = run(*NPY, "-k", "2")
    assert result.exception is error
    assert result.exit_code == 1
    assert [note for note in error.__notes__ if note.startswith("Internal error of secfc")]


# --- true processes --------------------------------------------------------------------------------


def test_a_pipe_gets_json_only_and_a_terminal_gets_progress_on_stderr_only() -> None:
    few = ("-k", "2", "--init", "random")
    command = [*PROGRAM, "run", *NPY, *few, "--labels", "out.csv", "--report", "out.json"]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "90"}
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # the other end was closed
        pass
    out = process.communicate()[0].decode()
    assert process.returncode == 0
    assert b"Reading the data" in shown
    assert b"Clustering" in shown
    assert b"SecFC" not in shown
    assert "those of plaintext k-means (Lloyd), exactly" in out
    assert "Clustering" not in out
    assert "\x1b" not in out
    piped = subprocess.run([*command, "--json", "--force"], capture_output=True, text=True, check=False)
    assert piped.returncode == 0
    assert piped.stderr == ""
    assert strict_json(piped.stdout)["verified"] is True


def test_progress_counts_shares_and_steps_of_the_server() -> None:
    out = io.StringIO()
    shown = screen.Screen(Console(file=out, force_terminal=True, width=90), quiet=False)
    with shown.show_run(40) as watch:
        assert watch is not None
        watch("a", Exchange({"b": None}, round=SHARE + 2, phase="share"))
        time.sleep(0.3)  # the bar is drawn ten times a second
        for _ in range(3):
            watch("server", Exchange({"a": None}, phase="assign"))
            watch("a", Exchange({"server": None}, phase="distances"))
            time.sleep(0.02)
        time.sleep(0.3)
    assert "Sharing points, part 3 " in out.getvalue()
    assert "of" not in out.getvalue()
    assert "Clustering, step 3" in out.getvalue()
    assert "step 6" not in out.getvalue()
    assert re.search(r"at most 0:\d\d:\d\d left", out.getvalue())
    with screen.Screen(shown.console, quiet=True).show_run() as watch:
        assert watch is None


def test_progress_of_sharing_says_what_is_left_and_that_points_are_tested() -> None:
    out = io.StringIO()
    shown = screen.Screen(Console(file=out, force_terminal=True, width=90), quiet=False)
    with shown.show_run(40, 3) as watch:
        assert watch is not None
        for number in range(4):
            watch("a", Exchange({"b": None}, round=SHARE + number, phase="share"))
            time.sleep(0.15)
    assert "Sharing points, part 1 of 3" in out.getvalue()
    assert re.search(r"about 0:\d\d:\d\d left", out.getvalue())
    assert "Testing points" in out.getvalue()


@pytest.mark.parametrize("inherited", [signal.default_int_handler, signal.SIG_IGN])
@pytest.mark.timeout(60)
def test_control_c_in_the_middle_leaves_no_file_and_no_traceback(inherited: Any) -> None:
    # Opening the writing end of a pipe waits for a reader: then the program is in the middle of reading.
    os.mkfifo("slow.csv")
    # A background job ignores interruptions and hands that down: the program must not inherit it here.
    before = signal.signal(signal.SIGINT, inherited)
    try:
        process = subprocess.Popen(
            [*PROGRAM, "run", "a.npy", "slow.csv", "c.npy", "-k", "2"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
    finally:
        signal.signal(signal.SIGINT, before)
    with open("slow.csv", "w") as pipe:
        pipe.write("1,2\n")
        pipe.flush()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 130
    assert out == ""
    assert err == "Error: interrupted. Output files are written whole or not at all.\n"
    assert written() == {"slow.csv"}


def test_help_needs_nothing_heavy() -> None:
    code = (
        "import sys, secfc.cli; from click.testing import CliRunner; "
        "result = CliRunner().invoke(secfc.cli.main, ['run', '--help']); "
        "heavy = {'numpy', 'numba', 'scipy', 'sklearn', 'galois', 'sympy', 'rich'} & set(sys.modules); "
        "sys.exit(f'{heavy}' if heavy or result.exit_code else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.nightly
def test_warmup_compiles_every_kernel_that_a_run_needs() -> None:
    """In a fresh process: after `compile_all`, no run adds a signature to any compiled function.

    Of the demonstration by night, by day of few points and few features.
    """
    for name in range(4):
        np.save(f"few-{name}.npy", np.random.default_rng(name).normal(size=(40, 3)))
    options = [
        "", "-k 12 --reveal-centers", "--disclosure distances --init random-points -k 70",
        "--membership private", "--centers rounded --latency 0 -k 6",
    ]  # fmt: skip
    more = [
        "-k 12", "--disclosure distances", "--init random-points -k 70", "--reveal-centers", "-t 4",
        "--latency 0 -k 6", "--init k-means++ --consent", "--init center-separation",
        "--disclosure final-labels", "--disclosure own-labels --sizes hidden -k 12",
        "--field mersenne61 --disclosure distances --scale 1", "--scale 1e6 --disclosure distances",
        "--scale 1e9 --disclosure distances", "--algorithm lloyd",
        "--algorithm lloyd --init center-separation",
        "--membership private -t 4 --scale 1e6 --reveal-centers --disclosure distances",
    ]  # fmt: skip
    code = f"""
OPTIONS = {short(options, nightly=[*options, *more])}
FILES = {short([*(f"few-{name}.npy" for name in range(4)), "-k", "4", "--force"], nightly=[])}
IDS = {short(3000, nightly=20000)}"""
    code += """
import sys
from dataclasses import replace
import numpy as np
import secfc
from secfc.transport.wire import decode, encode
from click.testing import CliRunner
from secfc import cli
from secfc.tiny_runs import compile_all
def compiled():
    return {(name, key, str(s)) for name, module in sys.modules.items() if name.startswith(("field", "psu"))
            for key, item in vars(module).items() for s in getattr(item, "signatures", ())}
compile_all()
before = compiled()
assert len(before) > 10, before
few = secfc.Federation.from_arrays([np.load(f"few-{name}.npy") for name in range(3)])
told = lambda e: (replace(e, body=decode(encode(e.body))),)  # as it comes from a network
secfc.fit(secfc.SecFC(2), few, bound=8.0, faults=told)
many = secfc.Federation.from_arrays([np.random.default_rng(i).normal(size=(50_000, 3)) for i in range(3)])
for scale in (2.0**9, 2.0**26, 2.0**28):  # two bytes, four, and differences beyond int32
    secfc.fit(secfc.FederatedLloyd(2, scale=scale), many, bound=7.9)
for options in OPTIONS:
    result = CliRunner().invoke(cli.main, ["run", *FILES, "--json", *options.split()])
    assert result.exit_code == 0, result.output
for name in "def":
    open(f"{name}.txt", "w").write("".join(f"{i}\\n" for i in range(IDS)))
for options in ["", "--mode server --force", f"--bound {2 * IDS} --force"]:
    result = CliRunner().invoke(cli.main, ["psu", "d.txt", "e.txt", "f.txt", *options.split()])
    assert result.exit_code == 0, result.output
assert compiled() == before, compiled() - before
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- the rest --------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", EXTRAS["dp"])
def test_warmup_leaves_out_noise_whose_libraries_are_not_there(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(tiny_runs, "tiny_run", lambda algorithm, **_: ran.append(repr(algorithm)) or Mock())
    monkeypatch.setattr(tiny_runs, "_compile_labeling", Mock())
    monkeypatch.setattr(tiny_runs, "tiny_union", Mock())

    def noisy() -> int:
        tiny_runs.compile_all()
        return sum("NoiseInShares" in one or "FedDPKMeans" in one for one in ran)

    assert noisy() == 4
    ran.clear()
    monkeypatch.setitem(sys.modules, library, None)
    assert noisy() == 0
    assert ran


@pytest.mark.nightly
def test_warmup_needs_no_extra() -> None:
    """An image of a site has what `[deploy]` installs, and no more."""
    code = """
import sys
from secfc.data.inputs import EXTRAS
sys.modules.update(dict.fromkeys(module for extra in EXTRAS.values() for module in extra))
from secfc.tiny_runs import compile_all
compile_all()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_warmup_says_where_kernels_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_runs, "compile_all", lambda done: done())
    result = CliRunner().invoke(cli.main, ["warmup"])
    assert result.exit_code == 0
    assert "The kernels are ready" in result.stdout
    directory = tiny_runs.cache_directory()
    assert directory is None or f"They are kept in {directory}" in result.stdout
    monkeypatch.setattr(tiny_runs, "cache_directory", lambda: None)
    assert "NUMBA_CACHE_DIR" in CliRunner().invoke(cli.main, ["warmup"]).stdout


def test_compiling_is_explained_if_it_takes_long_but_not_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count(step=0.01)
    monkeypatch.setattr(compiling, "loading_seconds", lambda: next(seconds))
    monkeypatch.setattr(screen, "SLOW", 60.0)
    assert said(run(*NPY, "-k", "2")) == ""
    monkeypatch.setattr(screen, "SLOW", 1e-4)
    assert said(run(*NPY, "-k", "2", "--force")) == screen.COMPILING + "\n"
    assert said(run(*NPY, "-k", "2", "--json", "--force")) == ""


def test_a_run_tries_no_other_run_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_runs, "tiny_run", lambda *_: pytest.fail("only what waits for peers prepares"))
    wall = json.loads(run(*NPY, "-k", "2", "--json").stdout)["seconds"]["wall"]
    assert list(wall)[:3] == ["prepare", "fit", "verify"]
    assert min(wall.values()) >= 0


@pytest.mark.parametrize("command", [[], ["run"], ["psu"], ["warmup"]])
def test_every_help_has_examples(command: Sequence[str]) -> None:
    result = CliRunner().invoke(cli.main, [*command, "--help"])
    assert result.exit_code == 0
    assert "Examples:\n" in result.stdout
    assert f"  secfc {' '.join(command)}".rstrip() in result.stdout


def test_the_bare_command_shows_help_and_the_version_is_the_package_s() -> None:
    bare = CliRunner().invoke(cli.main, [])
    assert bare.exit_code == 0
    assert "Usage:" in bare.stdout
    assert CliRunner().invoke(cli.main, ["--version"]).stdout == f"secfc {secfc.__version__}\n"


def test_tables_of_the_command_line_agree_with_the_library() -> None:
    # Noisy sums need numbers, so they have no word; what all clients see by "centers" is another algorithm,
    # of which the shell speaks as of a policy.
    assert (*words.DISCLOSURES, "noisy-sums", "centers") == shell.POLICIES
    choices = {p.name: p.type.choices for p in program_run.params if hasattr(p.type, "choices")}
    assert tuple(words.MEMBERSHIPS) == (*choices["membership"], "joined")  # --split columns
    assert set(options.STARTS) == {*STARTS, "sampled"}  # of shared centers alone


def test_every_method_is_offered_and_all_its_options_are() -> None:
    folder = Path(methods.__file__).parent
    assert {path.stem for path in folder.glob("*.py")} == {"__init__", *methods.NAMES}
    listed = {p.name: p for command in (overlap, dp, program_run) for p in command.params}
    offered = (*listed["algorithm"].type.choices, *APART)
    assert sorted(offered) == sorted(methods.methods())
    for method in methods.methods().values():
        assert f"{method.name} {method.help}" in listed["algorithm"].help or method.name in APART
        assert set(method.names) <= set(listed)
        assert set(method.defaults()) == set(method.names)
    # Of the shell's own options, none is a method's.
    assert set(methods.options()).isdisjoint({"files", "k", "seed", "algorithm", "evaluate", "force"})


def test_two_options_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class ToyOptions:
        ell: int = option(1, Whole(1))

    another = Method("toy", "is a toy", fields_of(ToyOptions), lambda *_: ChosenAlgorithm(None, {}))
    every = {**methods.methods(), "toy": another}
    monkeypatch.setattr(methods, "methods", lambda: every)
    with pytest.raises(ValueError, match="--ell of toy is another option"):
        methods.options()


TOY = """
from dataclasses import dataclass
from secfc.cli.shell.method import ChosenAlgorithm, LloydSteps, Method
from secfc.cli.shell.options import CLUSTERS, Whole, fields_of, option
from secfc.kfed import KFed

def choose(asked, public):
    return ChosenAlgorithm(KFed(asked.k, asked["depth"]), {"depth": asked["depth"], "n_init":
    asked["n_init"]})

@dataclass(frozen=True)
class ToyOptions:
    depth: int = option(1, Whole(1), group=CLUSTERS, help="toy: depth.")

METHODS = (Method("toy", "is a toy", [*fields_of(LloydSteps, "n_init"), *fields_of(ToyOptions)], choose),)
"""


def test_a_new_algorithm_is_a_file_and_a_name_in_the_list() -> None:
    Path("toy.py").write_text(TOY)
    code = """
import json, sys
from importlib import import_module
from click.testing import CliRunner
from secfc.cli import methods
methods.NAMES += ("toy",)
methods.__path__.append(".")
methods.methods.cache_clear()
run = import_module("secfc.cli.clustering.run").run
done = [CliRunner().invoke(run, line) for line in json.loads(sys.argv[1])]
print(json.dumps([(one.stdout, one.stderr, one.exit_code) for one in done]))
"""
    plain = (*NPY, "-k", "2")
    line = (*plain, "--algorithm", "toy", "--depth", "2", "--json")
    lines = ("--help-all",), line, (*line, "--ell", "2"), (*plain, "--depth", "2")
    program = [sys.executable, "-c", code, json.dumps(lines)]
    told = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True).stdout
    (shown, *_), (out, *ended), (_, ell, _), (_, depth, _) = json.loads(told)
    shown = " ".join(shown.split())
    assert "; toy is a toy." in shown
    assert shown.index("--max-iter ") < shown.index("--depth") < shown.index("--verify ")
    assert ended[1] == 0, out + ended[0]
    assert strict_json(out)["parameters"]["depth"] == 2
    assert "--ell has no meaning for --algorithm toy: leave it out." in ell
    assert "--depth has no meaning for --algorithm secfc" in depth


def test_threads_change_nothing_and_a_cluster_that_outgrows_its_bound_ends_the_run():
    line = ["run", "--json", "--init", "random", "--threads"]
    one, two = (json.loads(CliRunner().invoke(program.main, [*line, n]).stdout) for n in "12")
    assert one["cost"] == two["cost"]
    fine = CliRunner().invoke(program.main, ["run", "--largest", "500", "--init", "random"])
    assert fine.exit_code == 0, fine.output
    begins = CliRunner().invoke(program.main, ["run", "--largest", "500"])
    assert begins.exit_code == 2
    assert "--largest 500 with --init bisecting" in begins.output
    small = CliRunner().invoke(program.main, ["run", "--largest", "100", "--init", "random"])
    assert small.exit_code == 1
    assert "exceeds the plan's largest=100" in small.output


def test_deviating_clients_are_planned_for_and_reported() -> None:
    result = run("--corrected", "1", "--disclosure", "distances", "--json")
    assert result.exit_code == 0, result.output
    shown = strict_json(result.stdout)
    assert shown["verified"] is True
    assert shown["parameters"]["corrected"] == 1
    assert (shown["parameters"]["t"], shown["parameters"]["ell"]) == (3, 1)
    assert (shown["deviated"], shown["disputes"], shown["excluded"]) == ({}, [], [])
    assert shown["transcript"]["by_direction"]["client -> client"]["BlindingShares"]["messages"] > 0
    text = " ".join(run("--corrected", "1", "--disclosure", "distances").stdout.split())
    assert "labels are exact with up to 1 deviating client; whose lies are read are named" in text
    assert "did not follow the protocol" not in text


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--corrected", "1"), "Use --disclosure distances or --corrected 0"),
        (
            ("--corrected", "4", "--disclosure", "distances"),
            "= 11 are needed. Add clients, name",
        ),
        (
            ("--corrected", "2", "-t", "3", "--disclosure", "distances"),
            r"2*(ell+t-1)+1+2*2 = 11 are needed. Lower ell or t, allow for fewer (--corrected)",
        ),
        (("--corrected", "1", "--membership", "private"), "a false dealing cannot be traced"),
        (("--corrected", "1", "--algorithm", "lloyd"), "--corrected has no meaning"),
        (("--corrected", "-1"), "-1 is not in the range"),
    ],
)
def test_deviating_clients_that_cannot_be_found_are_refused(options: tuple[str, ...], why: str) -> None:
    result = run(*options)
    assert result.exit_code == 2
    assert why in " ".join(result.stderr.split())


def test_assignments_only_on_the_command_line():
    by_server, by_client = (
        run("--json", "--max-iter", "2", *more)
        for more in ((), ("--disclosure", "assignments", "--dealer", "client-4"))
    )
    for done, dealer in ((by_server, "server"), (by_client, "client-4")):
        assert done.exit_code == 0, done.output
        found = strict_json(done.stdout)
        assert found["verified"] is True
        assert found["cost_known_to_server"] is False
        assert found["parameters"]["disclosure"] == "assignments"
        assert found["parameters"]["dealer"] == dealer
        assert any(fact.startswith("no distance") for fact in found["learned"])
        assert found["steps"] > found["n_iter"]
    consenting = run("--disclosure", "assignments", "--init", "k-means++", "--consent")
    assert consenting.exit_code == 0
    assert "points that k-means++ drew, some for each of the k that it chose" in " ".join(
        consenting.stdout.split()
    )


@pytest.mark.parametrize(
    "options",
    [
        ("--disclosure", "assignments", "--dealer", "none", "--init", "random", "--max-iter", "2"),
        *by_night((("--disclosure", "final-labels", "--max-iter", "2"),)),
    ],
)
def test_nobody_deals_on_the_command_line(options):
    done = run("--json", *options)
    assert done.exit_code == 0, done.output
    found = strict_json(done.stdout)
    assert found["verified"] is True
    assert found["n_iter"] == 2
    assert any("not even together with any 3 of the clients" in fact for fact in found["learned"])


@pytest.mark.nightly
def test_a_verified_end_does_not_claim_more():
    done = " ".join(run("--disclosure", "final-labels", "--max-iter", "3").stdout.split())
    assert (
        "Exact: the labels equal those of plaintext k-means (Lloyd) at the start and after the last of 3"
        in done
    )
    assert "those between are known to nobody" in done


@pytest.mark.parametrize("dealer", [("--dealer", "client-3"), *by_night(((),), (("--dealer", "none"),))])
def test_hidden_sizes_and_dealt_final_labels_are_verified_by_what_is_known_at_the_end(dealer):
    for policy, more in (("own-labels", ("--sizes", "hidden")), ("final-labels", ())):
        options = ("--disclosure", policy, *more, "--max-iter", "3", *dealer)
        done = " ".join(run(*options, "--report", "r.json", "--force").stdout.split())
        found = strict_json(Path("r.json").read_text())
        assert found["verified"] is True
        assert found["n_iter"] == 3
        assert "after the last of 3 iterations, all 732 points; those between are known to nobody" in done


@pytest.mark.nightly
@pytest.mark.parametrize("dealer", [(), ("--dealer", "client-3"), ("--dealer", "none")])
def test_own_labels_are_verified_by_sizes_and_by_what_owners_have(dealer):
    options = ("--disclosure", "own-labels", "--max-iter", "3", *dealer, "--report", "r.json")
    done = " ".join(run(*options).stdout.split())
    found = strict_json(Path("r.json").read_text())
    assert found["verified"] is True
    assert 1 <= found["n_iter"] <= 3
    assert any(fact.startswith("no label of any point") for fact in found["learned"])
    assert "the labels that owners have equal its last ones, all 732 points" in done
    assert "about the others' points but the sizes of clusters, as long" in done
    assert "the first labels, the only ones that it saw, let it guess 0." in done


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (("--disclosure", "own-labels", "--dealer", "none", "--ell", "2"), "Use --ell 1"),
        (("--disclosure", "final-labels", "--sizes", "hidden"), "add --disclosure own-labels"),
        (("--disclosure", "own-labels", "--sizes", "hidden", "--n-init", "2"), "--sizes open"),
        (
            ("--disclosure", "own-labels", "--sizes", "hidden", "--reveal-centers"),
            "Leave --reveal-centers out",
        ),
        (("--disclosure", "final-labels", "--ell", "2"), "Use --ell 1"),
        (("--init", "splitting"), "--init bisecting or --disclosure own-labels"),
        (("--disclosure", "own-labels", "--init", "bisecting"), "Use --init splitting"),
        (("--disclosure", "final-labels", "--init", "center-separation"), "Use --init random"),
        (("--disclosure", "assignments", "--dealer", "none", "-t", "4"), "a policy with a dealer"),
        (("--disclosure", "assignments", "--init", "k-means++"), "allow it (--consent)"),
        (("--disclosure", "final-labels", "--init", "bisecting"), "Use --init random"),
        (("--disclosure", "assignments", "--field", "mersenne61"), "use --disclosure distances"),
        (("--dealer", "client-4", "--disclosure", "distances"), "add --disclosure assignments"),
        (("--disclosure", "assignments", "--dealer", "bob"), "name 'server' or a client (client-"),
        (("--disclosure", "assignments", "--algorithm", "lloyd"), "no meaning for --algorithm lloyd"),
    ],
)
def test_disclosure_options_that_do_not_fit_name_the_remedy(options, remedy):
    done = run(*options)
    assert done.exit_code != 0
    assert remedy in " ".join(done.output.split())


def test_clusters_are_joined_to_a_tree_and_cut(tmp_path):
    files = []
    for j in range(3):
        rng = np.random.default_rng(j)
        points = np.concatenate([rng.normal((30 * h, 0), size=(8, 2)) for h in range(4)])
        files.append(tmp_path / f"{j}.csv")
        np.savetxt(files[-1], points, delimiter=",", header="a,b", comments="")
    labels, report, plot = tmp_path / "l.csv", tmp_path / "r.json", tmp_path / "p.png"
    page, model = tmp_path / "r.html", tmp_path / "m.npz"
    outputs = ("--labels", labels, "--report", report, "--plot", plot, "--report", page, "--model", model)
    result = run(*files, "-k", 8, "--linkage", "single", "--cut", 4, *outputs)
    assert result.exit_code == 0, result.output
    found = [int(line.split(",")[2]) for line in labels.read_text().splitlines()[1:]]
    assert metrics.adjusted_rand(np.tile(np.repeat(np.arange(4), 8), 3), found) == 1
    shown = " ".join(result.output.split())
    assert "labels are of 4 groups of the 8 clusters, by single linkage" in shown
    assert "the groups have 24, 24, 24, 24 points" in shown
    groups = re.search(r"from 0 on these are of groups (\d(?:, \d)*)", shown)
    assert sorted(set(groups[1].split(", "))) == ["0", "1", "2", "3"]
    assert "trees of the clusters are in reports as JSON" in page.read_text()
    assert "labels are of 4 groups" in page.read_text()
    assert "the groups have" not in page.read_text(), "sizes, which may tell of few"
    told = json.loads(report.read_text())["dendrogram"]
    assert len(told["ward"]) == 7
    assert len(told["distances"]) == 28
    assert plot.read_bytes()[:4] == b"\x89PNG"
    for flags, why in (
        (("--cut", 2), "add --linkage single"),
        (("--linkage", "ward", "--cut", 5), "--cut 5 of k=4"),
        (("--linkage", "ward", "--disclosure", "final-labels"), "opens to nobody"),
        (("--plot", plot), "add -k auto or --linkage"),
    ):
        refused = run(*files, "-k", 4, *flags)
        assert refused.exit_code == 2, refused.output
        assert why in " ".join(refused.output.split())
