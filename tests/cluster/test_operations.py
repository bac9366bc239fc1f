"""Backups of all shards at one point, and moves of a shard, on two Ray nodes under load."""

import ast
import builtins
import itertools
import os
import pathlib
import random
import shutil
import signal
import textwrap
import threading
import time

import bank
import lockstep
import pytest
import ray
from lockstep import restore_backup
from lockstep.cluster import (
    BadBackup,
    NotQuiet,
    ShardedStore,
    ShardUnavailable,
    _sharded,
    restore,
)
from lockstep.cluster.__main__ import actors, main
from lockstep.cluster._backup import CHANGES, FULL, Paused, take
from lockstep.cluster._move import Sending, check_not_moved
from ray.cluster_utils import Cluster
from waiting import wait_for

ACCOUNTS, EACH = 40, 1000


@pytest.fixture(scope="module")
def nodes():
    cluster = Cluster()
    cluster.add_node(num_cpus=1, resources={"first": 10}, include_dashboard=False)
    cluster.add_node(num_cpus=1, resources={"second": 10})
    ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def open_bank(directory, name, **options):
    return ShardedStore(
        directory,
        procedures=bank.procedures,
        shards=3,
        route=int,
        name=name,
        resources=[{"first": 0.1}],
        **options,
    )


@pytest.fixture
def store(nodes, tmp_path):
    with open_bank(tmp_path / "bank", tmp_path.name) as made:
        for account in range(ACCOUNTS):
            made.call(account, "deposit", account, EACH)
        yield made


class Load:
    """Transfers, and deposits of one that are counted, until the end of the block."""

    def __init__(self, store):
        self.store, self.errors, self.deposits, self.longest = store, [], 0, 0.0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(n,)) for n in range(4)]

    def _work(self, number):
        rng, n = random.Random(number), number * 1_000_000
        try:
            while not self._stop.is_set():
                n += 1
                began = time.monotonic()
                a, b = rng.sample(range(ACCOUNTS), 2)
                self.store.run("transfer", a, b, rng.randint(0, 3), n)
                if number == 0:  # in the order in which a backup must have them
                    self.store.call(self.deposits, "deposit", ACCOUNTS + self.deposits, 1)
                    self.deposits += 1
                self.longest = max(self.longest, time.monotonic() - began)
        except Exception as error:
            self.errors.append(error)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        wait_for(lambda: self.deposits, 60)
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(120)


def when_back(store, number, pid):
    """Waits until a shard whose process `pid` has ended answers again."""
    until = time.monotonic() + 60
    while True:
        try:
            if ray.get(store.shards[number].status.remote())["pid"] != pid:
                return
        except ray.exceptions.RayError:
            pass
        assert time.monotonic() < until, "the shard is not back"
        time.sleep(0.1)


def fill(store):
    """Many pages of shard 1, which only another fill() changes."""
    for n in range(100):
        store.call(1, "fill", n * 100, 100, 1000)  # 100 records of 1,000 bytes


def contents(store):
    """Accounts and receipts of all shards."""
    accounts, receipts = {}, {}
    for shard in range(3):
        some, others = store.call(shard, "everything")
        accounts |= some
        receipts |= others
    return accounts, receipts


def check(accounts, receipts, deposits):
    """`deposits` were made one after the other: those in the state are the first ones."""
    assert sum(v for k, v in accounts.items() if k < ACCOUNTS) == ACCOUNTS * EACH
    numbers = [number for _, number in receipts]
    assert all(numbers.count(number) == 2 for number in set(numbers)), "half a transfer"
    made = sorted(k - ACCOUNTS for k in accounts if k >= ACCOUNTS)
    assert made == list(range(len(made))), "a later deposit without an earlier one"
    assert deposits is None or len(made) == deposits


