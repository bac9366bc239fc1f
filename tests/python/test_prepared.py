"""test_prepared - two-phase commit: prepare in all forms, and what ends a transaction in doubt."""

import asyncio
import os
import pathlib
import signal
import subprocess
import sys
import threading

import lockstep
import pytest
from lockstep import Batch

CHILD = """
import os, signal, sys
import lockstep
store = lockstep.open(sys.argv[1], workers=1, pool_bytes=16 << 20)
index = store.index("records", create=True)
store.prepare(lockstep.Batch().put(index, "k", "v"), b"g\\0\\xff")
os.kill(os.getpid(), signal.SIGKILL)
"""


def value(store, index, key):
    with store.snapshot() as txn:
        return txn.get(index, key)


def test_commit_and_rollback(store, index):
    for gid, end, kept in (
        ("one", store.commit_prepared, b"1"),
        (b"two\0", store.rollback_prepared, None),
    ):
        with store.transaction() as txn:
            txn.put(index, gid, "1")
            assert txn.prepare(gid) is True
            assert not txn.active and txn.id == 0
            with pytest.raises(lockstep.TransactionEnded):
                txn.put(index, "a", "b")
        assert value(store, index, gid) is None
        answers = []
        ender = threading.Thread(target=lambda end=end, gid=gid: answers.append(end(gid)))
        ender.start()
        ender.join()
        assert answers == [True] and end(gid) is False
        assert value(store, index, gid) == kept


def test_a_reader_has_nothing_to_decide(store, index):
    with store.transaction() as txn:
        assert txn.get(index, "k") is None
        assert txn.prepare("g") is False
        assert not txn.active
    assert store.prepared() == [] and store.commit_prepared("g") is False


def test_what_is_refused_goes_on(store, index):
    with store.transaction() as txn:
        txn.put(index, "a", "1")
        assert txn.prepare("g")
    with store.transaction() as txn:
        txn.put(index, "b", "1")
        with pytest.raises(lockstep.AlreadyExists, match="choose another"):
            txn.prepare("g")
        for bad in ("", b"x" * (lockstep.GID_BYTES_MAX + 1)):
            with pytest.raises(lockstep.BadArgument):
                txn.prepare(bad)
        with pytest.raises(TypeError):
            txn.prepare(7)
        assert txn.active
    assert value(store, index, "b") == b"1"
    assert store.rollback_prepared("g")
    with pytest.raises(TypeError):
        store.commit_prepared(None)


def test_changes_of_the_schema_are_refused(store, index):
    with store.transaction() as txn:
        txn.create_index("new")
        with pytest.raises(lockstep.Unsupported, match="a transaction of their own"):
            txn.prepare("g")
        assert txn.active
        txn.put(index, "k", "v")
    assert value(store, index, "k") == b"v" and store.prepared() == []


def test_lists_and_counts(store, index):
    with store.transaction() as txn:
        txn.put(index, "k", "v")
        id = txn.id
        assert txn.prepare(b"g\xff")
    [info] = store.prepared()
    assert info.gid == b"g\xff" and info.id == id and info.locks > 0 and info.age_nanos >= 0
    [running] = [t for t in store.transactions() if t.state == "prepared"]
    assert running.id == id and running.gid == b"g\xff"
    stats = store.stats()
    assert stats["prepared_open"] == 1 and stats["prepared_oldest_nanos"] >= info.age_nanos
    assert "\nlockstep_prepared_open 1\n" in store.metrics()
    with pytest.raises(lockstep.LockTimeout, match="prepared as"):
        with store.transaction(lock_timeout=0.001) as txn:
            txn.put(index, "k", "w")
    assert store.commit_prepared(b"g\xff")
    assert store.stats()["prepared_open"] == 0


def test_batches(store, index):
    results, in_doubt = store.prepare(Batch().put(index, "k", "v").erase(index, "none"), "whole")
    assert results == [None, False] and in_doubt
    assert store.commit_prepared("whole")
    assert store.prepare(Batch().get(index, "k"), "reads") == ([b"v"], False)
    with pytest.raises(lockstep.DuplicateKey):
        store.prepare(Batch().put(index, "z", "1").insert(index, "k", "2"), "fails")
    assert store.prepared() == [] and value(store, index, "z") is None
    with store.transaction() as txn:
        txn.put(index, "k", "w")
        with pytest.raises(lockstep.BadArgument):
            txn.prepare_with(Batch(), "")
        assert txn.active
        # A value that does not fit is read once more, and the prepare comes behind that.
        txn.put(index, "long", "x" * 5000)
        results, in_doubt = txn.prepare_with(Batch(room=10).get(index, "long"), "open")
        assert results == [b"x" * 5000] and in_doubt and not txn.active
    assert store.commit_prepared("open") and value(store, index, "k") == b"w"


def test_coroutines(store, index):
    async def main():
        async with store.transaction() as txn:
            await txn.put(index, "k", "v")
            with pytest.raises(lockstep.BadArgument):
                await txn.prepare("")
            assert await txn.prepare("g") is True
            assert not txn.active
        assert await store.commit_prepared_async("g") is True
        assert await store.commit_prepared_async("g") is False
        results, in_doubt = await store.prepare_async(Batch().put(index, "k", "w"), "batch")
        assert results == [None] and in_doubt
        assert await store.rollback_prepared_async("batch") is True
        async with store.transaction() as txn:
            assert await txn.get(index, "k") == b"v"
            assert await txn.prepare("reader") is False

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_transaction_in_doubt_survives_kill(tmp_path: pathlib.Path):
    path = tmp_path / "killed"
    done = subprocess.run([sys.executable, "-c", CHILD, path], env=os.environ)
    assert done.returncode == -signal.SIGKILL
    with lockstep.open(path, workers=1, pool_bytes=16 << 20) as store:
        index = store.index("records")
        [info] = store.prepared()
        assert info.gid == b"g\0\xff" and value(store, index, "k") is None
        assert store.commit_prepared(info.gid)
        assert value(store, index, "k") == b"v"
