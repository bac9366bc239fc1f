#!/usr/bin/env python3
"""soak_test.py - runs the TPC-C driver with a pool of a tenth of the data and STEPS on, and demands
constant memory and all conditions.

Usage: soak_test.py DRIVER [--seconds S] [--warehouses W] [--workers N] [--steps on|off]
[--pool-percent P]

`soak_test.py DRIVER --seconds 600` is the long run. The database is loaded first, by itself, to
know its size. Then the driver's resident memory is sampled: the highest of the second half may
exceed the highest of the first half (its start left out) by 3% and 2 MB, no more. An audit keeps
what its snapshot sees, so a second half whose audits take longer may have that too."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time


def resident(pid):
    """Bytes, without what is mapped from files."""
    try:
        with open(f"/proc/{pid}/status") as status:
            for line in status:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def sample(process, seconds):
    samples = []
    began = time.monotonic()
    while process.poll() is None:
        now = time.monotonic() - began
        if now > seconds + 300:
            process.kill()
            sys.exit("the driver does not come to an end")
        if (size := resident(process.pid)) > 0:
            samples.append((now, size))
        time.sleep(min(0.25, seconds / 80))
    return samples


# Versions of the records that a transaction of the mix changes.
VERSION_BYTES = 8192


def versions_more(report, seconds):
    """Bytes that an audit of the second half may keep beyond those of the first, because its
    snapshot was open for longer."""
    audits = re.findall(r"^at ([\d.]+) s: .* in ([\d.]+) s$", report, re.M)
    rate = re.search(r"^(\d+) transactions a second", report, re.M)

    def longest(end):
        open_for = [min(end, float(at) + float(took)) - float(at) for at, took in audits]
        return max(open_for, default=0)

    more = longest(seconds) - max(0, longest(0.6 * seconds))
    return max(0, more) * int(rate[1]) * VERSION_BYTES


def judge(samples, seconds, more):
    warm = [(t, s) for t, s in samples if 0.2 * seconds < t < seconds]
    first = max((s for t, s in warm if t < 0.6 * seconds), default=0)
    second = max((s for t, s in warm if t >= 0.6 * seconds), default=0)
    print(
        f"resident memory: {first / 2**20:.1f} MB at most in the first half, {second / 2**20:.1f}"
        f" MB in the second ({len(warm)} samples), {more / 2**20:.1f} MB for longer audits"
    )
    if len(warm) < 10 or first == 0:
        sys.exit("too few samples: this shows nothing")
    if second > first * 1.03 + 2 * 2**20 + more:
        sys.exit("memory grows")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("driver")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--warehouses", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", default="on")
    parser.add_argument("--pool-percent", type=float, default=10)
    arguments = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="lockstep-soak-")
    path = os.path.join(directory, "db")
    log = ["--log-size", "256M"]
    try:
        subprocess.run(
            [
                arguments.driver,
                "--path",
                path,
                "--warehouses",
                str(arguments.warehouses),
                "--transactions",
                "1",
                *log,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        data = os.stat(os.path.join(path, "data")).st_blocks * 512
        pool = max(4 << 20, int(data * arguments.pool_percent / 100))
        print(
            f"{data / 2**20:.0f} MB of data, pool of {pool / 2**20:.1f} MB, steps {arguments.steps}"
        )
        command = [
            arguments.driver,
            "--path",
            path,
            "--pool",
            str(pool),
            "--workers",
            str(arguments.workers),
            "--steps",
            arguments.steps,
            "--duration",
            str(arguments.seconds),
            "--warmup",
            "0",
            "--audit-every",
            str(arguments.seconds / 5),
            "--reads",
            "snapshot",
            *log,
        ]
        with open(path + ".out", "w") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
            samples = sample(process, arguments.seconds)
        with open(path + ".out") as output:
            report = output.read()
        if process.returncode != 0:
            sys.exit(f"the driver ended with status {process.returncode}:\n{report}")
        print(
            "\n".join(
                line
                for line in report.splitlines()
                if "tpmC" in line or "condition" in line.lower()
            )
        )
        audits = [line for line in report.splitlines() if "conditions hold in a snapshot" in line]
        if not audits or any(" 12 of 12 " not in line for line in audits):
            sys.exit("the audits beside the terminals: " + "\n".join(audits or ["none"]))
        judge(samples, arguments.seconds, versions_more(report, arguments.seconds))
        check = subprocess.run(
            [arguments.driver, "--path", path, "--check-only", *log], capture_output=True, text=True
        )
        if check.returncode != 0:
            sys.exit(
                f"status {check.returncode} of the check afterwards\n{check.stdout}{check.stderr}"
            )
        print(check.stdout.strip().splitlines()[-1])
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
