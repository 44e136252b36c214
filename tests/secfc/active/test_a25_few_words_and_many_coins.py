"""A25: what losses leave to who deviates: sums that few words open, and coins that are tossed once more.

Of a sum w shares notice w - ell - t false ones.  Where members are lost two that deviate
of t = 2 may be more than that.  A server that calls a client silent, once it has heard all coins, has another
seed tossed, and may do so as long as clients enough are left.
"""

import itertools
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

import secfc
from field import SeededCoins
from secfc.algorithm import PublicFacts
from secfc.attacks.views import View
from secfc.coded_kmeans import algorithm1
from secfc.errors import SuspectedParties
from secfc.federated import algorithm as lloyd
from secfc.federated.views import added_values, told_values
from secfc.roles.exchange import SERVER
from secfc.secure_sum.protocol import CodedSum, SumPlan
from secfc.transport.simulate import simulate
from tests.nightly import short
from tests.secfc.active.test_a20_last_words import SUMS
from tests.secfc.secure_sum.test_aggregate import names, sum_vectors
from tests.small import federation

# --- sums of few words --------------------------------------------------------------------------------


def adding(plan, lost, deviating, number, turn=0):
    """Members are lost in a sum, and words of who deviates are of one whose first number is so much larger.

    If all others that come are true.  turn: which sum of a run it is.
    """
    code = plan.code
    rounds, honest = [], [plan.seats[c] for c in plan.committee if c not in (*lost, *deviating)][: code.t]

    def faults(e):
        rounds.extend([e.round] * (e.kind == "Contributors" and e.round not in rounds))
        if len(rounds) != turn + 1 or e.kind not in ("Contributors", "CodedSum"):
            return (e,)
        if e.sender in lost or e.sender not in deviating or e.kind == "Contributors":
            return () if e.sender in lost else (e,)
        values = e.body.values
        more = code.basis.reduce(number * (np.arange(values.shape[1]) == 0)[None])
        zeros = np.zeros((code.basis.lanes, code.t, *more.shape[1:]), values.dtype)
        (error,) = code.extend(more, zeros, honest, [plan.seats[e.sender]])
        return (replace(e, body=CodedSum(code.basis.add(values, error[:, 0]))),)

    return faults


def test_as_many_that_deviate_as_there_are_words_beyond_those_that_decode_make_a_sum_anything():
    """t = 2 of seven: two of four words do, always; two of five end the run, and one of four, always."""
    plan, rng = SumPlan.of(names(7), 2**40, t=2), np.random.default_rng(0)
    vectors = rng.integers(-9, 9, (1, 7, 3))
    for _ in range(short(15, nightly=100)):
        order = [plan.committee[int(j)] for j in rng.permutation(7)]
        number = int(rng.integers(1, 2**40))
        (total,), _ = sum_vectors(plan, vectors, adding(plan, order[4:], order[:2], number))
        assert (total.total - vectors[0].sum(axis=0)).tolist() == [number, 0, 0]
        for lost, deviating in ((order[5:], order[:2]), (order[4:], order[:1])):
            with pytest.raises(SuspectedParties, match="on no polynomial"):
                sum_vectors(plan, vectors, adding(plan, lost, deviating, number))


@pytest.mark.parametrize("lost", [3, 2])
def test_of_four_words_two_move_centers_and_of_five_the_run_ends(lost):
    data, way = federation(7, 63, 2), replace(SUMS, t=2, max_iter=1)
    honest = secfc.fit(way, data, seed=1)
    plan = honest.plan.sums
    lies = adding(plan, plan.committee[7 - lost :], plan.committee[:2], int(honest.plan.quantizer.scale), 2)
    if lost == 2:
        with pytest.raises(SuspectedParties, match="on no polynomial"):
            secfc.fit(way, data, seed=1, faults=lies)
    else:
        found = secfc.fit(way, data, seed=1, faults=lies)
        assert not found.excluded
        assert (found.centers != honest.centers).any()


# --- coins once more ------------------------------------------------------------------------------------


