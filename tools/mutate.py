#!/usr/bin/env python3
"""mutate.py - makes mutants of txn/ and sm/ by rule and tells which ones the tests do not notice.

All mutants of a sample are compiled into one copy of the tree, in DIR/tree (--resume DIR, default
build/mutate). A run that was stopped goes on when it is called again with the same DIR.
DIR/result.json has every mutant and what caught it. tools/mutate_equivalent.txt lists mutants that
no test can notice, each with its reason. Sources of the project are never touched. The exit status
is 1 if more than --survivors percent survive, equivalent ones apart."""

import argparse
import datetime
import fnmatch
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

from mutation.hunt import Hunt
from mutation.relink import Relink
from mutation.sites import Mutant, find, overlap
from mutation.tree import NUMBERS, Tree, digest_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
EQUIVALENT = ROOT / "tools/mutate_equivalent.txt"
# They describe, count or check, or are the C interface's shape of the same calls.
LEFT_OUT = (
    "*stats*",
    "*metrics*",
    "*_text.*",
    "*_json.*",
    "*verify*",
    "sm/c/*",
    "*/include/*",
    "*/debugger*",
)


def sources(patterns, headers):
    ends = {".cc", ".h"} if headers else {".cc"}
    for layer in ("txn", "sm"):
        for path in sorted((ROOT / layer).rglob("*")):
            name = str(path.relative_to(ROOT))
            if path.suffix not in ends or any(fnmatch.fnmatch(name, p) for p in LEFT_OUT):
                continue
            if not patterns or any(fnmatch.fnmatch(name, p) for p in patterns):
                yield name


def equivalents(path=EQUIVALENT):
    """{(file, function, before, after): reason}. `before` may end with ` @ ` and the line that it
    stands in, where the function has the same change more than once."""
    known = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split(" | ")]
        if len(parts) != 5 or not parts[4]:
            sys.exit(f"mutate: {path.name}: not file | function | before | after | reason: {line}")
        known[tuple(parts[:4])] = parts[4]
    return known


def draw(mutants, sample, seed):
    """A random sample without overlaps, numbered from 1."""
    order = list(mutants)
    random.Random(seed).shuffle(order)
    chosen, by_file = [], {}
    for mutant in order:
        if len(chosen) == min(sample, NUMBERS - 1):
            break
        if any(overlap(mutant, other) for other in by_file.get(mutant.file, ())):
            continue
        chosen.append(mutant)
        by_file.setdefault(mutant.file, []).append(mutant)
        mutant.number = len(chosen)
    return chosen


def commit():
    """The short name of the commit; empty without git."""
    if shutil.which("git") is None:
        return ""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


