"""hunt - runs test programs against one mutant after the other.

A first run of every program without a mutant tells its time and the mutants that it comes past.
Only these programs can catch a mutant. The one that a mutant made by hand names runs first, or the
one whose name fits the file, then the fastest ones."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from mutation import in_memory
from mutation.tree import NUMBERS, SCRIPTS, SIMULATOR

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHORT = {
    "LOCKSTEP_TRANSACTIONS": "30000",
    "LOCKSTEP_CRASH_SEEDS": "4",
    "LOCKSTEP_FUZZ_RUNS": "10",
}


def unmount_below(place):
    """A file system of a program that was killed would be left, and the directory with it."""
    mounts = pathlib.Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    for where in [line.split()[1] for line in mounts]:
        if where.startswith(os.path.realpath(place) + "/"):
            subprocess.run(["umount", "--lazy", where], check=False, capture_output=True)


class Hunt:
    def __init__(self, binaries, names, limit, budget, first_only=False):
        """`first_only`: a mutant made by hand is for the program that it names alone."""
        self.bin, self.names = pathlib.Path(binaries), list(names)
        self.limit, self.budget, self.first_only = limit, budget, first_only
        self.files = in_memory.directory()
        self.seconds, self.seen, self.left_out = {}, {}, {}

    def command(self, name):
        if name == SIMULATOR:
            return [str(self.bin / name), "--seed", "1", "--seeds", "4"]
        if name in SCRIPTS:
            script, programs = SCRIPTS[name]
            return [sys.executable, str(ROOT / script), *(str(self.bin / p) for p in programs)]
        return [str(self.bin / name), "--gtest_fail_fast", "--gtest_brief=1"]

    def run(self, name, number, limit, seen=None):
        """Why the program failed, or None."""
        with tempfile.TemporaryDirectory(
            prefix="mutate_", dir=self.files, ignore_cleanup_errors=True
        ) as place:
            env = dict(os.environ, LOCKSTEP_MUTATION=str(number), TMPDIR=place, **SHORT)
            if seen:
                env["LOCKSTEP_MUTATION_SEEN"] = seen
            with open(os.path.join(place, "output"), "w+b") as output:
                with subprocess.Popen(
                    self.command(name),
                    cwd=place,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                ) as child:
                    try:
                        child.wait(limit)
                    except subprocess.TimeoutExpired:
                        return "hangs"
                    finally:
                        # With the children that it has started.
                        try:
                            os.killpg(child.pid, signal.SIGKILL)
                        except ProcessLookupError:
                            pass
                        unmount_below(place)
                if child.returncode == 0:
                    return None
                output.seek(0)
                text = output.read().decode(errors="replace")
        stopped = re.search(r"CHECK failed: (.*?) at", text)
        failed = re.search(r"\[  FAILED  \] ([\w/.]+)", text)
        if stopped:
            return "CHECK " + stopped.group(1)
        return failed.group(1) if failed else f"status {child.returncode}"

    def first_run(self, jobs):
        """Times, what each program comes past, and which ones fail without a mutant."""

        def one(name):
            with tempfile.NamedTemporaryFile(prefix="mutate_seen_", dir=self.files) as file:
                file.truncate(NUMBERS)
                began = time.monotonic()
                why = self.run(name, 0, self.limit, file.name)
                self.seconds[name] = time.monotonic() - began
                seen = pathlib.Path(file.name).read_bytes()
                self.seen[name] = {n for n in range(NUMBERS) if seen[n]}
                if why:
                    self.left_out[name] = why

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(one, self.names))
        self.names = [n for n in self.names if n not in self.left_out]

    def state(self):
        return {
            "seconds": self.seconds,
            "seen": {name: sorted(numbers) for name, numbers in self.seen.items()},
            "left_out": self.left_out,
        }

    def restore(self, state):
        self.seconds, self.left_out = state["seconds"], state["left_out"]
        self.seen = {name: set(numbers) for name, numbers in state["seen"].items()}
        self.names = [n for n in self.names if n in self.seconds and n not in self.left_out]

    def order(self, mutant):
        """Programs that come past the mutant: first by name, then by time."""
        stem = pathlib.Path(mutant.file).stem
        layer = mutant.file.split("/")[0]
        words = stem.split("_")

        def rank(name):
            fits = name != f"{layer}_{stem}_test"
            near = sum(word in name.split("_") for word in words)
            return (name != mutant.program, fits, self.seconds[name] / (1 + 2 * near))

        order = sorted((n for n in self.names if mutant.number in self.seen[n]), key=rank)
        return [n for n in order if n == mutant.program] if self.first_only else order

    def hunt(self, mutant):
        """{status, by, why, seconds}."""
        began = time.monotonic()
        order, tried = self.order(mutant), 0
        for name in order:
            spent = time.monotonic() - began
            if spent > self.budget:
                break
            tried += 1
            limit = 4 * self.seconds[name] + 15
            why = self.run(name, mutant.number, limit)
            if why == "hangs":  # or the machine had other work
                why = self.run(name, mutant.number, limit)
            if why:
                return self.result("caught", began, by=name, why=why)
        status = "survived" if order else "not reached"
        return self.result(status, began, why=f"{tried} of {len(order)} programs ran")

    @staticmethod
    def result(status, began, by="", why=""):
        spent = round(time.monotonic() - began, 2)
        return {"status": status, "by": by, "why": why, "seconds": spent}

    def hunt_all(self, mutants, jobs, told, until):
        """Calls told(mutant, result) for each; stops between mutants when the time is over."""
        lock, left = threading.Lock(), list(mutants)

        def work():
            while True:
                with lock:
                    if not left or time.monotonic() > until:
                        return
                    mutant = left.pop(0)
                result = self.hunt(mutant)
                with lock:
                    told(mutant, result)

        threads = [threading.Thread(target=work) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
