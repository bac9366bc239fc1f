"""report_base - what the parts of the report share: caches, goals, findings, tables, verdicts."""

# The thesis's own caches first, then today's.
CACHES = {
    "65536,2,64": "AthlonXP: 64 KB, 2 ways (thesis)",
    "16384,4,32": "Pentium III: 16 KB, 4 ways (thesis)",
    "32768,8,64": "today: 32 KB, 8 ways",
    "49152,12,64": "today: 48 KB, 12 ways",
    "65536,8,64": "today: 64 KB, 8 ways",
}
USUAL = list(CACHES)
ALL_POINTS = ["--points", "icache"]
# How a goal ended.
REACHED, MISSED, NOTHING, NOISY = (
    "reached",
    "not reached",
    "nothing to save",
    "too noisy to tell",
)


def percent(part, digits=1):
    return f"{100 * part:.{digits}f}%"


def change(before, after):
    return "-" if not before else f"{100 * (after / before - 1):+.1f}%"


def short(geometry):
    """65536,2,64 -> 64K,2; another line than 64 bytes stays."""
    size, ways, line = geometry.split(",")
    return f"{int(size) // 1024}K,{ways}" + ("" if line == "64" else f",{line}")


def is_noisy(time):
    return time["verdict"] == NOISY


def time_text(time):
    """A native time with its verdict; without one nothing is claimed."""
    if is_noisy(time):
        quartiles = (
            f" (quartiles {time['quartile_low']:.2f} to {time['quartile_high']:.2f},"
            f" {time['quiet_pairs']} of {time['pairs']} pairs quiet)"
            if "speedup" in time
            else " (no pair was undisturbed)"
        )
        return NOISY + quartiles
    return (
        f"{time['verdict']}: speed-up {time['speedup']:.3f}, 99% interval {time['low']:.3f} to"
        f" {time['high']:.3f}, {time['quiet_pairs']} of {time['pairs']} pairs quiet"
    )


class ReportBase:
    def __init__(self, options, gallery, figures, m):
        self.options, self.gallery, self.figures, self.m = options, gallery, figures, m
        self.goals, self.findings, self.tables, self.worse = [], [], [], []
        self.operation = options.operation
        self.sizes = (1, 2, 3) if options.brief else (10, 20, 30)  # warehouses
        self.overview = None  # the first screen's answer, see report_overview

    def goal(self, cache, what, wanted, seen, outcome):
        """`cache` is a geometry, or a heading for goals that belong to none. `outcome` may be a
        truth value."""
        if isinstance(outcome, bool):
            outcome = REACHED if outcome else MISSED
        self.goals.append((cache, what, wanted, seen, outcome))

    def draws(self, number):
        return not self.options.figure or number in self.options.figure

    def wants(self, numbers):
        return not self.options.figure or bool(numbers & set(self.options.figure))
