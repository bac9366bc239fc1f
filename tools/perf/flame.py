#!/usr/bin/env python3
"""flame - draws a flame graph from the text of `perf script`.

Usage: perf script -i perf.data | tools/perf/flame.py > flame.svg

Each box is a function, as wide as its share of the samples; its callers stand below it. A box that
is wide at the top is where time goes. Hold the pointer over a box for its name and share.
"""

import html
import sys

WIDTH, HEIGHT, FONT = 1200, 16, 11
NARROWEST = 0.3  # pixels; narrower boxes are left out


def stacks(lines) -> list[list[str]]:
    """The samples of `perf script`, callers first. A sample is a head line, then one line a frame,
    then an empty line."""
    found: list[list[str]] = []
    frames: list[str] | None = None
    for line in lines:
        if not line.strip():
            if frames:
                found.append(frames[::-1])
            frames = None
        elif not line[0].isspace():
            frames = []
        elif frames is not None:
            words = line.split(None, 1)
            name = words[1].rsplit(" (", 1)[0] if len(words) > 1 else words[0]
            frames.append(name.rsplit("+0x", 1)[0].strip() or "unknown")
    if frames:
        found.append(frames[::-1])
    return found


class Box:
    def __init__(self) -> None:
        self.samples = 0
        self.callees: dict[str, Box] = {}

    def add(self, stack: list[str]) -> None:
        box = self
        box.samples += 1
        for name in stack:
            box = box.callees.setdefault(name, Box())
            box.samples += 1

    def depth(self) -> int:
        return 1 + max((callee.depth() for callee in self.callees.values()), default=0)


def draw(box: Box, name: str, x: float, level: int, scale: float, top: int, out: list[str]) -> None:
    width = box.samples * scale
    if width < NARROWEST:
        return
    y = top - (level + 1) * HEIGHT
    hue = sum(map(ord, name)) % 40
    share = 100 * box.samples * scale / WIDTH
    letters = int(width / (FONT * 0.62))
    shown = name if len(name) <= letters else name[: letters - 2] + ".." if letters > 4 else ""
    out.append(
        f"<g><title>{html.escape(name)}, {box.samples} samples, {share:.1f}%</title>"
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{HEIGHT - 1}"'
        f' fill="hsl({hue},80%,70%)"/>'
        f'<text x="{x + 2:.1f}" y="{y + 12}" font-size="{FONT}">{html.escape(shown)}</text></g>'
    )
    for callee_name, callee in sorted(box.callees.items()):
        draw(callee, callee_name, x, level + 1, scale, top, out)
        x += callee.samples * scale


def svg(samples: list[list[str]]) -> str:
    root = Box()
    for stack in samples:
        root.add(stack)
    height = root.depth() * HEIGHT + 10
    out: list[str] = []
    draw(root, "all", 0, 0, WIDTH / max(root.samples, 1), height, out)
    body = "".join(out)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
        f' font-family="monospace">{body}</svg>\n'
    )


def main() -> int:
    samples = stacks(sys.stdin)
    if not samples:
        print("flame: the input holds no sample of `perf script`", file=sys.stderr)
        return 2
    sys.stdout.write(svg(samples))
    return 0


if __name__ == "__main__":
    sys.exit(main())
