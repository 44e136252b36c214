"""WebSocket frames (RFC 6455, section 5), as far as a stream of bytes needs them.

Where frames are cut means nothing.  What leaves is one binary frame at a time; what comes is handed on as it
arrives, not first gathered to whole messages, so nobody holds more than what was just read.
"""

from __future__ import annotations

from collections.abc import Iterator

try:
    from websockets.speedups import apply_mask
except ImportError:  # where its wheel has no compiled part
    from websockets.utils import apply_mask

CONTINUED, BINARY, CLOSE, PING, PONG = 0, 2, 8, 9, 10
# Bytes of one frame, at most.
PIECE = 1 << 20


class NoFrame(ValueError):  # noqa: N818 - what came
    """These bytes are no frame of a stream of bytes."""


def make_frame(data: bytes | bytearray | memoryview, mask: bytes = b"", code: int = BINARY) -> bytes:
    """One frame of up to 1 MiB; who goes out to a hub masks, with four bytes that nobody can foresee."""
    size, masked = len(data), 0x80 if mask else 0
    first = 0x80 | code
    if size < 126:
        head = bytes((first, masked | size))
    elif size < 1 << 16:
        head = bytes((first, masked | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((first, masked | 127)) + size.to_bytes(8, "big")
    return b"".join((head, mask, apply_mask(data, mask) if mask else data))


class Frames:
    """Takes frames apart, as they come.  masked: whether the other end must mask, as who goes out does."""

    def __init__(self, masked: bool) -> None:
        self._masked = masked
        self._head = bytearray()
        self._left, self._mask, self._code = 0, b"", BINARY
        self._control = bytearray()

    def feed(self, data: memoryview) -> Iterator[tuple[int, bytes]]:
        """What these bytes bring: pieces of the stream (BINARY), and whole control frames.

        Raises NoFrame.
        """
        while len(data):
            if not self._left:
                data = self._begin(data)
                if self._head:  # which is not complete
                    return
                if not self._left and self._code >= CLOSE:
                    yield self._code, b""
                continue
            piece, data = data[: self._left], data[self._left :]
            self._left -= len(piece)
            body = apply_mask(piece, self._mask) if self._masked else bytes(piece)
            turn = len(piece) % 4
            self._mask = self._mask[turn:] + self._mask[:turn]
            if self._code < CLOSE:
                yield BINARY, body
                continue
            self._control += body
            if not self._left:
                yield self._code, bytes(self._control)
                self._control.clear()

    def _begin(self, data: memoryview) -> memoryview:
        """Take what is missing of a head; the rest."""
        head = self._head
        while len(data) and len(head) < (size := self._size()):
            taken = data[: size - len(head)]
            head += taken
            data = data[len(taken) :]
        if len(head) < self._size():
            return data
        code, length = head[0] & 0x0F, head[1] & 0x7F
        if head[0] & 0x70 or bool(head[1] & 0x80) != self._masked:
            raise NoFrame("a frame is compressed, or masked by the wrong end")
        if code not in (CONTINUED, BINARY, CLOSE, PING, PONG):
            raise NoFrame("a frame is of no kind that a stream of bytes has")
        end = len(head) - (4 if self._masked else 0)
        if length >= 126:
            length = int.from_bytes(head[2:end], "big")
        if length > (PIECE if code < CLOSE else 125):
            raise NoFrame(f"a frame of {length} bytes came, {PIECE} are allowed")
        self._left, self._mask, self._code = length, bytes(head[end:]), code
        head.clear()
        return data

    def _size(self) -> int:
        """How long this head is, as far as one can tell."""
        head = self._head
        if len(head) < 2:
            return 2
        return 2 + {126: 2, 127: 8}.get(head[1] & 0x7F, 0) + (4 if head[1] & 0x80 else 0)
