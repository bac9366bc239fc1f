"""test_reports - columns, and reports as tables, frames and SQL, beside transactions that go on."""

import datetime
import decimal
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import threading
import time

import lockstep
import polars
import pyarrow
import pytest
from conftest import SMALL
from lockstep import _report
from lockstep._command import main

TEXT = """
id     u32         key
part   u16         value 0   null 3
price  decimal(2)  value 2
at     time_us     value 10
day    date        value 18
name   text8       value 22
"""
ROWS = 30_000
PARTS = 7
DAY = datetime.date(2026, 1, 1)
NOON = datetime.datetime(2026, 1, 1, 12)
EPOCH = datetime.datetime(1970, 1, 1)


@pytest.fixture(autouse=True)
def traced_on_threads_of_polars(monkeypatch):
    """Polars calls the package on threads of its own, where coverage counts no line unasked."""
    frames = _report._frames

    def traced(*arguments):
        sys.settrace(threading.gettrace())
        yield from frames(*arguments)

    monkeypatch.setattr(_report, "_frames", traced)


def value(row: int, price: int | None = None) -> bytes:
    name = f"name {row % 50}".encode()
    micros = (NOON - EPOCH) // datetime.timedelta(microseconds=1) + row
    days = (DAY - EPOCH.date()).days + row % 10
    cents = row * 3 - 7000 if price is None else price
    return struct.pack("<HqqiB", row % PARTS, cents, micros, days, len(name)) + name


@pytest.fixture
def lines(store):
    index = store.index("lines", create=True)
    with store.transaction() as txn:
        txn.bulk_load(index, (((lockstep.U32(row),), value(row)) for row in range(ROWS)))
    store.describe("lines", TEXT)
    return index


def cents(rows):
    return decimal.Decimal(sum(row * 3 - 7000 for row in rows)).scaleb(-2)


def without(monkeypatch, *names):
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


def test_columns_are_described(store, lines):
    text = store.columns("lines")
    assert text.splitlines()[0] == "id u32 key"
    store.describe("lines", text)
    assert store.columns("lines") == text
    with pytest.raises(lockstep.BadArgument, match="u33") as wrong:
        store.describe("lines", "id u32 key\nx u33 value 0")
    assert wrong.value.numbers[:2] == (2, 3)
    store.describe("lines", "")
    with pytest.raises(lockstep.NoSuchRecord):
        store.columns("lines")
    with pytest.raises(lockstep.NoSuchObject):
        store.describe("none", TEXT)
    with pytest.raises(TypeError, match="columns is a text"):
        store.describe("lines", None)
    long = "\n".join(f"column_with_a_long_name_{i} u8 value {i}" for i in range(100))
    store.describe("lines", "id u32 key\n" + long)
    assert len(store.columns("lines").splitlines()) == 101


def test_a_table_in_each_library(store, lines):
    with store.report() as report:
        table = pyarrow.table(report.table("lines"))
        frame = polars.DataFrame(report.table("lines", ["name", "price"]))
    assert table.num_rows == frame.height == ROWS
    assert table.schema.field("price").type == pyarrow.decimal128(18, 2)
    assert table.schema.field("at").type == pyarrow.timestamp("us")
    assert table.column("part").null_count == len([r for r in range(ROWS) if r % PARTS == 3])
    assert frame.columns == ["name", "price"]
    assert frame["price"].sum() == cents(range(ROWS))
    first = table.sort_by("id").slice(8, 1).to_pylist()[0]
    assert first == {
        "id": 8,
        "part": 1,
        "price": decimal.Decimal("-69.76"),
        "at": NOON + datetime.timedelta(microseconds=8),
        "day": DAY + datetime.timedelta(days=8),
        "name": "name 8",
    }


def test_a_table_in_pandas(store, lines):
    import pandas

    with store.report() as report:
        frame = pandas.DataFrame.from_arrow(report.table("lines", ["id"]))
    assert sorted(frame["id"]) == list(range(ROWS))


