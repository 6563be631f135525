"""Streams that a projection stopped at, and another try, with a fold that was mended."""

from collections.abc import Callable, Sequence
from itertools import islice

import msgspec

from core.errors import Unavailable
from eventlog.database import Connection
from eventlog.log import Log
from eventlog.projection import AnyProjection, Projection, checkpoints, is_first, is_second, locks, second, shards
from eventlog.projection.batch import Batch, remove

_ALL = "SELECT name, version, stream, position, reason FROM trajlog.parked ORDER BY name, version, position, stream"
_OF = "SELECT stream FROM trajlog.parked WHERE name = %s AND version = %s ORDER BY position, stream"
_UNPARK = "DELETE FROM trajlog.parked WHERE name = %s AND version = %s AND stream = ANY(%s)"
_SOME = 100
_CHUNK = 256


class Parked(msgspec.Struct, frozen=True):
    """A stream (or key of a second stage) that stopped at the event of this position, and why."""

    name: str
    version: int
    stream: str
    position: int
    reason: str


def parked(connection: Connection) -> list[Parked]:
    """All of them."""
    return [Parked(*row) for row in connection.execute(_ALL)]


def retry(
    log: Log,
    connection: Connection,
    projection: AnyProjection,
    streams: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Fold parked streams (all, or those named) again from their first event; returns how many were tried.
    Those that stop again are parked again."""
    key = (projection.name, projection.version)
    found = [stream for (stream,) in connection.execute(_OF, key) if not streams or stream in streams]
    if not found:
        return 0
    if is_second(projection):
        with connection.transaction():
            locks.hold(connection, [projection])
            second.reset(connection, [projection])
        sources = checkpoints(connection, [source.view for source in projection.reads])
        second.advance(connection, projection, min(point.position for point in sources))
    elif is_first(projection):
        for first in range(0, len(found), _SOME):
            _fold_again(log, connection, projection, found[first : first + _SOME])
            if progress:
                progress(min(first + _SOME, len(found)), len(found))
    return len(found)


def _fold_again(log: Log, connection: Connection, projection: Projection, streams: list[str]) -> None:
    with connection.transaction():
        upon = second.upon(connection, projection)
        locks.hold(connection, [projection, *upon])
        if shards.any_of(connection, [projection]):
            raise Unavailable(
                "it is being folded by several processes", where=f"projection {projection.name}", mend="try again"
            )
        (point,) = checkpoints(connection, [projection])
        remove(connection, projection, streams)
        connection.execute(_UNPARK, (projection.name, projection.version, streams))
        batch = Batch(connection, projection, 0, {})
        for stream in streams:
            events = iter(log.read(stream, as_of=point.position))
            while chunk := list(islice(events, _CHUNK)):
                batch.fold(chunk)
        batch.write(log)
        second.reset(connection, upon)
