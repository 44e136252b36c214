"""A24: a member that has labels told which explain more of a column than `Joined(max_explained=)` allows.

Members open one sum of shares, 0 if no column is explained too well.  Who speaks last could make it 0; who
falls silent or says an older word has the question put again, or ends the run.
"""

from dataclasses import replace

import numpy as np
import pytest

import secfc
from field.ring.basis import LANE_PRIMES
from secfc.coded.queries import Operation
from secfc.disclosure.owner_labels.client import OwnerLabelsClient
from secfc.errors import FaultyClient, LabelsWithheld, SuspectedParties, TooFewReplies
from tests.nightly import short
from tests.secfc.disclosure.test_withheld_labels import owners, reader, withholding

DEVIATING = "client-0"


def speaking_last(told, members):
    """Client 0 hears what all other members tell of the sum before it tells what makes it 0."""
    asked, heard, held = [], {}, []

    def forged(e):
        width = min(values.size for values in heard.values() if values.size)  # of one part
        parts = [values.reshape(-1, width) for values in heard.values()]
        mine = heard[DEVIATING].reshape(-1, width).copy()
        mine[0] = (mine[0] - np.concatenate(parts).sum(axis=0)) % LANE_PRIMES[0]
        values = mine.reshape(e.body.values.shape).astype(e.body.values.dtype)
        return replace(e, body=replace(e.body, values=values))

    def faults(e):
        asked.extend([e] if e.kind == "ExplainedQuery" else [])
        told.extend([e] if e.kind == "OwnShare" else [])
        if not asked or e.kind != "SizeShare" or told:
            return (e,)
        heard[e.sender] = e.body.values.astype(np.int64)
        held.extend([e] if e.sender == DEVIATING else [])
        if len(heard) < members:
            return () if e.sender == DEVIATING else (e,)
        out = [forged(each) for each in held]
        held.clear()
        return out if e.sender == DEVIATING else (e, *out)

    return faults


def go_on(monkeypatch):
    """The deviating client pays no heed to what it knows to be so."""
    real = OwnerLabelsClient.hear

    def hear(self, match, mine):
        try:
            yield from real(self, match, mine)
        except LabelsWithheld:
            if self.name != DEVIATING or match.question.operation is not Operation.EXPLAINED:
                raise
            self.opened = np.array([True])

    monkeypatch.setattr(OwnerLabelsClient, "hear", hear)


def run_judged(deviating, told, faults, allowed=0.5):
    found, _ = reader("noise", 1, 12)
    federation = owners(*(party.points for party in found.parties[:2]), clients=3 + 2 * deviating)
    way = withholding(
        allowed, threshold=secfc.Threshold(1, deviating=deviating), init=secfc.RandomLabels(), max_iter=1
    )
    return secfc.fit(way, federation, seed=1, bound=64.0, faults=faults)


def test_who_speaks_last_has_labels_told_only_where_it_plays_its_part_alone(monkeypatch):
    go_on(monkeypatch)
    told = []
    with pytest.raises((SuspectedParties, LabelsWithheld)):
        run_judged(1, told, speaking_last(told, 3))
    assert not told
    # Control: where it plays a part alone, the bound on what labels explain is its word.
    run_judged(0, told, speaking_last(told, 2))
    assert told


def lagging(kind, sender, how, told):
    """From the question on what labels explain, the sender's words of a kind are lost, lost to one recipient,
    or those that it said last before."""
    asked, before, left_out = [], {}, []

    def faults(e):
        asked.extend([e] if e.kind == "ExplainedQuery" else [])
        told.extend([e] if e.kind == "OwnShare" else [])
        if (e.kind, e.sender) != (kind, sender):
            return (e,)
        if not asked:
            before[e.recipient] = e.body
            return (e,)
        left_out.extend([] if left_out else [e.recipient])
        if how == "old":
            return (replace(e, body=before[e.recipient]),) if e.recipient in before else (e,)
        return () if how == "lost" or e.recipient in left_out else (e,)

    return faults


@pytest.mark.parametrize("kind", short(["SizeShare"], nightly=["SizeShare", "MaskedBits", "PartDigests"]))
@pytest.mark.parametrize("how", ["lost", "lost to one", "old"])
def test_who_is_silent_or_says_old_words_of_what_labels_explain_has_none_told(kind, how):
    for sender in short([DEVIATING], nightly=["client-0", "client-1", "helper-0", "helper-1", "helper-2"]):
        told = []
        with pytest.raises((LabelsWithheld, SuspectedParties, FaultyClient, TooFewReplies)):
            run_judged(1, told, lagging(kind, sender, how, told))
        assert not told


def test_labels_that_explain_less_than_is_allowed_are_told_though_a_word_is_lost():
    """The positive control: it is not the loss that withholds them."""
    told = []
    run_judged(1, told, lagging("SizeShare", DEVIATING, "lost to one", told), allowed=0.999)
    assert told