@pytest.mark.parametrize(
    ("decimals", "kind"),
    [
        ("wide", pyarrow.decimal128(18, 2)),
        ("narrow", pyarrow.decimal64(18, 2)),
        ("integer", pyarrow.int64()),
    ],
)
def test_forms_of_decimals(store, lines, decimals, kind):
    with store.report() as report:
        table = pyarrow.table(report.table("lines", ["price"], decimals=decimals))
        with pytest.raises(ValueError, match="decimals is one of"):
            report.table("lines", decimals="other")
    field = table.schema.field("price")
    assert field.type == kind
    scale = (field.metadata or {}).get(b"lockstep.scale")
    assert scale == (b"2" if decimals == "integer" else None)


WHERE = [
    ([("id", "<", 10)], lambda row: row < 10),
    ([("id", ">=", 100), ("id", "<=", 200)], lambda row: 100 <= row <= 200),
    ([("part", "in", [1, 2])], lambda row: row % PARTS in (1, 2)),
    ([("part", "==", 3)], lambda row: False),
    ([("price", ">", decimal.Decimal("10.5"))], lambda row: row * 3 - 7000 > 1050),
    ([("price", "==", -7)], lambda row: row * 3 - 7000 == -700),
    ([("name", "prefix", "name 4")], lambda row: f"name {row % 50}".startswith("name 4")),
    ([("day", "==", DAY)], lambda row: row % 10 == 0),
    ([("at", "<", NOON + datetime.timedelta(microseconds=5))], lambda row: row < 5),
    ([("at", "<", NOON.replace(tzinfo=datetime.UTC))], lambda row: False),
]


@pytest.mark.parametrize(("where", "meets"), WHERE)
def test_conditions(store, lines, where, meets):
    with store.report() as report:
        table = pyarrow.table(report.table("lines", ["id"], where, ordered=True))
    assert table.column("id").to_pylist() == [row for row in range(ROWS) if meets(row)]


def test_arguments_that_are_refused(store, lines):
    with store.report() as report:
        for wrong, error in [
            ((["none"],), lockstep.BadArgument),
            (("id",), TypeError),
            (([], [("none", "==", 1)]), lockstep.BadArgument),
            (([], [("id", "!=", 1)]), ValueError),
            (([], ["id"]), TypeError),
            (([], [("price", "==", decimal.Decimal("0.001"))]), ValueError),
            (([], [("day", "==", NOON)]), TypeError),
        ]:
            with pytest.raises(error):
                report.table("lines", *wrong)
        for where in ([("id", "==", "x")], [("name", "==", 2.5)], [("id", "==", True)]):
            with pytest.raises((lockstep.BadArgument, TypeError)):
                pyarrow.table(report.table("lines", [], where))
        with pytest.raises(lockstep.NoSuchObject):
            report.table("none")
        store.index("plain", create=True)
        with pytest.raises(lockstep.NoSuchRecord):
            report.table("plain")
        assert "lines" in repr(report.table("lines"))
    for age in (-1, None):
        with pytest.raises((ValueError, TypeError)):
            store.report(max_age=age)


def test_a_frame_reads_what_it_needs(store, lines, monkeypatch):
    asked = []
    scan = lockstep._core.report_scan
    monkeypatch.setattr(
        lockstep._core, "report_scan", lambda *given: asked.append(given[2:4]) or scan(*given)
    )
    column = polars.col
    with store.report() as report:
        frame = report.frame("lines")
        assert frame.collect_schema()["price"] == polars.Decimal(18, 2)
        for predicate, conditions, meets in [
            (column("id") < 10, [("id", 1, [10])], lambda row: row < 10),
            (polars.lit(10, polars.UInt32) > column("id"), None, lambda row: row < 10),
            (
                (column("id") >= 5) & (column("price") <= decimal.Decimal("-69.85")),
                None,
                lambda row: 5 <= row and row * 3 - 7000 <= -6985,
            ),
            (column("price") < -69, [("price", 1, [-6900])], lambda row: row * 3 - 7000 < -6900),
            (column("name").str.starts_with("name 49"), [("name", 6, ["name 49"])], None),
            (column("day") == DAY, None, lambda row: row % 10 == 0),
            (column("at") <= NOON, None, lambda row: row == 0),
            (column("id") == -1, [], lambda row: False),
            (column("part").is_null(), [], lambda row: row % PARTS == 3),
            (column("price") > decimal.Decimal("1.001"), [], lambda row: row * 3 - 7000 > 100),
        ]:
            asked.clear()
            found = frame.filter(predicate).select("id").collect()["id"].to_list()
            wanted = meets or (lambda row: row % 50 == 49)
            assert sorted(found) == [row for row in range(ROWS) if wanted(row)], predicate
            columns, given = asked[-1]
            assert set(columns) == {"id", *predicate.meta.root_names()}
            if conditions is None:
                assert given, predicate
            else:
                assert given == conditions, predicate
        assert frame.head(5).collect().height == 5
        assert frame.select(polars.len()).collect().item() == ROWS


