"""Labels and nothing else: the same labels as plaintext, whoever deals and whoever falls silent."""

import dataclasses
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import secfc
from field.code.masking import PairKeys
from field.kernels import compiling
from field.kernels.compiling import run_parallel
from field.ring.basis import MERSENNE_61, Basis
from field.secrets.coins import SeededCoins
from secfc.algorithm import PublicFacts
from secfc.attacks.views import CannotDecode, View
from secfc.coded.messages import (
    Corrections,
    LabelShare,
    MaskedBits,
    MaskedSum,
)
from secfc.coded.parameters import Network
from secfc.coded.queries import Operation
from secfc.coded_kmeans.adversary_view import DecodedView
from secfc.data.inputs import build_algorithm, with_parameters
from secfc.disclosure import AssignmentsOnly
from secfc.disclosure.compare import rounds
from secfc.disclosure.compare.client import ComparisonClient
from secfc.disclosure.compare.computing_party import ComputingParty
from secfc.errors import FaultyClient, FaultyServer, TooFewReplies
from secfc.kmeans.bisecting import Bisecting
from secfc.kmeans.starts import CenterSeparation, GivenLabels, KMeansPlusPlus, RandomLabels, RandomPoints
from secfc.roles.exchange import SERVER
from secfc.transport.simulate import simulate
from secfc.transport.wire import encode, over_wire
from tests import small
from tests.nightly import by_night, covering, every, trials
from tests.secfc.queries import altered, query
from tests.secfc.rowtest import with_rowtest
from tests.secfc.transport.test_wire import roles_of
from tests.small import cluster, same_runs

N, T, STEPS = 9, 2, 3
# ell=2, t=2: seven respond, four compare in all pairs, and ask once more for the labels of the result.
RESPOND, MEMBERS, WITNESSES, ASKED = 7, 4, 3, STEPS + 1
STARTS = [
    RandomLabels(),
    RandomPoints(),
    CenterSeparation(RandomPoints()),
    KMeansPlusPlus(),
    GivenLabels(np.zeros(90, int)),
]


federation = partial(small.federation, n=N, m=90, d=5)


def share_labels(data, dealer=SERVER, consent=False, **settings):
    shared = {"t": T, "ell": 2, "init": RandomLabels(), "bound": 6.0}
    return cluster(data, AssignmentsOnly(dealer, consent), **{**shared, **settings})


def plain(data, *, k=3, seed=0, **parameters):
    parameters = {"init": RandomLabels(), **parameters}
    return secfc.fit(
        build_algorithm(secfc.Lloyd, k=k, disclosure=AssignmentsOnly(), **parameters),
        data,
        seed=seed,
        bound=6.0,
    )


# --- exactness -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "policy"),
    covering(
        [(3, 1, 4, 193), (6, 2, 5, 128), (2, 1, 4, 63)],
        [secfc.AssignmentsOnly(), AssignmentsOnly("client-3"), secfc.OwnLabels()],
    ),
)
def test_labels_in_blocks_of_rows_are_those_of_plaintext(shape, policy, monkeypatch):
    k, t, n, m = shape
    data, shared = federation(n=n, m=m), {"k": k, "init": RandomLabels(), "disclosure": policy, "max_iter": 3}
    way = build_algorithm(secfc.SecFC, t=t, network=Network(latency=0.0), **shared)
    monkeypatch.setattr("field.compare.blockwise.LEAST", 64)
    turns = secfc.fit(way, data, seed=k, bound=6.0)
    monkeypatch.setattr("field.compare.blockwise.MOST", 1)
    whole = secfc.fit(way, data, seed=k, bound=6.0)
    plain = secfc.fit(build_algorithm(secfc.Lloyd, **shared), data, seed=k, bound=6.0)
    assert (turns.flat == plain.flat).all()
    assert (whole.flat == plain.flat).all()
    opened = [[e.kind for e in run.transcript.envelopes].count("MaskedBits") for run in (turns, whole)]
    # Every block opens in rounds of its own, beside what labels that stay shared open at once.
    assert (opened[0] > opened[1]) == (m >= 128)


