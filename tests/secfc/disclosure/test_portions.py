"""What is dealt portion by portion: the same labels, less held at once, and what a lost portion does."""

import dataclasses
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import secfc
from field import SeededCoins
from field.compare.blockwise import MOST
from secfc.algorithm import PublicFacts
from secfc.coded.messages import Corrections, RequestCorrections
from secfc.coded.parameters import Network as Line
from secfc.data.inputs import build_algorithm
from secfc.disclosure.compare.session import (
    GIVEN,
    OPEN,
    PORTIONS,
    CommitteeChoice,
    ComparisonSession,
    committee_size,
)
from secfc.errors import FaultyClient, FaultyServer, ProtocolError
from secfc.kmeans.starts import RandomLabels
from secfc.roles.exchange import ITERATE, SERVER
from secfc.transport import wire
from secfc.transport.simulate import simulate
from tests.nightly import covering, every, in_turns, short
from tests.secfc.campaign import LOSSES, Fault, Network
from tests.secfc.queries import query
from tests.secfc.transport.test_channels import over_pipes
from tests.secfc.transport.test_checkpoint import Crash, after, same
from tests.secfc.transport.test_checkpoint import Network as Noticing
from tests.small import federation

M, N = 200, 5
PAGE = (Path(secfc.__file__).parent / "disclosure" / "README.md").read_text()
# What the security page says that portions add.
TABLE = re.search(r"<!-- from code: also: in portions -->\n+((?:\|.*\n)+)", PAGE)
ADDED = set(re.findall(r"\| `(\w+)`", TABLE[1]))
DEALT = [
    secfc.AssignmentsOnly(), secfc.AssignmentsOnly("client-0"), secfc.AssignmentsOnly("client-4"),
    secfc.OwnLabels(), secfc.OwnLabels("client-0"), secfc.FinalLabelsOnly(dealer=SERVER),
]  # fmt: skip


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of 64 rows, where they would have 131,072."""
    monkeypatch.setattr("field.compare.blockwise.LEAST", 64)


def way(policy=None, *, plain=False, **parameters):
    shared = {"init": RandomLabels(), "max_iter": 2, "disclosure": policy or secfc.AssignmentsOnly()}
    shared |= parameters
    return (
        build_algorithm(secfc.Lloyd, k=3, **shared)
        if plain
        else build_algorithm(secfc.SecFC, k=3, **{"t": 1, "network": Line(latency=0.0)} | shared)
    )


def fit(algorithm, **options):
    return secfc.fit(algorithm, federation(N, M, 2), bound=6.0, seed=1, **options)


def kinds(result):
    return Counter(e.kind for e in result.transcript.envelopes)


# --- exactness, and what is held -----------------------------------------------------------------


@pytest.mark.parametrize(("centers", "policy"), covering(["exact", "rounded"], DEALT), ids=repr)
def test_labels_are_those_of_plaintext(policy, centers, monkeypatch):
    if centers == "rounded" and policy.capabilities.exposes == "nothing":
        pytest.skip("sizes are secret")
    ours, plain = fit(way(policy, centers=centers)), fit(way(policy, plain=True, centers=centers))
    assert (ours.flat == plain.flat).all()
    new = federation(N, M, 2, 1)
    for a, b in zip(ours.predict(new), plain.predict(new), strict=True):
        assert (a == b).all()
    said = kinds(ours)
    assert said["RequestCorrections"] > 0
    assert said["Corrections"] > said["RequestCorrections"]
    if policy.capabilities.exposes == "nothing":
        return  # the largest corrections are those of a division
    monkeypatch.setattr("field.compare.blockwise.MOST", 1)
    whole = fit(way(policy, centers=centers))
    assert set(kinds(ours)) - set(kinds(whole)) == ADDED
    assert largest(ours) < 0.7 * largest(whole)


def largest(result):
    return max(e.nbytes for e in result.transcript.envelopes if e.kind == "Corrections")


def test_a_portion_is_made_while_the_last_one_is_used():
    """The dealer makes one when the one before is sent, and holds no more than that."""
    order = []

    def watch(party, exchange):
        for message in exchange.send.values():
            if isinstance(message, Corrections | RequestCorrections):
                order.append((party, type(message).__name__))

    fit(way(threshold=secfc.Threshold(1, deviating=0)), watch=watch)
    # A question about few points has one portion.
    assert re.fullmatch("(C(RC)+)+(C(RC)*)*", "".join(kind[0] for _, kind in order))
    assert {party for party, kind in order if kind == "Corrections"} == {SERVER}
    # Another member gets them in every question.
    assert len({party for party, kind in order if kind == "RequestCorrections"}) == 2


@pytest.mark.parametrize("centers", ["exact", "rounded"])
@pytest.mark.parametrize("k", [8, 40])
def test_rounds_of_all_blocks_are_below_those_in_which_portions_are_given(k, centers):
    """Where bytes alone cost, so that there are as many levels and blocks as ever."""
    m, line = 64 * MOST, Line(latency=0.0)
    way = secfc.SecFC(
        k,
        threshold=2,
        runtime=secfc.Runtime(network=line),
        init="random",
        quantization=secfc.Quantization(largest=2 * m // k, centers=centers),
    )
    public = dataclasses.replace(
        PublicFacts.of(federation(N, M, 2), 6.0), session=bytes(32), seed=1, counts=(m, *[0] * 4)
    )
    everyone, members = np.arange(N, dtype=np.int32), np.arange(committee_size(2), dtype=np.int32)
    question = query("CompareQuery", ITERATE, k, np.zeros(m, np.int8), everyone, members)
    match = ComparisonSession(
        way.plan(public), question, m // k - np.arange(k) % 3, CommitteeChoice(len(members), SERVER)
    )
    # Streams are bound to the question, and not to the sizes of its clusters alone.
    moved = query("CompareQuery", ITERATE, k, np.ones(m, np.int8), everyone, members)
    assert dataclasses.replace(match, question=moved).context != match.context
    schedule = match.schedule
    several = 3 if centers == "rounded" else 2  # exact ones have sizes to select, which takes work
    assert len(schedule.whole.counts) >= (several if k == 40 else 1)
    assert 1 < len(schedule.parts) <= min(MOST, PORTIONS)
    # Each opening takes two rounds of members that add up parts; some forty go before and after.
    assert match.begun + OPEN + 2 * len(schedule.openings) + 40 < GIVEN


# --- transports ----------------------------------------------------------------------------------


def roles_of(algorithm, fed):
    plan = algorithm.plan(dataclasses.replace(PublicFacts.of(fed, 6.0), session=bytes(32), seed=1))
    roles = {p.name: algorithm.client(plan, p, coins=SeededCoins(1, p.name)) for p in fed.parties}
    roles[SERVER] = algorithm.server(plan, rng=np.random.default_rng(1), coins=SeededCoins(1, SERVER))
    return roles


@pytest.mark.parametrize("policy", every(4, DEALT[:5]), ids=repr)
def test_parties_that_wait_for_one_another_get_the_same(policy):
    fed = federation(N, M, 2)
    over, expected = over_pipes(roles_of(way(policy), fed)), simulate(roles_of(way(policy), fed)).results
    for name in fed.names:
        assert (over[name].labels == expected[name].labels).all()
    assert fit(way(policy), faults=wire.over_wire()).flat.tolist() == fit(way(policy)).flat.tolist()


@pytest.mark.parametrize("policy", [DEALT[0], DEALT[4]], ids=repr)
def test_all_crash_at_any_exchange_and_resume(policy, tmp_path):
    count = after(10**9)
    expected = fit(way(policy), watch=count)
    step = short(-(-count.seen // 2), nightly=1)
    for crash in range(step // 2, count.seen, step):
        options = {"checkpoint": tmp_path / str(crash), "faults": Noticing()}
        with pytest.raises(Crash):
            fit(way(policy), watch=after(crash), **options)
        assert same(fit(way(policy), **options), expected)


# --- who is lost ---------------------------------------------------------------------------------


def losses(numbers):
    ways = st.integers(0, 2**16)
    fault = st.builds(Fault, st.sampled_from(LOSSES), ways, ways)
    return st.dictionaries(st.sampled_from(numbers), fault, min_size=1, max_size=3)


@pytest.mark.parametrize("policy", every(4, DEALT[:5]), ids=repr)
def test_losses_cost_no_exactness_and_nobody_is_blamed(policy):
    """Of whatever is sent after the shares are, whose loss costs a client's rows."""
    plain = fit(way(policy, plain=True))
    quiet = Network({}, False)
    fit(way(policy), faults=quiet)
    sent = [i for i, e in enumerate(quiet.passed) if e.round >= ITERATE]
    seen = Counter()

    @settings(max_examples=short(4, nightly=300), deadline=None, suppress_health_check=list(HealthCheck))
    @given(losses(sent))
    def law(schedule):
        network = Network(schedule, False)
        try:
            ours = fit(way(policy), faults=network)
        except (FaultyClient, FaultyServer):
            raise
        except ProtocolError:
            assert network.lost
            return
        # Who is gone gets no labels.
        for a, b in zip(ours.labels, plain.labels, strict=True):
            assert ((a == b) | (a == -1)).all()
        seen["exact"] += 1

    law()
    assert seen["exact"]


