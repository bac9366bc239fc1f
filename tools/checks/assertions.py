#!/usr/bin/env python3
"""assertions - the density of assertions in the engine, which may only rise.

Usage: assertions.py [ROOT] [--statistics] [--raise]. Counts CHECK, DCHECK, static_assert and
assert_state per thousand lines of code. tools/checks/assertions.json holds the minimum of each
folder; --raise stores the current densities there where they are higher.
"""

import json
import re
import sys

from source import ENGINE, code_lines, files, finish, root, without_comments

ASSERTION = re.compile(r"\b(?:D?CHECK|static_assert|assert_state)\s*\(")


def density(paths) -> tuple[int, int]:
    """(assertions, lines of code) of these files."""
    count = lines = 0
    for path in paths:
        text = path.read_text()
        count += len(ASSERTION.findall(without_comments(text)))
        lines += code_lines(text)
    return count, lines


def main() -> None:
    tree = root()
    floor_file = tree / "tools/checks/assertions.json"
    floors = json.loads(floor_file.read_text()) if floor_file.exists() else {}
    offences = []
    for top in ENGINE:
        folders = [top] + sorted(f"{top}/{p.name}" for p in (tree / top).iterdir() if p.is_dir())
        for folder in folders:
            count, lines = density(files(tree, ".h", ".cc", folders=[folder]))
            if lines == 0:
                continue
            rate = 1000 * count / lines
            if "--statistics" in sys.argv:
                print(f"{folder:<20}{count:>6} in {lines:>6} lines {rate:>7.1f} per thousand")
            if folder in floors and rate < floors[folder] - 0.05:
                offences.append(
                    f"{folder}: {rate:.1f} assertions per thousand lines, floor"
                    f" {floors[folder]}; assert what can be wrong in the new code"
                )
            if "--raise" in sys.argv and folder == top:
                floors[folder] = max(floors.get(folder, 0), int(10 * rate) / 10)
    if "--raise" in sys.argv:
        floor_file.write_text(json.dumps(floors, indent=2) + "\n")
    finish(offences, "assertions")


if __name__ == "__main__":
    main()
