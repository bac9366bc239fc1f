"""Indexes, heaps and plain values that calls return."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn, Self


class RecordId(NamedTuple):
    """Stable address of a record of a heap."""

    page: int
    slot: int


class Savepoint(NamedTuple):
    """A state that Transaction.rollback_to() restores."""

    txn: int
    number: int


class ObjectInfo(NamedTuple):
    """An index or heap; `of` is the id of the primary of a secondary index, else 0."""

    name: str
    is_index: bool
    id: int
    of: int


class TransactionInfo(NamedTuple):
    """A transaction that runs. Times are in nanoseconds."""

    id: int
    age_nanos: int
    thread: int
    worker: int
    state: str
    read_only: bool
    internal: bool
    marked: bool
    locks: int
    log_bytes: int
    undo_bytes: int
    log_pinned_bytes: int
    waits_for: str
    waited_nanos: int
    waits_for_ids: tuple[int, ...]
    gid: bytes


class PreparedInfo(NamedTuple):
    """A transaction in doubt. The age is in nanoseconds, since its prepare."""

    gid: bytes
    id: int
    age_nanos: int
    locks: int


class BackupInfo(NamedTuple):
    """A complete backup, or the one just made."""

    lsn: int
    redo_from: int
    since: int
    store: tuple[int, int]
    pages: int
    pages_copied: int
    pages_zeroed: int
    bytes: int
    log_bytes: int
    nanos: int
    ended_at: int
    history: int


class OfOneProcess:
    """What holds a handle. In another process the handle may be that of another object."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        kind = type(self).__name__
        text = f"a {kind} cannot be pickled: it belongs to a store that this process has open"
        raise TypeError(text)


class _Object(OfOneProcess):
    __slots__ = ("_number", "name")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        #: The handle, which the extension reads.
        self._number = number

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    # A copy within the process is the same object.
    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class Index(_Object):
    """An index of a store, valid as long as the store is open. Any thread may use it.

    It does not keep the store open: without the Store nothing can use it.
    """

    __slots__ = ()


class Heap(_Object):
    """A heap of a store, valid as long as the store is open. Any thread may use it.

    It does not keep the store open, as an Index.
    """

    __slots__ = ()
