#!/usr/bin/env python3
"""documents - every file and every function that a document names exists.

Usage: documents.py [ROOT]. Names count in back quotes: a path with a folder or a known ending, and
`function()` or `Class::function()`; beside `file`: in one list item the function must be in a file.
"""

import re

from source import CODE, files, finish, root

ENDINGS = r"(?:h|cc|S|c|py|md|sh|cmake|svg|dot|txt|json)"
PATH = re.compile(rf"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.{ENDINGS})`")
FUNCTION = re.compile(r"`(?:[\w:]+::)?(~?\w+)\(\)`")
ITEM = re.compile(r"`([\w./-]+\.(?:h|cc))`: ((?:`[\w:~]+\(\)`(?:, )?)+)")
# Paths that a reader makes or that a store holds, not the tree.
ELSEWHERE = re.compile(
    r"^(?:hole_begin/|p6/|build/|data\b|log\.|/|\.cache|bin/|lib/|creating|\d|lockstep/)"
)


def main() -> None:
    tree = root()
    known = {p.relative_to(tree).as_posix() for p in files(tree, "")}
    names = {k.rsplit("/", 1)[-1] for k in known}
    folders = {k[: m.start()] for k in known for m in re.finditer("/", k)}
    words = {p: p.read_text(errors="replace") for p in files(tree, *CODE, ".py")}
    all_words = set(re.findall(r"\w+", "\n".join(words.values())))
    offences = []
    for document in files(tree, ".md"):
        text = re.sub(r"```.*?```", "", document.read_text(), flags=re.S)
        where = document.relative_to(tree)
        here = where.parent.as_posix()
        for path in sorted(set(PATH.findall(text))):
            plain = path.rstrip("/").removesuffix("/.cc")
            beside = plain if here == "." else f"{here}/{plain}"
            found = plain in known | folders or beside in known | folders
            if (
                not found
                and not ("/" not in plain and plain in names)
                and not ELSEWHERE.match(path)
            ):
                offences.append(f"{where}: names `{path}`, which does not exist")
        for name in sorted(set(FUNCTION.findall(text))):
            if name.lstrip("~") not in all_words:
                offences.append(f"{where}: names `{name}()`, which no source file has")
        for file, functions in ITEM.findall(text):
            source = words.get(tree / file, "")
            for name in re.findall(r"(\w+)\(\)", functions):
                if not re.search(rf"\b{name}\b", source):
                    offences.append(f"{where}: `{file}` has no `{name}()`")
    finish(offences, "documents")


if __name__ == "__main__":
    main()
