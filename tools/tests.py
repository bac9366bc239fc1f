#!/usr/bin/env python3
"""tests.py - builds and runs all tests, and tells what took how long.

Usage: tests.py [--all] [ctest options]. The parts stand in PARTS, with what each has caught in
tests/README.md. Some parts take turns by the number of the week; --all runs every part. A part that
fails does not keep the others from running.

A test that fails runs once more, alone. If it passes then, the end of the output names it as flaky;
if it fails again, the run has failed. The run also fails if a test of the release build needs more
than SECONDS_MAX twice, the second time alone, or if a test did not run that LOCKSTEP_MAY_SKIP does
not name."""

import dataclasses
import datetime
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable

from testing.report import Case, cases, slowest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
# One test must not hold up the others on a machine with two processors. A suite builds something
# and runs many tests of its own.
SECONDS_MAX = 60.0
SUITES = {"python", "cluster", "docs", "install", "packages", "peers", "icache_page"}
# The release build counts power cuts and failing allocations; a sanitizer looks at each place once.
FEW = {"LOCKSTEP_CRASH_SEEDS": "6", "LOCKSTEP_INJECTIONS": "80"}
# A sample of the mutants made by hand, from all layers. None is in a header of wide use: that would
# take minutes to compile.
BY_HAND = """waiter_left_queued semaphore_double_grant stray_not_unlinked ctx_with_latch
    conversion_at_the_end release_wakes_nobody intentions_not_materialised log_checksum_unread
    wrong_undo_next loser_kept checkpoint_begins_late live_not_listed separator_wrong
    checksum_unread stamp_ignored half_gap_unprotected scan_bound_unprotected fetch_unlocked
    commit_does_not_wait""".split()


def run(*command: str | pathlib.Path, **variables: str) -> bool:
    """Runs a command, with these environment variables as well; whether it has succeeded."""
    words = [str(word) for word in command]
    env = {**os.environ, **variables}
    return subprocess.run(words, cwd=ROOT, env=env, check=False).returncode == 0


def build(kind: str) -> bool:
    return run("tools/run", "build", kind)


class Tests:
    """Runs the parts and keeps what they tell."""

    def __init__(self, ctest: list[str]):
        self.ctest = ctest
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []
        self.flaky: list[str] = []
        self.cases: dict[str, list[Case]] = {}

    def part(self, name: str, does: Callable[[], bool]) -> bool:
        print(f"== {name}", flush=True)
        began = time.monotonic()
        passed = does()
        self.seconds[name] = time.monotonic() - began
        if not passed:
            self.failed.append(name)
            print(f"tests: {name}: FAILED; the other parts go on", flush=True)
        return passed

    def tests_of(self, kind: str, *options: str, within: str = "", **variables: str) -> bool:
        """The tests of a build, this one's or those within another. Those that fail run again, one
        at a time.
        """
        place = BUILD / (within or kind)
        command = ["ctest", "--test-dir", place, "--output-on-failure", *options, *self.ctest]
        report = BUILD / f"tests-{kind}.xml"
        run(*command, "--output-junit", report, **variables)
        if not report.exists():
            return False
        self.cases[kind] = cases(report)
        if kind == "release":
            self.run_slow_ones_alone(place)
        failed = [case.name for case in self.cases[kind] if case.failed]
        if not failed:
            return True
        print(f"tests: {len(failed)} of {kind} failed and run once more", flush=True)
        again = BUILD / f"tests-{kind}-again.xml"
        run("ctest", "--test-dir", place, "--rerun-failed", "--output-on-failure", "--output-junit",
            again, **variables)
        wrong = {case.name for case in cases(again) if case.failed} if again.exists() else failed
        self.flaky += [f"{name} ({kind})" for name in failed if name not in wrong]
        self.failed += [f"{name} ({kind})" for name in sorted(wrong)]
        return not wrong

    def run_slow_ones_alone(self, place: pathlib.Path) -> None:
        """A test may have waited for others, or for another user of the machine."""
        slow = [case.name for case in self.slow() if not case.failed]
        if not slow:
            return
        print(f"tests: {len(slow)} needed more than {SECONDS_MAX:.0f} s and run once more alone")
        report = BUILD / "tests-release-slow.xml"
        names = "|".join(re.escape(name) for name in slow)
        run("ctest", "--test-dir", place, "-R", f"^({names})$", "--output-junit", report)
        alone = {case.name: case for case in cases(report)} if report.exists() else {}
        self.cases["release"] = [
            min(case, alone.get(case.name, case), key=lambda one: (one.failed, one.seconds))
            for case in self.cases["release"]
        ]

    def slow(self) -> list[Case]:
        return [
            case
            for case in self.cases.get("release", [])
            if case.seconds > SECONDS_MAX and case.name not in SUITES
        ]

    def too_slow(self) -> list[str]:
        return [
            f"{case.name}: {case.seconds:.0f} s alone, more than {SECONDS_MAX:.0f} s"
            for case in self.slow()
        ]

    def summary(self) -> None:
        print("\n== Seconds")
        for name, seconds in self.seconds.items():
            print(f"{seconds:8.0f}  {name}")
        print(f"{sum(self.seconds.values()):8.0f}  in all")
        for kind, found in self.cases.items():
            print(f"\n== Slowest tests of {kind}")
            for case in slowest(found, 10):
                print(f"{case.seconds:8.1f}  {case.name}")
        for name in self.flaky:
            print(f"FLAKY: {name} failed, and passed when it ran again alone")
        for name in self.failed:
            print(f"FAILED: {name}")


