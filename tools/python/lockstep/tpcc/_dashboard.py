"""`python -m lockstep.tpcc dashboard`: a page with figures of a running mix, new each second.

Four questions are asked at the same time in one report. Two of them read the order lines: these
share one pass over the table.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import http.server
import json
import pathlib
import threading
import time
from typing import Any, ClassVar

from .._report import Report
from .._store import Store
from ._background import Background
from ._mix import Mix, open_store
from ._settings import Settings

PAGE = pathlib.Path(__file__).with_name("dashboard.html")
QUESTIONS = {
    "orders": """
select second - max(second) over () as second, orders from
    (select epoch(o_entry_d)::bigint as second, count(*) as orders from orders group by second)
order by second desc limit 60""",
    "revenue": """
select ol_w_id, ol_d_id, sum(ol_amount)::double as revenue from order_line
group by ol_w_id, ol_d_id order by revenue desc limit 10""",
    "items": """
select ol_i_id, sum(ol_quantity)::bigint as pieces from order_line
group by ol_i_id order by pieces desc, ol_i_id limit 10""",
    "stock": """
select s_w_id, count(*) filter (s_quantity < 15) as low, count(*) from stock
group by s_w_id order by s_w_id""",
}


class Figures:
    """Asks the questions each `period` seconds, in a thread, until stop()."""

    def __init__(self, store: Store, period: float) -> None:
        self._store, self._period = store, period
        self._pool = concurrent.futures.ThreadPoolExecutor(len(QUESTIONS))
        self._commits, self._since = store.stats()["commits"], time.monotonic()
        #: What the page shows.
        self.newest = b"{}"
        self._thread = Background([self._refresh], "figures")
        self._thread.start()

    def stop(self) -> None:
        """Waits for what is under way. Raises what stopped the thread."""
        try:
            self._thread.stop()
        finally:
            self._pool.shutdown()

    def _refresh(self) -> None:
        try:
            found = self._ask()
        except Exception as error:
            self.newest = json.dumps({"failure": str(error)}).encode()
            raise
        now, commits = time.monotonic(), self._store.stats()["commits"]
        found["per_second"] = (commits - self._commits) / max(now - self._since, 1e-9)
        self._commits, self._since = commits, now
        self.newest = json.dumps(found).encode()
        self._thread.stopped.wait(self._period)

    def _ask(self) -> dict[str, Any]:
        before, began = self._store.report_stats(), time.monotonic()
        with self._store.report() as report:
            asked = {
                name: self._pool.submit(_rows, report, text)
                for name, text in QUESTIONS.items()
            }
            found: dict[str, Any] = {name: one.result() for name, one in asked.items()}
        after = self._store.report_stats()
        found["milliseconds"] = 1e3 * (time.monotonic() - began)
        found["made"] = after["made"] - before["made"]
        found["shared"] = after["shared"] - before["shared"]
        return found


def _rows(report: Report, text: str) -> list[Any]:
    rows: list[Any] = report.sql(text).fetchall()
    return rows


class _Handler(http.server.BaseHTTPRequestHandler):
    figures: ClassVar[Figures]

    def do_GET(self) -> None:
        """The page, or the figures."""
        if self.path == "/":
            self._answer("text/html; charset=utf-8", PAGE.read_bytes())
        elif self.path == "/figures":
            self._answer("application/json", self.figures.newest)
        else:
            self.send_error(404)

    def _answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Says nothing."""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Adds the command to the others of `python -m lockstep.tpcc`."""
    one: argparse.ArgumentParser = commands.add_parser(
        "dashboard",
        help="a page with figures of a running mix, new each second",
        description="Runs the mix, and serves a page on this machine alone, for --seconds or"
        " until Ctrl-C.",
    )
    one.add_argument("--port", type=int, default=8642, help="0: any (default: 8642)")
    one.add_argument("--period", type=float, default=1.0, help="seconds between two reports")
    one.set_defaults(perform=perform)
    return one


def perform(given: argparse.Namespace, settings: Settings) -> int:
    """Runs the command; its exit status."""
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", given.port), _Handler) as server,
        open_store(given.path, settings) as store,
        Mix(store, settings) as mix,
    ):
        mix.start()
        figures = _Handler.figures = Figures(store, given.period)
        try:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            print(f"http://127.0.0.1:{server.server_port}/", flush=True)
            time.sleep(settings.seconds)
        except KeyboardInterrupt:
            pass
        finally:
            server.shutdown()
            figures.stop()
            mix.stop()
        return 0 if mix.check()["ok"] else 1
