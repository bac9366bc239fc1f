"""test_waits - every method of the package under what may come while it waits.

ROWS has a row for each public method: how to call it, and whether it waits for a lock that another
transaction holds. The methods come from the package itself, so a new one without a row fails. No
wait has a timeout here: what does not end, ends by the deadline of the test, and fails.
"""

import asyncio
import faulthandler
import inspect
import pathlib
import signal
import threading
import time

import lockstep
import pytest
from conftest import SMALL
from test_lifetimes import others, run, wait_for

#: A wait that is interrupted ends within this, on a busy machine too.
SOON = 10.0
WAITS, ENDS, NEVER_WAITS = "waits", "ends", "never waits"
CLASSES = (
    *(lockstep.Store, lockstep.Transaction, lockstep.AsyncTransaction, lockstep.Scan),
    *(lockstep.Cursor, lockstep.TransactionContext, lockstep.Batch),
    *(lockstep.Report, lockstep.ChangeFeed),
)
ENTRIES = ("__enter__", "__aenter__", "__next__", "__anext__")


def methods():
    """All that an application calls: Class.method, and the functions of the module."""
    found = set()
    for cls in CLASSES:
        # A class may have its methods from several others of the package.
        ours = [base for base in cls.__mro__ if base.__module__.startswith("lockstep")]
        for name, member in (item for base in ours for item in vars(base).items()):
            called = inspect.isfunction(member) or isinstance(member, property)
            if called and (not name.startswith("_") or name in ENTRIES):
                found.add(f"{cls.__name__}.{name}")
    for name in lockstep.__all__:
        if inspect.isfunction(getattr(lockstep, name)):
            found.add(name)
    return found


class Place:
    """A store, a transaction that holds locks, and one that will need them."""

    def __init__(self, path, **options):
        self.path = path
        self.inside = None  # a call for the key function
        self.point = None
        self.begun = []
        self.feed = None
        self.store = lockstep.open(path / "s", lock_timeout=None, transactions_max=16, **options)
        self.index = self.store.index("i", create=True)
        self.heap = self.store.heap("h", create=True)
        self.by = self.store.secondary_index("by", self.index, self.key_of)
        with self.store.transaction() as txn:
            txn.put(self.index, "k", "v")
            self.id = txn.heap_insert(self.heap, "v")

    def key_of(self, key, value):
        if self.inside is not None and key == b"inside":
            self.inside()
        return value

    def hold(self):
        """Locks everything that the calls of ROWS need."""
        self.holder = self.store.begin()
        self.holder.put(self.index, "k", "held")
        self.holder.heap_update(self.heap, self.id, "held")
        self.holder.create_index("new")
        self.holder.create_heap("new heap")
        self.txn = self.store.begin()
        self.point = self.txn.savepoint()

    def fill(self):
        """Begins all transactions that the store takes."""
        while len(others(self.store)) < 16:
            self.begun.append(self.store.begin())

    def batch(self):
        return lockstep.Batch().put(self.index, "k", "batch")

    def close(self):
        for txn in [*self.begun, getattr(self, "holder", None), getattr(self, "txn", None)]:
            if txn is not None and txn.active:
                txn.abort()
        self.store.close()


def in_loop(work):
    """A coroutine, as a program would run it."""
    return asyncio.run(asyncio.wait_for(work, 2 * SOON))


def in_async(call):
    """A method of AsyncTransaction, in a transaction of its own."""

    def work(p):
        async def inner():
            async with p.store.transaction() as txn:
                made = call(p, txn)
                if hasattr(made, "__aiter__"):
                    return [row async for row in made]
                return await made

        return in_loop(inner())

    return work


def begins(call):
    """It begins a transaction while there are as many as the store takes."""

    def work(p):
        p.fill()
        return call(p)

    return work


def scanned(p):
    return next(p.txn.scan(p.index))


def fed(call):
    """It waits for a change."""

    def work(p):
        p.feed = p.store.changes()
        return call(p.feed)

    return work


def reported(call):
    """Of a report."""

    def work(p):
        with p.store.report() as report:
            return call(report)

    return work


