#!/usr/bin/env python3
"""documents - checks that every name in a document exists.

Usage: documents.py [ROOT]. The check reads names in back quotes: a path with a folder or a known
ending, `function()`, `Class::function()`, `Suite.Test` and test programs. After `file`: `one()`,
`two()` that file must have each function. Also in code blocks: options, LOCKSTEP_ variables, paths
in commands, and commands of tools/run. It reads link targets with their anchors, the names in
picture sources, and `Suite.Test` in comments of sources.
"""

import pathlib
import re
from functools import cached_property

from source import CODE, COMMENT, DEFINES_TEST, files, finish, root

ENDINGS = r"(?:h|cc|S|c|py|md|sh|cmake|svg|dot|txt|json)"
PATH = re.compile(rf"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.{ENDINGS})`")
FUNCTION = re.compile(r"`((?:\w+::)*)(~?\w+)\(\)`")
ITEM = re.compile(r"`([\w./-]+\.(?:h|cc|py))`:((?:(?:,|\band\b|\s)*`[\w:~]+\(\)`)+)")
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*\b")
VARIABLE = re.compile(r"\bLOCKSTEP_[A-Z_0-9]+\b")
TEST = re.compile(r"(?<![\w./:])([A-Z][a-z]\w*)\.([A-Z]\w*\*?|\*)(?![\w(/])")
TEST_PROGRAM = re.compile(r"\b(?!add_test)(\w+_test)\b(?!\.)")
COMMAND = re.compile(r"(?:\./)?tools/run ([a-z][\w-]*)")
COMMAND_PATH = re.compile(r"(?<![\w./-])(?:\./)?((?:threads|txn|sm|tpcc|tests|tools)/[\w./-]*\w)")
FENCE = re.compile(r"```(?:sh|)\n(.*?)```", re.S)
DECLARES = re.compile(
    r"\b(?:class|struct|namespace|union|enum(?: class)?|using)\s+"
    r"(?:\[\[.*?\]\]\s*|alignas\([^)]*\)\s*)*(?:\w+::)*(\w+)"
)
# Paths that a reader creates or that a store contains, and examples of names.
ELSEWHERE = re.compile(
    r"^(?:hole_begin/|p6/|build/|data\b|log\.|/|\.cache|bin/|lib/|lockstep/libs$|creating|\d"
    r"|snake_case|x[._])"
)
# Options of other programs, and options that lockstep.cluster makes of the names of fields.
OTHER_OPTIONS = {
    *("--section-ordering-file", "--toggle-collect"),
    *("--items", "--customers", "--undelivered"),
}


class Tree:
    """The sources, and what they define."""

    def __init__(self, tree: pathlib.Path) -> None:
        self.tree = tree
        self.names = {p.name for p in files(tree, "")}
        endings = (*CODE, ".py", ".sh", ".cmake", ".in", "CMakeLists.txt", "run", "bare")
        self.texts = {p: p.read_text(errors="replace") for p in files(tree, *endings)}
        self.code = {p: t for p, t in self.texts.items() if p.suffix in (*CODE, ".py")}

    @cached_property
    def words(self) -> set[str]:
        return {word for text in self.texts.values() for word in re.findall(r"\w+", text)}

    @cached_property
    def options(self) -> set[str]:
        return OTHER_OPTIONS | {o for text in self.texts.values() for o in OPTION.findall(text)}

    @cached_property
    def declared(self) -> dict[str, list[str]]:
        """The sources that declare each class or namespace."""
        found: dict[str, list[str]] = {}
        for text in self.code.values():
            for name in set(DECLARES.findall(text)):
                found.setdefault(name, []).append(text)
        return found

    @cached_property
    def tests(self) -> dict[str, set[str]]:
        """The names of each suite."""
        found: dict[str, set[str]] = {}
        for text in self.code.values():
            for suite, name in DEFINES_TEST.findall(text):
                found.setdefault(suite, set()).add(name)
        return found

    @cached_property
    def commands(self) -> set[str]:
        """The commands of tools/run."""
        text = self.texts.get(self.tree / "tools/run", "")
        cases = re.findall(r"^([a-z][\w|* -]*)\)", text, re.M)
        return {*re.findall(r"tools/run ([\w-]+)", text), *re.findall(r"[\w-]+", " ".join(cases))}

    def has_program(self, name: str) -> bool:
        """A test program: of a layer and a file, or of the file's name alone."""
        stems = {name, name.partition("_")[2]}
        return any(f"{stem}{ending}" in self.names for stem in stems for ending in (".cc", ".py"))

    def has_function(self, scope: str, name: str) -> bool:
        """The function, in this class or namespace if one is given."""
        if not scope:
            return name in self.words
        member = re.compile(rf"\b{scope}::~?{name}\b")
        call = re.compile(rf"\b{name}\s*(?:<[^>]*>)?\(")
        return any(call.search(text) for text in self.declared.get(scope, [])) or any(
            member.search(text) for text in self.code.values()
        )

    def has_path(self, path: str, document: pathlib.Path) -> bool:
        plain = path.removesuffix("/.cc")  # `name.h/.cc`: header and source
        public = [*self.tree.glob("*/include"), self.tree / "tools/python"]
        places = (self.tree, document.parent, *(public if plain.startswith("lockstep/") else ()))
        return plain in self.names or any((place / plain).exists() for place in places)

    def has_test(self, suite: str, name: str) -> bool:
        start = name.removesuffix("*")
        names = self.tests.get(suite, set())
        return any(n.startswith(start) for n in names) if start != name else name in names


