"""When not to go on: the topic, or a partition, is not what the log was fed from. Pure.

Each doubt is a line that says what is wrong and what to do. It stops the worker on that topic or
partition only, and for as long as it holds.
"""

from typing import Literal, NamedTuple
from uuid import UUID

from eventlog.kafka.client import Bounds, Record, Topic
from eventlog.persister.batch import record_digest
from eventlog.persister.source import Cursor, Source

Cause = Literal["retention", "truncated", "changed", "recreated", "moved", "missing", "repartitioned"]
_ACCEPT = "trajlog kafka accept shows what is lost and goes on without it"


class Doubt(NamedTuple):
    """What is wrong (`cause`, and in words) and the mend."""

    cause: Cause
    what: str
    mend: str

    def __str__(self) -> str:
        return f"{self.what}; {self.mend}"


def of_topic(source: Source, name: str, topic: Topic | None) -> Doubt | None:
    """What is wrong with the topic `name` as the broker has it now."""
    if source.topic != name:
        return Doubt(
            "moved",
            f"this log is fed by topic {source.topic!r}, not by {name!r}",
            f"name that one in --log; to move the log to {name!r}: trajlog kafka accept",
        )
    if topic is None:
        return Doubt(
            "missing",
            f"topic {name!r} is gone; what it held that was not taken is lost with it",
            "if it was deleted for good, make it anew (trajlog kafka init), then: trajlog kafka accept",
        )
    found = UUID(bytes=topic.id)
    if found != source.topic_id:
        return Doubt(
            "recreated",
            f"topic {name!r} was deleted and made anew (its id was {source.topic_id}, now it is {found}); "
            "what the old one held that was not taken is lost",
            _ACCEPT,
        )
    if topic.partitions != source.partitions:
        return Doubt(
            "repartitioned",
            f"topic {name!r} has {topic.partitions} partitions, the log was fed from {source.partitions}: keys lie "
            "elsewhere now, and a stream would lose its order",
            "make another topic, copy into it what was not taken yet (the old partitions first), and move the log "
            "there: trajlog kafka accept",
        )
    return None


def of_partition(cursor: Cursor, bounds: Bounds) -> Doubt | None:
    """What is wrong with a partition that holds these offsets."""
    name = f"partition {cursor.partition}"
    if bounds.start > cursor.next_offset:
        lost = bounds.start - cursor.next_offset
        return Doubt(
            "retention",
            f"{name} begins at offset {bounds.start}, but the log took it up to {cursor.next_offset}: "
            f"{lost:,} offsets were deleted before they were taken",
            f"{_ACCEPT}; set retention.ms=-1",
        )
    if bounds.end < cursor.next_offset:
        return Doubt(
            "truncated",
            f"{name} ends at offset {bounds.end}, but the log took it up to {cursor.next_offset}: Kafka lost its end",
            _ACCEPT,
        )
    return None


def of_record(cursor: Cursor, record: Record | None) -> Doubt | None:
    """What is wrong with the record that lies where the last one was taken."""
    if record is not None and record_digest(record) == cursor.last_digest:
        return None
    return Doubt(
        "changed",
        f"partition {cursor.partition} holds another record at offset {cursor.last_offset} than the log took from "
        "there: Kafka lost its end, and wrote on",
        _ACCEPT,
    )
