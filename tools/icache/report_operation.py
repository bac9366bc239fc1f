"""report_operation - figures 5-5 to 5-8: one operation by teams of many sizes."""

import measure
import thesis
from report_base import ALL_POINTS, CACHES, NOTHING, USUAL, is_noisy, percent, short

THREADS = (1, 2, 3, 4, 5, 6, 8, 10, 20, 40, 80, 100)
FLOAT_THREADS = (2, 6, 10)
PADS = (0, 128, 512, 1024, 2048, 4096, 8192, 16384)
OPERATION_FIGURES = {"1", "5-5", "5-6", "5-7", "5-8", "5-9", "5-10"}


class OperationFigures:
    """Part of Report: measures the operation, draws its figures, checks its goals."""

    def measure_operation(self):
        self.by_threads = self.m.compare(
            "operation",
            [self.operation],
            USUAL + measure.sweep_geometries(),
            "--threads",
            ",".join(map(str, (1, 2, 10, 100) if self.options.brief else THREADS)),
            "--pad",
            *PADS,
            *(["--rounds", 3] if self.options.brief else []),
            *ALL_POINTS,
        )
        self.ten = next(c for c in self.by_threads if c["threads"] == 10)
        self.float_on = (
            self.m.compare(
                "operation-float-on",
                [self.operation],
                USUAL[:1],
                "--threads",
                ",".join(map(str, FLOAT_THREADS)),
                "--float-state",
                "--rounds",
                5,
                *ALL_POINTS,
            )
            if self.draws("5-6")
            else []
        )
        self.tight = measure.tight_geometry(self.ten)
        tight = measure.machine(self.ten, self.tight)
        self.findings.append(
            f"One {self.operation} executes {self.ten['serial']['instructions']:.0f} instructions"
            f" out of {self.ten['footprint_bytes']:.0f} bytes of code (the thesis:"
            f" {thesis.FETCH['footprint']} in Shore). In the caches of the first picture a warm"
            " serial run has next to no instruction misses, so that teams have none to save."
            f" Figures 5-5 to 5-9 are therefore drawn for a cache of {short(self.tight)}, which the"
            f" operation exceeds {tight['footprint_over_cache']:.2f} times; figure 5-10 shows all"
            " sizes that it exceeds."
        )

    def figure_5_5(self):
        tight = [measure.machine(c, self.tight) for c in self.by_threads]
        rows = [
            {
                "threads": c["threads"],
                **{
                    f"{run}": m[run]["l1i"] * c["threads"]
                    for run in ("serial_cold", "team_cold", "serial_warm", "team_warm")
                },
            }
            for c, m in zip(self.by_threads, tight)
            if c["threads"] <= 10
        ]
        xs = [r["threads"] for r in rows]
        figure = self.figures.lines(
            "threads",
            "L1-I misses of one operation by all",
            [
                ("serial, cold", xs, [r["serial_cold"] for r in rows], self.figures.BASE, "o--"),
                ("serial, warm", xs, [r["serial_warm"] for r in rows], self.figures.BASE, "o-"),
                ("team, cold", xs, [r["team_cold"] for r in rows], self.figures.TEAM, "s--"),
                ("team, warm", xs, [r["team_warm"] for r in rows], self.figures.TEAM, "s-"),
            ],
        )
        model = measure.machine(self.ten, self.tight)["model"]
        self.gallery.add(
            "5-5",
            f"Misses of {self.operation} against threads, cache {short(self.tight)}",
            figure,
            rows,
            thesis.FETCH["per extra thread"],
            "The red lines stay flat: only the first thread of a team pays. "
            f"Each further thread costs {model['beta'] * model['m_p']:.1f} misses in a team,"
            f" {model['m_p']:.0f} serially and cold, {model['a'] * model['m_p']:.0f} serially and"
            " warm.",
        )

    def figure_5_6(self):
        rows = [
            {
                "threads": c["threads"],
                "float": on,
                **{k: v for k, v in c["time"].items() if not isinstance(v, (dict, list))},
            }
            for on, found in ((False, self.by_threads), (True, self.float_on))
            for c in found
            if c["threads"] <= 10
        ]
        figure, axis = self.figures.plt.subplots(figsize=(6.4, 3.8))
        axis.axhline(1, color=self.figures.BASE, label="serial")
        for on, colour, name in (
            (False, self.figures.TEAM, "team, float off"),
            (True, self.figures.THIRD, "team, float on"),
        ):
            mine = [r for r in rows if r["float"] == on]
            self.figures.time_points(
                axis, [r["threads"] + 0.15 * on for r in mine], mine, colour, name
            )
        axis.set(xlabel="threads", ylabel="native speed-up over serial")
        axis.set_ylim(bottom=0)
        self.figures.finish(axis)
        noisy = sum(is_noisy(r) for r in rows)
        self.gallery.add(
            "5-6 a",
            f"Native time of one {self.operation}, teams against serial execution",
            figure,
            rows,
            thesis.FETCH["speed-up at 10"],
            "Above 1 the team is faster. "
            + (f"{noisy} of {len(rows)} points are too noisy to tell (hollow). " if noisy else "")
            + "Float on: each switch also keeps the floating-point modes.",
            "The thesis's table was in the caches; here data are too large for them, and a team's"
            " prefetches hide that. Bars are 99% intervals, of hollow points quartiles.",
        )
        rows = []
        for c in (c for c in self.by_threads if c["threads"] <= 10):
            usual = measure.machine(c, "65536,2,64")
            rows.append(
                {
                    "threads": c["threads"],
                    "l1d_serial": usual["serial_warm"]["l1d"],
                    "l1d_team": usual["team_warm"]["l1d"],
                }
            )
        xs = [r["threads"] for r in rows]
        data = self.figures.lines(
            "threads",
            "L1-D misses per operation",
            [
                ("serial", xs, [r["l1d_serial"] for r in rows], self.figures.BASE, "o-"),
                ("team", xs, [r["l1d_team"] for r in rows], self.figures.TEAM, "s-"),
            ],
        )
        self.gallery.add(
            "5-6 b",
            "L1-D misses, 64K,2",
            data,
            rows,
            thesis.FETCH["L1-D"],
            "The price of teams: ten threads' data share the data cache, so each operation misses"
            f" {rows[-1]['l1d_team']:.0f} lines instead of {rows[-1]['l1d_serial']:.0f}.",
        )

    def figure_5_7(self):
        rows = []
        for c in self.by_threads:
            m = measure.machine(c, self.tight)
            rows.append(
                {
                    "reduction_warm": m["reduction_warm"],
                    "reduction_cold": m["reduction_cold"],
                    "bound": m["model"]["bound"],
                    "model_warm": m["model"]["predicted_warm"],
                    **{k: v for k, v in c["time"].items() if not isinstance(v, (dict, list))},
                }
            )
        rows = [r for r in rows if r["threads"] > 1]
        xs = [r["threads"] for r in rows]
        column = lambda name: [r[name] for r in rows]
        figure, axis = self.figures.plt.subplots(figsize=(7.2, 4.2))
        for label, key, colour, style in (
            ("bound (N-1)/N", "bound", self.figures.BOUND, "--"),
            ("saved, warm", "reduction_warm", self.figures.TEAM, "s-"),
            ("saved, cold", "reduction_cold", self.figures.TEAM, "s:"),
            ("model, warm", "model_warm", self.figures.THIRD, "-."),
        ):
            axis.plot(xs, [100 * value for value in column(key)], style, color=colour, label=label)
        axis.set(xlabel="threads", ylabel="% of L1-I misses saved", xscale="log")
        axis.set_xticks([2, 5, 10, 20, 50, 100], ["2", "5", "10", "20", "50", "100"])
        axis.set_ylim(0, 105)
        right = axis.twinx()
        self.figures.time_points(right, xs, rows, self.figures.FOURTH, "speed-up (right)")
        right.set_ylabel("native speed-up", color=self.figures.FOURTH)
        right.set_ylim(bottom=0)
        self.figures.finish(axis, False)
        marks = [axis.get_legend_handles_labels(), right.get_legend_handles_labels()]
        right.legend(marks[0][0] + marks[1][0], marks[0][1] + marks[1][1], fontsize=7, loc=4)
        ten = next(r for r in rows if r["threads"] == 10)
        self.gallery.add(
            "5-7",
            f"Misses saved (left) and speed-up (right), 2 to 100 threads, cache {short(self.tight)}",
            figure,
            rows,
            f"10 threads {thesis.FETCH['reduction at 10']}, 100 threads"
            f" {thesis.FETCH['reduction at 100']}; {thesis.FETCH['speed-up at 10']}",
            f"Ten threads save {percent(ten['reduction_warm'], 0)} of the bound's 90%; more threads"
            " add little.",
        )
        for l1 in CACHES:
            m = measure.machine(self.ten, l1)
            off, on = m["serial_warm"]["l1i"], m["team_warm"]["l1i"]
            wanted = 0.66 if l1 == "16384,4,32" else 0.82
            self.goal(
                l1,
                f"{self.operation}, teams of 10: L1-I misses saved against warm serial",
                f"at least {percent(wanted, 0)}",
                f"{off:.2f} to {on:.2f} per operation",
                NOTHING if m["fits"] else m["reduction_warm"] >= wanted,
            )
        # The linker decides which lines compete for a set. A fully associative cache shows the
        # effect of teams without this.
        for l1 in (self.tight, self.tight.replace(",8,", ",full,")):
            ten, hundred = (
                measure.machine(next(c for c in self.by_threads if c["threads"] == n), l1)
                for n in (10, 100)
            )
            self.goal(
                l1,
                f"{self.operation}, teams of 10: L1-I misses saved against warm serial",
                "at least 82%",
                percent(ten["reduction_warm"]),
                ten["reduction_warm"] >= 0.82,
            )
            self.goal(
                l1,
                "the same, teams of 100",
                "90 - 96%",
                percent(hundred["reduction_warm"]),
                hundred["reduction_warm"] >= 0.90,
            )
            followers = ten["team_cold"]["follower"] / ten["serial_cold"]["l1i"]
            self.goal(
                l1,
                "the same, teams of 10: followers' misses, of the cold operation's",
                "at most 5%",
                percent(followers),
                followers <= 0.05,
            )

    def figure_5_8(self):
        serial = measure.machine(self.ten, self.tight)["serial_warm"]["l1i"]
        rows = [{"pad": p["pad"], "misses": p["l1i"][self.tight] * 10} for p in self.ten["pads"]]
        labels = [f"+{r['pad']}" if r["pad"] else "CTX" for r in rows] + ["serial"]
        figure = self.figures.bars(
            "L1-I misses of 10 threads",
            labels,
            [("team of 10", [r["misses"] for r in rows] + [serial * 10], self.figures.TEAM)],
        )
        self.gallery.add(
            "5-8",
            f"Misses when the switch's code is padded, cache {short(self.tight)}",
            figure,
            rows + [{"pad": "serial", "misses": serial * 10}],
            thesis.PADDING,
            "How large the switch's code may become before it drives out what teams save; the last"
            " bar is serial execution.",
            "The padding is put into the recorded stream at every fast switch. A cache this small"
            " has room for a small switch only.",
        )
