"""Reports: SQL and data frames over one committed state, while transactions go on."""

from __future__ import annotations

import collections
import contextlib
import datetime
import decimal
import functools
import importlib
import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, cast, get_args

from . import _core, _options
from ._errors import CLASSES, BadArgument, NoSuchObject, make_error, refused
from ._copies import Copies
from ._objects import Kept, OfOneProcess

if TYPE_CHECKING:
    from ._store import Store

#: A condition: column, comparison, constant. `in` takes several constants.
Where = tuple[str, Literal["==", "<", "<=", ">", ">=", "in", "prefix"], Any]
#: What decimals become: Arrow's decimal128, decimal64 and decimal32 without a copy, or integers.
Decimals = Literal["wide", "narrow", "integer"]
_COMPARISONS = ("==", "<", "<=", ">", ">=", "in", "prefix")
_DECIMALS = ("wide", "narrow", "integer")
#: How a pass chooses what it reads next; `<lockstep/report.h>` explains them.
ScanPolicy = Literal["automatic", "normal", "attach", "elevator", "relevance", "full"]
_POLICIES = get_args(ScanPolicy)
_CODES = {_core.error_name(code): code for code in CLASSES}
_DESCRIBED = "lockstep.columns"
#: Of a frame: blocks that become one frame of Polars.
_BLOCKS = 16
_EPOCH = datetime.datetime(1970, 1, 1)
_PER_SECOND = {"time_s": 1, "time_ms": 10**3, "time_us": 10**6, "time_ns": 10**9}


class Reporting(OfOneProcess):
    """The part of Store that says what bytes mean, and begins reports."""

    if TYPE_CHECKING:

        @property
        def _handle(self) -> int: ...

    def describe(self, name: str, columns: str) -> None:
        """Says what the bytes of the records of an index or heap mean. An empty text removes it.

        A line for each column: its name, its type and its place. `id u32 key` is the key's first
        part, and `price decimal(2) value 4` begins at byte 4 of the value. The header
        lockstep/columns.h lists the types. Raises BadArgument with line and column of the text,
        NoSuchObject, WrongKind.
        """
        _core.describe(self._handle, name, columns)

    def columns(self, name: str) -> str:
        """What describe() said, in its canonical form. Raises NoSuchObject, NoSuchRecord."""
        return _core.columns(self._handle, name)

    def report(self, *, max_age: float = 0) -> Report:
        """Begins a report: one committed state, which its tables, frames and queries read.

        `max_age`: how old the state may be, in seconds. Reports within it share the state, and what
        is read for them. 0: not older than the call. The store keeps versions of records until the
        report is closed, so close it soon: SnapshotTooOld ends one that is too slow.
        """
        if max_age is None:
            raise _options.wrong_type("max_age", "a number of seconds", max_age)
        return Report(cast("Store", self), _options.nanos("max_age", max_age))


    def report_stats(self) -> dict[str, int]:
        """What the reports of the store have done and do; `<lockstep/report.h>` explains it."""
        return _core.report_stats(self._handle)

    def reports(self) -> list[ReportProgress]:
        """The reports that are open, in the order in which they began."""
        return [ReportProgress(*one) for one in _core.reports(self._handle)]


class ReportProgress(NamedTuple):
    """A report that is open.

    `sees`: as Report.sees. `scans` it has begun, and `ran` of them have ended. `progress`: the
    share of their key ranges that were read. `behind`: key ranges that others have got and its
    slowest scan has not.
    """

    number: int
    sees: int
    age_nanos: int
    scans: int
    ran: int
    progress: float
    behind: int


