"""What a channel promises, and whole runs over one that only this file knows: a transport is one class.

Whoever adds a transport adds both ends of a connection of it to `law`.
"""

import asyncio
import contextlib
import dataclasses
import itertools
import socket
from types import SimpleNamespace

import pytest

from field.secrets.channels import Identity
from secfc.errors import TooFewReplies
from secfc.roles import messages as shared
from secfc.roles.exchange import SERVER, Exchange
from secfc.transport import network
from secfc.transport.channel import AsyncioStream, ConnectionKeys
from secfc.transport.link import BEAT, Link, frame_parts
from secfc.transport.network import run_party
from secfc.transport.simulate import simulate
from tests.nightly import by_night, covering
from tests.secfc.transport.test_wire import RUNS, roles_of
from tests.small import clustered

# --- another transport: two queues of bytes ------------------------------------------------------------


@dataclasses.dataclass(eq=False)
class Flow:
    """Bytes on their way, in one direction."""

    data: bytearray = dataclasses.field(default_factory=bytearray)
    ended: bool = False
    news: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    def end(self):
        self.ended = True
        self.news.set()

    async def change(self):
        self.news.clear()
        await self.news.wait()


@dataclasses.dataclass(eq=False)
class Pipe:
    """One end of a pair."""

    inward: Flow
    outward: Flow
    room = 1 << 12

    @classmethod
    def pair(cls):
        there, back = Flow(), Flow()
        return cls(back, there), cls(there, back)

    async def read(self, count):
        flow = self.inward
        while not flow.data and not flow.ended:
            await flow.change()
        data = bytes(flow.data[:count])
        del flow.data[:count]
        flow.news.set()
        return data

    async def write(self, data):
        flow = self.outward
        if flow.ended:
            raise BrokenPipeError
        flow.data += data
        flow.news.set()
        while len(flow.data) > self.room and not flow.ended:
            await flow.change()

    def abort(self):
        for flow in (self.inward, self.outward):
            flow.data.clear()
            flow.end()

    async def close(self):
        self.inward.end()
        self.outward.end()


class Breaking(Pipe):
    """The end of a pair that breaks when so many bytes were written, within a frame or between two."""

    left, broken = 1 << 40, None

    async def write(self, data):
        if self.left < len(data):
            await super().write(data[: self.left])
            self.abort()
            self.broken()
            raise ConnectionResetError
        self.left -= len(data)
        await super().write(data)


# --- whole runs -----------------------------------------------------------------------------------------


def over_pipes(roles, **options):
    """What every role returns over pairs of queues, with one run_party each."""
    return asyncio.run(running(roles, {}, **options))


async def running(roles, links, **options):
    """The same; links[a][b] is a's end where there is one already."""
    for a, b in itertools.combinations(roles, 2):
        if b not in links.setdefault(a, {}):
            one, other = Pipe.pair()
            links[a][b] = Link(one)
            links.setdefault(b, {})[a] = Link(other)
    parties = [run_party(role, links[name], **options) for name, role in roles.items()]
    return dict(zip(roles, await asyncio.wait_for(asyncio.gather(*parties), 60), strict=True))


def same(got, expected):
    """Whether every client ends with the labels of the simulation."""
    assert set(got) == set(expected)
    for party in expected:
        if party != SERVER:
            assert (got[party].labels == expected[party].labels).all()


@pytest.mark.parametrize("name", ["open", "private"])
def test_a_run_over_another_transport_gives_what_the_simulation_gives(name):
    expected = simulate(roles_of(RUNS[name], clustered())).results
    same(over_pipes(roles_of(RUNS[name], clustered())), expected)


