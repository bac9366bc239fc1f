#!/usr/bin/env python3
"""kill_test.py - kills the TPC-C driver with signal 9 in the middle of durable work and checks that
nothing acknowledged is lost.

Usage: kill_test.py DRIVER [--rounds N] [--seconds S] [--warehouses W] [--workers N] [--steps
on|off] [--keep]

Each round continues the database of the round before: start the driver, let it acknowledge commits
for a while (a random time up to S), kill it, reopen the database, demand all twelve conditions and
every order, payment and delivery that any round acknowledged."""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time


def run_and_kill(arguments, path, acks, seconds, steps):
    """Runs the driver until it has acknowledged something for `seconds`, then kills it. Returns the
    number of lines it added.
    """
    before = os.path.getsize(acks) if os.path.exists(acks) else 0
    with open(acks, "a") as ack_file, open(path + ".out", "w") as output:
        driver = subprocess.Popen(
            [
                arguments.driver,
                "--path",
                path,
                "--durability",
                "durable",
                "--duration",
                "600",
                "--warmup",
                "0",
                "--pool",
                "128M",
                "--log-size",
                "256M",
                "--workers",
                str(arguments.workers),
                "--seed",
                str(arguments.seed),
                "--steps",
                steps,
                "--ack-fd",
                str(ack_file.fileno()),
            ]
            + ([] if before else ["--warehouses", str(arguments.warehouses)]),
            pass_fds=[ack_file.fileno()],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        deadline = time.monotonic() + 120
        while (
            driver.poll() is None
            and os.path.getsize(acks) == before
            and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        time.sleep(seconds)
        driver.send_signal(signal.SIGKILL)
        status = driver.wait()
    # A line that was cut off by the kill must not run into the next round's first one.
    with open(acks, "rb") as file:
        data = file.read()
    whole = data[: data.rfind(b"\n") + 1]
    if whole != data:
        with open(acks, "wb") as file:
            file.write(whole)
    if status != -signal.SIGKILL:
        with open(path + ".out") as file:
            sys.exit(f"the driver ended by itself with status {status}:\n{file.read()}")
    return whole.count(b"\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("driver")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--warehouses", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("LOCKSTEP_SEED", "1")))
    parser.add_argument("--steps", choices=["on", "off"], help="default: on and off in turn")
    parser.add_argument("--keep", action="store_true", help="keep the database")
    arguments = parser.parse_args()
    print("seed", arguments.seed)
    times = random.Random(arguments.seed)
    directory = tempfile.mkdtemp(prefix="lockstep-kill-")
    path, acks = os.path.join(directory, "db"), os.path.join(directory, "acks")
    lines = 0
    try:
        for number in range(1, arguments.rounds + 1):
            seconds = times.uniform(0.2, arguments.seconds)
            steps = arguments.steps or ("on" if number % 2 else "off")
            now = run_and_kill(arguments, path, acks, seconds, steps)
            if now == lines:
                sys.exit(f"round {number}: nothing was acknowledged in two minutes")
            started = time.monotonic()
            check = subprocess.run(
                [
                    arguments.driver,
                    "--path",
                    path,
                    "--check-only",
                    "--check-acks",
                    acks,
                    "--pool",
                    "128M",
                    "--log-size",
                    "256M",
                ],
                capture_output=True,
                text=True,
            )
            print(
                f"round {number}: {now - lines} commits acknowledged in {seconds:.2f} s with steps"
                f" {steps}; recovered and checked in {time.monotonic() - started:.2f} s"
            )
            lines = now
            if check.returncode != 0:
                sys.exit(f"status {check.returncode} after the kill\n{check.stdout}{check.stderr}")
            print("  " + check.stdout.strip().splitlines()[-1])
    finally:
        if not arguments.keep:
            shutil.rmtree(directory, ignore_errors=True)
        else:
            print("kept", directory)


if __name__ == "__main__":
    main()