class Refusing:
    """A server that calls a client silent whose coin it has heard, where the seed displeases it.

    left: whose coins it waits for.  tosses: how many seeds it saw.
    """

    def __init__(self, table, pleases):
        self.table, self.pleases, self.left, self.coins, self.tosses = table, pleases, set(), {}, 0

    def __call__(self, e):
        if (e.kind, e.round) == ("Commitment", self.table.first):
            self.left.add(e.sender)
        if e.kind != "Coin" or e.sender not in self.left:
            return (e,)
        self.coins[e.sender] = e.body.value
        if self.coins.keys() != self.left:
            return (e,)
        told, self.coins = self.table.told(self.coins), {}
        self.tosses += 1
        if len(self.left) == self.table.needed or self.pleases(self.table.seed(told.there, told.values)):
            return (e,)
        self.left.remove(e.sender)
        return ()


def begin_together(seed):
    """Whether the first two of 24 rows begin in one cluster of two."""
    labels = np.random.default_rng(algorithm1._start(seed)).integers(0, 2, 24)
    return labels[0] == labels[1]


def test_a_server_chooses_among_as_many_starts_as_it_may_call_clients_silent():
    """Of six clients three must toss: of four seeds it takes the first that pleases it, 15 of 16 times."""
    data, way = federation(6, 24, 2), secfc.SecFC(2, 1, secfc.RandomLabels(), max_iter=1)
    plan = way.plan(replace(PublicFacts.of(data, None), session=bytes(32), seed=None))
    found = {}
    # Control: a server that any seed pleases.
    for pleases in (begin_together, lambda _: True):
        for run in range(short(6, nightly=100)):
            coins = {name: SeededCoins(run, name) for name in (*data.names, SERVER)}
            roles = {party.name: way.client(plan, party, coins=coins[party.name]) for party in data.parties}
            roles[SERVER] = way.server(plan, rng=np.random.default_rng(0), coins=coins[SERVER])
            server = Refusing(algorithm1.start_toss(plan), pleases)
            results = simulate(roles, faults=server).results
            # Whom it calls silent are lost, and nothing else tells others that it did.
            assert len(results) == len(roles) - (server.tosses - 1)
            start = results[SERVER].trace.history[0]
            found.setdefault(pleases, []).append((server.tosses, bool(start[0] == start[1])))
    chosen, any_seed = found.values()
    assert {tosses for tosses, _ in any_seed} == {1}
    assert all(together or tosses == 4 for tosses, together in chosen)
    assert max(tosses for tosses, _ in chosen) > 2
    assert sum(together for _, together in chosen) > sum(together for _, together in any_seed)


PARTS = [np.zeros((900, 2)), *np.random.default_rng(0).normal(size=(2, 10, 2))]  # 900 rows are client-0's


@pytest.mark.parametrize("chooses", [True, False])
def test_who_deals_the_key_of_a_run_draws_until_a_sample_has_one_row_of_others(chooses, monkeypatch):
    """As whoever gives a public seed: numbers of rows tell which of a client's are in a sample."""
    start = secfc.Sampled(30)
    keys = (number.to_bytes(32, "little") for number in itertools.count())
    places = ([start.draw_places(key, f"client-{j}", 10, 920)[0] for j in (1, 2)] for key in keys)
    wanted = lambda own: [*map(len, own)] == [1, 0]  # noqa: E731
    number, (place, _) = next((i, own) for i, own in enumerate(places) if wanted(own) or not chooses)
    deal = lloyd.share_key

    def dealing(plan, me, coins):
        return deal(plan, me, Mock(bytes=lambda size: number.to_bytes(size, "little")))

    monkeypatch.setattr(lloyd, "share_key", dealing)
    way = secfc.FederatedLloyd(2, start, max_iter=3)
    data = secfc.Federation.from_arrays(PARTS)
    run = secfc.fit(way, data, bound=16.0, seed=None, keep_bodies=True)
    view = View.of(run, run.plan, "client-0")
    told, own = told_values(view), added_values(view, "client-0")
    first = min(told)
    sums = (next(iter(told[first].values())) - own[first]).tolist()
    row = np.rint(PARTS[1][place] * run.plan.quantizer.scale).astype(int)
    # Features of the row, and that there is one.
    assert (sums[:3] == [*row[0].tolist(), 1]) == chooses
