"""sites - where a source can be mutated, and how.

A mutant is one change of one expression or statement: a relational operator, a value off by one, a
constant, an argument swapped with the next, an operand or a statement left out, a condition
negated. What only checks, counts, reports or describes is left alone."""

import re
from dataclasses import asdict, dataclass

from mutation.tokens import tokenize

RELATIONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
# Calls whose arguments decide nothing, and which are no loss.
QUIET = re.compile(
    r"D?CHECK|SIM_\w+|CTX|static_assert|fail|fail_os|report|damaged|assert_state|to_string"
    r"|f?printf|snprintf|format|set_error_detail|prefetch\w*|cpu_relax|EXPECT\w*|ASSERT\w*"
    r"|alignas|sizeof|offsetof|decltype|assert_\w+|shrink_to_fit|reserve_exactly|refused"
)
# Functions that only look, count or describe.
QUIET_FUNCTION = re.compile(
    r"assert_|verify|stats|text|describe|dump|print|json|metric|check_(tree|page|node|map)|faults"
    r"|name_of|_name$|explain|histogram"
)
DEBUG_CHECKS = re.compile(r"^#ifdef LOCKSTEP_DEBUG_CHECKS$.*?^#(?:else|endif)$", re.M | re.S)
COMMUTE = {"min", "max", "swap", "exchange", "covers_both"}
KEYWORDS = set(
    """return if for while switch case default break continue goto do else try catch using typedef
    auto static const constexpr delete new struct class enum union template typename co_return
    co_await
    co_yield namespace public private protected friend inline virtual extern explicit operator
    throw sizeof alignas asm""".split()
)
# Before or behind an operand of a relational or arithmetic operator.
LOWEST = {";", ",", "?", ":", "&&", "||", "{", "}", "return", "co_return", "case", "else"}
LOWEST |= ASSIGNMENTS
NUMBER = re.compile(r"([0-9]+)([uUlLzZ]*)$")


@dataclass
class Edit:
    """Bytes [begin, end) of a file become `source`."""

    file: str
    begin: int
    end: int
    source: str


@dataclass
class Mutant:
    file: str
    line: int
    last_line: int
    function: str
    kind: str
    begin: int
    end: int
    before: str
    after: str
    # The text that replaces [begin, end); %d is the mutant's number.
    source: str
    context: str = ""  # the line that it begins in; with the one before, if it is there twice
    number: int = 0
    # Of a mutant made by hand: its patch, and the program that should notice it.
    name: str = ""
    program: str = ""

    def title(self):
        return self.name or f"{self.file}:{self.line} {self.kind}"

    def edit(self):
        return Edit(self.file, self.begin, self.end, self.source % self.number)

    def keys(self):
        """What tools/mutate_equivalent.txt may call it: without its line, and with it."""
        before, after, line = (
            text.replace(" | ", "|") for text in (self.before, self.after, self.context)
        )
        return [(self.file, self.function, b, after) for b in (before, f"{before} @ {line}")]

    def record(self):
        return asdict(self)


def shape(argument):
    """Arguments of unlike shape have unlike types, so a program with them swapped has an error."""
    if argument[0] in "\"{[&":
        return argument[0]
    return "number" if argument[0].isdigit() else "expression"


def flat(text):
    """On one line, without comments."""
    text = re.sub(r"//[^\n]*", "", text)
    return " ".join(text.split())