S, T, A = "Store.", "Transaction.", "AsyncTransaction."
ROWS = {
    "open": (lambda p: lockstep.open(p.path / "other", **SMALL).close(), ENDS),
    "pack_key": (lambda p: lockstep.pack_key(1), NEVER_WAITS),
    "unpack_key": (lambda p: lockstep.unpack_key(b"12345678", int), NEVER_WAITS),
    "read_backup": (lambda p: lockstep.read_backup(p.path), ENDS),
    "verify_backup": (lambda p: lockstep.verify_backup(p.path), ENDS),
    "verify_restore": (lambda p: lockstep.verify_restore([p.path]), ENDS),
    "update_backup": (lambda p: lockstep.update_backup(p.path, p.path), ENDS),
    "restore_backup": (lambda p: lockstep.restore_backup([p.path], p.path / "r"), ENDS),
    S + "__enter__": (lambda p: p.store.__enter__(), NEVER_WAITS),
    S + "attach_key": (lambda p: p.store.attach_key("by", p.key_of), ENDS),
    S + "backup": (lambda p: p.store.backup(p.path / "b"), ENDS),
    S + "backup_to": (lambda p: p.store.backup_to(lambda *_: None), ENDS),
    S + "begin": (begins(lambda p: p.store.begin()), WAITS),
    S + "call_async": (
        lambda p: in_loop(p.store.call_async(p.store.end_transaction, p.txn.id)),
        ENDS,
    ),
    S + "changes": (lambda p: p.store.changes(), ENDS),
    S + "changes_point": (lambda p: p.store.changes_point(p.txn), ENDS),
    S + "checkpoint": (lambda p: p.store.checkpoint(), ENDS),
    S + "close": (lambda p: p.store.close(), ENDS),
    S + "columns": (lambda p: p.store.columns("i"), ENDS),
    S + "commit_prepared": (lambda p: p.store.commit_prepared("none"), ENDS),
    S + "commit_prepared_async": (
        lambda p: in_loop(p.store.commit_prepared_async("none")),
        ENDS,
    ),
    S + "describe": (lambda p: p.store.describe("i", "id u32 key"), ENDS),
    S + "end_transaction": (lambda p: p.store.end_transaction(p.txn.id), ENDS),
    S + "execute": (lambda p: p.store.execute(p.batch()), WAITS),
    S + "execute_async": (lambda p: in_loop(p.store.execute_async(p.batch())), WAITS),
    S + "failure": (lambda p: p.store.failure(), NEVER_WAITS),
    S + "give_back_space": (lambda p: p.store.give_back_space(), ENDS),
    S + "heap": (lambda p: p.store.heap("new heap", create=True), WAITS),
    S + "index": (lambda p: p.store.index("new", create=True), WAITS),
    S + "metrics": (lambda p: p.store.metrics(), NEVER_WAITS),
    S + "objects": (lambda p: p.store.objects(), ENDS),
    S + "options": (lambda p: p.store.options(), NEVER_WAITS),
    S + "prepare": (lambda p: p.store.prepare(p.batch(), "gid"), WAITS),
    S + "prepare_async": (lambda p: in_loop(p.store.prepare_async(p.batch(), "gid")), WAITS),
    S + "prepared": (lambda p: p.store.prepared(), ENDS),
    S + "report": (lambda p: p.store.report().close(), ENDS),
    S + "report_stats": (lambda p: p.store.report_stats(), NEVER_WAITS),
    S + "reports": (lambda p: p.store.reports(), NEVER_WAITS),
    S + "rollback_prepared": (lambda p: p.store.rollback_prepared("none"), ENDS),
    S + "rollback_prepared_async": (
        lambda p: in_loop(p.store.rollback_prepared_async("none")),
        ENDS,
    ),
    S + "run": (lambda p: p.store.run(lambda txn: txn.get(p.index, "k")), WAITS),
    S + "run_async": (
        lambda p: in_loop(p.store.run_async(lambda txn: txn.get(p.index, "k"))),
        WAITS,
    ),
    S + "secondary_index": (lambda p: p.store.secondary_index("new", p.index, p.key_of), WAITS),
    S + "set_steps": (lambda p: p.store.set_steps("off"), ENDS),
    S + "snapshot": (begins(lambda p: p.store.snapshot().__enter__()), WAITS),
    S + "stats": (lambda p: p.store.stats(), NEVER_WAITS),
    S + "transaction": (begins(lambda p: p.store.transaction().__enter__()), WAITS),
    S + "transactions": (lambda p: p.store.transactions(), ENDS),
    S + "verify": (lambda p: p.store.verify(), ENDS),
    S + "wait_durable": (lambda p: p.store.wait_durable(1), ENDS),
    "TransactionContext.__enter__": (
        begins(lambda p: p.store.transaction().__enter__()),
        WAITS,
    ),
    "TransactionContext.__aenter__": (
        begins(lambda p: in_loop(p.store.transaction().__aenter__())),
        WAITS,
    ),
    T + "__enter__": (lambda p: p.txn.__enter__(), NEVER_WAITS),
    T + "abort": (lambda p: p.txn.abort(), ENDS),
    T + "active": (lambda p: p.txn.active, NEVER_WAITS),
    T + "bulk_load": (lambda p: p.txn.bulk_load(p.index, [("a", "b")]), WAITS),
    T + "commit": (lambda p: p.txn.commit(), ENDS),
    T + "commit_with": (lambda p: p.txn.commit_with(p.batch()), WAITS),
    T + "create_heap": (lambda p: p.txn.create_heap("new heap"), WAITS),
    T + "create_index": (lambda p: p.txn.create_index("new"), WAITS),
    T + "cursor": (lambda p: p.txn.cursor(p.index).next(), WAITS),
    T + "cursor_by": (lambda p: p.txn.cursor_by(p.by).next(), WAITS),
    T + "drop": (lambda p: p.txn.drop("i"), WAITS),
    T + "erase": (lambda p: p.txn.erase(p.index, "k"), WAITS),
    T + "erase_range": (lambda p: p.txn.erase_range(p.index, "k", "l"), WAITS),
    T + "execute": (lambda p: p.txn.execute(p.batch()), WAITS),
    T + "get": (lambda p: p.txn.get(p.index, "k"), WAITS),
    T + "get_into": (lambda p: p.txn.get_into(p.index, "k", bytearray(9)), WAITS),
    T + "get_many": (lambda p: p.txn.get_many(p.index, ["a", "k"]), WAITS),
    T + "heap": (lambda p: p.txn.heap("new heap", create=True), WAITS),
    T + "heap_each": (lambda p: p.txn.heap_each(p.heap, lambda *_: True), WAITS),
    T + "heap_erase": (lambda p: p.txn.heap_erase(p.heap, p.id), WAITS),
    T + "heap_get": (lambda p: p.txn.heap_get(p.heap, p.id), WAITS),
    T + "heap_insert": (lambda p: p.txn.heap_insert(p.heap, "v"), ENDS),
    T + "heap_scan": (lambda p: p.txn.heap_scan(p.heap), WAITS),
    T + "heap_update": (lambda p: p.txn.heap_update(p.heap, p.id, "w"), WAITS),
    T + "id": (lambda p: p.txn.id, NEVER_WAITS),
    T + "index": (lambda p: p.txn.index("new", create=True), WAITS),
    T + "insert": (lambda p: p.txn.insert(p.index, "k", "w"), WAITS),
    T + "insert_many": (lambda p: p.txn.insert_many(p.index, [("k", "w")]), WAITS),
    T + "nested": (lambda p: p.txn.nested().__enter__(), ENDS),
    T + "patch": (lambda p: p.txn.patch(p.index, "k", 0, "w"), WAITS),
    T + "prepare": (lambda p: p.txn.prepare("gid"), ENDS),
    T + "prepare_with": (lambda p: p.txn.prepare_with(p.batch(), "gid"), WAITS),
    T + "put": (lambda p: p.txn.put(p.index, "k", "w"), WAITS),
    T + "retry": (lambda p: p.txn.retry(), ENDS),
    T + "rollback_to": (lambda p: p.txn.rollback_to(p.point), ENDS),
    T + "savepoint": (lambda p: p.txn.savepoint(), ENDS),
    T + "scan": (lambda p: list(p.txn.scan(p.index)), WAITS),
    T + "scan_by": (lambda p: list(p.txn.scan_by(p.by)), WAITS),
    T + "scan_views": (lambda p: list(p.txn.scan_views(p.index)), WAITS),
    T + "secondary_index": (lambda p: p.txn.secondary_index("two", p.index, p.key_of), WAITS),
    T + "update": (lambda p: p.txn.update(p.index, "k", "w"), WAITS),
    T + "will_need": (lambda p: p.txn.will_need([(p.index, "k")]), ENDS),
    "Scan.__enter__": (lambda p: p.txn.scan(p.index).__enter__(), ENDS),
    "Scan.__next__": (scanned, WAITS),
    "Scan.block": (lambda p: p.txn.scan(p.index).block(), WAITS),
    "Scan.close": (lambda p: p.txn.scan(p.index).close(), ENDS),
    "Cursor.__enter__": (lambda p: p.txn.cursor(p.index).__enter__(), ENDS),
    "Cursor.close": (lambda p: p.txn.cursor(p.index).close(), ENDS),
    "Cursor.next": (lambda p: p.txn.cursor(p.index).next(), WAITS),
    "Cursor.patch": (lambda p: p.txn.cursor(p.index).patch(0, "w"), ENDS),
    "Cursor.prev": (lambda p: p.txn.cursor(p.index).prev(), WAITS),
    "Cursor.secondary_key": (lambda p: p.txn.cursor(p.index).secondary_key, ENDS),
    "Cursor.seek": (lambda p: p.txn.cursor(p.index).seek("a"), ENDS),
    A + "__aenter__": (begins(lambda p: in_loop(p.store.transaction().__aenter__())), WAITS),
    A + "abort": (in_async(lambda p, t: t.abort()), ENDS),
    A + "active": (lambda p: None, NEVER_WAITS),
    A + "call": (in_async(lambda p, t: t.call(lambda txn: txn.get(p.index, "k"))), WAITS),
    A + "commit": (in_async(lambda p, t: t.commit()), ENDS),
    A + "erase": (in_async(lambda p, t: t.erase(p.index, "k")), WAITS),
    A + "execute": (in_async(lambda p, t: t.execute(p.batch())), WAITS),
    A + "get": (in_async(lambda p, t: t.get(p.index, "k")), WAITS),
    A + "get_many": (in_async(lambda p, t: t.get_many(p.index, ["k"])), WAITS),
    A + "heap_erase": (in_async(lambda p, t: t.heap_erase(p.heap, p.id)), WAITS),
    A + "heap_get": (in_async(lambda p, t: t.heap_get(p.heap, p.id)), WAITS),
    A + "heap_insert": (in_async(lambda p, t: t.heap_insert(p.heap, "v")), ENDS),
    A + "heap_update": (in_async(lambda p, t: t.heap_update(p.heap, p.id, "w")), WAITS),
    A + "id": (lambda p: None, NEVER_WAITS),
    A + "insert": (in_async(lambda p, t: t.insert(p.index, "k", "w")), WAITS),
    A + "insert_many": (in_async(lambda p, t: t.insert_many(p.index, [("k", "w")])), WAITS),
    A + "lsn": (lambda p: None, NEVER_WAITS),
    A + "patch": (in_async(lambda p, t: t.patch(p.index, "k", 0, "w")), WAITS),
    A + "prepare": (in_async(lambda p, t: t.prepare("gid")), ENDS),
    A + "put": (in_async(lambda p, t: t.put(p.index, "k", "w")), WAITS),
    A + "retry": (in_async(lambda p, t: t.retry()), ENDS),
    A + "rollback_to": (in_async(lambda p, t: roll_back(t)), ENDS),
    A + "savepoint": (in_async(lambda p, t: t.savepoint()), ENDS),
    A + "scan": (in_async(lambda p, t: t.scan(p.index)), WAITS),
    A + "scan_by": (in_async(lambda p, t: t.scan_by(p.by)), WAITS),
    A + "update": (in_async(lambda p, t: t.update(p.index, "k", "w")), WAITS),
    "ChangeFeed.__enter__": (fed(lambda feed: feed.__enter__()), ENDS),
    "ChangeFeed.__anext__": (fed(lambda feed: in_loop(feed.__anext__())), WAITS),
    "ChangeFeed.__next__": (fed(next), WAITS),
    "ChangeFeed.close": (fed(lambda feed: feed.close()), ENDS),
    "ChangeFeed.next": (fed(lambda feed: feed.next(None)), WAITS),
    "ChangeFeed.position": (fed(lambda feed: feed.position), ENDS),
    "Report.__enter__": (reported(lambda r: r.__enter__()), ENDS),
    "Report.cancel": (reported(lambda r: r.cancel()), ENDS),
    "Report.close": (reported(lambda r: r.close()), ENDS),
    "Report.copy_for": (reported(lambda r: r.copy_for(["select 1"])), ENDS),
    "Report.frame": (reported(lambda r: r.frame("i")), ENDS),
    "Report.sees": (reported(lambda r: r.sees), ENDS),
    "Report.sql": (reported(lambda r: r.sql("select 1")), ENDS),
    "Report.table": (reported(lambda r: r.table("i")), ENDS),
    **{f"Batch.{name}": (lambda p: p.batch(), NEVER_WAITS) for name in dir(lockstep.Batch)
       if f"Batch.{name}" in methods()},
}  # fmt: skip


