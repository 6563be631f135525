"""Tile by tile: are the events those that were committed, each in its place?

The stored tile holds the leaf hashes as committed. Leaves that are not ours any more, and leaves that
are ours but were never committed, are matched at the end: what remains was lost, or put in.
"""

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from core.merkle import TILE, TILE_BITS, leaf_hash, split_tile, subtree_root
from eventlog import database
from eventlog.verify.report import Findings

_TILE = "SELECT hashes, root FROM trajlog.merkle WHERE level = 0 AND index = %s"
_INDEXES = "SELECT index FROM trajlog.merkle WHERE level = 0 AND index <= %s"
_LEVELS = "SELECT DISTINCT level FROM trajlog.merkle WHERE level > 0 ORDER BY level"
_PARENTS = "SELECT index, hashes, root FROM trajlog.merkle WHERE level = %s ORDER BY index"
_PLACES = "SELECT position, stream, version FROM trajlog.event WHERE position = ANY(%s) ORDER BY position"
_ROOTS = "SELECT index, root FROM trajlog.merkle WHERE level = %s AND index >= %s AND index < %s"
_SIBLINGS = 64


class Row(NamedTuple):
    """What is kept of an event as read: `expected` is the version that follows the one before it in the
    stream, `digest` is recomputed from the event, `stored` is the one beside it, `leaf` is over `digest`."""

    position: int
    stream: str
    version: int
    expected: int
    digest: bytes
    stored: bytes
    leaf: bytes


Fields = tuple[int, str, int, int, bytes, bytes, bytes]
"""A `Row` that is not looked at."""


