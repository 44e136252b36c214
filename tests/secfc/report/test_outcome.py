"""What each party has in the end: its own, and nothing that only another knows."""

import dataclasses

import numpy as np
import pytest

import secfc
from field import SeededCoins
from secfc.algorithm import PartyOutcome, PublicFacts, gather_result
from secfc.feddp import FedDPKMeans
from secfc.roles.exchange import SERVER
from secfc.transport.simulate import simulate
from tests.small import clustered

BOUND = 16.0


def hold_mixture():
    return clustered(m=40, server_points=np.random.default_rng(5).normal(size=(40, 3)))


def gather_run(algorithm):
    """(plan, what the roles returned) of a run."""
    fed = hold_mixture()
    plan = algorithm.plan(dataclasses.replace(PublicFacts.of(fed, BOUND), session=bytes(32), seed=1))
    coins = {name: SeededCoins(1, name) for name in (*fed.names, SERVER)}
    roles = {p.name: algorithm.client(plan, p, coins=coins[p.name]) for p in fed.parties}
    roles[SERVER] = algorithm.server(plan, rng=np.random.default_rng(1), coins=coins[SERVER])
    return plan, simulate(roles)


EVERY = {
    "secfc": secfc.SecFC(2, 1),
    "final labels": secfc.SecFC(2, 1, disclosure=secfc.FinalLabelsOnly()),
    "own labels": secfc.SecFC(2, 1, disclosure=secfc.OwnLabels(), release=secfc.Release(reveal_centers=True)),
    "centers": secfc.SecFC(2, 1, release=secfc.Release(reveal_centers=True)),
    "lloyd": secfc.Lloyd(2),
    "k-fed": secfc.KFed(2, 1),
    "feddp": FedDPKMeans(2, epsilon=1e4, delta=1e-6),
}


@pytest.mark.parametrize("name", EVERY)
def test_the_result_is_what_parties_have_put_together(name):
    algorithm = EVERY[name]
    plan, done = gather_run(algorithm)
    outcomes = {party: algorithm.outcome(plan, party, had) for party, had in done.results.items()}
    result = gather_result(algorithm, plan, done, hold_mixture().counts)
    for j, client in enumerate(plan.clients):
        own = outcomes[client]
        np.testing.assert_array_equal(own.labels, result.labels[j])
        # A client knows nothing of the server's findings, and no cost.
        assert (own.cost, own.history, own.deviated, own.disputes) == (None, (), {}, ())
        assert own.learned
        assert repr(own) == f"Outcome({client!r}, points=8)"
    server = outcomes[SERVER]
    assert server.labels is None
    assert server.learned == result.learned
    assert server.cost == result.cost
    assert len(server.history) == len(result.history)


def test_opened_centers_are_what_clients_have_too():
    algorithm = EVERY["centers"]
    plan, done = gather_run(algorithm)
    server, *clients = [algorithm.outcome(plan, c, done.results[c]) for c in (SERVER, *plan.clients)]
    assert server.centers.shape == (2, 3)
    for own in clients:
        np.testing.assert_array_equal(own.centers, server.centers)
        assert "the centers of clusters of at least 3 points" in own.learned
    plan, done = gather_run(EVERY["secfc"])
    assert EVERY["secfc"].outcome(plan, "client-0", done.results["client-0"]).centers is None


def test_who_missed_the_end_has_no_labels():
    algorithm = EVERY["secfc"]
    plan, done = gather_run(algorithm)
    results = {party: had for party, had in done.results.items() if party != "client-3"}
    result = gather_result(algorithm, plan, dataclasses.replace(done, results=results), hold_mixture().counts)
    assert (result.labels[3] == -1).all()
    assert (result.rows[3] == -1).all()
    assert (result.labels[2] >= 0).all()


def test_a_result_without_a_driver_predicts_with_the_roles_of_its_parties():
    algorithm = EVERY["secfc"]
    plan, done = gather_run(algorithm)
    with pytest.raises(ValueError, match=r"not one of `secfc.fit`"):
        gather_result(algorithm, plan, done, hold_mixture().counts).predict(hold_mixture())


def test_shares_and_points_are_not_shown():
    assert "secret" not in repr(PartyOutcome("a", None, share="secret", details="secret"))