async def roll_back(txn):
    await txn.rollback_to(await txn.savepoint())


def is_async(name):
    return name.startswith(A) or name.endswith(("_async", "__aenter__", "__anext__"))


WAITING = [name for name, (_, kind) in ROWS.items() if kind is WAITS]


@pytest.fixture
def place(tmp_path):
    """A wait without an end ends the test program, which says where it stands."""
    faulthandler.dump_traceback_later(6 * SOON, exit=True)
    made = Place(tmp_path, **SMALL)
    yield made
    made.inside = None
    made.close()
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def ctrl_c():
    """SIGINT once a transaction waits. When it was sent.

    An event loop is woken only by a signal that the kernel gives to its own thread. One that comes
    just before the loop sleeps does not wake it, so others follow, which do nothing.
    """
    stop = threading.Event()

    def send(condition, in_loop):
        while not condition() and not stop.wait(0.01):
            pass
        if stop.is_set():
            return
        sent.append(time.monotonic())
        if in_loop:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            while not stop.wait(0.1):
                signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
        else:
            signal.raise_signal(signal.SIGINT)  # Python runs the handler on the main thread

    sent, threads = [], []

    def begin(condition, in_loop):
        threads.append(threading.Thread(target=send, args=(condition, in_loop)))
        threads[0].start()
        return sent

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    waking = signal.signal(signal.SIGUSR1, lambda *_: None)
    yield begin
    stop.set()
    for thread in threads:
        thread.join()
    signal.signal(signal.SIGINT, before)
    signal.signal(signal.SIGUSR1, waking)


