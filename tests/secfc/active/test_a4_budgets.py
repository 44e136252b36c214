"""What parties agreed to give away and no more: each exploit succeeds where its budget is removed."""

import functools
import types

import numpy as np
import pytest

import secfc
from field.code.masking import deal_blinding
from field.secrets.coins import SystemCoins
from secfc.algorithm import PublicFacts
from secfc.coded_kmeans.predict import PredictionAllowance
from secfc.data.inputs import build_algorithm, with_parameters
from secfc.disclosure.noise import in_shares
from secfc.disclosure.noise.in_shares import NoiseDealer
from secfc.errors import BudgetSpent, SuspectedParties
from secfc.kmeans.starts import GivenLabels
from secfc.privacy import Bound, Budget, Neighbors
from secfc.roles.exchange import ITERATE, STRIDE
from tests.secfc.queries import query
from tests.small import split


def fitted(**parameters):
    points = np.concatenate([np.linspace(-4, -3, 20), np.linspace(3, 4.5, 20)])[:, None]
    way = build_algorithm(
        secfc.SecFC, k=2, t=1, init=GivenLabels(np.arange(40) // 20), scale=64.0, **parameters
    )
    return points, secfc.fit(way, split(points), bound=8.0)


def boundary(result, calls):
    """Where the label of a new point changes, by bisection: half way between two hidden centers."""
    low, high = -8.0, 8.0
    first = int(result.predict(split([[low]] * 5))[0][0])
    for _ in range(calls):
        middle = (low + high) / 2
        if int(result.predict(split([[middle]] * 5))[0][0]) == first:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def test_labels_of_chosen_points_end_with_the_budget():
    _, result = fitted(predictions=25)
    with pytest.raises(BudgetSpent, match=r"5 new points to be labeled: 0 of 25 are left.*predictions="):
        boundary(result, 8)


def test_without_a_budget_they_fix_where_hidden_centers_lie(monkeypatch):
    monkeypatch.setattr(PredictionAllowance, "spend", lambda self, points: None)
    points, result = fitted(predictions=25)
    truth = (points[:20].mean() + points[20:].mean()) / 2
    assert abs(boundary(result, 8) - truth) < 0.1


def test_a_refused_prediction_spends_nothing_and_the_default_is_finite():
    _, result = fitted(predictions=7)
    with pytest.raises(BudgetSpent):
        result.predict(split(np.zeros((8, 1))))
    assert len(np.concatenate(result.predict(split(np.zeros((7, 1)))))) == 7
    assert fitted()[1].plan.predictions == 400
    with pytest.raises(secfc.InputError, match="predictions=0 is too small"):
        fitted(predictions=0)


def test_centers_of_few_points_stay_closed():
    points = np.concatenate([np.zeros(38), [5.0, 6.0]])[:, None]
    way = secfc.SecFC(
        k=2, threshold=1, init=GivenLabels(np.arange(40) // 38), release=secfc.Release(reveal_centers=True)
    )
    closed = secfc.fit(way, split(points), keep_bodies=True)
    assert closed.centers[0] == 0
    assert np.isnan(closed.centers[1]).all()
    # Also in what the server was sent, not only in what it publishes.
    replies = {
        closed.plan.clients.index(e.sender): e.body.values
        for e in closed.transcript.envelopes
        if e.kind == "CodedCenters"
    }
    assert all((values[:, 1] == 0).all() for values in replies.values())
    assert len(replies) == 5
    opened = secfc.fit(
        with_parameters(way, smallest_center=1),
        split(points),
    )
    assert abs(opened.centers[1, 0] - 5.5) < 0.01, "the control: who owns one of the two reads the other"


# --- noise -----------------------------------------------------------------------------------------

RADIUS = Bound.given(6.0)
LABELS = np.arange(42) % 2


def way(**policy):
    policy = secfc.NoiseInShares(Budget(50, 1e-6), RADIUS, Neighbors("replace"), **policy)
    return secfc.SecFC(k=2, threshold=1, max_iter=1, init=GivenLabels(LABELS), disclosure=policy)


def noisy(lost=1):
    """A run whose questions lose all noise shares of a client each; how often the server asked."""
    points = np.random.default_rng(0).uniform(-3, 3, (42, 2))

    def faults(e):
        gone = (e.round - ITERATE) // STRIDE < lost and e.kind == "NoiseShares"
        names = {f"client-{6 - (e.round - ITERATE) // STRIDE}"}
        return () if gone and {e.sender} & names else (e,)

    result = secfc.fit(way(absent=lost), split(points, 7), bound=8.0, faults=faults)
    return len({e.round for e in result.transcript.envelopes if e.kind == "DistanceQuery"}), result


@pytest.mark.parametrize("lost", [1, 2])
def test_questions_that_are_put_anew_cost_nothing(lost):
    asked, result = noisy(lost)
    assert asked == 2 + lost
    assert "at most 2 iterations" in repr(result.ledger.entries)
    assert result.ledger.epsilon(1e-6) <= 50


def dealers(absent=1):
    """Seven clients that answer for two questions, and the plan."""
    public = PublicFacts(tuple(f"c{j}" for j in range(7)), (6,) * 7, 2, 8.0)
    plan = way(absent=absent).plan(public)
    policy = way(absent=absent).disclosure
    noise = policy.noise(policy.steps(plan), plan.radius)
    return plan, [NoiseDealer(plan, name, noise, SystemCoins(), 2) for name in plan.clients]


def answered(plan, everybody, asked, who=range(7)):
    """What the server decodes from those asked alike, and the noise shares sent: of (labels, distances) each.

    asked: for each client the labels and what the distances to their centers are, as any server may choose.
    """
    code, lanes = plan.code, plan.code.basis.lanes
    dealt = {
        id(x): deal_blinding(code, lanes, x.shape, SystemCoins(), code.basis.reduce(x)) for _, x in asked
    }
    roles, sent, replies = {}, {}, {}
    for j in who:
        labels, distances = asked[j]
        numbers = np.array(list(who), np.int32)
        question = query("DistanceQuery", 9, 2, labels.astype(np.int8), numbers)
        shares = dealt[id(distances)][j]
        measured = types.SimpleNamespace(distances=lambda lanes, shares=shares: shares[:lanes])
        roles[j] = everybody[j](question, measured)
        sent[j] = next(roles[j]).send
    for j, role in roles.items():
        inbox = {plan.clients[i]: sent[i][plan.clients[j]] for i in who if i != j}
        with pytest.raises(StopIteration) as end:
            role.send(inbox)
        replies[j] = end.value.value.values
    decoded = {}
    for j in who:
        group = tuple(i for i in who if asked[i][0] is asked[j][0])
        chosen, weights = code.decoding_weights(group, 2)
        basis = code.basis.prefix(len(replies[j]))
        parts = [
            basis.multiply(replies[i], weights[: basis.lanes, q].reshape(-1, 1, 1))
            for q, i in enumerate(chosen)
        ]
        decoded[j] = basis.lift(functools.reduce(basis.add, parts))
    return decoded, sent


def questions():
    """Two clusterings of the points, and distances that no noise lies on."""
    made = []
    for labels, value in ((LABELS, 1000), (np.roll(LABELS, 1) * (np.arange(42) > 20), 77)):
        numbers = value + np.arange(2 * 42, dtype=object).reshape(2, 42)
        made.append((np.ascontiguousarray(labels), numbers))
    return made


def test_a_question_that_is_repeated_has_the_same_answer_under_fresh_masks():
    plan, everybody = dealers()
    first, other = questions()
    once, sent = answered(plan, everybody, [first] * 7)
    again, sent_again = answered(plan, everybody, [first] * 7)
    assert (once[0] == again[0]).all()
    assert (sent[0]["c1"].values != sent_again[0]["c1"].values).any()
    assert [one.left for one in everybody] == [1] * 7
    assert (once[0] != first[1]).any(), "the control: there is noise on it"
    # Without one, what is missing is its noise, and nothing of the points; others answer for themselves.
    fewer, _ = answered(plan, everybody, [first] * 7, range(6))
    assert (once[0] != fewer[0]).any()
    assert [one.left for one in everybody] == [1] * 7
    different, _ = answered(plan, everybody, [other] * 7, range(6))
    assert (different[0] != fewer[0]).any()
    assert [one.left for one in everybody] == [0] * 6 + [1]


def test_with_too_few_of_those_who_dealt_a_repeat_is_a_release_of_its_own():
    _, everybody = dealers(absent=2)  # the noise of four, and of one that colludes, must stay
    one = everybody[3]
    seeds = [one.seed(b"q", frozenset(f"c{j}" for j in who)) for who in ("0123456", "012345", "123456")]
    assert seeds == seeds[:1] * 3
    assert one.left == 1
    fresh = one.seed(b"q", frozenset(f"c{j}" for j in "023456"))
    assert fresh != seeds[0]
    assert one.left == 0
    assert one.seed(b"q", frozenset(f"c{j}" for j in "02345")) == fresh
    with pytest.raises(BudgetSpent, match=r"0 of 2 are left.*absent="):
        one.seed(b"q", frozenset(f"c{j}" for j in "01234"))


def test_half_the_clients_cannot_be_asked_something_else_under_the_same_noise():
    plan, everybody = dealers()
    first, other = questions()
    with pytest.raises(SuspectedParties, match="for another question than mine") as found:
        answered(plan, everybody, [first] * 3 + [other] * 4)
    assert found.value.parties[0] == "server"


def test_without_the_digest_two_answers_under_one_noise_give_the_difference_exactly(monkeypatch):
    """The control: a server decodes 3 replies about one clustering and 4 about another, of 7."""
    real = in_shares.digest_of_labels

    def blind(purpose, *rest):
        return bytes(32) if purpose == b"asked" else real(purpose, *rest)

    monkeypatch.setattr(in_shares, "digest_of_labels", blind)
    plan, everybody = dealers()
    first, other = questions()
    found, _ = answered(plan, everybody, [first] * 3 + [other] * 4)
    assert (found[0] - found[6] == first[1] - other[1]).all()
    assert (found[0] != first[1]).any()


@pytest.mark.parametrize(
    "change", [{"k": 3}, {"dealers": ("a",)}, {"release": 2}, {"labels": [0, 1, 1]}, {"purpose": b"c"}]
)
def test_the_digest_tells_every_part_of_a_question_apart(change):
    question = {"purpose": b"asked", "labels": [0, 1, 0], "k": 2, "dealers": ("a", "bc"), "release": 1}
    assert digest(question) != digest({**question, **change})
    assert digest(question) == digest({**question, "dealers": ("bc", "a")})
    assert digest({**question, "dealers": ("ab", "c")}) != digest(question)


def digest(question):
    return in_shares.digest_of_labels(**{**question, "labels": np.array(question["labels"], np.int32)})


def test_paying_for_repeats_is_of_the_past():
    with pytest.warns(DeprecationWarning, match="repeats=3 is ignored"):
        policy = secfc.NoiseInShares(Budget(50, 1e-6), RADIUS, repeats=3)
    assert policy.repeats == 3
