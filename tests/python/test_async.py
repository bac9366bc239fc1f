"""test_async - transactions of event loops."""

import asyncio
import concurrent.futures
import gc
import os
import signal
import threading
import time

import lockstep
import pytest
from conftest import SMALL
from lockstep import Access, Batch
from test_lifetimes import others, wait_for
from test_lifetimes import run as in_process


def run(main):
    asyncio.run(asyncio.wait_for(main(), 60))


def test_records(store, index, heap):
    async def main():
        async with store.transaction() as txn:
            assert txn.id == txn._txn.id and txn.active
            await txn.insert(index, "a", "1")
            await txn.insert_many(index, [("b", "2"), ("c", "3")])
            await txn.put(index, ("d", 4), "4")
            assert await txn.update(index, "a", "11") and not await txn.update(index, "z", "")
            assert await txn.patch(index, "a", 1, "2")
            assert await txn.get(index, "a") == b"12" and await txn.get(index, "z") is None
            assert await txn.get_many(index, ["a", "z"], Access.UPDATE) == [b"12", None]
            assert await txn.erase(index, "b") and not await txn.erase(index, "b")
            id = await txn.heap_insert(heap, "row")
            assert await txn.heap_get(heap, id) == b"row"
            assert await txn.heap_update(heap, id, "new") and await txn.heap_erase(heap, id)
            savepoint = await txn.savepoint()
            await txn.put(index, "lost", "x" * 1000)
            assert await txn.get(index, "lost") == b"x" * 1000
            await txn.rollback_to(savepoint)
            assert [k async for k, _ in txn.scan(index, "a", "d")] == [b"a", b"c"]
            assert [k async for k, _ in txn.scan(index, high="d", reverse=True)] == [b"c", b"a"]
            assert len(await txn.call(lambda sync: list(sync.scan(index)))) == 3
        assert txn.lsn > 0 and not txn.active
        await store.call_async(store.wait_durable, txn.lsn)
        by = await store.call_async(store.secondary_index, "by", index, lambda key, value: value)
        async with store.snapshot() as txn:
            assert [k async for k, _ in txn.scan_by(by, only="12")] == [b"a"]
            await txn.abort()
        results = await store.execute_async(Batch(room=0).get(index, "a").put(index, "z", "y" * 99))
        assert results == [b"12", None]

    run(main)


