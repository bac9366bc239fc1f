"""report_autosteps - figures 5-15 to 5-17: where autosteps places the points."""

import measure
import thesis
from report_base import USUAL

AUTOSTEPS_FIGURES = {"5-15", "5-16", "5-17"}


class AutostepsFigures:
    """Part of Report: runs autosteps, draws its figures, checks its goals."""

    def autosteps(self):
        if not hasattr(self, "tight"):
            [ten] = self.m.compare("ten", [self.operation], USUAL, "--threads", 10, timed=False)
            self.tight = measure.tight_geometry(ten)
        data = self.m.autosteps("autosteps", [self.operation], self.tight, "--sweep")
        long = self.m.autosteps("autosteps-insert", ["insert"], "4096,2,64", "--sweep")
        for mark, name, d in (("a", self.operation, data), ("b", "insert", long)):
            if self.draws("5-15"):
                self.figure_5_15(mark, name, d["analyses"][0])
            if self.draws("5-16"):
                figure = self.figures.scatter(d["sweep"], d["analyses"][0]["manual"])
                self.gallery.add(
                    f"5-16 {mark}",
                    f"{name.capitalize()}: misses of a follower and switches for W 50 to 400"
                    f" (beside the marks) and H 2 to 16, cache {d['analyses'][0]['geometry']}",
                    figure,
                    d["sweep"],
                    "a lower H gives more switches and fewer misses",
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
            f" {a['geometry']}",
            figure,
            rows,
            thesis.AUTOSTEPS["points"],
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
                rows.append(
                    {
                        "set": "serial",
                        "points": "",
                        "misses": m["serial_warm"]["l1i"] * 10,
                        "ns": c["time"]["ns_off"],
                        "switches": 0,
                    }
                )
            rows.append(
                {
                    "set": name,
                    "points": " ".join(points) or " ".join(a["manual"]["points"]),
                    "misses": m["team_warm"]["l1i"] * 10,
                    "ns": c["time"]["ns_on"],
                    "switches": c["team"]["switches"],
                    "speedup": c["time"]["speedup"],
                }
            )
        figure = self.figures.bars(
            "relative to serial",
            [f"{r['set']}\n{r['misses']:.0f}, {r['ns']:.0f} ns" for r in rows],
            [
                (
                    "L1-I misses",
                    [r["misses"] / max(rows[0]["misses"], 1) for r in rows],
                    self.figures.TEAM,
                ),
                ("time", [1] + [1 / r["speedup"] for r in rows[1:]], self.figures.BASE),
            ],
            1,
        )
        self.gallery.add(
            "5-17",
            f"Misses and time of {self.operation} by 10 threads: serial, teams without switches,"
            " manual set, set auto",
            figure,
            rows,
            f"{thesis.AUTOSTEPS['misses']}; time {thesis.AUTOSTEPS['time']}",
            "Time is native, as a share of the serial run that alternated with it.",
        )
        manual, auto = rows[2], rows[3]
        self.goal(
            f"the set auto for {a['operation']}: points",
            f"at most half of the {len(a['manual']['set'])} of the set manual",
            f"{len(chosen)}: {' '.join(chosen)}",
            2 * len(chosen) <= len(a["manual"]["set"]),
        )
        ratio = manual["speedup"] / auto["speedup"]
        self.goal(
            "the set auto: time against the manual set's",
            "within 5%",
            f"{100 * (ratio - 1):+.1f}%",
            ratio <= 1.05,
        )
        self.findings.append(
            f"autosteps sees instructions only. The manual points of {self.operation} stand where"
            " memory was prefetched, and what a switch hides there is a data stall: leaving such a"
            " point out costs time on this machine although no instruction miss is added"
            " (--keep-data keeps them)."
        )
