"""The open branches of a shard: transactions that belong to global ones and are not prepared.

Invariants PA-1 A branch is used by one thread at a time, which holds its mutex.
           [test: test_an_older_transaction_wounds_an_idle_younger_one()]
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from .. import _core
from .._errors import Cancelled, Error
from .._store import Store
from .._transaction import Transaction
from ._errors import BranchLost, Wounded
from ._messages import Age
from ._one_shot import WOUNDED
from ._waits import Ages


@dataclass
class Branch:
    """A transaction of this store that belongs to a global one and is not prepared."""

    txn: Transaction
    number: int  # of the engine
    age: Age
    mutex: threading.Lock = field(default_factory=threading.Lock)
    used: float = field(default_factory=time.monotonic)


class Branches:
    """The branches by their gids. `ages` has the age of each while it is open."""

    def __init__(self, store: Store, ages: Ages) -> None:
        self._store = store
        self._ages = ages
        self._open: dict[bytes, Branch] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, gid: bytes) -> bool:
        return gid in self._open

    def __iter__(self) -> Iterator[bytes]:
        """The gids of this moment. Other threads may begin and end branches meanwhile."""
        return iter(list(self._open))

    def begin(self, gid: bytes, age: Age) -> None:
        """Begins a branch, which use() finds."""
        txn = self._store.begin()
        branch = Branch(txn, txn.id, age)
        self._ages.open[branch.number] = age
        self._open[gid] = branch

    @contextlib.contextmanager
    def use(self, gid: bytes) -> Iterator[Branch]:
        """The branch, for this thread alone. An exception rolls it back."""
        branch = self._open.get(gid)
        if branch is None:
            raise BranchLost("the shard does not know the transaction; it was restarted")
        with branch.mutex:
            if self._open.get(gid) is not branch:
                raise BranchLost("the transaction was rolled back meanwhile")
            try:
                yield branch
            except Cancelled:
                self._abandon(gid, branch)
                raise Wounded(WOUNDED) from None
            except BaseException:
                self._abandon(gid, branch)
                raise
            finally:
                branch.used = time.monotonic()

    def end(self, gid: bytes, branch: Branch) -> None:
        """It is prepared, or has ended. The caller uses it."""
        self._open.pop(gid, None)
        self._ages.open.pop(branch.number, None)

    def roll_back(self, gid: bytes) -> None:
        """Rolls it back if it is open, also while it waits for a lock."""
        branch = self._open.get(gid)
        if branch is None:
            return
        with contextlib.suppress(Error):
            self.wound(branch.number)  # it may wait for a lock
        with branch.mutex:
            self._abandon(gid, branch)

    def wound(self, number: int) -> None:
        """Ends a transaction by its number. Its next call raises Cancelled, which becomes Wounded.

        If it is idle between two steps, the engine has rolled it back when this returns. Raises
        Error if it has ended, or is prepared.
        """
        _core.cancel_transaction(self._store._handle, number)

    def unused_since(self, moment: float) -> list[bytes]:
        """The gids of those that no thread has used since, by time.monotonic()."""
        return [gid for gid, branch in list(self._open.items()) if branch.used < moment]

    def _abandon(self, gid: bytes, branch: Branch) -> None:
        """The caller holds the mutex."""
        branch.txn._abandon()  # a commit that failed has rolled back already
        self.end(gid, branch)
