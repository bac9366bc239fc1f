"""Ranges that are erased or measured, and reads that do not wait for locks."""

import lockstep
import pytest
from lockstep import Access


def fill(index: lockstep.Index) -> None:
    for key in (b"a", b"b", b"c", b"d"):
        index[key] = b"v"


def test_ranges(store: lockstep.Store, index: lockstep.Index) -> None:
    fill(index)
    assert index.approximate_size()[1] == 4
    assert index.approximate_size(b"b", b"d")[1] == 2
    with pytest.raises(ZeroDivisionError), store.transaction() as txn:
        assert txn.erase_range(index, b"b", b"d") == 2
        assert txn.get(index, b"b") is None
        raise ZeroDivisionError
    assert index.erase_range(None, b"c") == 2
    assert dict(index.items()) == {b"c": b"v", b"d": b"v"}
    assert index.erase_range(None, None) == 2


def test_reads_that_do_not_wait(store: lockstep.Store, index: lockstep.Index) -> None:
    fill(index)
    holder = store.begin()
    holder.put(index, b"b", b"w")
    with store.transaction() as txn:
        with pytest.raises(lockstep.LockRefused, match='"b"'):
            txn.get(index, b"b", Access.NO_WAIT)
        assert txn.get(index, b"b", Access.UPDATE | Access.SKIP_LOCKED) is None
        assert txn.get_many(index, [b"a", b"b"], Access.SKIP_LOCKED) == [b"v", None]
        seen = txn.scan(index, access=Access.UPDATE | Access.SKIP_LOCKED)
        assert [key for key, _ in seen] == [b"a", b"c", b"d"]
        with pytest.raises(lockstep.BadArgument):
            txn.get(index, b"b", Access.NO_WAIT | Access.SKIP_LOCKED)
    holder.abort()
