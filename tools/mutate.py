#!/usr/bin/env python3
"""mutate.py - tells which mutants the tests do not notice: those that people made, and others by
rule.

NAME is a mutant made by hand, or a pattern of such names: the patches below tests/mutants. By rule,
--sample mutants of txn/ and sm/ are made, 100 if no NAME is given. All mutants of a run are
compiled into one copy of the tree, in DIR/tree (--resume DIR, default build/mutate). A run that was
stopped goes on when it is called again with the same DIR. DIR/result.json has every mutant and what
caught it. tools/mutate_equivalent.txt lists mutants that no test can notice, each with its reason.
Sources of the project are never touched. The exit status is 1 if more than 2 percent of the mutants
made by hand survive, or more than --survivors percent of those made by rule, equivalent ones
apart."""

import argparse
import collections
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

from mutation import patches
from mutation.conditions import conditional
from mutation.hunt import Hunt
from mutation.relink import Relink
from mutation.sites import Mutant, find, overlap
from mutation.tree import NUMBERS, Tree, digest_of, edits

ROOT = pathlib.Path(__file__).resolve().parent.parent
EQUIVALENT = ROOT / "tools/mutate_equivalent.txt"
HAND_SURVIVORS = 2  # percent
SURVIVORS = ("survived", "not reached")
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


def draw(mutants, sample, seed, beside=None, first=1):
    """A random sample without overlaps, numbered from `first`; of each condition as many.
    `beside`: {file: edits} that are there already."""
    order, kinds = list(mutants), collections.Counter()
    random.Random(seed).shuffle(order)
    turns = {}
    for mutant in order:
        condition = mutant.kind.partition(", ")[2]
        kinds[condition] += 1
        turns[id(mutant)] = kinds[condition]
    order.sort(key=lambda mutant: turns[id(mutant)])
    chosen, by_file = [], {file: list(found) for file, found in (beside or {}).items()}
    for mutant in order:
        if len(chosen) == min(sample, NUMBERS - first):
            break
        if any(overlap(mutant, other) for other in by_file.get(mutant.file, ())):
            continue
        by_file.setdefault(mutant.file, []).append(mutant)
        mutant.number = first + len(chosen)
        chosen.append(mutant)
    return chosen


