#!/usr/bin/env python3
"""planted_test - `planted.py --first-only` tests each mutant it is given, or stops and names it.
Each mutant of the tables has a place in the code, where no constant hides it."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUTANT, PROGRAM = "lost_write_unseen", "sm_lost_write_test"
OF_SCRIPT, SCRIPT = "compact_forgets_in_doubt", "tools_prepared_test"


class FirstOnly(unittest.TestCase):
    def run_with(self, programs, mutant=MUTANT):
        with tempfile.TemporaryDirectory(prefix="planted_test_") as place:
            folder = pathlib.Path(place) / "bin"
            folder.mkdir()
            for name, text in programs.items():
                (folder / name).write_text("#!/bin/sh\n" + text + "\n")
                (folder / name).chmod(0o755)
            return subprocess.run(
                [
                    sys.executable,
                    ROOT / "tools/planted.py",
                    "--build",
                    place,
                    "--first-only",
                    "--skip-baseline",
                    mutant,
                ],
                capture_output=True,
                text=True,
            )

    def test_a_program_that_fails_catches_the_mutant(self):
        done = self.run_with({PROGRAM: "exit 1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 of 1 mutants caught", done.stdout)

    def test_files_of_a_program_lie_in_memory_and_go_with_it(self):
        sys.path.insert(0, str(ROOT / "tools"))
        from mutation import in_memory

        with tempfile.NamedTemporaryFile() as told:
            self.run_with({PROGRAM: f'touch "$TMPDIR/left"; echo "$TMPDIR" > {told.name}; exit 1'})
            place = pathlib.Path(pathlib.Path(told.name).read_text().strip())
        self.assertEqual(str(place.parent), in_memory.directory() or tempfile.gettempdir())
        self.assertFalse(place.exists())

    def test_a_missing_program_is_named(self):
        done = self.run_with({"sm_other_test": "exit 1"})
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{MUTANT} ({PROGRAM})", done.stderr)

    def test_a_script_that_fails_catches_the_mutant(self):
        programs = {"lockstep": "exit 1", "prepared-program": "exit 1"}
        done = self.run_with(programs, OF_SCRIPT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{SCRIPT}: status 1", done.stdout)
        del programs["prepared-program"]
        done = self.run_with(programs, OF_SCRIPT)
        self.assertIn(f"{OF_SCRIPT} ({SCRIPT})", done.stderr)


class Places(unittest.TestCase):
    def setUp(self):
        folders = ("threads", "txn", "sm", "tools", "tpcc")
        files = [f for top in folders for f in (ROOT / top).rglob("*") if f.suffix in (".cc", ".h")]
        self.sources = {f: f.read_text() for f in files if not f.name.startswith("mutants")}

    def test_each_mutant_has_a_place(self):
        listed = subprocess.run(
            [sys.executable, ROOT / "tools/planted.py", "--list"], capture_output=True, text=True
        )
        names = {line.split()[0] for line in listed.stdout.splitlines()}
        used = {m for text in self.sources.values() for m in re.findall(r"\bMUTANT\((\w+)\)", text)}
        self.assertGreater(len(names), 300)
        self.assertEqual(names, used)

    def test_no_constant_begins_with_a_mutant(self):
        # The compiler evaluates its initialiser, and for the compiler no mutant is chosen.
        left = r"(?:MUTANT\(\w+\)\s*&&|!MUTANT\(\w+\)\s*\|\|)"
        hidden = re.compile(r"\bconst(?:expr)?\s+bool\s+\w+\s*=\s*" + left)
        self.assertTrue(hidden.search("const bool a = MUTANT(b) && c();"))
        self.assertEqual([f for f, text in self.sources.items() if hidden.search(text)], [])


if __name__ == "__main__":
    unittest.main()
