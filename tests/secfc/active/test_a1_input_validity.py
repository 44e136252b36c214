"""A client whose rows are no points within the bound, or lie off the code: it reads data, and is refused."""

import dataclasses
from math import gcd

import numpy as np
import pytest

import secfc
from field import SeededCoins
from field.code import range_check
from field.code.consistency import DealingFault
from field.ring.basis import LANE_PRIMES, Basis
from secfc.coded import input_check
from secfc.coded.duplicates import count_mask_dealers
from secfc.coded.plan import HiddenOwnerLayout
from secfc.coded.quorum import RANGE
from secfc.data.inputs import build_algorithm
from secfc.disclosure.decoded.polynomials import count_dealers
from secfc.errors import FaultyClient, FaultyServer, SuspectedParties, TooFewReplies
from secfc.privacy import Bound, Budget
from secfc.roles.exchange import SERVER
from tests.secfc.active.adaptive import forget_ranges
from tests.secfc.active.deviating import BOUND, deviate, forced, honest, shameless
from tests.secfc.lying import saying
from tests.small import split

DEVIATING, FEATURE = "client-6", 1
BUDGET = {"budget": Budget(10.0, 1e-5), "radius": Bound.given(8.0)}
POLICIES = {
    "distances": secfc.Distances(),
    "bare": secfc.Distances(blind=False),
    "dealt": secfc.Distances(dealt=True),
    "assignments": secfc.AssignmentsOnly(),
    "client as dealer": secfc.AssignmentsOnly(dealer="client-5"),
    "no dealer": secfc.AssignmentsOnly(dealer=None),
    "final labels": secfc.FinalLabelsOnly(),
    "own labels": secfc.OwnLabels(),
    "noise in shares": secfc.NoiseInShares(**BUDGET),
}
policies = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


def hold_bounded(n=7, rows=10, d=3):
    return split(np.round(np.random.default_rng(1).uniform(-BOUND, BOUND, (n * rows, d)) * 64) / 64, n)


def algorithm(policy, **options):
    return build_algorithm(
        secfc.SecFC,
        **{"k": 2, "t": 2, "init": secfc.RandomLabels(), "max_iter": 3, **options},
        disclosure=policy,
    )


def far(plan):
    """All points at the origin but one, so far off that differences of distances wrap around."""
    s = plan.m // 2
    out = np.zeros((10, 3), object)
    out[0, FEATURE] = plan.code.basis.modulus // (s**3 * plan.quantizer.max_int)
    return out


@pytest.fixture(autouse=True)
def _deviates_as_well_as_it_can(monkeypatch):
    """Where no mask hides what a client shares, it announces those that hide the most of it."""
    monkeypatch.setattr(input_check, "select_masks", shameless)
    monkeypatch.setattr(input_check, "project_integers", forced)


def unchecked(monkeypatch, what):
    """Remove one check of what is opened."""
    if what == "size":
        monkeypatch.setattr(range_check, "within_bound", lambda code, pattern, told: True)
    else:
        monkeypatch.setattr(range_check, "judge_dealing", lambda code, told, errors: DealingFault(False, ()))


# --- size ---------------------------------------------------------------------------------------------


def test_far_rows_show_a_bit_of_everybodys_feature_where_nobody_looks(monkeypatch):
    # A label is a bit of theta + phi x modulo P, phi known to the deviating client: an arc of the circle
    # each.
    unchecked(monkeypatch, "size")
    fed, borders = hold_bounded(), []
    others = np.concatenate([party.read() for party in fed.parties[:6]])
    for seed in range(8):
        result = deviate(
            algorithm(secfc.AssignmentsOnly()), fed, far, deviating=DEVIATING, seed=seed
        ).results[SERVER]
        plan, (first, second) = result.plan, result.trace.history[:2]
        sizes = np.bincount(first, minlength=2).tolist()
        weight = sizes[1 - first[60]] ** 2 * sizes[first[60]] // gcd(*sizes) ** 2
        phi = 2 * weight * int(far(plan)[0, FEATURE])
        angles = phi * plan.quantizer(others)[:, FEATURE].astype(object) % plan.code.basis.modulus
        around = np.asarray(second[:60])[np.argsort(angles)]
        borders.append(int((around != np.roll(around, 1)).sum()))
    assert set(borders) <= {0, 2}
    assert borders.count(2) >= 4


