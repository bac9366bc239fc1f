#!/usr/bin/env python3
"""control_test.py - an open store from the command line: `lockstep top` on a terminal of its own,
`stat`, `locks`, `transactions`, `end`, `checkpoint`, `metrics`, and what they say when no process
answers.

Usage: control_test.py LOCKSTEP DRIVER CONTROL_PROGRAM
"""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import termios
import time

import cli_store

LOCKSTEP, DRIVER, PROGRAM = sys.argv[1:4]
SMALL = "-w 1 --warmup 0 --pool 64M --log-size 256M".split()
# A busy machine's disk may stand still for seconds. So no single interval must show work.
WORK_SECONDS = 60


def run(*arguments, **expected):
    return cli_store.run(LOCKSTEP, *arguments, **expected).decode()


def json_of(*arguments, status=0):
    return json.loads(run(*arguments, "--json", status=status))


class Driver:
    """A store that is busy, with its control socket or without."""

    def __init__(self, store, *more):
        self.process = subprocess.Popen(
            [DRIVER, "--path", store, "--duration", "600", *SMALL, *more],
            stdout=subprocess.DEVNULL,
        )
        deadline = time.time() + 60
        while not os.path.exists(os.path.join(store, "control" if "--control" in more else "data")):
            assert time.time() < deadline and self.process.poll() is None, "no store"
            time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(timeout=100) == 130, self.process.returncode


def check_backup(store):
    """Made by the process that has the store open, while its transactions go on."""
    to, more, back = (f"{store}.{name}" for name in ("backup", "more", "restored"))
    run("backup", store, os.path.relpath(to), says=["the state at LSN"])
    run("backup", store, to, status=1, says=["lockstep: bad_path", "the directory is not empty"])
    told = json_of("backup", store, more, "--since", to, "--rate", "500M")
    assert 0 < told["pages_copied"] <= told["pages"], told
    assert told["since"] == json_of("verify-backup", to)[0]["lsn"], told
    run("verify-backup", to, more, says=[" 0 faults"])
    run("restore", "--backup", to, "--backup", more, "--to", back, says=["the state at LSN"])
    run("verify", back, says=[" 0 faults"])
    told = json_of("backup", store, to, "--update")
    assert told["since"] == 0 and told["pages_copied"] < told["pages"], told
    run("verify-backup", to, says=[" 0 faults"])
    for path in (to, more, back):
        shutil.rmtree(path)


def check_copies(store):
    """Commands that only look read a copy, which goes with them."""
    place = f"{store}.copies"
    os.mkdir(place)
    os.environ["TMPDIR"] = place
    run("verify", store, status=1, says=["store_locked", "--live"])
    run("verify", store, "--live", says=[f"{store}: ", " pages, 0 faults"])
    rows = subprocess.run(
        [LOCKSTEP, "dump", store, "warehouse", "--live"], capture_output=True, check=True
    ).stdout.splitlines()
    assert len(rows) == 4 and rows[-1] == b'{"end":1}', rows
    run("scan", store, "warehouse", "--live", "--hex", says=["\t"])
    run("get", store, "warehouse", "hex:ffff", "--live", status=3)
    run("describe", store, "warehouse", "--live", says=["w_id"])
    columns = "x u32 key"
    run("describe", store, "warehouse", columns, "--live", status=108, says=["excludes --live"])
    os.environ["TMPDIR"] = f"{place}/none"
    run("scan", store, "warehouse", "--live", status=1, says=[f"{place}/none: No such file"])
    os.environ["TMPDIR"] = place
    run("verify", place, "--live", status=2, says=["holds no store"])
    assert os.listdir(place) == []
    del os.environ["TMPDIR"]
    os.rmdir(place)


