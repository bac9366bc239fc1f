"""library - builds the procedure objects of the tests, as an application builds its own."""

import os
import pathlib
import struct
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
PREFIX = pathlib.Path(os.environ["LOCKSTEP_TEST_PREFIX"])


def build(directory, name="bank", *defines):
    """Compiles objects/bank.cc with macros; the path of the shared object."""
    out = directory / f"{name}.so"
    (libraries,) = {path.parent for path in PREFIX.glob("lib/**/liblockstep.so")}
    command = ["c++", "-std=c++17", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    command += [f"-D{define}" for define in defines]
    command += [f"-I{PREFIX}/include", str(HERE / "objects/bank.cc"), "-o", str(out)]
    command += [f"-L{libraries}", "-llockstep"]
    subprocess.run(command, check=True)
    return out


def numbers(*values):
    """A request or reply of the object: 64-bit integers."""
    return struct.pack(f"<{len(values)}q", *values)


def number(reply):
    """The one number of a reply."""
    (value,) = struct.unpack("<q", reply)
    return value
