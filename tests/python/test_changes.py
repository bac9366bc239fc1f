"""test_changes - the change feed: copies that follow a store, positions, waits and their ends."""

import asyncio
import threading
import time

import lockstep
import pytest
from conftest import SMALL
from test_lifetimes import wait_for


def follow(copy, change):
    """Brings a change to a dict of the records of one index."""
    if change.kind in ("insert", "update"):
        copy[change.key] = change.value
    elif change.kind == "patch":
        before = copy[change.key]
        end = change.offset + len(change.old)
        assert before[change.offset : end] == change.old
        copy[change.key] = before[: change.offset] + change.value + before[end:]
    elif change.kind == "erase":
        del copy[change.key]


def everything(store, index):
    with store.snapshot() as txn:
        return dict(txn.scan(index))


def drain(feed):
    changes = []
    while (change := feed.next()) is not None:
        changes.append(change)
    return changes


def test_a_copy_from_a_snapshot_follows_the_store(store, index):
    for n in range(50):
        index[f"k{n}"] = f"value {n}"
    with store.snapshot() as txn:
        point = store.changes_point(txn)
        for n in range(0, 50, 3):
            with store.transaction() as writer:
                writer.patch(index, f"k{n}", 2, "xyz")
                writer.erase(index, f"k{n + 1}")
                writer.put(index, f"new {n}", b"\0" * n)
        copy = dict(txn.scan(index))
    assert copy != everything(store, index)
    with store.changes(point.position) as feed:
        changes = drain(feed)
    for change in changes:
        assert change.commit >= point.lsn
        assert change.kind == "commit" or (change.object, change.is_index) == ("records", True)
        follow(copy, change)
    assert copy == everything(store, index)
    assert [c.kind for c in changes].count("commit") == 17


def test_what_a_change_tells(store, index, heap):
    index["k"] = "one"
    feed = store.changes()
    with store.transaction() as txn:
        txn.put(index, "k", "two")
        record = txn.heap_insert(heap, b"row")
        txn.erase(index, "k")
        txn.create_heap("more")
    update, insert, erase, create, commit = drain(feed)
    assert (update.kind, update.key, update.value, update.old) == ("patch", b"k", b"two", b"one")
    assert (update.record, update.offset, update.of) == (None, 0, 0)
    assert (insert.object, insert.is_index, insert.record) == ("rows", False, record)
    assert (insert.key, insert.value, insert.old) == (None, b"row", None)
    assert isinstance(insert.record, lockstep.RecordId)
    assert (erase.kind, erase.key, erase.value) == ("erase", b"k", None)
    assert (create.kind, create.object, create.key, create.record) == ("create", "more", None, None)
    assert (commit.kind, commit.object) == ("commit", None)
    assert {c.txn for c in (update, insert, erase, create, commit)} == {commit.txn}


def test_a_position_outlives_the_store(tmp_path):
    with lockstep.open(tmp_path / "s", changes_log_bytes=16 << 20, **SMALL) as store:
        index = store.index("i", create=True)
        feed = store.changes()
        index["a"] = "1"
        assert feed.next().key == b"a"
        position = feed.position  # in the middle of the transaction
        index["b"] = "2"
    with lockstep.open(tmp_path / "s", changes_log_bytes=16 << 20, **SMALL) as store:
        store.index("i")["c"] = "3"
        rest = drain(store.changes(position))
        assert [c.key for c in rest if c.kind == "insert"] == [b"b", b"c"]
        assert rest[0].kind == "commit"
        assert abs(rest[-1].time / 1e9 - time.time()) < 60
        with pytest.raises(lockstep.StoreClosed):
            feed.next()


def test_waits_and_their_ends(store, index):
    feed = store.changes()
    began = time.monotonic()
    assert feed.next(0.2) is None
    assert time.monotonic() - began >= 0.2
    later = threading.Timer(0.1, index.__setitem__, ("k", "v"))
    later.start()
    assert feed.next(None).key == b"k"
    later.join()
    for timeout in (-1, float("nan"), 1e300):
        with pytest.raises(ValueError, match="timeout"):
            feed.next(timeout)
    with pytest.raises(TypeError, match="timeout"):
        feed.next("1")


def test_the_iterator_ends_with_the_store(tmp_path):
    store = lockstep.open(tmp_path / "s", **SMALL)
    index = store.index("i", create=True)
    feed, keys = store.changes(), []
    index["a"] = "1"

    def consume():
        for change in feed:
            if change.kind == "insert":
                keys.append(change.key)

    consumer = threading.Thread(target=consume)
    consumer.start()
    index["b"] = "2"
    wait_for(lambda: len(keys) == 2)
    store.close()
    consumer.join(20)
    assert not consumer.is_alive()
    assert keys == [b"a", b"b"]


def test_refusals(store, index):
    with pytest.raises(lockstep.BadArgument, match="yesterday"):
        store.changes("yesterday")
    with pytest.raises(TypeError, match="position"):
        store.changes(None)
    with store.transaction() as txn, pytest.raises(lockstep.BadArgument, match="snapshot"):
        store.changes_point(txn)
    with store.changes() as feed:
        pass
    with pytest.raises(lockstep.StoreClosed, match="feed"):
        feed.next()
    with pytest.raises(lockstep.StoreClosed, match="feed"):
        feed.position  # noqa: B018
    feed.close()


def test_two_threads_of_one_feed(store, index):
    feed = store.changes()
    waits = threading.Thread(target=feed.next, args=(0.5,))
    waits.start()
    time.sleep(0.1)
    with pytest.raises(lockstep.WrongThread, match="another call"):
        feed.next()
    waits.join()
    assert feed.next() is None


def test_an_event_loop_follows(store, index):
    """Cancelled coroutines lose no change, and give none twice."""
    feed = store.changes()

    async def follow_until(last):
        async for change in feed:
            if change.kind == "insert":
                keys.append(int(change.key))
                positions.append(feed.position)
                if keys[-1] == last:
                    return

    async def main():
        for n in range(40):
            task = asyncio.ensure_future(follow_until(39))
            await asyncio.sleep(0.003 * (n % 4))
            index[str(n)] = "v"
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await asyncio.wait_for(follow_until(39), 20)

    keys: list[int] = []
    positions: list[str] = []
    asyncio.run(main())
    assert keys == list(range(40))
    behind = [c.key for c in drain(store.changes(positions[20])) if c.kind == "insert"]
    assert behind == [str(n).encode() for n in range(21, 40)]


def test_an_async_iterator_ends_with_the_store(tmp_path):
    store = lockstep.open(tmp_path / "s", **SMALL)
    index = store.index("i", create=True)

    async def main():
        async for change in store.changes("oldest"):
            if change.kind == "insert":
                later = threading.Timer(0.2, store.close)
                later.start()

    index["a"] = "1"
    asyncio.run(asyncio.wait_for(main(), 20))
