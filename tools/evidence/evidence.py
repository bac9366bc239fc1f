#!/usr/bin/env python3
"""evidence - our figures beside those of the five documents that this engine was made from.

Usage: ./tools/run evidence [--budget MINUTES] [--page FILE] [--json FILE] [--paper WORD]

Runs the commands that make our figures, the shortest first, as far as their minutes fit the budget.
The minutes are those of two quiet cores. Each row of the page has the document's figure, ours, the
ratio, the verdict and the command that repeats it. Verdicts are: reached, not reached, does not
apply today, cannot be told here, not run, and an error.

The exit status is 1 if a row that is marked as reached is not reached, and if a row's command or
figure does not exist."""

import argparse
import collections
import dataclasses
import html
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import commands
from commands import COMMANDS, Failed, Missing, Output
from rows import CANNOT_TELL, DOES_NOT_APPLY, REACHED, ROWS, Row

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_RUN, ERROR = "not run", "error"
STYLE = """<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1500px; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; width: 100% }
th, td { border-bottom: 1px solid #ccc; padding: 4px 8px; text-align: left; vertical-align: top }
.number { text-align: right } .reached { color: #17631d } .not, .error { color: #a01515 }
.worse { background: #fde8e8 } code { font-size: 13px }
</style>"""


@dataclasses.dataclass
class Claim:
    """A row with what became of it."""

    row: Row
    verdict: str
    ours: float | None = None
    note: str = ""

    def is_broken(self) -> bool:
        """The page must not go out like this."""
        lost = self.row.mark == REACHED and self.verdict not in (REACHED, NOT_RUN)
        return lost or self.verdict == ERROR

    def ratio(self) -> float | None:
        if self.ours is None or not self.row.stated:
            return None
        return self.ours / self.row.stated

    def document(self) -> dict:
        row = self.row
        return {
            "paper": row.paper,
            "place": row.place,
            "what": row.what,
            "stated": row.stated,
            "text": row.text,
            "ours": self.ours,
            "ratio": self.ratio(),
            "goal": " ".join(map(str, row.goal)) if row.goal else "",
            "command": COMMANDS[row.command].text() if row.command else "",
            "mark": row.mark,
            "verdict": self.verdict,
            "note": self.note or row.reason,
            "broken": self.is_broken(),
        }


def choose(rows: list[Row], absent: dict[str, str], budget: float) -> list[str]:
    """The commands to run: the shortest first, so that many rows have a figure."""
    chosen, left = [], budget
    for name in sorted({r.command for r in rows if r.command}, key=lambda n: COMMANDS[n].minutes):
        if name not in absent and COMMANDS[name].minutes <= left:
            left -= COMMANDS[name].minutes
            chosen.append(name)
    return chosen


def judge(row: Row, absent: dict[str, str], results: dict[str, Output | Failed]) -> Claim:
    if row.command in absent:
        return Claim(row, ERROR, note=absent[row.command])
    if row.read is None:
        return Claim(row, row.mark)
    if row.command not in results:
        told = row.mark in (DOES_NOT_APPLY, CANNOT_TELL)
        return Claim(row, row.mark if told else NOT_RUN)
    result = results[row.command]
    if isinstance(result, Failed):
        return Claim(row, ERROR, note=str(result))
    try:
        ours = row.read(result)
    except Missing as error:
        return Claim(row, ERROR, note=str(error))
    return Claim(row, row.judge(ours), ours)


def number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def summary(claims: list[Claim]) -> str:
    counts = collections.Counter(claim.verdict for claim in claims)
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())


def page(claims: list[Claim]) -> str:
    lines = [
        "<!doctype html><meta charset=utf-8><title>Evidence</title>",
        STYLE,
        "<h1>The documents' figures, and ours</h1>",
        f"<p>{html.escape(summary(claims))}. Times of other machines are never compared, only"
        " ratios and counts. Caches are simulated; scans and stages of the documents' models run in"
        " virtual time.</p>",
    ]
    paper = ""
    for claim in claims:
        row = claim.row
        if row.paper != paper:
            lines += ["</table>"] if paper else []
            paper = row.paper
            lines.append(f"<h2>{html.escape(paper)}</h2><table><tr><th>place<th>what<th>stated"
                         "<th>ours<th>ratio<th>goal<th>verdict<th>repeat with, or why not")
        command = COMMANDS[row.command].text() if row.command else ""
        cells = [row.place, row.what, row.text]
        figures = [number(claim.ours), number(claim.ratio())]
        goal = f"{row.goal[0]} {number(row.goal[1])}" if row.goal else ""
        note = claim.note or row.reason
        lines.append(
            f"<tr{' class=worse' if claim.is_broken() else ''}>"
            + "".join(f"<td>{html.escape(cell)}" for cell in cells)
            + "".join(f"<td class=number>{figure}" for figure in figures)
            + f"<td>{html.escape(goal)}"
            + f"<td class={claim.verdict.split()[0]}>{html.escape(claim.verdict)}<td>"
            + (f"<code>{html.escape(command)}</code> " if command else "")
            + html.escape(note)
        )
    return "\n".join([*lines, "</table>", ""])


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--budget", type=float, default=15, help="minutes of all commands")
    parser.add_argument("--page", type=pathlib.Path, help="default: evidence.html in the build")
    parser.add_argument("--json", type=pathlib.Path, help="all claims, for programs")
    parser.add_argument("--paper", default="", help="only documents whose name has this word")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    options = parse(words)
    rows = [row for row in ROWS if options.paper.lower() in row.paper.lower()]
    if not rows:
        print(f"evidence: no document is called '{options.paper}'", file=sys.stderr)
        return 2
    absent = commands.missing(options.build, {row.command for row in rows if row.command})
    results: dict[str, Output | Failed] = {}
    for name in choose(rows, absent, options.budget):
        print(f"{COMMANDS[name].text()} ...", flush=True)
        try:
            results[name] = commands.run(options.build, name)
        except Failed as error:
            results[name] = error
    claims = [judge(row, absent, results) for row in rows]
    path = options.page or options.build / "evidence.html"
    path.write_text(page(claims))
    if options.json:
        broken = sum(claim.is_broken() for claim in claims)
        document = {"claims": [claim.document() for claim in claims], "broken": broken}
        options.json.write_text(json.dumps(document, indent=2) + "\n")
    for claim in claims:
        if claim.is_broken():
            ours = f" ({number(claim.ours)})" if claim.ours is not None else ""
            print(f"{claim.verdict}{ours}: {claim.row.paper}, {claim.row.place}: {claim.row.what}"
                  f"{': ' + claim.note if claim.note else ''}")
    print(f"{summary(claims)}; {path}")
    return int(any(claim.is_broken() for claim in claims))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