# In the first frame's header, after it, in a message, and far into the run.
@pytest.mark.parametrize(
    ("left", "ends"),
    covering(
        [0, 5, 16, 100, 700, 1500], [("client-1", SERVER), (SERVER, "client-1"), ("client-0", "client-3")]
    ),
)
def test_a_connection_that_breaks_is_renewed_over_another_transport(ends, left):
    a, b = ends
    expected = simulate(roles_of(RUNS["open"], clustered())).results
    renewals = []

    async def converse():
        one, other = Breaking.pair()
        one.left = left
        links = {a: {b: Link(one)}, b: {a: Link(other)}}

        def renew():
            fresh = Pipe.pair()
            links[a][b].renew_connection(fresh[0])
            links[b][a].renew_connection(fresh[1])
            renewals.append(fresh)

        one.broken = lambda: asyncio.get_running_loop().call_later(0.01, renew)
        return await running(roles_of(RUNS["open"], clustered()), links, rejoin=20.0, patience=30.0)

    got = asyncio.run(converse())
    assert len(renewals) == 1
    same(got, expected)


class Lossy(Link):
    """An end whose message of one number, counted from 0, is lost, though the connection holds."""

    lost, said = 0, 0

    def put(self, number, message=None):
        if message is not None:
            self.said += 1
            if self.said == self.lost + 1:
                return
        super().put(number, message)


def lose_one(ends, lost, asks=True):
    """What a run gives over pipes, in which one message from one party to another is lost."""
    (a, b), links = ends, {}

    async def converse():
        one, other = Pipe.pair()
        links[a], links[b] = {b: Lossy(one)}, {a: Link(other)}
        links[a][b].lost = lost
        if not asks:
            links[a][b].repeat_kept = lambda: None
        # Those who have enough wait for who lacks the message, and asks for it after half of its patience.
        return await running(roles_of(RUNS["private"], clustered()), links, patience=0.6, grace=0.6)

    return asyncio.run(converse())


@pytest.mark.parametrize("lost", [1, *by_night(*range(2, 9))])
def test_a_message_that_is_lost_while_the_connection_holds_is_asked_for_once_more(lost):
    expected = simulate(roles_of(RUNS["private"], clustered())).results
    same(lose_one(("client-0", "client-3"), lost), expected)
    with pytest.raises(TooFewReplies):  # positive control: whom nobody answers
        lose_one(("client-0", "client-3"), lost, asks=False)


def test_what_is_asked_for_is_said_once_more_and_no_more():
    """A peer that asks all the time has nothing sent twice for it."""
    link = Link(Pipe.pair()[0])
    link.kept = {3: "three", 5: "five"}
    for _ in range(3):
        link.repeat_kept()
    link.kept[7] = "seven"
    link.repeat_kept()
    assert [number for number, _ in link.frames] == [3, 5, 7]


def test_a_connection_that_breaks_and_is_not_renewed_is_missed():
    # What breaks in the tests above would be noticed if nothing were sent again.
    def says():
        yield Exchange({"b": shared.Hello(bytes(100))}, round=1)

    def asks():
        return dict((yield Exchange({}, ("a",), round=1)))

    async def converse(left):
        one, other = Breaking.pair()
        one.left, one.broken = left, lambda: None
        links = {"a": {"b": Link(one)}, "b": {"a": Link(other)}}
        return await running({"a": says(), "b": asks()}, links, rejoin=0.1)

    assert asyncio.run(converse(100))["b"] == {}
    assert list(asyncio.run(converse(1 << 40))["b"]) == ["a"]


@pytest.mark.parametrize(("comes", "broken"), [
    (b"", True), (b"".join(frame_parts(BEAT, None)), True), (bytes(100), False),
], ids=["nothing", "signs of life", "more of it"])  # fmt: skip
def test_a_message_that_is_cut_off_breaks_its_connection_and_a_slow_one_does_not(comes, broken):
    async def converse():
        one, other = Pipe.pair()
        link = Link(one)
        tasks = [asyncio.ensure_future(work) for work in (link.watch(0.12), link.read_message(1 << 20))]
        await other.write(b"so far, and no further")
        with contextlib.suppress(BrokenPipeError):
            for _ in range(20 if not broken else 1000):
                await other.write(comes)
                await asyncio.sleep(0.02)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return other.outward.ended

    assert asyncio.run(converse()) is broken


