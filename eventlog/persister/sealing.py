"""Builds the tree's tiles in the worker's spare time. Any worker may; one at a time is enough."""

import time
from functools import partial

from eventlog.database import Connection
from eventlog.persister.store import Store
from eventlog.sealer import Tiles

EVERY_S = 0.4
TILES_AT_ONCE = 64
BUSY_LAG = 250_000
"""Events without a tile from which on a busy worker builds some too."""

_LOCK = "SELECT pg_try_advisory_lock(hashtext('trajlog/seal'))"
_UNLOCK = "SELECT pg_advisory_unlock(hashtext('trajlog/seal'))"
_HEAD = "SELECT coalesce(max(last_position), 0) FROM trajlog.segment"


class Sealing:
    """`lag`: events without a tile when last looked."""

    def __init__(self, store: Store) -> None:
        self.lag = 0
        self._store = store
        self._next = 0.0

    def some(self, *, busy: bool) -> None:
        """Build some tiles if it is time to."""
        now = time.monotonic()
        if now < self._next:
            return
        self.lag = self._store.run(partial(_build, build=not busy or self.lag > BUSY_LAG))
        self._next = time.monotonic() + (0 if self.lag > TILES_AT_ONCE * 256 and not busy else EVERY_S)


def _build(connection: Connection, *, build: bool) -> int:
    """Build tiles, unless another does; the lag."""
    tiles = Tiles(connection)
    if build and (connection.execute(_LOCK).fetchone() or (False,))[0]:
        try:
            sealed = tiles.build(TILES_AT_ONCE)
        finally:
            connection.execute(_UNLOCK)
    else:
        sealed = tiles.sealed()
    row = connection.execute(_HEAD).fetchone()
    return max(0, (row[0] if row else 0) - sealed)
