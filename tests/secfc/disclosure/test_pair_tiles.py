"""Pairs of more points than one question holds: exact, checked tile by tile, and with members that leave."""

from dataclasses import replace

import numpy as np
import pytest

import secfc
from field.code.pair_check import AcrossCheck
from field.code.reply_check import balance_weights
from secfc import pairs
from secfc.algorithm import PublicFacts
from secfc.coded.queries import Query, Subject
from secfc.disclosure.compare import server
from secfc.disclosure.compare.candidates import FirstPairs, NearPairs
from secfc.disclosure.compare.session import ComparisonSession
from secfc.errors import FaultyServer, SuspectedParties
from secfc.pairs import NearGraph, cut_blocks
from secfc.roles.exchange import ITERATE, SERVER, STRIDE
from secfc.roles.messages import compact_labels
from secfc.transport.simulate import simulate
from tests.nightly import covering, short
from tests.secfc.test_pairs import DATA, SEEN, WAY, Keeping, expected, random_case, squares, whole
from tests.secfc.transport.test_checkpoint import Network, builders, rising
from tests.small import federation


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Of 8 points, so that few make many tiles."""
    monkeypatch.setattr(pairs.NearClusterer, "block", 8)
    monkeypatch.setattr(pairs, "OPENED", 400)


def asked_of(result):
    """The tiles that were asked about, once each."""
    bodies = [e.body for e in result.transcript.envelopes if isinstance(e.body, Query)]
    return {body.round: tuple(body.detail[1:].tolist()) for body in bodies}


@pytest.mark.parametrize(
    ("block", "off", "dealer"), covering([8, 16], [-1, 0, 1], [SERVER, "client-3", None])
)
def test_blocks_that_do_and_do_not_divide_all_points(block, off, dealer, monkeypatch):
    monkeypatch.setattr(pairs.NearClusterer, "block", block)
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
    """What a check of a tile alone would be: coins add up to 0 over each block, and nothing is kept."""
    found, lanes = self.drawn(basis, coins), basis.lanes
    ones, one = np.ones((lanes, self.m + self.second), basis.dtype), np.ones((lanes, 2), basis.dtype)
    a = balance_weights(basis, basis.sample((2, self.m), coins), ones[:, : self.m], one)
    b = balance_weights(basis, basis.sample((2, self.second), coins), ones[:, : self.second], 0 * one)
    b = np.concatenate([b, np.zeros_like(b[:, :, :1])], axis=2)  # the first point of all is not in it
    return replace(
        found, points=a, zero=b, others=0 * found.others, offset=0 * one, sums=0 * found.sums,
        linear=basis.negate(basis.add(b, b))[:, :, None],
    )  # fmt: skip


def lying(plan, sender, tile, more, dealt):
    """A network in which a client adds a number to the distances of one point of a block to another."""
    asked = {}

    def pass_on(e):
        if isinstance(e.body, Query):
            asked[e.body.round // STRIDE] = e.body
        question = asked.get(e.round // STRIDE)
        replies = (e.kind, e.sender) == ("MaskedDistances", sender) and e.body.values.size
        if not replies or tuple(question.detail[1:].tolist()) != tile:
            return [e]
        values, (begin, end, other, last) = e.body.values.copy(), tile
        add = np.zeros((last - other, end - begin), object)
        add[:, 3] = more
        weights = plan.code.decoding_weights(tuple(question.responders.tolist()), 2)[1]
        for lane, (row, p) in enumerate(zip(values, plan.code.basis.primes, strict=False)):
            # Where somebody deals replies are weighed already.
            weight = 1 if dealt else pow(int(weights[lane, plan.clients.index(sender)]), -1, p)
            row[0] = (row[0].astype(object) + add.reshape(-1) * weight) % p
        return [replace(e, body=replace(e.body, values=values))]

    return pass_on


@pytest.mark.parametrize("dealer", [SERVER, None])
def test_a_point_with_a_coordinate_more_in_one_tile_is_refused(dealer, monkeypatch):
    """A check of each tile alone misses it, and then the point of others is near to all of a block."""
    way = replace(WAY, dealer=dealer, threshold=secfc.Threshold(1, deviating=0))
    true = secfc.fit(way, DATA)
    square = way.square(true.plan)
    # Point 11 to those of 24 to 31: all of them near.
    lie = lying(true.plan, "client-2", (8, 16, 24, 32), 4 * square, dealer is not None)
    with pytest.raises(SuspectedParties, match="do not fit the shares of the rows; nothing of this step"):
        secfc.fit(way, DATA, faults=lie)
    monkeypatch.setattr(AcrossCheck, "drawn", AcrossCheck.draw_weights, raising=False)
    monkeypatch.setattr(AcrossCheck, "draw_weights", unanchored)
    np.testing.assert_array_equal(secfc.fit(way, DATA).flat, true.flat)
    assert (secfc.fit(way, DATA, faults=lie).flat != true.flat).any()  # and nobody notices


@pytest.mark.parametrize(
    ("dealer", "tile"),
    covering([SERVER, "client-5", None], [(8, 16, 8, 16), (0, 8, 16, 24), (32, 40, 32, 40)]),
)
def test_a_member_that_falls_silent_at_a_tile_is_replaced_and_blocks_are_asked_anew(
    dealer, tile, monkeypatch
):
    data, way = federation(7, 40, 2, seed=3), replace(WAY, dealer=dealer, threshold=secfc.Threshold(1))
    gone, asked = [], []

    def lose(e):
        if isinstance(e.body, Query) and e.recipient == "client-6":
            asked.append((tuple(e.body.detail[1:].tolist()), tuple(e.body.members.tolist())))
        due = not gone and e.sender != SERVER and asked and asked[-1][0] == tile
        if due and e.kind in ("MaskedBits", "WitnessedBits") and e.sender != dealer:
            gone.append(e.sender)
        return [] if e.sender in gone else [e]

    result = secfc.fit(way, data, faults=lose)
    assert gone
    assert not result.excluded
    there = np.repeat([name not in gone for name in data.names], data.counts)
    truth = expected(way, result.plan, whole(data))
    np.testing.assert_array_equal(result.flat[there], truth[there])
    # Each committee was asked about both blocks by themselves before it was asked about two.
    for q, ((begin, end, other, last), members) in enumerate(asked):
        before = [block for block, who in asked[:q] if who == members]
        assert (begin, end) == (other, last) or {(begin, end) * 2, (other, last) * 2} <= {*before}
    assert len({members for _, members in asked}) > 1
    assert len(asked) > 15 + 1  # of five blocks


@pytest.mark.parametrize("dealer", [SERVER, "client-3", None])
def test_no_client_answers_about_two_blocks_that_were_not_asked_about(dealer, monkeypatch):
    """Of them nothing was checked: a server that works with a client could so leave the check out."""
    first = pairs.NearClusterer.ask_pairs
    monkeypatch.setattr(pairs.NearClusterer, "ask_pairs", lambda self, plan: first(self, plan)[::-1])
    way = replace(WAY, dealer=dealer)
    result = secfc.fit(way, DATA)  # an honest server asks about blocks when it needs them
    np.testing.assert_array_equal(result.flat, expected(way, result.plan, whole(DATA)))

    class Careless(FirstPairs):
        """Of a server that thinks that nothing is lacking."""

        def lacking(self, members, rivals):
            return []

        def beside(self, rivals, further):
            return further

    monkeypatch.setattr(server, "FirstPairs", Careless)
    with pytest.raises(FaultyServer, match="two blocks of points of which one was not asked about"):
        secfc.fit(way, DATA)


@pytest.mark.parametrize(
    ("dealer", "kind", "member"),
    [("client-5", "MaskSums", "client-0"), (None, "PartSums", "client-1")],
)
def test_a_block_asked_about_again_in_vain_makes_nobody_suspect(dealer, kind, member, monkeypatch):
    """What members and a dealer kept would be of two questions, and honest clients would seem to lie."""
    way = replace(WAY, dealer=dealer, threshold=secfc.Threshold(1, deviating=0))
    monkeypatch.setattr(server.CommitteeServer, "compare", ask_in_vain(server.CommitteeServer.compare))
    data, asked = federation(7, 24, 2, seed=3), []

    def lose(e):
        if isinstance(e.body, Query) and e.body.round not in asked:
            asked.append(e.body.round)
        # The second question is about the first block again, and fails at this member.
        again = len(asked) == 2 and e.round // STRIDE == asked[1] // STRIDE
        return [] if again and (e.kind, e.recipient) == (kind, member) else [e]

    with pytest.raises(FaultyServer, match="two blocks of points of which one was not asked about"):
        secfc.fit(way, data, faults=lose)
    monkeypatch.setattr(FirstPairs, "forget", lambda self, rivals: None)
    asked.clear()
    with pytest.raises(SuspectedParties, match="do not fit the shares of the rows") as found:
        secfc.fit(way, data, faults=lose)
    assert SERVER in found.value.parties


def test_a_block_asked_about_again_of_the_dealer_alone_makes_no_client_suspect(monkeypatch):
    """It keeps no masks of a question in which members take no part: these kept replies of another one."""
    way = replace(WAY, dealer="client-5", threshold=secfc.Threshold(1, deviating=0))
    monkeypatch.setattr(server.CommitteeServer, "compare", ask_in_vain(server.CommitteeServer.compare))
    data, asked = federation(7, 24, 2, seed=3), []

    def ask_dealer(e):
        if isinstance(e.body, Query) and e.body.round not in asked:
            asked.append(e.body.round)
        again = isinstance(e.body, Query) and asked[1:] == [e.body.round]
        return [] if again and e.recipient != "client-5" else [e]

    with pytest.raises(FaultyServer, match="two blocks of points of which one was not asked about"):
        secfc.fit(way, data, faults=ask_dealer)


def ask_in_vain(compare):
    """A server that asks about the first block once more, and goes on as if it were answered."""

    def asked(self, operation, labels, sizes, factor=1, detail=None):
        found = yield from compare(self, operation, labels, sizes, factor, detail)
        if self.turn == 1:
            subject = Subject(operation, len(sizes), compact_labels(labels), factor, detail)
            yield from self.asked(
                ComparisonSession(self.plan, self.seats().asked(subject), sizes, self.seating)
            )
        return found

    return asked


@pytest.mark.parametrize("at", [150, 400])
def test_a_crash_between_tiles_is_resumed_with_the_same_labels(at, tmp_path):
    seen = []

    def crash(party, exchange):
        seen.append(party)
        if len(seen) == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        secfc.fit(WAY, DATA, checkpoint=tmp_path, watch=crash)
    result = secfc.fit(WAY, DATA, checkpoint=tmp_path)
    np.testing.assert_array_equal(result.flat, expected(WAY, result.plan, whole(DATA)))


@pytest.mark.parametrize("dealer", [SERVER, None])
def test_one_lost_message_of_a_tile_changes_no_label(dealer):
    """Whichever it is: the labels are those of the rows that count, or its receiver hears none."""
    data, way = federation(5, 23, 2, seed=3), secfc.DBSCAN(0.9, 3, threshold=1, dealer=dealer)
    envelopes = secfc.fit(way, data).transcript.envelopes
    tiles = [place for place, e in enumerate(envelopes) if e.round >= ITERATE]
    for lost in np.random.default_rng(1).permutation(tiles)[: short(6, nightly=200)].tolist():
        said = []

        def lose(e, said=said, lost=lost):
            said.append(e)
            return [] if len(said) - 1 == lost else [e]

        result = secfc.fit(way, data, faults=lose)
        truth = expected(way, result.plan, whole(data))
        for own, due in zip(result.labels, np.split(truth, np.cumsum(data.counts)[:-1]), strict=True):
            assert (own == due).all() or (own == -1).all()


# Each party's exchanges from its first question about two blocks on; by day one of them.
@pytest.mark.parametrize(
    ("dealer", "victim", "exchanges"),
    [
        (SERVER, "client-0", (104, 198)), (SERVER, SERVER, (22, 38)), ("client-3", "client-3", (37, 64)),
        ("client-3", "client-1", (102, 194)), (None, "client-1", (64, 118)),
    ],
)  # fmt: skip
def test_one_party_that_restarts_between_tiles_has_what_it_kept_of_blocks(
    dealer, victim, exchanges, tmp_path
):
    """All others go on with what they have: it goes through its questions again, also those about blocks."""
    way, data, names = replace(WAY, dealer=dealer), federation(4, 24, 2, seed=3), []
    truth = expected(way, way.plan(PublicFacts.of(data)), whole(data))
    for at in short([sum(exchanges) // 2], nightly=range(*exchanges)):
        make, close = builders(way, data, tmp_path / str(at))

        def revived(name, make=make):
            names.append(name)
            return make(name)

        roles = {name: make(name) for name in (*data.names, SERVER) if name != victim}
        roles[victim] = rising(revived, victim, at)
        found = simulate(roles, watch=Network().watch).results
        close()
        np.testing.assert_array_equal(found[SERVER].labels, truth)
        np.testing.assert_array_equal(np.concatenate([found[name].labels for name in data.names]), truth)
        assert names[-2:] == [victim] * 2
        names.clear()


# --- what the server holds ------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 7, 8, 9, 31, 33])
def test_a_graph_has_what_its_tiles_said_in_a_bit_a_pair(m):
    rng = np.random.default_rng(m)
    near = np.triu(rng.random((m, m)) < 0.3, 1)
    near = near | near.T | np.eye(m, dtype=bool)
    graph, blocks = NearGraph(m), cut_blocks(m, 8)
    for tile in [NearPairs(0, 1, a, b) for q, a in enumerate(blocks) for b in blocks[q:]]:
        if tile.within:
            bits = near[np.ix_(tile.points, tile.points)][np.triu_indices(len(tile.points), 1)]
        else:
            bits = near[np.ix_(tile.other, tile.block)].reshape(-1)
        graph.put(tile, bits.astype(np.int32))
    np.testing.assert_array_equal(graph.unpack(np.arange(m)), near)
    np.testing.assert_array_equal(graph.count_neighbors(), near.sum(axis=1))
    some = rng.permutation(m)[: 1 + m // 3]
    np.testing.assert_array_equal(graph.reach(some), near[some].any(axis=0))
    assert not graph.reach(some[:0]).any()
    assert sum(array.nbytes for array in vars(graph).values() if isinstance(array, np.ndarray)) == m * -(
        -m // 8
    )


# --- all distances, by consent --------------------------------------------------------------------


def test_all_distances_are_asked_in_blocks_too():
    SEEN.clear()
    result = secfc.fit(secfc.Precomputed(Keeping(), consent=True), DATA, keep_bodies=True)
    exact = squares(result.plan, whole(DATA)).astype(float)
    np.testing.assert_array_equal(SEEN.pop(), np.sqrt(exact) / float(result.plan.scale))
    questions = {e.body.round: e.body.k for e in result.transcript.envelopes if isinstance(e.body, Query)}
    assert list(questions.values()) == [10, 11, 11, 11]  # the first point beside each block


@pytest.mark.parametrize("question", [0, 2])
def test_a_number_added_to_a_point_s_distances_to_one_block_is_refused(question, monkeypatch):
    """The check of replies misses it, as does the diagonal: distances to the first point differ."""
    way = secfc.Precomputed(Keeping(), consent=True, threshold=1)
    plan, seen = secfc.fit(way, DATA).plan, []
    code = plan.code

    def push(e):
        if isinstance(e.body, Query) and e.recipient == "client-1":
            seen.append(e.body)
        if e.kind != "CodedDistances" or e.sender != "client-1" or len(seen) != question + 1:
            return [e]
        values, weights = e.body.values.copy(), code.decoding_weights((0, 1, 2), 2)[1]
        for lane, p in enumerate(code.basis.primes[: len(values)]):
            more = pow(int(weights[lane, 1]), -1, p)
            values[lane, :, 15] = (values[lane, :, 15].astype(np.uint64) + more) % p  # of the second block
        return [replace(e, body=replace(e.body, values=values))]

    SEEN.clear()
    with pytest.raises(SuspectedParties, match="distances were told that no points have"):
        secfc.fit(way, DATA, faults=push)
    assert not SEEN
    # If only each block's diagonal were looked at, a clusterer would be given false distances.
    seen.clear()
    monkeypatch.setattr(pairs, "same_first", lambda one, other: True)
    secfc.fit(way, DATA, faults=push)
    exact = np.sqrt(squares(plan, whole(DATA)).astype(float)) / float(plan.scale)
    assert (SEEN.pop() != exact).any()
