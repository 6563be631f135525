"""Reading the ledger: events by stream, by position, and as they come.

Reads run on connections of their own, borrowed from a small pool; pages are bounded in rows and in
bytes, so that memory stays flat however large the events are.
"""

import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from core.event import StoredEvent
from core.times import IN_2000
from eventlog import database, forks

FIELDS: Final = (
    "e.position, e.version, uuid_send(e.event_id), uuid_send(e.run), e.seq, e.schema, e.digest, e.stream, e.writer, "
    "e.type, e.occurred_at, e.actor, e.owner, e.key_id, uuid_send(e.causation_id), e.correlation_id, e.conversation, "
    "e.body, e.crc"
)
CRC: Final = 18
COMMITTED_AT: Final = (
    "(SELECT s.committed_at FROM trajlog.segment s "
    "WHERE s.last_position >= e.position ORDER BY s.last_position LIMIT 1)"
)
_STREAM = (
    f"SELECT {FIELDS}, {COMMITTED_AT} FROM trajlog.event e "
    "WHERE e.stream = %s AND e.version > %s AND e.version <= %s AND e.position <= %s ORDER BY e.version LIMIT %s"
)
_POSITIONS = (
    f"SELECT {FIELDS} FROM trajlog.event e WHERE e.position > %s AND e.position <= %s ORDER BY e.position LIMIT %s"
)
_SHARD = _POSITIONS.replace("ORDER BY", "AND mod(hashtextextended(e.stream, 0), %s) IN (%s, %s) ORDER BY")
_THESE = f"SELECT {FIELDS} FROM trajlog.event e WHERE e.position = ANY(%s) ORDER BY e.position"
_PLACES = (
    "SELECT position, octet_length(body) FROM trajlog.event WHERE stream = %s AND position <= %s ORDER BY position"
)
_STREAM_SIZE = (
    "SELECT sum(size) FROM (SELECT octet_length(body) AS size FROM trajlog.event "
    "WHERE stream = %s AND version > %s AND version <= %s ORDER BY version LIMIT %s) page"
)
_SIZE = (
    "SELECT sum(size) FROM (SELECT octet_length(body) AS size FROM trajlog.event "
    "WHERE position > %s AND position <= %s ORDER BY position LIMIT %s) page"
)
_SEGMENTS = (
    "SELECT last_position, committed_at FROM trajlog.segment WHERE last_position >= %s AND last_position <= "
    "coalesce((SELECT min(last_position) FROM trajlog.segment WHERE last_position >= %s), 9223372036854775807) "
    "ORDER BY last_position"
)
_VERSION = "SELECT coalesce(max(version), 0) FROM trajlog.event WHERE stream = %s"
_VERSION_AT = f"{_VERSION} AND position <= %s"
_HEAD = "SELECT last_position FROM trajlog.segment ORDER BY last_position DESC LIMIT 1"
_LAST_POSITION: Final = 2**63 - 1
_PAGE_ROWS = 10_000
_PAGE_BYTES = 16_000_000
_FIRST_PAGE = 64


