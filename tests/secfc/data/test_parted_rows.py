"""Rows in parts elsewhere: the same labels as of rows in memory, and what comes back from the parts."""

import os
import pickle
import signal

import numpy as np
import pytest

import secfc
from secfc import FederatedLloyd, InputError
from secfc.cli.shell.written import own_lines
from secfc.data import parted_rows, resolution
from secfc.data.parted_rows import DaskParts, PartedRows
from secfc.data.sources import ParquetRows
from secfc.federated import model, parts
from tests.nightly import covering
from tests.secfc.federated.test_course import blobs

POINTS = np.array_split(blobs(900, 3, 4, 1)[0], 3)


class Named(dict):
    """A frame, as far as it is read."""

    columns = property(list)

    def __len__(self):
        return len(next(iter(self.values())))


class PickledParts:
    """Parts that functions reach, and leave, as bytes only.  sizes: of all that came back."""

    def __init__(self, given, sizes):
        self.given, self.sizes = [pickle.dumps(part) for part in given], sizes

    def map(self, f, *each):
        given = map(pickle.loads, self.given)
        return [f(*own, part) for *own, part in zip(*each, given, strict=True)]

    def run(self, f, *each):
        found = self.map(f, *each)
        self.sizes.append(len(pickle.dumps(found)))
        return found

    def keep(self, f, *each):
        return PickledParts(self.map(f, *each), self.sizes)

    def run_one(self, number, f):
        return self.run(f)[number]


def in_parts(points, sizes, count=4):
    # One part without a row: a filter leaves such.
    return PartedRows(PickledParts([*np.array_split(points, count), points[:0]], sizes))


def first_row(rows, wanted):
    """The only row that comes back: of what was seen squares are about it."""
    assert (wanted.start, wanted.stop) == (0, 1), wanted
    return rows._parts.run_one(0, lambda part: part[:1])


@pytest.mark.parametrize(
    ("few", "values"),
    covering(
        [1, model.FEW_VALUES],
        [{}, {"n_init": 2}, {"k": "auto"}, {"floor": 5}, {"start": secfc.Sampled(60, 1)}],
    ),
)
def test_rows_in_parts_have_the_labels_of_those_in_memory_and_stay_there(monkeypatch, values, few):
    way = FederatedLloyd(**{"k": 4, "coarse": "allow", **values})
    expected = secfc.fit(way, secfc.Federation.from_arrays(POINTS), seed=3)
    monkeypatch.setattr(model, "FEW_VALUES", few)
    sizes: list[int] = []
    data = secfc.Federation.from_arrays([in_parts(POINTS[0], sizes), *POINTS[1:]])
    monkeypatch.setattr(PartedRows, "__getitem__", first_row)
    # By a sample of rows, which comes here, rounding is judged.
    monkeypatch.setattr(resolution, "sample_rows", lambda party, rows: iter([np.zeros((1, 3))]))
    result = secfc.fit(way, data, seed=3)
    most = max(sizes)
    assert (result.flat == expected.flat).all()
    assert (result.centers == expected.centers).all()
    assert result.cost == expected.cost
    assert (result.curve is None) or (result.curve.silhouettes == expected.curve.silhouettes != ())
    assert (np.concatenate(result.predict(data)) == result.flat).all()
    # Sums of clusters do not grow with rows; labels do, which a floor brings.
    sizes.clear()
    many = secfc.Federation.from_arrays([in_parts(np.tile(POINTS[0], (20, 1)), sizes), *POINTS[1:]])
    secfc.fit(way, many, seed=3)
    assert (max(sizes) > 3 * most) == ("floor" in values)


def test_a_history_is_of_labels_that_are_all_here():
    data = secfc.Federation.from_arrays([in_parts(POINTS[0], []), *POINTS[1:]])
    result = secfc.fit(FederatedLloyd(4), data, seed=3)
    assert isinstance(result.labels[0], parts.PartLabels)
    assert result.history == ()
    assert result.labels[0][5:9].shape == (4,)
    head, *lines = own_lines(data.parties[0], result.labels[0])  # as a site writes them
    assert (head, [label for _, label in lines]) == (("row", "label"), result.labels[0][:].tolist())
    other = secfc.fit(secfc.Lloyd(4), data, seed=3)  # reads all rows, as of any file
    assert (other.flat == secfc.fit(secfc.Lloyd(4), secfc.Federation.from_arrays(POINTS), seed=3).flat).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([np.ones((2, 2)), np.ones((2, 3))], r"part 1 \(counted from 0\) of a client's rows has 3 columns"),
        ([np.array([["a", "b"]])], "dtype <U1: integers or floats"),
        ([np.ones(3)], "a part of a client's rows has"),
        (
            [Named(a=[1.0]), Named(a=[1.0], b=[2.0])],
            r"part 1 .* has columns \('a', 'b'\), and part 0 has \('a',\)",
        ),
        ([np.ones((1, 1)), Named(a=[1.0])], r"part 1 .* has columns \('a',\), and part 0 has None"),
    ],
)
def test_parts_that_are_no_rows_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        PartedRows(PickledParts(given, []))


@pytest.mark.parametrize("bad", [np.nan, 1e9])
def test_a_row_that_cannot_be_is_named_by_its_number_among_all(bad):
    points = POINTS[0].copy()
    points[200, 1] = bad
    data = secfc.Federation.from_arrays([in_parts(points, []), *POINTS[1:]])
    with pytest.raises(InputError, match=r"client-0.*row 200, feature 1"):
        secfc.fit(FederatedLloyd(4, coarse="allow"), data, bound=64.0)