@trials(12, nightly=100)
@given(
    st.sampled_from([(1, 2, 2), (1, 3, 2), (2, 5, 1), (1, 4, 1), (1, 2, 0)]), st.integers(0, 2),
    st.integers(1, 16), st.integers(1, 4), st.integers(0, 4), st.integers(0, 2**20), st.booleans(),
)  # fmt: skip
def test_labels_are_those_of_plaintext(shape, more, k, d, start, seed, client_deals):
    # Small integers as points: duplicates, ties and empty clusters are the rule.
    ell, _, t = shape
    n = max(2 * (ell + t - 1) + 1 + more, max(2, t + 1) + 1)
    data = federation(n=n, m=90, d=d, seed=seed, integers=True)
    init = STARTS[start]
    dealer = f"client-{n - 1}" if client_deals else SERVER
    secure = share_labels(
        data, k=k, t=t, ell=ell, dealer=dealer, consent=True, seed=seed, init=init, max_iter=4
    )
    assert same_runs(secure, plain(data, k=k, seed=seed, init=init, max_iter=4))


@pytest.mark.parametrize(
    ("dealer", "init"),
    every(
        2,
        [
            *((SERVER, init) for init in STARTS),
            ("client-8", STARTS[0]),
            *by_night(*(("client-8", init) for init in STARTS[1:])),
        ],
    ),
    ids=str,
)
def test_every_start_restarts_and_predictions(dealer, init):
    data, new = federation(), federation(m=45, seed=1)
    secure = share_labels(data, dealer=dealer, init=init, n_init=3, consent=True)
    expected = plain(data, init=init, n_init=3)
    assert same_runs(secure, expected)
    assert secure.cost == expected.cost
    pairs = zip(secure.predict(new), expected.predict(new), strict=True)
    assert all((ours == theirs).all() for ours, theirs in pairs)


def test_membership_sealing_and_bytes_change_nothing():
    data = federation(m=60)
    algorithm = secfc.SecFC(k=3, threshold=2, init=RandomLabels(), disclosure=AssignmentsOnly())
    open_run = secfc.fit(algorithm, data)
    sealed = secfc.fit(algorithm, data, sealed=True)
    assert set(sealed.transcript.summary()["client -> client"]) == {"Greeting", "Countersign", "Sealed"}
    assert same_runs(sealed, open_run)
    assert same_runs(secfc.fit(algorithm, data, faults=over_wire()), open_run)
    # The order of the union's rows comes from coins, so both runs have the same.
    private = with_parameters(
        algorithm,
        membership=secfc.Private(),
        scale=2.0**8,
    )
    shown = dataclasses.replace(private, disclosure=secfc.Distances())
    assert same_runs(*(secfc.fit(way, data, coins=lambda c: SeededCoins(3, c)) for way in (private, shown)))


@pytest.mark.parametrize("lost", [(), ("client-1",)])
def test_members_share_the_summing_of_many_distances(monkeypatch, lost):
    data = federation()
    one = share_labels(data, max_iter=STEPS, k=2)
    monkeypatch.setattr(
        "secfc.disclosure.compare.session.WORTH_SPLITTING", 70
    )  # 180 distances: two parts for three
    two = share_labels(data, max_iter=STEPS, k=2, faults=silent(*lost))
    assert same_runs(one, two)
    widths = [
        {e.body.values.shape[2] for e in r.transcript.envelopes if e.kind == "MaskedSum"} - {0}
        for r in (one, two)
    ]
    assert widths == [{90}, {45}]


def test_one_restart_opens_no_cost():
    data = federation()
    result = share_labels(data, max_iter=STEPS)
    assert result.cost is None
    assert "CostQuery" not in {e.kind for e in result.transcript.envelopes}
    assert not any("cost" in fact for fact in result.learned)
    assert any("cost" in fact for fact in share_labels(data, n_init=2, max_iter=STEPS).learned)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "rule"),
    [
        ({"basis": Basis((MERSENNE_61,))}, r"30-bit lanes.*disclosure=Distances\(\)"),
        ({"dealer": "nobody"}, "dealer='nobody' takes no part"),
        ({"corrected": 1, "ell": 1}, "corrected=1"),
        ({"init": KMeansPlusPlus()}, r"opens to the server the distances.*allow it \(consent=True\)"),
        ({"init": CenterSeparation(KMeansPlusPlus())}, "consent=True"),
        ({"scale": 2.0**49}, "more than 4 lanes"),
    ],
)
def test_plans_that_do_not_fit_are_refused_with_the_remedy(parameters, rule):
    with pytest.raises(ValueError, match=rule):
        share_labels(federation(), **parameters)


