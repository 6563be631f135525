"""Records that could not be accepted: kept whole, with the reason, and never in anybody's way.

Nothing leaves the table. A record that is retried or dropped changes its state, and an event in
`quarantine/<month>` says so.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from psycopg import errors

from core.codec import decode
from core.digest import event_digest
from core.errors import BadEvent, EventIdTaken, NotFound, TrajlogError, WrongExpectedVersion
from core.event import Event
from core.times import now, to_text
from core.vocabulary.access import RecordDropped, RecordRetried
from core.vocabulary.base import Payload
from eventlog import commit
from eventlog.database import Connection
from eventlog.kafka.client import Record
from eventlog.log import Appended
from eventlog.persister.batch import record_digest
from eventlog.persister.decode import Fault
from eventlog.writer import Writer

REASONS: Final = {
    "not_json": "the value is not JSON",
    "missing_fields": "a field that every event has is not there",
    "bad_event": "an event that the log does not accept",
    "misrouted": "the key is not the stream, or lies in the wrong partition",
    "id_taken": "its event id stands for another event",
    "refused": "its expected version was not the stream's",
    "too_large": "more bytes than an event may have",
    "null_value": "a record without a value",
    "not_storable": "the database cannot hold it",
}
STATES: Final = ("held", "retried", "dropped")

_HOLD = (
    "INSERT INTO trajlog.quarantine (topic_id, partition, offset_, digest, key, value, headers, reason, detail, "
    "event_id, stream) VALUES (%b, %b::int, %b::bigint, %b, %b, %b, %b, %s, %s, %b, %s) "
    "ON CONFLICT ON CONSTRAINT quarantine_record_key DO NOTHING"
)
_COLUMNS = (
    "id, uuid_send(topic_id), partition, offset_, reason, detail, uuid_send(event_id), stream, quarantined_at, state, "
    "octet_length(value), digest"
)
_LIST = (
    f"SELECT {_COLUMNS} FROM trajlog.quarantine WHERE (%(state)s::text IS NULL OR state = %(state)s) "
    "AND (%(reason)s::text IS NULL OR reason = %(reason)s) "
    "AND (%(partition)s::int IS NULL OR partition = %(partition)s) "
    "AND (%(stream)s::text IS NULL OR stream = %(stream)s) "
    "AND (%(since)s::timestamptz IS NULL OR quarantined_at >= %(since)s::timestamptz) ORDER BY id DESC LIMIT %(limit)s"
)
_SHOW = f"SELECT {_COLUMNS} FROM trajlog.quarantine WHERE id = %s"
_RAW = "SELECT key, value, headers FROM trajlog.quarantine WHERE id = %s"
_CLAIM = "SELECT state, reason, digest FROM trajlog.quarantine WHERE id = %s FOR UPDATE"
_SET = "UPDATE trajlog.quarantine SET state = %s WHERE id = %s"
_WRITER = Writer("quarantine")


class Held(NamedTuple):
    """A record in quarantine, without its bytes. `offset` is its place in the partition; `size` None: no value."""

    id: int
    topic_id: bytes
    partition: int
    offset: int
    reason: str
    detail: str
    event_id: bytes | None
    stream: str | None
    quarantined_at: int
    state: str
    size: int | None
    digest: bytes


class Raw(NamedTuple):
    """A record's bytes as Kafka had them."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class Filters(NamedTuple):
    """Which records to list; None is any. `since` is RFC 3339."""

    state: str | None = "held"
    reason: str | None = None
    partition: int | None = None
    stream: str | None = None
    since: str | None = None
    limit: int | None = None


def hold(connection: Connection, topic_id: UUID, records: Iterable[tuple[Record, Fault]]) -> None:
    """Put records into quarantine, in the caller's transaction."""
    rows = [
        (
            topic_id,
            record.partition,
            record.offset,
            record_digest(record),
            record.key,
            record.value,
            msgspec.msgpack.encode(record.headers) if record.headers else None,
            fault.reason,
            fault.detail,
            None if fault.event_id is None else UUID(bytes=fault.event_id),
            fault.stream,
        )
        for record, fault in sorted(records, key=lambda held: (held[0].partition, held[0].offset))
    ]
    connection.cursor().executemany(_HOLD, rows)


