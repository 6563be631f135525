"""One transaction of the ledger: an event or a packed batch, its place in the log, its segment.

These run on the writing connection; what they raise leaves the log as it was.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg import errors

from core.errors import DuplicateEvent, TrajlogError, WrongExpectedVersion
from core.event import Event
from eventlog.database import Connection
from eventlog.log import Appended
from eventlog.pack import COLUMNS, HEADER, TRAILER, Packed, crc

_APPEND = (
    "SELECT o_version, o_position FROM trajlog.append_event"
    "(%b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b)"
)
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
_CLOSE = "SELECT trajlog.close_segment(%s, %s, NULL, NULL, NULL, NULL)"
_WRONG_EXPECTED_VERSION = "TL001"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COPY_CHUNK = 1 << 18
_BEHIND = 12

Meanwhile = Callable[[], bool]


def append_one(connection: Connection, row: tuple[Any, ...], event: Event) -> tuple[int, int]:
    """Commit one event, given its `parameters`; returns (version, position). `DuplicateEvent`,
    `WrongExpectedVersion`."""
    try:
        found = connection.execute(_APPEND, row, prepare=True).fetchone()
    except errors.UniqueViolation as error:
        raise _constraint(error) from error
    except psycopg.Error as error:
        if error.sqlstate != _WRONG_EXPECTED_VERSION:
            raise
        actual = int(error.diag.message_detail or 0)
        raise WrongExpectedVersion(event.stream, event.expected_version or 0, actual) from None
    assert found is not None
    return found[0], found[1]


def commit_batch(connection: Connection, packed: Packed, meanwhile: Meanwhile | None = None) -> list[Appended]:
    """Commit a packed batch as one segment. `DuplicateEvent`, `WrongExpectedVersion`.

    `meanwhile` is called whenever the server has more than it can take, until it answers False.
    """
    try:
        with connection.transaction():
            connection.execute(LOCK)
            last = connection.execute(_LAST).fetchone()
            first_position = last[0] + 1 if last else 1
            old: dict[str, int] = dict(
                connection.execute(_HEADS, (list({event.stream for event in packed.events}),)).fetchall()
            )
            heads, versions = _versions(packed.events, old)
            packed.patch(first_position, versions)
            _copy(connection, packed.rows, meanwhile)
            _move_heads(connection, packed.events, old, heads, first_position)
            connection.execute(_CLOSE, (first_position, first_position + len(versions) - 1))
    except errors.UniqueViolation as error:
        raise _constraint(error) from error
    return [
        Appended(event.event_id, event.stream, version, first_position + i)
        for i, (event, version) in enumerate(zip(packed.events, versions, strict=True))
    ]


def _copy(connection: Connection, rows: bytearray, meanwhile: Meanwhile | None) -> None:
    with connection.cursor().copy(COPY) as copy:
        copy.write(HEADER)
        view = memoryview(rows)
        for start in range(0, len(view), _COPY_CHUNK):
            copy.write(view[start : start + _COPY_CHUNK])  # queued: what the socket does not take yet waits
            while meanwhile and connection.pgconn.flush() and meanwhile():
                pass
        for _ in range(_BEHIND):  # the server is that much behind the socket
            if not (meanwhile and meanwhile()):
                break
        copy.write(TRAILER)


def _versions(events: Sequence[Event], old: dict[str, int]) -> tuple[dict[str, int], list[int]]:
    """The streams' heads after these events, and each event's version. `WrongExpectedVersion`."""
    heads = dict(old)
    versions = []
    for event in events:
        head = heads.get(event.stream, 0)
        if event.expected_version is not None and event.expected_version != head:
            raise WrongExpectedVersion(event.stream, event.expected_version, head)
        heads[event.stream] = head + 1
        versions.append(head + 1)
    return heads, versions


def _move_heads(
    connection: Connection,
    events: Sequence[Event],
    old: dict[str, int],
    heads: dict[str, int],
    first_position: int,
) -> None:
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for position, event in enumerate(events, first_position):
        first.setdefault(event.stream, position)
        last[event.stream] = position
    new = [(s, heads[s], first[s], last[s]) for s in first if s not in old]
    known = [(s, old[s], heads[s], last[s]) for s in first if s in old]
    moved = 0
    for query, rows in ((_NEW_HEADS, new), (_MOVE_HEADS, known)):
        if rows:
            moved += connection.execute(query, [list(column) for column in zip(*rows, strict=True)]).rowcount
    if moved != len(first):
        raise TrajlogError("a stream's head moved outside the log's lock", mend="run: trajlog verify")


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
