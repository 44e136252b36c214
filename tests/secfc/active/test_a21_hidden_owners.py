"""A21: a responder that tells an owner other labels than its rows have, where nobody knows whose they are.

A number that it adds at a row passed, as long as the label that came of it was one: unless the row was not
the owner's, which ended the run.  So it also tested, once, whether a row is an owner's and of which cluster.
"""

from dataclasses import replace

import numpy as np
import pytest

from secfc.disclosure.owner_labels import client as owning
from secfc.disclosure.owner_labels.output import HiddenOwners
from secfc.errors import SuspectedParties
from tests.nightly import by_night
from tests.secfc.active.test_a9_foreign_rows import DEVIATING, run_tables

OWNER = "client-1"


class Keyless(HiddenOwners):
    """An owner whose key everybody knows."""

    def __init__(self, plan, me, rows, read, key):
        super().__init__(plan, me, rows, read, 0)


def adding(monkeypatch, own):
    """The owner hears of client 0 one more at a row of its own in the first cluster, or at another's row.

    How many of its labels that changes.
    """
    heard, changed = HiddenOwners.labels, []

    def labels(self, match, k, told):
        if match.plan.clients[self.me] == OWNER:
            basis, message = self.code.basis, told["client-0"]
            found = basis.add_all([each.values for each in told.values()])[0, : self.plan.m]
            row, values = np.flatnonzero(found == own)[0], message.values.copy()
            values[0, row] = (values[0, row] + np.uint32(1)) % basis.primes[0]
            false = heard(self, match, k, {**told, "client-0": replace(message, values=values)})
            changed.append((false != heard(self, match, k, told)).sum())
            return false
        return heard(self, match, k, told)

    monkeypatch.setattr(HiddenOwners, "labels", labels)
    return changed


@pytest.mark.parametrize("way", ["server", *by_night("opened counts", "two segments", "nobody")])
def test_a_responder_that_adds_to_a_label_ends_the_run_whosever_row_it_is(way, monkeypatch):
    for own in (True, False):
        with monkeypatch.context() as patch:
            adding(patch, own)
            with pytest.raises(SuspectedParties, match="clusters that are not there"):
                run_tables(way)
    # Control: without a key the owner takes the next cluster for that of its row; and only if it is its row.
    monkeypatch.setattr(owning, "HiddenOwners", Keyless)
    with monkeypatch.context() as patch:
        changed = adding(patch, True)
        run_tables(way)
        assert changed == [1]
    adding(monkeypatch, False)
    with pytest.raises(SuspectedParties, match="clusters that are not there"):
        run_tables(way)


def test_an_owner_whose_key_is_at_rows_of_others_is_refused(monkeypatch):
    """It would be told their labels times the key."""
    read, owned, labels = {}, HiddenOwners.owned.fget, HiddenOwners.labels

    def keyed(self):
        at = np.ones_like(owned(self)) if self.me == DEVIATING else owned(self)
        return (at * np.uint64(self.key)).astype(np.uint32)

    monkeypatch.setattr(HiddenOwners, "keyed", property(keyed))
    with pytest.raises(SuspectedParties, match="rows that owners claim to hold do not fit"):
        run_tables("server")

    def heard(self, match, k, told):
        if self.me == DEVIATING:
            basis, m = self.code.basis, self.plan.m
            values = basis.add_all([message.values for message in told.values()])[0, m:]
            back = pow(self.key, -1, basis.primes[0])
            read["labels"] = np.array([int(v) * back % basis.primes[0] - 1 for v in values])
        return labels(self, match, k, told) if self.me != DEVIATING else np.zeros(self.plan.m, np.int32)

    # Control: unchecked it reads the labels of all rows.
    monkeypatch.setattr(HiddenOwners, "labels", heard)
    monkeypatch.setattr("field.code.product_check.ProductCheck.fits", lambda *_: True)
    result = run_tables("server")
    want = np.full(result.plan.m, -1)
    for rows, own in zip(result.rows[:DEVIATING], result.labels[:DEVIATING], strict=True):
        want[rows] = own
    assert (read["labels"] == want)[want >= 0].all()
    assert (want >= 0).sum() > 30
