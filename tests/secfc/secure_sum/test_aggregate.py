"""The secure sum: exact, dropout-tolerant, overflow-proof, and private by enumeration over a tiny field."""

import itertools
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import secfc
from field import SeededCoins
from field.code.lagrange_code import LagrangeCode
from field.ring.basis import Basis
from secfc.errors import FaultyClient, FaultyServer, SuspectedParties, TooFewReplies
from secfc.overlap.starts import Synchronized
from secfc.privacy import Bound, Budget
from secfc.roles.exchange import SERVER
from secfc.roles.messages import TOGETHER, Contributors
from secfc.scaling.noisy import NoisyStandardize
from secfc.scaling.shared_profile import SharedProfile, labeled_rows
from secfc.secure_sum import protocol as aggregate
from secfc.secure_sum.protocol import (
    ROUNDS,
    CodedSum,
    SummandLayout,
    SumPlan,
    SumShares,
    ToldDigests,
    add_wave,
    compare_last,
    contribute_vector,
    receive_sum,
    reduce_total,
    share_vector,
)
from secfc.transport.simulate import deliver_all, simulate
from tests.nightly import by_night, short, trials


def names(n):
    return tuple(f"client-{j}" for j in range(n))


def sum_vectors(plan, vectors, faults=deliver_all, sums=1, keep_bodies=False, dealing=None, spread=None):
    """What the server learns of `sums` sums: vectors[s] is (n, D).

    dealing: by client that lies, what it makes of the shares that it should deal.
    """

    def dealt_as(change, role):
        """The role whose shares, its own among them, are what `change` makes of them."""
        with pytest.MonkeyPatch.context() as patch:
            honest = aggregate.share_vector
            patch.setattr(aggregate, "share_vector", lambda *given: change(honest(*given)))
            exchange = next(role)
        while True:
            try:
                exchange = role.send((yield exchange))
            except StopIteration:
                return

    def client(j):
        for s in range(sums):
            coins = SeededCoins(s, plan.clients[j])
            own = vectors[s][j] if spread is None else vectors[s][j][spread.places[plan.clients[j]]]
            role = contribute_vector(plan, plan.clients[j], own, ROUNDS * s, coins, spread=spread)
            change = (dealing or {}).get(plan.clients[j])
            yield from role if change is None else dealt_as(change, role)

    def server():
        totals = []
        for s in range(sums):
            totals.append((yield from receive_sum(plan, vectors[s].shape[1], ROUNDS * s)))
        return totals

    roles = {name: client(j) for j, name in enumerate(plan.clients)}
    done = simulate({**roles, SERVER: server()}, faults=faults, keep_bodies=keep_bodies)
    return done.results[SERVER], done


@trials(15, nightly=100)
@given(
    st.integers(3, 12), st.integers(1, 9), st.integers(0, 2**32), st.sampled_from([1, 2**20, 2**45, 2**61])
)
def test_the_sum_is_the_plain_sum(n, length, seed, bound):
    rng = np.random.default_rng(seed)
    committee = int(rng.integers(3, n + 1))
    plan = SumPlan.of(names(n), bound, committee=committee)
    vectors = rng.integers(-bound, bound, (2, n, length), endpoint=True)
    totals, _ = sum_vectors(plan, vectors, sums=2)
    for total, parts in zip(totals, vectors, strict=True):
        assert total.total.tolist() == parts.astype(object).sum(axis=0).tolist()
        assert total.clients == plan.clients


@trials(10, nightly=100)
@given(st.integers(3, 8), st.integers(1, 9), st.integers(0, 2**32))
def test_a_sum_is_the_same_without_shares_of_public_zeros(n, length, seed):
    rng = np.random.default_rng(seed)
    plan = SumPlan.of(names(n), 2**45, losses=1)
    adds = rng.random((n, length)) < 0.4
    spread = SummandLayout(
        length, {c: np.flatnonzero(own) for c, own in zip(plan.clients, adds, strict=True)}
    )
    vectors = rng.integers(-(2**45), 2**45, (1, n, length), endpoint=True) * adds
    silent = dropping((plan.clients[-1], "SumShares")) if seed % 2 else deliver_all
    ours, done = sum_vectors(plan, vectors, silent, spread=spread, keep_bodies=True)
    theirs, _ = sum_vectors(plan, vectors, silent)
    assert (ours[0].total.tolist(), ours[0].clients) == (theirs[0].total.tolist(), theirs[0].clients)
    for e in done.transcript.envelopes:
        if e.kind == "SumShares":
            assert e.body.values.shape[1] == len(spread.places[e.sender])


