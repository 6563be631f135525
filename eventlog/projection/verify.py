"""Whether a projection's table is what its fold gives: stream by stream, column by column.

Streams are folded again in memory, as of the position the table stands at, and compared with its rows. Where
they differ the stream is folded a third time: a fold that disagrees with itself is not deterministic.
`shadow` compares likewise with a fold of another version: which rows it would change.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from core.errors import Corrupt, Unavailable
from eventlog.database import Connection
from eventlog.projection import (
    AnyProjection,
    Checkpoint,
    Projection,
    Row,
    SecondStage,
    Versioned,
    checkpoints,
    is_first,
    is_second,
    name_of,
    second,
    table,
)
from eventlog.projection.refold import refold
from eventlog.projection.rows import read_back
from eventlog.projection.trust import refuse_another_log

SHOWN: Final = 20
"""Differences that are listed; all are counted."""

_STREAMS = "SELECT stream FROM trajlog.stream WHERE stream ^@ %s AND first_position <= %s"
_COUNT = f"SELECT count(*) FROM ({_STREAMS}) s"
_PARKED = "SELECT stream FROM trajlog.parked WHERE name = %s AND version = %s"
_CHUNK = 500
_ATTEMPTS = 9

Progress = Callable[[int, int], None]
"""Called with (streams done, streams in all)."""


class Difference(msgspec.Struct, frozen=True):
    """A column of a row that is not what the fold gives; `column` None: the row is on one side alone."""

    stream: str
    key: list[Any]
    column: str | None
    table: Any
    fold: Any


class Verified(msgspec.Struct, frozen=True):
    """What a verification found. `streams` differ in some row; of these `unstable` are those of which the
    fold disagrees with itself."""

    name: str
    version: int
    position: int
    rows: int
    streams: int
    unstable: int
    differences: list[Difference]

    @property
    def ok(self) -> bool:
        return not self.streams


class Shadow(msgspec.Struct, frozen=True):
    """What another version would change: rows by how they differ, columns by how many rows."""

    name: str
    table: int
    fold: int
    position: int
    rows: int
    added: int
    removed: int
    changed: int
    columns: dict[str, int]
    new_columns: list[str]
    gone_columns: list[str]
    examples: list[Difference]


class _Sides(NamedTuple):
    """One stream's rows by key, or those of one key of a second stage."""

    stream: str
    table: dict[Row, Row]
    fold: dict[Row, Row]


def verify(connection: Connection, projection: AnyProjection, progress: Progress | None = None) -> Verified:
    """Compare a projection's rows with its fold. `Corrupt` where the log is not the one that was folded."""
    names = [column.name for column in projection.columns]
    rows = streams = unstable = 0
    shown: list[Difference] = []
    with _level(connection, projection):
        (point,) = checkpoints(connection, [projection])
        refuse_another_log(point)
        for sides in _compared(connection, projection, projection, point, names, progress):
            rows += len(sides.table)
            if sides.table == sides.fold:
                continue
            streams += 1
            unstable += is_first(projection) and _again(connection, projection, sides, point.position)
            shown += islice(_differences(sides, names), SHOWN - len(shown))
    return Verified(projection.name, projection.version, point.position, rows, streams, unstable, shown)


def shadow(
    connection: Connection, projection: AnyProjection, live: Versioned, progress: Progress | None = None
) -> Shadow:
    """Compare the rows of the version that is read with what `projection` gives at the same position."""
    wanted = [column.name for column in projection.columns]
    with _level(connection, projection, live):
        (point,) = checkpoints(connection, [live])
        refuse_another_log(point)
        there = [name for (name,) in connection.execute(_COLUMNS, (table(live),))]
        if not set(projection.key) <= set(there):
            raise Corrupt(
                "the rows have another key, so they cannot be compared one by one",
                where=f"projection {projection.name} v{live.version}",
                mend="build the new version: trajlog project run",
            )
        both = [name for name in wanted if name in there]
        kinds: Counter[str] = Counter()
        columns: Counter[str] = Counter()
        examples: list[Difference] = []
        for sides in _compared(connection, projection, live, point, both, progress):
            kinds["rows"] += len(sides.table)
            if sides.table == sides.fold:
                continue
            for key in sides.table.keys() | sides.fold.keys():
                old, new = sides.table.get(key), sides.fold.get(key)
                if old == new:
                    continue
                kinds["added" if old is None else "removed" if new is None else "changed"] += 1
                if old is not None and new is not None:
                    columns.update(name for name, a, b in zip(both, old, new, strict=True) if a != b)
            examples += islice(_differences(sides, both), SHOWN - len(examples))
    return Shadow(
        projection.name,
        live.version,
        projection.version,
        point.position,
        kinds["rows"],
        kinds["added"],
        kinds["removed"],
        kinds["changed"],
        dict(columns),
        [name for name in wanted if name not in there],
        [name for name in there if name not in wanted],
        examples,
    )


@contextmanager
def _level(connection: Connection, projection: AnyProjection, live: Versioned | None = None) -> Iterator[None]:
    """One moment of the database, in which a second stage stands where its sources do: those may have been
    read since, and then it is brought there first."""
    if not is_second(projection) or (live is not None and live.version != projection.version):
        with second.snapshot(connection, keep=False):
            yield
        return
    for _ in range(_ATTEMPTS):
        second.advance(connection, projection, _reached(connection, projection))
        with second.snapshot(connection, keep=False):
            (own,) = checkpoints(connection, [projection])
            if own.position >= _reached(connection, projection):
                yield
                return
    raise Unavailable(
        "its sources move on faster than it can follow", where=f"projection {projection.name}", mend="try again"
    )


