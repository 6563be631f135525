"""Databases for the tests of the log: one a module, unless a test asks for its own."""

from collections.abc import Iterator

import pytest

from eventlog.ledger import Ledger
from tests.databases import Database, Databases


@pytest.fixture(scope="module")
def database(databases: Databases) -> Database:
    """A database of this module's own."""
    return databases.fresh()


@pytest.fixture
def ledger(database: Database) -> Iterator[Ledger]:
    """The module's log, emptied."""
    database.empty()
    with database.ledger() as log:
        yield log