def test_a_share_of_other_numbers_than_were_agreed_names_its_sender():
    plan = SumPlan.of(names(4), 100)
    spread = SummandLayout(3, {c: np.arange(1 + j % 2) for j, c in enumerate(plan.clients)})
    role = contribute_vector(plan, "client-0", np.ones(1, np.int64), 0, SeededCoins(0, "a"), spread=spread)
    next(role)
    shares = {c: SumShares(np.zeros((1, 1), np.uint32)) for c in plan.clients[1:]}
    with pytest.raises(FaultyClient, match="client-1"):
        role.send(shares)
    packed = SumPlan.of(names(9), 100, t=1, ell=2)
    with pytest.raises(ValueError, match="ell=2 numbers in a share"):
        next(
            contribute_vector(packed, "client-0", np.ones(1, np.int64), 0, SeededCoins(0, "a"), spread=spread)
        )


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (lambda plan, share: np.full_like(share, plan.code.basis.primes[0]), "are not canonical"),
        (lambda plan, share: share[:, :1], "expected"),
        (lambda plan, share: share.astype(np.uint64), "expected"),
    ],
)
@pytest.mark.parametrize("deviating", [1, TOGETHER, TOGETHER + 1, 2 * TOGETHER + 3])
def test_a_malformed_share_among_many_names_its_sender(wrong, what, deviating):
    plan = SumPlan.of(names(2 * TOGETHER + 4), 100, committee=3)
    role = contribute_vector(plan, "client-0", np.ones(2, np.int64), 0, SeededCoins(0, "a"))
    next(role)
    good = np.stack([np.full(2, p - 1, np.uint32) for p in plan.code.basis.primes])  # the largest residues
    shares = {c: SumShares(good) for c in plan.clients[1:]}
    shares[f"client-{deviating}"] = SumShares(wrong(plan, good))
    with pytest.raises(FaultyClient, match=what) as caught:
        role.send(shares)
    assert caught.value.party == f"client-{deviating}"


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_sums_do_not_wrap(sign):
    # The bound at its edge: n * bound is just below half the modulus of two lanes, and one more is refused.
    n = 5
    basis = Basis.for_bound(2**59)
    bound = (basis.modulus - 1) // (2 * n)
    plan = SumPlan(names(n), names(n), LagrangeCode(basis, n, 1, 2), bound, 0)
    (total,), _ = sum_vectors(plan, np.full((1, n, 2), sign * bound))
    assert total.total.tolist() == [sign * n * bound] * 2
    with pytest.raises(ValueError, match="do not fit the modulus of 2 lanes"):
        SumPlan(names(n), names(n), LagrangeCode(basis, n, 1, 2), bound + 1, 0)


@pytest.mark.parametrize("value", [1001, -1001, -(2**63)])
def test_a_number_beyond_the_bound_is_refused_before_it_is_shared(value):
    plan = SumPlan.of(names(4), 1000)
    with pytest.raises(ValueError, match="exceeds the plan's bound of 1000"):
        share_vector(plan, np.array([0, value]), SeededCoins(0, "a"))


