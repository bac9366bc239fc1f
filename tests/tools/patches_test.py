#!/usr/bin/env python3
"""patches_test - mutants made by hand: where a patch belongs; all patches of a source compiled at
once; patches made anew for sources that have changed; the check that they fit; conditions of
mutants made by rule."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from mutation import in_memory, patches  # noqa: E402
from mutation.conditions import Conditions, conditional  # noqa: E402
from mutation.hunt import Hunt  # noqa: E402
from mutation.sites import Mutant, find, rewrite  # noqa: E402
from mutation.switched import edits_of  # noqa: E402
from mutation.tree import NUMBERS, SWITCH  # noqa: E402

SOURCE = """\
// decide.cc - a sample.
#include <cstdio>

int limit(int a) {
    const int most = 10;
    if (a > most) return most;
    switch (a) {
        case 1: a += 1; break;
        default: break;
    }
    return a;
}

int sum(int n) {
    int all = 0;
    for (int i = 0; i < n; ++i) {
        if (i == 3) continue;
        all += limit(i);
    }
    all += 1;
    return all;
}

int main() { std::printf("%d %d", sum(5), limit(12)); }
"""
# What each line becomes in a mutant.
CHANGES = {
    "most_wrong": ("    const int most = 10;\n", "    const int most = 11;\n"),
    "most_ignored": ("    if (a > most) return most;\n", ""),
    "case_empty": ("        case 1: a += 1; break;\n", "        case 1: break;\n"),
    "returns_early": ("    int all = 0;\n", "    int all = 0;\n    if (n == 5) return all;\n"),
    "takes_three": ("        if (i == 3) continue;\n", "        if (i == 2) continue;\n"),
    "guarded": ("    all += 1;\n", "    if (n == 4)\n        all += 1;\n"),
    "counts_twice": ("        all += limit(i);\n", "        all += 2 * limit(i);\n"),
}


def patch_of(old, new, head="txn_decide_test: is wrong", source=SOURCE):
    """The text of a patch with one line of context on each side."""
    lines = source.splitlines(True)
    at = lines.index(old)
    return (
        f"{head}\n--- a/txn/decide.cc\n+++ b/txn/decide.cc\n@@ -{at},3 +{at},3 @@\n"
        f" {lines[at - 1]}-{old}{''.join('+' + line for line in new.splitlines(True))}"
        f" {lines[at + 1]}"
    )


class Sample(unittest.TestCase):
    """A tree of one source, with patches."""

    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="patches_test_")
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name)
        self.write("txn/decide.cc", SOURCE)
        self.write("tests/txn/decide_test.cc", "// decide_test.cc - nothing.\n")
        for name, change in CHANGES.items():
            self.patch(name, patch_of(*change))

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def patch(self, name, text):
        self.write(f"tests/mutants/txn/{name}.patch", text)

    def read(self, name):
        return patches.read(self.root)[name]

    def refused(self, name):
        with self.assertRaises(patches.Misfit) as refused:
            patches.replacements(self.root, self.read(name))
        return str(refused.exception)


class Patches(Sample):
    def test_the_first_line_names_the_program_and_the_fault(self):
        found = self.read("counts_twice")
        self.assertEqual((found.program, found.wrong), ("txn_decide_test", "is wrong"))
        self.assertEqual((found.area, list(found.files)), ("txn", ["txn/decide.cc"]))
        self.patch("counts_twice", patch_of(*CHANGES["counts_twice"], head="no program"))
        with self.assertRaisesRegex(patches.Misfit, "counts_twice.patch: the first line is not"):
            patches.read(self.root)

    def test_a_patch_that_does_not_fit_is_named(self):
        self.write("txn/decide.cc", SOURCE.replace("all += limit", "all += twice"))
        said = self.refused("counts_twice")
        self.assertIn("counts_twice: line 17 of txn/decide.cc is not as the patch has it", said)
        self.assertIn("tools/mutate.py --renew", said)
        (self.root / "txn/decide.cc").unlink()
        self.assertIn("there is no txn/decide.cc", self.refused("most_wrong"))

    def test_the_line_number_tells_equal_lines_apart(self):
        twice = SOURCE.replace("int sum", "int other() {\n    return 1;\n}\n\nint sum")
        twice += "int more() {\n    return 1;\n}\n"
        self.write("txn/decide.cc", twice)
        for line in 14, 29:
            head = f"p: w\n--- a/txn/decide.cc\n+++ b/txn/decide.cc\n@@ -{line} +{line} @@\n"
            self.patch("other", head + "-    return 1;\n+    return 2;\n")
            (_, begin, _, _), = patches.replacements(self.root, self.read("other"))
            self.assertLess(abs(twice.count("\n", 0, begin) + 1 - line), 3)

    def test_two_areas_have_no_patch_of_one_name(self):
        self.write("tests/mutants/sm/most_wrong.patch", patch_of(*CHANGES["most_wrong"]))
        with self.assertRaisesRegex(patches.Misfit, "most_wrong.patch: is in sm, too"):
            patches.read(self.root)

    def test_patches_are_made_anew(self):
        changed = SOURCE.replace("// decide", "// moved").replace("int all = 0", "int all = 1")
        self.write("txn/deep/decide.cc", changed.replace("        default: break;\n", ""))
        (self.root / "txn/decide.cc").unlink()
        said = list(patches.renew(self.root))
        self.assertIn("takes_three: made anew", said)
        self.assertIn("case_empty: made anew", said)
        self.assertIn("returns_early: nothing like line 15 in txn/deep/decide.cc", said)
        self.assertEqual(list(self.read("takes_three").files), ["txn/deep/decide.cc"])
        (_, begin, end, text), = patches.replacements(self.root, self.read("case_empty"))
        old = (self.root / "txn/deep/decide.cc").read_text()
        self.assertIn("case 1: break;", text)
        self.assertIn("case 1: a += 1; break;", old[begin:end])
        self.assertEqual(len(list(patches.renew(self.root))), 1)  # the one that cannot be

    def test_the_check(self):
        check = [sys.executable, ROOT / "tools/checks/mutants.py", self.root]

        def said():
            return subprocess.run(check, capture_output=True, text=True, check=False)

        self.assertEqual(said().returncode, 0, said().stdout)
        self.patch("most_wrong", patch_of(*CHANGES["most_wrong"], head="txn_other_test: is wrong"))
        self.write("tests/mutants/notes.txt", "")
        self.write("txn/decide.cc", SOURCE.replace("(i == 3)", "(i == 4)"))
        self.assertEqual(said().returncode, 1)
        for text in (
            "txn/most_wrong.patch: there is no test txn_other_test: name one",
            "tests/mutants/notes.txt: is no tests/mutants/AREA/NAME.patch: move it",
            "txn/takes_three.patch: takes_three: line 16 of txn/decide.cc is not as",
        ):
            self.assertIn(text, said().stdout)


class Switched(Sample):
    def test_all_patches_of_a_source_are_compiled_at_once(self):
        known = dict(enumerate(patches.read(self.root).values(), 1))
        text = rewrite(SOURCE, edits_of(self.root, known))
        answers = {}
        with tempfile.TemporaryDirectory(prefix="patches_test_") as place:
            folder = pathlib.Path(place)
            (folder / "mutation_switch.h").write_text(SWITCH.replace("kNumbers", str(NUMBERS)))
            (folder / "decide.cc").write_text(text)
            command = ["g++", "-std=c++23", "-w", "-I", place, "decide.cc", "-o", "decide"]
            subprocess.run(command, cwd=place, check=True)
            for number in range(len(known) + 1):
                environment = dict(os.environ, LOCKSTEP_MUTATION=str(number))
                done = subprocess.run(folder / "decide", env=environment, capture_output=True,
                                      text=True, check=True)  # fmt: skip
                answers[known[number].name if number else ""] = done.stdout
        self.assertEqual(answers, {
            "": "9 10", "most_wrong": "9 11", "most_ignored": "9 12", "case_empty": "8 10",
            "returns_early": "0 10", "takes_three": "10 10", "counts_twice": "17 10",
            "guarded": "8 10",
        })  # fmt: skip

    def test_an_error_has_the_line_of_its_patch(self):
        self.patch("counts_twice", patch_of("        all += limit(i);\n", "        all += no;\n"))
        known = dict(enumerate(patches.read(self.root).values(), 1))
        number = next(n for n, patch in known.items() if patch.name == "counts_twice")
        text = rewrite(SOURCE, edits_of(self.root, known))
        with tempfile.TemporaryDirectory(prefix="patches_test_") as place:
            folder = pathlib.Path(place)
            (folder / "mutation_switch.h").write_text(SWITCH.replace("kNumbers", str(NUMBERS)))
            (folder / "decide.cc").write_text(text)
            command = ["g++", "-std=c++23", "-w", "-I", place, "-fsyntax-only", "decide.cc"]
            done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        self.assertIn(f"decide.cc:{1000000 + number}:", done.stderr)

    def test_what_is_outside_of_functions_is_refused(self):
        self.patch("outside", patch_of("#include <cstdio>\n", "int more = 1;\n"))
        with self.assertRaisesRegex(patches.Misfit, "outside: changes no statement of a function"):
            edits_of(self.root, {1: self.read("outside")})


class Running(unittest.TestCase):
    """mutate.py with a state as after a build."""

    def run_with(self, programs, *names):
        with tempfile.TemporaryDirectory(prefix="patches_test_") as place:
            folder = pathlib.Path(place) / "tree/bin"
            folder.mkdir(parents=True)
            for name, text in programs.items():
                (folder / name).write_text("#!/bin/sh\n" + text + "\n")
                (folder / name).chmod(0o755)
            known = patches.read(ROOT)
            mutants = [
                Mutant("sm/a.cc", 1, 1, "", "by hand", 0, 0, name, known[name].wrong, "",
                       number=number, name=name, program=known[name].program).record()
                for number, name in enumerate(sorted(names), 1)
                if name in known
            ]  # fmt: skip
            programs = sorted({known[name].program for name in names if name in known})
            state = {"seed": 1, "commit": "", "digest": "", "mutants": mutants, "results": {},
                     "programs": programs}  # fmt: skip
            (pathlib.Path(place) / "result.json").write_text(json.dumps(state))
            command = [sys.executable, ROOT / "tools/mutate.py", "--build", place, "--keep-tree"]
            return subprocess.run([*command, "--resume", place, "--first-only", *names],
                                  capture_output=True, text=True, check=False)  # fmt: skip

    SEES = 'f="$LOCKSTEP_MUTATION_SEEN"; [ -z "$f" ] || printf "\\1\\1" | dd of="$f" conv=notrunc'
    WRONG = f'[ "$LOCKSTEP_MUTATION" = 0 ] || exit 1; {SEES}'

    def test_a_program_that_fails_catches_the_mutant(self):
        done = self.run_with({"sm_lost_write_test": self.WRONG}, "lost_write_unseen")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("1 caught, 1 by the program that the patch names", done.stdout)

    def test_a_program_that_passes_does_not(self):
        done = self.run_with({"sm_lost_write_test": self.SEES}, "lost_write_unseen")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("by hand: 1 of 1 mutants: 1 survived; 100.0% survive", done.stdout)

    def test_a_missing_program_is_named(self):
        done = self.run_with({"sm_other_test": "exit 1"}, "lost_write_unseen")
        self.assertEqual(done.returncode, 1)
        self.assertIn("sm_lost_write_test", done.stderr)

    def test_an_unknown_name_is_refused(self):
        done = self.run_with({}, "no_such_mutant")
        self.assertIn("no patch below tests/mutants is called no_such_mutant", done.stderr)

    def test_a_script_that_fails_catches_the_mutant(self):
        programs = {"lockstep": "exit 0", "prepared-program": "exit 0"}
        hunt = Hunt("/nowhere", ["tools_prepared_test"], 1, 1)
        command = hunt.command("tools_prepared_test")
        self.assertEqual(command[1:], [str(ROOT / "tests/tools/prepared_test.py"),
                                       *(f"/nowhere/{p}" for p in programs)])  # fmt: skip
        del programs["prepared-program"]
        done = self.run_with(programs, "compact_forgets_in_doubt")
        self.assertIn("tools_prepared_test", done.stderr)

    def test_files_of_a_program_lie_in_memory_and_go_with_it(self):
        with tempfile.TemporaryDirectory(prefix="patches_test_") as place:
            program, told = pathlib.Path(place) / "txn_a_test", pathlib.Path(place) / "told"
            text = f'#!/bin/sh\ntouch "$TMPDIR/left"; echo "$TMPDIR" > {told}; exit 1\n'
            program.write_text(text)
            program.chmod(0o755)
            self.assertEqual(Hunt(place, ["txn_a_test"], 9, 9).run("txn_a_test", 1, 9), "status 1")
            where = pathlib.Path(told.read_text().strip())
            self.assertEqual(str(where.parent), in_memory.directory() or tempfile.gettempdir())
            self.assertFalse(where.exists())


class Conditional(unittest.TestCase):
    TEXT = """\
