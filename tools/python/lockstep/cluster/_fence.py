"""What separates the transactions of a coordinator from those of the processes before it.

A coordinator that dies leaves records of decisions on the shards that made them. Its successor may
remove them when no shard can ask for them any more. It raises the *fence* of every shard: no gid of
an earlier opening begins a branch below it. When no shard has such a branch or such a prepared
transaction, no shard will ever ask, and the records can go.

Invariants FE-1 A branch is listed before its gid is compared with the fence. The fence is raised
                before the list is read. So a branch below the fence is refused or seen.
                [test: test_an_earlier_branch_is_refused()]
           FE-2 A branch leaves the open ones after it is prepared, and the prepared ones after its
                outcome is durable. So whoever reads the open ones first misses none.
                [test: test_what_is_open_or_in_doubt_is_not_settled()]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ._errors import BranchLost


class Fence:
    """The fence of one shard. `open_branches` and `prepared` return gids."""

    def __init__(
        self,
        open_branches: Callable[[], Iterable[bytes]],
        prepared: Callable[[], Iterable[bytes]],
    ) -> None:
        self._open_branches = open_branches
        self._prepared = prepared
        self._before = b""

    def check(self, gid: bytes) -> None:
        """Raises BranchLost if the branch, which is listed, belongs to an earlier coordinator."""
        if gid < self._before:
            raise BranchLost("the coordinator that began the transaction has been restarted")

    def settle(self, before: bytes) -> bool:
        """Raises the fence to this gid; whether nothing below it is left."""
        self._before = max(self._before, before)
        # In this order (FE-2).
        return not any(
            gid < before for gids in (self._open_branches, self._prepared) for gid in gids()
        )
