#!/usr/bin/env python3
"""bench - transactions a second from Python: lockstep beside sqlite3 and lmdb.

Usage: bench.py BUILD [--seconds N] [--rounds N] [--directory DIR] [--json FILE]. A transaction
reads one record of 100 bytes out of 10,000 and writes it again. The stores take turns within each
round, durable and not, from 1 and 8 threads; lockstep also from asyncio with 64 tasks. Prints the
median of the rounds, and what it is of sqlite3's.

Durable: a commit is on disk when it returns (lockstep `durable`; SQLite WAL with
synchronous=FULL; lmdb's default). Not durable: lockstep `lazy`; SQLite WAL with synchronous=OFF;
lmdb with sync=False.
"""

import argparse
import asyncio
import json
import os
import pathlib
import random
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable

RECORDS, BYTES, TASKS = 10_000, 100, 64


class Lockstep:
    """Transactions in the session form."""

    def __init__(self, directory: str, durable: bool) -> None:
        import lockstep

        self.batch = lockstep.Batch
        self.update = lockstep.Access.UPDATE
        self.durability = "durable" if durable else "lazy"
        self.store = lockstep.open(f"{directory}/lockstep", workers=1, pool_bytes=64 << 20)
        self.index = self.store.index("i", create=True)
        with self.store.transaction() as txn:
            txn.insert_many(self.index, ((key(n), bytes(BYTES)) for n in range(RECORDS)))

    def worker(self) -> Callable[[int], None]:
        def one(n: int) -> None:
            with self.store.transaction(durability=self.durability) as txn:
                txn.get(self.index, key(n), self.update)
                txn.put(self.index, key(n), fresh())

        return one

    def close(self) -> None:
        self.store.close()


class LockstepBatch(Lockstep):
    """The same in one hand-over."""

    def worker(self) -> Callable[[int], None]:
        def one(n: int) -> None:
            batch = self.batch().get(self.index, key(n), self.update)
            self.store.execute(
                batch.put(self.index, key(n), fresh()), durability=self.durability
            )

        return one


class LockstepAsync(Lockstep):
    """64 tasks of one event loop."""

    async def one(self, n: int) -> None:
        async with self.store.transaction(durability=self.durability) as txn:
            await txn.get(self.index, key(n), self.update)
            await txn.put(self.index, key(n), fresh())

    async def tasks(self, seconds: float) -> float:
        end = time.perf_counter() + seconds
        counts = [0] * TASKS

        async def task(me: int) -> None:
            chance = random.Random(me)
            while time.perf_counter() < end:
                await self.one(chance.randrange(RECORDS))
                counts[me] += 1

        start = time.perf_counter()
        await asyncio.gather(*(task(me) for me in range(TASKS)))
        return sum(counts) / (time.perf_counter() - start)


class LockstepAsyncBatch(LockstepAsync):
    """The same, one hand-over a transaction."""

    async def one(self, n: int) -> None:
        batch = self.batch().get(self.index, key(n), self.update)
        await self.store.execute_async(
            batch.put(self.index, key(n), fresh()), durability=self.durability
        )


class Sqlite:
    def __init__(self, directory: str, durable: bool) -> None:
        self.path = f"{directory}/sqlite"
        self.synchronous = "FULL" if durable else "OFF"
        connection = self.connect()
        connection.execute("CREATE TABLE t (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID")
        connection.execute("BEGIN")
        rows = ((key(n), bytes(BYTES)) for n in range(RECORDS))
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
        connection.execute("COMMIT")

    def connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=60)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={self.synchronous}")
        return connection

    def worker(self) -> Callable[[int], None]:
        connection = self.connect()

        def one(n: int) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("SELECT v FROM t WHERE k = ?", (key(n),)).fetchone()
            connection.execute("UPDATE t SET v = ? WHERE k = ?", (fresh(), key(n)))
            connection.execute("COMMIT")

        return one

    def close(self) -> None:
        pass