def test_a_frame_that_began_on_one_connection_does_not_end_on_another():
    async def converse():
        (one, other), (fresh, peer) = await streams(), Pipe.pair()
        link = Link(one)
        await peer.write(bytes(16))
        reading = asyncio.create_task(link.header())
        await asyncio.sleep(0.05)
        one.reader.feed_data(b"\xff" * 8)  # and before anybody looks at it
        link.renew_connection(fresh)
        with pytest.raises(EOFError):
            await reading
        other.abort()
        link.renewed.clear()
        return await link.header()

    assert asyncio.run(converse()) == (0, 0)


# --- what every channel promises --------------------------------------------------------------------------


async def streams():
    """Two ends of a TCP connection on the loopback."""
    accepted = asyncio.Queue()
    server = await asyncio.start_server(lambda r, w: accepted.put_nowait(AsyncioStream(r, w)), "127.0.0.1", 0)
    one = AsyncioStream(*await asyncio.open_connection(*server.sockets[0].getsockname()))
    other = await accepted.get()
    server.close()
    return one, other


async def pipes():
    return Pipe.pair()


async def at_a_hub():
    """Two ends of a pair that a hub joined."""
    pytest.importorskip("websockets")
    from secfc.deploy.hub import Hub
    from secfc.deploy.rendezvous import meet_at_hub

    keys = {name: Identity(name.encode() * 32) for name in "ab"}
    hub = Hub({"run": {name: key.public for name, key in keys.items()}})
    serving = hub.serving()
    server = await serving.__aenter__()
    asyncio.current_task().kept = serving  # open as long as its loop runs
    url = "ws://{}:{}".format(*server.sockets[0].getsockname())
    return await asyncio.gather(*(meet_at_hub(url, "run", a, b, keys[a]) for a, b in ("ab", "ba")))


async def protected(**changed):
    """Two ends of a pair of queues that protect what is said over them.  changed: the second one's keys."""
    ends = Pipe.pair()
    for end in ends:
        end.ended = asyncio.Event()
    keys = {name: Identity(name.encode() * 32) for name in "ab"}
    pins = {name: key.public for name, key in keys.items()}
    mine = ConnectionKeys("run", "a", keys["a"], pins)
    theirs = ConnectionKeys(**({"session": "run", "me": "b", "identity": keys["b"], "pins": pins} | changed))
    return await asyncio.gather(mine.protect(ends[0], "b", 5), theirs.protect(ends[1], "a", 5))


@pytest.fixture(params=[streams, pipes, at_a_hub, protected], ids=["streams", "pipes", "hub", "protected"])
def law(request):
    """Runs a check with both ends of a fresh connection of each transport."""

    def try_check(check):
        async def bounded():
            ends = await request.param()
            try:
                await asyncio.wait_for(check(*ends), 20)
            finally:
                for end in ends:
                    end.abort()

        asyncio.run(bounded())

    return try_check


async def everything(end, count=1000):
    """All bytes until the end."""
    pieces = []
    while piece := await end.read(count):
        assert len(piece) <= count
        pieces.append(piece)
    return b"".join(pieces)


def test_bytes_come_in_order_and_the_end_after_them(law):
    async def check(one, other):
        said = bytes(range(256)) * 40

        async def says():
            for start in range(0, len(said), 777):
                await one.write(memoryview(said)[start : start + 777])
            await one.close()

        speaking = asyncio.create_task(says())
        assert await everything(other) == said
        assert await other.read(1) == b""  # and stays the end
        await speaking

    law(check)


def test_a_read_takes_no_more_than_it_is_asked_for_and_no_longer_than_for_the_first_byte(law):
    async def check(one, other):
        await one.write(b"abc")
        assert await other.read(2) == b"ab"
        assert await other.read(1 << 20) == b"c"

    law(check)


def test_a_cancelled_read_has_taken_nothing(law):
    async def check(one, other):
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await other.read(5)
        await one.write(b"later")
        assert await other.read(5) == b"later"

    law(check)


def test_both_ends_talk_at_the_same_time(law):
    async def check(one, other):
        said = bytes(1 << 22)

        async def says(end):
            for start in range(0, len(said), 1 << 16):
                await end.write(said[start : start + (1 << 16)])

        async def hears(end):
            heard = 0
            while heard < len(said):
                heard += len(await end.read(1 << 16))

        await asyncio.gather(says(one), says(other), hears(one), hears(other))

    law(check)


