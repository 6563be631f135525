"""Reactors: what does something in the world about an event (sends, calls, starts), so never in a rebuild.

A reactor is given each event at least once, those of a stream in order. Its checkpoint is stored after
`react` has returned: a process that dies in between reacts again, so what it does has to be safe to do
twice (`event.event_id` tells). It begins at the head of the log it first sees, not at its start. An event
it cannot take parks the stream; every run tries parked streams again, and `trajlog project retry` does.
"""

from collections.abc import Callable
from typing import Protocol

from core.errors import Corrupt
from core.event import StoredEvent
from eventlog.database import Connection
from eventlog.log import Log
from eventlog.projection import checkpoints
from eventlog.projection.batch import reason

VERSION = 1
"""A reactor has no table, hence one version for ever."""

SCANNED = 1_000
"""Positions without an event for it after which the checkpoint is stored."""

_LOCK = "SELECT pg_try_advisory_lock(839, hashtext(%s))"
_UNLOCK = "SELECT pg_advisory_unlock(839, hashtext(%s))"
_BEGIN = """
INSERT INTO trajlog.projection (name, version, position, seal, live)
SELECT %s, 1, coalesce(max(last_position), 0),
       (SELECT seal FROM trajlog.segment ORDER BY last_position DESC LIMIT 1), true
FROM trajlog.segment ON CONFLICT DO NOTHING
"""
_MOVE = """
UPDATE trajlog.projection SET position = %s,
       seal = (SELECT seal FROM trajlog.segment WHERE last_position >= %s ORDER BY last_position LIMIT 1)
WHERE name = %s AND version = 1
"""
_PARKED = "SELECT stream, position FROM trajlog.parked WHERE name = %s AND version = 1 ORDER BY position"
_PARK = """
INSERT INTO trajlog.parked VALUES (%s, 1, %s, %s, %s)
ON CONFLICT (name, version, stream) DO UPDATE SET position = EXCLUDED.position, reason = EXCLUDED.reason
"""
_UNPARK = "DELETE FROM trajlog.parked WHERE name = %s AND version = 1 AND stream = %s"


class Reactor(Protocol):
    """Something with effects. `prefix` says which streams' events it is given."""

    @property
    def name(self) -> str: ...

    @property
    def prefix(self) -> str: ...

    def react(self, event: StoredEvent) -> None:
        """Do what the event asks for. What it raises parks the stream."""
        ...


class Known:
    """A reactor's name and version, as its checkpoint has them."""

    version = VERSION

    def __init__(self, name: str) -> None:
        self.name = name


def run(
    log: Log, connection: Connection, reactor: Reactor, *, progress: Callable[[int, int], None] | None = None
) -> int | None:
    """React to what the log holds now, parked streams first; returns the position reached, or None where
    another process runs this reactor. `Corrupt` where the log is not the one it reacted to."""
    name = reactor.name
    if connection.execute(_LOCK, (name,)).fetchone() != (True,):
        return None
    try:
        connection.execute(_BEGIN, (name,))
        (point,) = checkpoints(connection, [Known(name)])
        if not point.trusted:
            raise Corrupt(
                f"the log is not the one it reacted to up to position {point.position}: it was restored or failed over",
                where=f"reactor {name}",
                mend=f"say from where it goes on: trajlog project retry {name} --from POSITION",
            )
        parked = _parked_again(log, connection, reactor, point.position)
        position, start = point.position, point.position
        for event in log.read_all(after=start, until=point.head):
            concerns = event.stream.startswith(reactor.prefix) and event.stream not in parked
            if concerns and not _react(connection, reactor, event):
                parked.add(event.stream)
            if concerns or event.position - position >= SCANNED:
                position = event.position
                connection.execute(_MOVE, (position, position, name))
            if progress:
                progress(event.position - start, point.head - start)
        if position < point.head:
            connection.execute(_MOVE, (point.head, point.head, name))
        return point.head
    finally:
        if not connection.closed:
            connection.execute(_UNLOCK, (name,))


def begin(connection: Connection, reactor: Reactor, position: int) -> None:
    """Let it react again from an event on, or, after a failover, say where it goes on."""
    connection.execute(_BEGIN, (reactor.name,))
    connection.execute(_MOVE, (position - 1, position - 1, reactor.name))


def _parked_again(log: Log, connection: Connection, reactor: Reactor, until: int) -> set[str]:
    """Try the parked streams from where they stopped; those that stop again."""
    still = set()
    for stream, position in connection.execute(_PARKED, (reactor.name,)).fetchall():
        for event in log.read(stream, as_of=until):
            if event.position >= position and not _react(connection, reactor, event):
                still.add(stream)
                break
        else:
            connection.execute(_UNPARK, (reactor.name, stream))
    return still


def _react(connection: Connection, reactor: Reactor, event: StoredEvent) -> bool:
    try:
        reactor.react(event)
    except Exception as error:
        connection.execute(_PARK, (reactor.name, event.stream, event.position, reason(error, event)))
        return False
    return True
