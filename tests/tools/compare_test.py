#!/usr/bin/env python3
"""Tests of tools/compare.py: drivers and reports of an older revision, which know less."""

import pathlib
import stat
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import compare  # noqa: E402


class Options(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.driver = pathlib.Path(self.scratch.name) / "driver"
        self.driver.write_text("#!/bin/sh\necho '  -w,--warehouses UINT  Number'\n"
                               "echo '  --txn TEXT:{mix,payment}=mix'\necho '  --steps TEXT'\n")
        self.driver.chmod(self.driver.stat().st_mode | stat.S_IXUSR)

    def tearDown(self):
        self.scratch.cleanup()

    def test_what_both_know_stays(self):
        options = ["--txn", "payment", "-w", "30", "--steps=on", "-w4", "--warehouses", "2"]
        self.assertEqual(compare.known_options(self.driver, options, "old"), options)

    def test_an_unknown_option_goes_with_its_value(self):
        options = ["--calls", "many", "--txn", "mix", "--terminals-as-threads", "-x", "3"]
        self.assertEqual(compare.known_options(self.driver, options, "old"), ["--txn", "mix"])


class Arguments(unittest.TestCase):
    def test_options_of_the_drivers_stand_behind_two_dashes(self):
        for words in (["old", "--pairs", "3", "--", "--txn", "mix", "--", "-w"],
                      ["--pairs", "3", "old", "--", "--txn", "mix", "--", "-w"]):
            args = compare.parse(words)
            self.assertEqual((args.revision, args.pairs), ("old", 3))
            self.assertEqual(args.options, ["--txn", "mix", "--", "-w"])
        self.assertEqual(compare.parse(["old", "--a", "--steps off"]).a, "--steps off")
        self.assertEqual(compare.parse(["old"]).options, [])

    def test_an_option_of_the_drivers_in_front_is_refused(self):
        with self.assertRaises(SystemExit):
            compare.parse(["old", "--txn", "mix"])


class Counts(unittest.TestCase):
    def test_reports_of_both_ages(self):
        rows = [{"name": "instructions per operation, delete", "value": 7},
                {"name": "  distinct lines of code", "value": 3}]
        old = compare.counts_of({"figures": rows})
        rows[0] = {"name": "instructions per operation, erase", "value": 8}
        new = compare.counts_of({"measurements": rows})
        self.assertEqual(old.keys(), new.keys())
        self.assertEqual(old["instructions per operation, erase"], 7)
        self.assertEqual(old["instructions per operation, erase,distinct lines of code"], 3)

    def test_nothing_in_common_is_an_error(self):
        with self.assertRaises(SystemExit):
            compare.print_counts({"a": 1}, {"b": 1}, "old")


if __name__ == "__main__":
    unittest.main()
