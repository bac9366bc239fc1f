"""output - analyses as text, and the chosen points as the set `auto`."""

import pathlib


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