def test_parts_that_change_are_refused():
    rows = in_parts(POINTS[0], [])
    rows._parts.given[2] = pickle.dumps(POINTS[0][:5])
    with pytest.raises(InputError, match="has 5 rows and had 75 before"):
        secfc.fit(
            FederatedLloyd(4, coarse="allow"), secfc.Federation.from_arrays([rows, *POINTS[1:]]), seed=3
        )


@pytest.mark.parametrize("way", [FederatedLloyd(4, coarse="allow"), FederatedLloyd("auto", coarse="allow")])
@pytest.mark.parametrize("change", [np.flipud, lambda part: part + 1.0])
def test_parts_that_are_other_rows_of_the_same_number_later_are_refused(way, change):
    """A graph that is not deterministic: labels and sums would be of different rows, and a run ended well."""

    class Recomputed(PickledParts):
        def keep(self, f, *each):
            later = Recomputed(self.map(f, *each), self.sizes)
            later.other = pickle.dumps(PickledParts([change(POINTS[0])], []).map(f, *each)[0])
            return later

        def run(self, f, *each):
            found = super().run(f, *each)
            if hasattr(self, "other") and len(self.sizes) > 6:
                self.given = [self.other]
            return found

    data = secfc.Federation.from_arrays([PartedRows(Recomputed([POINTS[0]], [])), *POINTS[1:]])
    with pytest.raises(InputError, match="'client-0' was computed again, and has other rows than before"):
        secfc.fit(way, data, seed=3, bound=32.0)


def test_parts_without_rows_change_no_type():
    rows = PartedRows(PickledParts([Named(a=[2**52 + 1]), Named(a=np.array([], object))], []))
    assert rows.dtype == np.int64
    assert rows[:].tolist() == [[2**52 + 1]]


def test_dask_gives_frames_arrays_and_tables(tmp_path):
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")
    pandas, frames = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    arrays = pytest.importorskip("dask.array")
    pq = pytest.importorskip("pyarrow.parquet")
    frame = pandas.DataFrame(POINTS[1], columns=list("abc")).assign(name="x")
    data = secfc.Federation.from_arrays(
        [
            secfc.DaskRows([dask.delayed(part) for part in np.array_split(POINTS[0], 3)]),
            secfc.DaskRows(frames.from_pandas(frame, npartitions=3), ["a", "b", "c"]),
            secfc.DaskRows(arrays.from_array(POINTS[2], chunks=(70, 2))),
        ]
    )
    way = FederatedLloyd(4)
    result = secfc.fit(way, data, seed=3)
    expected = secfc.fit(way, secfc.Federation.from_arrays(POINTS), seed=3)
    assert (result.flat == expected.flat).all()
    files = result.labels[0].write(str(tmp_path))
    assert np.concatenate([pq.read_table(f)["label"].to_numpy() for f in files]).tolist() == list(
        expected.labels[0]
    )
    with pytest.raises(InputError, match="no column 'd'"):
        secfc.DaskRows(frames.from_pandas(frame, npartitions=3), ["a", "d"])
    assert secfc.DaskRows([POINTS[0], POINTS[1]]).shape == (600, 3)  # tables of this machine
    with pytest.raises(InputError, match="no parts"):
        secfc.DaskRows([])
    with pytest.raises(InputError, match="one Parquet file"):
        secfc.DaskRows.of_file(POINTS[0], "tcp://nowhere:8786")


class KilledWorker(Exception):  # noqa: N818
    """What a cluster raises, as far as it is known by."""

    __module__ = "distributed.scheduler"


@pytest.mark.parametrize(
    ("error", "told"),
    [(KilledWorker(), ConnectionError), (PermissionError(), PermissionError), (InputError("x"), InputError)],
)
def test_a_cluster_that_is_lost_is_a_lost_connection_and_other_errors_stay(monkeypatch, error, told):
    class Dask:
        def delayed(self, f, **_):
            return f

        def compute(self, *_):
            raise error

    monkeypatch.setattr(parted_rows, "_dask", Dask)
    with pytest.raises(told, match="cluster lost its work" if told is ConnectionError else None):
        DaskParts([POINTS[0]]).run(len)


@pytest.mark.nightly
def test_a_file_that_workers_read_is_clustered_also_if_one_dies(tmp_path):
    distributed = pytest.importorskip("distributed")
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table(dict(zip("abc", POINTS[0].T, strict=True)))
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=80)
    way = FederatedLloyd(4, n_init=2)
    expected = secfc.fit(way, secfc.Federation.from_arrays(POINTS), seed=3)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        rows = secfc.DaskRows.of_file(
            ParquetRows(tmp_path / "a.parquet", ["a", "b", "c"]), cluster.scheduler_address
        )
        assert len(rows.firsts) == 4
        data = secfc.Federation.from_arrays([rows, *POINTS[1:]])
        assert (secfc.fit(way, data, seed=3).flat == expected.flat).all()
        # Kept parts are lost with the worker that has them, and rounded again.
        kept = parts.PartRows(rows, expected.plan.quantizer, [0, 1, 2], "client 'a'")
        before = kept.sum_squares()
        pids = list(rows.client.run(os.getpid).values())
        os.kill(pids[0], signal.SIGKILL)
        assert kept.sum_squares() == before
        rows.client.close()
