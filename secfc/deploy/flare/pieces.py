"""Pieces of what parties say, as messages of FLARE's cells, each acknowledged.

A call of FLARE's collab takes some 15 ms: it is streamed, answered by a stream, and passes five pools of
threads at each end.  A message of the cell beneath takes 2 ms, by the same connections and the same
authentication, so pieces and their acknowledgements go that way, and collab's calls do what is done once.

All of it passes FLARE's server, one process, so messages are saved: an acknowledgement is of all pieces of a
connection up to its number, and is sent when some have come, or a moment after the last.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from secfc.roles.exchange import PartyId

CHANNEL, PIECE, TAKEN = "secfc", "piece", "taken"
NAME, COUNT = 16, 8  # bytes of a connection's name, and of the number of a piece
HEADER = 2 * NAME + COUNT
# Seconds without an acknowledgement after which a piece is lost: longer than a peer computes and is believed.
PATIENCE = 900.0
# An acknowledgement is sent for so many pieces, or after so many seconds.
SOME, MOMENT = 4, 0.03

Deliver = Callable[[PartyId, bytes, bytes, int, bytes], Awaitable[bool]]


def pack_piece(theirs: bytes, mine: bytes, number: int, rest: bytes) -> bytes:
    """A piece, or an acknowledgement: from which connection, to which, its number, and the bytes."""
    return b"".join((theirs, mine, number.to_bytes(COUNT, "little"), rest))


def unpack_piece(data: Any) -> tuple[bytes, bytes, int, bytes]:
    """Raises ValueError for bytes that are none."""
    view = bytes(data)
    if len(view) < HEADER:
        raise ValueError("a piece is longer than that")
    number = int.from_bytes(view[2 * NAME : HEADER], "little")
    return view[:NAME], view[NAME : 2 * NAME], number, view[HEADER:]


class Pieces:
    """Messages of one process, in pieces.  cell: FLARE's core cell.  targets: the peers' cells, by party.

    taken: what a piece of a peer is handed to, in this loop; an acknowledgement says what it answered.
    """

    def __init__(
        self, cell: Any, targets: Mapping[PartyId, str], taken: Deliver, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.cell, self.targets, self.taken, self.loop = cell, dict(targets), taken, loop
        self.parties = {target: party for party, target in targets.items()}
        self._due: dict[tuple[PartyId, bytes, int], asyncio.Future[bool]] = {}
        self._working: set[asyncio.Task[None]] = set()
        # What is not yet acknowledged: the last piece of a connection, and how many there are.
        self._taken: dict[tuple[PartyId, bytes, bytes], tuple[int, int]] = {}
        for topic, heard in ((PIECE, self._piece), (TAKEN, self._acknowledged)):
            cell.register_request_cb(CHANNEL, topic, self._in_loop, heard=heard)

    def __repr__(self) -> str:
        return f"Pieces({len(self._due)} under way)"

    async def deliver(self, peer: PartyId, mine: bytes, theirs: bytes, number: int, data: bytes) -> bool:
        """Bring a piece to the peer: whether it took it.  Raises OSError."""
        due = self._due[peer, mine, number] = self.loop.create_future()
        try:
            await self._send(peer, PIECE, pack_piece(mine, theirs, number, data))
            async with asyncio.timeout(PATIENCE):
                return bool(await due)
        except TimeoutError:
            raise ConnectionResetError(f"{peer} does not acknowledge") from None
        finally:
            del self._due[peer, mine, number]

    async def _send(self, peer: PartyId, topic: str, data: bytes) -> None:
        from nvflare.fuel.f3.cellnet.utils import new_cell_message

        def send() -> None:
            target = self.targets[peer]
            message = new_cell_message({}, data)
            failed = self.cell.fire_and_forget(CHANNEL, topic, [target], message, optional=True)
            if failed and failed.get(target):
                raise ConnectionResetError(f"FLARE does not reach {peer}")

        await self.loop.run_in_executor(None, send)

    # --- called by threads of the cell

    def _in_loop(self, message: Any, heard: Callable[[PartyId, bytes, bytes, int, bytes], None]) -> None:
        """Take a message of a peer's cell: what others say, and what is no piece, is dropped."""
        from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey

        party = self.parties.get(message.get_header(MessageHeaderKey.ORIGIN))
        if party is not None and isinstance(message.payload, (bytes, bytearray, memoryview)):
            try:
                parts = unpack_piece(message.payload)
            except ValueError:
                return
            self.loop.call_soon_threadsafe(heard, party, *parts)

    # --- in the loop

    def _piece(self, party: PartyId, theirs: bytes, mine: bytes, number: int, data: bytes) -> None:
        task = self.loop.create_task(self._answer(party, theirs, mine, number, data))
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _answer(self, party: PartyId, theirs: bytes, mine: bytes, number: int, data: bytes) -> None:
        if not await self.taken(party, theirs, mine, number, data):
            await self._acknowledge(party, theirs, mine, number, b"\x00")
            return
        line = party, theirs, mine
        last, count = self._taken.get(line, (-1, 0))
        self._taken[line] = max(last, number), count + 1
        if count == 0:
            await asyncio.sleep(MOMENT)
        elif count + 1 < SOME:
            return
        if line in self._taken:  # else it has been acknowledged meanwhile
            last, _ = self._taken.pop(line)
            await self._acknowledge(party, theirs, mine, last, b"\x01")

    async def _acknowledge(
        self, party: PartyId, theirs: bytes, mine: bytes, number: int, word: bytes
    ) -> None:
        with contextlib.suppress(OSError):  # a peer that is gone does not wait for it
            await self._send(party, TAKEN, pack_piece(theirs, mine, number, word))

    def _acknowledged(self, party: PartyId, mine: bytes, theirs: bytes, number: int, data: bytes) -> None:
        for (peer, name, piece), due in self._due.items():
            if (peer, name) == (party, mine) and piece <= number and not due.done():
                due.set_result(data == b"\x01")
