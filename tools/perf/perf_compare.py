#!/usr/bin/env python3
"""perf_compare - the TPC-C driver with STEPS off and on under linux-perf, in turn.

Usage: ./tools/run perf-compare [options] [-- driver options]

Loads a database once. Then the driver runs in the order off on on off under `perf stat`, with N and
with 3N transactions. Each run makes the database larger, so each audit takes longer than the one
before. What `--check-only` counts afterwards, which opens the database and audits it, is therefore
subtracted from each run. The difference of both runs is then that of 2N transactions alone. The
table has events for each transaction, the median of the pairs' ratios, and its quartiles. --out DIR
also records both modes with `perf record` and draws a flame graph of each.

Where the machine has no hardware counters, as many virtual ones, only software events are counted.
They say nothing about caches, and the output says so.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import flame

HARDWARE = (
    "cycles:u",
    "instructions:u",
    "L1-icache-load-misses:u",
    "L1-dcache-load-misses:u",
    "branch-misses:u",
)
SOFTWARE = ("task-clock", "context-switches", "page-faults")
STORE_OPTIONS = ("--io", "--log-size", "--pool", "--workers")


class Failed(Exception):
    pass


def run(words: list, expect_json: pathlib.Path | None = None) -> str:
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, words))} ended with status {done.returncode}: "
                     f"{(done.stderr or done.stdout).strip()[-400:]}")
    if expect_json is not None and not expect_json.exists():
        raise Failed(f"{words[0]} wrote no {expect_json}")
    return done.stdout


def parse_stat(text: str) -> dict[str, float | None]:
    """Events of `perf stat -x ';'`, scaled by perf for multiplexing. None: not counted, which is
    not zero."""
    counts: dict[str, float | None] = {}
    for line in text.splitlines():
        fields = line.split(";")
        if len(fields) < 3 or line.startswith("#"):
            continue
        value = fields[0].strip()
        counts[fields[2]] = None if value.startswith("<") else float(value)
    return counts


class Perf:
    def __init__(self, perf: str, driver: str, options: argparse.Namespace,
                 folder: pathlib.Path) -> None:
        self.perf, self.driver, self.options, self.folder = perf, driver, options, folder
        self.events = self.usable_events()

    def stat(self, events: tuple, words: list) -> dict[str, float | None]:
        out = self.folder / "stat.txt"
        run([self.perf, "stat", "-x", ";", "-o", out, "-e", ",".join(events), "--", *words])
        return parse_stat(out.read_text())

    def usable_events(self) -> tuple:
        counts = self.stat(HARDWARE, ["true"])
        usable = tuple(e for e in HARDWARE if counts.get(e) is not None)
        return usable + SOFTWARE

    def has_counters(self) -> bool:
        return self.events != SOFTWARE

    def words(self, mode: str, transactions: int) -> list:
        return [self.driver, "--path", self.folder / "db", "--transactions", transactions,
                "--steps", mode, *self.options.driver_options]

    def load(self) -> None:
        run([*self.words("off", 1000), "-w", self.options.warehouses])

    def without_audit(self, mode: str, transactions: int) -> dict[str, float]:
        """Events of a run, less those of opening the same database and of its audit."""
        ran = self.stat(self.events, self.words(mode, transactions))
        checked = self.stat(self.events, [self.driver, "--path", self.folder / "db", "--check-only",
                                          *self.store_options()])
        return {e: ran[e] - checked[e] for e in self.events
                if ran.get(e) is not None and checked.get(e) is not None}

    def store_options(self) -> list[str]:
        """Those of the driver's options that say how the database is opened."""
        kept, keep = [], False
        for word in self.options.driver_options:
            if word.startswith("-"):
                keep = word.split("=")[0] in STORE_OPTIONS
            if keep:
                kept.append(word)
        return kept

    def each(self, mode: str) -> dict[str, float]:
        """Events of one transaction."""
        n = self.options.transactions
        few, many = (self.without_audit(mode, k * n) for k in (1, 3))
        return {e: (many[e] - few[e]) / (2 * n) for e in self.events if e in few and e in many}

    def flame(self, mode: str, out: pathlib.Path) -> pathlib.Path:
        data = self.folder / f"{mode}.data"
        event = "cycles:u" if self.has_counters() else "cpu-clock"
        run([self.perf, "record", "-q", "-F", 499, "-g", "-e", event, "-o", data, "--",
             *self.words(mode, 3 * self.options.transactions)])
        text = run([self.perf, "script", "-i", data])
        picture = out / f"flame-{mode}.svg"
        picture.write_text(flame.svg(flame.stacks(text.splitlines())))
        return picture


