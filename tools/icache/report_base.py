"""report_base - what the parts of the report share: geometries, goals, findings, tables."""

USUAL = ["65536,2,64", "16384,4,32", "32768,8,64"]
ALL_POINTS = ["--points", "icache"]


def percent(part, digits=1):
    return f"{100 * part:.{digits}f}%"


def change(before, after):
    return "-" if not before else f"{100 * (after / before - 1):+.1f}%"


class ReportBase:
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
