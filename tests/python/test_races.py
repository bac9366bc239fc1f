"""test_races - what one thread does while a call of another thread runs."""

import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import lockstep
import pytest
from conftest import SMALL


def test_get_many_of_a_value_that_becomes_longer(store, index):
    """At read_committed no lock keeps the length that the first look has found."""
    values = (b"s" * 300, b"B" * 200_000)
    store.run(lambda txn: txn.put(index, "k", values[0]))
    stop = threading.Event()

    def write():
        while not stop.is_set():
            for value in reversed(values):
                store.run(lambda txn, v=value: txn.put(index, "k", v), durability="lazy")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with store.transaction(isolation="read_committed") as txn:
            end = time.monotonic() + 3
            while time.monotonic() < end:
                assert txn.get_many(index, ["k"])[0] in values
    finally:
        stop.set()
        writer.join(60)


@pytest.mark.parametrize("turn", range(4))
def test_a_cursor_that_another_thread_ends(tmp_path, turn):
    store = lockstep.open(tmp_path / "s", **SMALL)
    index = store.index("i", create=True)
    by = store.secondary_index("by", index, lambda key, value: value[:8])
    content = b"x" * 60_000
    store.run(lambda txn: [txn.put(index, (n,), b"%08d" % n + content) for n in range(40)])
    wrong = []

    def read():
        try:
            while True:
                with store.transaction() as txn, txn.cursor_by(by) as cursor:
                    while (row := cursor.next()) is not None:
                        good = row[1][8:] == content and row[1][:8] == cursor.secondary_key
                        if not good:
                            wrong.append(row[1][:16])
        except lockstep.Error:
            pass

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    time.sleep(0.2)
    store.close()
    for reader in readers:
        reader.join(60)
    assert wrong == []


def test_errors_of_a_cursor_through_a_secondary_index_keep_their_text(store, index):
    by = store.secondary_index("by", index, lambda key, value: value)
    txn = store.begin(lock_timeout=0.01)
    cursor = txn.cursor_by(by)
    with store.transaction() as holder:
        holder.put(index, "k", "v")
        with pytest.raises(lockstep.LockTimeout, match="^lock_timeout: .*waited"):
            cursor.next()
    number = cursor._cursor
    cursor.close()
    cursor._cursor = number
    with pytest.raises(lockstep.TransactionEnded, match="cursor, which was closed or whose"):
        cursor.next()
    txn.abort()


class Logger:
    def __call__(self, level, text):
        pass


def test_a_store_keeps_its_logger(tmp_path):
    """Also while another thread opens a store."""
    lost = []

    def work(name):
        for _ in range(6):
            logger = Logger()
            known = weakref.ref(logger)
            store = lockstep.open(tmp_path / name, logger=logger, **SMALL)
            del logger
            time.sleep(0.02)
            gc.collect()
            if known() is None:
                lost.append(name)
            store.close()

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert lost == []


def test_a_logger_ends_with_its_store(tmp_path):
    for path in (tmp_path / "s", tmp_path / "none" / "s"):
        logger = Logger()
        known = weakref.ref(logger)
        try:
            lockstep.open(path, logger=logger, **SMALL).close()
        except lockstep.BadPath:
            pass
        del logger
        end = time.monotonic() + 20
        while known() is not None and time.monotonic() < end:
            time.sleep(0.01)
        assert known() is None


def test_a_rollback_ends_the_call_that_is_in_the_transaction(store, index):
    holder = store.begin()
    holder.put(index, "held", "v")
    with ThreadPoolExecutor() as pool:
        with pytest.raises(TimeoutError):
            with store.transaction() as txn:
                txn.put(index, "mine", "lost")
                waits = pool.submit(txn.get, index, "held")
                waits.result(timeout=0.2)
        assert not txn.active
        with pytest.raises(lockstep.Cancelled):
            waits.result(timeout=20)
    holder.commit()
    assert [t for t in store.transactions() if not t.internal] == []
    with store.transaction(lock_timeout=1) as txn:
        assert txn.get(index, "mine") is None
        txn.put(index, "mine", "kept")


def test_a_rollback_within_a_call_of_the_transaction_gives_up(store, heap, monkeypatch):
    monkeypatch.setattr("lockstep._transaction.ABANDON_SECONDS", 0.1)
    store.run(lambda txn: txn.heap_insert(heap, "row"))
    txn = store.begin()

    def leave(id, record):
        with pytest.raises(ZeroDivisionError):
            with txn:
                raise ZeroDivisionError
        assert txn.active

    txn.heap_each(heap, leave)
    txn.abort()
    assert [t for t in store.transactions() if not t.internal] == []


def test_another_thread_takes_the_last_scan_that_was_dropped(store, index):
    """Between a look at the list and the pop: the list is empty then, and nothing is wrong."""

    class Taken(list):
        def __bool__(self):
            left = len(self) > 0
            self.clear()
            return left

    store.run(lambda txn: txn.put(index, "k", "v"))
    with store.transaction() as txn:
        txn.scan(index)
        gc.collect()
        assert len(txn._dropped) == 1
        txn._dropped = Taken(txn._dropped)
        assert len(list(txn.scan(index))) == 1
        assert len(txn._dropped) == 0
