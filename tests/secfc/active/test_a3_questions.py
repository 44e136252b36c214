"""A server that asks for what the plan does not have: each exploit succeeds where its check is removed."""

import dataclasses
from functools import partial

import numpy as np
import pytest

import secfc
from field import SeededCoins
from field.code.masking import PairKeys
from secfc.algorithm import PublicFacts
from secfc.coded.queries import ComparisonCommittee, Query
from secfc.coded.source import CodedSource, decode_scaled_distances
from secfc.coded_kmeans.query_order import QueryValidator
from secfc.data.inputs import build_algorithm
from secfc.disclosure.compare.client import ComparisonClient
from secfc.disclosure.compare.computing_party import ComputingParty
from secfc.disclosure.compare.server import CommitteeServer
from secfc.disclosure.decoded import replies as blinded
from secfc.errors import FaultyServer, SuspectedParties
from secfc.kmeans.loop import Trace
from secfc.kmeans.starts import GivenLabels
from secfc.roles.exchange import ITERATE, STRIDE
from secfc.roles.messages import FinalResult
from secfc.transport.simulate import simulate
from tests.nightly import short
from tests.secfc.queries import altered
from tests.small import clustered

federation = partial(clustered, m=40)


# --- different labels for different clients --------------------------------------------------------


# The second question: the labels of the first follow from the plan.
ASKED = ITERATE + STRIDE


def swapped(labels):
    return ((labels + 1) % 3).astype(labels.dtype)


class Bare:
    """Coded distances before they are masked, by question and client: what no server may compute with."""

    def __init__(self, monkeypatch):
        self.values, hide = {}, blinded.mask_values

        def hidden(plan, me, keys, colluding, question, values, further=None):
            # Masks of what is checked have the next number.
            self.values[question.round - 1, me] = values.copy()
            self.plan = plan
            return hide(plan, me, keys, colluding, question, values, further)

        monkeypatch.setattr(blinded, "mask_values", hidden)


def told_apart(monkeypatch):
    """Whether masks cancel although client 0 was told other labels than the other responders.

    Then the server decodes how that client's share changes with the labels, once it asked the others too.
    """
    bare, told = Bare(monkeypatch), {}

    def lie(e):
        if e.kind == "CodedDistances" and e.round == ASKED:
            told[e.sender] = e.body.values
        if e.kind == "DistanceQuery" and e.recipient == "client-0" and e.round == ASKED:
            return (dataclasses.replace(e, body=altered(e.body, labels=swapped(e.body.labels))),)
        return (e,)

    start = GivenLabels(np.arange(40) % 3)
    way = secfc.SecFC(k=3, threshold=1, init=start, max_iter=2, disclosure=secfc.Distances())
    with pytest.raises(SuspectedParties, match="heard different coins, or questions"):
        secfc.fit(way, federation(), faults=lie, keep_bodies=True)
    replies = {bare.plan.clients.index(c): values for c, values in told.items()}
    unmasked = {j: bare.values[ASKED, j] for j in replies}
    code = bare.plan.code
    assert len(replies) == code.threshold(2)
    return bool((code.decode(replies, 2) == code.decode(unmasked, 2)).all())


def test_labels_told_to_one_client_only_leave_its_share_hidden(monkeypatch):
    assert not told_apart(monkeypatch)


def test_masks_that_are_not_bound_to_labels_give_the_share_away(monkeypatch):
    monkeypatch.setattr(Query, "digest", b"")
    assert told_apart(monkeypatch)


# --- questions that the plan does not have ---------------------------------------------------------


class Asked(list):
    """The labels of all questions that some reply answered."""


def ask_more(monkeypatch, questions, policy, **parameters):
    """Run a server whose heuristic is these questions, each (method of the source, labels, k).

    Returns the labels of those questions that were answered.
    """
    answered = Asked()

    def lloyd(self, labels, k, max_iter):
        history = [labels]
        for method, asked, clusters in questions(labels, k):
            ask = (
                partial(decode_scaled_distances, self.quorum)
                if method == "distances"
                else getattr(self, method)
            )
            step = yield from ask(asked, clusters)
            answered.append(asked)
            history.append(step.labels if method == "take_step" else labels)
        return Trace(k, (np.maximum(history[-1], 0),), (0,) * k, True)

    monkeypatch.setattr(CodedSource, "run_lloyd", lloyd)
    way = build_algorithm(
        secfc.SecFC,
        **{"k": 3, "t": 1, "init": secfc.RandomLabels(), "max_iter": 3, "disclosure": policy} | parameters,
    )
    try:
        secfc.fit(way, federation())
    except (FaultyServer, SuspectedParties) as error:
        answered.refused = str(error)
        answered.parties = getattr(error, "parties", ())
    else:
        answered.refused = None
    return answered


def unchecked(monkeypatch):
    """The variant without a referee."""
    monkeypatch.setattr(QueryValidator, "ask", lambda self, question, missed=0: True)
    monkeypatch.setattr(QueryValidator, "end", lambda self, labels, missed=0: True)


