"""postgres_coordinator - the coordinator of postgres_test.py: moves money between a store and
PostgreSQL, each transfer as one global transaction of two branches.

Usage: postgres_coordinator.py SOCKET PSQL_DIRECTORY LOG NUMBER SEED. NUMBER tells its incarnations
apart. It runs until it is killed. Each line of LOG is a decision to commit, durable before anybody
hears of it. What the log does not name is rolled back (presumed abort).
"""

import os
import pathlib
import random
import socket
import subprocess
import sys
import threading
import time

WORKERS = 3
PAUSE = 0.05


class Refused(Exception):
    """The participant has answered with an error, so the branch is not prepared."""


class Busy(Refused):
    """Another session, of a killed coordinator, is ending the branch at this moment."""


class Lost(Exception):
    """The participant has not answered: what it has done is not known."""


class Store:
    """The participant-program."""

    def __init__(self, path):
        self.path = path
        self.connection = None

    def call(self, line):
        try:
            if self.connection is None:
                connection = socket.socket(socket.AF_UNIX)
                connection.settimeout(60)
                connection.connect(self.path)
                self.connection = connection.makefile("rw")
            self.connection.write(line + "\n")
            self.connection.flush()
            answer = self.connection.readline()
        except OSError as error:
            answer = ""
            reason = error
        else:
            reason = "end of the connection"
        if not answer.endswith("\n"):
            self.connection = None
            raise Lost(reason)
        if answer.startswith("error"):
            raise Refused(answer)
        return answer.strip()

    def prepare(self, gid, account, delta):
        self.call(f"prepare {gid} {account} {delta}")

    def end(self, gid, commit):
        self.call(f"{'commit' if commit else 'rollback'} {gid}")

    def in_doubt(self):
        return self.call("list").split()


class Postgres:
    """PostgreSQL, by psql: a transaction is a process of it."""

    def __init__(self, directory):
        self.directory = directory

    def run(self, sql):
        done = subprocess.run(
            ["psql", "-h", self.directory, "-U", "postgres", "-qAtX", "-v", "ON_ERROR_STOP=1"],
            input=sql,
            capture_output=True,
            text=True,
        )
        # 1: psql itself has failed. 2: the connection. 3: a statement.
        if done.returncode == 3:
            raise Refused(done.stderr)
        if done.returncode != 0:
            raise Lost(done.stderr)
        return done.stdout

    def prepare(self, gid, account, delta):
        self.run(
            "SET lock_timeout = 500; BEGIN;\n"
            f"UPDATE accounts SET balance = balance + {delta} WHERE id = {account};\n"
            f"INSERT INTO done VALUES ('{gid}');\nPREPARE TRANSACTION '{gid}';\n"
        )

    def end(self, gid, commit):
        try:
            self.run(f"{'COMMIT' if commit else 'ROLLBACK'} PREPARED '{gid}';")
        except Refused as error:
            if "is busy" in str(error):
                raise Busy(str(error)) from error
            if "does not exist" not in str(error):
                raise

    def in_doubt(self):
        return self.run("SELECT gid FROM pg_prepared_xacts").split()


class Log:
    """The decisions to commit."""

    def __init__(self, path):
        path = pathlib.Path(path)
        lines = path.read_bytes() if path.exists() else b""
        whole = lines[: lines.rfind(b"\n") + 1]
        self.commits = set(whole.decode().split())
        self.file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        os.ftruncate(self.file, len(whole))
        os.lseek(self.file, 0, os.SEEK_END)
        self.lock = threading.Lock()

    def commit(self, gid):
        with self.lock:
            os.write(self.file, f"{gid}\n".encode())
            os.fsync(self.file)
            self.commits.add(gid)


def end_for_sure(participant, gid, commit):
    """Repeats the second phase until the participant has answered."""
    while True:
        try:
            return participant.end(gid, commit)
        except (Lost, Refused):
            time.sleep(PAUSE)


def resolve(participants, log, own=""):
    """Ends what earlier coordinators have left in doubt, except what is busy. Raises Lost."""
    for participant in participants:
        for gid in participant.in_doubt():
            if own and gid.startswith(own):
                continue
            try:
                participant.end(gid, gid in log.commits)
            except Busy:  # a request of a killed coordinator is at work on it: the next call looks
                pass


def transfer(participants, log, gid, drawn):
    delta = drawn.randrange(1, 20) * drawn.choice((-1, 1))
    store, postgres = participants
    try:
        store.prepare(gid, drawn.randrange(10), delta)
        postgres.prepare(gid, drawn.randrange(10), -delta)
    except (Lost, Refused):
        for participant in participants:
            end_for_sure(participant, gid, False)
        return False
    log.commit(gid)
    for participant in participants:
        end_for_sure(participant, gid, True)
    return True


def work(arguments, log, number):
    socket_path, directory, _, incarnation, seed = arguments
    participants = (Store(socket_path), Postgres(directory))
    drawn = random.Random(f"{seed} {incarnation} {number}")
    count = 0
    while True:
        count += 1
        done = transfer(participants, log, f"c{incarnation}-w{number}-{count}", drawn)
        if done and number == 0:
            continue
        # An earlier coordinator's request may have arrived behind the last look.
        try:
            resolve(participants, log, own=f"c{incarnation}-")
        except (Lost, Refused):
            time.sleep(PAUSE)


def main():
    log = Log(sys.argv[3])
    for number in range(WORKERS):
        threading.Thread(target=work, args=(sys.argv[1:], log, number)).start()


if __name__ == "__main__":
    main()
