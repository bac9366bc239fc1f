"""reference - the pages of the reference: C++, C, Python, options, errors, metrics, commands.

All text comes from the sources and from the programs' --help.
"""

import pathlib
import posixpath
import re
import subprocess

import headers
import python_pages

Pages = dict[str, str]
TABLES = ("errors", "metrics", "limits", "public_calls")


def prose(text: str) -> str:
    """A comment as Markdown. `Concepts   ...` and the like become paragraphs with a bold begin."""
    paragraphs: list[str] = []
    for line in text.split("\n"):
        label = re.match(r"([A-Z]\w+(?: \w+)?|\w+\(\)) {2,}(\S.*)", line)
        if label:
            name = f"`{label[1]}`." if "(" in label[1] else f"**{label[1]}.**"
            paragraphs.append(f"{name} {escape(label[2])}")
        elif not line.strip() or not paragraphs:
            paragraphs.append(escape(line.strip()))
        else:
            paragraphs[-1] = f"{paragraphs[-1]} {escape(line.strip())}".strip()
    return "\n\n".join(p for p in paragraphs if p)


def escape(text: str) -> str:
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        p if p.startswith("`") else re.sub(r"([\[\]*_])", r"\\\1", p).replace("<", "&lt;")
        for p in parts
    )


def ordinary(entry: headers.Entry, owner: str) -> bool:
    """Not one of the members that each movable class has."""
    name = entry.name()
    special = name in (f"~{owner}", "operator=") or (
        name == owner and re.search(r"\(\s*(const )?\w+&&?\s*\w*\)", entry.declaration)
    )
    return not special


def member_lists(entry: headers.Entry) -> list[str]:
    """One piece for each run of members that share a comment."""
    runs: list[list[headers.Entry]] = []
    for member in entry.members:
        if not ordinary(member, entry.name()):
            continue
        if runs and runs[-1][0].comment == member.comment:
            runs[-1].append(member)
        else:
            runs.append([member])
    pieces = []
    for run in runs:
        names = dict.fromkeys(m.name() for m in run if "(" in m.declaration)
        heading = f"### {entry.name()}::{', '.join(names)}\n\n" if names else ""
        code = "\n".join(m.declaration for m in run)
        pieces.append(f"{heading}```cpp\n{code}\n```\n\n{prose(run[0].comment)}")
    return pieces


def page_of(header: str) -> str:
    """The page of a header below reference/cpp. index.md is the list of all."""
    return "index_h.md" if header == "index" else f"{header}.md"


def linked(text: str, known: set[str], here: str) -> str:
    """Names of other headers in running text become links to their pages."""
    parts = re.split(r"(```.*?```|`[^`]*`|^#.*$)", text, flags=re.S | re.M)
    name = re.compile(r"(?<![\w/<\\])((?:\w|\\_)+)\.h\b")

    def link(m: re.Match) -> str:
        page = m[1].replace("\\", "")
        return f"[{m[0]}]({page_of(page)})" if page in known and page != here else m[0]

    return "".join(p if p.startswith(("`", "#")) else name.sub(link, p) for p in parts)


HEADER = re.compile(r"`(?:<?(?:[\w/]*include/)?lockstep/)?(\w+)\.h>?`")


def with_header_links(text: str, pages: Pages, page: str) -> str:
    """Quoted names of public headers become links to their pages, outside of code and links."""
    parts = re.split(r"(^```.*?^```$|!?\[[^]]*\]\([^)]*\)|^#.*$)", text, flags=re.S | re.M)

    def link(m: re.Match) -> str:
        goal = f"reference/cpp/{page_of(m[1])}"
        there = goal in pages and goal != page
        return f"[{m[0]}]({posixpath.relpath(goal, posixpath.dirname(page))})" if there else m[0]

    return "".join(p if i % 2 else HEADER.sub(link, p) for i, p in enumerate(parts))


def header_page(header: headers.Header) -> str:
    title = header.title[:1].upper() + header.title[1:]
    out = [f"# {header.name}", f"`#include <lockstep/{header.name}>`", prose(title)]
    out.append(prose(header.about))
    for entry in header.entries:
        out.append(f"## {entry.name()}")
        out.append(f"```cpp\n{entry.declaration}\n```")
        out.append(prose(entry.comment))
        out += member_lists(entry)
    return "\n\n".join(piece for piece in out if piece) + "\n"


