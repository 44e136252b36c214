"""Shares from seeds: the same sums, uniform shares, fewer messages, and nothing opened for who is lost."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

import secfc
from field.code.lagrange_code import LagrangeCode
from field.ring.basis import LANE_PRIMES, Basis
from field.secrets.coins import SeededCoins
from secfc.errors import FaultyClient, SuspectedParties
from secfc.federated.algorithm import FederatedLloyd
from secfc.roles.exchange import SERVER
from secfc.secure_sum import seeds as seeding
from secfc.secure_sum.protocol import (
    ROUNDS,
    SumPlan,
    contribute_vector,
    receive_sum,
)
from secfc.secure_sum.seeds import ShareSeed, ShareSeeds, deal_seeds, expand_seeds
from secfc.transport.simulate import deliver_all, simulate
from tests.nightly import trials

FIRST = 10


def names(n):
    return tuple(f"client-{j}" for j in range(n))


def plan_of(n, bound=2**20, ell=1, losses=None, **values):
    return dataclasses.replace(SumPlan.of(names(n), bound, ell=ell, losses=losses), **values)


def sum_vectors(plan, vectors, faults=deliver_all):
    """What the server learns of sums of (sums, n, D)."""
    places = {name: j for j, name in enumerate(plan.clients)}

    def client(name):
        coins = SeededCoins(0, name)
        seeds = yield from deal_seeds(plan, name, coins, 0)
        own = [places[c] for c in plan.speaks_for(name)]
        for s, vector in enumerate(vectors):
            mine = vector[own] if len(own) > 1 else vector[own[0]]
            yield from contribute_vector(plan, name, mine, FIRST + s * ROUNDS, coins, seeds=seeds)

    def server():
        totals = []
        for s in range(len(vectors)):
            totals.append((yield from receive_sum(plan, vectors.shape[2], FIRST + s * ROUNDS)))
        return totals

    roles = {name: client(name) for name in plan.speakers} | {SERVER: server()}
    done = simulate(roles, faults=faults, keep_bodies=True)
    return done.results[SERVER], done


@trials(10, nightly=100)
@given(
    st.integers(3, 18), st.integers(1, 9), st.integers(0, 2**32), st.sampled_from([1, 2**20, 2**45]),
    st.booleans(),
)  # fmt: skip
def test_sums_are_those_of_the_vectors_and_members_with_seeds_hear_no_shares(
    n, length, seed, bound, together
):
    rng = np.random.default_rng(seed)
    t, largest = max(1, min(n, 15) // 3), (min(n, 15) + 1) // 2
    plan = plan_of(n, bound, ell=int(rng.integers(1, largest - t + 1)), together=together)
    vectors = rng.integers(-bound, bound, (3, n, length), endpoint=True)
    totals, done = sum_vectors(plan, vectors)
    for total, parts in zip(totals, vectors, strict=True):
        assert (total.total.tolist(), total.clients) == (parts.sum(axis=0).tolist(), plan.clients)
    heard = {e.recipient for e in done.transcript.envelopes if e.kind == "SumShares"}
    assert heard == set(plan.committee[: plan.code.n - t])
    speaking = {e.sender for e in done.transcript.envelopes if e.kind == "SumShares"}
    assert speaking == set(plan.speakers)
    assert len(plan.speakers) == (min(n, 16) if together else n)


def test_who_is_lost_between_is_in_no_sum_and_in_the_next_again():
    plan = plan_of(18, losses=4)
    vectors = np.random.default_rng(0).integers(-9, 9, (3, 18, 4))
    lost, whole = "client-2", set(plan.clients)

    def faults(envelope):
        # In the second sum the shares of one client reach some members, but not all of those without seeds.
        second = envelope.round == FIRST + ROUNDS and envelope.sender == lost
        return () if second and envelope.recipient in plan.committee[:4] else (envelope,)

    totals, _ = sum_vectors(plan, vectors, faults)
    for s, total in enumerate(totals):
        counted = [c for c in plan.clients if s != 1 or c != lost]
        assert total.clients == tuple(counted)
        places = [plan.clients.index(c) for c in counted]
        assert total.total.tolist() == vectors[s][places].sum(axis=0).tolist()
    assert lost in whole


def test_any_members_that_a_sum_does_without_may_vanish():
    plan = plan_of(20, ell=3, losses=9)
    vectors = np.random.default_rng(1).integers(-9, 9, (1, 20, 5))
    needed = plan.least_words
    for gone in (plan.committee[: 15 - needed], plan.committee[needed:]):
        silent = lambda e, gone=gone: () if e.sender in gone and e.kind != "ShareSeed" else (e,)  # noqa: E731
        totals, _ = sum_vectors(plan, vectors, silent)
        there = [j for j, c in enumerate(plan.clients) if c not in gone]
        assert totals[0].total.tolist() == vectors[0][there].sum(axis=0).tolist()


def test_whose_seed_is_missed_is_in_no_sum():
    plan = plan_of(17)
    vectors = np.ones((2, 17, 2), np.int64)
    missed = lambda e: () if (e.sender, e.kind) == ("client-3", "ShareSeed") else (e,)  # noqa: E731
    totals, _ = sum_vectors(plan, vectors, missed)
    assert all("client-3" not in total.clients for total in totals)
    # A driver may take some time for who waits for the seed to be lost itself, once.
    assert totals[1].total.tolist() == [16, 16]


def test_a_false_seed_is_noticed_and_seeds_of_others_name_their_sender():
    plan = plan_of(16)
    vectors = np.ones((1, 16, 2), np.int64)

    def lie(change):
        def faults(e):
            lies = e.sender == "client-1" and e.kind == "ShareSeed" and e.recipient == plan.committee[-1]
            return (dataclasses.replace(e, body=ShareSeed(change)) if lies else e,)

        return faults

    with pytest.raises(SuspectedParties, match="on no polynomial"):
        sum_vectors(plan, vectors, lie(bytes(32)))
    with pytest.raises(FaultyClient, match=r"client-1 .*2 seeds for 1 client\b"):
        sum_vectors(plan, vectors, lie(bytes(64)))


@pytest.mark.parametrize("who", list(itertools.combinations(range(5), 2)))
def test_shares_of_any_t_members_are_uniform_whatever_is_summed(who):
    # Five members, two of them with seeds, over the field of 11: words of seeds run through all values, so do
    # any two members' shares, for any number that is shared.
    code = LagrangeCode(Basis((11,)), 5, 1, 2)
    for number in (0, 7):
        pairs = list(itertools.product(range(11), repeat=2))
        drawn = np.array(pairs, np.uint32).T[None, :, :, None]
        rest = code.extend(np.full((1, len(pairs), 1), number, np.uint32), drawn, (3, 4), range(3))
        every = [share[0, :, 0].tolist() for share in rest] + drawn[0, :, :, 0].tolist()
        assert len(set(zip(every[who[0]], every[who[1]], strict=True))) == 121


@pytest.mark.parametrize("basis", [Basis((11,)), Basis(LANE_PRIMES[:2]), Basis((2**61 - 1,))])
def test_words_of_seeds_are_uniform_residues_of_their_own(basis):
    rng = np.random.default_rng(0)
    seeds = [rng.bytes(32) for _ in range(40)]
    found = expand_seeds(basis, seeds, 7, 50)
    basis.check(found, (40, 50))
    for lane, prime in enumerate(basis.primes):
        bins = np.bincount((found[lane].reshape(-1).astype(object) * 11 // prime).astype(int), minlength=11)
        assert ((bins - 2000 / 11) ** 2).sum() / (2000 / 11) < chi2.isf(1e-6, 10)
    # One by one they are the same, so is a beginning; another number, seed or lane has others.
    one = expand_seeds(basis, seeds[3:4], 7, 20)[:, 0]
    np.testing.assert_array_equal(one, found[:, 3, :20])
    assert (expand_seeds(basis, seeds[3:4], 8, 20)[:, 0] != one).any()
    assert (found[:, 4, :20] != one).any()
    assert basis.lanes == 1 or (found[0] != found[1]).any()


def test_a_run_of_more_clients_than_members_sends_shares_to_those_without_seeds_alone():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60, 4)) + 6 * rng.integers(0, 2, (60, 1))
    data = secfc.Federation.from_arrays(np.array_split(points, 20))
    result = secfc.fit(FederatedLloyd(2, coarse="allow"), data, seed=0)
    plan = result.plan.sums
    assert "client-3" not in plan.committee
    kinds = {(e.kind, e.recipient) for e in result.transcript.envelopes if e.sender == "client-3"}
    assert {to for kind, to in kinds if kind == "SumShares"} == set(plan.committee[:10])
    assert {to for kind, to in kinds if kind == "ShareSeed"} == set(plan.committee[10:])
    # Control: where all are members, all hear shares, and nobody seeds.
    few = secfc.fit(FederatedLloyd(2, coarse="allow"), np.array_split(points, 5), seed=0)
    assert "ShareSeed" not in {e.kind for e in few.transcript.envelopes}
    assert (few.flat == result.flat).all()


def test_seeds_are_in_no_text():
    seeds = ShareSeeds(((b"s" * 32,),), {"a": b"h" * 32})
    assert "sss" not in repr(seeds)
    assert "hhh" not in f"{seeds}"
    assert "sss" not in repr(ShareSeed(b"s" * 32))
    with pytest.raises(ValueError, match="32 bytes each"):
        ShareSeed(b"s" * 31)
    assert seeding.SIZE == 32
