"""A fuzz target for the codec: any bytes are one message, exactly, or are refused; and cheaply.

`check(data)` is the target.  The suite feeds it with Hypothesis (`tests/secfc/transport/test_fuzz_wire.py`):
random bytes and mutated messages.  With atheris installed, libFuzzer feeds it, guided by coverage:

    python -m tests.secfc.fuzz_wire -max_total_time=600 [CORPUS_DIR]
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

if __name__ == "__main__":
    import atheris

    with atheris.instrument_imports(include=["secfc", "psu"]):
        from secfc.transport import wire
        from tests.loading import every_message

        every_message()
else:
    from secfc.transport import wire
    from tests.loading import every_message

    every_message()

# Views of arrays cost nothing, copies of unaligned ones and of integers as much as they are long; a Python
# integer of a tuple is 4 bytes on the wire and some 40 in memory.
PEAK = 64
FIXED = 1 << 16

Decode = Callable[[bytes], Any]


def check(data: bytes, decode: Decode = wire.decode) -> Any:
    """The message that these bytes are, None if they are refused.

    Raises AssertionError, or whatever else the decoder raises beside WireError, if the decoder is wrong.
    """
    try:
        message = decode(data)
    except wire.WireError:
        return None
    assert wire.encode(message) == data, "bytes are left over, or a message has two encodings"
    return message


def check_memory(data: bytes, decode: Decode = wire.decode) -> None:
    """Raises AssertionError if decoding takes more memory than the bytes pay for."""
    tracemalloc.start()
    try:
        check_quietly(data, decode)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= FIXED + PEAK * len(data), f"{peak} bytes were allocated for {len(data)}"


def check_quietly(data: bytes, decode: Decode) -> None:
    try:
        decode(data)
    except wire.WireError:
        pass
    except MemoryError:
        raise AssertionError("the decoder asked for more memory than there is") from None


def mutate(data: bytes, steps: list[tuple[int, int, int]]) -> bytes:
    """A valid frame, changed a few times: (what to do, where, with what)."""
    out = bytearray(data)
    for what, where, value in steps:
        at = where % (len(out) + 1)
        match what % 7:
            case 0:
                out[at : at + 1] = bytes([value & 255])
            case 1:
                out[at:at] = bytes([value & 255]) * (1 + value % 9)
            case 2:
                del out[at : at + 1 + value % 9]
            case 3:  # a length or a count: small, huge, or nearly right
                out[at : at + 8] = (value % 2**64).to_bytes(8, "little")
            case 4:
                out[at : at + 8] = (2**63 - value % 4).to_bytes(8, "little")
            case 5:
                out += out[at:]
            case _:
                del out[at:]
    return bytes(out)


def main() -> None:
    """Fuzz with atheris until it stops or finds something."""
    from tests.secfc.transport.test_wire import examples

    seeds = [wire.encode(message) for message in examples()]

    def target(data: bytes) -> None:
        # The first byte chooses a valid frame to start from, or none.
        number = data[0] if data else 255
        frame = seeds[number] if number < len(seeds) else b""
        tail = data[1:]
        keep = tail[0] % (len(frame) + 1) if frame and tail else 0
        check(frame[:keep] + tail[1:] if frame else tail)

    atheris.Setup(sys.argv, target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
