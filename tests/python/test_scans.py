"""test_scans - ranges in both directions, cursors, views."""

import gc
import resource

import lockstep
import pytest
from lockstep import Access


@pytest.fixture
def numbers(store, index):
    """2000 records, more than two blocks."""
    with store.transaction() as txn:
        txn.insert_many(index, (((n,), f"value {n}") for n in range(2000)))
    return index


def keys(scan):
    return [lockstep.unpack_key(key, int)[0] for key, _ in scan]


def test_directions_and_bounds(store, numbers):
    with store.snapshot() as txn:
        assert keys(txn.scan(numbers)) == list(range(2000))
        assert keys(txn.scan(numbers, reverse=True)) == list(range(1999, -1, -1))
        assert keys(txn.scan(numbers, (5,), (900,))) == list(range(5, 900))
        assert keys(txn.scan(numbers, high=(3,), reverse=True)) == [2, 1, 0]
        assert keys(txn.scan_views(numbers, (1990,), reverse=True)) == list(range(1999, 1989, -1))
        assert keys(txn.scan(numbers, (7,), (7,))) == []
        assert [v for _, v in txn.scan(numbers, high=(2,))] == [b"value 0", b"value 1"]


def test_prefixes(store, index):
    with store.transaction() as txn:
        for key in [("a", 1), ("a", 2), ("ab", 1), ("b", 1)]:
            txn.put(index, key, "")
        assert len(list(txn.scan(index, prefix=("a",)))) == 2
        assert len(list(txn.scan(index, prefix="a"))) == 3
        assert len(list(txn.scan(index, prefix=b""))) == 4
        txn.put(index, b"\xff\xff", "last")
        assert list(txn.scan(index, prefix=b"\xff")) == [(b"\xff\xff", b"last")]
        assert len(list(txn.scan(index, prefix=bytearray(b"a")))) == 3
        with pytest.raises(ValueError, match="not both"):
            txn.scan(index, "a", prefix="b")
        for wrong in (5, 1.5, ["a"]):  # bytes(5) would be five zero bytes
            with pytest.raises(TypeError, match="a key is bytes, str, a tuple or .*, not [a-z]*$"):
                txn.scan(index, prefix=wrong)


def test_a_scan_ends(store, numbers):
    with store.transaction() as txn:
        with txn.scan(numbers) as scan:
            assert next(scan)[1] == b"value 0"
        assert list(scan) == []
        scan.close()
        assert scan.block() == []
        with pytest.raises(ZeroDivisionError):
            with txn.scan(numbers) as scan:
                raise ZeroDivisionError
        scan = txn.scan(numbers)
        next(scan)
        blocks = [len(block) for block in iter(scan.block, [])]
        assert sum(blocks) == 2000 - 16 and max(blocks) == 512
        left = txn.scan(numbers)
    with pytest.raises(lockstep.Error):
        list(left)


def test_a_scan_ends_with_its_transaction(store, numbers):
    txn = store.begin()
    scan = txn.scan(numbers)
    empty = txn.scan(numbers, (5,), (5,))
    next(scan)
    assert list(empty) == []
    txn.commit()
    with pytest.raises(lockstep.TransactionEnded):
        next(scan)
    assert list(empty) == []


def test_views_outlive_the_scan(store, numbers):
    with store.transaction() as txn:
        rows = list(txn.scan_views(numbers, high=(600,), access=Access.UPDATE))
    gc.collect()
    assert [bytes(value) for _, value in rows] == [b"value %d" % n for n in range(600)]
    assert rows[0][0].readonly and rows[0][1].obj is rows[1][1].obj


def test_cursors(store, numbers):
    with store.transaction() as txn:
        with txn.cursor(numbers, (10,), (13,), Access.WRITE) as cursor:
            assert cursor.next()[1] == b"value 10"
            assert cursor.next()[1] == b"value 11"
            assert cursor.patch(0, "VALUE")
            assert cursor.prev()[1] == b"value 10"
            assert cursor.prev() is None and cursor.secondary_key == b""
            cursor.seek((1998,))
            assert cursor.prev()[1] == b"value 1999"
            cursor.seek()
            assert cursor.next()[1] == b"value 0"
        cursor.close()
        with pytest.raises(lockstep.Error):
            cursor.next()
        assert txn.get(numbers, (11,)) == b"VALUE 11"
        with pytest.raises(ZeroDivisionError):
            with txn.cursor(numbers):
                raise ZeroDivisionError


def test_large_records_within_a_scan(store, index):
    sizes = [10, 100_000, 5, 70_000, 65_536, 1]
    with store.transaction() as txn:
        for n, size in enumerate(sizes):
            txn.put(index, (n,), bytes(size))
        assert [len(v) for _, v in txn.scan(index)] == sizes
        assert [len(v) for _, v in txn.scan_views(index, reverse=True)] == sizes[::-1]
        with txn.cursor(index) as cursor:
            assert [len(cursor.next()[1]) for _ in sizes] == sizes
            assert len(cursor.prev()[1]) == sizes[-2]


def resident_megabytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() >> 20


def test_scans_that_are_dropped_keep_no_memory(store, numbers):
    """Each holds 5 to 23 KB until it is closed, and a transaction may make many."""
    with store.transaction() as txn:
        for _ in range(100):
            next(txn.scan(numbers))
            txn.cursor(numbers).next()
        before = resident_megabytes()
        for _ in range(2000):
            next(txn.scan(numbers))
            txn.cursor(numbers).next()
        assert resident_megabytes() - before < 10
        kept = txn.scan(numbers)
        next(kept)
        next(txn.scan(numbers))
        assert len(list(kept)) == 1999
    scan = store.begin().scan(numbers)  # it outlives its transaction
    scan._txn.abort()
    del scan
    gc.collect()
