#!/usr/bin/env python3
"""draw - makes an SVG of boxes, arrows and a legend from a text source (see architecture.txt).

Usage: draw.py [--check] [SOURCE]. The SVG lies beside the source. --check writes nothing; it fails
if the file differs from what the source makes. Needs nothing but Python.
"""

import html
import pathlib
import re
import shlex
import sys

NAME_SIZE, TEXT_SIZE, LINE = 14, 12, 22
# Widths of a character as a share of the font size, generous: fonts differ between machines.
SANS, MONO = 0.53, 0.61
RADIUS = 9
LIGHT = {
    "paper": "#ffffff",
    "panel": "#eef1f5",
    "box": "#ffffff",
    "line": "#8a94a3",
    "ink": "#1b2430",
    "soft": "#4a5568",
    "get": "#0b5fb8",
    "commit": "#b8480b",
    "number": "#ffffff",
}
DARK = {
    "paper": "#14181f",
    "panel": "#1f2530",
    "box": "#14181f",
    "line": "#5d6878",
    "ink": "#e8ecf2",
    "soft": "#b3bdcb",
    "get": "#6cb2ff",
    "commit": "#ffa263",
    "number": "#14181f",
}
SIDES = ("left", "right", "top", "bottom")


class Wrong(Exception):
    """The source says something that cannot be drawn."""


def style(colours: dict[str, str]) -> str:
    """The rules of one colour scheme; classes, because not every program knows variables."""
    rules = [
        ".paper{{fill:{paper}}}",
        ".panel{{fill:{panel}}}",
        ".box{{fill:{box};stroke:{line}}}",
        ".name{{fill:{ink}}}",
        ".text{{fill:{soft}}}",
        ".number{{fill:{number}}}",
    ]
    for path in ("get", "commit"):
        rules.append(f".{path}-line{{{{fill:none;stroke:{{{path}}};stroke-width:2}}}}")
        rules.append(f".{path}-fill{{{{fill:{{{path}}}}}}}")
    return "".join(rules).format(**colours)


def pieces(text: str):
    """(piece, is code) for text with names in back quotes."""
    for i, piece in enumerate(text.split("`")):
        if piece:
            yield piece, i % 2 == 1


def width(text: str, size: float) -> float:
    return sum(len(p) * size * (MONO if code else SANS) for p, code in pieces(text))


def number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