def by_hand(names):
    """The mutants of patches that one of the patterns names, numbered from 1."""
    known, chosen = patches.read(ROOT), set()
    for name in names:
        matching = fnmatch.filter(known, name)
        if not matching:
            sys.exit(f"mutate: no patch below {patches.FOLDER} is called {name}")
        chosen.update(matching)
    found = []
    for number, name in enumerate(sorted(chosen), 1):
        patch = known[name]
        file, hunks = next(iter(patch.files.items()))
        line = hunks[0].line
        found.append(
            Mutant(file, line, line, "", f"{patch.area} by hand", 0, 0, name, patch.wrong, "",
                   number=number, name=name, program=patch.program)
        )  # fmt: skip
    return found


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
        self.by_hand = by_hand(args.names)
        if args.first_only and not args.programs:
            args.programs = sorted({m.program for m in self.by_hand})
        elif self.by_hand and not args.programs:
            args.programs = ("*",)
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
            if self.by_hand and [m.name for m in self.by_hand] != [
                m["name"] for m in self.state["mutants"] if m["name"]
            ]:
                sys.exit(f"mutate: {self.place} has other mutants; name another with --resume")
            self.tree.wanted = self.state["programs"]
            self.say(f"goes on with seed {self.state['seed']}, commit {self.state['commit']}")
            return
        found, chosen = [], self.by_hand
        if args.sample:
            for name in sources(args.files, not args.no_headers and not args.build):
                text = (ROOT / name).read_text()
                mutants = find(name, text)
                if args.conditional:
                    mutants = conditional(name, text, mutants, args.seed)
                found += mutants
            chosen = chosen + draw(
                found, args.sample, args.seed, edits(ROOT, chosen), len(chosen) + 1
            )
        self.place.mkdir(parents=True, exist_ok=True)
        self.say(
            f"{len(self.by_hand)} mutants made by hand, and {len(chosen) - len(self.by_hand)} of"
            f" {len(found)} by rule, seed {args.seed}"
        )
        began = time.monotonic()
        built = self.tree.make(chosen, self.say)
        left = {m.number for m in built}
        self.state = {
            "seed": args.seed,
            "commit": commit(),
            "digest": digest,
            "sites": len(found),
            "build_seconds": round(time.monotonic() - began),
            "programs": self.tree.wanted,
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
        built = self.tree.built()
        if missing := {m.program for m in self.by_hand} - set(built) if args.first_only else ():
            sys.exit(f"mutate: no such program in {binaries}: {', '.join(sorted(missing))}")
        hunt = Hunt(binaries, built, args.limit, args.budget, args.first_only)
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
            where = mutant.name or f"{mutant.file}:{mutant.line} {mutant.kind}"
            self.say(f"{result['status']:11} {where}: {what}")

        until = time.monotonic() + args.minutes * 60 if args.minutes else float("inf")
        hunt.hunt_all(due, args.jobs, told, until)
        return mutants

    def status(self, mutant):
        status = self.state["results"][str(mutant.number)]["status"]
        if status in ("survived", "not reached") and set(self.known) & set(mutant.keys()):
            return "equivalent"
        # By rule many are made that are no program. A person has seen that a patch compiles.
        if status == "does not compile" and mutant.name:
            return "survived"
        return status

    def report(self, mutants, made):
        """Prints survivors, the totals of each folder and of all; the percentage that survives."""
        if not mutants:
            return 0.0
        results = self.state["results"]
        done = [m for m in mutants if str(m.number) in results]
        of, folders = collections.Counter(), {}
        for mutant in sorted(done, key=lambda m: (m.file, m.line)):
            status = self.status(mutant)
            of[status] += 1
            folder = folders.setdefault(mutant.file.rpartition("/")[0], [0, 0])
            folder[0] += status == "caught"
            if status in SURVIVORS:
                folder[1] += 1
                what = f"{mutant.file}:{mutant.line}: {mutant.function}"
                self.say(f"{what}: {results[str(mutant.number)]['status']}: {change(mutant)}")
        for folder, (caught, survived) in sorted(folders.items()):
            self.say(f"{folder:20} {caught} caught, {survived} survive")
        survivors = sum(of[status] for status in SURVIVORS)
        judged = survivors + of["caught"]
        percent = 100 * survivors / judged if judged else 0.0
        counts = ", ".join(f"{of[name]} {name}" for name in sorted(of))
        named = sum(results[str(m.number)]["by"] == m.program for m in done if m.program)
        if named:
            counts += f", {named} by the program that the patch names"
        self.state[f"percent_surviving_{made}"] = round(percent, 1)
        self.save()
        self.say(
            f"by {made}: {len(done)} of {len(mutants)} mutants: {counts}; {percent:.1f}% survive"
        )
        return percent


def change(mutant):
    if mutant.name:
        return mutant.after
    return f"{mutant.before}  ->  {mutant.after or '(nothing)'}"


def main():
    year, week, _ = datetime.date.today().isocalendar()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants made by hand; '*': all")
    parser.add_argument(
        "--sample", type=int, help="number of mutants made by rule (default: 100, or 0 with NAME)"
    )
    parser.add_argument(
        "--seed", type=int, default=year * 100 + week, help="default: year and number of the week"
    )
    parser.add_argument(
        "--conditional",
        action="store_true",
        help="by rule: wrong only from the 2nd time on, in the last round, after a wait, ...",
    )
    parser.add_argument("--files", nargs="*", help="patterns such as 'txn/log/*'")
    parser.add_argument(
        "--programs", nargs="*", default=(), help="patterns of the programs to build and to run"
    )
    parser.add_argument(
        "--first-only", action="store_true", help="only the program named in each mutant's patch"
    )
    parser.add_argument("--no-headers", action="store_true", help="sources only: builds faster")
    parser.add_argument(
        "--build",
        metavar="DIR",
        help="a finished build: only sources with mutants are compiled; none by rule in headers",
    )
    parser.add_argument("--resume", default=str(ROOT / "build/mutate"), metavar="DIR")
    parser.add_argument(
        "--keep-tree", action="store_true", help="go on although the sources have changed since"
    )
    parser.add_argument("--build-only", action="store_true", help="hunt nothing")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=300, help="seconds for one program")
    parser.add_argument("--budget", type=float, default=120, help="seconds for one mutant")
    parser.add_argument("--minutes", type=float, help="stop the hunt after this time")
    parser.add_argument("--survivors", type=float, default=5, help="percent that may survive")
    parser.add_argument(
        "--renew", action="store_true", help="fit the patches to the changed sources, and stop"
    )
    parser.add_argument("--list", action="store_true", help="print all mutants and stop")
    args = parser.parse_args()
    if args.sample is None:
        args.sample = 0 if args.names else 100
    if args.renew:
        for line in patches.renew(ROOT):
            print(line)
        return 0
    if args.list:
        for patch in patches.read(ROOT).values():
            print(f"{patch.name}: {patch.program}: {patch.wrong}")
        for name in sources(args.files, not args.no_headers):
            for mutant in find(name, (ROOT / name).read_text()):
                print(f"{name}:{mutant.line}: {mutant.function}: {mutant.kind}: {change(mutant)}")
        return 0
    run = Run(args)
    run.begin()
    if args.build_only:
        return 0
    mutants = run.hunt()
    hand = run.report([m for m in mutants if m.name], "hand")
    rule = run.report([m for m in mutants if not m.name], "rule")
    return 1 if hand > HAND_SURVIVORS or rule > args.survivors else 0


if __name__ == "__main__":
    sys.exit(main())