// rounds.cc - a sample.
#include <cstdio>
void add(int n) { std::printf("%d", n); }
void rounds(int n) {
    for (int i = 0; i < n; ++i) {
        add(i);
    }
    if (n > 3) {
        add(9);
    }
}
int main() {
    rounds(3);
    rounds(4);
    rounds(5);
}
"""

    def answers(self, call):
        """{condition: what the program prints} of the mutant without a call."""
        printed = {}
        mutant = next(m for m in find("txn/rounds.cc", self.TEXT) if m.before == call)
        possible = Conditions("txn/rounds.cc", self.TEXT).of(mutant)
        plain = mutant.source
        with tempfile.TemporaryDirectory(prefix="patches_test_") as place:
            folder = pathlib.Path(place)
            (folder / "mutation_switch.h").write_text(SWITCH.replace("kNumbers", str(NUMBERS)))
            for condition, macro in possible.items():
                if condition == "after a wait":  # needs the user threads of threads/
                    continue
                mutant.number, mutant.source = 1, plain.replace("LOCKSTEP_MUTATED(%d)", macro)
                (folder / "rounds.cc").write_text(rewrite(self.TEXT, [mutant.edit()]))
                command = ["g++", "-std=c++23", "-w", "-I", place, "rounds.cc", "-o", "rounds"]
                subprocess.run(command, cwd=place, check=True)
                done = subprocess.run(folder / "rounds", env={"LOCKSTEP_MUTATION": "1"},
                                      capture_output=True, text=True, check=True)  # fmt: skip
                printed[condition] = done.stdout
        return printed

    def test_in_a_loop(self):
        self.assertEqual(self.answers("add(i);"), {
            "2nd time": "099", "3rd time": "0199", "8th time": "012012399",
            "next round": "00909", "last round": "01012901239",
        })  # fmt: skip

    def test_at_an_edge(self):
        whole = "01201239012349"
        self.assertEqual(self.answers("add(9);"), {
            "2nd time": "0120123901234", "3rd time": whole, "8th time": whole,
            "edge": "0120123012349",
        })  # fmt: skip

    def test_each_mutant_has_one_that_is_possible(self):
        name = "txn/lock/lock_list.cc"
        text = (ROOT / name).read_text()
        mutants = conditional(name, text, find(name, text), 1)
        self.assertEqual([m.source for m in mutants],
                         [m.source for m in conditional(name, text, find(name, text), 1)])
        kinds = {m.kind.partition(", ")[2] for m in mutants}
        self.assertLessEqual({"2nd time", "8th time", "last round", "after a wait"}, kinds)
        self.assertNotIn("", kinds)
        waits = next(m for m in mutants if m.kind.endswith("after a wait"))
        waits.number = 1
        self.assertIn("mutation_waits.h", rewrite(text, [waits.edit()]))


if __name__ == "__main__":
    unittest.main()