@policies
def test_far_rows_are_refused_and_named(monkeypatch, policy):
    fed = hold_bounded()
    for seed in range(3):
        with pytest.raises(FaultyClient, match="beyond the public bound") as caught:
            deviate(algorithm(policy), fed, far, deviating=DEVIATING, seed=seed)
        assert caught.value.party == DEVIATING
    unchecked(monkeypatch, "size")
    if isinstance(policy, secfc.Distances) and not policy.dealt:
        with pytest.raises(SuspectedParties, match="not within the range of what honest rows give"):
            deviate(algorithm(policy), fed, far, deviating=DEVIATING)
        return
    assert deviate(algorithm(policy), fed, far, deviating=DEVIATING).results[SERVER].trace.n_iter


def test_with_deviating_clients_planned_for_the_run_goes_on_without_far_rows(monkeypatch):
    fed = hold_bounded(n=9)
    way = algorithm(secfc.Distances(), corrected=1, t=2)
    result = deviate(way, fed, far, deviating=DEVIATING).results[SERVER]
    assert result.standing.deviated == {DEVIATING: RANGE}
    assert result.excluded == (DEVIATING,)
    unchecked(monkeypatch, "size")
    result = deviate(way, fed, far, deviating=DEVIATING).results[SERVER]
    assert (result.standing.deviated, result.excluded) == ({}, ())


@pytest.mark.parametrize("ell", [1, 2, 3])
@pytest.mark.parametrize("feature", [0, 3])
def test_every_segment_is_tested(ell, feature):
    fed = hold_bounded(n=9, d=4)

    def rows(plan):
        out = np.zeros((10, 4), object)
        out[3, feature] = 4 * plan.projections.proven
        return out

    with pytest.raises(FaultyClient, match="beyond the public bound"):
        deviate(algorithm(secfc.AssignmentsOnly(), ell=ell, t=1), fed, rows, deviating=DEVIATING)


def test_a_value_just_above_what_is_proven_is_refused_and_whatever_passes_fits_the_plan():
    fed = hold_bounded()

    def rows(plan):
        out = np.zeros((10, 3), object)
        out[3, 1] = plan.projections.proven + 1
        return out

    way = algorithm(secfc.AssignmentsOnly())
    for seed in range(5):
        with pytest.raises(FaultyClient, match="beyond the public bound"):
            deviate(way, fed, rows, deviating=DEVIATING, seed=seed)


def test_rows_of_other_data_within_the_bound_are_other_data():
    fed = hold_bounded()
    way = algorithm(secfc.AssignmentsOnly())
    result = deviate(way, fed, honest(fed, 2), deviating=DEVIATING).results[SERVER]
    arrays = [party.read() for party in fed.parties]
    arrays[6] = arrays[2]
    plain = secfc.Lloyd(k=2, max_iter=3, quantization=secfc.Quantization(scale=result.plan.quantizer.scale))
    start = secfc.kmeans.starts.GivenLabels(result.trace.history[0])
    expected = secfc.fit(
        dataclasses.replace(plain, init=start), secfc.Federation.from_arrays(arrays), bound=BOUND
    )
    assert (np.concatenate(expected.labels) == result.trace.labels).all()


def out_of_range(**options):
    """Labels, and expected labels, of a run whose deviating client passes at up to 17 times the bound."""
    init = secfc.kmeans.starts.GivenLabels(np.arange(70) % 2)
    way = algorithm(secfc.Distances(), init=init, scale=32.0, basis=Basis(LANE_PRIMES[:3]), coarse="allow")
    fed, times = hold_bounded(), np.zeros((10, 3), np.int64)
    times[:, 0] = np.arange(8, 18) * (-1) ** np.arange(10)

    def rows(plan):
        return plan.quantizer.max_int * times.astype(object)

    everything = deviate(way, fed, rows, deviating=DEVIATING, keep_bodies=True, **options)
    arrays = [party.read() for party in fed.parties]
    arrays[6] = BOUND * times
    plain = secfc.Lloyd(
        k=2,
        max_iter=3,
        quantization=secfc.Quantization(scale=32.0, coarse="allow"),
        init=init,
        disclosure=secfc.Distances(),
    )
    expected = secfc.fit(plain, secfc.Federation.from_arrays(arrays), bound=20 * BOUND)
    return everything.results[SERVER].trace.history, expected.history


