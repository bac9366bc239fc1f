#!/usr/bin/env python3
"""A program with the address sanitizer uses the library as it is installed, without a warning.

Arguments: the sources, the shared library. Exit status 77: no compiler has the sanitizer.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77


def build(compiler: str, source: pathlib.Path, library: pathlib.Path, to: pathlib.Path) -> bool:
    includes = [f"-I{source / layer / 'include'}" for layer in ("threads", "txn", "sm")]
    made = subprocess.run(
        [compiler, "-std=c++20", "-O1", "-g", "-fsanitize=address", *includes]
        + [source / "tests/tools/sanitized_program.cc", "-o", to, library]
        + [f"-Wl,-rpath,{library.parent}"],
        capture_output=True,
        text=True,
    )
    if made.returncode != 0:
        print(f"{compiler}: skipped: {made.stderr.strip()[-300:]}")
    return made.returncode == 0


def main() -> int:
    source, library = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    tried = failed = 0
    for compiler in ("g++", "clang++-16"):
        with tempfile.TemporaryDirectory() as directory:
            program = pathlib.Path(directory, "program")
            if not shutil.which(compiler) or not build(compiler, source, library, program):
                continue
            tried += 1
            done = subprocess.run(
                [program, pathlib.Path(directory, "store")],
                capture_output=True,
                text=True,
                timeout=120,
            )
            said = done.stdout + done.stderr
            if done.returncode != 0 or "Sanitizer" in said or "ASan" in said:
                failed += 1
                print(f"{compiler}: exit status {done.returncode}\n{said[:3000]}")
    return 1 if failed else 0 if tried else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
