"""A proxy that makes a line of the loopback slow: so much later, and so many bytes a second.

All connections through one proxy share its bandwidth, of each direction; each is delayed on its own.  Nothing
is lost: TCP would say it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

PIECE = 1 << 14


@dataclass(frozen=True)
class Shape:
    """latency: seconds from one end to the other, one way.  bandwidth: bytes a second; 0 for any number."""

    latency: float = 0.0
    bandwidth: float = 0.0

    @property
    def shapes(self) -> bool:
        """Whether it changes anything."""
        return bool(self.latency or self.bandwidth)


class Direction:
    """One way through a proxy: when the line has carried all that it took so far."""

    def __init__(self, shape: Shape) -> None:
        self.shape, self.free = shape, 0.0
        self.deaf = 0  # connections that began before this was raised bring nothing any more

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand on what comes of one connection, each piece when the line has brought it."""
        now = asyncio.get_running_loop().time
        under_way: deque[tuple[float, bytes]] = deque()
        age = self.deaf
        news = asyncio.Event()

        async def deliver() -> None:
            while True:
                while not under_way:
                    news.clear()
                    await news.wait()
                when, data = under_way[0]
                await asyncio.sleep(when - now())
                under_way.popleft()
                if age != self.deaf:
                    continue
                if not data:
                    writer.write_eof() if writer.can_write_eof() else writer.close()
                    return
                writer.write(data)
                await writer.drain()

        delivering = asyncio.create_task(deliver())
        try:
            while True:
                data = await reader.read(PIECE)
                begin = max(now(), self.free)
                if self.shape.bandwidth:
                    self.free = begin + len(data) / self.shape.bandwidth
                    begin = self.free
                under_way.append((begin + self.shape.latency, data))
                news.set()
                if not data:
                    await delivering
                    return
                # A sender may be ahead by what is under way, and little more.
                if self.shape.bandwidth:
                    await asyncio.sleep(self.free - now() - self.shape.latency)
        finally:
            delivering.cancel()


class Proxy:
    """A port that leads to another, as if it were far away."""

    def __init__(self, target: int, shape: Shape) -> None:
        self.target, self.there, self.back = target, Direction(shape), Direction(shape)
        self.connections: set[asyncio.StreamWriter] = set()

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until either end is gone."""
        try:
            onward, outward = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        self.connections |= {writer, outward}
        ways = (
            asyncio.create_task(self.there.carry(reader, outward)),
            asyncio.create_task(self.back.carry(onward, writer)),
        )
        try:
            await asyncio.gather(*ways)
        except OSError:
            pass
        finally:
            for way in ways:
                way.cancel()
            self.connections -= {writer, outward}
            for end in (writer, outward):
                end.transport.abort()

    def hang(self) -> None:
        """From now on nothing comes through, and nobody is told: as after a failover, or a pulled plug."""
        self.there.deaf += 1
        self.back.deaf += 1

    def cut(self) -> None:
        """Break all connections that go through here, as a firewall does that forgets them."""
        for writer in list(self.connections):
            writer.transport.abort()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        """The port, for as long as the context is open."""
        server = await asyncio.start_server(self.meet, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            self.cut()
            await asyncio.sleep(0)


@contextlib.contextmanager
def shaped(target: int, shape: Shape) -> Iterator[int]:
    """The port of a proxy that runs in a thread of its own."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    port: list[int] = []
    stop = asyncio.Event()

    async def run() -> None:
        async with Proxy(target, shape).serving() as found:
            port.append(found)
            ready.set()
            await stop.wait()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield port[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
