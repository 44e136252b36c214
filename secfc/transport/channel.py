"""What a transport is: bytes to one peer and from it, in order.

Whoever brings another transport writes one class with these four methods, whatever carries the bytes:
`secfc.transport.channel` is that of TCP and TLS.  All else, from frames to signs of life and what happens
after a break, is `secfc.transport.link`'s, and the same over any of them.

Who is at the other end, and that nobody else reads or changes what is said, is the transport's business
(TLS), or that of `ConnectionKeys.protect`, over any channel, whoever carries it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from field.secrets.channels import Identity
from field.secrets.coins import SystemCoins
from secfc.logs import log_event
from secfc.roles.exchange import PartyId
from secfc.transport.handshake import SIGNATURE, TAG, derive_keys, verify


class Channel(Protocol):
    """One connection to one peer.

    Bytes come out in the order in which they went in; where they end need not be where they were cut.  One
    task reads and one writes, at the same time.
    """

    async def read(self, count: int) -> bytes:
        """The next bytes of the peer: at least one as soon as there are any, at most `count`; b"" at the end.

        Cancelled, it has taken nothing: the next call goes on where this one began.

        Raises OSError if the connection is broken.
        """

    async def write(self, data: bytes | memoryview) -> None:
        """Take these bytes to be sent; wait while the peer is slow to read, so that few pile up here.

        They do not change afterwards, so need not be copied.

        Raises OSError if the connection is broken, or was closed here.
        """

    def abort(self) -> None:
        """Break the connection at once: what waits to be sent may be lost, and reading ends at both ends."""

    async def close(self) -> None:
        """End the connection once the peer can read all that was written.

        Raises OSError if it is broken.
        """


class ClosingChannel(Channel, Protocol):
    """A channel that tells when it is over."""

    ended: asyncio.Event


# --------------------------------------------------------------------------------------------------
# TCP, TLS and local sockets: an asyncio stream as a channel.


@dataclass(frozen=True, eq=False)
class AsyncioStream:
    """What `asyncio.open_connection` returns, or hands to whoever `asyncio.start_server` serves."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def read(self, count: int) -> bytes:
        return await self.reader.read(count)

    async def write(self, data: bytes | memoryview) -> None:
        if self.writer.is_closing():  # which asyncio itself would only log
            raise ConnectionResetError("the connection is closed")
        self.writer.write(data)
        await self.writer.drain()

    def abort(self) -> None:
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


def channel_of(end: Channel | asyncio.StreamReader, writer: asyncio.StreamWriter | None = None) -> Channel:
    """The channel over an asyncio stream's reader and writer; a channel is one already.

    Raises TypeError for half a stream.
    """
    if isinstance(end, asyncio.StreamReader):
        if writer is None:
            raise TypeError("a stream without its writer: give both, Link(reader, writer)")
        return AsyncioStream(end, writer)
    if writer is not None:
        raise TypeError(f"{type(end).__name__} with a writer: a channel writes itself, give it alone")
    return end


# --------------------------------------------------------------------------------------------------
# What is said over one connection comes whole, once and in order, or the connection breaks.
#
# Messages are sealed, but frames are not: their numbers, words on what a peer took, signs of life, goodbyes.
# Whoever carries a connection could make these up, repeat them, or drop a message that nobody misses before
# time is up.  So each connection between parties that pinned each other's identities has keys of its own:
#
#     both    HELLO, a fresh X25519 key (32)
#     both    a record: the signature (64) of both keys, both parties and the session
#     then    records: bytes of the ciphertext (4, little-endian), AES-256-GCM under the number of the record
#
# A record that is lost, altered, repeated, of another pair, direction or connection does not open where it
# comes, and breaks the connection.  The peer is met again, and says again what was not taken
# (`secfc.transport.link`).  As there are signs of life, the loss of the last word is noticed with the next.

HELLO = b"secfc 1\0"
# Bytes of a record, at most: on a slow line a sign of life comes before all of a large message.
RECORD = 1 << 16
LENGTH, KEY = 4, 32


