#!/usr/bin/env python3
"""compare_digests.py - one seed is one run, whatever compiled it: builds lockstep-sim in several
ways and compares the digests of the same seeds.

Builds go to build/digest-NAME (gcc at -O2 to build/release), and only lockstep-sim is built. Exit
status 1 if any digest differs or a seed fails."""

import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DEBUG = "-DCMAKE_BUILD_TYPE=Debug"
FLAGS = "-DLOCKSTEP_DEBUG_FLAGS="
BUILDS = {
    "gcc-O2": ("build/release", []),
    "gcc-O0": ("build/digest-gcc-O0", [DEBUG, FLAGS + "-O0 -g1"]),
    "clang-O2": ("build/digest-clang-O2", ["-DCMAKE_CXX_COMPILER=clang++-16"]),
    "asan": (
        "build/digest-asan",
        [
            DEBUG,
            FLAGS + "-O1 -g1",
            "-DLOCKSTEP_DEBUG_CHECKS=ON",
            "-DLOCKSTEP_SANITIZE=address,undefined",
        ],
    ),
}


def build(name, jobs):
    directory, options = BUILDS[name]
    launcher = (
        ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
        if subprocess.run(["which", "ccache"], capture_output=True).returncode == 0
        else []
    )
    subprocess.run(
        ["cmake", "-S", ".", "-B", directory, "-G", "Ninja", *launcher, *options],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    subprocess.run(
        ["cmake", "--build", directory, "-j", str(jobs), "--target", "lockstep-sim"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return ROOT / directory / "bin/lockstep-sim"


def digests(program, first, seeds, jobs, rest):
    """{seed: digest} as that binary has them."""
    command = [
        program,
        "--digest",
        "--seed",
        first,
        "--seeds",
        seeds,
        "--jobs",
        jobs,
        "--no-shrink",
        *rest,
    ]
    env = dict(os.environ, ASAN_OPTIONS="detect_leaks=0")
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True, env=env)
    if done.returncode != 0:
        sys.exit(f"{program}: a seed failed\n{done.stdout}")
    return {
        int(seed): digest
        for seed, digest in re.findall(r"^seed (\d+) digest ([0-9a-f]+)$", done.stdout, re.M)
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("builds", nargs="*", help=f"which; default all: {' '.join(BUILDS)}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--crash-points",
        type=int,
        default=0,
        help="recoveries besides: they have no digest, but failures show",
    )
    parser.add_argument("--no-build", action="store_true", help="take the binaries as they are")
    args = parser.parse_args()
    names = args.builds or list(BUILDS)
    if unknown := set(names) - set(BUILDS):
        parser.error(f"no such build: {' '.join(sorted(unknown))}")
    seen = {}
    for name in names:
        program = (
            ROOT / BUILDS[name][0] / "bin/lockstep-sim" if args.no_build else build(name, args.jobs)
        )
        seen[name] = digests(
            program, args.seed, args.seeds, args.jobs, ["--crash-points", args.crash_points]
        )
        print(f"{name}: {len(seen[name])} seeds", flush=True)
    seeds = range(args.seed, args.seed + args.seeds)
    different = [
        s
        for s in seeds
        if len({seen[n].get(s) for n in names}) != 1 or seen[names[0]].get(s) is None
    ]
    for s in different[:20]:
        print(f"seed {s}: " + ", ".join(f"{n} {seen[n].get(s)}" for n in names))
    print(f"{len(different)} of {args.seeds} seeds have different digests under {', '.join(names)}")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