def test_a_backup_shows_one_point(store, tmp_path):
    with Load(store) as load:
        before = load.deposits
        taken = store.backup(tmp_path / "copy")
        after = load.deposits
    assert not load.errors, load.errors
    assert taken.parts == ["coordinator", "shard-0", "shard-1", "shard-2"]
    check(*contents(store), load.deposits)
    assert restore(tmp_path / "copy", tmp_path / "restored") == taken.parts
    with open_bank(tmp_path / "restored", "restored") as copy:
        accounts, receipts = contents(copy)
        check(accounts, receipts, None)
        assert before <= sum(1 for k in accounts if k >= ACCOUNTS) <= after + 1
        copy.run("transfer", 0, 1, 1, 10**9)
        check(*contents(copy), None)


def test_nothing_happens_in_a_pause(store, tmp_path):
    """The copies are taken one after the other, so what goes on would be in some of them only."""
    _, shards = actors(tmp_path.name)
    with Load(store) as load:
        with Paused([store.coordinator], store.shards, 10.0) as paused:
            before = load.deposits
            for number, shard in enumerate(shards):
                ray.get(shard.backup.remote(str(tmp_path / f"copy-{number}"), None))
                time.sleep(0.3)
            assert load.deposits == before
            paused.end()
    assert not load.errors and load.deposits > before, load.errors
    (tmp_path / "restored").mkdir()
    for number in range(3):
        restore_backup([tmp_path / f"copy-{number}"], tmp_path / f"restored/shard-{number}")
    with open_bank(tmp_path / "restored", "of-a-pause") as copy:
        check(*contents(copy), before)


def test_what_is_no_backup(store, tmp_path):
    with pytest.raises(BadBackup, match=r"no complete backup .*cluster\.json"):
        restore(tmp_path, tmp_path / "to")
    store.backup(tmp_path / "copy")
    with pytest.raises(FileExistsError, match="has a backup already"):
        store.backup(tmp_path / "copy")
    with pytest.raises(BadBackup, match="no part 'shard-9'; it has coordinator, shard-0"):
        restore(tmp_path / "copy", tmp_path / "to", parts=["shard-9"])
    assert restore(tmp_path / "copy", tmp_path / "to", parts=["shard-1"]) == ["shard-1"]
    assert [p.name for p in (tmp_path / "to").iterdir()] == ["shard-1"]


def test_a_backup_that_fails_leaves_no_copies(store, tmp_path):
    copy, end = tmp_path / "copy", tmp_path / "end"
    hold = threading.Thread(target=lambda: store.call(1, "wait_for_file", 1, str(end)))
    hold.start()
    wait_for(lambda: os.path.exists(f"{end}.begun"))
    with pytest.raises(NotQuiet, match="did not end within 0.5 s"):
        store.backup(copy, patience=0.5)
    end.touch()
    hold.join()
    assert list(copy.iterdir()) == []
    foreign = copy / "shard-1" / "full" / "foreign"
    foreign.parent.mkdir(parents=True)
    foreign.touch()
    with pytest.raises(lockstep.Error, match="shard-1/full"):
        store.backup(copy)
    assert [p for p in copy.rglob("*") if p.is_file()] == [foreign]
    assert [p.name for p in copy.iterdir()] == ["shard-1"]
    shutil.rmtree(copy)
    store.backup(copy)
    assert restore(copy, tmp_path / "restored")[0] == "coordinator"


def test_the_commands(store, tmp_path, capsys):
    assert take(*actors(tmp_path.name), tmp_path / "copy", 10.0).parts[0] == "coordinator"
    assert main(["restore", str(tmp_path / "copy"), str(tmp_path / "to"), "--part", "shard-2"]) == 0
    assert capsys.readouterr().out == f"restored shard-2 in {tmp_path / 'to'}\n"
    assert main(["restore", str(tmp_path), str(tmp_path / "other")]) == 1
    assert "no complete backup" in capsys.readouterr().err


