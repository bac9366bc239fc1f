"""figures - draws the thesis's figures from our data and writes each as PNG, SVG, CSV and JSON."""

import csv
import json

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

BASE, TEAM, THIRD, BOUND = "#8a8f98", "#c8502d", "#2b6cb0", "#444444"
FOURTH, FIFTH = "#7a9e3a", "#8a5fa8"
plt.rcParams["svg.hashsalt"] = "lockstep"  # equal data give equal files


def text_faults(figure):
    """Text that leaves the picture or lies over other text."""
    figure.canvas.draw()
    inside = figure.bbox
    seen = []
    for text in figure.findobj(matplotlib.text.Text):
        if text.get_visible() and text.get_text().strip():
            box = text.get_window_extent()
            if box.width > 1:
                seen.append((text.get_text().replace("\n", " "), box))
    faults = [
        f"text outside the picture: {text}"
        for text, box in seen
        if box.x0 < inside.x0 - 1
        or box.x1 > inside.x1 + 1
        or box.y0 < inside.y0 - 1
        or box.y1 > inside.y1 + 1
    ]
    for i, (text, one) in enumerate(seen):
        for other, two in seen[i + 1 :]:
            across = min(one.x1, two.x1) - max(one.x0, two.x0)
            along = min(one.y1, two.y1) - max(one.y0, two.y0)
            if across > 2 and along > 2 and (text, other) != (other, text):
                faults.append(f"text over text: {text} / {other}")
    return faults


class Gallery:
    """Writes figures and remembers them for the page."""

    def __init__(self, out):
        self.out, self.shown, self.faults = out, [], []

    def add(self, number, title, figure, rows, thesis="", see="", note="", caption="Figure"):
        """`see`: the sentence that says what to look at."""
        name = "figure-" + number.lower().replace(" ", "-")
        figure.tight_layout()
        self.faults += [f"{name}: {fault}" for fault in text_faults(figure)]
        for kind in ("png", "svg"):
            more = {"metadata": {"Date": None}} if kind == "svg" else {}
            figure.savefig(self.out / f"{name}.{kind}", dpi=110, **more)
        plt.close(figure)
        (self.out / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
        with open(self.out / f"{name}.csv", "w", newline="") as file:
            writer = csv.DictWriter(
                file, fieldnames=list(dict.fromkeys(k for row in rows for k in row))
            )
            writer.writeheader()
            writer.writerows(rows)
        self.shown.append(
            {
                "number": number,
                "title": title,
                "name": name,
                "thesis": thesis,
                "see": see,
                "note": note,
                "caption": caption,
            }
        )


def finish(picture, legend=True, axis="both"):
    picture.grid(alpha=0.3, axis=axis)
    if legend:
        picture.legend(fontsize=8)


def lines(xlabel, ylabel, series, **axes):
    """series: (label, xs, ys, colour, style)"""
    figure, axis = plt.subplots(figsize=(6.4, 3.8))
    for label, xs, ys, colour, style in series:
        axis.plot(xs, ys, style, color=colour, label=label)
    axis.set(xlabel=xlabel, ylabel=ylabel, **axes)
    axis.set_ylim(bottom=min(0, axis.get_ylim()[0]))
    finish(axis)
    return figure


def bars(ylabel, labels, groups, reference=None, rotation=0, wide=None):
    """groups: (name, values, colour)"""
    width_all = wide or max(6.4, 0.55 * len(labels) * len(groups) ** 0.5)
    figure, axis = plt.subplots(figsize=(width_all, 3.8))
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
    finish(axis, axis="y")
    return figure


def time_points(axis, xs, times, colour, label):
    """Speed-ups with their intervals: a filled mark where something can be claimed, a hollow one
    with quartiles where the pairs differ too much.
    """
    noisy_seen = False
    for x, time in zip(xs, times):
        if "speedup" not in time:
            continue
        noisy = time["verdict"] == "too noisy to tell"
        low, high = ("quartile_low", "quartile_high") if noisy else ("low", "high")
        axis.errorbar(
            [x],
            [time["speedup"]],
            [[time["speedup"] - time[low]], [time[high] - time["speedup"]]],
            fmt="o",
            color=colour,
            markerfacecolor="white" if noisy else colour,
            capsize=3,
            alpha=0.5 if noisy else 1,
        )
        noisy_seen = noisy_seen or noisy
    axis.plot([], [], "o", color=colour, label=label)
    if noisy_seen:
        axis.plot([], [], "o", color=colour, markerfacecolor="white", label="too noisy to tell")


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
    finish(axis)
    return figure


def scatter(rows, manual):
    """Figure 5-16: misses against switches for every W and H; the table behind the picture has W."""
    figure, axis = plt.subplots(figsize=(6.4, 3.8))
    for height, marker in zip(sorted({r["height"] for r in rows}), "osD^"):
        mine = [r for r in rows if r["height"] == height]
        axis.plot(
            [r["switches"] for r in mine],
            [r["misses"] for r in mine],
            marker,
            label=f"H = {height}",
            alpha=0.7,
        )
    axis.plot(
        [manual["switches"]], [manual["misses"]], "*", color=TEAM, markersize=12, label="manual"
    )
    axis.set(xlabel="switches executed", ylabel="misses of a follower")
    axis.set_ylim(bottom=0)
    finish(axis)
    return figure
