#!/usr/bin/env python3
"""report - redoes all figures of the thesis's chapter 5 for this engine, and writes a page that
compares both.

  lockstep-icache report --out DIR
      index fetch, Payment, New-Order and the four-transaction mix; five caches and a sweep
  lockstep-icache report --out DIR -- --figure 5-10
      one figure (1 5-2 5-5 5-6 5-7 5-8 5-9 5-10 5-13 5-14 5-15 5-16 5-17, or table 5-4)

Needs matplotlib (Debian: apt-get install python3-matplotlib).
"""

import argparse
import concurrent.futures
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import measure
import thesis
from report_autosteps import AUTOSTEPS_FIGURES, AutostepsFigures
from report_base import ReportBase
from report_events import EventFigures
from report_machine import MachineTables
from report_operation import OPERATION_FIGURES, OperationFigures
from report_overview import OverviewFigure
from report_transactions import TRANSACTION_FIGURES, TransactionFigures
from report_worse import WorseTable

KNOWN = OPERATION_FIGURES | TRANSACTION_FIGURES | AUTOSTEPS_FIGURES | {"5-2"}


class Report(
    OverviewFigure,
    OperationFigures,
    EventFigures,
    TransactionFigures,
    WorseTable,
    AutostepsFigures,
    MachineTables,
    ReportBase,
):
    """The whole report: measures what is wanted, then draws in the order of the thesis."""

    def measure(self):
        """What is timed runs alone; then two processes at a time that only count."""
        whole = not self.options.figure
        counts = []
        if self.wants(OPERATION_FIGURES | AUTOSTEPS_FIGURES):
            self.measure_operation()
        if self.wants(TRANSACTION_FIGURES | {"1"}):
            self.measure_transactions()
        if self.wants(TRANSACTION_FIGURES):
            counts += [(self.measure_more_warehouses, w) for w in reversed(self.sizes[1:])]
        if whole:
            counts += [(self.measure_operations,), (self.measure_drivers_mode,)]
        if self.wants(AUTOSTEPS_FIGURES):
            counts.append((self.measure_autosteps,))
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            for done in [pool.submit(*job) for job in counts]:
                done.result()

    def run(self):
        self.measure()
        whole = not self.options.figure
        if self.draws("1"):
            self.overview_figure()
        if self.draws("5-2"):
            self.cache_history()
        for number in ("5-5", "5-6", "5-7", "5-8", "5-9", "5-10"):
            if self.draws(number):
                getattr(self, "figure_" + number.replace("-", "_"))()
        self.draw_transactions()
        if self.wants(AUTOSTEPS_FIGURES):
            self.autosteps_figures()
        if whole:
            self.worse_table()
            self.model_table()
            self.machine_tables()

    def draw_transactions(self):
        if self.draws("5-13"):
            stated = (
                f"L1-I {thesis.PAYMENT['L1-I']}, mispredicted {thesis.PAYMENT['mispredicted']},"
                f" speed-up {thesis.PAYMENT['speed-up']}"
            )
            self.transaction_figure("5-13", "payment", self.sizes, stated)
        if self.draws("5-14"):
            stated = f"L1-I {thesis.MIX4['L1-I']} of a bound of {thesis.MIX4['bound']}"
            self.transaction_figure("5-14", "mix4", self.sizes[:2], stated)
        if self.draws("5-4"):
            self.table_5_4()
        if self.wants(TRANSACTION_FIGURES):
            self.transaction_goals()


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
    parser.add_argument("--seconds", default=1.0, type=float, help="native time of all pairs")
    parser.add_argument("--duration", dest="seconds", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument(
        "--brief",
        action="store_true",
        help="1, 2 and 3 warehouses and few repetitions: a look at the page, no results",
    )
    parser.add_argument(
        "--again", action="store_true", help="draw from the data of an earlier report in DIR"
    )
    options = parser.parse_args()
    options.command = " ".join(sys.argv)
    if set(options.figure) - KNOWN:
        parser.error(f"figures are {' '.join(sorted(KNOWN, key=lambda f: (len(f), f)))}")
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
    gallery = figures.Gallery(options.out)
    m = measure.Measure(options.icache, data, options)
    report = Report(options, gallery, figures, m)
    try:
        report.run()
    except measure.Failed as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    page.write(options.out / "index.html", report)
    (data / "text_faults.txt").write_text("".join(f"{fault}\n" for fault in gallery.faults))
    print(options.out / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
