"""A16: words that are said again, over sockets: another than before, an old one, or one that was withheld.

A link asks for what did not come once more (`secfc.transport.link.AGAIN`); who is asked may answer what it
likes, as it may say a word twice without being asked, and old ones under any number.
"""

import asyncio
import contextlib
from dataclasses import replace

import numpy as np
import pytest

import secfc
from field import SeededCoins
from secfc.coded.messages import LabelShare, MaskedBits, MaskedSum
from secfc.disclosure.checked.messages import CheckCoin, CheckDealing, MaskedProducts
from secfc.disclosure.checked.steps import CheckedReplies
from secfc.errors import FaultyClient, ProtocolError, SuspectedParties
from secfc.roles.exchange import SERVER, Mailbox
from secfc.transport.link import Link
from secfc.transport.network import run_party
from tests.nightly import by_night
from tests.secfc.active.adaptive import Stage, grouped_rows
from tests.secfc.transport.test_wire import mesh

DEVIATING, COPIED = "client-1", "client-0"


def run_over_sockets(deviating, lie, patience=20.0):
    """Labels of all clients, or the error of the first that has one.

    lie(link, peer): what it makes of the deviating client's end of a link to a peer.
    """
    way = secfc.SecFC(2, secfc.Threshold(1, deviating=deviating), secfc.RandomLabels(), max_iter=3)
    stage = Stage(way, grouped_rows(0, 4, 6, 1, 2))
    roles = {
        p.name: way.client(stage.plan, p, coins=SeededCoins(0, p.name)) for p in stage.federation.parties
    }
    roles[SERVER] = way.server(stage.plan, rng=np.random.default_rng(0), coins=SeededCoins(0, SERVER))

    async def converse():
        links = await mesh(list(roles))
        for peer, link in links[DEVIATING].items():
            lie(link, peer)
        running = [
            run_party(role, links[name], patience=patience * (1 + 4 * (name == SERVER)), rejoin=0.0)
            for name, role in roles.items()
        ]
        return await asyncio.wait_for(asyncio.gather(*running, return_exceptions=True), 120)

    found = dict(zip(roles, asyncio.run(converse()), strict=True))
    for error in found.values():
        if isinstance(error, FaultyClient | SuspectedParties):
            raise error
    broken = [error for name, error in found.items() if name != DEVIATING and isinstance(error, Exception)]
    if broken:
        raise broken[0]
    return {name: result.labels.tolist() for name, result in found.items() if name not in (SERVER, DEVIATING)}


def honest(link, peer):
    """Leave an end as it is."""


def changed(message):
    """The same but for one bit of what it says, if there is anything."""
    for field in ("words", "values", "digest", "value"):
        said = getattr(message, field, None)
        if isinstance(said, bytes) and said:
            return replace(message, **{field: bytes([said[0] ^ 1]) + said[1:]})
        if isinstance(said, np.ndarray) and said.size:
            other = said.copy()
            other.reshape(-1)[0] ^= other.dtype.type(1)
            return replace(message, **{field: other})
    return None


# --- a second word, and an old one -------------------------------------------------------------------

KINDS = (MaskedBits, MaskedSum, CheckCoin, MaskedProducts, LabelShare)


def second_words(said):
    """Every word of these kinds is followed by another of the same round, and by one of the round before."""

    def lie(link, peer):
        put, last = link.put, {}

        def more(number, message=None):
            put(number, message)
            if isinstance(message, KINDS) and (other := changed(message)) is not None:
                said.append(type(message))
                put(number, other)
                if last:
                    put(max(last), other)
            if message is not None:
                last[number] = message

        link.put = more

    return lie


@pytest.mark.parametrize("deviating", [1, *by_night(0)])
def test_a_second_word_of_a_round_and_an_old_one_are_not_heard(deviating, monkeypatch):
    said, due = [], run_over_sockets(deviating, honest)
    assert run_over_sockets(deviating, second_words(said)) == due
    assert {*said} >= {MaskedBits, CheckCoin, MaskedProducts, LabelShare}
    # Control: where the last word of a round counts, what is said second is taken, and noticed.
    keep = Mailbox.keep_message

    def last_counts(self, sender, number, message):
        if number >= self._first.get(sender, 0) and number in self._messages[sender]:
            del self._messages[sender][number]
        keep(self, sender, number, message)

    monkeypatch.setattr(Mailbox, "keep_message", last_counts)
    with pytest.raises(ProtocolError):
        run_over_sockets(deviating, second_words([]))