def check_commands(store):
    mode = os.lstat(os.path.join(store, "control")).st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600, oct(mode)
    first = json_of("stat", store)
    deadline = time.time() + 100
    while json_of("stat", store)["stats"]["commits"] < 1000:
        assert time.time() < deadline
        time.sleep(0.1)
    assert first["program"] == "lockstep-tpcc" and first["directory"] == store, first
    run("stat", store, says=["program", "lockstep-tpcc", "commits", "waits.lock.count"])
    run("transactions", store, says=["ID", "STATE", "; + of the store itself"])
    listed = json_of("transactions", store)
    assert listed["count"] == len(listed["transactions"]), listed
    run("locks", store, says=["wait for a lock", "LOCK, in the last"])
    while True:
        hot = json_of("locks", store)["hot_locks"]["locks"]
        if any('index "' in lock["lock"] and 'key "' in lock["lock"] for lock in hot):
            break
        assert time.time() < deadline, hot
    run("checkpoint", store, says=["checkpoint ", "the log uses"])
    assert json_of("checkpoint", store)["checkpoints"] > 1
    check_backup(store)
    check_copies(store)
    run("metrics", store, says=["# TYPE lockstep_transactions_total counter"])
    run("end", store, "999999999999", status=1, says=["txn_ended", "the command \"transactions\""])
    error = json_of("end", store, "999999999999", status=1)["error"]
    assert error["code"] == "txn_ended" and all(error[f] for f in ("thing", "reason", "remedy"))
    assert subprocess.run([LOCKSTEP, "end", store, "x"], capture_output=True).returncode >= 100


def ask_raw(store, data):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(os.path.join(store, "control"))
        client.sendall(data)
        return json.loads(client.makefile().readline())


def check_garbage(store):
    for data in (b"\n", b"garbage\n", b"\xff\x00\xfe\n", b"{}\n", b'{"command": "sing"}\n'):
        assert ask_raw(store, data)["error"]["code"] == "bad_request", data
    assert "stats" in ask_raw(store, b'{"command": "stat"}\n')["result"]


class Terminal:
    """`lockstep top` on a pseudo terminal of 80 columns and 24 rows."""

    def __init__(self, *arguments, term="xterm"):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(LOCKSTEP, [LOCKSTEP, *arguments], {**os.environ, "TERM": term})
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.text = ""

    def read_more(self, deadline, what):
        """Takes what the program has written. `what`: the text or screen that did not come yet."""
        left = deadline - time.time()
        assert left > 0, f"{what!r} did not come:\n{self.text}"
        if not select.select([self.fd], [], [], left)[0]:
            return
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the program has ended
            data = b""
        assert data, f"the end came before {what!r}:\n{self.text}"
        self.text += data.decode()

    def read_until(self, part, seconds=30):
        deadline = time.time() + seconds
        while part not in self.text:
            self.read_more(deadline, part)

    def wait_for(self, number, good):
        """The first good screen from this number on."""
        deadline = time.time() + WORK_SECONDS
        while True:
            found = next(filter(good, self.screens()[number - 1 :]), None)
            if found is not None:
                return found
            self.read_more(deadline, f"a good screen from number {number} on")

    def status(self):
        try:
            while os.read(self.fd, 65536):
                pass
        except OSError:
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def screens(self):
        """What is between two jumps to the corner, without the control sequences."""
        shown = self.text.split("\x1b[H")[1:-1]
        return [re.sub("\x1b\\[[?0-9]*[A-Za-z]", "", screen) for screen in shown]


SCREEN = ("lockstep top  lockstep-tpcc (", "committed", "waits", "buffer pool", "STATE")


def shows_work(screen):
    """Nothing is missing, and something was committed in the interval. While the disk stands still,
    nothing is, and the list of transactions may be late."""
    rate = re.search(r"([0-9.]+k?) committed", screen)
    return all(part in screen for part in SCREEN) and rate is not None and rate.group(1) != "0"