def test_rows_out_of_range_that_pass_their_test_end_the_run_before_a_label():
    with pytest.raises(SuspectedParties, match="not within the range of what honest rows give") as ended:
        out_of_range()
    assert DEVIATING in ended.value.parties


def test_without_the_check_nobody_would_notice_that_rows_are_out_of_range(monkeypatch):
    monkeypatch.setattr("field.code.reply_check.CheckWeights.fits", lambda *_: True)
    forget_ranges(monkeypatch)
    history, expected = out_of_range()
    assert not (history[1] == expected[1]).all()


# --- shares off the code --------------------------------------------------------------------------------


def off_code(errors, kind="RowShares"):
    """A role that adds errors[lane, j] to the first word of what it deals to client number j."""

    def change(to, message):
        if type(message).__name__ != kind or not to.startswith("client-"):
            return message
        values = message.values.copy()
        for lane, error in errors.get(int(to.removeprefix("client-")), {}).items():
            p = 2**30 - (35, 41, 83, 101)[lane]
            values[lane, 0, 0] = (int(values[lane, 0, 0]) + error) % p
        return dataclasses.replace(message, values=values)

    return lambda role: saying(role, change)


def kernel(plan):
    """Errors of three receivers that no decoding from the first threshold(2) or threshold(1) receivers sees.

    They are orthogonal to the weights of degree 2, and to those of degree 1 that the test of ranges takes.
    """
    code = plan.code
    weights = (code.decoding_weights(tuple(range(code.threshold(degree))), degree)[1] for degree in (2, 1))
    replies, rows = (w[:, :3].astype(object) for w in weights)
    errors = np.cross(replies, rows) % np.array(code.basis.primes, object)[:, None]
    return {j: dict(enumerate(errors[:, j].tolist())) for j in range(3)}


@policies
def test_shares_in_the_kernel_of_the_decoding_are_refused(monkeypatch, policy):
    fed, way = hold_bounded(), algorithm(policy)
    plan = way.plan(secfc.algorithm.PublicFacts.of(fed, BOUND))
    lie = {"deviating": DEVIATING, "change": off_code(kernel(plan))}
    with pytest.raises((FaultyClient, SuspectedParties)) as caught:
        deviate(way, fed, honest(fed, 6), **lie)
    assert DEVIATING in getattr(caught.value, "parties", ()) or caught.value.party == DEVIATING
    unchecked(monkeypatch, "degree")
    # Replies are checked against shares.
    if hasattr(policy, "dealer") or policy in (secfc.Distances(), secfc.Distances(blind=False)):
        with pytest.raises(SuspectedParties, match="lies on no polynomial; nothing of this step was opened"):
            deviate(way, fed, honest(fed, 6), **lie)
        return
    deviate(way, fed, honest(fed, 6), **lie)


def test_one_false_share_is_one_of_two_and_many_name_the_dealer():
    fed, way = hold_bounded(), algorithm(secfc.AssignmentsOnly())
    with pytest.raises(SuspectedParties) as suspected:
        deviate(way, fed, honest(fed, 6), deviating=DEVIATING, change=off_code({2: {0: 5}}))
    assert suspected.value.parties == (DEVIATING, "client-2")
    with pytest.raises(FaultyClient, match="on no polynomial") as caught:
        deviate(
            way, fed, honest(fed, 6), deviating=DEVIATING,
            change=off_code({j: {0: 7 + j**5} for j in range(6)}),
        )  # fmt: skip
    assert caught.value.party == DEVIATING


@pytest.mark.parametrize("seed", range(5))
def test_what_is_inconsistent_in_the_last_lane_only_is_refused(seed):
    # Comparisons may use fewer lanes than the plan has; the test uses all.
    fed = hold_bounded()
    way = algorithm(secfc.AssignmentsOnly())

    def rows(plan):
        basis = plan.code.basis
        out = plan.quantizer(fed.parties[6].read()).astype(object)
        first = basis.modulus // basis.primes[-1]
        out[3, 1] += first * (1 + seed)  # the same in all lanes but the last
        return out

    with pytest.raises(FaultyClient, match="beyond the public bound"):
        deviate(way, fed, rows, deviating=DEVIATING, seed=seed)


