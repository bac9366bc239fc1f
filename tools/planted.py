#!/usr/bin/env python3
"""planted.py - runs the tests against each mutant of threads/base/mutants.h and tells which tests
catch it.

The build needs -DLOCKSTEP_MUTANTS=ON. A mutant is caught when a test program fails, stops or hangs
with it. The program that mutants.h names beside the mutant runs first, then all others. Before
that, all programs run without a mutant. A program that fails then would catch anything, so it is
left out with a warning. The exit status is 1 if fewer than 98 percent are caught."""

import argparse
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from mutation import in_memory

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUG = re.compile(r'X\((\w+), (\w+),[\s\\]*"([^"]*)"\)')
# Programs that are slow or test other things than the engine. The simulator is the place for
# mutants that no single test program catches.
LEFT_OUT = {"tpcc_run_test", "tpcc_loader_test"}
SIMULATOR = ["lockstep-sim", "--seed", "1", "--seeds", "4"]
# Scripts that the tables name like test programs, and the programs that they run.
SCRIPTS = {
    "tools_prepared_test": ("tests/tools/prepared_test.py", "lockstep", "prepared-program"),
}


def mutants():
    tables = sorted((ROOT / "threads/base").glob("mutants*.h"))
    text = "".join(table.read_text() for table in tables)
    return [m.groups() for m in BUG.finditer(text) if m.group(1) != "name"]


class Suite:
    def __init__(self, build, limit):
        self.bin = pathlib.Path(build).resolve() / "bin"
        self.limit = limit
        self.files = in_memory.directory()
        self.programs = sorted(p.name for p in self.bin.glob("*_test") if p.name not in LEFT_OUT)
        if (self.bin / SIMULATOR[0]).exists():
            self.programs.append("simulator")
        for name, (_, *programs) in SCRIPTS.items():
            if all((self.bin / program).exists() for program in programs):
                self.programs.append(name)
        self.seconds = {}

    def command(self, program):
        if program == "simulator":
            return [str(self.bin / SIMULATOR[0]), *SIMULATOR[1:]]
        if program in SCRIPTS:
            script, *programs = SCRIPTS[program]
            return [sys.executable, str(ROOT / script), *(str(self.bin / p) for p in programs)]
        return [str(self.bin / program), "--gtest_fail_fast", "--gtest_brief=1"]

    def run(self, program, bug):
        """The reason why the program failed, or None."""
        with tempfile.TemporaryDirectory(
            prefix="planted_", dir=self.files, ignore_cleanup_errors=True
        ) as place:
            began = time.monotonic()
            env = dict(
                os.environ,
                LOCKSTEP_MUTANT=bug,
                TMPDIR=place,  # what a killed program leaves goes, too
                LOCKSTEP_TRANSACTIONS="30000",
                LOCKSTEP_CRASH_SEEDS="4",
                LOCKSTEP_FUZZ_RUNS="10",
            )
            try:
                done = subprocess.run(
                    self.command(program),
                    cwd=place,
                    env=env,
                    capture_output=True,
                    timeout=self.limit,
                )
            except subprocess.TimeoutExpired:
                return "hangs"
            finally:
                self.seconds[program] = time.monotonic() - began
            if done.returncode == 0:
                return None
            text = (done.stdout + done.stderr).decode(errors="replace")
            stopped = re.search(r"CHECK failed: (.*?) at", text)
            failed = re.search(r"\[  FAILED  \] ([\w/.]+)", text)
            return (
                "CHECK " + stopped.group(1)
                if stopped
                else failed.group(1) if failed else f"status {done.returncode}"
            )

    def baseline(self, jobs):
        with ThreadPoolExecutor(jobs) as pool:
            bad = {
                p: why
                for p, why in zip(self.programs, pool.map(lambda p: self.run(p, ""), self.programs))
                if why
            }
        for program, why in bad.items():
            print(f"left out: {program} fails without a bug ({why})", flush=True)
        self.programs = sorted(set(self.programs) - set(bad), key=lambda p: self.seconds[p])
        # The time limit of a program is a little longer than its normal run.
        self.limit = min(
            self.limit, 5 * max((self.seconds[p] for p in self.programs), default=0) + 10
        )

    def hunt(self, bug, first, only_first):
        """(program, reason) that caught the mutant, or None."""
        layer = first.split("_")[0]
        order = [first] if first in self.programs else []
        if not only_first:
            order += [p for p in self.programs if p != first and p.startswith(layer)]
            order += [p for p in self.programs if p != first and not p.startswith(layer)]
        for program in order:
            why = self.run(program, bug)
            if why:
                return program, why
        return None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="mutants; default: all")
    parser.add_argument("--build", default=str(ROOT / "build/planted"))
    parser.add_argument("--sample", type=int, help="number of mutants to draw by --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=300, help="seconds for one program")
    parser.add_argument(
        "--skip-baseline", action="store_true", help="assume that all pass without a mutant"
    )
    parser.add_argument(
        "--first-only", action="store_true", help="only the program named beside each mutant"
    )
    parser.add_argument("--list", action="store_true", help="print the mutants and stop")
    args = parser.parse_args()
    bugs = mutants()
    known = {bug for bug, _, _ in bugs}
    if unknown := set(args.names) - known:
        sys.exit(f"planted: no mutant is called {', '.join(sorted(unknown))}")
    if args.list:
        for bug, where, what in bugs:
            print(f"{bug:28} {what}")
        return
    if args.names:
        bugs = [b for b in bugs if b[0] in args.names]
    suite = Suite(args.build, args.limit)
    if args.first_only:
        if missing := [f"{bug} ({where})" for bug, where, _ in bugs if where not in suite.programs]:
            sys.exit(f"planted: no such program in {suite.bin}: {', '.join(missing)}")
    if args.sample:
        bugs = random.Random(args.seed).sample(bugs, min(args.sample, len(bugs)))
    if not args.skip_baseline:
        if args.first_only:
            suite.programs = [p for p in suite.programs if p in {where for _, where, _ in bugs}]
        suite.baseline(args.jobs)

    def one(entry):
        found = suite.hunt(entry[0], entry[1], args.first_only)
        print(
            f"{'caught' if found else 'ESCAPED':8} {entry[0]:28}"
            f" {found[0] + ': ' + found[1] if found else entry[2]}",
            flush=True,
        )
        return found

    with ThreadPoolExecutor(args.jobs) as pool:
        found = [f for f in pool.map(one, bugs) if f]
    caught = len(found)
    asserted = sum(reason.startswith("CHECK ") for _, reason in found)
    print(
        f"{caught} of {len(bugs)} mutants caught ({100 * caught / len(bugs):.1f}%),"
        f" {asserted} of them by an assertion of the engine"
    )
    sys.exit(0 if caught >= 0.98 * len(bugs) else 1)


if __name__ == "__main__":
    main()
