"""rows - the figures of the five documents, each with what it states and how ours is read.

A row is measured, or has a reason why it is not. Where a document states a number, the goal is that
number within a fifth, or stricter. `mark` is the verdict that the last release had: a row marked as
reached that is no longer reached is an error.
"""

import dataclasses
import operator
from collections.abc import Callable

from commands import Output

REACHED, NOT_REACHED = "reached", "not reached"
DOES_NOT_APPLY = "does not apply today"
CANNOT_TELL = "cannot be told here"

THESIS = "Harizopoulos, Staged Database Systems, 2005"
COOPERATIVE = "Zukowski et al., Cooperative Scans, 2007"
BLINK = "Qiao et al., Main-Memory Scan Sharing (Blink), 2008"
NUMA = "Psaroudakis et al., Scaling Up Column-Store Scans (NUMA), 2015"
SHAREDDB = "Giannikis et al., SharedDB, 2012"

COMPARE: dict[str, Callable[[float, float], bool]] = {">=": operator.ge, "<=": operator.le}


@dataclasses.dataclass(frozen=True)
class Row:
    """One figure. `stated` is the document's number, if it states one; `text` is what it says."""

    paper: str
    place: str
    what: str
    text: str
    stated: float | None = None
    command: str = ""  # in COMMANDS
    read: Callable[[Output], float] | None = None
    goal: tuple[str, float] | None = None
    mark: str = REACHED
    reason: str = ""

    def judge(self, ours: float | None) -> str:
        """The verdict over our figure."""
        if self.mark in (DOES_NOT_APPLY, CANNOT_TELL):
            return self.mark
        assert self.goal is not None and ours is not None
        sign, bound = self.goal
        return REACHED if COMPARE[sign](ours, bound) else NOT_REACHED


def share_saved(output: Output, path: tuple[str | int, ...]) -> float:
    """1 - team : serial of a count of a comparison."""
    head, *rest = path
    serial = output.field("comparisons", head, "serial", *rest)
    return 1 - output.field("comparisons", head, "team", *rest) / serial


def line(load: str, loading: str, gate: str) -> Callable[[Output], float]:
    """How many times faster than processor sharing a gate responds."""
    case = f"load {load}, loading {loading}%"
    return lambda o: o.measurement(f"{case}, sharing") / o.measurement(f"{case}, {gate}")


def over_loadings(choose: Callable[..., float], load: str, gate: str) -> Callable[[Output], float]:
    """The best, or the worst, of line() over all shares of loading."""
    shares = ("0", "2", "8", "20", "40", "60")
    return lambda o: choose(line(load, share, gate)(o) for share in shares)


def policies(case: str, what: str, one: str, other: str) -> Callable[[Output], float]:
    """A figure of one policy of scans as a multiple of another's."""
    return lambda o: (
        o.measurement(f"{case}, {one}: {what}") / o.measurement(f"{case}, {other}: {what}")
    )


FETCH, PAYMENT, MIX4 = "what=fetch", "what=payment", "what=mix4"
ATHLON, PENTIUM, TODAY = "l1=65536,2,64", "l1=16384,4,32", "l1=32768,8,64"
OPERATIONS, TRANSACTIONS = "icache operations", "icache transactions"
ROWS_CASE, COLUMNS_CASE = "rows, reading binds", "columns, reading binds"


def machine(what: str, cache: str, *path: str) -> Callable[[Output], float]:
    return lambda o: o.field("comparisons", what, "machines", cache, *path)


