"""The second stage: rows that cross streams, recomputed for the keys whose streams were touched.

Beside its rows a projection keeps which keys each stream gives, so that a stream that moves from one key
to another is taken out of the first. It follows the rows of its sources as they stand, in one transaction.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, islice
from typing import Any, Final

from core.errors import Unavailable
from eventlog.database import Connection
from eventlog.projection import (
    Row,
    SecondStage,
    Source,
    Versioned,
    View,
    beside_table,
    checkpoints,
    locks,
    relation,
    table,
    tables,
)
from eventlog.projection.rows import copy, keys, of_the_database, storable
from eventlog.projection.trust import refuse_another_log

MANY: Final = 20_000
"""Touched streams beyond which every key is made anew."""

RECENT: Final = 20_000
"""Positions that are looked through for the streams they touched; beyond that, the heads of all streams are."""

_CHUNK = 5_000
_SINCE = "SELECT DISTINCT stream FROM trajlog.event WHERE position > %s"
_HEADS = "SELECT stream FROM trajlog.stream WHERE last_position > %s"
_HEAD = "SELECT coalesce(max(last_position), 0) FROM trajlog.segment"
_OWN = "SELECT sources FROM trajlog.projection WHERE name = %s AND version = %s"
_UPON = "SELECT name, version FROM trajlog.projection WHERE %s = ANY(string_to_array(sources, ', '))"
_RESET = "UPDATE trajlog.projection SET position = 0, seal = NULL WHERE name = %s AND version = %s"
_SEAL = "SELECT seal FROM trajlog.segment WHERE last_position >= %s ORDER BY last_position LIMIT 1"
_MOVE = "UPDATE trajlog.projection SET position = %s, seal = %s, sources = %s WHERE name = %s AND version = %s"
_PARK = """
INSERT INTO trajlog.parked (name, version, stream, position, reason) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (name, version, stream) DO UPDATE SET position = EXCLUDED.position, reason = EXCLUDED.reason
"""
_UNPARK = "DELETE FROM trajlog.parked WHERE name = %s AND version = %s"


def advance(connection: Connection, projection: SecondStage, target: int) -> None:
    """Bring the rows to where the sources are, which is `target` or beyond."""
    with connection.transaction():
        locks.hold(connection, [projection])
        tables.prepare(connection, projection)
    (own,) = checkpoints(connection, [projection])
    refuse_another_log(own)
    said = ", ".join(_said(source.view) for source in projection.reads)
    before = connection.execute(_OWN, (projection.name, projection.version)).fetchone()
    if own.covers(target) and before == (said,):
        _publish(connection, projection)
        return
    with locks.held(connection, projection), snapshot(connection):
        own, *points = checkpoints(connection, [projection, *[source.view for source in projection.reads]])
        for point in points:
            refuse_another_log(point)
            if not point.covers(target):
                raise Unavailable(
                    f"{point.name} v{point.version} is not where it has to be",
                    where=f"projection {projection.name}",
                    mend="run: trajlog project run",
                )
        before = connection.execute(_OWN, (own.name, own.version)).fetchone()
        again = own.position == 0 or before != (said,)
        changed = None if again else _touched(connection, own.position, projection)
        if changed is None:
            _make_all(connection, projection, target)
        elif changed:
            _make_some(connection, projection, changed, target)
        position = min(point.position for point in points)
        seal = connection.execute(_SEAL, (position,)).fetchone()
        connection.execute(_MOVE, (position, seal and seal[0], said, own.name, own.version))
    _publish(connection, projection)


@contextmanager
def snapshot(connection: Connection, *, keep: bool = True) -> Iterator[None]:
    """One transaction that sees the database as of one moment; `keep` what it writes, or not."""
    with connection.transaction(force_rollback=not keep):
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


def upon(connection: Connection, projection: Versioned) -> list[View]:
    """The second-stage projections that are made from this one."""
    return [View(*row) for row in connection.execute(_UPON, (_said(projection),))]


def reset(connection: Connection, projections: Iterable[Versioned]) -> None:
    """Have projections made anew when they are read next, since rows of their sources changed otherwise
    than by new events. The caller holds them."""
    for projection in projections:
        connection.execute(_RESET, (projection.name, projection.version))


def touched(connection: Connection, after: int) -> str:
    """The query, of one parameter, for the streams that have events after a position."""
    (head,) = connection.execute(_HEAD).fetchone() or (0,)
    return _SINCE if head - after <= RECENT else _HEADS


def _touched(connection: Connection, after: int, projection: SecondStage) -> list[str] | None:
    """The streams of the sources that have events after a position; None if they are many."""
    prefixes = [source.view.prefix for source in projection.reads]
    query = f"{touched(connection, after)} AND stream ^@ ANY(%s) LIMIT {MANY + 1}"
    found = [stream for (stream,) in connection.execute(query, (after, prefixes))]
    return found if len(found) <= MANY else None


LISTED: Final = "SELECT unnest(%s::text[]) AS stream"
"""The query for streams that are given as one parameter."""


def keys_of(connection: Connection, projection: SecondStage, streams: str, values: Sequence[Any]) -> set[Row]:
    """The keys that the streams of a query gave when the rows were made."""
    names = ", ".join(f'"key_{name}"' for name in projection.key)
    query = (
        f"SELECT DISTINCT {names} FROM {beside_table(projection)} WHERE stream IN (SELECT stream FROM ({streams}) s)"
    )
    return set(connection.execute(query, values).fetchall())


def keys_now(
    connection: Connection, projection: SecondStage, streams: str, values: Sequence[Any], of: str = ""
) -> set[Row]:
    """The keys that the streams of a query give by the rows of the sources; `of` is their schema."""
    found: set[Row] = set()
    for source, first in _sources(connection, projection):
        query = (
            f"SELECT DISTINCT {_quoted(source.by)} FROM {of}{relation(source.view)} "
            f"WHERE {_of_streams(source, first, streams)} AND {_known(source.by)}"
        )
        found |= set(connection.execute(query, values).fetchall())
    return found


def made(
    connection: Connection,
    projection: SecondStage,
    wanted: Iterable[Row] | None = None,
    *,
    of: str = "",
    within: str = "",
    failed: "list[tuple[Row, str]] | None" = None,
) -> Iterator[tuple[Row, list[Row]]]:
    """(key, its rows) of the wanted keys, or of all, in the order of keys, from the sources' rows as they
    stand; `of` is their schema, `within` a condition on them. A key whose rows cannot be made has none, and
    is added to `failed`. In a transaction of the caller's."""
    query = projection.query
    for source in projection.reads:
        rows = of + relation(source.view)
        query = query.replace(f"{{{source.view.name}}}", f"(SELECT * FROM {rows} WHERE {within})" if within else rows)
    query = query.replace("%", "%%")
    key = projection.key
    values: list[list[Any]] = []
    conditions = [_known(key)]
    if wanted is not None:
        chosen = list(wanted)
        if not chosen:
            return
        joined, values = keys(projection.columns, key, chosen)
        conditions += [f'"{key[0]}" = ANY(%s)', f"({_quoted(key)}) IN {joined}"]
        values = [list({k[0] for k in chosen}), *values]
    query = f"SELECT q.* FROM ({query}) q WHERE {' AND '.join(conditions)} ORDER BY {_quoted(key)}, q"
    with connection.cursor(f"made_{projection.version}", binary=True) as cursor:
        cursor.itersize = _CHUNK
        cursor.execute(query, values)
        for at, group in groupby(cursor, key=lambda row: row[: len(key)]):
            try:
                rows_of_key = _rows(projection, at, list(group))
            except Exception as error:
                if failed is not None:
                    failed.append((at, f"{type(error).__name__} in its rows"))
                continue
            yield at, rows_of_key


