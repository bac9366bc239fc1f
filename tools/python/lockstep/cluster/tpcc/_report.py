"""The report of a run: a dictionary for JSON, lines of text, and a page of HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from ._conditions import violations
from ...tpcc._inputs import TYPES
from ._run import Measured
from ...tpcc._settings import Settings


def percentile(values: Sequence[float], share: float) -> float:
    """The value that at least `share` of the values do not exceed; 0 if there are none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def report_of(
    settings: Settings, measured: Measured, conditions: dict[str, Any], load_seconds: float
) -> dict[str, Any]:
    """All figures. Times are in milliseconds unless a name says otherwise."""
    counts = measured.counts
    types = {name: _type(name, measured) for name in TYPES}
    all_count = sum(one["count"] for one in types.values())
    across = [seconds for one in counts.across.values() for seconds in one]
    return {
        "program": "lockstep.cluster tpcc",
        "version": _version(),
        "settings": settings.as_dict(),
        "load_seconds": load_seconds,
        "measured_seconds": measured.seconds,
        "transactions_per_second": all_count / measured.seconds,
        "new_orders_per_minute": 60 * types["NewOrder"]["per_second"],
        "types": types,
        "batches": {
            "count": len(counts.batches),
            "mean": 1e3 * sum(counts.batches) / max(len(counts.batches), 1),
            "p50": 1e3 * percentile(counts.batches, 0.5),
            "p99": 1e3 * percentile(counts.batches, 0.99),
        },
        "two_phase": {
            "count": len(across),
            "rolled_back": counts.across_rolled_back,
            "share": len(across) / max(all_count, 1),
            "per_second": len(across) / measured.seconds,
            "p50": 1e3 * percentile(across, 0.5),
            "p99": 1e3 * percentile(across, 0.99),
            "repeated": measured.repeated,
            "wounded": measured.wounded,
        },
        "failures": {"count": counts.failures, "first": counts.failed},
        "conditions": conditions,
        "ok": conditions["ok"] and counts.failures == 0,
    }


def _type(name: str, measured: Measured) -> dict[str, Any]:
    shards = [shard["types"][name] for shard in measured.shards]
    local = sum(one["completed"] for one in shards)
    across = len(measured.counts.across[name])
    rolled_back = sum(one["rolled_back"] for one in shards)
    if name == "NewOrder":
        rolled_back += measured.counts.across_rolled_back
    return {
        "count": local + across,
        "per_second": (local + across) / measured.seconds,
        "across": across,
        "rolled_back": rolled_back,
        "aborts": sum(sum(one["aborts"].values()) for one in shards),
        # In the shard, from the arrival of the batch to the durable commit; the slowest shard.
        "p50": max(one["latency_ns"]["p50"] for one in shards) / 1e6,
        "p99": max(one["latency_ns"]["p99"] for one in shards) / 1e6,
        "across_p50": 1e3 * percentile(measured.counts.across[name], 0.5),
        "across_p99": 1e3 * percentile(measured.counts.across[name], 0.99),
    }


def _version() -> str:
    try:
        return metadata.version("lockstep")
    except metadata.PackageNotFoundError:
        return "of a source tree"


COUNTS, TIMES = ("count", "per second", "2PC", "repeated"), ("p50 ms", "p99 ms")
HEADINGS = ("type", *COUNTS, *TIMES, "2PC p50", "2PC p99")


def rows(report: dict[str, Any]) -> list[tuple[str, ...]]:
    """The table of types."""
    found = []
    for name, one in report["types"].items():
        times = (one["p50"], one["p99"], one["across_p50"], one["across_p99"])
        counts = (one["count"], f"{one['per_second']:.0f}", one["across"], one["aborts"])
        found.append((name, *map(str, counts), *(f"{time:.2f}" for time in times)))
    return found


def summary(report: dict[str, Any]) -> list[str]:
    """Lines below the table."""
    batches, two_phase = report["batches"], report["two_phase"]
    lines = [
        f"{report['transactions_per_second']:.0f} transactions a second,"
        f" {report['new_orders_per_minute']:.0f} New-Orders a minute,"
        f" in {report['measured_seconds']:.1f} s",
        f"batches: {batches['count']}, p50 {batches['p50']:.2f} ms, p99 {batches['p99']:.2f} ms",
        f"two-phase: {100 * two_phase['share']:.2f}% of the transactions,"
        f" {two_phase['per_second']:.0f} a second, p50 {two_phase['p50']:.2f} ms,"
        f" p99 {two_phase['p99']:.2f} ms; {two_phase['repeated']} repeated,"
        f" {two_phase['wounded']} wounded",
    ]
    if report["failures"]["count"]:
        lines.append(f"failed: {report['failures']['count']}, such as")
        lines += [f"  {text}" for text in report["failures"]["first"]]
    broken = violations(report["conditions"])
    checks = len(report["conditions"]["conditions"]) + len(report["conditions"]["stock"])
    if broken:
        lines += ["conditions over all shards: VIOLATED", *broken]
    else:
        lines.append(
            f"conditions over all shards: all {checks} hold, {report['conditions']['rows']} rows"
        )
    return lines


def text_of(report: dict[str, Any]) -> str:
    """The report as text."""
    table = [HEADINGS, *rows(report)]
    lines = [
        row[0].ljust(12) + "".join(field.rjust(12) for field in row[1:]) for row in table
    ]
    return "\n".join([*lines, *summary(report)])


def html_of(report: dict[str, Any]) -> str:
    """The report as a page."""

    def line(row: Sequence[str], cell: str) -> str:
        fields = "".join(f"<{cell}>{html.escape(field)}</{cell}>" for field in row)
        return f"<tr>{fields}</tr>"

    table = [line(HEADINGS, "th"), *(line(row, "td") for row in rows(report))]
    settings = [line((name, str(value)), "td") for name, value in report["settings"].items()]
    said = [f"<p>{html.escape(text)}</p>" for text in summary(report)]
    checks = [
        line((one["text"], "holds" if not one["violations"] else f"{one['violations']}"), "td")
        for part in ("conditions", "stock")
        for one in report["conditions"][part]
    ]
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            "<title>TPC-C over shards</title><style>body{font-family:sans-serif;margin:2em}"
            "td,th{padding:2px 12px;text-align:right}td:first-child{text-align:left}</style>",
            "</head><body><h1>TPC-C over shards</h1>",
            "<table>", *table, "</table>", *said,
            "<h2>Conditions</h2><table>", *checks, "</table>",
            "<h2>Settings</h2><table>", *settings, "</table></body></html>",
        ]
    )  # fmt: skip
