"""The index that a search is narrowed down with: which n-grams occur in which blocks of the log.

A block is up to 128 events in a row; 128 blocks are one part. A part is a matrix of bits, a row for
each n-gram number and a column for each block, kept in bands of 64 rows. Blocks whose column is set
in every row that a pattern needs are looked at, no others.

It is made from texts, so its tables are UNLOGGED and left out of what a crash recovers: that they are
empty is noticed and they are made anew. They follow the log only when somebody searches, whole
blocks at a time; what comes after is looked at itself. The checkpoint is that of a projection.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Any, Final

from psycopg.errors import LockNotAvailable

from core.errors import Unavailable
from eventlog.database import Connection
from eventlog.log import Log, reader_of
from eventlog.projection import SCHEMA, View, checkpoints
from eventlog.search.grams import SLOTS, slots, words
from eventlog.search.texts import Fetch, texts
from eventlog.views import PREFIX

GREP: Final = View("grep", 1)

BLOCK_EVENTS: Final = 128
BLOCK_BYTES: Final = 131_072
"""A block is closed by the event that takes its payloads to this size."""

COLUMNS: Final = 128
"""Blocks in a part."""

BAND: Final = 64
"""Rows of the matrix in one row of the table: a kilobyte."""

TAIL: Final = 8 * BLOCK_EVENTS
"""Events that a search looks at itself before it has them indexed."""

BITS: Final = f'{SCHEMA}."grep__v1"'
PARTS: Final = f'{SCHEMA}."grep__v1__part"'

_BYTES = COLUMNS // 8
_KEY = (GREP.name, GREP.version)
_BEGIN = """
SET LOCAL lock_timeout = '75s';
SET LOCAL idle_in_transaction_session_timeout = '60s';
SELECT pg_advisory_xact_lock(8390876165625701752)
"""
_CREATE = f"""
DROP TABLE IF EXISTS {BITS}, {PARTS};
CREATE UNLOGGED TABLE {BITS} (part int, band int, bits bit varying NOT NULL, PRIMARY KEY (part, band));
CREATE UNLOGGED TABLE {PARTS} (part int PRIMARY KEY, starts bigint[] NOT NULL);
DELETE FROM trajlog.projection WHERE name = 'grep' AND version = 1;
INSERT INTO trajlog.projection (name, version, position, live) VALUES ('grep', 1, 0, true)
"""
_MADE = "SELECT to_regclass(%s) IS NOT NULL AND to_regclass(%s) IS NOT NULL"
_LAST = f"SELECT part, starts FROM {PARTS} ORDER BY part DESC LIMIT 1"
_BANDS = f"SELECT band, bits FROM {BITS} WHERE part = %s"
_HEAD = "SELECT coalesce(max(last_position), 0) FROM trajlog.segment"
_SEAL = "SELECT seal FROM trajlog.segment WHERE last_position >= %s ORDER BY last_position LIMIT 1"
_MOVE = "UPDATE trajlog.projection SET position = %s, seal = %s WHERE name = 'grep' AND version = 1"

NARROW: Final = f"""
WITH hit AS (
    SELECT part, bit_and(substring(bits FROM first FOR {COLUMNS})) AS columns
    FROM {PARTS} p CROSS JOIN unnest(%s::int[], %s::int[]) AS needed (band, first)
    CROSS JOIN LATERAL (SELECT bits FROM {BITS} b WHERE b.part = p.part AND b.band = needed.band OFFSET 0) b
    GROUP BY part HAVING count(*) = %s
)
SELECT starts[i + 1] AS after, starts[i + 2] AS until
FROM hit JOIN {PARTS} USING (part) CROSS JOIN generate_series(0, {COLUMNS - 1}) i
WHERE get_bit(columns, i) = 1 AND starts[i + 2] <= %s ORDER BY 1 DESC
"""
"""The blocks that hold every needed n-gram, newest first, as (after, until): positions after the one
and up to the other."""

Progress = Callable[[int, int], None]
"""Called with (events indexed, events to index)."""

Range = tuple[int, int]
"""Positions after the one and up to the other."""


def catch_up(log: Log, connection: Connection, fetch: Fetch, progress: Progress | None = None) -> int:
    """Index what the log holds now, but for less than `TAIL` events; returns the last position indexed."""
    target = head(connection)
    position = _standing(connection) or 0
    first = None
    while target - position >= TAIL:
        with connection.transaction():
            _lock(connection)
            standing = _standing(connection)
            if standing is None:
                connection.execute(_CREATE)
            start = standing or 0
            position = _extend(log, connection, start, target, fetch)
        first = start if first is None else first
        if position == start:
            break
        if progress:
            progress(position - first, target - first)
    if first is not None:
        connection.execute(f"ANALYZE {BITS}, {PARTS}")
    return position


def narrow(connection: Connection, needed: Sequence[int], indexed: int) -> list[Range]:
    """The blocks up to the position `indexed` that hold all these n-gram numbers, newest first."""
    return connection.execute(NARROW, parameters(needed, indexed)).fetchall()


def parameters(needed: Sequence[int], indexed: int) -> tuple[Any, ...]:
    """The arguments of `NARROW`."""
    bands = [slot // BAND for slot in needed]
    return bands, [slot % BAND * COLUMNS + 1 for slot in needed], len(needed), indexed


def head(connection: Connection) -> int:
    """The log's last position."""
    return int((connection.execute(_HEAD).fetchone() or (0,))[0])


