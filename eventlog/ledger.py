"""The ledger: the log in Postgres.

One advisory lock orders all commits. A batch is checked, digested and packed before the lock; under
it only positions and versions are settled, rows copied, heads moved and the segment sealed. What
`append` or `append_many` returns is durable.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import UUID

import psycopg
from msgspec.structs import replace
from psycopg import errors
from psycopg.pq import TransactionStatus

from core.digest import event_digest
from core.errors import DuplicateEvent, EventIdTaken, NotFound, TrajlogError, Unavailable, WrongExpectedVersion
from core.event import Event, StoredEvent, check
from eventlog import database, schema
from eventlog.log import Appended, Head
from eventlog.pack import COLUMNS, HEADER, TRAILER, Packed, crc, pack
from eventlog.reader import Reader
from eventlog.sealer import Tiles
from eventlog.watchdog import end_stopped_writer

LOCK_WAIT_S = 2
IDLE_IN_TRANSACTION_S = 10
RECONNECT_AFTER_S = (0.1, 0.4, 1.0, 2.0, 4.0)
BATCH_EVENTS = 10_000
BATCH_BYTES = 32_000_000
_COPY_CHUNK = 1 << 20

_SETTINGS = (
    f"SET lock_timeout = '{LOCK_WAIT_S}s'; SET idle_in_transaction_session_timeout = '{IDLE_IN_TRANSACTION_S}s'; "
    "SET statement_timeout = 0; SET synchronous_commit = on; SET default_transaction_isolation = 'read committed'"
)
_APPEND = (
    "SELECT o_version, o_position FROM trajlog.append_event"
    "(%b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b)"
)
_LOCK = "SELECT pg_advisory_xact_lock(trajlog.lock_key())"
_LAST = "SELECT last_position, committed_at, seal FROM trajlog.segment ORDER BY last_position DESC LIMIT 1"
_HEADS = "SELECT stream, version FROM trajlog.stream WHERE stream = ANY(%s)"
_COPY = f"COPY trajlog.event ({COLUMNS}) FROM STDIN (FORMAT binary)"
_NEW_HEADS = "INSERT INTO trajlog.stream SELECT * FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[])"
_MOVE_HEADS = (
    "UPDATE trajlog.stream s SET version = n.version, last_position = n.last FROM "
    "unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[]) AS n (stream, old, version, last) "
    "WHERE s.stream = n.stream AND s.version = n.old"
)
_CLOSE = "SELECT trajlog.close_segment(%s, %s, NULL, NULL, NULL, NULL)"
_KNOWN = (
    "SELECT uuid_send(event_id), stream, version, position, owner, digest FROM trajlog.event WHERE event_id = ANY(%s)"
)
_WRONG_EXPECTED_VERSION = "TL001"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

if TYPE_CHECKING:
    from eventlog.recorder import Recorder

T = TypeVar("T")


class Ledger:
    """The `Log` in a Postgres database whose schema is this code's; `url` is the application's login.

    One writing connection, guarded by a lock, so that threads may share a ledger; every read runs on
    a connection of its own.
    """

    def __init__(self, url: str, *, blobs: str | Path | None = None) -> None:
        self.url = url
        self.blobs = blobs
        self._lock = threading.RLock()
        self._connection: database.Connection | None = None
        self.reader = Reader(url)
        with self.reader.borrow() as connection:
            found = schema.version(connection)
            if found != schema.SCHEMA:
                raise schema.mismatch(found, database.masked(url))
            row = connection.execute("SELECT log_id FROM trajlog.log").fetchone()
        if row is None:
            raise NotFound("the log has no identity", where=database.masked(url), mend="restore its database")
        self._log_id: bytes = row[0].bytes

    @property
    def log_id(self) -> bytes:
        return self._log_id

    # -- writing ---------------------------------------------------------------------------------

    def append(self, event: Event) -> Appended:
        check(event)
        digest = event_digest(event)
        row = parameters(event, digest)
        try:
            version, position = self._write(lambda connection: _append(connection, row, event))
        except (DuplicateEvent, WrongExpectedVersion) as error:
            return self._known([event], [digest], error)[event.event_id]
        return Appended(event.event_id, event.stream, version, position)

    def append_many(self, events: Sequence[Event]) -> list[Appended]:
        return self.commit(pack(events)) if events else []

    def append_all(self, events: Iterable[Event], *, batch: int = BATCH_EVENTS) -> Iterator[list[Appended]]:
        """Commit any number of events, `batch` a segment: the answers of each commit in turn. The next
        batch is packed while the database takes the last. What was answered stands if a later one fails."""
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="trajlog-commit") as sender:
            pending: Future[list[Appended]] | None = None
            try:
                for packed in map(pack, _batches(events, batch)):
                    if pending is not None:
                        done, pending = pending, None
                        yield done.result()
                    pending = sender.submit(self.commit, packed)
            except Exception:
                if pending is not None:
                    yield pending.result()
                raise
            if pending is not None:
                yield pending.result()

    def commit(self, packed: Packed) -> list[Appended]:
        """Commit a packed batch as one segment, all or nothing. Events that the log has already, or
        that the batch repeats, are left out and answered as duplicates, whatever they expected."""
        events, batch = packed.events, packed
        known: dict[bytes, Appended] = {}
        fresh: list[Appended] = []
        while batch.events:
            try:
                fresh = self._write(partial(_commit, packed=batch))
                break
            except (DuplicateEvent, WrongExpectedVersion) as error:
                known |= self._known(batch.events, batch.digests, error)
                rest: dict[bytes, Event] = {}
                for event in batch.events:
                    if event.event_id not in known:
                        rest.setdefault(event.event_id, event)
                batch = pack(list(rest.values()))
        return _answers(events, known, fresh)

    def _known(self, events: Sequence[Event], digests: Sequence[bytes], error: TrajlogError) -> dict[bytes, Appended]:
        """Where those of the events are that the log has already; raises `EventIdTaken` where an id
        stands for something else, and `error` where none is known and none repeated."""
        ids = list({event.event_id for event in events})
        with self.reader.borrow() as connection:
            rows = connection.execute(_KNOWN, ([UUID(bytes=event_id) for event_id in ids],)).fetchall()
        stored = {row[0]: row for row in rows}
        first: dict[bytes, bytes] = {}
        found: dict[bytes, Appended] = {}
        for event, digest in zip(events, digests, strict=True):
            event_id = event.event_id
            if event_id not in stored:
                if first.setdefault(event_id, digest) != digest:
                    raise _taken(event)
                continue
            _, stream, version, position, owner, was = stored[event_id]
            if stream != event.stream or owner != event.owner or (_is_v7(event_id) and was != digest):
                raise _taken(event)
            found[event_id] = Appended(event_id, stream, version, position, duplicate=True)
        if not found and len(first) == len(events):
            raise error
        return found

    # -- reading ---------------------------------------------------------------------------------

    def read(
        self, stream: str, *, after: int = 0, until: int | None = None, as_of: int | None = None
    ) -> Iterator[StoredEvent]:
        return self.reader.stream(stream, after=after, until=until, as_of=as_of)

    def read_all(self, *, after: int = 0, until: int | None = None) -> Iterator[StoredEvent]:
        return self.reader.positions(after=after, until=self.head().position if until is None else until)

    def follow(
        self, *, after: int | None = None, stream: str | None = None, poll: float = 0.05
    ) -> Iterator[StoredEvent | None]:
        return self.reader.follow(after=self.head().position if after is None else after, stream=stream, poll=poll)

    def head(self) -> Head:
        with self.reader.borrow() as connection:
            row = connection.execute(_LAST, binary=True).fetchone()
        return Head(*row) if row else Head(0)

    def stream_head(self, stream: str) -> int:
        with self.reader.borrow() as connection:
            row = connection.execute("SELECT version FROM trajlog.stream WHERE stream = %s", (stream,)).fetchone()
        return row[0] if row else 0

    def root(self, position: int | None = None) -> bytes:
        with self.reader.borrow() as connection:
            return Tiles(connection).root(position)

    def seal(self) -> int:
        with self.reader.borrow() as connection:
            return Tiles(connection).build()

    def episode(self, **given: Any) -> "Recorder":
        from eventlog.recorder import record

        return record(self, **given)

    # -- connections -----------------------------------------------------------------------------

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
        self.reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _write(self, work: Callable[[database.Connection], T]) -> T:
        """Run `work` on the writing connection, alone.

        Whoever holds the log's lock is waited for as long as it moves; a stopped one is ended by the
        watchdog. A connection that breaks is replaced, a server that restarts is waited for, and the
        work done again: event ids make that safe even where the first try was committed.
        """
        with self._lock:
            delays = iter(RECONNECT_AFTER_S)
            while True:
                try:
                    return work(self._writer())
                except errors.LockNotAvailable:
                    with suppress(Unavailable):
                        end_stopped_writer(self.url)
                except (psycopg.Error, Unavailable) as error:
                    lost = self._connection is None or self._connection.closed
                    delay = next(delays, None)
                    if not lost or delay is None:
                        if isinstance(error, psycopg.Error):
                            raise database.translate(error, database.masked(self.url)) from error
                        raise
                    self._connection = None
                    time.sleep(delay)

    def _writer(self) -> database.Connection:
        """The writing connection; one that an interrupt left inside a transaction is replaced."""
        connection = self._connection
        if connection is not None and not connection.closed:
            if connection.info.transaction_status == TransactionStatus.IDLE:
                return connection
            connection.close()
        self._connection = None
        connection = database.connect(self.url)
        with database.translated(self.url):
            connection.execute(_SETTINGS)
        self._connection = connection
        return connection


def _append(connection: database.Connection, row: tuple[Any, ...], event: Event) -> tuple[int, int]:
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


def _commit(connection: database.Connection, packed: Packed) -> list[Appended]:
    try:
        with connection.transaction():
            connection.execute(_LOCK)
            last = connection.execute(_LAST).fetchone()
            first_position = last[0] + 1 if last else 1
            old: dict[str, int] = dict(
                connection.execute(_HEADS, (list({event.stream for event in packed.events}),)).fetchall()
            )
            heads, versions = _versions(packed.events, old)
            packed.patch(first_position, versions)
            with connection.cursor().copy(_COPY) as copy:
                copy.write(HEADER)
                rows = memoryview(packed.rows)
                for start in range(0, len(rows), _COPY_CHUNK):
                    copy.write(rows[start : start + _COPY_CHUNK])
                copy.write(TRAILER)
            _move_heads(connection, packed.events, old, heads, first_position)
            connection.execute(_CLOSE, (first_position, first_position + len(versions) - 1))
    except errors.UniqueViolation as error:
        raise _constraint(error) from error
    return [
        Appended(event.event_id, event.stream, version, first_position + i)
        for i, (event, version) in enumerate(zip(packed.events, versions, strict=True))
    ]


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


def _batches(events: Iterable[Event], most: int) -> Iterator[list[Event]]:
    """Lists of at most `most` events and `BATCH_BYTES` of payload."""
    batch: list[Event] = []
    size = 0
    for event in events:
        batch.append(event)
        size += len(event.body)
        if len(batch) == most or size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _answers(events: Sequence[Event], known: dict[bytes, Appended], fresh: list[Appended]) -> list[Appended]:
    """One answer an event, in order; a repeat within the batch is a duplicate of its first."""
    if len(fresh) == len(events):
        return fresh
    by_id = known | {answer.event_id: answer for answer in fresh}
    answers = []
    for event in events:
        answer = by_id[event.event_id]
        answers.append(answer)
        by_id[event.event_id] = replace(answer, duplicate=True)
    return answers


def _move_heads(
    connection: database.Connection,
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


def _taken(event: Event) -> EventIdTaken:
    return EventIdTaken(
        f"event id {UUID(bytes=event.event_id)} stands for another event",
        where=event.stream,
        mend="give each event an id of its own",
    )


def _is_v7(event_id: bytes) -> bool:
    return event_id[6] >> 4 == 7


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
