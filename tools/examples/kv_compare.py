#!/usr/bin/env python3
"""kv_compare - kv_server and redis-server under redis-benchmark, in turn, with medians and ratios.

Usage: kv_compare.py KV_SERVER [--rounds N] [--clients C] [--workers W] [--io METHOD]
[--appendfsync always everysec] [--requests N] [--pipelines 1 16] [--directory DIR]

Both servers run all the time, each with an append-only log in DIR. One benchmark runs at a time, on
kv_server and redis-server in turn, and on the other first in the next round. So drift of the
machine concerns both. Needs redis-tools (Debian). It has redis-server under another name, which is
taken where the package redis-server is missing."""

import argparse
import contextlib
import csv
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

OTHER_NAME = "/usr/bin/redis-check-rdb"  # looks at the name under which it is called


def redis_program():
    found = shutil.which("redis-server")
    if found is None and pathlib.Path(OTHER_NAME).exists():
        found = OTHER_NAME
    if found is None:
        sys.exit("kv_compare: redis-server is missing (Debian: redis-tools or redis-server)")
    return found


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(port):
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    sys.exit(f"kv_compare: nothing listens on port {port}")


@contextlib.contextmanager
def servers(arguments, appendfsync, directory):
    """Ports of both servers by name, while they run."""
    ports = {"kv_server": free_port(), "redis-server": free_port()}
    (directory / "redis").mkdir(parents=True)
    commands = {
        "kv_server": [arguments.kv_server, "--directory", str(directory / "kv")]
        + ["--port", str(ports["kv_server"]), "--durability", appendfsync]
        + ["--workers", str(arguments.workers), "--io", arguments.io],
        "redis-server": ["redis-server", "--port", str(ports["redis-server"])]
        + ["--dir", str(directory / "redis"), "--appendonly", "yes", "--save", ""]
        + ["--appendfsync", appendfsync],
    }
    programs = {"kv_server": arguments.kv_server, "redis-server": redis_program()}
    running = [
        subprocess.Popen(commands[name], executable=programs[name], stdout=subprocess.DEVNULL)
        for name in commands
    ]
    try:
        for port in ports.values():
            wait_for(port)
        yield ports
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(60)


def benchmark(arguments, port, pipeline):
    """Requests per second and p99 in milliseconds, by test."""
    requests = arguments.requests * (1 if pipeline == 1 else 4)
    done = subprocess.run(
        ["redis-benchmark", "-p", str(port), "-t", "set,get", "-r", "100000", "--csv"]
        + ["-c", str(arguments.clients), "-n", str(requests), "-P", str(pipeline)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    rows = [row for row in csv.reader(done.stdout.splitlines()) if row and row[0] in ("SET", "GET")]
    if done.returncode != 0 or len(rows) != 2:
        sys.exit(f"kv_compare: redis-benchmark failed: {done.stdout}{done.stderr}")
    return {row[0]: (float(row[1]), float(row[6])) for row in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kv_server")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--io", default="automatic")
    parser.add_argument("--appendfsync", nargs="+", default=["always", "everysec"])
    parser.add_argument("--pipelines", nargs="+", type=int, default=[1, 16])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--directory", help="on the device to measure; default: a temporary one")
    arguments = parser.parse_args()
    version = subprocess.run(
        ["redis-server", "--version"], executable=redis_program(), capture_output=True, text=True
    ).stdout
    print(f"Redis {re.search(r'v=([0-9.]+)', version)[1]}, {arguments.clients} clients,", end=" ")
    print(f"median of {arguments.rounds} rounds, requests per second (p99 in ms)")
    print("| appendfsync | test | -P | kv_server | redis-server | ratio (quartiles) |")
    print("|---|---|---|---|---|---|", flush=True)
    for appendfsync in arguments.appendfsync:
        with tempfile.TemporaryDirectory(dir=arguments.directory) as directory, servers(
            arguments, appendfsync, pathlib.Path(directory)
        ) as ports:
            for pipeline in arguments.pipelines:
                seen = {name: [] for name in ports}
                for turn in range(arguments.rounds):
                    for name in sorted(ports, reverse=turn % 2 == 1):
                        seen[name].append(benchmark(arguments, ports[name], pipeline))
                for test in ("SET", "GET"):
                    report(appendfsync, test, pipeline, seen)


def report(appendfsync, test, pipeline, seen):
    cells = {}
    for name, rounds in seen.items():
        rate, p99 = (statistics.median(r[test][i] for r in rounds) for i in (0, 1))
        cells[name] = f"{rate:,.0f} ({p99:.1f})"
    ratios = sorted(
        ours[test][0] / theirs[test][0]
        for ours, theirs in zip(seen["kv_server"], seen["redis-server"])
    )
    low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    ratio = f"{statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})"
    print(
        f"| {appendfsync} | {test} | {pipeline} | {cells['kv_server']} |"
        f" {cells['redis-server']} | {ratio} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
