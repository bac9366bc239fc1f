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

from mutation.sites import rewrite

SWITCH = """// mutation_switch.h - which mutant is on, and which ones a program comes past.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

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
}  // namespace lockstep_mutation
#define LOCKSTEP_MUTATED(number) ::lockstep_mutation::on(number)
"""
NUMBERS = 65536
SIMULATOR = "lockstep-sim"
COPIED = ("CMakeLists.txt", "LICENSE", "README.md")
COPIED += ("sm", "txn", "threads", "tpcc", "tests", "tools")
# Their programs reach txn/ and sm/, and need neither a driver nor a script.
LAYERS = ("txn", "sm", "isolation", "sim", "fuzz")
PLACE = re.compile(r"^(?:[^\s:]*/)?((?:sm|txn|threads)/[\w/.-]+):(\d+):", re.M)


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
    lines = {}
    for file, line in places:
        lines.setdefault(file, []).append(line)
    wrong = [m for m in mutants if any(m.line <= n <= m.last_line for n in lines.get(m.file, ()))]
    return wrong or [m for m in mutants if m.file in lines]


class Tree:
    def __init__(self, root, place, jobs, wanted=()):
        """`wanted`: patterns of the programs to build; none: all that can reach a mutant."""
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
        by_file = {}
        for mutant in mutants:
            by_file.setdefault(mutant.file, []).append(mutant)
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
        switch = SWITCH.replace("kNumbers", str(NUMBERS))
        write_if_changed(self.place / "mutation_switch.h", switch)
        self.write_build_file(by_file)

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
        """Test programs by their sources, and the simulator."""
        names = [
            f"{layer}_{path.stem}"
            for layer in LAYERS
            for path in sorted((self.root / "tests" / layer).rglob("*_test.cc"))
            if "perf" not in path.read_text(encoding="utf-8").split("\n", 1)[0]
        ]
        return [
            name
            for name in [*names, SIMULATOR]
            if not self.wanted or any(fnmatch.fnmatch(name, p) for p in self.wanted)
        ]

    def build(self):
        """Builds the programs; the places of errors: {(file, line)}. Empty: all is built."""
        command = ["nice", "-n", "5", "ninja", "-C", self.build_place, "-k", "0", f"-j{self.jobs}"]
        done = subprocess.run(
            [*command, *self.targets()], capture_output=True, text=True, check=False
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
        left, files = list(mutants), sorted({m.file for m in mutants})
        self.write(left)
        self.configure()
        for _ in range(20):
            bad = self.parse(files)
            files = sorted({file for file, _ in bad})
            wrong = at_fault(left, bad)
            if not wrong:
                break
            say(f"{len(wrong)} mutants do not compile")
            left = [m for m in left if m not in wrong]
            self.write(left)
        for _ in range(20):
            bad = self.build()
            if not bad:
                return left
            wrong = at_fault(left, bad)
            if not wrong:
                raise SystemExit(f"mutate: the build failed: {self.place / 'build.log'}")
            say(f"build: {len(wrong)} mutants do not compile")
            left = [m for m in left if m not in wrong]
            self.write(left)
        raise SystemExit("mutate: the build does not come to an end")


def digest_of(paths):
    hashed = hashlib.sha256()
    for path in paths:
        hashed.update(str(path).encode() + pathlib.Path(path).read_bytes())
    return hashed.hexdigest()
