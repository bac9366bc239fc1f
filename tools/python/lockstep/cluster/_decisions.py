"""The decisions of a coordinator, in a store of its own.

Invariants DE-1 A commit is in the store, durably, before any participant hears of it.
           [test: test_a_decision_outlives_the_coordinator()]
           DE-2 What is not in the store and not under way was rolled back (presumed abort).
           [test: test_while_it_is_not_decided_it_says_so()]
           DE-3 A gid begins with the number of the opening, so none comes twice.
           DE-4 A gid that is decided on a shard ends with the shard's number, so that nothing about
                it need be stored here.
"""

from __future__ import annotations

import itertools
import json
from typing import NamedTuple

from .._batch import Batch
from .._keys import pack_key, unpack_key
from .._store import Store


class Place(NamedTuple):
    """Where a shard is: the directory of its store, and what ties it to its node."""

    directory: str
    resources: dict[str, float]


class Decisions:
    """Opens the decisions of a store: `pending` are those that not every shard has heard.

    The number of shards is kept from the first opening on. `places` has the shards that have moved.
    """

    def __init__(self, store: Store, shards: int) -> None:
        self.store = store
        meta = store.index("meta", create=True)
        self._commits = store.index("commits", create=True)
        self._places = store.index("places", create=True)
        with store.transaction() as txn:
            opening = 1 + int(txn.get(meta, b"opening") or b"0")
            txn.put(meta, b"opening", str(opening))
            self.shards = int(txn.get(meta, b"shards") or shards)
            txn.put(meta, b"shards", str(self.shards))
        self._opening = opening
        self._numbers = itertools.count(1)
        self.pending: dict[bytes, tuple[int, ...]] = {}
        self.places: dict[int, Place] = {}
        with store.transaction() as txn:
            for number, place in txn.scan(self._places):
                self.places[int(number)] = Place(**json.loads(place))
            for gid, changed in txn.scan(self._commits):
                self.pending[gid] = tuple(int(shard) for shard in changed.split(b","))

    def new_gid(self) -> bytes:
        """The name of a new global transaction (DE-3)."""
        return pack_key(self._opening, next(self._numbers))

    @property
    def first_gid(self) -> bytes:
        """No gid of this opening is below it, and every gid of an earlier opening is (DE-3)."""
        return pack_key(self._opening)

    @staticmethod
    def decided_by(gid: bytes, shard: int) -> bytes:
        """The name of the same transaction if this shard decides it (DE-4)."""
        return gid + pack_key(shard)

    @staticmethod
    def is_decided_by_shard(gid: bytes) -> bool:
        """Whether a shard decides the transaction (DE-4)."""
        return len(gid) > len(pack_key(0, 0))

    @staticmethod
    def decider(gid: bytes) -> int | None:
        """The shard that decides the transaction; None: it is decided here."""
        if not Decisions.is_decided_by_shard(gid):
            return None
        return int(unpack_key(gid, int, int, int)[2])

    async def commit(self, gid: bytes, shards: tuple[int, ...]) -> None:
        """Decides that the transaction commits on these shards. Durable when it returns (DE-1)."""
        batch = Batch()
        batch.insert(self._commits, gid, ",".join(map(str, shards)))
        await self.store.execute_async(batch)
        self.pending[gid] = shards

    async def forget(self, gid: bytes) -> None:
        """Every shard has committed. Not durable: after a crash they are told again."""
        batch = Batch()
        batch.erase(self._commits, gid)
        await self.store.execute_async(batch, durability="lazy")
        self.pending.pop(gid, None)

    async def move(self, shard: int, place: Place) -> None:
        """Notes where a shard is from now on. Durable when it returns."""
        batch = Batch()
        batch.put(self._places, str(shard), json.dumps(place._asdict()))
        await self.store.execute_async(batch)
        self.places[shard] = place

    def close(self) -> None:
        """Closes the store."""
        self.store.close()
