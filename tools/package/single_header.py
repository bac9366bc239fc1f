"""single_header - all public headers of the library as one file.

Each header stands where the first one that includes it needs it.
"""

import pathlib
import re

INCLUDE = re.compile(r"#include <(lockstep/[\w/.]+)>")


def single_header(include: pathlib.Path, version: str) -> str:
    """The text for the headers below INCLUDE/lockstep."""
    seen: set[pathlib.Path] = set()
    parts = [
        f"// lockstep.hpp - the public headers of Lockstep {version}, made into one file.\n",
        "#pragma once\n",
    ]
    for header in sorted((include / "lockstep").glob("*.h")):
        parts += expanded(include, header, seen)
    return "".join(parts)


def expanded(include: pathlib.Path, header: pathlib.Path, seen: set[pathlib.Path]) -> list[str]:
    """The lines of a header, with those of each header of the library that is new."""
    if header in seen:
        return []
    seen.add(header)
    lines = []
    for line in header.read_text().splitlines(keepends=True):
        found = INCLUDE.match(line)
        if found and (include / found[1]).exists():
            lines += expanded(include, include / found[1], seen)
        elif not line.startswith("#pragma once"):
            lines.append(line)
    return lines
