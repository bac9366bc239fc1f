#!/usr/bin/env python3
"""autosteps - finds where a team should switch: it derives CTX points from a trace of one thread
that executes one operation.

  autosteps.py --icache build/release/bin/lockstep-icache fetch update ...
      traces the operations and proposes points
  autosteps.py --icache build/release/bin/lockstep-icache payment neworder
      the same for whole transactions
  autosteps.py --trace FILE [--program PROGRAM]
      works on a recorded trace

From a trace with marks (lockstep-icache trace) it takes the last operation of the second thread, or
its transaction of median length. It takes a trace without marks (lockstep-icache record) as a
whole. The wrapper and the switches occupy
cache lines too. A follower executes them; a thread that runs alone does not.
"""

import argparse
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import knees
import trace
from program import BadProgram
from recording import BadInput, footprint, load, parse_geometry, record

# code that fits the front end of a processor with an op cache of 4,096 entries: 12 to 16 KB
OP_CACHE = "16384,8,64"
SWEEP_WIDTHS, SWEEP_HEIGHTS = (50, 100, 200, 400), (2, 4, 8, 16)


class Proposal:
    """An address to cut at, with its place in the source and the nearest named point."""

    def __init__(self, address, executed):
        self.address, self.executed = address, executed
        self.place, self.point, self.distance = f"{address:#x}", None, None

    def as_json(self):
        return {
            "address": self.address,
            "place": self.place,
            "executed": len(self.executed),
            "point": self.point,
            "distance": self.distance,
        }


def host_address(address, stream, program):
    """An address where a switch can stand. An address in a library or a switch is replaced by the
    last engine address before it.
    """
    can_host = lambda at: program is None or (program.holds(at) and not program.is_machinery(at))
    if can_host(address):
        return address
    last = None
    for begin, size, _ in stream.runs:
        if begin <= address < begin + size and last:
            break
        if can_host(begin):
            last = begin + size - 1
    return last or address


