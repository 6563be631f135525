"""One transaction of the ledger: an event or a packed batch, its place in the log, its segment.

These run on the writing connection; what they raise leaves the log as it was.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

import psycopg
from psycopg import errors

from core.errors import DuplicateEvent, EventIdTaken, TrajlogError, WrongExpectedVersion
from core.event import Event
from core.identity import uuid_text
from eventlog.database import Connection, Meanwhile, Uuids, doing
from eventlog.log import Appended
from eventlog.pack import COLUMNS, HEADER, TRAILER, Packed, crc

_APPEND = "SELECT trajlog.append_event(%b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b)"
LOCK: Final = "SELECT pg_advisory_xact_lock(trajlog.lock_key())"
_LAST = "SELECT last_position, committed_at, seal FROM trajlog.segment ORDER BY last_position DESC LIMIT 1"
_HEADS = "SELECT stream, version FROM trajlog.stream WHERE stream = ANY(%s)"
COPY: Final = f"COPY trajlog.event ({COLUMNS}) FROM STDIN (FORMAT binary)"
_NEW_HEADS = "INSERT INTO trajlog.stream SELECT * FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[])"
_MOVE_HEADS = (
    "UPDATE trajlog.stream s SET version = n.version, last_position = n.last FROM "
    "unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[]) AS n (stream, old, version, last) "
    "WHERE s.stream = n.stream AND s.version = n.old"
)
_CLOSE = "SELECT trajlog.close_segment(%s, %s, %s, %s, %s, %s)"
_KNOWN = (
    "SELECT uuid_send(event_id), stream, version, position, owner, digest FROM trajlog.event WHERE event_id = ANY(%s)"
)
_WRONG_EXPECTED_VERSION = "TL001"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COPY_CHUNK = 1 << 18

Source = tuple[UUID, int, int, int]
"""Of a segment: topic id, partition, first offset, next offset."""


def append_one(connection: Connection, row: tuple[Any, ...], event: Event) -> tuple[int, int]:
    """Commit one event, given its `parameters`; returns (version, position). `DuplicateEvent`,
    `WrongExpectedVersion`."""
    try:
        found = connection.repeat(_APPEND, row)
    except errors.UniqueViolation as error:
        raise _constraint(error) from error
    except psycopg.Error as error:
        if error.sqlstate != _WRONG_EXPECTED_VERSION:
            raise
        actual = int(error.diag.message_detail or 0)
        raise WrongExpectedVersion(event.stream, event.expected_version or 0, actual) from None
    assert found is not None
    version, position = found[0]
    return version, position


def commit_batch(connection: Connection, packed: Packed, meanwhile: Meanwhile | None = None) -> list[Appended]:
    """Commit a packed batch as one segment. `DuplicateEvent`, `WrongExpectedVersion`.

    `meanwhile` is called whenever the server is at work, until it answers False.
    """
    with doing(connection, meanwhile), connection.transaction():
        first_position = lock(connection)
        old = heads(connection, packed.streams)
        versions = versions_of(packed, old)
        write(connection, [packed], versions, old, first_position)
        close(connection, first_position, first_position + len(versions) - 1)
    return [
        Appended(event_id, stream, version, first_position + i)
        for i, (event_id, stream, version) in enumerate(zip(packed.ids, packed.streams, versions, strict=True))
    ]


# The steps of a transaction that writes a batch, in order.


def lock(connection: Connection) -> int:
    """Take the log's lock until the transaction ends; the position that comes next."""
    connection.execute(LOCK)
    last = connection.execute(_LAST).fetchone()  # a statement of its own: it sees what was committed meanwhile
    return last[0] + 1 if last else 1


def heads(connection: Connection, streams: Sequence[str]) -> dict[str, int]:
    """The versions of those of the streams that exist."""
    return dict(connection.execute(_HEADS, (list(set(streams)),)).fetchall())


def versions_of(packed: Packed, old: Mapping[str, int]) -> list[int]:
    """Each event's version, given the streams' heads. `WrongExpectedVersion`."""
    heads = dict(old)
    versions = []
    for stream, expected in zip(packed.streams, packed.expected, strict=True):
        head = heads.get(stream, 0)
        if expected is not None and expected != head:
            raise WrongExpectedVersion(stream, expected, head)
        heads[stream] = head = head + 1
        versions.append(head)
    return versions