# --- coins --------------------------------------------------------------------------------------------


def tells_another_coin(told):
    """A server that tells one client another coin of client-3, which did not commit to it there either."""
    from secfc.roles.agreement import CoinToss

    def equivocate(envelope):
        told.append(envelope.kind)
        if envelope.recipient != "client-1" or envelope.kind != "TossedCoins":
            return (envelope,)
        values = envelope.body.values.copy()
        if envelope.round % 2 == first.first % 2:
            values[3] = np.frombuffer(first.commitment(0, 3, b"x" * 32), np.uint8)
        else:
            values[3] = np.frombuffer(b"x" * 32, np.uint8)
        return (dataclasses.replace(envelope, body=dataclasses.replace(envelope.body, values=values)),)

    first: CoinToss

    def of(plan):
        nonlocal first
        first = input_check.sign_toss(plan)
        return equivocate

    return of


def test_a_server_that_tells_clients_different_coins_is_caught_before_anything_is_told(monkeypatch):
    fed, way, told = hold_bounded(), algorithm(secfc.AssignmentsOnly()), []
    plan = way.plan(dataclasses.replace(secfc.algorithm.PublicFacts.of(fed, BOUND), session=bytes(32)))
    faults = tells_another_coin(told)(plan)
    with pytest.raises(SuspectedParties, match="told other coins") as caught:
        deviate(way, fed, honest(fed, 6), deviating=DEVIATING, faults=faults)
    assert SERVER in caught.value.parties
    assert "ProjectedShares" not in told
    # Positive control: where the choice of masks is bound to no coins, sums under other signs are told.
    monkeypatch.setattr(input_check, "seed_echo", lambda seed: bytes(32))
    with pytest.raises((FaultyClient, SuspectedParties)):
        deviate(way, fed, honest(fed, 6), deviating=DEVIATING, faults=faults)
    assert "ProjectedShares" in told


# --- what is told of an honest dealing -----------------------------------------------------------------


def project_in_a_run(monkeypatch):
    """Of each client: plan, choices, pattern, what it told, and what it told without dealer 0's choice."""
    real, calls = input_check.project_shares, []

    def project_twice(plan, received, chosen, pattern):
        # At once, as a client forgets masks when it has told.
        lacking = real(plan, received, {j: choice for j, choice in chosen.items() if j}, pattern)
        calls.append((plan, chosen, pattern, real(plan, received, chosen, pattern), lacking))
        return calls[-1][3]

    monkeypatch.setattr(input_check, "project_shares", project_twice)
    secfc.fit(algorithm(secfc.Distances(), max_iter=1), hold_bounded(rows=4), bound=BOUND, seed=1)
    return calls


@pytest.mark.parametrize("t", [1, 2, 3])
def test_of_those_who_verify_or_deal_one_is_honest_whichever_t_are_not(t):
    way, public = algorithm(secfc.Distances(), t=t), secfc.algorithm.PublicFacts.of(hold_bounded(), BOUND)
    plan = way.plan(public)
    for gone in (0, 1):
        verifying = input_check.choose_verifiers(plan, plan.computing[gone:])
        assert len({*verifying}) == t + 1
    assert count_mask_dealers(plan.code) == count_dealers(plan, colluding=t) == t + 1
    # Of rows that all deal together the t who collude choose masks and rows together; of own rows one does.
    mixed = way.complete(public, HiddenOwnerLayout(plan.m, len(plan.clients)))
    assert (plan.projections.colluding, mixed.projections.colluding) == (1, t)