@pytest.mark.parametrize("shift", [1, -1, 10**6, -(2**40), 2**62])
def test_one_lying_summand_moves_the_sum_by_anything_and_nobody_notices(shift):
    # What the module says of a deviating client, at its full extent: modulo the ring, and nothing else.
    plan, honest = SumPlan.of(names(7), 1000), np.random.default_rng(0).integers(-1000, 1001, (1, 7, 4))
    modulus = plan.code.basis.modulus

    def beyond(dealt):
        vector = np.array([0, shift, 0, 0]).astype(object) + honest[0, 3]
        residues = plan.code.basis.reduce(vector[None, :])
        return [share[:, 0] for share in plan.code.share(residues, SeededCoins(9, "deviating client"))]

    (total,), done = sum_vectors(plan, honest, dealing={"client-3": beyond})
    exact = honest[0].sum(axis=0).astype(object)
    exact[1] = (exact[1] + shift + modulus // 2) % modulus - modulus // 2
    assert total.total.tolist() == exact.tolist()
    assert (total.clients, done.silent) == (plan.clients, {})
    # Control: without the lie the sum is the honest one.
    (total,), _ = sum_vectors(plan, honest)
    assert total.total.tolist() == honest[0].sum(axis=0).tolist()


def dropping(*lost):
    """Faults that drop these (sender, message class) pairs."""
    return lambda e: () if (e.sender, e.kind) in lost else (e,)


def falsify(plan, values, rng, places=1):
    """Residues (lanes, width) with another one in some places."""
    values = values.copy()
    for place in rng.choice(values.size, places, replace=False):
        lane, column = divmod(int(place), values.shape[1])
        prime = plan.code.basis.primes[lane]
        values[lane, column] = (int(values[lane, column]) + int(rng.integers(1, prime))) % prime
    return values


def lying(plan, deviating, rng, lost=()):
    """Faults by which these members tell a false word of the sum, and those none."""

    def faults(e):
        if e.kind != "CodedSum" or e.sender in lost:
            return (e,) if e.kind != "CodedSum" else ()
        return (
            (replace(e, body=CodedSum(falsify(plan, e.body.values, rng))),) if e.sender in deviating else (e,)
        )

    return faults


@pytest.mark.parametrize(("n", "t", "ell"), [(3, 1, 1), (7, 2, 1), (10, 3, 1), (9, 2, 3)])
def test_a_false_word_of_a_sum_is_noticed_always(n, t, ell):
    """100 of 100 in each setting: a member's, in one place, whichever member and place."""
    plan, rng = SumPlan.of(names(n), 2**40, t=t, ell=ell), np.random.default_rng(n)
    vectors, noticed = rng.integers(-(2**40), 2**40, (1, n, 5)), 0
    for number in range(100):
        deviating = plan.committee[number % n]
        with pytest.raises(SuspectedParties, match="on no polynomial") as caught:
            sum_vectors(plan, vectors, lying(plan, {deviating}, rng))
        noticed += deviating in caught.value.parties
    assert noticed == 100
    (total,), _ = sum_vectors(plan, vectors)
    assert (total.total == vectors[0].sum(axis=0)).all()


@pytest.mark.parametrize("trial", range(short(4, nightly=40)))
def test_of_three_t_and_one_words_those_that_are_false_come_first(trial):
    plan, rng = SumPlan.of(names(10), 2**40, t=3), np.random.default_rng(trial)
    deviating = {plan.committee[int(j)] for j in rng.choice(10, 1 + trial % 3, replace=False)}
    with pytest.raises(SuspectedParties, match=r"that client-.* told are on no polynomial") as caught:
        sum_vectors(plan, rng.integers(-9, 9, (1, 10, 5)), lying(plan, deviating, rng))
    assert set(caught.value.parties[: len(deviating)]) == deviating
    assert set(caught.value.parties) == set(plan.clients), "who dealt a false share is as suspect"


def test_a_client_that_deals_shares_on_no_polynomial_is_noticed():
    plan, rng = SumPlan.of(names(7), 1000), np.random.default_rng(0)
    vectors = rng.integers(-9, 9, (1, 7, 4))
    for member in range(7):

        def spoiled(dealt, member=member):
            return [falsify(plan, share, rng) if j == member else share for j, share in enumerate(dealt)]

        with pytest.raises(SuspectedParties, match="dealt falsely by a client") as caught:
            sum_vectors(plan, vectors, dealing={"client-3": spoiled})
        assert "client-3" in caught.value.parties


def test_so_many_words_as_the_module_says_notice_so_many_lies(monkeypatch):
    """t = 2 of seven: w words notice w - 3 false ones, and three words none: these open nothing."""
    plan, rng = SumPlan.of(names(7), 1000, t=2), np.random.default_rng(0)
    vectors = rng.integers(-9, 9, (1, 7, 4))
    lost = plan.committee[4:]
    with pytest.raises(SuspectedParties):
        sum_vectors(plan, vectors, lying(plan, {plan.committee[0]}, rng, lost[:1] + lost[1:]))
    (total,), _ = sum_vectors(plan, vectors, lying(plan, set(), rng, lost))
    assert (total.total == vectors[0].sum(axis=0)).all()
    lost = plan.committee[3:]
    with pytest.raises(TooFewReplies, match=r"4 replies are needed, 3 came .* smaller t, a larger"):
        sum_vectors(plan, vectors, lying(plan, {plan.committee[0]}, rng, lost))
    # Control: where three words open a sum, it is a deviating client's.
    monkeypatch.setattr(SumPlan, "least_words", property(lambda plan: plan.code.threshold(1)))
    (total,), _ = sum_vectors(plan, vectors, lying(plan, {plan.committee[0]}, rng, lost))
    assert (total.total != vectors[0].sum(axis=0)).any()


def test_no_lie_of_t_members_lies_on_a_polynomial_exhaustively():
    """Modulo 7: no error of one of 2t + 1 = 3 words passes; of t + 1 = 2 words some do."""
    plan = SumPlan(names(3), names(3), LagrangeCode(Basis((7,)), 3, 1, 1), 1, 0)

    def passing(errors):
        words = {c: np.array([[e]], np.uint32) for c, e in zip(plan.committee, errors, strict=True)}
        try:
            aggregate.check_words(plan, words, ())
        except SuspectedParties:
            return False
        return True

    passed = [e for e in itertools.product(range(7), repeat=3) if passing(e)]
    assert len(passed) == 7**2, "a polynomial of degree 1 each"
    assert [e for e in passed if np.count_nonzero(e) <= 1] == [(0, 0, 0)]
    assert [e for e in passed if np.count_nonzero(e) == 2]


def test_losses_after_sharing_change_nothing():
    plan = SumPlan.of(names(20), 2**30)
    assert plan.code.n - plan.least_words == 8
    vectors = np.random.default_rng(0).integers(-(2**30), 2**30, (1, 20, 50))
    silent = dropping(*((c, "CodedSum") for c in plan.committee[:8]))
    (total,), _ = sum_vectors(plan, vectors, silent)
    assert (total.total == vectors[0].sum(axis=0)).all()
    with pytest.raises(TooFewReplies):
        sum_vectors(plan, vectors, dropping(*((c, "CodedSum") for c in plan.committee[:9])))


@pytest.mark.parametrize(
    ("n", "losses", "ell", "spared"), [(3, 1, 1, 0), (6, 1, 1, 1), (6, 3, 1, 2), (28, 7, 3, 6)]
)
def test_a_plan_spares_no_more_clients_than_a_sum_does_without(n, losses, ell, spared):
    plan = SumPlan.of(names(n), 100, losses=losses, ell=ell)
    assert plan.spared == spared
    for gone in (plan.committee[:spared], plan.committee[: spared + 1]):
        silent = lambda e, gone=gone: () if e.sender in gone else (e,)  # noqa: E731
        if len(gone) > spared:
            with pytest.raises(TooFewReplies):
                sum_vectors(plan, np.ones((1, n, 6), np.int64), silent)
        else:
            (total,), _ = sum_vectors(plan, np.ones((1, n, 6), np.int64), silent)
            assert (total.total == n - spared).all()
    for way in (secfc.FederatedLloyd(3), secfc.FedDPKMeans(3, 9.0, 1e-6)):
        assert way.capabilities.losses(SimpleNamespace(sums=plan, floor=1)) == spared
    assert secfc.FederatedLloyd(3).capabilities.losses(SimpleNamespace(sums=plan, floor=2)) == 0


def test_who_vanished_while_sharing_is_not_counted_anywhere():
    plan = SumPlan.of(names(20), 2**30)
    vectors = np.random.default_rng(0).integers(-(2**30), 2**30, (1, 20, 50))

    def faults(e):  # client-3 reaches a part of the committee, client-7 nobody
        partly = e.sender == "client-3" and e.recipient in plan.committee[4:]
        return () if e.kind == "SumShares" and (partly or e.sender == "client-7") else (e,)

    (total,), _ = sum_vectors(plan, vectors, faults)
    rest = [j for j in range(20) if j not in (3, 7)]
    assert total.clients == tuple(plan.clients[j] for j in rest)
    assert (total.total == vectors[0][rest].sum(axis=0)).all()


def test_a_member_whose_report_is_lost_is_there_in_the_next_sum():
    plan = SumPlan.of(names(8), 100)

    def faults(e):
        return () if (e.kind, e.sender, e.round) == ("Contributors", "client-3", 1) else (e,)

    totals, done = sum_vectors(plan, np.ones((2, 8, 3), np.int64), faults, sums=2)
    assert [total.clients for total in totals] == [plan.clients] * 2
    sent = {e.round for e in done.transcript.envelopes if (e.kind, e.sender) == ("CodedSum", "client-3")}
    assert sent == {2 * ROUNDS - 1}


def test_a_member_that_is_not_answered_goes_on():
    plan = SumPlan.of(names(8), 100)

    def faults(e):
        return () if (e.kind, e.recipient, e.round) == ("Contributors", "client-3", 1) else (e,)

    totals, done = sum_vectors(plan, np.ones((2, 8, 3), np.int64), faults, sums=2)
    assert totals[0].clients == plan.clients
    assert not done.silent


def test_a_sum_of_too_few_is_refused():
    plan = SumPlan.of(names(8), 100, losses=1)
    vectors = np.ones((1, 8, 3), np.int64)
    one, two = (
        dropping(*((c, "SumShares") for c in lost)) for lost in (["client-3"], ["client-3", "client-6"])
    )
    (total,), _ = sum_vectors(plan, vectors, one)
    assert total.total.tolist() == [7, 7, 7]
    with pytest.raises(TooFewReplies, match="7 replies are needed, 6 came"):
        sum_vectors(plan, vectors, two)


def test_a_server_that_asks_for_one_client_alone_is_refused():
    plan = SumPlan.of(names(8), 100, losses=1)
    role = contribute_vector(plan, plan.committee[0], np.ones(3, np.int64), 0, SeededCoins(0, "a"))
    next(role)
    shares = {c: SumShares(np.zeros((1, 3), np.uint32)) for c in plan.clients[1:]}
    exchange = role.send(shares)
    assert exchange.send[SERVER].complete.all()
    with pytest.raises(FaultyServer, match="fewer than 7"):
        role.send({SERVER: Contributors(np.arange(8) == 3)})


def test_only_shares_and_sums_of_shares_travel():
    plan = SumPlan.of(names(20), 100)
    _, done = sum_vectors(plan, np.ones((1, 20, 6), np.int64), keep_bodies=True)
    seen = Counter(e.kind for e in done.transcript.received(SERVER))
    assert seen == {"Contributors": 15, "CodedSum": 15}
    outsider = next(c for c in plan.clients if c not in plan.committee)
    assert not done.transcript.received(outsider)


# --- privacy, exhaustively ----------------------------------------------------------------------------


class Script:
    """Coins that read given residues, to go through all of them."""

    def __init__(self, values):
        self.values = iter(values)

    def fill_residues(self, prime, out):
        out[...] = next(self.values)


TINY = SimpleNamespace(
    **{
        "clients": names(4),
        "committee": names(3),
        "code": LagrangeCode(Basis((7,)), 3, 1, 1),
        "bound": 6,
        "seats": {name: j for j, name in enumerate(names(3))},
    }
)


def joint_views(inputs, colluders, with_server, absent=()):
    """How often each joint view of the colluding clients, and the server, arises over all coins.

    The colluders' own inputs and coins are fixed; their view is the shares they receive, and with the server
    the shares of the sum that every member sends.  absent: clients that add nothing, and deal no shares.
    """
    honest = [j for j in range(4) if j not in (*colluders, *absent)]
    length = np.arange(1)
    spread = SummandLayout(
        1, {name: length[:0] if j in absent else length for j, name in enumerate(names(4))}
    )
    views = Counter()

    def parts(dealt, c):
        return {n: dealt[j][c][:, : len(spread.places[n])] for j, n in enumerate(TINY.clients)}

    for masks in itertools.product(range(7), repeat=len(honest)):
        coins = dict(zip(honest, masks, strict=True))
        dealt = [
            share_vector(
                TINY, np.array([inputs[j]]), Script([np.full((1, 1, 1), coins.get(j, 5), np.uint32)])
            )
            for j in range(4)
        ]
        received = tuple(int(dealt[j][c][0, 0]) for j in honest for c in colluders if c < 3)
        sums = ()
        if with_server:
            for c in range(3):
                total = np.zeros((1, 1), np.uint64)
                add_wave(total, parts(dealt, c), TINY.clients, spread)
                sums += (int(reduce_total(TINY, total)[0, 0]),)
        views[received + sums] += 1
    return views


@pytest.mark.parametrize("with_server", [False, True])
@pytest.mark.parametrize("colluder", [0, *by_night(1, 2), 3])  # of the committee, and outside of it
def test_a_colluder_and_the_server_learn_the_sum_alone(colluder, with_server):
    # All inputs of the three others with the same sum give the same law of views over all 343 coins.
    fixed = {colluder: 2}
    others = [j for j in range(4) if j != colluder]
    laws = {}
    for values in itertools.product(short((0, 3), nightly=(0, 1, 3)), repeat=3):
        inputs = fixed | dict(zip(others, values, strict=True))
        known = sum(values) if with_server else None
        law = joint_views(inputs, (colluder,), with_server)
        assert laws.setdefault(known, law) == law


@pytest.mark.parametrize("colluder", [0, 1])
def test_without_shares_of_zeros_they_learn_the_sum_alone_too(colluder):
    # Client 3, a member or not, adds nothing; the two others that do hide each other.
    others = [j for j in range(3) if j != colluder]
    laws = {}
    for values in itertools.product((0, 1, 3), repeat=2):
        law = joint_views(
            {colluder: 2, 3: 0} | dict(zip(others, values, strict=True)), (colluder,), True, (3,)
        )
        assert laws.setdefault(sum(values), law) == law
    # Control: a number to which one client alone adds is that client's own.
    one, two = ({0: 2, 1: 0, 2: b, 3: 0} for b in (1, 3))
    assert joint_views(one, (0,), True, (1, 3)) != joint_views(two, (0,), True, (1, 3))


def test_two_colluders_of_a_committee_that_tolerates_one_learn_more():
    # Control: the same enumeration tells inputs with equal sums apart when t + 1 members collude.
    one, two = ({0: 2, 1: 2, 2: a, 3: b} for a, b in ((0, 3), (3, 0)))
    assert joint_views(one, (0, 1), True) != joint_views(two, (0, 1), True)


def test_the_servers_view_depends_on_the_sum():
    # Control: the law does move with what the server may learn.
    one, two = ({0: 2, 1: 2, 2: 0, 3: b} for b in (3, 4))
    assert joint_views(one, (0,), True) != joint_views(two, (0,), True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"committee": 2}, "a committee of 2 among n=6"),
        ({"committee": 7}, "a committee of 7 among n=6"),
        ({"t": 3}, r"t=3 of a committee of 6: it must lie in \[1, 2\]"),
        ({"t": 0}, r"t=0 of a committee of 6"),
        ({"losses": 6}, "losses=6 of n=6"),
    ],
)
def test_unusable_plans_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SumPlan.of(names(6), 10, **arguments)


