"""report_events - figures 5-9 and 5-10, and the miss model of all operations."""

import measure
import thesis
from report_base import ALL_POINTS, NOTHING, USUAL, percent, short

SMALL = ["2048,8,64", "4096,8,64", "8192,8,64", "8192,full,64"]
# Below this a cache holds the operation, and figure 5-10 leaves it out.
MISSES_MIN = 1.0


class EventFigures:
    """Part of Report: needs the operation measured."""

    def figure_5_9(self):
        names = {"65536,2,64": "AthlonXP", "16384,4,32": "Pentium III", self.tight: short(self.tight)}
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
            "Below the line teams have fewer events: L1-I misses and mispredicted branches. Above it"
            " stands the price: instructions and L1-D misses.",
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
                "branches",
                f"{self.operation}: mispredicted branches, {what}",
                "at least 40% fewer",
                "; ".join(
                    f"{name} {before:.2f} to {after:.2f} per operation"
                    for name, before, after in seen
                ),
                all(before > 0 and after <= 0.6 * before for _, before, after in seen),
            )

    def figure_5_10(self):
        rows, fitting = [], []
        for geometry in measure.sweep_geometries():
            m = measure.machine(self.ten, geometry)
            if m["serial_warm"]["l1i"] < MISSES_MIN and m["team_warm"]["l1i"] < MISSES_MIN:
                fitting.append(short(geometry))
                continue
            rows.append(
                {
                    "geometry": geometry,
                    "serial_warm": m["serial_warm"]["l1i"],
                    "team_warm": m["team_warm"]["l1i"],
                    "saved": m["reduction_warm"],
                }
            )
        if not rows:
            return
        figure = self.figures.bars(
            "L1-I misses per operation",
            [short(r["geometry"]) for r in rows],
            [
                ("serial, warm", [r["serial_warm"] for r in rows], self.figures.BASE),
                ("team of 10, warm", [r["team_warm"] for r in rows], self.figures.TEAM),
            ],
            None,
            60,
        )
        for i, r in enumerate(rows):
            for shift, key in ((-0.2, "serial_warm"), (0.2, "team_warm")):
                figure.axes[0].text(
                    i + shift, r[key], f" {r[key]:.0f}", rotation=90, ha="center", va="bottom",
                    fontsize=7,
                )
        figure.axes[0].set_ylim(top=1.2 * max(max(r["serial_warm"], r["team_warm"]) for r in rows))
        best = max(rows, key=lambda r: r["saved"])
        worst = min(rows, key=lambda r: r["saved"])
        self.gallery.add(
            "5-10",
            f"{self.operation.capitalize()}, teams of 10: sizes and associativities, 64-byte lines",
            figure,
            rows,
            thesis.SWEEP,
            f"Teams save {percent(best['saved'], 0)} at {short(best['geometry'])} and"
            f" {percent(worst['saved'], 0)} at {short(worst['geometry'])}; more ways help, because"
            " fewer lines compete for a set.",
            f"Left out, because the operation fits (below one miss off and on): {len(fitting)} of"
            f" {len(fitting) + len(rows)} caches, all from {fitting[0] if fitting else '-'} on.",
        )

    # All operations: the miss model.

    def measure_operations(self):
        self.operations = self.m.compare(
            "operations",
            ["fetch", "update", "insert", "delete", "scan", "begin", "commit"],
            USUAL + SMALL,
            "--threads",
            10,
            *(["--rounds", 3] if self.options.brief else []),
            *ALL_POINTS,
            timed=False,
        )

    def model_table(self):
        comparisons = self.operations
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
                    short(m["l1"]),
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
                "The miss model per operation, teams of 10",
                "In brackets: the thesis, Shore on 64 KB. The columns model and saved agree where"
                " the model holds.",
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
        """Each operation in the small caches that it exceeds by a fifth, one goal each."""
        for l1 in (l1 for l1 in SMALL if l1.startswith("8192")):
            for c in comparisons:
                m = measure.machine(c, l1)
                if m["footprint_over_cache"] < 1.2:
                    continue
                off, on = m["serial_warm"]["l1i"], m["team_warm"]["l1i"]
                self.goal(
                    l1,
                    f"{c['what']}, teams of 10: L1-I misses saved against warm serial",
                    "at least 82%",
                    f"{percent(m['reduction_warm'])}: {off:.1f} to {on:.1f}",
                    NOTHING if m["fits"] else m["reduction_warm"] >= 0.82,
                )
                followers = m["team_cold"]["follower"] / m["serial_cold"]["l1i"]
                self.goal(
                    l1,
                    f"{c['what']}: a follower's misses, of the cold operation's",
                    "at most 5%",
                    percent(followers),
                    followers <= 0.05,
                )