class ProtectedChannel:
    """A channel within another, by `ConnectionKeys.protect`: raises ConnectionResetError for what its peer
    did not say there.
    """

    def __init__(self, channel: ClosingChannel, give: bytes, take: bytes) -> None:
        self.channel, self.ended = channel, channel.ended
        self._give, self._take = AESGCM(give), AESGCM(take)
        self._given = self._taken = 0  # records
        self._sealed, self._plain = bytearray(), bytearray()

    def __repr__(self) -> str:
        return f"Protected({self.channel!r})"

    async def read(self, count: int) -> bytes:
        while not self._plain:
            data = await self.channel.read(RECORD)
            if not data:
                return b""
            self._sealed += data
            self._open_records()
        data = bytes(self._plain[:count])
        del self._plain[:count]
        return data

    def _open_records(self) -> None:
        """All records that have come whole."""
        at, view = 0, memoryview(self._sealed)
        try:
            while len(view) >= at + LENGTH:
                end = at + LENGTH + int.from_bytes(view[at : at + LENGTH], "little")
                if end > at + LENGTH + RECORD + TAG:
                    raise InvalidTag
                if end > len(view):
                    break
                self._plain += self._take.decrypt(_nonce(self._taken), view[at + LENGTH : end], None)
                self._taken, at = self._taken + 1, end
        except InvalidTag:
            self.channel.abort()
            log_event("transport", "altered", logging.WARNING)
            raise ConnectionResetError("what came was altered, lost or repeated on its way") from None
        finally:
            view.release()
        del self._sealed[:at]

    async def write(self, data: bytes | memoryview) -> None:
        records = bytearray()
        for start in range(0, len(data), RECORD):
            sealed = self._give.encrypt(_nonce(self._given), data[start : start + RECORD], None)
            records += len(sealed).to_bytes(LENGTH, "little") + sealed
            self._given += 1
        await self.channel.write(bytes(records))

    def abort(self) -> None:
        self.channel.abort()

    async def close(self) -> None:
        await self.channel.close()


def _nonce(number: int) -> bytes:
    """Twelve bytes for the record of this number: a key is of one direction of one connection."""
    return number.to_bytes(12, "little")


@dataclass(frozen=True, repr=False)
class ConnectionKeys:
    """What protects the connections of one party.  session: of the run.  pins: of its peers, public."""

    session: str
    me: PartyId
    identity: Identity
    pins: Mapping[PartyId, bytes]

    async def protect(self, channel: ClosingChannel, peer: PartyId, seconds: float) -> ClosingChannel:
        """The channel to a peer, once both have shown that they hold the identities that are pinned.

        Raises OSError where that takes longer, or somebody else speaks; then the channel is broken.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._protected(channel, peer)
        except BaseException:
            channel.abort()
            raise

    async def _protected(self, channel: ClosingChannel, peer: PartyId) -> ClosingChannel:
        mine = X25519PrivateKey.from_private_bytes(SystemCoins().bytes(KEY))
        greeting = HELLO + mine.public_key().public_bytes_raw()
        await channel.write(greeting)
        theirs = await _read_exactly(channel, len(greeting))
        if theirs[: len(HELLO)] != HELLO:
            raise ConnectionRefusedError(f"{peer} has other software, or what it says is altered on its way")
        ends = sorted(((self.me, self.identity.public, greeting), (peer, self.pins[peer], theirs)))
        first = ends[0][0] == self.me
        name = hashlib.blake2b(
            repr((self.session, ends)).encode(), digest_size=32, person=b"secfc connection"
        ).digest()
        try:
            shared = mine.exchange(X25519PublicKey.from_public_bytes(theirs[len(HELLO) :]))
        except ValueError:
            raise ConnectionRefusedError(f"{peer} sent a key that is none") from None
        keys = derive_keys(shared, name, b"secfc connection", 0, 1)
        give, take = (keys[:KEY], keys[KEY : 2 * KEY])[:: 1 if first else -1]
        protected = ProtectedChannel(channel, give, take)
        await protected.write(self.identity.sign(_end_to_sign(name, first)))
        signature = await _read_exactly(protected, SIGNATURE)
        if not verify(self.pins[peer], signature, _end_to_sign(name, not first)):
            raise ConnectionRefusedError(f"{peer} has not the identity that is pinned for it")
        return protected


def _end_to_sign(name: bytes, first: bool) -> bytes:
    """What an end of a connection signs."""
    return b"secfc connection 1" + bytes([first]) + name


async def _read_exactly(channel: Channel, count: int) -> bytes:
    data = b""
    while len(data) < count:
        some = await channel.read(count - len(data))
        if not some:
            raise ConnectionResetError("the connection ended before both ends were known")
        data += some
    return data
