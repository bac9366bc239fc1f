#!/usr/bin/env python3
"""mutate_test - the rules of tools/mutate.py: what is mutated, how, and what is left alone; the
list of equivalent mutants; results of a hunt with programs made for the test; a build of one source
with mutants in it."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import mutate  # noqa: E402
from mutation.hunt import Hunt  # noqa: E402
from mutation.relink import Relink  # noqa: E402
from mutation.sites import find, overlap, rewrite  # noqa: E402
from mutation.tree import NUMBERS, SWITCH, Tree  # noqa: E402

HEAD = '// sample.cc - a sample.\n#include "sample.h"\n\nnamespace lockstep {\n\n'


def source(body):
    return HEAD + body + "\n}  // namespace lockstep\n"


def function(body, head="bool Sample::decide(int a, int b)"):
    return source(head + " {\n" + body + "\n}")


def changes(body, kind=None):
    """(before, after) of all mutants of a function with this body."""
    found = find("txn/sample.cc", function(body))
    return [(m.before, m.after) for m in found if kind in (None, m.kind)]


class Sites(unittest.TestCase):
    def test_relations(self):
        self.assertEqual(changes("    return a < b;", "relation"), [("a < b", "a <= b")])
        self.assertEqual(
            changes("    return x.f(a, b) + 1 >= b && a;", "relation"),
            [("x.f(a, b) + 1 >= b", "x.f(a, b) + 1 > b")],
        )
        self.assertEqual(
            changes("    return a & 3 == 4 || b != 5;", "relation"),
            [("3 == 4", "3 != 4"), ("b != 5", "b == 5")],
        )

    def test_brackets_of_templates_are_no_relation(self):
        self.assertEqual(changes("    std::vector<int> v = make<int, 4>(a);", "relation"), [])

    def test_off_by_one(self):
        self.assertEqual(
            changes("    return v[a + b] - 2;", "off by one"),
            [("v[a + b] - 2", "v[a + b] - 2 - 1"), ("a + b", "a + b + 1")],
        )

    def test_constants(self):
        self.assertIn(("3", "4"), changes("    x = 3;", "constant"))
        self.assertIn(("1", "0"), changes("    f(1);", "constant"))
        self.assertIn(("true", "false"), changes("    return true;", "constant"))
        self.assertEqual(changes("    constexpr int kMost = 7;", "constant"), [])
        self.assertEqual(changes("    switch (a) {\n        case 4: break;\n    }", "constant"), [])

    def test_conditions(self):
        self.assertEqual(
            changes("    if (a && !b) [[unlikely]]\n        go();", "condition negated"),
            [("a && !b", "!(a && !b)")],
        )
        self.assertEqual(
            changes("    if (auto x = f(a); !x) go();", "condition negated"), [("!x", "!(!x)")]
        )
        self.assertEqual(changes("    if (Page* p = f(a)) go();", "condition negated"), [])

    def test_operands(self):
        self.assertEqual(
            changes("    return a && b.c(1) || a;", "operand left out"),
            [("b.c(1)", "true"), ("a", "false")],
        )

    def test_statements(self):
        body = (
            "    int c = 0;\n    Held held(lock);\n    const auto d = f();\n    go(a);\n"
            "    at_.slot = b;\n    ++c;\n    TRY(flush(a));\n    return c;"
        )
        self.assertEqual(
            [before for before, _ in changes(body, "statement left out")],
            ["go(a);", "at_.slot = b;", "++c;", "TRY(flush(a));"],
        )

    def test_arguments(self):
        self.assertEqual(
            changes("    return f(a, b, 7);", "arguments swapped"),
            [("f(a, b, 7)", "f(b, a, 7)")],
        )
        self.assertEqual(changes("    return std::min(a, b);", "arguments swapped"), [])
        self.assertEqual(changes("    Held held(a, b);", "arguments swapped"), [])

    def test_code_of_debug_checks_is_left_alone(self):
        body = "    a = 3;\n#ifdef LOCKSTEP_DEBUG_CHECKS\n    b = 4;\n#endif\n    a = 5;"
        self.assertEqual([c for c in changes(body, "constant")], [("3", "4"), ("5", "6")])

    def test_what_decides_nothing_is_left_alone(self):
        quiet = (
            "    DCHECK(a < b);\n    CHECK(a == 1 && b);\n"
            "    hits_.fetch_add(1, std::memory_order_relaxed);\n"
            '    return fail(ErrorCode::io_error, "page", a + 1);'
        )
        self.assertEqual([c for c in changes(quiet) if c[0] != "1"], [])
        described = function("    return a < b;", "bool verify(int a)")
        self.assertEqual(find("txn/sample.cc", described), [])

    def test_what_is_constant_is_left_alone(self):
        self.assertEqual(changes("    char name[kMost + 16];"), [])
        self.assertIn(("i + 1", "i + 1 + 1"), changes("    return name[i + 1];"))
        self.assertEqual(changes("    if (a < b) go();", "relation"), [("a < b", "a <= b")])
        made = function("    if (a < b) go();", "constexpr Sample::Sample()")
        self.assertEqual(find("txn/sample.cc", made), [])

    def test_a_lambda_belongs_to_its_function(self):
        found = find("txn/sample.cc", function("    go([&] {\n        if (a < b) b = 2;\n    });"))
        self.assertEqual({m.function for m in found}, {"Sample::decide"})
        self.assertIn(("b = 2;", ""), [(m.before, m.after) for m in found])
        checks = function("    const auto sound = [&] { return a < b; };", "void S::assert_state()")
        self.assertEqual(find("txn/sample.cc", checks), [])

    def test_the_function_is_named(self):
        found = find("txn/sample.cc", function("    for (;;) {\n        if (a < b) break;\n    }"))
        self.assertEqual({m.function for m in found}, {"Sample::decide"})


class Rewriting(unittest.TestCase):
    def test_lines_keep_their_numbers(self):
        text = function("    return f(a,\n             b) < 4 &&\n           go(b);  // so\n")
        for number, mutant in enumerate(find("txn/sample.cc", text), 1):
            mutant.number = number
            changed = rewrite(text, [mutant.edit()])
            self.assertEqual(changed.count("\n"), text.count("\n"), mutant)
            self.assertIn(f"LOCKSTEP_MUTATED({number})", changed)

    def test_a_header_has_no_warnings(self):
        """The line behind the new ones keeps its number, and no flag of the compiler changes."""
        text = function("    return a < b;", "inline bool decide(int a, int b)")
        mutant = find("txn/sample.h", text)[0]
        mutant.number = 1
        lines = rewrite(text, [mutant.edit()]).split("\n")
        self.assertEqual(lines[1:4], ["#pragma GCC system_header", "#line 2", text.split("\n")[1]])

    def test_drawn_mutants_do_not_overlap(self):
        text = function("    return f(a + 1, b) < 4 && g(a - b, 3) != 0;")
        drawn = mutate.draw(find("txn/sample.cc", text), 100, 7)
        self.assertGreater(len(drawn), 3)
        for i, one in enumerate(drawn):
            self.assertFalse(any(overlap(one, other) for other in drawn[:i]))
        again = mutate.draw(find("txn/sample.cc", text), 100, 7)
        self.assertEqual([m.keys() for m in drawn], [m.keys() for m in again])

    def test_each_mutant_is_chosen_by_its_number(self):
        """The only compilation: a function of six lines, all its mutants at once."""
        text = (
            "// sample.cc - a sample.\n#include <cstdio>\nint calls = 0;\n"
            "void count(int& c) { c += 1; }\n"
            "int decide(int a, int b) {\n    int at = 0;\n    if (a < b && b != 3) at = a - b;\n"
            "    count(at);\n    return at;\n}\n"
            'int main() { std::printf("%d %d", decide(1, 2), decide(2, 2)); }\n'
        )
        mutants = mutate.draw(find("txn/sample.cc", text), 100, 1)
        with tempfile.TemporaryDirectory(prefix="mutate_test_") as place:
            folder = pathlib.Path(place)
            (folder / "mutation_switch.h").write_text(SWITCH.replace("kNumbers", str(NUMBERS)))
            (folder / "sample.cc").write_text(rewrite(text, [m.edit() for m in mutants]))
            program = folder / "sample"
            command = ["g++", "-std=c++23", "-w", "-I", place, folder / "sample.cc", "-o", program]
            subprocess.run(command, check=True)
            seen = folder / "seen"
            seen.write_bytes(bytes(NUMBERS))
            answers = set()
            for number in range(len(mutants) + 1):
                environment = dict(
                    os.environ, LOCKSTEP_MUTATION=str(number), LOCKSTEP_MUTATION_SEEN=str(seen)
                )
                done = subprocess.run(program, env=environment, capture_output=True, check=True)
                if number == 0:
                    self.assertEqual(done.stdout, b"0 1")
                    come_past = {n for n, byte in enumerate(seen.read_bytes()) if byte}
                    self.assertEqual(come_past, {m.number for m in mutants})
                answers.add(done.stdout)
            self.assertGreater(len(answers), 3)


class Relinked(unittest.TestCase):
    """A build of one source and one program, as cmake and ninja leave it."""

    PROGRAM = "int decide(int, int);\nint main() { return decide(2, 2); }\n"
    BUILD = """\
