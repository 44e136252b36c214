"""The codec under arbitrary bytes: one typed error, no leftover bytes, no memory that was not paid for."""

import importlib.util
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secfc.coded import messages as own
from secfc.roles import messages as shared
from secfc.transport import wire
from tests.nightly import short, trials
from tests.secfc.fuzz_wire import check, check_memory, mutate
from tests.secfc.queries import query
from tests.secfc.transport.test_wire import MESSAGES, every_message, examples

FRAMES = [wire.encode(message) for message in examples()]
steps = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 400), st.integers(0, 2**64 - 1)), max_size=5)
mutated = st.builds(mutate, st.sampled_from(FRAMES), steps)
HEADERS = [frame[:3] for frame in FRAMES]
noise = st.builds(bytes.__add__, st.sampled_from([b"", *HEADERS]), st.binary(max_size=200))


@given(noise | mutated)
def test_any_bytes_are_one_message_or_refused(data):
    check(data)


@every_message
def test_mutated_messages_are_one_message_or_refused(cls):
    @trials(12)
    @given(MESSAGES[cls], steps)
    def law(message, steps):
        check(mutate(wire.encode(message), steps))

    law()


@given(noise | mutated)
def test_memory_is_paid_for_by_the_bytes(data):
    check_memory(data)


def test_large_messages_are_paid_for_too():
    for message in (
        own.CodedDistances(np.zeros((2, 4, 1 << 14), np.uint32)),
        shared.Contributors(np.zeros(1 << 16, bool)),
        query("DistanceQuery", 0, 2, np.zeros(1 << 16, np.int8), np.arange(1 << 14, dtype=np.int32)),
    ):
        check_memory(wire.encode(message))


# --- what the target would notice -------------------------------------------------------------------


def lenient_about_the_end(data):
    """Forgets what is left over."""
    for end in range(len(data), 2, -1):
        try:
            return wire.decode(data[:end])
        except wire.WireError:
            continue
    raise wire.WireError("no message")


def untyped(data):
    """Finds the class without asking whether there is one."""
    wire.registry()[int.from_bytes(data[1:3], "little")]
    return wire.decode(data)


def trusting(data):
    """Makes room for an array before it has seen its bytes."""
    if data[1:3] == (6).to_bytes(2, "little") and len(data) > 29 and data[4] == 3:
        lengths = [int.from_bytes(data[5 + 8 * i : 13 + 8 * i], "little") for i in range(3)]
        if math.prod(lengths) < 1 << 40:
            np.empty(lengths, np.uint64)
    return wire.decode(data)


def unchecked(data):
    """Skips the constructor's rules."""
    try:
        return wire.decode(data)
    except wire.WireError as error:
        if "break its rules" in str(error):
            raise ValueError("malformed") from None
        raise


@pytest.mark.parametrize("sloppy", [lenient_about_the_end, untyped, trusting, unchecked])
def test_a_sloppy_decoder_is_caught_by_the_same_target(sloppy):
    # The same bytes that the codec passes; every control is caught within them.
    rng = np.random.default_rng(0)
    caught = 0
    for _ in range(short(1000, nightly=3000)):
        frame = FRAMES[rng.integers(len(FRAMES))]
        drawn = rng.integers(0, 2**62, (rng.integers(1, 3), 3)).tolist()
        if rng.random() < 0.3:  # lengths that are large and not absurd
            drawn = [(3, 5 + 8 * int(rng.integers(3)), int(rng.integers(1 << 22)))]
        data = mutate(frame, drawn)
        check(data)
        try:
            check(data, sloppy)
            if sloppy is trusting:
                check_memory(data, sloppy)
        except Exception:
            caught += 1
    assert caught > 0


@pytest.mark.nightly
def test_atheris_finds_nothing_in_a_moment():
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed")
    command = [sys.executable, "-m", "tests.secfc.fuzz_wire", "-max_total_time=30"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