# --- words of an earlier question ---------------------------------------------------------------------


def old_words(kind, said):
    """From the second question on this kind of word is that of the first one, under the new number."""

    def lie(link, peer):
        put, first = link.put, []

        def older(number, message=None):
            if isinstance(message, kind):
                first.append(message)
                said.append(len(first))
                message = first[0]
            put(number, message)

        link.put = older

    return lie


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (CheckCoin, "opened another coin than it committed to"),
        (MaskedProducts, "lies on no polynomial|do not fit the shares of the rows"),
        *by_night(
            (MaskedBits, "opened another coin|heard different words|do not compute the same"),
            (CheckDealing, "another coin|heard different|do not|seeds|lies on no polynomial"),
        ),
    ],
)
def test_words_of_an_earlier_question_are_refused_in_a_later_one(kind, error):
    said = []
    with pytest.raises((FaultyClient, SuspectedParties), match=error):
        run_over_sockets(1, old_words(kind, said))
    assert max(said) > 1


def test_shares_of_labels_of_an_earlier_question_are_taken_where_one_plays_each_part():
    """Positive control of the check of parts, which refuses them."""
    said, due = [], run_over_sockets(0, honest)
    with pytest.raises(SuspectedParties, match="do not say the same of labels"):
        run_over_sockets(1, old_words(LabelShare, said))
    assert max(said) > 1
    # Labels are wrong, or of a cluster or a step that is not there: nobody is refused for the share.
    with contextlib.suppress(SuspectedParties):
        assert run_over_sockets(0, old_words(LabelShare, [])) != due


# --- words that are withheld until they are asked for --------------------------------------------------


def withheld(heard, kinds):
    """Words of these kinds are said when they are asked for, and are then those of the copied client."""

    def lie(link, peer):
        put, again = link.put, link.repeat_kept
        due = {}

        def later(number, message=None):
            if isinstance(message, kinds) and number not in due:
                due[number] = message
                return
            put(number, message)

        def copy():
            for number, old in due.items():
                theirs = heard.get((number, type(old)))
                if number in link.kept and theirs is not None:
                    dealt = isinstance(old, CheckDealing)
                    link.kept[number] = replace(old, commitment=theirs.commitment) if dealt else theirs
            again()

        link.put, link.repeat_kept = later, copy

    return lie


def copy_over_sockets(patience=3.0):
    """Client 1 says of its coin what client 0 said of its own, once asked again; seeds that coins gave."""
    heard, seeds, join = {}, [], CheckedReplies.join_coins

    def noting(self, coins):
        seeds.append(join(self, {**coins, DEVIATING: coins[COPIED]}))
        return seeds[-1]

    made = Link.put

    def put(self, number, message=None):
        # What client 0 tells the deviating client is on its way before that is asked again.
        if isinstance(message, CheckDealing | CheckCoin) and getattr(self, "of", None) == COPIED:
            heard[number, type(message)] = message
        made(self, number, message)

    def lie(link, peer):
        withheld(heard, (CheckDealing, CheckCoin))(link, peer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Link, "put", put)
        patch.setattr(CheckedReplies, "join_coins", noting)
        real = run_party

        def named(role, links, **options):
            for peer, link in links.items():
                link.of = None if peer != DEVIATING else COPIED
            return real(role, links, **options)

        patch.setattr("tests.secfc.active.test_a16_words_again.run_party", named)
        run_over_sockets(0, lie, patience)
    return seeds


@pytest.mark.nightly
def test_a_coin_that_is_copied_once_it_is_asked_for_again_names_who_copied_it(monkeypatch):
    with pytest.raises(FaultyClient, match="opened another coin than it committed to") as caught:
        copy_over_sockets()
    assert caught.value.party == DEVIATING
    # Positive control: a commitment that does not say whose it is takes the copy.
    real = CheckedReplies.commitment
    monkeypatch.setattr(CheckedReplies, "commitment", lambda self, member, coin: real(self, COPIED, coin))
    monkeypatch.setattr("field.code.reply_check.CheckWeights.fits", lambda *_: True)
    assert copy_over_sockets()
