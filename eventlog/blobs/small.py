"""Many small blobs in one SQLite file: a disk takes hundreds of them in the time of a few files.

Rows are written in one transaction that is durable when it ends. A rollback journal, not a
write-ahead log, so that the file can be read on a read-only disk and shared over a network.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.errors import Corrupt, TrajlogError, Unavailable
from eventlog import disk

BUSY_S = 60
_PAGE = 1_000
_SCHEMA = """
PRAGMA page_size = 16384;
CREATE TABLE IF NOT EXISTS blob (digest BLOB NOT NULL UNIQUE, stored_at REAL NOT NULL, data BLOB NOT NULL);
"""
_KEEP = (
    "INSERT INTO blob VALUES (?, ?, ?) "
    "ON CONFLICT (digest) DO UPDATE SET stored_at = excluded.stored_at, data = excluded.data"
)


class Small:
    """The small blobs of a folder, by the hex digests of their bytes. The file is made by the first
    `keep_all`. Threads may share it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._opened: tuple[int, sqlite3.Connection] | None = None

    def keep_all(self, blobs: Mapping[str, bytes]) -> None:
        """Store blobs, all or none; durable when it returns."""
        now = time.time()
        rows = [(bytes.fromhex(digest), now, data) for digest, data in blobs.items()]
        with self._use(make=True) as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_KEEP, rows)

    def renew(self, digest: str, size: int) -> bool:
        """Whether the whole blob is here; if so it counts as just stored."""
        if self.size(digest) != size:
            return False
        with self._use() as connection, connection:
            changed = connection.execute(
                "UPDATE blob SET stored_at = ? WHERE digest = ?", (time.time(), bytes.fromhex(digest))
            )
            return changed.rowcount == 1

    def size(self, digest: str) -> int | None:
        """Bytes of the blob, or None if it is not here."""
        size: int | None = self._one("SELECT length(data) FROM blob WHERE digest = ?", digest)
        return size

    def read(self, digest: str) -> bytes | None:
        """The blob's bytes, or None if it is not here."""
        data: bytes | None = self._one("SELECT data FROM blob WHERE digest = ?", digest)
        return data

    def names(self) -> Iterator[tuple[str, int, float]]:
        """What lies here, by digest: name, size in bytes, when it was last stored."""
        after = b""
        while self.path.exists():
            with self._use() as connection:
                rows = connection.execute(
                    "SELECT digest, length(data), stored_at FROM blob WHERE digest > ? ORDER BY digest LIMIT ?",
                    (after, _PAGE),
                ).fetchall()
            if not rows:
                return
            for digest, size, stored_at in rows:
                yield digest.hex(), size, stored_at
            after = rows[-1][0]

    def remove(self, digest: str, before: float) -> bool:
        """Remove a blob that was last stored before that time; its bytes are overwritten."""
        if self.size(digest) is None:
            return False
        with self._use() as connection, connection:
            query = "DELETE FROM blob WHERE digest = ? AND stored_at < ?"
            return connection.execute(query, (bytes.fromhex(digest), before)).rowcount == 1

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._lock:
            if self._opened is not None and self._opened[0] == os.getpid():
                self._opened[1].close()
            self._opened = None

    def _one(self, query: str, digest: str) -> Any:
        if not self.path.exists():
            return None
        with self._use() as connection:
            row = connection.execute(query, (bytes.fromhex(digest),)).fetchone()
        return row[0] if row else None

    @contextmanager
    def _use(self, *, make: bool = False) -> Iterator[sqlite3.Connection]:
        """The connection, alone. A process that was forked opens its own."""
        with self._lock:
            try:
                if self._opened is None or self._opened[0] != os.getpid():
                    self._opened = os.getpid(), self._open(make)
                yield self._opened[1]
            except sqlite3.Error as error:
                raise _translated(error, self.path) from error

    def _open(self, make: bool) -> sqlite3.Connection:
        if make and not self.path.exists():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.touch(0o600)
            for folder in (self.path.parent, self.path.parent.parent):
                disk.sync_folder(folder)
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw", uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode = TRUNCATE")
        connection.execute("PRAGMA secure_delete = ON")
        if make:
            connection.executescript(_SCHEMA)
        return connection


def _translated(error: sqlite3.Error, where: Path) -> TrajlogError:
    """What a refusal of SQLite's means; its primary result code is the low byte."""
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_FULL:
            return disk.disk_full(where)
        case sqlite3.SQLITE_READONLY:
            return Unavailable("it may only be read", where=str(where), mend="make its folder writable")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return Unavailable("another process has been writing it for a minute", where=str(where), mend="try again")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            mend = "put it back from a copy, or move it away and import its sources again"
            return Corrupt("the file of small blobs is damaged", where=str(where), mend=mend)
        case _:
            return Unavailable(str(error), where=str(where))
