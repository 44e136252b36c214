"""Over a network a peer that is there is waited for, however long it computes, and one that is gone is not.

Clocks are scaled: a second of the defaults is some hundredths here.  The real ones run nightly.
"""

import asyncio
import contextlib
import time
from itertools import product

import numpy as np
import pytest

import secfc
from secfc.errors import Indispensable, ProtocolError, TooFewReplies
from secfc.roles import messages as shared
from secfc.roles.exchange import SERVER, Exchange
from secfc.transport import link as links_of
from secfc.transport import network, wire
from secfc.transport.link import Link
from secfc.transport.network import run_party
from secfc.transport.simulate import simulate
from tests.nightly import in_turns
from tests.secfc.transport.test_wire import mesh, over_sockets, roles_of

PULSE = 0.4
# What would end a wait that nothing else ends: no test waits for it, on however busy a machine.
LONG = 60.0


def asks(*peers, enough=0):
    """What came, and after how many seconds."""
    begin = time.monotonic()
    inbox = yield Exchange({}, peers, enough, round=1)
    return set(inbox), time.monotonic() - begin


def computes(seconds, to="a"):
    """A role that answers after so many seconds, in which it does not let go."""
    time.sleep(seconds)
    yield Exchange({to: shared.Hello(b"x")}, round=1)


def test_a_peer_that_computes_is_waited_for(monkeypatch):
    def converse(**options):
        roles = {"a": asks("b"), "b": patient_then(computes(4 * PULSE))}
        return over_sockets(roles, pulse=PULSE, grace=0.05, patience=20.0, **options)["a"]

    came, seconds = converse()
    assert came == {"b"}
    assert seconds > 3 * PULSE

    # Without signs of life it would be taken for dead.
    put = Link.put

    def without_beats(self, number, message=None):
        if number != links_of.BEAT:
            put(self, number, message)

    with monkeypatch.context() as patch:
        patch.setattr(Link, "put", without_beats)
        assert converse()[0] == set()

    # And if it computed in the thread of the loop, nobody would hear it.
    async def here(role, inbox):
        await asyncio.sleep(PULSE / 4)
        try:
            return role.send(inbox), []
        except StopIteration as done:
            return None, [done.value]

    def apart():
        """b in a process of its own would block its own loop only: its loop is that of a thread here."""

        async def b(where):
            reader, writer = await asyncio.open_connection(*where)
            role, links = patient_then(computes(4 * PULSE)), {"a": Link(reader, writer)}
            await run_party(role, links, pulse=PULSE, rejoin=0.0)

        async def main():
            accepted = asyncio.Queue()
            server = await asyncio.start_server(lambda r, w: accepted.put_nowait(Link(r, w)), "127.0.0.1", 0)
            where = server.sockets[0].getsockname()
            other = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(b(where))))
            try:
                links = {"b": await accepted.get()}
                return await run_party(asks("b"), links, pulse=PULSE, patience=20.0, rejoin=0.0)
            finally:
                server.close()
                await other

        return asyncio.run(main())

    assert apart()[0] == {"b"}
    monkeypatch.setattr(network, "_advance", here)
    assert apart()[0] == set()


def patient_then(role):
    """A role that says a word first, so that its links have begun."""
    yield Exchange()
    yield from role


async def half_open(say=b""):
    """A link to a peer that is connected and, but for these bytes, mute; and the peer's end."""
    links = await mesh(["a", "b"])
    links["b"]["a"].channel.writer.write(say)
    return links["a"]["b"], links["b"]["a"]


def side_by_side(*talks):
    """What comes of them, in their order: they wait at the same time."""

    async def gather():
        return await asyncio.gather(*talks)

    return asyncio.run(gather())


WORD = bytes(8) + (-1).to_bytes(8, "little", signed=True)


def test_a_peer_that_is_gone_without_a_word_costs_a_pulse_and_not_the_patience():
    async def converse(say, patience):
        link, other = await half_open(say)
        try:
            return await run_party(asks("b"), {"b": link}, pulse=PULSE, patience=patience, rejoin=0.0)
        finally:
            await other.channel.close()

    # Also in the middle of a message; who never spoke may still be reading its data.
    cut = WORD + (500).to_bytes(8, "little") + bytes(20)
    *enough, (came, mute) = side_by_side(converse(WORD, LONG), converse(cut, LONG), converse(b"", 3 * PULSE))
    for nobody, seconds in enough:
        assert nobody == set()
        assert PULSE * 0.7 < seconds < LONG
    assert came == set()
    assert mute > 2.5 * PULSE


