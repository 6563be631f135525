"""Going on without what Kafka lost: named in the log first, in the same transaction.

A partition whose beginning was deleted goes on where it begins now. One whose end was cut off, or
holds other records now, is taken from its beginning again: what the log has already is known there,
and left out. A topic that was made anew, or another one, is taken from its beginning.
"""

from collections.abc import Sequence
from contextlib import closing, suppress
from typing import NamedTuple
from uuid import UUID

from core.digest import event_digest
from core.errors import NotFound, TrajlogError, Unavailable
from core.identity import uuid7, uuid_text
from core.times import now
from core.vocabulary.access import RecordsLost
from eventlog import commit
from eventlog.database import Connection
from eventlog.kafka.client import Admin, Client, Consumer, OutOfRange, Topic, connect
from eventlog.persister import doubts
from eventlog.persister.doubts import Doubt
from eventlog.persister.source import Cursor, Source, begin, cursors, source
from eventlog.writer import Writer

_RETIRE = "UPDATE trajlog.ingest_topic SET until = clock_timestamp() WHERE topic_id = %s AND until IS NULL"
_FENCE = "UPDATE trajlog.ingest_cursor SET epoch = epoch + 1 WHERE topic_id = %s"
_MOVE = (
    "UPDATE trajlog.ingest_cursor SET next_offset = %s, epoch = epoch + 1, last_offset = NULL, last_digest = NULL "
    "WHERE topic_id = %s AND partition = %s AND next_offset = %s"
)


class Loss(NamedTuple):
    """A stretch of a partition that the log will not hold. `next_offset` None: up to its end, wherever that was;
    `resume_at`: where this partition is taken from then, None if it no longer is."""

    topic: str
    topic_id: bytes
    partition: int
    first_offset: int
    next_offset: int | None
    cause: str
    what: str
    resume_at: int | None


class Plan(NamedTuple):
    """What is lost, and the topic to go on with: None, the one that feeds the log."""

    losses: Sequence[Loss]
    topic: Topic | None

    @property
    def empty(self) -> bool:
        return not self.losses and self.topic is None


def plan(connection: Connection, client: Client) -> Plan:
    """What the log has to go on without, if anything. `NotFound`, `Unavailable`, `TrajlogError` where nothing
    can be accepted."""
    name = client.address.topic
    found = source(connection)
    with closing(client.admin()) as admin:
        topic = admin.topic(name)
        if found is None:
            return Plan([], None)
        doubt = doubts.of_topic(found, name, topic)
        reached = cursors(connection, found.topic_id)
        if doubt is None:
            return Plan(_of_partitions(client, admin, found, reached), None)
    if topic is None:
        raise NotFound(f"there is no topic {name!r}", where=client.address.place, mend="run: trajlog kafka init")
    if doubt.cause == "repartitioned":
        raise TrajlogError(doubt.what, where=client.address.place, mend=doubt.mend)
    return Plan(_of_topic(client, found, reached, doubt), topic)


def accept(connection: Connection, plan: Plan) -> None:
    """Name the losses in the log, and move the cursors. `TrajlogError` if things moved since `plan`."""
    writer = Writer("persister", run=uuid7())
    with connection.transaction():
        if plan.topic is not None:
            before = source(connection)
            if before is not None:
                connection.execute(_FENCE, (before.topic_id,))
                connection.execute(_RETIRE, (before.topic_id,))
            begin(connection, plan.topic)
        for loss in plan.losses:
            topic_id = UUID(bytes=loss.topic_id)
            moved = (loss.resume_at, topic_id, loss.partition, loss.first_offset)
            if loss.resume_at is not None and not connection.execute(_MOVE, moved).rowcount:
                raise TrajlogError(f"partition {loss.partition} moved meanwhile", mend="look again")
            event = writer.event(
                f"kafka/{loss.topic}",
                RecordsLost(
                    topic=loss.topic,
                    topic_id=uuid_text(loss.topic_id),
                    partition=loss.partition,
                    first_offset=loss.first_offset,
                    next_offset=loss.next_offset,
                    cause=loss.cause,  # type: ignore[arg-type]
                    why=loss.what,
                ),
                occurred_at=now(),
            )
            commit.append_one(connection, commit.parameters(event, event_digest(event)), event)


def _of_partitions(client: Client, admin: Admin, found: Source, reached: dict[int, Cursor]) -> list[Loss]:
    bounds = admin.bounds(found.topic, reached)
    losses = []
    with closing(client.consumer(f"trajlog.accept.{uuid_text(uuid7())}")) as consumer:
        for partition, cursor in sorted(reached.items()):
            doubt = doubts.of_partition(cursor, bounds[partition]) or _of_record(
                cursor, bounds[partition].start, consumer
            )
            if doubt is None:
                continue
            start = bounds[partition].start
            until = start if doubt.cause == "retention" else None
            losses.append(_loss(found, cursor, until, doubt, resume_at=start))
    return losses


def _of_record(cursor: Cursor, start: int, consumer: Consumer) -> Doubt | None:
    if cursor.last_offset is None or cursor.last_offset < start:
        return None
    with suppress(OutOfRange):
        return doubts.of_record(cursor, consumer.record(cursor.partition, cursor.last_offset))
    return None


def _of_topic(client: Client, found: Source, reached: dict[int, Cursor], doubt: Doubt) -> list[Loss]:
    """What the old topic held and was not taken. One that is there still can say what that is, and what lies in
    partitions that were added: nothing was ever taken from those."""
    ends: dict[int, int] = {}
    if doubt.cause == "moved":
        old = connect(client.address._replace(topic=found.topic))
        with suppress(Unavailable, NotFound), closing(old.admin()) as admin:
            topic = admin.topic(found.topic)
            if topic is not None and topic.id == found.topic_id.bytes:
                ends = {p: each.end for p, each in admin.bounds(found.topic, range(topic.partitions)).items()}
    added = {partition: Cursor(partition, 0, 0, None, None) for partition in ends if partition not in reached}
    return [
        _loss(found, cursor, ends.get(partition), doubt, resume_at=None)
        for partition, cursor in sorted((reached | added).items())
        if ends.get(partition) != cursor.next_offset
    ]


def _loss(found: Source, cursor: Cursor, until: int | None, doubt: Doubt, *, resume_at: int | None) -> Loss:
    return Loss(
        found.topic,
        found.topic_id.bytes,
        cursor.partition,
        cursor.next_offset,
        until,
        doubt.cause,
        doubt.what,
        resume_at,
    )
