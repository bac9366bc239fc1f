"""trace - reads a trace of lockstep-tracer (tools/icache/trace_format.h) and extracts one member's
operation.

A stream is a list of runs (address, bytes, instructions) in the order of execution.
"""

import array
import bisect
import pathlib
import sys

MAGIC = 0x31656361724B534C
RUN, LOAD, STORE, BRANCH, INDIRECT, CALL, RETURN, STACK, MARK, WATCH = range(1, 11)
OP_BEGIN, OP_END, UNITS, SEGMENT = range(1, 5)
ADDRESS = (1 << 48) - 1
STACK_REACH, STACK_ABOVE = 60 * 1024, 4096


class BadTrace(Exception):
    pass


def read_words(path):
    """All words after the magic number."""
    try:
        data = pathlib.Path(path).read_bytes()
    except OSError as error:
        raise BadTrace(f"cannot read the trace {path}: {error.strerror}") from error
    words = array.array("Q")
    words.frombytes(data[: len(data) // 8 * 8])
    if sys.byteorder != "little" or not words or words[0] != MAGIC:
        raise BadTrace(f"{path} is no trace of lockstep-tracer")
    return words[1:]


def kind(word):
    return word >> 60


def small(word):
    return word >> 48 & 0xFFF


def run_word(address, size, instructions):
    return RUN << 60 | (instructions | size << 4) << 48 | address


class Operation:
    """One execution of an operation by one thread: its stream, and the positions of named CTX
    points.

    `alone` is the same stream without the code of switches and team formation: the code of a
    thread that runs alone."""

    def __init__(self, alone=True):
        self.runs = []
        self.named = []  # (instructions executed before it, point number)
        self.instructions = 0
        self.alone = Operation(alone=False) if alone else self

    def add(self, address, size, instructions, machinery=False):
        self.runs.append((address, size, instructions))
        self.instructions += instructions
        if not machinery and self.alone is not self:
            self.alone.add(address, size, instructions)


class _Threads:
    """Finds the running thread by the stack pointer."""

    def __init__(self):
        self.tops = []
        self.names = {}

    def learn(self, sp, thread):
        if sp not in self.names:
            bisect.insort(self.tops, sp)
        self.names[sp] = thread

    def at(self, sp):
        i = bisect.bisect_left(self.tops, sp - STACK_ABOVE)
        return (
            self.names[self.tops[i]]
            if i < len(self.tops) and self.tops[i] < sp + STACK_REACH
            else None
        )


def operations(
    words, thread, is_machinery=lambda address: False, skipped=0, swap=0, points=0, by_marks_only=False
):
    """All executions of the marked operation by `thread`. is_machinery() recognises the code of
    switches and team formation.

    `skipped` is the function that a CTX point without a switch calls; `swap` is the function of
    every switch. Both get the point's number, which is `points` for a switch in the wrapper.

    In a team, an execution lasts from the wrapper's switch that begins it to the switch that
    begins the next execution. The code after the last CTX point and the wrapper's own work run
    without a break. Without such switches, or with `by_marks_only` (a transaction consists of many
    operations), an execution lasts from mark to mark."""
    by_marks, by_switches = [], []
    marked = switched = None
    threads, running, inside = _Threads(), None, False
    for word in words:
        what, address = kind(word), word & ADDRESS
        if what == STACK:
            sp, running = address, threads.at(address)
        elif what == MARK and small(word) in (OP_BEGIN, OP_END):
            threads.learn(sp, address)
            running = address
            if address == thread:
                inside = small(word) == OP_BEGIN
                if marked and not inside:
                    by_marks.append(marked)
                marked = Operation() if inside else None
        elif inside and running == thread:
            for operation in (o for o in (marked, switched) if o):
                if what == RUN:
                    operation.add(
                        address, small(word) >> 4, small(word) & 15, is_machinery(address)
                    )
                elif what == WATCH and address in (skipped, swap) and small(word) < points:
                    operation.named.append((operation.instructions, small(word)))
            if what == WATCH and address == swap and small(word) >= points:
                if switched:
                    by_switches.append(switched)
                switched = Operation()
    return by_marks if by_marks_only else by_switches or by_marks


def whole(words):
    """The whole trace as one stream, for traces without marks."""
    stream = Operation()
    for word in words:
        if kind(word) == RUN:
            stream.add(word & ADDRESS, small(word) >> 4, small(word) & 15)
    return [stream]


def part(words, number):
    """The words between mark SEGMENT `number` and the next such mark."""
    begin = None
    for i, word in enumerate(words):
        if kind(word) == MARK and small(word) == SEGMENT:
            if word & ADDRESS == number:
                begin = i + 1
            elif begin is not None:
                return words[begin:i]
    return (
        words
        if begin is None and number == 0
        else words[begin:] if begin is not None else words[:0]
    )
