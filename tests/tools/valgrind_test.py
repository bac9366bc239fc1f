#!/usr/bin/env python3
"""valgrind_test - a store with default I/O works under valgrind, and then uses the pool.

Usage: valgrind_test.py PROGRAM. The exit status is 77 if valgrind is not installed."""

import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
SECONDS = 200  # 5 s on an idle machine


def backends(*command):
    """The I/O backends that the program prints, one for each open."""
    with tempfile.TemporaryDirectory(prefix="lockstep-valgrind-") as directory:
        done = subprocess.run(
            [*command, directory + "/store"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
    assert done.returncode == 0, f"{command}: status {done.returncode}\n{done.stdout}"
    return [line for line in done.stdout.splitlines() if not line.startswith("==")]


def main():
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed")
        return SKIPPED
    program = sys.argv[1]
    native = backends(program)
    assert len(native) == 2 and set(native) <= {"io_uring", "pool"}, native
    checked = backends("valgrind", "--tool=none", "-q", program)
    assert checked == ["pool", "pool"], checked
    print(f"natively {native[0]}, under valgrind {checked[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