def pair(i):
    """Two points as clusters of their own: the answer says which of the two each point is nearer to."""
    labels = np.full(40, -1, np.int32)
    labels[[i, i + 1]] = 0, 1
    return labels


def pairs(labels, k):
    yield "take_step", labels, k
    for i in range(30):
        yield "take_step", pair(i), k


def other_start(labels, k):
    yield "take_step", swapped(labels), k


def distances(labels, k):
    yield "distances", labels, k


POLICIES = [secfc.AssignmentsOnly(), secfc.AssignmentsOnly(dealer=None), secfc.Distances()]
every_policy = pytest.mark.parametrize("policy", POLICIES, ids=["dealt", "undealt", "distances"])


@every_policy
def test_more_steps_than_planned_are_refused(monkeypatch, policy):
    answered = ask_more(monkeypatch, pairs, policy)
    # Four at most: three steps, and the one that measures the cost of the last labels.
    assert len(answered) <= 4
    assert "more than the plan has" in answered.refused or "where the plan has" in answered.refused


@every_policy
def test_without_a_referee_every_question_is_answered(monkeypatch, policy):
    unchecked(monkeypatch)
    answered = ask_more(monkeypatch, pairs, policy)
    assert answered.refused is None
    assert len(answered) == 31


@every_policy
def test_another_start_than_the_seed_gives_is_refused(monkeypatch, policy):
    answered = ask_more(monkeypatch, other_start, policy)
    assert not answered
    assert (
        "where the plan has CompareQuery(k=3)" in answered.refused or "DistanceQuery(k=3)" in answered.refused
    )
    unchecked(monkeypatch)
    assert len(ask_more(monkeypatch, other_start, policy)) == 1


def test_distances_that_a_start_was_not_planned_to_ask_for_are_refused(monkeypatch):
    """Consent is to what the start asks for, beginning with the point that the seed gives."""
    way = {"init": secfc.KMeansPlusPlus(), "policy": secfc.AssignmentsOnly(consent=True)}
    answered = ask_more(monkeypatch, distances, **way)
    assert not answered
    assert "where the plan has CompareQuery" in answered.refused
    unchecked(monkeypatch)
    assert len(ask_more(monkeypatch, distances, **way)) == 1


@pytest.mark.parametrize("policy", [POLICIES[0], POLICIES[2]], ids=["dealt", "distances"])
def test_centers_of_other_labels_than_the_last_are_refused(monkeypatch, policy):
    """A server that has the centers of single points opened reads these points."""
    fed, alone = federation(), np.zeros(40, np.int32)
    alone[7], alone[23] = 1, 2
    centers = CodedSource.reveal_centers
    monkeypatch.setattr(CodedSource, "reveal_centers", lambda self, labels, k: centers(self, alone, k))
    way = secfc.SecFC(
        k=3, threshold=1, release=secfc.Release(reveal_centers=True, smallest_center=1), disclosure=policy
    )
    with pytest.raises((FaultyServer, SuspectedParties), match="other labels than those last opened"):
        secfc.fit(way, fed)
    unchecked(monkeypatch)
    opened = secfc.fit(way, fed).centers
    assert np.abs(opened[[1, 2]] - fed.stacked()[[7, 23]]).max() < 0.1


def test_a_final_clustering_that_nobody_found_is_refused(monkeypatch):
    def lie(e):
        if isinstance(e.body, FinalResult):
            return (dataclasses.replace(e, body=dataclasses.replace(e.body, labels=swapped(e.body.labels))),)
        return (e,)

    way = secfc.SecFC(k=3, threshold=1)
    predict = partial(
        secfc.fit(way, federation()).model.predict,
        federation(),
        coins=partial(SeededCoins, 0),
        drive=lambda roles, *_: simulate(roles, faults=lie),
    )
    for run in (partial(secfc.fit, way, federation(), faults=lie), predict):
        with pytest.raises((FaultyServer, SuspectedParties), match="other labels than those last opened"):
            run()
    unchecked(monkeypatch)
    secfc.fit(way, federation(), faults=lie)


# --- starts ----------------------------------------------------------------------------------------


def test_without_a_seed_clients_toss_the_start_and_the_run_is_exact():
    starts = set()
    for number in range(3):
        result = secfc.fit(
            secfc.SecFC(k=3, threshold=1, n_init=2, init="random"), federation(), seed=None,
            coins=lambda name, number=number: SeededCoins(number, name),
        )  # fmt: skip
        starts.add(result.history[0].tobytes())
        start = GivenLabels(result.history[0])
        plain = secfc.fit(secfc.Lloyd(k=3, init=start), federation())
        assert (plain.flat == result.flat).all()
        assert {"Commitment", "Coin", "TossedCoins"} <= {e.kind for e in result.transcript.envelopes}
    assert len(starts) == 3


def test_a_seed_is_a_part_of_the_plan_and_gives_the_same_start_everywhere():
    way = secfc.SecFC(k=3, threshold=1)
    a, b = (secfc.fit(way, federation(), seed=4) for _ in range(2))
    plain = secfc.fit(secfc.Lloyd(k=3), federation(), seed=4)
    assert (a.history[0] == b.history[0]).all()
    assert (a.history[0] == plain.history[0]).all()
    public = PublicFacts.of(federation())
    digests = {
        way.plan(dataclasses.replace(public, seed=s, session=bytes(32))).digest() for s in (None, 1, 2)
    }
    assert len(digests) == 3


