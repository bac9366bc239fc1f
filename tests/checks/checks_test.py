#!/usr/bin/env python3
"""checks_test - each check of tools/checks and tools/check_layers.py can fail, and can pass."""

import json
import os
import shutil
import subprocess
import sys
import unittest

from checked_tree import ROOT, CheckedTree


class Checks(CheckedTree):
    def structure(self):
        passed, printed = self.run_check("tools/checks/structure.py", "--json")
        self.assertTrue(passed, printed)
        return json.loads(printed)

    def test_layers(self):
        self.header("sm/btree/a.h", "")
        self.expect_sound("tools/check_layers.py")
        self.header("threads/base/low.h", '#include "sm/btree/a.h"')
        self.expect("tools/check_layers.py", "of a higher layer")

    def test_layers_beside_each_other(self):
        self.header("sm/heap/h.h", "")
        self.header("sm/btree/a.h", '#include "sm/heap/h.h"')
        self.expect("tools/check_layers.py", "beside its own")

    def test_layers_of_the_tool(self):
        self.header("tools/cli/load/l.h", '#include "tools/cli/rows/r.h"')
        self.header("tools/cli/rows/r.h", '#include "tools/cli/opening.h"')
        self.header("tools/cli/opening.h", "")
        self.expect_sound("tools/check_layers.py")
        self.header("tools/cli/opening.h", '#include "tools/cli/load/l.h"')
        self.expect("tools/check_layers.py", "of a higher layer")

    def test_layers_circle(self):
        self.header("sm/btree/a.h", '#include "sm/btree/b.h"')
        self.header("sm/btree/b.h", '#include "sm/btree/a.h"')
        self.expect("tools/check_layers.py", "circle of includes")

    def test_layers_public_header_sees_public_headers_only(self):
        self.header("sm/btree/a.h", "")
        self.header("sm/include/lockstep/p.h", '#include "sm/btree/a.h"')
        self.expect("tools/check_layers.py", "not installed")

    def test_layers_in_documents(self):
        text = (ROOT / "ARCHITECTURE.md").read_text()
        self.write("ARCHITECTURE.md", text)
        self.expect_sound("tools/check_layers.py")
        order = "btree, heap > space"
        self.write("ARCHITECTURE.md", text.replace(order, "space > btree, heap"))
        self.expect("tools/check_layers.py", "ARCHITECTURE.md: the row of sm does not say")
        self.write("ARCHITECTURE.md", text.replace("\ntpcc ", "\nTPC-C "))
        self.expect("tools/check_layers.py", "ARCHITECTURE.md: its layers are")

    def test_layers_seams(self):
        for use in (
            "rand()",
            "pthread_create(&t, nullptr, f, nullptr)",
            "tbb::parallel_sort(a, b)",
            "nanosleep(&time, nullptr)",
            "usleep(50)",
            "syscall(SYS_futex, &word)",
            "word.wait(0, std::memory_order_acquire)",
            "word.wait(seen)",
        ):
            self.header("sm/btree/a.h", f"inline void f() {{ {use}; }}")
            self.expect("tools/check_layers.py", "outside the seams")
        self.header("sm/btree/a.h", "inline void f() { event.wait(); }")
        self.expect_sound("tools/check_layers.py")

    def test_layers_seams_allow_what_they_name(self):
        use = "inline void f() {{ {}; }}"
        self.header("sm/btree/a.h", "")
        self.header("sm/observe/close_watch.h", use.format("pthread_create()"))
        self.expect_sound("tools/check_layers.py")
        self.header("sm/observe/close_watch.h", use.format("usleep(1)"))
        self.expect("tools/check_layers.py", "outside the seams")

    def test_style_width(self):
        self.header("sm/btree/a.h", "// " + "x" * 98)
        self.expect("tools/checks/style.py", "101 columns")

    def test_style_function_length(self):
        body = "inline void f() {\n" + "    int x = 0;\n" * 70 + "}"
        self.header("sm/btree/a.h", body)
        self.expect("tools/checks/style.py", "72 lines in 'inline void f()'")

    def test_style_first_line(self):
        self.write("sm/btree/a.h", "#pragma once\n")
        self.expect("tools/checks/style.py", "first line")

    def test_style_namespace_of_a_test(self):
        text = "// a_test.cc - a test.\nnamespace lockstep::%s {}\n"
        self.write("tests/sm/a_test.cc", text % "other_a_test")
        self.expect("tools/checks/style.py", "do not stand in a 'namespace ...::a_test'")
        self.write("tests/sm/a_test.cc", text % "sm::a_test")
        self.expect_sound("tools/checks/style.py")

    def test_style_anonymous_namespaces(self):
        twice = "namespace {\nint x;\n}  // namespace\n" * 2
        self.write("sm/btree/a.cc", "// a.cc - for this test.\n" + twice)
        self.expect("tools/checks/style.py", "more than one anonymous")

    def test_style_order_of_isolation_levels(self):
        for code in ("level >= txn::Isolation::snapshot", "t.isolation < other", "t.isolation<=a"):
            line = f"bool f() {{ return {code}; }}\n"
            self.write("sm/btree/a.cc", "// a.cc - for this test.\n" + line)
            self.expect("tools/checks/style.py", "compares isolation levels by their order")
        line = "bool f() { return t.isolation == txn::Isolation::snapshot; }\n"
        self.write("sm/btree/a.cc", "// a.cc - for this test.\n" + line)
        self.expect_sound("tools/checks/style.py")

    def test_style_formatting(self):
        shutil.copy(ROOT / ".clang-format", self.tree)
        self.write("sm/btree/a.cc", "// a.cc - for this test.\nint  x;\n")
        self.expect("tools/checks/style.py", "sm/btree/a.cc: not as clang-format-16 writes it")
        self.write("sm/btree/a.cc", "// a.cc - for this test.\nint x;\n")
        self.expect_sound("tools/checks/style.py")

    def test_style_needs_its_tool(self):
        command = [sys.executable, str(ROOT / "tools/checks/style.py"), str(self.tree)]
        done = subprocess.run(command, capture_output=True, text=True, env={"PATH": "/nowhere"})
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("apt-get install clang-format-16", done.stdout)

    def test_style_unused_include(self):
        self.header("sm/btree/a.h", "struct Alpha {};")
        self.header("sm/btree/b.h", '#include "sm/btree/a.h"\nstruct Beta {};')
        self.expect("tools/checks/style.py", "uses nothing of it")

    def test_style_macro_without_its_include(self):
        self.header("sm/btree/b.h", "#ifdef LOCKSTEP_ASAN\nstruct Beta {};\n#endif")
        self.expect("tools/checks/style.py", "without including it")

    def test_public_calls(self):
        check = "tools/checks/public_calls.py"
        table = "<!-- public calls: begin -->\n{}<!-- public calls: end -->\n"
        row = "| `Door::open(key, turns)` | no |\n"
        ring = "| `Door::operator()()` | no |\n"
        body = "class Door {\npublic:\n    Door();\n    int open(int key, int turns = {});\n"
        body += "    std::function<void(int)> opened = {};\n    void operator()() const;\n"
        body += "private:\n    void creak();\n};"
        self.header("sm/include/lockstep/door.h", body)
        self.write("sm/PUBLIC_CALLS.md", table.format(""))
        self.expect(check, "has no `Door::open(key, turns)`")
        self.write("sm/PUBLIC_CALLS.md", table.format(row))
        self.expect(check, "has no `Door::operator()()`")
        self.write("sm/PUBLIC_CALLS.md", table.format(row + ring))
        self.expect_sound(check)
        shared = "| `Door::open(key, turns)`, `Door::operator()()` | no |\n"
        self.write("sm/PUBLIC_CALLS.md", table.format(shared))
        self.expect_sound(check)
        self.write("sm/PUBLIC_CALLS.md", table.format(shared + row))
        self.expect(check, "twice `Door::open(key, turns)`")
        self.write("sm/PUBLIC_CALLS.md", table.format(row + ring + "| `Door::close()` | no |\n"))
        self.expect(check, "no header has `Door::close()`")

    def test_style_packages(self):
        self.write("tools/run", "packages=(g++ libbenchmark-dev)\n")
        self.expect("tools/checks/style.py", "libbenchmark-dev")

    def test_public_comments(self):
        self.header("sm/include/lockstep/p.h", "\n// Adds.\nint add(int a, int b);\n")
        self.expect_sound("tools/checks/public_comments.py")
        self.header("sm/include/lockstep/p.h", "\nint add(int a, int b);\n")
        self.expect("tools/checks/public_comments.py", "no doc comment: int add")

    def test_public_comments_of_members(self):
        body = "\n// A class.\nclass C {\npublic:\n    // Good.\n    int a();\n\n    int b();\n};\n"
        self.header("sm/include/lockstep/p.h", body)
        self.expect("tools/checks/public_comments.py", "no doc comment: int b();")

    def public_comments_of(self, body, said=None):
        """Checks a public header with this body: it is sound, or the check says this."""
        self.header("sm/include/lockstep/p.h", body)
        check = "tools/checks/public_comments.py"
        self.expect(check, said) if said else self.expect_sound(check)

    def test_public_comments_of_runs(self):
        fields = "\n// A struct.\nstruct S {\n    int a = 0;\n    int b = 0;\n"
        self.public_comments_of(fields + "};\n")
        self.public_comments_of(fields + "    int c() const;\n};\n", "comment: int c() const;")
        functions = "\n// Adds.\n" + "int add(int a);\n" * 4
        self.public_comments_of(functions)
        self.public_comments_of(functions + "int sub(int a);\n", "comment: int sub(int a);")
        self.public_comments_of(fields + "};\nint f();\n", "comment: int f();")

    def test_public_comments_behind_attributes(self):
        for before in ("[[gnu::cold]] ", "template <class T> ", "[[gnu::cold]]\n"):
            self.public_comments_of(f"\n{before}int f();\n", "comment: int f();")
            self.public_comments_of(f"\n// Works.\n{before}int f();\n")

    def test_prose(self):
        self.write("README.md", "Short sentences. " * 30 + "\n")
        self.expect_sound("tools/checks/prose.py")
        self.write("README.md", "One " + "word " * 41 + "too many.\n")
        self.expect("tools/checks/prose.py", "words in one sentence")

    def test_prose_mean_of_a_document(self):
        self.write("README.md", ("One " + "word " * 18 + "too many. ") * 3 + "\n")
        self.expect("tools/checks/prose.py", "21.0 words in a sentence on average; 18 at most")

    def test_documents(self):
        self.header("sm/btree/a.h", "void known();")
        self.write("README.md", "- `sm/btree/a.h`: `known()`\n")
        self.expect_sound("tools/checks/documents.py")
        self.write("README.md", "- `sm/btree/b.h` is gone.\n")
        self.expect("tools/checks/documents.py", "does not exist")
        self.write("README.md", "- Call `unknown()`.\n")
        self.expect("tools/checks/documents.py", "which no source file has")

    def expect_in_document(self, text, said):
        """The document with this text has this fault."""
        self.write("README.md", text)
        self.expect("tools/checks/documents.py", said)

    def test_documents_functions_of_files_and_classes(self):
        self.header("sm/btree/a.h", "class Tree { void known(); };")
        self.header("sm/heap/h.h", "class Heap { void other(); };")
        self.write("README.md", "`sm/btree/a.h`: `known()`; `Tree::known()`, `Heap::other()`\n")
        self.expect_sound("tools/checks/documents.py")
        self.expect_in_document("- `sm/btree/a.h`: `other()`\n", "`sm/btree/a.h` has no `other()`")
        self.expect_in_document("- Call `Tree::other()`.\n", "names `Tree::other()`")

    def test_documents_links(self):
        self.write("sm/README.md", "# One thing\n")
        self.write("README.md", "# Top\n[a](sm/README.md#one-thing) [b](#top)\n")
        self.expect_sound("tools/checks/documents.py")
        self.expect_in_document("[a](sm/NONE.md)\n", "links to sm/NONE.md, which does not exist")
        self.expect_in_document("[a](sm/README.md#two)\n", "links to sm/README.md#two, which has")
        self.expect_in_document("[b](#top)\n", "links to #top, which has no such heading")

    def test_documents_tests(self):
        self.write("tests/sm/a_test.cc", "TEST(Tree, Splits) {}\n")
        self.write("README.md", "`Tree.Splits`, `Tree.*` in `sm_a_test`\n")
        self.expect_sound("tools/checks/documents.py")
        self.expect_in_document("`Tree.Merges`\n", "names the test `Tree.Merges`")
        self.expect_in_document("`sm_b_test`\n", "names the test program `sm_b_test`")
        self.write("README.md", "")
        self.header("sm/btree/a.h", "// Keys ascend. [test: Tree.Ascends]")
        self.expect("tools/checks/documents.py", "a.h: names the test Tree.Ascends")

    def test_documents_commands(self):
        self.write("tools/run", "case $1 in\nfuzz | docs)\n;;\nesac\n")
        self.write("tools/a.py", 'parser.add_argument("--seeds")\nos.environ["LOCKSTEP_SEED"]\n')
        good = "```\nLOCKSTEP_SEED=1 ./tools/run fuzz --seeds 2; tools/a.py\n```\n"
        self.write("README.md", good)
        self.expect_sound("tools/checks/documents.py")
        for name, other, said in (
            ("--seeds", "--seed", "names the option --seed, which"),
            ("LOCKSTEP_SEED", "LOCKSTEP_SEEDS", "names LOCKSTEP_SEEDS, which"),
            ("run fuzz", "run fuzzy", "names the command `tools/run fuzzy`"),
            ("tools/a.py", "tools/b.py", "names tools/b.py in a command"),
        ):
            self.expect_in_document(good.replace(name, other), said)

    def skipped(self, may_skip, **builds):
        """(passed, what it printed) of skipped.py over reports: {build: {test: status}}."""
        for build, tests in builds.items():
            case = '<testcase name="{}" status="{}"><system-out>no gdb</system-out></testcase>'
            cases = "".join(case.format(*test) for test in tests.items())
            self.write(f"{build}.xml", f"<testsuite>{cases}</testsuite>")
        done = subprocess.run(
            [sys.executable, ROOT / "tools/checks/skipped.py", *self.tree.glob("*.xml")],
            capture_output=True,
            text=True,
            env={**os.environ, "LOCKSTEP_MAY_SKIP": may_skip},
        )
        self.assertEqual(done.stderr, "")
        return done.returncode == 0, done.stdout

    def test_skipped_tests_must_be_named(self):
        tests = {"gdb": "notrun", "store": "run", "old": "disabled"}
        passed, printed = self.skipped("", release=tests)
        self.assertFalse(passed)
        self.assertIn("gdb: did not run; LOCKSTEP_MAY_SKIP does not name it (no gdb)", printed)
        self.assertIn("old: did not run", printed)
        self.assertFalse(self.skipped("gdb", release=tests)[0])
        passed, printed = self.skipped("gdb o*", release=tests)
        self.assertTrue(passed, printed)
        self.assertIn("gdb: did not run (", printed)

    def test_a_test_that_ran_in_one_build_is_not_skipped(self):
        passed, printed = self.skipped("", release={"gdb": "run"}, sanitize={"gdb": "notrun"})
        self.assertTrue(passed, printed)

    def invariant(self, name, text):
        """A header whose leading comment defines this."""
        first = f"// {name} - a header for this test.\n//\n// Invariants {text}\n"
        self.write(f"sm/btree/{name}", first + "#pragma once\n")

    def test_invariants_have_one_definition(self):
        check = "tools/checks/invariants.py"
        self.invariant("a.h", "AA-1 Keys ascend. [checked: verify()]")
        self.invariant("b.h", "AA-1 (a.h) Here too.")
        self.header("sm/btree/c.h", "void verify();")
        self.expect_sound(check)
        self.invariant("b.h", "AB-1 Pages are full. [checked: verify()]\n// Argument   So\n//" +
                       " " * 12 + "AA-1 holds here too.")
        self.expect_sound(check)
        self.invariant("b.h", "AA-1 Pages are full. [checked: verify()]")
        self.expect(check, "sm/btree/b.h:3: AA-1: is defined in sm/btree/a.h:3 as well")

    def test_invariants_are_checked_or_named(self):
        check = "tools/checks/invariants.py"
        self.invariant("a.h", "AA-1 Keys ascend.")
        self.header("sm/btree/c.h", "// Keeps AA-1.\nvoid f();")
        self.expect(check, "sm/btree/a.h:3: AA-1: no check, test or document names it")
        for path, text in {
            "sm/btree/d.cc": "void f() { DCHECK(true); }  // AA-1\n",
            "tests/sm/btree/a_test.cc": "// AA-1.\n",
            "sm/README.md": "Keys ascend (AA-1).\n",
        }.items():
            self.write(path, text)
            self.expect_sound(check)
            (self.tree / path).unlink()

    def test_invariants_name_what_exists(self):
        check = "tools/checks/invariants.py"
        self.invariant("a.h", "AA-1 Keys ascend. [checked: gone()]")
        self.expect(check, "names gone, which does not exist")
        self.invariant("a.h", "AA-1 Keys ascend. [test: Tree.Ascends]")
        self.expect(check, "names Tree.Ascends, which does not exist")
        self.write("tests/sm/btree/a_test.cc", "TEST(Tree, Ascends) {}\n")
        self.expect_sound(check)
        self.write("sm/README.md", "Keys ascend (AA-2).\n")
        self.expect(check, "sm/README.md: names AA-2, which no file defines")

    def test_assertions_may_only_rise(self):
        self.header("sm/btree/a.h", "inline void f(int x) { CHECK(x); }")
        self.write("tools/checks/assertions.json", '{"sm": 1.0}')
        self.expect_sound("tools/checks/assertions.py")
        self.header("sm/btree/a.h", "inline void f(int x) { (void)x; }")
        self.expect("tools/checks/assertions.py", "floor")

    def test_structure_arrows(self):
        self.header("sm/heap/h.h", "inline int f() {\n    CHECK(true);\n    return 1;\n}")
        self.header("sm/btree/a.h", '#include "sm/heap/h.h"')
        self.header("sm/recovery/r.h", '#include "sm/heap/h.h"')
        found = self.structure()
        arrows = {(a["from"], a["to"]): a["up"] for a in found["includes"]["arrows"]}
        self.assertEqual(
            arrows, {("sm/btree", "sm/heap"): True, ("sm/recovery", "sm/heap"): False}
        )
        self.assertEqual(found["includes"]["up"], ["sm/btree/a.h -> sm/heap/h.h"])
        folder = found["folders"]["sm/heap"]
        self.assertEqual((folder["files"], folder["functions"], folder["function_max"]), (1, 1, 4))
        self.assertEqual(folder["assertions"], 1)

    def test_structure_of_a_flat_folder(self):
        self.header("sm/a.h", "")
        self.header("txn/t.h", '#include "sm/a.h"')
        found = self.structure()
        self.assertEqual(list(found["folders"]), ["txn", "sm", "engine"])
        self.assertEqual(found["includes"]["up"], ["txn/t.h -> sm/a.h"])

    def test_structure_counts_what_the_checks_count(self):
        body = "inline void f() {\n" + "    int x = 0;\n" * 70 + "}"
        self.header("sm/btree/a.h", body)
        self.header("sm/include/lockstep/p.h", "\nint add(int a, int b);\n")
        self.write("README.md", "One " + "word " * 36 + "too many.\n")
        found = self.structure()
        self.assertEqual([o["lines"] for o in found["folders"]["sm"]["functions_over"]], [72])
        self.assertEqual(len(found["public"]["without_comment"]), 1)
        self.assertEqual(found["prose"]["documents"]["over_35"], 1)
        self.expect_printed("tools/checks/structure.py", "without a comment: 1")


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
