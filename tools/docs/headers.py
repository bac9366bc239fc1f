"""headers - reads the public C++ headers: each public name with its declaration and its comment.

The headers follow the project's style, so this is no C++ parser. A comment block stands above what
it describes, or a comment stands behind it on the same line. Bodies of functions are left out.
"""

import dataclasses
import pathlib
import re

FOLDERS = ("sm/include/lockstep", "txn/include/lockstep", "threads/include/lockstep")
# Headers that others include; no application names what they have.
INTERNAL = {"handle_inl.h", "store_inl.h", "standard.h", "owned.h"}


@dataclasses.dataclass
class Entry:
    """A declaration. `members`: of a class or struct, only the public ones."""

    declaration: str
    comment: str
    members: list["Entry"] = dataclasses.field(default_factory=list)

    def name(self) -> str:
        text = re.sub(r"\[\[.*?\]\]|//[^\n]*", "", self.declaration)
        if found := re.match(r"\s*#define\s+(\w+)", text):
            return found[1]
        text = without_template_arguments(re.sub(r"^\s*template\s*(?=<)", "", text)).strip()
        if found := re.match(r"(?:class|struct|enum class|enum|union)\s+(\w+)", text):
            return found[1]
        if found := re.match(r"using\s+(?:\w+::)*(\w+)|concept\s+(\w+)", text):
            return found[1] or found[2]
        if found := re.search(r"\boperator\s*(\(\)|[^\s(]+(?:\s+bool)?)|(~?\w+)\s*\(", text):
            if found[1]:
                return "operator" + (" " if found[1][0].isalpha() else "") + found[1]
            return found[2]
        return re.match(r".*?(\w+)\s*(?:\[[^]]*\])?\s*(?:[={;,].*)?$", text, re.S)[1]


def without_template_arguments(text: str) -> str:
    """`operator<` and the like lose their sign too; they have no name that a reader looks up."""
    depth, out = 0, []
    for c in text:
        depth += c == "<"
        if depth == 0:
            out.append(c)
        depth -= c == ">" and depth > 0
    return "".join(out)


@dataclasses.dataclass
class Header:
    name: str
    title: str
    about: str
    entries: list[Entry]


def public_headers(root: pathlib.Path) -> list[pathlib.Path]:
    found = [p for folder in FOLDERS for p in (root / folder).glob("*.h")]
    return sorted((p for p in found if p.name not in INTERNAL), key=lambda p: p.name)


def plain(comment_lines: list[str]) -> str:
    return "\n".join(re.sub(r"^\s*// ?", "", line) for line in comment_lines).strip()


def without_body(text: str) -> str:
    """The declaration without the body of its function and without initializers of members."""
    depth = 0
    for i, c in enumerate(text):
        if c == "(":
            depth += 1
        elif c == ")":
            depth -= 1
        elif c == "{" and depth == 0:
            head = text[:i].rstrip()
            if re.search(
                r"\)\s*(?:const|noexcept|override|final|->\s*[\w:<>&*\s]+|:.*)*$", head, re.S
            ):
                return re.sub(r"(\)[^:]*?)\s*:(?!:).*$", r"\1", head, flags=re.S) + ";"
            return text
    return text


class Reader:
    """Goes through the lines of a scope, and collects the entries."""

    def __init__(self, lines: list[str]):
        self.lines = lines
        self.at = 0

    def statement(self) -> str:
        """The lines of the next declaration, up to the line that ends it."""
        taken, round_, curly = [], 0, 0
        while self.at < len(self.lines):
            line = self.lines[self.at]
            self.at += 1
            taken.append(line)
            code = re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|//.*', "", line)
            round_ += code.count("(") - code.count(")")
            curly += code.count("{") - code.count("}")
            if round_ <= 0 and curly <= 0 and re.search(r"[;}]\s*$", code):
                break
        return "\n".join(taken)

    def macro(self) -> str:
        taken = [self.lines[self.at]]
        while taken[-1].endswith("\\"):
            self.at += 1
            taken.append(self.lines[self.at])
        self.at += 1
        return "\n".join(taken)

    def entries(self, public: bool) -> list[Entry]:
        found: list[Entry] = []
        comment: list[str] = []
        # A comment holds for the declarations below it up to an empty line or the next comment.
        used = False
        spaces: list[str] = []  # namespaces
        while self.at < len(self.lines):
            line = self.lines[self.at]
            text = line.strip()
            space = re.match(r"(?:inline )?namespace ?([\w:]*) \{$", text)
            if text.startswith(("// clang-format", "// NOLINT")):
                self.at += 1
            elif text.startswith("//"):
                comment = [line] if used else [*comment, line]
                used = False
                self.at += 1
            elif not text or text in ("public:", "private:", "protected:"):
                public = public if not text else text == "public:"
                comment = []
                self.at += 1
            elif text.startswith("#define LOCKSTEP_"):
                found.append(Entry(self.macro(), plain(comment)))
                used = True
            elif text.startswith("#"):
                self.macro()
            elif space or re.match(r"\}(  // namespace.*)?$", text):
                spaces = [*spaces, space[1]] if space else spaces[:-1]
                comment = []
                self.at += 1
            else:
                entry = self.declaration(comment)
                used = True
                if public and entry and "detail" not in spaces:
                    found.append(entry)
        return found

    def declaration(self, comment: list[str]) -> Entry | None:
        text = self.statement()
        about = plain(comment)
        behind = re.findall(r"[;{,}]\s*//\s*(.*)$", text, re.M)
        kind = re.match(r"\s*(?:template\s*<.*>\s*)?(class|struct|union)\b[^;(]*\{", text, re.S)
        if kind and not re.match(r"\s*(?:template\s*<>)", text):
            head, body = text.split("{", 1)
            inner = body.rsplit("}", 1)[0].split("\n")
            tail = re.search(r"//\s*(.*)", inner[0])
            members = Reader(inner[1:]).entries(kind[1] != "class")
            return Entry(head.strip() + ";", (about or (tail[1] if tail else "")), members)
        if re.match(
            r"\s*(?:template\s*<.*>\s*)?(?:class|struct)\b[^{(]*;\s*(?://.*)?$", text, re.S
        ):
            return None  # declared only
        if re.match(r"\s*(friend|static_assert|extern template)\b", text) or "std::hash<" in text:
            return None
        if re.match(r"\s*template\s*<.*>\s*inline constexpr bool \w+<", text, re.S):
            return None  # a special case of the one above
        if re.match(r"\s*enum\b", text):
            return Entry(dedent(text), about)
        if len(behind) == 1 and "\n" not in text.strip():
            about = f"{about}\n{behind[0]}".strip() if about else behind[0]
            text = re.sub(r"\s*//.*$", "", text)
        return Entry(dedent(without_body(text)), about)


def dedent(text: str) -> str:
    lines = text.split("\n")
    margin = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[margin:] if not line[:margin].strip() else line for line in lines).strip()


def read(path: pathlib.Path) -> Header:
    lines = path.read_text().split("\n")
    top = []
    while lines and lines[0].startswith("//"):
        top.append(lines.pop(0))
    text = plain(top)
    title = re.sub(rf"^{re.escape(path.name)} - ", "", text.split("\n\n")[0]).replace("\n", " ")
    about = text.split("\n\n", 1)[1] if "\n\n" in text else ""
    return Header(path.name, title, about, Reader(lines).entries(True))