def anchors(text: str) -> set[str]:
    """The anchors of a document's headings, as GitHub and the site make them."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    found = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


def link_faults(document: pathlib.Path, text: str):
    for link, anchor in sorted(set(LINK.findall(text))):
        target = document.parent / link if link else document
        if not target.exists():
            yield f"links to {link}, which does not exist"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
            yield f"links to {link}#{anchor}, which has no such heading"


def path_faults(tree: Tree, document: pathlib.Path, text: str):
    for path in sorted(set(PATH.findall(text))):
        if not tree.has_path(path, document) and not ELSEWHERE.match(path):
            yield f"names `{path}`, which does not exist"


def function_faults(tree: Tree, text: str, with_scope: bool):
    for scopes, name in sorted(set(FUNCTION.findall(text))):
        scope = scopes.split("::")[-2] if scopes and with_scope else ""
        if not tree.has_function(scope, name.lstrip("~")):
            yield f"names `{scopes}{name}()`, which no source file has"
    for file, functions in ITEM.findall(text):
        source = tree.texts.get(tree.tree / file, "")
        for name in re.findall(r"(\w+)\(\)", functions):
            if not re.search(rf"\b{name}\s*\(", source):
                yield f"`{file}` has no `{name}()`"


def test_faults(tree: Tree, text: str):
    for quoted in sorted(set(re.findall(r"`([^`]+)`", text))):
        for suite, name in TEST.findall(quoted):
            if not tree.has_test(suite, name):
                yield f"names the test `{suite}.{name}`, which does not exist"
        for program in TEST_PROGRAM.findall(quoted):
            if not tree.has_program(program):
                yield f"names the test program `{program}`, which does not exist"


def command_faults(tree: Tree, text: str):
    """Of the whole text with its code blocks."""
    for option in sorted(set(OPTION.findall(text)) - tree.options):
        yield f"names the option {option}, which no source file has"
    for variable in sorted(set(VARIABLE.findall(text)) - tree.words):
        yield f"names {variable}, which no source file has"
    for command in sorted(set(COMMAND.findall(text)) - tree.commands):
        yield f"names the command `tools/run {command}`, which does not exist"
    for block in FENCE.findall(text):
        for path in sorted(set(COMMAND_PATH.findall(block))):
            if not (tree.tree / path).exists():
                yield f"names {path} in a command, which does not exist"


def document_faults(tree: Tree, document: pathlib.Path):
    whole = document.read_text()
    text = re.sub(r"```.*?```", "", whole, flags=re.S)
    yield from path_faults(tree, document, text)
    # Pages of the site link to pages that its build makes, and the build checks them.
    if not document.is_relative_to(tree.tree / "tools/docs/pages"):
        yield from link_faults(document, text)
    # The changelog also names what was there once.
    current = document.name != "CHANGELOG.md"
    yield from function_faults(tree, text, current)
    if current:
        yield from test_faults(tree, text)
        yield from command_faults(tree, whole)


def comment_faults(tree: Tree, text: str):
    """Tests that comments name. Words that name no suite are other things."""
    for comment in set(COMMENT.findall(text)):
        for suite, name in TEST.findall(comment):
            if suite in tree.tests and not tree.has_test(suite, name):
                yield f"names the test {suite}.{name}, which does not exist"


def main() -> None:
    tree = Tree(root())
    offences = []
    for document in [*files(tree.tree, ".md"), *sorted(tree.tree.glob("tools/picture/*.txt"))]:
        where = document.relative_to(tree.tree)
        offences += [f"{where}: {fault}" for fault in document_faults(tree, document)]
    for path in files(tree.tree, *CODE):
        where = path.relative_to(tree.tree)
        offences += [f"{where}: {fault}" for fault in comment_faults(tree, tree.texts[path])]
    finish(offences, "documents")


if __name__ == "__main__":
    main()
