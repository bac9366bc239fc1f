"""Tables of a report that are copied into DuckDB, with the columns that queries need."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._report import Report, Table

_STREAM = "lockstep.stream"  # no index of an application has such a name


class Copies:
    """The copies of one report. One thread at a time prepares a query."""

    def __init__(self, report: Report, connect: Callable[[], Any]) -> None:
        self._report = report
        self._copies = connect()
        self._copied: dict[str, set[str]] = {}
        #: Queries without parameters whose needs are copied.
        self._planned: set[str] = set()
        #: Has the tables without rows, and plans queries.
        self._empty = connect()
        all_of_them = self._empty.execute("from duckdb_optimizers()").fetchall()
        optimizers = [name for (name,) in all_of_them]
        # Others leave out tables that have no rows, and columns of pushed conditions.
        optimizers.remove("unused_columns")
        self._empty.execute(f"set disabled_optimizers = '{','.join(optimizers)}'")
        for name in report._described():
            _create(self._empty, name, report.table(name)._part(0))

    def connection(
        self,
        query: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None,
        scanned: dict[str, Table],
    ) -> Any:
        """A connection that has what the query needs. `scanned` gets the tables that are read."""
        if parameters is not None or query not in self._planned:
            self._copy(self._needs(query, parameters), scanned)
        return self._copies.cursor()

    def copy_for(self, queries: Sequence[str], scanned: dict[str, Table]) -> None:
        """Copies what all of these queries need, with one scan of each table."""
        needs: dict[str, set[str]] = {}
        for query in queries:
            for name, columns in self._needs(query, None).items():
                needs.setdefault(name, set()).update(columns)
        self._copy(needs, scanned)
        self._planned.update(queries)

    def _copy(self, needs: dict[str, set[str]], scanned: dict[str, Table]) -> None:
        for name, columns in needs.items():
            wanted = self._copied.get(name, set()) | columns
            if wanted == self._copied.get(name):
                continue
            types = self._report.table(name)._types
            scanned[name] = self._report.table(name, [one for one in types if one in wanted])
            _create(self._copies, name, scanned[name])
            self._copied[name] = wanted

    def _needs(
        self, query: str, parameters: Sequence[Any] | Mapping[str, Any] | None
    ) -> dict[str, set[str]]:
        """The tables and columns of a query."""
        ((_, plan),) = self._empty.execute(
            f"explain (format json) {query}", parameters
        ).fetchall()
        found: dict[str, set[str]] = {}
        for table, columns in _scans(json.loads(plan)):
            all_columns = list(self._report.table(table)._types)
            # A count of rows needs no column, but a scan has one.
            found.setdefault(table, set()).update(columns or all_columns[:1])
        return found


def _create(connection: Any, name: str, rows: Any) -> None:
    connection.register(_STREAM, rows)
    try:
        quoted = name.replace('"', '""')
        text = f'create or replace table "{quoted}" as select * from "{_STREAM}"'
        connection.execute(text)
    finally:
        connection.unregister(_STREAM)


def _scans(nodes: list[dict[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """Name and columns of each table that a plan reads."""
    for node in nodes:
        about = node["extra_info"]
        if "Table" in about:
            columns = about["Projections"]
            if isinstance(columns, str):
                columns = [columns] if columns else []
            yield _unquoted(about["Table"].split(".", 2)[2]), columns
        yield from _scans(node["children"])


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