# --- many clients ----------------------------------------------------------------------------------


@pytest.fixture
def small_waves(monkeypatch):
    """Waves of three clients."""
    monkeypatch.setattr("secfc.secure_sum.plan.WAVE", 3)


def test_a_sum_in_waves_is_the_sum_of_those_who_are_there(small_waves):
    vectors = np.random.default_rng(0).integers(-100, 101, (1, 17, 4))
    plan = SumPlan.of(names(17), 100, committee=5)
    assert [len(wave) for wave in plan.waves] == [3] * 5 + [2]
    gone, unheard = "client-7", "client-11"  # a member hears one, and not the other

    def faults(e):
        lost = e.kind == "SumShares" and (
            e.sender == gone or (e.sender, e.recipient) == (unheard, plan.committee[1])
        )
        return () if lost else (e,)

    for at, lost in ((deliver_all, ()), (faults, (gone, unheard))):
        (total,), done = sum_vectors(plan, vectors, at)
        there = [j for j, c in enumerate(plan.clients) if c not in lost]
        assert total.clients == tuple(plan.clients[j] for j in there)
        assert (total.total == vectors[0][there].sum(axis=0)).all()
        # Who is no member speaks once, to every member.
        spoken = Counter(e.sender for e in done.transcript.envelopes if e.sender not in plan.committee)
        assert all(count <= 5 for c, count in spoken.items() if c != SERVER)


