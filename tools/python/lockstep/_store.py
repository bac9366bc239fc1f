"""Stores: open, transactions, objects, maintenance, observation."""

from __future__ import annotations

import atexit
import threading
import warnings
import weakref
from collections.abc import Awaitable, Callable, Sequence
from types import CoroutineType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from . import _aio, _batch, _core, _options
from ._changes import Changing
from ._context import TransactionContext
from ._errors import Deadlock, Error, Forked, StoreClosed, WrongThread, refused
from ._objects import (
    BackupInfo,
    Heap,
    Index,
    ObjectInfo,
    PreparedInfo,
    TransactionInfo,
)
from ._report import Reporting
from ._transaction import KeyFunction, Transaction

if TYPE_CHECKING:
    from ._keys import Value
    from ._options import Options, Path, StepsMode, StepsOptions, TransactionOptions

R = TypeVar("R")
#: Takes the pages that a backup has copied, the pages of the store, and the bytes written.
Progress = Callable[[int, int, int], object]


class Store(Reporting, Changing):
    """An open store, a directory. lockstep.open() makes it; any thread may use it.

    As a context manager it is closed at the end. A store that is dropped before is closed, with a
    ResourceWarning: its transactions, scans and cursors keep it, its indexes and heaps do not. What
    is still open when the interpreter ends is closed without a warning. Every call that may wait
    releases the GIL. Signal handlers run meanwhile. If one raises an exception, as Ctrl-C does, the
    call raises it: a transaction that waits is cancelled before, other calls go on to their ends.
    """

    def __init__(self, path: Path, **options: Unpack[Options]) -> None:
        self._number = 0
        given: dict[str, Any] = dict(options)
        logger = given.pop("logger", None)
        steps = given.pop("steps", None)
        numbers = {name: _options.number(name, value) for name, value in given.items()}
        self.path = _options.path_text(path)
        given_steps = None if steps is None else _options.steps_arguments(steps)
        opened: list[int] = []
        self._finalizer = weakref.finalize(self, _close_dropped, opened, self.path)
        self._finalizer.atexit = False
        try:
            _core.open(opened, self.path, numbers, given_steps, logger)
            self._number = opened[0]
            self._retries_max: int = _core.get_options(self._handle)[0]["retries_max"]
            _open_stores.add(self)
        except BaseException:  # KeyboardInterrupt: nobody else could close the store
            self._number = 0
            self._finalizer.detach()
            for number in opened:
                _core.close(number)
            raise

    def close(self) -> None:
        """Rolls back transactions that are open, writes everything, closes.

        A second call does nothing. Every other call raises StoreClosed then, also those of the
        store's transactions and cursors. A function that a call on the store calls, such as
        `progress`, cannot close it: WrongThread, and the store stays open.
        """
        number, self._number = self._number, 0
        if number == 0:
            return
        try:
            _core.close(number)
        except WrongThread:
            self._number = number
            raise
        finally:
            if self._number == 0:
                _open_stores.discard(self)
                self._finalizer.detach()

    @property
    def _handle(self) -> int:
        """What the extension takes. Raises StoreClosed."""
        if self._number == 0:
            raise self._closed()
        return self._number

    def _closed(self) -> Error:
        return refused(StoreClosed, f"store {self.path!r}")

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.path!r}{'' if self._number else ', closed'}>"

    # Transactions.

    def transaction(self, **options: Unpack[TransactionOptions]) -> TransactionContext:
        """A transaction for `with`, or `async with`: it commits at the end of the block.

        An exception that leaves the block rolls it back. One block at a time uses the result.
        """
        begin = _options.begin_arguments(options)
        if self._number == 0:
            raise self._closed()
        return TransactionContext(self, begin)

    def begin(self, **options: Unpack[TransactionOptions]) -> Transaction:
        """Begins a transaction, which commit() or abort() ends."""
        return self._begin(_options.begin_arguments(options))

    def snapshot(self) -> TransactionContext:
        """A transaction that reads the state of one moment, takes no locks and delays nobody."""
        return self.transaction(isolation="snapshot", read_only=True)

    def run(self, fn: Callable[[Transaction], R], **options: Unpack[TransactionOptions]) -> R:
        """Calls fn(transaction) and commits; an exception rolls back. The result is that of fn.

        A deadlock victim is rolled back and called again when its turn comes, at most `retries_max`
        times.
        """
        begin = _options.begin_arguments(options)
        tried = 0
        while True:
            try:
                with self._begin(begin) as txn:
                    try:
                        result = fn(txn)
                    except Deadlock:
                        if txn.active:
                            begin = _options.repeated(begin, txn.retry())
                        raise
                    if isinstance(result, CoroutineType):
                        result.close()
                        raise TypeError("fn has returned a coroutine; run_async() awaits it")
                    return result
            except Deadlock:
                if tried == self._retries_max:
                    raise
            tried += 1

    async def run_async(
        self,
        fn: Callable[[_aio.AsyncTransaction], Awaitable[R]],
        **options: Unpack[TransactionOptions],
    ) -> R:
        """run() for a coroutine function."""
        begin = _options.begin_arguments(options)
        result: R = await _aio.run(self, fn, begin, self._retries_max)
        return result

    def execute(self, batch: _batch.Batch, **options: Unpack[TransactionOptions]) -> list[Any]:
        """Performs a batch as a transaction, in one hand-over; the results of its operations.

        A deadlock victim is repeated; an error rolls back.
        """
        begin = _options.begin_arguments(options)
        return _batch.execute_whole(batch, self._handle, begin)[0]

    async def execute_async(
        self, batch: _batch.Batch, **options: Unpack[TransactionOptions]
    ) -> list[Any]:
        """execute() for an event loop."""
        begin = _options.begin_arguments(options)
        return (await _aio.execute_whole(batch, self._handle, begin))[0]

    async def call_async(self, fn: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        """Runs a call that takes a while, such as `store.backup`, on a thread of a pool."""
        return await _aio.in_pool(fn, *args, **kwargs)

    # Two-phase commit.

    def prepare(
        self, batch: _batch.Batch, gid: Value, **options: Unpack[TransactionOptions]
    ) -> tuple[list[Any], bool]:
        """Performs a batch as a transaction and prepares it, in one hand-over.

        The results are those of execute() and of Transaction.prepare().
        """
        batch._request.name(gid)
        begin = _options.begin_arguments(options)
        results, _ = _batch.execute_whole(batch, self._handle, begin, _batch.PREPARE)
        return results, batch._request.prepared()

    async def prepare_async(
        self, batch: _batch.Batch, gid: Value, **options: Unpack[TransactionOptions]
    ) -> tuple[list[Any], bool]:
        """prepare() for an event loop."""
        batch._request.name(gid)
        begin = _options.begin_arguments(options)
        results, _ = await _aio.execute_whole(batch, self._handle, begin, _batch.PREPARE)
        return results, batch._request.prepared()

    def prepared(self) -> list[PreparedInfo]:
        """All transactions in doubt, the oldest first, also those of earlier opens."""
        return [PreparedInfo(*one) for one in _core.prepared(self._handle)]

    def commit_prepared(self, gid: Value) -> bool:
        """The second phase: commits what is prepared as `gid`, durably. Any thread may call it.

        False: nothing is in doubt under that name, because an earlier call has ended it. So a
        coordinator may repeat the call until it succeeds.
        """
        return _core.end_prepared(self._handle, gid, True)

    def rollback_prepared(self, gid: Value) -> bool:
        """The same with a rollback."""
        return _core.end_prepared(self._handle, gid, False)

    async def commit_prepared_async(self, gid: Value) -> bool:
        """commit_prepared() for an event loop, on a thread of a pool."""
        return await _aio.in_pool(self.commit_prepared, gid)

    async def rollback_prepared_async(self, gid: Value) -> bool:
        """rollback_prepared() for an event loop, on a thread of a pool."""
        return await _aio.in_pool(self.rollback_prepared, gid)

    # Indexes and heaps.

    def index(self, name: str, *, create: bool = False) -> Index:
        """A committed index. `create`: it is made, in a transaction of its own, if there is none.

        Raises NoSuchObject, WrongKind.
        """
        if create:
            return self.run(lambda txn: txn.index(name, create=True))
        return Index(name, _core.find(self._handle, name, True), self)

    def heap(self, name: str, *, create: bool = False) -> Heap:
        """A committed heap, as index()."""
        if create:
            return self.run(lambda txn: txn.heap(name, create=True))
        return Heap(name, _core.find(self._handle, name, False))

    def secondary_index(
        self, name: str, of: Index, key: KeyFunction, *, unique: bool = False
    ) -> Index:
        """A secondary index, made if there is none, by Transaction.secondary_index().

        Each process that changes records of `of` makes this call, or attach_key(), before.
        """
        return self.run(lambda txn: txn.secondary_index(name, of, key, unique=unique))

    def attach_key(self, name: str, key: KeyFunction) -> None:
        """Gives a secondary index its key function after an open."""
        _core.attach_key(self._handle, name, key)

    def objects(self) -> list[ObjectInfo]:
        """All committed indexes and heaps by name."""
        return [ObjectInfo(*one) for one in _core.objects(self._handle)]

    # Maintenance.

    def wait_durable(self, lsn: int) -> None:
        """Waits until everything up to a transaction's `lsn` is on disk."""
        _core.wait_durable(self._handle, lsn)

    def checkpoint(self) -> None:
        """Writes all dirty pages and recycles the log before them."""
        _core.checkpoint(self._handle)

    def give_back_space(self) -> int:
        """Cuts free pages off the data file. The result: bytes that the file system got back."""
        return _core.give_back_space(self._handle)

    def verify(self, threads: int = 1) -> list[str]:
        """Checks every page and structure; no transaction may be active. The result: faults.

        What a key function raises meanwhile goes to sys.unraisablehook.
        """
        return _core.verify(self._handle, threads)

    def backup(
        self,
        directory: Path,
        *,
        since: BackupInfo | None = None,
        bytes_per_second: int | None = None,
        progress: Progress | None = None,
    ) -> BackupInfo:
        """Copies the running store to a directory, which is made, or empty.

        `since`: copies only what has changed since that backup. `bytes_per_second` bounds the
        speed; None does not. `progress` runs on another thread.
        """
        return self._backup(_options.path_text(directory), None, since, bytes_per_second, progress)

    def backup_to(
        self,
        sink: Callable[[str, int, bytes], object],
        *,
        since: BackupInfo | None = None,
        bytes_per_second: int | None = None,
        progress: Progress | None = None,
    ) -> BackupInfo:
        """The same to a function: sink(file, offset, bytes), on another thread.

        An exception of the function ends the backup.
        """
        return self._backup(None, sink, since, bytes_per_second, progress)

    def _backup(
        self,
        path: str | None,
        sink: Callable[[str, int, bytes], object] | None,
        since: BackupInfo | None,
        bytes_per_second: int | None,
        progress: Progress | None,
    ) -> BackupInfo:
        if since is not None and not isinstance(since, BackupInfo):
            raise TypeError(f"since is a BackupInfo, not {since!r}")
        made = _core.backup(self._handle, path, sink, bytes_per_second, since, progress)
        return BackupInfo(*made)

    # Observation.

    def options(self) -> dict[str, Any]:
        """The options of the open store; `steps` has those of STEPS, as set_steps() chose last."""
        options, steps = _core.get_options(self._handle)
        result = {name: _options.text(name, value) for name, value in options.items()}
        result["steps"] = {name: _options.text(name, value) for name, value in steps.items()}
        return result

    def set_steps(self, steps: StepsOptions | StepsMode) -> None:
        """Switches teams and CTX points while transactions run."""
        _core.set_steps(self._handle, _options.steps_arguments(steps))

    def stats(self) -> dict[str, int]:
        """Counters since the store was opened, and present values."""
        return _core.stats(self._handle)

    def metrics(self) -> str:
        """All counters as text in the format of Prometheus."""
        return _core.metrics(self._handle)

    def failure(self) -> str | None:
        """What stopped the store; None while it works."""
        return _core.failure(self._handle) or None

    def transactions(self) -> list[TransactionInfo]:
        """All transactions that have begun and not ended."""
        return [TransactionInfo(*one) for one in _core.transactions(self._handle)]

    def end_transaction(self, id: int) -> None:
        """Ends a transaction of whatever thread. Its next call raises EndedByOperator."""
        _core.end_transaction(self._handle, id)

    def _begin(self, begin: _options.Begin) -> Transaction:
        txn = Transaction(self, 0)
        try:
            _core.begin(txn, self._handle, *begin)
        except BaseException:  # KeyboardInterrupt: nobody else could end the transaction
            txn._abandon()
            raise
        return txn


def open(path: Path, **options: Unpack[Options]) -> Store:
    """Opens the store in a directory, and makes it unless create=False. Recovers it after a crash.

    The path ":memory:" makes a new store in memory, which is gone when it is closed.
    Times are in seconds, None is never. `logger` is called on another thread with a level and a
    line. `steps` is a mode or a dictionary of StepsOptions.
    """
    return Store(path, **options)


def _close_dropped(opened: list[int], path: str) -> None:
    """Closes a store that nothing refers to; the list has its handle."""
    if _core.on_helper():  # a call that the close waits for may need this thread
        threading.Thread(target=_close_dropped, args=(opened, path)).start()
        return
    try:
        _core.close(*opened)
    except Forked:  # it is the parent's
        return
    warnings.warn(f"store {path!r} was not closed", ResourceWarning, stacklevel=2)


_open_stores: weakref.WeakSet[Store] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Closes what is open before the interpreter ends, since stores call Python functions."""
    for store in list(_open_stores):
        try:
            store.close()
        except Error:
            pass
    _core.stop_helper()
