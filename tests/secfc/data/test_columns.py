"""Clients that observe different columns: what a federation knows of them, and what it refuses."""

import dataclasses

import numpy as np
import pytest
from click.testing import CliRunner

import secfc
from secfc.algorithm import PublicFacts
from secfc.cli import main
from secfc.errors import Caution, InputError
from secfc.report.data import look_like_ids

NAN = float("nan")
A, B, C = np.arange(6.0).reshape(3, 2), np.arange(10.0, 16).reshape(3, 2), np.arange(20.0, 29).reshape(3, 3)


def partial():
    return secfc.Federation.from_arrays([A, B, C], features=[("x", "y"), ("z", "y"), ("y", "x", "z")])


def test_the_union_is_in_order_of_first_appearance_and_points_stay_as_they_are():
    federation = partial()
    assert federation.feature_names == ("x", "y", "z")
    assert (federation.n, federation.m, federation.d) == (3, 9, 3)
    assert federation.observed == ((0, 1), (2, 1), (1, 0, 2))
    assert [party.points.shape for party in federation.parties] == [(3, 2), (3, 2), (3, 3)]
    assert PublicFacts.of(federation).common == (1,)
    whole = federation.stacked()
    np.testing.assert_array_equal(whole[0], [0, 1, NAN])
    np.testing.assert_array_equal(whole[3], [NAN, 11, 10])
    np.testing.assert_array_equal(whole[6], [21, 20, 22])
    again = federation.ordered(("z", "x", "y"))
    assert again.observed == ((1, 2), (0, 2), (2, 1, 0))
    np.testing.assert_array_equal(again.stacked(), whole[:, [2, 0, 1]])


def test_the_same_columns_in_another_order_are_brought_into_one():
    federation = secfc.Federation.from_arrays([A, B], features=[("x", "y"), ("y", "x")])
    assert federation.observed is None
    np.testing.assert_array_equal(federation.stacked()[3:], B[:, ::-1])
    plain = secfc.Federation.from_arrays([A, B[:, ::-1]])
    mine, theirs = (secfc.fit(secfc.Lloyd(2), f).flat for f in (federation, plain))
    assert (mine == theirs).all()


def test_a_column_of_nan_throughout_is_not_observed_and_one_with_a_nan_is_refused_with_its_row():
    holes = np.column_stack([A, np.full(3, NAN)])
    party = secfc.Party("site", holes, features=("x", "y", "z"))
    assert party.features == ("x", "y")
    np.testing.assert_array_equal(party.points, A)
    holes[1:, 2] = 7
    with pytest.raises(InputError, match="client 'site', row 0, feature 'z': the value is NaN"):
        secfc.Party("site", holes, features=("x", "y", "z"))
    with pytest.raises(InputError, match="observes none of 'x', 'y'"):
        secfc.Party("site", np.full((2, 2), NAN), features=("x", "y"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: secfc.Party("a", A, features=("x", "x")),
            r"2 feature names \(1 of them distinct\), 'x' more",
        ),
        (lambda: secfc.Party("a", A, features=("x",)), "1 feature name .* for 2 features"),
        (
            lambda: secfc.Federation((secfc.Party("a", A), secfc.Party("b", B, features=("x", "y")))),
            "client 'a' names no features and others do",
        ),
        (
            lambda: secfc.Federation((secfc.Party("a", A, features=("x", "y")),), feature_names=("x", "q")),
            "feature_names are 'x', 'q', and clients observe 'x', 'y'",
        ),
        (lambda: secfc.Federation.from_arrays([A, B], union=True), "table 0 .* has no column names"),
    ],
)
def test_what_names_cannot_say_is_refused(build, message):
    with pytest.raises(InputError, match=message):
        build()


@pytest.mark.parametrize("algorithm", [secfc.SecFC(2, 1), secfc.Lloyd(2), secfc.KFed(2, 1)], ids=repr)
def test_algorithms_for_equal_columns_name_the_common_ones(algorithm):
    with pytest.raises(InputError, match="of 3 features 1 is common to all: 'y'"):
        secfc.fit(algorithm, partial())
    apart = secfc.Federation.from_arrays([A, B, B], features=[("x", "y"), ("z", "y"), ("z", "q")])
    with pytest.raises(InputError, match="of 4 features none is common to all"):
        secfc.fit(algorithm, apart)
    common = [party.read()[:, [party.features.index("y")]] for party in partial().parties]
    assert secfc.fit(algorithm, secfc.Federation.from_arrays(common)).flat.shape == (9,)


