"""A restored copy is the same log and another instance, unless it takes the original's place."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg import errors

from core.errors import SchemaMismatch, Unavailable
from core.vocabulary import payload
from core.vocabulary.access import LogRestored
from eventlog import restored
from eventlog.database import connect
from eventlog.testing import an_event
from eventlog.verify import verify
from eventlog.versions import tags
from eventlog.versions.keys import Keys
from eventlog.versions.rotation import instance_of
from tests.databases import Database, Databases


@pytest.fixture
def copy(databases: Databases, tmp_path: Path) -> Iterator[tuple[Database, Database]]:
    """A log with a tag, and its copy."""
    original = databases.fresh("restored")
    with original.ledger() as log:
        log.append(an_event("a"))
        tags.create(log, Keys(tmp_path / "keys"), "before")
    yield original, databases.copy(original)


def test_a_copy_becomes_an_instance_of_its_own(copy: tuple[Database, Database], tmp_path: Path) -> None:
    original, database = copy
    keys = Keys(tmp_path / "keys")
    found = restored.renew(database.owner)
    with original.ledger() as log, database.ledger() as other:
        assert found == (log.log_id, instance_of(other), instance_of(log))
        assert other.log_id == log.log_id
        assert instance_of(other) != instance_of(log)
        said = payload(list(other.read_all())[-1])
        assert isinstance(said, LogRestored)
        assert verify(other.reader).ok
        assert tags.create(other, keys, "after").key != tags.tag(log, "before").key
        held = tags.tags(other)
        assert [tags.fault(other, receipt) for receipt in held] == [None, None]
        assert {receipt.key for receipt in held} <= tags.trusted(other, keys, held)


def test_a_copy_in_the_originals_place_stays_what_it_was(copy: tuple[Database, Database]) -> None:
    original, database = copy
    found = restored.keep(database.owner)
    with original.ledger() as log, database.ledger() as other:
        assert found == (log.log_id, instance_of(log), instance_of(log))
        assert instance_of(other) == instance_of(log)
        assert other.head() == log.head()


def test_the_log_stays_immutable(copy: tuple[Database, Database]) -> None:
    _, database = copy
    restored.renew(database.owner)
    with connect(database.owner, role=None) as connection, pytest.raises(errors.RestrictViolation):
        connection.execute("UPDATE trajlog.log SET instance_id = gen_random_uuid()")


def test_the_application_may_not(copy: tuple[Database, Database]) -> None:
    _, database = copy
    with database.ledger() as log:
        before = instance_of(log)
        with pytest.raises(Unavailable, match="this login does not own the tables; use the owner's in --db"):
            restored.renew(database.url)
        assert instance_of(log) == before
        assert log.head().position == 1


def test_a_database_without_a_log_is_said(databases: Databases) -> None:
    for use in (restored.renew, restored.keep):
        with pytest.raises(SchemaMismatch, match="run: trajlog init"):
            use(databases.bare().owner)
