"""The runner: folds new events of the log into the tables of projections.

Each batch is one transaction: under the projections' lock it reads the checkpoint, folds what
follows, replaces the rows of the touched streams and moves the checkpoint by compare-and-set. So a
process killed at any point leaves whole batches, and of several that run at once each goes on where
another ended. The checkpoint keeps the seal of the commit it saw: if the log has another one there,
it was cut and written again, and nothing is folded on top.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from psycopg.errors import LockNotAvailable

from core.errors import Corrupt, Unavailable
from core.event import StoredEvent
from eventlog.database import Connection
from eventlog.log import Log
from eventlog.projection import Checkpoint, Projection, checkpoints, tables
from eventlog.projection.batch import Batch, Warm

BATCH = 20_000
"""Positions in one transaction, at most."""

BATCH_BYTES = 256_000_000
"""Payload bytes after which a transaction takes no more."""

_CHUNK = 256

_BEGIN = """
SET LOCAL lock_timeout = '75s';
SET LOCAL idle_in_transaction_session_timeout = '60s';
SELECT pg_advisory_xact_lock(8390876165625701751)
"""
_SEAL = "SELECT seal FROM trajlog.segment WHERE last_position >= %s ORDER BY last_position LIMIT 1"
_MOVE = "UPDATE trajlog.projection SET position = %s, seal = %s WHERE name = %s AND version = %s AND position = %s"

Progress = Callable[[int, int], None]
"""Called with (positions folded, positions to fold) after each batch."""


def catch_up(
    log: Log,
    connection: Connection,
    projections: Sequence[Projection],
    *,
    progress: Progress | None = None,
) -> int:
    """Fold what the log holds now and return that position. `connection` is to the log's database.

    A fold that raises parks its stream for that projection; the rest goes on. `Corrupt` if the log is
    not the one that was folded.
    """
    target = log.head().position
    warm: dict[str, tuple[int, Warm]] = {}
    first: int | None = None
    while not all(point.covers(target) for point in checkpoints(connection, projections)):
        with connection.transaction(), _no_collector():
            _lock(connection)
            points = [_begin(connection, p) for p in projections]
            start = min(point.position for point in points)
            if start >= target:
                _publish(connection, projections)
                break
            batches = [
                Batch(connection, projection, point.position, _still_warm(warm, point))
                for projection, point in zip(projections, points, strict=True)
            ]
            until = _fold(log, start, min(start + BATCH, target), batches)
            for batch, point in zip(batches, points, strict=True):
                warm[point.name] = max(until, point.position), batch.write(log)
                if point.position < until:
                    _move(connection, point, until)
            if until == target:
                _publish(connection, projections)
        first = start if first is None else first
        if progress:
            progress(until - first, target - first)
    if first is not None and target - first >= BATCH:
        for projection in projections:
            tables.analyze(connection, projection)
    return target


def _lock(connection: Connection) -> None:
    try:
        connection.execute(_BEGIN)
    except LockNotAvailable as error:
        raise Unavailable(
            "another process has been folding one batch for over a minute", where="projections", mend="try again"
        ) from error


def _begin(connection: Connection, projection: Projection) -> Checkpoint:
    """The checkpoint to go on from, its tables made where there are none."""
    tables.prepare(connection, projection)
    (point,) = checkpoints(connection, [projection])
    if not point.trusted:
        raise Corrupt(
            f"the log is not the one that was folded up to position {point.position}: it was restored or failed over",
            where=f"projection {projection.name} v{projection.version}",
            mend=f"rebuild it: in trajlog db psql, DELETE FROM trajlog.projection WHERE name = '{projection.name}'",
        )
    return point


def _still_warm(warm: dict[str, tuple[int, Warm]], point: Checkpoint) -> Warm:
    """The states of our last batch, unless another process has folded more since."""
    position, states = warm.pop(point.name, (0, {}))
    return states if position == point.position else {}


def _publish(connection: Connection, projections: Sequence[Projection]) -> None:
    for projection in projections:
        tables.publish(connection, projection)


def _fold(log: Log, start: int, until: int, batches: list[Batch]) -> int:
    """Give the batches the events after `start`; returns the position of the last one given."""
    events = log.read_all(after=start, until=until)
    last, size = start, 0
    for chunk in _chunks(events):
        for batch in batches:
            batch.fold(chunk)
        last = chunk[-1].position
        size += sum([len(event.body) for event in chunk])
        if size > BATCH_BYTES:
            return last
    if last != until:
        raise Corrupt(f"events after position {last} are missing", where="log", mend="run: trajlog verify --all")
    return last


def _chunks(events: Iterator[StoredEvent]) -> Iterator[list[StoredEvent]]:
    while chunk := list(islice(events, _CHUNK)):
        yield chunk


@contextmanager
def _no_collector() -> Iterator[None]:
    """A batch makes no cycles, and holds so much that looking for them takes a fifth of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _move(connection: Connection, point: Checkpoint, until: int) -> None:
    seal = connection.execute(_SEAL, (until,)).fetchone()
    moved = connection.execute(_MOVE, (until, seal and seal[0], point.name, point.version, point.position))
    if moved.rowcount != 1:
        raise Unavailable(
            "its checkpoint was moved by another process",
            where=f"projection {point.name} v{point.version}",
            mend="run the command again",
        )
