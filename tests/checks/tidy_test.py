#!/usr/bin/env python3
"""tidy_test - which sources tidy.py chooses, and what it says of them."""

import shutil
import subprocess
import sys
import unittest

from checked_tree import ROOT, CheckedTree


class Tidy(CheckedTree):
    def tidy_choice(self, *options):
        """The sources that tidy.py chooses in the temporary tree, and what it says."""
        passed, printed = self.run_check("tools/checks/tidy.py", "--list", *options)
        self.assertTrue(passed, printed)
        lines = printed.split()
        return [line for line in lines if line.endswith(".cc")], printed

    def git(self, *words):
        who = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
        subprocess.run(["git", *who, *words], cwd=self.tree, check=True, capture_output=True)

    def commit(self):
        self.git("add", ".")
        self.git("commit", "-q", "-m", "a commit")

    def tidy_tree(self):
        self.write(".clang-tidy", "Checks: '-*'\n")
        self.write("sm/btree/a.cc", "int a;\n")
        self.write("sm/btree/b.cc", '#include "sm/btree/c.h"\n')
        self.write("txn/d.cc", '#include <lockstep/p.h>\n')
        for header in ("sm/btree/a_impl.h", "sm/btree/c.h", "sm/include/lockstep/p.h"):
            self.header(header, "")

    def test_tidy_chooses_the_sources_of_files_and_headers(self):
        self.tidy_tree()
        for given, expected in {
            "txn/d.cc": ["txn/d.cc"],
            "sm/btree": ["sm/btree/a.cc", "sm/btree/b.cc"],
            "sm/btree/a_impl.h": ["sm/btree/a.cc"],  # by name
            "sm/btree/c.h": ["sm/btree/b.cc"],  # by include
            "sm/include/lockstep/p.h": ["txn/d.cc"],
            "tools": [],
        }.items():
            self.assertEqual(self.tidy_choice(str(self.tree / given))[0], expected, given)
        every = ["txn/d.cc", "sm/btree/a.cc", "sm/btree/b.cc"]
        self.assertEqual(sorted(self.tidy_choice("--all")[0]), sorted(every))
        sources, printed = self.tidy_choice()
        self.assertEqual(sorted(sources), sorted(every))
        self.assertIn("no git history", printed)

    @unittest.skipUnless(shutil.which("git"), "git is not installed")
    def test_tidy_chooses_what_has_changed(self):
        self.tidy_tree()
        self.git("init", "-q")
        self.commit()
        # A clone of one commit.
        self.assertEqual(len(self.tidy_choice()[0]), 3)
        self.git("commit", "-q", "--allow-empty", "-m", "another")
        self.assertEqual(self.tidy_choice()[0], [])
        self.write("sm/btree/a.cc", "int changed;\n")
        self.assertEqual(self.tidy_choice()[0], ["sm/btree/a.cc"])
        self.commit()
        self.write("txn/new.cc", "int unknown_to_git;\n")
        self.assertEqual(self.tidy_choice()[0], ["sm/btree/a.cc", "txn/new.cc"])
        self.assertEqual(self.tidy_choice("--since", "HEAD")[0], ["txn/new.cc"])
        self.git("update-ref", "refs/remotes/origin/main", "HEAD~1")
        self.commit()
        self.assertEqual(self.tidy_choice()[0], ["sm/btree/a.cc", "txn/new.cc"])
        # On origin/main itself, the last commit counts.
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")
        self.assertEqual(self.tidy_choice()[0], ["txn/new.cc"])

    @unittest.skipUnless(shutil.which("git"), "git is not installed")
    def test_tidy_limits_what_it_chooses_by_itself(self):
        self.tidy_tree()
        self.git("init", "-q")
        self.commit()
        self.git("commit", "-q", "--allow-empty", "-m", "another")
        for i in range(30):
            self.write(f"txn/n{i:02}.cc", "int n;\n")
        sources, printed = self.tidy_choice()
        self.assertEqual((len(sources), sources[0]), (12, "txn/n00.cc"))
        self.assertIn("12 of 30 sources; --since HEAD~1 checks them all", printed)
        self.assertEqual(len(self.tidy_choice("--since", "HEAD")[0]), 30)

    @unittest.skipUnless(shutil.which("clang-tidy-16"), "clang-tidy-16 is not installed")
    def test_tidy_finds_a_fault(self):
        self.tidy_tree()
        self.write(".clang-tidy", "Checks: '-*,modernize-use-nullptr'\n")
        fault, sound = self.tree / "txn/fault.cc", self.tree / "sm/btree/a.cc"
        self.write("txn/fault.cc", "int* pointer = 0;\n")
        passed, printed = self.run_check("tools/checks/tidy.py", str(fault), str(sound))
        self.assertFalse(passed)
        self.assertIn("txn/fault.cc:1:16: use nullptr", printed)
        passed, printed = self.run_check("tools/checks/tidy.py", str(sound))
        self.assertTrue(passed, printed)

    def test_tidy_goes_on_without_the_check_that_does_not_end(self):
        self.tidy_tree()
        self.write("sm/btree/a.cc", "")
        tool = self.tree / "clang-tidy"
        tool.write_text(
            "#!/bin/sh\n"
            'case "$*" in *-bugprone-unchecked-optional-access*) ;; *) exec sleep 60 ;; esac\n'
            'echo "$PWD/sm/btree/a.cc:1:1: warning: a fault [another-check]"\n'
        )
        tool.chmod(0o755)
        program = (
            "import sys, pathlib\n"
            f"sys.path.insert(0, {str(ROOT / 'tools/checks')!r})\n"
            "import tidy\n"
            f"tidy.TOOL, tidy.SOLVER_SECONDS = {str(tool)!r}, 0.5\n"
            f"tree = pathlib.Path({str(self.tree)!r}).resolve()\n"
            "print(tidy.offences(tree, [pathlib.Path('sm/btree/a.cc')]))"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        self.assertIn("sm/btree/a.cc without bugprone-unchecked-optional-access", done.stdout)
        self.assertIn("sm/btree/a.cc:1:1: a fault", done.stdout)

    def test_tidy_needs_its_tool(self):
        self.tidy_tree()
        command = [sys.executable, str(ROOT / "tools/checks/tidy.py"), str(self.tree)]
        done = subprocess.run(command, capture_output=True, text=True, env={"PATH": "/nowhere"})
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("apt-get install clang-tidy-16", done.stdout)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
