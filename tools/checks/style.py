#!/usr/bin/env python3
"""style - checks line width, function length, header lines, anonymous namespaces, comparisons of
isolation levels, unused includes and packages, and formatting.

Usage: style.py [ROOT]. Prints one offence a line; the exit status is then 1. clang-format-16 checks
the formatting."""

import pathlib
import re
import shutil
import subprocess

from source import CODE, files, finish, functions, root, without_comments

WIDTH = 100
FUNCTION_LINES = 70
TEST_LINES = 120  # a test may be a table
# Package that tools/run installs -> what in the tree uses it.
PACKAGES = {
    "g++": r"-DCMAKE_CXX_COMPILER|project\(lockstep",
    "cmake": r"cmake_minimum_required",
    "ninja-build": r"-G Ninja",
    "pkg-config": r"pkg_check_modules",
    "python3": r"find_package\(Python3",
    "libboost-dev": r"boost/context",
    "libboost-context-dev": r"Boost::context",
    "liburing-dev": r"<liburing\.h>",
    "libxxhash-dev": r"<xxhash\.h>",
    "libfmt-dev": r"<fmt/",
    "libtbb-dev": r"<tbb/",
    "liblz4-dev": r"<lz4\.h>",
    "libcli11-dev": r"<CLI/CLI",
    "nlohmann-json3-dev": r"<nlohmann/json",
    "libmicrohttpd-dev": r"<microhttpd\.h>",
    "libsqlite3-dev": r"<sqlite3\.h>",
    "liblmdb-dev": r"<lmdb\.h>",
    "libwiredtiger-dev": r"<wiredtiger\.h>",
    "librocksdb-dev": r"<rocksdb/",
    "libdb5.3-dev": r"<db\.h>",
    "python3-prometheus-client": r"from prometheus_client",
    "libgtest-dev": r"<gtest/gtest\.h>",
    "valgrind": r"valgrind/callgrind\.h|pub_tool",
    "clang-16": r"clang\+\+-16",
    "libclang-rt-16-dev": r"LOCKSTEP_SANITIZE=thread",
    "gdb": r"lockstep_gdb",
    "gcovr": r"gcovr --root",
    "redis-tools": r"\"redis-benchmark\"",
    "chromium": r"--host-resolver-rules",
    "python3-matplotlib": r"import matplotlib",
    "python3-venv": r'"-m", "venv"',
    "python3-dev": r"DPython_EXECUTABLE",
    "help2man": r"help2man",
    "dpkg-dev": r"PACKAGE_SHLIBDEPS ON",
    "file": r"PACKAGE_SHLIBDEPS ON",
    "lintian": r"lintian --fail-on",
    "clang-format-16": r"clang-format-16",
    "user-mode-linux": r"KERNEL = \"linux\.uml\"",
    "kmod": r"\binsmod \"\$at",
    "dmsetup": r"dmsetup create rig",
    "e2fsprogs": r"\"mkfs\.ext4\"",
    "xfsprogs": r"\"mkfs\.xfs\"",
    "crossbuild-essential-arm64": r"aarch64-linux-gnu-g\+\+",
    "qemu-user": r"qemu-aarch64",
    "clang-tidy-16": r"TOOL = \"clang-tidy-16\"",
}
DECLARES = re.compile(
    r"\b(?:class|struct|union|enum(?:\s+class)?)\s+(?:alignas\([^)]*\)\s*|\[\[[^\]]*\]\]\s*)*(\w+)|"
    r"\busing\s+(\w+)\s*=|#\s*define\s+(\w+)|"
    r"\b(\w+)\s*(?:\(|\{|=|;|\[)|^\s*(\w+)\s*(?:=[^,\n]*)?,\s*$",
    re.M,
)
SANITIZED = "threads/base/sanitized.h"
# A level more or less would change what such a comparison means: ask txn/isolation_rules.h.
ORDERED = re.compile(
    r"(?<![<>-])[<>]=?\s*(?:\w+::)*Isolation::[a-z]|Isolation::[a-z]\w*\s*[<>]=?(?![<>])"
    r"|\bisolation\s*[<>]=?\s*[A-Za-z]"
)
INCLUDE = re.compile(r'^#include (?:"([^"]+)"|<(lockstep/[^>]+)>)(.*)$', re.M)


def width_offences(tree: pathlib.Path):
    for path in [
        *files(tree, *CODE, ".py", ".sh", ".cmake", ".md"),
        tree / "tools/run",
        tree / "tools/bare",
        tree / "CMakeLists.txt",
    ]:
        if not path.exists():
            continue
        fenced = False
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            fenced ^= path.suffix == ".md" and line.lstrip().startswith("```")
            exempt = (
                "://" in line or path.suffix == ".md" and (fenced or line.lstrip().startswith("|"))
            )
            if len(line) > WIDTH and not exempt:
                yield f"{path.relative_to(tree)}:{number}: {len(line)} columns; {WIDTH} at most"


