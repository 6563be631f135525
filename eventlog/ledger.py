"""The ledger: the log in Postgres.

One advisory lock orders all commits. A batch is checked, digested and packed before the lock; under
it only positions and versions are settled, rows copied, heads moved and the segment sealed. What
`append` or `append_many` returns is durable.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
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
from eventlog import commit, database, schema
from eventlog.ahead import BATCH_EVENTS, Ahead
from eventlog.log import Appended, Head
from eventlog.pack import Packed, pack
from eventlog.reader import Reader
from eventlog.sealer import Tiles
from eventlog.watchdog import end_stopped_writer

LOCK_WAIT_S = 2
IDLE_IN_TRANSACTION_S = 10
RECONNECT_AFTER_S = (0.1, 0.4, 1.0, 2.0, 4.0)

_SETTINGS = (
    f"SET lock_timeout = '{LOCK_WAIT_S}s'; SET idle_in_transaction_session_timeout = '{IDLE_IN_TRANSACTION_S}s'; "
    "SET statement_timeout = 0; SET synchronous_commit = on; SET default_transaction_isolation = 'read committed'"
)
_LAST = "SELECT last_position, committed_at, seal FROM trajlog.segment ORDER BY last_position DESC LIMIT 1"
_KNOWN = (
    "SELECT uuid_send(event_id), stream, version, position, owner, digest FROM trajlog.event WHERE event_id = ANY(%s)"
)

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
        row = commit.parameters(event, digest)
        try:
            version, position = self._write(lambda connection: commit.append_one(connection, row, event))
        except (DuplicateEvent, WrongExpectedVersion) as error:
            return self._known([event], [digest], error)[event.event_id]
        return Appended(event.event_id, event.stream, version, position)

    def append_many(self, events: Sequence[Event]) -> list[Appended]:
        return self.commit(pack(events)) if events else []

    def append_all(self, events: Iterable[Event], *, batch: int = BATCH_EVENTS) -> Iterator[list[Appended]]:
        """Commit any number of events, `batch` a segment: the answers of each commit in turn. The next
        batch is packed while the database takes the last. What was answered stands if a later one fails."""
        ahead = Ahead(events, batch)
        while packed := ahead.batch():
            yield self.commit(packed, ahead.some)

    def commit(self, packed: Packed, meanwhile: "commit.Meanwhile | None" = None) -> list[Appended]:
        """Commit a packed batch as one segment, all or nothing. Events that the log has already, or
        that the batch repeats, are left out and answered as duplicates, whatever they expected."""
        events, batch = packed.events, packed
        known: dict[bytes, Appended] = {}
        fresh: list[Appended] = []
        while batch.events:
            try:
                fresh = self._write(partial(commit.commit_batch, packed=batch, meanwhile=meanwhile))
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
        ids = list({UUID(bytes=event.event_id) for event in events})
        rows = self._write(lambda connection: connection.execute(_KNOWN, (ids,)).fetchall())
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


def _taken(event: Event) -> EventIdTaken:
    return EventIdTaken(
        f"event id {UUID(bytes=event.event_id)} stands for another event",
        where=event.stream,
        mend="give each event an id of its own",
    )


def _is_v7(event_id: bytes) -> bool:
    return event_id[6] >> 4 == 7
