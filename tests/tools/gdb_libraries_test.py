#!/usr/bin/env python3
"""gdb_libraries_test.py - runs tools/gdb/lockstep_gdb.py on a program that is linked with the
static library and with the shared one, and compares the user threads that it lists. gdb starts
each program, and also attaches to it.

Arguments: the script, then the programs. The exit status is 77 if gdb cannot be used here."""

import collections
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
# What every run has: the program's threads, and one cleaner for each of the two workers.
EXPECTED = {"application": 6, "cleaner": 2, "log flusher": 1, "log keeper": 1, "checkpointer": 1}
LINE = re.compile(r"^ *(\d+) +(\d+) (\S+) +(\d+)  (.*?)(?:  (.*))?$")


def gdb(steps, *arguments):
    """What gdb prints for these steps."""
    command = ["gdb", "-batch", "-nx", "-iex", "set debuginfod enabled off"]
    for step in steps:
        command += ["-ex", step]
    done = subprocess.run(
        [*command, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    if "ptrace" in done.stdout and "not permitted" in done.stdout:
        print("skipped: gdb may not trace a program here")
        sys.exit(SKIPPED)
    return done.stdout


def when_started(script, program, directory):
    """What both commands print while gdb has stopped a program that it started."""
    steps = ["set startup-with-shell off", "break all_threads_wait", "run"]
    steps += [f"source {script}", "lockstep threads", "lockstep bt all", "kill"]
    return gdb(steps, "--args", program, directory + "-started")


def when_attached(script, program, directory):
    """What both commands print while gdb is attached to a running program."""
    command = [program, directory + "-attached"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        running.stdout.readline()  # "ready"
        steps = [f"source {script}", "lockstep threads", "lockstep bt all", "detach"]
        text = gdb(steps, "-p", str(running.pid))
        running.stdin.close()
    return text


def threads_of(text):
    """The rows of `lockstep threads`: id, worker, state, name and innermost functions."""
    rows = [match.groups() for line in text.splitlines() if (match := LINE.match(line))]
    return [(int(row[0]), int(row[1]), row[2], row[4], row[5] or "") for row in rows]


def check(program, text):
    """The names and workers of the threads in the text; ends the test if they are not as wanted."""
    rows = threads_of(text)

    def demand(condition, what):
        if not condition:
            sys.exit(f"{program}: {what}\n{text}")

    demand(rows, "no user thread is listed")
    ids = collections.Counter(row[0] for row in rows)
    demand(max(ids.values()) == 1, "a thread is listed more than once")
    names = collections.Counter(row[3] for row in rows)
    for name, count in EXPECTED.items():
        demand(names[name] == count, f"{names[name]} threads {name!r}, expected {count}")
    demand(f"{len(rows)} user threads" in text, "the sum is wrong")
    applications = [row for row in rows if row[3] == "application"]
    asleep = [row for row in applications if row[2] == "parked/sleep"]
    demand(len(asleep) >= 3, "the program's threads do not sleep")
    for row in asleep:
        demand("sleep" in row[4], f"thread {row[0]}: its functions are not found")
    demand(sorted(row[1] for row in applications) == [0, 0, 0, 1, 1, 1], "wrong workers")
    chains = len(re.findall(r"^user thread \d+ ", text, re.M))
    demand(chains == len(rows), f"{chains} call chains for {len(rows)} threads")
    return sorted((row[3], row[1]) for row in rows if row[3] in EXPECTED)


def main():
    if shutil.which("gdb") is None:
        print("skipped: gdb is not installed")
        return SKIPPED
    script, *programs = sys.argv[1:]
    seen = []
    with tempfile.TemporaryDirectory(prefix="lockstep-gdb-") as directory:
        for number, program in enumerate(programs):
            for way in when_started, when_attached:
                text = way(script, program, f"{directory}/{number}")
                seen.append(check(f"{program}, {way.__name__}", text))
    if any(threads != seen[0] for threads in seen):
        sys.exit(f"the programs differ: {seen}")
    print(f"{len(seen[0])} user threads in each of {len(seen)} listings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
