#!/usr/bin/env python3
"""kill_test - SIGKILL of shards, of the coordinator and of a node, while money moves.

Usage: kill_test.py [--kills N] [--seed S] [--shards N]

Two Ray nodes on this machine. Transfers between accounts of different shards run all the time, each
with a receipt on both sides. At the end every acknowledged transfer must be there, every refused
one must not, and each of unknown outcome is whole or absent; no money is gone; and nothing is in
doubt ten seconds after every process is back.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time

import bank
import ray
from lockstep.cluster import ClusterError, OutcomeUnknown, ShardedStore
from ray.cluster_utils import Cluster

ACCOUNTS, START = 64, 1000
CLIENTS = 12
BETWEEN = (0.5, 1.5)  # seconds from one kill to the next
DOUBT_MAX = 10.0
FORGET_MAX = 20.0
OPEN = ("in_doubt", "open_branches", "active", "undelivered")


class Ledger:
    """What clients were told."""

    def __init__(self):
        self.acknowledged = {}
        self.refused = set()
        self.unknown = {}
        self.next = 0


async def move_money(store, ledger, rng, stop):
    while not stop.is_set():
        source, target = rng.sample(range(ACCOUNTS), 2)
        amount = rng.randint(1, 300)
        ledger.next += 1
        receipt = ledger.next
        try:
            procedure = "transfer" if receipt % 2 else "transfer_decided_there"
            await store.run_async(procedure, source, target, amount, receipt)
            ledger.acknowledged[receipt] = (source, target, amount)
        except OutcomeUnknown:
            ledger.unknown[receipt] = (source, target, amount)
            await asyncio.sleep(0.1)
        except (ValueError, ClusterError):
            ledger.refused.add(receipt)


class Killer:
    """The second node comes with it. `store` is set when it is open."""

    def __init__(self, cluster, rng):
        self._cluster = cluster
        self.store = None
        self._rng = rng
        self._node = self._add_node()
        self.counts = {"shard": 0, "coordinator": 0, "node": 0}

    def _add_node(self):
        return self._cluster.add_node(num_cpus=1, resources={"second": 100})

    async def kill(self):
        kind = self._rng.choices(["shard", "coordinator", "node"], [6, 3, 1])[0]
        self.counts[kind] += 1
        if kind == "node":
            self._cluster.remove_node(self._node, allow_graceful=False)
            await asyncio.sleep(self._rng.uniform(0, 1))
            self._node = self._add_node()
            return
        actors = self.store.shards if kind == "shard" else [self.store.coordinator]
        try:
            status = await asyncio.wait_for(self._rng.choice(actors).status.remote(), 20)
        except (ray.exceptions.RayError, TimeoutError):
            return  # it is not back yet
        try:
            os.kill(status["pid"], signal.SIGKILL)
        except ProcessLookupError:
            pass


async def wait_until_back(store):
    """Until every process answers; then until nothing is in doubt. The second time in seconds."""
    while True:
        try:
            await asyncio.wait_for(store.coordinator.status.remote(), 60)
            await asyncio.gather(*(shard.status.remote() for shard in store.shards))
            break
        except ray.exceptions.RayError:
            await asyncio.sleep(0.1)
    back = time.monotonic()
    while True:
        found = await asyncio.gather(
            store.coordinator.status.remote(), *(shard.status.remote() for shard in store.shards)
        )
        if not any(one.get(what) for one in found for what in OPEN):
            return time.monotonic() - back
        if time.monotonic() - back > DOUBT_MAX:
            sys.exit(f"still in doubt {DOUBT_MAX} s after every process was back: {found}")
        await asyncio.sleep(0.05)


async def restart_coordinator(store):
    """Its successor has the shards remove decisions. Their number before, over all shards."""
    async def count():
        shards = range(len(store.shards))
        return sum(await asyncio.gather(*(store.call_async(s, "decisions") for s in shards)))

    before = await count()
    status = await store.coordinator.status.remote()
    os.kill(status["pid"], signal.SIGKILL)
    await wait_until_back(store)
    until = time.monotonic() + FORGET_MAX
    while (left := await count()) != 0:
        if time.monotonic() > until:
            sys.exit(f"{left} decisions are left {FORGET_MAX} s after the coordinator was back")
        await asyncio.sleep(0.05)
    return before


def audit(store, ledger, shards):
    accounts, receipts = {}, {}
    for shard in range(shards):
        some, more = store.call(shard, "everything")
        accounts.update(some)
        receipts.update(more)
    assert sorted(accounts) == list(range(ACCOUNTS)), "an account is gone"
    assert sum(accounts.values()) == ACCOUNTS * START, f"money: {sum(accounts.values())}"
    assert min(accounts.values()) >= 0, "an account was overdrawn"
    expected = {}
    for receipt, (source, target, amount) in ledger.acknowledged.items():
        expected[source, receipt], expected[target, receipt] = -amount, amount
    committed = 0
    for receipt, (source, target, amount) in ledger.unknown.items():
        sides = {(source, receipt): -amount, (target, receipt): amount}
        found = [side for side in sides if side in receipts]
        assert len(found) in (0, 2), f"transfer {receipt} is on one side only: {found}"
        if found:
            expected.update(sides)
            committed += 1
    assert receipts == expected, set(receipts.items()) ^ set(expected.items())
    balances = dict.fromkeys(range(ACCOUNTS), START)
    for (account, _), amount in receipts.items():
        balances[account] += amount
    assert balances == accounts, "receipts and balances differ"
    return committed


async def load(store, ledger, killer, kills, rng):
    stop = asyncio.Event()
    clients = [asyncio.create_task(move_money(store, ledger, rng, stop)) for _ in range(CLIENTS)]
    for _ in range(kills):
        await asyncio.sleep(rng.uniform(*BETWEEN))
        await killer.kill()
    await asyncio.sleep(1)
    stop.set()
    await asyncio.gather(*clients)
    return await wait_until_back(store)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    quiet = {"num_cpus": 1, "resources": {"first": 100}, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=quiet)
    ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
    try:
        print(run(cluster, given, rng))
    finally:
        ray.shutdown()
        cluster.shutdown()


def run(cluster, given, rng):
    """Load, kills, audit; what happened."""
    ledger = Ledger()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lockstep-cluster-") as directory:
        killer = Killer(cluster, rng)
        store = ShardedStore(
            directory,
            procedures=bank.procedures,
            shards=given.shards,
            route=int,
            resources=({"first": 1}, {"second": 1}),
        )
        killer.store = store
        with store:
            for account in range(ACCOUNTS):
                store.call(account, "deposit", account, START)
            seconds = asyncio.run(load(store, ledger, killer, given.kills, rng))
            forgotten = asyncio.run(restart_coordinator(store))
            committed = audit(store, ledger, given.shards)
            for shard in store.shards:
                assert ray.get(shard.verify.remote()) == []
    return (
        f"{given.kills} kills ({killer.counts}) in {time.monotonic() - began:.0f} s: "
        f"{len(ledger.acknowledged)} transfers acknowledged, {len(ledger.refused)} refused, "
        f"{len(ledger.unknown)} of unknown outcome, of which {committed} had committed; "
        f"nothing in doubt {seconds:.2f} s after every process was back; "
        f"{forgotten} decisions removed when the coordinator had been restarted once more"
    )


if __name__ == "__main__":
    main()
