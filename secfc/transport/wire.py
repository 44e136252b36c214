"""Messages as bytes: one codec for every message of SecFC, its rivals and the private set union.

    message   version (1 byte)  tag (2)  the fields, in the order they are declared
    int       8 bytes, signed              bool      1 byte, 0 or 1
    bytes     length (8), the bytes        str       the same in UTF-8
    tuple     length (4), 4 bytes an item  X | None  1 byte, 0 or 1, then X if it was 1
    Enum      1 byte, its value            dataclass its fields, in the order they are declared
    array     dtype (1)  axes (1)  the shape, 8 bytes an axis  zeros up to a multiple of 8  the elements

Everything is little-endian, arrays are in C order.  A message has one encoding and an encoding one
message.  Decoding allocates nothing that the received bytes do not pay for, checks every rule above and
those of the message's constructor, and raises WireError and nothing else; errors name a rule, never
contents.  Tags stand where messages are defined, and are never used again for something else.

Nothing is authenticated or encrypted here: see `secfc.transport.sealed`.
"""

from __future__ import annotations

import math
import struct
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from field.arrays import Array
from secfc.roles.exchange import Envelope, blame_error
from secfc.roles.messages import TAGS, Message
from secfc.transport.simulate import Faults, deliver_all

Bytes = bytes | bytearray | memoryview

VERSION = 1
# A party refuses larger messages unless it is told otherwise.
MAXIMUM = 1 << 32
ALIGNMENT, MAX_AXES, MAX_ELEMENTS = 8, 8, 1 << 48
# Of tuples and strings, which take many times their size in memory: arrays are for what is large.
MAX_ITEMS = 1 << 16

