"""What a shard has decided about global transactions, in an index of its store.

Invariants VE-1 The record of a decision is in the transaction that it decides. A question before
                writes the record that it has not committed, so it never will.
                [test: test_who_has_asked_first_has_rolled_it_back()]
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from .. import _batch, _core
from .._batch import Batch
from .._errors import DuplicateKey
from .._objects import Index
from .._options import Access
from .._store import Store
from .._transaction import Transaction
from ._errors import BranchLost
from ._procedures import Objects

COMMITTED, ROLLED_BACK = b"1", b"0"
_NAME = "lockstep.decisions"
_TOGETHER = 1000
_ASKED = "somebody has asked, and heard that it was rolled back"


class Verdicts:
    """The decisions of one shard."""

    def __init__(self, store: Store, objects: Objects) -> None:
        self._store = store
        self._objects = objects

    @property
    def index(self) -> Index:
        """Made at the first use, in a transaction of its own."""
        return self._objects.index(_NAME)

    def commit(self, txn: Transaction, gid: bytes) -> None:
        """The global transaction commits if `txn` does. Raises BranchLost."""
        try:
            txn.insert(self.index, gid, COMMITTED)
        except DuplicateKey:
            raise self.asked() from None

    @staticmethod
    def asked() -> BranchLost:
        """The error if there is a record already."""
        return BranchLost(_ASKED)

    def mark(self, request: _core.Request, gid: bytes) -> None:
        """Adds a change that leaves no record: what has only read is prepared then (PA-5)."""
        request.put(_batch.INSERT, self.index, gid, COMMITTED)
        request.erase(self.index, gid)

    def has_committed(self, gid: bytes) -> bool:
        """Whether it has. If it has not, it never will."""

        def ask(txn: Transaction) -> bool:
            decision = txn.get(self.index, gid, Access.WRITE)
            if decision is None:
                txn.insert(self.index, gid, ROLLED_BACK)
            return decision == COMMITTED

        return self._store.run(ask)

    async def forget(self, gids: Sequence[bytes]) -> None:
        """Every shard has heard the decisions. Not durable."""
        await self._store.execute_async(self._removal(gids), durability="lazy")

    def forget_before(self, before: bytes) -> None:
        """The same of all gids below this one, on a thread. Not durable."""
        index = self.index
        while True:
            with self._store.snapshot() as txn:
                found = itertools.islice(txn.scan(index, high=before), _TOGETHER)
                gids = [gid for gid, _ in found]
            if not gids:
                return
            self._store.execute(self._removal(gids), durability="lazy")

    def _removal(self, gids: Sequence[bytes]) -> Batch:
        batch = Batch()
        for gid in gids:
            batch.erase(self.index, gid)
        return batch
