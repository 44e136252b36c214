"""Final labels only: the end of plaintext Lloyd, and views in which nothing before it can be seen."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import secfc
from field.code.masking import PairKeys
from field.secrets.coins import Coins, SeededCoins
from secfc.attacks.views import View
from secfc.coded.membership import Private
from secfc.data.inputs import build_algorithm
from secfc.disclosure.compare.client import ComparisonClient
from secfc.disclosure.dealerless.messages import ResharedPart
from secfc.disclosure.dealerless.policy import DealerlessParty
from secfc.disclosure.final_labels import FinalLabelsClient, FinalLabelsOnly
from secfc.errors import FaultyClient, FaultyServer, TooFewReplies
from secfc.kmeans.loop import PlainSource, lloyd
from secfc.kmeans.starts import CenterSeparation, GivenLabels, KMeansPlusPlus, RandomPoints
from secfc.roles.exchange import ITERATE, SERVER, run_alone
from tests.nightly import trials
from tests.secfc.queries import altered, query
from tests.secfc.rowtest import kinds
from tests.small import federation


def run(data, *, k=3, t=1, max_iter=8, stop=True, seed=0, faults=None, **parameters):
    way = build_algorithm(
        secfc.SecFC, k=k, t=t, max_iter=max_iter, disclosure=FinalLabelsOnly(stop=stop), **parameters
    )
    return secfc.fit(way, data, seed=seed, keep_bodies=True, **({"faults": faults} if faults else {}))


def assert_end_of_plaintext(result, data, max_iter=8):
    """The last labels and the number of steps of plaintext integer Lloyd from the same start."""
    points = result.plan.quantizer(data.stacked())
    start, *_, last = result.history
    trace = run_alone(lloyd(start.astype(np.int32), result.plan.k, max_iter, PlainSource(points)))
    assert len(result.history) == 2
    assert (last == trace.history[-1]).all()
    assert result.n_iter == trace.n_iter
    return trace


# --- exactness -----------------------------------------------------------------------------------


@trials(20)
@given(
    st.integers(1, 2), st.integers(0, 1), st.integers(1, 70), st.integers(1, 3), st.integers(1, 5),
    st.integers(0, 2**16), st.booleans(), st.booleans(),
)  # fmt: skip
def test_the_end_is_that_of_plaintext_lloyd(t, spare, m, d, k, seed, whole, points):
    # Whole numbers on a small grid make ties and duplicates; k near m makes empty clusters.
    n = 2 * t + 1 + spare
    m = max(m, n, k)
    data = federation(n, m, d, seed, whole)
    start = {"init": RandomPoints()} if points else {}
    assert_end_of_plaintext(run(data, k=k, t=t, seed=seed, max_iter=4, **start), data, 4)


@pytest.mark.parametrize("k", [8, 13])
def test_many_clusters_some_of_them_empty(k):
    data = federation(3, 90, 2, k, integers=True)
    assert_end_of_plaintext(run(data, k=k), data)
    # All points begin in two clusters: the others are empty for good, whatever their index.
    result = run(data, k=k, init=GivenLabels(np.where(np.arange(90) % 2, 5, 2)))
    assert_end_of_plaintext(result, data)
    assert set(np.unique(result.history[-1])) <= {2, 5}


def test_more_than_64_clusters():
    data = federation(3, 80, 1, 4, integers=True)
    assert_end_of_plaintext(run(data, k=66, max_iter=2, init=RandomPoints()), data, 2)


def test_three_of_seven_may_collude():
    data = federation(7, 50, 2)
    assert_end_of_plaintext(run(data, t=3), data)


def test_a_fixed_number_of_steps():
    data = federation(3, 60, 2)
    result = run(data, stop=False, max_iter=12)
    trace = run_alone(
        lloyd(result.history[0].astype(np.int32), 3, 12, PlainSource(result.plan.quantizer(data.stacked())))
    )
    assert trace.converged
    assert trace.n_iter < 12
    assert (result.n_iter, result.converged) == (12, False)
    assert (result.history[-1] == trace.history[-1]).all()
    assert not [e for e in result.transcript.envelopes if e.kind == "ChangeShare"]


@pytest.mark.parametrize("labels", [[0] * 9, [-1, 0] * 4 + [-1]])
def test_one_cluster(labels):
    data = federation(3, 9, 2)
    assert_end_of_plaintext(run(data, k=1, init=GivenLabels(np.array(labels))), data)


def test_hidden_membership():
    data = federation(3, 40, 2)
    ids = [np.arange(a.shape[0]) + 100 * j for j, a in enumerate(p.read() for p in data.parties)]
    private = secfc.Federation.from_arrays([p.read() for p in data.parties], ids=ids)
    result = run(private, membership=Private(), max_iter=3)
    points = np.empty((40, 2), np.int64)
    for rows, party in zip(result.rows, private.parties, strict=True):
        points[rows] = result.plan.quantizer(party.read())
    trace = run_alone(lloyd(result.history[0].astype(np.int32), 3, 3, PlainSource(points)))
    assert (trace.history[-1] == result.history[-1]).all()


def test_new_points_are_labeled():
    data = federation(3, 60, 2)
    result = run(data)
    for mine, again in zip(result.labels, result.predict(data), strict=True):
        assert (mine == again).all() if result.converged else mine.shape == again.shape


# --- losses --------------------------------------------------------------------------------------


def test_a_lost_client_costs_a_new_beginning():
    data = federation(5, 60, 2)

    def faults(e):
        return () if e.sender == "client-1" and e.round > ITERATE + 40 else (e,)

    result = run(data, faults=faults)
    assert_end_of_plaintext(result, data)
    asked = {tuple(e.body.members) for e in result.transcript.envelopes if e.kind == "ClusterQuery"}
    assert asked == {(0, 1, 2), (0, 2, 3)}
    with pytest.raises(TooFewReplies):
        run(federation(3, 30, 2), faults=faults)


def test_a_malformed_share_names_its_sender():
    def faults(e):
        if (e.kind, e.sender) == ("ResharedPart", "client-1"):
            object.__setattr__(e, "body", ResharedPart(e.body.values[:, :-1]))
        return (e,)

    with pytest.raises(FaultyClient, match="client-1 sent a malformed message"):
        run(federation(3, 30, 2), faults=faults)


def test_a_second_or_another_run_is_refused():
    """One run ends in one labeling; a server that may ask for more would see every step."""
    seen = []

    def faults(e):
        if e.kind == "ClusterQuery" and e.recipient == "client-2":
            seen.append(e)
        if e.kind == "ResharedPart" and e.sender == "client-2" and len(seen) == 1:
            return ()  # the first attempt fails, and the second begins elsewhere
        if e.kind == "ClusterQuery" and len(seen) > 1:
            object.__setattr__(e, "body", altered(e.body, labels=np.zeros(30, np.int8)))
        return (e,)

    with pytest.raises(FaultyServer, match=r"another run than the plan's|more than the plan has"):
        run(federation(4, 30, 2), faults=faults)


def test_steps_and_distances_are_refused():
    plan = run(federation(3, 30, 2), max_iter=1).plan
    keys = PairKeys({1: bytes(16), 2: bytes(16)})
    comparer = DealerlessParty(plan, "client-0", keys, SeededCoins(0, "a"))
    client = FinalLabelsClient(
        ComparisonClient(plan, "client-0", keys, comparer, consent=False), comparer, stop=True
    )
    labels, numbers = np.zeros(30, np.int8), np.arange(3, dtype=np.int32)
    with pytest.raises(FaultyServer, match="labels of a step"):
        client(query("CompareQuery", 9, 3, labels, numbers, numbers), None)
    with pytest.raises(FaultyServer, match="asked for distances"):
        client(query("DistanceQuery", 9, 3, labels, numbers), None)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"ell": 2}, "Use .*ell=1"),
        ({"n_init": 2}, "n_init=2"),
        ({"largest": 20}, "sizes are secret"),
        ({"init": CenterSeparation()}, "this start opens others"),
        ({"init": KMeansPlusPlus()}, "opens to the server"),
        ({"t": 4}, "t from 1 to 3"),
    ],
)
def test_what_would_be_opened_is_refused(parameters, why):
    with pytest.raises(ValueError, match=why):
        run(federation(9, 40, 2), **parameters)


# --- views ---------------------------------------------------------------------------------------

STEPS = 2
# The third of a committee holds shares and opens none.
MEMBERS = ("client-0", "client-1")


@pytest.fixture(scope="module")
def common():
    data = federation(3, 320, 3)
    return data, run(data, k=3, max_iter=STEPS)


# Per step: 3 reductions and 1 dealing of winners, of which member 2 deals none; a last step needs no
# one-hot labels.  Three lanes make fractions of 93 digits: 8 rounds of carries, 1 against empty
# clusters, 1 of winners, 4 + 6 of changes; the members deal bits besides.
GOLDEN = {
    (SERVER,): {"Hello": 3, "FinalShare": 3},
    ("client-0",): {
        "Hello": 3, "RowShares": 2, "PublicKey": 2, "ClusterQuery": 1, "FinalResult": 1,
        "ResharedPart": 3 * 2 * STEPS + (1 + 2) * (STEPS - 1), "MaskedDistances": STEPS,
        "MaskedBits": (8 + 1 + 1 + 10) * STEPS, "ChangeShare": STEPS, "FinalShare": 2,
    },
    ("client-2",): {
        "Hello": 3, "RowShares": 2, "PublicKey": 2, "ClusterQuery": 1, "FinalResult": 1,
        "ResharedPart": 3 * 2 * STEPS + (2 + 2) * (STEPS - 1), "SetKeys": 2,
        "MaskedBits": (1 + 8 + 1 + 1 + 10) * STEPS, "ChangeShare": 2 * STEPS, "FinalShare": 2,
    },
}  # fmt: skip
GOLDEN = {
    parties: Counter(table) + Counter(kinds(3, 1, parties)["received"]) for parties, table in GOLDEN.items()
}


@pytest.mark.parametrize("parties", GOLDEN, ids="+".join)
def test_golden_kinds_of_messages(common, parties):
    _, result = common
    assert View.of(result, result.plan, parties).kinds()["received"] == Counter(GOLDEN[parties])


def test_nobody_is_told_labels_on_the_way(common):
    _, result = common
    for e in result.transcript.envelopes:
        assert e.kind not in ("DistanceQuery", "CompareQuery", "CodedDistances", "LabelShare")
        if e.kind == "ClusterQuery":
            assert (e.body.labels == result.history[0]).all()
    assert result.cost is None


def bits_to(result, coalition):
    words = [
        e.body.words.reshape(-1)
        for e in View.of(result, result.plan, coalition).received()
        if e.kind == "MaskedBits" or (e.kind == "FinalShare" and e.sender in MEMBERS)
    ]
    return np.concatenate(words).view(np.uint8)


def residues_to(result, coalition):
    """All residues that the coalition was told after the points, in 256 equal parts of the prime."""
    out = []
    for e in View.of(result, result.plan, coalition).received():
        if e.kind in ("ResharedPart", "MaskedDistances"):
            for lane, p in zip(e.body.values, result.plan.code.basis.primes, strict=True):
                out.append((lane.reshape(-1).astype(np.uint64) * 256 // p).astype(np.uint8))
    return np.concatenate(out)


def is_uniform(octets):
    """Chi-square over 256 values; five sigma, so a false alarm in a million seeds."""
    counts = np.bincount(octets, minlength=256)
    expected = octets.size / 256
    return float(((counts - expected) ** 2 / expected).sum()) < 255 + 5 * (2 * 255) ** 0.5


COALITIONS = [(SERVER, "client-0"), (SERVER, "client-1"), (SERVER, "client-2")]


@pytest.mark.parametrize("coalition", COALITIONS, ids="+".join)
def test_what_one_client_with_the_server_is_told_is_uniform(common, coalition):
    _, result = common
    assert is_uniform(bits_to(result, coalition))
    assert is_uniform(residues_to(result, coalition))


def test_two_clients_read_what_one_cannot(common):
    # Control: two shares of every dealer's part give the first sums, which uniform numbers would not.
    data, result = common
    code, points = result.plan.code, result.plan.quantizer(data.stacked())
    told = [e for e in result.transcript.envelopes if e.kind == "ResharedPart"]
    first = min(e.round for e in told)
    parts = [
        code.decode({result.plan.clients.index(e.recipient): e.body.values for e in told
                     if e.round == first and e.sender == dealer}, 1)
        for dealer in result.plan.clients
    ]  # fmt: skip
    sums = code.basis.lift_signed(code.basis.add(code.basis.add(parts[0], parts[1]), parts[2]))
    start = result.history[0]
    assert (sums.reshape(3, 3) == [points[start == h].sum(axis=0) for h in range(3)]).all()


def test_without_masks_the_same_test_fails(monkeypatch):
    monkeypatch.setattr(Coins, "mask", lambda self, out: None)
    result = run(federation(3, 320, 3), k=3, max_iter=STEPS)
    assert not any(is_uniform(bits_to(result, coalition)) for coalition in COALITIONS)


def test_without_noise_in_shares_the_same_test_fails(monkeypatch):
    fill = Coins.fill_residues

    def narrow(self, prime, out):
        fill(self, prime, out)
        if out.dtype == np.uint32:  # and not the masks that tested rows are hidden under
            out >>= out.dtype.type(8)

    monkeypatch.setattr(Coins, "fill_residues", narrow)
    result = run(federation(3, 320, 3), k=3, max_iter=STEPS)
    assert not any(is_uniform(residues_to(result, coalition)) for coalition in COALITIONS)


def test_the_shape_of_a_run_depends_on_nothing_but_the_number_of_steps():
    """Same plan and steps, other data: the same messages of the same sizes."""
    shapes = []
    for seed in (1, 2):
        data = federation(3, 50, 2, seed)
        result = run(data, max_iter=2, stop=False, scale=64.0, coarse="allow")
        shapes.append(
            [(e.round, e.sender, e.recipient, e.kind, e.nbytes) for e in result.transcript.envelopes]
        )
    assert shapes[0] == shapes[1]


def test_what_the_server_learned_is_said(common):
    _, result = common
    assert any("final labels" in fact and "number of steps" in fact for fact in result.learned)
