#!/usr/bin/env python3
"""coherence - counts the cache lines that move between workers, per transaction and structure.

Usage: ./tools/run coherence [--workers 2,4,8,16] [--mix mix|payment|new-order] [options]

Runs build/coherence/bin/lockstep-coherence once for each number of workers, and prints a table. A
transfer is a miss in a private cache because another worker wrote the line, or a write to a line
that others hold, too. --lines N adds the N lines of source with most transfers. --json keeps what
was counted, --picture draws it. --check compares with the bounds in bounds.json and fails if a
structure moves more lines than its bound. --lower writes bounds a quarter above what was counted,
where that is less: no bound is ever raised."""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from picture import stacked_bars

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAM = ROOT / "build/coherence/bin/lockstep-coherence"
BOUNDS = HERE / "bounds.json"
# What no bound names may move so many lines in a transaction. A new shared line moves more.
UNNAMED = 0.5
# Two runs differ by a twentieth, small structures by more.
FACTOR, MORE = 1.25, 0.3


def count(program: pathlib.Path, workers: int, options: argparse.Namespace) -> dict:
    """What the program counted with so many workers."""
    with tempfile.TemporaryDirectory(dir=options.directory, prefix="coherence-") as place:
        command = [program, pathlib.Path(place) / "store", "--workers", workers, "--mix",
                   options.mix, "--transactions", options.transactions, "--seed", options.seed,
                   "--terminals", options.terminals]
        command += ["--durable"] if options.durable else []
        ran = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                             check=False)
    if ran.returncode != 0:
        sys.exit(f"coherence: {program.name} ended with {ran.returncode}: {ran.stderr.strip()}")
    return json.loads(ran.stdout)


def name_of(row: dict) -> str:
    """The structure and its field; pages apart by first line and rest."""
    if row["field"]:
        return f"{row['structure']}: {row['field']}"
    if row["structure"] == "page":
        return "page, the rest" if row["offset"] else "page, first line"
    return row["structure"]


def by_name(counted: dict, name=name_of) -> dict[str, dict[str, float]]:
    """Transfers of a transaction: `all`, and of them `false` sharing and `prefetch`ed."""
    sums: dict = collections.defaultdict(lambda: {"all": 0.0, "false": 0.0, "prefetch": 0.0})
    for row in counted["rows"]:
        into = sums[name(row)]
        into["all"] += (row["read"] + row["write"] + row["upgrade"]) / counted["transactions"]
        into["false"] += row["false"] / counted["transactions"]
        into["prefetch"] += row["prefetch"] / counted["transactions"]
    return dict(sums)


def summary(counted: dict) -> dict:
    """What is kept of a run: no lines of source."""
    left_out = ("rows", "lines", "load_address")
    kept = {key: value for key, value in counted.items() if key not in left_out}
    kept["lines"] = [
        {"name": ": ".join(filter(None, (line["structure"], line["field"]))),
         "all": round(line["transfers"] / counted["transactions"], 3)}
        for line in counted["lines"]
    ]
    kept["transfers"] = {
        name: {key: round(value, 3) for key, value in sums.items()}
        for name, sums in sorted(by_name(counted).items())
        if sums["all"] >= 0.005
    }
    return kept


def table(runs: list[dict]) -> str:
    """A table in Markdown: a row for each structure, a column for each number of workers."""
    names = sorted({name for run in runs for name in run["transfers"]},
                   key=lambda name: -runs[-1]["transfers"].get(name, {"all": 0})["all"])
    lines = ["| structure | " + " | ".join(f"{run['workers']} workers" for run in runs) +
             " | false |", "|---|" + "---|" * (len(runs) + 1)]
    rest = [0.0] * len(runs)
    for name in names:
        found = [run["transfers"].get(name, {"all": 0.0, "false": 0.0}) for run in runs]
        if max(sums["all"] for sums in found) < 0.1:
            rest = [a + b["all"] for a, b in zip(rest, found, strict=True)]
            continue
        share = 100 * found[-1]["false"] / found[-1]["all"] if found[-1]["all"] else 0
        lines.append(f"| {name} | " + " | ".join(f"{sums['all']:.1f}" for sums in found) +
                     f" | {share:.0f}% |")
    lines.append("| less than 0.1 each | " + " | ".join(f"{value:.1f}" for value in rest) + " | |")
    sums = [sum(s["all"] for s in run["transfers"].values()) for run in runs]
    lines.append("| **sum** | " + " | ".join(f"**{value:.1f}**" for value in sums) + " | |")
    return "\n".join(lines)


