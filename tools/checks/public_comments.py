#!/usr/bin/env python3
"""public_comments - checks that every declaration of a public header has a doc comment.

Usage: public_comments.py [ROOT] [--statistics]. A comment covers a declaration if it is on its
line, directly above it, or above the unbroken run of declarations around it.
"""

import re
import sys

from source import files, finish, root

# Declarations that need no comment: special members, friends, access labels, forward declarations.
EXEMPT = re.compile(
    r"^(?:friend|public:|private:|protected:|using \w+::|namespace|#|\}|template\b|(?:class|struct)"
    r" [\w:]+;|\[\[|//|~?\w+\(\);|\w+\(const \w+&\)|\w+\(\w+&&\)|.*= (?:default|delete);"
    r"|~\w+\(\)|\w+& operator=|static_assert)"
)
CLASS = re.compile(r"^(?:template\s*<[^>]*>\s*)?(?:class|struct|enum)\b[^;]*\{")


def declarations(lines: list[str]):
    """(line number, text) of each declaration visible to embedders, outside function bodies."""
    depth_private: list[bool] = []
    body = 0
    continued = macro = False
    for number, raw in enumerate(lines, 1):
        code = re.sub(r"//.*", "", raw).strip()
        if macro or code.startswith("#"):
            macro = raw.rstrip().endswith("\\")
            continue
        if not code:
            continued = False
            continue
        if code in ("private:", "protected:") and depth_private:
            depth_private[-1] = True
        elif code == "public:" and depth_private:
            depth_private[-1] = False
        opens, closes = code.count("{"), code.count("}")
        if body:
            body += opens - closes
            continue
        if not continued and not any(depth_private) and not EXEMPT.match(code):
            yield number, code
        if CLASS.match(code) or code.startswith(("namespace", 'extern "C"')):
            if opens > closes:
                depth_private.append(
                    code.startswith("class ") or "namespace detail" in code or "::State" in code
                )
        elif opens > closes:
            body = opens - closes
        elif closes > opens and depth_private:
            depth_private.pop()
        continued = not code.endswith((";", "{", "}", ":", ">", ",")) or code.endswith("(")
        if code.endswith(",") and not (depth_private and "(" not in code):
            continued = True


def covered(lines: list[str], number: int) -> bool:
    """True if a comment is on a line of the declaration, above it, or above its run."""
    at = number - 1
    while at < len(lines):
        if "//" in lines[at]:
            return True
        if lines[at].rstrip().endswith((";", "{", "}", ",")):
            break
        at += 1
    above = number - 2
    while above >= 0 and lines[above].strip():
        if lines[above].strip().startswith("//"):
            return True
        above -= 1
    return False


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
        for number, code in declarations(lines):
            count += 1
            if not covered(lines, number):
                where = f"{path.relative_to(tree)}:{number}"
                offences.append(f"{where}: no doc comment: {code[:60]}")
    return count, offences


def main() -> None:
    tree = root()
    count, offences = measured(tree, public_headers(tree))
    if "--statistics" in sys.argv or "--figures" in sys.argv:  # the old name
        print(f"{count} public declarations, {len(offences)} without a comment")
    finish(offences, "public comments")


if __name__ == "__main__":
    main()
