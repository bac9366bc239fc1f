"""Keys of several parts: tuples whose bytes sort as their parts do.

The bytes are those of `lockstep::Key` (C++) and `lockstep_key` (C):

| part                     | bytes                                                            |
|--------------------------|------------------------------------------------------------------|
| int, any __index__       | 8, big-endian, the sign bit flipped (`i64`)                      |
| I32                      | 4, big-endian, the sign bit flipped                              |
| U8, U16, U32, U64        | 1, 2, 4, 8, big-endian                                           |
| str                      | UTF-8, as bytes                                                  |
| bytes, buffer of bytes   | each zero byte followed by FF, then two zero bytes as end mark   |

Two keys sort as their parts if parts at equal places have equal types.

An integer of another library, such as numpy.int64, is the int of its __index__. A numpy.str_ is a
str. A buffer is one of bytes if it has a dimension and the format B, b or c, as bytearray, a
memoryview of bytes, or an array of numpy.uint8. All else is a TypeError: a bool, which is no number
of a record, also numpy's; floats; arrays of other elements, whose memory differs by machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from . import _core

if TYPE_CHECKING:
    from typing_extensions import Buffer


class U8(int):
    """A part of a key: an unsigned integer of one byte."""


class U16(int):
    """A part of a key: an unsigned integer of two bytes."""


class U32(int):
    """A part of a key: an unsigned integer of four bytes."""


class U64(int):
    """A part of a key: an unsigned integer of eight bytes."""


class I32(int):
    """A part of a key: a signed integer of four bytes."""


_NUMBERS: dict[type[int], tuple[int, int]] = {  # bytes, and what is added before
    U8: (1, 0),
    U16: (2, 0),
    U32: (4, 0),
    U64: (8, 0),
    I32: (4, 1 << 31),
    int: (8, 1 << 63),
}


def pack_key(*parts: Part) -> bytes:
    """The bytes of a key of these parts. A tuple as a key is encoded in the same way.

    Raises OverflowError if a number does not fit its type, TypeError for other types. A key that is
    too long gives more bytes than any index takes.
    """
    return _core.encode(parts)


def unpack_key(key: Buffer, *types: type[Any]) -> tuple[Any, ...]:
    """The parts of a key, whose types are given: int, str, bytes, U8, U16, U32, U64 or I32.

    Raises ValueError if the bytes are not a key of such parts.
    """
    data = _core.buffer_bytes(key)
    parts: list[Any] = []
    at = 0
    for kind in types:
        if kind in _NUMBERS:
            size, bias = _NUMBERS[kind]
            if at + size > len(data):
                raise ValueError(f"the key ends within part {len(parts)}, a {kind.__name__}")
            parts.append(kind(int.from_bytes(data[at : at + size], "big") - bias))
            at += size
        elif kind in (str, bytes):
            text, at = _text(data, at, len(parts))
            parts.append(text.decode() if kind is str else text)
        else:
            raise TypeError(f"a part of a key is never a {kind.__name__}")
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes follow the last part of the key")
    return tuple(parts)


def _text(data: bytes, at: int, place: int) -> tuple[bytes, int]:
    """The text from `at` on without escapes, and where the next part begins."""
    text = bytearray()
    while True:
        zero = data.find(b"\0", at)
        if zero < 0 or zero + 1 == len(data):
            raise ValueError(f"part {place} of the key has no end mark")
        text += data[at:zero]
        at = zero + 2
        if data[zero + 1] == 0:
            return bytes(text), at
        if data[zero + 1] != 0xFF:
            raise ValueError(f"part {place} of the key has a zero byte without FF behind it")
        text.append(0)


def after_prefix(prefix: bytes) -> bytes:
    """The smallest bytes above all that begin with `prefix`; empty if there are none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else b""


Part: TypeAlias = "int | str | Buffer"
#: What an operation takes as a key.
Key: TypeAlias = "str | Buffer | tuple[Part, ...]"
#: What an operation takes as a value.
Value: TypeAlias = "str | Buffer"