QUERY = "select part, count(*), sum(price) from lines where id < 1000 group by part order by part"


@pytest.mark.parametrize("with_polars", [True, False])
def test_sql(store, lines, monkeypatch, with_polars):
    store.index("empty", create=True)
    store.describe("empty", "id u32 key")
    store.describe("empty", "")
    if not with_polars:
        without(monkeypatch, "polars")
    with store.report() as report:
        result = report.sql(QUERY)
        joined = report.sql("select count(*) from lines a join lines b on a.id = b.id + 1")
        least = report.sql("select min(id) from lines where id > $least", {"least": 77})
    rows = result.fetchall()
    parts = [part for part in range(PARTS) if part != 3]
    assert [row[0] for row in rows] == [*parts, None]
    for part, count, total in rows:
        ids = [row for row in range(1000) if row % PARTS == (3 if part is None else part)]
        assert (count, total) == (len(ids), cents(ids))
    assert joined.fetchall() == [(ROWS - 1,)]
    assert least.fetchall() == [(78,)]


def test_sql_over_a_store_without_columns(store):
    import duckdb

    with store.report() as report:
        assert report.sql("select 42").fetchall() == [(42,)]
        with pytest.raises(duckdb.Error, match="lines"):
            report.sql("select * from lines")


@pytest.mark.parametrize("with_polars", [True, False])
def test_an_error_of_a_scan_is_raised(store, lines, monkeypatch, with_polars):
    if not with_polars:
        without(monkeypatch, "polars")
    lines[(lockstep.U32(12),)] = b"short"
    with store.report() as report:
        with pytest.raises(lockstep.BadArgument, match="bad_argument"):
            report.sql("select sum(price) from lines")
        with pytest.raises(Exception, match="bad_argument"):
            pyarrow.table(report.table("lines"))
        if with_polars:  # then only the columns that the query names are read
            assert report.sql("select count(id) from lines").fetchall() == [(ROWS,)]


def test_absent_packages_say_what_to_install(store, monkeypatch):
    without(monkeypatch, "duckdb", "polars")
    with store.report() as report:
        with pytest.raises(ModuleNotFoundError, match="pip install duckdb"):
            report.sql("select 1")
        with pytest.raises(ModuleNotFoundError, match="pip install polars"):
            report.frame("lines")


def test_a_report_that_is_closed(store, lines):
    report = store.report()
    assert report.sees > 0
    table, frame = report.table("lines"), report.frame("lines")
    data = pyarrow.table(table)
    reader = pyarrow.RecordBatchReader.from_stream(table)
    reader.read_next_batch()
    report.close()
    report.close()
    with pytest.raises(Exception, match="cancelled"):
        for _ in range(100):
            reader.read_next_batch()
    for use in (
        lambda: report.sees,
        lambda: report.sql("select 1"),
        lambda: pyarrow.table(table),
        report.cancel,
    ):
        with pytest.raises(lockstep.StoreClosed):
            use()
    with pytest.raises(Exception, match="report, which was closed"):
        frame.collect()
    assert data.num_rows == ROWS


def test_a_store_that_is_closed(tmp_path):
    with lockstep.open(tmp_path / "s", **SMALL) as store:
        index = store.index("lines", create=True)
        with store.transaction() as txn:
            txn.bulk_load(index, (((lockstep.U32(row),), value(row)) for row in range(ROWS)))
        store.describe("lines", TEXT)
        report = store.report()
        reader = pyarrow.RecordBatchReader.from_stream(report.table("lines"))
        batch = reader.read_next_batch()
        left = pyarrow.RecordBatchReader.from_stream(report.table("lines"))
    with pytest.raises(Exception, match="store_closed"):
        left.read_all()
    with pytest.raises(lockstep.StoreClosed, match="report, which was closed or whose store"):
        report.cancel()
    report.close()
    assert batch.num_rows > 0
    del reader, left, report