# --- labels that were not opened, and players out of order -----------------------------------------


def chosen(labels, k):
    """One honest step, then a clustering of the server's choice."""
    yield "take_step", labels, k
    yield "take_step", pair(5), 3


@pytest.mark.parametrize("policy", POLICIES[:2], ids=["dealt", "undealt"])
def test_labels_that_are_not_the_last_opened_ones_are_refused(monkeypatch, policy):
    answered = ask_more(monkeypatch, chosen, policy)
    assert len(answered) == 1
    assert "the labels that are next" in answered.refused
    assert answered.parties[:2] == ("server", "client-0")


@pytest.mark.parametrize("policy", POLICIES[:2], ids=["dealt", "undealt"])
def test_clients_that_take_the_servers_word_for_labels_answer_chosen_ones(monkeypatch, policy):
    monkeypatch.setattr(ComparisonClient, "opens", False)
    monkeypatch.setattr(ComparisonClient, "hear", lambda self, match, question, mine: iter(()))
    assert len(ask_more(monkeypatch, chosen, policy)) == 2


def test_a_client_that_lacks_a_share_of_the_labels_answers_nothing_about_them():
    """Not even if the server, which carries messages, lets it hear nothing: then it is lost, as if silent."""

    def faults(e):
        unheard = e.kind == "LabelShare" and e.recipient == "client-3" and e.round < ASKED
        return () if unheard else (e,)

    way = secfc.SecFC(k=3, threshold=1, max_iter=4)
    clean, result = (
        secfc.fit(way, federation(), faults=f, keep_bodies=True) for f in (lambda e: (e,), faults)
    )
    assert (clean.flat == result.flat).all()
    assert len(clean.history) == len(result.history)


def seat(monkeypatch, friend):
    """A server that seats a friend, for no reason: the labels it gets, or why it is refused."""
    seats = CommitteeServer.seats

    def seated(self):
        found = seats(self)
        members = np.array([found.committee.members[0], friend], np.int32)
        return dataclasses.replace(found, committee=ComparisonCommittee(members, found.committee.corrected))

    monkeypatch.setattr(CommitteeServer, "seats", seated)
    way = secfc.SecFC(3, secfc.Threshold(1, deviating=0), init=secfc.RandomLabels(), max_iter=2)
    return secfc.fit(way, federation())


def test_a_friend_is_not_seated_while_others_are_there(monkeypatch):
    with pytest.raises(FaultyServer, match="other players than the first"):
        seat(monkeypatch, 2)


def test_without_an_order_any_friend_is_seated(monkeypatch):
    monkeypatch.setattr(ComparisonClient, "check_order", lambda self, responders, committee: None)
    assert seat(monkeypatch, 2).n_iter == 2


def test_who_was_left_out_stays_out():
    public = PublicFacts.of(federation())
    plan = secfc.SecFC(k=3, threshold=secfc.Threshold(1, deviating=0)).plan(public)
    keys = PairKeys({})
    member = ComputingParty(plan, "client-0", "server", keys, keys, None, SeededCoins(0, "x"))
    client = ComparisonClient(plan, "client-0", keys, member, consent=False)
    client.check_order([0, 1, 2], [0, 1])
    client.check_order([0, 2, 3], [0, 2])
    with pytest.raises(FaultyServer, match="other players than the first"):
        client.check_order([0, 1, 2], [0, 1])
    with pytest.raises(FaultyServer, match="other players than the first"):
        client.check_order([0, 2, 3], [0, 3])
    client.check_order([0, 3, 4], [0, 3])


def test_a_client_that_missed_the_start_of_a_restart_blames_nobody():
    """What comes then looks like more steps than the restart before can have."""
    way = secfc.SecFC(k=3, threshold=1, n_init=3, max_iter=2, disclosure=secfc.Distances(blind=False))
    clean = secfc.fit(way, federation())
    for missed in range(0, 9, short(2, nightly=1)):

        def faults(e, missed=missed):
            gone = e.recipient == "client-3" and e.round == ITERATE + missed * STRIDE
            return () if gone else (e,)

        result = secfc.fit(way, federation(), faults=faults)
        assert all((a == b).all() for a, b in zip(clean.history, result.history, strict=True))


def test_restarts_whose_questions_are_all_alike_are_answered():
    # Of one cluster every question has the same labels: the first of a restart looks like a step of the last.
    data = secfc.Federation.from_arrays([np.array([[float(x)]]) for x in range(3)])
    for count in (2, 3):
        way = secfc.SecFC(
            k=1,
            threshold=1,
            n_init=count,
            init=secfc.CenterSeparation(),
            disclosure=secfc.Distances(),
            quantization=secfc.Quantization(coarse="allow"),
        )
        assert secfc.fit(way, data, seed=0).flat.tolist() == [0, 0, 0]
