"""What is written stays: refused to the application by its rights, to the owner by triggers."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from eventlog import database, schema
from eventlog.ledger import Ledger
from eventlog.testing import an_event
from eventlog.versions import tags
from eventlog.versions.keys import Keys
from tests.databases import Database, Databases

COLUMN = {"event": "writer", "segment": "seal", "merkle": "root", "log": "created_at", "tag": "why"}
CHANGES = {
    "update": "UPDATE trajlog.{table} SET {column} = {column}",
    "delete": "DELETE FROM trajlog.{table}",
    "truncate": "TRUNCATE trajlog.{table}",
}
tables = pytest.mark.parametrize("table", list(COLUMN))
changes = pytest.mark.parametrize("change", list(CHANGES))


@pytest.fixture(scope="module", autouse=True)
def _written(database: Database, tmp_path_factory: pytest.TempPathFactory) -> None:
    with database.ledger() as log:
        log.append_many([an_event("a") for _ in range(256)])
        tags.create(log, Keys(tmp_path_factory.mktemp("keys")), "gold")


def statement(table: str, change: str) -> str:
    return CHANGES[change].format(table=table, column=COLUMN[table])


@tables
@changes
def test_the_application_may_not(database: Database, table: str, change: str) -> None:
    with connect(database.url) as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute(statement(table, change))


@tables
@changes
def test_a_trigger_stops_the_owner(database: Database, table: str, change: str) -> None:
    with connect(database.owner, role=None) as connection:
        with pytest.raises(errors.RestrictViolation, match=f"trajlog.{table} is immutable: {change.upper()} refused"):
            connection.execute(statement(table, change))
        count = connection.execute(f"SELECT count(*) FROM trajlog.{table}").fetchone()
    assert count is not None
    assert count[0] > 0


@tables
def test_the_application_may_not_lift_the_triggers(database: Database, table: str) -> None:
    with connect(database.url) as connection:
        for command in (
            f"ALTER TABLE trajlog.{table} DISABLE TRIGGER ALL",
            f"DROP TABLE trajlog.{table}",
            f"DROP TRIGGER immutable ON trajlog.{table}",
            "SET session_replication_role = replica",
            "CREATE OR REPLACE FUNCTION trajlog.refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'",
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(command)


def test_heads_are_moved_but_never_removed(database: Database) -> None:
    with connect(database.url) as connection:
        for command in ("DELETE FROM trajlog.stream", "TRUNCATE trajlog.stream", "INSERT INTO trajlog.log SELECT"):
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(command)


def test_projections_are_the_applications_own(database: Database) -> None:
    with connect(database.url) as connection:
        connection.execute("CREATE TABLE trajlog_view.mine__v1 (x int); DROP TABLE trajlog_view.mine__v1")
        connection.execute("INSERT INTO trajlog.projection (name, version) VALUES ('mine', 1)")
        connection.execute("DELETE FROM trajlog.projection")
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("CREATE TABLE trajlog.mine (x int)")


def connect(url: str, role: str | None = database.ROLE) -> database.Connection:
    return database.connect(url, role=role)


# -- who may do what --------------------------------------------------------------------------------


def login_url(url: str, name: str) -> str:
    before, _, after = url.partition("@/")
    return f"{before.split('://')[0]}://{name}:secret@/{after}"


def make_logins(databases: Databases) -> None:
    databases.execute(
        "CREATE ROLE one_role LOGIN PASSWORD 'secret'",
        "CREATE ROLE app_login LOGIN PASSWORD 'secret' IN ROLE trajlog_app",
        "CREATE ROLE stranger LOGIN PASSWORD 'secret'",
    )


@pytest.fixture
def single(databases: Databases) -> Iterator[Database]:
    """A database that belongs to a login which may neither make roles nor take the application's."""
    make_logins(databases)
    made = databases.bare()
    databases.execute(f"ALTER DATABASE {made.name} OWNER TO one_role")
    yield made
    databases.execute(f"DROP DATABASE {made.name} (FORCE)", "DROP ROLE one_role, app_login, stranger")


def test_a_database_with_one_role_works(single: Database) -> None:
    url = login_url(single.owner, "one_role")
    assert schema.upgrade(url) is None
    with Ledger(url) as log:
        log.append(an_event("a"))
        log.append_many([an_event("a") for _ in range(300)])
        assert log.seal() == 256
        assert log.stream_head("a") == 301
    with connect(url) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("one_role",)
        with pytest.raises(errors.RestrictViolation):
            connection.execute("UPDATE trajlog.event SET writer = 'x'")


def test_a_role_made_later_does_not_lock_a_database_with_one_role(single: Database, databases: Databases) -> None:
    url = login_url(single.owner, "one_role")
    schema.upgrade(url)
    databases.execute("GRANT trajlog_app TO one_role")
    with Ledger(url) as log:
        log.append(an_event("a"))


def test_a_login_that_may_make_roles_but_not_take_ours_gets_one_role(single: Database, databases: Databases) -> None:
    databases.execute("ALTER ROLE one_role CREATEROLE")
    url = login_url(single.owner, "one_role")
    schema.upgrade(url)
    with Ledger(url) as log:
        log.append(an_event("a"))


def test_a_login_that_may_take_the_role_gets_two(single: Database, databases: Databases) -> None:
    databases.execute("GRANT trajlog_app TO one_role")
    url = login_url(single.owner, "one_role")
    schema.upgrade(url)
    with Ledger(url) as log:
        log.append(an_event("a"))
    with connect(url) as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute("UPDATE trajlog.event SET writer = 'x'")
    with Ledger(login_url(single.owner, "app_login")) as log:
        log.append(an_event("a"))


def test_a_member_of_the_role_works_under_it_and_others_are_told(single: Database, databases: Databases) -> None:
    whole = databases.fresh()
    with Ledger(login_url(whole.url, "app_login")) as log:
        log.append(an_event("a"))
    with connect(login_url(whole.url, "app_login")) as connection:
        assert connection.execute("SELECT current_user, session_user").fetchone() == ("trajlog_app", "app_login")
    with pytest.raises(Exception, match=r"permission denied.*grant trajlog_app to this login"):
        Ledger(login_url(whole.url, "stranger"))
    databases.execute(f"DROP DATABASE {whole.name} (FORCE)")


def test_a_login_without_rights_is_told_in_one_line(single: Database, databases: Databases) -> None:
    other = databases.bare()
    with pytest.raises(Exception, match="permission denied for database") as caught:
        schema.upgrade(login_url(other.url, "stranger"))
    assert not isinstance(caught.value, psycopg.Error)
    assert "\n" not in str(caught.value)
