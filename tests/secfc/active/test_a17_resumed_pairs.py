"""A17: `DBSCAN` that goes on after a pause: a member with other shares or coins, a server that asks again."""

import contextlib
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import secfc
from field import SeededCoins
from field.code.reply_check import CheckWeights
from field.code.rows import RunningSums
from secfc import pairs
from secfc.coded.messages import LabelShare
from secfc.coded.queries import Query
from secfc.disclosure.checked.steps import CheckedReplies, CheckingClient
from secfc.disclosure.compare import server
from secfc.errors import SuspectedParties
from secfc.roles.exchange import SERVER
from tests.nightly import by_night
from tests.secfc.test_pairs import DATA, WAY, whole

DEVIATING = "client-1"


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Of 8 points, so that few make many tiles."""
    monkeypatch.setattr(pairs.NearClusterer, "block", 8)


# --- a member ------------------------------------------------------------------------------------------


def turn_coins(monkeypatch, tile):
    """From this question on client 1 has other keys and coins than others take it to have.

    Of each question in which anybody tells shares of bits, its number.
    """
    answer, asked, told = pairs.NearClusterer.answer_pairs, [], []

    def other(self, part, question, measured):
        player = part.player
        if player.name == DEVIATING and len(asked) == tile + 1:
            numbers = range(len(DATA.names) + 1)
            for keys in player.used_keys:
                keys._keys = {i: bytes([i + 7] * 32) for i in numbers if i in keys.peers}
            player.coins = SeededCoins(1, DEVIATING)
        return answer(self, part, question, measured)

    def faults(e):
        asked.extend([e.round] * (isinstance(e.body, Query) and e.round not in asked))
        told.extend([len(asked) - 1] * isinstance(e.body, LabelShare))
        return (e,)

    monkeypatch.setattr(pairs.NearClusterer, "answer_pairs", other)
    return faults, told


@pytest.mark.parametrize("dealer", [SERVER, *by_night("client-3", None)])
def test_a_member_that_goes_on_with_other_keys_and_coins_ends_the_run_before_a_bit(dealer, monkeypatch):
    """As who lost its journal.  Masks of replies, and what hides their check, follow from these keys."""
    way = replace(WAY, dealer=dealer, threshold=secfc.Threshold(1, deviating=0))
    answer = pairs.NearClusterer.answer_pairs
    faults, told = turn_coins(monkeypatch, 2)
    with pytest.raises(SuspectedParties, match=r"do not fit the shares of the rows|lies on no polynomial"):
        secfc.fit(way, DATA, faults=faults)
    assert max(told) == 1
    # Positive control: without the check of replies the bits of that tile are told.
    monkeypatch.setattr(CheckedReplies, "accept", lambda *_: None)
    monkeypatch.setattr(CheckingClient, "_opened_rows", unchecked_rows)
    monkeypatch.setattr(pairs.NearClusterer, "answer_pairs", answer)
    faults, told = turn_coins(monkeypatch, 2)
    with contextlib.suppress(SuspectedParties):
        secfc.fit(way, DATA, faults=faults)
    assert max(told) > 1


def unchecked_rows(self, weights, rows, columns):
    """A, which nobody compares: of no use, as nothing depends on it without a check."""
    shape = self.asked.row_shape
    nothing = np.zeros((self.asked.basis.lanes, self.asked.plan.code.ell, *shape), self.asked.basis.dtype)
    yield from ()
    return nothing


@pytest.mark.parametrize("tile", [(8, 16, 8, 16), (0, 8, 16, 24)])
def test_a_member_that_goes_on_with_another_share_of_a_row_is_refused(tile, monkeypatch):
    """Of a point of others: in the tiles before the row had the share that was tested."""
    way = replace(WAY, threshold=secfc.Threshold(1, deviating=0))
    true, answer = secfc.fit(way, DATA), pairs.NearClusterer.answer_pairs

    def other(self, part, asked, measured):
        if part.player.name == DEVIATING and tuple(asked.detail[1:].tolist()) == tile:
            rows = measured.rows.select_rows(np.arange(measured.rows.m, dtype=np.int64))
            more = np.zeros((rows.basis.lanes, rows.m, rows.width), rows.basis.dtype)
            more[:, tile[0] + 3] = 12345
            rows.add_rows(0, more)
            rows.finish_rows()
            sums = partial(RunningSums(rows).of, asked.labels.astype(np.int32), asked.k)
            measured = replace(measured, rows=rows, compute=sums)
        return answer(self, part, asked, measured)

    monkeypatch.setattr(pairs.NearClusterer, "answer_pairs", other)
    with pytest.raises(SuspectedParties, match=r"do not fit the shares of the rows|lies on no polynomial"):
        secfc.fit(way, DATA)
    monkeypatch.setattr(CheckWeights, "fits", lambda *_: True)
    monkeypatch.setattr(CheckingClient, "_opened_rows", unchecked_rows)
    assert (secfc.fit(way, DATA).flat != true.flat).any()


# --- the server ----------------------------------------------------------------------------------------


def opened_twice(monkeypatch):
    """The server asks about the first block, and again: what the first client makes of both words for A.

    Whether their difference is that of sums of rows by coins, and so shows one of all rows.
    """
    compare, opened, seen, plans = server.CommitteeServer.compare, CheckingClient._opened_rows, [], []

    def again(self, operation, labels, sizes, factor=1, detail=None):
        found = yield from compare(self, operation, labels, sizes, factor, detail)
        if self.turn == 1:
            assert (found == (yield from compare(self, operation, labels, sizes, factor, detail))).all()
        return found

    def noting(self, weights, rows, columns):
        found = yield from opened(self, weights, rows, columns)
        if self.name == "client-0":
            seen.append((weights.points, found[:, 0, :, 0]))
            plans.append(self.asked.plan)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(server.CommitteeServer, "compare", again)
        patch.setattr(CheckingClient, "_opened_rows", noting)
        result = secfc.fit(WAY, DATA)
    assert result.flat.tolist() == secfc.fit(WAY, DATA).flat.tolist()
    basis = plans[0].code.basis
    X = result.plan.quantizer(whole(DATA)).astype(object)[:8]
    (a, one), (b, other) = seen[:2]
    return all(
        ((one[lane].astype(object) - other[lane] - (a[lane].astype(object) - b[lane]) @ X) % p == 0).all()
        for lane, p in enumerate(basis.primes[: len(one)])
    )


def test_a_server_that_asks_about_a_block_again_has_other_coins_on_another_row_0(monkeypatch):
    """Under one row 0 two sets of coins would open a sum of everybody's rows."""
    assert not opened_twice(monkeypatch)
    # Positive control: where what is dealt follows from who deals alone, and coins do not.
    dealt = CheckingClient._dealt

    def stream(self, peer):
        kept = self.__dict__.setdefault("kept", {})
        return kept.setdefault(peer, SeededCoins(0, "-".join(sorted((self.name, peer)))))

    def deal(self, me):
        own, self.coins = self.coins, SeededCoins(1, self.name)
        try:
            return dealt(self, me)
        finally:
            self.coins = own

    monkeypatch.setattr(CheckingClient, "_stream", stream)
    monkeypatch.setattr(CheckingClient, "_dealt", deal)
    assert opened_twice(monkeypatch)
