"""Committees that are asked for what they may not do, cut off, or misled: typed errors, and nobody framed."""

import contextlib
import dataclasses
import itertools
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import secfc
from field.code.masking import PairKeys, mask_context, mask_for
from field.ring.basis import MERSENNE_61, Basis
from secfc.coded.messages import MissingMessages
from secfc.coded.queries import Operation
from secfc.disclosure import AssignmentsOnly, FinalLabelsOnly
from secfc.disclosure.compare import client as participant
from secfc.disclosure.compare import server as dealt
from secfc.disclosure.compare.dealer import players_without_seed
from secfc.disclosure.compare.session import may_open_distances
from secfc.disclosure.decoded import replies
from secfc.errors import FaultyClient, FaultyServer, TooFewReplies
from secfc.kmeans.bisecting import Bisecting
from secfc.kmeans.starts import CenterSeparation, GivenLabels, KMeansPlusPlus
from secfc.privacy import Bound, Budget, Neighbors
from secfc.roles.exchange import ITERATE, SERVER, STRIDE
from secfc.roles.messages import Contributors
from tests import small
from tests.secfc.queries import altered, query
from tests.small import cluster

DEALERS = [SERVER, "client-6", None]


federation = partial(small.federation, n=7, m=70)


def ask_committee(data, policy, **settings):
    shared = {"ell": 2, "max_iter": 3, "init": secfc.RandomLabels(), "bound": 6.0}
    return cluster(data, policy, **{**shared, **settings})


def changing(kind, change, sender=None):
    """Faults that rewrite every message of a kind, or of any, of one sender."""

    def faults(e):
        if kind in (None, e.kind) and sender in (None, e.sender):
            e = dataclasses.replace(e, body=change(e.body))
        return (e,)

    return faults


def numbers(*clients):
    return np.array(clients, np.int32)


# --- what a server may not ask ---------------------------------------------------------------------


@pytest.mark.parametrize("dealer", DEALERS)
@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"responders": numbers(1, 0, 2, 3, 4)}, "threshold of them, in order"),
        ({"responders": numbers(0, 1, 2, 3, 4, 5)}, "threshold of them, in order"),
        (
            {"factor": 9},
            r"CompareQuery\(k=3\) by a factor of 9 of some labels where the plan has CompareQuery",
        ),
        (
            {"factor": 2**62},
            r"CompareQuery\(k=3\) by a factor of \d+ of some labels where the plan has CompareQuery",
        ),
        ({"labels": np.zeros(70, np.int8)}, "some labels where the plan has"),
        ({"labels": np.full(70, -1, np.int8)}, "some labels where the plan has"),
    ],
)
def test_a_server_that_asks_for_another_comparison_is_refused(dealer, change, rule):
    faults = changing("CompareQuery", lambda b: altered(b, **change))
    with pytest.raises(FaultyServer, match=rule):
        ask_committee(federation(), AssignmentsOnly(dealer), faults=faults)


def test_the_factor_of_the_start_is_no_other_comparison():
    ask_committee(federation(), AssignmentsOnly(), init=CenterSeparation())


def test_what_masks_are_bound_to_is_another_for_other_labels_of_the_same_sizes(monkeypatch):
    found, match = [], participant.ComparisonClient.match
    monkeypatch.setattr(
        participant.ComparisonClient, "match", lambda *given: found.append(match(*given)) or found[-1]
    )
    ask_committee(federation(), secfc.AssignmentsOnly(), max_iter=1)
    one, labels = found[0], found[0].question.labels
    same, other = (altered(one.question, labels=each) for each in (labels.copy(), labels[::-1].copy()))
    assert dataclasses.replace(one, question=same).context == one.context
    assert dataclasses.replace(one, question=other).context != one.context


def test_without_a_dealer_the_committee_keeps_its_own_replies():
    faults = changing("CompareQuery", lambda b: altered(b, members=numbers(0, 1, 6)))
    with pytest.raises(FaultyServer, match="other players than the first that did not fall silent"):
        ask_committee(federation(), AssignmentsOnly(None), deviating=0, faults=faults)


@pytest.mark.parametrize("members", [(0,), (0, 1), (0, 1, 7)])
def test_a_run_needs_a_whole_committee(members):
    faults = changing("LloydStepQuery", lambda b: altered(b, members=numbers(*members), corrected=0))
    with pytest.raises(FaultyServer, match="another committee than"):
        ask_committee(federation(), FinalLabelsOnly(), ell=1, faults=faults)


@pytest.mark.parametrize("dealer", DEALERS)
def test_costs_are_asked_from_a_threshold(dealer):
    faults = changing("CostQuery", lambda b: altered(b, responders=b.responders[::-1]))
    with pytest.raises(FaultyServer, match="threshold of them, in order"):
        ask_committee(federation(), AssignmentsOnly(dealer), n_init=2, faults=faults)


