"""TPC-C over two shards: the command, the conditions over both, and faults that they must see."""

import asyncio
import contextlib
import json
import os
import struct

import lockstep
import pytest
import ray
from lockstep.cluster import ProcedureError, ShardedStore
from lockstep.cluster.__main__ import main
from lockstep.cluster.tpcc import Settings, check, make_procedures, measure
from lockstep.cluster.tpcc._conditions import violations
from lockstep.tpcc._inputs import Across, Inputs
from lockstep.cluster.tpcc._report import percentile, report_of
from lockstep.cluster.tpcc._run import ROLLED_BACK, Counts, Measured, _Terminals

OBJECT = os.environ["LOCKSTEP_TPCC_OBJECT"]
SMALL = {"items": 500, "customers": 60, "undelivered": 20, "districts": 10}


def small(**changed):
    given = {"warehouses": 2, "shards": 2, "seconds": 2.0, "warmup": 0.2, "batch": 16}
    return Settings(object=OBJECT, **{**SMALL, **given, **changed})


def test_the_command(tmp_path, capsys):
    options = [f"--{name}={value}" for name, value in SMALL.items()]
    options += [f"--object={OBJECT}", "--warehouses=2", "--shards=2", "--seconds=3"]
    files = [f"--json={tmp_path}/r.json", f"--html={tmp_path}/r.html"]
    assert main(["tpcc", *options, *files]) == 0
    assert "all 16 hold" in capsys.readouterr().out
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["ok"] and report["failures"]["count"] == 0
    counts = {name: one["count"] for name, one in report["types"].items()}
    assert min(counts.values()) > 0
    # 10 of 23 each, and of these 15% and about 10% to the only other warehouse.
    assert counts["NewOrder"] > 5 * counts["Delivery"]
    share = report["types"]["Payment"]["across"] / counts["Payment"]
    assert 0.05 < share < 0.3, share
    assert report["types"]["NewOrder"]["across"] > 0
    assert report["two_phase"]["share"] > 0.04
    page = (tmp_path / "r.html").read_text()
    assert "<h1>TPC-C over shards</h1>" in page and "W_YTD = sum(D_YTD)" in page


@pytest.mark.parametrize(
    "words, says",
    [
        (["--seconds=nan"], "'nan' is not a number of seconds from 0 to"),
        (["--warmup=-1"], "'-1' is not a number of seconds"),
        (["--shards=0"], "'0' is not a whole number of 1 or more"),
        (["--seconds=0"], "--seconds is more than 0"),
        (["--duration=0"], "--seconds is more than 0"),  # the driver's name of it
        (["--warehouses=1"], "--shards 2 is more than --warehouses 1"),
        (["--json=/nowhere/r.json"], "No such file or directory: '/nowhere/r.json'"),
    ],
)
def test_what_the_command_refuses_at_once(words, says, capsys):
    try:
        status = main(["tpcc", f"--object={OBJECT}", *words])
    except SystemExit as end:
        status = end.code
    assert status in (1, 2) and says in capsys.readouterr().err


@contextlib.contextmanager
def open_store(settings, path, name):
    procedures = make_procedures(settings)

    @procedures.cross_shard
    async def only_at_home(txn, home, packet):
        request = struct.pack("<H", len(packet)) + packet
        await txn.call(home, "tpcc.new_order", request)

    @procedures.local
    def patch_stock(txn, objects, warehouse, item):
        key = struct.pack(">H", warehouse) + item.to_bytes(3, "big")
        stock = objects.index("stock")
        (count,) = struct.unpack_from("<I", txn.get(stock, key), 8)
        txn.patch(stock, key, 8, struct.pack("<I", count + 1))

    @procedures.local
    def erase_payment_of(txn, objects, warehouse):
        """A payment whose customer is of this warehouse."""
        history = objects.heap("history")
        for place, row in txn.heap_scan(history):
            if struct.unpack_from("<IIIBB", row)[1] == warehouse:
                txn.heap_erase(history, place)
                return struct.unpack_from("<IIIBB", row)
        raise AssertionError("there is no such payment")

    with ShardedStore(
        path,
        procedures=procedures,
        shards=settings.shards,
        name=name,
        route=settings.shard_of,
        options=settings.store_options(),
    ) as store:
        yield store


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    settings = small()
    with open_store(settings, tmp_path_factory.mktemp("tpcc"), "faults") as store:
        measured = measure(store, settings)
        assert measured.counts.failures == 0, measured.counts.failed
        assert len(measured.counts.across["Payment"]) > 0
        yield store, settings
    ray.shutdown()


