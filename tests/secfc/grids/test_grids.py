"""Grids: every combination once, whatever is interrupted, fails or runs elsewhere."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import secfc
from secfc.errors import Caution, InputError
from secfc.grids import PRESETS
from secfc.grids.cells import grid_cells
from secfc.grids.engine import all_cells, draw_federation, make_algorithm
from secfc.grids.rows import ResultFile, read_whole_rows
from tests.nightly import by_night
from tests.small import invoke

SMALL = {"m": 60, "d": 2, "k": 2}
TIMES = ("fit_ms", "fit_cpu_ms", "ms_per_step", "client_ms_per_step", "slowest_client_ms_per_step",
         "server_ms_per_step", "date")  # fmt: skip


def same(row):
    """What must be equal wherever and whenever a cell is run."""
    return {name: value for name, value in row.items() if name not in TIMES}


run = partial(invoke, catch_exceptions=False)


def test_rows_are_every_combination_in_order_and_those_of_fit():
    rows = secfc.grid(n=[3, 4], policy=["default", "distances"], seed=1, **SMALL)
    assert [(row["n"], row["policy"]) for row in rows] == [
        (3, "default"), (3, "distances"), (4, "default"), (4, "distances"),
    ]  # fmt: skip
    (cell,) = grid_cells({**SMALL, "n": 4, "policy": "distances", "seed": 1})
    federation = draw_federation(cell)
    result = secfc.fit(secfc.SecFC(2, disclosure="distances"), federation, seed=1)
    assert rows[3]["labels_digest"] == secfc.metrics.labels_digest(result.labels)
    assert rows[3]["bytes"] == result.transcript.nbytes()
    assert rows[3]["cost"] == pytest.approx(secfc.metrics.cost(federation.stacked(), result.flat, 2))
    assert rows[0]["labels_digest"] == rows[1]["labels_digest"]  # exact under any policy
    assert all(row["ms_per_step"] > 0 for row in rows)
    assert not any(isinstance(value, list | dict) for row in rows for value in row.values())


@pytest.mark.parametrize(
    ("axes", "piece"),
    [
        ({"nn": 3}, "nn is no parameter of secfc; did you mean n?"),
        ({"n_int": 3}, "did you mean n_init?"),
        ({"n": "abc"}, "n='abc': a number of 1 or more is needed, as n=10"),
        ({"m": 0.5}, "m=0.5: a number of 1 or more"),
        ({"seed": -1}, "seed=-1: a whole number of 0 or more"),
        ({"sigma": "wide"}, "sigma='wide'"),
        ({"n": []}, "n=[]: name at least one value"),
        ({"algorithm": "secfcc"}, "algorithm='secfcc': there are secfc, lloyd"),
        ({"disclosure": "distances"}, "called policy"),
        ({"algorithm": "lloyd", "policy": "distances"}, "policy is no parameter of lloyd"),
        ({"init": secfc.Bisecting()}, "Use the words of the shell"),
        ({"preset": "figure"}, "preset='figure': there are secfc-figure-1-n"),
        ({"preset": "secfc-table-1", "files": ["a.csv"]}, "leave files out"),
        ({"files": ["a.csv"], "m": 5}, "m=5: the files have their own"),
    ],
)
def test_what_is_no_grid_is_refused_before_any_run(axes, piece):
    with pytest.raises(InputError) as caught:
        secfc.grid(**axes)
    assert piece in str(caught.value)


def test_a_cell_that_fails_keeps_its_error_and_the_others_run(tmp_path):
    out = tmp_path / "rows.jsonl"
    done = run("grid", "--n", "3", "--t", "1,9", "--m", 60, "--d", 2, "--k", 2, "--out", out)
    assert done.exit_code == 1
    assert "Error: 1 of 2: n=3 clients cannot decode" in done.output
    good, bad = read_whole_rows(out)
    assert (good["status"], bad["status"], bad["t"]) == ("ok", "failed", 9)
    assert run("grid", "--n", "3", "--t", "1,9", "--m", 60, "--d", 2, "--k", 2, "--out", out).exit_code == 1
    assert [row["status"] for row in read_whole_rows(out)] == [
        "ok",
        "failed",
        "failed",
    ]  # what failed is tried again


def test_what_is_there_is_not_run_again_and_half_a_line_is_dropped(tmp_path, monkeypatch):
    out = tmp_path / "rows.jsonl"
    first = secfc.grid(n=[3, 4], out=out, **SMALL)
    whole = out.read_bytes()
    assert len(read_whole_rows(out)) == 2
    out.write_bytes(whole[:-30])  # a crash while the second row was written
    with_crash = ResultFile(out, first[0]["code"])
    assert with_crash.dropped
    seen = []
    again = secfc.grid(
        n=[3, 4, 5], out=out, watch=lambda done, total, row: seen.append((done, total, row["n"])), **SMALL
    )
    assert seen == [(2, 3, 4), (3, 3, 5)]
    assert list(map(same, again[:2])) == list(map(same, first))
    assert [row["n"] for row in read_whole_rows(out)] == [3, 4, 5]
    # Rows of other code are left alone, and measured anew.
    monkeypatch.setattr("secfc.grids.engine.code_version", lambda: "other")
    secfc.grid(n=3, out=out, **SMALL)
    assert [row["n"] for row in read_whole_rows(out)] == [3, 4, 5, 3]
    out.write_text("n,m\n3,60\n")
    with pytest.raises(InputError, match="line 1: no row of a grid"):
        secfc.grid(n=3, out=out, **SMALL)
    assert out.read_text() == "n,m\n3,60\n"
    # What is somebody else's stays as it is, also without an end of line.
    for foreign in ("hello", '{"format": 1}', '{"format": 1,', '{"format": 1}\n{"cell"', '{\n "format": 1}'):
        out.write_text(foreign)
        with pytest.raises(InputError, match="no row of a grid"):
            secfc.grid(n=3, out=out, **SMALL)
        assert out.read_text() == foreign
    out.write_bytes(whole.rstrip(b"\n"))  # an editor took the last end of line
    monkeypatch.undo()
    secfc.grid(n=[3, 4, 5], out=out, **SMALL)
    assert [row["n"] for row in read_whole_rows(out)] == [3, 4, 5]


@pytest.mark.parametrize(("more", "kept"), [
    ((), "interrupted. No row was kept: --out ROWS.jsonl keeps"),
    (("--out", "r.jsonl"), "interrupted. Finished rows stay in r.jsonl; the same command goes on"),
])  # fmt: skip
def test_an_interrupted_grid_says_what_stays_and_goes_on(more, kept, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fit = secfc.fit

    def interrupt_second(*given, seed, **options):
        if seed == 1:
            raise KeyboardInterrupt
        return fit(*given, seed=seed, **options)

    line = ["grid", "--n", "3", "--m", "60", "--d", "2", "--k", "2", "--algorithm", "lloyd", "--seed", "0,1"]
    with monkeypatch.context() as patch:
        patch.setattr(secfc, "fit", interrupt_second)
        done = run(*line, *more)
    assert done.exit_code == 130
    assert kept in done.stderr
    if more:
        assert [row["seed"] for row in read_whole_rows(Path("r.jsonl"))] == [0]
        assert run(*line, *more).exit_code == 0
        assert [row["seed"] for row in read_whole_rows(Path("r.jsonl"))] == [0, 1]


@pytest.mark.nightly
def test_runs_under_a_budget_on_files_are_one_entry_and_tell_nothing_that_is_not_paid_for(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in "abc":
        rows = rng.choice([-1.0, 1.0], (2000, 1)) + 0.1 * rng.normal(size=(2000, 2))
        np.savetxt(f"{name}.csv", rows, delimiter=",", header="x,y", comments="")
    asked = ("grid", "a.csv", "b.csv", "c.csv", "--algorithm", "feddp", "--k", 2, "--seed", "0..1",
             "--set", "epsilon=2", "--set", "delta=1e-6", "--set", "bound=2")  # fmt: skip
    entered = ("--ledger", "spent.json", "--total-epsilon", 5, "--out", "rows.jsonl")
    done = run(*asked, *entered)
    assert done.exit_code == 0, done.output
    assert "2 runs on these people spent epsilon = 4 together" in " ".join(done.stderr.split())
    for row in read_whole_rows(Path("rows.jsonl")):
        assert row["epsilon_spent"] == pytest.approx(2, abs=1e-3)
        assert not {"cost", "accuracy", "labels_digest"} & set(row)
    book = json.loads(Path("spent.json").read_text())
    assert [(one["what"], one["ended"]) for one in book["runs"]] == [("a grid of 2 runs", True)]
    assert run(*asked, *entered).exit_code == 0  # both are there: nothing is spent
    more = run(*asked, "--ledger", "spent.json")
    assert more.exit_code == 2
    # What questions that were not asked would have cost is not spent.
    said = r"epsilon=4 after (4|3\.9\d*) in earlier runs is more than the total of 5"
    assert re.search(said, " ".join(more.stderr.split()))
    assert "cost" in json.loads(evaluated_row(asked))


def evaluated_row(asked):
    """The first row of a grid that may tell exact figures."""
    assert run(*asked, "--evaluate", "--out", "more.jsonl", "--quiet").exit_code == 0
    return Path("more.jsonl").read_text().splitlines()[0]


@pytest.mark.parametrize("jobs", [2, *by_night(4)])
def test_rows_are_equal_but_for_times_whatever_runs_at_a_time(jobs):
    axes = {"n": [3], "seed": [0, 1], **SMALL}
    assert list(map(same, secfc.grid(jobs=jobs, **axes))) == list(map(same, secfc.grid(**axes)))


def test_files_are_clustered_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    parts = [rng.normal(rng.integers(0, 3, (20, 1)) * 5, 1, (20, 2)).round(3) for _ in range(3)]
    for name, part in zip("abc", parts, strict=True):
        lines = [";".join(f"{x}".replace(".", ",") for x in row) for row in part]
        Path(f"{name}.csv").write_text("x;y\n" + "\n".join(lines) + "\n")
    words = ["--k", "2..3", "--delimiter", ";", "--decimal", ",", "--out", "r.jsonl"]
    done = run("grid", "a.csv", "b.csv", "c.csv", *words)
    assert done.exit_code == 0, done.output
    for row in read_whole_rows(Path("r.jsonl")):
        result = secfc.fit(secfc.SecFC(row["k"]), parts, seed=0)
        assert row["labels_digest"] == secfc.metrics.labels_digest(result.labels)
        assert "a.csv" not in json.dumps(row)
    assert run("grid", "no.csv", "b.csv", "c.csv", "--k", "2").exit_code == 2


def test_what_runs_warn_of_is_said_once_and_stands_in_rows(tmp_path, monkeypatch):
    fit = secfc.fit

    def fit_with_note(*given, **more):
        notes = ("max_iter", 9), ("policy", "own-labels"), ("absent", "x")  # grids have no --absent
        warnings.warn(Caution("this is rounded", notes), stacklevel=2)
        return fit(*given, **more)

    monkeypatch.setattr(secfc, "fit", fit_with_note)
    with warnings.catch_warnings(action="error"):
        done = run(
            *["grid", "--n", "3", "--m", "60", "--d", "2", "--k", "2,3", "--algorithm", "lloyd", "--out"],
            tmp_path / "r.jsonl",
        )
    assert done.exit_code == 0, done.output
    said = "this is rounded. Use --set max_iter=9 or --set policy=own-labels"
    assert " ".join(done.output.split()).count(f"Note: 2 of 2 runs: {said}. ") == 1
    assert max(map(len, done.stderr.splitlines())) <= 80
    assert [row["notes"] for row in read_whole_rows(tmp_path / "r.jsonl")] == [f"{said}."] * 2


def test_errors_of_rows_advise_axes_that_there_are():
    asked = ["grid", "--init", "k-means++", "--n", "3", "--m", "60", "--d", "2", "--k", "2"]
    (row,) = secfc.grid(init="k-means++", n=3, **SMALL)
    assert row["error"].endswith("Use init=random.")
    done = run(*asked)
    assert "Use --set init=random." in done.output
    assert run(*asked, "--set", "init=random").exit_code == 0


def test_shared_centers_have_a_place_in_grids():
    (row,) = secfc.grid(algorithm="federated-lloyd", n=3, m=60, d=2, k=2)
    assert (row["status"], row["notes"]) == ("ok", "")


@pytest.mark.parametrize(
    ("words", "piece"),
    [
        ("", "name what varies"),
        ("--n 3,,4", "has an empty value: write 5,10,20"),
        ("--n 9..3", "is no range: write 1..10"),
        ("--set sigma", "write name=values"),
        ("--n 3 --address tcp://x", "--address needs --backend dask"),
        ("--n 3 --delimiter ;", "--delimiter needs a FILE"),
        ("--n 3 --out no/rows.jsonl", "does not exist"),
    ],
)
def test_lines_that_are_no_grid_end_with_2(tmp_path, monkeypatch, words, piece):
    monkeypatch.chdir(tmp_path)
    done = run("grid", *words.split())
    assert done.exit_code == 2, done.output
    assert piece in " ".join(done.output.split())
    assert list(tmp_path.iterdir()) == []


def test_values_are_read_as_people_write_them(tmp_path):
    out = tmp_path / "rows.jsonl"
    words = ["--m", "6e1", "--d", 2, "--k", 2, "--set", "sigma=0.5", "--set", "standard=1", "--out", out]
    assert run("grid", "--n", "3..4", *words).exit_code == 2  # no such parameter
    assert run("grid", "--n", "3..4", *words[:-4], "--out", out).exit_code == 0
    assert [(row["n"], row["m"], row["sigma"]) for row in read_whole_rows(out)] == [
        (3, 60, 0.5),
        (4, 60, 0.5),
    ]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_grids_of_cells_that_can_be_made(name):
    preset = PRESETS[name]
    listed = all_cells(name, {"seed": 0})
    assert len({str(cell) for cell in listed}) == len(listed) > 1
    for cell in listed:
        make_algorithm(cell)
        assert {preset.x, preset.hue} <= set(cell)
    assert name in run("grid", "--preset", "list").output


def test_pictures_show_medians_over_a_parameter(tmp_path):
    from secfc.grids.rows import plot

    rows = [
        {"n": n, "policy": p, "ms": n * (1 + s), "status": "ok", "word": f"w{n}", "flag": True}
        for n in (5, 10, 400) for p in ("a", "b") for s in (0, 1, 2)
    ]  # fmt: skip
    figure = plot([*rows, {"n": 7, "status": "failed"}], "n", "ms", "policy")
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.lines] == ["a", "b"]
    assert axes.lines[0].get_xydata().tolist() == [[5, 10], [10, 20], [400, 800]]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [t.get_text() for t in plot(rows, "word", "ms").axes[0].get_xticklabels()] == ["w10", "w400", "w5"]
    for words, piece in (
        (("m", "ms"), "'m' is no column of these rows: did you mean ms?"),
        (("n", "policy"), "policy holds 'a': name a column of numbers"),
    ):
        with pytest.raises(InputError, match=piece):
            plot(rows, *words)
    with pytest.raises(InputError, match="all failed"):
        plot([{"status": "failed"}], "n", "ms")
    out = tmp_path / "rows.jsonl"
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run("plot", out, "--x", "n", "--y", "ms", "--hue", "policy")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "rows.png").stat().st_size > 5000
    assert "exists already" in run("plot", out, "--x", "n", "--y", "ms").output
    assert run("plot", tmp_path / "no.jsonl", "--x", "n", "--y", "ms").exit_code == 2


@pytest.mark.nightly
def test_a_grid_that_is_killed_goes_on(tmp_path):
    out = tmp_path / "rows.jsonl"
    words = ["-m", "secfc.cli", "grid", "--n", "3..12", "--m", "2000", "--seed", "0..3", "--out", str(out)]
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL)
    while not out.exists() or out.read_bytes().count(b"\n") < 5:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    had = out.read_bytes().count(b"\n")
    assert had < 40
    done = subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True)
    assert "40 rows" in done.stdout
    assert len(read_whole_rows(out)) == 40
    assert out.read_bytes().count(b"\n") == 40  # none was measured twice


@pytest.mark.nightly
def test_a_dask_cluster_of_two_workers_gives_the_same_rows(tmp_path):
    distributed = pytest.importorskip("distributed")
    axes = {"n": [3, 4], "seed": [0, 1], **SMALL}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        out = tmp_path / "rows.jsonl"
        words = ["--n", "3,4", "--seed", "0,1", "--m", "60", "--d", "2", "--k", "2", "--out", str(out)]
        address = ["--backend", "dask", "--address", cluster.scheduler_address]
        done = subprocess.run(
            [sys.executable, "-m", "secfc.cli", "grid", *words, *address], capture_output=True, text=True,
            env={**os.environ},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        with distributed.Client(cluster) as client:
            tasks = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.transition_counter)
    assert tasks > 4  # the cluster worked
    found = {row["cell"]: same(row) for row in read_whole_rows(out)}
    assert found == {row["cell"]: same(row) for row in secfc.grid(**axes)}


def cells_of(ns=(3, 5), ms=(60, 90), seeds=(0, 1, 2)):
    made = [{"n": n, "m": m, "seed": s, "policy": "a_b"} for n in ns for m in ms for s in seeds]
    return [{**cell, "cell": json.dumps(cell), "bytes": cell["n"] * 1000 + cell["seed"]} for cell in made]


def test_medians_are_over_seeds_alone_and_what_else_varies_is_named(tmp_path):
    from secfc.grids.rows import plot

    rows, out = cells_of(), tmp_path / "rows.jsonl"
    with pytest.raises(InputError, match=r"'m': rows of one place differ.*--where m=60"):
        plot(rows, "n", "bytes")
    plot(rows, "n", "bytes", "m")
    plot([row for row in rows if row["m"] == 60], "n", "bytes")
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "differ in it" in run("table", out, "--row", "n", "--value", "bytes").output
    assert (
        "Give one of 60, 90" in run("table", out, "--row", "n", "--value", "bytes", "--where", "m=7").output
    )
    words = ("table", out, "--row", "n", "--value", "bytes", "--where", "m=60", "--format")
    assert run(*words, "csv").output == "n,bytes\n3,3001.0\n5,5001.0\n"
    assert "| 3 | 3,001 (3,000 to 3,002) |\n" in run(*words, "markdown").output
    assert "| clients n | traffic of a run [bytes] |\n" in run(*words, "markdown").output
    latex = run(*words, "latex", "--col", "policy").output
    head = "traffic of a run [bytes], by clients n & policy=a\\_b \\\\\n\\midrule\n3 & 3,001 ("
    assert latex.startswith(f"\\begin{{tabular}}{{lr}}\n\\toprule\n{head}")
    assert latex.endswith("\\\\\n\\bottomrule\n\\end{tabular}\n")


def test_panels_keep_unlike_runs_apart_on_the_same_axes_and_colors(tmp_path):
    """What a refusal names as remedies works: of lines, rows and columns of panels."""
    from secfc.grids.rows import MOST_PANELS, plot

    rows = [row | {"policy": p} for row in cells_of() for p in ("a", "b")]
    lacking = [row for row in rows if (row["policy"], row["m"]) != ("a", 90)]
    figure = plot(lacking, "n", "bytes", "policy", "m")
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["points m: 60", "points m: 90"]
    above, below = figure.axes
    assert above.get_ylim() == below.get_ylim()
    assert [len(line.get_xdata()) for line in below.lines] == [0, 2]
    assert above.lines[1].get_color() == below.lines[1].get_color()
    assert len(plot(rows, "n", "bytes", None, "m", "policy").axes) == 4
    many = [{"n": n, "m": m, "bytes": 1.0, "cell": "{}"} for n in (1, 2) for m in range(MOST_PANELS + 1)]
    with pytest.raises(InputError, match=r"1 x 25 panels, and 24 can be read.*--where"):
        plot(many, "n", "bytes", None, None, "m")
    plot(many[:MOST_PANELS], "n", "bytes", None, None, "m")
    out = tmp_path / "rows.jsonl"
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("plot", out, "--x", "n", "--y", "bytes", "--row")
    assert "Name one as --hue, --row or --col" in " ".join(run(*words, "policy").output.split())
    assert run(*words, "policy", "--col", "m").exit_code == 0
    assert (tmp_path / "rows.png").stat().st_size > 5000


def test_rows_say_what_nobody_set_and_on_what_machine():
    (row,) = secfc.grid(n=5, seed=1, **SMALL)
    assert (row["t"], row["ell"], row["n_init"], row["init"]) == (2, 1, 1, "bisecting")
    assert row["scale"] > 1
    assert row["cpu"]
    assert row["cores"] >= 1


def test_axes_have_units_and_no_ticks_between_whole_numbers():
    from secfc.grids.rows import plot

    rows = [{"n": n, "m": m, "bytes": n * m, "cell": "{}"} for n in (3, 4, 5) for m in (60, 90000)]
    few = plot([row for row in rows if row["m"] == 60], "n", "bytes").axes[0]
    assert (few.get_xlabel(), few.get_ylabel()) == ("clients n", "traffic of a run [bytes]")
    assert all(float(tick).is_integer() for tick in few.get_xticks())
    far = plot([row for row in rows if row["n"] == 3], "m", "bytes").axes[0]
    assert [tick.get_text() for tick in far.get_xticklabels()] == ["60", "90,000"]
    assert far.get_xlabel() == "points m"


def test_every_number_of_a_row_has_a_name_with_its_unit():
    from secfc.grids.rows import LABELS

    (row,) = secfc.grid(n=5, seed=1, **SMALL)
    numbers = {name for name, value in row.items() if isinstance(value, int | float)}
    assert numbers - {"seed", "repeat", "converged"} <= set(LABELS)


def test_axes_are_logarithmic_as_asked_or_as_values_lie(tmp_path):
    from secfc.grids.rows import LOG_AXES, plot

    rows = [{"n": n, "m": m, "bytes": n * m, "word": "w", "cell": "{}"} for n in (0, 3) for m in (60, 90000)]
    few, far = ([row for row in rows if row["n"] == 3 and row["m"] <= most] for most in (60, 90000))
    for drawn, alone in ((few, "linear"), (far, "log")):
        for log, (across, along) in {None: (alone, alone), **LOG_AXES}.items():
            (axes,) = plot(drawn, "m", "bytes", log=log).axes
            scales = [{True: "log", False: "linear"}.get(wanted, wanted) for wanted in (across, along)]
            assert [axes.get_xscale(), axes.get_yscale()] == scales, log
    out = tmp_path / "rows.jsonl"
    out.write_text("".join(json.dumps(row) + "\n" for row in rows if row["m"] == 60))
    for x, log, held in (
        ("n", "x", "n holds 0"),
        ("n", "both", "n holds 0"),
        ("word", "x", "word holds words"),
    ):
        words = ("plot", out, "--x", x, "--y", "m", "--force", "--log")
        said = " ".join(run(*words, log).output.split())
        assert f"--log {log}: {held}, and its axis takes numbers above 0" in said
        remedies = re.findall(r"--log (\w+)", said.partition("Use ")[2])
        assert len(remedies) == 2
        assert not any(run(*words, remedy).exit_code for remedy in remedies)
