"""model.py - throughput for many cores from counted line transfers, by mean value analysis.

A closed network of one class: each worker thinks (private work, and transfers of lines that are not
hot), and queues at stations that serve one transfer at a time. The stations are the lines that move
most, and the WAREHOUSE page while it is latched. The log is reserved under that latch, so the
page's service time contains the response time of the log's tail for one record; it is found by
iteration.

Assumed, not counted: OVERLAP of a transfer's time that a worker waits, with and without a prefetch;
LATCHED, the time under the latch of the WAREHOUSE page; PAYMENTS, the share of transactions that
take it. Private work is that of one worker, and grows with the data, as the caches do not. There is
no device, no second socket and no convoy: the results are upper bounds.
"""

import dataclasses

OVERLAP_PREFETCHED, OVERLAP_OTHER = 0.25, 0.7
LATCHED = 0.35  # us
PAYMENTS = 0.43
RECORDS = 6.65  # of a transaction
TAIL = "log: tail"
HOT = 0.3  # transfers a transaction, from which on a line is a station
CORES = (1, 2, 4, 8, 16, 32, 64)
# Microseconds of a transaction on one worker with 2 W warehouses, as a multiple of two warehouses.
GROWTH = ((2, 1.0), (4, 1.13), (8, 1.30), (16, 1.52))
MOST_GROWTH = 1.57


@dataclasses.dataclass
class Counts:
    """Transfers of a transaction between so many workers."""

    workers: int
    stations: list[tuple[str, float]]  # the log's tail first
    prefetched: float
    others: float


def counts_of(run: dict) -> Counts:
    """From what tools/coherence keeps of a run."""
    transfers = run["transfers"]

    hot = [(line["name"], line["all"]) for line in run["lines"] if line["all"] >= HOT]
    hot.sort(key=lambda line: line[0] != TAIL)
    if not hot or hot[0][0] != TAIL:
        hot.insert(0, (TAIL, transfers.get(TAIL, {"all": 0.0})["all"]))
    prefetched = sum(sums["prefetch"] for sums in transfers.values())
    whole = sum(sums["all"] for sums in transfers.values())
    others = whole - prefetched - sum(times for _, times in hot)
    return Counts(run["workers"], hot, prefetched, max(others, 0.0))


def mean_values(workers: int, think: float, demands: list[float]) -> tuple[float, list[float]]:
    """Transactions a microsecond, and the response time at each station."""
    queues = [0.0] * len(demands)
    rate, times = 0.0, list(demands)
    for inside in range(1, workers + 1):
        times = [demand * (1 + queue) for demand, queue in zip(demands, queues, strict=True)]
        rate = inside / (think + sum(times))
        queues = [rate * time for time in times]
    return rate, times


def at(counts: Counts, workers: int, transfer: float, alone: float) -> tuple[float, str, float]:
    """Transactions a microsecond with so many workers, the busiest station, and its load.
    `transfer` and `alone` (a transaction on one worker) in microseconds."""
    # Another worker had a line last with the probability (W - 1) / W.
    share = (workers - 1) / workers / ((counts.workers - 1) / counts.workers)
    work = alone * next((times for most, times in GROWTH if workers <= most), MOST_GROWTH)
    think = work + share * transfer * (OVERLAP_PREFETCHED * counts.prefetched +
                                       OVERLAP_OTHER * counts.others)
    shared = [share * transfer * times for _, times in counts.stations]
    page = PAYMENTS * LATCHED
    rate, demands = 0.0, [*shared, page]
    for _ in range(300):
        demands = [*shared, page]
        rate, times = mean_values(workers, think, demands)
        page = 0.8 * page + 0.2 * PAYMENTS * (LATCHED + times[0] / RECORDS + 2 * share * transfer)
    names = [*(name for name, _ in counts.stations), "WAREHOUSE page"]
    load, name = max((rate * demand, name) for demand, name in zip(demands, names, strict=True))
    return rate, name, load


def nearest(runs: list[dict], workers: int) -> Counts:
    """The counts of the run that is nearest to so many workers."""
    known = [counts_of(run) for run in runs if run["workers"] > 1]
    return min(known, key=lambda counts: abs(counts.workers - workers))


def projection(runs: list[dict], transfer_ns: float, alone_us: float) -> str:
    """A table in Markdown: the rate by the number of cores."""
    lines = ["| cores | thousand transactions/s | over one core | busiest station |",
             "|---|---|---|---|"]
    one = 0.0
    for workers in CORES:
        rate, name, load = at(nearest(runs, workers), workers, transfer_ns / 1000, alone_us)
        one = one or rate
        lines.append(f"| {workers} | {rate * 1000:.0f} | {rate / one:.1f} | {name} {load:.0%} |")
    return "\n".join(lines)
