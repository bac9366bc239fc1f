"""test_foreign_types - keys and values of other libraries: what they mean, or a TypeError.

The oracle says for each object what it is as a key part, as a key and as a value: the Python object
whose bytes it gives, or that it is refused. So no object gives bytes that nobody expects.
"""

import array
import ctypes
import datetime
import decimal
import enum
import fractions
import io
import mmap
import uuid

import lockstep
import numpy
import pandas
import pytest
from lockstep import I32, U8, U16, U64, pack_key, unpack_key
from lockstep._core import key_bytes

REFUSED = object()


class Indexable:
    def __index__(self):
        return -7


class Bad:
    def __index__(self):
        raise TypeError("no index")


class Broken:
    def __index__(self):
        raise ZeroDivisionError("broken")


class Level(enum.IntEnum):
    HIGH = 9


class Small(U8):
    pass


class Union(ctypes.Union):
    _fields_ = [("byte", ctypes.c_ubyte), ("word", ctypes.c_int)]


class Struct(ctypes.Structure):
    _fields_ = [("byte", ctypes.c_ubyte)]


def mapped():
    made = mmap.mmap(-1, 4)
    made[:] = b"abcd"
    return made


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
INTEGERS += ["intp", "uintp", "longlong", "ulonglong"]
# The object, what it is as a part of a key, and what as a key or value alone.
CASES = {
    **{f"numpy.{name}": (getattr(numpy, name)(100), 100, REFUSED) for name in INTEGERS},
    "numpy.int64 negative": (numpy.int64(-258), -258, REFUSED),
    "numpy 0-d integer": (numpy.array(5), 5, REFUSED),
    "numpy 0-d byte": (numpy.array(5, "u1"), 5, REFUSED),
    "__index__": (Indexable(), -7, REFUSED),
    "IntEnum": (Level.HIGH, 9, REFUSED),
    "derived from U8": (Small(9), U8(9), REFUSED),
    "numpy.str_": (numpy.str_("text"), "text", "text"),
    "numpy.bytes_": (numpy.bytes_(b"text"), b"text", b"text"),
    "element of a text array": (numpy.array(["one", "two"])[1], "two", "two"),
    "bytearray": (bytearray(b"x"), b"x", b"x"),
    "memoryview": (memoryview(b"xy"), b"xy", b"xy"),
    "memoryview of chars": (memoryview(b"xy").cast("c"), b"xy", b"xy"),
    "memoryview of signed": (memoryview(b"xy").cast("b"), b"xy", b"xy"),
    "memoryview 2-d": (memoryview(b"abcd").cast("B", (2, 2)), b"abcd", b"abcd"),
    "array of bytes": (array.array("B", b"xy"), b"xy", b"xy"),
    "array of signed": (array.array("b", b"xy"), b"xy", b"xy"),
    "numpy bytes": (numpy.frombuffer(b"xy", "u1"), b"xy", b"xy"),
    "numpy one byte": (numpy.frombuffer(b"x", "u1"), b"x", b"x"),
    "numpy signed": (numpy.frombuffer(b"xy", "i1"), b"xy", b"xy"),
    "BytesIO": (io.BytesIO(b"xy").getbuffer(), b"xy", b"xy"),
    "mmap": (mapped(), b"abcd", b"abcd"),
    "ctypes chars": (ctypes.create_string_buffer(b"xy", 2), b"xy", b"xy"),
    "ctypes bytes": ((ctypes.c_ubyte * 2)(120, 121), b"xy", b"xy"),
}
# Refused in every place.
WRONG = {
    "bool": True,
    "numpy.bool": numpy.bool_(True),
    "None": None,
    "float": 1.5,
    "complex": 1j,
    "numpy.float64": numpy.float64(1.5),
    "numpy.float32": numpy.float32(1.5),
    "numpy.float16": numpy.float16(1.5),
    "numpy.longdouble": numpy.longdouble(1.5),
    "numpy.complex128": numpy.complex128(1),
    "numpy.datetime64": numpy.datetime64("2020-01-01"),
    "numpy.timedelta64": numpy.timedelta64(3, "s"),
    "numpy.void": numpy.void(b"abc"),
    "record of a structured array": numpy.zeros(2, "u1,i4")[0],
    "numpy integers": numpy.arange(3),
    "numpy one integer": numpy.arange(1),
    "numpy floats": numpy.zeros(3),
    "numpy bools": numpy.zeros(3, bool),
    "numpy objects": numpy.array(["a", 1], object),
    "numpy 0-d object": numpy.array("a", object),
    "numpy texts": numpy.array(["a"]),
    "numpy fixed bytes": numpy.array([b"a"]),
    "numpy 0-d fixed bytes": numpy.array(b"a"),
    "numpy structured": numpy.zeros(2, "u1,i4"),
    "numpy one-byte structures": numpy.zeros(2, [("a", "u1")]),
    "numpy dates": numpy.zeros(2, "M8[s]"),
    "numpy strided bytes": numpy.zeros(8, "u1")[::2],
    "numpy by columns": numpy.zeros((2, 3), "u1", order="F"),
    "memoryview of integers": memoryview(b"abcd").cast("i"),
    "memoryview of bools": memoryview(b"abcd").cast("?"),
    "memoryview of a number": memoryview(numpy.uint8(3)),
    "array of integers": array.array("i", [1]),
    "array of floats": array.array("d", [1]),
    "array of texts": array.array("u", "a"),
    "ctypes integer": ctypes.c_int(3),
    "ctypes byte": ctypes.c_ubyte(3),
    "ctypes integers": (ctypes.c_int * 2)(),
    "ctypes structure": Struct(3),
    "ctypes union": Union(),
    "ctypes structures": (Struct * 2)(),
    "ctypes unions": (Union * 2)(),
    "Decimal": decimal.Decimal(3),
    "Fraction": fractions.Fraction(3),
    "date": datetime.date(2020, 1, 1),
    "datetime": datetime.datetime(2020, 1, 1),
    "timedelta": datetime.timedelta(1),
    "UUID": uuid.UUID(int=3),
    "Timestamp": pandas.Timestamp(0),
    "Timedelta": pandas.Timedelta(0),
    "NA": pandas.NA,
    "Series": pandas.Series([1]),
    "Index": pandas.Index([1]),
    "list": [1],
    "dict": {},
    "set": {1},
    "class": int,
    "an __index__ that raises TypeError": Bad(),
}