class Report(Kept):
    """One committed state of a store. Store.report() makes it; any thread may use it.

    close() gives the state up. What still reads it ends with Cancelled.
    """

    def __init__(self, store: Store, max_age: int) -> None:
        super().__init__(store, _core.report_begin(store._handle, max_age), "report")
        self._copying = threading.Lock()
        self._copies: Copies | None = None

    def _end(self, number: int) -> None:
        """What still reads the state ends with Cancelled."""
        self._copies = None
        _core.report_cancel(number)
        _core.report_close(number)

    def cancel(self) -> None:
        """Ends what reads the state now, also in other threads: it raises there.

        The report stays open.
        """
        _core.report_cancel(self._handle)

    @property
    def sees(self) -> int:
        """The end of the log that the state has: transactions with a smaller `lsn` are in it."""
        return _core.report_sees(self._handle)

    def table(
        self,
        name: str,
        columns: Sequence[str] = (),
        where: Iterable[Where] = (),
        *,
        ordered: bool = False,
        decimals: Decimals = "wide",
        policy: ScanPolicy = "automatic",
    ) -> Table:
        """The rows of an index or heap, for everything that reads Arrow streams.

        `columns`: names; all if it is empty. `where`: conditions that rows must meet, as
        `[("id", ">=", 100)]`. `ordered`: rows in the order of their keys. `policy`: of the pass
        that the scan begins, if none is running. Raises BadArgument, NoSuchObject, NoSuchRecord
        (it is not described), TypeError, ValueError.
        """
        if isinstance(columns, str):
            raise _options.wrong_type("columns", "a list of names", columns)
        if decimals not in _DECIMALS:
            raise ValueError(f"decimals is one of {', '.join(_DECIMALS)}, not {decimals!r}")
        if policy not in _POLICIES:
            raise ValueError(f"policy is one of {', '.join(_POLICIES)}, not {policy!r}")
        types = _types(self._store.columns(name))
        for column in columns:
            _check_column(types, column)
        conditions = [_condition(types, one) for one in where]
        forms = (ordered, _DECIMALS.index(decimals), _POLICIES.index(policy))
        return Table(self, name, types, list(columns), conditions, forms)

    def frame(self, name: str) -> Any:
        """The rows of an index or heap as a Polars LazyFrame. collect() reads them.

        Polars says which columns it needs, and which conditions it has on keys, numbers, times and
        texts: only that is read. Needs the package polars.
        """
        return self._frame(_package("polars", "Report.frame()"), self.table(name))

    def _frame(self, polars: Any, table: Table) -> Any:
        register = importlib.import_module("polars.io.plugins").register_io_source
        return register(
            lambda *wanted: _frames(polars, table, *wanted),
            schema=functools.cache(lambda: polars.DataFrame(table._part(0)).schema),
            is_pure=True,
        )

    def sql(
        self,
        query: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        copy: bool = False,
    ) -> Any:
        """What a query of DuckDB gives: a relation, with fetchall(), df(), pl() and more.

        Its tables are the described indexes and heaps, by their names. The rows are in the
        result, which outlives the report. Needs the package duckdb. With polars as well, DuckDB
        says which columns and conditions it needs, and only that is read.

        `copy`: the columns that the query needs are first read into tables of DuckDB, in memory,
        and stay there for later queries with `copy` until the report is closed. Use it for joins,
        because DuckDB then knows how large the tables are, and for many queries in one report,
        best after copy_for(). Conditions are not pushed into the scans. Raises what a scan has
        raised, else duckdb.Error.
        """
        duckdb = _package("duckdb", "Report.sql()")
        self._handle  # raises if it is closed
        tables: dict[str, Table] = {}
        with self._errors_of(tables):
            if copy:
                with self._copying:
                    connection = self._copies_by(duckdb).connection(query, parameters, tables)
                return connection.sql(query, params=parameters).materialize()
            polars = _found("polars")
            tables |= {name: self.table(name) for name in self._described()}
            named = {
                name: table if polars is None else self._frame(polars, table)
                for name, table in tables.items()
            }
            connection = duckdb.connect()
            # DuckDB looks for a table that it does not know among the variables of its caller.
            said = {**named, "connection": connection, "query": query, "parameters": parameters}
            ask = "connection.sql(query, params=parameters).materialize()"
            return eval(ask, said)  # noqa: S307: the text is the line above

    def copy_for(self, queries: Sequence[str]) -> None:
        """Copies what several queries will need, for sql() with `copy`, with one scan a table.

        Else a query that needs more columns than those before it copies its tables again. A query
        with parameters cannot be planned without them: leave it out. Raises BadArgument, and as
        sql() does.
        """
        if isinstance(queries, str):
            raise refused(BadArgument, "copy_for(): takes a list of queries, not a text")
        duckdb = _package("duckdb", "Report.copy_for()")
        self._handle  # raises if it is closed
        tables: dict[str, Table] = {}
        with self._errors_of(tables), self._copying:
            self._copies_by(duckdb).copy_for(queries, tables)

    def _copies_by(self, duckdb: Any) -> Copies:
        self._copies = self._copies or Copies(self, duckdb.connect)
        return self._copies

    @contextlib.contextmanager
    def _errors_of(self, tables: dict[str, Table]) -> Iterator[None]:
        """Raises what a scan of the tables has raised, in place of DuckDB's error about it."""
        try:
            yield
        except BaseException as error:
            _core.raise_interrupt()
            if isinstance(error, RuntimeError) and str(error) == "Query interrupted":
                raise KeyboardInterrupt from error  # DuckDB has taken it
            _raise_own(tables.values(), error)

    def _described(self) -> list[str]:
        """The names of all described objects that are still there."""
        try:
            texts = self._store.index(_DESCRIBED)
        except NoSuchObject:
            return []
        there = {one.name for one in self._store.objects()}
        return [name for key, _ in texts.items() if (name := key.decode()) in there]


