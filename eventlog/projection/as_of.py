"""Projections as of a cut: on one connection, the same names mean what the log's first events give.

Rows of streams without later events stand; the others are folded from their events, and keys of a second
stage with such a stream are recomputed. Both go into temporary tables, and temporary views by the names
of the projections (and of `event` and `stream`) come before the real ones. All in one transaction that
sees the database as of one moment and is rolled back: nothing is written.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from eventlog.collector import no_collector
from eventlog.database import Connection
from eventlog.projection import (
    AnyProjection,
    Projection,
    Row,
    SecondStage,
    is_first,
    is_second,
    relation,
    second,
    table,
)
from eventlog.projection.refold import refold
from eventlog.projection.rows import copy, of_the_database, storable
from eventlog.projection.tables import definition

_EVENTS = """
CREATE TEMP VIEW event AS SELECT * FROM trajlog.event WHERE position <= {position};
CREATE TEMP VIEW stream AS
    SELECT stream, (SELECT max(e.version) FROM trajlog.event e
                    WHERE e.stream = s.stream AND e.position <= {position}) AS version, first_position,
           (SELECT max(e.position) FROM trajlog.event e
            WHERE e.stream = s.stream AND e.position <= {position}) AS last_position
    FROM trajlog.stream s WHERE first_position <= {position}
"""
_LATER = 'CREATE TEMP TABLE later_stream (stream text COLLATE "C" PRIMARY KEY) ON COMMIT DROP'
_FILL = "INSERT INTO pg_temp.later_stream SELECT stream FROM ({query}) t"
_OF_LATER = "SELECT stream FROM pg_temp.later_stream"
_CHUNK = 2_000


@contextmanager
def reading(connection: Connection, projections: Sequence[AnyProjection], position: int) -> Iterator[None]:
    """For a block, let the projections' relations (sources before what is made from them) be as the first
    `position` events give them. Their checkpoints must cover that."""
    with second.snapshot(connection, keep=False):
        connection.execute(_EVENTS.format(position=position))
        connection.execute(_LATER)
        connection.execute(_FILL.format(query=second.touched(connection, position)), (position,))
        with no_collector():
            _shadow_folds(connection, [p for p in projections if is_first(p)], position)
        for projection in projections:
            if is_second(projection):
                _shadow_second(connection, projection)
        yield


def _shadow_folds(connection: Connection, projections: Sequence[Projection], position: int) -> None:
    for projection in projections:
        connection.execute(f"CREATE TEMP TABLE {_then(projection)} ({definition(projection.columns)}) ON COMMIT DROP")
    chunks: list[list[list[Row]]] = []
    for _, found in refold(connection, projections, _OF_LATER, (), position):
        chunks.append([refolded.rows for refolded in found])
        if len(chunks) == _CHUNK:
            _store(connection, projections, chunks)
            chunks = []
    _store(connection, projections, chunks)
    for projection in projections:
        later = f"l.stream = '{projection.prefix}' || t.\"{projection.key[0]}\""
        _view(connection, projection, f"EXISTS (SELECT FROM pg_temp.later_stream l WHERE {later})")


def _store(connection: Connection, projections: Sequence[Projection], chunks: list[list[list[Row]]]) -> None:
    for i, projection in enumerate(projections):
        try:
            with connection.transaction():
                rows = storable(projection, [row for chunk in chunks for row in chunk[i]])
                copy(connection, _then(projection), projection.columns, rows)
        except Exception as error:
            if of_the_database(error):
                raise
            if len(chunks) > 1:
                for chunk in chunks:
                    _store(connection, [projection], [[chunk[i]]])


def _shadow_second(connection: Connection, projection: SecondStage) -> None:
    """Keys that had, or have as of the cut, a stream with later events, recomputed from the shadowed sources."""
    wanted = second.keys_of(connection, projection, _OF_LATER, ()) | second.keys_now(
        connection, projection, _OF_LATER, ()
    )
    types = {column.name: column for column in projection.columns}
    key = [types[name] for name in projection.key]
    gone = f'pg_temp."{projection.name}__v{projection.version}__gone"'
    names = ", ".join(f'"{name}"' for name in projection.key)
    connection.execute(f"CREATE TEMP TABLE {gone} ({definition(key)}, PRIMARY KEY ({names})) ON COMMIT DROP")
    copy(connection, gone, key, sorted(wanted))
    connection.execute(f"CREATE TEMP TABLE {_then(projection)} ({definition(projection.columns)}) ON COMMIT DROP")
    second.store(connection, projection, _then(projection), second.made(connection, projection, wanted))
    same = " AND ".join(f'g."{name}" = t."{name}"' for name in projection.key)
    _view(connection, projection, f"EXISTS (SELECT FROM {gone} g WHERE {same})")


def _view(connection: Connection, projection: AnyProjection, changed: str) -> None:
    """The rows that stand and the others. The condition on both, and not on the first alone: so Postgres takes
    each in the order of an index and merges them, where an order is asked for."""
    names = ", ".join(f'"{column.name}"' for column in projection.columns)
    connection.execute(
        f"CREATE TEMP VIEW {relation(projection)} AS SELECT {names} FROM "
        f'(SELECT {names}, false AS "/then" FROM {table(projection)} '
        f'UNION ALL SELECT {names}, true FROM {_then(projection)}) t WHERE "/then" OR NOT {changed}; '
        f'CREATE TEMP VIEW "{projection.name}" AS SELECT * FROM pg_temp.{relation(projection)}'
    )


def _then(projection: AnyProjection) -> str:
    """The temporary table of the rows that are not as they stand."""
    return f'pg_temp."{projection.name}__v{projection.version}__then"'