def broken(store, settings):
    """The ids of the conditions that do not hold; "stock" for its columns."""
    report = check(store, settings)
    assert report["ok"] == (not violations(report))
    ids = {one["id"] for one in report["conditions"] if one["violations"]}
    columns = {one["text"].split()[0] for one in report["stock"] if one["violations"]}
    return ids | columns, violations(report)


def test_faults_are_seen(run):
    store, settings = run
    assert broken(store, settings) == (set(), [])
    store.call(2, "patch_stock", 2, 7)
    found, lines = broken(store, settings)
    assert found == {"S_REMOTE_CNT"}
    assert any("stock 7 of warehouse 2" in line for line in lines), lines
    # The row lies on the first shard; the customer, whose balance it explains, on the second.
    assert store.shard_of(1) != store.shard_of(2)
    customer, warehouse, home, district, _ = store.call(1, "erase_payment_of", 2)
    assert (warehouse, home) == (2, 1)
    found, lines = broken(store, settings)
    assert found == {8, 9, 10, "S_REMOTE_CNT"}
    assert any(f"customer {customer} of district 2/{district}:" in line for line in lines), lines


def test_packets_of_another_shard_and_damaged_ones_are_refused(run):
    store, settings = run
    inputs = Inputs(settings, 0, 1)
    local, across = inputs.next(200)
    inputs.close()
    assert local.requests + len(across) == 200 and across
    assert {one.type for one in across} == {"NewOrder", "Payment"}
    outcomes = store.call_many(2, "tpcc.run", local)  # the shard of warehouse 2
    assert len(outcomes.failed) == local.requests
    for request in (b"", b"\x00", b"\x09" * 50, across[0].packet):
        with pytest.raises(lockstep.BadArgument, match="packet of a TPC-C"):
            store.call(1, "tpcc.run", request)
    with pytest.raises(lockstep.BadArgument, match="a step of a transaction"):
        store.call(1, "tpcc.stock", across[0].packet)


def test_an_order_without_the_supplies_of_the_other_shard_is_refused(run):
    store, settings = run
    inputs = Inputs(settings, 0, 1)
    order = next(one for one in inputs.next(500)[1] if one.type == "NewOrder")
    inputs.close()
    before = check(store, settings)["rows"]
    with pytest.raises(lockstep.BadArgument, match="packet of a TPC-C"):
        store.run("only_at_home", order.home, order.packet)
    assert check(store, settings)["rows"] == before


def test_other_options_than_those_of_the_load_are_refused(tmp_path):
    with pytest.raises(ValueError, match="impossible scale, or fewer warehouses than shards"):
        Inputs(small(warehouses=1), 0, 1)
    with pytest.raises(ValueError, match="a number is expected"):
        Inputs(small(items="many"), 0, 1)
    with pytest.raises(FileNotFoundError, match="give --object PATH"):
        Settings(object=str(tmp_path / "none.so")).object_path()
    store = lockstep.open(tmp_path / "store", workers=1, pool_bytes=64 << 20)
    settings = small()
    opened = lockstep._core.ProcedureObject(OBJECT, store._handle, settings.object_options(0))
    opened.close()
    for other in (settings.object_options(1), small(items=600).object_options(0)):
        with pytest.raises(lockstep.BadOption, match="other warehouses"):
            lockstep._core.ProcedureObject(OBJECT, store._handle, other)
    store.close()


class RollsBack:
    """A store whose New-Orders over shards have an input that demands a rollback."""

    async def _run(self, procedure, arguments):
        raise ProcedureError(ROLLED_BACK, "unused item")


def test_an_order_that_is_rolled_back_counts_once():
    settings = small()
    terminals, counts = _Terminals(RollsBack(), settings), Counts()
    asyncio.run(terminals._across(Across("NewOrder", 1, (2,), b""), counts))
    terminals.close()
    idle = {"completed": 0, "rolled_back": 0, "aborts": {}, "latency_ns": {"p50": 0, "p99": 0}}
    shards = [{"types": dict.fromkeys(counts.across, idle)}]
    conditions = {"ok": True}
    report = report_of(settings, Measured(1.0, counts, shards, 0, 0), conditions, 0.0)
    for one in (report["types"]["NewOrder"], report["two_phase"]):
        assert (one["count"], one["rolled_back"]) == (1, 1)
    assert report["two_phase"]["share"] == 1 and report["failures"]["count"] == 0


def test_percentiles():
    assert percentile([], 0.5) == 0
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile(range(100), 0.99) == 99