class Table:
    """The rows of an index or heap in a report. Whoever asks for its stream gets a scan of its own.

    pyarrow.table(table), polars.DataFrame(table), pandas.DataFrame.from_arrow(table), and DuckDB by
    the name of a variable. An error of the scan is raised there, with the engine's text.
    """

    def __init__(
        self,
        report: Report,
        name: str,
        types: dict[str, str],
        columns: list[str],
        conditions: list[_core.Condition],
        forms: tuple[bool, int, int],
    ) -> None:
        self._report = report
        self._name = name
        self._types = types
        self._columns, self._conditions = columns, conditions
        #: Ordered or not, form of decimals, policy: as _core.report_scan() takes them.
        self._forms = forms
        #: A scan that only its schema was asked of.
        self._begun: collections.deque[_core.ReportStream] = collections.deque(maxlen=1)
        #: The last scans, for their errors.
        self._streams: collections.deque[_core.ReportStream] = collections.deque(maxlen=100)

    def __repr__(self) -> str:
        return f"<Table {self._name!r}>"

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A scan, as the Arrow PyCapsule interface has it. Another schema is not made."""
        return self._take().capsule(-1)

    def __arrow_c_schema__(self) -> object:
        """The columns and their types. The next stream is that of the scan that knows them."""
        stream = self._take()
        schema = stream.schema()
        self._begun.append(stream)
        return schema

    def _take(self) -> _core.ReportStream:
        self._report._handle  # raises if it is closed
        try:
            return self._begun.pop()
        except IndexError:
            return self._begin()

    def _begin(self, **changed: Any) -> _core.ReportStream:
        stream = _core.report_scan(
            self._report._handle,
            self._name,
            changed.get("columns", self._columns),
            changed.get("conditions", self._conditions),
            *self._forms,
        )
        self._streams.append(stream)
        return stream

    def _part(self, blocks: int, stream: _core.ReportStream | None = None) -> _Part:
        return _Part(stream or self._begin(), blocks)


class _Part:
    """The next blocks of a stream, as one for Polars, which reads a stream to its end."""

    def __init__(self, stream: _core.ReportStream, blocks: int) -> None:
        self._stream, self._blocks = stream, blocks

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._stream.capsule(self._blocks)


def _raise_own(tables: Iterable[Table], error: BaseException) -> NoReturn:
    """Raises the error of the scan that has failed, if one has, else `error`."""
    for table in tables:
        for stream in table._streams:
            if text := stream.failure():
                code = _CODES.get(text.partition(":")[0], 0)
                raise make_error(code, 0, 0, 0, 0, text) from error
    raise error


def _found(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _package(name: str, who: str) -> Any:
    found = _found(name)
    if found is None:
        text = f"{who} needs the package {name}, which is not installed: pip install {name}"
        raise ModuleNotFoundError(text, name=name)
    return found


def _types(columns: str) -> dict[str, str]:
    """The types of columns by their names, from the canonical text."""
    words = (line.split() for line in columns.splitlines())
    return {line[0]: line[1] for line in words if line}


def _check_column(types: dict[str, str], column: Any) -> None:
    if column not in types:
        raise refused(BadArgument, f'columns of a scan: there is no column "{column}"')


def _condition(types: dict[str, str], given: Where) -> _core.Condition:
    if not isinstance(given, (tuple, list)) or len(given) != 3:
        raise _options.wrong_type("where", "a list of (column, comparison, constant)", given)
    column, comparison, value = given
    if comparison not in _COMPARISONS:
        raise ValueError(f"a comparison is one of {', '.join(_COMPARISONS)}, not {comparison!r}")
    _check_column(types, column)
    values = value if comparison == "in" else [value]
    of = types[column]
    return column, _COMPARISONS.index(comparison), [_stored(of, one) for one in values]


def _stored(of: str, value: Any) -> Any:
    """A constant as a column of this type stores it. Raises ValueError if that is not exact."""
    stored: Any = value
    if of.startswith("decimal") and isinstance(value, (int, decimal.Decimal)):
        stored = decimal.Decimal(value).scaleb(int(of.partition("(")[2][:-1]))
    elif of == "date" and isinstance(value, datetime.date):
        if isinstance(value, datetime.datetime):
            raise TypeError(f"a column of the type date is compared with a date, not {value!r}")
        return (value - _EPOCH.date()).days
    elif of in _PER_SECOND and isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        micros = (value - _EPOCH) // datetime.timedelta(microseconds=1)
        stored = decimal.Decimal(micros * _PER_SECOND[of]).scaleb(-6)
    if isinstance(stored, decimal.Decimal):
        if stored != stored.to_integral_value():
            raise ValueError(f"{value!r} has more places than a column of the type {of}")
        return int(stored)
    return stored


# Polars.


def _frames(
    polars: Any,
    table: Table,
    columns: list[str] | None,
    predicate: Any,
    rows: int | None,
    _batch: int | None,
) -> Iterator[Any]:
    """What a LazyFrame asks for, in parts. Rows may be read that Polars then leaves out."""
    wanted = list(columns) if columns is not None else list(table._types)
    needed = list(wanted)
    conditions: list[_core.Condition] = []
    if predicate is not None:
        needed += [name for name in predicate.meta.root_names() if name not in needed]
        conditions = list(_pushed(table._types, predicate))
    try:
        stream = table._begin(columns=needed[: len(needed) or 1], conditions=conditions)
    except BadArgument:  # a constant that the column cannot have
        stream = table._begin(columns=needed)
    left = rows
    while left is None or left > 0:
        try:
            frame = polars.DataFrame(table._part(_BLOCKS, stream))
        except Exception as error:
            _raise_own([table], error)
        if frame.height == 0:
            break
        if predicate is not None:
            frame = frame.filter(predicate)
        frame = frame.select(wanted)
        if left is not None:
            frame = frame.head(left)
            left -= frame.height
        yield frame
    stream.end()


def _pushed(types: dict[str, str], predicate: Any) -> Iterator[_core.Condition]:
    """The parts of a predicate that the scan understands. Each row must meet all of them."""
    todo = [json.loads(predicate.meta.serialize(format="json"))]
    while todo:
        node = todo.pop()
        match node:
            case {"BinaryExpr": {"op": "And", "left": left, "right": right}}:
                todo += [left, right]
            case {"BinaryExpr": {"op": op, "left": left, "right": right}}:
                yield from _two_sided(types, op, left, right)
            case {
                "Function": {
                    "function": {"StringExpr": "StartsWith"},
                    "input": [{"Column": column}, {"Literal": value}],
                }
            }:
                yield from _comparison(types, column, "prefix", value)


def _two_sided(
    types: dict[str, str], op: str, left: Any, right: Any
) -> Iterator[_core.Condition]:
    match left, right:
        case {"Column": column}, {"Literal": value}:
            yield from _comparison(types, column, _OPS.get(op), value)
        case {"Literal": value}, {"Column": column}:
            yield from _comparison(types, column, _TURNED.get(op), value)


_OPS = {"Eq": "==", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_TURNED = {"Eq": "==", "Lt": ">", "LtEq": ">=", "Gt": "<", "GtEq": "<="}
_UNITS = {"Milliseconds": 10**3, "Microseconds": 10**6, "Nanoseconds": 10**9}


def _comparison(
    types: dict[str, str], column: str, comparison: Any, literal: Any
) -> Iterator[_core.Condition]:
    """The condition, if the constant is exactly one of the column's type."""
    of = types.get(column, "")
    value: Any = None
    match literal:
        case {"Scalar": {"String": str(text)}} if of.startswith(("text", "char")):
            value = text
        case {"Dyn": {"Int": int(number)}} if of.startswith(("u", "i", "decimal")):
            value = number
        case {"Scalar": {"Date": int(days)}} if of == "date":
            value = days
        case {"Scalar": {"Decimal": [int(number), _, int(scale)]}} if of.startswith("decimal"):
            value = decimal.Decimal(number).scaleb(-scale)
        case {"Scalar": {"Datetime": [int(number), unit, None]}} if of in _PER_SECOND:
            of, ticks = "", number * _PER_SECOND[of]
            value = ticks // _UNITS[unit] if ticks % _UNITS[unit] == 0 else None
        case {"Scalar": dict(typed)} if of.startswith(("u", "i")):
            ((kind, number),) = typed.items()
            value = number if kind.lstrip("U")[:3] == "Int" and kind[-1].isdigit() else None
    if comparison is None or value is None:
        return
    try:
        yield column, _COMPARISONS.index(comparison), [_stored(of, value)]
    except ValueError:  # more places than the column has
        return
