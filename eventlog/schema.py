"""The database's schema version, and bringing it up to this code's by Alembic."""

from typing import TYPE_CHECKING

from core.errors import SchemaMismatch

if TYPE_CHECKING:
    import psycopg

SCHEMA = "0004"


def version(connection: "psycopg.Connection") -> str | None:
    """The schema revision of this database, or None where trajlog was never installed."""
    found = connection.execute("SELECT to_regclass('trajlog.alembic_version')").fetchone()
    if found is None or found[0] is None:
        return None
    row = connection.execute("SELECT version_num FROM trajlog.alembic_version").fetchone()
    return row[0] if row else None


def mismatch(found: str | None, where: str) -> SchemaMismatch:
    """The one line for a database whose schema is not this code's."""
    if found is None:
        return SchemaMismatch("this database has no trajlog log", where=where, mend="run: trajlog init")
    if found < SCHEMA:
        return SchemaMismatch(
            f"the database's schema is {found}, older than this trajlog's {SCHEMA}",
            where=where,
            mend="run: trajlog db upgrade",
        )
    return SchemaMismatch(
        f"the database's schema is {found}, newer than this trajlog's {SCHEMA}",
        where=where,
        mend="install a newer trajlog",
    )


def upgrade(url: str) -> str | None:
    """Migrate the database at `url` (the owner's login) to `SCHEMA`; returns the version it had.

    Two upgrades at once wait for each other. A newer schema is refused.
    """
    import importlib.resources

    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError
    from sqlalchemy import create_engine
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.pool import NullPool

    from eventlog import database

    with database.connect(url, role=None) as lock, database.translated(url):
        lock.execute("SELECT pg_advisory_lock(hashtext('trajlog/upgrade'))")
        found = version(lock)
        if found is not None and found > SCHEMA:
            raise mismatch(found, database.masked(url))
        if found == SCHEMA:
            return found
        config = Config()
        config.set_main_option("script_location", str(importlib.resources.files("migrations")).replace("%", "%%"))
        engine = create_engine(
            "postgresql+psycopg://",
            creator=lambda: database.connect(url, role=None, autocommit=False),
            poolclass=NullPool,
        )
        try:
            with engine.begin() as connection:
                config.attributes["connection"] = connection
                command.upgrade(config, SCHEMA)
        except DBAPIError as error:
            raise error.orig or error from None
        except CommandError as error:
            what = f"this trajlog does not know the database's schema {found}: {error}"
            mend = "install the trajlog that made it"
            raise SchemaMismatch(what, where=database.masked(url), mend=mend) from None
        return found