STEPS_ROWS = [
    Row(THESIS, "figure 5-5", "instruction misses saved by ten fetches, caches cold",
        "82 to 87% at 64 KB, 2 ways", 0.82, OPERATIONS, machine(FETCH, ATHLON, "reduction_cold"),
        (">=", 0.78)),
    Row(THESIS, "figure 5-5", "misses of each further thread, as a share of the first one's",
        "beta 0.033", 0.033, OPERATIONS, machine(FETCH, ATHLON, "model", "beta"), ("<=", 0.044)),
    Row(THESIS, "figure 5-5", "the same for an update", "beta 0.044", 0.044, OPERATIONS,
        machine("what=update", ATHLON, "model", "beta"), ("<=", 0.044)),
    Row(THESIS, "figure 5-5", "code of a fetch, as a multiple of the cache, caches warm",
        "45 KB of Shore's code in 64 KB, with conflicts; 96% saved at 100 threads", 0.7, OPERATIONS,
        machine(FETCH, ATHLON, "footprint_over_cache"), mark=DOES_NOT_APPLY,
        reason="the code of a fetch fits every cache: warm, there is nothing to save"),
    Row(THESIS, "figure 5-9", "instruction misses saved on the Pentium III, caches cold",
        "66% at 16 KB, 4 ways", 0.66, OPERATIONS, machine(FETCH, PENTIUM, "reduction_cold"),
        (">=", 0.66)),
    Row(THESIS, "figure 5-9", "instructions that STEPS adds to a fetch", "1.7%", 0.017, OPERATIONS,
        lambda o: -share_saved(o, (FETCH, "instructions")), ("<=", 0.02), NOT_REACHED),
    Row(THESIS, "figure 5-9", "mispredicted branches that a team of fetches saves, cold",
        "64%, hardware of 2001", 0.64, OPERATIONS,
        lambda o: share_saved(o, (FETCH, "mispredicted_cold", "k7", "total")), (">=", 0.51)),
    Row(THESIS, "figure 5-6", "a fetch in a team of STEPS, times the serial one's rate",
        "1.31 against warm caches", 1.31, "steps",
        lambda o: o.measurement("  times base, median of pairs", "fetch, 16 MB, 16 threads, STEPS"),
        (">=", 1.31)),
    Row(THESIS, "figure 5-7", "time of teams above ten threads", "grows: L2 of 256 KB",
        mark=CANNOT_TELL, reason="needs hardware counters of L2; a virtual machine has none"),
    Row(THESIS, "figure 5-8", "a switch of 2 KB instead of 76 bytes", "almost equal misses",
        mark=CANNOT_TELL,
        reason="read off the figure of `lockstep-icache report --figure 5-8`; no number is stated"),
    Row(THESIS, "figure 5-10", "sweep of cache sizes and ways", "89 of at most 90% at 8 ways",
        mark=DOES_NOT_APPLY,
        reason="warm, the code fits from 8 KB on; `lockstep-icache report --figure 5-10` draws it"),
    Row(THESIS, "figure 5-13", "instruction misses that Payment saves",
        "60 to 65% at 64 KB, 2 ways", 0.6, TRANSACTIONS,
        machine(PAYMENT, TODAY, "reduction", "l1i"), (">=", 0.5),
        reason="at today's 32 KB, 8 ways: our Payment fits 64 KB"),
    Row(THESIS, "figure 5-13", "mispredicted branches that Payment saves", "41 to 45%", 0.41,
        TRANSACTIONS, lambda o: share_saved(o, (PAYMENT, "mispredicted", "k7", "total")),
        (">=", 0.41), NOT_REACHED),
    Row(THESIS, "figure 5-13", "Payments a second with STEPS, 10 warehouses", "1.16 times", 1.16,
        "tpcc-steps",
        lambda o: o.measurement("  times base, median of pairs",
                                "payment, 10 warehouses, packets, STEPS"), (">=", 1.16),
        NOT_REACHED, "1.28 on a quiet machine, 1.11 on a shared one"),
    Row(THESIS, "figure 5-14", "instruction misses that the mix of four saves",
        "56% of at most 77%", 0.56, TRANSACTIONS, machine(MIX4, TODAY, "reduction", "l1i"),
        (">=", 0.45), reason="at today's 32 KB, 8 ways"),
    Row(THESIS, "table 5-4", "threads of a team that leave it without a wait, Payment",
        "6.9 of 8.6 at 10 warehouses", 0.8, TRANSACTIONS,
        lambda o: o.field("comparisons", PAYMENT, "teams", "out")
        / o.field("comparisons", PAYMENT, "teams", "in"), (">=", 0.7)),
    Row(THESIS, "figures 5-15 to 5-17", "points that autoSTEPS places", "3, where 16 were by hand",
        mark=CANNOT_TELL,
        reason="needs minutes of tracing: `tools/autosteps/autosteps.py`, or `lockstep-icache "
        "report --figure 5-15`"),
]

