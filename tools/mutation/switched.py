"""switched - patches in a source all at once, each behind its number.

A patch changes statements of a function. Where it does, the source gets both: the statements with
the change, and as they were. A changed declaration is needed by what follows, so its block is there
twice to the end. Patches that change the same statements stand in one row of `if` and `else`."""

import bisect
from dataclasses import dataclass, field

from mutation.patches import Misfit, replacements
from mutation.sites import Edit
from mutation.tokens import TOKEN, tokenize

# Lines of a patch's text have these numbers, so that the compiler's errors tell whose they are.
FIRST_LINE = 1000000
DECLARING = {"const", "auto", "static", "constexpr", "using", "struct", "enum", "typedef"}
OTHER = {"return", "co_return", "throw", "delete", "goto", "else", "case", "new", "break"}


@dataclass
class Place:
    """The statements in bytes [begin, end), and what patches put into them: {number: [(begin, end,
    text)]}."""

    begin: int
    end: int
    texts: dict[int, list[tuple[int, int, str]]] = field(default_factory=dict)

    def text_of(self, source, number):
        text, end = "", self.begin
        for begin, behind, new in sorted(self.texts[number]):
            text, end = text + source[end:begin] + new, behind
        return text + source[end : self.end]


def pieces(text):
    """[(text, begin, end)] of the tokens."""
    found = []
    for token in TOKEN.finditer(text):
        if token.lastgroup not in ("comment", "directive"):
            found.append((token.group(), *token.span()))
    return found


def difference(before, after):
    """(begin, end, new): bytes of `before` that become `new`, by whole tokens."""
    old, new = pieces(before), pieces(after)
    same = min(len(old), len(new))
    front = next((i for i in range(same) if old[i][0] != new[i][0]), same)
    back = next((i for i in range(same - front) if old[-1 - i][0] != new[-1 - i][0]), same - front)
    if front == len(old) == len(new):
        raise Misfit("changes no statement")
    text = after[new[front][1] : new[-1 - back][2]] if front + back < len(new) else ""
    if front + back < len(old):
        return old[front][1], old[-1 - back][2], text
    begin = old[front][1] if front < len(old) else len(before)
    return begin, begin, f"{text} " if back else text


def behind_brackets(t, i):
    return t[i].partner + 1


def end_of_statement(t, i):
    """The last token of the statement that begins with token i."""
    while t[i].text == "[[":
        i = behind_brackets(t, i)
    if t[i].text == "{":
        return t[i].partner
    if t[i].text == "do":
        i = end_of_statement(t, i + 1)
    elif t[i].text == "try":
        return end_of_statement(t, behind_brackets(t, behind_brackets(t, i + 1) + 1))
    elif t[i].text in ("if", "for", "while", "switch"):
        i += 2 if t[i + 1].text == "constexpr" else 1
        last = end_of_statement(t, behind_brackets(t, i))
        return end_of_statement(t, last + 2) if t[last + 1].text == "else" else last
    while t[i].text != ";":
        i = behind_brackets(t, i) if t[i].text in ("(", "[", "[[", "{") else i + 1
    return i


def statements(t, brace):
    """[(first, last)] of the statements in a block. Labels separate them."""
    found, i = [], brace + 1
    while i < t[brace].partner:
        if t[i].text in ("case", "default"):
            while t[i].text != ":":
                i += 1
            i += 1
            continue
        found.append((i, end_of_statement(t, i)))
        i = found[-1][1] + 1
    return found


def declares(t, first, last):
    """Whether what follows needs the name that the statement makes."""
    while t[first].text == "[[":
        first = behind_brackets(t, first)
    if t[first].text in DECLARING:
        return True
    if t[first].kind != "name" or t[first].text in OTHER:
        return False
    i = first
    while i < last:
        one, two = t[i], t[i + 1]
        if two.text == "<" and not two.spaced:  # of a template
            while t[i].text != ">" and i < last:
                i += 1
        elif two.text in ("::", "*", "&"):
            i += 1
        elif two.kind == "name":
            if one.text in (">", "*", "&") or one.kind == "name":
                return True
            i += 1
        elif one.text == "::" or one.text in ("*", "&"):
            i += 1
        else:
            return False
    return False


def declares_in(text):
    """The same of statements in a text."""
    try:
        t = tokenize("{" + text + "}")
        return any(declares(t, *statement) for statement in statements(t, 0))
    except IndexError:  # a part of a statement
        return False


