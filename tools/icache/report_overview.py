"""report_overview - the first picture of the page: does STEPS save L1-I misses, and time?"""

from report_base import CACHES, NOISY, is_noisy, percent, short, time_text


class OverviewFigure:
    """Part of Report: needs the operation and the transactions measured."""

    def overview_rows(self):
        rows = []
        for name, c in (
            (self.operation, self.ten),
            ("payment", self.transactions[self.sizes[0]]["payment"]),
            ("mix4", self.transactions[self.sizes[0]]["mix4"]),
        ):
            operation = c["kind"] == "operation"
            for l1 in CACHES:
                m = next(m for m in c["machines"] if m["l1"] == l1)
                rows.append(
                    {
                        "what": name,
                        "cache": l1,
                        "off": m["serial_warm" if operation else "serial"]["l1i"],
                        "on": m["team_warm" if operation else "team"]["l1i"],
                        "fits": m["fits"],
                        "time": c["time"]["verdict"],
                        "speedup": c["time"].get("speedup"),
                    }
                )
        return rows

    def overview_figure(self):
        rows = self.overview_rows()
        names = list(dict.fromkeys(r["what"] for r in rows))
        titles = {
            self.operation: f"{self.operation}, team of 10",
            "payment": "TPC-C Payment",
            "mix4": "TPC-C, four transactions",
        }
        plt = self.figures.plt
        figure, axes = plt.subplots(
            1, 4, figsize=(12.5, 4.2), gridspec_kw={"width_ratios": [3, 3, 3, 1.7]}
        )
        for axis, name in zip(axes, names):
            mine = [r for r in rows if r["what"] == name]
            top = max(max(r["off"], r["on"]) for r in mine) or 1
            for i, (key, colour) in enumerate(
                (("off", self.figures.BASE), ("on", self.figures.TEAM))
            ):
                xs = [x + (i - 0.5) * 0.42 for x in range(len(mine))]
                axis.bar(xs, [r[key] for r in mine], 0.4, color=colour, label=f"STEPS {key}")
                for x, r in zip(xs, mine):
                    axis.text(
                        x,
                        r[key] + top * 0.02,
                        f"{r[key]:.0f}" if r[key] >= 10 else f"{r[key]:.1f}",
                        rotation=90,
                        ha="center",
                        va="bottom",
                        fontsize=8,
                    )
            axis.set_xticks(range(len(mine)), [short(r["cache"]) for r in mine], rotation=50)
            axis.tick_params(labelsize=8)
            axis.set_title(titles[name], fontsize=10)
            axis.set_ylim(0, max(top * 1.22, 2))
            self.figures.finish(axis, axis is axes[0], axis="y")
        axes[0].set_ylabel("simulated L1-I misses of each")
        self.overview_times(axes[3], names)
        answer = self.overview_answer()
        self.gallery.add(
            "1",
            "What teams do to L1-I misses and to time",
            figure,
            rows,
            see=answer,
            note=(
                "Grey is STEPS off, red is on; the first two caches of each panel are the thesis's"
                " processors, the other three are current shapes. Right: native speed-up on this"
                " machine, filled where the measurement allows a claim, hollow where the pairs"
                " differ too much."
            ),
            caption="Picture",
        )
        self.overview = self.gallery.shown.pop()

    def overview_times(self, axis, names):
        times = [
            (self.ten if n == self.operation else self.transactions[self.sizes[0]][n])["time"] for n in names
        ]
        for x, time in enumerate(times):
            if "speedup" not in time:
                axis.text(x, 1.02, "no quiet\npair", ha="center", fontsize=7)
                continue
            noisy = is_noisy(time)
            low, high = ("quartile_low", "quartile_high") if noisy else ("low", "high")
            axis.bar(
                [x],
                [time["speedup"]],
                0.6,
                color="none" if noisy else self.figures.THIRD,
                edgecolor=self.figures.THIRD,
                linestyle="--" if noisy else "-",
                yerr=[[time["speedup"] - time[low]], [time[high] - time["speedup"]]],
                capsize=4,
                ecolor=self.figures.BOUND,
            )
            axis.text(
                x,
                time[high] + 0.06,
                "too\nnoisy" if noisy else f"{time['speedup']:.2f}",
                ha="center",
                va="bottom",
                fontsize=8,
            )
        axis.axhline(1, color=self.figures.BOUND, linestyle="--", linewidth=1)
        axis.set_xticks(range(len(names)), names, rotation=50)
        axis.tick_params(labelsize=8)
        axis.set_title("native speed-up", fontsize=10)
        known = [t.get("quartile_high", 1) for t in times] + [t.get("high", 1) for t in times]
        axis.set_ylim(0, max(known) * 1.3)
        self.figures.finish(axis, False, axis="y")

    def overview_answer(self):
        """What the picture says, in sentences made of the data."""
        parts = []
        for name in ("payment", "mix4"):
            c = self.transactions[self.sizes[0]][name]
            saved, none = [], []
            for l1 in CACHES:
                m = next(m for m in c["machines"] if m["l1"] == l1)
                if m["fits"]:
                    none.append(short(l1))
                else:
                    saved.append((m["reduction"]["l1i"], short(l1)))
            text = f"{name}: "
            if saved:
                text += "teams change L1-I misses by " + ", ".join(
                    f"{percent(-share, 0)} at {l1}" for share, l1 in saved
                )
            if none:
                text += ("; " if saved else "") + f"its code fits {' and '.join(none)}"
            parts.append(text)
        m = [m for m in self.ten["machines"] if m["l1"] in CACHES]
        fitting = [short(x["l1"]) for x in m if x["fits"]]
        parts.append(
            f"{self.operation} alone fits {len(fitting)} of these {len(CACHES)} caches, so teams"
            " have nothing to save there"
            if fitting
            else f"{self.operation} alone fits none of these caches"
        )
        times = [(self.operation, self.ten["time"])] + [
            (n, self.transactions[self.sizes[0]][n]["time"]) for n in ("payment", "mix4")
        ]
        known = [f"{n} {time_text(t).split(',')[0]}" for n, t in times if not is_noisy(t)]
        noisy = [n for n, t in times if is_noisy(t)]
        time = "Native time: " + "; ".join(
            known + ([f"{' and '.join(noisy)} {NOISY}"] if noisy else [])
        )
        return ". ".join(p[0].upper() + p[1:] for p in parts) + ". " + time + "."
