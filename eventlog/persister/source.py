"""The topic that feeds the log, and how far each of its partitions was taken.

The topic's id and its number of partitions are recorded at first sight and frozen: another topic of
the same name, or more partitions, would change what offsets and keys mean.
"""

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from eventlog.database import Connection
from eventlog.kafka.client import Topic

_SOURCE = "SELECT topic_id, topic, partitions FROM trajlog.ingest_topic WHERE until IS NULL"
_REGISTER = "INSERT INTO trajlog.ingest_topic (topic_id, topic, partitions) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
_BEGIN = (
    "INSERT INTO trajlog.ingest_cursor (topic_id, partition, next_offset) "
    "SELECT %s, n, 0 FROM generate_series(0, %s - 1) AS n ON CONFLICT DO NOTHING"
)
_COLUMNS = "partition, next_offset, epoch, last_offset, last_digest"
_OWN = f"UPDATE trajlog.ingest_cursor SET epoch = epoch + 1 WHERE topic_id = %s AND partition = %s RETURNING {_COLUMNS}"
_CURSORS = f"SELECT {_COLUMNS} FROM trajlog.ingest_cursor WHERE topic_id = %s ORDER BY partition"


class Source(NamedTuple):
    """The topic, as it was when the log first saw it."""

    topic_id: UUID
    topic: str
    partitions: int


class Cursor(NamedTuple):
    """How far a partition was taken. `epoch` grows with every owner; `last_digest` is that of the record at
    `last_offset`, the last one taken."""

    partition: int
    next_offset: int
    epoch: int
    last_offset: int | None
    last_digest: bytes | None


def source(connection: Connection) -> Source | None:
    """The topic that feeds the log; None before the first."""
    row = connection.execute(_SOURCE).fetchone()
    return Source(*row) if row else None


def register(connection: Connection, topic: Topic) -> Source:
    """Take this topic, from its beginning, unless there is one: the topic that feeds the log."""
    with connection.transaction():
        begin(connection, topic)
    found = source(connection)
    assert found is not None
    return found


def begin(connection: Connection, topic: Topic) -> None:
    """Make this the topic that feeds the log, in the caller's transaction, unless there is another."""
    topic_id = UUID(bytes=topic.id)
    if connection.execute(_REGISTER, (topic_id, topic.name, topic.partitions)).rowcount:
        connection.execute(_BEGIN, (topic_id, topic.partitions))


def own(connection: Connection, topic_id: UUID, partitions: Iterable[int]) -> dict[int, Cursor]:
    """Become the owner of these partitions: whoever was is fenced off from now on. Those of a topic that does
    not feed the log any more are left out."""
    found = {}
    for partition in sorted(partitions):  # each in a commit of its own: nothing is held while another is waited for
        row = connection.execute(_OWN, (topic_id, partition)).fetchone()
        if row is not None:
            found[partition] = Cursor(*row)
    return found


def cursors(connection: Connection, topic_id: UUID) -> dict[int, Cursor]:
    """Every partition's cursor."""
    return {row[0]: Cursor(*row) for row in connection.execute(_CURSORS, (topic_id,))}
