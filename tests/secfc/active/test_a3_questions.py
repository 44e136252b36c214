"""A server that asks for what the plan does not have: each exploit succeeds where its check is removed."""

import dataclasses

import numpy as np

import secfc
from secfc.disclosure import distances
from secfc.exchange import ITERATE
from secfc.messages import Assignment
from secfc.starts import GivenLabels


def federation(n=5, m=40, d=3, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.uniform(-10, 10, (3, d))
    points = centers[rng.integers(0, 3, m)] + rng.normal(size=(m, d))
    return secfc.Federation.from_arrays(np.array_split(points, n))


# --- different labels for different clients --------------------------------------------------------


def swapped(labels):
    return ((labels + 1) % 3).astype(labels.dtype)


class Bare:
    """Coded distances before they are masked, by question and client: what no server may compute with."""

    def __init__(self, monkeypatch):
        self.values, hide = {}, distances.hidden

        def hidden(plan, me, keys, colluding, question, values):
            self.values[question.round, me] = values.copy()
            return hide(plan, me, keys, colluding, question, values)

        monkeypatch.setattr(distances, "hidden", hidden)


def told_apart(monkeypatch):
    """Whether masks cancel although client 0 was told other labels than the other responders.

    Then the server decodes how that client's share changes with the labels, once it asked the others too.
    """
    bare = Bare(monkeypatch)

    def lie(e):
        if isinstance(e.body, Assignment) and e.recipient == "client-0":
            return (dataclasses.replace(e, body=dataclasses.replace(e.body, labels=swapped(e.body.labels))),)
        return (e,)

    start = GivenLabels(np.arange(40) % 3)
    way = secfc.SecFC(k=3, t=1, init=start, max_iter=1, disclosure=secfc.Distances())
    result = secfc.fit(way, federation(), faults=lie, keep_bodies=True)
    replies = {
        result.plan.clients.index(e.sender): e.body.values
        for e in result.transcript.envelopes
        if e.kind == "CodedDistances" and e.round == ITERATE
    }
    unmasked = {j: bare.values[ITERATE, j] for j in replies}
    code = result.plan.code
    assert len(replies) == code.threshold(2)
    return bool((code.decode(replies, 2) == code.decode(unmasked, 2)).all())


def test_labels_told_to_one_client_only_leave_its_share_hidden(monkeypatch):
    assert not told_apart(monkeypatch)


def test_masks_that_are_not_bound_to_labels_give_the_share_away(monkeypatch):
    monkeypatch.setattr(Assignment, "subject", b"")
    assert told_apart(monkeypatch)