class Reader:
    """Reads one database; `url` is the application's login. Safe to share between threads."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._idle: list[database.Connection] = []
        self._lock = threading.Lock()
        forks.begin_anew(self)

    @contextmanager
    def borrow(self) -> Iterator[database.Connection]:
        """A connection for one read; a broken one is not kept."""
        connection = self._rested() or database.connect(self.url)
        try:
            with database.translated(self.url):
                yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)

    def _rested(self) -> database.Connection | None:
        """An idle connection that still stands: a server that went away has said so, or hung up."""
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                if not connection.closed and not _has_news(connection):
                    return connection
                connection.close()
        return None

    def forked(self) -> None:
        forks.leave(self._idle)
        self._idle, self._lock = [], threading.Lock()

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()

    def stream(self, stream: str, *, after: int, until: int | None, as_of: int | None) -> Iterator[StoredEvent]:
        """Events of one stream by version, up to what is committed when it starts."""
        as_of = _LAST_POSITION if as_of is None else as_of
        limit = _FIRST_PAGE
        while True:
            with self.borrow() as connection:
                if until is None:
                    until = (connection.execute(_VERSION, (stream,)).fetchone() or (0,))[0]
                limit = _fitting(connection, _STREAM_SIZE, (stream, after, until), limit)
                rows = _rows(connection, _STREAM, (stream, after, until, as_of, limit))
            for row in rows:
                yield event_of(row, 0 if row[19] is None else row[19] + IN_2000)
            if len(rows) < limit:
                return
            after = rows[-1][1]
            limit = _next_limit(rows)

    def positions(self, *, after: int, until: int) -> Iterator[StoredEvent]:
        """Events by position, `after` < position ≤ `until`."""
        for page in self.pages(after=after, until=until):
            yield from page

    def pages(self, *, after: int, until: int, shard: tuple[int, int] | None = None) -> Iterator[list[StoredEvent]]:
        """The same, a page at a time. `shard` (i, n): of every n-th stream, by its hash, alone."""
        for rows in self.raw_pages(after=after, until=until, shard=shard):
            with self.borrow() as connection:
                segments = connection.execute(_SEGMENTS, (rows[0][0], rows[-1][0]), binary=True).fetchall()
            yield list(_stamped(rows, segments))

    def raw_pages(
        self, *, after: int, until: int, shard: tuple[int, int] | None = None
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Pages of rows as `database.cursor` reads them, for `event_of`; row[CRC] is the body's CRC-32."""
        limit = _FIRST_PAGE
        query, chosen = (_POSITIONS, ()) if shard is None else (_SHARD, (shard[1], shard[0], -shard[0]))
        while after < until:
            with self.borrow() as connection:
                limit = _fitting(connection, _SIZE, (after, until), limit)
                rows = _rows(connection, query, (after, until, *chosen, limit))
            if not rows:
                return
            yield rows
            after = rows[-1][0]
            limit = _next_limit(rows)

    def raw_stream(self, stream: str, *, until: int) -> Iterator[list[tuple[Any, ...]]]:
        """The same for the rows of one stream, by position."""
        with self.borrow() as connection:
            places = connection.execute(_PLACES, (stream, until)).fetchall()
        page: list[int] = []
        size = 0
        for i, (position, length) in enumerate(places, 1):
            page.append(position)
            size += length
            if size > _PAGE_BYTES or len(page) == _PAGE_ROWS or i == len(places):
                with self.borrow() as connection:
                    rows = _rows(connection, _THESE, (page,))
                yield rows
                page, size = [], 0

    def follow(self, *, after: int, stream: str | None, poll: float) -> Iterator[StoredEvent | None]:
        """Events after a position as they are committed; None after each look, once they are told."""
        version = 0
        if stream is not None:
            with self.borrow() as connection:
                version = (connection.execute(_VERSION_AT, (stream, after)).fetchone() or (0,))[0]
        while True:
            with self.borrow() as connection:
                row = connection.execute(_HEAD).fetchone()
            head = row[0] if row else 0
            if head > after and stream is None:
                yield from self.positions(after=after, until=head)
            elif head > after and stream is not None:
                for event in self.stream(stream, after=version, until=None, as_of=head):
                    version = event.version
                    yield event
            after = max(after, head)
            yield None
            time.sleep(poll)


def _rows(connection: database.Connection, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return database.cursor(connection).execute(query, values).fetchall()


def _has_news(connection: database.Connection) -> bool:
    """Whether the server said something while nobody listened: only when it ends the connection."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _fitting(connection: database.Connection, sizes: str, params: tuple[Any, ...], limit: int) -> int:
    """How many rows make a page: `limit` or less, no more bytes than a page holds. The rows so far
    foretold the limit; what comes may be larger by far."""
    while limit > _FIRST_PAGE:
        size = (connection.execute(sizes, (*params, limit)).fetchone() or (0,))[0]
        if not size or size <= 2 * _PAGE_BYTES:
            break
        limit = max(_FIRST_PAGE, int(limit * _PAGE_BYTES // size))
    return limit


def _next_limit(rows: list[tuple[Any, ...]]) -> int:
    mean = sum(len(row[17]) for row in rows) // len(rows) + 300
    return max(16, min(_PAGE_ROWS, _PAGE_BYTES // mean, len(rows) * 16))


def _stamped(rows: list[tuple[Any, ...]], segments: list[tuple[int, int]]) -> Iterator[StoredEvent]:
    """Give each row its segment's time; both lists ascend."""
    frames = iter(segments)
    last, stamp = next(frames, (_LAST_POSITION, 0))
    for row in rows:
        while row[0] > last:
            last, stamp = next(frames, (_LAST_POSITION, 0))
        yield event_of(row, stamp)


def event_of(row: tuple[Any, ...], committed_at: int) -> StoredEvent:
    """A row as `database.cursor` reads it, as an event."""
    return StoredEvent(
        position=row[0],
        version=row[1],
        event_id=row[2],
        run=row[3],
        seq=row[4],
        schema=row[5],
        digest=row[6],
        stream=row[7],
        writer=row[8],
        type=row[9],
        occurred_at=None if row[10] is None else row[10] + IN_2000,
        actor=row[11],
        owner=row[12],
        key_id=row[13],
        causation_id=row[14],
        correlation_id=row[15],
        conversation=row[16],
        body=row[17],
        committed_at=committed_at,
    )
