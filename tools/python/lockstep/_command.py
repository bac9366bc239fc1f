"""The command `lockstep sql`, which starts this module, and `sql` of the shell."""

from __future__ import annotations

import csv
import decimal
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from ._errors import Error, NotClosed
from ._store import Store, open


class QueryFailed(Exception):
    """What DuckDB says of a query."""


def main(path: str, query: str, form: str = "table") -> int:
    """Prints the rows as a table, as "csv" or as "json" lines. The result: an exit status."""
    try:
        with _opened(path) as store:
            print_query(store, query, form)
    except QueryFailed as error:
        return _complain("query", error)
    except (ModuleNotFoundError, Error) as error:
        return _complain(path, error)
    return 0


def print_query(store: Store, query: str, form: str = "table") -> None:
    """Prints the rows of a report. Raises QueryFailed, ModuleNotFoundError, Error."""
    try:
        with store.report() as report:
            result = report.sql(query)
            names = list(result.columns)
            rows: list[tuple[Any, ...]] = result.fetchall()
    except Exception as error:
        if not type(error).__module__.lstrip("_").startswith("duckdb"):
            raise
        raise QueryFailed(error) from error
    {"csv": _print_csv, "json": _print_json}.get(form, _print_table)(names, rows)


def _opened(path: str) -> Store:
    try:
        return open(path, create=False, read_only=True)
    except NotClosed:  # it must be recovered
        return open(path, create=False)


def _complain(what: str, error: Exception) -> int:
    print(f"lockstep: {what}: {error}", file=sys.stderr)
    return 1


def _print_csv(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(names)
    out.writerows(rows)


def _print_json(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    for row in rows:
        print(json.dumps(dict(zip(names, row, strict=True)), default=str))


def _print_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    cells = [list(names), *(["" if one is None else str(one) for one in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    plain = (int, float, decimal.Decimal, type(None))
    numbers = [all(isinstance(row[i], plain) for row in rows) for i in range(len(names))]
    for cell in cells:
        placed = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(cell, widths, numbers, strict=True)
        )
        print("  ".join(placed).rstrip())
