"""Party and Federation: what they accept, what they refuse, and what they leave alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import secfc
from secfc.data import inputs
from secfc.data.federation import Federation, select_rows
from secfc.data.party import Party
from secfc.errors import InputError

POINTS = np.arange(6.0).reshape(3, 2)


class CountingRows:
    """Lazy rows that count how many were read."""

    def __init__(self, points: np.ndarray[Any, Any]) -> None:
        self.points = points
        self.shape = points.shape
        self.dtype = points.dtype
        self.read = 0
        self.largest_read = 0

    def __getitem__(self, rows: slice) -> np.ndarray[Any, Any]:
        block = self.points[rows]
        self.read += len(block)
        self.largest_read = max(self.largest_read, len(block))
        return block


# --- Party


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.uint8])
def test_numbers_are_kept_as_given(dtype: type) -> None:
    party = Party("a", POINTS.astype(dtype))
    assert party.points.dtype == dtype
    np.testing.assert_array_equal(party.read(), POINTS)


def test_points_are_a_view_that_cannot_change_the_callers_array() -> None:
    points = POINTS.copy()
    party = Party("a", points, truth=np.array([0, 1, 1]))
    assert np.shares_memory(party.points, points)
    with pytest.raises(ValueError, match="read-only"):
        party.points[0, 0] = 9  # type: ignore[index]
    with pytest.raises(ValueError, match="read-only"):
        party.truth[0] = 9  # type: ignore[index]
    with pytest.raises(ValueError, match="read-only"):
        party.read()[0, 0] = 9
    points[0, 0] = 1  # the caller's own array stays writeable


def test_repr_shows_name_and_shape_but_no_content() -> None:
    party = Party("a", POINTS + 1234.5, truth=np.array([77, 77, 77]), ids=("x1", "x2", "x3"))
    assert repr(party) == "Party('a', shape=(3, 2))"
    assert repr(Federation((party,))) == "Federation(n=1, m=3, d=2)"


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (np.arange(3.0), r"client 'a' has points of shape \(3,\): two axes .*reshape\(-1, 1\)"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\): two axes .*Flatten"),
        (np.float64(3), r"client 'a' has no table of points: pass an array"),
        (np.zeros((0, 2)), r"client 'a' has no points: at least one is needed"),
        (np.zeros((2, 0)), r"without features: at least one"),
        (np.zeros((2, 2), dtype=bool), r"dtype bool: integers or floats .*astype"),
        (np.zeros((2, 2), dtype=complex), r"dtype complex128: integers or floats"),
        (np.zeros((2, 2), dtype=object), r"dtype object: integers or floats"),
        (np.array([["1", "2"]]), r"dtype <U1: integers or floats"),
        (
            np.zeros((2, 2), dtype="M8[s]"),
            r"dtype datetime64\[s\], which are times, and features must be numbers",
        ),
        ([[1.0, 2.0]], r"points of type list: an array is needed. Pass numpy.asarray"),
        (np.ma.masked_array(POINTS, POINTS > 3), r"masked .*Fill them in"),
        (np.array([[1.0, 2.0], [1.0, np.nan]]), r"client 'a', row 1, feature 1: .*is NaN"),
        (np.array([[1.0, -np.inf]]), r"client 'a', row 0, feature 1: .*Correct the value"),
    ],
)
def test_unusable_points_are_refused(points: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Party("a", points)


def test_sparse_points_are_refused() -> None:
    from scipy.sparse import csr_array

    with pytest.raises(InputError, match=r"sparse csr_array: dense .*toarray"):
        Party("a", csr_array(POINTS))


@pytest.mark.parametrize(
    ("name", "message"),
    [("", "must not be empty"), ("server", "'server' is taken"), (3, "3: a string is needed")],
)
def test_unusable_names_are_refused(name: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Party(name, POINTS)


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        ([0, 1], r"truth of shape \(2,\) for 3 points.*\(3,\)"),
        ([[0], [1], [2]], r"truth of shape \(3, 1\)"),
        ([0.0, 1.0, 2.0], r"truth of dtype float64: integers"),
        (["x", "y", "z"], r"truth of dtype <U1: integers .*unique"),
    ],
)
def test_unusable_truth_is_refused(truth: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Party("a", POINTS, truth=truth)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (("secret1", "secret2"), r"2 ids for 3 points"),
        (("secret", "other", "secret"), r"same id in rows 0 and 2"),
        (("secret", 2, 3), r"row 1: the id is a int and row 0's a str"),
        ((1.5, 2.5, 3.5), r"row 0: the id is a float, not bytes"),
        ((1, 2, None), r"row 2: the id is a NoneType"),
        ((True, False, 3), r"row 0: the id is a bool"),
        ("abc", r"one str for ids"),
    ],
)
def test_unusable_ids_are_refused_without_showing_them(ids: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Party("a", POINTS, ids=ids)
    assert "secret" not in str(caught.value)


def test_persons_may_have_several_rows_and_become_numbers() -> None:
    party = Party("a", POINTS, persons=("x", "y", "x"))
    assert party.persons.tolist() == [0, 1, 0]
    assert replace(party, name="b").persons.tolist() == [0, 1, 0]
    assert select_rows(party, np.array([1, 2])).persons.tolist() == [0, 1]  # another, then one, as they come
    assert "x" not in repr(party)
    with pytest.raises(InputError, match="2 ids for 3 points"):
        Party("a", POINTS, persons=("x", "y"))


def test_ids_become_a_tuple_of_plain_values() -> None:
    party = Party("a", POINTS, ids=np.array([3, 1, 2]))  # type: ignore[arg-type]
    assert party.ids == (3, 1, 2)
    assert party.ids is not None
    assert all(type(item) is int for item in party.ids)


def test_other_byte_orders_are_read_as_native(tmp_path: Path) -> None:
    swapped = POINTS.astype(POINTS.dtype.newbyteorder())
    np.save(tmp_path / "a.npy", swapped)
    for points in (swapped, np.load(tmp_path / "a.npy", mmap_mode="r")):
        party = Party("a", points)
        assert party.read().dtype.isnative
        assert all(block.dtype.isnative for _, block in party.blocks())
        np.testing.assert_array_equal(party.read(), POINTS)


# --- lazy points


def test_lazy_points_are_not_read_when_built() -> None:
    rows = CountingRows(POINTS)
    federation = Federation((Party("a", rows), Party("b", rows)))
    assert (federation.m, federation.d, rows.read) == (6, 2, 0)
    assert federation.parties[0].points is rows


def test_memmap_stays_a_memmap_and_is_checked_when_used(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[1.0, 2.0], [3.0, np.inf]]))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    federation = Federation((Party("a", mapped),))
    points = federation.parties[0].points
    assert isinstance(points, np.memmap)
    assert np.shares_memory(points, mapped)
    party = federation.parties[0]

    def exhaust() -> None:
        list(party.blocks())

    uses: list[Callable[[], Any]] = [federation.stacked, federation.largest, party.read, exhaust]
    for use in uses:
        with pytest.raises(InputError, match=r"client 'a', row 1, feature 1: .*is infinite"):
            use()


def test_lazy_points_are_read_in_blocks_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "BLOCK_BYTES", 3 * 2 * 8)
    points = np.arange(20.0).reshape(10, 2)
    rows = CountingRows(points)
    party = Party("a", rows)
    blocks = list(party.blocks())
    assert [start for start, _ in blocks] == [0, 3, 6, 9]
    assert rows.largest_read == 3
    np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), points)
    np.testing.assert_array_equal(party.read(), points)
    assert Federation((party,)).largest() == 19.0


def test_position_of_a_bad_value_counts_from_the_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "BLOCK_BYTES", 16)
    points = POINTS.copy()
    points[2, 0] = np.nan
    with pytest.raises(InputError, match="row 2, feature 0"):
        Party("a", points)


# --- Federation


def test_counts_names_and_stacking_follow_client_order() -> None:
    federation = Federation.from_arrays(
        [POINTS, POINTS[:1] + 10],
        names=["z", "a"],
        truth=[[0, 1, 2], [5]],
        ids=[[1, 2, 3], [1]],
        server_points=[[7, 7]],
    )
    assert (federation.n, federation.m, federation.d) == (2, 4, 2)
    assert federation.names == ("z", "a")
    assert federation.counts == (3, 1)
    np.testing.assert_array_equal(federation.stacked(), [[0, 1], [2, 3], [4, 5], [10, 11]])
    np.testing.assert_array_equal(federation.truth, [0, 1, 2, 5])
    assert federation.parties[1].ids == (1,)
    np.testing.assert_array_equal(federation.server_points, [[7, 7]])


def test_truth_is_none_if_any_client_lacks_it() -> None:
    assert Federation.from_arrays([POINTS, POINTS], truth=[[0, 0, 0], None]).truth is None


def test_default_names_count_clients() -> None:
    assert Federation.from_arrays([POINTS, POINTS]).names == ("client-0", "client-1")


def test_split_undoes_stacking() -> None:
    federation = Federation.from_arrays([POINTS, POINTS[:1], POINTS[:2]])
    parts = federation.split(federation.stacked())
    for part, party in zip(parts, federation.parties, strict=True):
        np.testing.assert_array_equal(part, party.read())
    assert [part.tolist() for part in federation.split(np.arange(6))] == [[0, 1, 2], [3], [4, 5]]
    for wrong in (np.arange(5), np.array(3)):
        with pytest.raises(InputError, match="one entry for each of the 6 points"):
            federation.split(wrong)


def test_largest_sees_both_signs_every_client_and_the_least_integer() -> None:
    assert Federation.from_arrays([POINTS, -9 * POINTS]).largest() == 45.0
    assert Federation.from_arrays([np.array([[-(2**63), 1]])]).largest() == 2.0**63
    assert Federation.from_arrays([np.array([[0, 200]], dtype=np.uint8)]).largest() == 200.0


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Federation(()), "no clients: at least one"),
        (
            lambda: Federation((POINTS,)),  # type: ignore[arg-type]
            "a client is a ndarray: a Party is needed",
        ),
        (
            lambda: Federation((Party("a", POINTS), Party("a", POINTS))),
            "several clients are named 'a'",
        ),
        (
            lambda: Federation((Party("a", POINTS), Party("b", POINTS[:, :1]))),
            "client 'b' has 1 feature and client 'a' 2",
        ),
        (
            lambda: Federation.from_arrays([POINTS[:1], POINTS[:1]], ids=[["1"], [1]]),
            "client 'client-0' has str ids and client 'client-1' int ids: they could never be",
        ),
        (
            lambda: Federation((Party("a", POINTS),), feature_names=("x",)),
            "1 feature name .* for 2 features",
        ),
        (
            lambda: Federation((Party("a", POINTS),), feature_names=("x", "x")),
            r"2 feature names \(1 of them distinct\)",
        ),
        (
            lambda: Federation.from_arrays([POINTS], server_points=[[1.0]]),
            "server's points have 1 feature and the clients' 2",
        ),
        (
            lambda: Federation.from_arrays([POINTS], server_points=[[1.0, np.nan]]),
            "the server, row 0, feature 1",
        ),
        (lambda: Federation.from_arrays(POINTS), r"one array of shape \(3, 2\).*from_labelled"),
        (lambda: Federation.from_arrays([[[1, 2], [3]]]), "not a table: every row"),
        (lambda: Federation.from_arrays([POINTS], names=["a", "b"]), "names has 2 entries for 1"),
        (lambda: Federation.from_arrays([POINTS], names="a"), "names has 1 entries for 1"),
        (lambda: Federation.from_arrays([POINTS], truth=[]), "truth has 0 entries for 1"),
        (lambda: Federation.from_arrays([POINTS], ids=[]), "ids has 0 entries for 1"),
    ],
)
def test_unusable_federations_are_refused(build: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build()


# --- from_labelled


@st.composite
def labelled(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], int, int]:
    """Truth of at least n points, n clients, and k' with n * k' >= k; clusters may be tiny."""
    truth = np.array(draw(st.lists(st.integers(-3, 5), min_size=1, max_size=40)))
    n = draw(st.integers(1, len(truth)))
    k = len(set(truth.tolist()))
    return truth, n, draw(st.integers(-(-k // n), k + 2))


@given(labelled(), st.booleans(), st.integers(0, 2**70))
def test_every_point_goes_to_one_client_of_few_clusters(
    case: tuple[np.ndarray[Any, Any], int, int], iid: bool, seed: int
) -> None:
    truth, n, k_local = case
    points = np.arange(len(truth))[:, None]
    federation = Federation.from_labelled(
        points, truth, n=n, clusters_per_client=None if iid else k_local, seed=seed
    )
    rows = federation.stacked()[:, 0]
    assert sorted(rows.tolist()) == list(range(len(truth)))
    np.testing.assert_array_equal(federation.truth, truth[rows])
    assert federation.n == n
    assert min(federation.counts) >= 1
    for party in federation.parties:
        assert np.all(np.diff(party.read()[:, 0]) > 0)
        assert party.truth is not None
        assert iid or len(set(party.truth.tolist())) <= k_local
    if iid:
        assert max(federation.counts) - min(federation.counts) <= 1


@pytest.mark.parametrize(("k", "k_local", "n"), [(4, 1, 10), (4, 2, 10), (4, 4, 10), (16, 4, 16)])
def test_split_of_the_paper_reaches_k_prime_with_balanced_clients(k: int, k_local: int, n: int) -> None:
    truth = np.repeat(np.arange(k), 120)
    federation = Federation.from_labelled(truth[:, None], truth, n=n, clusters_per_client=k_local)
    held = [len(set(np.asarray(party.truth).tolist())) for party in federation.parties]
    assert held == [k_local] * n
    holders = n * k_local / k  # clients a cluster
    assert max(federation.counts) <= k_local * np.ceil(120 / np.floor(holders))
    assert min(federation.counts) >= k_local * np.floor(120 / np.ceil(holders))


@pytest.mark.parametrize("k_local", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_clusters_smaller_than_their_holders_leave_no_client_empty(k_local: int, seed: int) -> None:
    truth = np.array([0, 1, 1, 1, 1, 2])
    federation = Federation.from_labelled(truth[:, None], truth, n=6, clusters_per_client=k_local, seed=seed)
    assert federation.counts == (1,) * 6
    assert sorted(federation.stacked()[:, 0].tolist()) == truth.tolist()


def test_pairs_of_clusters_vary_between_clients() -> None:
    truth = np.repeat(np.arange(4), 50)
    federation = Federation.from_labelled(truth[:, None], truth, n=20, clusters_per_client=2)
    assert len({tuple(np.unique(np.asarray(p.truth)).tolist()) for p in federation.parties}) > 2


def test_seed_decides_the_split() -> None:
    truth = np.repeat(np.arange(4), 25)
    points = np.arange(100.0)[:, None]

    def split(seed: int, k_local: int | None) -> list[float]:
        federation = Federation.from_labelled(points, truth, n=5, clusters_per_client=k_local, seed=seed)
        return federation.stacked()[:, 0].tolist()  # type: ignore[no-any-return]

    for k_local in (None, 2):
        assert split(1, k_local) == split(1, k_local)
        assert split(1, k_local) != split(2, k_local)


def test_string_labels_become_codes_in_sorted_order() -> None:
    federation = Federation.from_labelled(POINTS, ["b", "a", "b"], n=1)
    np.testing.assert_array_equal(federation.truth, [1, 0, 1])


def test_splitting_leaves_the_inputs_alone() -> None:
    points, truth = POINTS.copy(), np.array([2, 0, 1])
    Federation.from_labelled(points, truth, n=2, clusters_per_client=2)
    np.testing.assert_array_equal(points, POINTS)
    np.testing.assert_array_equal(truth, [2, 0, 1])
    assert points.flags.writeable


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n": 4}, InputError, "m=3 points cannot be dealt out to n=4 clients.*Lower n"),
        ({"n": 0}, InputError, "n=0: at least 1"),
        ({"n": 1.5}, TypeError, "n=1.5 is a float: pass an integer"),
        ({"n": True}, TypeError, "n=True is a bool"),
        (
            {"n": 2, "clusters_per_client": 1},
            InputError,
            "n=2 clients with at most 1 cluster each cannot hold all k=3 clusters",
        ),
        ({"clusters_per_client": 0}, InputError, "clusters_per_client=0: at least 1"),
        ({"seed": -1}, InputError, "seed=-1: seeds are not negative"),
        ({"seed": 0.5}, TypeError, "seed=0.5 is a float"),
        ({"truth": [0, 1]}, InputError, r"the data set has truth of shape \(2,\) for 3 points"),
        ({"truth": [0.5, 1, 2]}, InputError, "truth of dtype float64"),
        ({"points": POINTS[:, 0]}, InputError, r"the data set has points of shape \(3,\)"),
    ],
)
def test_impossible_splits_are_refused(change: Any, error: type[Exception], message: str) -> None:
    arguments: dict[str, Any] = {"points": POINTS, "truth": [0, 1, 2], "n": 3, **change}
    with pytest.raises(error, match=message):
        Federation.from_labelled(arguments.pop("points"), arguments.pop("truth"), **arguments)


def test_no_client_is_favored_by_the_order_of_clusters() -> None:
    truth = np.repeat([0, 1], 5)
    first = []
    for seed in range(60):
        federation = Federation.from_labelled(truth[:, None], truth, n=2, clusters_per_client=1, seed=seed)
        first.append(int(federation.parties[0].read()[0, 0]))
    assert set(first) == {0, 1}  # would fail by chance once in 2**59


# --- data frames -----------------------------------------------------------------------------------


class Frame:
    """As little of a data frame as all kinds of them have."""

    def __init__(self, **columns: list[float]) -> None:
        self.columns = list(columns)
        self._values = {name: np.array(values) for name, values in columns.items()}

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        return self._values[name]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return np.column_stack(list(self._values.values()))


def arrow(**columns: list[float]) -> Any:
    return pytest.importorskip("pyarrow").table(columns)


@pytest.mark.parametrize("frame", [Frame, arrow])
def test_columns_of_data_frames_are_matched_by_name(frame: Callable[..., Any]) -> None:
    one, other = frame(age=[1.0, 2.0], height=[3.0, 4.0]), frame(height=[5.0], age=[6.0])
    federation = Federation.from_arrays([one, other], server_points=frame(height=[7.0], age=[8.0]))
    assert federation.feature_names == ("age", "height")
    np.testing.assert_array_equal(federation.stacked(), [[1, 3], [2, 4], [6, 5]])
    np.testing.assert_array_equal(federation.server_points, [[8, 7]])
    whole = Federation.from_labelled(frame(b=[1.0, 2.0], a=[3.0, 4.0]), [0, 1], n=2)
    assert whole.feature_names == ("b", "a")


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([Frame(a=[1.0], b=[2.0]), Frame(a=[1.0], c=[2.0])], "missing are 'b', additional are 'c'"),
        ([Frame(a=[1.0], b=[2.0]), np.ones((1, 2))], "table 1 .* has no column names"),
        ([np.ones((1, 2)), Frame(a=[1.0], b=[2.0])], "table 0 .* has no column names"),
    ],
)
def test_data_frames_that_cannot_be_matched_are_refused(tables: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Federation.from_arrays(tables)


def test_new_points_are_matched_by_name_with_those_of_the_fit() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(3, 20, 2)) + rng.integers(0, 2, (3, 20, 1)) * [30, 3]
    clients = [Frame(age=x[:, 0], height=x[:, 1]) for x in points]
    turned = [Frame(height=x[:, 1], age=x[:, 0]) for x in points]
    result = secfc.fit(secfc.SecFC(2, 1), Federation.from_arrays(clients), seed=0)
    for ours, theirs in zip(result.labels, result.predict(Federation.from_arrays(turned)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(InputError, match="'age', 'weight'"):
        result.predict(Federation.from_arrays([Frame(age=x[:, 0], weight=x[:, 1]) for x in points]))