rule compile
  command = g++ -std=c++20 -c $in -o $out
rule link
  command = : && g++ $in -o $out && :
build lib/decide.cc.o: compile ROOT/txn/decide.cc
build lib/decide_test.cc.o: compile ROOT/tests/txn/decide_test.cc
build bin/txn_decide_test: link lib/decide.cc.o lib/decide_test.cc.o
"""

    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="mutate_test_")
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name)
        self.build = self.root / "build"
        for name, text in {
            "txn/decide.cc": "// decide.cc\nint decide(int a, int b) { return a < b; }\n",
            "tests/txn/decide_test.cc": self.PROGRAM,
            "build/build.ninja": self.BUILD.replace("ROOT", str(self.root)),
            "build/compile_commands.json": json.dumps(
                [
                    {
                        "file": f"{self.root}/txn/decide.cc",
                        "command": "g++ -std=c++20 -o lib/decide.cc.o"
                        f" -c {self.root}/txn/decide.cc",
                    }
                ]
            ),
        }.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        subprocess.run(["ninja", "-C", self.build], check=True, stdout=subprocess.DEVNULL)

    def test_each_mutant_is_in_the_programs_and_the_build_stays(self):
        before = (self.build / "lib/decide.cc.o").read_bytes()
        found = find("txn/decide.cc", (self.root / "txn/decide.cc").read_text())
        wrong = mutate.Mutant(**{**found[0].record(), "source": "(no_such_name /* %d */)"})
        chosen = [next(m for m in found if m.after == "a <= b")]
        for number, mutant in enumerate([*chosen, wrong], 1):
            mutant.number = number
        for sample in chosen, [wrong], chosen:
            tree = Relink(self.root, self.root / "tree", self.build, 2, ["txn_*"])
            said = []
            left = tree.make(sample, said.append)
            self.assertEqual(left, [] if sample == [wrong] else sample)
            wrong_said = "1 mutants do not compile: txn/decide.cc:2 relation"
            self.assertEqual(wrong_said in said, sample == [wrong], said)
        program = tree.build_place / "bin/txn_decide_test"
        for number, decided in ("0", 0), ("1", 1), ("2", 0):
            done = subprocess.run([program], env={"LOCKSTEP_MUTATION": number}, check=False)
            self.assertEqual(done.returncode, decided)
        self.assertEqual((self.build / "lib/decide.cc.o").read_bytes(), before)


class Equivalent(unittest.TestCase):
    def read(self, text):
        with tempfile.TemporaryDirectory(prefix="mutate_test_") as place:
            file = pathlib.Path(place) / "equivalent.txt"
            file.write_text(text)
            return mutate.equivalents(file)

    def test_an_entry_needs_a_reason(self):
        known = self.read("# note\n\ntxn/a.cc | f | a < b | a <= b | both are the same here\n")
        self.assertEqual(list(known), [("txn/a.cc", "f", "a < b", "a <= b")])
        with self.assertRaises(SystemExit):
            self.read("txn/a.cc | f | a < b | a <= b\n")

    def test_every_entry_names_mutants_of_one_line(self):
        for entry in mutate.equivalents():
            found = find(entry[0], (ROOT / entry[0]).read_text())
            named = [m for m in found if entry in m.keys()]
            self.assertTrue(named, f"{entry}: no such mutant; remove the entry")
            lines = {m.line for m in named}
            self.assertEqual(len(lines), 1, f"{entry}: add ` @ ` and the line behind `before`")

    def test_a_line_tells_equal_changes_apart(self):
        found = find("txn/a.cc", function("    f(1, a);\n    g(1, a | b);"))
        ones = [m for m in found if m.before == "1"]
        self.assertEqual(ones[0].keys()[0], ones[1].keys()[0])
        self.assertEqual(ones[1].keys()[1][2], "1 @ g(1, a|b);")
        twice = find("txn/a.cc", function("    f();\n    return a;\n    g();\n    return a;"))
        self.assertEqual(twice[0].keys()[1][2], "f(); @ f();")
        found = find("txn/a.cc", function("    if (a) return true;\n    b();\n    return true;"))
        self.assertEqual(found[-1].keys()[1][2], "true @ return true;")


class Hunting(unittest.TestCase):
    PROGRAM = """#!/bin/sh