DTYPES = {
    code: np.dtype(name).newbyteorder("<")
    for code, name in enumerate(("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "?"), 1)
}
_CODES = {dtype: code for code, dtype in DTYPES.items()}


class WireError(ValueError):
    """These bytes are no message, or this object cannot be one: says which rule is broken."""


def registry() -> dict[int, type[Message]]:
    """Every message class that is loaded, by its tag: those of the algorithms that this process runs."""
    return dict(TAGS)


# --- kinds of fields --------------------------------------------------------------------------------


class _Writer:
    """Parts of an encoding.  Arrays stay as they are until they are needed as bytes."""

    def __init__(self) -> None:
        self.parts: list[bytes | Array] = []
        self.size = self.contents = 0  # bytes in all; bytes that are no framing

    def frame(self, value: int, width: int) -> None:
        self.parts.append(value.to_bytes(width, "little"))
        self.size += width

    def put(self, part: bytes | Array) -> None:
        size = part.nbytes if isinstance(part, np.ndarray) else len(part)
        self.parts.append(part)
        self.size += size
        self.contents += size


class _Reader:
    def __init__(self, data: memoryview) -> None:
        self.data, self.at, self.size = data, 0, len(data)

    def take(self, size: int) -> memoryview:
        begin = self.at
        if size > self.size - begin:
            raise WireError("bytes are missing at the end")
        self.at = begin + size
        return self.data[begin : self.at]

    def frame(self, width: int) -> int:
        return int.from_bytes(self.take(width), "little")

    def byte(self) -> int:
        if self.at >= self.size:
            raise WireError("bytes are missing at the end")
        self.at += 1
        return self.data[self.at - 1]

    def align(self) -> None:
        """Go over zeros to the next multiple of the alignment."""
        if (over := -self.at % ALIGNMENT) and any(self.take(over)):
            raise WireError("padding is zero")

    def frames(self, count: int) -> tuple[int, ...]:
        """So many of 8 bytes."""
        return struct.unpack(f"<{count}Q", self.take(8 * count))


@dataclass(frozen=True)
class _Kind:
    """How one type of field is written and read; `name` is for errors."""

    name: str
    put: Callable[[_Writer, Any], None]
    read: Callable[[_Reader], Any]


def _refuse(wrong: bool, rule: str) -> None:
    if wrong:
        raise WireError(rule)


def _put_int(out: _Writer, value: Any) -> None:
    _refuse(not isinstance(value, int | np.integer) or isinstance(value, bool), "it is no integer")
    _refuse(not -(2**63) <= value < 2**63, "integers have 64 bits")
    out.put(int(value).to_bytes(8, "little", signed=True))


def _read_int(data: _Reader) -> int:
    return int.from_bytes(data.take(8), "little", signed=True)


def _put_bool(out: _Writer, value: Any) -> None:
    _refuse(not isinstance(value, bool | np.bool), "it is no bool")
    out.put(b"\1" if value else b"\0")


def _read_bool(data: _Reader) -> bool:
    value = data.frame(1)
    _refuse(value > 1, "a bool is 0 or 1")
    return bool(value)


def _put_bytes(out: _Writer, value: Any) -> None:
    _refuse(not isinstance(value, bytes), "it is no bytes")
    out.frame(len(value), 8)
    out.put(value)


def _read_bytes(data: _Reader) -> bytes:
    return bytes(data.take(data.frame(8)))


def _put_str(out: _Writer, value: Any) -> None:
    _refuse(not isinstance(value, str), "it is no string")
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise WireError("strings are UTF-8") from None
    _refuse(len(data) > MAX_ITEMS, f"strings have at most {MAX_ITEMS} bytes")
    _put_bytes(out, data)


def _read_str(data: _Reader) -> str:
    size = data.frame(8)
    _refuse(size > MAX_ITEMS, f"strings have at most {MAX_ITEMS} bytes")
    try:
        return bytes(data.take(size)).decode()
    except UnicodeDecodeError:
        raise WireError("strings are UTF-8") from None


def _put_tuple(out: _Writer, value: Any) -> None:
    _refuse(not isinstance(value, tuple), "it is no tuple")
    _refuse(len(value) > MAX_ITEMS, f"tuples have at most {MAX_ITEMS} items")
    out.frame(len(value), 4)
    for item in value:
        _refuse(not isinstance(item, int | np.integer) or isinstance(item, bool), "items are integers")
        _refuse(not 0 <= item < 2**32, "items of tuples have 32 bits and no sign")
        out.put(int(item).to_bytes(4, "little"))


def _read_tuple(data: _Reader) -> tuple[int, ...]:
    count = data.frame(4)
    _refuse(count > MAX_ITEMS, f"tuples have at most {MAX_ITEMS} items")
    items = data.take(4 * count)
    return tuple(np.frombuffer(items, "<u4").tolist())


def _put_array(out: _Writer, value: Any) -> None:
    _refuse(not isinstance(value, np.ndarray), "it is no array")
    code = _CODES.get(value.dtype.newbyteorder("<"))
    if code is None:
        raise WireError("this dtype has no code")
    _check_shape(value.shape)
    out.frame(code, 1)
    out.frame(value.ndim, 1)
    for length in value.shape:
        out.frame(length, 8)
    out.frame(0, -out.size % ALIGNMENT)
    out.put(value)


def _read_array(data: _Reader) -> Array:
    dtype = DTYPES.get(data.byte())
    if dtype is None:
        raise WireError("no dtype has this code")
    axes = data.byte()
    if axes > MAX_AXES:
        raise WireError(f"arrays have at most {MAX_AXES} axes")
    shape = data.frames(axes)
    _check_shape(shape)
    data.align()
    elements = data.take(math.prod(shape) * dtype.itemsize)
    if dtype == np.bool_:
        _refuse(bool((np.frombuffer(elements, np.uint8) > 1).any()), "a bool is 0 or 1")
    view = np.frombuffer(elements, dtype).reshape(shape)
    if not view.flags.aligned:
        # A message that begins at an odd address; compiled kernels want aligned elements.
        view = view.copy()
        view.flags.writeable = False
    return view


def _check_shape(shape: tuple[int, ...]) -> None:
    if len(shape) > MAX_AXES:
        raise WireError(f"arrays have at most {MAX_AXES} axes")
    # An axis of length 0 must not make room for others that NumPy cannot hold.
    if (math.prod(shape) or math.prod(max(n, 1) for n in shape)) > MAX_ELEMENTS:
        raise WireError("an array has too many elements")


def _optional(kind: _Kind) -> _Kind:
    def put(out: _Writer, value: Any) -> None:
        out.frame(value is not None, 1)
        if value is not None:
            kind.put(out, value)

    def read(data: _Reader) -> Any:
        present = data.frame(1)
        _refuse(present > 1, "presence is 0 or 1")
        return kind.read(data) if present else None

    return _Kind(f"{kind.name} or none", put, read)


_KINDS: dict[Any, _Kind] = {
    int: _Kind("int", _put_int, _read_int),
    bool: _Kind("bool", _put_bool, _read_bool),
    bytes: _Kind("bytes", _put_bytes, _read_bytes),
    str: _Kind("str", _put_str, _read_str),
    tuple[int, ...]: _Kind("tuple of ints", _put_tuple, _read_tuple),
    np.ndarray: _Kind("array", _put_array, _read_array),
}


def _enumerated(declared: type[Enum]) -> _Kind:
    def put(out: _Writer, value: Any) -> None:
        _refuse(not isinstance(value, declared), f"it is no {declared.__name__}")
        out.put(value.value.to_bytes(1, "little"))

    def read(data: _Reader) -> Any:
        try:
            return declared(data.byte())
        except ValueError:
            raise WireError(f"no {declared.__name__} has this number") from None

    return _Kind(declared.__name__, put, read)


def _nested(declared: Any) -> _Kind:
    def put(out: _Writer, value: Any) -> None:
        _refuse(not isinstance(value, declared), f"it is no {declared.__name__}")
        _put_fields(out, value)

    def read(data: _Reader) -> Any:
        return _build(declared, _read_fields(declared, data))

    return _Kind(declared.__name__, put, read)


def _kind(declared: Any) -> _Kind:
    if isinstance(declared, type) and issubclass(declared, Enum):
        return _enumerated(declared)
    if is_dataclass(declared):
        return _nested(declared)
    if get_origin(declared) in (types.UnionType, Union):
        (inner,) = (a for a in get_args(declared) if a is not type(None))
        return _optional(_kind(inner))
    # Up to NumPy 2.4 NDArray[...] stands for an ndarray, later for itself.
    array = get_origin(declared) in (np.ndarray, NDArray)
    found = _KINDS.get(np.ndarray if array else declared)
    if found is None:
        raise TypeError(
            f"messages have no fields of type {declared}: teach secfc.transport.wire, or use another"
        )
    return found


# --- messages -----------------------------------------------------------------------------------


@cache
def _schema(message: Any) -> tuple[tuple[str, _Kind], ...]:
    declared = get_type_hints(message)
    return tuple((f.name, _kind(declared[f.name])) for f in fields(message))


def _write(message: Any) -> _Writer:
    cls: Any = type(message)
    tag = cls.tag if isinstance(message, Message) else None
    if tag is None:
        raise WireError(f"{cls.__name__} has no tag: give it one where it is defined")
    out = _Writer()
    out.frame(VERSION, 1)
    out.frame(tag, 2)
    _put_fields(out, message)
    return out


def _put_fields(out: _Writer, value: Any) -> None:
    cls: Any = type(value)
    for name, kind in _schema(cls):
        try:
            kind.put(out, getattr(value, name))
        except WireError as error:
            raise WireError(f"{cls.__name__}.{name}, {kind.name}: {error}") from None


def _read_fields(kind: Any, reader: _Reader) -> dict[str, Any]:
    values = {}
    for name, field in _schema(kind):
        try:
            values[name] = field.read(reader)
        except WireError as error:
            raise WireError(f"{kind.__name__}.{name}, {field.name}: {error}") from None
    return values


def _build(kind: Any, values: dict[str, Any]) -> Any:
    try:
        return kind(**values)
    except (ValueError, TypeError):
        # What a constructor says may show a number it was given.
        raise WireError(f"the fields of {kind.__name__} break its rules") from None


def encoded_size(message: Any) -> int:
    """Bytes that `encode` gives, without encoding."""
    return _write(message).size


def buffers(message: Any) -> list[bytes | memoryview]:
    """The encoding in pieces, to be sent one after the other: contiguous arrays are not copied."""
    return [flat for part in _write(message).parts if len(flat := _flat(part))]


def _flat(part: bytes | Array) -> bytes | memoryview:
    if isinstance(part, bytes):
        return part
    flat = np.ascontiguousarray(part, part.dtype.newbyteorder("<")).reshape(-1)
    return flat.view(np.uint8).data


def encode(message: Any) -> bytes:
    """The one encoding of a message; its contents are copied once.

    Raises WireError for an object that is no message, or a field of another type than declared.
    """
    return b"".join(buffers(message))


def decode(data: Bytes, maximum: int = MAXIMUM) -> Any:
    """The message of which this is the encoding.

    Arrays are read-only views of the bytes, which must not change afterwards; the last holder of an
    array keeps all bytes of its message.

    Raises WireError, also for more than `maximum` bytes.
    """
    if len(data) > maximum:
        raise WireError(f"{len(data)} bytes are more than the {maximum} allowed")
    reader = _Reader(memoryview(data).toreadonly())
    version = reader.byte()
    if version != VERSION:
        raise WireError(f"version {version} is not spoken here, only {VERSION}")
    tag = reader.frame(2)
    kind: Any = TAGS.get(tag)
    if kind is None:
        raise WireError(f"no message has tag {tag}")
    values = _read_fields(kind, reader)
    if reader.at != reader.size:
        raise WireError(f"bytes are left over after {kind.__name__}")
    return _build(kind, values)


def over_wire(faults: Faults = deliver_all, maximum: int = MAXIMUM) -> Faults:
    """A network for `simulate` that carries bytes: what `faults` lets arrive is encoded and decoded.

    Raises FaultyClient or FaultyServer naming the sender of what cannot be decoded.
    """

    def carry(envelope: Envelope) -> Iterator[Envelope]:
        for e in faults(envelope):
            try:
                contents = _write(e.body).contents
                body = decode(encode(e.body), maximum)
            except WireError as error:
                raise blame_error(e.sender, f"sent bytes that are no message ({error})") from error
            if contents != e.body.nbytes:
                raise RuntimeError(
                    f"{type(body).__name__} claims {e.body.nbytes} bytes of contents and has {contents}"
                )
            yield Envelope(e.round, e.sender, e.recipient, e.kind, e.nbytes, e.phase, body)

    return carry
