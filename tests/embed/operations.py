#!/usr/bin/env python3
"""operations.py - the installed programs on a store: statistics, checks, dumps, a damaged file, and
a loader that is killed.

Usage: operations.py BIN DIRECTORY, the directory of the programs and one for the stores.
"""

import json
import pathlib
import re
import signal
import subprocess
import sys
import time

BIN, DIRECTORY = (pathlib.Path(argument) for argument in sys.argv[1:])
SMALL = ["--warehouses", "1", "--warmup", "0", "--pool", "64M", "--log-size", "64M"]
PAGE = 8192


def expect(holds, what):
    if not holds:
        sys.exit(f"wrong: {what}")


def run(program, *words, status=0):
    """What the program prints; it must end with this status."""
    done = subprocess.run(
        [BIN / program, *map(str, words)], capture_output=True, text=True, timeout=100
    )
    text = done.stdout + done.stderr
    command = f"{program} {' '.join(map(str, words))}"
    expect(done.returncode == status, f"{command}: status {done.returncode}:\n{text[-2000:]}")
    return text


def look_at(store):
    """Every subcommand on a sound store."""
    stat = json.loads(run("lockstep", "stat", "--json", store))
    expect("warehouse" in json.dumps(stat), "stat does not name the tables")
    expect("warehouse" in run("lockstep", "stat", store), "stat does not name the tables")
    run("lockstep", "verify", store)
    rows = run("lockstep", "dump", store, "warehouse").count('"key":')
    expect(rows == 1, f"dump of a table with one record prints {rows}")
    rows = run("lockstep", "dump", store, "customer", "--limit", 7).count('"key":')
    expect(rows == 7, f"dump --limit 7 prints {rows} records")
    missing = run("lockstep", "dump", store, "none", status=1)
    expect("no index or heap none" in missing, f"a table that does not exist: {missing}")
    run("lockstep", "dump-page", store, 0)
    run("lockstep", "dump-log", store, "--count", 5)
    missing = run("lockstep", "stat", str(store) + ".none", status=1)
    expect("lockstep: " in missing, f"a store that does not exist: {missing}")


def damage(store):
    """Flips bytes of a page in use; verify names the page."""
    with open(store / "data", "r+b") as data:
        pages = data.read(200 * PAGE)
        used = [n for n in range(20, 200) if any(pages[n * PAGE : (n + 1) * PAGE])]
        number = used[len(used) // 2]
        data.seek(number * PAGE + 4000)
        data.write(bytes(byte ^ 0xFF for byte in pages[number * PAGE + 4000 :][:64]))
    said = run("lockstep", "verify", store, status=2)
    expect(re.search(rf"\b{number}\b", said), f"verify does not name page {number}: {said}")


def kill(store):
    """Kills a loader in the middle of its work; the next open recovers the store."""
    work = ["--duration", "60", "--durability", "durable"]
    driver = subprocess.Popen(
        [BIN / "lockstep-tpcc", "--path", store, *SMALL, *work], stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 20
    while not (store / "data").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.7)
    expect(driver.poll() is None, "the driver ended by itself")
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    run("lockstep", "verify", store)  # recovers first


def main():
    for program in ("lockstep", "lockstep-tpcc", "lockstep-bench", "lockstep-icache"):
        expect(program in run(program, "--help"), f"{program} --help")
    store = DIRECTORY / "operations.db"
    driven = run("lockstep-tpcc", "--path", store, *SMALL, "--transactions", 500)
    expect("violated" not in driven, "the audit")
    look_at(store)
    damage(store)
    kill(DIRECTORY / "killed.db")
    print("the programs work")


main()