def is_waiting(place):
    """For a lock, a change, or to begin: then nothing visible has changed for a while."""
    begun = time.monotonic()

    def condition():
        if any(t.state == "lock_wait" for t in place.store.transactions()):
            return True
        return (place.begun or place.feed) and time.monotonic() > begun + 1

    return condition


def test_each_method_has_a_row():
    assert set(ROWS) == methods()


@pytest.mark.parametrize("name", WAITING)
def test_ctrl_c(place, ctrl_c, name):
    """The signal may reach any thread. The call ends, and with it its transaction."""
    place.hold()
    sent = ctrl_c(is_waiting(place), is_async(name))
    with pytest.raises(KeyboardInterrupt):
        ROWS[name][0](place)
    assert time.monotonic() - sent[0] < SOON
    if place.txn.active:
        place.txn.abort()
    for txn in place.begun:
        txn.abort()
    wait_for(lambda: len(others(place.store)) == 1)  # the holder


@pytest.mark.parametrize("name", [n for n, (_, kind) in ROWS.items() if kind is ENDS])
def test_ctrl_c_at_any_time_of_what_ends_by_itself(place, ctrl_c, name):
    """It raises KeyboardInterrupt or ends, and the store works on."""
    place.hold()
    began = time.monotonic()
    try:
        ctrl_c(lambda: time.monotonic() > began + 0.001, is_async(name))
        try:
            ROWS[name][0](place)
        except lockstep.Error:
            pass
        while True:  # until it comes
            time.sleep(0.01)
    except KeyboardInterrupt:
        pass
    assert time.monotonic() - began < SOON


