#!/usr/bin/env python3
"""driver_test.py - the TPC-C program as scripts use it: exit status, JSON names, reopening, dump,
errors that name the thing.

Usage: driver_test.py DRIVER
"""

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile

DRIVER = sys.argv[1]


def run(*arguments, status=0, says=""):
    done = subprocess.run([DRIVER, *arguments], capture_output=True, text=True, timeout=250)
    text = done.stdout + done.stderr
    ok = done.returncode != 0 if status is None else done.returncode == status
    if not ok or says not in text:
        sys.exit(
            f"{arguments}: status {done.returncode}, expected {status}, text with '{says}':\n{text}"
        )
    return text


def check_json(path, warehouses, transactions):
    with open(path) as file:
        result = json.load(file)
    assert result["tx_per_s"] > 0 and result["tpmC"] > 0, result
    assert set(result["transactions"]) == {
        "NewOrder",
        "Payment",
        "OrderStatus",
        "Delivery",
        "StockLevel",
    }
    for stats in result["transactions"].values():
        assert {"count", "p50_us", "p90_us", "p99_us", "p999_us"} <= set(stats), stats
        assert stats["p50_us"] <= stats["p90_us"] <= stats["p99_us"] <= stats["p999_us"], stats
    assert sum(stats["count"] for stats in result["transactions"].values()) == transactions
    assert [c["id"] for c in result["conditions"]] == list(range(1, 13)) and all(
        c["ok"] for c in result["conditions"]
    )
    assert "deadlock" in result["aborts"] and result["settings"]["warehouses"] == warehouses


def check(directory):
    db, out, dump = (os.path.join(directory, name) for name in ("db", "out.json", "csv"))
    run("--path", db, "-w", "1", "--transactions", "3000", "--json", out, says="tpmC")
    check_json(out, 1, 3000)
    run(
        "--path",
        db,
        "--transactions",
        "1000",
        "--workers",
        "2",
        "--durability",
        "durable",
        "--json",
        out,
        says="reopened",
    )
    check_json(out, 1, 1000)
    run("--path", db, "--check-only", says="holds")
    run("--path", db, "--dump", dump)
    with open(os.path.join(dump, "warehouse.csv")) as warehouses, open(
        os.path.join(dump, "district.csv")
    ) as districts:
        w_ytd = sum(float(row["w_ytd"]) for row in csv.DictReader(warehouses))
        d_ytd = sum(float(row["d_ytd"]) for row in csv.DictReader(districts))
    assert abs(w_ytd - d_ytd) < 0.01 and w_ytd > 300000, (w_ytd, d_ytd)

    run("--path", db, "-w", "2", status=2, says="--warehouses")
    run(
        "--path",
        os.path.join(directory, "none"),
        "--check-only",
        status=2,
        says=os.path.join(directory, "none"),
    )
    run("--path", "/proc/nothing/here", status=2, says="/proc/nothing/here")
    run("--json", "/proc/nothing/here", status=2, says="/proc/nothing/here")
    run("--pool", "1M", status=2, says="pool_bytes")
    for bad in (
        ["--nonsense"],
        ["--txn", "all"],
        ["--pool", "many"],
        ["--check-only"],
        ["--workers", "0"],
    ):
        run(*bad, status=None, says=bad[0].lstrip("-"))


directory = tempfile.mkdtemp(prefix="lockstep-driver-")
try:
    check(directory)
finally:
    shutil.rmtree(directory, ignore_errors=True)
print("the driver does as scripts rely on")