def test_a_client_speaks_once_and_is_told_nothing(small_waves):
    plan = SumPlan.of(names(9), 100, committee=3)
    role = contribute_vector(plan, "client-1", np.ones(2, np.int64), 0, SeededCoins(0, "a"))
    exchange = next(role)
    assert set(exchange.send) == set(plan.committee)
    assert not exchange.expect
    with pytest.raises(StopIteration):
        role.send({})


@pytest.mark.parametrize("wave", [0, 2])
def test_members_that_were_told_different_clients_notice_before_they_tell_a_sum(small_waves, wave):
    plan = SumPlan.of(names(9), 100, committee=5)
    seen = Counter()

    def faults(e):
        seen[e.kind] += 1
        if e.kind == "Contributors" and e.recipient == plan.committee[2] and e.round == 1 + wave:
            fewer = e.body.complete.copy()
            fewer[1] = False
            e = replace(e, body=Contributors(fewer))
        return (e,)

    with pytest.raises(SuspectedParties, match="told to add other clients") as caught:
        sum_vectors(plan, np.ones((1, 9, 2), np.int64), faults)
    assert SERVER in caught.value.parties
    assert not seen["CodedSum"]


def test_clients_of_whom_none_is_a_member_compare_what_no_member_was_told():
    """As of a feature that they alone observe."""
    plan = SumPlan.of(names(5), 100, committee=3)
    pair = [c for c in plan.clients if c not in plan.committee]
    topics = {c: frozenset({0, c in pair}) for c in plan.clients}
    for other, alike in ((b"1", True), (b"2", False)):
        told = {
            c: ToldDigests(topics, {0: b"0" * 16, 1: (other if c == pair[0] else b"1") * 16})
            for c in plan.clients
        }
        roles = {c: compare_last(plan, c, told[c], 0) for c in plan.clients}
        if alike:
            simulate(roles)
        else:
            with pytest.raises(SuspectedParties, match="told another result") as caught:
                simulate(roles)
            assert set(caught.value.parties) & set(pair)


