"""report_machine - the machine of the run: tables 5-1 and 5-3, hardware counters, and the sizes of
first-level instruction caches since 1993.
"""

import pathlib

import processors
import thesis
from report_base import change

FOLDER = pathlib.Path("/sys/devices/system/cpu/cpu0/cache")


def cache_shape(level, kind, folder=FOLDER):
    """(size, ways, line) of a cache of this machine as the kernel tells them, or None."""
    for index in sorted(folder.glob("index*")):
        read = lambda name: (index / name).read_text().strip()
        try:
            if (read("level"), read("type")) == (str(level), kind):
                ways, line = read("ways_of_associativity"), read("coherency_line_size")
                return read("size").replace("K", " KB"), ways, line
        except OSError:
            return None
    return None


class MachineTables:
    """Part of Report: needs one run's provenance and times."""

    def cache_history(self):
        years = [row[0] for row in processors.CACHES]
        figure, axis = self.figures.plt.subplots(figsize=(9, 4.6))
        taken = []
        for year, name, size, _ways, _source in processors.CACHES:
            in_thesis = year <= 2005
            colour = self.figures.BASE if in_thesis else self.figures.TEAM
            axis.plot([year], [size], "o", color=colour)
            # Names of neighbours stand one above the other.
            level = 0
            while any(abs(year - y) < 2.6 and size == s and level == n for y, s, n in taken):
                level += 1
            taken.append((year, size, level))
            axis.annotate(
                name,
                (year, size),
                xytext=(0, 6 + 10 * level),
                textcoords="offset points",
                fontsize=7,
                ha="center",
            )
        here = cache_shape(1, "Instruction")
        if here:
            axis.axhline(
                int(here[0].split()[0]), color=self.figures.THIRD, linewidth=1, linestyle=":",
                label=f"this machine: {here[0]}",
            )
        axis.plot([], [], "o", color=self.figures.BASE, label="up to the thesis, 2005")
        axis.plot([], [], "o", color=self.figures.TEAM, label="since")
        axis.set(
            xlabel="year", ylabel="L1-I, KB", yscale="log", xlim=(min(years) - 2, max(years) + 2)
        )
        axis.set_yticks([8, 16, 32, 64, 128, 256], ["8", "16", "32", "64", "128", "256"])
        axis.minorticks_off()
        axis.set_ylim(6, 300)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8, loc="upper left")
        rows = [
            dict(zip(("year", "processor", "KB", "ways", "source"), row))
            for row in processors.CACHES
        ]
        self.gallery.add(
            "5-2 b",
            "First-level instruction caches, 1993 to today (figure 5-2b continued)",
            figure,
            rows,
            "L1-I caches do not grow, second-level caches do",
            "Most processors of the last thirty years have 32 or 64 KB; only one of these has more."
            " Code that missed in 2005 still does.",
            "Sources are in the table below and in the csv.",
        )
        self.tables.append(
            (
                "First-level instruction caches: sources",
                "Each size with the document that states it.",
                ["year", "processor", "L1-I, KB", "ways", "source"],
                processors.CACHES,
            )
        )

    def machine_tables(self):
        provenance = next(p for _, _, p in self.m.runs if p)
        machine, build = provenance["machine"], provenance["build"]
        level1, data, level2 = (
            cache_shape(1, "Instruction"),
            cache_shape(1, "Data"),
            cache_shape(2, "Unified"),
        )
        here = [f"this machine: {machine['processor']}"]
        here += (
            [
                f"{level1[0]} + {data[0]}",
                f"{level1[1]} and {data[1]} ways / {level1[2]} bytes",
                level2[0],
            ]
            if level1 and data and level2
            else ["the kernel does not tell", ", ".join(machine["caches"]), ""]
        )
        self.tables.append(
            (
                "Table 5-1: processors",
                "The last row is the machine that measured the native times. Counts are simulated,"
                " so they do not depend on it.",
                ["processor", "L1-I + L1-D", "ways / line", "L2"],
                [*thesis.PROCESSORS, here],
            )
        )
        pool = 160 * self.sizes[0] + 512
        ours = {
            "processor": f"{machine['processor']}, {machine['processors']} processors,"
            f" {machine['memory_bytes'] / 2**30:.1f} GB of memory, {machine['kernel']}",
            "storage": "traced: simulated disk; native: files in the system's temporary directory",
            "buffer pool": f"native {pool} MB ({self.sizes[0]} warehouses), all data in memory",
            "page size": "8192 bytes",
            "locks": "record and index; two-phase locking",
            "commit": "does not wait for the log",
            "build": f"{build['compiler']}, {build['kind']}, commit {build['commit']}",
        }
        self.tables.append(
            (
                "Table 5-3: system configuration",
                "The right column is this run's.",
                ["", "thesis", "this machine"],
                [[key, thesis.SYSTEM.get(key, ""), value] for key, value in ours.items()],
            )
        )

    def counter_rows(self):
        """(header, rows) of hardware counters, or a sentence that says why there are none."""
        timed = [c for c in [self.ten, *self.transactions[self.sizes[0]].values()] if "time" in c]
        rows, refused = [], ""
        for c in timed:
            refused = c["time"].get("counters_refused", refused)
            for event, value in c["time"].get("counters", {}).items():
                if "on" in value:
                    rows.append(
                        [
                            c["what"],
                            event,
                            f"{value['off']:.1f}",
                            f"{value['on']:.1f}",
                            change(value["off"], value["on"]),
                            f"{100 * value['counted_share']:.0f}%",
                        ]
                    )
                else:
                    rows.append([c["what"], event, "", "", "not known", value["missing"]])
        header = ["work", "event", "off", "on", "change", "counted in this share of the time"]
        return (header, rows) if rows else refused or "no native run"