def test_an_exception_rolls_back(store, index):
    async def main():
        with pytest.raises(ZeroDivisionError):
            async with store.transaction() as txn:
                await txn.put(index, "k", "v")
                raise ZeroDivisionError
        with pytest.raises(ZeroDivisionError):
            async with store.transaction() as txn:
                await txn.abort()
                raise ZeroDivisionError
        with pytest.raises(ZeroDivisionError):
            async with store.transaction() as txn:
                await store.call_async(store.end_transaction, txn.id)
                raise ZeroDivisionError
        with pytest.raises(lockstep.DuplicateKey):
            await store.execute_async(Batch().put(index, "k", "v").insert(index, "k", "w"))
        with pytest.raises(ZeroDivisionError):
            await store.call_async(lambda: 1 // 0)
        async with store.transaction() as txn:
            assert await txn.get(index, "k") is None

    run(main)


def test_errors_of_begin_and_commit(tmp_path):
    async def main():
        store = lockstep.open(tmp_path / "s", workers=1, pool_bytes=16 << 20)
        index = store.index("i", create=True)
        async with store.transaction() as txn:
            await store.call_async(store.end_transaction, txn.id)
            with pytest.raises(lockstep.EndedByOperator):
                await txn.put(index, "k", "v")
            with pytest.raises(lockstep.Error):
                await txn.commit()
        store.close()
        with pytest.raises(lockstep.Error):
            async with store.transaction():
                pass

    run(main)


def test_many_tasks(store, index):
    """Increments of few counters by 64 tasks, deadlocks and all: none is lost."""

    async def main():
        async def add(n):
            async def body(txn):
                for key in ((n % 12,), ((n + 1) % 12,)):
                    old = await txn.get(index, key, Access.UPDATE)
                    await txn.put(index, key, str(int(old or 0) + 1))
                return n

            assert await store.run_async(body, durability="lazy") == n

        for _ in range(3):
            await asyncio.gather(*(add(n) for n in range(64)))

    run(main)
    with store.snapshot() as txn:
        assert sum(int(value) for _, value in txn.scan(index)) == 3 * 64 * 2


def test_victims_of_a_storm_commit_after_few_attempts(store, index):
    attempts = []

    async def one(number):
        tries = 0

        async def change(txn):
            nonlocal tries
            tries += 1
            value = int(await txn.get(index, b"hot") or b"0")
            await asyncio.sleep(0)
            await txn.put(index, b"hot", b"%d" % (value + 1))

        await store.run_async(change)
        attempts.append(tries)

    async def main():
        await asyncio.gather(*(one(number) for number in range(100)))

    run(main)
    with store.snapshot() as txn:
        assert txn.get(index, b"hot") == b"100"
    assert sum(attempts) <= 4 * len(attempts)
    assert max(attempts) <= 6


def test_run_gives_up_at_last(tmp_path):
    async def main():
        with lockstep.open(tmp_path / "s", workers=1, pool_bytes=16 << 20, retries_max=2) as store:
            tries = []

            async def victim(txn):
                tries.append(txn)
                raise lockstep.Deadlock("as if")

            with pytest.raises(lockstep.Deadlock):
                await store.run_async(victim)
            assert len(tries) == 3

    run(main)


def test_a_wait_blocks_no_other_task(store, index):
    async def main():
        order = []

        async def waiter():
            async with store.transaction() as txn:
                order.append(await txn.get(index, "k"))

        async with store.transaction() as holder:
            await holder.put(index, "k", "v")
            task = asyncio.create_task(waiter())
            while not any(t.state == "lock_wait" for t in store.transactions()):
                await asyncio.sleep(0.001)
            order.append("held")
        await task
        assert order == ["held", b"v"]

    run(main)


def test_a_cancelled_task_is_not_logged(tmp_path):
    """Nor is a timeout: the program knows itself what it ends."""
    lines = []

    async def main():
        def log(level, text):
            if " is ended" in text:
                lines.append(text)

        with lockstep.open(tmp_path / "s", logger=log, **SMALL) as store:
            index = store.index("i", create=True)
            async with store.transaction() as txn:
                await txn.put(index, "k", "v")
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(store.run_async(lambda txn: txn.get(index, "k")), 0.05)
                await store.call_async(store.end_transaction, txn.id)
                await txn.abort()

    run(main)
    assert [text.split(" is ")[1] for text in lines] == ["ended by an operator"]


@pytest.mark.parametrize("scan", [False, True])
def test_a_cancelled_task_ends_its_wait(store, index, scan):
    async def main():
        store.run(lambda txn: txn.put(index, "k", "old"))
        entered = asyncio.Event()

        async def waiter():
            async with store.transaction() as txn:
                await txn.put(index, "other", "lost")
                entered.set()
                if scan:
                    async for _ in txn.scan(index):
                        pass
                else:
                    await txn.get(index, "k")

        async with store.transaction() as holder:
            await holder.put(index, "k", "v")
            task = asyncio.create_task(waiter())
            await entered.wait()
            while not any(t.state == "lock_wait" for t in store.transactions()):
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await holder.get(index, "other") is None

    run(main)


def test_cancelled_at_random(store, index):
    """Tasks that are cancelled at any point leave no transaction and no lock behind."""

    async def main():
        async def work(n):
            async with store.transaction(durability="lazy") as txn:
                await txn.put(index, (n % 5,), "v")
                await txn.get(index, ((n + 2) % 5,))
                async for _ in txn.scan(index):
                    pass

        tasks = [asyncio.create_task(work(n)) for n in range(60)]
        for n, task in enumerate(tasks):
            await asyncio.sleep(0.0005 * (n % 3))
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert result is None or isinstance(
                result, (asyncio.CancelledError, lockstep.Deadlock)
            ), repr(result)

    run(main)
    # One that was cancelled before it had begun may begin yet, and do nothing.
    wait_for(lambda: others(store) == [])


def test_a_cancelled_task_may_use_the_store_as_it_cleans_up(store, index):
    async def main():
        async def work():
            try:
                await asyncio.sleep(60)
            finally:
                async with store.transaction() as txn:
                    await txn.put(index, "k", "v")

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        async with store.transaction() as txn:
            assert await txn.get(index, "k") == b"v"

    run(main)


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_rollback_ends_the_call_that_is_in_the_transaction(store, index, cancelled):
    async def main():
        async def work():
            async with store.transaction() as txn:
                await txn.put(index, "mine", "lost")
                await asyncio.gather(txn.get(index, "held"), txn.get(index, "mine"))

        async with store.transaction() as holder:
            await holder.put(index, "held", "v")
            task = asyncio.create_task(work())
            if cancelled:
                while not any(t.state == "lock_wait" for t in store.transactions()):
                    await asyncio.sleep(0)
                task.cancel()
            with pytest.raises((lockstep.WrongThread, asyncio.CancelledError)):
                await task
        assert [t for t in store.transactions() if not t.internal] == []
        async with store.transaction(lock_timeout=1) as txn:
            assert await txn.get(index, "mine") is None
            await txn.put(index, "mine", "kept")

    run(main)


@pytest.fixture
def alarm():
    """Interrupts a loop that spins: it runs no timers."""

    def ring(number, frame):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", [asyncio.CancelledError, concurrent.futures.CancelledError])
def test_a_function_that_raises_a_cancellation(store, index, kind, alarm):
    def function(txn):
        raise kind

    async def main():
        async with store.transaction() as txn:
            await txn.put(index, "k", "v")
            await txn.call(function)

    begun = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        run(main)
    assert time.monotonic() < begun + 10
    assert store.run(lambda txn: txn.get(index, "k")) is None


def test_a_scan_in_a_child_of_fork(tmp_path, store, index):
    """The child has none of the threads that the parent's pool counts."""

    async def scan(store, index):
        async with store.transaction() as txn:
            await txn.put(index, "k", "v")
            return [row async for row in txn.scan(index)]

    async def use(opened, index):
        return await asyncio.wait_for(scan(opened, index), 20)

    assert asyncio.run(use(store, index)) == [(b"k", b"v")]
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # its default action ends the process
        try:
            with lockstep.open(tmp_path / "child", **SMALL) as own:
                rows = asyncio.run(use(own, own.index("i", create=True)))
            os._exit(0 if rows == [(b"k", b"v")] else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def test_a_scan_ends_with_its_transaction(store, index):
    async def main():
        rows = []
        with pytest.raises(lockstep.TransactionEnded):
            async with store.transaction() as txn:
                await txn.insert_many(index, (((n,), "v") for n in range(10)))
                async for row in txn.scan(index):
                    rows.append(row)
                    await txn.commit()
        assert len(rows) == 1

    run(main)


def test_a_timeout(store, index):
    async def main():
        async with store.transaction() as holder:
            await holder.put(index, "k", "v")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05), store.transaction() as txn:
                    await txn.get(index, "k")

    run(main)


def test_a_timeout_of_a_batch(tmp_path):
    """The lock would never be granted. The batch ends with its task."""
    with lockstep.open(tmp_path / "s", lock_timeout=None, **SMALL) as store:
        index = store.index("i", create=True)
        store.run(lambda txn: txn.put(index, "k", "v"))

        async def main():
            with store.transaction() as holder:
                holder.put(index, "k", "w")
                for end in (store.execute_async, lambda batch: store.prepare_async(batch, "gid")):
                    batch = Batch().put(index, "other", "v").put(index, "k", "x")
                    with pytest.raises(TimeoutError):
                        await asyncio.wait_for(end(batch), 0.1)
                assert len(others(store)) == 1
            assert await store.execute_async(Batch().get(index, "other").get(index, "k")) == [
                None,
                b"w",
            ]

        run(main)
        assert store.prepared() == []


def test_a_timeout_of_a_begin(tmp_path):
    """It would wait for ever. What begins too late does nothing."""
    with lockstep.open(tmp_path / "s", transactions_max=16, **SMALL) as store:
        index = store.index("i", create=True)

        async def use():
            async with store.transaction() as txn:
                await txn.put(index, "k", "v")

        async def main():
            begun = [store.begin() for _ in range(16)]
            for late in (use(), store.execute_async(Batch().put(index, "k", "v"))):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(late, 0.1)
            for txn in begun:
                txn.abort()

        run(main)
        wait_for(lambda: others(store) == [])
        assert store.run(lambda txn: txn.get(index, "k")) is None


OUTLIVED = """
import asyncio, sys, lockstep
store = lockstep.open(sys.argv[1], workers=1, pool_bytes=16 << 20, transactions_max=16)
index = store.index("i", create=True)
begun = [store.begin() for _ in range(16)]

async def main():
    try:
        await asyncio.wait_for(store.execute_async(lockstep.Batch().put(index, "k", "v")), 0.1)
    except TimeoutError:
        print("timeout")

asyncio.run(main())
for txn in begun:
    txn.abort()
assert store.run(lambda txn: txn.get(index, "k")) is None
store.close()
"""


def test_a_begin_that_outlives_its_loop_is_not_lost(tmp_path):
    """The extension tells at the end of a process what it has left in memory."""
    assert in_process(OUTLIVED, tmp_path / "s") == "timeout\n"


def test_loops_come_and_go(store, index):
    """Each event loop has a descriptor of its own, which ends with it."""

    async def main():
        async with store.transaction() as txn:
            await txn.put(index, str(threading.get_ident()), "v")

    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    run(main)
    before = descriptors()
    for _ in range(20):
        run(main)
    threads = [threading.Thread(target=run, args=(main,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    gc.collect()
    assert descriptors() <= before + 4
