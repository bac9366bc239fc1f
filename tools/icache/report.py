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
from report_autosteps import AUTOSTEPS_FIGURES, AutostepsFigures
from report_base import ReportBase
from report_operation import OPERATION_FIGURES, OperationFigures
from report_transactions import TRANSACTION_FIGURES, TransactionFigures


class Report(OperationFigures, TransactionFigures, AutostepsFigures, ReportBase):
    """The whole report: runs the wanted parts in the order of the thesis."""

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
