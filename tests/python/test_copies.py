"""test_copies - Report.sql(copy=True), copy_for(): what is copied, when, and if that fails."""

import struct
import threading

import duckdb
import lockstep
import pyarrow
import pytest
from lockstep import U32

TABLES = {
    "orders": "id u32 key\ncustomer u32 value 0\nprice decimal(2) value 4",
    "customers": "id u32 key\nage u16 value 0\nname text8 value 2",
    'odd "name"': "id u32 key",
}


@pytest.fixture
def tables(store):
    made = {name: store.index(name, create=True) for name in TABLES}
    for name, text in TABLES.items():
        store.describe(name, text)
    with store.transaction() as txn:
        for n in range(100):
            txn.insert(made["orders"], (U32(n),), struct.pack("<Iq", n % 10, 100 * n))
            name = f"name {n}".encode()
            value = struct.pack("<HB", 20 + n, len(name)) + name
            txn.insert(made["customers"], (U32(n),), value)
            txn.insert(made['odd "name"'], (U32(n),), b"")
    return made


@pytest.fixture
def copied(monkeypatch):
    """The scans that begin: table and columns."""
    seen = []
    begin = lockstep._report.Table._begin

    def noted(self, **changed):
        seen.append((self._name, tuple(self._columns)))
        return begin(self, **changed)

    monkeypatch.setattr(lockstep._report.Table, "_begin", noted)
    return seen


JOIN = """select name, sum(price) as total from orders join customers on customer = customers.id
group by name order by total desc limit 1"""


def answers(report, query, parameters=None):
    """The rows, which do not depend on copies."""
    rows = report.sql(query, parameters, copy=True).fetchall()
    assert rows == report.sql(query, parameters).fetchall()
    return rows


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        (JOIN, None),
        ("select count(*) from orders", None),
        ("from customers order by id limit 3", None),
        ('select max("ID") from "odd ""name"""', None),
        ("select a.id from orders a, orders b where a.id = b.customer and b.id = ?", [17]),
        ("select id from orders where price = $cents order by id", {"cents": 5}),
        ("with o as (select * from orders) select count(*) from o x, o y where x.id = y.id", None),
        ("select id from orders where 1 = 0", None),
        ("select 1", None),
    ],
)
def test_rows_are_the_same(store, tables, query, parameters):
    with store.report() as report:
        answers(report, query, parameters)


def test_heaps_are_tables(store, tables):
    heap = store.heap("notes", create=True)
    store.describe("notes", "id u64 id\nnumber u32 value 0")
    with store.transaction() as txn:
        for n in range(50):
            txn.heap_insert(heap, struct.pack("<I", n))
    with store.report() as report:
        query = "select count(distinct id), sum(number) from notes where number < 40"
        assert answers(report, query) == [(40, sum(range(40)))]
        assert "notes" in report._described()


def test_each_column_is_read_once(store, tables, copied):
    with store.report() as report:
        copied.clear()
        assert report.sql(JOIN, copy=True).fetchall() == [("name 9", 540)]
        copied[:] = [one for one in copied if one[1]]  # not those for a schema
        assert sorted(copied) == [("customers", ("id", "name")), ("orders", ("customer", "price"))]
        copied.clear()
        report.sql(JOIN, copy=True)
        dear = "select count(*) from orders where price > 5"
        assert report.sql(dear, copy=True).fetchall() == [(94,)]
        assert copied == []
        report.sql("select id from orders", copy=True)
        assert copied == [("orders", ("id", "customer", "price"))]


