"""source - parts that the checks share: files of the tree, C++ text without comments and strings,
and the end of a check.
"""

import pathlib
import re
import sys
from collections.abc import Iterable, Iterator

ENGINE = ("threads", "txn", "sm")
CODE = (".h", ".cc", ".S", ".c")
OUTPUT = ("build", ".git", ".cache")


def root() -> pathlib.Path:
    """The tree to check: the last argument that is a folder, or else the tree of this script."""
    given = [a for a in sys.argv[1:] if not a.startswith("-") and pathlib.Path(a).is_dir()]
    return pathlib.Path(given[-1] if given else pathlib.Path(__file__).parents[2]).resolve()


def files(tree: pathlib.Path, *endings: str, folders: Iterable[str] = ()) -> Iterator[pathlib.Path]:
    """Files of the tree by ending, sorted, without build output, caches and the fuzzers'
    corpus.
    """
    places = [tree / folder for folder in folders]
    if not places:
        places = [place for place in tree.iterdir() if place.name not in OUTPUT]
    found = [p for place in places for p in (place.rglob("*") if place.is_dir() else [place])]
    for path in sorted(p for p in found if p.is_file()):
        parts = path.relative_to(tree).parts
        if "corpus" in parts or "__pycache__" in parts:
            continue
        if path.name.endswith(endings):
            yield path


def blank(match: re.Match) -> str:
    return re.sub(r"[^\n]", " ", match.group(0))


LITERAL = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])+\'', re.S)
# (suite, name) of each GoogleTest.
DEFINES_TEST = re.compile(r"\b(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
TOKEN = re.compile(f"{LITERAL.pattern}|{COMMENT.pattern}", re.S)


def without_comments(text: str) -> str:
    """The same text with blank comments and literals; lines and columns stay."""
    return TOKEN.sub(blank, text)


def code_lines(text: str) -> int:
    """Number of lines with more than comments and white space."""
    return sum(bool(line.strip()) for line in COMMENT.sub(blank, text).splitlines())


NOT_A_FUNCTION = re.compile(r"^\s*(?:namespace|class|struct|enum|union|extern|typedef|using)\b")


def functions(text: str) -> Iterator[tuple[str, int, int]]:
    """(first words, first line, lines) of every function body, by matching braces."""
    code = without_comments(text)
    stack: list[tuple[int, bool, str]] = []
    begin = 0
    for i, c in enumerate(code):
        if c == "{":
            head = code[begin:i].strip()
            inside = any(is_body for _, is_body, _ in stack)
            is_body = not inside and ")" in head and not NOT_A_FUNCTION.match(head.split("\n")[-1])
            stack.append((begin + len(code[begin:i]) - len(code[begin:i].lstrip()), is_body, head))
            begin = i + 1
        elif c == "}":
            if stack:
                start, is_body, head = stack.pop()
                if is_body:
                    first = code.count("\n", 0, start) + 1
                    yield " ".join(head.split())[:80], first, code.count("\n", start, i) + 1
            begin = i + 1
        elif c == ";":
            begin = i + 1


def finish(offences: Iterable[str], name: str) -> None:
    """Prints every offence and ends the program. The status is 1 if there is an offence."""
    found = list(offences)
    print("\n".join(found) if found else f"{name}: sound")
    sys.exit(1 if found else 0)
