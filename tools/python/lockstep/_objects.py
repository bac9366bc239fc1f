"""Indexes, heaps and plain values that calls return."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self, TypeVar

from . import _core
from ._errors import Error, StoreClosed, refused

if TYPE_CHECKING:
    from ._keys import Key, Value
    from ._options import Durability
    from ._store import Store

T = TypeVar("T")


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


class Kept(OfOneProcess):
    """What a store keeps under a handle until close(), or until the store is closed.

    As a context manager it is closed at the end.
    """

    def __init__(self, store: Store, number: int, kind: str) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._number = number
        self._kind = kind

    def close(self) -> None:
        """Ends it. A second call does nothing. Data that was given stays valid."""
        with self._lock:
            number, self._number = self._number, 0
        if number == 0:
            return
        try:
            self._end(number)
        except Error:  # the store is closed, or this is another process
            pass

    def _end(self, number: int) -> None:
        raise NotImplementedError

    @property
    def _handle(self) -> int:
        """What the extension takes. Raises StoreClosed."""
        if self._number == 0 or self._store._number == 0:
            raise refused(StoreClosed, f"{self._kind}, which was closed or whose store was closed")
        return self._number

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_number", 0):
            self.close()


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

    Its own methods need no transaction: each call is one, which is repeated after a deadlock. So it
    sees no change of a transaction that is open, also of the same thread, and waits for it. A read
    of a record in memory that nobody changes takes no lock. A change is on disk when the call
    returns, unless its `durability` is "lazy".
    """

    __slots__ = ("_store", "_store_number")

    def __init__(self, name: str, number: int, store: Store) -> None:
        super().__init__(name, number)
        self._store: weakref.ref[Store] = weakref.ref(store)
        #: What the extension takes. After close() it is an error.
        self._store_number = store._handle

    def get(self, key: Key, default: T | None = None) -> bytes | T | None:
        """The value, or `default` if there is no such key."""
        value = _core.get_once(self._store_number, self, key)
        return default if value is None else value

    def __getitem__(self, key: Key) -> bytes:
        """The value. Raises KeyError."""
        value = _core.get_once(self._store_number, self, key)
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: Key) -> bool:
        return _core.get_once(self._store_number, self, key) is not None

    def insert(self, key: Key, value: Value, *, durability: Durability = "durable") -> None:
        """Adds a record. Raises DuplicateKey."""
        _core.insert_once(self._store_number, self, key, value, _lazy(durability))

    def put(self, key: Key, value: Value, *, durability: Durability = "durable") -> None:
        """Adds the record or replaces its value."""
        _core.put_once(self._store_number, self, key, value, _lazy(durability))

    def __setitem__(self, key: Key, value: Value) -> None:
        _core.put_once(self._store_number, self, key, value, False)

    def erase(self, key: Key, *, durability: Durability = "durable") -> bool:
        """Erases the record. False if there is no such key."""
        return _core.erase_once(self._store_number, self, key, _lazy(durability))

    def __delitem__(self, key: Key) -> None:
        """Erases the record. Raises KeyError."""
        if not _core.erase_once(self._store_number, self, key, False):
            raise KeyError(key)

    def add(
        self, key: Key, offset: int, n: int, *, durability: Durability = "durable"
    ) -> int | None:
        """Adds `n` to the signed integer of eight bytes at `offset` of the value; the sum.

        The integer has the byte order of the machine. None if there is no such key.
        """
        return _core.add_once(self._store_number, self, key, offset, n, _lazy(durability))

    def erase_range(
        self, low: Key | None, high: Key | None, *, durability: Durability = "durable"
    ) -> int:
        """Erases the records with low <= key < high; their number."""
        return _core.erase_range_once(self._store_number, self, low, high, _lazy(durability))

    def approximate_size(
        self, low: Key | None = None, high: Key | None = None
    ) -> tuple[int, int]:
        """About how many bytes and records there are with low <= key < high.

        The bytes are those of the leaves' pages, without the pages of large values.
        """
        return _core.approximate_size(self._store_number, self, low, high)

    def count(self, low: Key | None = None, high: Key | None = None) -> int:
        """The number of records with low <= key < high, in a snapshot."""
        return _core.count_once(self._store_number, self, low, high)

    def items(
        self,
        low: Key | None = None,
        high: Key | None = None,
        *,
        prefix: Key | None = None,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, bytes]]:
        """The records (key, value) of a range, or with a prefix, in the order of their keys.

        They are those of one moment, in blocks, from a snapshot that begins with the first record
        and ends with the iteration.
        """
        store = self._store()
        if store is None or store._number == 0:
            raise refused(StoreClosed, "store of an index")
        return _items(store, self, low, high, prefix, reverse)

    def __iter__(self) -> Iterator[bytes]:
        """The keys."""
        return (key for key, _ in self.items())


def _items(
    store: Store,
    index: Index,
    low: Key | None,
    high: Key | None,
    prefix: Key | None,
    reverse: bool,
) -> Iterator[tuple[bytes, bytes]]:
    with store.snapshot() as txn:
        yield from txn.scan(index, low, high, prefix=prefix, reverse=reverse)


def _lazy(durability: Durability) -> bool:
    if durability not in ("durable", "lazy"):
        raise ValueError(f"durability {durability!r}: not 'durable' or 'lazy'")
    return durability == "lazy"


class Heap(_Object):
    """A heap of a store, valid as long as the store is open. Any thread may use it.

    It does not keep the store open, as an Index.
    """

    __slots__ = ()