class Tree:
    """Compares rows with the stored tiles of one database, whose log ends at `head`.

    Afterwards: `lost`, positions whose event is nowhere; `added`, events that were never committed;
    `origin` and `version`, where and as what version the events that are elsewhere were committed.
    """

    def __init__(self, connection: database.Connection, head: int, last_tile: int, findings: Findings) -> None:
        self._connection = connection
        self._findings = findings
        self._come: dict[bytes, Row] = {}
        self._gone: dict[bytes, int] = {}
        self._blamed: set[tuple[int, int]] = set()
        self._stored = frozenset(row[0] for row in connection.execute(_INDEXES, (last_tile,)))
        self.tiles = max((i + 1 for i in self._stored if 0 <= i < head // TILE), default=0)
        whole = self._stored >= set(range(self.tiles))
        while whole and self.tiles in self._stored:  # tiles over events that were cut off with their segments
            self.tiles += 1
        self.lost: list[int] = []
        self.added: list[Row] = []
        self.origin: dict[int, int] = {}
        self.version: dict[int, int] = {}
        self._taken: list[int] = []
        self._put: list[int] = []
        self._shifts: list[int] = []
        self._revised: list[Row] = []

    def compare(self, index: int, fields: list[Fields], leaves: list[bytes], root: bytes) -> None:
        """Judge the rows that stand at positions index·256+1 …, `root` being over their `leaves`."""
        if not 0 <= index < self.tiles:
            for one in fields:
                if one[0] < 1 or one[-1] in self._gone:
                    self._arrive(Row(*one))
            return
        if index not in self._stored:
            self._blame(0, index, "is missing")
            return
        hashes, stored_root = self._connection.execute(_TILE, (index,)).fetchone() or (b"", b"")
        if root and len(leaves) == len(fields) and b"".join(leaves) == hashes:
            if root != stored_root:
                self._blame(0, index, "has a root that is not that of its hashes")
            return
        theirs = split_tile(hashes)
        if subtree_root(theirs) != stored_root:
            self._blame(0, index, "has hashes that are not those of its root")
            if root == stored_root:
                return
        rows = [Row(*one) for one in fields]
        ours_at = {row.leaf: row.position for row in rows}
        theirs_at = {leaf: index * TILE + i for i, leaf in enumerate(theirs, 1)}
        for leaf, position in theirs_at.items():
            if ours_at.get(leaf) != position:
                came = self._come.pop(leaf, None)
                if came is None:
                    self._gone[leaf] = position
                else:
                    self.origin[came.position] = position
        for row in rows:
            if theirs_at.get(row.leaf) != row.position:
                self._arrive(row)

    def _arrive(self, row: Row) -> None:
        """An event that is not where its leaf was committed: elsewhere, or nowhere."""
        position = self._gone.pop(row.leaf, None)
        if position is None:
            self._come[row.leaf] = row
        else:
            self.origin[row.position] = position

    def place(self, row: Row) -> None:
        """Judge one event by the tile it stands in, without its neighbours."""
        index, offset = divmod(row.position - 1, TILE)
        if not 0 <= index < self.tiles or index not in self._stored:
            return
        hashes, _ = self._connection.execute(_TILE, (index,)).fetchone() or (b"", b"")
        committed = hashes[offset * 32 : offset * 32 + 32]
        if committed in (row.leaf, leaf_hash(row.version, row.stored)):
            return
        if committed == leaf_hash(row.expected, row.stored):
            self._findings.event("column", row, f"version is {row.version}, committed as {row.expected}")
        elif row.leaf in split_tile(hashes):
            self._findings.event("order", row, "stands in another place than it was committed at")
        else:
            self._findings.event("tree", row, "another event than the one committed here")

    def finish(self, holes: frozenset[int]) -> None:
        """Match what came with what is gone, name what is out of place, and check the upper levels."""
        self._match()
        replaced = {row.position for row in self.added} & set(self._gone.values())
        for row in self.added:
            if row.position in replaced:
                self._findings.event("tree", row, "another event than the one committed, with a digest of its own")
        self.lost = sorted(set(self._gone.values()) - replaced)
        self.added = sorted(row for row in self.added if row.position not in replaced)
        self._taken = [position for position in self.lost if position not in holes]
        while self.added:  # those that stood after the last tile before others were taken out
            committed = self.added[-1].position - (len(self.added) - 1) + len(self._taken)
            if not self._taken or committed <= self.tiles * TILE:
                break
            self.added.pop()
        self.added = [row for row in self.added if row.position > 0]
        self._put = [row.position for row in self.added]
        self._shifts = [taken - i for i, taken in enumerate(self._taken)]
        for row in self.added:
            self._findings.event("inserted", row, "the tree has no such event")
        for index in self._stored:
            if not 0 <= index < self.tiles:
                self._blame(0, index, "covers no events of this log")
        self._out_of_place()
        for row in self._revised:
            version = self.version[row.position]
            if not self._renumbered(row, version):
                self._findings.event("column", row, f"version is {row.version}, committed as {version}")
        self._parents()

    def committed(self, position: int) -> int:
        """Where the event that stands here was committed, as far as events were taken out or put in."""
        if not self._taken and not self._put:
            return position
        position -= bisect_left(self._put, position)
        return position + bisect_right(self._shifts, position)

    def _match(self) -> None:
        """Find the place of each event that came: under a leaf over the digest beside it, or under
        another version. What has none is added."""
        versions: dict[str, set[int]] = {}
        for row in self._come.values():
            versions.setdefault(row.stream, set()).add(row.version)
        for row in sorted(self._come.values()):
            siblings = versions[row.stream] if len(versions[row.stream]) <= _SIBLINGS else set()
            for version in (row.version, row.expected, row.version - 1, row.version + 1, *siblings):
                position = self._committed_as(row, version)
                if position is not None:
                    self.origin[row.position] = position
                    if version != row.version:
                        self.version[row.position] = version
                        self._revised.append(row)
                    break
            else:
                self.added.append(row)

    def _committed_as(self, row: Row, version: int) -> int | None:
        if version < 1:
            return None
        position = self._gone.pop(leaf_hash(version, row.digest), None)
        return self._gone.pop(leaf_hash(version, row.stored), None) if position is None else position

    def _out_of_place(self) -> None:
        """Name the events that stand where no shift explains."""
        wrong = {at: was for at, was in self.origin.items() if was != self.committed(at)}
        positions = sorted(wrong)
        for start in range(0, len(positions), 10_000):
            for row in self._connection.execute(_PLACES, (positions[start : start + 10_000],)).fetchall():
                place = Row(row[0], row[1], row[2], 0, b"", b"", b"")
                self._findings.event("order", place, f"committed at position {wrong[place.position]}")

    def _renumbered(self, row: Row, version: int) -> bool:
        """Whether the version moved because events of the stream were put in, or taken out, before it."""
        if row.version > version:
            before = sum(a.stream == row.stream and a.position < row.position for a in self.added)
            return row.version - version <= before
        return version - row.version <= bisect_left(self._taken, self.committed(row.position))

    def _parents(self) -> None:
        for (level,) in self._connection.execute(_LEVELS).fetchall():
            for index, hashes, root in self._connection.execute(_PARENTS, (level,)).fetchall():
                first = index * TILE
                below: dict[int, bytes] = dict(
                    self._connection.execute(_ROOTS, (level - 1, first, first + TILE)).fetchall()
                )
                children = range(first, first + TILE) if below else ()
                for child in children:
                    if child not in below and (level - 1, child) not in self._blamed:
                        self._blame(level - 1, child, "is missing")
                theirs = dict(zip(children, split_tile(hashes), strict=False))
                if not below or any(
                    below.get(child) != hash_
                    for child, hash_ in theirs.items()
                    if (level - 1, child) not in self._blamed
                ):
                    self._blame(level, index, "does not follow from those below")
                elif subtree_root(split_tile(hashes)) != root:
                    self._blame(level, index, "has a root that is not that of its hashes")

    def _blame(self, level: int, index: int, detail: str) -> None:
        self._blamed.add((level, index))
        first = index * (1 << TILE_BITS * (level + 1)) + 1
        self._findings.frame("tree", first, f"tile {index} of level {level} {detail}")
