"""reach - which test programs a change can reach, by the dependencies that ninja keeps."""

import collections
import pathlib
import subprocess


class Reach:
    """`changed`: files, relative to `root`. `build`: a build directory that was built once."""

    def __init__(self, root: pathlib.Path, build: pathlib.Path, changed: list[str]):
        self.root, self.build = root, build
        self.changed = {str(root / name) for name in changed}

    def ninja(self, *words: str) -> str:
        done = subprocess.run(
            ["ninja", "-C", self.build, "-t", *words], capture_output=True, text=True, check=False
        )
        return done.stdout

    def objects(self) -> set[str]:
        """Objects whose sources or headers have changed."""
        found, current = set(), ""
        for line in self.ninja("deps").splitlines():
            if line and not line.startswith(" "):
                current = line.split(":")[0]
            elif line.strip() in self.changed:
                found.add(current)
        return found

    def programs(self) -> list[str]:
        """Test programs that such an object is linked into."""
        objects = self.objects()
        names = {path.resolve().name for path in (self.build / "bin").glob("*_test")}
        reached = []
        for name in sorted(names):
            inputs = self.ninja("inputs", f"bin/{name}").split()
            if objects & set(inputs):
                reached.append(name)
        return reached

    def sources(self, programs: list[str]) -> list[str]:
        """The names of test sources in the programs, nearest to the change first."""
        links = collections.defaultdict(list)
        for path in sorted((self.build / "bin").glob("*_test")):
            links[path.resolve().name].append(path.name)
        stems = {pathlib.Path(name).stem for name in self.changed}
        folders = {"_".join(pathlib.Path(name).relative_to(self.root).parts[:-1]).removeprefix(
            "tests_") for name in self.changed}  # fmt: skip
        seconds = self.seconds()

        def rank(place: tuple[str, str]) -> tuple[int, float]:
            program, name = place
            source = name.partition("_")[2]
            if source in stems or source.removesuffix("_test") in stems:
                return 0, seconds.get(name, 0.0)
            return 1 if program.removesuffix("_tests") in folders else 2, seconds.get(name, 0.0)

        places = [(program, name) for program in programs for name in links[program]]
        return [name for _, name in sorted(places, key=rank)]

    def seconds(self) -> dict[str, float]:
        """How long the tests of a source took when ctest ran them with STEPS on; else 0."""
        log = self.build / "Testing/Temporary/CTestCostData.txt"
        found = {}
        for line in log.read_text().splitlines() if log.exists() else []:
            words = line.split()
            if len(words) == 3 and words[0].startswith("steps."):
                found[words[0].removeprefix("steps.").replace(".", "_", 1)] = float(words[2])
        return found