def frame(number):
    data = wire.encode(shared.Hello(b"x"))
    return len(data).to_bytes(8, "little") + number.to_bytes(8, "little") + data


def test_a_peer_that_falls_silent_or_breaks_off_is_awaited_for_as_long_as_it_may_come_back():
    async def converse(gone, **options):
        link, other = await half_open(WORD)
        again, there = await half_open(WORD + frame(1))
        waiting = asyncio.create_task(run_party(asks("b"), {"b": link}, pulse=PULSE, **options))
        if gone == "breaks off":
            other.channel.abort()
        await asyncio.sleep(3 * PULSE)  # longer than a pulse, and than patience
        link.renew_connection(again.channel)
        try:
            return (await waiting)[0]
        finally:
            for end in (other, there):
                end.channel.abort()

    cases = product(("falls silent", "breaks off"), (40 * PULSE, 0.0))
    came = side_by_side(*(converse(gone, patience=2 * PULSE, rejoin=rejoin) for gone, rejoin in cases))
    assert came == [{"b"}, set()] * 2


@pytest.mark.nightly
def test_whom_this_party_awaits_may_await_who_is_away():
    async def converse(rejoin):
        links = {name: await half_open(WORD) for name in "bc"}
        away = links["c"][1]
        mine = {name: one for name, (one, _) in links.items()}
        waiting = asyncio.create_task(
            run_party(asks("b"), mine, pulse=10 * PULSE, patience=2 * PULSE, rejoin=rejoin)
        )
        away.channel.abort()
        await asyncio.sleep(5 * PULSE)
        links["b"][1].channel.writer.write(frame(1))
        try:
            return (await waiting)[0]
        finally:
            links["b"][1].channel.abort()

    assert asyncio.run(converse(40 * PULSE)) == {"b"}
    assert asyncio.run(converse(0.0)) == set()


def test_a_peer_that_is_given_up_is_awaited_no_longer():
    async def converse():
        link, other = await half_open(WORD)
        waiting = asyncio.create_task(run_party(asks("b"), {"b": link}, pulse=LONG, patience=LONG))
        await asyncio.sleep(PULSE)
        link.give_up()
        try:
            return await waiting
        finally:
            other.channel.abort()

    came, seconds = asyncio.run(converse())
    assert came == set()
    assert seconds < LONG


def test_who_hears_too_little_says_no_goodbye():
    def hears_too_little():
        yield Exchange({}, ("b",), round=1)
        raise TooFewReplies(1, ())

    async def converse(role):
        link, other = await half_open(WORD)
        with contextlib.suppress(ProtocolError):
            await run_party(role, {"b": link}, pulse=60.0, patience=PULSE)
        try:
            return await other.channel.reader.read()
        finally:
            await other.channel.close()

    goodbye = bytes(8) + links_of.GOODBYE.to_bytes(8, "little", signed=True)
    assert goodbye not in asyncio.run(converse(hears_too_little()))
    assert goodbye in asyncio.run(converse(asks("b")))


def test_over_a_new_connection_a_party_says_what_it_has_on_file_and_not_what_it_looks_at():
    def looks():
        yield Exchange({}, ("b",), round=1)
        time.sleep(2 * PULSE)  # before it is on file
        yield Exchange({}, ("b",), round=2)

    async def converse():
        link, other = await half_open(WORD + frame(1))
        again, there = await half_open()
        task = asyncio.create_task(run_party(looks(), {"b": link}, pulse=60.0, patience=PULSE))
        await asyncio.sleep(PULSE)
        link.renew_connection(again.channel)
        first = await there.channel.reader.readexactly(16)
        await task
        for end in (other, there):
            end.channel.abort()
        return int.from_bytes(first[8:], "little", signed=True)

    assert asyncio.run(converse()) == -1


def test_a_message_that_arrives_slowly_is_a_sign_of_life():
    data = wire.encode(shared.Hello(bytes(4000)))

    async def converse():
        link, other = await half_open(WORD)

        async def trickle():
            frame = len(data).to_bytes(8, "little") + (1).to_bytes(8, "little") + data
            for start in range(0, len(frame), 400):
                other.channel.writer.write(frame[start : start + 400])
                await asyncio.sleep(PULSE / 4)

        speaker = asyncio.create_task(trickle())
        try:
            return await run_party(asks("b"), {"b": link}, pulse=PULSE, patience=60.0, rejoin=0.0)
        finally:
            await speaker
            await other.channel.close()

    came, seconds = asyncio.run(converse())
    assert came == {"b"}
    assert seconds > 2 * PULSE


