"""measure - runs lockstep-icache and autosteps for the report, and keeps their results."""

import json
import pathlib
import subprocess
import sys
import time

AUTOSTEPS = pathlib.Path(__file__).resolve().parent.parent / "autosteps" / "autosteps.py"
SWEEP_KB, SWEEP_WAYS = (2, 4, 8, 16, 32, 64), ("1", "2", "4", "8", "full")


class Failed(Exception):
    pass


class Measure:
    """`runs`: what was run, as (name, command line, provenance or None)."""

    def __init__(self, icache, data, options):
        self.icache, self.data, self.options = icache, data, options
        self.runs = []

    def _run(self, words, what, path):
        if self.options.again and path.exists():
            return
        begin = time.monotonic()
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(f"{' '.join(map(str, words))}\n{done.stderr}")
        print(f"report: {what}: {time.monotonic() - begin:.0f} s", flush=True, file=sys.stderr)

    def compare(self, name, what, geometries, *more, timed=True):
        """Comparisons of `lockstep-icache run`; also writes them to the data folder."""
        path = self.data / f"{name}.json"
        words = [self.icache, "run", *what, "--json", path, "--seed", self.options.seed, *more]
        for geometry in dict.fromkeys(geometries):
            words += ["--geometry", geometry]
        if not timed:
            words += ["--no-time"]
        elif "--seconds" not in more:
            words += ["--seconds", self.options.seconds]
        self._run(words, name, path)
        result = json.loads(path.read_text())
        self.runs += [(name, p["command"], p) for p in result["provenance"]]
        return result["comparisons"]

    def autosteps(self, name, operations, geometry, *more):
        path = self.data / f"{name}.json"
        words = [
                sys.executable,
                AUTOSTEPS,
                "--icache",
                self.icache,
                *operations,
                "--geometry",
                geometry,
                "--json",
                path,
                "--emit",
                self.data / f"{name}.points",
                *more,
            ]
        self._run(words, name, path)
        self.runs.append((name, " ".join(map(str, words)), None))
        return json.loads(path.read_text())


def sweep_geometries():
    return [f"{kb * 1024},{ways},64" for kb in SWEEP_KB for ways in SWEEP_WAYS]


def machine(comparison, l1):
    return next(m for m in comparison["machines"] if m["l1"] == l1)


def tight_geometry(comparison):
    """The largest 8-way cache that the operation's code exceeds by a fifth, so that teams can save
    misses.
    """
    fitting = [kb for kb in SWEEP_KB if comparison["footprint_bytes"] >= 1.2 * kb * 1024]
    return f"{(max(fitting) if fitting else SWEEP_KB[0]) * 1024},8,64"
