#!/usr/bin/env python3
"""cli_test.py - `lockstep` as a person at the command line sees it: it names itself, its commands
and numbers of things. dump-log and dump-page work on files that they may not write, and leave every
byte and every time stamp as it was.

Usage: cli_test.py LOCKSTEP DRIVER
"""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LOCKSTEP, DRIVER = (os.path.abspath(path) for path in sys.argv[1:3])
NOBODY = 65534


def state_of(store):
    """Name -> what must not change."""
    state = {}
    for name in sorted(os.listdir(store)):
        path = os.path.join(store, name)
        about = os.stat(path)
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        state[name] = (digest, about.st_size, about.st_mtime_ns, about.st_mode)
    return state


def without_rights():
    """Nobody may write the files; root is not refused, so it becomes another user."""
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def run(*arguments, says=""):
    done = subprocess.run(
        [LOCKSTEP, *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        preexec_fn=without_rights,
    )
    text = done.stdout + done.stderr
    if done.returncode != 0 or says not in text:
        sys.exit(f"{arguments}: status {done.returncode}, expected text '{says}':\n{text[-2000:]}")
    return text


def refused(*arguments, says):
    done = subprocess.run([LOCKSTEP, *arguments], capture_output=True, text=True, timeout=100)
    if done.returncode == 0 or done.stderr != says:
        sys.exit(f"{arguments}: status {done.returncode}, expected '{says}':\n{done.stderr}")


def check_command_line():
    refused("bogus", says="lockstep: no command 'bogus'; --help lists them\n")
    refused("bogus", "store", "--json", says="lockstep: no command 'bogus'; --help lists them\n")
    refused(says="lockstep: no command given; --help lists them\n")
    refused("vrify", "s", says="lockstep: no command 'vrify'; did you mean verify?\n")
    refused("help", "dmp", says="lockstep: no command 'dmp'; did you mean dump?\n")
    for words, says in (
        (["--job", "3"], "no option --job; did you mean --jobs?"),
        (["--jbos=3"], "no option --jbos; did you mean --jobs?"),
        (["--xyz"], "no option --xyz; --help lists them"),
        (["extra"], "unexpected argument 'extra'; --help shows what it takes"),
    ):
        refused("verify", "s", *words, says=f"lockstep: verify: {says}\n")
    for number in ("abc", "0", "1.5"):
        says = f"'{number}' is no number of a transaction: an integer from 1 on"
        refused("end", "s", number, says=f"lockstep: end: id: {says} (--help lists the options)\n")
    says = "lockstep: top: --interval: nan is not a number (--help lists the options)\n"
    refused("top", "s", "--interval", "nan", says=says)
    for command in ("verify", "dump", "stat", "salvage", "dump-log", "prepared"):
        says = "path cannot be used [no store]: no/where holds no store; check the path\n"
        refused(command, "no/where", says=f"lockstep: no/where: bad_path: {says}")
    says = "path cannot be used [store in memory]: it would be gone when this command ends; "
    for command in (("verify",), ("put", "i", "k", "v")):
        refused(
            command[0],
            ":memory:",
            *command[1:],
            says=f"lockstep: :memory:: bad_path: {says}name a directory\n",
        )
    assert run("help") == run("--help")
    assert run("help", "verify") == run("verify", "--help")
    text = run("--help", says="lockstep [OPTIONS] COMMAND\n")
    assert "SUBCOMMAND" not in text, text


def check_versions():
    """Each program calls itself by its own name."""
    programs = os.path.dirname(LOCKSTEP)
    for end in ("", "-tpcc", "-bench", "-icache", "-peers"):
        name = "lockstep" + end
        program = os.path.join(programs, name)
        if not os.path.exists(program):  # not in each build
            continue
        text = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        assert text.startswith(name + " ") and "(commit " in text, (name, text)


def check_numbers(directory):
    """One of a thing is not called several."""
    rows = ['{"lockstep_dump":1}', '{"index":"a"}', '{"index":"a","key":"k","value":"v"}']
    store = os.path.join(directory, "small")

    def output(*arguments):
        done = subprocess.run(
            [LOCKSTEP, *arguments],
            input="\n".join(rows) + '\n{"end":1}\n',
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
        return done.stdout + done.stderr

    for arguments, says in (
        (["load", store], ": 1 record into 1 index or heap, "),
        (["salvage", store, "-o", "/dev/null"], ": 1 record of 1 index or heap saved, 0 losses\n"),
        (["compact", store], ": 1 record rewritten, "),
        (["verify", store], " pages, 0 faults\n"),
    ):
        text = output(*arguments)
        assert says in text, (arguments, says, text)


def check_absent_package(directory):
    """Without the Python package it says how to get it; tests/python has it."""
    store = os.path.join(directory, "for_sql")
    subprocess.run([LOCKSTEP, "put", store, "a", "k", "v", "--create"], check=True)
    # Isolated and without site-packages, an interpreter finds neither Lockstep nor DuckDB.
    lonely = os.path.join(directory, "lonely")
    os.mkdir(lonely)
    with open(os.path.join(lonely, "python3"), "w") as script:
        script.write(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    os.chmod(script.name, 0o755)
    for words, says in (
        (["sql", store, "select 1"], "pip install ./tools/python duckdb"),
        (["shell", store], "pip install './tools/python[shell]'"),
    ):
        for path in (lonely, os.path.join(directory, "nowhere")):
            done = subprocess.run(
                [LOCKSTEP, *words],
                capture_output=True,
                text=True,
                timeout=100,
                env={**os.environ, "PATH": path},
            )
            assert done.returncode == 3, done
            assert says in done.stderr, done.stderr
    refused("sql", store, says="lockstep: sql: query is required (--help lists the options)\n")


def check_size():
    """The options reach the figures, the text names what decides, and a range is the store's."""
    given = "--pool 64M --log 1G --threads 10 --stack 128K --rate 1024 --log-each 4K --redo 128M"
    sizes = json.loads(run("size", *given.split(), "--json"))
    memory = {row["name"]: row["bytes"] for row in sizes["memory"]}
    assert memory["buffer pool"] == 64 << 20 and memory["stacks"] == 10 * 128 << 10, memory
    assert sizes["memory_bytes"] == sum(memory.values()), sizes
    assert (sizes["checkpoint_seconds"], sizes["restart_seconds"]) == (64, 3), sizes
    text = run("size", *given.split(), says="memory, at most")
    assert re.search(r"^buffer pool +64 MB  pool_bytes$", text, re.M), text
    assert re.search(r"^its time +3 s  --redo$", text, re.M), text
    run("size", "--pool", "900G", says="more than there is here")
    done = subprocess.run([LOCKSTEP, "size", "--pool", "1M"], capture_output=True, text=True)
    assert done.returncode == 1 and "4194304 to" in done.stderr, done


def check_describe(directory):
    """Columns are set, shown, refused with their place, carried by a dump, and removed."""
    store, copy = os.path.join(directory, "described"), os.path.join(directory, "copy")
    rows = ['{"lockstep_dump":1}', '{"index":"a"}', '{"index":"a","key":"k","value":"v"}']
    rows = ("\n".join(rows) + '\n{"end":1}\n').encode()
    subprocess.run([LOCKSTEP, "load", store], input=rows, check=True, stderr=subprocess.DEVNULL)

    def describe(path, *arguments, status=0):
        done = subprocess.run(
            [LOCKSTEP, "describe", path, *arguments], capture_output=True, text=True, timeout=100
        )
        assert done.returncode == status, (arguments, done.returncode, done.stderr)
        return done.stdout + done.stderr

    assert "not described" in describe(store, "a", status=1)
    assert describe(store, "a", "id u32 key,  n char[3] value 0 short null") == ""
    text = "id u32 key\nn char[3] value 0 short null\n"
    assert describe(store, "a") == text
    assert describe(store) == "# a\n" + text + "\n"
    says = describe(store, "a", "id u32 key, n u7 value 0", status=1)
    assert 'line 1, column 15: no type "u7"' in says, says
    columns = json.loads(describe(store, "a", "--json"))["columns"]
    assert [(c["name"], c["arrow"], c["nullable"]) for c in columns] == [
        ("id", "I", False),
        ("n", "u", True),
    ]
    assert "no_such_object" in describe(store, "b", "id u32 key", status=1)
    dump = subprocess.run([LOCKSTEP, "dump", store], capture_output=True, check=True).stdout
    subprocess.run([LOCKSTEP, "load", copy], input=dump, check=True, stderr=subprocess.DEVNULL)
    assert describe(copy, "a") == text
    describe(copy, "a", "")
    assert "not described" in describe(copy, "a", status=1)


def drive(store, *more, kill_after=None):
    """Makes the store or works on it; killed after so many seconds, or closed."""
    small = "--workers 1 --warmup 0 --pool 64M --log-size 256M".split()
    driver = subprocess.Popen([DRIVER, "--path", store, *small, *more], stdout=subprocess.DEVNULL)
    if kill_after is not None:
        time.sleep(kill_after)
        driver.send_signal(signal.SIGKILL)
    if driver.wait(timeout=250) != (0 if kill_after is None else -signal.SIGKILL):
        sys.exit(f"the driver ended with status {driver.returncode}")


def check_lost_output(store):
    """What cannot be written makes the command fail."""
    for command in ("stat", "verify", "dump-log", "dump", "prepared"):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [LOCKSTEP, command, store], stdout=full, stderr=subprocess.PIPE, text=True
            )
        if done.returncode != 1 or "No space left on device" not in done.stderr:
            sys.exit(f"{command} > /dev/full: status {done.returncode}: {done.stderr}")
        with open("/dev/full", "w") as full:
            done = subprocess.run([LOCKSTEP, command, "no/where"], stdout=full, stderr=full)
        if done.returncode != 1:
            sys.exit(f"{command} without output and errors: status {done.returncode}")


def check_errors_as_json(place):
    """With --json an error of an offline command is JSON on standard output."""
    nowhere, to = os.path.join(place, "nowhere"), os.path.join(place, "to")
    commands = (
        ("stat", nowhere), ("verify", nowhere), ("dump-log", nowhere), ("dump-page", nowhere, "0"),
        ("backup", nowhere, to), ("restore", nowhere, to), ("update-backup", nowhere, to),
        ("compact", nowhere),
    )
    for command in commands:
        done = subprocess.run([LOCKSTEP, *command, "--json"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True)
        error = json.loads(done.stdout)["error"]
        assert done.returncode == 1 and not done.stderr, (command, done)
        assert error["code"] and nowhere in error["thing"] + error["reason"], (command, error)
        assert set(error) == {"code", "thing", "reason", "remedy"}, (command, error)


def check_closed_descriptors(store):
    """No file of the store gets the number of a standard descriptor that the caller has closed."""
    before = state_of(store)
    done = subprocess.run(
        [LOCKSTEP, "stat", store], stderr=subprocess.PIPE, text=True, preexec_fn=lambda: os.close(1)
    )
    assert done.returncode == 1 and "standard output: Bad file descriptor" in done.stderr, done
    assert state_of(store) == before
    # What the command prints would go to the file that is opened first.
    close_all = lambda: [os.close(descriptor) for descriptor in (0, 1, 2)]  # noqa: E731
    done = subprocess.run([LOCKSTEP, "verify", store], preexec_fn=close_all)
    assert done.returncode == 1, done
    assert os.path.getsize(os.path.join(store, "lock")) == 0
    subprocess.run([LOCKSTEP, "verify", store], check=True, stdout=subprocess.DEVNULL)


def check_log_positions(store):
    text = run("dump-log", store)
    second = text.splitlines()[1].split()[0]
    end = text.splitlines()[-1].split()[4].rstrip(";")
    run("dump-log", store, "--from", second, "--count", "1", says=second)
    run("dump-log", store, "--from", end, says="read up to")
    for wrong in (str(int(second) + 1), "12", "999999999999"):
        done = subprocess.run(
            [LOCKSTEP, "dump-log", store, "--from", wrong], capture_output=True, text=True
        )
        says = f"no sound record begins at LSN {wrong}"
        assert done.returncode == 1 and says in done.stderr, done


def check_no_access(store):
    """A directory or file that another user may not read: its path and why, and nothing else."""
    for path in (store, os.path.join(store, "data")):
        mode = os.stat(path).st_mode
        os.chmod(path, 0)
        for command in ("stat", "verify", "checkpoint", "dump-log", "compact", "salvage"):
            if command == "checkpoint" and path != store:
                continue  # it needs the socket only
            done = subprocess.run(
                [LOCKSTEP, command, store],
                capture_output=True,
                text=True,
                preexec_fn=without_rights,
            )
            text = done.stdout + done.stderr
            sound = store in text and "Permission denied" in text
            if done.returncode != 1 or not sound or "socket" in text or "holds no" in text:
                sys.exit(f"{command}, no access: status {done.returncode}: {text}")
        os.chmod(path, mode)


def check_refused(store):
    """Outputs within the store, which would replace its files, and options that cannot be meant."""
    before = state_of(store)
    data, beside = os.path.join(store, "data"), os.path.join(store, "new")
    for status, says, *arguments in (
        (1, "lies in the store's directory", "dump", store, "-o", data),
        (1, "lies in the store's directory", "dump", store + "/", "-o", beside),
        (1, "lies in the store's directory", "salvage", store, "-o", data),
        (1, "lies in the store's directory", "compact", store, "--into", beside),
        (None, "--limit: -1 is negative", "dump", store, "--limit", "-1"),
        (None, "--rate: '-1' is no size", "backup", store, store + ".copy", "--rate", "-1"),
        (None, "--rate: '5x' is no size", "backup", store, store + ".copy", "--rate", "5x"),
        (None, f"'{1 << 64}' is no size", "backup", store, store + ".copy", "--rate", f"{1 << 64}"),
        (None, "2TiB is not in the range 4M - 1023G", "verify", store, "--pool", "2TiB"),
        (None, "path: must not be empty", "stat", ""),
        (None, "to: must not be empty", "backup", store, ""),
        (None, "excludes", "dump", store, "--json", "--format", "csv"),
    ):
        done = subprocess.run([LOCKSTEP, *arguments], capture_output=True, text=True)
        wrong = done.returncode == 0 if status is None else done.returncode != status
        if wrong or says not in done.stderr:
            sys.exit(f"{arguments}: status {done.returncode}: {done.stderr}")
    assert state_of(store) == before
    assert not os.path.exists(store + ".copy")
    empty = os.path.join(os.path.dirname(store), "nothing")
    os.mkdir(empty)
    done = subprocess.run([LOCKSTEP, "locks", empty], capture_output=True, text=True)
    assert done.returncode != 0 and "holds no store" in done.stderr, done


def check_one_record(directory):
    """get, put, erase and scan, with each spelling of keys and values."""
    store = os.path.join(directory, "single")

    def one(*arguments, status=0, out="", says=""):
        done = subprocess.run([LOCKSTEP, *arguments], capture_output=True, text=True)
        if done.returncode != status or done.stdout != out or says not in done.stderr:
            sys.exit(f"{arguments}: {done}, expected status {status}, output {out!r}, {says!r}")

    one("put", store, "i", "a", "one", status=1, says="holds no store")
    one("put", "--create", store, "i", "a", "one")
    one("put", store, "j", "a", "one", status=1, says="no_such_object")
    one("put", store, "i", "u64:7", "hex:00ff")
    one("put", store, "i", "u8:1,i64:-2,text:b", "")
    one("put", store, "i", "hex:6302", "raw:hex:d")
    one("put", store, "i", "raw:u8:1", "x")
    one("get", store, "i", "a", out="one\n")
    one("get", store, "i", "hex:0000000000000007", "--hex", out="00ff\n")
    one("get", store, "i", "hex:017ffffffffffffffe620000", out="\n")
    one("get", store, "i", "b", status=3)
    one("scan", store, "i", "--prefix", "c", out="c\\x02\thex:d\n")
    one("scan", store, "i", "--from", "a", "--limit", "2", out="a\tone\nc\\x02\thex:d\n")
    one("scan", store, "i", "--from", "b", "--to", "d", "--hex", out="6302\t6865783a64\n")
    one("scan", store, "i", "--limit", "0")
    one("put", store, "i", "a", "two")
    one("get", store, "i", "a", out="two\n")
    one("erase", store, "i", "raw:u8:1")
    one("erase", store, "i", "raw:u8:1", status=3)
    for wrong in ("hex:0", "u8:256", "u64:", "u32:1,x:2", "u16:1,"):
        one("get", store, "i", wrong, status=1, says="bad_argument")
    one("get", store, "i", "k" * 1025, status=1, says="key_too_long")
    one("scan", store, "i", "--prefix", "a", "--from", "b", status=108, says="excludes")
    before = state_of(store)
    one("get", store, "i", "a", out="two\n")
    one("scan", store, "i", "--from", "a", "--limit", "1", out="a\ttwo\n")
    assert state_of(store) == before


def check(store):
    for name in os.listdir(store):
        os.chmod(os.path.join(store, name), 0o444)
    os.chmod(store, 0o555)
    before = state_of(store)
    run("dump-log", store, "--count", "100", says="read up to")
    run("dump-log", store, says="recorded durable end")
    run("dump-page", store, "0", says="superblock")
    run("dump-page", store, "2", "--bytes", says="checksum")
    after = state_of(store)
    if before != after:
        sys.exit(f"a dump has changed the store:\n{before}\n{after}")
    os.chmod(store, 0o755)
    for name in os.listdir(store):
        os.chmod(os.path.join(store, name), 0o644)


directory = tempfile.mkdtemp(prefix="lockstep-cli-")
try:
    os.chmod(directory, 0o755)
    check_command_line()
    check_versions()
    check_numbers(directory)
    check_describe(directory)
    check_absent_package(directory)
    check_size()
    path = os.path.join(directory, "store")
    drive(path, "--warehouses", "1", "--transactions", "500")
    check(path)
    check_lost_output(path)
    check_closed_descriptors(path)
    check_errors_as_json(directory)
    check_log_positions(path)
    check_refused(path)
    check_no_access(path)
    check_one_record(directory)
    drive(path, "--duration", "60", kill_after=2)
    with open("/dev/full", "w") as full:
        done = subprocess.run([LOCKSTEP, "stat", path], stdout=subprocess.DEVNULL, stderr=full)
    assert done.returncode == 3, done
    check(path)
    print("10 passed, 0 failed")
finally:
    shutil.rmtree(directory, ignore_errors=True)