def test_what_several_queries_need_is_read_at_once(store, tables, copied):
    queries = [JOIN, "select id from orders", "select count(*) from customers"]
    with store.report() as report:
        copied.clear()
        report.copy_for(queries)
        copied[:] = [one for one in copied if one[1]]
        assert sorted(copied) == [
            ("customers", ("id", "name")),
            ("orders", ("id", "customer", "price")),
        ]
        copied.clear()
        asked = [*queries, "select max(price) from orders"]
        found = [report.sql(query, copy=True).fetchall() for query in asked]
        report.copy_for(queries)
        report.copy_for([])
        with pytest.raises(duckdb.CatalogException, match="nothing"):
            report.copy_for(["select * from nothing", JOIN])
        with pytest.raises(duckdb.CatalogException, match="nothing"):
            report.sql("select * from nothing", copy=True)
        with pytest.raises(lockstep.BadArgument, match="a list of queries"):
            report.copy_for(JOIN)
        assert copied == []
        assert found == [report.sql(query).fetchall() for query in asked]
    with pytest.raises(lockstep.StoreClosed, match="report"):
        report.copy_for(queries)


def test_what_was_copied_for_is_not_planned_again(store, tables, monkeypatch):
    with store.report() as report:
        report.copy_for([JOIN])
        monkeypatch.setattr(lockstep._copies.Copies, "_needs", None)
        assert report.sql(JOIN, copy=True).fetchall() == [("name 9", 540)]


def test_copies_that_failed_are_made_later(store, tables, monkeypatch):
    with store.report() as report:
        report.sql("select 1", copy=True)  # makes the empty tables
        create = lockstep._copies._create
        monkeypatch.setattr(
            lockstep._copies, "_create", lambda *_: (_ for _ in ()).throw(OSError("x"))
        )
        with pytest.raises(OSError, match="x"):
            report.copy_for([JOIN])
        monkeypatch.setattr(lockstep._copies, "_create", create)
        assert report.sql(JOIN, copy=True).fetchall() == [("name 9", 540)]


def test_who_asks_for_the_schema_begins_no_second_scan(store, tables, copied):
    with store.report() as report:
        rows = report.table("orders")
        assert pyarrow.schema(rows).names == ["id", "customer", "price"]
        assert pyarrow.table(rows).num_rows == pyarrow.table(rows).num_rows == 100
        copied.clear()
        assert duckdb.sql("select count(*), sum(price) from rows").fetchall() == [(100, 4950)]
        assert len(copied) == 1
        assert pyarrow.schema(rows).names == pyarrow.schema(rows).names
        pending = rows._take()
        pending.capsule(-1)
        with pytest.raises(lockstep.Cancelled, match="given away"):
            pending.schema()
    with pytest.raises(lockstep.StoreClosed):
        rows.__arrow_c_schema__()


def test_copies_are_of_the_reports_state(store, tables):
    with store.report() as report:
        store.index("orders").put((U32(1000),), struct.pack("<Iq", 1, 1))
        assert answers(report, "select count(*) from orders") == [(100,)]
    with store.report() as report:
        assert answers(report, "select count(*) from orders") == [(101,)]


def test_a_result_outlives_its_report(store, tables):
    with store.report() as report:
        rows = report.sql("select id from orders order by id", copy=True)
    assert len(rows.fetchall()) == 100
    with pytest.raises(lockstep.StoreClosed, match="report"):
        report.sql("select 1", copy=True)


def test_threads_share_copies(store, tables):
    with store.report() as report:
        found = []
        threads = [
            threading.Thread(target=lambda: found.append(report.sql(JOIN, copy=True).fetchall()))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [[("name 9", 540)]] * 8


def test_errors(store, tables, monkeypatch):
    with store.report() as report:
        with pytest.raises(duckdb.CatalogException, match="nothing"):
            report.sql("select * from nothing", copy=True)
        with pytest.raises(duckdb.ParserException):
            report.sql("selec 1", copy=True)
        monkeypatch.setattr(lockstep._core.ReportStream, "failure", lambda _: "no_space: full")
        monkeypatch.setattr(
            lockstep._core.ReportStream, "capsule", lambda *_: (_ for _ in ()).throw(OSError("x"))
        )
        with pytest.raises(lockstep.NoSpace, match="full"):
            report.sql("select id from orders", copy=True)
        monkeypatch.undo()
        assert report.sql("select count(id) from orders", copy=True).fetchall() == [(100,)]