def test_with_a_quorum_no_two_sums_are_had_by_keeping_digests_back(monkeypatch):
    # Seven members: six of them are told apart in three and three by a server that carries all messages.
    monkeypatch.setattr(aggregate, "check_words", lambda *words: None)  # which such a server does not call
    for quorum, found in ((None, 2), (5, 0)):
        plan = SumPlan.of(names(7), 100, t=1, quorum=quorum)
        halves = ({"client-0", "client-1", "client-2"}, {"client-3", "client-4", "client-5"})

        def faults(e, halves=halves):
            if e.kind == "SumDigest" and not any({e.sender, e.recipient} <= half for half in halves):
                return ()
            if e.kind == "Contributors" and e.recipient in halves[1]:
                fewer = e.body.complete.copy()
                fewer[6] = False
                e = replace(e, body=Contributors(fewer))
            return (e,)

        told = []
        try:
            _, done = sum_vectors(plan, np.ones((1, 7, 2), np.int64), faults)
            told = [e.sender for e in done.transcript.envelopes if e.kind == "CodedSum"]
        except TooFewReplies:
            assert quorum
        assert sum(bool(half & set(told)) for half in halves) == found


def test_a_digest_of_what_was_told_goes_to_those_alone_who_were_told_it_too():
    topics = {"a": frozenset((1, 2)), "b": frozenset((2, 3)), "c": frozenset((3,))}
    told = ToldDigests(topics, {1: b"1" * 16, 2: b"2" * 16})
    assert (told.shown("a", "b"), told.shown("a", "c")) == (b"2" * 16, b"")
    assert "1" not in repr(told).replace("ToldDigests(2 topics)", "")


