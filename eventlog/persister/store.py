"""The persister's connection to the ledger, which it never gives up on.

Whatever happens to the database, the work is done again once it is back; meanwhile the caller keeps
its membership of the group alive (`rest`). Only what trying again cannot mend is raised.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar
from uuid import UUID

import psycopg
from psycopg import errors

from core.errors import SchemaMismatch, TrajlogError, Unavailable
from eventlog import database, schema
from eventlog.watchdog import end_stopped_writer

LOCK_WAIT_S = 2
IDLE_IN_TRANSACTION_S = 10
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0

_SETTINGS = (
    f"SET lock_timeout = '{LOCK_WAIT_S}s'; SET idle_in_transaction_session_timeout = '{IDLE_IN_TRANSACTION_S}s'; "
    "SET statement_timeout = 0; SET synchronous_commit = on; SET default_transaction_isolation = 'read committed'; "
    "SET application_name = 'trajlog persist'"
)
# Data exception, program limit, and what a check or a column's type forbids: it is in the record.
_IN_THE_DATA = ("22", "54")
_FORBIDDEN = ("23502", "23514")

T = TypeVar("T")


class Stopped(Exception):
    """The worker is to end, and the database is away."""


class Replaced(Exception):
    """The database is another instance than the one this worker began with: a copy, or a restored backup."""


class NotStorable(Exception):
    """The database cannot hold something in what it was given."""


class Identity(NamedTuple):
    """Which log this is, and which copy of it."""

    log_id: UUID
    instance_id: UUID


class Store:
    """One connection. `rest(seconds)` is called while the database is away, and answers whether to go on;
    `away(error)` hears that it is, and why, None once it is back."""

    def __init__(self, url: str, *, rest: Callable[[float], bool], away: Callable[[TrajlogError | None], None]) -> None:
        self.url = url
        self._rest = rest
        self._away = away
        self._connection: database.Connection | None = None
        self._identity: Identity | None = None
        self.connections = 0
        """How many were made: after each, the cursors may be older ones, of a copy brought back in place."""

    def identity(self) -> Identity:
        """Asked once; should it ever change, `run` raises `Replaced`."""
        self.run(lambda connection: None)
        assert self._identity is not None
        return self._identity

    def begin_anew(self) -> None:
        """Take whatever instance the database is now."""
        self._identity = None

    def run(self, work: Callable[[database.Connection], T]) -> T:
        """Run `work` on the connection until it comes to an end. `Stopped`, `Replaced`, `NotStorable`,
        `SchemaMismatch`, and what `work` raises of its own."""
        pause, away = FIRST_PAUSE_S, False
        while True:
            try:
                done = work(self._ready())
                if away:
                    self._away(None)
                return done
            except errors.LockNotAvailable:
                with suppress(Unavailable, psycopg.Error):
                    end_stopped_writer(self.url)
                if not self._rest(0):
                    raise Stopped from None
            except SchemaMismatch:
                raise
            except (psycopg.Error, Unavailable) as error:
                if isinstance(error, psycopg.Error):
                    if _is_in_the_data(error):
                        raise NotStorable(str(error).splitlines()[0]) from error
                    said: TrajlogError = database.translate(error, database.masked(self.url))
                else:
                    said = error
                self.close()
                self._away(said)
                away = True
                if not self._rest(pause):
                    raise Stopped from error
                pause = min(pause * 2, LONGEST_PAUSE_S)
            except Exception:
                if away and self._connection is not None:  # it is the work that says no
                    self._away(None)
                raise

    def close(self) -> None:
        """Close the connection; the next `run` makes another."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _ready(self) -> database.Connection:
        connection = self._connection
        if connection is not None and not connection.closed:
            if connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
                return connection
            self.close()
        connection = self._connection = database.connect(self.url)
        connection.execute(_SETTINGS)
        found = schema.version(connection)
        if found != schema.SCHEMA:
            raise schema.mismatch(found, database.masked(self.url))
        row = connection.execute("SELECT log_id, instance_id FROM trajlog.log").fetchone()
        if row is None:
            raise Unavailable("the log has no identity", where=database.masked(self.url), mend="restore its database")
        identity = Identity(*row)
        if self._identity not in (None, identity):
            raise Replaced
        self._identity = identity
        self.connections += 1
        return connection


def _is_in_the_data(error: psycopg.Error) -> bool:
    state = error.sqlstate or ""
    return state[:2] in _IN_THE_DATA or state in _FORBIDDEN
