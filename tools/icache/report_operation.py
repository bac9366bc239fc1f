"""report_operation - figures 5-5 to 5-10: one operation by teams of many sizes, in many caches."""

import measure
import thesis
from report_base import ALL_POINTS, USUAL, percent

SMALL = ["2048,8,64", "4096,8,64", "8192,8,64", "8192,full,64"]
THREADS = (1, 2, 3, 4, 5, 6, 8, 10, 20, 40, 80, 100)
PADS = (0, 128, 512, 1024, 2048, 4096, 8192, 16384)
OPERATION_FIGURES = {"5-5", "5-6", "5-7", "5-8", "5-9", "5-10"}


class OperationFigures:
    """Part of Report: measures the operation, draws its figures, checks its goals."""

    def measure_operation(self):
        self.by_threads = self.m.compare(
            "operation",
            [self.operation],
            USUAL + measure.sweep_geometries(),
            "--threads",
            ",".join(map(str, THREADS)),
            "--pad",
            *PADS,
            *ALL_POINTS,
        )
        self.ten = next(c for c in self.by_threads if c["threads"] == 10)
        self.tight = measure.tight_geometry(self.ten)
        tight = measure.machine(self.ten, self.tight)
        self.findings.append(
            f"One {self.operation} executes {self.ten['serial']['instructions']:.0f} instructions"
            f" out of {self.ten['footprint_bytes']:.0f} bytes of code (the thesis:"
            f" {thesis.FETCH['footprint']} in Shore). It fits all three machines' caches, so that"
            " there a warm serial run has next to no instruction misses and teams have none to"
            f" save. Figures 5-5 to 5-9 are therefore drawn for a cache of {self.tight}, which the"
            f" operation exceeds {tight['footprint_over_cache']:.2f} times; figure 5-10 shows all"
            " sizes."
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
            f"Misses of {self.operation} against threads, cache {self.tight}",
            figure,
            rows,
            thesis.FETCH["per extra thread"],
            f"Each further thread costs {model['beta'] * model['m_p']:.1f} misses in a team,"
            f" {model['m_p']:.0f} serially and cold, {model['a'] * model['m_p']:.0f} serially and"
            " warm.",
        )

    def figure_5_6(self):
        rows = []
        for c in self.by_threads:
            usual = measure.machine(c, "65536,2,64")
            rows.append(
                {
                    "threads": c["threads"],
                    "ns_serial": c["time"]["ns_off"],
                    "ns_team": c["time"]["ns_on"],
                    "l1d_serial": usual["serial_warm"]["l1d"],
                    "l1d_team": usual["team_warm"]["l1d"],
                }
            )
        rows = [r for r in rows if r["threads"] <= 10]
        xs = [r["threads"] for r in rows]
        time = self.figures.lines(
            "threads",
            "ns per operation",
            [
                ("serial", xs, [r["ns_serial"] for r in rows], self.figures.BASE, "o-"),
                ("team", xs, [r["ns_team"] for r in rows], self.figures.TEAM, "s-"),
            ],
        )
        self.gallery.add(
            "5-6 a",
            f"Time of one {self.operation}, native",
            time,
            rows,
            thesis.FETCH["speed-up at 10"],
            "Measured in pairs on this machine, data and all; the thesis's table was in the"
            " caches.",
        )
        data = self.figures.lines(
            "threads",
            "L1-D misses per operation",
            [
                ("serial", xs, [r["l1d_serial"] for r in rows], self.figures.BASE, "o-"),
                ("team", xs, [r["l1d_team"] for r in rows], self.figures.TEAM, "s-"),
            ],
        )
        self.gallery.add("5-6 b", "L1-D misses, 65536,2,64", data, rows, thesis.FETCH["L1-D"])

    def figure_5_7(self):
        rows = []
        for c in self.by_threads:
            m = measure.machine(c, self.tight)
            rows.append(
                {
                    "threads": c["threads"],
                    "reduction_warm": m["reduction_warm"],
                    "reduction_cold": m["reduction_cold"],
                    "bound": m["model"]["bound"],
                    "model_warm": m["model"]["predicted_warm"],
                    "speedup": c["time"]["speedup"],
                }
            )
        rows = [r for r in rows if r["threads"] > 1]
        xs = [r["threads"] for r in rows]
        column = lambda name: [r[name] for r in rows]
        figure = self.figures.lines(
            "threads",
            "share of L1-I misses saved; speed-up",
            [
                ("bound (N-1)/N", xs, column("bound"), self.figures.BOUND, "--"),
                ("saved, warm", xs, column("reduction_warm"), self.figures.TEAM, "s-"),
                ("saved, cold", xs, column("reduction_cold"), self.figures.TEAM, "s:"),
                ("model, warm", xs, column("model_warm"), self.figures.THIRD, "-."),
                ("speed-up, native", xs, column("speedup"), self.figures.BASE, "o-"),
            ],
            xscale="log",
        )
        self.gallery.add(
            "5-7",
            f"Misses saved and speed-up for 2 to 100 threads, cache {self.tight}",
            figure,
            rows,
            f"10 threads {thesis.FETCH['reduction at 10']}, 100 threads"
            f" {thesis.FETCH['reduction at 100']}; {thesis.FETCH['speed-up at 10']}",
        )
        # The linker decides which lines compete for a set. A fully associative cache shows the
        # effect of teams without this.
        for l1 in (self.tight, self.tight.replace(",8,", ",full,")):
            ten, hundred = (
                measure.machine(next(c for c in self.by_threads if c["threads"] == n), l1)
                for n in (10, 100)
            )
            self.goal(
                f"{self.operation}, teams of 10, cache {l1}: L1-I misses saved against warm serial",
                "at least 82%",
                percent(ten["reduction_warm"]),
                ten["reduction_warm"] >= 0.82,
            )
            self.goal(
                "the same, teams of 100",
                "90 - 96%",
                percent(hundred["reduction_warm"]),
                hundred["reduction_warm"] >= 0.90,
            )
            followers = ten["team_cold"]["follower"] / ten["serial_cold"]["l1i"]
            self.goal(
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
            f"Misses when the switch's code is padded, cache {self.tight}",
            figure,
            rows + [{"pad": "serial", "misses": serial * 10}],
            thesis.PADDING,
            "The padding is put into the recorded stream at every fast switch. A cache this small"
            " has room for a small switch only.",
        )

    def figure_5_9(self):
        names = {"65536,2,64": "AthlonXP", "16384,4,32": "Pentium III", self.tight: self.tight}
        c, rows = self.ten, []
        serial, team = c["serial"], c["team"]
        common = {
            "instructions": team["instructions"] / serial["instructions"],
            "branches": team["branches"] / serial["branches"],
        }
        for predictor in serial["mispredicted_cold"]:
            before, after = (s["mispredicted_cold"][predictor]["total"] for s in (serial, team))
            common[f"mispredicted, {predictor}"] = after / before if before else 0
        for l1, name in names.items():
            m = measure.machine(c, l1)
            row = {"machine": name, **common}
            for event in ("l1i", "l1d"):
                before, after = (
                    m["serial_cold" if event == "l1i" else "serial_warm"][event],
                    m["team_cold" if event == "l1i" else "team_warm"][event],
                )
                row[event.replace("l1", "L1-").upper()] = after / before if before else 0
            rows.append(row)
        events = [k for k in rows[0] if k != "machine"]
        colours = (self.figures.BASE, self.figures.TEAM, self.figures.THIRD)
        figure = self.figures.bars(
            "STEPS / serial",
            events,
            [(r["machine"], [r[e] for e in events], k) for r, k in zip(rows, colours)],
            1,
            20,
        )
        self.gallery.add(
            "5-9",
            f"All events of {self.operation}, teams of 10, relative to serial execution",
            figure,
            rows,
            f"L1-I {thesis.PENTIUM['L1-I']} (Pentium III), instructions"
            f" {thesis.FETCH['instructions']}, mispredicted {thesis.FETCH['mispredicted']}",
            "L1-I and mispredicted branches against the cold serial run, where all three machines"
            " have misses; all else against the warm one. Warm, one operation's branches are learnt"
            " by heart, and a team adds wrong returns: see the figures to reach.",
        )
        for kind, what in (
            ("mispredicted", "the same code has just run"),
            ("mispredicted_cold", "predictors empty before each operation or round"),
        ):
            seen = [
                (name, s["total"], team[kind][name]["total"]) for name, s in serial[kind].items()
            ]
            self.goal(
                f"{self.operation}: mispredicted branches, {what}",
                "at least 40% fewer",
                "; ".join(
                    f"{name} {before:.2f} to {after:.2f} per operation"
                    for name, before, after in seen
                ),
                all(before > 0 and after <= 0.6 * before for _, before, after in seen),
            )

    def figure_5_10(self):
        rows = []
        for geometry in measure.sweep_geometries():
            m = measure.machine(self.ten, geometry)
            rows.append(
                {
                    "geometry": geometry,
                    "serial_warm": m["serial_warm"]["l1i"],
                    "team_warm": m["team_warm"]["l1i"],
                    "saved": m["reduction_warm"],
                }
            )
        labels = [
            f"{int(r['geometry'].split(',')[0]) // 1024}K {r['geometry'].split(',')[1]}"
            for r in rows
        ]
        figure = self.figures.bars(
            "L1-I misses per operation",
            labels,
            [
                ("serial, warm", [r["serial_warm"] for r in rows], self.figures.BASE),
                ("team of 10, warm", [r["team_warm"] for r in rows], self.figures.TEAM),
            ],
            None,
            90,
        )
        self.gallery.add(
            "5-10",
            f"{self.operation.capitalize()}, teams of 10: sizes and associativities, 64-byte lines",
            figure,
            rows,
            thesis.SWEEP,
        )

    # All operations: the miss model.

    def model_table(self):
        comparisons = self.m.compare(
            "operations",
            ["fetch", "update", "insert", "delete", "scan", "begin", "commit"],
            USUAL + SMALL,
            "--threads",
            10,
            *ALL_POINTS,
            timed=False,
        )
        self.operation_goals(comparisons)
        rows = []
        for c in comparisons:
            l1 = measure.tight_geometry(c)
            m = (
                measure.machine(c, l1)
                if l1 in [x["l1"] for x in c["machines"]]
                else measure.machine(c, SMALL[-1])
            )
            model, stated = m["model"], thesis.MODEL.get(c["what"], {})
            rows.append(
                [
                    c["what"],
                    f"{c['serial']['instructions']:.0f}",
                    f"{c['team']['instructions']:.0f}",
                    f"{c['footprint_bytes']:.0f}",
                    m["l1"],
                    f"{model['m_p']:.0f}",
                    f"{model['a']:.3f} ({stated.get('a', '-')})",
                    f"{model['beta']:.3f} ({stated.get('beta', '-')})",
                    percent(m["reduction_warm"]),
                    percent(model["predicted_warm"]),
                    percent(m["reduction_cold"]),
                    percent(model["predicted_cold"]),
                ]
            )
        self.tables.append(
            (
                (
                    "The miss model per operation, teams of 10 (in brackets: the thesis, Shore on"
                    " 64 KB)"
                ),
                [
                    "operation",
                    "instructions",
                    "in a team",
                    "bytes of code",
                    "cache",
                    "m_p",
                    "a",
                    "beta",
                    "saved, warm",
                    "model",
                    "saved, cold",
                    "model",
                ],
                rows,
            )
        )

    def operation_goals(self, comparisons):
        """The goals for each operation in each cache that its code exceeds by a fifth or more."""
        caches = [m["l1"] for m in comparisons[0]["machines"] if m["l1"].startswith("8192")]
        for l1 in caches:
            exceeded = {c["what"]: measure.machine(c, l1) for c in comparisons}
            exceeded = {what: m for what, m in exceeded.items() if m["footprint_over_cache"] >= 1.2}
            each = (
                lambda shares: ", ".join(
                    f"{what} {percent(share)}" for what, share in shares.items()
                )
                or "none does"
            )
            saved = {what: m["reduction_warm"] for what, m in exceeded.items()}
            self.goal(
                f"operations that exceed {l1} by a fifth, teams of 10: L1-I misses saved against"
                " warm serial",
                "at least 82%",
                each(saved),
                bool(saved) and min(saved.values()) >= 0.82,
            )
            followers = {
                what: m["team_cold"]["follower"] / m["serial_cold"]["l1i"]
                for what, m in exceeded.items()
            }
            self.goal(
                "the same: followers' misses, of the cold operation's",
                "at most 5%",
                each(followers),
                bool(followers) and max(followers.values()) <= 0.05,
            )
