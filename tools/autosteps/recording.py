"""recording - geometries as text, and streams recorded from the engine."""

import json
import pathlib
import re
import subprocess

import knees
import trace
from program import Program

FOLLOWERS = range(1, 5)  # threads whose executions are looked at
TRANSACTIONS = ("payment", "neworder", "mix4", "mix")


class BadInput(Exception):
    pass


def parse_geometry(text):
    """As lockstep-icache reads it: any number of sets that is a power of two, such as 48K,12."""
    if text == "machine":
        text = machine_geometry()
    match = re.fullmatch(r"(\d+)([KkMm]?),(\d+|full)(?:,(\d+))?", text)
    if not match:
        raise BadInput(
            f"geometry '{text}': SIZE,WAYS[,LINE] is wanted, such as 65536,2,64 or 48K,12 or"
            " 16K,full,64"
        )
    size = int(match[1]) << {"": 0, "k": 10, "m": 20}[match[2].lower()]
    line = int(match[4] or 64)
    power = lambda n: n > 0 and n & n - 1 == 0
    if not (power(line) and 16 <= line <= 256 and line <= size and size % line == 0):
        raise BadInput(
            f"geometry '{text}': the line must be a power of two from 16 to 256 bytes, the size a"
            " multiple of it"
        )
    lines = size // line
    ways = lines if match[3] == "full" else int(match[3])
    if not (0 < ways <= lines and lines % ways == 0 and power(lines // ways)):
        raise BadInput(
            f"geometry '{text}': the number of sets, size / line / ways, must be a power of two"
        )
    return knees.Geometry(size, 0 if match[3] == "full" else ways, line)


def machine_geometry():
    """The first-level instruction cache of this machine."""
    for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        read = lambda name: (index / name).read_text().strip()
        if read("type") == "Instruction":
            return f"{read('size')},{read('ways_of_associativity')},{read('coherency_line_size')}"
    raise BadInput("this machine does not tell its instruction cache; give --geometry")


def call(icache, *words):
    """Runs lockstep-icache."""
    try:
        done = subprocess.run([icache, *words], capture_output=True, text=True)
    except OSError as error:
        raise BadInput(f"{icache} cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        raise BadInput(done.stderr.strip() or f"{icache} failed")


def record(icache, operation, directory):
    """Traces a team of three with all points on, or for a transaction a hundred terminals of ten
    warehouses. The second thread's stream is that of a follower, and the named points are visible
    in it; of a transaction, one of the first followers has it.
    """
    path = directory / f"{operation}.trace"
    size = ["--rounds", "3"]
    if operation in TRANSACTIONS:
        size = ["--warehouses", "10", "--transactions", "200", "--warm-transactions", "500"]
    plan = f"{operation}:ctx:3"
    call(icache, "trace", plan, *size, "--points", "icache", "--out", str(path))
    return path


def footprint(icache, operation, directory):
    """Bytes of code as `lockstep-icache run` counts them."""
    path = directory / f"{operation}.json"
    call(icache, "run", operation, "--no-time", "--points", "icache", "--json", str(path))
    return json.loads(path.read_text())["comparisons"][0]["footprint_bytes"]


def load(path, program_path, operation="operation"):
    """(operation's name, stream, program or None, names of points, names of points after a
    prefetch)
    """
    words = trace.read_words(path)
    info_path = pathlib.Path(f"{path}.json")
    if not info_path.exists():
        return (
            operation,
            trace.whole(words)[0],
            Program(program_path) if program_path else None,
            [],
            set(),
        )
    info = json.loads(info_path.read_text())
    what = info["parts"][0]["what"]
    program = Program(program_path or info["program"], ("lockstep_ctx_swap", info["swap"]))
    found = [
        execution
        for thread in (FOLLOWERS if what in TRANSACTIONS else FOLLOWERS[:1])
        for execution in trace.operations(
            trace.part(words, 0),
            thread,
            program.is_machinery,
            info["skipped"],
            info["swap"],
            len(info["points"]),
            what in TRANSACTIONS,
        )
    ]
    if not found:
        raise BadInput(f"{path} holds no operation of a second thread")
    # Transactions of one kind differ in length.
    if what in TRANSACTIONS:
        found.sort(key=lambda o: o.instructions)
    return (
        what,
        found[len(found) // 2] if what in TRANSACTIONS else found[-1],
        program,
        [p["name"] for p in info["points"]],
        {p["name"] for p in info["points"] if p["data"]},
    )
