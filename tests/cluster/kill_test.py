#!/usr/bin/env python3
"""kill_test - SIGKILL of shards, of the coordinator and of a node, while money moves.

Usage: kill_test.py [--kills N] [--seed S] [--shards N]

Two Ray nodes on this machine. Transfers between accounts of different shards run all the time, each
with a receipt on both sides. At the end every acknowledged transfer must be there, every refused
one must not, and each of unknown outcome is whole or absent; no money is gone; and nothing is in
doubt ten seconds after every process is back.
"""

import asyncio
import functools
import os
import signal
import sys
import tempfile
import time

import bank
import ray
from killer import NODES, kill_beside, parse, two_nodes, wait_until_back
from lockstep.cluster import ClusterError, OutcomeUnknown, ShardedStore

ACCOUNTS, START = 64, 1000
CLIENTS = 12
FORGET_MAX = 20.0


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


def main():
    given = parse(__doc__.split("\n")[0])
    with two_nodes(given.seed) as (killer, rng):
        print(run(killer, given, rng))


def run(killer, given, rng):
    """Load, kills, audit; what happened."""
    ledger = Ledger()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lockstep-cluster-") as directory:
        store = ShardedStore(
            directory,
            procedures=bank.procedures,
            shards=given.shards,
            route=int,
            resources=NODES,
        )
        killer.store = store
        with store:
            for account in range(ACCOUNTS):
                store.call(account, "deposit", account, START)
            clients = [functools.partial(move_money, store, ledger, rng) for _ in range(CLIENTS)]
            seconds = asyncio.run(kill_beside(killer, store, clients, given.kills, rng))
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
