"""Databases for the tests of learning: one a module, emptied for each test."""

from collections.abc import Iterator

import pytest

from eventlog.ledger import Ledger
from tests.databases import Database, Databases


@pytest.fixture(scope="module")
def database(databases: Databases) -> Database:
    """A database of this module's own."""
    return databases.fresh("learn")


@pytest.fixture
def ledger(database: Database) -> Iterator[Ledger]:
    """The module's log, emptied."""
    database.empty()
    with database.ledger() as log:
        yield log
