#!/usr/bin/env python3
"""plot.py - draws throughput and latency over time from a result file of lockstep-tpcc.

Usage: plot.py RESULT.json PICTURE.svg|.png     Needs matplotlib (Debian: python3-matplotlib).
"""

import json
import sys


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        import matplotlib
    except ImportError:
        print(
            "plot.py: matplotlib is missing; install it (Debian: apt-get install"
            " python3-matplotlib)",
            file=sys.stderr,
        )
        return 3
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with open(sys.argv[1]) as file:
        result = json.load(file)
    # The last slot is cut off by the end of the run, so its rate says nothing.
    line = result["series"][:-1] or result["series"]
    settings = result["settings"]
    t = [slot["t_s"] for slot in line]
    figure, (rate, latency) = plt.subplots(2, 1, sharex=True, figsize=(9, 6))
    rate.plot(t, [slot["all"]["tx_per_s"] for slot in line], color="tab:blue")
    rate.set_ylabel("transactions a second")
    rate.set_ylim(bottom=0)
    warmup = settings["warmup_s"]
    if warmup > 0:
        for axes in (rate, latency):
            axes.axvspan(0, warmup, color="0.92")
    rate.set_title(
        f"TPC-C {settings['txn']}: {result['tx_per_s']:.0f} tx/s, {result['nopm']:.0f} NOPM"
        f" ({settings['warehouses']} warehouses, {settings['workers']} workers,"
        f" {settings['durability']} commits)"
    )
    latency.plot(t, [slot["all"]["p50_us"] for slot in line], label="p50", color="tab:green")
    latency.plot(t, [slot["all"]["p99_us"] for slot in line], label="p99", color="tab:red")
    latency.set_yscale("log")
    latency.set_ylabel("response, microseconds")
    latency.set_xlabel("seconds (grey: warm-up)")
    latency.legend()
    for axes in (rate, latency):
        axes.grid(True, alpha=0.3)
    figure.tight_layout()
    figure.savefig(sys.argv[2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
