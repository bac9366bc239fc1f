#!/usr/bin/env python3
"""symbols.py - compares what the shared library exports with the list in liblockstep.symbols.

Usage: symbols.py LIBRARY [--write] [--list FILE]. A program that was linked with the library needs
these symbols, so a symbol that is missing is an error: a new SONAME, or a mistake
(CONTRIBUTING.md, "The interface of the shared library"). A symbol that is not listed is an error,
too: --write adds it to the list, on purpose. Each function of a public header that is not defined
there must be exported, and nothing else may be.
"""

import argparse
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "checks"))
from public_calls import declared_functions

HEAD = "# What liblockstep.so exports, as nm -DC prints it; symbols.py --write LIBRARY writes it.\n"


def exported(library):
    """The names that the library defines for others, without the node of the version itself."""
    listed = subprocess.run(
        ["nm", "--dynamic", "--demangle", "--defined-only", library],
        capture_output=True,
        text=True,
        check=True,
    )
    names = (line.split(maxsplit=2) for line in listed.stdout.splitlines())
    # Weak functions are inline: every program that needs one has its own.
    names = {name for _, kind, name in (n for n in names if len(n) == 3) if kind not in "AW"}
    return {re.sub(r"@@?LOCKSTEP_[\d.]+$", "", name) for name in names}


def function(name):
    """Class and function of a symbol: "Store::open"; of a vtable its class."""
    name = name.removeprefix("vtable for ").removeprefix("lockstep::").replace("[abi:cxx11]", "")
    return name.split("(")[0]


def offences(found, listed, public):
    for name in sorted(listed - found):
        yield f"no longer exported: {name}"
    for name in sorted(found - listed):
        yield f"exported and not listed; --write adds it: {name}"
    for name in sorted(found):
        if re.match(r"lockstep_\w+$", name):
            continue  # the C interface
        if not name.removeprefix("vtable for ").startswith("lockstep::"):
            yield f"exported from outside lockstep: {name}"
        elif re.match(r"(?:vtable for )?lockstep::(?:sm|txn|threads)::", name):
            yield f"exported from inside the engine: {name}"
    names = {function(name) for name in found}
    for name in sorted(public - names):
        yield f"declared in a public header and not exported (liblockstep.map.in): {name}"


def c_functions(tree):
    """Names of the functions that the headers of the C interface declare."""
    declares = re.compile(
        r"^(?:int|void|bool|uint\d+_t|const char\*|lockstep_slice) (lockstep_\w+)\(", re.M
    )
    for header in (tree / "sm/include/lockstep/c").glob("*.h"):
        yield from declares.findall(header.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library")
    parser.add_argument("--list", type=pathlib.Path, default=HERE / "liblockstep.symbols")
    parser.add_argument("--write", action="store_true", help="write the list anew")
    options = parser.parse_args()
    found = exported(options.library)
    if options.write:
        options.list.write_text(HEAD + "".join(f"{name}\n" for name in sorted(found)))
    tree = HERE.parents[1]
    lines = options.list.read_text().splitlines()
    listed = {line for line in lines if line and not line.startswith("#")}
    wrong = list(offences(found, listed, {*declared_functions(tree), *c_functions(tree)}))
    print("\n".join(wrong) if wrong else f"symbols: {len(found)} exported, all listed")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
