"""Whoever shares points within the bound is never refused, and its rows arrive unchanged."""

import dataclasses

import numpy as np
import pytest

import secfc
from field import SeededCoins, SystemCoins
from field.code.range_check import Projections
from secfc.algorithm import PublicFacts
from secfc.coded import input_check
from secfc.coded.membership import RowContribution
from secfc.coded.plan import HiddenOwnerLayout
from secfc.coded.sharing import settle_contributors, settle_contributors_at_server, share_rows
from secfc.errors import FaultyClient, MasksSpent
from secfc.roles.exchange import SERVER
from secfc.transport.simulate import simulate
from tests.secfc.active.deviating import shameless

# (rows of each client, features, ell, t, whether all clients share all rows)
SETTINGS = [
    ((2, 1, 3), 2, 1, 1, False),
    ((3, 2, 2, 4, 1), 3, 2, 1, False),
    ((70, 2, 3), 2, 1, 1, False),
    ((2, 2, 2), 2, 1, 1, True),
]


def plan_of(counts, d, ell, t, mixed):
    """A tiny plan: blocks of 16 words, so that rows make several."""
    rng = np.random.default_rng(0)
    points = np.split(rng.uniform(-1, 1, (sum(counts), d)), np.cumsum(counts)[:-1])
    public = dataclasses.replace(PublicFacts.of(secfc.Federation.from_arrays(points), 1.0), session=bytes(32))
    plan = secfc.SecFC(
        k=2,
        threshold=secfc.Threshold(t, ell),
        quantization=secfc.Quantization(scale=16.0),
        disclosure=secfc.Distances(),
    ).plan(public)
    if mixed:
        plan = dataclasses.replace(plan, layout=HiddenOwnerLayout(plan.m, len(counts)))
    return dataclasses.replace(plan, block=16)


def arrive(plan, values, coins):
    """Every party shares values[j] and tests what others shared: (plan, rows) by client."""

    def client(j, name):
        def nothing(rows):
            yield from ()

        begins, count = plan.layout.span(j)
        mine = RowContribution(name, lambda a, b: values[j][a:b], np.arange(begins, begins + count), nothing)
        received = yield from share_rows(plan, mine, coins(name))
        return (yield from settle_contributors(plan, mine, received, coins(name + " judges")))

    roles = {name: client(j, name) for j, name in enumerate(plan.clients)}
    roles[SERVER] = settle_contributors_at_server(plan, coins(SERVER))
    return simulate(roles).results


def check(plan, rng, coins):
    """One run of rows that are as large as the bound allows, all or most of them."""
    most = plan.quantizer.max_int
    share = rng.choice([0.0, 0.5, 1.0])
    values = []
    for j in range(len(plan.clients)):
        shape = plan.layout.span(j)[1], plan.d
        extreme = np.where(rng.random(shape) < rng.choice([0.0, 0.5]), -most, most)
        values.append(np.where(rng.random(shape) < share, extreme, rng.integers(-most, most + 1, shape)))
    results = arrive(plan, values, coins)
    shared = np.sum(values, axis=0) if plan.layout.mixed else np.concatenate(values)
    told = {j: results[name][1].read_rows(0, plan.m) for j, name in enumerate(plan.clients)}
    assert all(results[name][0] is plan for name in (*plan.clients, SERVER))
    segments = plan.code.interpolate(told, 1)
    got = plan.code.basis.lift_signed(segments).transpose(1, 0, 2).reshape(plan.m, -1)[:, : plan.d]
    assert got.tolist() == shared.tolist()


@pytest.mark.parametrize("setting", SETTINGS)
def test_honest_rows_arrive_and_are_not_refused(setting):
    plan = plan_of(*setting)
    for seed in range(5):
        check(plan, np.random.default_rng(seed), lambda name, seed=seed: SeededCoins(seed, name))


def test_the_check_can_refuse(monkeypatch):
    # Positive control: one value beyond all that passes, under whatever masks hide the most of it.
    monkeypatch.setattr(input_check, "select_masks", shameless)
    plan = plan_of(*SETTINGS[0])
    values = [np.zeros((count, 2), np.int64) for count in SETTINGS[0][0]]
    values[1][0, 0] = plan.projections.proven + 1
    with pytest.raises(FaultyClient, match="beyond the public bound") as caught:
        arrive(plan, values, lambda name: SeededCoins(0, name))
    assert caught.value.party == plan.clients[1]


def test_masks_that_reach_no_further_than_sums_run_out(monkeypatch):
    plan = plan_of(*SETTINGS[2])
    monkeypatch.setattr(Projections, "reach", property(lambda self: self.beta + 1))
    with pytest.raises(MasksSpent):
        check(plan, np.random.default_rng(0), lambda name: SeededCoins(0, name))


@pytest.mark.nightly
@pytest.mark.parametrize("setting", SETTINGS)
def test_ten_thousand_honest_runs_are_not_refused(setting):
    plan, rng = plan_of(*setting), np.random.default_rng()
    for _ in range(10_000 // len(SETTINGS)):
        check(plan, rng, lambda name: SystemCoins())
