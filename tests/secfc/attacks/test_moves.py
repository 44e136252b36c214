"""Rows from sums of successive steps: found where one moves alone, by the server and by other holders."""

import numpy as np
import pytest

import secfc
from secfc.attacks.reconstruction import KnownSums, single_row_moves
from secfc.attacks.views import View
from secfc.federated.views import others_sums
from secfc.roles.exchange import SERVER
from tests.secfc.overlap.cases import CHAIN, Turned, hold_columns


def data(lone=(1,)):
    """A chain of clients with two clusters, at 0 and 100; `lone` ones have a row of the second in their first
    half.
    """
    rng = np.random.default_rng(0)
    parts = []
    for j, own in enumerate(CHAIN):
        first, second = rng.integers(-9, 10, (2, 8, len(own))).astype(float)
        odd = np.array([[137.0, 141.0]])[: int(j in lone)]
        parts.append(np.concatenate([first, odd, second + 100]))
    return parts, hold_columns(parts, CHAIN)


class Halves(Turned):
    """Clusters as the rows stand, in both halves of a client."""

    def group_centroids(self, found, k):
        groups = super().group_centroids(found, k)
        groups.labels[:] = np.arange(len(found.values)) % k
        return groups


def fitted(lone=(1,), **more):
    parts, given = data(lone)
    way = secfc.FederatedLloyd(2, start=Halves(**more), scale=1.0, blind=False, coarse="allow")
    return parts, secfc.fit(way, given, keep_bodies=True)


def guesses(result, *parties):
    return single_row_moves(others_sums(View.of(result, result.plan, parties)))


def real(result, parts, guess, step):
    """Whether the values are those of a row of some holder, on these features."""
    columns = result.plan.columns
    for j, client in enumerate(columns.clients):
        mine = columns.mine(client)
        place = {f: i for i, f in enumerate(mine.shared.tolist())}
        if all(f in place for f in guess.features.tolist()):
            rows = parts[j][:, mine.inside][:, [place[f] for f in guess.features.tolist()]]
            if (rows == guess.values).all(axis=1).any():
                return True
    return False


def test_a_row_that_moves_alone_is_told_to_the_server_on_every_group_of_features():
    parts, result = fitted()
    row = parts[1][8]
    assert np.flatnonzero(result.history[0] != result.history[1]).tolist() == [16 + 8]
    found = guesses(result, SERVER)
    assert sorted(guess.values.tolist() for guess in found) == [[row[0]], [row[1]]]
    assert {(guess.step, guess.before, guess.after) for guess in found} == {(1, 0, 1)}
    assert "41" not in repr(found) + repr(others_sums(View.of(result, result.plan, SERVER)))


def test_a_neighbor_is_told_it_on_the_feature_that_both_observe_and_others_are_not():
    parts, result = fitted()
    (found,) = guesses(result, "client-0")
    assert found.values.tolist() == [parts[1][8, 0]]
    assert guesses(result, "client-3") == []


def test_a_client_subtracts_its_own_moves():
    # Rows of two neighbors move at once: the server sees their sum, each neighbor the other's.
    parts, result = fitted((1, 2))
    shared = result.plan.columns.mine("client-1").shared[1]
    (theirs,) = [g for g in guesses(result, "client-1") if shared in g.features]
    assert theirs.values.tolist() == [parts[2][8, 0]]
    assert not [g for g in guesses(result, SERVER) if shared in g.features]
    # Whoever owned both rows has nothing to learn.
    assert not [g for g in guesses(result, "client-1", "client-2") if shared in g.features]


def test_rows_that_move_together_are_not_told():
    parts, given = data(())
    way = secfc.FederatedLloyd(2, start=Turned(), scale=1.0, blind=False, coarse="allow")
    result = secfc.fit(way, given, keep_bodies=True)
    assert (result.history[0] != result.history[-1]).sum() > 8
    assert not any(real(result, parts, guess, 1) for guess in guesses(result, SERVER))


def test_a_move_is_one_more_one_less_and_the_same_gained_and_lost():
    sums = np.array([[[5, 1], [7, 0]], [[9, 1], [3, 0]], [[9, 5], [3, -4]]])
    group = np.array([0, 1])
    counts = np.array([[[2, 1], [3, 1]], [[3, 1], [2, 1]], [[3, 1], [2, 1]]])
    (found,) = single_row_moves(KnownSums(sums, counts, group))
    assert (found.step, found.group, found.values.tolist(), found.before, found.after) == (1, 0, [4], 1, 0)
    assert (
        single_row_moves(
            KnownSums(sums + np.array([[[0, 0], [0, 0]], [[1, 0], [0, 0]], [[1, 0], [0, 0]]]), counts, group)
        )
        == []
    )
    assert single_row_moves(KnownSums(sums, counts, np.array([-1, -1]))) == []


@pytest.mark.parametrize("lone", [(1,), (1, 2)])
def test_values_of_nobody_are_not_real(lone):
    # Control of the judge.
    parts, result = fitted(lone)
    for guess in guesses(result, SERVER):
        assert real(result, parts, guess, 1)
        guess.values[:] += 1
        assert not real(result, parts, guess, 1)
