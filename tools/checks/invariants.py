#!/usr/bin/env python3
"""invariants - checks that each label of an invariant has one definition, and that a check, a test
or a document names it.

Usage: invariants.py [ROOT] [--statistics]. A definition stands below `Invariants` in the leading
comment of a source: `BP-2 A frame in ...`. A file that only says more about an invariant names the
file that defines it: `BP-2 (buffer_pool.h) Here ...`. What checks it stands in brackets behind it,
as `[checked: write_frame()]`, or a test, a document or an assertion names the label.
"""

import pathlib
import re
import sys
from typing import NamedTuple

from source import CODE, DEFINES_TEST, files, finish, root, without_comments

LABEL = r"[A-Z]{2,4}-\d+"
PARAGRAPH = re.compile(r"^(?://)?\s*(?:([A-Z][a-z]+)\s|$)|^[^/\s]")
BEGIN = re.compile(rf"^(?://)?(?:\s*Invariants?\s+|\s{{8,}})({LABEL})\s(?!\(\w+\.\w+\)|to {LABEL})")
# What ends the text of an invariant: the next label, the next paragraph, the end of the comment.
END = re.compile(rf"^(?://)?(?:\s{{8,}}{LABEL}\s|\s*[A-Z][a-z]+(?: [a-z]+)?\s{{2,}}|\s*$|[^/\s])")
USE = re.compile(rf"\b({LABEL})\b(?:(?: to |\.\.)(?:[A-Z]{{2,4}}-)?(\d+))?")
ASSERTION = re.compile(rf"\b(?:D?CHECK|require|static_assert)\(|\"{LABEL}: ")
BRACKETS = re.compile(r"\[([^\[\]]+)\]")
# A name in brackets: a function or a test, or a file. It must exist.
FILE = re.compile(r"\b([\w./-]+\.(?:cc|h|py))\b")
NAMED = re.compile(r"\b(?:\w+::)*(~?\w+)\(\)|\b([A-Z]\w+\.[A-Z]\w+)\b")


class Invariant(NamedTuple):
    label: str
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.label}"


def definitions(name: str, text: str):
    """The invariants that the file defines, each with its whole text."""
    lines = text.splitlines()
    paragraph = ""
    for at, line in enumerate(lines):
        if (label := PARAGRAPH.match(line)) and len(line) - len(line.lstrip("/ ")) < 8:
            paragraph = label[1] or ""
        if (begin := BEGIN.match(line)) and paragraph.startswith("Invariant"):
            end = at + 1
            while end < len(lines) and not END.match(lines[end]):
                end += 1
            body = " ".join(part.removeprefix("//").strip() for part in lines[at:end])
            yield Invariant(begin[1], name, at + 1, body)


def uses(text: str) -> set[str]:
    """The labels in the text. `BP-1 to BP-3` and `BP-1..3` are three."""
    found = set()
    for label, last in USE.findall(text):
        prefix, first = label.split("-")
        found |= {f"{prefix}-{i}" for i in range(int(first), int(last or first) + 1)}
    return found


def naming(name: str, text: str) -> str:
    """The part of a file whose labels count: tests and documents whole, assertions by the line."""
    lines = [line for line in text.splitlines() if not BEGIN.match(line)]
    if name.startswith("tests/") or name.endswith(".md"):
        return "\n".join(lines)
    return "\n".join(
        "\n".join(lines[max(0, at - 1) : at + 2])
        for at, line in enumerate(lines)
        if ASSERTION.search(line)
    )


def functions(name: str, text: str) -> list[str]:
    """The functions that the file calls or defines; those of Python only where they are defined."""
    if name.endswith(CODE):
        return re.findall(r"(\w+)\(", without_comments(text))
    return re.findall(r"^\s*(?:async )?def (\w+)\(", text, re.M)


def unknown_names(invariant: Invariant, words: set[str], tests: set[str], names: list[str]):
    """An offence for each function, test or file in the brackets that does not exist."""
    for inside in BRACKETS.findall(invariant.text):
        for path in FILE.findall(inside):
            if not any(("/" + name).endswith("/" + path) for name in names):
                yield f"{invariant}: names {path}, which does not exist"
        for function, test in NAMED.findall(inside):
            if function.lstrip("~") not in words if function else test not in tests:
                yield f"{invariant}: names {function or test}, which does not exist"


def undefined(texts: dict[str, str], labels: set[str]):
    """An offence for each label that has no definition, while others of its prefix have one."""
    prefixes = {label.split("-")[0] for label in labels}
    for name, text in texts.items():
        for label in sorted(uses(text) - labels):
            if label.split("-")[0] in prefixes:
                yield f"{name}: names {label}, which no file defines"


def main() -> None:
    tree = root()
    texts = {
        p.relative_to(tree).as_posix(): p.read_text(errors="replace")
        for p in files(tree, *CODE, ".py", ".md")
    }
    found = [i for name, text in texts.items() for i in definitions(name, text)]
    named = {label for name, text in texts.items() for label in uses(naming(name, text))}
    words = {word for name, text in texts.items() for word in functions(name, text)}
    tests = {".".join(pair) for text in texts.values() for pair in DEFINES_TEST.findall(text)}
    offences, first = [], {}
    for invariant in found:
        known = first.setdefault(invariant.label, invariant)
        if known is not invariant:
            offences.append(f"{invariant}: is defined in {known.file}:{known.line} as well")
        if not BRACKETS.search(invariant.text) and invariant.label not in named:
            offences.append(f"{invariant}: no check, test or document names it")
        offences += unknown_names(invariant, words, tests, [*texts])
    offences += undefined(texts, {*first})
    if "--statistics" in sys.argv:
        print(f"{len(found)} invariants in {len({i.file for i in found})} files")
    finish(offences, "invariants")


if __name__ == "__main__":
    main()