def source_lines(counted: dict, program: pathlib.Path, most: int) -> str:
    """The lines of source with most transfers, each with the function around it."""
    base = counted["load_address"]
    places = sorted({row["pc"] - 1 - base for row in counted["rows"]})
    out = subprocess.run(["addr2line", "-a", "-i", "-f", "-C", "-e", str(program),
                          *(f"{place:x}" for place in places)],
                         capture_output=True, text=True, check=True).stdout.splitlines()
    where: dict[int, str] = {}
    place, chain = 0, []
    for line in [*out, "0x0"]:
        if line.startswith("0x"):
            ours = [at for at in chain[1::2] if not re.search(r"/c\+\+/|^\?\?", at)]
            inner = re.sub(r" \(.*|.*/(?=(?:threads|txn|sm|tpcc)/)", "", ours[0]) if ours else "?"
            outer = re.sub(r"\(.*|lockstep::", "", chain[-2]) if chain else "?"
            where[place] = f"{inner} in {outer}"
            place, chain = int(line, 16), []
        else:
            chain.append(line)
    sums = by_name(counted, lambda row: (f"{name_of(row)} {row['object']}".strip() + " at " +
                                         where.get(row["pc"] - 1 - base, "?")))
    ranked = sorted(sums.items(), key=lambda item: -item[1]["all"])[:most]
    return "\n".join(f"{value['all']:8.2f}  {name}" for name, value in ranked)


def key_of(run: dict) -> str:
    return f"{run['mix']}, {run['workers']} workers"


def offences(runs: list[dict], bounds: dict) -> list[str]:
    """Structures that move more lines than their bounds, and runs without bounds."""
    found = [f"no bounds for '{key_of(run)}'" for run in runs if key_of(run) not in bounds]
    for run in runs:
        for name, sums in run["transfers"].items():
            bound = bounds.get(key_of(run), {}).get(name, UNNAMED)
            if sums["all"] > bound:
                found.append(f"{run['workers']} workers: '{name}' moves {sums['all']:.2f} lines a "
                             f"transaction; its bound is {bound:.2f}")
    return found


def lower(runs: list[dict], bounds: dict) -> dict:
    """The bounds, lowered to what was counted and a margin. A run of a new kind gets its first."""
    for run in runs:
        wanted = {name: round(sums["all"] * FACTOR + MORE, 2)
                  for name, sums in run["transfers"].items()}
        known = bounds.get(key_of(run), wanted)
        lowered = {name: min(bound, wanted.get(name, 0)) for name, bound in known.items()}
        bounds[key_of(run)] = {name: bound for name, bound in sorted(lowered.items())
                               if bound > UNNAMED}
    return bounds


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="2,4,8,16", help="numbers, separated by commas")
    parser.add_argument("--mix", default="mix", choices=["mix", "payment", "new-order"])
    parser.add_argument("--transactions", type=int, default=400, help="counted, of each worker")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--terminals", type=int, default=1, help="of each warehouse")
    parser.add_argument("--durable", action="store_true", help="commits wait for the log")
    parser.add_argument("--directory", help="where the stores are made; default: as tempfile")
    parser.add_argument("--program", type=pathlib.Path, default=PROGRAM)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--picture", type=pathlib.Path)
    parser.add_argument("--lines", type=int, default=0)
    parser.add_argument("--bounds", type=pathlib.Path, default=BOUNDS)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--lower", action="store_true")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    runs = []
    for workers in (int(word) for word in options.workers.split(",")):
        counted = count(options.program, workers, options)
        runs.append(summary(counted))
        if options.lines:
            print(f"{workers} workers, transfers a transaction by line of source:")
            print(source_lines(counted, options.program, options.lines))
    print(table(runs))
    for run in runs:
        print(f"{run['workers']} workers: {run['transactions']} transactions, "
              f"{run['log_bytes'] / run['transactions']:.0f} bytes of log, "
              f"{run['locked_operations'] / run['transactions']:.0f} locked operations and "
              f"{run['lock_waits'] / run['transactions']:.3f} lock waits each")
    if options.json:
        options.json.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    if options.picture:
        options.picture.write_text(stacked_bars(runs), encoding="utf-8")
    bounds = json.loads(options.bounds.read_text()) if options.bounds.exists() else {}
    if options.lower:
        options.bounds.write_text(json.dumps(lower(runs, bounds), indent=1) + "\n")
    found = offences(runs, bounds) if options.check else []
    for offence in found:
        print(f"coherence: {offence}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
