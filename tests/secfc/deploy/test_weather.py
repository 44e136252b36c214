"""What the open net does to a run: resets, dead lines, strangers, noise, latecomers; labels stay exact.

Clocks are scaled, as in `tests.secfc.active.test_a7_waiting`; by night the real ones run.
"""

import asyncio
import contextlib
import time

import numpy as np
import pytest

pytest.importorskip("websockets")

import secfc
from benchmarks.shaping import Proxy, Shape
from secfc.roles.exchange import SERVER
from secfc.transport.simulate import simulate
from tests.nightly import NIGHTLY
from tests.secfc.deploy.test_hub import (
    FED,
    KEYS,
    NAMES,
    RUN,
    everybody,
    hears,
    hub,
    meet_at_hub,
    party,
    says,
    url_of,
)
from tests.secfc.transport.test_wire import roles_of

pytestmark = pytest.mark.deployment

# A second of the defaults.
SECOND = 1.0 if NIGHTLY else 0.1
CLOCKS = {"pulse": 30 * SECOND, "rejoin": 60 * SECOND, "patience": 600 * SECOND}
WAY = secfc.SecFC(k=3, threshold=1, max_iter=4)


def slowed(role, seconds, *, where=None):
    """A role that takes so long for each exchange, or for the first one of a phase."""
    inbox = None
    late = False
    while True:
        try:
            exchange = role.send(inbox)
        except StopIteration as done:
            return done.value
        if where is None or (exchange.phase == where and not late):
            late = True
            time.sleep(seconds)
        inbox = yield exchange


def exact(got):
    """Whether every client has the labels of the simulation."""
    expected = simulate(roles_of(WAY, FED)).results
    for client in FED.names:
        np.testing.assert_array_equal(got[client].labels, expected[client].labels)


async def over_a_line(roles, bad, **more):
    """A run whose parties go to the hub over one line, to which something happens."""
    seen = []
    async with hub(*NAMES).serving() as server:
        line = Proxy(server.sockets[0].getsockname()[1], Shape())
        async with line.serving() as port:
            task = asyncio.create_task(bad(line))
            watch = lambda peer, what: seen.append(what)  # noqa: E731
            try:
                got = await everybody(roles, f"ws://127.0.0.1:{port}", watch=watch, **{**CLOCKS, **more})
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
    return got, seen


@pytest.mark.nightly
def test_a_line_that_is_reset_every_five_seconds_changes_nothing():
    async def resets(line):
        while True:
            await asyncio.sleep(max(5 * SECOND, 0.7))  # who is cut while it connects makes no progress
            line.cut()

    roles = roles_of(WAY, FED)
    roles[SERVER] = slowed(roles[SERVER], SECOND)
    got, seen = asyncio.run(over_a_line(roles, resets))
    exact(got)
    assert seen.count("came back") >= 10


@pytest.mark.nightly
def test_a_line_that_goes_dead_is_made_anew():
    async def dies(line):
        while len(line.connections) < 2 * len(NAMES) * (len(NAMES) - 1):
            await asyncio.sleep(0.05)
        await asyncio.sleep(10 * SECOND)  # all are there, and the run goes on
        line.hang()

    roles = roles_of(WAY, FED)
    roles[SERVER] = slowed(roles[SERVER], SECOND)
    got, seen = asyncio.run(over_a_line(roles, dies))
    exact(got)
    assert "fell silent" in seen


@pytest.mark.parametrize("phase", [
    "distances", *(pytest.param(phase, marks=pytest.mark.nightly) for phase in ("share", "pair")),
])  # fmt: skip
def test_a_client_that_is_late_by_a_minute_is_waited_for(phase):
    async def nothing(line):
        await asyncio.sleep(0)

    roles = roles_of(WAY, FED)
    roles["client-2"] = slowed(
        roles["client-2"], 60 * SECOND / (1 if phase != "distances" else 3), where=(phase,)
    )
    got, seen = asyncio.run(over_a_line(roles, nothing))
    exact(got)
    assert set(seen) == {"came"}


@pytest.mark.nightly
def test_kernels_that_compile_in_the_first_step_cost_nobody_its_place():
    async def nothing(line):
        await asyncio.sleep(0)

    def cold(role):
        # As a compiler does: busy in Python, which is the worst for whoever should give signs of life.
        end = time.monotonic() + 45 * SECOND
        while time.monotonic() < end:
            sum(range(1000))
        return (yield from role)

    roles = roles_of(WAY, FED)
    roles["client-1"] = cold(roles["client-1"])
    exact(asyncio.run(over_a_line(roles, nothing))[0])


NOISE = {
    "no request": b"\xff" * 5000,
    "another service": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "half a greeting": b"GET /run/a/b HTTP/1.1\r\nUpgrade: websocket\r\n",
    "a frame before its turn": (
        b"GET /run%201%2F2/a/b HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        + b"\x82\xff"
        * 400
    ),
}


@pytest.mark.filterwarnings("ignore")
def test_noise_of_strangers_disturbs_nobody():
    async def converse():
        async with hub("a", "b").serving() as server:
            writers = []
            for noise in NOISE.values():
                _, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
                writer.write(noise)
                writers.append(writer)
            url = url_of(server)
            got = await asyncio.wait_for(
                asyncio.gather(party(says("b"), url, "a", ("b",)), party(hears("a"), url, "b", ("a",))), 10
            )
            for writer in writers:
                writer.transport.abort()
            return got[1]

    assert asyncio.run(converse()) == b"word"


@pytest.mark.parametrize("after", [1, *(pytest.param(n, marks=pytest.mark.nightly) for n in (0, 3))])
def test_noise_of_a_peer_breaks_its_connection_and_what_it_really_says_is_heard(after):
    async def converse():
        async with hub("a", "b").serving() as server:
            url = url_of(server)
            hearing = asyncio.create_task(party(hears("a"), url, "b", ("a",), **CLOCKS))
            for number in range(after):
                channel = await meet_at_hub(url, RUN, "a", "b", KEYS["a"])
                await channel.write((b"\xff" * 64, bytes(16) + b"\x05" * 64, b"\x03" + bytes(18))[number])
                with contextlib.suppress(OSError):
                    while await asyncio.wait_for(channel.read(100), 5):  # until the other end has had enough
                        pass
                channel.abort()
            await party(says("b"), url, "a", ("b",), **CLOCKS)
            return await asyncio.wait_for(hearing, 10)

    assert asyncio.run(converse()) == b"word"
