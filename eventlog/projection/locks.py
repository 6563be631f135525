"""Who may fold a projection: one process a batch, or one a shard."""

import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from psycopg.errors import LockNotAvailable

from core.errors import Unavailable
from eventlog.database import Connection
from eventlog.projection import Versioned

_SPACE = 1_953_653_605
_SETTINGS = "SET LOCAL lock_timeout = '75s'; SET LOCAL idle_in_transaction_session_timeout = '60s'"


def hold(connection: Connection, projections: Iterable[Versioned], shard: int | None = None) -> None:
    """Hold the projections until the transaction ends: alone, or for one shard beside those that hold others."""
    kind = "" if shard is None else "_shared"
    with _patience():
        connection.execute(_SETTINGS)
        for key in sorted({_key(projection.name) for projection in projections}):
            connection.execute(f"SELECT pg_advisory_xact_lock{kind}(%s, %s)", (_SPACE, key))
        if shard is not None:
            for key in sorted({_key(f"{projection.name}/{shard}") for projection in projections}):
                connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (_SPACE, key))


@contextmanager
def held(connection: Connection, projection: Versioned) -> Iterator[None]:
    """Hold the projection for a block that begins its own transactions."""
    key = (_SPACE, _key(projection.name))
    with _patience(), connection.transaction():
        connection.execute(_SETTINGS)
        connection.execute("SELECT pg_advisory_lock(%s, %s)", key)
    try:
        yield
    finally:
        if not connection.closed:
            connection.execute("SELECT pg_advisory_unlock(%s, %s)", key)


@contextmanager
def _patience() -> Iterator[None]:
    try:
        yield
    except LockNotAvailable as error:
        raise Unavailable(
            "another process has been folding one batch for over a minute", where="projections", mend="try again"
        ) from error


def _key(name: str) -> int:
    return zlib.crc32(name.encode()) - 2**31
