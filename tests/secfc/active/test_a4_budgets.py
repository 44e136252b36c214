"""What parties agreed to give away and no more: each exploit succeeds where its budget is removed."""

import dataclasses

import numpy as np
import pytest

import secfc
from secfc.disclosure.noise.in_shares import Paid
from secfc.exact.predict import Allowance
from secfc.lloyd.starts import GivenLabels
from secfc.privacy import Bound, Budget, Neighbors
from secfc.roles.exchange import ITERATE, STRIDE, BudgetSpent


def federation(points, n=5):
    return secfc.Federation.from_arrays(np.array_split(np.asarray(points, float), n))


def fitted(**parameters):
    points = np.concatenate([np.linspace(-4, -3, 20), np.linspace(3, 4.5, 20)])[:, None]
    way = secfc.SecFC(k=2, t=1, init=GivenLabels(np.arange(40) // 20), scale=64.0, **parameters)
    return points, secfc.fit(way, federation(points), bound=8.0)


def boundary(result, calls):
    """Where the label of a new point changes, by bisection: half way between two hidden centers."""
    low, high = -8.0, 8.0
    first = int(result.predict(federation([[low]] * 5))[0][0])
    for _ in range(calls):
        middle = (low + high) / 2
        if int(result.predict(federation([[middle]] * 5))[0][0]) == first:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def test_labels_of_chosen_points_end_with_the_budget():
    _, result = fitted(predictions=25)
    with pytest.raises(BudgetSpent, match=r"5 new points to be labeled: 0 of 25 are left.*predictions="):
        boundary(result, 8)


def test_without_a_budget_they_fix_where_hidden_centers_lie(monkeypatch):
    monkeypatch.setattr(Allowance, "spend", lambda self, points: None)
    points, result = fitted(predictions=25)
    truth = (points[:20].mean() + points[20:].mean()) / 2
    assert abs(boundary(result, 8) - truth) < 0.1


def test_a_refused_prediction_spends_nothing_and_the_default_is_finite():
    _, result = fitted(predictions=7)
    with pytest.raises(BudgetSpent):
        result.predict(federation(np.zeros((8, 1))))
    assert len(np.concatenate(result.predict(federation(np.zeros((7, 1)))))) == 7
    assert fitted()[1].plan.predictions == 400
    with pytest.raises(secfc.InputError, match="predictions=0 is too small"):
        fitted(predictions=0)


def test_centers_of_few_points_stay_closed():
    points = np.concatenate([np.zeros(38), [5.0, 6.0]])[:, None]
    way = secfc.SecFC(k=2, t=1, init=GivenLabels(np.arange(40) // 38), reveal_centers=True)
    closed = secfc.fit(way, federation(points), keep_bodies=True)
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
    opened = secfc.fit(dataclasses.replace(way, smallest_center=1), federation(points))
    assert abs(opened.centers[1, 0] - 5.5) < 0.01, "the control: who owns one of the two reads the other"


# --- noise -----------------------------------------------------------------------------------------


def noisy(repeats=0, lost=1):
    """How many noisy releases a server gets of a run whose two questions lose a noise share each time.

    All honest: what is lost is put anew, with fresh noise.
    """
    policy = secfc.NoiseInShares(
        Budget(50, 1e-6), radius=Bound.given(6.0), neighbors=Neighbors("replace"), absent=lost,
        repeats=repeats,
    )  # fmt: skip
    points = np.random.default_rng(0).uniform(-3, 3, (42, 2))
    way = secfc.SecFC(k=2, t=1, max_iter=1, init=GivenLabels(np.arange(42) % 2), disclosure=policy)

    def faults(e):
        gone = (e.round - ITERATE) // STRIDE < lost and e.kind == "NoiseShares"
        names = {f"client-{6 - (e.round - ITERATE) // STRIDE}"}
        return () if gone and {e.sender} & names else (e,)

    result = secfc.fit(way, federation(points, 7), bound=8.0, faults=faults)
    asked = {e.round for e in result.transcript.envelopes if e.kind == "Assignment"}
    return len(asked), result


def test_repeats_beyond_what_was_paid_for_are_refused():
    with pytest.raises(BudgetSpent, match=r"0 of 2 are left.*repeats="):
        noisy()


def test_without_the_count_lost_messages_buy_a_release_that_nobody_paid_for(monkeypatch):
    monkeypatch.setattr(Paid, "__call__", lambda self, question, measured: self.answer(question, measured))
    assert noisy()[0] == 3


def test_repeats_that_are_reserved_are_paid_for_in_the_ledger():
    releases, reserved = noisy(repeats=1)
    assert releases == 3
    assert "at most 3 iterations" in repr(reserved.ledger.entries)
    assert reserved.ledger.epsilon(1e-6) <= 50
