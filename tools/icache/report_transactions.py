"""report_transactions - figures 5-13 and 5-14, table 5-4: TPC-C transactions."""

import thesis
from report_base import ALL_POINTS, USUAL, change, percent

# Teams need ready threads, but few are ready while many wait for the lock on a warehouse's row. The
# policy short-first frees that lock sooner.
MANY_READY = ["--lock-policy", "short-first", "--transactions", 1000]
TRANSACTION_FIGURES = {"5-4", "5-13", "5-14"}


class TransactionFigures:
    """Part of Report: measures the transactions, draws their figures, checks their goals."""

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
