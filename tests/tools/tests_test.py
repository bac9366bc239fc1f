#!/usr/bin/env python3
"""tests_test - tests.py runs a failed test again, names what is flaky or slow, and goes on after a
failure; reach.py knows which test programs a change can reach, and in which order they run."""

import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import tests  # noqa: E402
from testing.reach import Reach  # noqa: E402

CASE = '<testcase name="{}" time="{}" status="{}"/>'


def report(*rows):
    return "<testsuite>" + "".join(CASE.format(*row) for row in rows) + "</testsuite>"


class Runs(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="tests_test_")
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)
        self.addCleanup(mock.patch.stopall)
        mock.patch.object(tests, "BUILD", self.place).start()

    def run_with(self, *reports):
        """tests_of() with a ctest that writes these reports, one a call."""
        left = list(reports)

        def ctest(*command):
            pathlib.Path(command[command.index("--output-junit") + 1]).write_text(left.pop(0))
            return False

        told = tests.Tests([])
        with mock.patch.object(tests, "run", ctest):
            passed = told.part("tests: release", lambda: told.tests_of("release"))
        self.assertEqual(left, [])
        return told, passed

    def test_all_pass(self):
        told, passed = self.run_with(report(("a", 1, "run"), ("b", 1, "notrun")))
        self.assertTrue(passed)
        self.assertEqual((told.flaky, told.failed), ([], []))

    def test_a_test_that_passes_the_second_time_is_flaky(self):
        told, passed = self.run_with(
            report(("a", 1, "fail"), ("b", 1, "run")), report(("a", 1, "run"))
        )
        self.assertTrue(passed)
        self.assertEqual((told.flaky, told.failed), (["a (release)"], []))

    def test_a_test_that_fails_twice_fails_the_run(self):
        told, passed = self.run_with(
            report(("a", 1, "fail"), ("b", 1, "fail")), report(("a", 1, "run"), ("b", 1, "fail"))
        )
        self.assertFalse(passed)
        self.assertEqual(told.flaky, ["a (release)"])
        self.assertEqual(told.failed, ["b (release)", "tests: release"])

    def test_a_slow_test_is_named(self):
        most = tests.SECONDS_MAX
        slow = [(name, most + 1, "run") for name in ("b", "c", "python")]
        alone = report(("b", most + 1, "run"), ("c", most - 1, "run"))
        told, passed = self.run_with(report(("a", most, "run"), *slow), alone)
        self.assertTrue(passed)
        self.assertEqual([line.split(":")[0] for line in told.too_slow()], ["b"])

    def test_a_slow_test_that_fails_alone_does_not_become_a_failure(self):
        most = tests.SECONDS_MAX
        told, passed = self.run_with(
            report(("a", most + 1, "run")), report(("a", most - 1, "fail"))
        )
        self.assertTrue(passed)
        self.assertEqual([line.split(":")[0] for line in told.too_slow()], ["a"])

    def run_parts(self, *words, failing=()):
        """The parts that main() runs in a week of turn 0, and its status."""
        ran = []

        def part(name, turn):
            return tests.Part(name, turn, lambda _: ran.append(name) or name not in failing)

        parts = [part("build: x", None), part("tests: x", None), part("build: y", 1)]
        with (
            mock.patch.object(tests, "PARTS", parts),
            mock.patch.object(tests, "run", lambda *_: True),
            mock.patch.object(tests.datetime, "date") as date,
            mock.patch.object(sys, "argv", ["tests.py", *words]),
        ):
            date.today().isocalendar().week = 2 * tests.TURNS
            return ran, tests.main()

    def test_parts_take_turns(self):
        self.assertEqual(self.run_parts(), (["build: x", "tests: x"], 0))
        self.assertEqual(self.run_parts("--all"), (["build: x", "tests: x", "build: y"], 0))

    def test_a_failed_part_does_not_stop_the_others(self):
        ran, status = self.run_parts("--all", failing=["tests: x"])
        self.assertEqual((ran, status), (["build: x", "tests: x", "build: y"], 1))
        ran, status = self.run_parts("--all", failing=["build: x"])
        self.assertEqual((ran, status), (["build: x", "build: y"], 1))


class Reaches(unittest.TestCase):
    RULES = """
rule cc
  command = echo "$out: $in $header" > $out.d && touch $out
  depfile = $out.d
  deps = gcc
rule link
  command = touch $out
"""

    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="reach_test_")
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name).resolve()
        self.build = self.root / "build"
        (self.build / "bin").mkdir(parents=True)
        lines = [self.RULES]
        for name in ("sm/btree/fetch", "sm/heap/heap"):
            source = self.root / f"{name}.cc"
            source.parent.mkdir(parents=True, exist_ok=True)
            source.touch()
            header = source.with_suffix(".h")
            header.touch()
            lines += [f"build {source.stem}.o: cc {source}", f"  header = {header}"]
        lines.append("build bin/sm_btree_tests: link fetch.o heap.o")
        lines.append("build bin/sm_heap_tests: link heap.o")
        (self.build / "build.ninja").write_text("\n".join(lines) + "\n")
        subprocess.run(["ninja", "-C", self.build], check=True, capture_output=True)
        for link, program in (("sm_fetch_test", "btree"), ("sm_scan_test", "btree"),
                              ("sm_heap_test", "heap")):  # fmt: skip
            (self.build / "bin" / link).symlink_to(f"sm_{program}_tests")

    def test_programs_and_their_order(self):
        reach = Reach(self.root, self.build, ["sm/btree/fetch.h"])
        self.assertEqual(reach.programs(), ["sm_btree_tests"])
        self.assertEqual(reach.sources(reach.programs()), ["sm_fetch_test", "sm_scan_test"])
        reach = Reach(self.root, self.build, ["sm/heap/heap.cc"])
        self.assertEqual(reach.programs(), ["sm_btree_tests", "sm_heap_tests"])
        self.assertEqual(reach.sources(reach.programs())[0], "sm_heap_test")

    def test_a_document_reaches_none(self):
        self.assertEqual(Reach(self.root, self.build, ["README.md"]).programs(), [])


if __name__ == "__main__":
    unittest.main()
