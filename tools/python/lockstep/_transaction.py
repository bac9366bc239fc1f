"""Transactions that a thread uses."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from . import _batch, _core, _scan
from ._errors import Error, TransactionEnded, WrongThread, refused
from ._objects import Heap, Index, OfOneProcess, RecordId, Savepoint
from ._options import Access

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._keys import Key, Value
    from ._options import Retry
    from ._store import Store

T = TypeVar("T")
#: Computes the key, or the list of keys, of a record in a secondary index; None: no key.
KeyFunction = Callable[[bytes, bytes], "Key | list[Key] | None"]
_CREATE, _OPEN_OR_CREATE, _FIND = 0, 1, 2
#: How long a rollback waits for a call that is in the transaction, and how often it looks.
ABANDON_SECONDS, ABANDON_PAUSE = 10.0, 0.001


class Transaction(OfOneProcess):
    """A transaction of `Store.transaction()`, `Store.run()` or `Store.begin()`.

    Any thread may use it, one call at a time; a second call meanwhile raises WrongThread. After
    Deadlock, LockTimeout and SelfDeadlock it must be rolled back. As a context manager it commits
    if it is left without an exception and rolls back otherwise. A transaction that is dropped
    before it ends is rolled back, with a ResourceWarning.

    Keys are bytes, str (UTF-8), any object with a buffer, or a tuple (see pack_key). Values are
    bytes, str or any object with a buffer; they come back as bytes. A buffer that is given must
    not change until the call returns.
    """

    __slots__ = ("_dropped", "_number", "_store", "lsn")

    def __init__(self, store: Store, handle: int) -> None:
        self._store = store
        self._number = handle
        #: Cursors whose scans were dropped. Each holds a block of memory until it is closed.
        self._dropped: list[int] = []
        #: Behind commit(): the point for Store.wait_durable(), 0 if nothing was changed.
        self.lsn = 0

    def __del__(
        self,
        _abandon: Callable[[int], bool] = _core.abandon,
        _warn: Callable[..., None] = warnings.warn,
    ) -> None:
        number, self._number = self._number, 0
        if number != 0 and _abandon(number):
            text = f"transaction of {self._store!r} was neither committed nor rolled back"
            _warn(text, ResourceWarning, stacklevel=2)

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._number == 0:
            return
        if error is None:
            self.commit()
        else:
            self._abandon()

    @property
    def _handle(self) -> int:
        """What the extension takes. Raises StoreClosed, TransactionEnded."""
        if self._number == 0 or self._store._number == 0:
            raise self._ended()
        return self._number

    @property
    def _handle_for_scan(self) -> int:
        """The same. Closes cursors of scans that were dropped: the collector must not wait."""
        handle = self._handle
        try:
            while True:
                _core.cursor_close(self._dropped.pop())
        except IndexError:  # of pop(): another thread may take the last one
            return handle

    def _ended(self) -> Error:
        if self._store._number == 0:
            return self._store._closed()
        how = "transaction, which was committed, rolled back or prepared"
        return refused(TransactionEnded, how)

    @property
    def active(self) -> bool:
        """Whether the transaction has neither been committed nor rolled back."""
        return self._number != 0 and self._store._number != 0

    @property
    def id(self) -> int:
        """The number that Store.end_transaction() takes; 0 if the transaction has ended."""
        return _core.txn_id(self._number)

    def commit(self) -> int:
        """Commits. The result is that of `lsn`. If it cannot commit, it is rolled back."""
        self.lsn = self._end(_core.commit)
        return self.lsn

    def abort(self) -> None:
        """Rolls back."""
        self._end(_core.abort)

    def _end(self, call: Callable[[int], T]) -> T:
        """Makes a call that may end the transaction; whatever it raises, the handle tells."""
        number = self._handle
        try:
            return call(number)
        finally:
            if _core.txn_id(number) == 0:
                self._number = 0

    def prepare(self, gid: Value) -> bool:
        """The first phase of two-phase commit: promises to commit or roll back as Store will say.

        `gid` is the name of the global transaction, 1 to GID_BYTES_MAX bytes. The transaction keeps
        its locks, survives restarts, and belongs to no thread. Store.commit_prepared() or
        Store.rollback_prepared() ends it. False: it has changed nothing, and has ended. An
        exception leaves it as it was, except StoreFailed. Unsupported: it has created, dropped or
        bulk-loaded an index or heap. Commit it alone, or make such changes in a transaction of
        their own before.
        """
        return self._end(lambda number: _core.prepare(number, gid))

    def retry(self) -> Retry:
        """For a program that repeats a deadlock victim itself: `retry` of its next begin.

        Call it after Deadlock, and before abort(). Store.run() does so itself.
        """
        return _core.retry(self._handle)

    def savepoint(self) -> Savepoint:
        """Marks the present state."""
        return Savepoint(*_core.set_savepoint(self._handle))

    def rollback_to(self, savepoint: Savepoint) -> None:
        """Undoes what came after the savepoint. Locks stay; the savepoint remains usable."""
        _core.rollback_to(self._handle, *savepoint)

    @contextmanager
    def nested(self) -> Iterator[Savepoint]:
        """A part of the transaction that is undone if the block raises an exception.

        The exception leaves the block, also if the whole transaction must be rolled back, as after
        Deadlock.
        """
        savepoint = self.savepoint()
        try:
            yield savepoint
        except BaseException:
            if self.active:
                try:
                    self.rollback_to(savepoint)
                except WrongThread:  # nothing is undone, and the transaction could commit
                    raise
                except Error:  # it cannot commit; the first exception says why
                    pass
            raise

    # Records of indexes.

    def get(self, index: Index, key: Key, access: Access = Access.READ) -> bytes | None:
        """The value of the key, or None."""
        return _core.get(self._handle, index, key, access)

    def get_into(
        self, index: Index, key: Key, buffer: Buffer, access: Access = Access.READ
    ) -> int | None:
        """Writes the value to a writable buffer, as far as it fits. The result is its full length.

        None if there is no such key.
        """
        return _core.get_into(self._handle, index, key, buffer, access)

    def get_many(
        self, index: Index, keys: Iterable[Key], access: Access = Access.READ
    ) -> list[bytes | None]:
        """The values of many keys, at most 65536."""
        return _core.get_many(self._handle, index, keys, access)

    def insert(self, index: Index, key: Key, value: Value) -> None:
        """Adds a record. Raises DuplicateKey if the key exists."""
        _core.insert(self._handle, index, key, value)

    def insert_many(self, index: Index, records: Iterable[tuple[Key, Value]]) -> None:
        """Adds many records in this order. After an error those before the refused one are in."""
        _core.insert_many(self._handle, index, records)

    def put(self, index: Index, key: Key, value: Value) -> None:
        """Adds the record or replaces its value."""
        _core.put(self._handle, index, key, value)

    def update(self, index: Index, key: Key, value: Value) -> bool:
        """Replaces the value. False if there is no such key."""
        return _core.update(self._handle, index, key, value)

    def patch(self, index: Index, key: Key, offset: int, part: Value) -> bool:
        """Overwrites bytes of the value from `offset` on. False if there is no such key."""
        return _core.patch(self._handle, index, key, offset, part)

    def erase(self, index: Index, key: Key) -> bool:
        """Erases the record. False if there is no such key."""
        return _core.erase(self._handle, index, key)

    def erase_range(self, index: Index, low: Key | None, high: Key | None) -> int:
        """Erases the records with low <= key < high; their number.

        A bound that is None or an empty key is none. Faster than single erases. After an error
        nothing of the call is left.
        """
        return _core.erase_range(self._handle, index, low, high)

    def bulk_load(
        self, index: Index, records: Iterable[tuple[Key, Value]], fill_percent: int = 100
    ) -> None:
        """Fills an empty index from records in ascending order of their keys."""
        _core.bulk_load(self._handle, index, records, fill_percent)

    def will_need(
        self, needs: Iterable[tuple[Index, Key]], access: Access = Access.READ, bytes: int = 0
    ) -> bool:
        """Tells which records the transaction will use, so that their page reads overlap.

        The first 64 count; `bytes` is the length of their values, as far as known. The result:
        whether the store makes use of it at present.
        """
        given = [(index, key, int(access), bytes) for index, key in needs]
        return _core.will_need(self._handle, given)

    # Scans.

    def scan(
        self,
        index: Index,
        low: Key | None = None,
        high: Key | None = None,
        *,
        prefix: Key | None = None,
        reverse: bool = False,
        access: Access = Access.READ,
    ) -> _scan.Scan[bytes]:
        """The records (key, value) with low <= key < high, in the order of their keys.

        A bound that is None or an empty key is none.
        """
        low, high = _scan.bounds(low, high, prefix)
        cursor = _core.scan(self._handle_for_scan, index, low, high, access)
        return _scan.Scan(self, cursor, not reverse, _core.cursor_read)

    def scan_views(
        self,
        index: Index,
        low: Key | None = None,
        high: Key | None = None,
        *,
        prefix: Key | None = None,
        reverse: bool = False,
        access: Access = Access.READ,
    ) -> _scan.Scan[memoryview]:
        """The same without copies: keys and values are views of the block that was read.

        A view stays valid, and keeps its whole block in memory.
        """
        low, high = _scan.bounds(low, high, prefix)
        cursor = _core.scan(self._handle_for_scan, index, low, high, access)
        return _scan.Scan(self, cursor, not reverse, _core.cursor_read_views)

    def scan_by(
        self,
        secondary: Index,
        low: Key | None = None,
        high: Key | None = None,
        *,
        only: Key | None = None,
        reverse: bool = False,
        access: Access = Access.READ,
    ) -> _scan.Scan[bytes]:
        """Records (key, value) of a primary in the order of a secondary index.

        The bounds are secondary keys. With `only` the range is that one secondary key.
        """
        cursor = self._by(secondary, low, high, only, access)
        return _scan.Scan(self, cursor, not reverse, _core.cursor_read)

    def cursor(
        self,
        index: Index,
        low: Key | None = None,
        high: Key | None = None,
        access: Access = Access.READ,
    ) -> _scan.Cursor:
        """A cursor over low <= key < high."""
        cursor = _core.scan(self._handle_for_scan, index, low, high, access)
        return _scan.Cursor(self, cursor, secondary=False)

    def cursor_by(
        self,
        secondary: Index,
        low: Key | None = None,
        high: Key | None = None,
        *,
        only: Key | None = None,
        access: Access = Access.READ,
    ) -> _scan.Cursor:
        """A cursor over records of a primary in the order of a secondary index."""
        cursor = self._by(secondary, low, high, only, access)
        return _scan.Cursor(self, cursor, secondary=True)

    def _by(
        self, secondary: Index, low: Key | None, high: Key | None, only: Key | None, access: Access
    ) -> int:
        if only is None:
            return _core.scan_by(self._handle_for_scan, secondary, low, high, False, access)
        if low is not None or high is not None:
            raise ValueError("a scan has bounds or one key, not both")
        return _core.scan_by(self._handle_for_scan, secondary, only, None, True, access)

    # Records of heaps.

    def heap_insert(self, heap: Heap, record: Value) -> RecordId:
        """Stores a record. The result names it until it is erased."""
        return _core.heap_insert(self._handle, heap, record)

    def heap_get(
        self, heap: Heap, id: RecordId, access: Access = Access.READ
    ) -> bytes | None:
        """The record, or None."""
        return _core.heap_get(self._handle, heap, id, access)

    def heap_update(self, heap: Heap, id: RecordId, record: Value) -> bool:
        """Replaces the record. False if there is no such record."""
        return _core.heap_update(self._handle, heap, id, record)

    def heap_erase(self, heap: Heap, id: RecordId) -> bool:
        """Erases the record. False if there is no such record."""
        return _core.heap_erase(self._handle, heap, id)

    def heap_scan(self, heap: Heap) -> list[tuple[RecordId, bytes]]:
        """All records of the heap in memory, in no particular order."""
        return _core.heap_scan(self._handle, heap)

    def heap_each(self, heap: Heap, each: Callable[[RecordId, bytes], object]) -> None:
        """Calls each(id, record) for all records, until it returns False.

        It must not use this transaction.
        """
        _core.heap_each(self._handle, heap, each)

    # Many operations, indexes and heaps.

    def execute(self, batch: _batch.Batch) -> list[Any]:
        """Performs the operations of a batch in one hand-over; their results."""
        return _batch.execute_within(batch, self._handle, _batch.KEEP)

    def commit_with(self, batch: _batch.Batch) -> list[Any]:
        """Performs the operations of a batch and commits, in one hand-over; their results."""
        results = self._end(lambda number: _batch.execute_within(batch, number, _batch.COMMIT))
        self.lsn = batch._request.lsn()
        return results

    def prepare_with(self, batch: _batch.Batch, gid: Value) -> tuple[list[Any], bool]:
        """Performs the operations of a batch and prepares, in one hand-over.

        The second result is that of prepare().
        """
        batch._request.name(gid)
        results = self._end(lambda number: _batch.execute_within(batch, number, _batch.PREPARE))
        return results, batch._request.prepared()

    def index(self, name: str, *, create: bool = False) -> Index:
        """The index as the transaction sees the name. `create`: it is made if there is none."""
        how = _OPEN_OR_CREATE if create else _FIND
        return Index(name, _core.index(self._handle, name, how), self._store)

    def create_index(self, name: str) -> Index:
        """A new index. Raises AlreadyExists if the name is taken."""
        return Index(name, _core.index(self._handle, name, _CREATE), self._store)

    def secondary_index(
        self,
        name: str,
        of: Index,
        key: KeyFunction,
        *,
        unique: bool = False,
        build_bytes: int | None = None,
        progress: Callable[[int, int], object] | None = None,
        new: bool = False,
    ) -> Index:
        """A secondary index of the index `of`, made from its records if there is none.

        key(key, value) returns the key of a record in it, or a list of keys. Equal records must
        give equal keys. It runs on a thread of its own while the change waits, so it must not use
        a store: its calls raise WrongThread. If it raises an exception, the change of the record,
        or this call, raises that exception, and the record stays as it was. The store keeps each
        function that it gets until it is closed, the same one once. `progress` gets pages read and
        entries loaded.
        `new`: raises AlreadyExists if the name is taken.
        """
        handle = _core.secondary(
            self._store._handle,
            self._handle,
            name,
            not new,
            of,
            key,
            unique,
            build_bytes,
            progress,
        )
        return Index(name, handle, self._store)

    def heap(self, name: str, *, create: bool = False) -> Heap:
        """The heap as the transaction sees the name. `create`: it is made if there is none."""
        how = _OPEN_OR_CREATE if create else _FIND
        return Heap(name, _core.heap(self._handle, name, how))

    def create_heap(self, name: str) -> Heap:
        """A new heap. Raises AlreadyExists if the name is taken."""
        return Heap(name, _core.heap(self._handle, name, _CREATE))

    def drop(self, name: str) -> None:
        """Removes an index or heap when the transaction commits."""
        _core.drop(self._handle, name)

    def _abandon(self) -> None:
        """Rolls back because of an exception, which must not be hidden by another.

        A call of another thread is ended first. If that takes too long, as for a call of this
        thread that has called back, the transaction stays open.
        """
        if self._number == 0:
            return
        try:
            _core.require_may_wait()
        except WrongThread:  # in a key function
            return
        last = time.monotonic() + ABANDON_SECONDS
        while self._is_in_use() and time.monotonic() < last:
            time.sleep(ABANDON_PAUSE)

    def _is_in_use(self) -> bool:
        """Rolls back, unless another call is in the transaction: then ends that call."""
        try:
            _core.abort(self._number)
        except WrongThread:
            self._stop()
            return True
        except Error:
            pass
        self._number = 0
        return False

    def _stop(self) -> None:
        """Ends the transaction, so that the call that is in it returns: it raises Cancelled."""
        try:
            _core.cancel_transaction(self._store._handle, self.id)
        except Error:
            pass