@pytest.mark.parametrize("policy", [AssignmentsOnly(consent=True), AssignmentsOnly(None, consent=True)])
def test_consent_is_to_what_the_start_needs(policy):
    def curious(b):
        return altered(b, operation=Operation.DISTANCE, members=())

    with pytest.raises(
        FaultyServer, match=r"DistanceQuery\(k=3\) of some labels where the plan has CompareQuery"
    ):
        ask_committee(federation(), policy, faults=changing("CompareQuery", curious))


@pytest.mark.parametrize("policy", [AssignmentsOnly(), AssignmentsOnly(None), FinalLabelsOnly()])
@pytest.mark.parametrize("algorithm", [secfc.Lloyd, secfc.SecFC])
def test_a_field_without_comparisons_is_refused_also_in_plaintext(algorithm, policy):
    more = {"threshold": 1} if algorithm is secfc.SecFC else {}
    basis = Basis((MERSENNE_61,))
    way = algorithm(k=3, quantization=secfc.Quantization(basis=basis), disclosure=policy, **more)
    with pytest.raises(ValueError, match=r"30-bit lanes.*disclosure=Distances\(\)"):
        secfc.fit(way, federation())


# --- silence and false reports ---------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["client-3", "client-4"])
def test_a_silent_responder_does_not_leave_some_members_with_keys(lost):
    # One member misses it, the others go on to deal keys; then the same committee meets again.
    data = federation()
    full = ask_committee(data, AssignmentsOnly(None), deviating=0)
    result = ask_committee(
        data, AssignmentsOnly(None), deviating=0,
        faults=lambda e: () if e.kind == "MaskedDistances" and e.sender == lost and e.round < ITERATE + STRIDE
        else (e,),
    )  # fmt: skip
    assert all((a == b).all() for a, b in zip(result.history, full.history, strict=True))
    asked = [
        e.body for e in result.transcript.envelopes if e.kind == "CompareQuery" and e.recipient == "client-0"
    ]
    assert {tuple(b.members) for b in asked} == {(0, 1, 2)}
    assert int(lost[-1]) not in asked[1].responders
    assert sum(e.kind == "SetKeys" for e in result.transcript.envelopes) == 3, "dealt once"


@pytest.mark.parametrize("dealer", DEALERS)
@pytest.mark.parametrize("missing", [(7,), (0, 2**31 - 1)])
def test_a_report_of_nobody_s_silence_is_a_fault(dealer, missing):
    faults = changing("LabelShare", lambda b: MissingMessages(1, numbers(*missing)), "client-1")
    with pytest.raises(FaultyClient, match="client-1 missed clients of other numbers than 0 to 6"):
        ask_committee(federation(), AssignmentsOnly(dealer), faults=faults)


def test_reports_that_lead_nowhere_end_the_run():
    # The dealing server's word never comes: each member in turn says so, and misses no client.
    with pytest.raises(TooFewReplies):
        ask_committee(
            federation(), AssignmentsOnly(), faults=lambda e: () if e.kind == "Corrections" else (e,)
        )


def test_a_malformed_complaint_about_noise_is_a_fault():
    noise = secfc.NoiseInShares(Budget(8, 1e-6), radius=Bound.given(6.0), neighbors=Neighbors("replace"))
    faults = changing(None, lambda b: Contributors(np.ones(2, bool)), "client-1")
    with pytest.raises(FaultyClient, match="client-1 counted other dealers"):
        ask_committee(
            federation(), noise, ell=1,
            faults=lambda e: faults(e) if e.kind == "CodedDistances" else (e,),
        )  # fmt: skip


# --- what is opened by consent, to the server and t clients ----------------------------------------


class _Nothing:
    """A stream that the coalition does not know, as zeros."""

    def fill_residues(self, prime, out):
        out[:] = 0


