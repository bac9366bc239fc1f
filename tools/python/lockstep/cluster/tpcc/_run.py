"""Runs the terminals: batches of inputs to every shard, and transactions over shards beside them.

A group of terminals belongs to a shard. Its batch has one transaction of each of `batch` terminals,
and the next batch begins when all of them have ended. Each shard has `under_way` groups.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

from .._errors import ClusterError, ProcedureError
from .._sharded import ShardedStore
from ...tpcc._inputs import TYPES, Across, Inputs
from ...tpcc._settings import Settings

ROLLED_BACK = -1  # the code of a New-Order whose input demands a rollback
PROCEDURES = {"NewOrder": "tpcc_new_order", "Payment": "tpcc_payment"}


@dataclass
class Counts:
    """What the terminals have seen, in the measured interval."""

    batches: list[float] = field(default_factory=list)  # seconds
    across: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in TYPES})
    across_rolled_back: int = 0  # New-Orders, which `across` has too
    failed: list[str] = field(default_factory=list)
    failures: int = 0

    def fail(self, error: object, count: int = 1) -> None:
        """Notes an error; the texts of the first ones are kept."""
        self.failures += count
        if len(self.failed) < 5:
            self.failed.append(f"{type(error).__name__}: {error}")


@dataclass
class Measured:
    """A run."""

    seconds: float
    counts: Counts
    shards: list[dict[str, Any]]  # "tpcc.statistics" of each
    repeated: int  # transactions over shards
    wounded: int


class _Terminals:
    def __init__(self, store: ShardedStore, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._inputs = [
            [
                Inputs(settings, shard, settings.seed * 1000 + group)
                for group in range(settings.under_way)
            ]
            for shard in range(settings.shards)
        ]
        self._keys = [
            shard * settings.warehouses // settings.shards + 1 for shard in range(settings.shards)
        ]

    def close(self) -> None:
        for groups in self._inputs:
            for inputs in groups:
                inputs.close()

    async def run(self, seconds: float) -> Counts:
        """All groups until the time is over and what they began has ended."""
        counts = Counts()
        until = time.monotonic() + seconds
        await asyncio.gather(
            *(
                self._group(shard, inputs, until, counts)
                for shard, groups in enumerate(self._inputs)
                for inputs in groups
            )
        )
        return counts

    async def _group(self, shard: int, inputs: Inputs, until: float, counts: Counts) -> None:
        while (began := time.monotonic()) < until:
            local, across = inputs.next(self._settings.batch)
            work = [self._across(one, counts) for one in across]
            if local.requests:
                work.append(self._local(shard, local, counts))
            await asyncio.gather(*work)
            counts.batches.append(time.monotonic() - began)

    async def _local(self, shard: int, local: Any, counts: Counts) -> None:
        try:
            outcomes = await self._store._call_many(self._keys[shard], "tpcc.run", local)
        except ClusterError as error:
            counts.fail(error, local.requests)
            return
        for place in outcomes.failed:
            counts.fail(outcomes[place])

    async def _across(self, one: Across, counts: Counts) -> None:
        began = time.monotonic()
        arguments = (one.home, one.others, one.packet)
        try:
            await self._store._run(PROCEDURES[one.type], arguments)
        except ProcedureError as error:
            if error.code != ROLLED_BACK:
                counts.fail(error)
                return
            counts.across_rolled_back += 1
        except Exception as error:
            counts.fail(error)
            return
        counts.across[one.type].append(time.monotonic() - began)


def measure(store: ShardedStore, settings: Settings) -> Measured:
    """Warms up, runs and counts. Blocks. Errors of transactions are counted and not raised."""
    terminals = _Terminals(store, settings)
    try:
        store._submit(terminals.run(settings.warmup)).result()
        for key in terminals._keys:
            store.call(key, "tpcc.begin", b"")
        before = store.status()
        began = time.monotonic()
        counts = store._submit(terminals.run(settings.seconds)).result()
        seconds = time.monotonic() - began
        after = store.status()
        shards = [json.loads(store.call(key, "tpcc.statistics", b"")) for key in terminals._keys]
    finally:
        terminals.close()
    return Measured(
        seconds=seconds,
        counts=counts,
        shards=shards,
        repeated=after["coordinator"]["repeated"] - before["coordinator"]["repeated"],
        wounded=sum(one["wounded"] for one in after["shards"])
        - sum(one["wounded"] for one in before["shards"]),
    )
