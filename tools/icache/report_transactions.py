"""report_transactions - figures 5-13 and 5-14, table 5-4: TPC-C transactions."""

import thesis
from report_base import ALL_POINTS, CACHES, NOTHING, USUAL, change, percent, short, time_text

# Teams need ready threads, but few are ready while many wait for the lock on a warehouse's row. The
# policy short-first frees that lock sooner.
MANY_READY = ["--lock-policy", "short-first"]
FULL = "65536,full,64"  # no two lines compete for a set
GEOMETRIES = [*USUAL, FULL]
TRANSACTION_FIGURES = {"5-4", "5-13", "5-14"}
EVENTS = {"l1i": "L1-I", "l1d": "L1-D", "l2i": "L2-I", "l2d": "L2-D"}


class TransactionFigures:
    """Part of Report: measures the transactions, draws their figures, checks their goals."""

    def measure_transactions(self):
        first = self.sizes[0]
        self.transactions = {
            first: self.by_name(
                f"transactions-{first}",
                ["payment", "neworder", "mix4"],
                "--warehouses",
                first,
                "--seconds",
                2 * self.options.seconds,
            )
        }

    def measure_more_warehouses(self, warehouses):
        """Counts only: a native database of 30 warehouses would need 5 GB of memory."""
        self.transactions[warehouses] = self.by_name(
            f"transactions-{warehouses}",
            ["payment", "mix4"],
            "--warehouses",
            warehouses,
            timed=False,
        )

    def measure_drivers_mode(self):
        """The mode `on` of the driver, which is not the thesis's."""
        self.drivers_mode = self.by_name(
            "transactions-mode-on",
            ["payment", "mix4"],
            "--warehouses",
            self.sizes[0],
            "--mode",
            "on",
            timed=False,
        )

    def by_name(self, name, what, *more, timed=True):
        counted = (
            ["--transactions", 100, "--warm-transactions", 300]
            if self.options.brief
            else ["--transactions", 1000]
        )
        found = self.m.compare(
            name, what, GEOMETRIES, *MANY_READY, *counted, *ALL_POINTS, *more, timed=timed
        )
        return {c["what"]: c for c in found}

    def transaction_rows(self, what):
        rows = []
        for warehouses, by_name in sorted(self.transactions.items()):
            c = by_name.get(what)
            for m in c["machines"] if c else ():
                serial, team = c["serial"], c["team"]
                row = {"warehouses": warehouses, "cache": m["l1"]}
                for event, name in EVENTS.items():
                    row[f"{name} off"], row[f"{name} on"] = m["serial"][event], m["team"][event]
                row["instructions off"] = serial["instructions"]
                row["instructions on"] = team["instructions"]
                for key, run in (("off", serial), ("on", team)):
                    row[f"mispredicted {key}"] = run["mispredicted"]["k7"]["total"]
                if "ns_off" in c.get("time", {}):
                    row["time off"], row["time on"] = c["time"]["ns_off"], c["time"]["ns_on"]
                    row["verdict"] = c["time"]["verdict"]
                row["share of bound"] = m["share_of_bound"]
                rows.append(row)
        return rows

    def transaction_figure(self, number, what, warehouses, stated):
        rows = [r for r in self.transaction_rows(what) if r["warehouses"] in warehouses]
        events = ["L1-I", "mispredicted", "L1-D", "L2-I", "L2-D", "instructions", "time"]
        caches = ("65536,2,64", "16384,4,32", "32768,8,64")
        plt = self.figures.plt
        figure, axes = plt.subplots(len(caches), 1, figsize=(10, 9), sharex=True)
        colours = dict(zip(self.sizes, ("#e9b49f", "#d9825f", self.figures.TEAM)))
        width = 0.8 / len(warehouses)
        for axis, l1 in zip(axes, caches):
            mine = [r for r in rows if r["cache"] == l1]
            top = 0
            for i, r in enumerate(sorted(mine, key=lambda r: r["warehouses"])):
                for x, event in enumerate(events):
                    if not r.get(f"{event} off"):
                        continue
                    ratio = r[f"{event} on"] / r[f"{event} off"]
                    shown, top = min(ratio, 3), max(top, min(ratio, 3))
                    hollow = event == "time" and r["verdict"] == "too noisy to tell"
                    at = x + (i - (len(warehouses) - 1) / 2) * width
                    axis.bar(
                        [at],
                        [shown],
                        width * 0.92,
                        color="none" if hollow else colours[r["warehouses"]],
                        edgecolor=colours[r["warehouses"]],
                        linestyle="--" if hollow else "-",
                    )
                    unit = " ns" if event == "time" else ""
                    axis.text(
                        at,
                        shown + 0.04,
                        (
                            "too noisy"
                            if hollow
                            else f"{r[f'{event} on']:.0f} of {r[f'{event} off']:.0f}{unit}"
                        ),
                        rotation=90,
                        ha="center",
                        va="bottom",
                        fontsize=7,
                    )
            axis.axhline(1, color=self.figures.BOUND, linestyle="--", linewidth=1)
            axis.set_ylim(0, top + 1.6)
            axis.set_ylabel("STEPS / off")
            axis.set_title(CACHES[l1], fontsize=9, loc="left")
            for w in warehouses:
                axis.bar([0], [0], color=colours[w], label=f"{w} warehouses, {10 * w} threads")
            self.figures.finish(axis, axis is axes[0], axis="y")
        axes[-1].set_xticks(range(len(events)), events)
        first = {
            (r["warehouses"], r["cache"]): 1 - r["L1-I on"] / r["L1-I off"]
            for r in rows
            if r["cache"] in caches
        }
        self.gallery.add(
            number,
            f"TPC-C {what}, {' and '.join(map(str, warehouses))} warehouses, relative to STEPS off",
            figure,
            rows,
            stated,
            see="Bars below the line are events that teams save. L1-I misses change by "
            + "; ".join(
                ", ".join(percent(-first[w, l1], 0) for w in warehouses) + f" at {short(l1)}"
                for l1 in caches
            )
            + f" with {', '.join(map(str, warehouses))} warehouses. The numbers on a bar are events"
            " of one transaction, on of off.",
            note=(
                "Bars that would be longer than 3 are cut there; their numbers are whole."
                " Mispredicted branches are those of the model k7. Time is native, for"
                f" {self.sizes[0]} warehouses only, and the same for all caches."
            ),
        )

    def transaction_goals(self):
        for what, wanted in (("payment", 0.65), ("mix4", 0.56)):
            for warehouses, by_name in sorted(self.transactions.items()):
                c = by_name[what]
                for l1 in CACHES:
                    m = next(m for m in c["machines"] if m["l1"] == l1)
                    off, on = m["serial"]["l1i"], m["team"]["l1i"]
                    reduction = m["reduction"]["l1i"]
                    self.goal(
                        l1,
                        f"{what}, {warehouses} warehouses: L1-I misses saved",
                        f"at least {percent(wanted, 0)}",
                        f"{percent(reduction)}: {off:.1f} to {on:.1f}",
                        NOTHING if m["fits"] else reduction >= wanted,
                    )
                    self.goal(
                        l1,
                        f"{what}, {warehouses} warehouses: share of the bound (N-1)/N ="
                        f" {percent(c['teams']['bound'])}",
                        "at least 85%",
                        percent(m["share_of_bound"]),
                        NOTHING if m["fits"] else m["share_of_bound"] >= 0.85,
                    )
        for what, c in self.transactions[self.sizes[0]].items():
            self.findings.append(
                f"One {what} touches {c['footprint_bytes'] / 1024:.1f} KB of code"
                f" ({c['footprint_all_bytes'] / 1024:.0f} KB over all transactions, and"
                f" {c['footprint_team_bytes'] / 1024:.0f} KB with teams) with"
                f" {c['serial']['instructions']:.0f} instructions,"
                f" {change(c['serial']['instructions'], c['team']['instructions'])} with STEPS."
                f" Native time {time_text(c['time'])}."
            )

    def table_5_4(self):
        rows = []
        for warehouses, by_name in sorted(self.transactions.items()):
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
            inside, out = f"{teams['in']:.1f}", f"{teams['out']:.1f}"
            rows.append(
                [warehouses, "average", "", inside, out, "", "", f"{stated[0]} / {stated[1]}"]
            )
            ready = f"{teams['ready']:.1f}"
            stated = thesis.TABLE_5_4["ready"].get(warehouses, "")
            rows.append([warehouses, "threads ready", "", ready, "", "", "", stated])
        header = ["warehouses", "operation", "teams", "enter", "leave in the team", "strays"]
        self.tables.append(
            (
                "Table 5-4: teams of Payment",
                f"How many threads share the code that one of them has loaded: with {self.sizes[0]}"
                f" warehouses {self.transactions[self.sizes[0]]['payment']['teams']['out']:.1f} leave an operation in"
                " their team.",
                [*header, "for a lock", "thesis in / out"],
                rows,
            )
        )
