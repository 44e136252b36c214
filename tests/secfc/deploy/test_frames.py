"""Frames of a stream of bytes, cut anywhere, beside the library's own; and what a hub holds of slow pairs."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("websockets")

from websockets.frames import Frame, Opcode

from secfc.deploy.hub import TOTAL, ForwardingPipes, Hub
from secfc.deploy.rendezvous import meet_at_hub
from secfc.deploy.websocket import BINARY, CLOSE, PIECE, PING, Frames, NoFrame, make_frame
from tests.secfc.deploy.test_hub import KEYS, NAMES, RUN, url_of

MASK = b"\x01\x80\xff\x37"


def heard(data, masked, cuts):
    """All that these bytes bring, cut there."""
    frames, stream, others = Frames(masked), b"", []
    for start, end in zip((0, *cuts), (*cuts, len(data)), strict=True):
        for code, piece in frames.feed(memoryview(data)[start:end]):
            if code == BINARY:
                stream += piece
            else:
                others.append((code, piece))
    return stream, others


@given(st.lists(st.binary(max_size=300), max_size=6), st.booleans(), st.data())
def test_a_stream_in_frames_is_the_same_wherever_it_is_cut(pieces, masked, data):
    said = b"".join(make_frame(piece, MASK if masked else b"") for piece in pieces)
    theirs = (
        Frame(Opcode.PING, b"are you there").serialize(mask=masked),
        make_frame(b"", MASK * masked, CLOSE),
    )
    said += b"".join(theirs)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(said)), max_size=8)))
    assert heard(said, masked, cuts) == (b"".join(pieces), [(PING, b"are you there"), (CLOSE, b"")])


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, PIECE])
@pytest.mark.parametrize("masked", [False, True])
def test_frames_are_those_of_the_library(size, masked):
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    theirs = Frame(Opcode.BINARY, data).serialize(mask=masked)
    assert heard(theirs, masked, ()) == (data, [])
    if not masked:
        assert make_frame(data) == theirs


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (make_frame(b"x"), "masked by the wrong end"),
        (b"\xc2\x81" + MASK, "compressed"),
        (b"\x81\x81" + MASK, "of no kind"),
        (b"\x82\xff" + (PIECE + 1).to_bytes(8, "big") + MASK, "are allowed"),
        (b"\x89\xfe" + (126).to_bytes(2, "big") + MASK, "are allowed"),
        (b"\xff" * 40, "compressed"),
    ],
)
def test_what_is_no_frame_is_refused(said, why):
    with pytest.raises(NoFrame, match=why):
        heard(said, True, ())


def test_all_pairs_of_thirty_parties_that_do_not_read_stay_within_what_a_hub_may_hold():
    pipes = ForwardingPipes(lambda nbytes: None)
    for directions in (2, 20, 30 * 31, 100 * 99):
        pipes.open = set(range(directions))
        high, read = pipes.share()
        assert read >= 1 << 12
        assert directions * (high + read) <= TOTAL + directions * (1 << 13)
        if directions <= 930:
            assert directions * (high + read) <= TOTAL


def test_pairs_that_do_not_read_are_held_within_bounds_and_delay_nobody():
    async def converse():
        names = NAMES[:4]
        hub = Hub({RUN: {name: KEYS[name].public for name in names}})
        async with hub.serving() as server:
            url = url_of(server)
            pairs = [(a, b) for a in names for b in names if a != b]
            ends = await asyncio.gather(*(meet_at_hub(url, RUN, a, b, KEYS[a]) for a, b in pairs))
            ends = dict(zip(pairs, ends, strict=True))
            free = names[:2]
            full = [
                asyncio.create_task(end.write(bytes(1 << 25)))
                for pair, end in ends.items()
                if pair not in (free, free[::-1])
            ]
            before = -1
            while before < hub.counters.forwarded:  # until nothing moves any more
                before = hub.counters.forwarded
                await asyncio.sleep(0.4)
            assert not any(task.done() for task in full)
            assert 1 << 20 < hub.held() <= TOTAL
            before = asyncio.get_running_loop().time()
            await ends[free].write(b"hello")
            assert await asyncio.wait_for(ends[free[::-1]].read(5), 2) == b"hello"
            taken = asyncio.get_running_loop().time() - before
            for task in full:
                task.cancel()
            await asyncio.gather(*full, return_exceptions=True)
            for end in ends.values():
                end.abort()
            return taken

    assert asyncio.run(converse()) < 0.5


@pytest.mark.nightly
@pytest.mark.deployment
def test_a_hub_of_thirty_clients_whose_readers_are_all_slow_takes_a_hundred_megabytes_at_most():
    from benchmarks.deploy import SESSION, serving
    from field import SystemCoins
    from field.secrets.channels import Identity

    names = [f"client-{i}" for i in range(30)] + ["server"]
    keys = {name: Identity(SystemCoins().bytes(32)) for name in names}
    pairs = [(a, b) for a in names for b in names if a != b]

    async def stuff(url):
        gate = asyncio.Semaphore(40)
        ends = {}

        async def come(a, b):
            # Both ends of a pair at once, and not all pairs.
            async with gate:
                both = (meet_at_hub(url, SESSION, a, b, keys[a]), meet_at_hub(url, SESSION, b, a, keys[b]))
                ends[a, b], ends[b, a] = await asyncio.gather(*both)

        await asyncio.gather(*(come(a, b) for a, b in pairs if a < b))
        full = [asyncio.create_task(end.write(bytes(1 << 23))) for end in ends.values()]
        await asyncio.sleep(30)
        stuck = sum(not task.done() for task in full)
        for task in full:
            task.cancel()
        await asyncio.gather(*full, return_exceptions=True)
        for end in ends.values():
            end.abort()
        await asyncio.sleep(0.5)
        return stuck

    with serving({name: key.public for name, key in keys.items()}) as (port, ask):
        stuck = asyncio.run(stuff(f"ws://127.0.0.1:{port}"))
        found = ask()
    assert stuck > len(pairs) // 2
    assert found["memory"] < 100, found
