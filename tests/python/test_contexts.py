"""test_contexts - transactions and parts of them as context managers."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import lockstep
import pytest


def test_a_deadlock_leaves_a_nested_part_as_it_is(store, index):
    """The transaction cannot go on, so no savepoint can be restored; run() has to see why."""
    store.run(lambda txn: [txn.put(index, key, "0") for key in "ab"])
    met = threading.Barrier(2)
    calls = []

    def work(first, second):
        tried = []

        def body(txn):
            txn.put(index, first, "1")
            tried.append(first)
            if len(tried) == 1:
                met.wait(60)
            with txn.nested():
                txn.put(index, second, "1")

        store.run(body)
        calls.append(len(tried))

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work, *keys) for keys in ("ab", "ba")]:
            done.result(60)
    assert sum(calls) > 2  # one was a victim, and was repeated


def test_a_context_is_used_once_at_a_time(store, index):
    """Else the block of one would end the transaction of another, and its own would be lost."""
    context = store.transaction()
    with context as outer:
        outer.put(index, "outer", "v")
        with pytest.raises(RuntimeError, match="in use"), context:
            pass
    with pytest.raises(lockstep.DuplicateKey), context as again:
        again.insert(index, "outer", "v")
    with context as again:
        again.put(index, "again", "v")
    assert store.run(lambda txn: txn.get_many(index, ["outer", "again"])) == [b"v", b"v"]

    async def main():
        async with context:
            with pytest.raises(RuntimeError, match="in use"):
                async with context:
                    pass
        async with context as txn:
            await txn.put(index, "async", "v")

    asyncio.run(main())
    assert store.run(lambda txn: txn.get(index, "async")) == b"v"
    store.close()
    for _ in range(2):  # a begin that fails leaves the context free
        with pytest.raises(lockstep.StoreClosed), context:
            pass
