#!/usr/bin/env python3
"""plot.py - draws TPC-C of Lockstep and its peers from a result file of lockstep-peers.

Usage: plot.py RESULT.json PICTURE.svg     Needs matplotlib (Debian: python3-matplotlib)."""

import json
import sys

OURS, PEER = "#c8502d", "#8a8f98"
PALE = {OURS: "#e8b7a4", PEER: "#cdd0d5"}
FOREIGN_MAX = 0.1  # as in tables.cc
HEADINGS = {False: "no sync at a commit", True: "a sync at each commit"}


def draw_panel(axis, tables: list[dict]) -> None:
    """Bars of each engine: the median, with a line from the least to the most."""
    names = [row["title"] for row in tables[0]["rows"]]
    height = 0.8 / len(tables)
    for i, table in enumerate(tables):
        rows = {row["title"]: row for row in table["rows"]}
        for place, name in enumerate(names):
            row = rows.get(name)
            if row is None:
                continue
            colour = OURS if name.startswith("Lockstep") else PEER
            y = place + (i - (len(tables) - 1) / 2) * height
            thousands = [row[key] / 1000 for key in ("median", "least", "most")]
            axis.barh(y, thousands[0], height * 0.92, color=PALE[colour] if i == 0 else colour)
            axis.plot(thousands[1:], [y, y], color="#222222", linewidth=0.8)
            axis.text(max(thousands), y, f"  {thousands[0]:.1f}", va="center", fontsize=7)
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.invert_yaxis()
    axis.set_xlim(right=axis.get_xlim()[1] * 1.12)
    axis.set_xlabel("thousand transactions a second", fontsize=8)
    axis.tick_params(axis="x", labelsize=8)
    workers = " and ".join(str(table["workers"]) for table in tables)
    axis.set_title(
        f"TPC-C, {HEADINGS[tables[0]['sync']]}; workers: {workers} (pale, full)"
        if len(tables) > 1
        else f"TPC-C, {HEADINGS[tables[0]['sync']]}; workers: {workers}",
        fontsize=9,
    )
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        import matplotlib
    except ImportError:
        print(
            "plot.py: matplotlib is missing; install it (Debian: apt-get install"
            " python3-matplotlib)",
            file=sys.stderr,
        )
        return 3
    matplotlib.use("svg")
    # Text stays text: a tenth of the size, and searchable.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "lockstep-peers"})
    import matplotlib.pyplot as plt

    with open(sys.argv[1]) as file:
        tables = [t for t in json.load(file)["tables"] if t["workload"] == "tpcc"]
    panels = [[t for t in tables if t["sync"] == sync] for sync in (False, True)]
    panels = [panel for panel in panels if panel]
    if not panels:
        print(f"plot.py: {sys.argv[1]} has no result of TPC-C", file=sys.stderr)
        return 1
    rows = sum(0.8 + 0.34 * len(panel[0]["rows"]) for panel in panels)
    figure, axes = plt.subplots(len(panels), 1, figsize=(8, rows), squeeze=False)
    for axis, panel in zip(axes[:, 0], panels, strict=True):
        draw_panel(axis, panel)
    foreign = max(row["foreign_share"] for panel in panels for t in panel for row in t["rows"])
    if foreign > FOREIGN_MAX:
        figure.suptitle(
            f"other processes took up to {100 * foreign:.0f}% of the CPUs: differences below a"
            " factor of 1.5 tell nothing",
            color="#b00020",
            fontsize=9,
        )
    figure.tight_layout()
    figure.savefig(sys.argv[2], metadata={"Date": None, "Creator": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