STAGE_ROWS = [
    Row(THESIS, "figure 3-1", "threads of a pool against throughput", "best at 5, and from 20 on",
        mark=DOES_NOT_APPLY,
        reason="kernel threads of one engine with a disk of 2003; user threads have no pool"),
    Row(THESIS, "figure 3-4", "D-gated to processor sharing, load 80%, best share of loading",
        "up to 2 times", 2, "production-line", over_loadings(max, "0.80", "d_gated"), (">=", 2)),
    Row(THESIS, "figure 3-4", "D-gated to processor sharing, load 80%, 2% of loading",
        "up to 20% worse below 8%", 0.8, "production-line", line("0.80", "2", "d_gated"),
        (">=", 0.8)),
    Row(THESIS, "figure 3-5", "D-gated to processor sharing, load 95%, best share of loading",
        "up to 7 times", 7, "production-line", over_loadings(max, "0.95", "d_gated"), (">=", 7)),
    Row(THESIS, "figure 3-6", "T-gated(2) to processor sharing, worst case at both loads",
        "at most 1.1 times worse", 1 / 1.1, "production-line",
        lambda o: min(over_loadings(min, load, "t_gated(2)")(o) for load in ("0.80", "0.95")),
        (">=", 1 / 1.1)),
    Row(THESIS, "figure 3-7", "gates under the bounded Pareto distribution",
        "C-gated beats sharing from 15% of loading on", mark=CANNOT_TELL,
        reason="the thesis does not state the exponent of the distribution"),
    Row(THESIS, "section 3.5", "locality-aware queue: solved to simulated response", "equal", 1,
        "production-line",
        lambda o: o.measurement("locality-aware queue, solved / simulated, largest"),
        ("<=", 1.01)),
]

COOPERATIVE_ROWS = [
    Row(COOPERATIVE, "table NSM", "latency of normal, as a multiple of relevance's",
        "6.42 : 1.96", 6.42 / 1.96, "scan-policies",
        policies(ROWS_CASE, "latency", "normal", "relevance"), (">=", 2.6), NOT_REACHED),
    Row(COOPERATIVE, "table NSM", "reads of normal, as a multiple of relevance's", "4186 : 1842",
        4186 / 1842, "scan-policies", policies(ROWS_CASE, "reads", "normal", "relevance"),
        (">=", 1.8)),
    Row(COOPERATIVE, "table NSM", "reads of the elevator, as a share of normal's", "1404 : 4186",
        1404 / 4186, "scan-policies", policies(ROWS_CASE, "reads", "elevator", "normal"),
        ("<=", 0.4), NOT_REACHED),
    Row(COOPERATIVE, "table NSM", "latency of the elevator, as a multiple of normal's",
        "13.52 : 6.42", 13.52 / 6.42, "scan-policies",
        policies(ROWS_CASE, "latency", "elevator", "normal"), (">=", 1.7)),
    Row(COOPERATIVE, "tables NSM and DSM", "orders of the policies that hold",
        "latency, stream time and reads, for rows and columns", 1, "scan-policies",
        lambda o: sum(holds := o.claims("latency") + o.claims("stream") + o.claims("reads"))
        / len(holds), (">=", 1)),
    Row(COOPERATIVE, "table DSM", "latency of normal, as a multiple of relevance's", "7.05 : 2.96",
        7.05 / 2.96, "scan-policies", policies(COLUMNS_CASE, "latency", "normal", "relevance"),
        (">=", 1.9), NOT_REACHED),
    Row(COOPERATIVE, "table DSM", "reads of normal, as a multiple of relevance's", "6490 : 3639",
        6490 / 3639, "scan-policies", policies(COLUMNS_CASE, "reads", "normal", "relevance"),
        (">=", 1.4)),
    Row(COOPERATIVE, "section on costs", "choices of relevance are at most 1% of CPU time",
        "below 1%", 1, "scan-policies", lambda o: float(all(o.claims("choices of relevance"))),
        (">=", 1)),
]

