"""Workers: some clients hold shares and compute, the others deal, hear the result, and may leave between."""

import dataclasses
from collections import Counter

import click
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import secfc
from field import Basis, SeededCoins
from field.code.lagrange_code import TooFewValues
from field.ring.basis import LANE_PRIMES
from secfc.algorithm import PublicFacts
from secfc.attacks.views import View
from secfc.coded.messages import RowShares
from secfc.coded.parameters import check_enough_workers, select_workers
from secfc.coded_kmeans.adversary_view import DecodedView
from secfc.coded_kmeans.model_share import from_plain_values, to_plain_values
from secfc.data.inputs import build_algorithm
from secfc.errors import InputError, PlanMismatch, SuspectedParties, TooFewReplies
from secfc.privacy import Bound, Budget, Neighbors
from secfc.roles.exchange import SERVER
from secfc.transport.simulate import simulate
from tests.nightly import trials

POLICIES = [secfc.AssignmentsOnly(), secfc.Distances(), secfc.FinalLabelsOnly(dealer="server")]


def points(n, rows=4, d=2, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(rng.integers(0, 3, (rows, 1)) * 5, 1, (rows, d)) for _ in range(n)]


# --- exactness -----------------------------------------------------------------------------------


@trials(5)
@given(st.data(), st.sampled_from(POLICIES))
def test_labels_equal_plaintext_lloyd_at_every_step(data, policy):
    t = data.draw(st.integers(1, 2), "t")
    ell = data.draw(st.integers(1, 2 if policy == POLICIES[1] else 1), "ell")
    w = data.draw(st.integers(2 * (ell + t - 1) + 1, 7), "w")
    n = data.draw(st.integers(w, w + 5), "n")
    names = tuple(f"client-{j}" for j in range(n))
    chosen = data.draw(st.permutations(names), "names")[:w]
    workers = data.draw(st.sampled_from([w, tuple(chosen)]), "workers")
    rows = data.draw(st.lists(st.integers(1, 4), min_size=n, max_size=n), "rows")
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32), "seed"))
    federation = [rng.integers(-20, 20, (count, 2)) / 4 for count in rows]
    shared = {
        "k": 3, "scale": 4.0, "max_iter": 8, "init": secfc.RandomLabels(), "disclosure": policy,
        "coarse": "allow",
    }  # fmt: skip
    secure = secfc.fit(
        build_algorithm(secfc.SecFC, t=t, ell=ell, workers=workers, **shared), federation, seed=1, bound=8.0
    )
    plain = secfc.fit(build_algorithm(secfc.Lloyd, **shared), federation, seed=1, bound=8.0)
    if policy.capabilities.exposes != "nothing":
        assert len(secure.history) == len(plain.history)
        assert all((a == b).all() for a, b in zip(secure.history, plain.history, strict=True))
    assert (secure.flat == plain.flat).all()
    assert secure.plan.computing == select_workers(workers, names)
    assert not secure.excluded


def test_centers_new_points_and_a_saved_model():
    data = points(9)
    way = secfc.SecFC(
        k=3,
        threshold=1,
        runtime=secfc.Runtime(workers=4),
        release=secfc.Release(reveal_centers=True, smallest_center=1),
    )
    secure = secfc.fit(way, data, seed=0, sealed=True)
    plain = secfc.fit(
        secfc.Lloyd(k=3, quantization=secfc.Quantization(scale=secure.plan.quantizer.scale)), data, seed=0
    )
    np.testing.assert_allclose(secure.centers, plain.centers)
    new = points(9, rows=2, seed=1)
    assert (np.concatenate(secure.predict(new)) == np.concatenate(plain.predict(new))).all()
    again = dataclasses.replace(secure, model=from_plain_values(*to_plain_values(secure.model)))
    spent, kept = ([one.left for one in each.model.allowances.values()] for each in (secure, again))
    assert spent == kept
    assert max(kept) < secure.plan.predictions  # saving renews nothing
    assert (np.concatenate(again.predict(new)) == np.concatenate(plain.predict(new))).all()