def place_proposals(result, stream, program, names):
    proposals = []
    for address in result.addresses:
        at = host_address(address, stream, program)
        if at not in [p.address for p in proposals]:
            proposals.append(Proposal(at, knees.executions(stream, at)))
    if program:
        places = program.lines([p.address for p in proposals if program.holds(p.address)])
        for p in proposals:
            p.place = places.get(p.address, p.place)
    for p in proposals:
        near = [
            min(((abs(count - at), point) for count, point in stream.named), default=None)
            for at in p.executed
        ]
        near = [n for n in near if n is not None]
        if near:
            p.distance, point = sorted(near)[len(near) // 2]
            p.point = names[point]
    return proposals


def analyse(name, stream, program, names, geometry, width, height):
    """All results for one operation, as JSON."""
    refs, alone = knees.references(stream, geometry.line), knees.references(
        stream.alone, geometry.line
    )
    result = knees.find(stream, geometry, width, height)
    plain = knees.plain_misses(alone, geometry)
    manual_cuts = [count for count, _ in stream.named]
    proposals = place_proposals(result, stream, program, names)
    return {
        "operation": name,
        "geometry": str(geometry),
        "width": width,
        "height": height,
        "instructions": stream.alone.instructions,
        "instructions_in_team": stream.instructions,
        "footprint": len({r.line for r in alone}) * geometry.line,
        "footprint_in_team": len({r.line for r in refs}) * geometry.line,
        "cold": len(knees.cold_misses(alone, geometry)),
        "plain": len(plain),
        "uncut": len(knees.steps_misses(refs, geometry, [])),
        "steps": len(result.misses),
        "points": len(result.addresses),
        "switches": len(result.cuts),
        "manual": {
            "points": sorted({names[p] for _, p in stream.named}) if names else [],
            "switches": len(manual_cuts),
            "misses": len(knees.steps_misses(refs, geometry, manual_cuts)),
        },
        "curves": {"plain": plain, "steps": sorted(result.misses), "cuts": sorted(result.cuts)},
        "proposals": [p.as_json() for p in proposals],
    }


def sweep(name, stream, geometry):
    rows = []
    for width in SWEEP_WIDTHS:
        for height in SWEEP_HEIGHTS:
            result = knees.find(stream, geometry, width, height)
            rows.append(
                {
                    "operation": name,
                    "width": width,
                    "height": height,
                    "points": len(result.addresses),
                    "switches": len(result.cuts),
                    "misses": len(result.misses),
                }
            )
    return rows


def choose_names(analysis, stream, names, geometry, reach, kept):
    """Chooses named points for the proposals. First it takes the nearest point of each proposal. A
    point may be far from its proposal, so the real cuts may leave knees. While a further point
    saves at least a knee, it adds the point that saves most misses."""
    chosen = {
        names[n]: ["kept: memory was prefetched before it"]
        for _, n in stream.named
        if names[n] in kept
    }
    for p in analysis["proposals"]:
        if p["point"] is not None and p["distance"] <= reach:
            chosen.setdefault(p["point"], []).append(
                f"{p['place']}, {p['distance']} instructions away"
            )
    refs = knees.references(stream, geometry.line)
    misses = lambda points: len(
        knees.steps_misses(
            refs, geometry, [count for count, n in stream.named if names[n] in points]
        )
    )
    left = misses(chosen)
    while analysis["proposals"]:
        others = {names[n] for _, n in stream.named} - chosen.keys()
        best, name = min(((misses(chosen.keys() | {o}), o) for o in others), default=(left, None))
        if left - best < analysis["height"]:
            break
        chosen[name] = [f"saves {left - best} misses more"]
        left = best
    analysis["chosen"] = {
        "points": sorted(chosen),
        "reasons": chosen,
        "misses": left,
        "switches": sum(names[n] in chosen for _, n in stream.named),
    }


def emit(path, analyses, reach, settings):
    """Writes the table that a store loads as the set `auto`: one named point per line."""
    chosen, far = {}, []
    for a in analyses:
        for name, reasons in a["chosen"]["reasons"].items():
            chosen.setdefault(name, []).append(f"{a['operation']}: " + ", and ".join(reasons))
        far += [
            (a["operation"], p)
            for p in a["proposals"]
            if p["point"] is None or p["distance"] > reach
        ]
    lines = [
        "# CTX points chosen by autosteps: the named points nearest to its proposals.",
        f"# {settings}",
    ]
    for a in analyses:
        lines.append(
            f"# {a['operation']}: {a['instructions']} instructions, {a['footprint']} bytes of code;"
            f" misses alone {a['plain']}, as a follower {a['steps']} if cut as proposed,"
            f" {a['chosen']['misses']} with these points"
        )
    for name, reasons in sorted(chosen.items()):
        lines.append(f"{name:<16} # " + "; ".join(reasons))
    for operation, p in far:
        near = (
            f"nearest is {p['point']}, {p['distance']} instructions away"
            if p["point"]
            else "no named point in this operation"
        )
        lines.append(f"# no point near: {operation}: {p['place']} ({near})")
    pathlib.Path(path).write_text("\n".join(lines) + "\n")


def show(a, reach):
    print(
        f"\n{a['operation']}: {a['instructions']} instructions, {a['footprint']} bytes of code"
        f" ({a['instructions_in_team']} and {a['footprint_in_team']} in a team); cache"
        f" {a['geometry']}, W={a['width']} H={a['height']}"
    )
    if a.get("footprint_run"):
        print(
            f"  lockstep-icache run says {a['footprint_run']:.0f} bytes: the mean over its serial"
            " executions, with the scheduler's code between them; the numbers above are those of"
            " this one execution, without and with the switches"
        )
    print(
        f"  misses alone: cold {a['cold']}, warm {a['plain']}; as a follower: without switches"
        f" {a['uncut']}, with the proposed {a['steps']} ({a['points']} points, {a['switches']}"
        " switches)"
    )
    if a["manual"]["points"]:
        print(
            f"  manual set: {a['manual']['misses']} misses, {len(a['manual']['points'])} points,"
            f" {a['manual']['switches']} switches: " + " ".join(a["manual"]["points"])
        )
    if a["chosen"]["points"]:
        print(
            f"  chosen of them: {a['chosen']['misses']} misses, {a['chosen']['switches']}"
            " switches: " + " ".join(a["chosen"]["points"])
        )
    if not a["proposals"]:
        print("  no cut: the operation fits this cache")
    for p in a["proposals"]:
        near = (
            "no named point"
            if p["point"] is None
            else f"{p['point']} is {p['distance']} instructions away"
        )
        print(
            f"  CTX before {p['place']}, executed {p['executed']} times; {near}"
            + ("" if p["point"] and p["distance"] <= reach else "  <- for a programmer")
        )


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "operations", nargs="*", help="fetch update insert delete scan begin commit payment neworder (with --icache)"
    )
    parser.add_argument("--icache", help="path of lockstep-icache, which records the traces")
    parser.add_argument(
        "--trace", action="append", default=[], help="a recorded trace; may be repeated"
    )
    parser.add_argument("--program", help="the traced program, for source lines")
    parser.add_argument(
        "--geometry",
        default="machine",
        help="SIZE,WAYS,LINE of the L1 instruction cache (default: this machine's)",
    )
    parser.add_argument(
        "--op-cache", action="store_true", help=f"use a model of the op cache instead: {OP_CACHE}"
    )
    parser.add_argument(
        "--width", type=int, default=200, help="W: maximum instructions between misses of a knee"
    )
    parser.add_argument("--height", type=int, default=4, help="H: misses that make a knee")
    parser.add_argument(
        "--reach",
        type=int,
        default=150,
        help="maximum instructions between a proposal and its named point",
    )
    parser.add_argument(
        "--keep-data",
        action="store_true",
        help=(
            "keep the points after a prefetch; they hide data stalls, which an instruction cache"
            " does not show"
        ),
    )
    parser.add_argument("--emit", help="write the point table for the set `auto`")
    parser.add_argument(
        "--sweep", action="store_true", help="also try all of W 50 100 200 400 and H 2 4 8 16"
    )
    parser.add_argument("--json", help="write everything to this file")
    arguments = parser.parse_args()
    if arguments.width < 1 or arguments.height < 1 or arguments.reach < 0:
        raise BadInput("W and H must be at least 1, reach at least 0")
    if bool(arguments.operations) != bool(arguments.icache) or not (
        arguments.operations or arguments.trace
    ):
        raise BadInput("give operations and --icache, or --trace")
    return arguments