def test_a_dropped_report_gives_its_state_up(store, lines):
    report = store.report()
    assert store.stats()["snapshots_open"] == 1
    del report
    deadline = time.monotonic() + 20
    while store.stats()["snapshots_open"] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert store.stats()["snapshots_open"] == 0


def test_a_cancel_from_another_thread(store, lines):
    with store.report() as report:
        reader = pyarrow.RecordBatchReader.from_stream(report.table("lines"))
        thread = threading.Thread(target=report.cancel)
        thread.start()
        thread.join()
        with pytest.raises(Exception, match="cancelled"):
            reader.read_all()
        assert report.sql("select count(*) from lines").fetchall() == [(ROWS,)]


def test_ctrl_c_ends_a_query(store, lines):
    import signal

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with store.report() as report:
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            with pytest.raises(KeyboardInterrupt):
                report.sql("select count(*) from lines a, lines b, lines c where a.id < b.id")
        with pytest.raises(KeyboardInterrupt):
            with store.report() as report:
                signal.setitimer(signal.ITIMER_REAL, 0.3)
                while True:
                    pyarrow.table(report.table("lines"))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with store.report() as report:
        assert report.sql("select count(*) from lines").fetchall() == [(ROWS,)]


def test_reports_beside_writers_see_one_state(tmp_path):
    """Writers move money between accounts; each report sees the same sum, and others go on."""
    with lockstep.open(tmp_path / "s", **{**SMALL, "workers": 2}) as store:
        accounts = store.index("accounts", create=True)
        others = store.index("others", create=True)
        count, money = 2000, 100
        for index in (accounts, others):
            with store.transaction() as txn:
                records = [((lockstep.U32(i),), struct.pack("<q", money)) for i in range(count)]
                txn.bulk_load(index, records)
            store.describe(index.name, "id u32 key, balance decimal(0) value 0")
        stop = threading.Event()
        moved = [0, 0]

        def move(writer):
            turn = writer
            while not stop.is_set():
                turn += 1
                one, two = (turn * 31 % count,), (turn * 17 % count,)

                def transfer(txn):
                    for index, place, by in ((accounts, one, -1), (others, two, 1)):
                        key = (lockstep.U32(place[0]),)
                        record = txn.get(index, key, access=lockstep.Access.WRITE)
                        (balance,) = struct.unpack("<q", record)
                        txn.put(index, key, struct.pack("<q", balance + by))

                store.run(transfer)
                moved[writer] += 1

        failures = []

        def ask():
            try:
                for _ in range(5):
                    with store.report() as report:
                        sums = report.sql(
                            "select (select sum(balance) from accounts),"
                            " (select sum(balance) from others)"
                        ).fetchall()[0]
                        again = pyarrow.table(report.table("accounts", ["balance"]))
                    assert sum(sums) == 2 * count * money
                    assert sum(again.column(0).to_pylist()) == sums[0]
            except BaseException as error:
                failures.append(error)

        writers = [threading.Thread(target=move, args=(i,)) for i in range(2)]
        readers = [threading.Thread(target=ask) for _ in range(4)]
        for thread in writers + readers:
            thread.start()
        for thread in readers:
            thread.join()
        stop.set()
        for thread in writers:
            thread.join()
        assert not failures
        assert min(moved) > 0


def test_the_gil_is_free_while_a_consumer_waits(tmp_path):
    """A change waits for a key function in Python, and the scan for the change's worker."""
    few = 500  # each calls the key function
    with lockstep.open(tmp_path / "s", **SMALL) as store:
        index = store.index("lines", create=True)
        with store.transaction() as txn:
            txn.bulk_load(index, (((lockstep.U32(row),), value(row)) for row in range(few)))
        store.describe("lines", TEXT)
        inside, go_on = threading.Event(), threading.Event()

        def key(key, value):
            if threading.current_thread() is not threading.main_thread() and not go_on.is_set():
                inside.set()
                go_on.wait(20)
            return value[:2]

        go_on.set()
        store.secondary_index("by_part", index, key)
        go_on.clear()
        with store.report() as report:
            reader = report.table("lines")
            writer = threading.Thread(
                target=lambda: index.__setitem__((lockstep.U32(few),), value(few))
            )
            writer.start()
            inside.wait(20)
            release = threading.Timer(0.3, go_on.set)
            release.start()
            began = time.monotonic()
            frame = polars.DataFrame(reader)  # waits for the only worker
            assert frame.height == few
            assert time.monotonic() - began < 15
            writer.join()
            release.join()


