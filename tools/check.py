#!/usr/bin/env python3
"""check.py - what a developer wants to know of a change within two minutes.

Usage: check.py [--since REF] [--seconds N]. Checks the style, the layers and the documents of the
tree, runs clang-tidy over the changed sources, builds the test programs that the change can reach,
and runs the tests of the sources nearest to it: those of the same name first, then those of the
same folder, then the others of the reached programs, shortest first, until N seconds are over
(default 100). It names what it did not run. The change is what differs from REF (default: the merge
base with origin/main, or else HEAD~1) and what git does not know yet.

Which programs a change reaches is what the release build knows of its dependencies."""

import argparse
import concurrent.futures
import pathlib
import subprocess
import sys
import time

from testing.reach import Reach

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools/checks"))

import tidy  # noqa: E402

BUILD = ROOT / "build/release"
SOURCE_CHECKS = ["tools/check_layers.py"] + [
    f"tools/checks/{name}.py"
    for name in ("style", "public_comments", "public_calls", "prose", "documents", "assertions")
    + ("invariants", "mutants")
]


def run(*command: str | pathlib.Path) -> tuple[bool, str]:
    done = subprocess.run(
        [str(word) for word in command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.returncode == 0, done.stdout + done.stderr


class Check:
    def __init__(self, until: float):
        self.until, self.wrong = until, 0

    def told(self, name: str, passed: bool, text: str, began: float) -> None:
        self.wrong += not passed
        print(f"{'ok' if passed else 'FAILED':6} {time.monotonic() - began:6.1f} s  {name}",
              flush=True)  # fmt: skip
        if not passed:
            print(text, flush=True)

    def command(self, *command: str | pathlib.Path) -> bool:
        began = time.monotonic()
        passed, text = run(*command)
        self.told(" ".join(str(word) for word in command[:4]), passed, text, began)
        return passed

    def programs(self, names: list[str]) -> list[str]:
        """Runs test programs, two at a time; those that there was no time for."""
        left = []

        def one(name: str) -> None:
            began = time.monotonic()
            if began > self.until:
                left.append(name)
                return
            passed, text = run(BUILD / "bin" / name, "--gtest_brief=1")
            self.told(name, passed, text, began)

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(one, names))
        return left


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--since", default=tidy.base(ROOT), help="the commit before the change")
    parser.add_argument("--seconds", type=float, default=100)
    args = parser.parse_args()
    check = Check(time.monotonic() + args.seconds)
    changed = tidy.changed(ROOT, args.since) if args.since else None
    if changed is None:
        sys.exit("check: git does not tell what has changed; name a commit with --since")
    for script in SOURCE_CHECKS:
        check.command(sys.executable, script)
    if not (BUILD / "build.ninja").exists() and not check.command("tools/run", "build"):
        return 1
    reach = Reach(ROOT, BUILD, changed)
    programs = reach.programs()
    if programs and not check.command("ninja", "-C", BUILD, *programs):
        return 1
    left = check.programs(reach.sources(programs))
    if sources := tidy.chosen(ROOT, changed)[: tidy.FILES_MAX]:
        if time.monotonic() < check.until:
            check.command(sys.executable, "tools/checks/tidy.py", *sources)
        else:
            left.append(f"tidy of {len(sources)} sources")
    if left:
        print(f"no time for: {', '.join(left)}")
    print(f"{len(changed)} changed files, {len(programs)} programs; {check.wrong} failed")
    return 1 if check.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