def test_a_handler_that_does_not_raise_interrupts_nothing(place):
    """It runs while the call waits, which then goes on to its end."""
    place.hold()
    seen = []

    def handle(number, frame):
        seen.append(number)
        if len(seen) == 3:
            place.holder.abort()

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    try:
        assert place.txn.get(place.index, "k") == b"v"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(seen) >= 3


@pytest.mark.parametrize("name", [n for n in WAITING if is_async(n)])
@pytest.mark.parametrize("how", ["cancelled", "timeout"])
def test_a_task_that_ends(place, name, how, monkeypatch):
    place.hold()

    async def limited(work):
        task = asyncio.ensure_future(work)
        if how == "timeout":
            return await asyncio.wait_for(task, 0.3)
        condition = is_waiting(place)
        while not condition():
            await asyncio.sleep(0.01)
        task.cancel()
        return await task

    monkeypatch.setitem(globals(), "in_loop", lambda work: asyncio.run(limited(work)))
    began = time.monotonic()
    with pytest.raises(TimeoutError if how == "timeout" else asyncio.CancelledError):
        ROWS[name][0](place)
    assert time.monotonic() - began < SOON
    place.txn.abort()
    for txn in place.begun:
        txn.abort()
    wait_for(lambda: len(others(place.store)) == 1)


