"""test_tpcc - `python -m lockstep.tpcc`: CH-benCHmark's queries beside a mix, and the dashboard."""

import contextlib
import functools
import io
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import duckdb
import lockstep
import pytest
from lockstep.tpcc import Mix, Settings, _ch, _queries
from lockstep.tpcc.__main__ import main
from lockstep.tpcc._mix import open_store

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import chromium_page

OBJECT = os.environ["LOCKSTEP_TPCC_OBJECT"]
PROGRAM = os.environ["LOCKSTEP_PROGRAM"]
TABLES = ("region", "nation", "supplier", "warehouse", "district", "customer", "orders",
          "new_order", "order_line", "item", "stock")  # fmt: skip
SMALL = {"items": 200, "customers": 30, "undelivered": 10}
# A run that grows slowly: a small database is fast.
SLOW = {"batch": 4, "under_way": 1}


def small(**changed):
    given = {"warehouses": 2, "shards": 1, "ch": True, "durability": "durable", "workers": 1}
    return Settings(object=OBJECT, **{**SMALL, **SLOW, **given, **changed})


@functools.cache
def words(*more):
    options = {**SMALL, "warehouses": 2, "workers": 1, "durability": "durable", "object": OBJECT}
    return [*more, *(f"--{name}={value}" for name, value in options.items())]


def test_the_queries_beside_the_mix(tmp_path, capsys):
    file = tmp_path / "ch.json"
    assert main([*words("ch", "--seconds=2", "--streams=2"), f"--json={file}"]) == 0
    said = capsys.readouterr().out
    assert "answers beside the mix: all equal" in said
    assert "conditions of TPC-C: all hold" in said
    found = json.loads(file.read_text())
    assert found["ok"] and found["wrong answers"] == []
    assert len(found["queries"]) == 22 and found["queries an hour"] > 0
    assert sum(one["count"] for one in found["queries"].values()) > 0
    assert 0 < found["kept share"] < 2 and found["freshness ms"] > 0
    assert found["beside"]["transactions a second"] > 0


def test_answers_equal_those_on_a_dump(tmp_path):
    """The tables travel through text files, row by row, to another database."""
    path = tmp_path / "store"
    settings = small()
    with open_store(str(path), settings) as store, Mix(store, settings) as mix:
        mix.start()
        with store.report() as report:  # beside the mix: only that nothing fails
            between = _queries.ages(report)
            for number in _queries.NUMBERS:
                report.sql(_queries.text(number, random.Random(number), between))
        assert sum(one["completed"] for one in mix.stop()["types"].values()) > 0
        assert mix.check()["ok"]
    dumped = duckdb.connect()
    for name in TABLES:
        text = tmp_path / f"{name}.csv"
        dump = [PROGRAM, "dump", "--plain", path, name, "-o", text]
        subprocess.run(dump, check=True, capture_output=True)
    empty_answers = []
    with lockstep.open(path, workers=1) as store, store.report() as report:
        for name in TABLES:
            rows = report.sql(f"select * from {name} limit 0")
            dumped.register("no_rows", rows.arrow())
            dumped.execute(f"create table {name} as select * from no_rows")
            text = tmp_path / f"{name}.csv"
            copy = f"copy {name} from '{text}' (header, nullstr '', allow_quoted_nulls false)"
            dumped.execute(copy)
        between = _queries.ages(report)
        for number in _queries.NUMBERS:
            query = _queries.text(number, random.Random(number), between)
            ours, theirs = (
                sorted(rows.fetchall(), key=repr)
                for rows in (report.sql(query), dumped.sql(query))
            )
            assert ours == theirs, number
            if not ours:
                empty_answers.append(number)
    assert len(empty_answers) < 8, empty_answers


def test_a_wrong_answer_and_a_broken_condition_are_told(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(_ch, "wrong_answers", lambda report, seed: [3, 9])
    monkeypatch.setattr(Mix, "check", lambda self: {"ok": False})
    assert main(words("ch", "--seconds=0.2", f"--path={tmp_path}/s", "--streams=0")) == 1
    said = capsys.readouterr().out
    assert "answers beside the mix: WRONG: Q3, Q9" in said and "TPC-C: BROKEN" in said


def test_wrong_answers_sees_a_difference(tmp_path, monkeypatch):
    settings = small()
    with open_store(str(tmp_path / "s"), settings) as store, Mix(store, settings):
        with store.report() as report:
            assert _ch.wrong_answers(report, 1) == []
            sql = lockstep.Report.sql

            def lose_a_row(self, query, parameters=None, *, copy=False):
                rows = sql(self, query, parameters, copy=copy)
                return rows.limit(max(0, len(rows) - 1)) if copy else rows

            monkeypatch.setattr(lockstep.Report, "sql", lose_a_row)
            assert len(_ch.wrong_answers(report, 1)) > 8


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--object=/nowhere.so"], "/nowhere.so"),
        (["--path=/proc/nothing"], "/proc/nothing"),
        (["--items=1"], "impossible scale"),
    ],
)
def test_what_cannot_be_used(given, says, capsys):
    assert main([*words("ch"), *given]) == 2
    assert says in capsys.readouterr().err


def test_a_failure_of_a_terminal_is_raised(tmp_path, monkeypatch):
    settings = small()
    with open_store(str(tmp_path / "s"), settings) as store, Mix(store, settings) as mix:
        other = small(items=5000)  # inputs that the store does not have
        monkeypatch.setattr(mix, "_settings", other)
        mix.start()
        mix._terminals._threads[0].join()
        with pytest.raises(lockstep.BadArgument, match="packet"):
            mix.stop()
        monkeypatch.undo()
        mix.start()
        assert mix.stop()["types"]["NewOrder"]["completed"] >= 0


class Dashboard:
    """The command in a thread."""

    def __enter__(self):
        self.said = io.StringIO()
        self.status = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        while not (address := re.search(r"http://\S+", self.said.getvalue())):
            assert self._thread.is_alive()
        self.address = address[0]
        return self

    def __exit__(self, *error):
        self._thread.join()

    def _run(self):
        with contextlib.redirect_stdout(self.said):
            self.status = main(words("dashboard", "--port=0", "--seconds=6", "--period=0.2"))

    def get(self, path):
        with urllib.request.urlopen(self.address + path) as answer:
            return answer.read().decode()


def test_the_dashboard():
    with Dashboard() as dashboard:
        assert "<title>TPC-C, live</title>" in dashboard.get("")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            dashboard.get("nothing")
        if chromium_page.find():
            look_at(dashboard.address)
        found = json.loads(dashboard.get("figures"))
        assert found["per_second"] > 0 and len(found["revenue"]) == 10
        assert [warehouse for warehouse, _, _ in found["stock"]] == [1, 2]
        assert found["shared"] > 0, found  # two questions read the order lines
    assert dashboard.status == 0


def look_at(address):
    """The page fills, stays right when it is narrow, and changes."""
    with chromium_page.Browser() as browser:
        browser.open(address)
        assert browser.wait_for("document.querySelectorAll('#revenue tr').length") == 10
        assert browser.value("document.querySelectorAll('#orders polyline').length") == 1
        for width in (1200, 390):
            assert browser.faults(width, "body", 1) == []
        about = "document.getElementById('about').textContent"
        first = browser.value(about)
        assert browser.wait_for(f"{about} !== {json.dumps(first)}")
