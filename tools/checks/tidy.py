#!/usr/bin/env python3
"""tidy - runs clang-tidy-16 with the checks of .clang-tidy over C++ sources.

Usage: tidy.py [ROOT] [FILE...] [--all] [--since REF] [--list]. Prints one offence a line; the exit
status is then 1. ROOT is a folder with a .clang-tidy. A FILE is a source, a header or a folder.
--all takes every source, --since REF those that differ from REF. A header stands for the source of
the same name, or else for one source that includes it. Without any of these the script takes what
differs from the merge base with origin/main, or else from HEAD~1: at most FILES_MAX sources, so
that it ends in a minute. Where git does not tell what has changed, it takes FILES_MAX of all
sources. --list prints the sources and checks nothing."""

import argparse
import concurrent.futures
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

from source import files, finish

TOOL = "clang-tidy-16"
FOLDERS = ("threads", "txn", "sm", "tpcc", "tools", "tests")
FILES_MAX = 12
# A file that must not compile, and one folder whose headers come from PyPI.
LEFT_OUT = (pathlib.Path("tests/install/dropped_result.cc"), pathlib.Path("tools/python/src"))
# What an optional source cannot be read without; it is left out where that is not installed.
NEEDS = {
    pathlib.Path(f"tools/peers/{source}.cc"): pathlib.Path("/usr/include", header)
    for source, header in (
        ("berkeleydb", "db.h"),
        ("lmdb", "lmdb.h"),
        ("rocksdb", "rocksdb/db.h"),
        ("sqlite", "sqlite3.h"),
        ("wiredtiger", "wiredtiger.h"),
    )
}
# What the build says to clang (tools/cmake/LockstepFlags.cmake); no compile database is needed.
FLAGS = [
    "-std=gnu++2b",
    "-U__cpp_concepts",
    "-D__cpp_concepts=202002L",
    "-Wno-builtin-macro-redefined",
    "-Wno-macro-redefined",
    "-DFMT_SHARED",
    "-DXXH_INLINE_ALL",
    "-DBOOST_ASIO_HAS_CO_AWAIT",
    "-DBOOST_ASIO_HAS_STD_COROUTINE",
    '-DLOCKSTEP_SOURCE_DIR=""',
    "-DFUZZ_TARGET=fuzz_page",
    *(["-march=x86-64-v2"] if platform.machine() == "x86_64" else []),
    "-I.",
    "-Ithreads/include",
    "-Itxn/include",
    "-Ism/include",
    "-Itests/embed/include",
]
FINDING = re.compile(r"^(?P<place>.+?:\d+:\d+): (?:warning|error): (?P<what>.*)$", re.M)

CRASH = re.compile(r"ASTMatcher: Processing '([\w.-]+)'")
# The one check that solves formulas: on some functions with an optional it does not end. Others
# take five to fifteen seconds for a source.
SOLVER = "bugprone-unchecked-optional-access"
SOLVER_SECONDS = 60


