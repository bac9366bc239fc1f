"""relink - a sample of mutants in a build that is there already.

Only the sources with mutants are compiled, with the commands of that build. Then the test programs
are linked again, with these objects in the place of the build's own. So headers have no mutants.
Twenty mutants take about a minute, a whole tree ten."""

import json
import pathlib
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor

from mutation.sites import rewrite
from mutation.tree import NUMBERS, SWITCH, Tree, at_fault, places_of_errors, write_if_changed


class Relink(Tree):
    """As Tree. `build`: a finished build of the sources in `root`; it is not changed."""

    def __init__(self, root, place, build, jobs, wanted=()):
        super().__init__(root, place, jobs, wanted)
        self.build, self.build_place = build, place

    def write(self, mutants):
        for name in {m.file for m in mutants}:
            text = rewrite((self.root / name).read_text(), [m for m in mutants if m.file == name])
            write_if_changed(self.place / name, text)
        switch = SWITCH.replace("kNumbers", str(NUMBERS))
        write_if_changed(self.place / "mutation_switch.h", switch)

    def commands(self, files):
        """{source: words of its compiler command in the build}"""
        found = {}
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            name = str(pathlib.Path(entry["file"]).relative_to(self.root))
            if name in files:
                found.setdefault(name, shlex.split(entry["command"]))
        if missing := files - set(found):
            raise SystemExit(f"mutate: {self.build} does not compile {min(missing)}")
        return found

    def compile(self, name, words, objects):
        """Compiles a source; the places of errors. `objects`: {the build's object: ours}"""
        at = words.index("-o") + 1
        target = self.place / words[at]
        target.parent.mkdir(parents=True, exist_ok=True)
        command = [*words[:at], str(target), *words[at + 1 : -1], str(self.place / name)]
        command += [f"-I{self.place}", "-O1", "-g0", "-w"]
        done = subprocess.run(command, cwd=self.build, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            objects[words[at]] = str(target)
            return set()
        places = places_of_errors(done.stderr)
        if not places:
            raise SystemExit(f"mutate: {name} is not compiled:\n{done.stderr}")
        return places

    def link(self, objects):
        """Links each program that has one of the objects. Names of test sources are links to the
        program of their folder."""
        (self.place / "bin").mkdir(exist_ok=True)
        programs = {name: (self.build / "bin" / name).resolve().name for name in self.targets()}

        def one(program):
            command = subprocess.run(
                ["ninja", "-C", self.build, "-t", "commands", "-s", f"bin/{program}"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.split(" && ")[1]
            words = shlex.split(command)
            if not any(word in objects for word in words):
                return
            words = [objects.get(word, word) for word in words]
            words[words.index("-o") + 1] = str(self.place / "bin" / program)
            subprocess.run([*words, "-Wl,-S"], cwd=self.build, check=True)

        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(one, sorted(set(programs.values()))))
        for name, program in programs.items():
            if name != program and (self.place / "bin" / program).exists():
                (self.place / "bin" / name).unlink(missing_ok=True)
                (self.place / "bin" / name).symlink_to(program)

    def make(self, mutants, say):
        left, objects = list(mutants), {}
        due = {m.file for m in left}
        while due:
            self.write([m for m in left if m.file in due])
            commands = self.commands(due)
            with ThreadPoolExecutor(self.jobs) as pool:
                bad = pool.map(lambda name: self.compile(name, commands[name], objects), due)
                wrong = at_fault(left, set().union(*bad))
            if wrong:
                say(f"{len(wrong)} mutants do not compile")
            left = [m for m in left if m not in wrong]
            due = {m.file for m in wrong} & {m.file for m in left}
        self.link(objects)
        return left
