"""Rebuilding a projection: beside the one that is read, then put in its place; that is kept until the next.

What was begun and interrupted is gone on with. The flip happens under the locks of both, when the new one
is as far as the old; readers see the one or the other, whole.
"""

from collections.abc import Callable

from psycopg.errors import LockNotAvailable

from core.errors import Unavailable
from eventlog.database import Connection
from eventlog.log import Log
from eventlog.projection import AnyProjection, Checkpoint, checkpoints, is_second, locks, second, tables
from eventlog.projection.beside import Beside
from eventlog.projection.runner import catch_up

_TRIES = 10
_PATIENCE = "SET LOCAL lock_timeout = '5s'"


def rebuild(
    log: Log,
    connection: Connection,
    projection: AnyProjection,
    *,
    progress: Callable[[int, int], None] | None = None,
    processes: int = 1,
) -> Checkpoint:
    """Fold the whole log into new tables and let them take the place of the old ones; returns where it
    stands then. A second stage needs its sources caught up."""
    beside = Beside.of(projection)
    _start_over_if_useless(connection, beside)
    for _ in range(_TRIES):
        catch_up(log, connection, [beside], progress=progress, processes=processes)
        if _flip(connection, projection, beside):
            tables.analyze(connection, projection)
            return checkpoints(connection, [projection])[0]
    raise Unavailable(
        "the old tables are being read all the time, or are always ahead",
        where=f"projection {projection.name} v{projection.version}",
        mend="run it again: what was built is kept",
    )


def _start_over_if_useless(connection: Connection, beside: AnyProjection) -> None:
    """What an interrupted rebuild left is dropped if the log or the table's shape is another by now."""
    with connection.transaction():
        locks.hold(connection, [beside])
        (point,) = checkpoints(connection, [beside])
        if point.made and not (point.trusted and tables.fits(connection, beside)):
            tables.drop(connection, beside.name, beside.version)


def _flip(connection: Connection, projection: AnyProjection, beside: AnyProjection) -> bool:
    """Put the new one in the place of the old, if it is as far; False where it has to catch up first, or
    the old one is being read."""
    try:
        with connection.transaction():
            upon = second.upon(connection, projection) if not is_second(projection) else []
            locks.hold(connection, [projection, beside, *upon])
            connection.execute(_PATIENCE)
            old, new = checkpoints(connection, [projection, beside])
            if old.trusted and new.position < old.position:
                return False
            tables.flip(connection, projection)
            tables.publish(connection, projection)
            second.reset(connection, upon)
    except LockNotAvailable:
        return False
    return True
