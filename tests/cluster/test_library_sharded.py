"""Procedure objects in the shards of a sharded store, on one Ray node."""

import asyncio
import os
import signal
import struct
import time

import library
import pytest
import ray
from actors import wait_until_gone
from lockstep.cluster import OutcomeUnknown, ProcedureError, Procedures, ShardedStore
from library import number, numbers

ACCOUNTS = 12


def make_procedures(bank):
    procedures = Procedures()
    procedures.library(bank)

    @procedures.cross_shard
    async def transfer(txn, source, target, amount, receipt):
        request = struct.pack("<3q", source, -amount, receipt)
        left = await txn.call(source, "native_take_part", request)
        request = struct.pack("<3q", target, amount, receipt)
        await txn.call(target, "native_take_part", request)
        return left

    @procedures.local
    def receipts(txn, objects):
        return sum(1 for _ in txn.scan(objects.index("receipts")))

    return procedures


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    bank = library.build(tmp_path_factory.mktemp("objects"))
    with ShardedStore(
        tmp_path_factory.mktemp("bank"),
        procedures=make_procedures(bank),
        shards=2,
        route=int,
        name="native",
    ) as made:
        for shard in range(2):
            requests = [numbers(n, 100) for n in range(shard, ACCOUNTS, 2)]
            assert not made.call_many(shard, "native_deposit", requests).failed
        yield made
    ray.shutdown()


def balance(store, account):
    return number(store.call(account, "native_balance", numbers(account)))


def total(store):
    return sum(balance(store, account) for account in range(ACCOUNTS))


def test_transactions_over_shards_run_in_the_object(store):
    assert number(store.run("transfer", 0, 1, 30, 1)) == 70
    assert (balance(store, 0), balance(store, 1)) == (70, 130)
    with pytest.raises(ProcedureError, match="not enough money") as raised:
        store.run("transfer", 0, 1, 1000, 2)
    assert raised.value.code == -7
    assert (balance(store, 0), balance(store, 1)) == (70, 130)
    prepared = [shard["prepared"] for shard in store.status()["shards"]]
    assert min(prepared) > 0


def test_many_at_once_keep_the_sum(store):
    before = total(store)
    # Each pair in both directions: what meets on two shards in two orders.
    made = [
        store.submit_run("transfer", n % 4, (n + 1) % 4, 1, 100 + n) for n in range(20)
    ] + [store.submit_run("transfer", (n + 1) % 4, n % 4, 1, 200 + n) for n in range(20)]
    batches = [
        store.submit_call_many(n % 2, "native_deposit", [numbers(n % 2, 1), numbers(n % 2, -1)])
        for n in range(40)
    ]
    for one in made:
        one.result(60)
    assert not any(batch.result(60).failed for batch in batches)
    assert total(store) == before


def test_a_batch_from_an_event_loop(store):
    outcomes = asyncio.run(store.call_many_async(1, "native_balance", [numbers(1)] * 300))
    assert len(outcomes) == 300 and len(set(outcomes.replies())) == 1


def test_a_shard_that_is_killed_in_the_middle_of_a_batch(store):
    """The outcome is unknown: a part of the batch may have committed. The shard comes back."""
    receipts = store.call(1, "receipts")
    pid = store.status()["shards"][1]["pid"]
    requests = [numbers(1, 1, 1000 + n) for n in range(500)]
    slow = store.submit_call_many(1, "native_sleep", [numbers(30_000_000_000)])
    done = store.call_many(1, "native_take_part", requests)
    assert not done.failed
    time.sleep(0.2)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(OutcomeUnknown):
        slow.result(60)
    # What was acknowledged is there; a repetition says so.
    assert store.call(1, "receipts") == receipts + 500
    again = store.call_many(1, "native_take_part", requests + [numbers(1, 1, 2000)])
    assert again.failed == list(range(500))
    assert store.status()["shards"][1]["pid"] != pid


def test_an_object_that_does_not_fit_stops_the_shard(store, tmp_path):
    odd = library.build(tmp_path, "odd", "BANK_VERSION=99")
    with pytest.raises(ray.exceptions.RayError, match="has version 99") as refused:
        ShardedStore(tmp_path, procedures=make_procedures(odd), name="odd")
    wait_until_gone("odd/shard-0", "odd/shard-1", "odd/coordinator")
    assert refused.tb is not None
