"""tree - a copy of the sources in which all mutants of a sample are compiled in at once.

The environment variable LOCKSTEP_MUTATION picks one by its number. LOCKSTEP_MUTATION_SEEN names a
file with a byte for each number: a byte becomes 1 when a program comes past that mutant."""

import fnmatch
import hashlib
import json
import pathlib
import re
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

from mutation import patches
from mutation.sites import rewrite
from mutation.switched import FIRST_LINE, edits_of

SWITCH = """// mutation_switch.h - which mutant is on, and which ones a program comes past.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace lockstep_mutation {
inline int choose() {
    const char* wanted = std::getenv("LOCKSTEP_MUTATION");
    return wanted ? std::atoi(wanted) : 0;
}
inline char* map_seen() {
    const char* path = std::getenv("LOCKSTEP_MUTATION_SEEN");
    const int fd = path ? open(path, O_RDWR) : -1;
    if (fd < 0) return nullptr;
    void* at = mmap(nullptr, kNumbers, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? nullptr : static_cast<char*>(at);
}
inline const int chosen = choose();
inline char* const seen = map_seen();
constexpr bool on(int number) {
    if (__builtin_is_constant_evaluated()) return false;
    if (seen) seen[number] = 1;
    return chosen == number;
}
inline std::atomic<uint32_t> times[kNumbers];
constexpr bool on_from(int number, uint32_t first) {
    if (__builtin_is_constant_evaluated()) return false;
    if (!seen && chosen != number) return false;
    return times[number].fetch_add(1) + 1 >= first && on(number);
}
}  // namespace lockstep_mutation
#define LOCKSTEP_MUTATED(number) ::lockstep_mutation::on(number)
#define LOCKSTEP_MUTATED_FROM(number, first) ::lockstep_mutation::on_from(number, first)
#define LOCKSTEP_MUTATED_IF(number, holds) ((holds) && ::lockstep_mutation::on(number))
#define LOCKSTEP_MUTATED_AFTER_WAIT(number) ::lockstep_mutation::on_after_wait(number)
"""
# For sources only: headers that thread.h includes could not include it.
WAITS = """// mutation_waits.h - whether a user thread has waited between two visits of a mutant.
#pragma once
#include "mutation_switch.h"
#include "threads/thread/thread.h"

namespace lockstep_mutation {
struct Visit {
    std::atomic<uint64_t> thread{0};
    std::atomic<int64_t> waited{0};
};
inline Visit visits[kNumbers];
inline bool on_after_wait(int number) {
    if (!seen && chosen != number) return false;
    const lockstep::threads::Thread* self = lockstep::threads::current();
    if (self == nullptr) return false;
    int64_t waited = 0;
    for (const auto time : self->waited) waited += time;
    Visit& last = visits[number];
    const bool again = last.thread.exchange(self->id) == self->id;
    return last.waited.exchange(waited) < waited && again && on(number);
}
}  // namespace lockstep_mutation
"""
NUMBERS = 65536
SIMULATOR = "lockstep-sim"
# Tests that are scripts, by the name that patches call them, and the programs that they run.
SCRIPTS = {
    "tools_prepared_test": ("tests/tools/prepared_test.py", ("lockstep", "prepared-program")),
}
COPIED = ("CMakeLists.txt", "LICENSE", "README.md")
COPIED += ("sm", "txn", "threads", "tpcc", "tests", "tools")
LAYERS = ("txn", "sm", "isolation", "sim", "fuzz", "threads", "tools", "tpcc")
# Patterns of the programs that reach txn/ and sm/.
REACHING = ("txn_*", "sm_*", "isolation_*", "sim_*", "fuzz_*", SIMULATOR)
PLACE = re.compile(r"^(?:[^\s:]*/)?((?:sm|txn|threads|tools|tpcc)/[\w/.-]+):(\d+):", re.M)


def write_if_changed(path, text):
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def places_of_errors(text):
    """{(file, line)} of what the compiler says."""
    places = set()
    for line in text.splitlines():
        if "error:" not in line and "required from" not in line:
            continue
        if found := PLACE.match(line.replace("../", "")):
            places.add((found.group(1), int(found.group(2))))
    return places


def at_fault(mutants, places):
    """Mutants in whose lines errors are; if there is none, those of the files."""
    by_hand = {line - FIRST_LINE for _, line in places if line > FIRST_LINE}
    if by_hand:
        return [m for m in mutants if m.number in by_hand]
    lines = {}
    for file, line in places:
        lines.setdefault(file, []).append(line)
    wrong = [m for m in mutants if any(m.line <= n <= m.last_line for n in lines.get(m.file, ()))]
    return wrong or [m for m in mutants if m.file in lines]


def edits(root, mutants):
    """{file: edits} of mutants made by rule and by hand."""
    known = patches.read(root) if any(m.name for m in mutants) else {}
    found = edits_of(root, {m.number: known[m.name] for m in mutants if m.name})
    by_file = {}
    for edit in found + [m.edit() for m in mutants if not m.name]:
        by_file.setdefault(edit.file, []).append(edit)
    return by_file


def tests_of(root):
    """The names of the test programs, by their sources."""
    return [
        f"{layer}_{path.stem}"
        for layer in LAYERS
        for path in sorted((root / "tests" / layer).rglob("*_test.cc"))
        if "perf" not in path.read_text(encoding="utf-8").split("\n", 1)[0]
    ]


