#!/usr/bin/env python3
"""compare - measures this checkout against another revision on one machine at one time.

Usage: ./tools/run compare REV [options] [-- driver options]

Builds REV in build/compare and this checkout in build/release. Then both TPC-C drivers run in turn,
in the order A B B A (A: REV, B: this checkout), each on a database of its own. A pair is the sum of
two runs of each. The result is the median of the pairs' ratios of transactions a second, with
quartiles. With --instructions both benchmark programs count instructions instead. Counts are
exact, so one run of each is enough.

Options after -- go to both drivers, for example: -- --txn payment -w 30 --steps on. An option that
the driver of one side does not know is left out there, and a line says so. --a and --b give options
to one side only, for example --a "--steps off" --b "--steps on"."""

import argparse
import json
import pathlib
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def fail(text: str) -> None:
    sys.exit(f"compare: {text}")


def call(*words: object, **more) -> subprocess.CompletedProcess:
    return subprocess.run([str(w) for w in words], check=True, **more)


def commit_of(revision: str) -> str:
    found = subprocess.run(["git", "rev-parse", "--verify", "-q", revision + "^{commit}"],
                           cwd=ROOT, capture_output=True, text=True)
    if found.returncode != 0:
        fail(f"'{revision}' names no commit of this repository; git log lists them")
    return found.stdout.strip()


def build(commit: str) -> pathlib.Path:
    """The folder of the other revision's programs, built if they are not there yet."""
    folder = ROOT / "build" / "compare" / commit[:12]
    source = folder / "source"
    if not source.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        archive = call("git", "archive", "--format=tar", commit, cwd=ROOT, capture_output=True)
        source.mkdir()
        call("tar", "-x", "-C", source, input=archive.stdout)
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    call("cmake", "-S", source, "-B", folder / "build", "-G", "Ninja", "-DLOCKSTEP_TESTS=OFF",
         *launcher, stdout=subprocess.DEVNULL)
    call("cmake", "--build", folder / "build", "--target", "lockstep-tpcc", "lockstep-bench",
         stdout=sys.stderr)
    return folder / "build" / "bin"


def known_options(program: pathlib.Path, options: list[str], side: str) -> list[str]:
    """The options with their values, without those that the program's --help does not name."""
    text = subprocess.run([str(program), "--help"], capture_output=True, text=True).stdout
    names = set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", text))
    kept, left_out, keep = [], [], True
    for word in options:
        if re.match(r"--?[A-Za-z]", word):
            name = word.split("=")[0]
            keep = name in names or (not name.startswith("--") and name[:2] in names)
            if not keep:
                left_out.append(name)
        if keep:
            kept.append(word)
    if left_out:
        print(f"{side} does not know {' '.join(left_out)}: left out there", flush=True)
    return kept