@dataclasses.dataclass
class Part:
    name: str
    turn: int | None  # runs in weeks whose number modulo TURNS is this; None: always
    does: Callable[[Tests], bool]


TURNS = 4


def mutants_by_rule(_: Tests) -> bool:
    # Others each week. More survivors would mean that the tests do not run.
    place = BUILD / "mutate-sample"
    shutil.rmtree(place, ignore_errors=True)
    return run("tools/mutate.py", "--build", BUILD / "release", "--resume", place, "--sample", "20",
               "--budget", "20", "--survivors", "60")  # fmt: skip


def fuzzers(_: Tests) -> bool:
    # The same inputs each time, so that a change is not judged by luck: `tools/run fuzz` searches.
    shutil.rmtree(BUILD / "fuzz/corpus", ignore_errors=True)
    page = run("tools/run", "fuzz", "120", "page", "-seed=1", "-runs=400000", "-reload=0")
    return run("tools/run", "fuzz", "120", "log", "-seed=1", "-runs=8000", "-reload=0") and page


def mutants_by_hand(_: Tests) -> bool:
    place = BUILD / "mutate-by-hand"
    shutil.rmtree(place, ignore_errors=True)
    return run("tools/mutate.py", "--build", BUILD / "release", "--resume", place, "--first-only",
               *BY_HAND)  # fmt: skip


def transfers(_: Tests) -> bool:
    return run("tools/coherence/coherence.py", "--workers", "4,8", "--check")


PARTS = [
    Part("build: release", None, lambda tests: build("release")),
    # Three at a time: the processors wait for the disk otherwise.
    Part("tests: release", None, lambda tests: tests.tests_of("release", "-j3", "-LE", "cluster")),
    # Shards on Ray: five minutes for a package above the engine.
    Part("tests: cluster", 2, lambda tests: tests.tests_of("cluster", "-L", "cluster",
                                                           within="release")),  # fmt: skip
    Part("build: sanitize", None, lambda tests: build("sanitize")),
    Part("tests: sanitize", None, lambda tests: tests.tests_of("sanitize", "-j3", "-LE",
                                                               "perf|script", **FEW)),  # fmt: skip
    Part("mutants: by hand", None, mutants_by_hand),
    Part("build: tsan", None, lambda tests: build("tsan")),
    Part("tests: tsan", None, lambda tests: tests.tests_of("tsan", "-j2", "-L", "tsan")),
    Part("build: coherence", 3, lambda tests: build("coherence")),
    Part("transfers: coherence", 3, transfers),
    Part("build: arm64", 3, lambda tests: build("arm64")),
    Part("tests: arm64", 3, lambda _: run("tools/run", "arm64")),
    Part("mutants: by rule", 0, mutants_by_rule),
    Part("build: fuzz", 1, lambda tests: build("fuzz")),
    Part("fuzz: page, log", 1, fuzzers),
]


def main() -> int:
    arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    everything = "--all" in arguments
    tests = Tests([word for word in arguments if word != "--all"])
    week = datetime.date.today().isocalendar().week
    for report in BUILD.glob("tests-*.xml"):
        report.unlink()
    built = {}
    for part in PARTS:
        kind = part.name.split(": ")[1]
        if not everything and part.turn not in (None, week % TURNS):
            continue
        if part.name.startswith(("tests: ", "transfers: ")) and not built.get(kind, True):
            continue
        built[kind] = tests.part(part.name, lambda: part.does(tests))
    left_out = [p.name for p in PARTS if p.name not in tests.seconds]
    if left_out:
        print(f"left out this week, or after a failed build (--all): {', '.join(left_out)}")
    tests.failed += tests.too_slow()
    tests.summary()
    reports = sorted(BUILD.glob("tests-*[!n].xml"))
    listed = run(sys.executable, "tools/checks/skipped.py", *reports)
    return 0 if listed and not tests.failed else 1


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
