"""Scans: iterators over many records, and cursors that step in both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from . import _core
from ._errors import Error, TransactionEnded, refused
from ._objects import OfOneProcess

if TYPE_CHECKING:
    from ._keys import Key, Value
    from ._transaction import Transaction

T = TypeVar("T", bytes, memoryview)
_ROWS_FIRST, _ROWS_MAX, _BLOCK_BYTES = 16, 512, 64 << 10


class Scan(OfOneProcess, Generic[T]):
    """An iterator over the records (key, value) of a range, in one direction.

    It reads blocks of records ahead, at first 16, later up to 512. It does not see what its own
    transaction changes in a block that it has read. It ends with its transaction. If it is dropped
    before its end, the next scan of the transaction frees its memory.
    """

    def __init__(
        self,
        txn: Transaction,
        cursor: int,
        forward: bool,
        read: Callable[[int, bool, int, int], tuple[list[tuple[T, T]], bool]],
    ) -> None:
        self._txn = txn
        self._cursor = cursor
        self._forward = forward
        self._read: Callable[[int, bool, int, int], tuple[list[tuple[T, T]], bool]] = read
        self._rows: Iterator[tuple[T, T]] = iter(())
        self._rows_max = _ROWS_FIRST
        self._at_end = False

    def __iter__(self) -> Iterator[tuple[T, T]]:
        return self

    def __next__(self) -> tuple[T, T]:
        for row in self._rows:
            if self._txn._number == 0 or self._txn._store._number == 0:
                raise self._txn._ended()
            return row
        while not self._at_end:
            self._rows = iter(self.block())
            for row in self._rows:
                return row
        raise StopIteration

    def block(self) -> list[tuple[T, T]]:
        """The next records, as many as one hand-over brings; empty at the end of the range."""
        if self._at_end:
            return []
        cursor = usable(self._txn, self._cursor)
        rows, self._at_end = self._read(cursor, self._forward, self._rows_max, _BLOCK_BYTES)
        self._rows_max = min(2 * self._rows_max, _ROWS_MAX)
        if self._at_end:
            self._close_cursor()
        return rows

    def close(self) -> None:
        """Ends the scan before its transaction ends. A second call does nothing."""
        self._rows = iter(())
        self._close_cursor()

    def _close_cursor(self) -> None:
        """The records of the block that was read last stay."""
        self._at_end = True
        cursor, self._cursor = self._cursor, 0
        if cursor != 0:
            _core.cursor_close(usable(self._txn, cursor))

    def __del__(self) -> None:
        if self._cursor != 0:
            self._txn._dropped.append(self._cursor)

    def __enter__(self) -> Scan[T]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()


class Cursor(OfOneProcess):
    """A position in a range, which steps to the next larger or smaller key.

    A new cursor stands before the first record and behind the last. One thread at a time uses it.
    """

    def __init__(self, txn: Transaction, cursor: int, secondary: bool) -> None:
        self._txn = txn
        self._cursor = cursor
        self._secondary = secondary
        self._secondary_key = b""

    def next(self) -> tuple[bytes, bytes] | None:
        """Steps to the next larger key. None at the end of the range."""
        return self._step(True)

    def prev(self) -> tuple[bytes, bytes] | None:
        """Steps to the next smaller key. None at the begin of the range."""
        return self._step(False)

    def seek(self, low: Key | None = None, high: Key | None = None) -> None:
        """Gives the cursor the range low <= key < high; it stands as a new one."""
        _core.cursor_seek(usable(self._txn, self._cursor), low, high)

    def patch(self, offset: int, part: Value) -> bool:
        """Overwrites bytes of the current record's value. False if the record is gone."""
        return _core.cursor_patch(usable(self._txn, self._cursor), offset, part)

    @property
    def secondary_key(self) -> bytes:
        """The key in the secondary index of the current record; else empty."""
        return self._secondary_key

    def close(self) -> None:
        """Ends the cursor before its transaction ends. A second call does nothing."""
        cursor, self._cursor = self._cursor, 0
        if cursor != 0:
            _core.cursor_close(usable(self._txn, cursor))

    def __del__(self) -> None:
        if self._cursor != 0:
            self._txn._dropped.append(self._cursor)

    def __enter__(self) -> Cursor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()

    def _step(self, forward: bool) -> tuple[bytes, bytes] | None:
        cursor = usable(self._txn, self._cursor)
        if not self._secondary:
            return _core.cursor_step(cursor, forward)
        row = _core.cursor_step_by(self._txn._number, cursor, forward)
        self._secondary_key = b"" if row is None else row[2]
        return None if row is None else row[:2]


def usable(txn: Transaction, cursor: int) -> int:
    """The cursor, which is 0 if it was closed. Raises StoreClosed, TransactionEnded."""
    if cursor == 0 or txn._number == 0 or txn._store._number == 0:
        raise _unusable(txn)
    return cursor


def _unusable(txn: Transaction) -> Error:
    if not txn.active:
        return txn._ended()
    return refused(TransactionEnded, "cursor, which was closed")


def bounds(
    low: Key | None, high: Key | None, prefix: Key | None
) -> tuple[Key | None, Any]:
    """The range of a scan: either bounds, or all keys that begin with a prefix."""
    from ._keys import after_prefix

    if prefix is None:
        return low, high
    if low is not None or high is not None:
        raise ValueError("a scan has bounds or a prefix, not both")
    stem = _core.key_bytes(prefix)
    return stem, after_prefix(stem)