def git(tree: pathlib.Path, *words: str) -> list[str] | None:
    """The lines that git prints, or None if it fails or does not exist."""
    try:
        done = subprocess.run(["git", *words], cwd=tree, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout.splitlines() if done.returncode == 0 else None


def sources_of_header(
    tree: pathlib.Path, header: pathlib.Path, sources: list[pathlib.Path]
) -> list[pathlib.Path]:
    """The sources named like the header, or else the first that includes it."""
    stem = re.sub(r"_(?:impl|inl)$", "", header.stem)
    top = header.parts[0]
    named = [s for s in sources if s.stem == stem and s.parts[0] == top]
    if named:
        return named
    spelling = header.as_posix().split("/include/")[-1]
    include = re.compile(rf'^#include ["<]{re.escape(spelling)}[">]', re.M)
    return next(([s] for s in sources if include.search((tree / s).read_text())), [])


def chosen(tree: pathlib.Path, names: list[str]) -> list[pathlib.Path]:
    """The sources for these sources, headers and folders, relative to the tree; sources first."""
    folders = [f for f in FOLDERS if (tree / f).is_dir()]
    sources = [p.relative_to(tree) for p in files(tree, ".cc", folders=folders)]
    out = lambda path: any(left in (path, *path.parents) for left in LEFT_OUT)  # noqa: E731
    sources = [p for p in sources if not out(p) and NEEDS.get(p, tree).exists()]
    result: dict[pathlib.Path, None] = {}
    headers = []
    for path in map(pathlib.Path, names):
        if path in sources:
            result[path] = None
        elif path.suffix == ".h":
            headers.append(path)
        result.update((s, None) for s in sources if path in s.parents)
    for header in headers:
        result.update(dict.fromkeys(sources_of_header(tree, header, sources)))
    return list(result)


def changed(tree: pathlib.Path, ref: str) -> list[str] | None:
    """Files of the tree that differ from the commit, and new files that git does not know yet."""
    differ = git(tree, "diff", "--name-only", "--diff-filter=d", "--relative", ref, "--")
    new = git(tree, "ls-files", "--others", "--exclude-standard")
    return None if differ is None else differ + (new or [])


def base(tree: pathlib.Path) -> str | None:
    """The commit that a change begins at: on origin/main itself, and without it, HEAD~1. None
    without history, as in a clone of one commit.
    """
    head = git(tree, "rev-parse", "HEAD")
    fork = git(tree, "merge-base", "HEAD", "origin/main")
    if fork and fork != head:
        return fork[0]
    return "HEAD~1" if git(tree, "rev-parse", "--verify", "HEAD~1") else None


def spread(paths: list[pathlib.Path], most: int) -> list[pathlib.Path]:
    """At most so many of them, evenly spaced."""
    count = min(most, len(paths))
    return [paths[i * len(paths) // count] for i in range(count)]


def findings(tree: pathlib.Path, path: pathlib.Path, *without: str) -> list[str]:
    """What the tool finds in the source and its headers. Where a check makes the tool crash or
    does not end, the others run without it.
    """
    off = [f"--checks={','.join('-' + check for check in without)}"] if without else []
    command = [TOOL, "--quiet", *off, str(path), "--", *FLAGS]
    limit = None if SOLVER in without else SOLVER_SECONDS
    try:
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        print(f"tidy: {path} without {SOLVER}: it had not ended after {limit} s")
        return findings(tree, path, *without, SOLVER)
    crash = CRASH.search(done.stderr)
    if crash and crash[1] not in without:
        return findings(tree, path, *without, crash[1])
    found = []
    for match in FINDING.finditer(done.stdout):
        place = os.path.relpath(tree / match["place"], tree)
        found.append(f"{place}: {match['what'].replace(',-warnings-as-errors', '')}")
    if done.returncode != 0 and not found:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        found.append(f"{path}: {TOOL} failed: {' '.join(last)}")
    return found


def offences(tree: pathlib.Path, paths: list[pathlib.Path]) -> list[str]:
    """What is found, each once: many sources include the same header."""
    jobs = len(os.sched_getaffinity(0))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        found = pool.map(lambda path: findings(tree, path), paths)
        return list(dict.fromkeys(o for of_one in found for o in of_one))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        usage="tidy.py [ROOT] [FILE...] [--all] [--since REF] [--list]"
    )
    parser.add_argument("files", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--since", metavar="REF")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_intermixed_args()
    given.tree = pathlib.Path(__file__).resolve().parents[2]
    if given.files and (pathlib.Path(given.files[0]) / ".clang-tidy").is_file():
        given.tree = pathlib.Path(given.files.pop(0)).resolve()
    return given


def choice(given: argparse.Namespace) -> list[pathlib.Path]:
    tree = given.tree
    if given.all:
        return chosen(tree, [*FOLDERS])
    for name in given.files:
        if not pathlib.Path(name).exists():
            sys.exit(f"tidy: there is no {name}")
    if given.files:
        return chosen(tree, [os.path.relpath(pathlib.Path(f).resolve(), tree) for f in given.files])
    ref = given.since or base(tree)
    names = changed(tree, ref) if ref else None
    if names is None:
        if given.since:
            sys.exit(f"tidy: git does not know {given.since}")
        print("tidy: no git history tells what has changed; --all checks every source")
    paths = chosen(tree, [*FOLDERS] if names is None else names)
    if not given.since and len(paths) > FILES_MAX:
        all_of_them = f"--since {ref}" if ref else "--all"
        print(f"tidy: {FILES_MAX} of {len(paths)} sources; {all_of_them} checks them all")
        paths = spread(paths, FILES_MAX)
    return paths


def main() -> None:
    given = options()
    if given.list:
        print(*choice(given), sep="\n")
        return
    if shutil.which(TOOL) is None:
        finish([f"tidy: {TOOL} is not installed (apt-get install {TOOL})"], "tidy")
    finish(offences(given.tree, choice(given)), "tidy")


if __name__ == "__main__":
    main()
