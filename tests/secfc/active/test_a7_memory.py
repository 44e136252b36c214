"""What a peer's bytes cost: a message takes about its own size, whatever is in it, also to be refused.

For every class of messages and every field of it, a message whose field is large is decoded, and the most
memory that was in use beside the bytes is measured.
"""

import asyncio
import time
import tracemalloc

import numpy as np
import pytest

from secfc.coded.messages import CodedDistances
from secfc.disclosure.checked.messages import OwnersHeard
from secfc.roles.abort import Abort
from secfc.roles.exchange import END, Exchange, Mailbox
from secfc.transport import wire
from secfc.transport.link import Link
from secfc.transport.network import run_party
from tests.secfc.queries import leaves, query, unchecked, with_leaf
from tests.secfc.transport.test_sealed import at, pair
from tests.secfc.transport.test_wire import examples, mesh

SHORT, LONG = 1 << 20, 1 << 27
SLACK = 1 << 17

EXAMPLES = {message.kind: message for message in examples()}


def large(value, size, rising):
    """The same kind of value of about so many bytes, or as large as its kind can be."""
    match value:
        case np.ndarray():
            count = size // value.dtype.itemsize
            flat = np.ones(count, value.dtype)
            if rising and value.dtype.kind in "iu":  # distinct numbers, as far as the type has them
                flat = np.arange(count).astype(value.dtype)
            # Along the axis whose length nothing fixes, or any.
            shape = [*(max(1, length) for length in value.shape[:-1]), -1]
            step = int(np.prod(shape[:-1]))
            return flat[: count // step * step].reshape(shape)
        case bytes():
            return bytes(size)
        case str():
            return "x" * size
        case tuple():
            return tuple(range(size // 4))
        case None:
            return np.ones((size // 8, 1))
    return None


def forged(message, changes):
    """The bytes of a message with these fields, by where they stand, whatever its constructor would say."""
    false = message
    for path, value in changes.items():
        false = with_leaf(false, path, value, unchecked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "MAX_ITEMS", 1 << 62)
        return wire.encode(false)


def inflated(message, size):
    """Bytes of this message with one field after the other, and all arrays at once, made large."""
    fields = {path: value for path, value in leaves(message) if path[-1] not in ("committee", "shared")}
    for rising in (False, True):
        grown = {path: large(value, size, rising) for path, value in fields.items()}
        grown = {path: value for path, value in grown.items() if value is not None}
        for path, value in grown.items():
            yield forged(message, {path: value})
        arrays = {path: value for path, value in grown.items() if isinstance(value, np.ndarray)}
        if len(arrays) > 1:
            yield forged(message, arrays)


def cost(work):
    """The most memory in use, in bytes, while this is done, and the seconds it takes."""
    tracemalloc.start()
    try:
        begin = time.process_time()
        work()
        return tracemalloc.get_traced_memory()[1], time.process_time() - begin
    finally:
        tracemalloc.stop()


def decoded(data):
    try:
        return wire.decode(data)
    except wire.WireError:
        return None


def worst(message, size):
    """How many times the size of its bytes decoding takes beside them, and processor seconds, at worst."""
    found = [(len(data), *cost(lambda data=data: decoded(data))) for data in inflated(message, size)]
    return (
        max(((most - SLACK) / length for length, most, _ in found), default=0),
        max((seconds for *_, seconds in found), default=0),
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_decoding_takes_no_more_than_the_message(name):
    assert worst(EXAMPLES[name], SHORT)[0] <= 1.0


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", EXAMPLES)
def test_decoding_a_large_message_takes_no_more_than_it(name):
    memory, seconds = worst(EXAMPLES[name], LONG)
    assert memory <= 1.0
    assert seconds < 20


def test_lists_of_what_a_peer_sent_would_be_noticed(monkeypatch):
    # As it was: numbers of clients were counted as a set of Python integers.
    def check(numbers, what):
        assert len(set(numbers.tolist())) <= len(numbers)

    monkeypatch.setattr("secfc.coded.queries.check_numbers", check)
    assert worst(EXAMPLES["DistanceQuery"], SHORT)[0] > 8


def test_more_numbers_than_clients_are_refused_at_once():
    labels = np.zeros(3, np.int8)
    with pytest.raises(ValueError, match="responders are at most 65536"):
        query("DistanceQuery", 0, 2, labels, np.arange((1 << 16) + 1, dtype=np.int32))
    with pytest.raises(ValueError, match="distinct"):
        query("DistanceQuery", 0, 2, labels, np.array([1, 2, 1], np.int32))
    with pytest.raises(ValueError, match="numbers of clients are at most 65536"):
        OwnersHeard(np.arange((1 << 16) + 1, dtype=np.int32))
    for numbers, why in (([1, 0], "ascend"), ([0, 0], "distinct"), ([-(2**63), 2**63 - 1], "from 0")):
        with pytest.raises(ValueError, match=why):
            OwnersHeard(np.array(numbers))


# --- on the way ------------------------------------------------------------------------------------


def says(message):
    yield Exchange({"b": message}, round=1)


def hears():
    inbox = yield Exchange({}, ("a",), round=1)
    return inbox["a"].nbytes


def sockets_cost(size):
    """Memory that both ends of a connection take beside the message, in units of it."""
    message = CodedDistances(np.ones((1, 2, size // 8), np.uint32))

    async def converse():
        links = await mesh(["a", "b"])
        return await asyncio.gather(run_party(says(message), links["a"]), run_party(hears(), links["b"]))

    got = []
    most, _ = cost(lambda: got.extend(asyncio.run(converse())))
    assert got[1] == message.nbytes
    return (most - (6 << 20)) / message.nbytes


def test_a_connection_takes_the_message_once():
    assert sockets_cost(1 << 26) <= 1.1


def test_a_message_beyond_what_is_allowed_is_not_read(monkeypatch):
    read, honest = [], Link.read_message
    monkeypatch.setattr(Link, "read_message", lambda self, size: read.append(size) or honest(self, size))

    def listens():
        return list((yield Exchange({}, ("a",), round=1)))

    async def converse(maximum):
        links = await mesh(["a", "b"])
        options = {"patience": 0.3, "rejoin": 0.0}
        speaking = run_party(says(CodedDistances(np.ones((1, 2, 99), np.uint32))), links["a"], **options)
        hearing = run_party(listens(), links["b"], maximum=maximum, **options)
        return (await asyncio.gather(speaking, hearing))[1]

    assert asyncio.run(converse(1 << 10)) == ["a"]
    assert len(read) == 1
    assert asyncio.run(converse(99)) == []
    assert len(read) == 1  # it was announced only


def sealed_cost(size):
    """What sealing and opening take beside the message and the ciphertext, in units of the message."""
    message = CodedDistances(np.ones((1, 2, size // 8), np.uint32))
    a, b = pair()
    sent = []
    sealing, _ = cost(lambda: sent.append(a.seal(3, message)))
    opening, _ = cost(lambda: sent.append(b.open(at(3), sent[0])))
    assert sent[1].nbytes == message.nbytes
    return sealing / message.nbytes, opening / message.nbytes


def test_a_sealed_message_is_opened_into_memory_of_its_size(monkeypatch):
    monkeypatch.setattr("secfc.transport.sealed.PIECE", 1 << 20)
    sealing, opening = sealed_cost(1 << 24)
    assert sealing <= 2.3  # the pieces, and the ciphertext they make
    assert opening <= 1.2


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_a_message_beyond_what_one_call_seals_arrives():
    # Two and a half times 2**30 bytes: the default policy's largest at a million points and 16 clusters.
    sealing, opening = sealed_cost(5 << 29)
    assert sealing <= 2.1
    assert opening <= 1.1


@pytest.mark.parametrize("ends", [False, True], ids=["goes on", "ends"])
def test_who_runs_ahead_waits_by_bytes_and_its_last_word_is_heard_all_the_same(ends, monkeypatch):
    # b says forty times a megabyte that a, who waits for c, does not take; then, perhaps, that it ends.
    block = query("DistanceQuery", 1, 2, np.zeros(1 << 20, np.int8), np.zeros(0, np.int32))
    most = 0

    def ahead():
        for number in range(1, 41 if not ends else 9):
            yield Exchange({"a": block}, round=number)
        if ends:
            yield Exchange({"a": Abort("ValueError", "", 1)}, round=END)

    def waits():
        begin = time.monotonic()
        return set((yield Exchange({}, ("c",), round=1, heed=("b",)))), time.monotonic() - begin

    def mute():
        time.sleep(1.0)
        yield Exchange()

    arrive = Mailbox.keep_message

    def noted(self, sender, number, message):
        nonlocal most
        arrive(self, sender, number, message)
        most = max(most, self.nbytes(sender))

    monkeypatch.setattr(Mailbox, "keep_message", noted)

    async def converse():
        links = await mesh(["a", "b", "c"])
        roles = {"a": waits(), "b": ahead(), "c": mute()}
        heard = asyncio.create_task(run_party(roles["a"], links["a"], rejoin=0.0, patience=20.0))
        others = [asyncio.create_task(run_party(roles[n], links[n], rejoin=0.0, patience=20.0)) for n in "bc"]
        await asyncio.gather(*others)
        return await heard

    came, seconds = asyncio.run(converse())
    assert came == ({"b"} if ends else set())
    assert (seconds < 0.8) == ends
    assert 8 << 20 <= most <= 9 << 20
