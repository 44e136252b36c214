"""A19: lies where no other file of these tries them: new points, silence that is none, a key to one alone."""

from dataclasses import replace

import numpy as np
import pytest

import secfc
from secfc.disclosure.compare.computing_party import ComputingParty
from secfc.disclosure.decoded import distances, replies
from secfc.errors import SuspectedParties, TooFewReplies
from secfc.federated import plan as sums
from tests.nightly import by_night
from tests.small import federation

# --- new points: one that responds chooses their labels ---------------------------------------------


def raise_first(real, who):
    """A reply of client 2 by which the first center is far from all points, whatever it is."""

    def reply(self, *rest, **more):
        found = real(self, *rest, **more)
        if who(self, *rest) != "client-2":
            return found
        bodies = found if isinstance(found, dict) else {None: found}
        for body in bodies.values():
            body.values[:, 0] ^= np.uint32(1 << 27)
        return found

    return reply


@pytest.mark.parametrize(
    "disclosure",
    [secfc.AssignmentsOnly(), *by_night(secfc.OwnLabels(), secfc.FinalLabelsOnly(dealer="server"))],
)
def test_a_false_reply_about_new_points_ends_their_labeling(disclosure, monkeypatch):
    way = secfc.SecFC(2, 1, secfc.RandomLabels(), max_iter=3, disclosure=disclosure)
    data = federation(4, 24, 2)
    model = secfc.fit(way, data, seed=1)
    honest = np.concatenate(model.predict(data))
    real = ComputingParty.masked_distances
    monkeypatch.setattr(ComputingParty, "masked_distances", raise_first(real, lambda me, *_: me.name))
    with pytest.raises(SuspectedParties, match="do not fit the shares of the rows"):
        model.predict(data)
    monkeypatch.setattr("field.code.reply_check.CheckWeights.fits", lambda *_: True)
    assert (np.concatenate(model.predict(data)) != honest).any()


def test_a_false_reply_about_new_points_reaches_no_server_that_decodes(monkeypatch):
    way = secfc.SecFC(2, 1, secfc.RandomLabels(), max_iter=3, disclosure=secfc.Distances())
    data = federation(4, 24, 2)
    model = secfc.fit(way, data, seed=1)
    honest = np.concatenate(model.predict(data))
    real = replies.blind_reply
    monkeypatch.setattr(replies, "blind_reply", raise_first(real, lambda plan, me, *_: plan.clients[me]))
    with pytest.raises(SuspectedParties, match=r"do not fit|not within the range"):
        model.predict(data)

    def unchecked(*_, **__):
        yield from ()

    monkeypatch.setattr(distances, "verify_replies", unchecked)
    monkeypatch.setattr(replies, "reply_verification", lambda *_: None)
    assert (np.concatenate(model.predict(data)) != honest).any()


# --- silence that is none ---------------------------------------------------------------------------


def call_silent(disclosure, n, deviating):
    """Client 0 says from the second question on that it hears nothing of client 1.

    Returns the run, None if it ended, and who told shares of labels or sizes in the meantime.
    """
    asked, told = set(), []

    def faults(e):
        asked.update([e.round] if e.kind in ("CompareQuery", "LloydStepQuery") else [])
        if len(asked) > 1:
            told.extend([e.sender] if e.kind in ("LabelShare", "SizeShare") else [])
            if (e.sender, e.recipient) == ("client-1", "client-0"):
                return ()
        return (e,)

    threshold = secfc.Threshold(1, deviating=deviating)
    way = secfc.SecFC(2, threshold, secfc.RandomLabels(), max_iter=3, disclosure=disclosure)
    try:
        return secfc.fit(way, federation(n, 24, 2), seed=1, faults=faults), told
    except TooFewReplies:
        return None, told


@pytest.mark.parametrize(
    "disclosure", [secfc.AssignmentsOnly(None), *by_night(secfc.OwnLabels(None), secfc.FinalLabelsOnly())]
)
def test_who_calls_another_silent_is_alone_in_no_part(disclosure):
    """Of four clients that play each part by two none can be spared: three would each have parts alone."""
    assert call_silent(disclosure, 4, 1) == (None, [])
    # Controls: with one to spare two play each part as before, and where one does, three go on.
    assert call_silent(disclosure, 5, 1)[0] is not None
    run, told = call_silent(disclosure, 4, 0)
    assert run is not None
    assert told


# --- a key to one alone -----------------------------------------------------------------------------


def test_who_is_told_another_key_of_sums_goes_on_with_none(monkeypatch):
    """The first member has one client take other sums for those of all, and so move rows where it likes."""

    def label(told):
        """Labels of client 5, no member of the committee, which is told another key or not."""

        def faults(e):
            lied = told and (e.kind, e.recipient) == ("RunKey", "client-5")
            return (replace(e, body=sums.RunKey(bytes(32))),) if lied else (e,)

        way = secfc.FederatedLloyd(2, start=[[-1, 0], [1, 0]], max_iter=1, committee=4)
        return secfc.fit(way, federation(6, 60, 2), seed=1, faults=faults).labels[5]

    with pytest.raises(SuspectedParties, match="no points have the sums"):
        label(told=True)
    honest = label(told=False)
    # Control: who takes sums that no points have labels its rows by them.
    read = sums.FederatedPlan.read_totals

    def read_all(plan, party, values, sizes, **more):
        if party == "client-5":  # so many clients have labels that changed
            values = np.append(values[: -len(sizes)], np.ones(len(sizes), values.dtype))
        return read(plan, party, values, sizes, **more)

    monkeypatch.setattr(sums, "possible_sums", lambda *_: True)
    monkeypatch.setattr(sums.FederatedPlan, "read_totals", read_all)
    assert (label(told=True) != honest).any()
