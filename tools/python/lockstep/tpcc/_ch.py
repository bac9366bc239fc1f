"""`python -m lockstep.tpcc ch`: CH-benCHmark's 22 queries by DuckDB, beside a running mix.

A stream asks the 22 queries in sets, in an order of its own. A set is one report, whose state it
may share with other streams. *Freshness* is how old a state is when an answer arrives.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import pathlib
import random
import statistics
import threading
import time
from typing import Any

from .._report import Report
from .._store import Store
from . import _queries
from ._background import Background
from ._mix import Mix, open_store
from ._settings import Settings

#: Its joins need to know how large the tables are: without `copy` it takes minutes.
_ONLY_COPIED = (7,)


class Streams:
    """Threads that ask queries until stop()."""

    def __init__(self, store: Store, count: int, max_age: float, seed: int) -> None:
        self._store, self._max_age = store, max_age
        self._lock = threading.Lock()
        #: State -> when a stream saw it first.
        self._seen: dict[int, float] = {}
        self.seconds: dict[int, list[float]] = {number: [] for number in _queries.NUMBERS}
        self.ages: list[float] = []
        #: Of the tables, in seconds, for each set.
        self.copying: list[float] = []
        self._began = time.monotonic()
        draws = [random.Random(f"{seed} {number}") for number in range(count)]
        self._threads = Background(
            [functools.partial(self._ask_set, draw) for draw in draws], "stream"
        )
        self._threads.start()

    def stop(self) -> float:
        """Waits for what is under way; how long the streams asked. Raises what stopped one."""
        self._threads.stop()
        return time.monotonic() - self._began

    def _ask_set(self, draw: random.Random) -> None:
        with self._store.report(max_age=self._max_age) as report:
            with self._lock:
                since = self._seen.setdefault(report.sees, time.monotonic())
            between = _queries.ages(report)
            order = draw.sample(_queries.NUMBERS, len(_queries.NUMBERS))
            texts = {number: _queries.text(number, draw, between) for number in order}
            began = time.monotonic()
            report.copy_for(list(texts.values()))
            with self._lock:
                self.copying.append(time.monotonic() - began)
            for number, text in texts.items():
                began = time.monotonic()
                report.sql(text, copy=True).fetchall()
                ended = time.monotonic()
                with self._lock:
                    self.seconds[number].append(ended - began)
                    self.ages.append(ended - since)
                # A set has an answer, however long its copies have taken.
                if self._threads.stopped.is_set():
                    return


def wrong_answers(report: Report, seed: int) -> list[int]:
    """Queries whose scans with conditions give other rows than copies of the whole tables."""
    between = _queries.ages(report)
    wrong = []
    for number in _queries.NUMBERS:
        if number in _ONLY_COPIED:
            continue
        text = _queries.text(number, random.Random(seed + number), between)
        streamed, copied = report.sql(text), report.sql(text, copy=True)
        if sorted(streamed.fetchall(), key=repr) != sorted(copied.fetchall(), key=repr):
            wrong.append(number)
    return wrong


def cost_of_live_data(store: Store, seed: int) -> dict[str, float]:
    """Seconds of one set in a new report, and on tables that DuckDB has already."""
    duckdb = importlib.import_module("duckdb")
    with store.report() as report:
        between = _queries.ages(report)
        own = duckdb.connect()
        for name in report._described():
            rows = report.table(name)
            own.register("rows", rows)
            own.execute(f"create table {name} as select * from rows")
        texts = [
            _queries.text(number, random.Random(seed + number), between)
            for number in _queries.NUMBERS
        ]
        began = time.monotonic()
        report.copy_for(texts)
        live, copied = time.monotonic() - began, 0.0
        for text in texts:
            began = time.monotonic()
            report.sql(text, copy=True).fetchall()
            between_both = time.monotonic()
            own.sql(text).fetchall()
            live += between_both - began
            copied += time.monotonic() - between_both
    return {"live": live, "own tables": copied, "ratio": live / copied}


def run(store: Store, settings: Settings, streams: int, max_age: float) -> dict[str, Any]:
    """The mix alone, the mix beside the streams, and what of both is right; the report."""
    with Mix(store, settings) as mix:
        mix.start()
        time.sleep(settings.warmup)
        mix.stop()
        alone = _measured(mix, settings.seconds)
        before = store.report_stats()
        asking = Streams(store, streams, max_age, settings.seed)
        try:
            beside = _measured(mix, settings.seconds)
        finally:
            asked_for = asking.stop()
        after = store.report_stats()
        mix.start()
        try:
            with store.report() as report:
                wrong = wrong_answers(report, settings.seed)
        finally:
            mix.stop()
        conditions = mix.check()
        cost = cost_of_live_data(store, settings.seed)
    asked = [one for times in asking.seconds.values() for one in times]
    return {
        "settings": {**settings.as_dict(), "streams": streams, "max_age": max_age},
        "alone": alone,
        "beside": beside,
        "kept share": beside["transactions a second"] / alone["transactions a second"],
        "queries": {
            f"Q{number}": {
                "count": len(times),
                "ms": 1e3 * statistics.mean(times) if times else None,
            }
            for number, times in asking.seconds.items()
        },
        "queries an hour": 3600 * len(asked) / asked_for,
        "copying a set, ms": 1e3 * statistics.mean(asking.copying) if asking.copying else None,
        "freshness ms": 1e3 * statistics.mean(asking.ages) if asking.ages else None,
        "scans": {name: after[name] - before[name] for name in ("scans", "made", "shared")},
        "a set of 22, seconds": cost,
        "wrong answers": wrong,
        "conditions": conditions,
        "ok": not wrong and conditions["ok"],
    }


def _measured(mix: Mix, seconds: float) -> dict[str, float]:
    began = time.monotonic()
    mix.start()
    time.sleep(seconds)
    found = mix.stop()
    took = time.monotonic() - began
    new_orders = found["types"]["NewOrder"]
    count = sum(one["completed"] for one in found["types"].values())
    return {
        "transactions a second": count / took,
        "New-Orders a minute": 60 * new_orders["completed"] / took,
        "New-Order p99 ms": new_orders["latency_ns"]["p99"] / 1e6,
    }


def text_of(report: dict[str, Any]) -> str:
    """The report as text."""
    lines = ["                          alone     beside"]
    for name, alone in report["alone"].items():
        lines.append(f"{name:<22}{alone:>9.2f}{report['beside'][name]:>11.2f}")
    lines.append(f"kept share            {report['kept share']:>20.2f}")
    for name, one in report["queries"].items():
        mean = "-" if one["ms"] is None else f"{one['ms']:.1f} ms"
        lines.append(f"{name:<4} {one['count']:>6} times {mean:>12}")
    lines.append(f"{report['queries an hour']:.0f} queries an hour")
    if report["copying a set, ms"] is not None:
        lines.append(f"copying the tables of a set: {report['copying a set, ms']:.0f} ms")
    if report["freshness ms"] is not None:
        lines.append(f"freshness: {report['freshness ms']:.0f} ms when an answer arrives")
    cost = report["a set of 22, seconds"]
    lines.append(
        f"a set of 22: {cost['live']:.2f} s in a new report, {cost['own tables']:.2f} s on tables"
        f" that DuckDB has, ratio {cost['ratio']:.2f}"
    )
    wrong = ", ".join(f"Q{number}" for number in report["wrong answers"])
    lines.append(f"answers beside the mix: {f'WRONG: {wrong}' if wrong else 'all equal'}")
    held = "all hold" if report["conditions"]["ok"] else "BROKEN"
    lines.append(f"conditions of TPC-C: {held}")
    return "\n".join(lines)


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Adds the command to the others of `python -m lockstep.tpcc`."""
    one: argparse.ArgumentParser = commands.add_parser(
        "ch",
        help="CH-benCHmark: 22 queries by DuckDB beside the mix",
        description="Runs the mix alone, then beside streams of CH-benCHmark's 22 queries, and"
        " compares answers. Exit status 1: an answer is wrong, or a condition does not hold.",
    )
    one.add_argument("--streams", type=int, default=1, help="of queries (default: 1)")
    one.add_argument("--max-age", type=float, default=1.0, help="of a state, in seconds")
    one.set_defaults(perform=perform)
    return one


def perform(given: argparse.Namespace, settings: Settings) -> int:
    """Runs the command; its exit status."""
    with open_store(given.path, settings) as store:
        report = run(store, settings, given.streams, given.max_age)
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(report, indent=2) + "\n")
    print(text_of(report))
    return 0 if report["ok"] else 1
