#!/usr/bin/env python3
"""documents - checks that every file and function named in a document exists.

Usage: documents.py [ROOT]. The check reads names in back quotes: a path with a folder or a known
ending, `function()` and `Class::function()`. After `file`: `one()`, `two()` that file must have
each function. The check also reads link targets and the names in picture sources.
"""

import re

from source import CODE, files, finish, root

ENDINGS = r"(?:h|cc|S|c|py|md|sh|cmake|svg|dot|txt|json)"
PATH = re.compile(rf"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.{ENDINGS})`")
FUNCTION = re.compile(r"`((?:\w+::)*)(~?\w+)\(\)`")
ITEM = re.compile(r"`([\w./-]+\.(?:h|cc|py))`:((?:(?:,|\band\b|\s)*`[\w:~]+\(\)`)+)")
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
# Paths that a reader creates or that a store contains, and examples of names.
ELSEWHERE = re.compile(
    r"^(?:hole_begin/|p6/|build/|data\b|log\.|/|\.cache|bin/|lib/|creating|\d|lockstep/"
    r"|snake_case|x[._])"
)


def main() -> None:
    tree = root()
    names = {p.name for p in files(tree, "")}
    words = {p: p.read_text(errors="replace") for p in files(tree, *CODE, ".py")}
    all_words = set(re.findall(r"\w+", "\n".join(words.values())))
    offences = []
    for document in [*files(tree, ".md"), *sorted(tree.glob("tools/picture/*.txt"))]:
        text = re.sub(r"```.*?```", "", document.read_text(), flags=re.S)
        where = document.relative_to(tree)
        for path in sorted(set(PATH.findall(text))):
            plain = path.removesuffix("/.cc")  # `name.h/.cc`: header and source
            found = plain in names or any((p / plain).exists() for p in (tree, document.parent))
            if not found and not ELSEWHERE.match(path):
                offences.append(f"{where}: names `{path}`, which does not exist")
        # Pages of the site link to pages that its build makes, and the build checks them.
        links = set() if where.is_relative_to("tools/docs/pages") else set(LINK.findall(text))
        for link in sorted(links):
            if not (document.parent / link).exists():
                offences.append(f"{where}: links to {link}, which does not exist")
        for classes, name in sorted(set(FUNCTION.findall(text))):
            missing = {name.lstrip("~"), *classes.split("::")} - {""} - all_words
            if missing:
                offences.append(f"{where}: names `{classes}{name}()`, which no source file has")
        for file, functions in ITEM.findall(text):
            source = words.get(tree / file, "")
            for name in re.findall(r"(\w+)\(\)", functions):
                if not re.search(rf"\b{name}\s*\(", source):
                    offences.append(f"{where}: `{file}` has no `{name}()`")
    finish(offences, "documents")


if __name__ == "__main__":
    main()