class Overheard:
    """A run with all keys and bare replies kept, to try what any coalition could take off the masks."""

    def __init__(self, monkeypatch, t, colluding=None, **parameters):
        self.keys, self.bare, self.masked = {}, {}, {}
        self.colluding = max(1, t) if colluding is None else colluding
        paired, hide, answer = (
            dealt.pair_keys,
            replies.mask_values,
            participant.ComparisonClient.__init__,
        )

        def pair_keys(plan, name, coins):
            keys = yield from paired(plan, name, coins)
            self.keys[plan.clients.index(name)] = dict(keys._keys)
            return keys

        def hidden(plan, me, keys, colluding, question, values, further=None):
            asked = question.round - (question.round - ITERATE) % STRIDE
            self.masked[asked] = question.round  # a later one where row 0 was dealt by those of the question
            self.bare[asked, me] = values.copy()
            return hide(plan, me, keys, colluding, question, values, further)

        def init(client, *args, **named):
            answer(client, *args, **named)
            client.colluding = self.colluding

        monkeypatch.setattr(dealt, "pair_keys", pair_keys)
        for module in (replies, participant):
            monkeypatch.setattr(module, "mask_values", hidden)
        if colluding is not None:
            monkeypatch.setattr(participant.ComparisonClient, "__init__", init)
        data = federation(n=9, m=45)
        self.result = ask_committee(data, AssignmentsOnly(consent=True), t=t, max_iter=2, **parameters)

    def leaks(self, kind):
        """Pairs of coalition and clients whose part of a decoded sum it could tell: of any t responders."""
        code = self.result.plan.code
        replies = {
            (e.round, int(e.sender[-1])): e.body.values
            for e in self.result.transcript.envelopes
            if e.kind == kind
        }
        found = []
        for number in sorted({number for number, _ in replies}):
            responders = tuple(sorted(j for r, j in replies if r == number))
            for friends in itertools.combinations(responders, code.t):
                others = [j for j in responders if j not in friends]
                seen = {j: self.stripped(replies[number, j], number, responders, friends, j) for j in others}
                for size in range(1, len(others)):
                    for part in itertools.combinations(others, size):
                        truth = {j: self.bare[number, j] for j in part}
                        if self.total(responders, seen, part) == self.total(responders, truth, part):
                            found.append((friends, part))
        assert replies
        return found

    def stripped(self, reply, number, responders, friends, j):
        """A reply without the masks that the coalition's clients share with its sender."""
        code, lanes, shape = self.result.plan.code, len(reply), reply.shape[1:]
        asked = (e.body for e in self.result.transcript.envelopes if e.round == number and e.sender == SERVER)
        context = mask_context(code, responders, lanes, shape, next(asked).digest)
        streams = dict.fromkeys(responders, _Nothing())
        for i in friends:
            streams |= {i: PairKeys({j: self.keys[i][j]}).streams(self.masked[number], context)[j]}
        mask = mask_for(code, responders, j, streams, lanes, shape, self.colluding)
        basis = code.basis.prefix(lanes)
        return basis.add(reply, basis.negate(mask).astype(basis.dtype))

    def total(self, responders, values, part):
        """The weighted sum of some clients' replies, one column of each lane."""
        code = self.result.plan.code
        _, weights = code.decoding_weights(responders, 2)
        return [
            sum(
                int(weights[lane, responders.index(j)]) * int(values[j].reshape(len(values[j]), -1)[lane, -1])
                for j in part
            )
            % p
            for lane, p in enumerate(code.basis.primes[: len(values[part[0]])])
        ]


CONSENTED = [
    ("CodedCosts", {"n_init": 2}),
    ("CodedDistances", {"init": KMeansPlusPlus()}),
    ("CodedGains", {"init": Bisecting()}),
]


@pytest.mark.parametrize(("kind", "parameters"), CONSENTED, ids=[kind for kind, _ in CONSENTED])
@pytest.mark.parametrize("t", [1, 2])
def test_the_server_with_t_clients_gets_the_sum_of_what_is_opened_only(monkeypatch, t, kind, parameters):
    # Whichever t: members of the committee, and clients outside of it.
    assert not Overheard(monkeypatch, t, **parameters).leaks(kind)


@pytest.mark.parametrize(("kind", "parameters"), CONSENTED, ids=[kind for kind, _ in CONSENTED])
@pytest.mark.parametrize(("t", "colluding"), [(1, -1), (2, 1)])
def test_the_same_finds_masks_against_too_few_clients(monkeypatch, t, colluding, kind, parameters):
    # Two partners withstand one client; no partner, nobody.
    found = Overheard(monkeypatch, t, colluding, **parameters).leaks(kind)
    assert found
    assert any(not set(friends) & {0, 1, 2} for friends, _ in found), "also from outside the committee"


def test_given_labels_need_no_consent():
    public = secfc.algorithm.PublicFacts.of(federation(), 6.0)
    plan = secfc.SecFC(k=2, threshold=1, init=GivenLabels(np.arange(70) % 2)).plan(public)
    assert not may_open_distances(plan, consent=True)


@pytest.mark.parametrize("dealer", [SERVER, None])
@pytest.mark.parametrize("consent", [False, True])
def test_a_client_opens_distances_to_a_start_if_it_consented_itself(dealer, consent):
    """Its own policy decides, not the plan, whose start asks for them."""
    public = secfc.algorithm.PublicFacts.of(federation(), 6.0)
    agreed = AssignmentsOnly(dealer, consent=True)
    plan = secfc.SecFC(k=2, threshold=1, init=KMeansPlusPlus(), disclosure=agreed).plan(public)
    mine = dataclasses.replace(agreed, consent=consent).how(plan)
    member = SimpleNamespace(name="client-0", peers=PairKeys({}), coins=None)
    client = mine.participant(plan, member)
    asked = query("DistanceQuery", ITERATE, 2, np.zeros(70, np.int8), numbers(0, 1, 2))
    with contextlib.nullcontext() if consent else pytest.raises(FaultyServer, match="never shows"):
        assert client(asked, None) is not None


def test_a_dealer_waits_for_seeds_of_members_too():
    """Who plays without answering has a part of what is dealt, which nobody can deal without its seed."""
    played = SimpleNamespace(responders=numbers(0, 1), members=numbers(1, 2, 4))
    keys = SimpleNamespace(peers={0, 2})
    assert players_without_seed(SimpleNamespace(question=played), keys).tolist() == [1, 4]