def test_more_late_messages_than_are_kept_stop_nobody():
    # Of one who is behind, and whose connection was renewed: all it said comes at once.
    last = 3 * network.BACKLOG

    def waits():
        begin = time.monotonic()
        inbox = yield Exchange({}, ("b",), round=last)
        return set(inbox), time.monotonic() - begin

    async def converse():
        link, other = await half_open(WORD)
        waiting = asyncio.create_task(run_party(waits(), {"b": link}, pulse=LONG, patience=LONG))
        await asyncio.sleep(PULSE / 4)
        other.channel.writer.write(b"".join(map(frame, range(last + 1))))
        other.channel.writer.write(bytes(8) + links_of.GOODBYE.to_bytes(8, "little", signed=True))
        try:
            return await waiting
        finally:
            await other.channel.close()

    came, seconds = asyncio.run(converse())
    assert came == {"b"}
    assert seconds < LONG


def test_a_pause_of_this_process_is_not_taken_for_one_of_the_peers():
    def pauses():
        yield Exchange()
        return (yield from asks("b"))

    async def converse():
        links = await mesh(["a", "b"])
        a = asyncio.create_task(run_party(pauses(), links["a"], pulse=PULSE, patience=20.0))
        b = asyncio.create_task(run_party(patient_then(computes(4 * PULSE)), links["b"], pulse=PULSE))
        await asyncio.sleep(PULSE)
        time.sleep(2 * PULSE)  # everybody's loop
        return (await asyncio.gather(a, b))[0]

    assert asyncio.run(converse())[0] == {"b"}


def test_grace_is_for_those_who_miss_when_enough_came():
    roles = {"a": asks("b", "c", enough=1), "b": computes(0.0), "c": computes(3 * PULSE)}
    assert over_sockets(roles, pulse=PULSE, grace=PULSE / 4, patience=20.0)["a"][0] == {"b"}
    roles = {"a": asks("b", "c", enough=0), "b": computes(0.0), "c": computes(3 * PULSE)}
    assert over_sockets(roles, pulse=PULSE, grace=PULSE / 4, patience=20.0)["a"][0] == {"b", "c"}


def test_patience_bounds_the_whole_wait():
    roles = {"a": asks("b"), "b": computes(5 * PULSE)}
    assert over_sockets(roles, pulse=PULSE, patience=PULSE)["a"][0] == set()


def test_a_message_that_is_too_large_is_refused_where_it_is_sent():
    def says():
        yield Exchange({"b": shared.Hello(bytes(200))}, round=1)

    got = over_sockets({"a": says(), "b": asks("a")}, maximum=100, patience=5.0)
    assert isinstance(got["a"], ValueError)
    assert "211 bytes, 100 are allowed" in str(got["a"])
    assert got["b"][0] == set()


