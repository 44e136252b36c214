"""Sealed transport: what parties say to one another, nobody on the way reads, alters, repeats or reorders.

`seal_role` wraps the role of a party.  All that speak with each other first agree on keys
(`secfc.transport.handshake`):
ephemeral X25519 keys, and Ed25519 signatures of all that was said until then.  From then on every message
leaves as ciphertext (AES-256-GCM, one key a message), bound to the handshake, the sender, the recipient and
the round of the exchange, which rises from each party to each other and so numbers the messages.  The round
travels beside the ciphertext, since a party may await whatever the server says next; of the rest both ends
know everything.

The server is a party like any other: it can open what is said to it and nothing that clients say to one
another.  Where its links are protected otherwise (TLS), clients may seal among themselves alone: messages
to and from parties that are not named pass unchanged, and flipped bits in them are the transport's business.

Assumes that identities are right: pinned beforehand, or, without pins, introduced over a transport that is
honest at that moment.  Without pins a relay can sit between two groups of parties, but only if it carries
all that any of one says to any of the other: parties sign every greeting that they got, so a single honest
line across is noticed.  A relay can still withhold messages, which looks like silence.  Hidden is what is
said, not who speaks when nor how much: a ciphertext is 16 bytes longer than the encoding of the message, or
than each 64 MiB of it; of the plan a greeting shows a digest.  Python cannot erase memory, so forward secrecy
begins when the process ends, and where a journal is kept, when that is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from field.secrets.channels import BrokenSeal, Identity, SealedChannel
from field.secrets.coins import Coins
from secfc.errors import InputError, PlanMismatch, ProtocolError, TamperedMessage
from secfc.roles.description import describe_differences
from secfc.roles.exchange import (
    END,
    GREET,
    Exchange,
    Inbox,
    Links,
    PartyId,
    Role,
    Settled,
    blame_error,
    expect_all,
    to_all,
)
from secfc.roles.messages import Message
from secfc.transport import wire
from secfc.transport.handshake import Countersign, Greeting, Handshake, HandshakeRefused

M = TypeVar("M")
R = TypeVar("R")

OVERHEAD = 16
# Bytes that are encrypted together: a large message is sealed in pieces, each bound to its place.
PIECE = 1 << 26


class Sealed(Message, tag=130):
    """Party to party: the message of a round, encrypted and authenticated; says nothing but its size.

    Under "sealed transport": party, party.  Seen: sizes and times.  By deviating: bytes that do not open
    end the run (`TamperedMessage`), naming the peer or whoever carries them.
    """

    number: int
    ciphertext: bytes

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError("rounds count from 0")
        if len(self.ciphertext) < OVERHEAD:
            raise ValueError(f"a ciphertext has at least {OVERHEAD} bytes")


def seal_role(
    role: Role[R],
    me: PartyId,
    parties: tuple[PartyId, ...],
    description: bytes,
    coins: Coins,
    *,
    identity: Identity | None = None,
    identities: Mapping[PartyId, bytes] | None = None,
    central: tuple[PartyId, ...] | None = None,
) -> Role[R]:
    """The role of party `me`, its messages to the other parties sealed.  All of them must be wrapped.

    parties: those that seal, in the same order everywhere: the clients, and the server unless its links are
    protected otherwise.  description: of what must be the same at all, the plan's.  coins: secret; keys are
    drawn from them before the role starts.  identity: the long-term key of this party, drawn anew if None.
    identities: everybody's pinned public keys.  central: of `Links`, all parties by default; others need
    pins, as nobody compares their greetings.

    The role sends nothing before round GREET + 2, and in rounds that rise.

    Raises TamperedMessage; PlanMismatch, FaultyClient or FaultyServer (genuine, but no message),
    TooFewReplies.
    """
    if me not in parties or len(set(parties)) != len(parties):
        raise InputError(f"{me!r} must be one of the parties, and their names must differ")
    if identities is not None:
        if missing := sorted(set(parties) - set(identities)):
            raise InputError(f"no identity is pinned for {', '.join(missing)}: pin every party's")
        if identity is None or identity.public != identities[me]:
            raise InputError(f"{me!r} needs the identity that the others have pinned for it")
    links = Links(parties, parties if central is None else central)
    if identities is None and links.central_set != set(parties):
        raise InputError("parties that do not all speak with each other need pinned identities: give them")
    return _sealed(role, me, links, description, coins, identity or Identity.draw(coins), identities)


def _sealed(
    role: Role[R],
    me: PartyId,
    links: Links,
    description: bytes,
    coins: Coins,
    identity: Identity,
    identities: Mapping[PartyId, bytes] | None,
) -> Role[R]:
    try:
        lines = yield from exchange_greetings(me, links, description, coins, identity, identities)

        inbox: Any = None
        fault: ProtocolError | None = None
        while True:
            try:
                # The role says its last word of a fault, in a seal like any other.
                exchange = role.send(inbox) if fault is None else role.throw(fault)
            except StopIteration as done:
                result: R = done.value
                return result
            if fault is not None and exchange.round != END:  # nobody goes on after what was not opened
                raise fault
            # One message at a time is encoded: a second copy of all plaintexts is never held.
            send = {
                to: lines[to].seal(exchange.round, message) if to in lines else message
                for to, message in exchange.send.items()
            }
            arrived = yield exchange.change(send=send)
            inbox, fault = _open_all(lines, exchange, arrived)
    finally:
        role.close()


def _open_all(
    lines: Mapping[PartyId, SealedLine], exchange: Exchange, arrived: Mapping[PartyId, Any]
) -> tuple[Inbox, ProtocolError | None]:
    """What came, opened; and the first fault, if something cannot be."""
    # No second copy of all ciphertexts is held: each is let go as soon as it is opened.
    waiting, inbox = dict(arrived), Inbox({}, arrived.rounds if isinstance(arrived, Inbox) else {})
    if isinstance(arrived, Inbox):
        arrived.clear()
    for sender in list(waiting):
        message = waiting.pop(sender)
        plain = sender not in lines or isinstance(message, Settled)
        try:
            inbox[sender] = message if plain else lines[sender].open(exchange, message)
        except ProtocolError as error:
            return inbox, error
        del message
    return inbox, None


def exchange_greetings(
    me: PartyId,
    links: Links,
    description: bytes,
    coins: Coins,
    identity: Identity,
    identities: Mapping[PartyId, bytes] | None,
) -> Role[dict[PartyId, SealedLine]]:
    """Agree on keys with every peer, and find that all hold the same plan: a line to each."""
    others, parties, number = links.peers_of(me), links.parties, links.party_places
    hands = Handshake(number[me], parties, description, identity, coins, links)
    try:
        inbox = yield from _meet(to_all(others, hands.greeting), others, GREET, Greeting)
        for peer in others:
            if identities is not None and inbox[peer].identity != identities[peer]:
                raise TamperedMessage(peer, "another identity than the pinned one came")
        signed = hands.countersign({number[c]: inbox[c] for c in others})
        send = {c: signed[number[c]] for c in others}
        answers = yield from _meet(send, others, GREET + 1, Countersign)
        described = {c: hands.open(number[c], answers[c]) for c in others}
    except HandshakeRefused as error:
        raise TamperedMessage(parties[error.party], error.why) from None
    if differing := {
        c: describe_differences(description, d) for c, d in described.items() if d != description
    }:
        raise PlanMismatch(differing)
    return {parties[j]: SealedLine(parties[j], channel) for j, channel in hands.channels().items()}


def _meet(
    send: Mapping[PartyId, Message], others: tuple[PartyId, ...], number: int, kind: type[M]
) -> Role[Mapping[PartyId, M]]:
    """One step of the handshake, which needs everybody."""
    inbox = yield Exchange(send, others, round=number, phase="greet")
    for peer, message in inbox.items():
        if not isinstance(message, kind):
            raise TamperedMessage(peer, f"{type(message).__name__} came instead of a {kind.__name__}")
    return expect_all(inbox, others)


class SealedLine:
    """One party's end of its connection to a peer: seals what leaves, opens what comes.

    Rounds rise from one party to another (see `Exchange`), so a round is the number of a message: each
    is sealed once and opened once, and none is opened after a later one.
    """

    def __init__(self, peer: PartyId, channel: SealedChannel) -> None:
        self.peer, self._channel, self._opened = peer, channel, GREET + 1

    def __repr__(self) -> str:
        return f"Line({self.peer!r})"

    def seal(self, number: int, message: Any) -> Sealed:
        """My message to the peer in the round of this number.  Raises AlreadyUsed for a second one."""
        size = wire.encoded_size(message)
        count = max(1, -(-size // PIECE))
        line = f"sealed {self._channel.me}>{self._channel.peer} {number}"
        done = self._channel.seal_pieces(line, _pieces(wire.buffers(message), PIECE), count)
        return Sealed(number, done[0] if count == 1 else b"".join(done))

    def open(self, exchange: Exchange, message: Any) -> Any:
        """The peer's message that this exchange awaits."""
        if not isinstance(message, Sealed):
            raise TamperedMessage(self.peer, f"{type(message).__name__} came unsealed")
        try:
            due = exchange.due((message.number,)) is not None
            ends = message.number == END and self.peer in exchange.heed
            if not (due or ends) or message.number <= self._opened:
                raise BrokenSeal("a message of another round came")
            line = f"sealed {self._channel.peer}>{self._channel.me} {message.number}"
            data = self._opened_pieces(line, memoryview(message.ciphertext))
        except BrokenSeal:
            why = "an altered, repeated, reordered or misdirected message came"
            raise TamperedMessage(self.peer, why) from None
        self._opened = message.number
        try:
            return wire.decode(data)
        except wire.WireError as error:
            raise blame_error(self.peer, f"sent bytes that are no message ({error})") from None

    def _opened_pieces(self, line: str, ciphertext: memoryview) -> memoryview:
        """The encoding of a message, from its pieces: all of them, in their order."""
        step = PIECE + OVERHEAD
        count = -(-len(ciphertext) // step)
        size = len(ciphertext) - count * OVERHEAD
        if size <= (count - 1) * PIECE:
            raise BrokenSeal("a piece of a message is empty")
        data = np.empty(size, np.uint8).data
        pieces = (ciphertext[i * step : (i + 1) * step] for i in range(count))
        for i, piece in enumerate(self._channel.open_pieces(line, pieces, count)):
            data[i * PIECE : i * PIECE + len(piece)] = piece
        return data


def _pieces(parts: list[bytes | memoryview], size: int) -> Iterator[bytes]:
    """The bytes of these parts, so many at a time."""
    held, piece = 0, bytearray()
    for part in parts:
        view = memoryview(part)
        while len(view):
            taken = view[: size - held]
            piece += taken
            held, view = held + len(taken), view[len(taken) :]
            if held == size:
                yield bytes(piece)
                held, piece = 0, bytearray()
    if held:
        yield bytes(piece)
