"""What the persister made of accepted records: where their events went, or why they are in quarantine."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from core.errors import BadEvent, TrajlogError, WrongExpectedVersion
from core.event import Event
from core.identity import uuid_text
from eventlog.database import Connection
from eventlog.kafka.outgoing import taken
from eventlog.log import Appended

_CURSORS = "SELECT uuid_send(topic_id), partition, next_offset FROM trajlog.ingest_cursor"
_QUARANTINED = (
    "SELECT q.partition, q.offset_, q.reason, q.detail FROM trajlog.quarantine q "
    "JOIN unnest(%s::int[], %s::bigint[]) AS w (partition, offset_) USING (partition, offset_) WHERE q.topic_id = %s"
)
_EVENTS = "SELECT uuid_send(event_id), stream, version, position FROM trajlog.event WHERE event_id = ANY(%s::uuid[])"
_SEGMENTS = (
    "SELECT last_position, uuid_send(topic_id), partition, first_offset, next_offset FROM trajlog.segment "
    "WHERE last_position >= %s AND first_position <= %s ORDER BY last_position"
)


class Place(NamedTuple):
    """Where Kafka keeps a record."""

    topic_id: bytes
    partition: int
    offset: int


def cursors(connection: Connection) -> dict[tuple[bytes, int], int]:
    """How far each partition of each topic was taken: the next offset."""
    return {(topic, partition): offset for topic, partition, offset in connection.execute(_CURSORS)}


def fates(connection: Connection, places: Sequence[tuple[Place, Event]]) -> list[Appended | TrajlogError | None]:
    """What became of each event that a record at a place brought; None if nothing is known of it.

    A place in quarantine comes first: an id that stands for another event is in the ledger as well. An
    event whose segment is not of its place was brought by an earlier record.
    """
    refused = _refused(connection, places)
    rest = [event.event_id for place, event in places if place not in refused]
    stored = {row[0]: row for row in connection.execute(_EVENTS, ([uuid_text(event_id) for event_id in rest],))}
    segments = _segments(connection, [row[3] for row in stored.values()])
    found: list[Appended | TrajlogError | None] = []
    for place, event in places:
        if place in refused:
            found.append(_error(event, *refused[place]))
        elif event.event_id in stored:
            _, stream, version, position = stored[event.event_id]
            found.append(Appended(event.event_id, stream, version, position, not segments.brought(place, position)))
        else:
            found.append(None)
    return found


def _refused(connection: Connection, places: Sequence[tuple[Place, Event]]) -> dict[Place, tuple[str, str]]:
    found: dict[Place, tuple[str, str]] = {}
    for topic_id in {place.topic_id for place, _ in places}:
        mine = [place for place, _ in places if place.topic_id == topic_id]
        given = ([p.partition for p in mine], [p.offset for p in mine], uuid_text(topic_id))
        for partition, offset, reason, detail in connection.execute(_QUARANTINED, given):
            found[Place(topic_id, partition, offset)] = (reason, detail)
    return found


class _Segments:
    def __init__(self, rows: Sequence[tuple[int, bytes | None, int | None, int | None, int | None]]) -> None:
        self._rows = rows
        self._last = [row[0] for row in rows]

    def brought(self, place: Place, position: int) -> bool:
        """Whether the record at `place` is of the segment that holds a position."""
        _, topic_id, partition, first, until = self._rows[bisect_left(self._last, position)]
        if topic_id != place.topic_id or partition != place.partition or first is None or until is None:
            return False
        return first <= place.offset < until


def _segments(connection: Connection, positions: Sequence[int]) -> _Segments:
    if not positions:
        return _Segments([])
    return _Segments(connection.execute(_SEGMENTS, (min(positions), max(positions))).fetchall())


def _error(event: Event, reason: str, detail: str) -> TrajlogError:
    if reason == "refused":
        return WrongExpectedVersion(event.stream, event.expected_version or 0, int(detail.rpartition(" ")[2]))
    if reason == "id_taken":
        return taken(event)
    return BadEvent(f"quarantined as {reason}: {detail}", where=event.stream, mend="see: trajlog quarantine ls")