@pytest.fixture
def closed(tmp_path):
    """A store of two rows that is closed."""
    path = tmp_path / "closed"
    with lockstep.open(path, **SMALL) as store:
        parts = store.index("parts", create=True)
        for row, name in enumerate(("bolt", "a, b")):
            parts[(lockstep.U32(row),)] = struct.pack("<q", row * 5) + name.encode()
        store.describe("parts", "id u32 key, price decimal(1) value 0, name text value 8")
    return path


FORMS = {
    "table": "id  price  name\n 0    0.0  bolt\n 1    0.5  a, b\n",
    "csv": 'id,price,name\n0,0.0,bolt\n1,0.5,"a, b"\n',
    "json": '{"id": 0, "price": "0.0", "name": "bolt"}\n'
    '{"id": 1, "price": "0.5", "name": "a, b"}\n',
}


@pytest.mark.parametrize("form", FORMS)
def test_the_command(closed, capsys, form):
    assert main(str(closed), "select * from parts order by id", form) == 0
    assert capsys.readouterr().out == FORMS[form]


def test_errors_of_the_command(closed, capsys, monkeypatch, tmp_path):
    for path, query, says in (
        (closed, "select * from none", "query: Catalog Error"),
        (closed, "selec", "query: Parser Error"),
        (tmp_path / "none", "select 1", "none: "),
    ):
        assert main(str(path), query) == 1
        assert says in capsys.readouterr().err
    with lockstep.open(closed, **SMALL):
        assert main(str(closed), "select 1") == 1
        assert "store_locked" in capsys.readouterr().err
    without(monkeypatch, "duckdb")
    assert main(str(closed), "select 1") == 1
    assert "pip install duckdb" in capsys.readouterr().err


def test_the_command_recovers_a_store(closed, tmp_path, capsys):
    copy = tmp_path / "copy"
    with lockstep.open(closed, **SMALL):
        shutil.copytree(closed, copy)  # as after a crash
    assert main(str(copy), "select count(*) as rows from parts") == 0
    assert capsys.readouterr().out == "rows\n   2\n"


def test_the_program_starts_the_command(closed):
    """`lockstep sql` finds this interpreter as python3."""
    package = pathlib.Path(lockstep.__file__).parents[1]
    program = package.parents[2] / "bin/lockstep"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    place = pathlib.Path(sys.executable).parent
    done = subprocess.run(
        [str(program), "sql", str(closed), "select sum(price) from parts", "--csv"],
        env={**os.environ, "PATH": str(place), "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "sum(price)\n0.5\n"), done.stderr
    with lockstep.open(closed, create=False, control=True, **SMALL) as store:
        store.index("parts").erase((lockstep.U32(1),))
        done = subprocess.run(
            [str(program), "sql", str(closed), "select count(*) from parts", "--csv", "--live"],
            env={**os.environ, "PATH": str(place), "PYTHONPATH": str(package)},
            capture_output=True,
            text=True,
        )
    assert (done.returncode, done.stdout) == (0, "count_star()\n1\n"), done.stderr


def test_how_a_pass_chooses_and_what_reports_have_done(store, lines):
    with store.report() as report:
        for policy in ("automatic", "normal", "attach", "elevator", "relevance", "full"):
            table = report.table("lines", ["id"], policy=policy)
            assert polars.DataFrame(table)["id"].sum() == ROWS * (ROWS - 1) // 2
        with pytest.raises(ValueError, match="policy is one of automatic, normal.*, not 'best'"):
            report.table("lines", policy="best")
        stats = store.report_stats()
        assert stats["scans"] == 6 and stats["rows"] >= 6 * ROWS and stats["busy_nanos"] > 0
        assert stats["behind_max"] == 0 and stats["reports_open"] == 1
        (one,) = store.reports()
        assert one.sees == report.sees and one.scans == one.ran == 6 and one.progress == 1
        assert one.number == 1 and one.age_nanos > 0 and one.behind == 0
    assert store.reports() == []
