"""Servers with points of their own: what they get, and that clients do not keep it."""

import numpy as np
import pytest

from secfc.data import server_side_mixture
from secfc.inputs import InputError
from secfc.serverside import CATEGORIES, load_census, load_vectors, one_hot, split_with_server


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


def test_one_hot_by_hand():
    assert one_hot([np.array([3, 1, 3]), np.array([0, 0, 0])]).tolist() == [[0, 1, 1], [1, 0, 1], [0, 1, 1]]
