"""Many operations in one hand-over to the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _core
from ._objects import Heap, Index, RecordId
from ._options import Access

if TYPE_CHECKING:
    from ._keys import Key, Value
    from ._options import Begin

# enum lockstep_operation_kind, lockstep_request_end, lockstep_code
INSERT, _PUT, _UPDATE, _HEAP_UPDATE, _HEAP_ERASE = 2, 3, 4, 9, 10
KEEP, COMMIT, ABORT, PREPARE, COMMIT_PREPARED, ROLLBACK_PREPARED = 0, 1, 2, 3, 4, 5
_VALUE_TOO_LONG = 23


class Batch:
    """Operations of one transaction, performed in order up to the first error.

    `Store.execute()` performs a batch as a transaction of its own, `Transaction.execute()` within
    one. Both return a list with the result of each operation: that of the method of the same name
    of `Transaction`. A batch may be performed again. Keys and values are not copied before, so a
    buffer must not change until then.

    `room` is the length of a value that a get expects; a longer one takes a second hand-over.
    """

    def __init__(self, room: int = 512) -> None:
        self._request = _core.Request()
        self._room = room

    def __len__(self) -> int:
        return len(self._request)

    def get(self, index: Index, key: Key, access: Access = Access.READ) -> Batch:
        """The value of the key, or None."""
        self._request.get(index, key, access, self._room)
        return self

    def insert(self, index: Index, key: Key, value: Value) -> Batch:
        """Adds a record. DuplicateKey ends the batch."""
        self._request.put(INSERT, index, key, value)
        return self

    def put(self, index: Index, key: Key, value: Value) -> Batch:
        """Adds the record or replaces its value."""
        self._request.put(_PUT, index, key, value)
        return self

    def update(self, index: Index, key: Key, value: Value) -> Batch:
        """Replaces the value. The result: whether the key exists."""
        self._request.put(_UPDATE, index, key, value)
        return self

    def patch(self, index: Index, key: Key, offset: int, part: Value) -> Batch:
        """Overwrites bytes of the value. The result: whether the key exists."""
        self._request.patch(index, key, offset, part)
        return self

    def erase(self, index: Index, key: Key) -> Batch:
        """Erases the record. The result: whether the key existed."""
        self._request.erase(index, key)
        return self

    def heap_insert(self, heap: Heap, record: Value) -> Batch:
        """Stores a record. The result: its RecordId."""
        self._request.heap_insert(heap, record)
        return self

    def heap_get(self, heap: Heap, id: RecordId, access: Access = Access.READ) -> Batch:
        """The record, or None."""
        self._request.heap_get(heap, id, access, self._room)
        return self

    def heap_update(self, heap: Heap, id: RecordId, record: Value) -> Batch:
        """Replaces the record. The result: whether it exists."""
        self._request.heap_change(_HEAP_UPDATE, heap, id, record)
        return self

    def heap_erase(self, heap: Heap, id: RecordId) -> Batch:
        """Erases the record. The result: whether it existed."""
        self._request.heap_change(_HEAP_ERASE, heap, id, None)
        return self


class Steps:
    """Performs a batch: what to hand over next, until it is done.

    A value that did not fit is the error value_too_long. A whole transaction was rolled back then
    and is handed over again with more room; an open one goes on with the operation that failed.
    """

    def __init__(self, batch: Batch) -> None:
        self.request = batch._request
        self.start = 0

    def within(self, txn: int) -> None:
        self.request.use(txn)

    def whole(self, store: int, begin: Begin) -> None:
        self.request.begin_in(store, *begin)

    def done(self, whole: bool) -> bool:
        """Whether the request has been performed. Raises its error."""
        code = self.request.code()
        if code == 0:
            return True
        if code != _VALUE_TOO_LONG or not self.request.make_room():
            self.request.fail()
        self.start = 0 if whole else self.request.performed()
        return False


def execute_within(batch: Batch, txn: int, end: int) -> list[Any]:
    """Performs a batch within a transaction, and waits."""
    steps = Steps(batch)
    steps.within(txn)
    while True:
        steps.request.batch(end, steps.start)
        if steps.done(whole=False):
            return steps.request.results()


def execute_whole(
    batch: Batch, store: int, begin: Begin, end: int = COMMIT
) -> tuple[list[Any], int]:
    """Performs a batch as a transaction, and waits. The second result is its commit's LSN."""
    steps = Steps(batch)
    while True:
        steps.whole(store, begin)
        steps.request.batch(end, 0)
        if steps.done(whole=True):
            return steps.request.results(), steps.request.lsn()
