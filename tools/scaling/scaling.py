#!/usr/bin/env python3
"""scaling - what more cores give: measured here, and projected from counted line transfers.

Usage: ./tools/run scaling [--model] [--rounds N] [--seconds S] [--directory DIR] [options]

On a machine with N cores: runs one store with 1, 2, 4 ... N workers, and as many stores with one
worker each side by side. Stores share nothing but the machine, so they are its ceiling: where one
store with two workers is below two stores, the engine is the limit; where two stores are not
twice one store, the machine is. Where `perf c2c` works, its table of lines follows.

The projection for 2 to 64 cores comes from the counts of tools/coherence (--counts) and the
measured time of a line from one CPU to another, or --transfer. --model prints only that."""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import model

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BIN = ROOT / "build/release/bin"


def start(options: argparse.Namespace, place: str, workers: int, cpus: list[int]) -> tuple:
    """Starts a driver on these CPUs. Two warehouses for each worker."""
    result = pathlib.Path(place) / "result.json"
    command = ["taskset", "-c", ",".join(str(cpu) for cpu in cpus), options.driver, "--path",
               pathlib.Path(place) / "store", "-w", 2 * workers, "--workers", workers,
               "--warmup", options.warmup, "--duration", options.seconds, "--json", result]
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True), result


def rate(options: argparse.Namespace, stores: list[tuple[int, list[int]]]) -> float:
    """Transactions a second of stores that run at the same time: (workers, CPUs) of each."""
    with tempfile.TemporaryDirectory(dir=options.directory, prefix="scaling-") as place:
        started = []
        for number, (workers, cpus) in enumerate(stores):
            own = pathlib.Path(place) / str(number)
            own.mkdir()
            started.append(start(options, str(own), workers, cpus))
        whole = 0.0
        for process, result in started:
            said = process.communicate()[1]
            if not result.exists():
                sys.exit(f"scaling: the driver ended with {process.returncode}: {said.strip()}")
            whole += json.loads(result.read_text())["tx_per_s"]
    return whole


def measure(options: argparse.Namespace, cpus: list[int]) -> dict[int, tuple[float, float]]:
    """For each number of cores: medians of one store's rate, and of as many stores'."""
    numbers = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= len(cpus)]
    rates: dict[int, tuple[list[float], list[float]]] = {n: ([], []) for n in numbers}
    for _ in range(options.rounds):
        for n in numbers:
            rates[n][0].append(rate(options, [(n, cpus[:n])]))
            rates[n][1].append(rate(options, [(1, [cpu]) for cpu in cpus[:n]]))
    return {n: (statistics.median(one), statistics.median(many))
            for n, (one, many) in rates.items()}


def measured_table(rates: dict[int, tuple[float, float]]) -> str:
    alone = rates[1][0]
    lines = ["| cores | one store, tx/s | over one core | as many stores, tx/s | over one core | "
             "one store of the stores |", "|---|---|---|---|---|---|"]
    for n, (one, many) in rates.items():
        lines.append(f"| {n} | {one:,.0f} | {one / alone:.2f} | {many:,.0f} | {many / alone:.2f} | "
                     f"{one / many:.2f} |")
    return "\n".join(lines)


def transfer_ns(options: argparse.Namespace) -> float:
    if options.transfer is not None:
        return options.transfer
    ran = subprocess.run([options.driver.parent / "lockstep-transfer"], capture_output=True,
                         text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"scaling: no --transfer, and it cannot be measured: {ran.stderr.strip()}")
    measured = json.loads(ran.stdout)
    print(f"A line takes {measured['decile_ns']} ns from one CPU to another (lower decile; "
          f"median {measured['median_ns']} ns).")
    return measured["decile_ns"]


def shared_lines(options: argparse.Namespace, workers: int) -> None:
    """What the processor itself counts, where it can."""
    if shutil.which("perf") is None:
        print("perf is not installed: no table of `perf c2c`.")
        return
    with tempfile.TemporaryDirectory(dir=options.directory, prefix="scaling-") as place:
        data = pathlib.Path(place) / "perf.data"
        ran = subprocess.run(["perf", "c2c", "record", "-o", str(data), "--", str(options.driver),
                              "--path", f"{place}/store", "-w", str(2 * workers), "--workers",
                              str(workers), "--duration", str(options.seconds)],
                             capture_output=True, text=True, check=False)
        if ran.returncode != 0 or not data.exists():
            print("perf c2c does not work on this machine.")
            return
        subprocess.run(["perf", "c2c", "report", "-i", str(data), "--stdio"], check=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="store_true", help="only the projection")
    parser.add_argument("--rounds", type=int, default=5, help="medians of so many runs")
    parser.add_argument("--seconds", type=float, default=10, help="of each run")
    parser.add_argument("--warmup", type=float, default=3, help="seconds before")
    parser.add_argument("--directory", help="where the stores are made; default: as tempfile")
    parser.add_argument("--counts", type=pathlib.Path,
                        default=HERE.parent / "coherence/counts.json")
    parser.add_argument("--transfer", type=float, help="nanoseconds of a line's transfer")
    parser.add_argument("--alone", type=float, default=11.5,
                        help="microseconds of a transaction on one worker, for --model")
    parser.add_argument("--driver", type=pathlib.Path, default=BIN / "lockstep-tpcc")
    options = parser.parse_args()
    alone = options.alone
    if not options.model:
        cpus = sorted(os.sched_getaffinity(0))
        rates = measure(options, cpus)
        print(measured_table(rates))
        alone = 1e6 / rates[1][0]
        shared_lines(options, len(cpus))
    runs = json.loads(options.counts.read_text())
    nanos = transfer_ns(options)
    print(f"\nProjection: {nanos:.0f} ns a transfer, {alone:.1f} us a transaction on one core, "
          f"counts of {', '.join(str(run['workers']) for run in runs)} workers. Upper bounds: no "
          "device, one socket.")
    print(model.projection(runs, nanos, alone))
    return 0


if __name__ == "__main__":
    sys.exit(main())
