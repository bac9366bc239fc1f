"""test_interrupts - Ctrl-C in a call, and threads that are in a call when the interpreter ends."""

import gc
import signal
import threading
import warnings

import lockstep
import pytest
from conftest import SMALL
from test_lifetimes import others, run, wait_for


@pytest.fixture
def interrupt():
    """Raises KeyboardInterrupt in the main thread after so many seconds, as Ctrl-C does."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_an_interrupted_open_leaves_no_store_open(tmp_path, interrupt):
    """The exception arises as open() returns, when nobody knows the store yet."""
    lockstep.open(tmp_path / "s", **SMALL).close()
    kept = []  # with their tracebacks, as in an interactive session
    for turn in range(40):
        try:
            interrupt(0.0005 * (turn + 1))
            lockstep.open(tmp_path / "s", **SMALL).close()
            interrupt(0)
        except KeyboardInterrupt as error:
            kept.append(error)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one that close() had not begun to close
            gc.collect()
        lockstep.open(tmp_path / "s", **SMALL).close()
    assert kept


def test_an_interrupted_begin_leaves_no_transaction_open(tmp_path, interrupt):
    with lockstep.open(tmp_path / "s", transactions_max=16, **SMALL) as store:
        begun: list[lockstep.Transaction] = []
        for block in (store.begin, store.transaction().__enter__, lambda: store.run(id)):
            begun += [store.begin() for _ in range(16 - len(begun))]
            later = threading.Timer(0.6, begun.pop().abort)  # then the waiting begin goes on
            later.start()
            interrupt(0.3)
            with pytest.raises(KeyboardInterrupt) as kept:
                block()
            later.join()
            wait_for(lambda: len(others(store)) == len(begun))
            assert kept.value is not None
        for txn in begun:
            txn.abort()


DAEMONS = """
import sys, threading, time, lockstep
store = lockstep.open(sys.argv[1], workers=1, pool_bytes=16 << 20, lock_timeout=None)
index = store.index("i", create=True)
store.run(lambda txn: txn.put(index, "k", "v"))
holder = store.begin()
holder.put(index, "k", "w")

def wait():
    while True:
        try:
            store.run(lambda txn: txn.put(index, "k", "x"))
        except lockstep.Error:
            pass

def open_and_close(path):
    while True:
        lockstep.open(path, workers=1, pool_bytes=16 << 20).close()

for n in range(30):
    threading.Thread(target=wait, daemon=True).start()
threading.Thread(target=open_and_close, args=(sys.argv[1] + "2",), daemon=True).start()
time.sleep(0.5)
"""


def test_daemon_threads_in_calls_at_the_end_of_the_interpreter(tmp_path):
    """Until Python 3.14 it ends such a thread as it takes the GIL, which unwinds the stack."""
    for turn in range(4):
        run(DAEMONS, tmp_path / str(turn))
        with lockstep.open(tmp_path / str(turn), workers=1, pool_bytes=16 << 20) as store:
            assert store.run(lambda txn: txn.get(store.index("i"), "k")) == b"v"
