#!/usr/bin/env python3
"""public_calls - checks that the table in sm/PUBLIC_CALLS.md has each function of the public
headers, and no other one.

Usage: public_calls.py [ROOT] [--list]. The test sm_public_calls_test writes the table, in which
calls that do the same share a row. A call is named as the header declares the function: class,
name, and the names of the parameters. Constructors, assignments and VALUES are not in it.
"""

import re
import sys

from public_comments import public_headers
from source import finish, root, without_comments

# Classes and functions that compute with values alone; what the store alone calls, or gives to such
# a call; and what takes handles of the C interface, which sm_c_calls_test and sm_c_procedures_test
# call.
VALUES = {
    *("Aggregate", "Announcement", "Block", "Column", "Columns", "Constant", "Expr", "Function"),
    "change_kind_name",
    *("Packet", "Plan", "Rows", "SharedByte", "col"),
    *("Clock", "Error", "FunctionRef", "Id", "IoStats", "Key", "KeyReader", "LogBuckets", "Lsn"),
    *("ManualClock", "MonotonicClock", "Result", "SecondaryKeys", "StageHistogram", "StageStats"),
    *("StepsStats", "StoreFailure", "Strays", "ThreadWaits", "Unexpected"),
    *("check_options", "check_steps_options", "ctx_on", "ctx_points_from", "error_meaning"),
    *("error_name", "fail", "fail_os", "needs_on", "operations_in_teams", "prefetch_on"),
    *("teams_on", "transaction_state_name"),
    *("store_of", "transaction_of"),
}
SCOPE = re.compile(r"^(?:inline )?(namespace|class|struct|union|enum)\b[^(]*$")
NOT_A_FUNCTION = re.compile(
    r"^(?:friend|using|static_assert|typedef|extern)\b|^[^(]*\(\*|^[^(]*=|= 0$"
)
LABEL = re.compile(r"^\s*(public|private|protected)\s*:(?!:)")
NAME = re.compile(r"(operator\s*\(\)|operator\s*\w+|operator\s*[^\s\w(]+|~?\w+)\s*\(")
TABLE = re.compile(r"<!-- public calls: begin -->\n(.*?)<!-- public calls: end -->", re.S)


class Scope:
    """A namespace or class that is open at this place of a header, or anything else in braces."""

    def __init__(self, kind, name, hidden):
        self.kind, self.name, self.hidden = kind, name, hidden


def balanced(text, at, pair):
    """The place behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == pair[0]) - (text[i] == pair[1])
        if depth == 0:
            return i + 1
    return len(text)


def simple(head):
    """A declaration without attributes, alignment, template parameters, doubled white space, and
    template arguments that are function types.
    """
    head = " ".join(re.sub(r"\[\[.*?\]\]|alignas\(.*?\)", "", head).split())
    head = re.sub(r"(?<!operator)<[^<>()]*\([^()]*\)[^<>]*>", "<>", head)
    while head.startswith("template"):
        head = head[balanced(head, head.index("<"), "<>") :].strip()
        head = re.sub(r"^requires \(.*?\) (?=\w)", "", head)
    return head


def parameters(text):
    """The names of the parameters; `text` begins with the opening bracket."""
    names, depth, begin = [], 0, 1
    for i, c in enumerate(text):
        depth += (c in "(<{[") - (c in ")>}]")
        if (c == "," and depth == 1) or depth == 0:
            words = re.findall(r"\w+", text[begin:i].split("=")[0])
            names += words[-1:]
            begin = i + 1
        if depth == 0:
            return [name for name in names if name != "void"]
    return names


def functions(text):
    """(scopes, name, parameters, defined here) of each function that others may call."""
    code = re.sub(r"^\s*#(?:.*\\\n)*.*$", "", without_comments(text), flags=re.M)
    scopes, head, at = [], "", 0
    while at < len(code):
        c = code[at]
        at += 1
        if c not in "{};":
            head += c
            continue
        while label := LABEL.match(head):
            scopes[-1].hidden = label.group(1) != "public"
            head = head[label.end() :]
        plain = simple(head)
        if c == "{" and head.count("(") > head.count(")"):  # within a default argument
            behind = balanced(code, at - 1, "{}")
            head += code[at - 1 : behind]
            at = behind
        elif c == "}":
            if scopes:
                scopes.pop()
            head = ""
        elif c == "{" and (kind := SCOPE.match(re.sub(r"<.*>", "", plain))):
            name = (re.findall(r"\w+", plain.split(" : ")[0].removesuffix(" final")) or [""])[-1]
            names = re.sub(r"<.*", "", plain).split()
            if len(names) > 1 and kind.group(1) != "enum":
                name = names[1] if kind.group(1) == "namespace" else names[1].split(":")[0]
            scopes.append(Scope(kind.group(1), name, kind.group(1) == "class"))
            head = ""
        else:
            function = NAME.search(plain)
            if function and not NOT_A_FUNCTION.search(plain):
                yield from visible(scopes, plain, function, c == "{")
            if c == "{":
                at = balanced(code, at - 1, "{}")
                head = "" if function and not NOT_A_FUNCTION.search(plain) else head + "{}"
            else:
                head = ""


def visible(scopes, plain, function, defined):
    """The function, unless it is private or a special member."""
    names = [part for s in scopes if s.kind != "enum" for part in s.name.split("::")]
    name = " ".join(function.group(1).split())
    special = name in names or name == "operator=" or re.search(r"= (?:default|delete)$", plain)
    if names[:1] == ["lockstep"] and not any(s.hidden for s in scopes) and not special:
        yield names[1:], name, parameters(plain[function.end() - 1 :]), defined


def calls(tree):
    """The calls that the table must have."""
    for header in public_headers(tree):
        for names, name, arguments, _ in functions(header.read_text()):
            inside = names[:1] and names[0] in ("detail", "sm", "txn")
            if not inside and not VALUES & {*names, name}:
                yield "::".join([*names, name]) + f"({', '.join(arguments)})"


def declared_functions(tree):
    """Names of the functions that public headers declare and do not define: the library must have
    them. Functions of a class template are defined in store_inl.h or in their header.
    """
    templates = {"Handle", "Channel", "FunctionRef", "Result", "LogBuckets"}
    for header in public_headers(tree):
        text = header.read_text()
        for names, name, _, defined in functions(text):
            template = re.search(rf"template <class F>\s+auto {re.escape(name)}\(", text)
            if not defined and not template and not templates & {*names}:
                yield "::".join([*names, name])


def main() -> None:
    tree = root()
    wanted = list(calls(tree))
    if "--list" in sys.argv:
        print("\n".join(wanted))
    document = "sm/PUBLIC_CALLS.md"
    table = TABLE.search((tree / document).read_text())
    cells = re.findall(r"^\| (`.*?`) \|", table.group(1) if table else "", re.M)
    rows = [call for cell in cells for call in re.findall(r"`([^`]+)`", cell)]
    offences = [f"{document}: has no `{call}`" for call in wanted if call not in rows]
    offences += [f"{document}: no header has `{row}`" for row in rows if row not in wanted]
    offences += [f"{document}: twice `{row}`" for row in {*rows} if rows.count(row) > 1]
    finish(offences, "public calls")


if __name__ == "__main__":
    main()