class Frame(dict):
    """What all kinds of data frames have in common."""

    @property
    def columns(self):
        return list(self)


def test_data_frames_give_the_union_if_asked():
    frames = [Frame({"x": A[:, 0], "y": A[:, 1]}), Frame({"z": B[:, 0], "y": B[:, 1]})]
    with pytest.raises(InputError, match=r"missing are 'x', additional are 'z'.*union=True"):
        secfc.Federation.from_arrays(frames)
    federation = secfc.Federation.from_arrays(frames, union=True)
    assert federation.observed == ((0, 1), (2, 1))
    np.testing.assert_array_equal(federation.parties[1].points, B)


# --- files


def write(path, text):
    path.write_text(text)
    return str(path)


@pytest.fixture
def files(tmp_path):
    return [
        write(tmp_path / "a.csv", "x,y,who\n1,2,p\n3,4,q\n"),
        write(tmp_path / "b.csv", "who,y,z\nr,5,6\ns,7,8\n"),
        write(tmp_path / "c.csv", "z,empty,who,x\n9,,t,10\n11,nan,u,12\n"),
    ]


def test_columns_of_files_are_matched_by_name_in_any_order(files):
    with pytest.warns(Caution, match="'empty': no client observes this"):
        federation = secfc.Federation.from_files(files, id_column="who", union=True)
    assert federation.feature_names == ("x", "y", "z")
    assert federation.observed == ((0, 1), (1, 2), (2, 0))
    assert federation.parties[2].ids == ("t", "u")
    some = secfc.Federation.from_files(files, id_column="who", columns=["z", "x"], union=True)
    assert some.observed == ((0,), (1,), (1, 0))  # x is seen first
    with pytest.raises(InputError, match="no file has a column 'w'"):
        secfc.Federation.from_files(files, id_column="who", columns=["w", "x", "y"], union=True)


def test_other_columns_stay_an_error_that_names_the_option(files):
    with pytest.raises(InputError, match="union=True"):
        secfc.Federation.from_files(files[:2], id_column="who")
    done = CliRunner().invoke(main, ["run", *files, "-k", "2", "--id-column", "who"])
    assert done.exit_code == 2
    assert "`secfc overlap`" in done.output


def test_a_column_that_is_text_in_one_file_only_is_named_with_its_file(tmp_path, files):
    files[1] = write(tmp_path / "d.csv", "who,y,z\nr,low,6\ns,7,8\n")
    with pytest.raises(InputError, match=r"d\.csv, line 2, column 'y': the cell is not a number"):
        secfc.Federation.from_files(files, id_column="who", union=True)


def test_one_file_of_all_clients_says_by_empty_cells_who_observes_what(tmp_path):
    path = write(tmp_path / "all.csv", "who,x,y,z\np,1,2,\np,3,4,\nq,,5,6\nr,7,,8\n")
    federation = secfc.Federation.from_files(path, client_column="who", union=True)
    assert federation.names == ("p", "q", "r")
    assert federation.observed == ((0, 1), (1, 2), (0, 2))
    hole = write(tmp_path / "hole.csv", "who,x,y\np,1,2\np,3,\nq,3,4\n")
    with pytest.raises(InputError, match="client 'p', row 1, feature 'y'"):
        secfc.Federation.from_files(hole, client_column="who", union=True)


def test_a_feature_that_some_observe_may_look_like_ids():
    rows = np.arange(40.0).reshape(20, 2)
    federation = secfc.Federation.from_arrays(
        [rows + 0.5, rows, rows], features=[("x", "y"), ("y", "z"), ("x", "z")]
    )
    assert look_like_ids(federation) == (2,)
    assert "0." not in repr(federation) + repr(federation.parties)
    assert dataclasses.replace(federation).observed == federation.observed


def test_a_column_that_is_empty_at_everybody_is_named():
    empty = np.full(3, np.nan)
    points = np.column_stack([np.arange(3.0), empty])
    with pytest.warns(Caution, match="'lost': no client observes this"):
        data = secfc.Federation.from_arrays([points, points], features=[("a", "lost"), ("a", "lost")])
    assert (data.unobserved, data.feature_names, data.d) == (("lost",), ("a",), 1)
    # One who observes it is enough.
    seen = np.column_stack([np.arange(3.0), np.arange(3.0)])
    data = secfc.Federation.from_arrays([points, seen], features=[("a", "b"), ("a", "b")])
    assert (data.unobserved, data.common_names, data.on_common().aside) == ((), ("a",), ("b",))
    assert data.on_common().feature_names == ("a",)
