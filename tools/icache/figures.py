"""figures - draws the thesis's figures from our data and writes each as PNG, SVG, CSV and JSON."""

import csv
import json

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

BASE, TEAM, THIRD, BOUND = "#8a8f98", "#c8502d", "#2b6cb0", "#444444"


class Gallery:
    """Writes figures and remembers them for the page."""

    def __init__(self, out):
        self.out, self.shown = out, []

    def add(self, number, title, figure, rows, thesis, note=""):
        name = "figure-" + number.lower().replace(" ", "-")
        figure.tight_layout()
        for kind in ("png", "svg"):
            figure.savefig(self.out / f"{name}.{kind}", dpi=110)
        plt.close(figure)
        (self.out / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
        with open(self.out / f"{name}.csv", "w", newline="") as file:
            writer = csv.DictWriter(
                file, fieldnames=list(dict.fromkeys(k for row in rows for k in row))
            )
            writer.writeheader()
            writer.writerows(rows)
        self.shown.append(
            {"number": number, "title": title, "name": name, "thesis": thesis, "note": note}
        )


def lines(xlabel, ylabel, series, **axes):
    """series: (label, xs, ys, colour, style)"""
    figure, axis = plt.subplots(figsize=(6.4, 3.8))
    for label, xs, ys, colour, style in series:
        axis.plot(xs, ys, style, color=colour, label=label)
    axis.set(xlabel=xlabel, ylabel=ylabel, **axes)
    axis.set_ylim(bottom=min(0, axis.get_ylim()[0]))
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    return figure


def bars(ylabel, labels, groups, reference=None, rotation=0):
    """groups: (name, values, colour)"""
    figure, axis = plt.subplots(figsize=(max(6.4, 0.55 * len(labels) * len(groups) ** 0.5), 3.8))
    width = 0.8 / len(groups)
    for i, (name, values, colour) in enumerate(groups):
        axis.bar(
            [x + (i - (len(groups) - 1) / 2) * width for x in range(len(labels))],
            values,
            width,
            label=name,
            color=colour,
        )
    axis.set_xticks(range(len(labels)), labels, rotation=rotation, fontsize=8)
    axis.set_ylabel(ylabel)
    if reference is not None:
        axis.axhline(reference, color=BOUND, linestyle="--", linewidth=1)
    axis.grid(alpha=0.3, axis="y")
    axis.legend(fontsize=8)
    return figure


def cumulative(analysis):
    """Figure 5-15: cumulative misses over executed instructions."""
    curves = analysis["curves"]
    figure, axis = plt.subplots(figsize=(6.4, 3.8))
    for label, misses, colour in (
        ("alone, warm", curves["plain"], BASE),
        ("follower, STEPS simulated", curves["steps"], TEAM),
    ):
        axis.step(
            [0] + misses + [analysis["instructions_in_team"]],
            list(range(len(misses) + 1)) + [len(misses)],
            where="post",
            color=colour,
            label=label,
        )
    for i, cut in enumerate(curves["cuts"]):
        axis.axvline(
            cut, color=THIRD, linewidth=0.8, linestyle=":", label="switch" if i == 0 else None
        )
    axis.set(xlabel="executed instructions", ylabel="L1-I misses so far")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    return figure


def scatter(rows, manual):
    """Figure 5-16: misses against switches for every W and H."""
    figure, axis = plt.subplots(figsize=(6.4, 3.8))
    for height, marker in zip(sorted({r["height"] for r in rows}), "osD^"):
        mine = [r for r in rows if r["height"] == height]
        axis.plot(
            [r["switches"] for r in mine],
            [r["misses"] for r in mine],
            marker,
            label=f"H = {height}",
            alpha=0.8,
        )
        for r in mine:
            axis.annotate(
                str(r["width"]),
                (r["switches"], r["misses"]),
                fontsize=6,
                xytext=(3, 3),
                textcoords="offset points",
            )
    axis.plot(
        [manual["switches"]], [manual["misses"]], "*", color=TEAM, markersize=12, label="manual"
    )
    axis.set(xlabel="switches executed", ylabel="misses of a follower")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    return figure
