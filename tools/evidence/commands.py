"""commands - the programs that make our figures: how each is called, how long it takes, and what it
prints.
"""

import dataclasses
import json
import pathlib
import subprocess
import tempfile


class Missing(Exception):
    """A command does not exist in this build, or its output lacks a figure."""


class Failed(Exception):
    """A command ended with an error and without results."""


@dataclasses.dataclass(frozen=True)
class Command:
    """A program of the build, its arguments, and its minutes on two quiet cores."""

    program: str
    arguments: tuple[str, ...]
    minutes: float

    def text(self) -> str:
        return " ".join((self.program, *self.arguments))


class Output:
    """What a command wrote with --json."""

    def __init__(self, document: dict) -> None:
        self.document = document

    def measurement(self, name: str, behind: str = "") -> float:
        """The measurement of that name; the first one behind `behind`, if it is given."""
        found = not behind
        for entry in self.document.get("measurements", []):
            if found and entry["name"] == name:
                return float(entry["value"])
            found = found or entry["name"] == behind
        raise Missing(f"no measurement '{name}'" + (f" behind '{behind}'" if behind else ""))

    def claims(self, words: str) -> list[bool]:
        """Whether each claim holds whose text begins with `words`."""
        found = [
            bool(claim["holds"])
            for claim in self.document.get("claims", [])
            if claim["claim"].startswith(words)
        ]
        if not found:
            raise Missing(f"no claim '{words} ...'")
        return found

    def field(self, *path: str | int) -> float:
        """A number within the document. A text like `l1=65536,2,64` takes the entry of a list with
        that field.
        """
        at = self.document
        for step in path:
            try:
                if isinstance(step, str) and "=" in step:
                    name, wanted = step.split("=", 1)
                    at = next(entry for entry in at if str(entry[name]) == wanted)
                else:
                    at = at[step]
            except (KeyError, IndexError, TypeError, StopIteration):
                raise Missing(f"no field {' '.join(map(str, path))}") from None
        return float(at)


COMMANDS = {
    "icache operations": Command(
        "lockstep-icache", ("run", "fetch", "update", "--points", "icache", "--no-time"), 0.5
    ),
    "icache transactions": Command(
        "lockstep-icache",
        ("run", "payment", "mix4", "--points", "icache", "--lock-policy", "short-first")
        + ("--transactions", "1000", "--no-time"),
        2,
    ),
    "steps": Command("lockstep-bench", ("steps", "--bytes", "16M"), 1),
    "tpcc-steps": Command(
        "lockstep-bench",
        ("tpcc-steps", "--packets", "--mix", "payment", "--warehouses", "10"),
        2,
    ),
    "production-line": Command("lockstep-bench", ("production-line",), 1),
    "scan-policies": Command("lockstep-bench", ("scan-policies",), 0.2),
    "reports": Command("lockstep-bench", ("reports", "--warehouses", "1"), 2),
    "answers": Command("lockstep-bench", ("answers",), 1),
    "qpipe": Command("lockstep-bench", ("qpipe",), 1),
}


def benchmarks(build: pathlib.Path) -> set[str]:
    """Names that lockstep-bench of this build knows."""
    listed = subprocess.run(
        [build / "bin/lockstep-bench", "--list"], capture_output=True, text=True, check=True
    )
    return {line.split()[0] for line in listed.stdout.splitlines() if line.strip()}


def missing(build: pathlib.Path, names: set[str]) -> dict[str, str]:
    """Which of the commands do not exist, and why."""
    found: dict[str, str] = {}
    known: set[str] | None = None
    for name in sorted(names):
        command = COMMANDS[name]
        if not (build / "bin" / command.program).exists():
            found[name] = f"{command.program} is not built"
        elif command.program == "lockstep-bench":
            known = benchmarks(build) if known is None else known
            if command.arguments[0] not in known:
                found[name] = f"lockstep-bench has no '{command.arguments[0]}'"
    return found


def run(build: pathlib.Path, name: str) -> Output:
    """Runs the command. A claim of its own that fails is no error here: the rows judge."""
    command = COMMANDS[name]
    with tempfile.TemporaryDirectory(prefix="lockstep-evidence-") as scratch:
        path = pathlib.Path(scratch) / "out.json"
        words = [str(build / "bin" / command.program), *command.arguments, "--json", str(path)]
        done = subprocess.run(words, capture_output=True, text=True)
        if not path.exists():
            raise Failed(f"status {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}")
        return Output(json.loads(path.read_text()))
