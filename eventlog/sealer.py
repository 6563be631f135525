"""The Merkle tree over the ledger: full tiles are stored once, the edge is recomputed.

A tile of level L holds 256 hashes, each of 256^L leaves, and the root over them. Tiles follow from
the events, so any sealer may build them, several at once too: what is there already must be equal.
"""

from collections.abc import Iterator

from core.errors import Corrupt, NotFound
from core.merkle import TILE, TILE_BITS, Frontier, leaf_hash, split_tile, subtree_root
from eventlog import database

_LEAVES = "SELECT position, version, digest FROM trajlog.event WHERE position > %s AND position <= %s ORDER BY position"
_NEXT = "SELECT coalesce(max(index) + 1, 0) FROM trajlog.merkle WHERE level = %s"
_HEAD = "SELECT coalesce(max(last_position), 0) FROM trajlog.segment"
_ROOTS = "SELECT index, root FROM trajlog.merkle WHERE level = %s AND index >= %s AND index < %s ORDER BY index"
_TILE = "SELECT hashes, root FROM trajlog.merkle WHERE level = %s AND index = %s"
_INSERT = "INSERT INTO trajlog.merkle VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
_TILES_AT_ONCE = 32


class Tiles:
    """The tree of one database, read and extended over a connection in autocommit."""

    def __init__(self, connection: database.Connection) -> None:
        self._connection = connection

    def build(self, most: int | None = None) -> int:
        """Store the full tiles that are due, at `most` so many of the lowest level; returns the position
        up to which tiles stand."""
        head = self._scalar(_HEAD)
        index = first = self._scalar(_NEXT, 0)
        if most is not None:
            head = min(head, (index + most) * TILE)
        while (index + 1) * TILE <= head:
            count = min(_TILES_AT_ONCE, head // TILE - index)
            hashes = list(self.leaves(index * TILE, (index + count) * TILE))
            for i in range(count):
                self._store(0, index + i, hashes[i * TILE : (i + 1) * TILE])
            index += count
        if index > first or first:
            self._build_parents()
        return index * TILE

    def sealed(self) -> int:
        """The position up to which tiles stand."""
        return self._scalar(_NEXT, 0) * TILE

    def root(self, position: int | None = None) -> bytes:
        """Root over the first `position` events (default: all)."""
        head = self._scalar(_HEAD)
        if position is None:
            position = head
        if not 0 <= position <= head:
            raise NotFound(f"position {position} is not in the log, which ends at {head}")
        return self.frontier(position).root()

    def frontier(self, position: int) -> Frontier:
        """The right edge of the tree over the first `position` events, from tiles where they stand."""
        frontier = Frontier()
        top = max(0, (position.bit_length() - 1) // TILE_BITS - 1)
        for level in range(top, -1, -1):
            width = TILE_BITS * (level + 1)
            start, end = frontier.size >> width, position >> width
            for index, root in self._connection.execute(_ROOTS, (level, start, end)):
                if index << width != frontier.size:
                    break
                frontier.push(root, width)
        for leaf in self.leaves(frontier.size, position):
            frontier.push(leaf)
        return frontier

    def leaf(self, index: int) -> list[bytes] | None:
        """The 256 leaf hashes of a stored tile of level 0, or None."""
        row = self._connection.execute(_TILE, (0, index)).fetchone()
        return split_tile(row[0]) if row else None

    def _build_parents(self) -> None:
        level = 1
        while True:
            index = self._scalar(_NEXT, level)
            below = self._scalar(_NEXT, level - 1)
            while (index + 1) * TILE <= below:
                rows = self._connection.execute(_ROOTS, (level - 1, index * TILE, (index + 1) * TILE)).fetchall()
                self._store(level, index, [root for _, root in rows])
                index += 1
            if index == 0:
                return
            level += 1

    def _store(self, level: int, index: int, hashes: list[bytes]) -> None:
        if len(hashes) != TILE:
            raise Corrupt(
                f"tile {index} of level {level} has {len(hashes)} of {TILE} hashes", mend="run: trajlog verify"
            )
        tile = b"".join(hashes), subtree_root(hashes)
        if self._connection.execute(_INSERT, (level, index, *tile)).rowcount == 0:
            row = self._connection.execute(_TILE, (level, index)).fetchone()
            if row != tile:
                raise Corrupt(f"tile {index} of level {level} differs from the events", mend="run: trajlog verify")

    def leaves(self, after: int, until: int) -> Iterator[bytes]:
        """The leaf hashes of positions `after` + 1 to `until`, as far as there are events."""
        step = _TILES_AT_ONCE * TILE
        for start in range(after, until, step):
            rows = self._connection.execute(_LEAVES, (start, min(until, start + step)), binary=True).fetchall()
            for position, version, digest in rows:
                start += 1
                if position != start or version < 1:
                    raise Corrupt(f"position {start} is missing or damaged", mend="run: trajlog verify")
                yield leaf_hash(version, digest)

    def _scalar(self, query: str, *params: int) -> int:
        row = self._connection.execute(query, params).fetchone()
        value: int = row[0] if row else 0
        return value
