"""A sharded store on one Ray node, as a program uses it."""

import asyncio
import json
import random
import threading
import time

import bank
import pytest
import ray
from actors import wait_until_gone
from leaving import WAYS
from lockstep.cluster import (
    ClusterError,
    NoSuchProcedure,
    OutcomeUnknown,
    ProcedureLeft,
    Procedures,
    ShardedStore,
)
from lockstep.cluster.__main__ import look, main, text
from waiting import wait_for

ACCOUNTS = 40


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    directory = tmp_path_factory.mktemp("bank")
    with ShardedStore(
        directory, procedures=bank.procedures, shards=3, route=int, name="bank"
    ) as made:
        for account in range(ACCOUNTS):
            assert made.call(account, "deposit", account, 100) == 100
        yield made
    assert sorted(path.name for path in directory.iterdir()) == [
        "coordinator", "shard-0", "shard-1", "shard-2",
    ]  # fmt: skip
    ray.shutdown()


def total(store):
    return store.run("total", list(range(ACCOUNTS)))


def test_transactions_of_one_and_of_two_shards(store):
    assert store.run("transfer", 0, 1, 30, 1) == 70
    assert store.run("transfer", 0, 3, 10, 2) == 60  # one shard
    assert store.call(1, "balance", 1) == 130
    assert asyncio.run(store.run_async("total", [0, 1, 3])) == 300
    assert asyncio.run(store.call_async(3, "balance", 3)) == 110


def test_a_second_program_leaves_the_shards_running(store, tmp_path):
    directory = store.status()["shards"][0]["directory"].removesuffix("/shard-0")
    second = ShardedStore(directory, procedures=Procedures(), shards=3, route=int, name="bank")
    before = second.call(5, "balance", 5)
    waits = second.submit_call(5, "wait_for_file", 5, str(tmp_path / "go"))
    wait_for(lambda: (tmp_path / "go.begun").exists())
    second.detach()
    (tmp_path / "go").touch()
    with pytest.raises(OutcomeUnknown):
        waits.result(5)
    second.detach()
    second.close()
    with pytest.raises(ClusterError, match="detached"):
        second.call(5, "balance", 5)
    assert store.call(5, "balance", 5) == before


def test_a_transaction_that_a_shard_decides(store):
    before = total(store)
    assert store.run("transfer_decided_there", 8, 9, 30, 4) == 70
    assert store.run("transfer_decided_there", 8, 11, 10, 5) == 60  # one shard
    assert store.call(9, "balance", 9) == 130
    with pytest.raises(ValueError, match="not enough"):
        store.run("transfer_decided_there", 8, 9, 1000, 6)
    pairs = [(10, 13), (13, 10)] * 5
    made = [
        store.submit_run("transfer_decided_there", a, b, 1, 500 + n)
        for n, (a, b) in enumerate(pairs)
    ]
    for one in made:
        one.result(60)
    assert total(store) == before


def test_an_exception_undoes_every_side_and_reaches_the_caller(store):
    with pytest.raises(ValueError, match="not enough"):
        store.run("transfer", 4, 5, 1000, 3)
    assert store.call(4, "balance", 4) == 100 and store.call(5, "balance", 5) == 100


@pytest.mark.parametrize("how", WAYS)
def test_a_procedure_that_is_left_is_answered(store, how):
    """Its shard, and the coordinator, serve others as before."""
    before = [shard["pid"] for shard in store.status()["shards"]]
    with pytest.raises(ProcedureLeft):
        store.submit_call(2, "leave", 2, how).result(60)
    for procedure in ("leave_on_the_way", "leave_on_a_shard"):
        with pytest.raises((ProcedureLeft, RuntimeError)):
            store.submit_run(procedure, 2, how).result(60)
    assert store.call(2, "balance", 2) == 100 == store.run("total", [2])
    assert [shard["pid"] for shard in store.status()["shards"]] == before


@pytest.mark.parametrize("how", WAYS)
def test_a_route_that_is_left_is_answered(store, how, monkeypatch):
    monkeypatch.setattr(store, "_layout", store._layout._replace(route=lambda key: WAYS[how]()))
    with pytest.raises((ProcedureLeft, RuntimeError)):
        store.submit_call(2, "balance", 2).result(60)
    monkeypatch.undo()
    assert store.call(2, "balance", 2) == 100


def test_names_that_are_not_registered(store):
    with pytest.raises(NoSuchProcedure, match="'missing' .*registered: balance, decisions"):
        store.call(0, "missing")
    with pytest.raises(NoSuchProcedure, match="cross-shard .*'deposit'"):
        store.run("deposit", 0, 1)


def test_many_at_once_keep_the_sum(store):
    rng = random.Random(1)
    pairs = [rng.sample(range(ACCOUNTS), 2) for _ in range(150)]
    before = total(store)
    made = [store.submit_run("transfer", a, b, 1, 100 + n) for n, (a, b) in enumerate(pairs)]
    assert total(store) == before
    for one in made:
        one.result(60)
    assert total(store) == before


def test_a_rolling_restart_is_not_noticed(store):
    stop = threading.Event()
    seen, errors = [], []

    def work():
        rng = random.Random(2)
        n = 10_000
        try:
            while not stop.is_set():
                n += 1
                a, b = rng.sample(range(ACCOUNTS), 2)
                seen.append(store.run("transfer", a, b, 0, n))
                seen.append(store.call(a, "balance", a))
        except Exception as error:
            errors.append(error)

    before = [shard["pid"] for shard in store.status()["shards"]]
    thread = threading.Thread(target=work)
    thread.start()
    for shard in range(3):
        assert store.restart(shard)
        wait_for_another(store, shard, before[shard])
    stop.set()
    thread.join(60)
    assert not thread.is_alive() and seen and not errors, errors
    assert total(store) == ACCOUNTS * 100


def wait_for_another(store, shard, pid):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            if ray.get(store.shards[shard].status.remote())["pid"] != pid:
                return
        except ray.exceptions.RayError:
            pass
        time.sleep(0.05)
    raise AssertionError("the shard is not back")


def test_status_and_metrics(store, capsys):
    found = look("bank")
    assert found["coordinator"]["shards"] == 3 and len(found["shards"]) == 3
    assert "coordinator: pid" in text(found)
    assert json.loads(json.dumps(found)) == found
    assert "lockstep_" in ray.get(store.shards[0].metrics.remote())
    with pytest.raises(ValueError, match="nothing"):
        look("nothing")
    with pytest.raises(SystemExit):
        main(["unknown"])


def test_keys_are_spread_by_hash(store, tmp_path):
    procedures = Procedures()

    @procedures.local
    def put(txn, objects, key):
        txn.put(objects.index("keys"), key, "x")

    @procedures.local
    def count(txn, objects):
        return sum(1 for _ in txn.scan(objects.index("keys")))

    with ShardedStore(tmp_path, procedures=procedures, shards=2, name="hash") as other:
        for n in range(50):
            other.call(f"k{n}", "put", f"k{n}")
        counts = [other.call(key, "count") for key in ("k0", "k1", "k2", "k3", "k4")]
        assert {other.shard_of(f"k{n}") for n in range(50)} == {0, 1}
        assert 10 < counts[0] < 40
    with pytest.raises(ValueError, match="made with 2 shards, not 3") as refused:
        ShardedStore(tmp_path, procedures=procedures, shards=3, name="other")
    wait_until_gone("other/coordinator")  # although the error with its frames is kept
    assert refused.tb is not None


def test_bad_arguments(tmp_path):
    with pytest.raises(ValueError, match="shards is 0"):
        ShardedStore(tmp_path, procedures=Procedures(), shards=0)