def ls(connection: Connection, filters: Filters) -> list[Held]:
    """Records that match, the latest first."""
    return [Held(*row) for row in connection.execute(_LIST, filters._asdict(), binary=True)]


def show(connection: Connection, number: int) -> Held:
    """One record. `NotFound`."""
    row = connection.execute(_SHOW, (number,), binary=True).fetchone()
    if row is None:
        raise _unknown(number)
    return Held(*row)


def raw(connection: Connection, number: int) -> Raw:
    """Its bytes. `NotFound`."""
    row = connection.execute(_RAW, (number,), binary=True).fetchone()
    if row is None:
        raise _unknown(number)
    headers = msgspec.msgpack.decode(row[2], type=tuple[tuple[str, bytes], ...]) if row[2] else ()
    return Raw(row[0], row[1], headers)


class Retried(NamedTuple):
    """What a retry came to: the event's place in the log, or why it is still no event."""

    number: int
    appended: Appended | None
    why: str | None = None


def retry(connection: Connection, number: int) -> Retried:
    """Send a held record through the door again, straight into the log.

    Where its partition was wrong it is taken now: only its order among others of its stream may be
    another. What was refused for its expected version stays refused. `NotFound`, `TrajlogError`.
    """
    with connection.transaction():
        reason, _ = _claim(connection, number)
        if reason == "refused":
            raise TrajlogError(
                "a refused event stays refused",
                where=f"record {number}",
                mend="append a new one, with an id of its own",
            )
        try:
            appended, why = _append(connection, decode(raw(connection, number).value or b"")), None
        except (BadEvent, EventIdTaken, WrongExpectedVersion) as error:
            appended, why = None, str(error)
        if appended is not None:
            connection.execute(_SET, ("retried", number))
        _leave_event(connection, RecordRetried(number, appended is not None, why or reason))
    return Retried(number, appended, why)


def drop(connection: Connection, number: int, why: str | None = None) -> None:
    """Give a held record up; its bytes stay. `NotFound`, `TrajlogError`."""
    with connection.transaction():
        _, digest = _claim(connection, number)
        connection.execute(_SET, ("dropped", number))
        _leave_event(connection, RecordDropped(number, digest.hex(), why))


def _claim(connection: Connection, number: int) -> tuple[str, bytes]:
    """Reason and digest of a held record, which nobody else may change until the transaction ends."""
    row = connection.execute(_CLAIM, (number,), binary=True).fetchone()
    if row is None:
        raise _unknown(number)
    if row[0] != "held":
        raise TrajlogError(f"the record was {row[0]} already", where=f"record {number}")
    return row[1], row[2]


def _append(connection: Connection, event: Event) -> Appended:
    """Append an event in the caller's transaction. `EventIdTaken`, `WrongExpectedVersion`."""
    digest = event_digest(event)
    connection.execute(commit.LOCK)
    there = commit.known(connection, [event.event_id]).get(event.event_id)
    if there is not None:
        if not there.same(event.event_id, event.stream, event.owner, digest):
            raise commit.taken(event.event_id, event.stream)
        return Appended(event.event_id, event.stream, there.version, there.position, duplicate=True)
    try:
        with connection.transaction():
            place = commit.append_one(connection, commit.parameters(event, digest), event)
    except (errors.DataError, errors.ProgramLimitExceeded) as error:
        raise BadEvent(f"the database cannot hold it: {str(error).splitlines()[0]}") from None
    return Appended(event.event_id, event.stream, *place)


def _leave_event(connection: Connection, payload: Payload) -> None:
    event = _WRITER.event(f"quarantine/{to_text(now())[:7]}", payload, occurred_at=now())
    commit.append_one(connection, commit.parameters(event, event_digest(event)), event)


def _unknown(number: int) -> NotFound:
    return NotFound(f"no record {number} in quarantine", mend="trajlog quarantine ls --state all lists them")


def counts(connection: Connection) -> Sequence[tuple[Any, ...]]:
    """(topic id, partition, reason, how many) of what is held."""
    return connection.execute(
        "SELECT uuid_send(topic_id), partition, reason, count(*) FROM trajlog.quarantine WHERE state = 'held' "
        "GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
        binary=True,
    ).fetchall()