@pytest.mark.parametrize(("which", "kind"), in_turns([0, 1, 2], ["RequestCorrections", "Corrections"]))
def test_a_portion_that_is_lost_is_dealt_anew(kind, which):
    lost = []

    def faults(e):
        if e.kind == kind:
            lost.append(e)
            if len(lost) == 1 + which:
                return []
        return [e]

    ours, plain = fit(way(), faults=faults), fit(way(plain=True))
    assert (ours.flat == plain.flat).all()
    kinds = ("CompareQuery", "CompareOwnQuery", "CompareMovedQuery")
    asked = [e.round for e in ours.transcript.envelopes if e.kind in kinds]
    usual = [e.round for e in fit(way()).transcript.envelopes if e.kind in kinds]
    assert len(set(asked)) == len(set(usual)) + 1


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "change", "error", "rule"),
    [
        (
            "RequestCorrections",
            lambda b: RequestCorrections(b.portion + 1),
            FaultyClient,
            r"asked for portion 2 where 1 is next",
        ),
        (
            "RequestCorrections",
            lambda b: Corrections(np.zeros(3, np.uint64)),
            FaultyClient,
            "Corrections where .*RequestCorrections",
        ),
        ("Corrections", lambda b: Corrections(b.words[:-1]), FaultyServer, r"where uint64\(\d+,\) was"),
    ],
)
def test_a_wrong_portion_names_its_sender(kind, change, error, rule):
    after = []

    def faults(e):
        if e.kind != kind:
            return [e]
        after.append(e)
        if kind == "Corrections" and len(after) == 1:
            return [e]  # the first comes unasked
        return [dataclasses.replace(e, body=change(e.body))]

    with pytest.raises(error, match=rule):
        fit(way(), faults=faults, keep_bodies=True)