def test_who_rests_is_told_of_no_more_points_than_there_are():
    def more(e):
        if e.kind == "InputPartyResult":
            e = dataclasses.replace(e, body=dataclasses.replace(e.body, sizes=e.body.sizes + 99))
        return (e,)

    way = secfc.SecFC(k=3, threshold=1, runtime=secfc.Runtime(workers=4), max_iter=1)
    with pytest.raises(secfc.FaultyServer, match="counts more points than m="):
        secfc.fit(way, points(9), seed=0, faults=more)


def test_noise_in_shares_is_that_of_workers():
    noise = secfc.NoiseInShares(
        Budget(1e4, 1e-6), radius=Bound.given(30.0), neighbors=Neighbors("replace", "client"), absent=1
    )
    data = points(9)
    way = secfc.SecFC(k=3, threshold=1, runtime=secfc.Runtime(workers=5), disclosure=noise, max_iter=2)
    result = secfc.fit(way, data, seed=0, bound=30.0)
    assert len(result.history) == 3
    dealt = {e.sender for e in result.transcript.envelopes if e.kind == "NoiseShares"}
    assert dealt == set(result.plan.workers)
    # Noise of w - t - absent workers suffices, as in a run of them alone; and all clients are protected.
    alone = secfc.SecFC(k=3, threshold=1, disclosure=noise, max_iter=2).plan(
        PublicFacts(tuple("abcde"), (4,) * 5, 2, 30.0, False)
    )
    assert noise.noise(noise.steps(result.plan.at_work), 1).honest == 3
    assert noise.noise(noise.steps(alone), 1).honest == 3
    by_all = noise.noise(noise.steps(result.plan.at_work), result.plan.radius)
    labels = result.history[-1].astype(np.int32)
    layout = result.plan.at_work.layout
    assert by_all.on_sums(layout, labels, 3, 2) == by_all.on_sums(result.plan.layout, labels, 3, 2)


# --- who is told what ----------------------------------------------------------------------------

N, W, T = 10, 4, 1


@pytest.fixture(scope="module")
def clustered():
    data = points(N)
    way = secfc.SecFC(
        k=3,
        threshold=T,
        runtime=secfc.Runtime(workers=W),
        disclosure=secfc.Distances(),
        init=secfc.RandomLabels(),
    )
    return data, secfc.fit(way, data, seed=0, keep_bodies=True)


def test_a_client_that_does_not_work_deals_and_hears_of_its_own_rows(clustered):
    _, result = clustered
    resting = result.plan.resting
    assert len(resting) == N - W
    for name in resting:
        kinds = View.of(result, result.plan, [name]).kinds()
        assert kinds["received"] == {"PlanDigest": W + 1, "TossedSeed": 1, "InputPartyResult": 1}
        assert kinds["sent"] == {"PlanDigest": W + 1, "RowShares": W, "MaskChoice": W}
    assert not View.of(result, result.plan, resting).kinds()["inside"], "no word between those who rest"
    told = [e.body for e in result.transcript.envelopes if e.kind == "InputPartyResult"]
    for j, message in zip((result.plan.numbers[name] for name in resting), told, strict=True):
        assert (message.labels == result.labels[j]).all()


def test_t_workers_with_all_who_rest_hold_too_few_shares_and_ell_more_read_everything(clustered):
    data, result = clustered
    plan, few = result.plan, result.plan.workers[: T + plan_ell(clustered)]
    victim = plan.workers[-1]  # another worker's rows, and those of a client that rests
    for owner in (victim, plan.resting[0]):
        held = {
            plan.seats[e.recipient]: e.body.values
            for e in View.of(result, plan, few).received()
            if isinstance(e.body, RowShares) and e.sender == owner
        }
        with pytest.raises((TooFewReplies, TooFewValues)):
            plan.code.interpolate({j: held[j] for j in list(held)[:T]}, 1)
        read = plan.code.basis.lift_signed(plan.code.interpolate(held, 1))[0]
        j = plan.numbers[owner]
        assert (read[:, :2] == plan.quantizer(data[j])).all()  # the positive control: ell + t workers
    everybody_else = View.of(result, plan, (few[0], *plan.resting[1:]))
    told = {(e.recipient, e.kind) for e in everybody_else.received() if e.sender == victim}
    assert {recipient for recipient, kind in told if kind != "PlanDigest"} == {few[0]}


