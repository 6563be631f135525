"""Which rows are in which release, in the database: what it refuses can enter none.

Each version of a name holds what it added to the one before, and what it took out of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO, Final

import msgspec

from core.errors import TrajlogError
from eventlog.database import Connection
from eventlog.log import Log, reader_of
from learners.releases.index import Entry
from learners.rows import Key

Change = tuple[bytes, str, int, int, bytes | None, Sequence[str] | None]
"""(log id, stream, version, row, digest or None where the row left, sources)."""

_TYPES: Final = ["text", "int4", "uuid", "text", "int8", "int8", "bytea", "text[]"]
_COPY = (
    "COPY trajlog.release_row (name, version, log_id, stream, row_version, row, digest, sources) "
    "FROM STDIN (FORMAT binary)"
)
_KNOWN = "SELECT version FROM trajlog.release WHERE name = %s AND release_id = %s"
_LAST = "SELECT coalesce(max(version), 0) FROM trajlog.release WHERE name = %s"
_INSERT = "INSERT INTO trajlog.release (name, version, release_id, rows) VALUES (%s, %s, %s, %s)"
_MEMBERS = """
SELECT uuid_send(log_id), stream, row_version, row, digest, sources FROM (
    SELECT DISTINCT ON (log_id, stream, row_version, row) log_id, stream, row_version, row, digest, sources
    FROM trajlog.release_row WHERE name = %s AND version <= %s
    ORDER BY log_id, stream, row_version, row, version DESC) r
WHERE digest IS NOT NULL ORDER BY log_id, stream, row_version, row
"""
_HELD_OUT = "SELECT stream, split FROM trajlog.held_out(%s)"
_CHUNK = 5_000


class HeldOut(TrajlogError):
    """An episode of the split dev, audit or final, in what was to be a release."""


class Taken(TrajlogError):
    """Another build came first."""

    retryable = True


class Spool:
    """Changes on their way into the database, in a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._encode = msgspec.msgpack.Encoder().encode

    def add(self, change: Change) -> None:
        data = self._encode(change)
        self._file.write(len(data).to_bytes(4, "big") + data)

    def __iter__(self) -> Iterator[Any]:
        decode = msgspec.msgpack.Decoder().decode
        self._file.seek(0)
        while head := self._file.read(4):
            yield decode(self._file.read(int.from_bytes(head, "big")))


def known(log: Log, name: str, release_id: bytes) -> int | None:
    """The version that holds the same."""
    with reader_of(log).borrow() as connection:
        row = connection.execute(_KNOWN, (name, release_id)).fetchone()
    return row[0] if row else None


def last(log: Log, name: str) -> int:
    """The newest version, 0 if there is none."""
    with reader_of(log).borrow() as connection:
        row = connection.execute(_LAST, (name,)).fetchone()
    return row[0] if row else 0


def enter(log: Log, name: str, version: int, release_id: bytes, rows: int, changes: Iterable[Any]) -> None:
    """Enter a version's changes. `HeldOut` where the database refuses a row; `Taken`."""
    from uuid import UUID

    from psycopg import errors

    with reader_of(log).borrow() as connection:
        try:
            with connection.transaction():
                connection.execute(_INSERT, (name, version, release_id, rows))
                with connection.cursor() as cursor, cursor.copy(_COPY) as sink:
                    sink.set_types(_TYPES)
                    for log_id, stream, row_version, row, digest, sources in changes:
                        sink.write_row((name, version, UUID(bytes=log_id), stream, row_version, row, digest, sources))
        except errors.UniqueViolation as error:
            raise Taken(
                "another build of that name came first", where=f"{name}@v{version}", mend="run it again"
            ) from error
        except errors.CheckViolation as error:
            said = (error.diag.message_primary or "").removeprefix("trajlog.release_row: ")
            raise HeldOut(
                f"the database refuses it: {said}", where=name, mend="held-out episodes never train"
            ) from error


def refuse_held_out(connection: Connection, streams: Iterable[str], name: str) -> None:
    """Ask another log's database about the streams that are to come from there. `HeldOut`."""
    source = iter(streams)
    while chunk := list(islice(source, _CHUNK)):
        row = connection.execute(_HELD_OUT, (chunk,)).fetchone()
        if row is not None:
            raise HeldOut(f"{row[0]} is of the split {row[1]}", where=name, mend="held-out episodes never train")


def members(log: Log, name: str, version: int) -> Iterator[Entry]:
    """The rows of a version, in canonical order."""
    with (
        reader_of(log).borrow() as connection,
        connection.transaction(),
        connection.cursor("members", binary=True) as cursor,
    ):
        cursor.itersize = _CHUNK
        cursor.execute(_MEMBERS, (name, version))
        for log_id, stream, row_version, row, digest, sources in cursor:
            yield Entry(Key(log_id, stream, row_version, row), digest, sources=sources and tuple(sources))
