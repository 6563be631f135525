"""A stopped client must not stop the log.

A writer suspended inside COPY keeps the log's lock; no timeout and no cancel reaches it, only
`pg_terminate_backend` does. A writer that waits too long watches the holder and ends it only if it
waits for its client and not a byte arrived meanwhile; a slow but moving COPY lives.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from psycopg import errors

from core.errors import Unavailable
from eventlog import database
from eventlog.reader import Reader

T = TypeVar("T")

STOOD_STILL_S = 10.0
LOCK_WAIT_S = 2
LOOK_EVERY_S = 0.5

_HOLDER = """
SELECT a.pid, a.xact_start::text, p.bytes_processed,
       coalesce(a.wait_event_type = 'Client' AND a.wait_event = 'ClientRead', false) AND p.pid IS NOT NULL
FROM pg_locks l
JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_stat_progress_copy p ON p.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (l.classid::bigint << 32) | l.objid::bigint = %s
"""


def end_stopped_writer(url: str, *, stood_still_s: float = STOOD_STILL_S) -> bool:
    """Watch whoever holds the log's lock; True if it stood still and was ended, False as soon as the
    holder moves, changes or does anything but wait for its client in COPY."""
    with database.connect(url) as connection, database.translated(url):
        key = connection.execute("SELECT trajlog.lock_key()").fetchone()
        connection.execute("RESET ROLE")  # a login may watch and end its own backends, not the role's
        first = connection.execute(_HOLDER, key).fetchone()
        until = time.monotonic() + stood_still_s
        while first is not None and first[3]:
            if time.monotonic() >= until:
                connection.execute("SELECT pg_terminate_backend(%s, 5000)", (first[0],))
                return True
            time.sleep(LOOK_EVERY_S)
            if connection.execute(_HOLDER, key).fetchone() != first:
                break
    return False


def patiently(reader: Reader, work: Callable[[database.Connection], T]) -> T:
    """Run `work` in a transaction that needs the log's lock, however long others hold it: one that stopped
    with it is ended."""
    while True:
        with reader.borrow() as connection:
            try:
                with connection.transaction():
                    connection.execute(f"SET LOCAL lock_timeout = '{LOCK_WAIT_S}s'")
                    return work(connection)
            except errors.LockNotAvailable:
                pass
        with suppress(Unavailable):
            end_stopped_writer(reader.url)
