"""A9: an owner whose rows are hidden asks for the labels of rows that it does not hold.

It shares bits of 1 where it holds nothing, and would be told the labels of all rows.  So it shares sums of
features of each row that it asks for, which only who has the row's data knows.
"""

from itertools import product
from unittest import mock

import numpy as np
import pytest

import secfc
from secfc.disclosure.owner_labels.output import HiddenOwners
from secfc.errors import SuspectedParties
from tests.nightly import by_night, covering, short

NAMES = [f"p{i:03d}" for i in range(40)]
RNG = np.random.default_rng(0)
DATA = dict(zip(NAMES, RNG.normal(RNG.integers(0, 3, (40, 1)) * 4, 1, (40, 3)), strict=True))
SITES = [NAMES[:15], NAMES[12:30], NAMES[25:35], NAMES[30:], NAMES[5:9]]
DEVIATING = 4
WAYS = {
    "server": dict(threshold=secfc.Threshold(t=2)),
    "opened counts": dict(threshold=secfc.Threshold(t=2), membership=secfc.Private(counts="opened")),
    "two segments": dict(threshold=secfc.Threshold(t=1, ell=2)),
    "nobody": dict(threshold=secfc.Threshold(t=2), disclosure=secfc.OwnLabels(None)),
}


def run_tables(way, faults=lambda e: (e,), **more):
    settings = dict(k=3, init=secfc.Splitting(steps=1), max_iter=2, membership=secfc.Private())
    settings |= dict(disclosure=secfc.OwnLabels()) | WAYS[way]
    settings |= more
    arrays = [[DATA[name] for name in site] for site in SITES]
    return secfc.fit(
        secfc.SecFC(**settings), secfc.Federation.from_arrays(arrays, ids=SITES), seed=1, faults=faults
    )


def asking(bits, known=None):
    """Who deviates asks for these rows, of m; known: what it says of them.  What it read of all is noted."""
    read, owned, labels, sums = {}, HiddenOwners.owned.fget, HiddenOwners.labels, HiddenOwners.known

    def asked(self):
        if self.me == 0:
            read["first"] = int(self.rows[0])
        return bits(owned(self)) if self.me == DEVIATING else owned(self)

    def heard(self, match, k, told):
        if self.me != DEVIATING:
            return labels(self, match, k, told)
        both = self.code.basis.add_all([m.values for m in told.values()])[0]
        found = both[: self.plan.m].astype(np.int64) - 1
        read["labels"] = found
        out = np.full(self.plan.m, -1, np.int32)
        out[self.rows] = found[self.rows]
        return out

    def said(self, match):
        found = sums(self, match)
        return found if known is None or self.me != DEVIATING else known(self, match, found)

    patches = {"owned": property(asked), "labels": heard, "known": said}
    return mock.patch.multiple(HiddenOwners, **patches), read


def everything(own):
    return np.ones_like(own)


def truth(result):
    """The label of each row of the union."""
    found = np.full(result.plan.m, -1)
    for rows, labels in zip(result.rows, result.labels, strict=True):
        found[rows] = labels
    return found


@pytest.mark.parametrize("way", ["server", *by_night("opened counts", "two segments", "nobody")])
def test_without_the_check_it_reads_the_labels_of_all_rows(way, monkeypatch):
    """Positive control: all parties end, and nobody complains."""
    monkeypatch.setattr("field.code.product_check.ProductCheck.fits", lambda *_: True)
    lie, read = asking(everything)
    with lie:
        result = run_tables(way)
    assert len(result.labels[DEVIATING]) == 4
    assert (read["labels"] == truth(result)).all()


ASKED = "all", "one", "twice"


@pytest.mark.parametrize(
    ("way", "asked"),
    covering(["server", "opened counts", "two segments"], ASKED) + by_night(*product(["nobody"], ASKED)),
)
def test_it_is_refused_before_an_owner_is_told_a_label(way, asked):
    def one_more(own):
        found = own.copy()
        found[0, RNG.choice(np.flatnonzero(found[0] == 0))] = 1
        return found

    def twice(own):
        return own * np.uint32(2)

    for _ in range(short(1, nightly=33)):
        told = []

        def noting(e, told=told):
            told.extend([e.round] if e.kind == "SelectedRowShare" else [])
            return (e,)

        lie, read = asking({"all": everything, "one": one_more, "twice": twice}[asked])
        with lie, pytest.raises(SuspectedParties, match="rows that owners claim to hold do not fit"):
            run_tables(way, faults=noting)
        assert "labels" not in read
        assert not told


def guessing(off):
    """Who deviates asks for the first row of the first client too, whose data it guesses, but for this."""

    def known(self, match, found):
        row = self.plan.quantizer(DATA[SITES[0][0]][None] + off)[0].astype(object)
        weights, found = self.forms(match)[0].astype(object), found.copy()
        for each, told in zip(weights, np.split(found[0, 0], self.proofs), strict=True):
            told[read["first"]] = int(each @ row) * self.plan.layout.multiple % self.code.basis.primes[0]
        return found

    def also(own):
        found = own.copy()
        found[0, read["first"]] = 1
        return found

    lie, read = asking(also, known)
    return lie, read


def test_a_guess_of_all_of_a_row_is_confirmed_and_a_wrong_one_ends_the_run():
    """What is left: who knows a row's data, and which row it is, but does not hold it, learns its label."""
    lie, read = guessing(0.0)
    with lie:
        result = run_tables("server")
    assert read["labels"][read["first"]] == truth(result)[read["first"]] >= 0
    lie, _ = guessing(1e-3)
    with lie, pytest.raises(SuspectedParties, match="rows that owners claim to hold do not fit"):
        run_tables("server")


def test_where_holders_of_a_row_may_have_other_data_nobody_is_told_labels():
    for disclosure in (secfc.OwnLabels(), secfc.OwnLabels(sizes="hidden"), secfc.OwnLabels(None)):
        with pytest.raises(ValueError, match=r"of a mean no holder does.*[Ff]inalLabelsOnly"):
            run_tables("server", membership=secfc.Private(on_conflict="mean"), disclosure=disclosure)
    to_all = dict(disclosure=secfc.FinalLabelsOnly(), init=secfc.RandomLabels())
    ended = run_tables("server", membership=secfc.Private(on_conflict="mean"), **to_all)
    assert (truth(ended) >= 0).all()
