"""tokens - C++ source as tokens with their brackets, blocks and functions.

It is no parser. It relies on the layout that clang-format gives all sources: a binary operator has
a space on both sides, a template's bracket has none."""

import re
from dataclasses import dataclass

TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<directive>^[ \t]*\#(?:[^\n\\]|\\\n|\\.)*)
      | (?P<string>(?:u8|[uUL])?R"(?P<raw>[^(]*)\(.*?\)(?P=raw)"|"(?:[^"\\\n]|\\.)*")
      | (?P<char>'(?:[^'\\\n]|\\.)+')
      | (?P<number>(?:0[xX][0-9a-fA-F']+|[0-9][0-9']*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)[a-zA-Z_]*)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<mark><=>|->\*|<<=|>>=|\.\.\.|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=
          |\[\[|\]\]|[-+*/%&|^~!<>=?:;,.(){}\[\]])""",
    re.X | re.S | re.M,
)
CLOSES = {"(": ")", "[": "]", "{": "}", "[[": "]]"}


@dataclass
class Token:
    kind: str
    text: str
    begin: int
    end: int
    partner: int = -1  # index of the other bracket
    spaced: bool = False  # white space on both sides
    block: str = ""  # what the innermost brace around it is: block, type, enum, other, ""
    function: str = ""

    def __repr__(self):
        return self.text


def tokenize(text):
    tokens = []
    for found in TOKEN.finditer(text):
        kind = found.lastgroup if found.lastgroup != "raw" else "string"
        if kind in ("comment", "directive"):
            continue
        begin, end = found.span()
        # `a[b[i]]` ends with two brackets, not with the end of an attribute.
        if kind == "mark" and found.group() in ("[[", "]]") and not attribute(text, begin, tokens):
            for at in (begin, begin + 1):
                tokens.append(Token(kind, text[at], at, at + 1))
            continue
        spaced = begin > 0 and text[begin - 1].isspace() and text[end : end + 1].isspace()
        tokens.append(Token(kind, found.group(), begin, end, spaced=spaced))
    pair_brackets(tokens)
    name_blocks(tokens)
    return tokens


def attribute(text, begin, tokens):
    """Whether the double bracket at `begin` belongs to an attribute."""
    if text[begin] == "[":
        return re.match(r"\[\[[\w:, ]+\]\]", text[begin:]) is not None
    opens = [t for t in tokens if t.text == "[["]
    return bool(opens) and re.fullmatch(r"[\w:, ]+", text[opens[-1].end : begin]) is not None


def pair_brackets(tokens):
    opened = []
    for i, token in enumerate(tokens):
        if token.text in CLOSES:
            opened.append(i)
        elif token.text in (")", "]", "}", "]]") and opened:
            tokens[i].partner = opened.pop()
            tokens[tokens[i].partner].partner = i


def head_of(tokens, brace):
    """Index of the first token of what stands before a brace: behind the last `;`, `{` or `}`."""
    i = brace - 1
    while i >= 0 and tokens[i].text not in (";", "{", "}"):
        i = tokens[i].partner - 1 if tokens[i].text in (")", "]", "]]") else i - 1
    return i + 1


def function_name(tokens, first, brace):
    """The name before the parameter list, or nothing."""
    for i in range(first, brace):
        if tokens[i].text == "(" and i > first and tokens[i - 1].kind == "name":
            parts = [tokens[i - 1].text]
            j = i - 2
            while j > first and tokens[j].text == "::" and tokens[j - 1].kind == "name":
                parts.insert(0, tokens[j - 1].text)
                j -= 2
            return "::".join(parts)
    return ""


def kind_of_brace(tokens, brace):
    """block: statements; type: members; enum; other: namespaces and lists of values."""
    before = tokens[brace - 1] if brace else None
    if before is None:
        return "other"
    head = [t.text for t in tokens[head_of(tokens, brace) : brace]]
    if "namespace" in head or "extern" in head:
        return "other"
    if "enum" in head:
        return "enum"
    if {"struct", "class", "union"} & set(head) and "(" not in head:
        return "type"
    if before.text in ("else", "do", "const", "noexcept", "override", "mutable", "{", "}", ";"):
        return "block"
    if before.text == "]" and before.partner > 0:  # a lambda without a parameter list
        outside = tokens[before.partner - 1]
        if outside.kind != "name" and outside.text not in (")", "]"):
            return "block"
    if before.text == ")" or before.text == "]]" or "->" in head and before.kind == "name":
        return "block"
    return "other"


def name_blocks(tokens):
    stack = []  # (kind, function)
    for i, token in enumerate(tokens):
        if token.text == "}" and stack:
            stack.pop()
        token.block, token.function = stack[-1] if stack else ("", "")
        if token.text == "{":
            kind = kind_of_brace(tokens, i)
            function = token.function
            if kind == "block" and token.block != "block":
                function = function_name(tokens, head_of(tokens, i), i)
            elif kind == "other" and token.block in ("block", "type", "enum"):
                kind = token.block if token.block != "block" else "values"
            stack.append((kind, function))
