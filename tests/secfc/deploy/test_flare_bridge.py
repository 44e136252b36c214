"""Pairs that are joined by calls between processes: order, breaks, slow readers, and the end of a carrier."""

import asyncio
import contextlib
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("websockets")

import secfc
from secfc.deploy.flare.bridge import PIECE, WINDOW, Bridge
from secfc.deploy.flare.pieces import HEADER, NAME, pack_piece, unpack_piece
from secfc.deploy.local import LONGEST, local_carrier, meet_locally, peer_of
from secfc.deploy.reconnect import NotAdmitted
from secfc.roles.exchange import SERVER, Exchange
from secfc.transport.simulate import simulate
from tests.secfc.transport.test_wire import roles_of

FED = secfc.Federation.from_arrays(np.array_split(np.random.default_rng(4).normal(size=(40, 3)), 3))
NAMES = (*FED.names, SERVER)
WAITING = {"pulse": 5.0, "patience": 20.0, "grace": 5.0, "rejoin": 10.0, "arrival": 10.0}


@contextlib.asynccontextmanager
async def bridges(*names, late=0.0, broken=lambda method: False):
    """Bridges whose calls take up to `late` seconds, each another time, and some are broken."""
    made = {}

    def caller(me):
        async def call(peer, method, *arguments):
            await asyncio.sleep(random.uniform(0, late))
            if broken(method):
                raise ConnectionResetError
            return await getattr(made[peer], method)(me, *arguments)

        return call

    with tempfile.TemporaryDirectory() as folder:
        made |= {name: Bridge(caller(name)) for name in names}
        paths = {name: Path(folder) / str(number) for number, name in enumerate(names)}
        servers = [await made[name].listen(paths[name]) for name in names]
        try:
            yield made, paths
        finally:
            for server in servers:
                server.close()
            await asyncio.gather(*(bridge.close() for bridge in made.values()))


async def everybody(paths, roles):
    async def party(me, role):
        return await local_carrier(paths[me], None, **WAITING)(role, tuple(p for p in roles if p != me))

    done = await asyncio.wait_for(asyncio.gather(*(party(me, role) for me, role in roles.items())), 60)
    return dict(zip(roles, done, strict=True))


def equal(one, other):
    return all(np.array_equal(one[name].labels, other[name].labels) for name in FED.names)


@pytest.mark.parametrize("late", [0.0, 0.005])
def test_a_run_over_bridges_is_that_of_the_simulation(late):
    algorithm = secfc.SecFC(k=3, threshold=1, max_iter=2)

    async def converse():
        async with bridges(*NAMES, late=late) as (made, paths):
            results = await everybody(paths, roles_of(algorithm, FED))
            assert all(bridge.bytes for bridge in made.values())
            return results

    assert equal(asyncio.run(converse()), simulate(roles_of(algorithm, FED)).results)


@pytest.mark.nightly
def test_calls_that_fail_and_connections_that_break_cost_nothing_but_time():
    algorithm = secfc.SecFC(k=3, threshold=1, max_iter=2)
    coins = random.Random(1)

    async def converse():
        async with bridges(*NAMES, broken=lambda method: coins.random() < 0.02) as (made, paths):
            broke = 0

            async def cut():
                nonlocal broke
                while True:
                    await asyncio.sleep(0.1)
                    for end in list(made[FED.names[0]].ends.values())[:1]:
                        end.writer.transport.abort()
                        broke += 1

            cutting = asyncio.create_task(cut())
            results = await everybody(paths, roles_of(algorithm, FED))
            cutting.cancel()
            assert broke
            return results

    assert equal(asyncio.run(converse()), simulate(roles_of(algorithm, FED)).results)


