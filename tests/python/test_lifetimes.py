"""test_lifetimes - what happens to stores, transactions and functions that are dropped."""

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
import weakref

import lockstep
import pytest
from conftest import SMALL


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def run(program, *arguments):
    """Runs a program in a process of its own; what it prints."""
    command = [sys.executable, "-W", "always", "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def others(store):
    return [t for t in store.transactions() if not t.internal]


def test_a_transaction_that_is_dropped_is_rolled_back(store, index):
    txn = store.begin()
    txn.put(index, "k", "lost")
    with pytest.warns(ResourceWarning, match="was neither committed nor rolled back"):
        del txn
        gc.collect()
    with store.transaction(lock_timeout=20) as txn:
        assert txn.get(index, "k") is None
        txn.put(index, "k", "kept")
    wait_for(lambda: others(store) == [])


def test_a_key_function_may_drop_a_transaction(store, index):
    """The helper thread rolls back what a worker that waits for the helper has to end."""
    left = []

    def key(key, value):
        left.clear()
        return value

    store.secondary_index("by", index, key)
    left.append(store.begin())
    left[0].put(store.index("other", create=True), "k", "v")
    with pytest.warns(ResourceWarning, match="neither committed"):
        with store.transaction() as txn:
            txn.put(index, "k", "v")
    wait_for(lambda: others(store) == [])


def test_what_belongs_to_a_process_cannot_be_pickled(store, index, heap):
    """Another process could take the handle for that of an object of its own."""
    with store.transaction() as txn, txn.cursor(index) as cursor:
        for what in (store, index, heap, txn, cursor, txn.scan(index), store.transaction()):
            with pytest.raises(TypeError, match="cannot be pickled: it belongs to a store"):
                pickle.dumps(what)
        with pytest.raises(TypeError, match="a Store cannot be pickled"):
            copy.copy(store)
        for scan in (txn.scan(index), txn.cursor(index)):  # two objects would close one cursor
            with pytest.raises(TypeError, match=f"a {type(scan).__name__} cannot be pickled"):
                copy.copy(scan)
    assert copy.copy(index) is index and copy.deepcopy({"a": [heap]})["a"][0] is heap


def test_what_has_ended_is_dropped_without_a_warning(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with lockstep.open(tmp_path / "s", **SMALL) as store:
            index = store.index("i", create=True)
            begun = [store.begin() for _ in range(3)]
            begun[0].commit()
            begun[1].abort()

            def rows():
                with store.transaction() as txn:
                    txn.put(index, "k", "v")
                    yield from txn.scan(index)

            generator = rows()
            next(generator)
            del generator
        del begun, store
        gc.collect()


def test_a_callback_cannot_close_the_store(store, index):
    store.run(lambda txn: [txn.put(index, (n,), b"v") for n in range(100)])

    def close(*_):
        with pytest.raises(lockstep.WrongThread, match="callback"):
            store.close()

    with store.transaction() as txn:
        txn.secondary_index("by", index, lambda key, value: value, progress=close)
    assert store.run(lambda txn: txn.get(index, (7,))) == b"v"
    store.close()
    with pytest.raises(lockstep.StoreClosed):
        store.begin()


def test_a_callback_on_another_thread_cannot_close_the_store(tmp_path, store, index):
    """The call waits for the function, on whatever thread that runs."""
    heard = []

    def close(key, value):
        if value == b"close":
            store.close()
        return value

    def progress(*_):
        with pytest.raises(lockstep.WrongThread, match="close.* in a function that a call"):
            store.close()
        heard.append("progress")

    store.secondary_index("by", index, close)
    with pytest.raises(lockstep.WrongThread, match="close.* in a function that a call"):
        store.run(lambda txn: txn.put(index, "k", "close"))
    store.run(lambda txn: txn.put(index, "k", "v"))
    store.backup(tmp_path / "b", progress=progress)
    with pytest.raises(lockstep.WrongThread, match="close.* in a function that a call"):
        store.backup_to(lambda *_: store.close())
    assert set(heard) == {"progress"}
    with lockstep.open(tmp_path / "other", **SMALL) as other:  # that one waits for nothing
        store.backup_to(lambda *_: other.close())
    assert store.run(lambda txn: txn.get(index, "k")) == b"v"


def test_a_logger_may_change_records_of_a_secondary_index(tmp_path):
    """It does not run on the thread of key functions, for which the change waits."""
    heard = []

    def log(level, text):
        if store is not None and not heard:
            heard.append(text)
            store.run(lambda txn: txn.put(index, "log", "v"))
            heard.append(text)

    store = None
    opened = lockstep.open(tmp_path / "s", logger=log, **SMALL)
    index = opened.index("i", create=True)
    opened.secondary_index("by", index, lambda key, value: value)
    store = opened
    txn = store.begin()
    store.end_transaction(txn.id)  # the logger is told
    wait_for(lambda: len(heard) == 2)
    txn.abort()
    assert store.run(lambda txn: txn.get(index, "log")) == b"v"
    store.close()


def test_a_store_that_is_dropped_is_closed(tmp_path):
    def set_up():
        store = lockstep.open(tmp_path / "s", **SMALL)
        index = store.index("i", create=True)
        store.run(lambda txn: txn.put(index, "k", "v"))
        return index

    with pytest.warns(ResourceWarning, match="store '.*/s' was not closed"):
        index = set_up()
        gc.collect()
    with lockstep.open(tmp_path / "s", **SMALL) as store, store.snapshot() as txn:
        with pytest.raises(lockstep.StoreClosed, match="store that is closed"):
            txn.get(index, "k")
        assert txn.get(store.index("i"), "k") == b"v"


def test_a_transaction_and_a_scan_keep_their_store(tmp_path):
    def rows():
        store = lockstep.open(tmp_path / "s", **SMALL)
        index = store.index("i", create=True)
        store.run(lambda txn: txn.insert_many(index, (((n,), "v") for n in range(1000))))
        return store.begin().scan(index)

    scan = rows()
    gc.collect()
    assert sum(1 for _ in scan) == 1000
    with pytest.warns(ResourceWarning) as warned:
        del scan
        gc.collect()
    assert len(warned) == 2
    lockstep.open(tmp_path / "s", **SMALL).close()


def test_a_key_function_may_drop_a_store(tmp_path, store, index):
    left = []
    store.secondary_index("by", index, lambda key, value: left.clear() or value)
    left.append(lockstep.open(tmp_path / "dropped", **SMALL))
    with pytest.warns(ResourceWarning, match="dropped' was not closed"):
        store.run(lambda txn: txn.put(index, "k", "v"))
        assert left == []
        wait_for(lambda: can_open(tmp_path / "dropped"))


def test_a_child_of_fork_drops_what_is_its_parents(tmp_path):
    store = lockstep.open(tmp_path / "s", **SMALL)
    index = store.index("i", create=True)
    txn = store.begin()
    txn.put(index, "k", "v")
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # its default action ends the process
        warned = []
        warnings.showwarning = lambda *given, **more: warned.append(given)
        warnings.simplefilter("always")
        del store, txn
        gc.collect()
        os._exit(len(warned))
    assert os.waitpid(child, 0)[1] == 0
    txn.commit()
    with store.snapshot() as reader:
        assert reader.get(index, "k") == b"v"
    store.close()


def can_open(path):
    try:
        lockstep.open(path, **SMALL).close()
    except lockstep.StoreLocked:
        return False
    return True


DROPPED = """
import gc, sys, lockstep
def set_up():
    store = lockstep.open(sys.argv[1], workers=1, pool_bytes=16 << 20)
    index = store.index("i", create=True)
    store.run(lambda txn: txn.put(index, "k", "v"))
    return index
index = set_up()
gc.collect()
"""


def test_a_process_that_drops_its_store_leaves_it_clean(tmp_path):
    assert "was not closed" in run(DROPPED, tmp_path / "s")
    with lockstep.open(tmp_path / "s", read_only=True, pool_bytes=16 << 20) as store:
        with store.snapshot() as txn:
            assert txn.get(store.index("i"), "k") == b"v"


LATE = """
import atexit, sys

@atexit.register  # runs behind that of the package
def late():
    import lockstep
    with lockstep.open(sys.argv[1], workers=1, pool_bytes=16 << 20) as store:
        index = store.index("i", create=True)
        store.secondary_index("by", index, lambda key, value: value)
        try:
            store.run(lambda txn: txn.put(index, "k", "v"))
        except lockstep.KeyTooLong as error:
            print("refused:", error)

import lockstep
"""


def test_a_key_function_behind_the_end_of_the_helper_is_refused(tmp_path):
    assert "refused: key_too_long" in run(LATE, tmp_path / "s")


FAILING = """
import resource, sys, weakref, lockstep
class Logger:
    def __call__(self, level, text):
        pass
logger = Logger()
store = lockstep.open(sys.argv[1], workers=1, io="pool", pool_bytes=16 << 20, logger=logger)
index = store.index("i", create=True)
store.run(lambda txn: txn.put(index, "k", b"v" * 1_000_000))
known = weakref.ref(logger)
del logger
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
try:
    store.close()
except lockstep.Error as error:
    print(type(error).__name__)
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
lockstep._core.stop_helper()
print("kept" if known() else "ended")
"""


def test_functions_end_with_a_store_that_fails_to_close(tmp_path):
    lines = run(FAILING, tmp_path / "s").splitlines()
    assert lines[0] in ("InputOutputError", "NoSpace", "StoreFailed") and "ended" in lines


def test_a_key_function_is_kept_once(store, index):
    class Key:
        def __call__(self, key, value):
            return value

    key = Key()
    store.secondary_index("by", index, key)
    before = sys.getrefcount(key)
    for _ in range(10):
        store.secondary_index("by", index, key)
        store.attach_key("by", key)
    wait_for(lambda: sys.getrefcount(key) <= before)


def test_a_key_function_that_is_refused_is_not_kept(store, index):
    def key(key, value):
        return value

    known = weakref.ref(key)
    for _ in range(2):
        with pytest.raises(lockstep.NoSuchObject):
            store.attach_key("none", key)
    del key
    wait_for(lambda: gc.collect() is not None and known() is None)

