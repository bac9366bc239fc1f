#!/usr/bin/env python3
"""postgres_test.py - a store and PostgreSQL commit together. Each of them and the coordinator is
killed: every global transaction is in both of them or in none.

Usage: postgres_test.py PARTICIPANT_PROGRAM [--kills N] [--seed S]. Exit status 77: PostgreSQL is
not installed.
"""

import argparse
import glob
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import postgres_coordinator
from postgres_coordinator import Log, Lost, Postgres, Refused, Store, resolve

ACCOUNTS, BALANCE = 10, 1000
SCHEMA = f"""
CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE done (gid text PRIMARY KEY);
INSERT INTO accounts SELECT n, {BALANCE} FROM generate_series(0, {ACCOUNTS - 1}) AS n;
"""


def children(pid):
    """The processes that a process has started, and theirs."""
    found = []
    for task in glob.glob(f"/proc/{pid}/task/*/children"):
        for child in pathlib.Path(task).read_text().split():
            found += [int(child), *children(int(child))]
    return found


def wait_until(ready, what, seconds=60):
    limit = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > limit:
            sys.exit(f"{what} is not there after {seconds} s")
        time.sleep(0.02)


class Process:
    """One that is killed and started again."""

    def __init__(self):
        self.process = None

    def kill(self):
        if self.process is None:
            return
        for pid in [self.process.pid, *children(self.process.pid)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


class PostgresServer(Process):
    def __init__(self, bin_directory, scratch):
        super().__init__()
        self.bin, self.scratch = bin_directory, scratch
        self.data = os.path.join(scratch, "postgres")
        os.mkdir(self.data, 0o700)
        self.as_user = []
        if os.geteuid() == 0:  # it refuses to run as root
            shutil.chown(self.data, "postgres", "postgres")
            self.as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        self.client = Postgres(self.data)
        init = [*self.as_user, f"{self.bin}/initdb", "-D", self.data, "-A", "trust"]
        subprocess.run([*init, "-U", "postgres"], check=True, capture_output=True, cwd="/")

    def prepare_tables(self):
        self.start()
        self.client.run(SCHEMA)

    def start(self):
        options = {
            "listen_addresses": "",
            "unix_socket_directories": self.data,
            "max_prepared_transactions": 64,
            "shared_buffers": "16MB",
        }
        command = [*self.as_user, f"{self.bin}/postgres", "-D", self.data]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        with open(os.path.join(self.scratch, "postgres.log"), "a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
        wait_until(self.answers, "PostgreSQL")

    def answers(self):
        if self.process.poll() is not None:  # the memory of those before is in use still
            self.start()
        try:
            return self.client.run("SELECT 1").strip() == "1"
        except (Lost, Refused):
            return False


class StoreServer(Process):
    def __init__(self, program, scratch):
        super().__init__()
        self.program, self.scratch = program, scratch
        self.socket = os.path.join(scratch, "socket")

    def start(self):
        command = [self.program, os.path.join(self.scratch, "store"), self.socket]
        self.process = subprocess.Popen(
            [*command, str(ACCOUNTS), str(BALANCE)], stdout=subprocess.PIPE, text=True
        )
        said = self.process.stdout.readline()
        if said != "ready\n":
            sys.exit(f"the store does not open: {said}")


class Coordinator(Process):
    def __init__(self, store, postgres, log, seed):
        super().__init__()
        self.arguments = [store.socket, postgres.data, log]
        self.seed, self.number = seed, 0

    def start(self):
        self.number += 1
        self.process = subprocess.Popen(
            [sys.executable, postgres_coordinator.__file__, *self.arguments]
            + [str(self.number), str(self.seed)]
        )


def same(store, postgres, commits):
    """The oracle, when nothing runs any more."""
    faults = []
    ours, theirs = set(store.call("done").split()), set(
        postgres.run("SELECT gid FROM done").split()
    )
    if ours != commits or theirs != commits:
        faults.append(
            f"{len(commits)} decisions; only in the store or missing there: {ours ^ commits};"
            f" only in PostgreSQL or missing there: {theirs ^ commits}"
        )
    total = int(store.call("sum")) + int(postgres.run("SELECT sum(balance) FROM accounts"))
    if total != 2 * ACCOUNTS * BALANCE:
        faults.append(f"the sum of all balances is {total}")
    if store.call("verify") != "ok":
        faults.append("the store is not sound")
    return faults


def settle(participants, log):
    """Ends all that is in doubt, and what still arrives of a killed coordinator."""
    quiet = 0
    while quiet < 5:
        resolve(participants, log)
        quiet = 0 if any(p.in_doubt() for p in participants) else quiet + 1
        time.sleep(0.2)


def run(arguments, bin_directory, scratch):
    os.chmod(scratch, 0o755)  # for the user of PostgreSQL
    drawn = random.Random(arguments.seed)
    log_path = os.path.join(scratch, "decisions")
    processes = {}
    try:
        postgres = processes["PostgreSQL"] = PostgresServer(bin_directory, scratch)
        postgres.prepare_tables()
        store = processes["store"] = StoreServer(arguments.program, scratch)
        store.start()
        coordinator = Coordinator(store, postgres, log_path, arguments.seed)
        processes["coordinator"] = coordinator
        coordinator.start()
        killed = dict.fromkeys(processes, 0)
        # Something has committed before the first kill.
        wait_until(lambda: os.path.exists(log_path) and os.path.getsize(log_path), "a commit")
        for number in range(arguments.kills):
            time.sleep(drawn.uniform(0.1, 0.8))
            name = list(processes)[number % 3] if number < 3 else drawn.choice(list(processes))
            killed[name] += 1
            for of, process in processes.items():
                if process.process.poll() is not None:
                    sys.exit(f"{of} has ended by itself: {process.process.returncode}")
            processes[name].kill()
            processes[name].start()
        time.sleep(0.5)
        coordinator.kill()
        participants = (Store(store.socket), Postgres(postgres.data))
        log = Log(log_path)
        settle(participants, log)
        faults = same(*participants, log.commits)
    finally:
        for process in processes.values():
            process.kill()
    for fault in faults:
        print(f"wrong, seed {arguments.seed}: {fault}")
    print(f"{len(log.commits)} global transactions in both; kills: {killed}; {len(faults)} faults")
    return 1 if faults or not log.commits else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not found or shutil.which("psql") is None:
        print("skipped: PostgreSQL is not installed; apt-get install postgresql")
        return 77
    scratch = tempfile.mkdtemp(prefix="lockstep-postgres-")
    try:
        return run(arguments, found[-1], scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
