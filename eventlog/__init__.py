"""The log: append, read, verify, project, import. `eventlog.open()` is the way in.

with eventlog.open() as log:                     # the embedded database
    for event in log.read("episode/…"): ...
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import UsageError

if TYPE_CHECKING:
    from eventlog.log import Log

__all__ = ["open"]


def open(
    db: str | None = None, log: str | None = None, *, home: Path | None = None, blobs: str | Path | None = None
) -> "Log":
    """Open a log. `db`: a Postgres URL, `memory://` for one that ends with the process, or None for
    the embedded server under `home` (started, and its schema brought up to date, if need be).

    `log`: the address that events are appended to; None, the only one yet, is the database itself.
    `blobs`: where its recorders keep large values; by default `TRAJLOG_BLOBS`, else beside the data.
    Raises `Unavailable`, `SchemaMismatch`, `UsageError`.
    """
    if log is not None:
        raise UsageError(f"cannot append to {log!r}", where="--log", mend="leave it out: events go to the database")
    if db == "memory://":
        from eventlog.inmemory import InMemoryLog

        return InMemoryLog()
    from eventlog.embedded import Embedded, default_home
    from eventlog.ledger import Ledger

    home = home or default_home()
    blobs = blobs or os.environ.get("TRAJLOG_BLOBS") or home / "blobs"
    if db is not None:
        return Ledger(db, blobs=blobs)
    from core.errors import SchemaMismatch

    server = Embedded(home)
    server.start()
    try:
        return Ledger(server.url(), blobs=blobs)
    except SchemaMismatch:
        from eventlog import schema

        schema.upgrade(server.url(owner=True))
        return Ledger(server.url(), blobs=blobs)
