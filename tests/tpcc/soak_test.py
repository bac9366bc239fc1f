#!/usr/bin/env python3
"""soak_test.py - runs the TPC-C driver with a pool of a tenth of the data and STEPS on, and demands
constant memory and all conditions.

Usage: soak_test.py DRIVER [--seconds S] [--warehouses W] [--workers N] [--steps on|off]
[--pool-percent P]

`soak_test.py DRIVER --seconds 600` is the long run. The database is loaded first, by itself, to
know its size. Then the driver's resident memory is sampled: the highest of the second half may
exceed the highest of the first half (its start left out) by 3% and 2 MB, no more. An audit keeps
what its snapshot sees: what the store says of its versions is sampled too, and a second half with
more of them may have that too."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request


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


# Of a byte of versions: a region that a version does not fill, and what the allocator adds.
VERSION_OVERHEAD = 1.25


def metrics_url(process, output):
    """The driver prints it before anything else."""
    for _ in range(1200):
        with open(output) as lines:
            printed = lines.read()
        if found := re.search(r"^metrics: (\S+)$", printed, re.M):
            return found[1]
        if process.poll() is not None:
            sys.exit(f"the driver ended with status {process.returncode}:\n{printed}")
        time.sleep(0.05)
    process.kill()
    sys.exit(f"the driver does not say where its metrics are:\n{printed}")


def version_bytes(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as reply:
            text = reply.read().decode()
    except OSError:
        return 0  # not yet open, or closed
    return int(float(re.search(r"^lockstep_version_bytes (\S+)$", text, re.M)[1]))


def sample(process, url, seconds):
    """(seconds since the start, bytes resident, bytes of versions) until the driver ends."""
    samples = []
    began = time.monotonic()
    while process.poll() is None:
        now = time.monotonic() - began
        if now > seconds + 300:
            process.kill()
            sys.exit("the driver does not come to an end")
        if (size := resident(process.pid)) > 0:
            samples.append((now, size, version_bytes(url)))
        time.sleep(min(0.05, seconds / 80))
    return samples


def judge(samples, seconds):
    """Memory that is freed stays with the process: a half has its highest versions to the end."""
    warm = [s for s in samples if 0.2 * seconds < s[0] < seconds]
    halves = [s for s in warm if s[0] < 0.6 * seconds], [s for s in warm if s[0] >= 0.6 * seconds]
    if any(len(half) < 10 for half in halves):
        sys.exit("too few samples: this shows nothing")
    first, second = (max(size for _, size, _ in half) for half in halves)
    versions = [max(kept for _, _, kept in half) for half in halves]
    if max(versions) == 0:
        sys.exit("no sample saw a version, though audits ran: this shows nothing")
    more = max(0, versions[1] - versions[0])
    print(
        f"resident memory: {first / 2**20:.1f} MB at most in the first half, {second / 2**20:.1f}"
        f" MB in the second ({len(warm)} samples); versions: {versions[0] / 2**20:.1f} MB and"
        f" {versions[1] / 2**20:.1f} MB"
    )
    if second > first * 1.03 + 2 * 2**20 + VERSION_OVERHEAD * more:
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
            "--metrics",
            "0",
            *log,
        ]
        with open(path + ".out", "w") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
            samples = sample(process, metrics_url(process, path + ".out"), arguments.seconds)
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
        judge(samples, arguments.seconds)
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