@pytest.mark.parametrize("name", ROWS)
def test_in_a_key_function(place, name):
    """A change waits for the key function: what could wait for the change is refused at once."""
    place.hold()
    place.begun = [place.txn]  # `begins` has nothing to begin
    found = []

    def inside():
        try:
            found.append(ROWS[name][0](place))
        except BaseException as error:
            found.append(error)
            raise

    place.fill = lambda: None
    place.inside = inside
    began = time.monotonic()
    with place.store.transaction() as txn:
        if ROWS[name][1] is NEVER_WAITS:
            txn.put(place.index, "inside", "v")
        else:
            with pytest.raises(lockstep.WrongThread, match="key function|in a function that"):
                txn.put(place.index, "inside", "v")
    assert len(found) == 1 and time.monotonic() - began < SOON


class Odd(BaseException):
    """No Exception."""


LEAVING = [StopIteration, StopAsyncIteration, Odd, GeneratorExit, asyncio.CancelledError]
#: Methods that call functions of the application on the thread of the caller, or for it.
CALLING = {
    S + "run": lambda p, fn: p.store.run(lambda txn: fn()),
    S + "run_async": lambda p, fn: in_loop(p.store.run_async(as_coroutine(fn))),
    S + "call_async": lambda p, fn: in_loop(p.store.call_async(fn)),
    S + "backup_to": lambda p, fn: p.store.backup_to(lambda *_: fn()),
    T + "heap_each": lambda p, fn: p.txn.heap_each(p.heap, lambda *_: fn()),
    T + "bulk_load": lambda p, fn: p.txn.bulk_load(p.txn.create_index("l"), generated(fn)),
    T + "put": lambda p, fn: p.txn.put(p.index, inside(p, fn), "v"),
    A + "put": in_async(lambda p, t: t.put(p.index, inside(p, p.fn), "v")),
    A + "call": in_async(lambda p, t: t.call(lambda txn: p.fn())),
}


def as_coroutine(fn):
    async def work(txn):
        fn()

    return work


def generated(fn):
    yield "a", "b"
    fn()


def inside(place, fn):
    place.inside = fn
    return "inside"


@pytest.mark.parametrize("kind", LEAVING)
@pytest.mark.parametrize("name", CALLING)
def test_a_function_that_is_left(place, name, kind):
    """The caller hears of it. A coroutine cannot raise StopIteration: that is a RuntimeError."""
    place.txn = place.store.begin()

    def fn():
        raise kind("left")

    place.fn = fn
    call = CALLING[name]
    began = time.monotonic()
    with pytest.raises((kind, RuntimeError)) as raised:
        call(place, fn) if call.__code__.co_argcount == 2 else call(place)
    assert time.monotonic() - began < SOON
    assert "left" in repr(raised.value) or isinstance(raised.value.__cause__, kind)
    place.txn.abort()
    wait_for(lambda: others(place.store) == [])


AT_EXIT = """
import sys, threading, time
sys.path.insert(0, sys.argv[1])
import pathlib, test_waits
from conftest import SMALL
place = test_waits.Place(pathlib.Path(sys.argv[2]), **SMALL)
place.hold()

def wait(call):
    try:
        call(place)
    except BaseException:
        pass

threading.Thread(target=wait, args=(test_waits.ROWS[sys.argv[3]][0],), daemon=True).start()
time.sleep(0.3)
"""


@pytest.mark.parametrize("name", [n for n in WAITING if n.startswith((S, T))])
def test_the_interpreter_ends(tmp_path, name):
    """A daemon thread waits in the call. run() bounds the time of the process."""
    run(AT_EXIT, pathlib.Path(__file__).parent, tmp_path, name)


SUBINTERPRETER = """
import _xxsubinterpreters as interpreters
{before}
made = interpreters.create()
try:
    interpreters.run_string(made, "import lockstep")
except interpreters.RunFailedError as error:
    print(error)
"""


@pytest.mark.parametrize("before", ["", "import lockstep"])
def test_a_subinterpreter_is_refused(before):
    assert "main interpreter only" in run(SUBINTERPRETER.format(before=before))
