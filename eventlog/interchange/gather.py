"""Gathers what belongs together from all over a file, in memory bounded by the largest group.

Parts go into a temporary database on disk, under the key they belong to, once they are more than some
megabytes; afterwards they come back group by group, in the order in which the groups first appeared.
Keys may be joined: everything under the keys that were joined to one name is one group. Of two names of
a key the one of the lower rank holds; between two of the same rank the key stays alone.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from types import TracebackType
from typing import NamedTuple, Self

from core.errors import DiskFull, Unavailable

MEMORY = 32 << 20
"""Bytes of parts that wait before they are written for the first time; BATCH, afterwards."""
BATCH = 1 << 20
PART_COST = 400
"""Bytes of memory that a part takes besides its own."""
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
CREATE TABLE part (
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
_JOINED = """
UPDATE grouped SET name = NULL WHERE alone;
CREATE INDEX grouped_name ON grouped (name) WHERE name IS NOT NULL;
UPDATE grouped SET first = (SELECT min(other.first) FROM grouped AS other WHERE other.name = grouped.name)
WHERE name IS NOT NULL
"""
_ORDER = """
CREATE TABLE ordered (place INTEGER PRIMARY KEY, first INTEGER NOT NULL, name TEXT, id INTEGER NOT NULL);
INSERT INTO ordered (first, name, id)
SELECT grouped.first, grouped.name, part.id FROM part JOIN grouped USING (key) ORDER BY 1, 3
"""
_PARTS = """
SELECT ordered.first, ordered.name, part.key, part.place, part.data, part.shared, part.at, part.name
FROM ordered CROSS JOIN part ON part.id = ordered.id ORDER BY ordered.place
"""


class Part(NamedTuple):
    """One part: where it lay, its bytes, the bytes that it shares with others, when it began and its name; of
    several things in one part those of each, with spaces between."""

    place: str
    data: bytes
    shared: bytes = b""
    at: str = ""
    name: str = ""


class Group(NamedTuple):
    """What belongs together: `key`, or the `name` that keys were joined to. `parts` is None if they
    are larger than the limit; `place` is where the first one lay."""

    key: bytes | None
    name: str | None
    place: str
    parts: list[Part] | None


_Placed = tuple[int, str | None, bytes, Part]
"""A part with its group: the number of that one's first part, its name, the part's own key."""


class Gather:
    """Parts on their way into groups."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.executescript(_TABLES)
        self._database.execute("BEGIN")
        self._shared: dict[bytes, int] = {}
        self._last: tuple[bytes, int | None] = b"", None
        self._waiting: list[tuple[int, bytes, Part]] = []
        self._joins: dict[tuple[bytes, str | None, int], int] = {}
        self._count = self._size = 0
        self._on_disk = self._named = False

    def add(self, key: bytes, part: Part, *, group: str | None = None, rank: int = 0) -> None:
        """A part that belongs to `key`; with `group`, all of `key` belongs to that."""
        self._count += 1
        self._size += len(part.data) + len(part.shared) + PART_COST
        self._waiting.append((self._count, key, part))
        if group is None:
            rank = _NO_RANK
        else:
            self._named = True
        self._joins.setdefault((key, group, rank), self._count)
        if self._size > (BATCH if self._on_disk else MEMORY):
            self._write()

    def groups(self, limit: int) -> Iterator[Group]:
        """The groups, in order of their first part; those of more than `limit` bytes without parts."""
        by_first = groupby(self._written(), key=itemgetter(0)) if self._on_disk else self._waited()
        for _, parts in by_first:
            yield _group(parts, limit)

    def close(self) -> None:
        """Forget everything."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _written(self) -> Iterator[_Placed]:
        """The parts in order, where they were written."""
        self._write()
        self._run(_JOINED)
        self._run(_ORDER)
        id_, text = None, b""
        for first, name, key, place, data, shared, at, part_name in self._database.execute(_PARTS):
            if shared != id_:
                id_, text = shared, b"" if shared is None else self._text(shared)
            yield first, name, key, Part(place, data, text, at, part_name)

    def _waited(self) -> Iterable[tuple[int, Iterable[_Placed]]]:
        """The same where they all wait, by the number of their group's first part."""
        places: dict[bytes, tuple[int, str | None]]
        if self._named:
            self._join()
            self._run(_JOINED)
            found = self._database.execute("SELECT key, first, name FROM grouped")
            places = {key: (first, name) for key, first, name in found}
        else:
            places = {key: (first, None) for (key, _, _), first in self._joins.items()}
        groups: dict[int, list[_Placed]] = {}
        for _, key, part in self._waiting:
            first, name = places[key]
            groups.setdefault(first, []).append((first, name, key, part))
        return groups.items()

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
        """Write the parts that wait."""
        rows = ((count, key, p.place, self._share(p.shared), p.at, p.name, p.data) for count, key, p in self._waiting)
        with _translated():
            self._database.executemany("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        self._waiting.clear()
        self._size, self._on_disk = 0, True
        self._join()

    def _join(self) -> None:
        """Write which keys there are, and what they were joined to."""
        with _translated():
            joins = ((key, first, name, rank) for (key, name, rank), first in self._joins.items())
            self._database.executemany(_JOIN, joins)
        self._joins.clear()

    def _run(self, script: str) -> None:
        with _translated():
            for statement in script.split(";"):
                self._database.execute(statement)


def _group(placed: Iterable[_Placed], limit: int) -> Group:
    """The group of these parts, without them if they are larger than the limit."""
    parts: list[Part] = []
    size = 0
    for _, name, key, part in placed:
        parts.append(part)
        size += len(part.data)
        if size > limit:
            return Group(key if name is None else None, name, parts[0].place, None)
    return Group(key if name is None else None, name, parts[0].place, parts)


@contextmanager
def _translated() -> Iterator[None]:
    """SQLite's refusals, as what they mean."""
    try:
        yield
    except sqlite3.OperationalError as error:
        kind = DiskFull if "full" in str(error) else Unavailable
        what = f"the temporary file that spans are sorted in: {error}"
        raise kind(what, mend="set TMPDIR to a disk with more space") from error