class Picture:
    def __init__(self) -> None:
        self.back: list[str] = []  # paper and panels
        self.lines: list[str] = []
        self.front: list[str] = []  # boxes, numbers, legend
        self.boxes: dict[str, tuple[float, float, float, float]] = {}
        self.size = (0.0, 0.0)
        self.title = ""
        self.legend: tuple[str, float, float] | None = None

    def text(self, x: float, y: float, words: str, kind: str, size: float, room: float) -> str:
        if width(words, size) > room:
            raise Wrong(f"text is wider than its place ({room:.0f}): {words}")
        spans = "".join(
            f'<tspan class="code">{html.escape(p)}</tspan>' if code else html.escape(p)
            for p, code in pieces(words)
        )
        place = f'x="{number(x)}" y="{number(y)}" font-size="{number(size)}"'
        return f'<text class="{kind}" {place}>{spans}</text>'

    def canvas(self, w: str, h: str, title: str) -> None:
        self.size, self.title = (float(w), float(h)), title
        self.back.append(f'<rect class="paper" width="{w}" height="{h}" rx="10"/>')

    def panel(self, x: str, y: str, w: str, h: str, name: str) -> None:
        place = f'x="{x}" y="{y}" width="{w}" height="{h}" rx="8"'
        self.back.append(f'<rect class="panel" {place}/>')
        # Behind the lines: an arrow may cross the name's row.
        self.back.append(
            self.text(float(x) + 12, float(y) + 19, name, "text", TEXT_SIZE + 1, float(w) - 24)
        )

    def box(self, name: str, x: str, y: str, w: str, h: str, label: str, *holds: str) -> None:
        left, top, wide, high = float(x), float(y), float(w), float(h)
        self.boxes[name] = (left, top, wide, high)
        place = f'x="{x}" y="{y}" width="{w}" height="{h}" rx="5"'
        self.front.append(f'<rect class="box" {place}/>')
        self.front.append(
            self.text(left + 10, top + 19, label, "name strong", NAME_SIZE, wide - 20)
        )
        for i, words in enumerate(holds):
            row = top + 36 + i * LINE
            self.front.append(self.text(left + 10, row, words, "text", TEXT_SIZE, wide - 14))

    def end(self, spelled: str) -> tuple[float, float, bool]:
        """(x, y, does the line leave upright?) of BOX.SIDE+OFFSET."""
        found = re.fullmatch(r"(\w+)\.(\w+)\+(\d+)", spelled)
        if not found or found[1] not in self.boxes or found[2] not in SIDES:
            raise Wrong(f"no such end of an arrow: {spelled}")
        left, top, wide, high = self.boxes[found[1]]
        upright, offset = found[2] in ("top", "bottom"), float(found[3])
        if offset > (wide if upright else high):
            raise Wrong(f"beyond the box: {spelled}")
        if upright:
            return left + offset, top + (high if found[2] == "bottom" else 0), True
        return left + (wide if found[2] == "right" else 0), top + offset, False

    def arrow(self, path: str, what: str, begin: str, to: str, *words: str) -> None:
        (x, y, upright), (x_end, y_end, _) = self.end(begin), self.end(to)
        points, dashed, at, rest = [(x, y)], False, 0.5, list(words)
        while rest:
            word = rest.pop(0)
            if word == "dashed":
                dashed = True
            elif word == "at":
                at = float(rest.pop(0))
            elif word[0] == "x":
                points.append((float(word[1:]), points[-1][1]))
                upright = True
            elif word[0] == "y":
                points.append((points[-1][0], float(word[1:])))
                upright = False
            else:
                raise Wrong(f"unknown word of an arrow: {word}")
        if len(points) > 1:
            points.append((points[-1][0], y_end) if upright else (x_end, points[-1][1]))
        points.append((x_end, y_end))
        for (x1, y1), (x2, y2) in zip(points, points[1:]):
            if x1 != x2 and y1 != y2:
                raise Wrong(f"slanting arrow: {begin} {to}")
        self.line(path, points, dashed)
        if what != "0":
            self.badge(path, what, *share_of(points, at))

    def line(self, path: str, points: list[tuple[float, float]], dashed: bool) -> None:
        shape = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.lines.append(f'<path class="{path}-line" d="{shape}"{dash}/>')
        (x1, y1), (x2, y2) = points[-2:]
        length = abs(x2 - x1) + abs(y2 - y1)
        dx, dy = (x2 - x1) / length, (y2 - y1) / length
        wings = [(x2 - 9 * dx - 5 * dy, y2 - 9 * dy + 5 * dx)]
        wings.append((x2 - 9 * dx + 5 * dy, y2 - 9 * dy - 5 * dx))
        head = " ".join(f"{number(x)},{number(y)}" for x, y in [(x2, y2), *wings])
        self.lines.append(f'<polygon class="{path}-fill" points="{head}"/>')

    def badge(self, path: str, what: str, x: float, y: float) -> None:
        """Round for a get, square for a commit: colour is not the only difference."""
        if path == "get":
            place = f'cx="{number(x)}" cy="{number(y)}" r="{RADIUS}"'
            self.front.append(f'<circle class="{path}-fill" {place}/>')
        else:
            place = f'x="{number(x - RADIUS)}" y="{number(y - RADIUS)}"'
            self.front.append(
                f'<rect class="{path}-fill" {place} width="{2 * RADIUS}" height="{2 * RADIUS}"/>'
            )
        self.front.append(
            f'<text class="number strong" x="{number(x)}" y="{number(y + 4)}" font-size="12"'
            f' text-anchor="middle">{html.escape(what)}</text>'
        )

    def start_legend(self, path: str, x: str, y: str, heading: str) -> None:
        self.legend = (path, float(x), float(y))
        self.front.append(
            self.text(float(x) - 9, float(y), heading, "name strong", NAME_SIZE, 380)
        )

    def step(self, what: str, words: str) -> None:
        if self.legend is None:
            raise Wrong("a step outside a legend")
        path, x, y = self.legend
        y += LINE
        self.legend = (path, x, y)
        if what != "-":
            self.badge(path, what, x, y - 4)
        self.front.append(self.text(x + 18, y, words, "name", TEXT_SIZE + 1, 385))

    def svg(self) -> str:
        w, h = self.size
        font = "font-family:'Liberation Sans',Arial,Helvetica,sans-serif"
        mono = "font-family:'Liberation Mono','DejaVu Sans Mono',monospace;font-size:.95em"
        sheet = (
            f"text{{{font}}}.strong{{font-weight:bold}}.code{{{mono}}}{style(LIGHT)}"
            f"@media (prefers-color-scheme:dark){{{style(DARK)}}}"
        )
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(w)} {number(h)}"'
        rows = [
            f'{head} width="{number(w)}" height="{number(h)}" role="img">',
            f"<title>{html.escape(self.title)}</title>",
            f"<style>{sheet}</style>",
            *self.back,
            *self.lines,
            *self.front,
            "</svg>",
        ]
        return "\n".join(rows) + "\n"


def share_of(points: list[tuple[float, float]], share: float) -> tuple[float, float]:
    """The place at that share of the line's length."""
    parts = [abs(a[0] - b[0]) + abs(a[1] - b[1]) for a, b in zip(points, points[1:])]
    left = share * sum(parts)
    for (a, b), part in zip(zip(points, points[1:]), parts):
        if left <= part and part > 0:
            return (a[0] + (b[0] - a[0]) * left / part, a[1] + (b[1] - a[1]) * left / part)
        left -= part
    return points[-1]


def draw(source: str) -> str:
    picture = Picture()
    statements = {
        "canvas": picture.canvas,
        "panel": picture.panel,
        "box": picture.box,
        "arrow": picture.arrow,
        "legend": picture.start_legend,
        "step": picture.step,
    }
    for i, line in enumerate(source.splitlines(), 1):
        words = shlex.split(line, comments=True)
        if not words:
            continue
        try:
            statements[words[0]](*words[1:])
        except (Wrong, TypeError, KeyError, ValueError) as error:
            raise SystemExit(f"line {i}: {error}") from error
    return picture.svg()


def main() -> None:
    given = [a for a in sys.argv[1:] if not a.startswith("-")]
    default = pathlib.Path(__file__).with_name("architecture.txt")
    source = pathlib.Path(given[0]) if given else default
    target = source.with_suffix(".svg")
    made = draw(source.read_text())
    if "--check" not in sys.argv:
        target.write_text(made)
    elif not target.exists() or target.read_text() != made:
        sys.exit(f"{target.name} is not what {source.name} makes; run tools/picture/draw.py")


if __name__ == "__main__":
    main()
