"""A23: a server that lies in what it alone decodes, gains or labels of `Distances()`, or in what it deals."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import secfc
from field import SeededCoins
from secfc.coded.source import CodedSource
from secfc.errors import SuspectedParties
from secfc.kmeans.loop import Step
from secfc.roles.exchange import SERVER
from tests.secfc.active.deviating import flip_dealt_bits
from tests.secfc.test_pairs import DATA, WAY
from tests.small import cluster, clustered, federation, split


def split_the_worst(monkeypatch):
    """The server takes the split that gains least."""

    def worst(self, labels, c, choose):
        gains = yield from self.labeling.gains_of_halves(labels, c)
        return choose(tuple(-gain for gain in gains))

    monkeypatch.setattr(CodedSource, "split_clusters", worst)


@pytest.mark.parametrize("disclosure", [secfc.AssignmentsOnly(), secfc.Distances()], ids=repr)
def test_false_gains_at_the_server_take_another_planned_split_and_every_step_is_exact(
    disclosure, monkeypatch
):
    data = clustered(5, 60, 2, seed=3)
    way = secfc.SecFC(4, 1, secfc.Bisecting(), disclosure=disclosure)
    honest = secfc.fit(way, data, seed=1)
    split_the_worst(monkeypatch)
    found = secfc.fit(way, data, seed=1)
    assert any((a != b).any() for a, b in zip(honest.history, found.history, strict=False))
    assert found.converged
    # The steps from there are Lloyd's, as plaintext takes them.
    plain = secfc.fit(secfc.Lloyd(4, secfc.GivenLabels(found.history[0])), data)
    assert (plain.flat == found.flat).all()


@pytest.mark.parametrize("disclosure", [secfc.Distances(), secfc.AssignmentsOnly()], ids=repr)
def test_a_server_that_decodes_labels_can_say_others_and_else_is_refused(disclosure, monkeypatch):
    take = CodedSource.take_step

    def lying(self, labels, k, moved=None):
        step = yield from take(self, labels, k, moved)
        other = step.labels.copy()
        other[0] = (other[0] + 1) % k
        return Step(other, step.within)

    data = federation(5, 24, 2)
    way = secfc.SecFC(2, 1, secfc.RandomLabels(), max_iter=2, disclosure=disclosure)
    honest = secfc.fit(way, data, seed=1)
    monkeypatch.setattr(CodedSource, "take_step", lying)
    if isinstance(disclosure, secfc.Distances):
        assert (secfc.fit(way, data, seed=1).flat != honest.flat).any()
    else:
        with pytest.raises(SuspectedParties, match="the labels that are next") as caught:
            secfc.fit(way, data, seed=1)
        assert SERVER in caught.value.parties


def test_a_server_that_alone_knows_who_is_near_can_tell_a_client_other_labels():
    honest = secfc.fit(WAY, DATA)

    def faults(e):
        if (e.kind, e.recipient) != ("InputPartyResult", "client-1"):
            return (e,)
        return (replace(e, body=replace(e.body, labels=e.body.labels[::-1].copy())),)

    found = secfc.fit(WAY, DATA, faults=faults)
    assert (found.labels[1] == honest.labels[1][::-1]).all()
    assert (found.labels[1] != honest.labels[1]).any()


def test_a_dealer_that_exchanges_rows_modulo_one_prime_reads_how_they_differ_of_revealed_centers(
    monkeypatch,
):
    """Labels are checked modulo each prime; of one row alone sizes would not fit."""
    rng, side = np.random.default_rng(0), np.arange(24) % 2
    points, told = rng.normal(size=(24, 2)) + np.stack([10 * side - 5, 0 * side], axis=1), {}

    def faults(e):
        if e.kind == "CodedCenters":
            told[e.sender] = e.body.values
        return (e,)

    def reveal():
        release, coins = secfc.Release(reveal_centers=True), partial(SeededCoins, 3)
        return cluster(
            split(points, 4), secfc.OwnLabels(), k=2, init="random", max_iter=1, release=release,
            faults=faults, coins=coins,
        )  # fmt: skip

    def read(plan):
        """What sums say modulo the first prime, less modulo the second."""
        shares = {plan.clients.index(c): values for c, values in told.items()}
        sums = plan.code.interpolate(shares, 1)[:2, 0].astype(object)
        first, second = (
            (x + p // 2) % p - p // 2 for x, p in zip(sums, plan.code.basis.primes, strict=False)
        )
        return (first - second).tolist()

    plan = reveal().plan
    rows = plan.quantizer(points) * plan.layout.multiple
    assert read(plan) == [[0, 0], [0, 0]]  # a control
    flip_dealt_bits(monkeypatch, exchanged := [0, 1], lambda _: True)
    reveal()
    assert sorted(read(plan)) == sorted([(rows[0] - rows[1]).tolist(), (rows[1] - rows[0]).tolist()])
    exchanged.remove(0)
    with pytest.raises(SuspectedParties, match="do not fit the shares of labels"):
        reveal()