QPIPE_ROWS = [
    Row(THESIS, "figure 4-12", "reads that sharing saves for four staggered scans", "up to 63%",
        0.63, "reports",
        lambda o: 1 - o.measurement("4 staggered reports, pool of 25%: tables read")
        / o.measurement("  4 staggered cursors, the same"), (">=", 0.4)),
    Row(THESIS, "figure 4-13", "two ordered scans that overlap", "a large win", mark=CANNOT_TELL,
        reason="the text states no number"),
    Row(THESIS, "figure 4-16", "queries of a mix a second with sharing, as a multiple of without",
        "2 times with 12 clients", 2, "qpipe",
        lambda o: o.measurement("mix with sharing : without, throughput"), (">=", 1.5)),
    Row(THESIS, "section 4.5", "cost of the search for sharing where nothing overlaps",
        "below 1%", 0.01, "qpipe",
        lambda o: o.measurement("cost without overlap"), ("<=", 0.02)),
    Row(THESIS, "figure 4-19", "plans of a batch optimised together", "1.32 to 1.89 times",
        mark=DOES_NOT_APPLY,
        reason="cost estimates of SQL Server 2000; reports here have no optimiser of batches"),
]

SHAREDDB_ROWS = [
    Row(SHAREDDB, "figure 10", "1,024 reports of a type as one, CPU of one",
        "work bounded by the relation, whatever the number of queries", None, "answers",
        lambda o: o.measurement("1024 reports of a type as one : one, CPU"), ("<=", 5)),
    Row(SHAREDDB, "figures 7 to 9", "TPC-W on 24 to 48 cores beside MySQL and SystemX",
        "2 times SystemX, 8 times MySQL in the browsing mix", mark=CANNOT_TELL,
        reason="needs 24 cores, and systems of 2012"),
    Row(SHAREDDB, "figure 11", "400 light fetches a second kept beside heavy reports",
        "total rises to the end; others fall below 400", 0.95, "answers",
        lambda o: o.measurement("light fetches kept beside heavy reports"), (">=", 0.95)),
]

BLINK_ROWS = [
    Row(BLINK, "abstract", "eight reports as one pass, as a multiple of the rate of single ones",
        "2 to 2.5 times", 2, "reports", lambda o: 8 / o.measurement("8 reports at once : one, CPU"),
        (">=", 2)),
    Row(BLINK, "figure 7", "32 reports as one pass, the same", "rises until tables leave the cache",
        None, "reports", lambda o: 32 / o.measurement("32 reports at once : one, CPU"), (">=", 5)),
    Row(BLINK, "figures 5, 8 and 9", "batches whose tables fit the cache, to one pass for all",
        "up to 2.5 times", mark=DOES_NOT_APPLY,
        reason="the paper's cores have 2 MB of cache each and blocks of 400 KB; with today's L3 a "
        "batch gains at most about 1.1"),
    Row(BLINK, "figures 10 and 11", "fairness by the factor d of running times", "R2 0.8 at d = 2",
        mark=CANNOT_TELL, reason="needs running times without other load"),
    Row(BLINK, "figure 13", "speed-up of batches on 8 cores", "7 times", mark=CANNOT_TELL,
        reason="this machine has fewer cores"),
]

NUMA_ROWS = [
    Row(NUMA, "section 4", "bits of the map of one column on one socket", "26,016 bits",
        mark=DOES_NOT_APPLY, reason="a store places no memory by node"),
    Row(NUMA, "table 1, figures 8 to 19", "latency, bandwidth and throughput by socket",
        "5 times with 4 sockets", mark=CANNOT_TELL, reason="this machine has one node"),
    Row(NUMA, "figure 20", "hot columns move to cold sockets", "a design without measurements",
        mark=CANNOT_TELL, reason="this machine has one node"),
]

ROWS = (
    *(STEPS_ROWS + STAGE_ROWS + COOPERATIVE_ROWS + QPIPE_ROWS + SHAREDDB_ROWS),
    *(BLINK_ROWS + NUMA_ROWS),
)