@pytest.mark.parametrize("change", [lambda v: v + 1, lambda v: v[:-1], lambda v: v[None]])
def test_digests_differ_with_what_was_told_and_not_with_the_type_that_carries_it(change):
    told = np.arange(5)
    assert ToldDigests.digest("a", told) == ToldDigests.digest("a", told.astype(np.int8))
    assert ToldDigests.digest("a", told) != ToldDigests.digest("a", change(told))
    assert ToldDigests.digest(told) != ToldDigests.digest(told.astype(float))


@pytest.mark.parametrize("lost", [(), ("client-4",), ("client-0", "client-4")])
def test_a_spare_is_in_the_sum_only_if_a_client_is_missing(lost):
    plan = SumPlan.of(names(6), 100, t=1, losses=2, quorum=4)
    vectors, spares = np.random.default_rng(0).integers(-50, 50, (2, 6, 5))

    def client(j):
        yield from contribute_vector(plan, names(6)[j], vectors[j], 0, SeededCoins(j, "x"), spare=spares[j])

    def server():
        return (yield from receive_sum(plan, 5, 0))

    roles = {name: client(j) for j, name in enumerate(names(6))}
    faults = dropping(*((c, "SumShares") for c in lost))
    found = simulate({**roles, SERVER: server()}, faults=faults, keep_bodies=True)
    there = [j for j, name in enumerate(names(6)) if name not in lost]
    expected = vectors[there].sum(axis=0) + bool(lost) * spares[there].sum(axis=0)
    assert found.results[SERVER].total.tolist() == expected.tolist()
    assert {e.body.values.shape[1] for e in found.transcript.envelopes if e.kind == "SumShares"} == {10}
    assert {e.body.values.shape[1] for e in found.transcript.envelopes if e.kind == "CodedSum"} == {5}


def test_a_spare_needs_a_quorum_that_excludes_two_sums():
    for quorum, more in ((None, {}), (3, {}), (4, {"spread": SummandLayout(1, {})})):
        plan = SumPlan.of(names(6), 100, t=1, losses=1, quorum=quorum)
        assert plan.exclusive_quorum == 4
        role = contribute_vector(
            plan, "client-0", np.ones(1, np.int64), 0, SeededCoins(0, "a"), spare=np.ones(1, np.int64), **more
        )
        with pytest.raises(ValueError, match=r"a spare with .*: give a quorum of at least 4, and no spread"):
            next(role)


def views_with_spares(values, spares, counted):
    """How often client 0 and the server see what, over all masks of the others that count, (4,) bool."""
    value, mask = np.array(  # of every member: shares are linear in both
        [
            [
                int(s[0, 0])
                for s in share_vector(TINY, np.array([v]), Script([np.full((1, 1, 1), z, np.uint32)]))
            ]
            for v, z in ((1, 0), (0, 1))
        ]
    )
    honest = [j for j in range(1, 4) if counted[j]]
    masks = np.array(list(itertools.product(range(7), repeat=2 * len(honest)))).T
    own = np.zeros((1, masks.shape[1]), np.int64)
    dealt = [np.concatenate([2 * value[:, None] + own, 3 * value[:, None] + own], axis=1)]
    for number, j in enumerate(honest):
        layers = zip((values[j], spares[j]), masks[2 * number : 2 * number + 2], strict=True)
        dealt.append(np.concatenate([v * value[:, None] + z * mask[:, None] for v, z in layers], axis=1) % 7)
    total = (sum(dealt) % 7).astype(np.uint32)
    sums = [aggregate.sum_with_spare(TINY, each[None], np.array(counted))[0] for each in total]
    seen = [layer for each in dealt[1:] for layer in np.split(each[0], 2)] + sums
    code = sum(one.astype(np.int64) * 7**place for place, one in enumerate(seen))
    return [each.tolist() for each in np.unique(code, return_counts=True)]


def test_a_colluder_and_the_server_learn_of_a_spare_what_the_sum_has_of_it():
    everybody, three = (True,) * 4, (True, True, True, False)
    base = views_with_spares((0, 1, 2, 3), (0, 0, 0, 0), everybody)
    assert base == views_with_spares((0, 2, 0, 4), (0, 3, 1, 6), everybody)  # of spares nothing at all
    assert base != views_with_spares((0, 1, 2, 4), (0, 0, 0, 0), everybody)  # control: another sum
    fewer = views_with_spares((0, 1, 2, 3), (0, 0, 4, 0), three)
    assert fewer == views_with_spares((0, 5, 0, 6), (0, 1, 1, 6), three)  # of values and spares the sum
    assert fewer != views_with_spares((0, 1, 2, 3), (0, 0, 5, 0), three)  # control: another spare