def test_a_committee_needs_clients():
    with pytest.raises(ValueError, match="n=1 client: a committee of 2 needs 2"):
        share_labels(federation(n=1), t=0, ell=1)
    with pytest.raises(ValueError, match="besides the dealer 'client-0' needs 3"):
        share_labels(federation(n=2), t=0, ell=1, dealer="client-0")


def test_a_cluster_larger_than_planned_ends_the_run():
    with pytest.raises(secfc.RangeExceeded, match="largest=40"):
        share_labels(federation(), init=GivenLabels(np.arange(90) % 90 // 80), largest=40)


@pytest.mark.parametrize("consent", [False, True])
def test_a_server_that_asks_for_distances_is_refused(consent):
    def curious(envelope):
        b = envelope.body
        if envelope.kind == "CompareQuery" and envelope.recipient == "client-0":
            asked = altered(b, operation=Operation.DISTANCE, members=())
            envelope = dataclasses.replace(envelope, body=asked)
        return (envelope,)

    if consent:  # then a client answers, as the plan says
        share_labels(federation(), consent=True, init=KMeansPlusPlus(), max_iter=1)
    else:
        with pytest.raises(FaultyServer, match=r"asked DistanceQuery.* where the plan has CompareQuery"):
            share_labels(federation(), faults=curious)


@pytest.mark.parametrize(
    ("dealer", "committee"),
    [(SERVER, [0, 1]), (SERVER, [0, 1, 9]), ("client-8", [0, 1, 8]), (None, [0, 1, 2, 3])],
)
def test_a_server_that_asks_for_a_committee_that_could_learn_more_is_refused(dealer, committee):
    def curious(envelope):
        b = envelope.body
        if envelope.kind == "CompareQuery":
            b = altered(b, members=np.array(committee, np.int32), corrected=0)
            envelope = dataclasses.replace(envelope, body=b)
        return (envelope,)

    with pytest.raises(FaultyServer, match="another committee than"):
        share_labels(federation(), dealer=dealer, faults=curious)


def test_costs_are_opened_for_as_many_assignments_as_there_are_restarts():
    data, restarts = federation(), 2
    plan = secfc.SecFC(
        k=3, threshold=secfc.Threshold(T, 2), n_init=restarts, disclosure=AssignmentsOnly()
    ).plan(PublicFacts.of(data, 6.0))
    keys = PairKeys({0: bytes(32)})
    member = ComputingParty(plan, "client-0", SERVER, keys, keys, None, SeededCoins(0, "x"))
    client = ComparisonClient(plan, "client-0", keys, member, consent=False)

    def ask(number, label):
        labels = np.full(data.m, label, np.int8)
        return client(query("CostQuery", number, 3, labels, np.arange(RESPOND, dtype=np.int32)), None)

    ask(1, 0), ask(2, 1)
    ask(3, 1)  # again, since a reply was lost: the same assignment under other masks
    with pytest.raises(FaultyServer, match="more assignments than the plan has"):
        ask(4, 2)


@pytest.mark.parametrize("dealer", [SERVER, *by_night("client-8"), None])
def test_lost_costs_are_asked_for_again(dealer):
    data = federation()
    ways = {"dealer": dealer, "n_init": 2, "max_iter": STEPS}
    full = share_labels(data, **ways)
    costs = sum(e.kind == "CodedCosts" for e in full.transcript.envelopes)
    lossy = share_labels(data, faults=silent("client-3", kinds=("CodedCosts",)), **ways)
    assert same_runs(full, lossy)
    assert lossy.cost == full.cost
    assert sum(e.kind == "CodedCosts" for e in lossy.transcript.envelopes) > costs


@pytest.mark.parametrize(
    ("kind", "dealer"), every(2, covering(["CodedGains", "LabelShare"], [SERVER, "client-8", None]))
)
def test_lost_halves_and_gains_are_asked_for_again(dealer, kind):
    data = federation()
    ways = {"dealer": dealer, "init": Bisecting(steps=1), "max_iter": STEPS}
    full = share_labels(data, **ways)
    lossy = share_labels(data, faults=silent("client-1", kinds=(kind,)), **ways)
    assert same_runs(full, lossy)
    count = [sum(e.kind == kind for e in r.transcript.envelopes) for r in (full, lossy)]
    assert count[1] != count[0] > 0


# --- silence -------------------------------------------------------------------------------------


def silent(*clients, kinds=("MaskedDistances", "MaskedSum", "MaskedBits", "LabelShare", "MissingMessages")):
    return lambda e: () if e.sender in clients and e.kind in kinds else (e,)


@pytest.mark.parametrize(
    ("clients", "kinds"),
    every(
        2,
        [
            (("client-5",), ("MaskedDistances",)),  # a responder outside the committee
            (
                ("client-1",),
                ("MaskedSum", "MaskedBits", "LabelShare", "MissingMessages"),
            ),  # a member, after responding
            (("client-0",), ("MaskedBits", "LabelShare", "MissingMessages")),
            (("client-2",), ("LabelShare",)),
            (
                ("client-0", "client-6"),
                ("MaskedDistances", "MaskedSum", "MaskedBits", "LabelShare", "MissingMessages"),
            ),
        ],
    ),
)
@pytest.mark.parametrize("dealer", [SERVER, "client-8"])
def test_silent_parties_are_replaced_and_change_nothing(clients, kinds, dealer):
    data = federation()
    full = share_labels(data, dealer=dealer, max_iter=STEPS)
    lossy = share_labels(data, dealer=dealer, max_iter=STEPS, faults=silent(*clients, kinds=kinds))
    assert same_runs(full, lossy)
    asked = [
        e.body for e in lossy.transcript.envelopes if e.kind == "CompareQuery" and e.recipient == "client-3"
    ]
    assert len(asked) == ASKED + 1, "one iteration was repeated"
    last = {f"client-{j}" for j in (*asked[-1].members.tolist(), *asked[-1].responders.tolist())}
    assert not last & set(clients)


def test_too_many_silent_parties_end_the_run():
    with pytest.raises(TooFewReplies):
        share_labels(federation(), faults=silent("client-0", "client-3", "client-7"))
    with pytest.raises(TooFewReplies):
        share_labels(federation(), dealer="client-8", faults=silent("client-8", kinds=("Corrections",)))


def test_a_repeated_iteration_has_fresh_masks_and_tables():
    result = share_labels(federation(), faults=silent("client-2", kinds=("LabelShare",)), max_iter=1)
    for kind in (MaskedSum, MaskedBits, Corrections):
        sent = {}
        for e in result.transcript.envelopes:
            if isinstance(e.body, kind):
                content = (e.body.values if kind is MaskedSum else e.body.words).tobytes()
                if kind is MaskedSum and e.body.further is not None:  # in a message of its own
                    content += e.body.further.tobytes()
                if kind is MaskedBits:  # of which some have coins and digests alone
                    content += e.body.coin + e.body.heard
                sent.setdefault(e.round, []).append(content)
        contents = [set(c) for c in sent.values()]
        assert len(set.union(*contents)) == sum(len(c) for c in contents), "nothing is sent in two rounds"


def test_malformed_messages_name_their_sender():
    def spoil(kind, change):
        def faults(e):
            if isinstance(e.body, kind) and e.sender == "client-1":
                e = dataclasses.replace(e, body=change(e.body))
            return (e,)

        return faults

    cases = [
        (MaskedSum, lambda b: MaskedSum(b.values[:, :, :-1]), "malformed"),
        (MaskedSum, lambda b: MaskedSum(b.values | np.uint32(2**31)), "canonical"),
        (MaskedBits, lambda b: dataclasses.replace(b, words=b.words[..., :-1]), "where uint64"),
        (LabelShare, lambda b: LabelShare(b.words.astype(np.uint32)), "where uint64"),
        (LabelShare, lambda b: MaskedBits(b.words), "MaskedBits where LabelShare"),
    ]
    for kind, change, rule in cases:
        with pytest.raises(FaultyClient, match=f"client-1 .*{rule}"):
            share_labels(federation(), faults=spoil(kind, change))


def test_another_message_than_the_dealer_s_is_a_fault():
    def faults(e):
        if e.kind == "Corrections":
            e = dataclasses.replace(e, body=MaskedBits(e.body.words[None]))
        return (e,)

    with pytest.raises(FaultyServer, match=r"sent MaskedBits where .*Corrections.* was due"):
        share_labels(federation(), faults=faults)


# --- views ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def common():
    data = federation()
    result = share_labels(data, max_iter=STEPS)
    assert not result.converged
    return data, result


# Golden lists: a message that newly reaches somebody is a difference here.  Openings of a comparison with two
# lanes and three clusters: digits, three levels of nodes.  One more round says what was heard of the last.
OPENINGS = 4 + 1
GOLDEN = {
    (SERVER,): {
        "received": {
            "Hello": N,
            "MaskSeed": N,
            "LabelShare": MEMBERS * ASKED,
            "CheckDigest": WITNESSES * ASKED,
            # whoever is not in the committee: that it did its part
            "MissingMessages": (RESPOND - MEMBERS) * ASKED,
        },
        "sent": {
            "Hello": N,
            "CompareQuery": N * ASKED,
            "Corrections": 2 * ASKED,  # to both who play the part that is corrected
            "MaskSums": MEMBERS * ASKED,
            "FinalResult": N,
        },
        "inside": {},
    },
    # Two members: three times one of them gets the corrections, once both, and one of them sums up, also what
    # replies are checked by, which comes behind them.
    ("client-0", "client-1"): {
        "received": {
            "Hello": 2 * (N - 1),
            "RowShares": 2 * (N - 2),
            "PublicKey": 2 * (N - 2),
            "CompareQuery": 2 * ASKED,
            "MaskedDistances": 2 * (RESPOND - 2) * ASKED,
            "MaskedBits": 2 * (MEMBERS - 2) * OPENINGS * ASKED,
            "PartDigests": 2 * (MEMBERS - 2) * ASKED,
            "Corrections": 3 + 2,
            "FinalResult": 2,
            "LabelShare": 2 * (MEMBERS - 2) * ASKED,
            "CheckDealing": 2 * (MEMBERS - 2) * ASKED,
            "CheckCoin": 2 * (WITNESSES - 2) * ASKED,
            "CheckDigest": 2 * (WITNESSES - 2) * ASKED,
            "MaskedRow": 2 * (RESPOND - 2) * ASKED,
            "MaskedProducts": 2 * (RESPOND - 2) * ASKED,
            "MaskSums": 2 * ASKED,
        },
        "sent": {
            "Hello": 2 * (N - 1),
            "RowShares": 2 * (N - 2),
            "PublicKey": 2 * (N - 2),
            "MaskSeed": 2,
            "MaskedSum": 2 * (MEMBERS - 2) * ASKED,
            "MaskedBits": 2 * (MEMBERS - 2) * OPENINGS * ASKED,
            "PartDigests": 2 * (MEMBERS - 2) * ASKED,
            "LabelShare": 2 * (N - 1) * ASKED,
            "CheckDealing": 2 * (RESPOND - 2) * ASKED,
            "CheckCoin": 2 * (WITNESSES - 2) * ASKED,
            "CheckDigest": 2 * (RESPOND - 1) * ASKED,
            "MaskedRow": 2 * (RESPOND - 2) * ASKED,
            "MaskedProducts": 2 * (MEMBERS - 2) * ASKED,
        },
        "inside": {
            "Hello": 2,
            "RowShares": 2,
            "PublicKey": 2,
            "MaskedDistances": 2 * ASKED,
            "MaskedSum": 2 * ASKED,
            "MaskedBits": 2 * OPENINGS * ASKED,
            "PartDigests": 2 * ASKED,
            "LabelShare": 2 * ASKED,
            "CheckDealing": 2 * ASKED,
            "CheckCoin": 2 * ASKED,
            "CheckDigest": 2 * ASKED,
            "MaskedRow": 2 * ASKED,
            "MaskedProducts": 2 * ASKED,
        },
    },
    # The dealing server with a client outside the committee that responds, and one that does not.
    (SERVER, "client-6", "client-8"): {
        "received": {
            "Hello": 3 * (N - 2),
            "RowShares": 2 * (N - 2),
            "PublicKey": 2 * (N - 2),
            "MaskSeed": N - 2,
            "LabelShare": 3 * MEMBERS * ASKED,
            "CheckDealing": WITNESSES * ASKED,
            "CheckDigest": 2 * WITNESSES * ASKED,
            "MaskedRow": (RESPOND - 1) * ASKED,
            "MissingMessages": (RESPOND - MEMBERS - 1) * ASKED,
        },
        "sent": {
            "Hello": 3 * (N - 2),
            "RowShares": 2 * (N - 2),
            "PublicKey": 2 * (N - 2),
            "CompareQuery": (N - 2) * ASKED,
            "Corrections": 2 * ASKED,
            "MaskedDistances": 2 * ASKED,
            "MaskedRow": (RESPOND - 1) * ASKED,
            "MaskedProducts": MEMBERS * ASKED,
            "MaskSums": MEMBERS * ASKED,
            "FinalResult": N - 2,
        },
        "inside": {
            "Hello": 6,
            "RowShares": 2,
            "PublicKey": 2,
            "MaskSeed": 2,
            "CompareQuery": 2 * ASKED,
            "MissingMessages": ASKED,
            "FinalResult": 2,
        },
    },
}
GOLDEN = with_rowtest(GOLDEN, N, T)


@pytest.mark.parametrize("parties", GOLDEN, ids="+".join)
def test_golden_kinds_of_messages(common, parties):
    data, result = common
    kinds = View.of(result, result.plan, parties, data).kinds()
    assert {side: dict(table) for side, table in kinds.items()} == GOLDEN[parties]


def test_no_view_holds_a_coded_distance(common):
    data, result = common
    for parties in (*GOLDEN, (SERVER, *result.plan.clients)):
        view = DecodedView.of(result, result.plan, parties, data)
        assert "CodedDistances" not in {e.kind for e in view.view.messages}
        for question, labels in zip(view.questions(), result.history, strict=True):
            assert (question.labels == labels).all()
            with pytest.raises(CannotDecode):
                view.distances(question)


def test_what_members_and_server_receive_is_uniform():
    # All points alike, so that only masks can vary; each test has a false alarm below 1e-7.
    data = secfc.Federation.from_arrays([np.full((400, 2), 0.25)] * 5)
    result = share_labels(data, k=2, t=1, ell=1, max_iter=2, init=GivenLabels(np.arange(2000) % 2))

    def spread(values, top):
        counts = np.bincount((values.reshape(-1).astype(float) * 32 / top).astype(int), minlength=32)
        return stats.chisquare(counts).pvalue > 1e-7

    seen = {"MaskedDistances": 0, "MaskedSum": 0, "Corrections": 0, "LabelShare": 0}
    for e in result.transcript.envelopes:
        if e.kind in ("MaskedDistances", "MaskedSum"):
            if not e.body.values.size:
                continue  # what these are checked by
            for lane, p in zip(e.body.values, result.plan.code.basis.primes, strict=False):
                assert spread(lane, p)
        elif e.kind in ("Corrections", "LabelShare") and e.body.words.size:
            assert spread(e.body.words.view(np.uint8)[..., :96], 256)
        if e.kind in seen:
            seen[e.kind] += 1
    assert all(seen.values())
    # Control: the same test on distances as they are.
    assert not spread(np.full((1, 2, 400), 12345), result.plan.code.basis.primes[0])


def test_coins_are_reproducible_and_change_no_label():
    data = federation()
    algorithm = secfc.SecFC(
        k=3, threshold=secfc.Threshold(T, 2), init=RandomLabels(), disclosure=AssignmentsOnly(), max_iter=2
    )
    fits = [
        secfc.fit(algorithm, data, coins=lambda name, s=s: SeededCoins(s, name), keep_bodies=True)
        for s in (1, 1, 2)
    ]
    bits = [[e.body.words.tobytes() for e in f.transcript.envelopes if e.kind == "MaskedBits"] for f in fits]
    assert bits[0] == bits[1] != bits[2]
    assert same_runs(fits[0], fits[2])


def test_parts_that_move_at_the_same_time_say_what_they_say_one_after_the_other(monkeypatch):
    federation, spread = small.federation(5, 60), []

    def counted(where, tasks, threads):
        spread.append((where, min(threads, len(tasks))))
        return run_parallel(tasks, threads)

    def said(threads):
        way = secfc.SecFC(k=3, threshold=1, max_iter=2, runtime=secfc.Runtime(threads=threads))
        run = simulate(roles_of(way, federation), keep_bodies=True)
        return [(e.round, e.sender, e.recipient, encode(e.body)) for e in run.transcript.envelopes]

    # Sums of many words are spread as well; these are few.
    for module in (rounds, compiling):
        monkeypatch.setattr(module, "run_parallel", partial(counted, module))
    one = said(1)
    assert set(spread) == {(rounds, 1), (compiling, 1)}
    spread.clear()
    assert said(3) == said(2) == one
    # Who responds to nothing, and whoever dealt, adds up alone.
    assert set(spread) == {(rounds, 2), (rounds, 3), (compiling, 1), (compiling, 2), (compiling, 3)}