[ -n "$LOCKSTEP_MUTATION_SEEN" ] && printf '%s' > /dev/null
if [ "$LOCKSTEP_MUTATION" = 1 ]; then echo "[  FAILED  ] Sample.One"; exit 1; fi
if [ "$LOCKSTEP_MUTATION" = 2 ]; then sleep 60; fi
exit 0
"""

    def setUp(self):
        self.place = tempfile.TemporaryDirectory(prefix="mutate_test_")
        self.addCleanup(self.place.cleanup)
        for name in ("txn_sample_test", "lockstep-sim"):
            file = pathlib.Path(self.place.name) / name
            file.write_text(self.PROGRAM)
            file.chmod(0o755)

    def hunt(self, number, sees=True):
        hunt = Hunt(self.place.name, ["txn_sample_test", "lockstep-sim"], 10, 5)
        hunt.first_run(1)
        self.assertEqual(hunt.left_out, {})
        for name in hunt.names:
            hunt.seen[name] = {number} if sees else set()
            hunt.seconds[name] = -3.5  # a limit of one second
        mutant = find("txn/sample.cc", function("    return a < b;"))[0]
        mutant.number = number
        return hunt.hunt(mutant)

    def test_a_failure_and_a_hang_catch_a_mutant(self):
        found = self.hunt(1)
        self.assertEqual((found["status"], found["why"]), ("caught", "Sample.One"))
        self.assertEqual(self.hunt(2)["why"], "hangs")

    def test_the_others_survive_or_are_not_reached(self):
        self.assertEqual(self.hunt(3)["status"], "survived")
        self.assertEqual(self.hunt(3, sees=False)["status"], "not reached")


class Copying(unittest.TestCase):
    def test_programs_are_picked_by_patterns(self):
        every = Tree(ROOT, ROOT, 1).targets()
        self.assertIn("lockstep-sim", every)
        self.assertIn("sm_btree_test", every)
        some = Tree(ROOT, ROOT, 1, ["txn_log_*"]).targets()
        self.assertIn("txn_log_test", some)
        self.assertTrue(all(name.startswith("txn_log_") for name in some))

    def test_the_source_tree_stays_as_it_is(self):
        with tempfile.TemporaryDirectory(prefix="mutate_test_") as place:
            tree = Tree(ROOT, pathlib.Path(place) / "tree", 1)
            name = "txn/log/log_stamp.cc"
            before = (ROOT / name).read_text()
            mutants = mutate.draw(find(name, before), 5, 3)
            tree.write(mutants)
            self.assertEqual((ROOT / name).read_text(), before)
            changed = (tree.place / name).read_text()
            self.assertEqual(changed.count("LOCKSTEP_MUTATED("), len(mutants))
            self.assertIn(name, (tree.place / "CMakeLists.txt").read_text())


if __name__ == "__main__":
    unittest.main()
