"""Transactions of asyncio: a coroutine waits, its thread does not.

Operations on records are submitted to the store, and an eventfd tells the event loop that they are
done. Scans and what takes a while anyway run on threads of a pool, which grows as needed.
"""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from . import _batch, _core, _scan
from ._batch import Batch
from ._errors import Deadlock, Error, WrongThread
from ._objects import Heap, Index, RecordId, Savepoint
from ._options import Access
from ._transaction import ABANDON_PAUSE, ABANDON_SECONDS, Transaction, pause

if TYPE_CHECKING:
    from ._keys import Key, Value
    from ._options import Begin
    from ._store import Store

P = ParamSpec("P")
R = TypeVar("R")
_ROOM = 512


# A wait for a lock may need what another call of the pool does: no call waits for a free thread.
def _make_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1 << 14, thread_name_prefix="lockstep")


_POOL = _make_pool()


class Loop:
    """The submitted requests of one event loop."""

    _loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Loop] = (
        weakref.WeakKeyDictionary()
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._completions = _core.Completions()
        self._waiting: dict[_core.Request, asyncio.Future[None]] = {}
        self._reference = weakref.ref(loop)
        loop.add_reader(self._completions.fd(), self._drain)

    @classmethod
    def running(cls) -> Loop:
        loop = asyncio.get_running_loop()
        known = cls._loops.get(loop)
        if known is None:
            known = cls._loops[loop] = cls(loop)
        return known

    def submit(self, request: _core.Request, end: int, start: int) -> asyncio.Future[None]:
        """Hands the request over. The future is done when the request is, whatever its code."""
        request.submit(self._completions, end, start)
        future = asyncio.get_running_loop().create_future()
        self._waiting[request] = future
        return future

    def forget(self, request: _core.Request) -> None:
        """Nobody waits for it any more, and it outlives the loop if it has to."""
        if request.detach():
            del self._waiting[request]

    def _drain(self) -> None:
        for request in self._completions.drain():
            future = self._waiting.pop(request)
            if not future.cancelled():
                future.set_result(None)


def _after_fork() -> None:
    """The threads of the pool, and the user threads behind the requests, are the parent's."""
    global _POOL
    _POOL = _make_pool()
    Loop._loops.clear()


os.register_at_fork(after_in_child=_after_fork)


async def _uncancelled(future: asyncio.Future[R], end: Callable[[], bool]) -> R:
    """Waits for what uses a transaction until it is over, and then passes a cancellation on.

    A cancellation calls `end`. If that returns True, nothing has begun and nothing will.
    """
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            result = await asyncio.shield(future)
            break
        except asyncio.CancelledError as error:
            if future.done():  # it may be the function's
                cancelled = cancelled or error
                break
            if cancelled is None and end():
                raise
            cancelled = error
        except BaseException:
            if cancelled is None:
                raise
            break
    if cancelled is not None:
        raise cancelled
    return result


def go_on() -> bool:
    """What _uncancelled() does about a cancellation: nothing."""
    return False


async def perform(request: _core.Request, end: int, start: int, stop: Callable[[], bool]) -> None:
    """Submits a request and waits until it is done, whatever its code."""
    await _uncancelled(Loop.running().submit(request, end, start), stop)


async def begin_by(request: _core.Request, store: int, end: int) -> None:
    """perform() of a request that begins a transaction.

    A cancellation ends the transaction. If that waits to begin, it will do nothing (RQ-3).
    """

    def stop() -> bool:
        number = request.cancel()
        if number == 0:
            Loop.running().forget(request)
            return True
        _POOL.submit(_end_transaction, store, number)
        return False

    await perform(request, end, 0, stop)


def _end_transaction(store: int, number: int) -> None:
    try:
        _core.cancel_transaction(store, number)
    except Error:  # it has ended
        pass


def _submit(fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[R]:
    """Calls fn on a thread of the pool. No future takes a StopIteration: it is a RuntimeError.

    In a key function it is refused, as what fn calls would be there.
    """
    _core.require_may_wait()

    def work() -> R:
        try:
            return fn(*args, **kwargs)
        except StopIteration as error:
            raise RuntimeError("the function raised StopIteration") from error

    return asyncio.get_running_loop().run_in_executor(_POOL, work)


async def in_pool(fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Runs fn on a thread of the pool."""
    return await _uncancelled(_submit(fn, *args, **kwargs), go_on)


async def execute_whole(
    batch: Batch, store: int, begin: Begin, end: int = _batch.COMMIT
) -> tuple[list[Any], int]:
    """Performs a batch as a transaction. The second result is its commit's LSN."""
    steps = _batch.Steps(batch)
    while True:
        steps.whole(store, begin)
        await begin_by(steps.request, store, end)
        if steps.done(whole=True):
            return steps.request.results(), steps.request.lsn()


class AsyncTransaction:
    """A transaction of `async with Store.transaction()`.

    The methods are those of Transaction, as coroutines. One of them at a time: a second call
    meanwhile raises WrongThread. A coroutine that is cancelled ends the transaction's wait, and
    then the transaction is rolled back.
    """

    def __init__(self, store: Store, begin: Begin) -> None:
        self._store = store
        self._begin = begin
        self._txn = Transaction(store, 0)
        self._id = 0

    async def __aenter__(self) -> AsyncTransaction:
        request = _core.Request()
        request.begin_in(self._store._handle, *self._begin)
        try:
            await begin_by(request, self._store._handle, _batch.KEEP)
        except BaseException:
            self._txn._number = request.txn()
            if self._txn.active:
                await self._abandon()
            raise
        self._txn._number = request.txn()
        if request.code() != 0:
            request.fail()
        self._id = self._txn.id
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._txn._number == 0:
            return
        if error is None:
            await self.commit()
        else:
            await self._abandon()

    @property
    def active(self) -> bool:
        """Whether the transaction has neither been committed nor rolled back."""
        return self._txn.active

    @property
    def id(self) -> int:
        """The number that Store.end_transaction() takes."""
        return self._id

    @property
    def lsn(self) -> int:
        """Behind the commit: the point for Store.wait_durable(), 0 if nothing was changed."""
        return self._txn.lsn

    async def commit(self) -> int:
        """Commits. The result is that of `lsn`. If it cannot commit, it is rolled back."""
        await self._end(_batch.COMMIT)
        return self.lsn

    async def abort(self) -> None:
        """Rolls back."""
        await self._end(_batch.ABORT)

    async def prepare(self, gid: Value) -> bool:
        """Transaction.prepare(): whether the transaction is in doubt now."""
        return (await self._end(_batch.PREPARE, gid)).prepared()

    async def call(
        self, fn: Callable[Concatenate[Transaction, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Runs fn(transaction, ...) on a thread of a pool: what has no method here."""
        return await _uncancelled(_submit(fn, self._txn, *args, **kwargs), self._stop)

    async def execute(self, batch: Batch) -> list[Any]:
        """Performs the operations of a batch in one hand-over; their results."""
        steps = _batch.Steps(batch)
        steps.within(self._txn._handle)
        while True:
            await perform(steps.request, _batch.KEEP, steps.start, self._stop)
            if steps.done(whole=False):
                return steps.request.results()

    async def get(self, index: Index, key: Key, access: Access = Access.READ) -> bytes | None:
        """The value of the key, or None."""
        value: bytes | None = await self._one(Batch(_ROOM).get(index, key, access))
        return value

    async def get_many(
        self, index: Index, keys: Iterable[Key], access: Access = Access.READ
    ) -> list[bytes | None]:
        """The values of many keys."""
        if isinstance(keys, str):
            raise TypeError("keys is a list of keys, not a text")
        batch = Batch(_ROOM)
        for key in keys:
            batch.get(index, key, access)
        return await self.execute(batch)

    async def insert(self, index: Index, key: Key, value: Value) -> None:
        """Adds a record. Raises DuplicateKey if the key exists."""
        await self._one(Batch().insert(index, key, value))

    async def insert_many(self, index: Index, records: Iterable[tuple[Key, Value]]) -> None:
        """Adds many records in this order. After an error those before the refused one are in."""
        batch = Batch()
        for key, value in records:
            batch.insert(index, key, value)
        await self.execute(batch)

    async def put(self, index: Index, key: Key, value: Value) -> None:
        """Adds the record or replaces its value."""
        await self._one(Batch().put(index, key, value))

    async def update(self, index: Index, key: Key, value: Value) -> bool:
        """Replaces the value. False if there is no such key."""
        return bool(await self._one(Batch().update(index, key, value)))

    async def patch(self, index: Index, key: Key, offset: int, part: Value) -> bool:
        """Overwrites bytes of the value from `offset` on. False if there is no such key."""
        return bool(await self._one(Batch().patch(index, key, offset, part)))

    async def erase(self, index: Index, key: Key) -> bool:
        """Erases the record. False if there is no such key."""
        return bool(await self._one(Batch().erase(index, key)))

    async def heap_insert(self, heap: Heap, record: Value) -> RecordId:
        """Stores a record. The result names it until it is erased."""
        id: RecordId = await self._one(Batch().heap_insert(heap, record))
        return id

    async def heap_get(
        self, heap: Heap, id: RecordId, access: Access = Access.READ
    ) -> bytes | None:
        """The record, or None."""
        record: bytes | None = await self._one(Batch(_ROOM).heap_get(heap, id, access))
        return record

    async def heap_update(self, heap: Heap, id: RecordId, record: Value) -> bool:
        """Replaces the record. False if there is no such record."""
        return bool(await self._one(Batch().heap_update(heap, id, record)))

    async def heap_erase(self, heap: Heap, id: RecordId) -> bool:
        """Erases the record. False if there is no such record."""
        return bool(await self._one(Batch().heap_erase(heap, id)))

    async def savepoint(self) -> Savepoint:
        """Marks the present state."""
        return await self.call(Transaction.savepoint)

    async def rollback_to(self, savepoint: Savepoint) -> None:
        """Undoes what came after the savepoint."""
        await self.call(Transaction.rollback_to, savepoint)

    async def scan(
        self,
        index: Index,
        low: Key | None = None,
        high: Key | None = None,
        *,
        prefix: Key | None = None,
        reverse: bool = False,
        access: Access = Access.READ,
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        """The records (key, value) with low <= key < high, in the order of their keys."""
        scan = await self.call(
            Transaction.scan, index, low, high, prefix=prefix, reverse=reverse, access=access
        )
        async for row in self._rows(scan):
            yield row

    async def scan_by(
        self,
        secondary: Index,
        low: Key | None = None,
        high: Key | None = None,
        *,
        only: Key | None = None,
        reverse: bool = False,
        access: Access = Access.READ,
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        """Records (key, value) of a primary in the order of a secondary index."""
        scan = await self.call(
            Transaction.scan_by, secondary, low, high, only=only, reverse=reverse, access=access
        )
        async for row in self._rows(scan):
            yield row

    async def _rows(self, scan: _scan.Scan[bytes]) -> AsyncIterator[tuple[bytes, bytes]]:
        while rows := await self.call(lambda _: scan.block()):
            for row in rows:
                if not self._txn.active:
                    raise self._txn._ended()
                yield row

    async def _one(self, batch: Batch) -> Any:
        return (await self.execute(batch))[0]

    async def _end(self, end: int, gid: Value | None = None) -> _core.Request:
        request = _core.Request()
        request.use(self._txn._handle)
        if gid is not None:
            request.name(gid)
        try:
            await perform(request, end, 0, go_on)
        finally:
            if request.txn() == 0:
                self._txn._number = 0
        if request.code() != 0:
            request.fail()
        self._txn.lsn = request.lsn()
        return request

    async def _abandon(self) -> None:
        """Transaction._abandon(). A cancellation is passed on behind it."""
        cancelled: asyncio.CancelledError | None = None
        pause = 0.0
        last = time.monotonic() + ABANDON_SECONDS
        while self._txn._number != 0 and time.monotonic() < last:
            try:
                await asyncio.sleep(pause)
                await self._end(_batch.ABORT)
            except asyncio.CancelledError as error:
                cancelled = error
            except WrongThread:
                self._stop()
                pause = ABANDON_PAUSE
            except Error:
                self._txn._number = 0
        if cancelled is not None:
            raise cancelled

    def _stop(self) -> bool:
        """A call is cancelled: ends the transaction, so that the call returns."""
        _POOL.submit(self._txn._stop)
        return False


async def run(store: Store, fn: Callable[[AsyncTransaction], Any], begin: Begin, tries: int) -> Any:
    """Store.run() for coroutine functions."""
    tried = 0
    while True:
        try:
            async with AsyncTransaction(store, begin) as txn:
                return await fn(txn)
        except Deadlock:
            if tried == tries:
                raise
        await asyncio.sleep(pause(tried))
        tried += 1
