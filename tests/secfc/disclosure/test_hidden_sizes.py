"""Sizes that nobody learns, under every dealer: exactness, refusals, and what is told of a run."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import secfc
from field.code.lagrange_code import LagrangeCode
from field.compare import shared_step
from field.ring.basis import Basis
from secfc.coded.messages import MaskedBits
from secfc.coded.queries import Operation, Query
from secfc.data.inputs import build_algorithm
from secfc.disclosure import FinalLabelsOnly
from secfc.errors import FaultyServer, SuspectedParties
from secfc.kmeans.loop import PlainSource, lloyd
from secfc.kmeans.starts import GivenLabels, RandomPoints
from secfc.roles.exchange import SERVER, run_alone
from tests.nightly import in_turns, trials
from tests.secfc.coded.test_membership import overlapping
from tests.secfc.disclosure.test_final_labels import assert_end_of_plaintext, is_uniform
from tests.secfc.disclosure.test_owner_labels import (
    HIDDEN,
    assert_that_of_plaintext,
    assert_that_of_the_union,
    start_of,
    tell_owners,
)
from tests.secfc.disclosure.test_owner_labels import shared as shared  # a fixture
from tests.secfc.queries import altered
from tests.small import federation

DEALERS = (SERVER, "client-0", None)


def own(data, **parameters):
    return tell_owners(data, sizes="hidden", **parameters)


def final(data, *, k=3, t=1, max_iter=8, dealer=SERVER, stop=True, seed=0, **parameters):
    more = {name: parameters.pop(name) for name in ("faults",) if name in parameters}
    way = build_algorithm(
        secfc.SecFC,
        k=k,
        t=t,
        max_iter=max_iter,
        disclosure=FinalLabelsOnly(stop=stop, dealer=dealer),
        **parameters,
    )
    return secfc.fit(way, data, seed=seed, keep_bodies=True, **more)


# --- exactness -----------------------------------------------------------------------------------


@trials(5)
@given(
    st.integers(1, 2), st.integers(1, 2), st.integers(1, 70), st.integers(1, 4), st.integers(1, 9),
    st.integers(0, 2**16), st.booleans(), st.booleans(), st.sampled_from(DEALERS), st.booleans(),
)  # fmt: skip
def test_labels_are_those_of_plaintext_lloyd(t, ell, m, d, k, seed, whole, points, dealer, everybody):
    # Whole numbers on a small grid make ties and duplicates; k near m makes empty clusters.
    ell = 1 if dealer is None else ell
    n = 2 * (ell + t - 1) + 2
    data = federation(n, max(m, n, k), d, seed, whole)
    start = {"init": RandomPoints()} if points else {}
    if everybody:
        result = final(data, k=k, t=t, ell=ell, seed=seed, max_iter=4, dealer=dealer, **start)
        assert_end_of_plaintext(result, data, 4)
    else:
        result = own(data, k=k, t=t, ell=ell, seed=seed, max_iter=4, dealer=dealer, **start)
        assert_that_of_plaintext(result, data, 4)
        assert result.sizes == ()


@pytest.mark.parametrize(("k", "dealer"), [(3, SERVER), (9, SERVER), (5, None)])
def test_labels_are_exact_at_every_step(k, dealer, shared):
    data = federation(4, 150, 2, k, integers=True)
    result = own(data, k=k, max_iter=20, dealer=dealer)
    trace = assert_that_of_plaintext(result, data, 20)
    assert len(trace.history) > 2
    for step, found in shared.items():
        parts = found["sum"][1]
        if dealer is None:  # members have shares of residues
            parts = result.plan.code.interpolate(found["shares"], 1)[:, 0]
        want = trace.history[step] == found["alive"][:, None]
        assert all((lane == want[:-1]).all() for lane in parts)


@pytest.mark.parametrize("dealer", DEALERS)
def test_clusters_without_points_stay_without(dealer):
    data = federation(4, 90, 2, 8, integers=True)
    for labels in (np.where(np.arange(90) % 2, 5, 2), np.where(np.arange(90) < 4, np.arange(90), -1)):
        assert_that_of_plaintext(own(data, k=8, init=GivenLabels(labels), dealer=dealer), data)
    # On a line, a far cluster loses all its points to nearer ones: on the way sizes become 0.
    line = secfc.Federation.from_arrays(
        np.array_split(np.array([[0.0], [0], [1], [9], [9], [8], [4], [5]]), 4)
    )
    for seed in range(4):
        assert_that_of_plaintext(own(line, k=5, seed=seed, dealer=dealer), line)


def test_numbers_decide_for_every_size():
    """Every pair of sizes among 5 points, and distances that tie or do not: the sign is the rule's."""
    basis, m = Basis.for_bound(2**80), 5
    code = LagrangeCode(basis, 1, 1, 0)
    for a in range(m + 1):
        for b in range(m + 1 - a):
            for at in range(-2, 3):
                sizes = basis.reduce(np.array([a, b]))
                sums = basis.reduce(np.array([[0 * a], [2 * b]]))  # means 0 and 2: a tie at 1
                pairs = shared_step.ClusterPairs(2)
                reduced = shared_step.pair_products(basis, sums, sizes, pairs)
                planes = shared_step.signed_bisectors(basis, reduced, sizes, 1, pairs, m, code.ell)
                columns = basis.reduce(np.array([[1], [at]]))
                (number,) = basis.lift_signed(basis.matmul(planes, columns)).reshape(-1)
                nearer = b > 0 and (a == 0 or abs(2 - at) < abs(at))
                assert (number > 0) == nearer
                bound = (shared_step.side_margin(m) + 1) * max(1, 2 * 2 * (m * m // 4)) ** 2
                assert abs(number) <= bound


def test_a_fixed_number_of_steps_says_nothing():
    data = federation(4, 60, 2)
    result = final(data, stop=False, max_iter=12)
    start = result.history[0].astype(np.int32)
    trace = run_alone(lloyd(start, 3, 12, PlainSource(result.plan.quantizer(data.stacked()))))
    assert trace.n_iter < 12
    assert (result.n_iter, result.converged) == (12, False)
    assert (result.history[-1] == trace.history[-1]).all()
    assert not any(e.body.same for e in result.transcript.envelopes if e.kind == "SizeShare")


def test_new_points_and_hidden_owners():
    data = federation(5, 80, 2)
    for k, dealer in ((3, SERVER), (9, None)):
        result = own(data, k=k, t=2, max_iter=60, dealer=dealer)
        assert result.converged
        for mine, again in zip(result.labels, result.predict(data), strict=True):
            assert (mine == again).all()
    result = final(data, k=3, max_iter=60)
    for mine, again in zip(result.labels, result.predict(data), strict=True):
        assert (mine == again).all()
    union, _ = overlapping(5, 30, 20)
    for dealer in (SERVER, None):
        assert_that_of_the_union(own(union, k=3, dealer=dealer, membership=HIDDEN), union)


@pytest.mark.parametrize("kind", ["LloydStepQuery", "RevealLabels"])
def test_a_lost_member_costs_a_new_beginning(kind):
    data, told = federation(5, 60, 2), []

    def faults(e):
        told.extend([e] if e.kind == kind and e.recipient == "client-1" else [])
        return (
            () if len(told) > (kind == "LloydStepQuery") and "client-1" in (e.sender, e.recipient) else (e,)
        )

    want, result = (final(data, **more) for more in ({}, {"faults": faults}))
    assert (
        len({e.body.members.tobytes() for e in result.transcript.envelopes if e.kind == "LloydStepQuery"}) > 1
    )
    assert (result.history[-1] == want.history[-1]).all()


# --- views and refusals ----------------------------------------------------------------------------


@pytest.mark.parametrize(("dealer", "result"), in_turns(DEALERS, [own, final]))
def test_no_size_is_told(result, dealer):
    """Sizes on the wire are those of public labels, or 0; of two data sets all messages are as long."""
    shapes = []
    for seed in (1, 2):
        data = federation(4, 64, 2, seed)
        if result is final:
            found = final(data, stop=False, max_iter=3, dealer=dealer, scale=64.0, coarse="allow")
        else:
            found = own(data, max_iter=1, dealer=dealer, scale=64.0, coarse="allow")
        start = np.bincount(start_of(found), minlength=3)
        for e in found.transcript.envelopes:
            sizes = e.body.at.sizes if isinstance(e.body, Query) and e.body.operation.shared else None
            if e.kind == "RunEnded":
                assert set(e.body.sizes.tolist()) == {1}
            elif sizes is not None:
                assert (sizes == (0 if e.body.at.step else start)).all()
            if e.kind == "SizeShare":
                assert e.body.values.size in (0, 3, 6)  # of what says whether labels changed, by part
        shapes.append(
            [(e.round, e.sender, e.recipient, e.kind, e.nbytes) for e in found.transcript.envelopes]
        )
    assert shapes[0] == shapes[1]


def masked_to(result, member):
    """What a member opens of the others, and the masked numbers that it sums up, in octets."""
    p = np.array(result.plan.code.basis.primes, np.uint64)
    words, residues = [], []
    for e in result.transcript.envelopes:
        if e.recipient != member:
            continue
        if isinstance(e.body, MaskedBits) and e.body.words.dtype == np.uint64:
            words.append(e.body.words.reshape(-1).view(np.uint8))
        elif e.kind in ("MaskedDistances", "MaskedSum", "ResharedPart"):
            values = e.body.values.reshape(len(e.body.values), -1).astype(np.uint64)
            residues.append((values * 256 // p[: len(values), None]).astype(np.uint8).reshape(-1))
    return np.concatenate(words), np.concatenate(residues)


def test_what_a_member_is_told_is_uniform_under_a_dealer(monkeypatch):
    data = federation(4, 320, 3)
    for member in ("client-0", "client-1"):
        assert all(map(is_uniform, masked_to(final(data, max_iter=3), member)))
    # Control: responders that do not mask what they send, and a check that would notice.
    from field.compare import dealer_protocol

    monkeypatch.setattr("field.code.reply_check.CheckWeights.fits", lambda *_: True)
    monkeypatch.setattr(
        dealer_protocol,
        "mask_distances",
        lambda basis, weights, shape, values, stream, threads: np.zeros((basis.lanes, *shape), np.uint32),
    )
    assert not any(is_uniform(masked_to(final(data, max_iter=3), c)[1]) for c in ("client-0", "client-1"))


def test_a_server_that_names_sizes_or_asks_who_else_hears_is_refused():
    data = federation(4, 60, 2)
    for change in ({"sizes": np.array([30, 20, 10])}, {"step": 2}):

        def faults(e, change=change):
            if e.kind == "LloydStepQuery" and e.body.at.step == 1:
                object.__setattr__(e, "body", altered(e.body, **change))
            return (e,)

        with pytest.raises((FaultyServer, SuspectedParties), match=r"hidden|asked"):
            own(data, faults=faults)

    def shown(e):
        if e.kind == "DeliverLabels":
            object.__setattr__(e, "body", altered(e.body, operation=Operation.REVEAL_LABELS))
        return (e,)

    with pytest.raises((FaultyServer, SuspectedParties), match="asked"):
        own(data, faults=shown)

    # Nor does a run begin anew with a committee of which nobody is lost.
    begun = {}

    def anew(e):
        if e.kind == "LloydStepQuery":
            first = begun.setdefault(e.recipient, e.body)
            if e.body.at.step == 2:
                object.__setattr__(e, "body", altered(first, round=e.body.round))
        return (e,)

    with pytest.raises((FaultyServer, SuspectedParties), match="where the plan has"):
        own(data, faults=anew)


def test_shown_early_would_be_labels_of_a_step_and_is_refused():
    def faults(e):
        if e.kind == "LloydStepQuery" and e.body.at.step == 1:
            object.__setattr__(e, "body", altered(e.body, operation=Operation.REVEAL_LABELS))
        return (e,)

    with pytest.raises((FaultyServer, SuspectedParties), match="asked"):
        final(federation(4, 60, 2), faults=faults)


@pytest.mark.parametrize(
    ("policy", "parameters", "remedy"),
    [
        (own, {"n_init": 2}, 'sizes="open"'),
        (own, {"reveal_centers": True}, "Leave reveal_centers out"),
        (own, {"largest": 20}, "Leave largest out"),
        (own, {"dealer": None, "ell": 2}, "Use .*ell=1"),
        (own, {"init": secfc.Bisecting()}, "init=RandomLabels"),
        (final, {"n_init": 2}, "n_init=2"),
        (final, {"largest": 20}, "sizes are secret"),
        (final, {"dealer": "bob"}, "takes no part"),
        (final, {"init": secfc.Bisecting()}, "init=RandomLabels"),
    ],
)
def test_what_does_not_fit_is_refused(policy, parameters, remedy):
    with pytest.raises(ValueError, match=remedy):
        policy(federation(9, 40, 2), **parameters)
    with pytest.raises(ValueError, match='"open" to all, or "hidden"'):
        secfc.OwnLabels(sizes="closed")
