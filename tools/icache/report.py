#!/usr/bin/env python3
"""report - redoes all figures of the thesis's chapter 5 for this engine, and writes a page that
compares both.

  lockstep-icache report --out DIR
      index fetch, Payment, New-Order and the four-transaction mix; three machines and a sweep
  lockstep-icache report --out DIR -- --figure 5-10
      one figure (5-5 5-6 5-7 5-8 5-9 5-10 5-13 5-14 5-15 5-16 5-17, or table 5-4)
  lockstep-icache report --out DIR -- --full
      also 20 warehouses

Needs matplotlib (Debian: apt-get install python3-matplotlib).
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import measure
import thesis

USUAL = ["65536,2,64", "16384,4,32", "32768,8,64"]
SMALL = ["2048,8,64", "4096,8,64", "8192,8,64", "8192,full,64"]
ALL_POINTS = ["--points", "icache"]
# Teams need ready threads, but few are ready while many wait for the lock on a warehouse's row. The
# policy short-first frees that lock sooner.
MANY_READY = ["--lock-policy", "short-first", "--transactions", 1000]
THREADS = (1, 2, 3, 4, 5, 6, 8, 10, 20, 40, 80, 100)
PADS = (0, 128, 512, 1024, 2048, 4096, 8192, 16384)
OPERATION_FIGURES = {"5-5", "5-6", "5-7", "5-8", "5-9", "5-10"}
TRANSACTION_FIGURES = {"5-4", "5-13", "5-14"}
AUTOSTEPS_FIGURES = {"5-15", "5-16", "5-17"}


def percent(part, digits=1):
    return f"{100 * part:.{digits}f}%"


def change(before, after):
    return "-" if not before else f"{100 * (after / before - 1):+.1f}%"


class Report:
    def __init__(self, options, gallery, figures, m):
        self.options, self.gallery, self.figures, self.m = options, gallery, figures, m
        self.goals, self.findings, self.tables = [], [], []
        self.operation = options.operation

    def goal(self, what, wanted, seen, met):
        self.goals.append((what, wanted, seen, met))

    def draws(self, number):
        return not self.options.figure or number in self.options.figure

    def wants(self, numbers):
        return not self.options.figure or bool(numbers & set(self.options.figure))

    # One operation, many team sizes.

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

    # Transactions.

    def measure_transactions(self):
        geometries = USUAL + ["8192,8,64", "16384,8,64"]
        what = ["payment", "neworder", "mix4"]
        self.transactions = {
            10: {
                c["what"]: c
                for c in self.m.compare(
                    "transactions-10", what, geometries, *MANY_READY, *ALL_POINTS
                )
            }
        }
        for warehouses in (20, 30) if self.options.full else (30,):
            found = self.m.compare(
                f"transactions-{warehouses}",
                ["payment", "mix4"],
                geometries,
                "--warehouses",
                warehouses,
                *MANY_READY,
                *ALL_POINTS,
                timed=False,
            )
            self.transactions[warehouses] = {c["what"]: c for c in found}

    def transaction_rows(self, what):
        rows = []
        for warehouses, by_name in self.transactions.items():
            c = by_name.get(what)
            for m in c["machines"] if c else ():
                serial, team = c["serial"], c["team"]
                row = {
                    "warehouses": warehouses,
                    "cache": m["l1"],
                    "instructions": team["instructions"] / serial["instructions"],
                }
                for event in ("l1i", "l1d", "l2i", "l2d"):
                    row[f"{event} off"], row[f"{event} on"] = m["serial"][event], m["team"][event]
                    row[event.upper().replace("L1", "L1-").replace("L2", "L2-")] = (
                        m["team"][event] / m["serial"][event] if m["serial"][event] else 0
                    )
                for predictor in serial["mispredicted"]:
                    row[f"mispredicted, {predictor}"] = (
                        team["mispredicted"][predictor]["total"]
                        / serial["mispredicted"][predictor]["total"]
                    )
                if "time" in c:
                    row["time"] = (
                        1 / c["time"]["speedup"]
                    )  # the median of pairs, not the ratio of medians
                row["share of bound"] = m["share_of_bound"]
                rows.append(row)
        return rows

    def transaction_figure(self, number, what, stated):
        rows = self.transaction_rows(what)
        events = [
            k
            for k in rows[0]
            if k not in ("warehouses", "cache", "share of bound")
            and not k.endswith((" off", " on"))
        ]
        colours = (self.figures.TEAM, self.figures.BASE, self.figures.THIRD, "#7a9e3a", "#8a5fa8")
        ten = [r for r in rows if r["warehouses"] == 10]
        figure = self.figures.bars(
            "STEPS / off",
            events,
            [(r["cache"], [r.get(e, 0) for e in events], k) for r, k in zip(ten, colours)],
            1,
            25,
        )
        self.gallery.add(
            number,
            f"TPC-C {what}, 10 warehouses, relative to STEPS off",
            figure,
            rows,
            stated,
            "Time is native and the same for all caches.",
        )

    def transaction_goals(self):
        for what, wanted, warehouses in (
            ("payment", 0.65, 10),
            ("payment", 0.65, 30),
            ("mix4", 0.56, 10),
            ("mix4", 0.56, 30),
        ):
            c = self.transactions[warehouses][what]
            tight = [m for m in c["machines"] if not m["fits"]]
            best = max(tight, key=lambda m: m["reduction"]["l1i"])
            each = ", ".join(f"{m['l1']} {percent(m['reduction']['l1i'])}" for m in tight)
            self.goal(
                f"{what}, {warehouses} warehouses: L1-I misses saved, caches smaller than its"
                f" {c['footprint_bytes'] / 1024:.0f} KB of code",
                f"at least {percent(wanted, 0)}",
                each,
                best["reduction"]["l1i"] >= wanted,
            )
            self.goal(
                f"{what}, {warehouses} warehouses: share of the bound (N_out-1)/N_out ="
                f" {percent(c['teams']['bound'])}",
                "at least 85%",
                f"{percent(best['share_of_bound'])} at {best['l1']}",
                best["share_of_bound"] >= 0.85,
            )
        for what, c in self.transactions[10].items():
            fits = [m["l1"] for m in c["machines"] if m["fits"]]
            self.findings.append(
                f"One {what} touches {c['footprint_bytes'] / 1024:.1f} KB of code"
                f" ({c['footprint_all_bytes'] / 1024:.0f} KB over all) with"
                f" {c['serial']['instructions']:.0f} instructions,"
                f" {change(c['serial']['instructions'], c['team']['instructions'])} with STEPS"
                + (f"; it fits {' and '.join(fits)}" if fits else "")
                + f". Measured time: speed-up {c['time']['speedup']:.2f} "
                f"({c['time']['speedup_low']:.2f} .. {c['time']['speedup_high']:.2f} over pairs)."
            )

    def table_5_4(self):
        rows = []
        for warehouses, by_name in self.transactions.items():
            teams = by_name["payment"]["teams"]
            for t in teams["lists"]:
                if t["teams"] < 10:
                    continue
                name = t["operation"]
                stated = thesis.TABLE_5_4.get(name, {}).get(warehouses)
                rows.append(
                    [
                        warehouses,
                        name,
                        t["teams"],
                        f"{t['entered'] / t['teams']:.1f}",
                        f"{t['left'] / t['teams']:.1f}",
                        t["strays"],
                        t["strays_lock"],
                        f"{stated[0]} / {stated[1]}" if stated else "",
                    ]
                )
            stated = thesis.TABLE_5_4["average"].get(warehouses, ("", ""))
            rows.append(
                [
                    warehouses,
                    "average",
                    "",
                    f"{teams['in']:.1f}",
                    f"{teams['out']:.1f}",
                    "",
                    "",
                    f"{stated[0]} / {stated[1]}",
                ]
            )
            rows.append(
                [
                    warehouses,
                    "threads ready",
                    "",
                    f"{teams['ready']:.1f}",
                    "",
                    "",
                    "",
                    thesis.TABLE_5_4["ready"].get(warehouses, ""),
                ]
            )
        self.tables.append(
            (
                "Table 5-4: teams of Payment",
                [
                    "warehouses",
                    "operation",
                    "teams",
                    "enter",
                    "leave in the team",
                    "strays",
                    "for a lock",
                    "thesis in / out",
                ],
                rows,
            )
        )

    # autosteps.

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

    def run(self):
        if self.wants(OPERATION_FIGURES):
            self.measure_operation()
            for number in ("5-5", "5-6", "5-7", "5-8", "5-9", "5-10"):
                if self.draws(number):
                    getattr(self, "figure_" + number.replace("-", "_"))()
        if not self.options.figure:
            self.model_table()
        if self.wants(TRANSACTION_FIGURES):
            self.measure_transactions()
            if self.draws("5-13"):
                self.transaction_figure(
                    "5-13",
                    "payment",
                    f"L1-I {thesis.PAYMENT['L1-I']}, mispredicted {thesis.PAYMENT['mispredicted']},"
                    f" speed-up {thesis.PAYMENT['speed-up']}",
                )
            if self.draws("5-14"):
                self.transaction_figure(
                    "5-14",
                    "mix4",
                    f"L1-I {thesis.MIX4['L1-I']} of a bound of {thesis.MIX4['bound']}",
                )
            if self.draws("5-4"):
                self.table_5_4()
            self.transaction_goals()
        if self.wants(AUTOSTEPS_FIGURES):
            self.autosteps()


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--icache", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument(
        "--operation",
        default="fetch",
        choices=["fetch", "update", "insert", "delete", "scan", "begin", "commit"],
    )
    parser.add_argument(
        "--figure", action="append", default=[], help="only this figure; may be repeated"
    )
    parser.add_argument("--full", action="store_true", help="also 20 warehouses")
    parser.add_argument("--seconds", default=1.0, type=float, help="native time of a pair")
    parser.add_argument("--seed", default=1, type=int)
    options = parser.parse_args()
    known = OPERATION_FIGURES | TRANSACTION_FIGURES | AUTOSTEPS_FIGURES
    if set(options.figure) - known:
        parser.error(f"figures are {' '.join(sorted(known, key=lambda f: int(f.split('-')[1])))}")
    return options


def main():
    options = parse_options()
    try:
        import figures
    except ImportError:
        print(
            "report: matplotlib is missing; install it (Debian: apt-get install"
            " python3-matplotlib)",
            file=sys.stderr,
        )
        return 3
    import page

    data = options.out / "data"
    data.mkdir(parents=True, exist_ok=True)
    report = Report(
        options,
        figures.Gallery(options.out),
        figures,
        measure.Measure(options.icache, data, options),
    )
    try:
        report.run()
    except measure.Failed as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    page.write(options.out / "index.html", report)
    print(options.out / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
