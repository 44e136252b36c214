"""Servers with points of their own: what they get, and that clients do not keep it."""

import sys
import types

import numpy as np
import pytest

from benchmarks.server_points import (
    CATEGORIES,
    load_census,
    load_vectors,
    one_hot,
    server_side_mixture,
    split_with_server,
)
from secfc.errors import InputError


def test_the_mixture_is_the_papers():
    points, truth, means, server = server_side_mixture(20, 500, np.random.default_rng(0))
    assert points.shape == (10_000, 100)
    assert server.shape == (300, 100)
    assert ((means >= 0) & (means <= 1)).all()
    np.testing.assert_allclose((points - means[truth]).var(), 0.5, rtol=0.01)
    for h in range(10):
        near = server[20 * h : 20 * (h + 1)]
        assert np.linalg.norm(near.mean(axis=0) - means[h]) < 2.2  # sqrt(100 * 0.5 / 20) is 1.58
    assert (np.bincount(truth) > 850).all()
    few = server_side_mixture(20, 5, np.random.default_rng(0), missing=4)[3]
    assert few.shape == (220, 100)
    with pytest.raises(InputError, match="missing=10"):
        server_side_mixture(20, 5, np.random.default_rng(0), missing=10)


def test_public_points_are_taken_from_the_clients():
    points = np.arange(40.0)[:, None]
    owners = np.array(["b", "a", "c", "d"] * 10)
    groups = np.repeat([7, 8, 9, 7], 10)
    data = split_with_server(points, owners, groups, (7, 8), inside=3, outside=5, seed=1, least=2)
    assert data.names == ("a", "b", "c", "d")
    server = data.server_points[:, 0].astype(int)
    assert len(server) == 11
    assert (groups[server[:3]] == 7).all()
    assert (groups[server[3:6]] == 8).all()
    assert (groups[server[6:]] == 9).all()
    clients = data.stacked()[:, 0].astype(int)
    assert not set(clients) & set(server)
    assert sorted([*clients, *server[:6]]) == np.flatnonzero(groups != 9).tolist()
    for party in data.parties:
        assert set(owners[party.read()[:, 0].astype(int)]) == {party.name}


def test_owners_of_few_rows_take_no_part():
    owners = np.array([1, 1, 1, 2, 2, 3])
    data = split_with_server(np.eye(6), owners, np.zeros(6), (0,), inside=0, outside=0, seed=0, least=2)
    assert data.names == ("1", "2")
    with pytest.raises(InputError, match="no owner has 4 rows"):
        split_with_server(np.eye(6), owners, np.zeros(6), (0,), inside=0, outside=0, seed=0, least=4)
    with pytest.raises(InputError, match="other groups has 0 rows"):
        split_with_server(np.eye(6), owners, np.zeros(6), (0,), inside=0, outside=1, seed=0)


def test_vectors_of_users(tmp_path):
    rng = np.random.default_rng(0)
    file = tmp_path / "text.npz"
    topics = np.array(["pdf", "github", "math"] * 20)
    np.savez(file, X=rng.standard_normal((60, 5)), user=rng.integers(0, 7, 60), topic=topics)
    data = load_vectors(file, ("pdf", "github"), inside=2, outside=10)
    assert data.server_points.shape == (14, 5)
    assert data.m == 40 - 4
    np.savez(file, X=np.eye(3))
    with pytest.raises(InputError, match="no array topic, user"):
        load_vectors(file, ("pdf",))


def test_census_rows_are_bits_of_seven_categories(tmp_path):
    rng = np.random.default_rng(0)
    table = {name: rng.integers(0, 5, 3000) for name in CATEGORIES}
    work = rng.choice([1, 2, 5, 6], 3000)
    file = tmp_path / "census.npz"
    np.savez(file, state=rng.integers(0, 6, 3000), COW=work, **table)
    data = load_census(file, "federal", inside=20, outside=100)
    assert data.n == 6
    assert data.d == 35
    assert data.m == (work == 5).sum() - 20
    assert (data.stacked().sum(axis=1) == 7).all()
    assert data.server_points.shape == (120, 35)
    with pytest.raises(InputError, match="employment='army'"):
        load_census(file, "army")
    np.savez(file, state=work)
    with pytest.raises(InputError, match="has no array COW"):
        load_census(file, "federal")


class Column:
    """As much of a column of pandas as is needed to read one."""

    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        return self.values


class Frame(dict):
    """As much of a data frame."""

    def __getitem__(self, name):
        return Column(super().__getitem__(name))


def folktables_of(frame):
    """A stand-in for the package: people of all states, of whom `adult_filter` keeps those who work."""
    asked = []

    class ACSDataSource:
        def __init__(self, survey_year, horizon, survey, root_dir="data"):
            asked.append((survey_year, horizon, survey, root_dir))

        def get_data(self, states=None, density=1.0, random_seed=0, join_household=False, download=False):
            assert states is None
            assert density == 1.0
            assert not download
            if frame is None:
                raise FileNotFoundError("Could not find data for AL.")
            return frame

    def adult_filter(data):
        keep = data["WKHP"].to_numpy() > 0
        return Frame({name: data[name].to_numpy()[keep] for name in data})

    module = types.ModuleType("folktables")
    module.ACSDataSource, module.adult_filter = ACSDataSource, adult_filter
    return module, asked


def test_census_from_a_folder_of_folktables(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    m = 3000
    table = {name: rng.integers(0, 5, m).astype(float) for name in CATEGORIES}
    hours, work = rng.integers(0, 3, m) * 20.0, rng.choice([1.0, 2.0, 5.0, 6.0], m)
    # Whoever does not work has no class of worker: such rows must be filtered before they are read.
    work[hours == 0] = np.nan
    state = rng.choice([1, 2, 4, 72], m)
    frame = Frame({**table, "COW": work, "ST": state, "WKHP": hours})
    module, asked = folktables_of(frame)
    monkeypatch.setitem(sys.modules, "folktables", module)
    found = load_census(tmp_path, "federal", inside=20, outside=100)
    assert asked == [("2018", "1-Year", "person", str(tmp_path))]
    assert sorted(map(int, found.names)) == [1, 2, 4, 72]
    keep = hours > 0
    file = tmp_path / "same.npz"
    np.savez(file, state=state[keep], COW=work[keep], **{name: v[keep] for name, v in table.items()})
    same = load_census(file, "federal", inside=20, outside=100)
    assert (found.stacked() == same.stacked()).all()
    assert (found.server_points == same.server_points).all()


def test_census_folders_that_cannot_be_read(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "folktables", None)
    with pytest.raises(InputError, match="pip install folktables"):
        load_census(tmp_path, "federal")
    monkeypatch.setitem(sys.modules, "folktables", folktables_of(None)[0])
    with pytest.raises(InputError, match=r"lacks data of some states: Could not find data for AL\."):
        load_census(tmp_path, "federal")
    with pytest.raises(InputError, match="neither"):
        load_census(tmp_path / "missing", "federal")
    assert not (tmp_path / "missing").exists()


def test_one_hot_by_hand():
    assert one_hot([np.array([3, 1, 3]), np.array([0, 0, 0])]).tolist() == [[0, 1, 1], [1, 0, 1], [0, 1, 1]]
