"""Every script runs on its smallest grid and writes rows that the plots can read."""

import importlib
import importlib.util
import json

import click
import pytest
from click.testing import CliRunner

from benchmarks import crowd_hub, disclosure, installed
from tests.nightly import NIGHTLY, by_night, short

pytest.importorskip("flint")
pytest.importorskip("matplotlib")

CIRCUMSTANCES = {"cell", "commit", "python", "numpy", "numba", "processor"}
SCRIPTS = {
    "runtime": ["--quick", "--vary", "n", "--vary", "m", "--vary", "target"],
    "kernels": ["--quick"],
    "scale": ["--quick"],
    "resilience": ["--quick"],
    "disclosure": ["--quick"],
    "elbow": ["--quick"],
    "quality": ["--quick"],
    "rounded": ["--quick"],
    "starts": ["--quick"],
    "scaling": ["--quick"],
    "reading": ["--quick"],
    "shared": ["--quick"],
    "pairs": ["--quick"],
    "columns": ["--quick"],
    "explained": ["--quick"],
    "crowd": [
        "--sums",
        "40",
        "--length",
        "5",
        "--clients",
        "6",
        "--clients",
        "9",
        "--workers",
        "3",
        "--t",
        "1",
        "--rows",
        "4",
        "--d",
        "2",
        "--k",
        "2",
        "--steps",
        "1",
    ],
    "crowd_hub": ["-n", "9", "--tls", "--away", "--committee", "4"],
}

# By day those whose rows a test below looks at, or that take little.
SLOW = ("disclosure", "resilience", "scaling", "columns", "crowd", "crowd_hub", "kernels")