class Finder:
    def __init__(self, name, text):
        self.name, self.text = name, text
        self.tokens = tokenize(text)
        self.lines = [flat(line) for line in text.splitlines()]
        self.quiet = self.quiet_tokens()
        self.found = []

    def quiet_tokens(self):
        """Indices of tokens that are left alone."""
        quiet, t = set(), self.tokens
        for i, token in enumerate(t):
            if token.kind == "name" and i + 1 < len(t) and t[i + 1].text == "(":
                if QUIET.fullmatch(token.text) and t[i + 1].partner > 0:
                    quiet.update(range(i, t[i + 1].partner + 1))
            if token.text == "[[" and token.partner > 0:
                quiet.update(range(i, token.partner + 1))
            if QUIET_FUNCTION.search(token.function) or token.block in ("enum", ""):
                quiet.add(i)
            if token.text in ("constexpr", "static_assert", "using", "template", "case"):
                quiet.update(range(i, self.statement_end(i) + 1))
            if token.text == "constexpr" and self.makes_constant(i):
                quiet.update(range(i, self.body_end(i) + 1))
            if token.text == "[" and i > 1 and token.partner > 0 and self.declares_array(i):
                quiet.update(range(i, token.partner + 1))
        checks = [found.span() for found in DEBUG_CHECKS.finditer(self.text)]
        return quiet | {i for i, x in enumerate(t) if any(a <= x.begin < b for a, b in checks)}

    def makes_constant(self, i):
        """Whether token i begins a constructor without arguments: it runs in the compiler."""
        t = self.tokens
        while i + 3 < len(t) and t[i + 1].kind == "name" and t[i + 2].text == "::":
            i += 2
        return i + 3 < len(t) and t[i + 1].kind == "name" and t[i + 2].partner == i + 3

    def body_end(self, i):
        """The last token of the function whose head has token i."""
        t = self.tokens
        while i < len(t) - 1 and t[i].text not in (";", "{"):
            i = t[i].partner + 1 if t[i].text == "(" and t[i].partner > 0 else i + 1
        return t[i].partner if t[i].text == "{" and t[i].partner > 0 else i

    def declares_array(self, i):
        """Whether the bracket at i holds the size of an array that is declared: a constant."""
        name, of = self.tokens[i - 1], self.tokens[i - 2]
        if name.kind != "name" or name.text in KEYWORDS:
            return False
        if of.text == ">":
            return not of.spaced and self.text[of.end].isspace()
        return of.kind == "name" and of.text not in KEYWORDS - {"auto", "const"}

    def statement_end(self, i):
        t = self.tokens
        while i < len(t) and t[i].text not in (";", "{", ":"):
            i = t[i].partner + 1 if t[i].text in ("(", "[", "[[") and t[i].partner > 0 else i + 1
        return min(i, len(t) - 1)

    def span(self, first, last):
        return self.text[self.tokens[first].begin : self.tokens[last].end]

    def add(self, kind, first, last, mutated, before=None, after=None, source=None):
        """Tokens [first, last] become `mutated` when the mutant is on."""
        begin, end = self.tokens[first].begin, self.tokens[last].end
        original = self.text[begin:end]
        if any(i in self.quiet for i in (first, last)):
            return
        line = self.text.count("\n", 0, begin) + 1
        context = self.lines[line - 1]
        if self.lines.count(context) > 1:
            context = f"{self.lines[line - 2]} {context}"
        if source is None:
            source = "(LOCKSTEP_MUTATED(%d) ? (" + flat(mutated).replace("%", "%%") + ") : ("
            source += original.replace("%", "%%") + "))"
        self.found.append(
            Mutant(
                self.name,
                line,
                line + original.count("\n"),
                self.tokens[first].function,
                kind,
                begin,
                end,
                flat(original) if before is None else before,
                flat(mutated) if after is None else after,
                source,
                context,
            )
        )

    def left(self, i, stops):
        """First token of the operand that ends before token i."""
        t, i = self.tokens, i - 1
        while i >= 0:
            if t[i].text in (")", "]", "}") and t[i].partner >= 0:
                if t[i].text == "}" and t[i].block in ("block", "type", "other", ""):
                    return i + 1
                i = t[i].partner - 1
            elif t[i].text in ("(", "[", "{", "]]") or t[i].text in LOWEST:
                return i + 1
            elif t[i].spaced and t[i].text in stops:
                return i + 1
            else:
                i -= 1
        return 0

    def right(self, i, stops):
        """Last token of the operand that begins behind token i."""
        t, i = self.tokens, i + 1
        while i < len(t):
            if t[i].text in ("(", "[", "{") and t[i].partner > 0:
                i = t[i].partner + 1
            elif t[i].text in (")", "]", "}") or t[i].text in LOWEST or t[i].text == "[[":
                return i - 1
            elif t[i].spaced and t[i].text in stops:
                return i - 1
            else:
                i += 1
        return i - 1

    def relations_and_sums(self):
        t = self.tokens
        bits = {"&", "|", "^"}
        for i, token in enumerate(t):
            if not token.spaced or token.kind != "mark" or token.block != "block":
                continue
            if token.text in RELATIONS:
                equal = token.text in ("==", "!=")
                stops = bits | ({"==", "!="} if not equal else set())
                first, last = self.left(i, stops), self.right(i, stops)
                if first >= i or last <= i:
                    continue
                other = RELATIONS[token.text]
                l, r = self.span(first, i - 1), self.span(i + 1, last)
                self.add("relation", first, last, f"{l} {other} {r}")
            elif token.text in ("+", "-"):
                stops = bits | set(RELATIONS) | {"<<", ">>"}
                first = self.left(i, stops)
                last = self.right(i, stops | {"+", "-"})
                if first >= i or last <= i:
                    continue
                self.add("off by one", first, last, f"{self.span(first, last)} {token.text} 1")

    def operands(self):
        for i, token in enumerate(self.tokens):
            if token.text not in ("&&", "||") or not token.spaced or token.block != "block":
                continue
            last = self.right(i, set())
            if last <= i:
                continue
            operand = self.span(i + 1, last)
            text = operand.replace("%", "%%")
            ignored = "true" if token.text == "&&" else "false"
            if token.text == "&&":
                source = f"(LOCKSTEP_MUTATED(%d) || ({text}))"
            else:
                source = f"(!LOCKSTEP_MUTATED(%d) && ({text}))"
            self.add("operand left out", i + 1, last, ignored, source=source)

    def constants(self):
        t = self.tokens
        for i, token in enumerate(t):
            before = t[i - 1].text if i else ""
            if token.text in ("true", "false") and token.block in ("block", "values"):
                self.add("constant", i, i, "false" if token.text == "true" else "true")
            found = NUMBER.match(token.text) if token.kind == "number" else None
            if not found or token.block not in ("block", "values"):
                continue
            if before in ("case", "<", ":") and not token.spaced and before != ":":
                continue
            value = int(found.group(1))
            self.add("constant", i, i, str(0 if value == 1 else value + 1) + found.group(2))

    def conditions(self):
        t = self.tokens
        for i, token in enumerate(t):
            if token.text not in ("if", "while") or i + 1 >= len(t) or t[i + 1].text != "(":
                continue
            first, last = i + 2, t[i + 1].partner - 1
            for j in range(last, first, -1):
                if t[j].text == ";" and t[j].block == token.block:
                    first = j + 1
                    break
            if last < first or any(t[j].text == "=" for j in range(first, last + 1)):
                continue
            if t[t[i + 1].partner + 1].text == ";":  # do ... while
                continue
            inside = self.span(first, last)
            text = inside.replace("%", "%%")
            source = f"LOCKSTEP_MUTATED(%d) != static_cast<bool>({text})"
            self.add("condition negated", first, last, f"!({inside})", source=source)

    def statements(self):
        t = self.tokens
        for i, token in enumerate(t):
            if token.block != "block" or i == 0 or not self.begins_statement(i):
                continue
            if token.kind != "name" and token.text not in ("++", "--", "*", "("):
                continue
            end = self.statement_end(i)
            if t[end].text != ";" or not self.is_dropable(i, end):
                continue
            whole = self.span(i, end)
            source = "if (LOCKSTEP_MUTATED(%d)) {} else " + whole.replace("%", "%%")
            self.add("statement left out", i, end, "", source=source)

    def begins_statement(self, i):
        t = self.tokens
        if t[i - 1].text in (";", "{", "}", "else", "]]"):
            return t[i - 1].text != "]]" or t[t[i - 1].partner - 1].text == ")"
        if t[i - 1].text != ")" or t[i - 1].partner < 1:
            return False
        return t[t[i - 1].partner - 1].text in ("if", "for", "while")

    def is_dropable(self, first, end):
        t = self.tokens
        if t[first].text in ("break", "continue"):
            return end == first + 1
        if t[first].text in KEYWORDS or QUIET.fullmatch(t[first].text):
            return False
        if "memory_order_relaxed" in self.span(first, end) and "fetch_add" in self.span(first, end):
            return False  # a counter
        i, chain, called = first, [], False
        while i < end:
            if t[i].text in ("(", "["):
                called = called or t[i].text == "("
                i = t[i].partner + 1
                chain.append("()")
                continue
            if t[i].text in ASSIGNMENTS and t[i].spaced:
                break
            chain.append(t[i].kind)
            if t[i].kind == "name" and QUIET.fullmatch(t[i].text):
                return False
            if len(chain) > 1 and chain[-1] == chain[-2] == "name":
                return False  # a declaration
            if t[i].text in ("<", "&", "&&", "{", "?"):
                return False
            if t[i].text == "*" and i != first:
                return False
            i += 1
        assigns = i < end
        counts = t[first].text in ("++", "--") or t[end - 1].text in ("++", "--")
        return assigns or counts or (called and t[end - 1].text == ")")

    def swaps(self):
        t = self.tokens
        for i, token in enumerate(t):
            if token.text != "(" or token.block != "block" or token.partner < 0 or i == 0:
                continue
            if t[i - 1].kind != "name" or t[i - 1].text in KEYWORDS | COMMUTE:
                continue
            if t[i - 1].text.isupper():
                continue
            first = self.callee(i - 1)
            if first is None:
                continue
            for a, b in self.pairs(i):
                one, two = self.span(*a), self.span(*b)
                if flat(one) == flat(two) or shape(one) != shape(two):
                    continue
                head, tail = self.span(first, a[0] - 1), self.span(b[1] + 1, token.partner)
                gap = "" if head.endswith(("(", "[")) else " "
                mutated = f"{head}{gap}{two}, {one}{tail}"
                self.add("arguments swapped", first, token.partner, mutated)

    def callee(self, i):
        """First token of the chain of names that ends at i; None if it is a declaration."""
        t = self.tokens
        while i > 1 and t[i - 1].text in ("::", ".", "->"):
            i -= 2
            while t[i].text in (")", "]"):
                i = t[i].partner - 1
            if t[i].kind != "name":
                return None
        before = t[i - 1]
        if before.kind == "name" and before.text != "return":
            return None
        if before.text in (">", "*", "&", "~", "::", "new") and not before.spaced:
            return None
        return i

    def pairs(self, i):
        """Spans of neighbouring arguments of the call whose bracket is token i."""
        t, parts, first = self.tokens, [], i + 1
        j = i + 1
        while j <= t[i].partner:
            if j == t[i].partner or t[j].text == ",":
                parts.append((first, j - 1))
                first = j + 1
            j = t[j].partner + 1 if t[j].text in ("(", "[", "{") and t[j].partner > j else j + 1
        if any(b < a for a, b in parts) or any(
            t[k].kind == t[k + 1].kind == "name" for a, b in parts for k in range(a, b)
        ):
            return []
        return list(zip(parts, parts[1:]))

    def all(self):
        self.relations_and_sums()
        self.operands()
        self.constants()
        self.conditions()
        self.statements()
        self.swaps()
        unique = {(m.begin, m.end, m.kind, m.after): m for m in self.found}
        return sorted(unique.values(), key=lambda m: (m.begin, m.end, m.kind))


def find(name, text):
    """All mutants of a source."""
    return Finder(name, text).all()


def rewrite(text, edits):
    """The source with all edits in it. They do not overlap. Lines keep their numbers."""
    header = edits and edits[0].file.endswith(".h")
    for edit in sorted(edits, key=lambda e: (e.begin, e.end), reverse=True):
        text = text[: edit.begin] + edit.source + text[edit.end :]
    first, rest = text.split("\n", 1)
    assert first.startswith("//"), "the first line of a source is a comment"
    waits = any("AFTER_WAIT" in edit.source for edit in edits)
    switch = "mutation_waits.h" if waits else "mutation_switch.h"
    # A warning about a mutant means nothing. The flags stay as they are, for the compiler's cache.
    quiet = "#pragma GCC system_header\n#line 2\n" if header else ""
    return f'#include "{switch}"\n' + quiet + rest


def overlap(a, b):
    return a.file == b.file and a.begin < b.end and b.begin < a.end
