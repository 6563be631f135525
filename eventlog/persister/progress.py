"""How far the persister is: per partition, for `trajlog status`."""

from collections.abc import Mapping
from typing import NamedTuple

from core.errors import Unavailable
from eventlog.database import Connection
from eventlog.kafka.client import Client
from eventlog.sealer import Tiles

_ROWS = """
SELECT c.partition, c.next_offset,
       (SELECT s.last_position FROM trajlog.segment s WHERE s.topic_id = c.topic_id AND s.partition = c.partition
        ORDER BY s.last_position DESC LIMIT 1),
       (SELECT count(*) FROM trajlog.quarantine q
        WHERE q.topic_id = c.topic_id AND q.partition = c.partition AND q.state = 'held'), t.topic
FROM trajlog.ingest_cursor c JOIN trajlog.ingest_topic t USING (topic_id) WHERE t.until IS NULL ORDER BY c.partition
"""


class Partition(NamedTuple):
    """A partition of the topic that feeds the log. `position`: that of its last event in the log, None before the
    first; `sealed`: how much of that lies under full tiles; `lag`: offsets accepted and not yet taken, None if
    the broker did not say."""

    topic: str
    partition: int
    next_offset: int
    position: int | None
    sealed: int | None
    lag: int | None
    quarantined: int


def progress(connection: Connection, client: Client | None) -> list[Partition]:
    """Every partition's progress; without a client, or a broker that answers, the lag is unknown."""
    rows = connection.execute(_ROWS).fetchall()
    if not rows:
        return []
    sealed = Tiles(connection).sealed()
    ends = _ends(client, rows[0][4], len(rows)) if client is not None else {}
    return [
        Partition(
            topic,
            partition,
            next_offset,
            position,
            None if position is None else min(position, sealed),
            max(0, ends[partition] - next_offset) if partition in ends else None,
            quarantined,
        )
        for partition, next_offset, position, quarantined, topic in rows
    ]


def _ends(client: Client, topic: str, partitions: int) -> Mapping[int, int]:
    if client.address.topic != topic:
        return {}
    try:
        admin = client.admin()
        try:
            return {p: bounds.end for p, bounds in admin.bounds(topic, range(partitions)).items()}
        finally:
            admin.close()
    except Unavailable:
        return {}
