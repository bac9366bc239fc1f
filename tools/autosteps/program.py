"""program - names for the addresses of a program: functions (nm), source lines (addr2line) and the
load address.
"""

import bisect
import re
import subprocess

# Code that is not part of an operation: the switches and team formation.
MACHINERY = re.compile(
    r"lockstep_ctx_|lockstep::threads::(Steps::|regular_form|\(anonymous namespace\)::FloatModes)"
)


class BadProgram(Exception):
    pass


def _tool(words, given=None):
    try:
        return subprocess.run(words, input=given, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError as error:
        raise BadProgram(f"{words[0]} is missing (Debian: apt-get install binutils)") from error
    except subprocess.CalledProcessError as error:
        raise BadProgram(f"{' '.join(words)}: {error.stderr.strip()}") from error


class Program:
    """`known`: the name of a symbol and its run-time address. Without it, addresses are those of
    the file.
    """

    def __init__(self, path, known=None):
        self.path = path
        self.functions = []  # (begin, end, name)
        symbols = {}
        for line in _tool(["nm", "-C", "-S", "--defined-only", path]).splitlines():
            words = line.split(None, 3)
            if len(words) == 4 and words[2] in "tTwWiV":
                begin, size = int(words[0], 16), int(words[1], 16)
                self.functions.append((begin, begin + size, words[3]))
                symbols.setdefault(words[3], begin)
        self.functions.sort()
        self.begins = [f[0] for f in self.functions]
        self.base = 0
        if known:
            name, address = known
            if name not in symbols:
                raise BadProgram(f"{path} has no symbol {name}: is it the program that was traced?")
            self.base = address - symbols[name]
        self.end = max((f[1] for f in self.functions), default=0)
        self._machinery = {}

    def function(self, address):
        """Name of the function at a run-time address, or None outside the program."""
        at = address - self.base
        i = bisect.bisect_right(self.begins, at) - 1
        return (
            self.functions[i][2]
            if i >= 0 and at < max(self.functions[i][1], self.functions[i][0] + 1)
            else None
        )

    def holds(self, address):
        return self.begins and self.begins[0] <= address - self.base < self.end

    def is_machinery(self, address):
        if address not in self._machinery:
            name = self.function(address)
            self._machinery[address] = name is not None and MACHINERY.match(name) is not None
        return self._machinery[address]

    def lines(self, addresses):
        """{address: "file:line (function)"}. For inlined calls: the innermost in a source file, or
        else the innermost of the project.
        """
        addresses = list(dict.fromkeys(addresses))
        if not addresses:
            return {}
        given = "".join(f"{a - self.base:#x}\n" for a in addresses)
        answer = _tool(["addr2line", "-e", self.path, "-a", "-f", "-C", "-i"], given)
        places, frames = {}, []
        blocks = re.split(r"^(0x[0-9a-f]+)\n", answer, flags=re.M)[1:]
        for address, block in zip(addresses, blocks[1::2]):
            lines = block.splitlines()
            frames = [(lines[k + 1], lines[k]) for k in range(0, len(lines) - 1, 2)]
            own = [f for f in frames if "/usr/" not in f[0] and not f[0].startswith("?")] or frames
            own = [f for f in own if re.search(r"\.(cc|S):", f[0])] or own
            place, function = own[0]
            place = re.sub(r" \(discriminator \d+\)", "", place)
            places[address] = (
                f"{re.sub(r'^.*/(?=(sm|txn|threads|tpcc|tools|tests)/)', '', place)}"
                f" ({function.split('(')[0]})"
            )
        return places
