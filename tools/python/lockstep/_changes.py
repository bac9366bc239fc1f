"""The change feed: the committed changes of a store, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Self, cast

from . import _aio, _core, _options
from ._errors import StoreClosed, TransactionEnded
from ._objects import Kept, RecordId

#: So long a wait on a thread of the pool goes on when its coroutine is cancelled.
_SLICE = 0.1

if TYPE_CHECKING:
    from ._store import Store
    from ._transaction import Transaction

ChangeKind = Literal["insert", "update", "patch", "erase", "create", "drop", "reset", "commit"]


class Change(NamedTuple):
    """One change; `<lockstep/changes.h>` explains the kinds.

    `object` is the name of the index or heap, and None if it was dropped and the log does not tell.
    `of`, of a `create`: the id of the index that this one is a secondary index of, else 0.
    `key` belongs to an index, `record` to a heap. `value` is the new one; of a `patch` the bytes
    that are at `offset` instead of `old` now. `old` is what was replaced or erased, where the log
    has it. `commit` is the place of the commit record. `time`: when it became durable, in
    nanoseconds since 1970 (UTC), at most so late; 0 without the option `changes_log_bytes`.
    """

    kind: ChangeKind
    object: str | None
    is_index: bool
    id: int
    of: int
    key: bytes | None
    record: RecordId | None
    offset: int
    value: bytes | None
    old: bytes | None
    txn: int
    commit: int
    time: int


class ChangePoint(NamedTuple):
    """Where a feed goes on behind a snapshot.

    The snapshot sees the transactions whose Change.commit is below `lsn`.
    """

    position: str
    lsn: int


class ChangeFeed(Kept):
    """The changes of the transactions in the order of their commits. Store.changes() makes it.

    One thread at a time uses it; WrongThread else. As an iterator, also of `async for`, it waits
    for each change, and ends when the store is closed.
    """

    def __init__(self, store: Store, position: str) -> None:
        super().__init__(store, _core.changes_begin(store._handle, position), "change feed")
        #: What a coroutine has read, and was cancelled; with the position before it.
        self._kept: tuple[Change, str] | None = None

    def next(self, timeout: float | None = 0) -> Change | None:
        """The next change, or None if there is none within `timeout` seconds. None: for ever.

        Raises ChangesLost (the log that it needs is gone; the text names the remedy), BadArchive,
        CorruptLog, InputOutputError, StoreClosed. After an error the position is as before.
        """
        handle, nanos = self._handle, _options.nanos("timeout", timeout)
        if self._kept is not None:
            change, self._kept = self._kept[0], None
            return change
        try:
            told = _core.changes_read(handle, nanos)
        except TransactionEnded:  # the feed or its store was closed meanwhile
            self._handle  # noqa: B018
            raise
        return None if told is None else Change(*told)

    @property
    def position(self) -> str:
        """Behind what next() gave: a text to keep with what was made of the changes.

        Store.changes() goes on there. It moves on while next() returns None, too.
        """
        handle = self._handle
        return _core.changes_position(handle) if self._kept is None else self._kept[1]

    def _end(self, number: int) -> None:
        _core.changes_close(number)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        try:
            change = self.next(None)
        except StoreClosed:
            raise StopIteration from None
        return cast(Change, change)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        """A cancellation is passed on within a tenth of a second, and loses no change."""
        try:
            while self._kept is None:
                await _aio.in_pool(self._keep)
            return cast(Change, self.next())
        except StoreClosed:
            raise StopAsyncIteration from None

    def _keep(self) -> None:
        before = self.position
        change = self.next(_SLICE)
        if change is not None:
            self._kept = (change, before)


class Changing:
    """The part of Store that gives its changes."""

    if TYPE_CHECKING:

        @property
        def _handle(self) -> int: ...

    def changes(self, position: str = "") -> ChangeFeed:
        """Begins to read the committed changes behind `position`.

        That is one of a feed or of changes_point(), or "oldest". An empty one stands for now. The
        option `changes_log_bytes` is the log that the store keeps for feeds. Raises BadArgument
        (no position of this store), ChangesLost, CorruptLog, InputOutputError.
        """
        return ChangeFeed(cast("Store", self), position)

    def changes_point(self, snapshot: Transaction) -> ChangePoint:
        """Where a feed goes on behind what `snapshot` sees, a transaction that reads a snapshot.

        So a copy is made: read the objects in the snapshot, then follow the feed from there. Raises
        BadArgument if it reads none.
        """
        return ChangePoint(*_core.changes_point(snapshot._handle))