def test_a_process_that_restarts_in_the_pause_spoils_the_backup(store, tmp_path):
    token = "of this test"
    assert ray.get(store.shards[1].pause.remote(token, 5, 30))
    pid = store.status()["shards"][1]["pid"]
    os.kill(pid, signal.SIGKILL)
    when_back(store, 1, pid)
    assert not ray.get(store.shards[1].resume.remote(token))


def test_a_shard_moves_under_load(store, tmp_path, nodes, monkeypatch):
    sent = []

    class NotedSending(Sending):
        def _send(self, part):
            sent.append(super()._send(part))
            return sent[-1]

    monkeypatch.setattr(_sharded, "Sending", NotedSending)
    first = store.status()["shards"][1]
    fill(store)
    with Load(store) as load:
        before = load.deposits
        pause = store.move(1, tmp_path / "elsewhere" / "shard-1", resources={"second": 0.1})
        wait_for(lambda: load.deposits > before, 60)
    assert not load.errors, load.errors
    assert 0 < pause < 30 and load.longest < 40
    full, *rounds = sent
    assert len(rounds) >= 2 and full.pages_copied == full.pages > 1000
    assert all(later.since == earlier.lsn for earlier, later in itertools.pairwise(sent))
    assert rounds[-1].pages_copied < full.pages / 4, "the pause copies the store"
    moved = store.status()["shards"][1]
    assert moved["directory"] == str(tmp_path / "elsewhere/shard-1")
    assert moved["node"] != first["node"]
    check(*contents(store), load.deposits)
    assert sorted(p.name for p in (tmp_path / "bank").iterdir()) == [
        "coordinator", "shard-0", "shard-1.moved", "shard-2",
    ]  # fmt: skip
    # Behind a restart, and behind a new opening, it is still there.
    store.restart(1)
    when_back(store, 1, moved["pid"])
    store.close()
    with open_bank(tmp_path / "bank", tmp_path.name + "-again") as again:
        assert again.status()["shards"][1]["directory"] == moved["directory"]
        check(*contents(again), load.deposits)
        again.run("transfer", 0, 1, 1, 10**9)


