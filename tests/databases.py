"""Databases for tests, on one running server: made quickly from a template that has the schema."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from eventlog import database, schema
from eventlog.embedded import Embedded
from eventlog.ledger import Ledger

TABLES = (
    *("event", "stream", "segment", "merkle", "projection", "parked", "tag"),
    *("ingest_topic", "ingest_cursor", "quarantine", "release", "release_row"),
)


class Database:
    """One database: the application's `url`, and `owner`, the login that owns the schema."""

    def __init__(self, server: Embedded, name: str) -> None:
        self.name = name
        self.url = server.url().replace("@/trajlog?", f"@/{name}?")
        self.owner = server.url(owner=True).replace("@/trajlog?", f"@/{name}?")

    def ledger(self) -> Ledger:
        return Ledger(self.url)

    def empty(self) -> None:
        """Make the log as new."""
        with self.tampering() as connection:
            for table in TABLES:  # few rows each: half the time of a TRUNCATE
                connection.execute(f"DELETE FROM trajlog.{table}")

    @contextmanager
    def tampering(self) -> Iterator[database.Connection]:
        """The owner's connection, one transaction, triggers off."""
        with database.connect(self.owner, role=None, autocommit=False) as connection:
            connection.execute("SET LOCAL session_replication_role = replica")
            yield connection


class Databases:
    """Makes databases; `bare` ones have no schema."""

    _TEMPLATE = "trajlog_template"

    def __init__(self, server: Embedded) -> None:
        self._server = server
        self._numbers = count(1)
        # Tests outlive no power cut, and an autovacuum of hundreds of databases would never rest.
        settings = [f"ALTER SYSTEM SET {name} = off" for name in ("fsync", "full_page_writes", "autovacuum")]
        self.execute(*settings, "SELECT pg_reload_conf()")
        self._make(self._TEMPLATE)
        schema.upgrade(Database(server, self._TEMPLATE).owner)

    def fresh(self, name: str = "test") -> Database:
        """A new database with an empty log."""
        return self._make(f"{name}_{next(self._numbers)}", self._TEMPLATE)

    def copy(self, original: Database) -> Database:
        """A new database like `original`, which nobody may be connected to."""
        return self._make(f"{original.name}_{next(self._numbers)}", original.name)

    def bare(self) -> Database:
        """A new database without a schema."""
        return self._make(f"bare_{next(self._numbers)}")

    def execute(self, *statements: str) -> None:
        """Run statements as the superuser."""
        with database.connect(self._server.url(owner=True), role=None) as connection:
            for statement in statements:
                connection.execute(statement)

    def _make(self, name: str, template: str = "template1") -> Database:
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return Database(self._server, name)