def _lock(connection: Connection) -> None:
    try:
        connection.execute(_BEGIN)
    except LockNotAvailable as error:
        raise Unavailable(
            "another process has been indexing one part for over a minute", where="grep", mend="try again"
        ) from error


def _standing(connection: Connection) -> int | None:
    """The last position indexed; None if the index is not there, lost its rows in a crash, or is of
    another log than this one became."""
    (point,) = checkpoints(connection, [GREP])
    made = connection.execute(_MADE, (BITS, PARTS)).fetchone()
    if not point.made or made != (True,) or not point.trusted:
        return None
    last = connection.execute(_LAST).fetchone()
    reached = last[1][-1] if last else 0
    return point.position if reached == point.position <= point.head else None


def _extend(log: Log, connection: Connection, position: int, target: int, fetch: Fetch) -> int:
    """Add blocks to the last part, or begin the next one; returns the last position indexed."""
    part, starts = connection.execute(_LAST).fetchone() or (0, [0])
    if len(starts) > COLUMNS:
        part, starts = part + 1, [position]
    rows = _load(connection, part) if len(starts) > 1 else [0] * SLOTS
    masks: defaultdict[str, int] = defaultdict(int)
    for until, found in _blocks(log, position, target, fetch):
        mask = 1 << (COLUMNS - len(starts))
        for word in found:
            masks[word] |= mask
        starts.append(until)
        if len(starts) > COLUMNS:
            break
    for word, mask in masks.items():
        for slot in slots(word):
            rows[slot] |= mask
    _store(connection, part, starts, rows)
    seal = connection.execute(_SEAL, (starts[-1],)).fetchone()
    connection.execute(_MOVE, (starts[-1], seal and seal[0]))
    return int(starts[-1])


def _blocks(log: Log, after: int, target: int, fetch: Fetch) -> Iterator[tuple[int, set[str]]]:
    """The words of each whole block after a position, with the block's last position."""
    found: set[str] = set()
    seen: set[str] = set()
    events = size = 0
    for page in reader_of(log).raw_pages(after=after, until=target):
        for row in page:
            stream, type_, body = row[7], row[9], row[17]
            events += 1
            size += len(body)
            if stream.startswith(PREFIX):
                for _, text in texts(type_, body, fetch):
                    if text not in seen:
                        seen.add(text)
                        found.update(words(text))
            if events == BLOCK_EVENTS or size >= BLOCK_BYTES:
                yield row[0], found
                found, seen = set(), set()
                events = size = 0


def _load(connection: Connection, part: int) -> list[int]:
    """The rows of a part's matrix; the first block is the highest bit."""
    rows = [0] * SLOTS
    for band, bits in connection.execute(_BANDS, (part,)):
        data = int(bits, 2).to_bytes(BAND * _BYTES)
        for i in range(BAND):
            rows[band * BAND + i] = int.from_bytes(data[i * _BYTES : (i + 1) * _BYTES])
    return rows


_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_ROW = Struct("!hiiiiii")


def _store(connection: Connection, part: int, starts: list[int], rows: list[int]) -> None:
    """Put a part in the place of what it was."""
    connection.execute(f"DELETE FROM {BITS} WHERE part = %s", (part,))
    connection.execute(f"DELETE FROM {PARTS} WHERE part = %s", (part,))
    connection.execute(f"INSERT INTO {PARTS} VALUES (%s, %s)", (part, starts))
    with connection.cursor() as cursor, cursor.copy(f"COPY {BITS} FROM STDIN (FORMAT binary)") as copy:
        copy.write(_HEADER)
        for band in range(SLOTS // BAND):
            some = rows[band * BAND : (band + 1) * BAND]
            if any(some):
                data = b"".join([row.to_bytes(_BYTES) for row in some])
                copy.write(_ROW.pack(3, 4, part, 4, band, 4 + len(data), 8 * len(data)) + data)
        copy.write(b"\xff\xff")