def _rows(projection: SecondStage, key: Row, group: list[Row]) -> list[Row]:
    names = [column.name for column in projection.columns]
    at = [names.index(name) for name in projection.key]
    found = list(projection.rows(key, group))
    if any(tuple([row[i] for i in at]) != key for row in found):
        raise ValueError("a row of another key")
    return found


def store(
    connection: Connection, projection: SecondStage, into: str, found: Iterable[tuple[Row, list[Row]]]
) -> list[tuple[Row, str]]:
    """Add rows to a table, a chunk at a time; returns the keys whose rows it would not take."""
    failed: list[tuple[Row, str]] = []
    iterator = iter(found)
    while chunk := list(islice(iterator, _CHUNK)):
        try:
            with connection.transaction():
                rows = [row for _, group in chunk for row in storable(projection, group)]
                copy(connection, into, projection.columns, rows)
        except Exception as error:
            if of_the_database(error):
                raise
            failed += _one_by_one(connection, projection, into, chunk)
    return failed


def _one_by_one(
    connection: Connection, projection: SecondStage, into: str, chunk: list[tuple[Row, list[Row]]]
) -> Iterator[tuple[Row, str]]:
    for key, group in chunk:
        try:
            with connection.transaction():
                copy(connection, into, projection.columns, storable(projection, group))
        except Exception as error:
            if of_the_database(error):
                raise
            yield key, f"{type(error).__name__} in its rows"


