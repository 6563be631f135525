"""The log: append, read, verify, project, import. `eventlog.open()` is the way in.

with eventlog.open() as log:                     # the embedded database
    for event in log.read("episode/…"): ...
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import UsageError

if TYPE_CHECKING:
    from eventlog.ledger import Ledger
    from eventlog.log import Log

__all__ = ["open"]


def open(
    db: str | None = None,
    log: str | None = None,
    *,
    home: Path | None = None,
    blobs: str | Path | None = None,
    kafka: Mapping[str, str] | None = None,
) -> "Log":
    """Open a log. `db`: a Postgres URL, `memory://` for one that ends with the process, or None for
    the embedded server under `home` (started, and its schema brought up to date, if need be).

    `log`: where events are appended: None is the database itself, `kafka://host:9092/topic` a topic that
    `trajlog persist` takes them from. No broker is asked before the first append. `kafka`: options of its
    client, below those of the address and the environment.
    `blobs`: where its recorders keep large values; by default `TRAJLOG_BLOBS`, else beside the data.
    Raises `Unavailable`, `SchemaMismatch`, `UsageError`.
    """
    if log is not None:
        from eventlog.kafka.address import KafkaAddress

        address = KafkaAddress.parse(log, kafka)
        if db == "memory://":
            raise UsageError("a log behind Kafka ends in Postgres", where="--db", mend="give a postgresql:// URL")
        from eventlog.kafka.log import KafkaLog

        return KafkaLog(_ledger(db, home, blobs), address)
    if db == "memory://":
        from eventlog.inmemory import InMemoryLog

        return InMemoryLog()
    return _ledger(db, home, blobs)


def _ledger(db: str | None, home: Path | None, blobs: str | Path | None) -> "Ledger":
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