def invoke(script, *arguments):
    command = importlib.import_module(f"benchmarks.{script}").main
    outcome = CliRunner().invoke(command, [str(a) for a in arguments], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of rows, and what scripts printed: each runs when it is first asked for."""
    folder = tmp_path_factory.mktemp("rows")

    class Printed(dict):
        def __missing__(self, name):
            self[name] = invoke(name, *SCRIPTS[name], "--out", folder / f"{name}.jsonl")
            return self[name]

    with pytest.MonkeyPatch.context() as patch:
        # No figure of theirs is read here; each policy runs elsewhere.
        patch.setattr(disclosure, "REPEATS", 2)
        ways = dict(list(disclosure.POLICIES.items())[:: short(4, nightly=1)])
        patch.setattr(disclosure, "POLICIES", ways)
        yield folder, Printed()


def rows_of(written, script):
    folder, printed = written
    assert printed[script]
    return [json.loads(line) for line in (folder / f"{script}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("script", [*sorted(SCRIPTS.keys() - {*SLOW}), *by_night(*SLOW)])
def test_rows_name_their_circumstances_and_hold_plain_values(written, script):
    rows = rows_of(written, script)
    assert rows
    for row in rows:
        assert row.keys() > CIRCUMSTANCES
        assert all(isinstance(v, int | float | str | bool) for k, v in row.items() if k != "cell")


@pytest.mark.parametrize(
    "script",
    [
        *sorted(SCRIPTS.keys() - {"elbow", "explained", "rounded", "shared", *SLOW}),
        *by_night("disclosure", "resilience", "columns", "crowd", "kernels"),
    ],
)  # these time nothing, or not in all rows
def test_times_are_positive(written, script):
    for row in rows_of(written, script):
        clocks = ("user_s", "system_s")  # too coarse for a short run
        times = {k: v for k, v in row.items() if k.endswith(("_ms", "_s", "rate")) and k not in clocks}
        assert times
        assert all(v > 0 for v in times.values()), times


def test_a_benchmark_goes_on_where_it_stopped(written):
    before = rows_of(written, "runtime")
    invoke("runtime", *SCRIPTS["runtime"], "--out", written[0] / "runtime.jsonl")
    assert rows_of(written, "runtime") == before


def test_our_results_and_those_of_exact_rivals_are_exact(written):
    verdicts = {row["who"]: row["exact"] for row in rows_of(written, "kernels")}
    for who, verdict in verdicts.items():
        if who.startswith(("SecFC", "galois", "python-flint", "object", "decode", "distances", "client")):
            assert verdict in ("yes", ""), who
    # Seven products of 31 bits overflow int64: LightSecAgg's default prime with ell + t = 7.
    cells = [r for r in rows_of(written, "kernels") if r["who"] == "FedML's formula, 2**31 - 1 alone"]
    assert [r["exact"].startswith("NO") for r in cells] == [False, True]


@pytest.mark.nightly
def test_deviating_clients_and_losses_change_no_result(written):
    rows = rows_of(written, "resilience")
    assert {row["work"] for row in rows} == {"decode", "iteration", "share", "run"}
    assert all(row["exact"] == "yes" for row in rows)
    assert all(row["ratio"] == 1 for row in rows if row["who"] == "plain")


def test_wire_bytes_are_those_of_the_messages(written):
    for row in rows_of(written, "runtime"):
        cell = row["cell"]
        n, m, k = cell["n"], cell["m"], cell["k"]
        asked = 2 * (cell["ell"] + cell["t"] - 1) + 1  # labels of all points go to everybody
        lane = asked * k * m * 4  # and replies take as few lanes as sizes of clusters allow
        assert lane < row["iteration_bytes"] < row["lanes"] * lane + n * (m + 256)
        assert row["wire_ms"] == pytest.approx(row["iteration_bytes"] * 8 / 1e9 * 1e3)


def test_policies_are_named_and_the_default_stands_beside(written):
    _, printed = written
    for row in rows_of(written, "runtime"):
        assert row["policy"].startswith("Distances(blind=False")
        assert row["default_policy"].startswith("AssignmentsOnly(dealer='server'")
        # Clients that compare send bits often, and the server deals: more work in all.
        assert row["default_all_parties_ms"] > row["all_parties_ms"]
        assert row["default_n_iter"] == row["n_iter"]
    shown = " ".join(printed["runtime"].split())
    for phrase in ("Distances(blind=False", "beside the default, AssignmentsOnly(", "client, default"):
        assert phrase in shown, phrase
    (row,) = rows_of(written, "scale")
    assert row["policy"].startswith("Distances(blind=True")
    assert "Scale, Distances(blind=True" in printed["scale"]
    assert "Scale, AssignmentsOnly(" in invoke("scale", "--quick", "--disclosure", "assignments")


@pytest.mark.parametrize(
    ("line", "missing", "remedy"),
    [("kernels --quick", "flint", "python-flint: pip install 'secfc-clustering[bench]'"),
     ("plot FILE", "matplotlib", "matplotlib: pip install 'secfc-clustering[plot]'"),
     ("attacks --plot x.png", "matplotlib", "secfc-clustering[plot]")],
)  # fmt: skip
def test_a_missing_extra_is_said_before_anything_is_computed(line, missing, remedy, tmp_path, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else found(name))
    rows = tmp_path / "rows.jsonl"
    rows.write_text("")
    script, *arguments = line.replace("FILE", str(rows)).split()
    module = importlib.import_module(f"benchmarks.{script}")
    monkeypatch.setattr(module, "run_grid", None, raising=False)  # whoever gets there ends in a traceback
    outcome = CliRunner(env={"COLUMNS": "200"}).invoke(module.main, arguments)
    assert outcome.exit_code == 2, outcome.output
    assert remedy in " ".join(outcome.output.split())


def test_an_installed_copy_of_the_same_code_is_measured_and_no_other(tmp_path):
    clone, same, other = (tmp_path / name for name in ("clone", "same", "other"))
    for folder in (clone, same, other):
        for package in installed.PACKAGES:
            (folder / package).mkdir(parents=True)
            (folder / package / "__init__.py").write_text(f"# {package}\n")
    (other / "field" / "__init__.py").write_text("# field, of another version\n")
    (tmp_path / "none").mkdir()
    path = [str(clone), str(tmp_path / "none"), str(same)]
    assert installed.prefer_installed(path, clone) == same
    assert path == [str(same), str(clone), str(tmp_path / "none")]
    for entries in ([str(clone), str(other)], [str(clone)], [str(clone), str(tmp_path / "none")]):
        path = list(entries)
        assert installed.prefer_installed(path, clone) is None
        assert path == entries


def test_bytes_of_plans_are_those_of_runs_and_grow_with_no_row_where_centers_are_shared(written):
    rows = rows_of(written, "shared")
    measured = {(r["cell"]["way"], r["cell"]["m"]): r for r in rows if not r["cell"]["computed"]}
    for row in rows:
        if row["cell"]["computed"]:
            there = measured[row["cell"]["way"], row["cell"]["m"]]
            assert row["mb"] == pytest.approx(there["mb"], rel=0.3)
    assert measured["FederatedLloyd", 1000]["mb"] < 1.2 * measured["FederatedLloyd", 100]["mb"]
    assert measured["FederatedLloyd", 100]["mb"] < measured["the default", 100]["mb"] / 10
    assert "73 MB" in written[1]["shared"]
    assert "part held" in invoke("shared", "--floors", "--quick")


def test_targets_are_printed(written):
    _, printed = written
    assert "< 1 ms" in printed["runtime"]
    assert ">= 55" in printed["kernels"]
    assert "peak_gib" in printed["scale"]
    assert not NIGHTLY or "<= 2.5" in printed["resilience"]


def test_a_large_run_holds_what_it_says(written):
    (row,) = rows_of(written, "scale")
    # Two lanes hold the distances, the third what may pass the test of rows.
    assert row["lanes"] == 3
    assert row["peak_gib"] >= row["peak_before_gib"] > 0
    cell = row["cell"]
    numbers = cell["n"] * cell["m"] * row["lanes"] * (cell["d"] + 1 + cell["k"])
    assert row["held_gib"] == pytest.approx(4 * numbers / 2**30)


def test_scale_explains_memory_and_large_files():
    text = invoke("scale", "--help")
    assert "memmap" in text
    assert "--m 10000000 --d 20" in text


@pytest.mark.nightly
def test_a_ladder_is_one_table_and_a_picture_of_processes_of_their_own(tmp_path):
    out, picture = tmp_path / "scale.jsonl", tmp_path / "scale.png"
    setting = ("--d", 4, "--k", 3, "--n", 3, "--t", 1)
    text = invoke("scale", "--ladder", 20_000, *setting, "--picture", picture, "--out", out)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert {(r["cell"]["m"], r["cell"]["disclosure"], r["cell"]["centers"]) for r in rows} == {
        (m, *way)
        for m in (10_000, 20_000)
        for way in (("distances", "exact"), ("assignments", "exact"), ("assignments", "rounded"))
    }
    assert text.count("AssignmentsOnly") == 4
    assert picture.read_bytes().startswith(b"\x89PNG")
    # A peak that had been another's would be no smaller.
    assert rows[-1]["peak_gib"] < rows[-2]["peak_gib"]
    assert rows[-1]["step_mb"] < rows[-2]["step_mb"]


def test_a_picture_of_one_setting_is_refused():
    with pytest.raises(click.UsageError, match="add --ladder 1000000"):
        importlib.import_module("benchmarks.scale").main.main(["--picture", "x.png"], standalone_mode=False)


def test_every_picture_is_drawn(written, tmp_path):
    folder, printed = written
    drawn = [name for name in SCRIPTS if NIGHTLY or name not in SLOW]
    assert all(printed[name] for name in drawn)
    files = [folder / f"{name}.jsonl" for name in drawn]
    invoke("plot", *files, "--folder", tmp_path)
    names = {path.stem for path in tmp_path.glob("*.png")}
    assert {"time-over-n", "time-over-m", "scale"} <= names
    assert not NIGHTLY or {"resilience-decode-n10-lanes2", "ratio-ell-1", "encode-n10-ell1-t4"} <= names
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.glob("*.png"))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("n", "tls", "away"), [(100, True, True), (1000, False, False), (1000, True, True)])
def test_a_thousand_clients_over_a_hub_have_the_labels_of_plaintext_lloyd(n, tls, away):
    """It compares them itself; with a client that comes late, and one that is lost, those of the centers."""
    (row,) = crowd_hub.measure({"n": n, "committee": 7, "tls": tls, "away": away})
    # 7 members and the server speak with everybody, so 28 pairs among them and 8 of each other client.
    assert row["links"] == 28 + 8 * (n - 7)
    assert row["lost"] == away
    assert row["hub_mib"] < 2000
