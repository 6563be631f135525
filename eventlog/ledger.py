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

import psycopg
from msgspec.structs import replace
from psycopg import errors
from psycopg.pq import TransactionStatus

from core.digest import event_digest
from core.errors import DuplicateEvent, NotFound, TrajlogError, Unavailable, WrongExpectedVersion
from core.event import Event, StoredEvent, check
from eventlog import commit, database, forks, schema
from eventlog.ahead import BATCH_EVENTS, Ahead
from eventlog.log import Appended, Head, Wait
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

if TYPE_CHECKING:
    from eventlog.recorder import Recorder

T = TypeVar("T")


class Ledger:
    """The `Log` in a Postgres database whose schema is this code's; `url` is the application's login.

    One writing connection, guarded by a lock, so that threads may share a ledger; every read runs on
    a connection of its own.
    """

    direct = True

    def __init__(self, url: str, *, blobs: str | Path | None = None) -> None:
        self.url = url
        self.blobs = blobs
        self._lock = threading.RLock()
        self._connection: database.Connection | None = None
        self.reader = Reader(url)
        forks.begin_anew(self)
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

    def append(self, event: Event, *, wait: Wait = "persisted") -> Appended:
        check(event)
        digest = event_digest(event)
        row = commit.parameters(event, digest)
        try:
            version, position = self._write(lambda connection: commit.append_one(connection, row, event))
        except (DuplicateEvent, WrongExpectedVersion) as error:
            return self._known([event.event_id], [event.stream], [event.owner], [digest], error)[event.event_id]
        return Appended(event.event_id, event.stream, version, position)

    def append_many(self, events: Sequence[Event], *, wait: Wait = "persisted") -> list[Appended]:
        return self.commit(pack(events)) if events else []

    def append_all(
        self, events: Iterable[Event], *, batch: int = BATCH_EVENTS, wait: Wait = "persisted"
    ) -> Iterator[list[Appended]]:
        """Commit any number of events, `batch` a segment: the answers of each commit in turn. The next
        batch is packed while the database takes the last. What was answered stands if a later one fails."""
        ahead = Ahead(events, batch)
        while packed := ahead.batch():
            yield self.commit(packed, ahead.some)

    def commit(self, packed: Packed, meanwhile: database.Meanwhile | None = None) -> list[Appended]:
        """Commit a packed batch as one segment, all or nothing. Events that the log has already, or
        that the batch repeats, are left out and answered as duplicates, whatever they expected."""
        ids, batch = packed.ids, packed
        found: dict[bytes, Appended] = {}
        fresh: list[Appended] = []
        while len(batch):
            try:
                fresh = self._write(partial(commit.commit_batch, packed=batch, meanwhile=meanwhile))
                break
            except (DuplicateEvent, WrongExpectedVersion) as error:
                found |= self._known(batch.ids, batch.streams, batch.owners, batch.digests, error)
                rest: dict[bytes, int] = {}
                for place, event_id in enumerate(batch.ids):
                    if event_id not in found:
                        rest.setdefault(event_id, place)
                batch = batch.only(list(rest.values()))
        return _answers(ids, found, fresh)

    def _known(
        self,
        ids: Sequence[bytes],
        streams: Sequence[str],
        owners: Sequence[str | None],
        digests: Sequence[bytes],
        error: TrajlogError,
    ) -> dict[bytes, Appended]:
        """Where those of the events are that the log has already; raises `EventIdTaken` where an id
        stands for something else, and `error` where none is known and none repeated."""
        known = self._write(lambda connection: commit.known(connection, list(set(ids))))
        first: dict[bytes, bytes] = {}
        found: dict[bytes, Appended] = {}
        for event_id, stream, owner, digest in zip(ids, streams, owners, digests, strict=True):
            there = known.get(event_id)
            if there is None:
                if first.setdefault(event_id, digest) != digest:
                    raise commit.taken(event_id, stream)
                continue
            if not there.same(event_id, stream, owner, digest):
                raise commit.taken(event_id, stream)
            found[event_id] = Appended(event_id, stream, there.version, there.position, duplicate=True)
        if not found and len(first) == len(ids):
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

    def forked(self) -> None:
        forks.leave(self._connection)
        self._connection, self._lock = None, threading.RLock()

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
            if connection.pgconn.transaction_status == TransactionStatus.IDLE:
                return connection
            connection.close()
        self._connection = None
        connection = database.connect(self.url)
        with database.translated(self.url):
            connection.execute(_SETTINGS)
        self._connection = connection
        return connection


def _answers(ids: Sequence[bytes], known: dict[bytes, Appended], fresh: list[Appended]) -> list[Appended]:
    """One answer an event, in order; a repeat within the batch is a duplicate of its first."""
    if len(fresh) == len(ids):
        return fresh
    by_id = known | {answer.event_id: answer for answer in fresh}
    answers = []
    for event_id in ids:
        answer = by_id[event_id]
        answers.append(answer)
        by_id[event_id] = replace(answer, duplicate=True)
    return answers
