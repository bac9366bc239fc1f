#!/usr/bin/env python3
"""gdb_test - runs tools/gdb/lockstep_gdb.py on a test program that stops in a deadlock.

Usage: gdb_test.py ROOT STORE_TEST. Skipped (status 77) where gdb cannot start a program.
"""

import pathlib
import re
import subprocess
import sys

SCRIPT = "tools/gdb/lockstep_gdb.py"
STOP = "lockstep::txn::LockManager::Impl::deny"
TEST = "StoreTest.DeadlockVictimsRunAgain"


def check_reasons(root):
    """The script's names of park reasons are those of the enum, in the same order."""
    header = (root / "threads/base/park_reason.h").read_text()
    enum = re.search(r"enum class ParkReason : uint8_t \{(.*?)kCount", header, re.S).group(1)
    names = re.search(r"^REASONS = \((.*?)\)$", (root / SCRIPT).read_text(), re.M | re.S).group(1)
    assert re.findall(r"\w+", enum) == re.findall(r'"(\w+)"', names), (enum, names)


def run(root, program):
    """What gdb prints with the program stopped where the deadlock's victim is chosen."""
    command = ["gdb", "-q", "--batch", "-nx", "-x", str(root / SCRIPT)]
    for line in (
        "set debuginfod enabled off",
        f"break {STOP}",
        "run",
        "lockstep threads",
        "lockstep bt all",
        "kill",
    ):
        command += ["-ex", line]
    command += ["--args", program, f"--gtest_filter={TEST}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    return done.stdout + done.stderr


def main():
    root, program = pathlib.Path(sys.argv[1]), sys.argv[2]
    check_reasons(root)
    text = run(root, program)
    if "ptrace" in text or "Couldn't get registers" in text:
        print("skipped: gdb may not trace programs here\n" + text)
        sys.exit(77)
    assert "hit Breakpoint 1" in text, text
    # The victim runs and the other transaction waits for a lock.
    assert re.search(r"^ +\d+ +0 running +\d+  application", text, re.M), text
    assert re.search(r"^ +\d+ +0 parked/lock +\d+  application", text, re.M), text
    assert re.search(r"^ +\d+ +0 parked/\w+ +\d+  cleaner .*run_cleaner", text, re.M), text
    assert re.search(r"^\d+ user threads$", text, re.M), text
    # The waiting transaction's call chain leads from the switch to the update.
    chain = text[text.index('"application" worker 0 parked/lock') :]
    places = [chain.index(f) for f in ("switch_away", "LockManager::Impl::wait", "Index::update")]
    assert places == sorted(places), chain


if __name__ == "__main__":
    main()
