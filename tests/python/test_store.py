"""test_store - open, options, objects, maintenance, observation."""

import gc
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time

import lockstep
import pytest
from conftest import SMALL
from lockstep import _core

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_what_is_committed_is_there_after_a_new_open(tmp_path):
    with lockstep.open(tmp_path / "s", **SMALL) as store:
        cities = store.index("cities", create=True)
        with store.transaction() as txn:
            txn.put(cities, "Lisbon", "Portugal")
        assert txn.lsn > 0 and not txn.active
        assert "cities" in repr(cities) and repr(store).endswith("/s'>")
    assert repr(store).endswith(", closed>")
    store.close()
    with lockstep.open(tmp_path / "s", create=False) as store:
        with store.snapshot() as txn:
            assert txn.get(store.index("cities"), "Lisbon") == b"Portugal"


def test_options_go_in_and_come_back(tmp_path):
    lines = []
    given = {
        "workers": 2,
        "pool_bytes": 32 << 20,
        "lock_timeout": 1.5,
        "transaction_age_max": 60.0,
        "packet_policy": "priority",
        "lock_policy": "short_first",
        "io": "pool",
        "sync": False,
        "scan_bytes": 5 << 20,
        "scan_share": 0.5,
        "scan_workers": 1,
    }
    steps = {"mode": "on", "team_max": 8, "points": "manual", "policy": "oldest"}
    with lockstep.open(
        tmp_path / "s", logger=lambda level, text: lines.append((level, text)), steps=steps, **given
    ) as store:
        options = store.options()
        assert {name: options[name] for name in given} == given
        assert options["steps"]["team_max"] == 8 and options["steps"]["mode"] == "on"
        store.set_steps("off")
        assert store.options()["steps"]["mode"] == "off"
    with lockstep.open(tmp_path / "t", steps="prefetch", lock_timeout=None) as store:
        assert store.options()["lock_timeout"] is None
        assert store.options()["steps"]["mode"] == "prefetch"


def test_every_option_of_the_engine_has_a_name_here():
    others = {"lock_stage": "lock_policy", "archive_sink": "archive", "test_hooks": "logger"}
    text = (ROOT / "sm/include/lockstep/options.h").read_text().partition("struct Options {")[2]
    names = re.findall(r"^    [\w:<>*]+(?: [*]?)(\w+)(?: =|;)", text.partition("\n};")[0], re.M)
    assert len(names) > 30
    named = lockstep.Options.__annotations__
    assert not [name for name in names if others.get(name, name) not in named]


def test_an_option_that_is_a_number(tmp_path):
    with pytest.raises(TypeError, match="option scan_share is a number, not 'half' of type str"):
        lockstep.open(tmp_path / "s", scan_share="half")
    with pytest.raises(TypeError, match="option scan_share"):
        lockstep.open(tmp_path / "s", scan_share=True)
    with pytest.raises(lockstep.BadOption, match="scan_share"):
        lockstep.open(tmp_path / "s", scan_share=2)


def test_the_version():
    header = (ROOT / "sm/include/lockstep/c/version.h").read_text()
    numbers = re.findall(r"define LOCKSTEP_VERSION_[A-Z]+ (\d+)", header)
    assert lockstep.__version__ == ".".join(numbers)


