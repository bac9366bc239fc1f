#!/usr/bin/env python3
"""dashboard.py - writes a dashboard for Grafana over the metrics of stores.

Usage: dashboard.py OUTPUT. Grafana 10 and newer import the file. The dashboard asks for the data
source, and shows one or several stores by their label `instance`.
"""

import json
import pathlib
import sys
from typing import Any, NamedTuple

WIDTH, HEIGHT, ACROSS = 8, 8, 24
HERE = '{instance=~"$instance"}'


class Panel(NamedTuple):
    """One picture: its title, the unit of its values, and its lines: legend -> expression."""

    title: str
    unit: str
    lines: dict[str, str]


def of(metric: str) -> str:
    """A metric of the chosen stores."""
    return f"lockstep_{metric}{HERE}"


def rate(metric: str, by: str = "") -> str:
    """How fast a counter grows, for each value of the label `by`."""
    labels = f"instance, {by}" if by else "instance"
    return f"sum by ({labels}) (rate({of(metric)}[$__rate_interval]))"


def gauge(metric: str, by: str = "") -> str:
    """A gauge, for each value of the label `by`."""
    return f"sum by (instance, {by}) ({of(metric)})" if by else of(metric)


def ratio(part: str, whole: str) -> str:
    """One gauge as a share of another."""
    return f"{of(part)} / {of(whole)}"


ROWS = {
    "Transactions": (
        Panel("Transactions", "ops", {"{{outcome}}": rate("transactions_total", "outcome")}),
        Panel("Run again", "ops", {"run again": rate("transaction_retries_total")}),
        Panel(
            "Open",
            "short",
            {"transactions": gauge("transactions_active"), "prepared": gauge("prepared_open")},
        ),
        Panel("Waits of threads", "s", {"{{cause}}": rate("wait_seconds_total", "cause")}),
        Panel("Waits for locks", "s", {"seconds each second": rate("lock_wait_seconds_total")}),
        Panel("Requests in stages", "short", {"{{stage}}": gauge("stage_requests", "stage")}),
    ),
    "Log and pages": (
        Panel(
            "Log in use",
            "percentunit",
            {"log": ratio("log_used_bytes", "log_capacity_bytes")},
        ),
        Panel("Log written", "Bps", {"log": rate("log_written_bytes_total")}),
        Panel(
            "Syncs of the log",
            "ops",
            {"syncs": rate("log_syncs_total"), "durable waits": rate("log_durable_waits_total")},
        ),
        Panel(
            "Pages",
            "ops",
            {
                "read": rate("pages_read_total"),
                "written": rate("pages_written_total"),
                "evicted": rate("pages_evicted_total"),
            },
        ),
        Panel(
            "Pool",
            "percentunit",
            {
                "resident": ratio("pool_resident_pages", "pool_frames"),
                "dirty": ratio("pool_dirty_pages", "pool_frames"),
            },
        ),
        Panel(
            "To be cleaned",
            "short",
            {"pages to free": gauge("pages_to_free"), "leaves": gauge("leaves_to_clean")},
        ),
    ),
    "Snapshots, reports, archive": (
        Panel(
            "Oldest state",
            "s",
            {
                "snapshot": gauge("snapshot_oldest_seconds"),
                "report": gauge("report_state_oldest_seconds"),
            },
        ),
        Panel("Versions", "bytes", {"versions": gauge("version_bytes")}),
        Panel(
            "Chunks of reports",
            "ops",
            {
                "made": rate("report_chunks_made_total"),
                "made again": rate("report_chunks_made_again_total"),
                "shared": rate("report_chunks_shared_total"),
            },
        ),
        Panel("Behind in the archive", "bytes", {"backlog": gauge("archive_backlog_bytes")}),
        Panel("Memory", "bytes", {"{{part}}": gauge("memory_bytes", "part")}),
        Panel("Uptime", "s", {"uptime": gauge("uptime_seconds")}),
    ),
}


def picture(number: int, panel: Panel, x: int, y: int) -> dict[str, Any]:
    """A panel as Grafana has it."""
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "datasource": source,
        "gridPos": {"x": x, "y": y, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + i),
                "datasource": source,
                "expr": expression,
                "legendFormat": "{{instance}} " + legend,
            }
            for i, (legend, expression) in enumerate(panel.lines.items())
        ],
    }


def dashboard() -> dict[str, Any]:
    """All rows, three pictures side by side."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        place = {"x": 0, "y": y, "w": ACROSS, "h": 1}
        panels.append({"id": len(panels) + 1, "type": "row", "title": title, "gridPos": place})
        y += 1
        for i, panel in enumerate(row):
            x = i * WIDTH % ACROSS
            panels.append(picture(len(panels) + 1, panel, x, y))
            if x + WIDTH == ACROSS:
                y += HEIGHT
    source = {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    instance = {
        "name": "instance",
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "query": "label_values(lockstep_store_info, instance)",
        "multi": True,
        "includeAll": True,
        "refresh": 2,
    }
    return {
        "title": "Lockstep",
        "uid": "lockstep",
        "tags": ["lockstep"],
        "schemaVersion": 38,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": [source, instance]},
        "panels": panels,
    }


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_text(json.dumps(dashboard(), indent=1) + "\n")