class Tree:
    def __init__(self, root, place, jobs, wanted=()):
        """`wanted`: patterns of the programs to build; none: all that reach txn/ and sm/."""
        self.root, self.place, self.jobs, self.wanted = root, place, jobs, wanted
        self.build_place = place / "build/mutate"

    def sources(self):
        for name in COPIED:
            top = self.root / name
            for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
                if path.is_file() and "__pycache__" not in path.parts:
                    yield path.relative_to(self.root)

    def write(self, mutants):
        """The tree with these mutants. A file that stays the same is not touched."""
        by_file = edits(self.root, mutants)
        for name in self.sources():
            target = self.place / name
            if str(name) in by_file:
                text = rewrite((self.root / name).read_text(), by_file[str(name)])
                write_if_changed(target, text)
            elif str(name) == "CMakeLists.txt":
                continue
            elif not target.exists() or target.read_bytes() != (self.root / name).read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.root / name, target)
        self.write_switch()
        self.write_build_file(by_file)

    def write_switch(self):
        for name, text in ("mutation_switch.h", SWITCH), ("mutation_waits.h", WAITS):
            write_if_changed(self.place / name, text.replace("kNumbers", str(NUMBERS)))

    def write_build_file(self, mutated):
        """CMakeLists.txt: mutants are compiled fast, and warnings about them mean nothing."""
        path = self.place / "CMakeLists.txt"
        text = (self.root / "CMakeLists.txt").read_text()
        if names := " ".join(sorted(name for name in mutated if name.endswith(".cc"))):
            options = 'PROPERTIES COMPILE_OPTIONS "-O1;-g0;-w"'
            text += f"set_source_files_properties({names} {options})\n"
        write_if_changed(path, text)

    def configure(self):
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        command = ["cmake", "-S", self.place, "-B", self.build_place, "-G", "Ninja", *launcher]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit("mutate: cmake failed:\n" + done.stdout + done.stderr)

    def targets(self):
        """Test programs, tests that are scripts, and the simulator."""
        wanted = self.wanted or REACHING
        return [
            name
            for name in [*tests_of(self.root), *SCRIPTS, SIMULATOR]
            if any(fnmatch.fnmatch(name, pattern) for pattern in wanted)
        ]

    def programs(self):
        """What the tests run."""
        return [program for name in self.targets() for program in self.programs_of(name)]

    @staticmethod
    def programs_of(name):
        return SCRIPTS[name][1] if name in SCRIPTS else (name,)

    def built(self):
        """The tests whose programs are there."""
        place = self.build_place / "bin"
        return [n for n in self.targets() if all((place / p).exists() for p in self.programs_of(n))]

    def build(self):
        """Builds the programs; the places of errors: {(file, line)}. Empty: all is built."""
        command = ["nice", "-n", "5", "ninja", "-C", self.build_place, "-k", "0", f"-j{self.jobs}"]
        done = subprocess.run(
            [*command, *self.programs()], capture_output=True, text=True, check=False
        )
        (self.place / "build.log").write_text(done.stdout + done.stderr)
        if done.returncode == 0:
            return set()
        places = places_of_errors(done.stdout)
        if not places:
            raise SystemExit(f"mutate: the build failed: {self.place / 'build.log'}")
        return places

    def parse(self, files):
        """Parses sources and headers with mutants, each alone; the places of errors. That is fast:
        the build of a header with an error would fail in every source that includes it."""
        commands = json.loads((self.build_place / "compile_commands.json").read_text())
        by_file = {}
        for entry in commands:
            by_file.setdefault(str(pathlib.Path(entry["file"]).relative_to(self.place)), entry)

        def one(name):
            like = name if name in by_file else self.source_beside(name, by_file)
            words = shlex.split(by_file[like]["command"])
            options = [w for w in words[1:] if re.match(r"-[IDfmsO]|-isystem", w)]
            command = ["nice", "-n", "5", words[1] if "ccache" in words[0] else words[0]]
            command += [*options, "-w", "-fsyntax-only", "-x", "c++", self.place / name]
            done = subprocess.run(
                command, cwd=self.build_place, capture_output=True, text=True, check=False
            )
            return places_of_errors(done.stderr) if done.returncode else set()

        with ThreadPoolExecutor(self.jobs) as pool:
            return set().union(*pool.map(one, files))

    @staticmethod
    def source_beside(header, sources):
        """A source of the header's layer, whose options fit."""
        layer = header.split("/")[0]
        return next(name for name in sorted(sources) if name.startswith(layer + "/"))

    def make(self, mutants, say):
        """Builds the mutants; drops those that do not compile. The others."""
        left, files = list(mutants), sorted(edits(self.root, mutants))
        self.write(left)
        self.configure()
        for _ in range(20):
            bad = self.parse(files)
            files = sorted({file for file, _ in bad})
            wrong = at_fault(left, bad)
            if not wrong:
                break
            say(f"{len(wrong)} mutants do not compile: {', '.join(m.title() for m in wrong)}")
            left = [m for m in left if m not in wrong]
            self.write(left)
        for _ in range(20):
            bad = self.build()
            if not bad:
                return left
            wrong = at_fault(left, bad)
            if not wrong:
                raise SystemExit(f"mutate: the build failed: {self.place / 'build.log'}")
            names = ", ".join(m.title() for m in wrong)
            say(f"build: {len(wrong)} mutants do not compile: {names}")
            left = [m for m in left if m not in wrong]
            self.write(left)
        raise SystemExit("mutate: the build does not come to an end")


def digest_of(paths):
    hashed = hashlib.sha256()
    for path in paths:
        hashed.update(str(path).encode() + pathlib.Path(path).read_bytes())
    return hashed.hexdigest()
