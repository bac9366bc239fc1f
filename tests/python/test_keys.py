"""test_keys - tuples as keys: their bytes are those of the C++ class Key, and sort as the parts."""

import pathlib
import struct

import lockstep
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lockstep import I32, U8, U16, U32, U64, pack_key, unpack_key

VECTORS = pathlib.Path(__file__).with_name("keys.txt")
TYPES = {"u8": U8, "u16": U16, "u32": U32, "u64": U64, "i32": I32, "i64": int}


def vectors():
    """The lines of keys.txt, which tests/sm/c/key_vectors_test.cc reads too: parts = bytes."""
    for line in VECTORS.read_text().splitlines():
        if not line.startswith("#"):
            left, _, right = line.partition("=")
            parts = [part.split(":") for part in left.split()]
            yield (
                tuple(
                    bytes.fromhex(value) if kind == "text" else TYPES[kind](value)
                    for kind, value in parts
                ),
                bytes.fromhex(right),
            )


def test_the_bytes_are_those_of_cpp():
    found = list(vectors())
    assert len(found) > 20
    for parts, expected in found:
        assert pack_key(*parts) == expected, parts


def independent(part):
    """The documented format, in other words."""
    if isinstance(part, (str, bytes)):
        text = part.encode() if isinstance(part, str) else part
        return text.replace(b"\0", b"\0\xff") + b"\0\0"
    formats = {U8: ">B", U16: ">H", U32: ">I", U64: ">Q"}
    if type(part) in formats:
        return struct.pack(formats[type(part)], part)
    if type(part) is I32:
        return struct.pack(">I", part + 2**31)
    return struct.pack(">Q", part + 2**63)


def integers(kind, low, high):
    return st.integers(low, high).map(kind)


PARTS = {
    int: st.integers(-(2**63), 2**63 - 1),
    I32: integers(I32, -(2**31), 2**31 - 1),
    U8: integers(U8, 0, 2**8 - 1),
    U16: integers(U16, 0, 2**16 - 1),
    U32: integers(U32, 0, 2**32 - 1),
    U64: integers(U64, 0, 2**64 - 1),
    str: st.text(max_size=20),
    bytes: st.binary(max_size=20) | st.lists(st.sampled_from([b"\0", b"\xff"])).map(b"".join),
}
SHAPES = st.lists(st.sampled_from(list(PARTS)), min_size=1, max_size=5)


@given(SHAPES.flatmap(lambda s: st.tuples(st.just(s), *[st.tuples(*map(PARTS.get, s))] * 2)))
def test_bytes_sort_as_parts(case):
    shape, first, second = case
    one, other = pack_key(*first), pack_key(*second)
    assert one == b"".join(map(independent, first))
    assert unpack_key(one, *shape) == first
    assert [type(part) for part in unpack_key(other, *shape)] == shape
    assert (one < other) == (first < second) and (one == other) == (first == second)


@pytest.mark.parametrize(
    "part, error",
    [
        (2**63, OverflowError),
        (-(2**63) - 1, OverflowError),
        (U8(256), OverflowError),
        (U8(-1), OverflowError),
        (U16(1 << 16), OverflowError),
        (U32(1 << 32), OverflowError),
        (U64(1 << 64), OverflowError),
        (I32(1 << 31), OverflowError),
        (True, TypeError),
        (1.5, TypeError),
        (None, TypeError),
        (("a",), TypeError),
    ],
)
def test_parts_that_do_not_fit(part, error):
    with pytest.raises(error, match="part 1 of the key"):
        pack_key("first", part)


@pytest.mark.parametrize(
    "data, kinds, message",
    [
        (b"\0" * 7, (int,), "ends within part 0"),
        (b"ab", (str,), "no end mark"),
        (b"ab\0", (str,), "no end mark"),
        (b"a\0b\0\0", (bytes,), "without FF"),
        (b"a\0\0b", (bytes,), "1 bytes follow"),
    ],
)
def test_bytes_that_are_no_key(data, kinds, message):
    with pytest.raises(ValueError, match=message):
        unpack_key(data, *kinds)


def test_types_that_are_no_part():
    with pytest.raises(TypeError, match="never a float"):
        unpack_key(b"", float)
    for wrong in (8, "text", [1]):  # bytes(8) would be eight zero bytes
        with pytest.raises(TypeError, match="a bytes-like object is required, not"):
            unpack_key(wrong, int)


def test_a_key_that_is_too_long(store, index):
    assert len(pack_key("x" * 2000)) == lockstep.KEY_BYTES_MAX + 1
    with store.transaction() as txn:
        with pytest.raises(lockstep.KeyTooLong):
            txn.put(index, ("x" * 2000,), "v")
        txn.put(index, (-5, "a", memoryview(b"b")), "v")
        assert txn.get(index, pack_key(-5, "a", b"b")) == b"v"
