"""The commits of a log: where each ends, when it was, and what a position, tag or time means in them."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Protocol

from core.errors import Corrupt, NotFound, UsageError
from core.times import now, parse_since, to_text
from eventlog.log import Head, Log

if TYPE_CHECKING:
    from eventlog.database import Connection
    from eventlog.inmemory import InMemoryLog
    from eventlog.reader import Reader

Offsets = Mapping[tuple[bytes, int], int]
"""The next offset of each source partition: `{(topic id, partition): next_offset}`."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOCK_WAIT = "SET LOCAL lock_timeout = '2s'"
_NOW = "SELECT clock_timestamp()"
_HEAD = "SELECT last_position, committed_at, seal FROM trajlog.segment ORDER BY last_position DESC LIMIT 1"
_FIRST = "SELECT committed_at FROM trajlog.segment ORDER BY last_position LIMIT 1"
_SEAL = "SELECT seal FROM trajlog.segment WHERE last_position <= %s ORDER BY last_position DESC LIMIT 1"
_TAG = "SELECT position, seal FROM trajlog.tag WHERE name = %s"
_BY_TIME: Final = """
WITH RECURSIVE search (low, high) AS (
    SELECT 0::bigint, coalesce(max(last_position), 0) FROM trajlog.segment
    UNION
    SELECT CASE WHEN s.committed_at <= %(at)s THEN s.last_position ELSE low END,
           CASE WHEN s.committed_at <= %(at)s THEN high ELSE s.first_position - 1 END
    FROM search, LATERAL (
        SELECT first_position, last_position, committed_at FROM trajlog.segment
        WHERE last_position > (low + high) / 2 ORDER BY last_position LIMIT 1) s
    WHERE low < high)
SELECT low FROM search WHERE low >= high"""
_OFFSETS: Final = """
WITH RECURSIVE source AS (
    (SELECT topic_id, partition FROM trajlog.segment WHERE topic_id IS NOT NULL ORDER BY 1, 2 LIMIT 1)
    UNION ALL
    SELECT n.topic_id, n.partition FROM source, LATERAL (
        SELECT s.topic_id, s.partition FROM trajlog.segment s
        WHERE s.topic_id IS NOT NULL AND (s.topic_id, s.partition) > (source.topic_id, source.partition)
        ORDER BY 1, 2 LIMIT 1) n)
SELECT uuid_send(source.topic_id), source.partition, last.next_offset FROM source, LATERAL (
    SELECT s.next_offset FROM trajlog.segment s
    WHERE s.topic_id = source.topic_id AND s.partition = source.partition AND s.last_position <= %s
    ORDER BY s.last_position DESC LIMIT 1) last"""


class Commits(Protocol):
    """The commits of a log. `by` and `tagged` answer with a position."""

    def head(self) -> Head: ...
    def by(self, text: str) -> int: ...
    def tagged(self, name: str) -> int: ...
    def seal(self, position: int) -> bytes | None: ...
    def offsets(self, position: int) -> Offsets: ...


class Stored:
    """Those of a log in Postgres."""

    def __init__(self, reader: "Reader") -> None:
        self._reader = reader

    def head(self) -> Head:
        with self._reader.borrow() as connection:
            row = connection.execute(_HEAD, binary=True).fetchone()
        return Head(*row) if row else Head(0)

    def by(self, text: str) -> int:
        with self._reader.borrow() as connection:
            at = _past(text, _one(connection, _NOW))
            head = connection.execute(_HEAD, binary=True).fetchone()
            if head is not None and at <= head[1]:
                position = _search(connection, at)
                if position == 0:
                    raise _before(text, at, _one(connection, _FIRST))
                return position
        return self._alone(text, at)

    def _alone(self, text: str, at: int) -> int:
        """Search while nobody commits; a stopped writer is not waited for."""
        from psycopg.errors import LockNotAvailable

        from eventlog.commit import LOCK
        from eventlog.watchdog import end_stopped_writer

        while True:
            with self._reader.borrow() as connection:
                try:
                    with connection.transaction():
                        connection.execute(_LOCK_WAIT)
                        connection.execute(LOCK)
                        position = _search(connection, at)
                    break
                except LockNotAvailable:
                    pass
            end_stopped_writer(self._reader.url)
        if position == 0:
            raise _empty(text)
        return position

    def tagged(self, name: str) -> int:
        if "\0" in name or name != name.encode(errors="replace").decode():
            raise _unknown(name)
        with self._reader.borrow() as connection:
            row = connection.execute(_TAG, (name,)).fetchone()
            if row is None:
                raise _unknown(name)
            position, seal = row
            head = connection.execute(_HEAD).fetchone()
        if head is None or position > head[0]:
            raise Corrupt(
                f"the tag names position {position}, but the log ends at {head[0] if head else 0}: its end was lost",
                where=name,
                mend="run: trajlog tag verify",
            )
        if seal != self.seal(position):
            raise Corrupt(
                f"the log up to position {position} is not what was tagged: another commit ends there",
                where=name,
                mend="run: trajlog tag verify",
            )
        return int(position)

    def seal(self, position: int) -> bytes | None:
        with self._reader.borrow() as connection:
            row = connection.execute(_SEAL, (position,)).fetchone()
        return row[0] if row else None

    def offsets(self, position: int) -> Offsets:
        with self._reader.borrow() as connection:
            return {(topic, partition): n for topic, partition, n in connection.execute(_OFFSETS, (position,))}


