"""A database restored from a backup: the same log, and another instance unless it takes the original's place."""

from typing import NamedTuple
from uuid import UUID, uuid4

from core.errors import Unavailable
from core.identity import uuid8, uuid_text
from core.vocabulary.access import LogRestored
from eventlog import database, schema
from eventlog.ledger import Ledger
from eventlog.writer import Writer

_IDS = "SELECT log_id, instance_id FROM trajlog.log"
_OWNER = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'trajlog.log'::regclass"
_RENEW = """
ALTER TABLE trajlog.log DISABLE TRIGGER immutable;
UPDATE trajlog.log SET instance_id = {};
ALTER TABLE trajlog.log ENABLE TRIGGER immutable
"""


class Restored(NamedTuple):
    """Which log it is, which instance of it, and which it was in the backup."""

    log: bytes
    instance: bytes
    previous: bytes


def keep(url: str) -> Restored:
    """Which instance the database at `url` is."""
    with database.connect(url, role=None) as connection, database.translated(url):
        return _ids(connection, url)


def renew(url: str) -> Restored:
    """Make the database at `url`, the owner's login, an instance of its own; an event says so.
    `Unavailable` for a login that does not own the tables."""
    instance = uuid4()
    with database.connect(url, role=None, autocommit=False) as connection, database.translated(url):
        was = _ids(connection, url)
        if not (connection.execute(_OWNER).fetchone() or (False,))[0]:
            raise Unavailable(
                "this login does not own the tables", where=database.masked(url), mend="use the owner's in --db"
            )
        connection.execute(_RENEW.format(f"'{instance}'"))
    said = LogRestored(instance=str(instance), previous=uuid_text(was.instance))
    with Ledger(url) as log:
        event_id = uuid8(b"trajlog/restored/1", was.log, instance.bytes)
        log.append(Writer("restore").event(f"instance/{instance}", said, event_id=event_id))
    return Restored(was.log, instance.bytes, was.instance)


def _ids(connection: database.Connection, url: str) -> Restored:
    found = schema.version(connection)
    if found != schema.SCHEMA:
        raise schema.mismatch(found, database.masked(url))
    log_id: UUID
    log_id, instance_id = connection.execute(_IDS).fetchone() or (UUID(int=0), UUID(int=0))
    return Restored(log_id.bytes, instance_id.bytes, instance_id.bytes)