def plan_ell(clustered):
    return clustered[1].plan.code.ell


def test_the_server_decodes_distances_only_of_replies(clustered):
    _, result = clustered
    seen = DecodedView.of(result, result.plan, SERVER)
    question = next(iter(seen.questions()))
    assert len(question.replies) >= 3
    assert seen.distances(question).shape == (3, 4 * N)


def test_traffic_grows_with_the_number_of_clients():
    sent = {}
    for n in (20, 40, 80):
        lanes = Basis(LANE_PRIMES[:3])
        way = secfc.SecFC(
            k=2,
            threshold=1,
            runtime=secfc.Runtime(workers=3),
            max_iter=1,
            init=secfc.RandomLabels(),
            quantization=secfc.Quantization(basis=lanes),
        )
        result = secfc.fit(way, points(n), seed=0, bound=32.0)
        sent[n] = sum(e.nbytes for e in result.transcript.envelopes)
    first, second = sent[40] - sent[20], sent[80] - sent[40]
    assert second <= 2.1 * first, "each client costs what another costs"


# --- those who leave, and a server that lies -----------------------------------------------------


def roles(n=8, workers=4, **more):
    way = build_algorithm(
        secfc.SecFC, **{
            "k": 2, "t": 1, "init": secfc.RandomLabels(), "scale": 16.0, "disclosure": secfc.Distances(),
            "workers": workers, "coarse": "allow", **more,
        }
    )  # fmt: skip
    federation = secfc.Federation.from_arrays(points(n))
    plan = way.plan(PublicFacts.of(federation, 32.0))
    made = {p.name: way.client(plan, p, coins=SeededCoins(1, p.name)) for p in federation.parties}
    made[SERVER] = way.server(plan, rng=np.random.default_rng(0), coins=SeededCoins(1, SERVER))
    return plan, made


def silent(gone, kind):
    """Messages of these parties are lost from their first of this kind on."""
    left = set()

    def faults(e):
        if e.sender in gone and e.kind == kind:
            left.add(e.sender)
        return () if e.sender in left or e.recipient in left else (e,)

    return faults


def test_who_rests_may_leave_after_dealing_and_its_rows_count():
    plan, made = roles()
    gone = plan.resting[1]

    def faults(e):
        return () if gone in (e.sender, e.recipient) and e.kind == "InputPartyResult" else (e,)

    run = simulate(made, faults=faults)
    assert run.results[SERVER].excluded == ()
    assert gone in run.silent
    assert set(run.results) == {*plan.clients, SERVER} - {gone}


def test_rows_of_who_left_while_it_dealt_do_not_count():
    plan, made = roles()
    gone = plan.resting[1]
    run = simulate(made, faults=silent({gone}, "MaskChoice"))
    assert run.results[SERVER].excluded == (gone,)
    other = plan.resting[2]
    assert (run.results[other].labels >= 0).all()


def test_as_many_workers_may_vanish_as_there_are_beyond_the_threshold():
    plan, made = roles(workers=4)
    run = simulate(made, faults=silent({plan.workers[3]}, "CodedDistances"))
    assert run.results[SERVER].excluded == ()
    plan, made = roles(workers=4)
    with pytest.raises(TooFewReplies, match="3 replies are needed, 2 came"):
        simulate(made, faults=silent(set(plan.workers[2:]), "CodedDistances"))


def test_workers_that_all_vanish_end_the_run_and_say_so():
    plan, made = roles()
    with pytest.raises(TooFewReplies, match=r"3 replies are needed, 0 came \(nobody answered\)"):
        simulate(made, faults=silent(set(plan.workers), "RowShares"))


def test_workers_that_were_told_different_contributors_notice():
    plan, made = roles()
    fooled = plan.workers[1]

    def faults(e):
        if e.kind == "Contributors" and e.recipient == fooled:
            other = e.body.complete.copy()
            other[plan.numbers[plan.resting[0]]] = False
            e = dataclasses.replace(e, body=dataclasses.replace(e.body, complete=other))
        return (e,)

    with pytest.raises(SuspectedParties, match="told other contributors") as caught:
        simulate(made, faults=faults)
    assert SERVER in caught.value.parties


