"""Rows into tables and out of them: by COPY, texts and times as Postgres takes them."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg.errors import ProgramLimitExceeded

from eventlog.database import Connection
from eventlog.projection import AnyProjection, Column, Row

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OF_THE_ROW = (psycopg.DataError, psycopg.IntegrityError, ProgramLimitExceeded)


def storable(projection: AnyProjection, rows: Iterable[Row]) -> list[Row]:
    """The rows as Postgres takes them: no NUL in texts, times as datetimes."""
    times = [i for i, column in enumerate(projection.columns) if column.type == "timestamptz"]
    return [_storable(row, times) for row in rows]


def copy(connection: Connection, relation: str, columns: Sequence[Column], rows: Iterable[Row]) -> None:
    """Add rows to a table."""
    with connection.cursor() as cursor, cursor.copy(f"COPY {relation} FROM STDIN (FORMAT binary)") as sink:
        sink.set_types([column.type for column in columns])
        for row in rows:
            sink.write_row(row)


def of_the_database(error: Exception) -> bool:
    """Whether it is no single row's fault."""
    return isinstance(error, psycopg.Error) and not isinstance(error, _OF_THE_ROW)


def select(projection: AnyProjection, relation: str, where: str = "") -> str:
    """The query for its rows, as `storable` would have given them, but times as µs when read in binary."""
    names = ", ".join(f'"{column.name}"' for column in projection.columns)
    return f"SELECT {names} FROM {relation} {where}".rstrip()


def read_back(row: Row) -> Row:
    """A row of a fold as it is read back from its table, times as µs."""
    return tuple([_text(value) if isinstance(value, str | list) else value for value in row])


def keys(columns: Sequence[Column], names: Sequence[str], found: Sequence[Row]) -> tuple[str, list[list[Any]]]:
    """These keys as a set to join with, and its parameters: `(SELECT * FROM unnest(…))`."""
    types = {column.name: column.type for column in columns}
    arrays = ", ".join(f"%s::{types[name]}[]" for name in names)
    return f"(SELECT * FROM unnest({arrays}))", [list(values) for values in zip(*found, strict=True)]


def _storable(row: Row, times: list[int]) -> Row:
    values = [_text(value) if isinstance(value, str | list) else value for value in row]
    for i in times:
        if values[i] is not None:
            values[i] = _EPOCH + timedelta(microseconds=values[i])
    return tuple(values)


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(item) for item in value]
    return value.replace("\0", "\N{SYMBOL FOR NULL}") if isinstance(value, str) and "\0" in value else value