def name_of(case):
    return type(case).__name__


def refused(case):
    return pytest.raises(TypeError, match=f"not .*{name_of(case)}")


@pytest.mark.parametrize("name", CASES)
def test_a_part_is_what_its_value_is(name):
    case, part, _ = CASES[name]
    assert pack_key(case) == pack_key(part)
    assert pack_key("a", case, 1) == pack_key("a", part, 1)


@pytest.mark.parametrize("name", CASES)
def test_a_key_or_value_alone_is_its_bytes(store, index, heap, name):
    case, _, alone = CASES[name]
    if alone is REFUSED:
        return check_refused_alone(store, index, heap, case)
    expected = alone.encode() if isinstance(alone, str) else alone
    assert key_bytes(case) == expected
    with store.transaction() as txn:
        txn.put(index, case, case)
        assert txn.get(index, expected) == expected
        assert txn.heap_get(heap, txn.heap_insert(heap, case)) == expected
        assert [key for key, _ in txn.scan(index, prefix=case)] == [expected]
    if not isinstance(case, str):
        assert unpack_key(pack_key(case), bytes) == (expected,)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused_everywhere(store, index, heap, name):
    case = WRONG[name]
    with pytest.raises(TypeError, match=f"part 1 of the key is .*not .*{name_of(case)}"):
        pack_key("first", case)
    check_refused_alone(store, index, heap, case)


def check_refused_alone(store, index, heap, case):
    with store.transaction() as txn:
        for call in (
            lambda: txn.put(index, case, "v"),
            lambda: txn.put(index, "k", case),
            lambda: txn.get_many(index, ["k", case]),
            lambda: txn.insert_many(index, [("k", case)]),
            lambda: txn.patch(index, "k", 0, case),
            lambda: txn.heap_insert(heap, case),
            lambda: lockstep.Batch().put(index, case, "v"),
            lambda: lockstep.Batch().put(index, "k", case),
            lambda: txn.prepare(case),
        ):
            with refused(case):
                call()
        if case is not None:
            with refused(case):
                list(txn.scan(index, case))
            with refused(case):
                list(txn.scan(index, prefix=case))
        assert list(txn.scan(index)) == [] == txn.heap_scan(heap)
    if not isinstance(case, str):
        with refused(case):
            unpack_key(case, int)


def test_what_a_key_function_returns(store, index):
    made = {b"number": (numpy.int64(258),), b"raw": numpy.int64(258), b"list": [numpy.arange(2)]}
    by = store.secondary_index("by", index, lambda key, value: made[key])
    with store.transaction() as txn:
        txn.put(index, "number", "v")
        assert list(txn.scan_by(by, only=(258,))) == [(b"number", b"v")]
        for key in ("raw", "list"):
            with pytest.raises(TypeError, match="not numpy"):
                txn.put(index, key, "v")


@pytest.mark.parametrize(
    "part", [numpy.uint64(2**63), U8(numpy.int64(256)), I32(2**31), U16(-1), U64(-1), Small(256)]
)
def test_numbers_that_do_not_fit(part):
    with pytest.raises(OverflowError, match="part 0 of the key does not fit"):
        pack_key(part)


def test_what_an_index_raises_is_raised():
    with pytest.raises(ZeroDivisionError, match="broken"):
        pack_key(Broken())


def test_pointers_are_not_overwritten(store, index):
    with store.transaction() as txn:
        txn.put(index, "k", b"\1" * 16)
        structured = numpy.zeros(2, [("number", "i4"), ("pointer", object)])
        for case in (numpy.array([None, None]), structured):
            with pytest.raises((TypeError, ValueError)):
                txn.get_into(index, "k", case)
            assert list(case) == list(case.copy())
        with pytest.raises(BufferError):
            txn.put(index, memoryview(b"abcd")[::2], "v")
        room = numpy.zeros(16, "u1")
        assert txn.get_into(index, "k", room) == 16 and room.sum() == 16
        numbers = array.array("q", [0, 0])
        assert txn.get_into(index, "k", numbers) == 16 and numbers[0] != 0