def test_a_package_without_its_extension_says_so(tmp_path):
    place = pathlib.Path(lockstep.__file__).parent
    shutil.copytree(place, tmp_path / "lockstep", ignore=shutil.ignore_patterns("*.so", "libs"))
    done = subprocess.run(
        [sys.executable, "-c", "import lockstep"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: the extension lockstep._core is not beside")
    assert "pip install ./tools/python" in last and "circular" not in done.stderr


def test_a_store_is_open_once(tmp_path, store):
    with pytest.raises(lockstep.StoreLocked):
        lockstep.open(store.path)


def test_a_store_in_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with lockstep.open(":memory:", **SMALL) as one:
        with lockstep.open(":memory:", **SMALL) as other:
            one.index("i", create=True)["k"] = "v"
            assert one.index("i")["k"] == b"v"
            with pytest.raises(lockstep.NoSuchObject):
                other.index("i")
        one.backup("copy")
        with pytest.raises(lockstep.BadPath, match=":memory:"):
            one.backup(":memory:")
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]
    with lockstep.open("copy") as copy:
        assert copy.index("i")["k"] == b"v"


def test_read_only(tmp_path):
    with lockstep.open(tmp_path / "s", **SMALL) as store:
        store.index("i", create=True)
    with lockstep.open(tmp_path / "s", read_only=True, pool_bytes=16 << 20) as store:
        with pytest.raises(lockstep.ReadOnly):
            store.index("j", create=True)


def test_the_log_goes_to_a_function(tmp_path):
    lines = []
    with lockstep.open(
        tmp_path / "s", logger=lambda *line: lines.append(line), slice_warning=0.01, **SMALL
    ) as store:
        index = store.index("i", create=True)
        # A function that blocks a worker is what the store warns of.
        store.secondary_index("by", index, lambda key, value: time.sleep(0.5) or value)
        with store.transaction() as txn:
            txn.put(index, "k", "v")
        wait_for(lambda: lines)
    level, text = lines[0]
    assert level in (0, 1, 2) and isinstance(text, str)


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def test_objects(store):
    index = store.index("i", create=True)
    heap = store.heap("h", create=True)
    assert [(o.name, o.is_index, o.of) for o in store.objects()] == [
        ("h", False, 0),
        ("i", True, 0),
    ]
    assert {o.id for o in store.objects()} == {
        _core.heap_id(heap),
        _core.index_id(index),
    }
    assert store.index("i").name == "i" and store.heap("h").name == "h"
    for call in (store.index, store.heap):
        with pytest.raises(lockstep.NoSuchObject):
            call("none")
    with pytest.raises(lockstep.WrongKind):
        store.index("h")
    with store.transaction() as txn:
        assert txn.index("i").name == "i" and txn.heap("h").name == "h"
        made = [txn.create_index("j"), txn.create_heap("k")]
        assert [m.name for m in made] == ["j", "k"]
        for create in (txn.create_index, txn.create_heap):
            with pytest.raises(lockstep.AlreadyExists):
                create("i")
        txn.drop("i")
    assert [o.name for o in store.objects()] == ["h", "j", "k"]


def test_maintenance(store, index):
    with store.transaction(durability="lazy") as txn:
        txn.insert_many(index, [(n.to_bytes(4, "big"), b"v" * 2000) for n in range(500)])
    store.wait_durable(txn.lsn)
    store.checkpoint()
    assert store.verify() == [] and store.verify(threads=2) == []
    with store.transaction() as txn:
        txn.drop("records")
    assert store.give_back_space() >= 0


def test_observation(store, index):
    before = store.stats()["commits"]
    with store.transaction(priority=3, operations=2) as txn:
        txn.put(index, "k", "v")
        (one,) = [t for t in store.transactions() if not t.internal]
        assert one.id == txn.id and one.locks > 0 and one.waits_for_ids == ()
    assert store.stats()["commits"] == before + 1
    assert "# TYPE" in store.metrics() and len(store.metrics()) > 10000
    assert store.failure() is None


def test_end_transaction(store, index):
    txn = store.begin()
    txn.put(index, "k", "v")
    store.end_transaction(txn.id)
    with pytest.raises(lockstep.EndedByOperator):
        txn.put(index, "k", "w")
    txn.abort()
    with pytest.raises(lockstep.TransactionEnded):
        store.end_transaction(1 << 60)
    assert txn.id == 0


def test_a_child_of_fork_is_refused(store, index):
    child = os.fork()
    if child == 0:
        try:
            store.checkpoint()
        except lockstep.Forked:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_an_interpreter_that_ends_closes_its_stores(tmp_path):
    program = (
        "import lockstep, sys\n"
        f"store = lockstep.open({str(tmp_path / 's')!r}, workers=1, pool_bytes=16 << 20)\n"
        "index = store.index('i', create=True)\n"
        "by = store.secondary_index('by', index, lambda key, value: value)\n"
        "store.run(lambda txn: txn.put(index, 'k', 'v'))\n"
        "left = store.begin()\n"
        "left.put(index, 'lost', 'v')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    with lockstep.open(tmp_path / "s", read_only=True, pool_bytes=16 << 20) as store:
        with store.snapshot() as txn:
            assert list(txn.scan(store.index("i"))) == [(b"k", b"v")]


def test_nothing_leaks(store, index):
    """Objects that calls make and drop, errors among them, leave nothing behind."""

    def calls():
        with store.transaction(durability="lazy") as txn:
            for n in range(20):
                txn.put(index, ("key", n), bytearray(b"value"))
            list(txn.scan(index))
            list(txn.scan_views(index))
            with pytest.raises(TypeError):
                txn.put(index, 3, "v")
            with pytest.raises(lockstep.DuplicateKey):
                txn.insert(index, ("key", 0), "v")
        batch = lockstep.Batch().put(index, "a", "b").get(index, "a")
        store.execute(batch, durability="lazy")

    calls()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(10):
        calls()
    gc.collect()
    assert len(gc.get_objects()) < before + 200


def test_other_threads_run_while_a_call_waits(store, index):
    holder = store.begin()
    holder.put(index, "k", "v")
    ended = []

    def wait():
        with store.transaction() as txn:
            ended.append(txn.get(index, "k"))

    thread = threading.Thread(target=wait)
    thread.start()
    wait_for(lambda: any(t.state == "lock_wait" for t in store.transactions()))
    assert not ended
    holder.commit()
    thread.join(30)
    assert ended == [b"v"]
