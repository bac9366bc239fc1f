"""report_autosteps - figures 5-15 to 5-17: where autosteps places the points."""

import measure
import thesis
from report_base import NOISY, is_noisy, short, time_text

AUTOSTEPS_FIGURES = {"5-15", "5-16", "5-17"}


def within(manual, auto):
    """(wanted, seen, outcome): decided by the ends of both intervals, not by two medians."""
    if is_noisy(manual) or is_noisy(auto):
        noisy = manual if is_noisy(manual) else auto
        return "within 5%", time_text(noisy), NOISY
    least, most = manual["low"] / auto["high"], manual["high"] / auto["low"]
    seen = f"{100 * (least - 1):+.1f}% to {100 * (most - 1):+.1f}%"
    return "within 5%", seen, True if most <= 1.05 else False if least > 1.05 else NOISY


class AutostepsFigures:
    """Part of Report: runs autosteps, draws its figures, checks its goals."""

    def measure_autosteps(self):
        """Counts only, so it may run beside other counts."""
        self.auto = self.m.autosteps("autosteps", [self.operation], self.tight, "--sweep")
        self.auto_long = self.m.autosteps("autosteps-insert", ["insert"], "4096,2,64", "--sweep")

    def autosteps_figures(self):
        data, long = self.auto, self.auto_long
        for mark, name, d in (("a", self.operation, data), ("b", "insert", long)):
            if self.draws("5-15"):
                self.figure_5_15(mark, name, d["analyses"][0])
            if self.draws("5-16"):
                figure = self.figures.scatter(d["sweep"], d["analyses"][0]["manual"])
                self.gallery.add(
                    f"5-16 {mark}",
                    f"{name.capitalize()}: misses of a follower and switches for W 50 to 400"
                    f" and H 2 to 16, cache {short(d['analyses'][0]['geometry'])}",
                    figure,
                    d["sweep"],
                    "a lower H gives more switches and fewer misses",
                    "Each mark is one choice of W and H: fewer misses cost more switches. The star"
                    " is the set chosen by hand.",
                )
        if self.draws("5-17"):
            self.figure_5_17(data["analyses"][0])

    def figure_5_15(self, mark, name, a):
        figure = self.figures.cumulative(a)
        rows = [
            {"instructions": n, "event": kind}
            for kind in ("plain", "steps", "cuts")
            for n in a["curves"][kind]
        ]
        self.gallery.add(
            f"5-15 {mark}",
            f"Misses of {name} over its instructions, W {a['width']} H {a['height']}, cache"
            f" {short(a['geometry'])}",
            figure,
            rows,
            thesis.AUTOSTEPS["points"],
            "At each dotted line a follower switches; its curve stays flat where the lone thread's"
            " climbs.",
            f"Here {a['points']} points, {a['switches']} switches; {a['manual']['switches']}"
            " switches by hand. Proposed before " + "; ".join(p["place"] for p in a["proposals"]),
        )

    def figure_5_17(self, a):
        chosen = a["chosen"]["points"] or ["none"]
        rows = []
        for name, points in (("no switches", ["none"]), ("manual", []), ("auto", chosen)):
            more = ["--points", ",".join(points)] if points else []
            [c] = self.m.compare(
                f"set-{name.replace(' ', '-')}",
                [self.operation],
                [self.tight],
                "--threads",
                10,
                *more,
            )
            m = c["machines"][0]
            if not rows:
                serial = {"set": "serial", "points": "", "switches": 0}
                rows.append({**serial, "misses": m["serial_warm"]["l1i"] * 10})
            rows.append(
                {
                    "set": name,
                    "points": " ".join(points) or " ".join(a["manual"]["points"]),
                    "misses": m["team_warm"]["l1i"] * 10,
                    "switches": c["team"]["switches"],
                    **{k: v for k, v in c["time"].items() if not isinstance(v, (dict, list))},
                }
            )
        figure, (left, right) = self.figures.plt.subplots(1, 2, figsize=(8, 3.8))
        left.bar([r["set"] for r in rows], [r["misses"] for r in rows], color=self.figures.TEAM)
        for i, r in enumerate(rows):
            left.text(i, r["misses"], f"{r['misses']:.0f}", ha="center", va="bottom", fontsize=8)
        left.set_ylabel("L1-I misses of 10 threads")
        left.tick_params(axis="x", labelsize=8)
        self.figures.finish(left, False, axis="y")
        right.axhline(1, color=self.figures.BOUND, linestyle="--", linewidth=1)
        self.figures.time_points(right, range(3), rows[1:], self.figures.THIRD, "team, native")
        right.set_xticks(range(3), [r["set"] for r in rows[1:]], fontsize=8)
        right.set_ylabel("speed-up over serial")
        right.set_xlim(-0.5, 2.5)
        right.set_ylim(bottom=0)
        self.figures.finish(right)
        self.gallery.add(
            "5-17",
            f"Misses and time of {self.operation} by 10 threads: serial, teams without switches,"
            " manual set, set auto",
            figure,
            rows,
            f"{thesis.AUTOSTEPS['misses']}; time {thesis.AUTOSTEPS['time']}",
            "Left: without switches inside the operation, teams save nothing in this cache; with"
            " few points they save nearly all. Right: what that does to time.",
            "Time is native, relative to the serial run that alternated with it.",
        )
        manual, auto = rows[2], rows[3]
        self.goal(
            "autosteps",
            f"the set auto for {a['operation']}: points",
            f"at most half of the {len(a['manual']['set'])} of the set manual",
            f"{len(chosen)}: {' '.join(chosen)}",
            2 * len(chosen) <= len(a["manual"]["set"]),
        )
        self.goal("autosteps", "the set auto: time against the manual set's", *within(manual, auto))
        self.findings.append(
            f"autosteps sees instructions only. The manual points of {self.operation} stand where"
            " memory was prefetched, and what a switch hides there is a data stall: leaving such a"
            " point out costs time on this machine although no instruction miss is added"
            " (--keep-data keeps them)."
        )