def test_a_move_that_fails_leaves_the_shard(store, tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(FileExistsError, match="exists already on the node"):
        store.move(1, tmp_path / "taken", resources={"second": 0.1})
    store.call(1, "deposit", ACCOUNTS + 1, 1)
    # Something does not end in time.
    end = tmp_path / "end"
    hold = threading.Thread(target=lambda: store.call(1, "wait_for_file", 1, str(end)))
    hold.start()
    wait_for(lambda: os.path.exists(f"{end}.begun"))
    with pytest.raises(NotQuiet, match="did not end within 0.5 s"):
        store.move(1, tmp_path / "target", resources={"second": 0.1}, patience=0.5)
    end.touch()
    hold.join()
    assert not list(tmp_path.glob("target*"))
    assert store.call(1, "balance", 1) == EACH
    assert store.run("transfer", 0, 1, 1, 10**9) == EACH - 1


def kill_when_it_comes(directory, kill):
    """Calls kill() when the first piece of a file is in the directory."""
    def wait():
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if any(path.stat().st_size for path in directory.glob("*")):
                return kill()
        return None

    threading.Thread(target=wait).start()


@pytest.mark.parametrize("part", [FULL, CHANGES])
@pytest.mark.parametrize("victim", ["shard", "receiver"])
def test_a_process_that_ends_in_a_round_leaves_the_shard(
    store, tmp_path, monkeypatch, victim, part
):
    target, killed = tmp_path / "target", []
    pid = store.status()["shards"][1]["pid"]

    class KillingSending(Sending):
        def _kill(self):
            killed.append(victim)
            if victim == "shard":
                os.kill(pid, signal.SIGKILL)
            else:
                ray.kill(self._receiver)

        def _send(self, now):
            if now == part and not killed:
                fill(store)
                kill_when_it_comes(tmp_path / "target.incoming" / part, self._kill)
            return super()._send(now)

    monkeypatch.setattr(_sharded, "Sending", KillingSending)
    with pytest.raises(ShardUnavailable, match="while shard 1 moved to .*; the shard stays"):
        store.move(1, target, resources={"second": 0.1})
    assert killed == [victim]
    if victim == "shard":
        when_back(store, 1, pid)
        assert not target.with_name("target.incoming").exists()
    assert not target.exists()
    assert store.run("transfer", 0, 1, 1, 10**9) == EACH - 1
    check(*contents(store), None)
    store.move(1, target, resources={"second": 0.1})
    assert store.status()["shards"][1]["directory"] == str(target)
    check(*contents(store), None)
    assert store.run("transfer", 1, 0, 1, 10**9 + 1) == EACH


class EndsFirst:
    """A coordinator whose process ends when it is told of a move, the first time."""

    def __init__(self, coordinator):
        self._coordinator, self.move, self.ended = coordinator, self, 0

    def __getattr__(self, name):
        return getattr(self._coordinator, name)

    def remote(self, shard, place):
        if self.ended == 0:
            self.ended = ray.get(self._coordinator.status.remote())["pid"]
            os.kill(self.ended, signal.SIGKILL)
        return self._coordinator.move.remote(shard, place)


def test_a_coordinator_that_ends_hears_of_the_move_later(store, tmp_path):
    coordinator = store.coordinator
    store.coordinator = ends_first = EndsFirst(coordinator)
    store.move(1, tmp_path / "target", resources={"second": 0.1})
    store.coordinator = coordinator
    status = store.status()
    assert ends_first.ended not in {0, status["coordinator"]["pid"]}
    assert status["shards"][1]["directory"] == str(tmp_path / "target")
    assert store.run("transfer", 0, 1, 1, 10**9) == EACH - 1
    store.close()
    with open_bank(tmp_path / "bank", tmp_path.name + "-again") as again:
        assert again.status()["shards"][1]["directory"] == str(tmp_path / "target")
        check(*contents(again), None)


class LosesTheAnswer:
    """A shard that leaves, and whose process dies before the answer is there."""

    def __init__(self, shard):
        self._shard, self.leave = shard, self

    def __getattr__(self, name):
        return getattr(self._shard, name)

    def remote(self, token):
        assert ray.get(self._shard.leave.remote(token))
        ray.kill(self._shard, no_restart=True)
        return self._shard.status.remote()


def test_a_move_whose_last_answer_is_lost_keeps_both_stores(nodes, tmp_path):
    made = open_bank(tmp_path / "bank", tmp_path.name)
    for account in range(ACCOUNTS):
        made.call(account, "deposit", account, EACH)
    shard = made.shards[1]
    made.shards[1] = LosesTheAnswer(shard)
    with pytest.raises(ray.exceptions.RayActorError):
        made.move(1, tmp_path / "target", resources={"second": 0.1})
    old, new = tmp_path / "bank" / "shard-1.moved", tmp_path / "target"
    assert old.exists() and new.exists()
    made.shards[1] = shard
    made.close()  # although a process has died
    with pytest.raises(FileNotFoundError, match="name that directory as before"):
        check_not_moved(str(tmp_path / "bank" / "shard-1"))
    old.rename(tmp_path / "bank" / "shard-1")
    with open_bank(tmp_path / "bank", tmp_path.name + "-back") as back:
        assert back.call(1, "balance", 1) == EACH
    with lockstep.Store(new) as moved:
        assert not moved.verify()


def test_the_example_imports_what_it_uses():
    doc = ast.get_docstring(ast.parse(pathlib.Path(lockstep.cluster.__file__).read_text()))
    lines = [line for line in doc.splitlines() if not line or line.startswith("    ")]
    used, known = set(), set(dir(builtins))
    for node in ast.walk(ast.parse(textwrap.dedent("\n".join(lines)))):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else known).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.alias)):
            known.add(node.name)
        elif isinstance(node, ast.arg):
            known.add(node.arg)
    assert "ShardedStore" in used and used <= known, used - known
