#!/usr/bin/env python3
"""mutants - each patch of tests/mutants fits its sources, and names a test.

A patch that does not fit proves nothing about the tests."""

import pathlib
import sys

from source import finish, root

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from mutation import patches, switched  # noqa: E402
from mutation.tree import SCRIPTS, SIMULATOR, tests_of  # noqa: E402


def offences(tree: pathlib.Path) -> list[str]:
    found, seen = [], {}
    programs = {*tests_of(tree), *SCRIPTS, SIMULATOR}
    for path in sorted((tree / patches.FOLDER).rglob("*")):
        if path.is_dir():
            continue
        place = f"{path.relative_to(tree)}: "
        if path.suffix != ".patch" or path.parent.parent != tree / patches.FOLDER:
            found.append(place + f"is no {patches.FOLDER}/AREA/NAME.patch: move it")
            continue
        if path.stem in seen:
            found.append(place + f"{seen[path.stem]} has the same name: rename one of them")
        seen[path.stem] = path.relative_to(tree)
        try:
            patch = patches.parse(path)
            switched.edits_of(tree, {1: patch})
        except patches.Misfit as misfit:
            found.append(place + str(misfit))
            continue
        if patch.program not in programs:
            found.append(place + f"there is no test {patch.program}: name one that there is")
    return found


if __name__ == "__main__":
    finish(offences(root()), "patches of tests/mutants")