def check_top(store):
    for leave in ("q", "\x03"):
        terminal = Terminal("top", store, "--interval", "0.3")
        terminal.read_until("\x1b[?1049h")
        screen = terminal.wait_for(4, shows_work)
        os.write(terminal.fd, leave.encode())
        terminal.read_until("\x1b[?25h\x1b[?1049l")
        assert terminal.status() == (0 if leave == "q" else 130), leave
        for shown in terminal.screens()[3:]:
            # The terminal adds a carriage return of its own.
            lines = shown.replace("\r", "").split("\n")
            assert len(lines) <= 24 and max(map(len, lines)) <= 80, shown
    if os.environ.get("SHOW_SCREEN"):
        print(screen.replace("\r", ""))
    for term in ("dumb", ""):  # a terminal without cursor: plain screens, one after the other
        terminal = Terminal("top", store, "--interval", "0.3", term=term)
        terminal.read_until("STATE")
        os.write(terminal.fd, b"\x03")  # without a screen there are no keys
        assert terminal.status() == 130, term
        assert "\x1b" not in terminal.text, terminal.text


def check_top_in_scripts(store):
    text = run("top", store, "--once", "--interval", "0.2", says=["committed", "waits"])
    assert "\x1b" not in text, text
    deadline = time.time() + WORK_SECONDS
    while True:
        line = run("top", store, "--once", "--json", "--interval", "0.2")
        if json.loads(line)["rates"]["commits"] > 0:
            break
        assert time.time() < deadline, line
    several = subprocess.Popen(
        [LOCKSTEP, "top", store, "--json", "--interval", "0.1"], stdout=subprocess.PIPE, text=True
    )
    for _ in range(3):
        assert "waits" in json.loads(several.stdout.readline())
    several.send_signal(signal.SIGINT)
    several.communicate(timeout=20)
    assert several.returncode == 128 + signal.SIGINT, several.returncode
    return text


def check_end(store):
    """The program's open transaction is ended from the command line."""
    program = subprocess.Popen([PROGRAM, store], stdout=subprocess.PIPE, text=True)
    try:
        number = program.stdout.readline().strip()
        run("transactions", store, says=[number])
        run("end", store, number, says=[f"transaction {number} is ended"])
        assert program.communicate(timeout=60)[0] == "ended_by_operator\n"
        assert program.returncode == 0
    finally:
        program.kill()
    top = ["top", "locks", "transactions", "checkpoint", "metrics"]
    for command in [[c, store] for c in top] + [["end", store, "7"]]:
        run(*command, status=2, says=["no process has this store open"])
    run("stat", store, says=["pages_total"])  # a closed store is opened


def check_without_socket(store):
    with Driver(store) as driver:
        name = f"process {driver.process.pid} (lockstep-tpcc)"
        remedy = ["Options::control", "--control"]
        deadline = time.time() + 30
        while subprocess.run([LOCKSTEP, "locks", store], capture_output=True).stderr.find(
            name.encode()
        ) < 0:
            assert time.time() < deadline
            time.sleep(0.1)
        for command in ("stat", "top", "locks"):
            run(command, store, status=2, says=[name, *remedy])
        assert json_of("stat", store, status=2)["error"]["code"] == "no_control"


def check_top_at_the_end(store):
    """The store is closed under a running top."""
    with Driver(store, "--control"):
        terminal = Terminal("top", store, "--interval", "0.2")
        terminal.read_until("committed")
    terminal.read_until("\x1b[?25h\x1b[?1049l")
    terminal.read_until("the store has been closed")
    assert terminal.status() == 2


def check_help():
    commands = ["top", "locks", "transactions", "end", "checkpoint", "metrics"]
    for command in commands:
        run(command, "--help", says=["Options::control", "Exit status"])
    text = run("--help")
    assert all(command in text for command in commands), text


scratch = tempfile.mkdtemp(prefix="lockstep-control-")
try:
    path = os.path.join(scratch, "store")
    with Driver(path, "--control"):
        check_commands(path)
        check_garbage(path)
        check_top(path)
        check_top_in_scripts(path)
    assert not os.path.exists(os.path.join(path, "control"))
    check_without_socket(path)
    check_top_at_the_end(path)
    check_end(os.path.join(scratch, "other"))
    check_help()
    print("8 passed, 0 failed")
finally:
    shutil.rmtree(scratch, ignore_errors=True)