def write(
    connection: Connection,
    batches: Sequence[Packed],
    versions: Sequence[int],
    old: Mapping[str, int],
    first_position: int,
) -> None:
    """Write the events of the batches, one after the other, and move their streams' heads. `DuplicateEvent`."""
    start = 0
    for packed in batches:
        packed.patch(first_position + start, versions[start : start + len(packed)])
        start += len(packed)
    try:
        _copy(connection, [packed.rows for packed in batches])
        _move_heads(connection, [s for packed in batches for s in packed.streams], versions, old, first_position)
    except errors.UniqueViolation as error:
        raise _constraint(error) from error


def close(connection: Connection, first_position: int, last_position: int, source: Source | None = None) -> None:
    """Seal what was written as a segment, and say where it came from."""
    connection.execute(_CLOSE, (first_position, last_position, *(source or (None, None, None, None))))


def _copy(connection: Connection, batches: Sequence[bytearray]) -> None:
    with connection.cursor().copy(COPY) as copy:
        copy.write(HEADER)
        for rows in batches:
            view = memoryview(rows)
            for start in range(0, len(view), _COPY_CHUNK):
                copy.write(view[start : start + _COPY_CHUNK])  # queued: what the socket does not take yet waits
                while connection.meanwhile and connection.pgconn.flush() and connection.meanwhile():
                    pass
        copy.write(TRAILER)


def _move_heads(
    connection: Connection,
    streams: Sequence[str],
    versions: Sequence[int],
    old: Mapping[str, int],
    first_position: int,
) -> None:
    positions = range(first_position, first_position + len(streams))
    head = dict(zip(streams, versions, strict=True))
    last = dict(zip(streams, positions, strict=True))
    first = dict(zip(reversed(streams), reversed(positions), strict=True))
    new = [(s, head[s], first[s], last[s]) for s in head if s not in old]
    known = [(s, old[s], head[s], last[s]) for s in head if s in old]
    moved = 0
    for query, rows in ((_NEW_HEADS, new), (_MOVE_HEADS, known)):
        if rows:
            moved += connection.execute(query, [list(column) for column in zip(*rows, strict=True)]).rowcount
    if moved != len(head):
        raise TrajlogError("a stream's head moved outside the log's lock", mend="run: trajlog verify")


class Known(NamedTuple):
    """Where an event id stands already."""

    stream: str
    version: int
    position: int
    owner: str | None
    digest: bytes

    def same(self, event_id: bytes, stream: str, owner: str | None, digest: bytes) -> bool:
        """Whether it stands there for this very event. An imported one (UUIDv8) may be written anew in
        other words: its id follows from its source."""
        return stream == self.stream and owner == self.owner and (digest == self.digest or event_id[6] >> 4 != 7)


def known(connection: Connection, ids: Sequence[bytes]) -> dict[bytes, Known]:
    """Those of the event ids that the log has already."""
    rows = connection.execute(_KNOWN, (Uuids(ids),), binary=True).fetchall()
    return {row[0]: Known(*row[1:]) for row in rows}


def taken(event_id: bytes, stream: str) -> EventIdTaken:
    """The error for an event id that stands for something else."""
    return EventIdTaken(
        f"event id {uuid_text(event_id)} stands for another event",
        where=stream,
        mend="give each event an id of its own",
    )


def _constraint(error: errors.UniqueViolation) -> TrajlogError:
    """A named constraint as what it means to a writer."""
    if error.diag.constraint_name == "event_event_id_key":
        return DuplicateEvent("an event id is in the log already")
    return TrajlogError(
        f"the log's heads disagree with its events ({error.diag.constraint_name})", mend="run: trajlog verify"
    )


def parameters(event: Event, digest: bytes) -> tuple[Any, ...]:
    """The arguments of `trajlog.append_event`."""
    return (
        UUID(bytes=event.event_id),
        UUID(bytes=event.run),
        event.seq,
        event.schema,
        digest,
        crc(event.body),
        event.stream,
        event.writer,
        event.type,
        None if event.occurred_at is None else _EPOCH + timedelta(microseconds=event.occurred_at),
        event.actor,
        event.owner,
        event.key_id,
        None if event.causation_id is None else UUID(bytes=event.causation_id),
        event.correlation_id,
        event.conversation,
        event.body,
        event.expected_version,
    )
