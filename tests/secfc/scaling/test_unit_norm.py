"""Rows divided by their norms: what that is in doubles, that labels are Lloyd's on it, and what has none."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import secfc
from secfc.cli.deploy.results import label_by_centers
from secfc.coded.joined import Joined
from secfc.data.model_file import ModelFile
from secfc.scaling.scaling import Scaling, unit_rows
from tests.small import invoke, same_runs

START = secfc.RandomPoints()
RNG = np.random.default_rng(2)
AXES = np.array([[9.0, 1, 0, 1], [1, 9, 2, 0], [0, 1, 9, 3]])
LENGTHS = np.ldexp(1.0, RNG.integers(-9, 9, 90))
# Three directions, each of rows of all lengths.
POINTS = (AXES[RNG.integers(0, 3, 90)] + RNG.normal(size=(90, 4))) * LENGTHS[:, None]
DATA = secfc.Federation.from_arrays(np.split(POINTS, [20, 55]))

doubles = st.floats(-1e308, 1e308)


@given(npst.arrays(np.float64, st.tuples(st.integers(1, 9), st.integers(1, 5)), elements=doubles))
def test_rows_have_norm_1_whatever_their_length_and_are_the_same_wherever_they_are_computed(rows):
    rows = rows[rows.any(axis=1)]
    found = unit_rows(rows, "x", 0)
    for row, got in zip(rows.tolist(), found.tolist(), strict=True):
        _, exponent = math.frexp(max(map(abs, row)))
        whole, total = [math.ldexp(x, -exponent) for x in row], 0.0
        for x in whole:
            total += x * x
        assert got == [x / math.sqrt(total) for x in whole]
        assert math.hypot(*got) == pytest.approx(1, rel=1e-15)
        assert max(map(abs, got)) <= 1
    assert unit_rows(np.asfortranarray(rows), "x", 0).tobytes() == found.tobytes()
    assert unit_rows(rows[1:], "x", 0).tobytes() == found[1:].tobytes()


@pytest.mark.parametrize("policy", [secfc.AssignmentsOnly(), secfc.Distances()])
def test_labels_are_those_of_plaintext_on_rows_of_norm_1_at_every_step(policy):
    secure = secfc.fit(secfc.SecFC(3, 1, START, disclosure=policy), DATA, scale_features="norm")
    directions = secure.scaling.scaling.federation(DATA)
    plain = secfc.fit(secfc.Lloyd(3, init=START), directions, bound=1.0)
    assert same_runs(secure, plain)
    assert secure.n_iter > 1
    assert "PartialSum" not in {e.kind for e in secure.transcript.envelopes}  # and nothing is summed
    # Centers are means of such rows, of norm below 1: no spherical k-means.
    known = secfc.fit(secfc.Lloyd(3, init=START), DATA, scale_features="norm")
    means = [directions.stacked()[known.flat == h].mean(axis=0) for h in range(3)]
    assert known.centers == pytest.approx(np.array(means), abs=1e-5)
    assert (np.linalg.norm(known.centers, axis=1) < 1 - 1e-3).all()
    # Lengths of rows decide without: the control.
    far = secfc.Federation.from_arrays([party.read() / 8 for party in DATA.parties])
    coarse = secfc.Lloyd(3, init=START, quantization=secfc.Quantization(coarse="allow"))
    assert not same_runs(secure, secfc.fit(coarse, DATA))
    again = secfc.fit(secfc.SecFC(3, 1, START, disclosure=policy), far, scale_features=secfc.UnitNorm())
    assert same_runs(secure, again)


def test_density_clusters_are_those_of_angles():
    result = secfc.fit(secfc.DBSCAN(0.2, 4, threshold=1), DATA, scale_features="norm")
    kind = np.argmax(POINTS / LENGTHS[:, None] @ AXES.T, axis=1)
    inside = result.flat >= 0
    assert result.k == 3
    assert inside.sum() > 60
    assert len({*zip(kind[inside].tolist(), result.flat[inside].tolist(), strict=True)}) == 3


def test_new_rows_are_divided_too_and_centers_are_not(tmp_path):
    result = secfc.fit(secfc.SecFC(3, 1, START), DATA, scale_features="norm")
    longer = [party.read() * 1024 for party in DATA.parties]
    for own, labels in zip(result.predict(longer), result.labels, strict=True):
        np.testing.assert_array_equal(own, labels)
    open_run = secfc.fit(secfc.KFed(2, 2), DATA, scale_features="norm")
    facts = {"scaling": vars(open_run.scaling.scaling)}
    # A row along the first axis is nearer to the second, and would be to the first if both had norm 1.
    kept = ModelFile(b"", "a", "centers", facts, {"centers": np.array([[0.2, 0, 0, 0], [0.7, 0.3, 0, 0]])})
    assert label_by_centers(kept, secfc.Party("a", np.array([[5.0, 0, 0, 0]]))).tolist() == [1]


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (
            lambda: secfc.fit(
                secfc.SecFC(2), [*np.split(POINTS, 3), np.zeros((2, 4))], scale_features="norm"
            ),
            r"'client-3', row 0 \(counted from 0\) has only zeros, one of 2 such rows: it has no direction",
        ),
        (
            lambda: secfc.fit(secfc.SecFC(2), DATA, scale_features="norm", missing="mean"),
            'no mean that stands for a value. Use missing="drop"',
        ),
        (lambda: secfc.fit(secfc.SecFC(2), DATA, scale_features="norm", bound=3.0), "limit is the bound"),
        (
            lambda: secfc.fit(
                secfc.FederatedLloyd(2),
                secfc.Federation.from_arrays(
                    [np.ones((4, 2))] * 3, features=[("a", "b"), ("b", "c"), ("a", "c")]
                ),
                scale_features="norm",
            ),
            "nobody knows the norm of a row",
        ),
        (lambda: Joined(scale=secfc.UnitNorm()), "no row, whose norm is of all columns. Take 'standard'"),
        (lambda: Joined(scale=secfc.Range()), "scale=Range of joined columns: each owner brings its own"),
    ],
)
def test_what_has_no_norm_is_refused_with_what_to_do(run, says):
    with pytest.raises(secfc.InputError, match=says):
        run()


def test_rows_with_gaps_may_be_dropped_before():
    parts = [party.read().copy() for party in DATA.parties]
    parts[0][3, 1] = np.nan
    result = secfc.fit(secfc.SecFC(3, 1), parts, scale_features="norm", missing="drop")
    assert result.flat[3] == -1
    assert (np.delete(result.flat, 3) >= 0).all()


def test_the_shell_compares_labels_keeps_a_model_and_says_what_was_done(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for party in DATA.parties:
        text = "".join(",".join(map(repr, row)) + "\n" for row in party.read().tolist())
        Path(f"{party.name}.csv").write_text("a,b,c,d\n" + text)
    files = [f"{name}.csv" for name in DATA.names]
    words = "run", *files, "-k", 3, "--init", "random-points", "--standardize", "norm"
    done = invoke(*words, "--model", "m.npz", "--labels", "first.csv", "--report", "r.html")
    assert done.exit_code == 0, done.output
    assert "rows divided by their norms" in " ".join(Path("r.html").read_text().split())
    found = secfc.fit(secfc.SecFC(3, 1, START), DATA, scale_features="norm")
    lines = Path("first.csv").read_text().splitlines()[1:]
    np.testing.assert_array_equal([int(line.rpartition(",")[2]) for line in lines], found.flat)
    # One client alone has new rows, so the others have a row without meaning each, and it has a norm.
    done = invoke("predict", "m.npz", files[1], "--out", "new.csv")
    assert done.exit_code == 0, done.output
    assert "far outside" not in done.output
    new = [int(line.rpartition(",")[2]) for line in Path("new.csv").read_text().splitlines()[1:]]
    assert new == found.labels[1].tolist()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--limit 3", "has no limit to exceed: leave --limit and --outside out"),
        ("--outside clip", "has no limit to exceed"),
        ("--missing mean", "take --missing drop"),
        ("--ranges a=0:1,b=0:1", "--standardize and --ranges are two scales: choose one"),
        ("--split columns --id-column a", "no owner knows the norm of a row"),
    ],
)
def test_what_the_shell_refuses_beside_it(words, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "xyz":
        Path(f"{name}.csv").write_text("a,b\n1,2\n3,1\n")
    done = invoke("run", "x.csv", "y.csv", "z.csv", "-k", 2, "--standardize", "norm", *words.split())
    assert done.exit_code == 2
    assert says in " ".join(done.output.split())


def test_a_scale_without_the_word_is_read_as_before():
    assert Scaling(centers=(0.0,), units=(1.0,), limit=1.0) == Scaling((0.0,), (1.0,), 1.0, norm=False)