def test_a_dealer_that_was_told_other_coins_gives_nothing_away():
    plan, made = roles()
    fooled, sent = plan.resting[0], Counter()

    def faults(e):
        sent[e.kind] += 1
        if e.kind == "TossedSeed" and e.recipient == fooled:
            e = dataclasses.replace(e, body=type(e.body)(bytes(32)))
        return (e,)

    with pytest.raises(SuspectedParties, match="told other coins") as caught:
        simulate(made, faults=faults)
    assert set(caught.value.parties) == {fooled, SERVER}
    assert not sent["ProjectedShares"]


def test_other_plans_are_named_with_what_differs():
    plan, made = roles()
    way = secfc.SecFC(
        k=2, threshold=1, init=secfc.RandomLabels(),
        quantization=secfc.Quantization(scale=16.0, coarse="allow"), disclosure=secfc.Distances(),
        runtime=secfc.Runtime(workers=4),
        max_iter=7,
    )  # fmt: skip
    federation = secfc.Federation.from_arrays(points(8))
    odd, own = plan.resting[0], plan.terms.public
    party = next(p for p in federation.parties if p.name == odd)
    made[odd] = way.client(way.plan(own), party, coins=SeededCoins(1, odd))
    with pytest.raises(PlanMismatch, match=r"max_iter is 300 here and 7 there|max_iter is 7 here and 300"):
        simulate(made)


# --- bad input -----------------------------------------------------------------------------------

BAD = {
    "workers=4: ell=1, t=2 needs 2*(ell+t-1)+1+2*corrected = 5": {"workers": 4, "t": 2},
    "workers=2: ell=1, t=1 needs": {"workers": 2, "t": None},
    "workers=0 of n=8 clients: take a number in [1, 8]": {"workers": 0},
    "workers=9 of n=8 clients": {"workers": 9},
    "workers: 'nobody' is no client: name clients of the run (client-0": {
        "workers": ("client-0", "client-1", "nobody")
    },
    "workers: 'client-1' is named twice": {"workers": ("client-0", "client-1", "client-1", "client-2")},
    "workers=2.5 is a float": {"workers": 2.5},
    "workers=True is a bool": {"workers": True},
    "(workers=4) with membership=Private()": {"membership": "private"},
    "(workers=5) with threshold=Threshold(corrected=1)": {"corrected": 1, "workers": 5},
    "(workers=4) with disclosure=OwnLabels(): owners hear labels": {"disclosure": "own-labels"},
}


def test_workers_are_enough_for_deviating_clients_too():
    check_enough_workers(5, 5, 1, 1, 1)
    with pytest.raises(secfc.InputError, match=r"2\*\(ell\+t-1\)\+1\+2\*corrected = 5 of them"):
        check_enough_workers(4, 4, 1, 1, 1)


@pytest.mark.parametrize("text", BAD)
def test_what_cannot_be_is_refused_with_value_rule_and_remedy(text):
    with pytest.raises(InputError) as caught:
        roles(**{"workers": 4, **BAD[text]})
    assert text in str(caught.value)


def test_who_rests_cannot_open_centers_and_cannot_deal_masks():
    with pytest.raises(ValueError, match="client-1 cannot reveal centers: not a worker, who holds shares"):
        roles(reveal_centers=("client-0", "client-1"))
    with pytest.raises(ValueError, match="dealer='client-1' takes no part"):
        roles(disclosure=secfc.AssignmentsOnly("client-1"))


# --- the shell -----------------------------------------------------------------------------------


def test_the_shell_takes_a_number_and_names_and_refuses_what_python_refuses():
    from secfc.cli.shell.options import Workers

    taken = Workers().convert
    assert taken("5", None, None) == 5
    assert taken("a, b,c", None, None) == ("a", "b", "c")
    with pytest.raises(click.UsageError, match="has an empty name"):
        taken("a,,b", None, None)
