#!/usr/bin/env python3
"""public_comments - checks that every declaration of a public header has a doc comment.

Usage: public_comments.py [ROOT] [--statistics]. A comment covers a declaration if it is on its line
or directly above it. Fields, constants and enumerators without a blank line between them share the
comment above the first one, and so do up to four functions. Functions share none with fields.
"""

import re
import sys

from source import files, finish, root

# Declarations that need no comment: special members, friends, access labels, forward declarations.
EXEMPT = re.compile(
    r"^(?:friend|public:|private:|protected:|using \w+::|namespace|#|\}|(?:class|struct) [\w:]+;"
    r"|//|~?\w+\(\);|\w+\((?:const \w+&|\w+&&)(?: \w+)?\)|.*= (?:default|delete);|~\w+\(\)"
    r"|[A-Z_]+\(|\w+& operator=|static_assert|extern \"C\"|.*\boverride\b|: \w+_?\(|explicit\()"
)
# Lines of attributes and template parameters alone; and what may precede a declaration on its line.
PREFIX = re.compile(r"^(?:template\s*<(?:[^<>]|<[^<>]*>)*>\s*|\[\[[^\]]*\]\]\s*|requires .*$)+")
FUNCTIONS_MAX = 4
# A line that ends the run of declarations before it: the end of a class, and for functions the
# begin of one.
END_OF_CLASS = re.compile(r"^\}\s*\w*;")
BEGIN_OF_CLASS = re.compile(r"^(?:public|private|protected):|\b(?:class|struct|union)\b.*\{$")
FUNCTION = re.compile(r"^(?!using|#|typedef)[^={}]*?(\boperator\s*\S+?|\b\w+)\s*\(")
CLASS = re.compile(r"^(?:template\s*<[^>]*>\s*)?(?:class|struct|enum)\b[^;]*\{")


def declarations(lines: list[str]):
    """(line number, text) of each declaration visible to embedders, outside function bodies."""
    depth_private: list[bool] = []
    body = brackets = 0
    continued = macro = False
    for number, raw in enumerate(lines, 1):
        code = re.sub(r"//.*", "", raw).strip()
        if macro or code.startswith("#"):
            macro = raw.rstrip().endswith("\\")
            continue
        if not code:
            continued = False
            continue
        within = brackets > 0
        brackets += code.count("(") - code.count(")")
        if code in ("private:", "protected:") and depth_private:
            depth_private[-1] = True
        elif code == "public:" and depth_private:
            depth_private[-1] = False
        opens, closes = code.count("{"), code.count("}")
        if body:
            body += opens - closes
            continue
        plain = PREFIX.sub("", code)
        begins = plain and not continued and not within
        if begins and not any(depth_private) and not EXEMPT.match(plain):
            yield number, plain
        if CLASS.match(code) or code.startswith(("namespace", 'extern "C"')):
            if opens > closes:
                depth_private.append(
                    code.startswith("class ")
                    or re.match(r"namespace (?:\w+::)*detail\b", code) is not None
                    or "::State" in code
                )
        elif opens > closes:
            body = opens - closes
        elif closes > opens and depth_private:
            depth_private.pop()
        continued = not code.endswith((";", "{", "}", ":", ">", ",")) or code.endswith("(")
        if not plain and not within:
            continued = False
        if code.endswith(",") and not (depth_private and "(" not in code):
            continued = True


def is_function(code: str) -> bool:
    return bool(FUNCTION.match(code))


def has_comment(lines: list[str], number: int) -> bool:
    """True if a comment is on a line of the declaration or directly above it."""
    at = number - 1
    while at < len(lines):
        if "//" in lines[at]:
            return True
        if lines[at].rstrip().endswith((";", "{", "}", ",")):
            break
        at += 1
    above = number - 2
    while above >= 0 and lines[above].strip() and not PREFIX.sub("", lines[above].strip()):
        above -= 1
    return above >= 0 and lines[above].strip().startswith("//")


def judged(lines: list[str]):
    """(line number, text, commented) of each declaration: by itself, or by the run before it."""
    before, of_function, sharing = 0, False, 0
    for number, code in declarations(lines):
        between = [line.strip() for line in lines[max(before - 1, 0) : number - 1]]
        ends = any(END_OF_CLASS.search(line) for line in between)
        begins = any(BEGIN_OF_CLASS.search(line) for line in between)
        function = is_function(code)
        if has_comment(lines, number):
            sharing = 1
        elif not before or not all(between) or ends or function != of_function:
            sharing = 0
        elif function:
            sharing = sharing + 1 if 0 < sharing < FUNCTIONS_MAX and not begins else 0
        before, of_function = number, function
        yield number, code, sharing > 0


def public_headers(tree):
    """The installed headers, without those that only hold inline bodies."""
    for path in files(tree, ".h"):
        if "/include/lockstep/" in path.as_posix() and not path.stem.endswith("_inl"):
            yield path


def measured(tree, headers) -> tuple[int, list[str]]:
    """The number of declarations, and an offence for each without a comment."""
    offences, count = [], 0
    for path in headers:
        lines = path.read_text().splitlines()
        for number, code, commented in judged(lines):
            count += 1
            if not commented:
                where = f"{path.relative_to(tree)}:{number}"
                offences.append(f"{where}: no doc comment: {code[:60]}")
    return count, offences


def main() -> None:
    tree = root()
    count, offences = measured(tree, public_headers(tree))
    if "--statistics" in sys.argv:
        print(f"{count} public declarations, {len(offences)} without a comment")
    finish(offences, "public comments")


if __name__ == "__main__":
    main()