def _make_all(connection: Connection, projection: SecondStage, position: int) -> None:
    connection.execute(f"DELETE FROM {table(projection)}; DELETE FROM {beside_table(projection)}")
    _remember(connection, projection, None)
    _make(connection, projection, None, position)


def _make_some(connection: Connection, projection: SecondStage, streams: list[str], position: int) -> None:
    wanted = keys_of(connection, projection, LISTED, (streams,))
    wanted |= keys_now(connection, projection, LISTED, (streams,), "trajlog_view.")
    connection.execute(f"DELETE FROM {beside_table(projection)} WHERE stream = ANY(%s)", (streams,))
    _remember(connection, projection, streams)
    if wanted:
        chosen, values = keys(projection.columns, projection.key, list(wanted))
        connection.execute(f"DELETE FROM {table(projection)} WHERE ({_quoted(projection.key)}) IN {chosen}", values)
        _make(connection, projection, wanted, position)


def _make(connection: Connection, projection: SecondStage, wanted: set[Row] | None, position: int) -> None:
    failed: list[tuple[Row, str]] = []
    found = made(connection, projection, wanted, of="trajlog_view.", failed=failed)
    failed += store(connection, projection, table(projection), found)
    name = (projection.name, projection.version)
    if wanted is None:
        connection.execute(_UNPARK, name)
    else:
        connection.execute(f"{_UNPARK} AND stream = ANY(%s)", (*name, [spelled(key) for key in wanted]))
    for key, reason in failed:
        connection.execute(_PARK, (*name, spelled(key), position, reason))


def spelled(key: Row) -> str:
    """A key as text, where a stream's name would stand."""
    return " / ".join(str(value) for value in key)


def _remember(connection: Connection, projection: SecondStage, streams: list[str] | None) -> None:
    """Keep which keys the streams give now."""
    for source, first in _sources(connection, projection):
        query = (
            f"INSERT INTO {beside_table(projection)} SELECT DISTINCT '{source.view.prefix}' || \"{first}\", "
            f"{_quoted(source.by)} FROM {table(source.view)} WHERE {_known(source.by)}"
        )
        if streams is None:
            connection.execute(f"{query} ON CONFLICT DO NOTHING")
        else:
            connection.execute(f"{query} AND {_of_streams(source, first, LISTED)} ON CONFLICT DO NOTHING", (streams,))


def _of_streams(source: Source, first: str, streams: str) -> str:
    """The condition that a row of the source is of a stream that the query names."""
    prefix = source.view.prefix
    return f"\"{first}\" IN (SELECT substr(stream, {len(prefix) + 1}) FROM ({streams}) s WHERE stream ^@ '{prefix}')"


def _sources(connection: Connection, projection: SecondStage) -> list[tuple[Source, str]]:
    """The sources, each with the column that holds the stream's name: the first of its key."""
    found = []
    for source in projection.reads:
        (first,) = connection.execute(_FIRST_OF_KEY, (table(source.view),)).fetchone() or ("",)
        found.append((source, first))
    return found


_FIRST_OF_KEY = """
SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = to_regclass(%s) AND i.indisprimary
"""


def _said(projection: Versioned) -> str:
    return f"{projection.name} v{projection.version}"


def _publish(connection: Connection, projection: SecondStage) -> None:
    with connection.transaction():
        locks.hold(connection, [projection])
        tables.publish(connection, projection)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _known(names: Sequence[str]) -> str:
    return " AND ".join(f'"{name}" IS NOT NULL' for name in names)
