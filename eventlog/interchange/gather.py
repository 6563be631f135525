"""Gathers what belongs together from all over a file, in memory bounded by the largest group.

Pieces go into a temporary database on disk, under the key they belong to; afterwards they come back
group by group, in the order in which the groups first appeared. Keys may be joined: everything under
the keys that were joined to one name is one group. Of two names of a key the one of the lower rank
holds; between two of the same rank the key stays alone.
"""

import sqlite3
from collections.abc import Iterator
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from types import TracebackType
from typing import Any, NamedTuple, Self

from core.errors import DiskFull, Unavailable

BATCH = 2_000
CACHE_KB = 32_768
MAX_SHARED = 10_000
"""How many shared texts are remembered in memory; more are only written twice."""

_NO_RANK = 1_000

_TABLES = f"""
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA temp_store = FILE;
PRAGMA page_size = 16384;
PRAGMA cache_size = -{CACHE_KB};
CREATE TABLE shared (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE grouped (
    key BLOB PRIMARY KEY, first INTEGER NOT NULL, name TEXT, rank INTEGER NOT NULL, alone INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE piece (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL, place TEXT NOT NULL, shared INTEGER, at TEXT NOT NULL,
    name TEXT NOT NULL, data BLOB NOT NULL
);
"""
_JOIN = """
INSERT INTO grouped (key, first, name, rank) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (key) DO UPDATE SET
    alone = CASE
        WHEN excluded.name IS NULL OR excluded.rank > rank THEN alone
        WHEN excluded.rank < rank THEN 0
        ELSE alone OR coalesce(name <> excluded.name, 0)
    END,
    name = CASE WHEN name IS NULL OR excluded.rank < rank THEN excluded.name ELSE name END,
    rank = CASE WHEN excluded.name IS NULL THEN rank ELSE min(rank, excluded.rank) END
"""
_ORDER = """
UPDATE grouped SET name = NULL WHERE alone;
CREATE INDEX grouped_name ON grouped (name) WHERE name IS NOT NULL;
UPDATE grouped SET first = (SELECT min(other.first) FROM grouped AS other WHERE other.name = grouped.name)
WHERE name IS NOT NULL;
CREATE TABLE ordered (place INTEGER PRIMARY KEY, first INTEGER NOT NULL, name TEXT, id INTEGER NOT NULL);
INSERT INTO ordered (first, name, id)
SELECT grouped.first, grouped.name, piece.id FROM piece JOIN grouped USING (key) ORDER BY 1, 3
"""
_PIECES = """
SELECT ordered.first, ordered.name, piece.key, piece.place, piece.data, piece.shared, piece.at, piece.name
FROM ordered CROSS JOIN piece ON piece.id = ordered.id ORDER BY ordered.place
"""


class Part(NamedTuple):
    """One piece: where it lay, its bytes, the bytes that it shares with others, when it began and its name."""

    place: str
    data: bytes
    shared: bytes = b""
    at: str = ""
    name: str = ""


class Group(NamedTuple):
    """What belongs together: `key`, or the `name` that keys were joined to. `pieces` is None if they
    are larger than the limit; `place` is where the first one lay."""

    key: bytes | None
    name: str | None
    place: str
    pieces: list[Part] | None


class Gather:
    """Pieces on their way into groups."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.executescript(_TABLES)
        self._database.execute("BEGIN")
        self._shared: dict[bytes, int] = {}
        self._last: tuple[bytes, int | None] = b"", None
        self._waiting: list[tuple[int, bytes, str, int | None, str, str, bytes]] = []
        self._joins: dict[tuple[bytes, str | None, int], int] = {}
        self._count = 0

    def add(self, key: bytes, part: Part, *, group: str | None = None, rank: int = 0) -> None:
        """A piece that belongs to `key`; with `group`, all of `key` belongs to that."""
        place, data, shared, at, name = part
        self._count += 1
        self._waiting.append((self._count, key, place, self._share(shared), at, name, data))
        self._joins.setdefault((key, group, rank if group is not None else _NO_RANK), self._count)
        if len(self._waiting) == BATCH:
            self._write()

    def groups(self, limit: int) -> Iterator[Group]:
        """The groups, in order of their first piece; those of more than `limit` bytes without pieces."""
        self._write()
        self._run(_ORDER)
        for _, rows in groupby(self._database.execute(_PIECES), key=itemgetter(0)):
            yield self._group(rows, limit)

    def close(self) -> None:
        """Forget everything."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _group(self, rows: Iterator[tuple[Any, ...]], limit: int) -> Group:
        """The group of these pieces, without them if they are larger than the limit."""
        texts: dict[int | None, bytes] = {None: b""}
        pieces: list[Part] = []
        size = 0
        for _, name, key, place, data, shared, at, id_ in rows:
            if shared not in texts:
                texts[shared] = self._text(shared)
            pieces.append(Part(place, data, texts[shared], at, id_))
            size += len(data)
            if size > limit:
                return Group(key if name is None else None, name, pieces[0].place, None)
        return Group(key if name is None else None, name, pieces[0].place, pieces)

    def _text(self, id_: int) -> bytes:
        (data,) = self._database.execute("SELECT data FROM shared WHERE id = ?", (id_,)).fetchone()
        return bytes(data)

    def _share(self, data: bytes) -> int | None:
        if not data:
            return None
        if data is self._last[0]:
            return self._last[1]
        digest = sha256(data).digest()
        id_ = self._shared.get(digest)
        if id_ is None:
            if len(self._shared) == MAX_SHARED:
                self._shared.clear()
            id_ = self._database.execute("INSERT INTO shared (data) VALUES (?)", (data,)).lastrowid
            assert id_ is not None
            self._shared[digest] = id_
        self._last = data, id_
        return id_

    def _write(self) -> None:
        try:
            self._database.executemany("INSERT INTO piece VALUES (?, ?, ?, ?, ?, ?, ?)", self._waiting)
            joins = [(key, first, name, rank) for (key, name, rank), first in self._joins.items()]
            self._database.executemany(_JOIN, joins)
        except sqlite3.OperationalError as error:
            raise _unavailable(error) from error
        self._waiting.clear()
        self._joins.clear()

    def _run(self, script: str) -> None:
        try:
            for statement in script.split(";"):
                self._database.execute(statement)
        except sqlite3.OperationalError as error:
            raise _unavailable(error) from error


def _unavailable(error: sqlite3.OperationalError) -> Unavailable:
    kind = DiskFull if "full" in str(error) else Unavailable
    return kind(f"the temporary file that spans are sorted in: {error}", mend="set TMPDIR to a disk with more space")
