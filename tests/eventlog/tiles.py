"""Tiles of four hashes: a log of hundreds of events has a tree as tall as one of millions."""

import pytest

from eventlog import sealer, verify
from eventlog.verify import streams, tree
from tests.databases import Database

BITS = 2
SIZE = 1 << BITS


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the sealer and verification work with tiles of four."""
    for module in (sealer, verify, streams, tree):
        monkeypatch.setattr(module, "TILE", SIZE)
        monkeypatch.setattr(module, "TILE_BITS", BITS, raising=False)


def allow_small(database: Database) -> None:
    """Let the database store them."""
    with database.tampering() as connection:
        connection.execute("ALTER TABLE trajlog.merkle DROP CONSTRAINT IF EXISTS merkle_hashes_check")