def test_a_cancelled_party_ends_when_its_role_lets_go():
    ended = []

    def long():
        try:
            time.sleep(2 * PULSE)
            yield Exchange({}, ("b",))
        finally:
            ended.append(True)

    async def converse():
        links = await mesh(["a", "b"])
        task = asyncio.create_task(run_party(long(), links["a"], pulse=PULSE))
        await asyncio.sleep(PULSE / 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await links["b"]["a"].channel.close()

    asyncio.run(converse())
    assert ended == [True]


# --- whole runs ------------------------------------------------------------------------------------

ALGORITHMS = {
    "labels only": secfc.SecFC(k=3, threshold=1, max_iter=3),
    "distances": secfc.SecFC(k=3, threshold=1, max_iter=3, disclosure=secfc.Distances()),
    "nobody deals": secfc.SecFC(k=3, threshold=1, max_iter=3, disclosure=secfc.AssignmentsOnly(dealer=None)),
}


def points(n=5):
    rng = np.random.default_rng(4)
    return secfc.Federation.from_arrays(np.array_split(rng.normal(size=(40, 3)), n))


class Gone(Exception):  # noqa: N818 - what happened
    """The party is no more."""


def going(role, at):
    """A role that dies before its exchange of this number."""
    inbox = None
    for number in range(1 << 30):
        try:
            exchange = role.send(inbox)
        except StopIteration as done:
            return done.value
        if number == at:
            raise Gone
        inbox = yield exchange
    return None


async def with_a_death(algorithm, fed, victim, at, *, hang):
    """What every party but the victim ends with, and how long it took."""
    roles = roles_of(algorithm, fed)
    links = await mesh(list(roles))
    roles[victim] = going(roles[victim], at)
    begin = time.monotonic()
    options = {"pulse": PULSE, "grace": 0.2, "patience": LONG, "rejoin": 0.0}

    async def lives(name):
        if name != victim or not hang:
            return await run_party(roles[name], links[name], **options)
        # As if the power went: its connections stay, and nothing comes over them any more.
        ends = {peer: Link(Kept(link.channel)) for peer, link in links[name].items()}
        with contextlib.suppress(Gone):
            await run_party(roles[name], ends, **options)
        return None

    everybody = asyncio.gather(*(lives(name) for name in roles), return_exceptions=True)
    got = await asyncio.wait_for(everybody, 2 * LONG)
    for link in links[victim].values():
        await link.channel.close()
    return dict(zip(roles, got, strict=True)), time.monotonic() - begin


class Kept:
    """A channel that is not closed with its party."""

    def __init__(self, channel):
        self.read, self.write, self.abort = channel.read, channel.write, channel.abort

    async def close(self):
        pass


@pytest.mark.parametrize(("name", "hang"), in_turns([*ALGORITHMS], [False, True]))
def test_a_run_over_a_network_survives_a_client(name, hang):
    fed, algorithm = points(), ALGORITHMS[name]
    expected = simulate(roles_of(algorithm, fed)).results
    for at in (5, 7):
        got, _ = asyncio.run(with_a_death(algorithm, fed, "client-1", at, hang=hang))
        for client in fed.names:
            if client != "client-1":
                assert (got[client].labels == expected[client].labels).all()


@pytest.mark.parametrize("hang", [False, True], ids=["closes", "hangs"])
def test_without_the_server_every_client_says_so_sooner_than_patience_ends(hang):
    fed = points()
    got, seconds = asyncio.run(with_a_death(ALGORITHMS["labels only"], fed, SERVER, 5, hang=hang))
    for client in fed.names:
        assert isinstance(got[client], Indispensable)
        assert got[client].party == SERVER
    assert seconds < LONG


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_client_that_computes_for_long_while_it_shares_ends_nobody_with_the_defaults():
    fed, algorithm = points(), ALGORITHMS["labels only"]
    expected = simulate(roles_of(algorithm, fed)).results
    roles = roles_of(algorithm, fed)

    def slow(role):
        inbox = None
        while True:
            try:
                exchange = role.send(inbox)
            except StopIteration as done:
                return done.value
            if exchange.phase == "share":
                time.sleep(25)
            inbox = yield exchange

    roles["client-2"] = slow(roles["client-2"])

    async def converse():
        links = await mesh(list(roles))
        got = await asyncio.gather(*(run_party(roles[name], links[name]) for name in roles))
        return dict(zip(roles, got, strict=True))

    got = asyncio.run(converse())
    for client in fed.names:
        assert (got[client].labels == expected[client].labels).all()


def test_a_role_that_computes_is_waited_for_however_often_its_end_is_asked_for():
    closed = []

    def computes():
        try:
            time.sleep(0.4)
            yield Exchange({})
        finally:
            closed.append(True)

    async def converse():
        task = asyncio.ensure_future(network.run_party(computes(), {}))
        for _ in range(3):
            await asyncio.sleep(0.05)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(converse())
    assert closed


def note_frame(message):
    data = wire.encode(message)
    return len(data).to_bytes(8, "little") + links_of.NOTE.to_bytes(8, "little", signed=True) + data


def test_what_is_said_beside_exchanges_is_heard_while_a_party_waits_and_is_short():
    async def converse(note):
        heard = []
        link, other = await half_open(WORD + note_frame(note) + frame(1))
        link.told = heard.append
        try:
            came, _ = await run_party(asks("b"), {"b": link}, pulse=PULSE, patience=PULSE, rejoin=0.0)
        finally:
            await other.channel.close()
        return came, len(heard)

    assert asyncio.run(converse(shared.Hello(b"x"))) == ({"b"}, 1)
    assert asyncio.run(converse(shared.Hello(bytes(links_of.SHORT)))) == (
        set(),
        0,
    )  # its connection is broken


def test_what_is_said_beside_exchanges_is_said_again_over_each_connection():
    async def converse():
        link, other = await half_open(WORD)
        again, there = await half_open(WORD)
        link.say(note := shared.Hello(b"note"))
        link.say(note)
        task = asyncio.create_task(run_party(asks("b"), {"b": link}, pulse=60.0, patience=2 * PULSE))
        await asyncio.sleep(PULSE)
        link.renew_connection(again.channel)
        await task
        said = [(await end.channel.reader.read(1 << 16)).count(note_frame(note)) for end in (other, there)]
        for end in (other, there):
            await end.channel.close()
        return said

    assert asyncio.run(converse()) == [1, 1]