def function_lines_max(name: pathlib.Path) -> int:
    """The maximum length of a function in the file; `name` is relative to the tree."""
    return TEST_LINES if name.parts[0] == "tests" else FUNCTION_LINES


def shape_offences(tree: pathlib.Path):
    for path in files(tree, ".h", ".cc"):
        text, name = path.read_text(), path.relative_to(tree)
        lines = [line for line in text.splitlines()[:2] if not line.startswith("// labels:")]
        # The examples look like a beginner's own program.
        header = rf"/[/*] (?:\S+/)?{re.escape(path.name)} - \S"
        if "examples" not in path.parts and not re.match(header, "".join(lines[:1])):
            yield f"{name}:1: the first line does not say '// {path.name} - purpose'"
        for head, line, length in functions(text):
            most = function_lines_max(name)
            if length > most:
                yield f"{name}:{line}: {length} lines in '{head}'; {most} at most"
        for found in ORDERED.finditer(without_comments(text)):
            yield f"{name}: compares isolation levels by their order: '{found.group(0)}'"
        if name.parts[0] != "tests" and len(re.findall(r"^namespace \{", text, re.M)) > 1:
            yield f"{name}: more than one anonymous namespace"
        if name.parts[0] == "tests" and path.name.endswith("_test.cc"):
            own = rf"^namespace (?:\w+::)*{path.stem} \{{"
            alone = re.search(r"replaced_new\.h|operator new", text)  # a program of its own
            if not re.search(own, text, re.M) and not alone:
                yield f"{name}: its contents do not stand in a 'namespace ...::{path.stem}'"


def declared(text: str) -> set[str]:
    code = re.sub(r"\bnamespace\b[^{;]*\{", "", without_comments(text))
    return {word for groups in DECLARES.findall(code) for word in groups if len(word) > 1}


def include_offences(tree: pathlib.Path):
    by_spelling = {
        p.as_posix().split("/include/")[1]: p
        for p in files(tree, ".h")
        if "/include/lockstep/" in p.as_posix()
    }
    known: dict[pathlib.Path, set[str]] = {}
    for path in files(tree, ".h", ".cc"):
        text = path.read_text()
        # Without the include such a macro is silently not defined.
        tests = re.search(r"^#.*\bLOCKSTEP_(?:A|T)?SAN", text, re.M)
        if tests and SANITIZED not in text and not path.match(SANITIZED):
            yield f"{path.relative_to(tree)}: tests a macro of {SANITIZED} without including it"
        words = set(re.findall(r"\w+", INCLUDE.sub("", text)))
        for quoted, public, rest in INCLUDE.findall(text):
            target = by_spelling.get(public) if public else tree / quoted
            own = target is not None and target.stem in (path.stem, path.stem.removesuffix("_test"))
            if (
                target is None
                or not target.exists()
                or own
                or target.stem.endswith(("_impl", "_inl"))
                or "keep" in rest
            ):
                continue
            if target not in known:
                known[target] = declared(target.read_text())
            if not known[target] & words:
                yield (
                    f"{path.relative_to(tree)}: includes {quoted or public} and uses nothing of it;"
                    " remove the line"
                )


def package_offences(tree: pathlib.Path):
    run = tree / "tools/run"
    if not run.exists():
        return
    lists = " ".join(re.findall(r"packages=\(([^)]*)\)", re.sub(r" #[^\n]*", "", run.read_text())))
    text = "\n".join(
        p.read_text(errors="replace")
        for p in [*files(tree, *CODE, ".cmake", ".py", ".sh"), tree / "CMakeLists.txt", run]
        if p.exists()
    )
    for package in lists.split():
        if package not in PACKAGES:
            yield (
                f"tools/run: installs {package}, and PACKAGES in tools/checks/style.py does not say"
                " for what"
            )
        elif not re.search(PACKAGES[package], text):
            yield f"tools/run: installs {package}, and nothing uses it"


def format_offences(tree: pathlib.Path):
    if shutil.which("clang-format-16") is None:
        yield "clang-format-16 is not installed (apt-get install clang-format-16)"
        return
    sources = [str(p) for p in files(tree, ".h", ".cc", ".c")]
    for first in range(0, len(sources), 60):
        done = subprocess.run(
            ["clang-format-16", "--dry-run", *sources[first : first + 60]],
            capture_output=True,
            text=True,
        )
        changed = dict.fromkeys(
            line.split(":")[0]
            for line in done.stderr.splitlines()
            if "clang-format-violations" in line
        )
        for path in changed:
            yield (
                f"{pathlib.Path(path).relative_to(tree)}: not as clang-format-16 writes it; run"
                " clang-format-16 -i"
            )


def main() -> None:
    tree = root()
    finish(
        [
            o
            for check in (
                width_offences,
                shape_offences,
                include_offences,
                package_offences,
                format_offences,
            )
            for o in check(tree)
        ],
        "style",
    )


if __name__ == "__main__":
    main()
