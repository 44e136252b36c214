"""Assignments without a dealer: plaintext labels, survivors, and views that hold labels and noise."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import secfc
from field.code.masking import MaskReused, PairKeys
from field.compare.replicated import ReplicatedCommittee, ScratchArrays
from field.ring.basis import LANE_PRIMES, MERSENNE_61, Basis
from field.secrets.coins import Coins, SeededCoins
from secfc.attacks.views import View
from secfc.coded.messages import MaskedBits
from secfc.coded.queries import Query
from secfc.disclosure.dealerless.policy import DealerlessParty
from secfc.disclosure.dealerless.steps import AnswerRounds, SetKeys, StalledStep, setup_replicated_keys
from secfc.errors import FaultyClient, FaultyServer, TooFewReplies
from secfc.kmeans.loop import PlainSource, lloyd
from secfc.kmeans.starts import CenterSeparation, GivenLabels, KMeansPlusPlus, RandomPoints
from secfc.roles.exchange import ITERATE, SERVER, run_alone
from secfc.transport.simulate import simulate
from secfc.transport.wire import over_wire
from tests.nightly import trials
from tests.secfc.rowtest import kinds
from tests.small import cluster, federation


def run_undealt(data, **settings):
    # Parts played by two have tests of their own, in test_dealerless_witnessed.
    shared = {"init": secfc.RandomLabels(), "deviating": 0, "max_iter": 6}
    return cluster(data, secfc.AssignmentsOnly(None), **{**shared, **settings})


def oracle(result, data, max_iter=6):
    """Plaintext integer Lloyd from the same start."""
    points = result.plan.quantizer(data.stacked())
    start = result.history[0].astype(np.int32)
    return run_alone(lloyd(start, result.plan.k, max_iter, PlainSource(points)))


def assert_plaintext(result, data, max_iter=6):
    trace = oracle(result, data, max_iter)
    assert len(trace.history) == len(result.history)
    for expected, labels in zip(trace.history, result.history, strict=True):
        assert (expected == labels).all()


# --- exactness -----------------------------------------------------------------------------------


@trials(20)
@given(
    st.integers(1, 2), st.integers(1, 2), st.integers(0, 2), st.integers(1, 70), st.integers(1, 4),
    st.integers(1, 6), st.integers(0, 2**16), st.booleans(),
)  # fmt: skip
def test_labels_are_those_of_plaintext_lloyd(t, ell, spare, m, d, k, seed, whole):
    # Whole numbers on a small grid make ties and duplicates; k near m makes empty clusters.
    n = 2 * (ell + t - 1) + 1 + spare
    m = max(m, n, k)
    data = federation(n, m, d, seed, whole)
    result = run_undealt(data, k=k, t=t, ell=ell, seed=seed, max_iter=4)
    assert_plaintext(result, data, 4)


@pytest.mark.parametrize("k", [2, 9, 16])
def test_many_clusters(k):
    data = federation(3, 150, 2, k, integers=True)
    assert_plaintext(run_undealt(data, k=k, init=RandomPoints()), data)


def test_three_of_seven_may_collude():
    data = federation(7, 60, 2)
    assert_plaintext(run_undealt(data, t=3), data)


def test_the_finest_scale_of_four_lanes():
    data = federation(3, 80, 3)
    result = run_undealt(data, basis=Basis(LANE_PRIMES[:4]))
    assert result.plan.quantizer.max_int > 2**30
    assert_plaintext(result, data)


def test_clusters_without_points_never_win():
    data = federation(3, 50, 2)
    start = GivenLabels(np.full(50, 2))
    result = run_undealt(data, k=4, init=start)
    assert (result.history[-1] == 2).all()
    result = run_undealt(data, k=4, init=GivenLabels(np.arange(50) % 2 * 3))
    assert set(np.unique(result.history[-1])) <= {0, 3}
    assert_plaintext(result, data)


@pytest.mark.parametrize(
    ("init", "consent"), [(CenterSeparation(), False), (RandomPoints(), False), (KMeansPlusPlus(), True)]
)
def test_starts_and_restarts_are_those_of_plaintext(init, consent):
    data = federation(5, 120, 3, integers=True)
    policy = secfc.AssignmentsOnly(dealer=None, consent=consent)
    ways = [cls(k=4, init=init, n_init=3, max_iter=9, disclosure=policy, **more) for cls, more in (
        (secfc.SecFC, {"threshold": 2}), (secfc.Lloyd, {}),
    )]  # fmt: skip
    secure, plain = (secfc.fit(way, data, seed=5, bound=4.0) for way in ways)
    assert all((a == b).all() for a, b in zip(secure.history, plain.history, strict=True))
    assert any("cost of every cluster" in fact for fact in secure.learned)


def test_new_points_are_labeled_as_plaintext_would():
    data = federation(3, 60, 2)
    result = run_undealt(data, max_iter=40)
    assert result.converged
    assert all((a == b).all() for a, b in zip(result.labels, result.predict(data), strict=True))


# --- losses --------------------------------------------------------------------------------------


def test_silent_clients_are_replaced_and_masks_are_fresh():
    data = federation(6, 60, 2)
    asked = []

    def faults(e):
        if e.kind == "CompareQuery" and e.recipient == "client-0":
            asked.append(tuple(e.body.members))
        # The second iteration loses client 1 between two layers, for good.
        return () if e.sender == "client-1" and e.round >= ITERATE + 1024 + 5 else (e,)

    result = run_undealt(data, faults=faults)
    assert_plaintext(result, data)
    assert asked[1] == (0, 1, 2)
    assert all(1 not in committee for committee in asked[2:])


def test_the_reply_of_who_alone_has_a_part_is_told_nobody_else():
    plan = cluster(federation(5, 20, 2), secfc.AssignmentsOnly(dealer=None), max_iter=1).plan
    party = DealerlessParty(plan, "client-0", PairKeys({}), SeededCoins(0, "x"))
    party.check(SimpleNamespace(responders=np.arange(3), members=np.arange(3)))
    with pytest.raises(FaultyServer, match="asked for a committee of others than the responders"):
        party.check(SimpleNamespace(responders=np.arange(1, 4), members=np.arange(3)))


def test_a_lost_link_costs_its_sender_the_seat():
    data = federation(5, 60, 2)
    result = run_undealt(
        data, faults=lambda e: () if (e.kind, e.sender) == ("MaskedBits", "client-1") else (e,)
    )
    assert_plaintext(result, data)
    committees = {tuple(e.body.members) for e in result.transcript.envelopes if e.kind == "CompareQuery"}
    assert committees == {(0, 1, 2), (0, 2, 3)}


def test_too_few_are_left():
    with pytest.raises(TooFewReplies):
        run_undealt(
            federation(3, 30, 2),
            faults=lambda e: () if (e.kind, e.sender) == ("MaskedBits", "client-1") else (e,),
        )


def test_a_malformed_message_names_its_sender():
    def faults(e):
        if (e.kind, e.sender) == ("MaskedBits", "client-1"):
            object.__setattr__(e, "body", MaskedBits(e.body.words[:-1]))
        return (e,)

    with pytest.raises(FaultyClient, match="client-1 told bits"):
        run_undealt(federation(3, 30, 2), faults=faults)


def test_too_few_set_keys_name_their_dealer():
    def first():
        steps = AnswerRounds(("a", "b", "c"), 0)
        yield from steps.exchange({i: SetKeys(np.zeros((7, 16), np.uint8)) for i in (1, 2)}, (), SetKeys)

    def other(me):
        yield from setup_replicated_keys(
            ReplicatedCommittee(1), (0, 1, 2), me, AnswerRounds(("a", "b", "c"), 0), SeededCoins(0, str(me))
        )

    with pytest.raises(FaultyClient, match="a dealt 7 keys"):
        simulate({"a": first(), "b": other(1), "c": other(2)})


# --- what is refused -----------------------------------------------------------------------------


def test_limits_are_stated():
    data = federation(9, 30, 2)
    with pytest.raises(ValueError, match=r"t=4: .* policy with a dealer"):
        run_undealt(data, t=4)
    with pytest.raises(ValueError, match="30-bit lanes"):
        run_undealt(data, basis=Basis((MERSENNE_61,)))
    with pytest.raises(ValueError, match="opens to the server"):
        run_undealt(data, init=KMeansPlusPlus())


def test_a_committee_never_takes_masks_twice():
    steps = AnswerRounds(("a", "b", "c"), 0)
    roles = {
        name: setup_replicated_keys(
            ReplicatedCommittee(1), (0, 1, 2), i, AnswerRounds(("a", "b", "c"), 0), SeededCoins(0, name)
        )
        for i, name in enumerate("abc")
    }
    seats = simulate(roles).results["a"]
    keys = PairKeys({1: bytes(16), 2: bytes(16)})
    seats.play(steps, keys, ScratchArrays())
    with pytest.raises(MaskReused):
        seats.play(steps, keys, ScratchArrays())
    with pytest.raises(StalledStep):
        seats.play(AnswerRounds(("a", "b", "c"), 9), PairKeys({1: bytes(16)}), ScratchArrays())


# --- views ---------------------------------------------------------------------------------------

STEPS = 3
# The third of a committee holds shares and opens none.
MEMBERS = ("client-0", "client-1")


@pytest.fixture(scope="module")
def common():
    data = federation(3, 640, 3)
    result = run_undealt(data, k=3, max_iter=STEPS)
    assert not result.converged
    return data, result


# Three lanes make fractions of 93 digits: 8 rounds of carries, 1 of winners; one question more for the cost.
ASKED = STEPS + 1
ROUNDS = 9
# What checks replies: of two members, and what all three responders tell one another.
CHECKS = {kind: 2 * ASKED for kind in ("CheckDealing", "CheckDigest", "MaskedRow")}
AT_A_MEMBER = {kind: ASKED for kind in ("CheckCoin", "CheckDealing", "CheckDigest", "PartSums")} | {
    "MaskedRow": 2 * ASKED, "MaskedProducts": 2 * ASKED,
}  # fmt: skip

# Golden lists: a message that newly reaches somebody is a difference here.
GOLDEN = {
    (SERVER,): {"Hello": 3, "LabelShare": 3 * ASKED},
    ("client-0",): {
        "Hello": 3, "RowShares": 2, "PublicKey": 2, "CompareQuery": ASKED, "FinalResult": 1,
        "MaskedDistances": ASKED, "MaskedBits": ROUNDS * ASKED, "LabelShare": 2 * ASKED, **AT_A_MEMBER,
    },
    ("client-2",): {
        "Hello": 3, "RowShares": 2, "PublicKey": 2, "CompareQuery": ASKED, "FinalResult": 1,
        "SetKeys": 2, "MaskedBits": (ROUNDS + 1) * ASKED, "LabelShare": 2 * ASKED,
        **CHECKS,
    },
}  # fmt: skip
GOLDEN = {
    parties: Counter(table) + Counter(kinds(3, 1, parties)["received"]) for parties, table in GOLDEN.items()
}


@pytest.mark.parametrize("parties", GOLDEN, ids="+".join)
def test_golden_kinds_of_messages(common, parties):
    _, result = common
    assert View.of(result, result.plan, parties).kinds()["received"] == Counter(GOLDEN[parties])


def test_no_message_carries_a_distance_in_the_clear(common):
    _, result = common
    told = {e.kind for e in result.transcript.envelopes}
    assert "CodedDistances" not in told
    # Members keep their replies: the only ones told are those of others, one a question, to one member.
    masked = [e for e in result.transcript.envelopes if e.kind == "MaskedDistances"]
    assert Counter(e.sender for e in masked) == {"client-2": ASKED}


def bytes_of(result, coalition):
    """Everything uniform that the coalition was told by others, as bytes."""
    view = View.of(result, result.plan, coalition)
    words = [
        e.body.words
        for e in view.received()
        if e.kind == "MaskedBits" or (e.kind == "LabelShare" and e.sender in MEMBERS)
    ]
    return np.concatenate([np.ascontiguousarray(w).reshape(-1).view(np.uint8) for w in words])


def is_uniform(octets):
    """Chi-square over 256 values; five sigma, so a false alarm in a million seeds."""
    counts = np.bincount(octets, minlength=256)
    expected = octets.size / 256
    return float(((counts - expected) ** 2 / expected).sum()) < 255 + 5 * (2 * 255) ** 0.5


COALITIONS = ["client-0", "client-1", "client-2"]


@pytest.mark.parametrize("client", COALITIONS)
def test_what_a_client_with_the_server_is_told_is_uniform(common, client):
    _, result = common
    assert is_uniform(bytes_of(result, (client,)))
    shares = bytes_of(result, (SERVER, client))
    assert is_uniform(shares)


def test_blinded_replies_are_uniform(common):
    _, result = common
    basis = result.plan.code.basis
    for e in View.of(result, result.plan, "client-0").received():
        if e.kind == "MaskedDistances":
            for lane, p in zip(e.body.values, basis.primes, strict=False):
                assert is_uniform((lane.reshape(-1).astype(np.uint64) * 256 // p).astype(np.uint8))


def test_without_masks_the_same_test_fails(monkeypatch):
    monkeypatch.setattr(Coins, "mask", lambda self, out: None)
    result = run_undealt(federation(3, 640, 3), max_iter=STEPS)
    assert not any(is_uniform(bytes_of(result, (client,))) for client in COALITIONS)


def differences(result, client):
    """What a client is told in one iteration, XOR what it is told in the next: uniform under fresh masks."""
    told = {}
    for e in View.of(result, result.plan, client).received():
        if e.kind == "MaskedBits":
            told.setdefault((e.round - ITERATE) // 1024, []).append(e.body.words.reshape(-1))
    last, before = (np.concatenate(told[q]) for q in (STEPS, STEPS - 1))
    # The first iteration deals keys in a step more, which shifts no message among the others.
    return (last ^ before).view(np.uint8)


def test_masks_of_two_iterations_differ_and_a_reused_nonce_is_caught(common, monkeypatch):
    _, result = common
    assert all(is_uniform(differences(result, client)) for client in COALITIONS)
    streams = PairKeys.streams

    def stuck(self, nonce, context, peers=None):
        self.last = -1
        return streams(self, nonce % 2, context, peers)

    monkeypatch.setattr(PairKeys, "streams", stuck)
    monkeypatch.setattr(Query, "digest", b"")  # which alone makes masks differ where labels do
    broken = run_undealt(federation(3, 640, 3), max_iter=STEPS)
    assert not any(is_uniform(differences(broken, client)) for client in COALITIONS)


def test_what_the_server_learned_is_said(common):
    _, result = common
    assert any("no distance" in fact and "1 of the clients" in fact for fact in result.learned)


@pytest.mark.parametrize("policy", [secfc.AssignmentsOnly(dealer=None), secfc.FinalLabelsOnly()])
def test_bytes_and_hidden_membership_change_nothing(policy):
    # Messages from the wire are read-only views: nobody computes in what was sent.
    rng = np.random.default_rng(3)
    points, ids = rng.integers(-3, 4, (40, 2)).astype(float), np.arange(40)
    parts = [slice(0, 20), slice(10, 30), slice(25, 40)]
    data = secfc.Federation.from_arrays([points[p] for p in parts], ids=[ids[p] for p in parts])
    way = secfc.SecFC(
        k=3, threshold=1, init=secfc.RandomLabels(), max_iter=3, membership=secfc.Private(), disclosure=policy
    )
    sent = secfc.fit(way, data, seed=2, faults=over_wire())
    start, last = sent.history[0].astype(np.int32), sent.history[-1]
    integers = np.empty((40, 2), np.int64)
    for rows, party in zip(sent.rows, data.parties, strict=True):
        integers[rows] = sent.plan.quantizer(party.read())
    assert (run_alone(lloyd(start, 3, 3, PlainSource(integers))).history[-1] == last).all()
