"""Databases with train episodes, for releases."""

import pytest

from tests.databases import Database, Databases


@pytest.fixture(scope="session")
def _database(databases: Databases) -> Database:
    return databases.fresh("release")


@pytest.fixture
def database(_database: Database) -> Database:
    """A database with an empty log."""
    _database.empty()
    return _database
