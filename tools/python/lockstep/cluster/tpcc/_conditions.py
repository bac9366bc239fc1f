"""The consistency conditions over the union of all shards.

Each shard judges its own warehouses. A payment lies in the HISTORY of its warehouse and changes a
customer that another shard may have; an order line changes the stock of a warehouse that another
shard may have. So each shard first gives its rows that concern others, and gets theirs.
"""

from __future__ import annotations

import json
import time
from typing import Any

from .._sharded import ShardedStore
from ...tpcc._settings import Settings

QUIET_SECONDS = 20.0
OPEN = ("in_doubt", "open_branches", "active", "undelivered")


def check(store: ShardedStore, settings: Settings) -> dict[str, Any]:
    """Checks all conditions. No transaction may be under way, and none may be in doubt."""
    wait_until_quiet(store)
    keys = [_first_warehouse(settings, shard) for shard in range(settings.shards)]
    foreign = [store.call(key, "tpcc.foreign", b"") for key in keys]
    asked = []
    for shard, key in enumerate(keys):
        others = b"".join(rows for other, rows in enumerate(foreign) if other != shard)
        asked.append(store.submit_call(key, "tpcc.check", others))
    return merge([json.loads(one.result()) for one in asked])


def wait_until_quiet(store: ShardedStore) -> None:
    """Until no transaction is open anywhere. Raises TimeoutError after QUIET_SECONDS."""
    until = time.monotonic() + QUIET_SECONDS
    while True:
        found = store.status()
        parts = [found["coordinator"], *found["shards"]]
        if not any(part.get(what) for part in parts for what in OPEN):
            return
        if time.monotonic() > until:
            raise TimeoutError(f"open {QUIET_SECONDS:.0f} s after the end: {found}")
        time.sleep(0.05)


def merge(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """One report of those of all shards, in the order of their warehouses."""
    merged: dict[str, Any] = {
        "ok": all(report["ok"] for report in reports),
        "rows": sum(report["rows"] for report in reports),
        "index_faults": [fault for report in reports for fault in report["index_faults"]],
    }
    for part in ("conditions", "stock"):
        merged[part] = []
        for checks in zip(*(report[part] for report in reports), strict=True):
            one = dict(checks[0])
            one["violations"] = sum(check["violations"] for check in checks)
            one["faults"] = [fault for check in checks for fault in check["faults"]][:5]
            merged[part].append(one)
    return merged


def violations(report: dict[str, Any]) -> list[str]:
    """Lines that say which conditions do not hold, and where; empty if all hold."""
    lines: list[str] = []
    for one in [*report["conditions"], *report["stock"]]:
        if one["violations"]:
            name = f"condition {one['id']}" if "id" in one else "stock"
            lines.append(f"{name}: {one['text']}: {one['violations']} violations")
            lines += [f"  {fault}" for fault in one["faults"]]
    lines += report["index_faults"]
    return lines


def _first_warehouse(settings: Settings, shard: int) -> int:
    return shard * settings.warehouses // settings.shards + 1
