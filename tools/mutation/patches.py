"""patches - the mutants that people made: one patch each, tests/mutants/AREA/NAME.patch.

The first line of a patch is `PROGRAM: what is wrong`. PROGRAM should notice the mutant first. The
rest is a unified diff against the sources. A hunk belongs where its lines stand in the source: the
line number decides only if they stand there more than once."""

import difflib
import re
from dataclasses import dataclass

FOLDER = "tests/mutants"
HEAD = re.compile(r"([\w-]+): (\S.*)")
HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")
CONTEXT = 2  # lines
REMEDY = "mend the patch, or try tools/mutate.py --renew"


class Misfit(Exception):
    """A patch that cannot be read, or that does not apply."""


@dataclass
class Hunk:
    line: int
    lines: list[str]  # with their marks

    def before(self):
        return "".join(line[1:] for line in self.lines if line[0] in " -")

    def after(self):
        return "".join(line[1:] for line in self.lines if line[0] in " +")

    def narrower(self):
        """With a line less before and behind, as far as the patch does not change it."""
        first, last = self.lines[0][0] == " ", self.lines[-1][0] == " "
        return Hunk(self.line + first, self.lines[first : len(self.lines) - last])


@dataclass
class Patch:
    name: str
    area: str
    program: str
    wrong: str
    files: dict[str, list[Hunk]]


def parse(path):
    """The patch in a file."""
    head, *lines = path.read_text().splitlines(keepends=True)
    first = HEAD.fullmatch(head.strip())
    if not first:
        raise Misfit(f"{path.name}: the first line is not `PROGRAM: what is wrong`")
    patch = Patch(path.stem, path.parent.name, *first.groups(), {})
    hunks = []
    for line in lines:
        if line.startswith("+++ b/"):
            hunks = patch.files.setdefault(line[6:].strip(), [])
        elif found := HUNK.match(line):
            hunks.append(Hunk(int(found[1]), []))
        elif not line.startswith("--- a/"):
            if not hunks or line[0] not in " +-":
                raise Misfit(f"{path.name}: no line of a unified diff: {line.strip()}")
            hunks[-1].lines.append(line)
    if not patch.files or not all(patch.files.values()):
        raise Misfit(f"{path.name}: changes nothing")
    return patch


def read(root):
    """All patches, by name."""
    found = {}
    for path in sorted((root / FOLDER).glob("*/*.patch")):
        if path.stem in found:
            raise Misfit(f"{path.name}: is in {found[path.stem].area}, too")
        found[path.stem] = parse(path)
    return found


def places(text, hunk):
    """Where the lines of a hunk stand in the source, the nearest to its line number first."""
    lines, found, at = hunk.before(), [], -1
    while lines and (at := text.find(lines, at + 1)) >= 0:
        if at == 0 or text[at - 1] == "\n":
            found.append(at)
    return sorted(found, key=lambda at: abs(text.count("\n", 0, at) + 1 - hunk.line))


def replacements(root, patch):
    """[(file, begin, end, text)]: what the patch puts in the place of bytes [begin, end)."""
    found = []
    for file, hunks in patch.files.items():
        if not (root / file).exists():
            raise Misfit(f"{patch.name}: there is no {file}: {REMEDY}")
        text = (root / file).read_text()
        for hunk in hunks:
            at = places(text, hunk)
            if not at:
                where = f"line {hunk.line} of {file} is not as the patch has it"
                raise Misfit(f"{patch.name}: {where}: {REMEDY}")
            found.append((file, at[0], at[0] + len(hunk.before()), hunk.after()))
    return found


def nearly(root, patch):
    """As replacements(), where files have moved and lines around a change are others than those of
    the patch."""
    found = []
    for file, hunks in patch.files.items():
        if not (root / file).exists():
            layer, name = file.split("/")[0], file.rpartition("/")[2]
            moved = [str(path.relative_to(root)) for path in (root / layer).rglob(name)]
            if len(moved) != 1:
                raise Misfit(f"{patch.name}: there is no {file}")
            file = moved[0]
        text = (root / file).read_text()
        for hunk in hunks:
            at = places(text, hunk)
            for _ in range(CONTEXT):
                if not at:
                    hunk = hunk.narrower()
                    at = places(text, hunk)
                    if len(at) > 1 and all(line[0] == "+" for line in hunk.lines):
                        at = []
            if not at:
                raise Misfit(f"{patch.name}: nothing like line {hunk.line} in {file}")
            found.append((file, at[0], at[0] + len(hunk.before()), hunk.after()))
    return found


def renew(root):
    """Makes patches anew that no longer are as the sources; what was done, a line each."""
    for path in sorted((root / FOLDER).glob("*/*.patch")):
        try:
            patch, changed = parse(path), {}
            for file, begin, end, text in sorted(nearly(root, patch), reverse=True):
                old = changed.setdefault(file, (root / file).read_text())
                changed[file] = old[:begin] + text + old[end:]
        except Misfit as misfit:
            yield str(misfit)
            continue
        text = f"{patch.program}: {patch.wrong}\n"
        for file, new in sorted(changed.items()):
            old = (root / file).read_text().splitlines(True)
            text += "".join(
                difflib.unified_diff(
                    old, new.splitlines(True), f"a/{file}", f"b/{file}", n=CONTEXT
                )
            )
        if text != path.read_text():
            path.write_text(text)
            yield f"{patch.name}: made anew"