def test_pieces_come_in_order_however_late_and_a_slow_reader_holds_few_of_them():
    data = np.random.default_rng(1).bytes(40 * PIECE + 17)

    async def converse():
        async with bridges("a", "b", "c", late=0.02) as (made, paths):
            mine, theirs = await asyncio.gather(meet_locally(paths["a"], "b"), meet_locally(paths["b"], "a"))
            writing = asyncio.create_task(mine.write(data))
            await asyncio.sleep(0.5)
            # Nobody reads: what is under way is bounded, and another pair goes on.
            assert made["a"].bytes < (WINDOW + 4) * PIECE
            one, other = await asyncio.gather(meet_locally(paths["a"], "c"), meet_locally(paths["c"], "a"))
            await one.write(b"hear me")
            assert await asyncio.wait_for(other.read(7), 5) == b"hear me"
            came = bytearray()
            while len(came) < len(data):
                came += await asyncio.wait_for(theirs.read(PIECE), 5)
            await writing
            assert came == data
            # Who closes has said all that it wrote.
            await mine.write(b"last words")
            await mine.close()
            assert await theirs.read(100) == b"last words"
            assert await asyncio.wait_for(theirs.read(100), 5) == b""
            assert theirs.ended.is_set()
            for pipe in (theirs, one, other):
                await pipe.close()

    asyncio.run(converse())


def test_what_was_said_to_an_older_connection_reaches_no_newer_one():
    async def converse():
        async with bridges("a", "b") as (made, paths):
            mine, theirs = await asyncio.gather(meet_locally(paths["a"], "b"), meet_locally(paths["b"], "a"))
            old = made["b"].ends["a"].name
            first = made["a"].ends["b"].name
            theirs.abort()
            assert await mine.read(1) == b""
            again = await asyncio.wait_for(
                asyncio.gather(meet_locally(paths["a"], "b"), meet_locally(paths["b"], "a")), 10
            )
            assert not await made["b"].deliver("a", first, old, 0, b"late")
            assert not await made["b"].deliver("a", first, made["b"].ends["a"].name, 0, b"late")
            assert not await made["b"].deliver("stranger", first, old, 0, b"late")
            now, far = made["b"].ends["a"], 2 * WINDOW  # further than an honest peer is ever ahead
            late = made["b"].deliver("a", now.other.result(), now.name, now.taken + far, b"far")
            assert not await asyncio.wait_for(late, 5)
            await again[0].write(b"new")
            assert await again[1].read(10) == b"new"
            for pipe in (mine, *again):
                pipe.abort()

    asyncio.run(converse())


def test_a_party_ends_with_its_carrier_at_once_and_says_so():
    def waits(peer):
        yield Exchange({}, (peer,), round=1)

    async def converse():
        async with bridges("a", "b") as (made, paths):
            parties = asyncio.gather(
                *(
                    local_carrier(paths[me], None, **WAITING)(waits(peer), (peer,))
                    for me, peer in ("ab", "ba")
                ),
                return_exceptions=True,
            )
            await asyncio.sleep(0.3)
            assert all(len(bridge.ends) == 1 for bridge in made.values())
        for error in await asyncio.wait_for(parties, 3):
            assert isinstance(error, NotAdmitted)
            assert "Start its job again" in str(error)

    asyncio.run(converse())


def test_a_piece_is_read_as_it_was_packed_and_never_without_its_number():
    said = bytes(NAME), b"b" * NAME, 7, b"rest"
    assert unpack_piece(pack_piece(*said)) == said
    assert unpack_piece(pack_piece(*said)[:HEADER]) == (*said[:3], b"")
    for size in (0, 2 * NAME, HEADER - 1):
        with pytest.raises(ValueError, match="a piece is longer"):
            unpack_piece(pack_piece(*said)[:size])


def test_the_longest_line_names_a_peer():
    async def heard(line):
        reader = asyncio.StreamReader()
        reader.feed_data(line)
        reader.feed_eof()
        return await peer_of(reader)

    for length in (LONGEST, LONGEST + 1):
        line = b"a" * (length - 1) + b"\n"
        assert asyncio.run(heard(line)) == (line[:-1].decode() if length == LONGEST else None)


@pytest.mark.parametrize("line", [b"\n", b"\xff\n", b"a" * 5000, b""])
def test_who_names_no_peer_is_sent_away(line):
    async def converse():
        async with bridges("a", "b") as (made, paths):
            reader, writer = await asyncio.open_unix_connection(paths["a"])
            writer.write(line)
            writer.write_eof()
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), 5) == b""
            writer.close()
            assert not {name for name in made["a"].ends if name}

    asyncio.run(converse())
