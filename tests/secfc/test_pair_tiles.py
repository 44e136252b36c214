"""Pairs of more points than one question holds: exact, checked tile by tile, and with members that leave."""

from dataclasses import replace

import numpy as np
import pytest

import secfc
from field.code.pair_check import AcrossCheck, NearCheck
from secfc import pairs
from secfc.coded.queries import Query
from secfc.disclosure.compare.candidates import FirstPairs, NearPairs
from secfc.errors import FaultyServer, SuspectedParties
from secfc.pairs import NearGraph, cut_blocks
from secfc.roles.exchange import SERVER
from tests.nightly import short
from tests.secfc.test_pairs import DATA, SEEN, WAY, Keeping, expected, random_case, squares, whole
from tests.small import federation


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Of 8 points, so that few make many tiles."""
    monkeypatch.setattr(pairs, "BLOCK", 8)
    monkeypatch.setattr(pairs, "OPENED", 400)


def asked_of(result):
    """The tiles that were asked about, once each."""
    bodies = [e.body for e in result.transcript.envelopes if isinstance(e.body, Query)]
    return {body.round: tuple(body.detail[1:].tolist()) for body in bodies}


@pytest.mark.parametrize("block", [8, 16])
@pytest.mark.parametrize("off", [-1, 0, 1])
@pytest.mark.parametrize("dealer", [SERVER, "client-3", None])
def test_blocks_that_do_and_do_not_divide_all_points(block, off, dealer, monkeypatch):
    monkeypatch.setattr(pairs, "BLOCK", block)
    for m in (block * 3 + off, block + off):
        data = federation(4, m, 2, seed=m, integers=off == 0)
        way = replace(WAY, dealer=dealer)
        result = secfc.fit(way, data, keep_bodies=True)
        np.testing.assert_array_equal(result.flat, expected(way, result.plan, whole(data)))
        count = len(cut_blocks(m, block))
        assert len(asked_of(result)) == count * (count + 1) // 2
        assert count == (1 if m <= block + 1 else 3 + (off > 0))


@pytest.mark.filterwarnings("ignore")
def test_labels_are_those_of_scikit_learn_in_tiles_too():
    tiles = 0
    for seed in range(short(6, nightly=100)):
        data, way = random_case(seed)
        result = secfc.fit(way, data, sealed=seed % 7 == 1)
        np.testing.assert_array_equal(result.flat, expected(way, result.plan, whole(data)), err_msg=str(seed))
        tiles = max(tiles, len(cut_blocks(len(result.flat), 8)))
    assert tiles > 2


def unanchored(self, basis, coins):
    """What a check of the tile alone would be: coins add up to 0 over each block, and nothing is kept."""
    found = self.drawn(basis, coins)
    alone = AcrossCheck(self.m - 1, self.square, self.second - 1, False).drawn(basis, coins)
    # The last point of each block stands for the first one of all.
    moved = [np.concatenate([w.points, w.sums[:, :, 0, -1:]], axis=2) for w in (alone,)][0]
    zero = np.concatenate([alone.zero, np.zeros_like(alone.zero[:, :, :1])], axis=2)
    total = basis.multiply(moved.sum(axis=2, dtype=np.uint64) % basis.column(2, np.uint64), zero[:, :, 0])
    return replace(
        found, points=moved, zero=zero, others=np.zeros_like(found.others), offset=np.zeros_like(total),
        sums=np.zeros_like(found.sums), linear=basis.negate(basis.add(zero, zero))[:, :, None],
    )  # fmt: skip


class Liar:
    """A client that adds a number to all distances between one point and a block that it is not of."""

    def __init__(self, plan, sender, tile, more):
        self.plan, self.sender, self.tile, self.more = plan, sender, tile, more
        self.asked = {}

    def __call__(self, e):
        if isinstance(e.body, Query):
            self.asked[e.body.round // 1024] = e.body
        question = self.asked.get(e.round // 1024)
        wrong = e.kind == "MaskedDistances" and e.sender == self.sender and question is not None
        if not wrong or tuple(question.detail[1:].tolist()) != self.tile or not e.body.values.size:
            return [e]
        values, code = e.body.values.copy(), self.plan.code
        begin, end, other, last = self.tile
        add = np.zeros((last - other, end - begin), np.int64)
        add[:, 3] = self.more
        me = self.plan.clients.index(self.sender)
        weights = code.decoding_weights(tuple(question.responders.tolist()), 2)[1]
        for lane, (row, p) in enumerate(zip(values, code.basis.primes, strict=False)):
            # Of members that a dealer deals to replies are weighed already.
            weight = 1 if self.plan.clients and self.dealt else pow(int(weights[lane, me]), -1, p)
            row[0] = (row[0].astype(object) + add.reshape(-1) * weight) % p
        return [replace(e, body=replace(e.body, values=values))]


@pytest.mark.parametrize("dealer", [SERVER, None])
def test_a_point_with_a_coordinate_more_in_one_tile_is_refused(dealer, monkeypatch):
    """A check of each tile alone misses it, and then the point of others is near to all of a block."""
    way = replace(WAY, dealer=dealer, threshold=secfc.Threshold(1, deviating=0))
    true = secfc.fit(way, DATA)
    square = way.square(true.plan)
    # Point 11, of the block of points 8 to 15, to those of 24 to 31: all of them near.
    lie = Liar(true.plan, "client-2", (8, 16, 24, 32), 4 * square)
    lie.dealt = dealer is not None
    with pytest.raises(SuspectedParties, match="do not fit the shares of the rows; nothing of this step"):
        secfc.fit(way, DATA, faults=lie)
    monkeypatch.setattr(AcrossCheck, "drawn", AcrossCheck.draw_weights, raising=False)
    monkeypatch.setattr(AcrossCheck, "draw_weights", unanchored)
    np.testing.assert_array_equal(secfc.fit(way, DATA).flat, true.flat)
    assert (secfc.fit(way, DATA, faults=lie).flat != true.flat).any()  # and nobody notices