def test_who_writes_waits_for_a_peer_that_reads_slowly(law):
    async def check(one, other):
        taken = 0

        async def says():
            nonlocal taken
            for _ in range(1 << 10):
                await one.write(bytes(1 << 18))
                taken += 1

        speaking = asyncio.create_task(says())
        await asyncio.sleep(0.5)
        assert not speaking.done()
        waits_at = taken
        while taken < waits_at + 4:  # it goes on as the peer reads
            await other.read(1 << 16)
        speaking.cancel()

    law(check)


def test_after_an_abort_reading_ends_at_both_ends_and_writing_fails(law):
    async def check(one, other):
        waiting = [asyncio.create_task(end.read(1)) for end in (one, other)]
        await asyncio.sleep(0)
        one.abort()
        for task in waiting:
            with contextlib.suppress(OSError):
                assert await task == b""
        with pytest.raises(ConnectionError):
            await one.write(b"x")

        async def speaks():
            for _ in range(100):
                await other.write(b"x")
                await asyncio.sleep(0.01)

        with pytest.raises(ConnectionError):  # which the other end may hear with its first words only
            await speaks()

    law(check)


def test_nothing_is_written_after_closing(law):
    async def check(one, other):
        reading = asyncio.create_task(everything(other))
        await one.write(b"last")
        await one.close()
        with pytest.raises(ConnectionError):
            await one.write(b"x")
        assert await reading == b"last"

    law(check)


def test_nothing_is_written_after_closing_while_much_is_still_under_way(law):
    async def check(one, other):
        speaking = asyncio.create_task(one.write(bytes(1 << 26)))
        await asyncio.sleep(0.1)
        assert not speaking.done()
        closing = asyncio.create_task(one.close())
        await asyncio.sleep(0)
        with pytest.raises(ConnectionError):
            await one.write(b"x")
        other.abort()
        await asyncio.gather(speaking, closing, return_exceptions=True)

    law(check)


# --- what is said over a protected channel comes whole, once and in order -----------------------------------


LIES = {
    "dropped": lambda records: records[1:],
    "swapped": lambda records: [records[1], records[0], *records[2:]],
    "repeated": lambda records: [records[0], *records],
    "cut": lambda records: [records[0][:-1], *records[1:]],
    "flipped": lambda records: [records[0][:-1] + bytes([records[0][-1] ^ 1]), *records[1:]],
    "made up": lambda records: [(16).to_bytes(4, "little") + bytes(16), *records],
    "too long": lambda records: [b"\xff" * 4, *records],
}


@pytest.mark.parametrize("lie", [None, *LIES])
def test_a_record_that_is_dropped_moved_or_changed_is_noticed_where_the_next_should_come(lie):
    async def converse():
        one, other = await protected()
        said = []
        one.channel.write = lambda data: asyncio.sleep(0, said.append(data))
        words = [bytes([number]) * 50 for number in range(4)]
        for word in words:
            await one.write(word)
        for record in said if lie is None else LIES[lie](said):
            await Pipe.write(one.channel, record)
        await one.close()
        assert await everything(other) == b"".join(words)

    with contextlib.nullcontext() if lie is None else pytest.raises(ConnectionResetError, match="repeated"):
        asyncio.run(converse())


def test_a_word_on_progress_that_is_made_up_lets_go_of_messages_over_a_bare_channel_alone():
    forged = bytes(8) + (1 << 50).to_bytes(8, "little")  # that all was taken

    async def kept(ends):
        one, other = ends
        link = Link(one)
        link.kept[5] = shared.Hello(b"needed")
        await Pipe.write(getattr(other, "channel", other), forged)
        with contextlib.suppress(OSError):
            link.hear((await link.header())[1])
        return bool(link.kept)

    async def converse():
        return await kept(Pipe.pair()), await kept(await protected())

    assert asyncio.run(converse()) == (False, True)


