"""The blocks of `with` and `async with` that are transactions."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from . import _aio
from ._transaction import Transaction

if TYPE_CHECKING:
    from ._options import Begin
    from ._store import Store


class TransactionContext:
    """What Store.transaction() returns: a transaction for `with` and for `async with`."""

    def __init__(self, store: Store, begin: Begin) -> None:
        self._store = store
        self._begin = begin
        self._entered = False
        self._txn: Transaction | None = None
        self._async: _aio.AsyncTransaction | None = None

    def __enter__(self) -> Transaction:
        self._claim()
        try:
            self._txn = self._store._begin(self._begin)
        except BaseException:
            self._entered = False
            raise
        return self._txn

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        txn, self._txn, self._entered = self._txn, None, False
        assert txn is not None
        txn.__exit__(kind, error, trace)

    async def __aenter__(self) -> _aio.AsyncTransaction:
        self._claim()
        try:
            self._async = _aio.AsyncTransaction(self._store, self._begin)
            return await self._async.__aenter__()
        except BaseException:
            self._entered = False
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        txn, self._async, self._entered = self._async, None, False
        assert txn is not None
        await txn.__aexit__(kind, error, trace)

    def _claim(self) -> None:
        """Two blocks at once, also of two threads, would end each other's transaction."""
        if self._entered:
            raise RuntimeError("this transaction() is in use; each block takes one of its own")
        self._entered = True
