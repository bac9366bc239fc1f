#!/usr/bin/env python3
"""simulation_test.py - runs lockstep-sim over many seeds and holds it to numbers."""
import argparse
import os
import re
import subprocess
import sys


def run(program, *options):
    done = subprocess.run([program, *map(str, options)], stdout=subprocess.PIPE, text=True)
    print(done.stdout)
    if done.returncode != 0:
        sys.exit(f"lockstep-sim {' '.join(map(str, options))}: a seed failed, see above")
    return done.stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seeds", type=int, required=True)
    parser.add_argument("--crash-points", type=int, required=True, help="at least so many in all")
    options = parser.parse_args()
    first = int(os.environ.get("LOCKSTEP_SEED", "1"))
    print(f"seeds from {first}; LOCKSTEP_SEED sets the first")
    text = run(options.program, "--seed", first, "--seeds", options.seeds, "--jobs", 2)
    counts = {name: int(number) for name, number in re.findall(r"^  (\w+) +(\d+)$", text, re.M)}
    if counts.get("crash_points", 0) < options.crash_points:
        sys.exit(f"{counts.get('crash_points', 0)} crash points, wanted {options.crash_points}")


if __name__ == "__main__":
    main()