def is_whole(text):
    """Whether the text ends where a statement does."""
    found = pieces(text)
    return not found or found[-1][0] in (";", "}")


class Source:
    def __init__(self, text):
        self.text, self.t = text, tokenize(text)
        self.begins = [token.begin for token in self.t]

    def blocks(self, begin, end):
        """Braces of blocks around bytes [begin, end), the innermost first."""
        t = self.t
        for i in range(bisect.bisect_left(self.begins, max(begin, 1)) - 1, -1, -1):
            if t[i].text == "{" and t[t[i].partner].begin >= end and t[i].partner > i:
                if t[i + 1].block == "block" or t[i + 1].text == "}":
                    yield i

    def place(self, begin, end, new):
        """The statements around a change."""
        t = self.t
        for brace in self.blocks(begin, end):
            found = statements(t, brace)
            inside = [
                k
                for k, (first, last) in enumerate(found)
                if t[first].begin < end and begin < t[last].end
                or begin == end and t[first].begin < begin < t[last].end
            ]
            if new.startswith("else") and not inside:
                inside = [k for k, (_, last) in enumerate(found) if t[last].end <= begin][-1:]
            if not inside and not is_whole(new):
                inside = [k for k, (first, _) in enumerate(found) if t[first].begin >= end][:1]
            if inside:
                first, last = found[inside[0]][0], found[inside[-1]][1]
                whole = [found[k] for k in range(inside[0], inside[-1] + 1)]
                text = self.text[t[first].begin : begin] + new + self.text[end : t[last].end]
                if not is_whole(text) and inside[-1] + 1 < len(found):  # it now governs the next
                    last = found[inside[-1] + 1][1]
            else:
                first, last, whole, text = None, None, [], new
            if any(declares(t, *statement) for statement in whole) or declares_in(text):
                first, last = self.to_end(found, brace, begin, first)
            if first is None:
                return Place(begin, end)
            if any(t[i].text in ("case", "default") and self.is_of(brace, i)
                   for i in range(first, last + 1)):  # fmt: skip
                continue
            return Place(t[first].begin, t[last].end)
        raise Misfit("changes no statement of a function")

    def is_of(self, brace, i):
        """Whether token i stands in the block itself, not in one inside it."""
        around = next(self.blocks(self.t[i].begin, self.t[i].end), None)
        return around == brace

    def to_end(self, found, brace, begin, first):
        """From there to the block's end."""
        t = self.t
        if first is None:
            first = next((a for a, _ in found if t[a].begin >= begin), None)
        last = found[-1][1] if first is not None else None
        return first, last


def united(places):
    """Places that overlap become one."""
    found = []
    for place in sorted(places, key=lambda p: (p.begin, -p.end)):
        if found and place.begin < found[-1].end:
            found[-1].end = max(found[-1].end, place.end)
            for number, texts in place.texts.items():
                found[-1].texts.setdefault(number, []).extend(texts)
        else:
            found.append(place)
    return found


def switch(file, source, place):
    """The statements with each patch in turn, and as they are."""
    text, line = "", source.text.count("\n", 0, place.begin) + 1
    for number in sorted(place.texts):
        text += f"if (LOCKSTEP_MUTATED({number})) {{\n#line {FIRST_LINE + number}\n"
        text += "".join(
            f"{part}\n#line {FIRST_LINE + number}\n"
            for part in place.text_of(source.text, number).splitlines()
        )
        text += "} else "
    old = source.text[place.begin : place.end]
    text += f"{{\n#line {line}\n{old}\n}}\n#line {line + old.count(chr(10))}\n"
    return Edit(file, place.begin, place.end, text)


def edits_of(root, patches):
    """The edits that put patches, {number: patch}, into the sources."""
    sources, places = {}, {}
    for number, patch in patches.items():
        for file, begin, end, after in replacements(root, patch):
            source = sources.setdefault(file, Source((root / file).read_text()))
            try:
                a, b, new = difference(source.text[begin:end], after)
                place = source.place(begin + a, begin + b, new)
            except Misfit as misfit:
                raise Misfit(f"{patch.name}: {misfit}") from None
            place.texts[number] = [(begin + a, begin + b, new)]
            places.setdefault(file, []).append(place)
    return [
        switch(file, sources[file], place)
        for file, found in places.items()
        for place in united(found)
    ]