def test_what_is_told_of_a_dealing_is_masked_whole_and_from_enough_clients(monkeypatch):
    calls = project_in_a_run(monkeypatch)
    plan, chosen, pattern, _, lacking = calls[1]
    told = [call[3] for call in calls]
    where = plan.block_slices[0]
    # Of a dealer that announced no masks nothing is told, and no sum of its shares in the clear.
    assert told[0].values[:, where].any()
    assert lacking.complete.tolist() == [False, *[True] * 6]
    assert not lacking.values[:, where].any()
    assert not lacking.checks[:, where].any()
    assert lacking.values[:, plan.block_slices[1]].any()
    # A mask twice would tell a difference of sums: whoever announces that is named.
    twice = input_check._announced(bytes(32), chosen[1])
    input_check.check_hiding(plan, plan.clients[1], twice)
    for masks, used in (
        (np.full_like(twice.masks, -1), twice.used),
        (twice.masks, np.ones_like(twice.used)),
    ):
        with pytest.raises(FaultyClient, match="masks that it did not deal, or one of them twice"):
            input_check.check_hiding(
                plan, plan.clients[1], dataclasses.replace(twice, masks=masks, used=used)
            )
    # As many as may collude could add what they like to words of fewer others.
    enough, all_count = plan.code.threshold(2), np.ones(7, np.bool_)
    judge = [plan, pattern, dict(enumerate(told[:enough])), all_count, SeededCoins(1, "judge")]
    input_check.refuse_invalid_rows(*judge)
    judge[2] = dict(enumerate(told[: enough - 1]))
    with pytest.raises(TooFewReplies):
        input_check.refuse_invalid_rows(*judge)


def test_a_server_that_counts_on_rows_that_did_not_come_is_named(monkeypatch):
    real = input_check.project_shares
    monkeypatch.setattr(
        input_check, "project_shares",
        lambda plan, received, chosen, pattern: real(
            plan, received, {j: c for j, c in chosen.items() if j}, pattern
        ),
    )  # fmt: skip
    monkeypatch.setattr(
        input_check, "counted_by_server", lambda plan, inbox: np.ones(len(plan.clients), np.bool_)
    )
    with pytest.raises(FaultyServer, match="counts on rows that did not come"):
        secfc.fit(algorithm(secfc.Distances(), max_iter=1), hold_bounded(rows=4), bound=BOUND, seed=1)


def test_a_server_cannot_wave_a_deviating_client_through(monkeypatch):
    # The server judges nothing; the verifying clients do.
    real = input_check.judge_at_server

    def lax(plan, screening):
        role, value = real(plan, screening), None
        while True:
            with monkeypatch.context() as patch:
                patch.setattr(input_check, "refuse_invalid_rows", lambda *args: None)
                try:
                    exchange = role.send(value)
                except StopIteration as done:
                    return done.value
            value = yield exchange

    monkeypatch.setattr("secfc.coded.sharing.judge_at_server", lax)
    fed = hold_bounded()
    with pytest.raises(FaultyClient, match="beyond the public bound") as caught:
        deviate(algorithm(secfc.AssignmentsOnly()), fed, far, deviating=DEVIATING)
    assert caught.value.party == DEVIATING
    monkeypatch.setattr(input_check, "choose_verifiers", lambda plan, present: ())
    deviate(algorithm(secfc.AssignmentsOnly()), fed, far, deviating=DEVIATING)


@pytest.mark.parametrize(
    "kind", ["Commitment", "Coin", "TossedCoins", "MaskChoice", "ProjectedShares", "Contributors"]
)
def test_a_client_lost_while_rows_are_tested_costs_its_rows_at_most(kind):
    fed = hold_bounded()
    way = algorithm(secfc.AssignmentsOnly())
    seen = [False]

    def lost(envelope):
        seen[0] |= "client-2" in (envelope.sender, envelope.recipient) and envelope.kind == kind
        return () if seen[0] and "client-2" in (envelope.sender, envelope.recipient) else (envelope,)

    result = secfc.fit(way, fed, faults=lost, bound=BOUND)
    kept = [p for p in fed.parties if p.name not in result.excluded]
    assert set(result.excluded) <= {"client-2"}
    plain = secfc.Lloyd(
        k=2,
        init=secfc.RandomLabels(),
        max_iter=3,
        quantization=secfc.Quantization(scale=result.plan.quantizer.scale),
    )
    expected = secfc.fit(plain, secfc.Federation(tuple(kept)), bound=BOUND)
    assert all((a == b).all() for a, b in zip(result.history, expected.history, strict=True))