class Run:
    """A sample, its state in a directory, and its results."""

    def __init__(self, args):
        self.args = args
        self.place = pathlib.Path(args.resume).resolve()
        self.file = self.place / "result.json"
        if args.build:
            build = pathlib.Path(args.build).resolve()
            self.tree = Relink(ROOT, self.place / "tree", build, args.jobs, args.programs)
        else:
            self.tree = Tree(ROOT, self.place / "tree", args.jobs, args.programs)
        self.known = equivalents()
        self.state = {}

    def say(self, text):
        print(text, flush=True)

    def save(self):
        temporary = self.file.with_suffix(".new")
        temporary.write_text(json.dumps(self.state, indent=1))
        os.replace(temporary, self.file)

    def begin(self):
        """Draws and builds a sample, or takes up the one of the directory."""
        args = self.args
        digest = digest_of([ROOT / name for name in self.tree.sources()])
        if self.file.exists():
            self.state = json.loads(self.file.read_text())
            if self.state["digest"] != digest and not args.keep_tree:
                sys.exit(
                    f"mutate: the sources are not those of {self.place}; remove it, or name"
                    " another directory with --resume"
                )
            self.say(f"goes on with seed {self.state['seed']}, commit {self.state['commit']}")
            return
        found = []
        for name in sources(args.files, not args.no_headers and not args.build):
            found += find(name, (ROOT / name).read_text())
        chosen = draw(found, args.sample, args.seed)
        self.place.mkdir(parents=True, exist_ok=True)
        self.say(f"{len(chosen)} of {len(found)} mutants, seed {args.seed}")
        began = time.monotonic()
        built = self.tree.make(chosen, self.say)
        left = {m.number for m in built}
        self.state = {
            "seed": args.seed,
            "commit": commit(),
            "digest": digest,
            "sites": len(found),
            "build_seconds": round(time.monotonic() - began),
            "mutants": [m.record() for m in chosen],
            "results": {
                str(m.number): {"status": "does not compile", "by": "", "why": "", "seconds": 0}
                for m in chosen
                if m.number not in left
            },
        }
        self.save()
        self.say(f"built {len(built)} mutants in {self.state['build_seconds']} s")

    def hunt(self):
        args = self.args
        binaries = self.tree.build_place / "bin"
        built = [name for name in self.tree.targets() if (binaries / name).exists()]
        hunt = Hunt(binaries, built, args.limit, args.budget)
        if "first_run" in self.state:
            hunt.restore(self.state["first_run"])
        else:
            hunt.first_run(args.jobs)
            self.state["first_run"] = hunt.state()
            self.save()
        for name, why in hunt.left_out.items():
            self.say(f"left out: {name} fails without a mutant ({why})")
        results = self.state["results"]
        mutants = [Mutant(**record) for record in self.state["mutants"]]
        due = [m for m in mutants if str(m.number) not in results]

        def told(mutant, result):
            results[str(mutant.number)] = result
            self.save()
            caught = result["status"] == "caught"
            what = f"{result['by']}: {result['why']}" if caught else change(mutant)
            self.say(f"{result['status']:11} {mutant.file}:{mutant.line} {mutant.kind}: {what}")

        until = time.monotonic() + args.minutes * 60 if args.minutes else float("inf")
        hunt.hunt_all(due, args.jobs, told, until)
        return mutants

    def report(self, mutants):
        """Prints survivors by file and the totals; the percentage that survives."""
        results, known = self.state["results"], set(self.known)
        done = [m for m in mutants if str(m.number) in results]
        of = {}
        for mutant in done:
            status = results[str(mutant.number)]["status"]
            if status in ("survived", "not reached") and known & set(mutant.keys()):
                status = "equivalent"
            of.setdefault(status, []).append(mutant)
        survivors = of.get("survived", []) + of.get("not reached", [])
        for mutant in sorted(survivors, key=lambda m: (m.file, m.line)):
            status = results[str(mutant.number)]["status"]
            self.say(f"{mutant.file}:{mutant.line}: {mutant.function}: {status}: {change(mutant)}")
        judged = len(survivors) + len(of.get("caught", []))
        percent = 100 * len(survivors) / judged if judged else 0.0
        counts = ", ".join(f"{len(of[name])} {name}" for name in sorted(of))
        self.state["percent_surviving"] = round(percent, 1)
        self.save()
        self.say(f"{len(done)} of {len(mutants)}: {counts}; {percent:.1f}% survive")
        return percent


def change(mutant):
    return f"{mutant.before}  ->  {mutant.after or '(nothing)'}"


def main():
    year, week, _ = datetime.date.today().isocalendar()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sample", type=int, default=100, help="number of mutants (default: 100)")
    parser.add_argument(
        "--seed", type=int, default=year * 100 + week, help="default: year and number of the week"
    )
    parser.add_argument("--files", nargs="*", help="patterns such as 'txn/log/*'")
    parser.add_argument(
        "--programs", nargs="*", default=(), help="patterns of the programs to build and to run"
    )
    parser.add_argument("--no-headers", action="store_true", help="sources only: builds faster")
    parser.add_argument(
        "--build",
        metavar="DIR",
        help="a finished build: only sources of the sample are compiled; headers have no mutants",
    )
    parser.add_argument("--resume", default=str(ROOT / "build/mutate"), metavar="DIR")
    parser.add_argument(
        "--keep-tree", action="store_true", help="go on although the sources have changed since"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=300, help="seconds for one program")
    parser.add_argument("--budget", type=float, default=120, help="seconds for one mutant")
    parser.add_argument("--minutes", type=float, help="stop the hunt after this time")
    parser.add_argument("--survivors", type=float, default=5, help="percent that may survive")
    parser.add_argument("--list", action="store_true", help="print all mutants and stop")
    args = parser.parse_args()
    if args.list:
        for name in sources(args.files, not args.no_headers):
            for mutant in find(name, (ROOT / name).read_text()):
                print(f"{name}:{mutant.line}: {mutant.function}: {mutant.kind}: {change(mutant)}")
        return 0
    run = Run(args)
    run.begin()
    return 1 if run.report(run.hunt()) > args.survivors else 0


if __name__ == "__main__":
    sys.exit(main())