class Held:
    """Those of a log in memory: events of one stamp are one commit. It has no tags."""

    def __init__(self, log: "InMemoryLog") -> None:
        self._log = log

    def head(self) -> Head:
        return self._log.head()

    def by(self, text: str) -> int:
        at = _past(text, now())
        position, first = 0, None
        for event in self._log.read_all():
            first = event.committed_at if first is None else first
            if event.committed_at > at:
                break
            position = event.position
        if first is None:
            raise _empty(text)
        if position == 0:
            raise _before(text, at, first)
        return position

    def tagged(self, name: str) -> int:
        raise _unknown(name)

    def seal(self, position: int) -> bytes | None:
        from core.digest import segment_seal

        seal: bytes | None = None
        for stamp, group in groupby(self._log.read_all(), key=lambda event: event.committed_at):
            events = list(group)
            first, last = events[0].position, events[-1].position
            if last > position:
                break
            seal = segment_seal(previous=seal, first_position=first, last_position=last, committed_at=stamp)
        return seal

    def offsets(self, position: int) -> Offsets:
        return {}


def commits(log: Log) -> Commits:
    """Those of a log."""
    if log.reader is not None:
        return Stored(log.reader)
    held: Any = log
    return Held(held)


def _past(text: str, clock: int) -> int:
    """The time that `text` names, by a clock that must have reached it."""
    try:
        at = parse_since(text, at=clock)
    except UsageError as error:
        raise UsageError(
            "not a tag, a position or a time",
            where=repr(text[:80]),
            mend="give a tag (trajlog tag ls), a position like 1200, or a time like 2026-01-02T03:04:05Z or 7d",
        ) from error
    if at > clock:
        raise UsageError(
            f"the time is in the future; it is {to_text(clock)} now", where=text, mend="give a time that has passed"
        )
    return at


def _search(connection: "Connection", at: int) -> int:
    """Where the last commit stamped at or before `at` ends; 0 where there is none."""
    row = connection.execute(_BY_TIME, {"at": _EPOCH + timedelta(microseconds=at)}).fetchone()
    if row is None:
        raise Corrupt("the segments do not join", mend="run: trajlog verify")
    return int(row[0])


def _one(connection: "Connection", query: str) -> int:
    row = connection.execute(query, binary=True).fetchone()
    return row[0] if row else 0


def beyond(text: str, head: int) -> NotFound:
    if head == 0:
        return _empty(f"position {text}")
    return NotFound(
        f"the log ends at position {head}", where=f"position {text}", mend=f"give a position from 1 to {head}"
    )


def _before(text: str, at: int, first: int) -> NotFound:
    return NotFound(
        f"{to_text(at)} is before the first event, which was committed at {to_text(first)}",
        where=text,
        mend="give a later time",
    )


def _empty(text: str) -> NotFound:
    return NotFound("the log has no events yet", where=text)


def _unknown(name: str) -> NotFound:
    return NotFound("no such tag", where=repr(name[:80]), mend="trajlog tag ls lists them")