def _reached(connection: Connection, projection: SecondStage) -> int:
    return min(point.position for point in checkpoints(connection, [source.view for source in projection.reads]))


_COLUMNS = """
SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


def _compared(
    connection: Connection,
    projection: AnyProjection,
    live: Versioned,
    point: Checkpoint,
    names: Sequence[str],
    progress: Progress | None,
) -> Iterator[_Sides]:
    """Both sides of every stream (key) that has rows on either, with these columns alone."""
    if is_second(projection):
        yield from _compared_second(connection, projection, live, names, progress)
    elif is_first(projection):
        yield from _compared_first(connection, projection, live, point, names, progress)


def _compared_first(
    connection: Connection,
    projection: Projection,
    live: Versioned,
    point: Checkpoint,
    names: Sequence[str],
    progress: Progress | None,
) -> Iterator[_Sides]:
    values = (projection.prefix, point.position)
    (total,) = connection.execute(_COUNT, values).fetchone() or (0,)
    stopped = {stream for (stream,) in connection.execute(_PARKED, (live.name, live.version))}
    found = refold(connection, [projection], _STREAMS, values, point.position)
    done = 0
    while chunk := list(islice(found, _CHUNK)):
        there = _rows_of(connection, projection, live, names, [stream for stream, _ in chunk])
        for stream, (refolded,) in chunk:
            if stream in stopped and refolded.stopped is None:
                continue  # a mended fold takes what this one stopped at: `retry` replays it
            rows = there.get(name_of(projection, stream), {})
            yield _Sides(stream, rows, _by_key(projection, names, refolded.rows))
        done += len(chunk)
        if progress:
            progress(done, total)
    known = f'SELECT DISTINCT "{projection.key[0]}" FROM {table(live)}'
    strays = connection.execute(
        f"SELECT name FROM ({known}) k (name) "
        "WHERE NOT EXISTS (SELECT FROM trajlog.stream s WHERE s.stream = %s || k.name)",
        (projection.prefix,),
    ).fetchall()
    for (name,) in strays:
        stream = projection.prefix + name
        yield _Sides(stream, _rows_of(connection, projection, live, names, [stream])[name], {})


def _compared_second(
    connection: Connection,
    projection: SecondStage,
    live: Versioned,
    names: Sequence[str],
    progress: Progress | None,
) -> Iterator[_Sides]:
    """In the order of keys, both sides at once."""
    (total,) = connection.execute(f"SELECT count(*) FROM {table(live)}").fetchone() or (0,)
    chosen = ", ".join(f'"{name}"' for name in (*projection.key, *names))
    found = second.made(connection, projection, of="trajlog_view.")
    width = len(projection.key)
    query = f"SELECT {chosen} FROM {table(live)} ORDER BY {', '.join(str(i + 1) for i in range(width))}"
    done = 0
    with connection.cursor("compared", binary=True) as cursor:
        cursor.execute(query)
        left = ((row[:width], row[width:]) for row in cursor)
        for key, there, folded in _merged(left, found):
            rows = {} if there is None else {key: there}
            yield _Sides(second.spelled(key), rows, _by_key(projection, names, folded or []))
            done += there is not None
            if progress:
                progress(done, total)


def _merged(
    left: Iterator[tuple[Row, Row]], right: Iterator[tuple[Row, list[Row]]]
) -> Iterator[tuple[Row, Row | None, list[Row] | None]]:
    """(key, left, right), both in the order of keys."""
    a, b = next(left, None), next(right, None)
    while a is not None or b is not None:
        if b is None or (a is not None and a[0] < b[0]):
            assert a is not None
            yield a[0], a[1], None
            a = next(left, None)
        elif a is None or b[0] < a[0]:
            yield b[0], None, b[1]
            b = next(right, None)
        else:
            yield a[0], a[1], b[1]
            a, b = next(left, None), next(right, None)


def _rows_of(
    connection: Connection, projection: Projection, live: Versioned, names: Sequence[str], streams: list[str]
) -> dict[str, dict[Row, Row]]:
    """The table's rows of these streams: name → key → the columns."""
    chosen = ", ".join(f'"{name}"' for name in (*projection.key, *names))
    width = len(projection.key)
    found: dict[str, dict[Row, Row]] = {}
    query = f'SELECT {chosen} FROM {table(live)} WHERE "{projection.key[0]}" = ANY(%s)'
    for row in connection.execute(query, ([name_of(projection, stream) for stream in streams],), binary=True):
        found.setdefault(row[0], {})[row[:width]] = row[width:]
    return found


def _by_key(projection: AnyProjection, names: Sequence[str], rows: Sequence[Row]) -> dict[Row, Row]:
    at = {column.name: i for i, column in enumerate(projection.columns)}
    key, chosen = [at[name] for name in projection.key], [at[name] for name in names]
    return {tuple([row[i] for i in key]): tuple([row[i] for i in chosen]) for row in map(read_back, rows)}


def _again(connection: Connection, projection: Projection, sides: _Sides, position: int) -> bool:
    """Whether the fold gives something else when it is asked again."""
    names = [column.name for column in projection.columns]
    for _, (refolded,) in refold(connection, [projection], second.LISTED, ([sides.stream],), position):
        return _by_key(projection, names, refolded.rows) != sides.fold
    return False


def _differences(sides: _Sides, names: Sequence[str]) -> Iterator[Difference]:
    for key in sorted(sides.table.keys() | sides.fold.keys(), key=repr):
        old, new = sides.table.get(key), sides.fold.get(key)
        if old is None or new is None:
            if old != new:
                yield Difference(sides.stream, list(key), None, old and list(old), new and list(new))
            continue
        for name, a, b in zip(names, old, new, strict=True):
            if a != b:
                yield Difference(sides.stream, list(key), name, a, b)
