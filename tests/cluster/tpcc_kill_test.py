#!/usr/bin/env python3
"""tpcc_kill_test - SIGKILL of shards, of the coordinator and of a node, under TPC-C.

Usage: tpcc_kill_test.py [--kills N] [--seed S] [--shards N]

Two Ray nodes on this machine, a warehouse on each shard, the standard's shares of remote
warehouses. At the end all conditions hold over the union of the shards. Every acknowledged
New-Order and Payment has left its row, and there is no row that no terminal asked for. Nothing is
in doubt ten seconds after every process is back.
"""

import asyncio
import contextlib
import functools
import os
import struct
import tempfile
import time
from collections import Counter

import lockstep
from killer import NODES, kill_beside, parse, two_nodes
from lockstep.cluster import ClusterError, OutcomeUnknown, ProcedureError, ShardedStore
from lockstep.cluster.tpcc import Settings, check, make_procedures
from lockstep.cluster.tpcc._conditions import violations
from lockstep.tpcc._inputs import Inputs

GROUPS, BATCH = 2, 8  # terminals of a shard: groups, and transactions that a group has under way
SCALE = {"items": 500, "customers": 60, "undelivered": 20}
NEW_ORDER = "<BIIIBBB"  # tpcc/input.h behind the type; the lines follow
PAYMENT = "<BII?3xIII17s7xq"
HISTORY = "<IIIBBqq"  # tpcc/schema.h
ORDER = "<BBBIq"


def trace_of(packet):
    """The row that a transaction leaves: its table and what the input tells of it. None: no row."""
    if packet[0] == 0:
        _, w, d, c, lines, _, rolls_back = struct.unpack_from(NEW_ORDER, packet)
        return None if rolls_back else ("orders", w, d, c, lines)
    if packet[0] == 1:
        _, w, d, _, c_w, c_d, _, _, amount = struct.unpack(PAYMENT, packet)
        return ("history", w, d, c_w, c_d, amount)
    return None


def packets_of(packed):
    sizes = struct.unpack_from(f"<{packed.requests}I", packed, 4)
    at = 4 + 4 * packed.requests
    for size in sizes:
        yield packed[at : at + size]
        at += size


class Ledger:
    """What terminals were told. Rows are counted: two transactions may leave equal ones."""

    def __init__(self):
        self.acknowledged, self.unknown = Counter(), Counter()
        self.refused = 0

    def note(self, packet, error=None):
        trace = trace_of(packet)
        if error is not None and not isinstance(error, OutcomeUnknown):
            self.refused += 1
        elif trace is not None:
            (self.unknown if error else self.acknowledged)[trace] += 1


async def run_across(store, one, ledger):
    procedure = {"NewOrder": "tpcc_new_order", "Payment": "tpcc_payment"}[one.type]
    try:
        await store.run_async(procedure, one.home, one.others, one.packet)
        ledger.note(one.packet)
    except ProcedureError as error:
        assert trace_of(one.packet) is None, error  # the rollback that the input demands
    except (ClusterError, lockstep.Error) as error:
        ledger.note(one.packet, error)


async def run_local(store, warehouse, local, ledger):
    packets = list(packets_of(local))
    try:
        outcomes = await store.call_many_async(warehouse, "tpcc.run", local)
    except ClusterError as error:
        outcomes = [error] * len(packets)
    for packet, outcome in zip(packets, outcomes, strict=True):
        ledger.note(packet, outcome if isinstance(outcome, Exception) else None)


async def be_terminals(store, settings, warehouse, group, ledger, stop):
    seed = 1000 * settings.seed + group
    with contextlib.closing(Inputs(settings, store.shard_of(warehouse), seed)) as inputs:
        while not stop.is_set():
            refused = ledger.refused
            local, across = inputs.next(BATCH)
            work = [run_across(store, one, ledger) for one in across]
            if local.requests:
                work.append(run_local(store, warehouse, local, ledger))
            await asyncio.gather(*work)
            if ledger.refused != refused:
                await asyncio.sleep(0.1)


def make_all_procedures(settings):
    procedures = make_procedures(settings)

    @procedures.local
    def rows(txn, objects, warehouse):
        """The rows of a shard's orders and payments, as trace_of() has them."""
        found = Counter()
        for key, value in txn.scan(objects.index("orders")):
            w, d, _ = struct.unpack(">HBI", key)
            _, lines, _, c, _ = struct.unpack(ORDER, value)
            found["orders", w, d, c, lines] += 1
        for _, value in txn.heap_scan(objects.heap("history")):
            _, c_w, w, c_d, d, _, amount = struct.unpack_from(HISTORY, value)
            found["history", w, d, c_w, c_d, amount] += 1
        return found

    return procedures


def rows_of_all(store, settings):
    found = Counter()
    for warehouse in range(1, settings.warehouses + 1):
        found += store.call(warehouse, "rows", warehouse)
    return found


def compare(written, ledger):
    """How many transactions of unknown outcome have committed. `written`: rows since the load."""
    lost = ledger.acknowledged - written
    assert not lost, f"acknowledged, and not there: {lost}"
    committed = written - ledger.acknowledged
    assert committed <= ledger.unknown, f"refused, or never begun: {committed - ledger.unknown}"
    return committed.total()


def audit(store, settings, ledger, loaded):
    report = check(store, settings)
    assert report["ok"], violations(report)
    written = rows_of_all(store, settings)
    assert written >= loaded, f"rows of the load are gone: {loaded - written}"
    return compare(written - loaded, ledger)


def main():
    given = parse(__doc__.split("\n")[0])
    settings = Settings(
        object=os.environ.get("LOCKSTEP_TPCC_OBJECT", ""),
        warehouses=given.shards,
        shards=given.shards,
        seconds=120,
        seed=given.seed,
        **SCALE,
    )
    with two_nodes(given.seed) as (killer, rng):
        print(run(killer, settings, given.kills, rng))


def run(killer, settings, kills, rng):
    """Load, kills, audit; what happened."""
    ledger = Ledger()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lockstep-cluster-") as directory:
        store = ShardedStore(
            directory,
            procedures=make_all_procedures(settings),
            shards=settings.shards,
            route=settings.shard_of,
            resources=NODES,
            options=settings.store_options(),
        )
        killer.store = store
        with store:
            loaded = rows_of_all(store, settings)
            clients = [
                functools.partial(be_terminals, store, settings, warehouse, group, ledger)
                for warehouse in range(1, settings.warehouses + 1)
                for group in range(GROUPS)
            ]
            seconds = asyncio.run(kill_beside(killer, store, clients, kills, rng))
            committed = audit(store, settings, ledger, loaded)
    return (
        f"TPC-C, {kills} kills ({killer.counts}) in {time.monotonic() - began:.0f} s: "
        f"{ledger.acknowledged.total()} New-Orders and Payments acknowledged, {ledger.refused} "
        f"transactions refused, {ledger.unknown.total()} of unknown outcome, of which {committed} "
        f"had committed; all conditions hold; nothing in doubt {seconds:.2f} s after every process "
        "was back"
    )


if __name__ == "__main__":
    main()