def quartiles(values: list[float]) -> tuple[float, float, float]:
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def table(rounds: list[dict]) -> list[dict]:
    rows = []
    for event in rounds[0]["off"]:
        pairs = [(r["off"][event], r["on"][event]) for r in rounds
                 if event in r["off"] and event in r["on"]]
        off = statistics.median(p[0] for p in pairs)
        row = {"event": event, "off": off, "on": statistics.median(p[1] for p in pairs)}
        ratios = [p[1] / p[0] for p in pairs if p[0] > 0]
        if ratios:
            row["low"], row["ratio"], row["high"] = quartiles(ratios)
        rows.append(row)
    return rows


def number(value: float) -> str:
    return f"{value:14.4f}" if abs(value) < 1 else f"{value:14.2f}"


def show(rows: list[dict], mode: str, pairs: int) -> None:
    print(f"{'per transaction':26}{'off':>14}{mode:>14}{'ratio':>9}   quartiles")
    for row in rows:
        ratio = f"{row['ratio']:9.3f}" if "ratio" in row else "        -"
        if "ratio" in row:
            quarters = f"{row['low']:.3f} .. {row['high']:.3f}"
            ratio += "   " + (quarters if pairs > 1 else "none: one pair")
        # perf counts milliseconds, of which a transaction takes hundredths.
        name, factor = row["event"], 1
        if name == "task-clock":
            name, factor = "task-clock, us", 1000
        print(f"{name:26}{number(factor * row['off'])}{number(factor * row['on'])}{ratio}")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--mode", default="on", help="the --steps mode compared with off")
    parser.add_argument("--pairs", type=int, default=4, help="rounds of off and on")
    parser.add_argument("--transactions", type=int, default=20000, help="N")
    parser.add_argument("-w", "--warehouses", type=int, default=4)
    parser.add_argument("--out", type=pathlib.Path, help="flame graphs and result.json go here")
    parser.add_argument("driver_options", nargs="*", help="behind --")
    options = parser.parse_args()
    if options.pairs < 1 or options.transactions < 1:
        parser.error("--pairs and --transactions must be at least 1")
    return options


def compare(perf: Perf, options: argparse.Namespace) -> None:
    perf.load()
    if not perf.has_counters():
        print("This machine offers no hardware counters (is it a virtual one?), so only software "
              "events follow. They say nothing about caches and branches.")
    rounds = []
    for number in range(options.pairs):
        order = ("off", options.mode) if number % 2 == 0 else (options.mode, "off")
        found = {mode: perf.each(mode) for mode in order}
        rounds.append({"off": found["off"], "on": found[options.mode]})
        print(f"pair {number + 1} of {options.pairs}", file=sys.stderr, flush=True)
    rows = table(rounds)
    show(rows, options.mode, options.pairs)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        result = {"mode": options.mode, "counters": perf.has_counters(), "rounds": rounds,
                  "table": rows, "command": sys.argv}
        (options.out / "result.json").write_text(json.dumps(result, indent=1) + "\n")
        for mode in ("off", options.mode):
            print(perf.flame(mode, options.out))


def main() -> int:
    options = parse_options()
    perf = shutil.which("perf")
    if not perf:
        print("perf-compare: perf is missing; install it (Debian: apt-get install linux-perf)",
              file=sys.stderr)
        return 3
    try:
        with tempfile.TemporaryDirectory(prefix="lockstep-perf-") as folder:
            compare(Perf(perf, options.driver, options, pathlib.Path(folder)), options)
    except Failed as error:
        print(f"perf-compare: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
