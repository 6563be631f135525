"""The runner: folds new events of the log into the tables of projections.

Each batch is one transaction: under the projections' lock it reads the checkpoint, folds what
follows, replaces the rows of the touched streams and moves the checkpoint by compare-and-set. So a
process killed at any point leaves whole batches, and of several that run at once each goes on where
another ended. The checkpoint keeps the seal of the commit it saw: if the log has another one there,
it was cut and written again, and nothing is folded on top.

Of a bulk of events every process takes the streams of one shard, with a checkpoint of its own
(`eventlog.projection.shards`). What crosses streams comes after (`eventlog.projection.second`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from core.errors import Corrupt, Unavailable
from core.event import StoredEvent
from eventlog.collector import no_collector
from eventlog.database import Connection
from eventlog.log import Log
from eventlog.projection import (
    AnyProjection,
    Projection,
    checkpoints,
    is_first,
    is_second,
    locks,
    second,
    shards,
    tables,
)
from eventlog.projection.batch import Batch, Warm
from eventlog.projection.shards import Shard
from eventlog.projection.trust import another_log, refuse_another_log

BATCH = 20_000
"""Positions in one transaction, at most."""

BATCH_BYTES = 256_000_000
"""Payload bytes after which a transaction takes no more."""

_CHUNK = 256

SEAL = "SELECT seal FROM trajlog.segment WHERE last_position >= %s ORDER BY last_position LIMIT 1"
_MOVE = "UPDATE trajlog.projection SET position = %s, seal = %s WHERE name = %s AND version = %s AND position = %s"
_MOVE_SHARD = f"{_MOVE.replace('.projection', '.shard')} AND shard = %s"

Progress = Callable[[int, int], None]
"""Called with (positions folded, positions to fold) after each batch."""


class _Standing(NamedTuple):
    """The checkpoint to go on from: of the whole projection, or of one of its shards."""

    projection: Projection
    position: int


def catch_up(
    log: Log,
    connection: Connection,
    projections: Sequence[AnyProjection],
    *,
    progress: Progress | None = None,
    processes: int = 1,
) -> int:
    """Fold what the log holds now and return that position. `connection` is to the log's database; a
    second stage needs its sources in front of it. A bulk of events is folded by so many `processes`.

    A fold that raises parks its stream for that projection; the rest goes on. `Corrupt` if the log is
    not the one that was folded.
    """
    target = log.head().position
    folds = [projection for projection in projections if is_first(projection)]
    if processes > 1:
        shards.fold(log, connection, folds, target, processes, progress)
    while not _advance(log, connection, folds, target, progress):
        for fold in folds:
            until = max(target, shards.furthest(connection, fold))
            for shard in shards.of(connection, fold):
                _advance(log, connection, [fold], until, progress, shard)
            shards.join(connection, fold)
    for projection in projections:
        if is_second(projection):
            second.advance(connection, projection, target)
    return target


def fold_shard(log: Log, connection: Connection, projections: Sequence[Projection], target: int, shard: Shard) -> None:
    """Fold the streams of one shard up to a position: a worker's part of the work."""
    _advance(log, connection, projections, target, None, shard)


def _advance(
    log: Log,
    connection: Connection,
    projections: Sequence[Projection],
    target: int,
    progress: Progress | None,
    shard: Shard | None = None,
) -> bool:
    """Fold up to a position. False where a projection turns out to be in shards that have to be folded first."""
    warm: dict[str, tuple[int, Warm]] = {}
    first: int | None = None
    if shard is None and shards.any_of(connection, projections):
        return False
    while shard is not None or not all(point.covers(target) for point in checkpoints(connection, projections)):
        with connection.transaction(), no_collector():
            locks.hold(connection, projections, None if shard is None else shard.number)
            if shard is None and shards.any_of(connection, projections):
                return False
            points = [_begin(connection, projection, shard) for projection in projections]
            start = min((point.position for point in points), default=target)
            if start >= target:
                _publish(connection, projections, shard)
                break
            batches = [
                Batch(connection, projection, position, _still_warm(warm, projection, position))
                for projection, position in points
            ]
            until = _fold(log, start, min(start + BATCH, target), batches, shard)
            for batch, point in zip(batches, points, strict=True):
                warm[point.projection.name] = max(until, point.position), batch.write(log)
                if point.position < until:
                    _move(connection, point, until, shard)
            if until == target:
                _publish(connection, projections, shard)
        first = start if first is None else first
        if progress:
            progress(until - first, target - first)
    if first is not None and target - first >= BATCH and shard is None:
        for projection in projections:
            tables.analyze(connection, projection)
    return True


def _begin(connection: Connection, projection: Projection, shard: Shard | None) -> _Standing:
    """The checkpoint to go on from, its tables made where there are none."""
    tables.prepare(connection, projection)
    if shard is None:
        (point,) = checkpoints(connection, [projection])
        refuse_another_log(point)
        return _Standing(projection, point.position)
    position, trusted = shards.standing(connection, projection, shard)
    if not trusted:
        raise another_log(projection, position)
    return _Standing(projection, position)


def _still_warm(warm: dict[str, tuple[int, Warm]], projection: Projection, standing: int) -> Warm:
    """The states of our last batch, unless another process has folded more since."""
    position, states = warm.pop(projection.name, (0, {}))
    return states if position == standing else {}


def _publish(connection: Connection, projections: Sequence[Projection], shard: Shard | None) -> None:
    for projection in projections if shard is None else ():
        tables.publish(connection, projection)


def _fold(log: Log, start: int, until: int, batches: list[Batch], shard: Shard | None) -> int:
    """Give the batches the events after `start`; returns the position up to which they have them all."""
    size = 0
    last = start
    for chunk in _chunks(_events(log, start, until, shard)):
        for batch in batches:
            batch.fold(chunk)
        last = chunk[-1].position
        size += sum([len(event.body) for event in chunk])
        if size > BATCH_BYTES:
            return last
    if shard is None and last != until:
        raise Corrupt(f"events after position {last} are missing", where="log", mend="run: trajlog verify --all")
    return until


def _events(log: Log, start: int, until: int, shard: Shard | None) -> Iterator[StoredEvent]:
    if shard is None:
        yield from log.read_all(after=start, until=until)
    elif log.reader is not None:
        for page in log.reader.pages(after=start, until=until, shard=(shard.number, shard.of)):
            yield from page


def _chunks(events: Iterable[StoredEvent]) -> Iterator[list[StoredEvent]]:
    iterator = iter(events)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk


def _move(connection: Connection, point: _Standing, until: int, shard: Shard | None) -> None:
    seal = connection.execute(SEAL, (until,)).fetchone()
    name, version = point.projection.name, point.projection.version
    values = (until, seal and seal[0], name, version, point.position)
    if shard is None:
        moved = connection.execute(_MOVE, values)
    else:
        moved = connection.execute(_MOVE_SHARD, (*values, shard.number))
    if moved.rowcount != 1:
        raise Unavailable(
            "its checkpoint was moved by another process",
            where=f"projection {name} v{version}",
            mend="run the command again",
        )