def rate(program: pathlib.Path, options: list[str], scratch: pathlib.Path) -> float:
    """Transactions a second of one run of the driver on a new database."""
    result = scratch / "result.json"
    result.unlink(missing_ok=True)
    words = [str(program), *options, "--json", str(result)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0 or not result.exists():
        fail(f"{shlex.join(words)} ended with status {done.returncode}: "
             f"{(done.stderr or done.stdout).strip()[-400:]}")
    return float(json.loads(result.read_text())["tx_per_s"])


def quartiles(values: list[float]) -> tuple[float, float, float]:
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def compare_rates(a: pathlib.Path, b: pathlib.Path, args: argparse.Namespace) -> dict:
    options_a = known_options(a / "lockstep-tpcc", args.options, args.revision)
    options_a += shlex.split(args.a)
    options_b = known_options(b / "lockstep-tpcc", args.options, "this checkout")
    options_b += shlex.split(args.b)
    rows = []
    with tempfile.TemporaryDirectory(prefix="lockstep-compare-") as scratch:
        folder = pathlib.Path(scratch)
        one = lambda: rate(a / "lockstep-tpcc", options_a, folder)
        other = lambda: rate(b / "lockstep-tpcc", options_b, folder)
        for number in range(args.pairs):
            runs = [one(), other(), other(), one()]
            rows.append({"a": runs[0] + runs[3], "b": runs[1] + runs[2],
                         "ratio": (runs[1] + runs[2]) / (runs[0] + runs[3]), "runs": runs})
            print(f"pair {number + 1:2}: {rows[-1]['a'] / 2:10.0f} {rows[-1]['b'] / 2:10.0f} tx/s"
                  f"   ratio {rows[-1]['ratio']:.3f}", flush=True)
    low, middle, high = quartiles([row["ratio"] for row in rows])
    spread = f"quartiles {low:.3f} .. {high:.3f}" if len(rows) > 1 else "no quartiles"
    print(f"ratio of this checkout to {args.revision}: median {middle:.3f}, {spread}, "
          f"pairs A B B A: {len(rows)}")
    return {"pairs": rows, "median": middle, "quartiles": [low, high]}


def instruction_counts(program: pathlib.Path, warehouses: int, scratch: pathlib.Path) -> dict:
    result = scratch / "counts.json"
    call(program / "lockstep-bench", "instructions", "--warehouses", warehouses, "--json", result,
         stdout=subprocess.DEVNULL)
    return counts_of(json.loads(result.read_text()))


def counts_of(report: dict) -> dict:
    """Value by name. Rows that are indented belong to the row above. Names are today's."""
    names, what = {}, ""
    for row in report.get("measurements") or report["figures"]:  # figures: before 2026-11-23
        what = what if row["name"].startswith(" ") else row["name"].replace("delete", "erase")
        inner = row["name"].startswith(" ")
        names[f"{what},{row['name'].strip(' ')}" if inner else what] = row["value"]
    return names


def print_counts(one: dict, other: dict, revision: str) -> None:
    common = [name for name in one if name in other]
    if not common:
        fail(f"the reports of {revision} and of this checkout have no name in common")
    for name in common:
        ratio = f"{other[name] / one[name]:.3f}" if one[name] else "-"
        print(f"{name:52} {one[name]:12.0f} {other[name]:12.0f}   {ratio}")
    for name in sorted(one.keys() ^ other.keys()):
        print(f"{name:52} only {revision if name in one else 'here'}")


def compare_instructions(a: pathlib.Path, b: pathlib.Path, args: argparse.Namespace) -> dict:
    with tempfile.TemporaryDirectory(prefix="lockstep-compare-") as scratch:
        one = instruction_counts(a, args.warehouses, pathlib.Path(scratch))
        other = instruction_counts(b, args.warehouses, pathlib.Path(scratch))
    print(f"{'':52} {args.revision[:12]:>12} {'here':>12}   ratio")
    print_counts(one, other, args.revision)
    return {"a": one, "b": other}


def parse(words: list[str]) -> argparse.Namespace:
    """The arguments. Those of the drivers stand behind the first `--`, in `options`."""
    end = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__,
                                     usage="compare REV [options] [-- driver options]",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", metavar="REV", help="commit, branch or tag to compare with")
    parser.add_argument("--pairs", type=int, default=12, help="pairs A B B A (default 12)")
    parser.add_argument("--a", default="", help="driver options of REV only")
    parser.add_argument("--b", default="", help="driver options of this checkout only")
    parser.add_argument("--instructions", action="store_true",
                        help="compare exact instruction counts (valgrind) instead of rates")
    parser.add_argument("--warehouses", type=int, default=10, help="with --instructions")
    parser.add_argument("--json", help="write the results to this file")
    args = parser.parse_args(words[:end])
    if args.pairs < 1:
        fail("--pairs must be at least 1")
    args.options = words[end + 1:]
    return args


def main() -> None:
    args = parse(sys.argv[1:])
    commit = commit_of(args.revision)
    other = build(commit)
    here = ROOT / "build" / "release" / "bin"
    begin = time.time()
    result = (compare_instructions if args.instructions else compare_rates)(other, here, args)
    result |= {"revision": commit, "here": commit_of("HEAD"), "options": args.options,
               "a_options": args.a, "b_options": args.b, "seconds": round(time.time() - begin)}
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
