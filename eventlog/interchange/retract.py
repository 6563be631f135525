"""Taking back a mistaken import: every episode it brought says so, and so does the import.

Nothing is removed. Lists leave the episodes out, and the same records can be imported again, under
ids of the next generation.
"""

from collections.abc import Iterator

import msgspec

from core import vocabulary
from core.errors import Ambiguous, NotFound
from core.event import Event
from core.identity import uuid8
from core.vocabulary.episode import EpisodeRetracted, EpisodeStarted, ImportEnded, ImportRetracted
from eventlog.log import Log
from eventlog.writer import Writer

BATCH = 5_000


class Retracted(msgspec.Struct, frozen=True):
    """What a retraction did: how many episodes it took back, 0 if they were before."""

    import_id: str = msgspec.field(name="import")
    episodes: int
    why: str | None


class Retractions:
    """Which imports were retracted, looked up once each."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[str, bool] = {}

    def __contains__(self, import_id: str) -> bool:
        if import_id not in self._known:
            events = self._log.read(stream_of(import_id))
            self._known[import_id] = any(event.type == ImportRetracted.__name__ for event in events)
        return self._known[import_id]


class Unfinished:
    """The imports whose episodes may be in the log in part, looked up once each: where a batch is not all or
    nothing, those that did not end."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[str, bool] = {}

    def __contains__(self, import_id: str) -> bool:
        if self._log.direct:
            return False
        if import_id not in self._known:
            events = self._log.read(stream_of(import_id))
            self._known[import_id] = not any(event.type == ImportEnded.__name__ for event in events)
        return self._known[import_id]


def stream_of(import_id: str) -> str:
    """The stream of an import."""
    return f"import/{import_id}"


def retract(log: Log, import_id: str, why: str | None = None) -> Retracted:
    """Retract an import; doing it twice changes nothing. `NotFound` if there is no such import.

    Episodes come first and the import itself last: one that was interrupted is completed by the next.
    """
    writer = Writer("retract")
    parts = (b"trajlog/retract/1", import_id.encode())
    events: list[Event] = []
    episodes = found = 0
    for stream in _episodes(log, import_id):
        found += 1
        payload = EpisodeRetracted(import_id, why)
        events.append(writer.event(stream, payload, event_id=uuid8(*parts, stream.encode())))
        if len(events) == BATCH:
            episodes += _append(log, events)
            events = []
    if not found:
        raise NotFound(
            "that import brought no episodes", where=import_id, mend="trajlog ls --import ID lists an import's"
        )
    payload_ = ImportRetracted(why)
    stream = stream_of(import_id)
    last = writer.event(stream, payload_, event_id=uuid8(*parts, stream.encode()))
    episodes += _append(log, [*events, last]) - 1
    return Retracted(import_id, max(episodes, 0), why)


def resolve(log: Log, text: str) -> str:
    """The import that an id, or the beginning of one, names."""
    if log.stream_head(stream_of(text)):
        return text
    found = [stream.removeprefix("import/") for stream in _streams(log, stream_of(text))] if text else []
    if len(found) == 1:
        return found[0]
    mend = "its id is in what trajlog import printed, and in trajlog show EPISODE --json"
    if found:
        raise Ambiguous(f"fits {', '.join(found[:3])}", where=f"import {text!r}", mend="write more of the id")
    raise NotFound("there is no such import", where=repr(text), mend=mend)


def _append(log: Log, events: list[Event]) -> int:
    return sum(not answer.duplicate for answer in log.append_many(events))


def _episodes(log: Log, import_id: str) -> Iterator[str]:
    """The streams of the episodes that an import brought: they lie between its start and its end."""
    first = last = None
    for event in log.read(stream_of(import_id)):
        first = first or event.position
        if event.type == ImportEnded.__name__:
            last = event.position
    if first is None:
        raise NotFound("there is no such import", where=repr(import_id))
    for event in log.read_all(after=first, until=last):
        if event.type == EpisodeStarted.__name__:
            started = vocabulary.payload(event)
            if isinstance(started, EpisodeStarted) and started.origin and started.origin.import_id == import_id:
                yield event.stream


def _streams(log: Log, prefix: str) -> list[str]:
    """Streams that begin so, at most four."""
    if log.reader is None:
        return []
    with log.reader.borrow() as connection:
        query = "SELECT stream FROM trajlog.stream WHERE starts_with(stream, %s) ORDER BY stream LIMIT 4"
        return [row[0] for row in connection.execute(query, (prefix,))]