def run(a):
    geometry = parse_geometry(OP_CACHE if a.op_cache else a.geometry)
    with tempfile.TemporaryDirectory() as scratch:
        paths = a.trace + [
            record(a.icache, operation, pathlib.Path(scratch)) for operation in a.operations
        ]
        streams = [load(path, a.program) for path in paths]
        footprints = [None] * len(a.trace) + [
            footprint(a.icache, operation, pathlib.Path(scratch)) for operation in a.operations
        ]
    analyses = [analyse(*stream[:4], geometry, a.width, a.height) for stream in streams]
    for analysis, (_, stream, _, names, data), run_says in zip(analyses, streams, footprints):
        analysis["footprint_run"] = run_says
        analysis["manual"]["set"] = sorted(
            data
        )  # the engine's set `manual`; "points" are those that this operation passed
        choose_names(analysis, stream, names, geometry, a.reach, data if a.keep_data else set())
    rows = (
        [row for name, stream, *_ in streams for row in sweep(name, stream, geometry)]
        if a.sweep
        else []
    )
    for analysis in analyses:
        show(analysis, a.reach)
    if rows:
        print(f"\n{'operation':<10}{'W':>6}{'H':>4}{'points':>8}{'switches':>10}{'misses':>8}")
        for r in rows:
            print(
                f"{r['operation']:<10}{r['width']:>6}{r['height']:>4}"
                f"{r['points']:>8}{r['switches']:>10}{r['misses']:>8}"
            )
    if a.emit:
        emit(
            a.emit,
            analyses,
            a.reach,
            f"cache {geometry}, W={a.width} H={a.height}, reach {a.reach}",
        )
    if a.json:
        pathlib.Path(a.json).write_text(
            json.dumps({"analyses": analyses, "sweep": rows}, indent=1) + "\n"
        )


def main():
    try:
        run(parse_arguments())
    except (BadInput, BadProgram, trace.BadTrace, OSError) as error:
        print(f"autosteps: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