@pytest.mark.parametrize("changed", [
    {"session": "another"}, {"me": "c"}, {"identity": Identity(b"c" * 32)}, {"pins": {"a": bytes(32)}},
    # Whoever says that it is b, whose public key all know, and has another secret one.
    {"identity": SimpleNamespace(public=Identity(b"b" * 32).public, sign=Identity(b"c" * 32).sign)},
])  # fmt: skip
def test_who_is_not_the_pinned_peer_in_the_same_run_is_refused(changed):
    with pytest.raises(ConnectionError):
        asyncio.run(protected(**changed))


@pytest.mark.parametrize(("answer", "error", "why"), [
    (None, ConnectionError, None),  # what it said itself
    (bytes(8) + b"\xff" * 32, ConnectionRefusedError, "other software"),  # as an unprotected link begins
    (b"s", TimeoutError, None),
])  # fmt: skip
def test_who_hears_itself_another_version_or_nothing_goes_on_with_nobody(answer, error, why):
    async def converse():
        one, other = Pipe.pair()
        one.ended = asyncio.Event()
        keys = ConnectionKeys("run", "a", Identity(b"a" * 32), {"b": Identity(b"b" * 32).public})

        async def answers():
            while data := await other.read(1 << 10):
                await other.write(data if answer is None else answer)

        answering = asyncio.create_task(answers())
        try:
            await keys.protect(one, "b", 0.2)
        finally:
            assert one.inward.ended  # the channel is broken
            answering.cancel()

    with pytest.raises(error, match=why):
        asyncio.run(converse())


# --- how a link is made -----------------------------------------------------------------------------------


def test_a_link_is_made_of_a_channel_or_of_a_stream():
    async def converse():
        one, other = await streams()
        link, over_channel = Link(one.reader, one.writer), Link(other)
        assert (link.channel.reader, link.channel.writer) == (one.reader, one.writer)
        assert over_channel.channel is other
        with pytest.raises(TypeError, match=r"Link\(reader, writer\)"):
            Link(one.reader)
        with pytest.raises(TypeError, match="Pipe with a writer"):
            Link(Pipe.pair()[0], one.writer)
        fresh = await streams()
        link.renew_connection(fresh[0].reader, fresh[0].writer)
        assert link.channel.reader is fresh[0].reader
        with contextlib.suppress(OSError):
            assert await other.read(1) == b""  # the old connection is closed
        for end in (other, *fresh):
            end.abort()

    asyncio.run(converse())


def test_a_local_socket_is_a_stream_too():
    def says():
        yield Exchange({"b": shared.Hello(b"x")}, round=1)

    def asks():
        return dict((yield Exchange({}, ("a",), round=1)))

    async def converse():
        a, b = [await asyncio.open_connection(sock=sock) for sock in socket.socketpair()]
        got = await asyncio.gather(run_party(says(), {"b": Link(*a)}), run_party(asks(), {"a": Link(*b)}))
        return got[1]["a"].description

    assert asyncio.run(converse()) == b"x"


def test_what_is_asked_for_again_is_said_before_what_was_taken_on_a_renewed_connection():
    """The server forgot words that a journal holds as digests, if they were settled between connections."""

    async def say_all():
        one, other = Pipe.pair()
        client, server = network._Post({"server": Link(one)}, 1 << 20, 1.0), Link(other)
        link = client.links["server"]

        def deliver():
            while link.frames:
                server.take_word(link.frames.popleft()[0])

        link.ready = True
        await client.wait(Exchange({}, ("server",), round=10), {})
        server.kept.update({11: b"", 12: b""})
        link.ready = False  # renewed, and the server has not said yet how far it is
        await client.wait(Exchange({}, ("server",), round=12, again={"server": 10}), {"server": 11})
        deliver()
        link.ready = True
        await client.wait(Exchange({}, ("server",), round=13, again={"server": 10}), {"server": 12})
        deliver()
        kept = sorted(server.kept)
        await client.wait(Exchange({}, ("server",), round=14), {"server": 13})
        deliver()
        return kept, sorted(server.kept)

    assert asyncio.run(say_all()) == ([11, 12], [])
