"""relink - a sample of mutants in a build that is there already.

Only the sources with mutants are compiled, with the commands of that build, and those that include
a header with mutants. Then the test programs are linked again, with these objects in the place of
the build's own. Twenty mutants take about a minute, a whole tree ten."""

import json
import pathlib
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor

from mutation.sites import rewrite
from mutation.tree import Tree, at_fault, edits, places_of_errors, write_if_changed


class Relink(Tree):
    """As Tree. `build`: a finished build of the sources in `root`; it is not changed."""

    def __init__(self, root, place, build, jobs, wanted=()):
        super().__init__(root, place, jobs, wanted)
        self.build, self.build_place = build, place

    def write(self, mutants):
        """The sources with mutants; their names."""
        by_file = edits(self.root, mutants)
        for name, found in by_file.items():
            write_if_changed(self.place / name, rewrite((self.root / name).read_text(), found))
        self.write_switch()
        return set(by_file)

    def ninja(self, *words):
        return subprocess.run(
            ["ninja", "-C", self.build, "-t", *words], capture_output=True, text=True, check=True
        ).stdout

    def links(self):
        """{program: words of its link command}. Names of test sources are links to the program of
        their folder."""
        found = {}
        for name in self.programs():
            program = (self.build / "bin" / name).resolve().name
            if program not in found:
                command = self.ninja("commands", "-s", f"bin/{program}").split(" && ")[1]
                found[program] = shlex.split(command)
        return found

    def includers(self, headers):
        """Objects of the programs that depend on one of the headers."""
        if not headers:
            return set()
        linked = set().union(*self.links().values())
        found, target = set(), ""
        wanted = {str(self.root / name) for name in headers}
        for line in self.ninja("deps").splitlines():
            if line and not line.startswith(" "):
                target = line.split(":")[0]
            elif line.strip() in wanted and (target in linked or target.endswith(".cc.o")):
                found.add(target)
        return found

    def commands(self, files):
        """{object: (source, words of its compiler command in the build)}"""
        headers = {name for name in files if name.endswith(".h")}
        includers, left, found = self.includers(headers), files - headers, {}
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            words = shlex.split(entry["command"])
            name = str(pathlib.Path(entry["file"]).relative_to(self.root))
            target = words[words.index("-o") + 1]
            if name in files or target in includers:
                found[target] = (name, words)
                left.discard(name)
        if left:
            raise SystemExit(f"mutate: {self.build} does not compile {min(left)}")
        return found

    def compile(self, target, name, words):
        """Compiles a source for an object; the places of errors."""
        at = words.index("-o") + 1
        ours = self.place / target
        ours.parent.mkdir(parents=True, exist_ok=True)
        source = self.place / name if (self.place / name).exists() else self.root / name
        command = [words[0], f"-I{self.place}", *words[1:at], str(ours), *words[at + 1 : -1]]
        command += [str(source), "-O1", "-g0", "-w"]
        done = subprocess.run(command, cwd=self.build, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return set()
        places = places_of_errors(done.stderr)
        if not places:
            raise SystemExit(f"mutate: {name} is not compiled:\n{done.stderr}")
        return places

    def in_archives(self, words, objects):
        """Our objects whose like is in an archive of a link command: with ours before it, the
        linker takes none of the archive."""
        members = set()
        for archive in (word for word in words if word.endswith(".a")):
            if (self.build / archive).exists():
                listed = subprocess.run(
                    ["ar", "t", self.build / archive], capture_output=True, text=True, check=True
                )
                members |= set(listed.stdout.split())
        return [
            str(self.place / target)
            for target in sorted(objects)
            if target not in words and pathlib.Path(target).name in members
        ]

    def link(self, objects):
        """Links each program that has one of the objects."""
        (self.place / "bin").mkdir(exist_ok=True)
        links = self.links()

        def one(program):
            words = links[program]
            inside = self.in_archives(words, objects)
            if not inside and not any(word in objects for word in words):
                return
            words = [str(self.place / word) if word in objects else word for word in words]
            words[words.index("-o") + 2 : words.index("-o") + 2] = inside
            words[words.index("-o") + 1] = str(self.place / "bin" / program)
            subprocess.run([*words, "-Wl,-S"], cwd=self.build, check=True)

        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(one, links))
        for name in self.programs():
            program = (self.build / "bin" / name).resolve().name
            if name != program and (self.place / "bin" / program).exists():
                (self.place / "bin" / name).unlink(missing_ok=True)
                (self.place / "bin" / name).symlink_to(program)

    def make(self, mutants, say):
        left, objects = list(mutants), set()
        due = self.write(left)
        while due:
            commands = self.commands(due)
            say(f"compiles {len(commands)} sources")
            with ThreadPoolExecutor(self.jobs) as pool:
                bad = dict(zip(commands, pool.map(
                    lambda it: self.compile(it[0], *it[1]), commands.items()
                )))  # fmt: skip
            objects.update(target for target in bad if not bad[target])
            places = set().union(*bad.values())
            wrong = at_fault(left, places) if places else []
            if wrong:
                say(f"{len(wrong)} mutants do not compile: {', '.join(m.title() for m in wrong)}")
            left = [m for m in left if m not in wrong]
            due = set(edits(self.root, wrong)) & self.write(left) if wrong else set()
        self.link(objects)
        return left