@pytest.mark.parametrize("quorum", [3, 6])
def test_a_quorum_has_bounds(quorum):
    with pytest.raises(ValueError, match=rf"quorum={quorum} of a committee of 5: it must lie in \[4, 5\]"):
        SumPlan.of(names(7), 100, committee=5, t=2, quorum=quorum)


def test_without_a_test_of_summands_one_can_make_the_sum_anything():
    """What the page says of `SumShares`: one client moves the sum by any amount, and nobody notices."""
    plan = SumPlan.of(names(6), 100, committee=5)
    shift = plan.code.basis.modulus // 3
    residues = plan.code.basis.reduce(np.array([shift], object))
    extra = aggregate.share_residues(plan, residues, SeededCoins(9, "x"))

    def lie(shares):
        return [plan.code.basis.add(a, b).astype(a.dtype) for a, b in zip(shares, extra, strict=True)]

    (total,), _ = sum_vectors(plan, np.ones((1, 6, 1), np.int64), dealing={"client-1": lie})
    assert int(total.total[0]) == 6 + shift
    assert total.clients == plan.clients


# --- every secure sum of the project ---------------------------------------------------------------------

POINTS = np.random.default_rng(0).normal(size=(140, 2)) + 5 * np.repeat(np.arange(7) % 2, 20)[:, None]
SITES = secfc.Federation.from_arrays(np.split(POINTS, 7))
LABELED = labeled_rows(SITES, [np.arange(20) % 2] * 7)
FEDDP = secfc.FedDPKMeans(2, 50.0, 1e-5, bound=16.0)
ONE_STEP = secfc.SecFC(2, 2, init=secfc.RandomLabels(), max_iter=1)
NOISE = secfc.NoiseInShares(Budget(50.0, 1e-5), Bound.given(40))
NOISY = replace(ONE_STEP, disclosure=NOISE)
OPENED = replace(ONE_STEP, release=secfc.Release(reveal_centers=True, smallest_center=1))
# What is summed, how the run is asked for it, and what members say of it.
SUMS = {
    "steps of FederatedLloyd": (secfc.FederatedLloyd(2), {}, "CodedSum"),
    "distances of its start": (
        secfc.FederatedLloyd(2, start=Synchronized(over="distances")), {}, "CodedPairDistances",
    ),
    "FedDP": (FEDDP, {}, "CodedSum"),
    "a common scale": (ONE_STEP, {"scale_features": "standard"}, "CodedSum"),
    "a robust scale": (ONE_STEP, {"scale_features": "robust"}, "CodedSum"),
    "a noisy scale": (NOISY, {"scale_features": NoisyStandardize([(-20, 20)] * 2)}, "CodedSum"),
    "a profile of clusters": (SharedProfile(2, reveal_centers=True), {}, "CodedSum"),
    "centers": (OPENED, {"bound": 16.0}, "CodedCenters"),
    "centers of labels that stay shared": (
        replace(OPENED, disclosure=secfc.OwnLabels()), {"bound": 16.0}, "CodedCenters",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:noise hides:secfc.errors.Caution")
@pytest.mark.parametrize("what", SUMS)
def test_whatever_is_summed_a_member_that_tells_a_false_word_ends_the_run(what):
    way, more, kind = SUMS[what]
    sites = LABELED if isinstance(way, SharedProfile) else SITES
    rounds = Counter()

    def listening(e):
        rounds[e.round] += e.kind == kind
        return (e,)

    secfc.fit(way, sites, seed=0, faults=listening, **more)
    told = sorted(number for number, count in rounds.items() if count)
    assert told
    for number in told[-1:] if short(1, nightly=0) else told:

        def lying(e, number=number):
            if (e.kind, e.sender, e.round) != (kind, "client-4", number):
                return (e,)
            values = e.body.values.copy()
            values.reshape(-1)[-1] ^= 1
            return (replace(e, body=replace(e.body, values=values)),)

        with pytest.raises(SuspectedParties, match="on no polynomial") as caught:
            secfc.fit(way, sites, seed=0, faults=lying, **more)
        assert "client-4" in caught.value.parties


def test_whoever_opens_a_sum_is_asked_in_the_test_of_all_sums():
    """A file that is new here opens another sum: it has a line in SUMS, too."""
    folder = Path(secfc.__file__).parent
    opening = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if re.search(r"from (receive|open)_(sum|residues)\(", path.read_text())
    }
    assert opening == {
        "feddp/aggregator.py", "federated/algorithm.py", "scaling/roles.py", "scaling/shared_profile.py",
    }  # fmt: skip