class Lmdb:
    def __init__(self, directory: str, durable: bool) -> None:
        import lmdb

        self.env = lmdb.open(f"{directory}/lmdb", map_size=1 << 30, sync=durable)
        with self.env.begin(write=True) as txn:
            for n in range(RECORDS):
                txn.put(key(n), bytes(BYTES))

    def worker(self) -> Callable[[int], None]:
        def one(n: int) -> None:
            with self.env.begin(write=True) as txn:
                txn.get(key(n))
                txn.put(key(n), fresh())

        return one

    def close(self) -> None:
        self.env.close()


def key(n: int) -> bytes:
    return n.to_bytes(8, "big")


def fresh() -> bytes:
    """Another value each time: a store may leave out the write of what it has."""
    return random.randbytes(BYTES)


def threads(store: Lockstep | Sqlite | Lmdb, count: int, seconds: float) -> float:
    """Transactions a second of so many threads."""
    done = [0] * count
    begin = threading.Barrier(count + 1)
    end = [0.0]

    def run(me: int) -> None:
        one = store.worker()
        chance = random.Random(me)
        begin.wait()
        while time.perf_counter() < end[0]:
            one(chance.randrange(RECORDS))
            done[me] += 1

    workers = [threading.Thread(target=run, args=(me,)) for me in range(count)]
    for worker in workers:
        worker.start()
    end[0] = time.perf_counter() + seconds
    start = time.perf_counter()
    begin.wait()
    for worker in workers:
        worker.join()
    return sum(done) / (time.perf_counter() - start)


STORES = {"lockstep": Lockstep, "lockstep, batch": LockstepBatch, "sqlite3": Sqlite, "lmdb": Lmdb}
TASK_STORES = {"lockstep": LockstepAsync, "lockstep, batch": LockstepAsyncBatch}


def measure(seconds: float, rounds: int, directory: str | None) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for durable in (True, False):
            kind = "durable" if durable else "not durable"
            for clients in (1, 8, 0):
                for name, make in (STORES if clients else TASK_STORES).items():
                    with tempfile.TemporaryDirectory(dir=directory) as place:
                        store = make(place, durable)
                        if clients:
                            rate = threads(store, clients, seconds)
                        else:
                            rate = asyncio.run(store.tasks(seconds))
                        store.close()
                    who = f"{clients} thread{'s' * (clients > 1)}" if clients else f"{TASKS} tasks"
                    found.setdefault(f"{kind}|{who}|{name}", []).append(rate)
    return found


def table(found: dict[str, list[float]]) -> str:
    lines = ["| commits | clients | store | transactions a second | of sqlite3 |", "|---" * 5 + "|"]
    for label, rates in found.items():
        kind, who, name = label.split("|")
        base = found.get(f"{kind}|{who}|sqlite3")
        ratio = "-" if base is None else f"{median(rates) / median(base):.2f}"
        lines.append(f"| {kind} | {who} | {name} | {median(rates):,.0f} | {ratio} |")
    return "\n".join(lines)


def median(rates: list[float]) -> float:
    return statistics.median(rates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path, help="build directory with the library")
    parser.add_argument("--seconds", type=float, default=1, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", help="where the stores lie")
    parser.add_argument("--json", type=pathlib.Path, help="keeps the rates of all rounds")
    given = parser.parse_args()
    if "LOCKSTEP_BENCH" not in os.environ:
        go_on_in_environment(given.build.resolve())
    found = measure(given.seconds, given.rounds, given.directory)
    print(table(found))
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))


def go_on_in_environment(build: pathlib.Path) -> None:
    """Repeats this program with the package and lmdb."""
    import environment

    python = environment.make_venv(build / "python/venv")
    path = environment.build_extension(build, python, coverage=False)
    variables = {**os.environ, "PYTHONPATH": str(path), "LOCKSTEP_BENCH": "1"}
    # -P: the package of the build, not the sources beside this file.
    os.execve(python, [str(python), "-P", *sys.argv], variables)


if __name__ == "__main__":
    main()
