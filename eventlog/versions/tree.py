"""The nodes of the Merkle tree that proofs are made of, from stored tiles; the edge from the events."""

from collections import OrderedDict
from typing import Final

from core.errors import Corrupt
from core.merkle import TILE, TILE_BITS, node_hash, split_tile
from eventlog.database import Connection
from eventlog.sealer import Tiles

_TILE = "SELECT hashes FROM trajlog.merkle WHERE level = %s AND index = %s"
_ROOTS = "SELECT index, root FROM trajlog.merkle WHERE level = %s AND index >= %s AND index < %s ORDER BY index"
_KEPT: Final = 64

Pyramid = list[list[bytes]]
"""Hashes of one tile, and the nodes over each complete pair of them, level by level."""


class Tree:
    """Reads one database over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tiles = Tiles(connection)
        self._kept: OrderedDict[tuple[int, int], Pyramid] = OrderedDict()

    def node(self, level: int, index: int) -> bytes:
        """`core.merkle.Nodes`: the hash over leaves [index·2^level, (index+1)·2^level). `Corrupt` where
        events are missing."""
        tier, height = divmod(level, TILE_BITS)
        tile, offset = divmod(index << height, TILE)
        row = self._pyramid(tier, tile)[height]
        if offset >> height >= len(row):
            raise Corrupt(f"there are no {1 << level} events from position {(index << level) + 1}")
        return row[offset >> height]

    def _pyramid(self, tier: int, tile: int) -> Pyramid:
        """Of the tile at that level, as far as there are events for it."""
        found = self._kept.get((tier, tile))
        if found is None:
            found = self._kept[tier, tile] = _pyramid(self._hashes(tier, tile))
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end((tier, tile))
        return found

    def _hashes(self, tier: int, tile: int) -> list[bytes]:
        row = self._connection.execute(_TILE, (tier, tile)).fetchone()
        if row is not None:
            return split_tile(row[0])
        if tier == 0:
            return list(self._tiles.leaves(tile * TILE, (tile + 1) * TILE))
        first = tile * TILE
        stored: dict[int, bytes] = dict(self._connection.execute(_ROOTS, (tier - 1, first, first + TILE)).fetchall())
        hashes = []
        for child in range(first, first + TILE):
            root = stored.get(child)
            if root is None:
                below = self._pyramid(tier - 1, child)
                if len(below[0]) < TILE:
                    break
                root = node_hash(*below[-1])
            hashes.append(root)
        return hashes


def _pyramid(hashes: list[bytes]) -> Pyramid:
    rows = [hashes]
    while len(rows) < TILE_BITS:
        below = rows[-1]
        rows.append([node_hash(left, right) for left, right in zip(below[::2], below[1::2], strict=False)])
    return rows
