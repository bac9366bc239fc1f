"""report_worse - what teams make worse, with the reason; and the driver's own mode."""

from report_base import CACHES, change, short
from report_transactions import EVENTS, GEOMETRIES

# A change that is smaller than both is not listed.
RATIO_MIN, EVENTS_MIN = 1.05, 1.0

REASONS = {
    "L1-D": (
        "the rows, stacks and locks of all members of a team are in use at once, and one thread's"
        " alone fit"
    ),
    "L2-I": (
        "L2 holds code and data: between two uses of a line of code the data of all members pass"
        " through it"
    ),
    "L2-D": "the data of all members together are larger than L2",
    "mispredicted": (
        "a resumed thread stands at another call depth than the one before it, so its returns are"
        " predicted wrongly; each branch sees the history of another thread"
    ),
    "instructions": (
        "the wrapper between operations, the switches, and waits for rows that other members have"
        " locked"
    ),
}


class WorseTable:
    """Part of Report: needs the transactions measured."""

    def worse_rows(self):
        rows = []
        for what in ("payment", "mix4"):
            c = self.transactions[self.sizes[0]][what]
            for m in c["machines"]:
                for event, name in EVENTS.items():
                    self.add_worse(rows, c, name, m["l1"], m["serial"][event], m["team"][event])
            serial, team = c["serial"], c["team"]
            self.add_worse(
                rows, c, "instructions", "", serial["instructions"], team["instructions"]
            )
            for model in serial["mispredicted"]:
                before, after = (s["mispredicted"][model]["total"] for s in (serial, team))
                self.add_worse(rows, c, "mispredicted", model, before, after)
        return rows

    def add_worse(self, rows, c, name, where, off, on):
        if on < RATIO_MIN * off or on - off < EVENTS_MIN:
            return
        reason = REASONS.get(name)
        if name == "L1-I":
            reason = (
                f"off, transactions use {c['footprint_all_bytes'] / 1024:.0f} KB of code in all and"
                f" one at a time {c['footprint_bytes'] / 1024:.0f} KB; with teams"
                f" {c['footprint_team_bytes'] / 1024:.0f} KB, and an operation's code comes round"
                " only when all others have had their turn"
            )
        times = f"{on / off:.1f} times" if off else "from none"
        place = short(where) if "," in where else where
        rows.append([c["what"], name, place, f"{off:.1f}", f"{on:.1f}", times, reason])

    def worse_table(self):
        header = ["transaction", "event", "cache or model", "off", "on", "change", "why"]
        self.worse = (header, self.worse_rows())
        rows = []
        for what, c in self.drivers_mode.items():
            other = self.transactions[self.sizes[0]][what]
            for l1 in GEOMETRIES:
                mine = next(m for m in c["machines"] if m["l1"] == l1)
                ctx = next(m for m in other["machines"] if m["l1"] == l1)
                off, on = mine["serial"]["l1i"], mine["team"]["l1i"]
                rows.append(
                    [
                        what,
                        CACHES.get(l1, short(l1)),
                        f"{off:.1f}",
                        f"{ctx['team']['l1i']:.1f} ({change(off, ctx['team']['l1i'])})",
                        f"{on:.1f} ({change(off, on)})",
                    ]
                )
        self.tables.append(
            (
                "The thesis's teams and the driver's --steps on",
                "The driver's mode on is another design: it hides data stalls by one walk for a"
                " team, then each transaction runs to completion. It makes L1-I misses where the"
                " last column is above the third.",
                ["transaction", "cache", "L1-I misses off", "teams (ctx)", "driver's mode (on)"],
                rows,
            )
        )