def cpp_pages(root: pathlib.Path) -> Pages:
    pages = {}
    rows = ["# C++", "", "| header | content |", "|---|---|"]
    found = [(p, headers.read(p)) for p in headers.public_headers(root)]
    found = [(path, header) for path, header in found if header.entries]
    known = {path.stem for path, _ in found}
    for path, header in found:
        pages[f"reference/cpp/{page_of(path.stem)}"] = linked(header_page(header), known, path.stem)
        rows.append(f"| [`{path.name}`]({page_of(path.stem)}) | {escape(header.title)} |")
    return {"reference/cpp/index.md": "\n".join(rows) + "\n", **pages}


def c_pages(root: pathlib.Path) -> Pages:
    """Each header as it is: a C header is its own reference."""
    paths = sorted((root / "sm/include/lockstep/c").glob("*.h"))
    if not paths:
        raise SystemExit("docs: no header of the C interface: has its folder moved?")
    found = {p.stem: (p, "`#include <lockstep/lockstep.h>` has it too.") for p in paths}
    about = "Link `lockstep-xa` too: [how](../../howto/xa.md)."
    found["xa"] = (root / "tools/xa/lockstep_xa.h", about)
    return {
        f"reference/c/{stem}.md": (
            f"# lockstep/c/{stem}.h\n\n{about}\n\n```c\n{path.read_text()}```\n"
        )
        for stem, (path, about) in sorted(found.items())
    }


def error_page(root: pathlib.Path) -> str:
    text = (root / "threads/include/lockstep/result.h").read_text()
    rows = re.findall(r'^    X\((\w+), "([^"]*)"\)', text, re.M)
    if not rows:
        raise SystemExit("docs: result.h has no errors: has LOCKSTEP_ERRORS changed its form?")
    table = "\n".join(
        f"| {n} | `{name}` | {meaning} |" for n, (name, meaning) in enumerate(rows, 1)
    )
    return (
        "# Errors\n\nEvery call that can fail returns `Result<T>`: a value or an `Error` "
        "([result.h](cpp/result.md)). `Error::text()` adds the object, the numbers and the remedy."
        f"\n\n| number | name | meaning |\n|---|---|---|\n{table}\n"
    )


def metric_page(root: pathlib.Path) -> str:
    text = (root / "sm/observe/metrics_table.h").read_text()
    row = re.compile(
        r'\{\s*"(lockstep_\w+)",\s*(?:"((?:\\.|[^"\\])*)",\s*)?'
        r'[^"{}]*?((?:"(?:\\.|[^"\\])*"\s*)*)\}'
    )
    families: dict[str, tuple[list[str], str]] = {}
    for name, labels, strings in row.findall(text):
        help_ = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', strings))
        known = families.setdefault(name, ([], help_))
        if labels:
            known[0].append(labels.replace('\\"', '"'))
    lines = [
        f"| `{name}` | {', '.join(f'`{label}`' for label in labels)} | {escape(help_)} |"
        for name, (labels, help_) in sorted(families.items())
    ]
    return (
        "# Metrics\n\n`Store::metrics()` returns these in the text format of Prometheus. Times are "
        "in seconds.\n\n| metric | labels | meaning |\n|---|---|---|\n" + "\n".join(lines) + "\n"
    )


def command_pages(programs: list[pathlib.Path]) -> Pages:
    pages = {}
    for program in programs:
        text = help_of([str(program)])
        block = re.search(r"^Subcommands:\n((?:  .*\n|\n)*)", text, re.M)
        names = re.findall(r"^  (\S+)", block[1], re.M) if block else []
        parts = [f"# {program.name}", f"```text\n{text}\n```"]
        for name in names:
            parts.append(f"## {program.name} {name}")
            parts.append(f"```text\n{help_of([str(program), name])}\n```")
        pages[f"reference/commands/{program.name}.md"] = "\n\n".join(parts) + "\n"
    return pages


def help_of(command: list[str]) -> str:
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    return done.stdout.replace(str(pathlib.Path(command[0]).parent) + "/", "").strip()


def pages(root: pathlib.Path, programs: list[pathlib.Path]) -> Pages:
    return {
        **cpp_pages(root),
        **c_pages(root),
        **python_pages.pages(root),
        "reference/errors.md": error_page(root),
        "reference/metrics.md": metric_page(root),
        **command_pages(programs),
    }


def navigation(found: Pages) -> list[tuple[str, list[str]]]:
    """The groups of pages with their titles."""

    def group(prefix: str) -> list[str]:
        return [name for name in found if name.startswith(prefix)]

    return [
        ("By task", ["reference/index.md"]),
        ("The command line", ["reference/command_line.md"]),
        ("C++", group("reference/cpp/")),
        ("C", group("reference/c/")),
        ("Python", group("reference/python/")),
        ("Commands", group("reference/commands/")),
        ("Errors, metrics, limits", [f"reference/{name}.md" for name in TABLES]),
    ]
