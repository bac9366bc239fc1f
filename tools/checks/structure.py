#!/usr/bin/env python3
"""structure - prints the structure of the code as tables: sizes, functions, include arrows,
assertions, public comments, sentences.

Usage: structure.py [ROOT] [--json]. It measures and does not judge: the exit status is 0. The
rules come from the checks beside it (check_layers, style, assertions, public_comments, prose), also
for an older checkout ROOT, so that two states of the code are measured with one ruler.

  engine      threads, txn and sm together
  files       .h .cc .S .c, and .py .sh; `lines` counts all lines
  functions   of C++; `over` counts those that style.py calls too long
  assertions  per thousand lines of code, as assertions.py counts; tests have EXPECT instead
  arrows      pairs of folders of the layers where a file of the first includes one of the second;
              an arrow goes up if its target stands above or beside its origin
"""

import json
import math
import pathlib
import statistics
import sys
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import assertions  # noqa: E402
import check_layers  # noqa: E402
import prose  # noqa: E402
import public_comments  # noqa: E402
import style  # noqa: E402
from source import CODE, ENGINE, files, functions, root  # noqa: E402

WIDTH = style.WIDTH
TOPS = (*ENGINE, "tpcc", "tools", "tests")
SOURCES = (*CODE, ".py", ".sh")


def main() -> None:
    tree = root()
    found = {
        "folders": {name: measured_folder(tree, paths) for name, paths in folders(tree)},
        "includes": measured_includes(tree),
        "public": measured_public(tree),
        "prose": measured_prose(tree),
    }
    print(json.dumps(found, indent=2) if "--json" in sys.argv else tables(found))


def folders(tree: pathlib.Path):
    """(name, paths) of each layer, of each folder right below an engine layer, of the engine."""
    for top in TOPS:
        paths = list(below(tree, [top], *SOURCES))
        if not paths:
            continue
        yield top, paths
        if top not in ENGINE:
            continue
        parts: dict[str, list[pathlib.Path]] = {}
        for path in paths:
            parts.setdefault(place_of(path.relative_to(tree)), []).append(path)
        if set(parts) != {top}:
            for name in sorted(parts):
                yield (f"{top}/." if name == top else name), parts[name]
    engine = list(below(tree, ENGINE, *SOURCES))
    if engine:
        yield "engine", engine


def below(tree: pathlib.Path, tops, *endings: str):
    """Files below those of the folders that the tree has."""
    for top in tops:
        if (tree / top).is_dir():
            yield from files(tree, *endings, folders=[top])


def place_of(name: pathlib.Path) -> str:
    """The folder that a file counts for: threads/io, but tools for everything below tools."""
    depth = 2 if name.parts[0] in ENGINE and len(name.parts) > 2 else 1
    return "/".join(name.parts[:depth])


def percentile(values: list[int], share: float) -> int:
    return sorted(values)[math.ceil(share * len(values)) - 1] if values else 0


def measured_folder(tree: pathlib.Path, paths: list[pathlib.Path]) -> dict:
    lines = {p: len(p.read_text(errors="replace").splitlines()) for p in paths}
    longest = max(lines, key=lambda p: lines[p])
    sizes = list(lines.values())
    lengths, over = [], []
    for path in paths:
        if path.suffix not in (".h", ".cc"):
            continue
        name = path.relative_to(tree)
        for head, line, length in functions(path.read_text()):
            lengths.append(length)
            if length > style.function_lines_max(name):
                over.append({"place": f"{name}:{line}", "lines": length, "head": head})
    count, code = assertions.density(p for p in paths if p.suffix in (".h", ".cc"))
    return {
        "files": len(paths),
        "lines": sum(sizes),
        "file_median": statistics.median_low(sizes),
        "file_p90": percentile(sizes, 0.9),
        "file_max": lines[longest],
        "longest_file": longest.relative_to(tree).as_posix(),
        "functions": len(lengths),
        "function_median": statistics.median_low(lengths) if lengths else 0,
        "function_p90": percentile(lengths, 0.9),
        "function_max": max(lengths, default=0),
        "functions_over": over,
        "assertions": count,
        "assertions_per_thousand": round(1000 * count / code, 1) if code else 0.0,
    }


def measured_includes(tree: pathlib.Path) -> dict:
    arrows: dict[tuple[str, str], list[str]] = {}
    graph: dict[str, set[str]] = {}
    for path in below(tree, TOPS, *CODE):
        name = path.relative_to(tree)
        targets = {
            target
            for target, _ in check_layers.includes(tree, name.as_posix(), path.read_text())
            if (tree / target).exists()
        }
        graph[name.as_posix()] = targets
        for target in sorted(targets):
            pair = place_of(name), place_of(pathlib.PurePath(target))
            if pair[0] != pair[1]:
                arrows.setdefault(pair, []).append(f"{name} -> {target}")
    return {
        "arrows": [
            {"from": a, "to": b, "includes": len(each), "up": goes_up(a, b)}
            for (a, b), each in sorted(arrows.items())
        ],
        "up": [each for pair in sorted(arrows) if goes_up(*pair) for each in arrows[pair]],
        "circles": [" -> ".join(circle) for circle in check_layers.circles(graph)],
    }


def goes_up(origin: str, target: str) -> bool:
    return rank(target) >= rank(origin)


def rank(folder: str) -> int:
    """Its place in the order of the layers. A folder that has none, as in an older checkout, counts
    as the highest below the same top folder.
    """
    ranks = check_layers.RANK
    if folder in ranks:
        return ranks[folder]
    top = folder.split("/")[0]
    return max((r for f, r in ranks.items() if f.split("/")[0] == top), default=len(ranks))


def measured_public(tree: pathlib.Path) -> dict:
    headers = list(public_comments.public_headers(tree)) or former_public_headers(tree)
    count, offences = public_comments.measured(tree, headers)
    return {"headers": len(headers), "declarations": count, "without_comment": offences}


def former_public_headers(tree: pathlib.Path) -> list[pathlib.Path]:
    """Of a checkout without include/lockstep: the headers that have the names of today's."""
    here = pathlib.Path(__file__).parents[2]
    names = {p.name for p in public_comments.public_headers(here)}
    return [p for p in below(tree, ENGINE, ".h") if p.name in names]


def measured_prose(tree: pathlib.Path) -> dict:
    words: dict[str, list[int]] = {"documents": [], "headers": []}
    for path, found in prose.measured(tree):
        words["documents" if path.suffix == ".md" else "headers"] += [n for n, _ in found]
    return {
        kind: {
            "sentences": len(n),
            "mean": round(statistics.mean(n), 1) if n else 0.0,
            "over_25": sum(x > 25 for x in n),
            "over_35": sum(x > 35 for x in n),
            "longest": max(n, default=0),
        }
        for kind, n in words.items()
    }


def tables(found: dict) -> str:
    return "\n\n".join(
        "\n".join(part)
        for part in (
            file_table(found["folders"]),
            function_table(found["folders"]),
            include_table(found["includes"]),
            public_table(found["public"]),
            prose_table(found["prose"]),
        )
    )


def shown(name: str) -> str:
    return f"  {name.split('/', 1)[1]}" if "/" in name else name


def file_table(rows: dict):
    yield f"{'folder':<14}{'files':>6}{'lines':>8}{'median':>8}{'p90':>6}{'max':>6}  longest file"
    for name, r in rows.items():
        yield (
            f"{shown(name):<14}{r['files']:>6}{r['lines']:>8}{r['file_median']:>8}"
            f"{r['file_p90']:>6}{r['file_max']:>6}  {r['longest_file']}"
        )


def function_table(rows: dict):
    yield (
        f"{'folder':<14}{'functions':>10}{'median':>8}{'p90':>6}{'max':>6}{'over':>6}"
        f"{'assertions':>12}{'per 1000':>10}"
    )
    for name, r in rows.items():
        asserted = (
            f"{r['assertions']:>12}{r['assertions_per_thousand']:>10.1f}"
            if name != "tests"
            else f"{'-':>12}{'-':>10}"
        )
        yield (
            f"{shown(name):<14}{r['functions']:>10}{r['function_median']:>8}{r['function_p90']:>6}"
            f"{r['function_max']:>6}{len(r['functions_over']):>6}{asserted}"
        )
    for name, r in rows.items():
        if "/" not in name and name != "engine":
            yield from (f"  {o['place']}: {o['lines']} lines" for o in r["functions_over"])


def include_table(found: dict):
    arrows = found["arrows"]
    yield (
        f"include arrows between folders: {len(arrows)},"
        f" of {sum(a['includes'] for a in arrows)} includes; arrows up:"
        f" {sum(a['up'] for a in arrows)}; circles of files: {len(found['circles'])}"
    )
    for origin in sorted({a["from"] for a in arrows}, key=lambda f: (rank(f), f)):
        targets = sorted(
            (a for a in arrows if a["from"] == origin), key=lambda a: (-rank(a["to"]), a["to"])
        )
        named = ", ".join(f"{a['to']}{' (UP)' if a['up'] else ''}" for a in targets)
        lines = textwrap.wrap(named, WIDTH - 21, break_long_words=False, break_on_hyphens=False)
        yield f"  {origin:<16}-> {lines[0]}"
        yield from (" " * 21 + line for line in lines[1:])
    yield from (f"  up: {include}" for include in found["up"])
    yield from (f"  circle: {circle}" for circle in found["circles"])


def public_table(found: dict):
    yield (
        f"public headers: {found['headers']}, declarations: {found['declarations']},"
        f" without a comment: {len(found['without_comment'])}"
    )


def prose_table(found: dict):
    yield f"{'prose':<14}{'sentences':>10}{'mean':>8}{'>25':>6}{'>35':>6}{'longest':>9}"
    for kind, n in found.items():
        yield (
            f"{kind:<14}{n['sentences']:>10}{n['mean']:>8.1f}{n['over_25']:>6}{n['over_35']:>6}"
            f"{n['longest']:>9}"
        )


if __name__ == "__main__":
    main()
