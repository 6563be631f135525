"""Traces a release, a row, an episode or an event.

Which events a row rests on is read off its view as of the release's cut, so that it is exact; where this code
has no longer that view, the row's streams are named and `exact` is false.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from core.errors import NotFound, UsageError
from core.identity import uuid_bytes, uuid_text
from eventlog.database import Connection
from eventlog.log import Log, reader_of
from learners.releases import rebuild, register, states
from learners.releases.naming import Named
from learners.releases.sources import opened
from learners.releases.states import Release
from learners.rows import Key

SHOWN: Final = 100

_EVENTS = """
SELECT e.version, e.type, e.position, uuid_send(e.event_id), uuid_send(s.topic_id), t.topic, s.partition,
       s.first_offset, s.next_offset, s.first_position, s.last_position
FROM trajlog.event e
CROSS JOIN LATERAL (SELECT * FROM trajlog.segment s WHERE s.last_position >= e.position
                    ORDER BY s.last_position LIMIT 1) s
LEFT JOIN trajlog.ingest_topic t ON t.topic_id = s.topic_id
WHERE e.stream = %s AND e.version = ANY(%s) ORDER BY e.version
"""
_VERSIONS = "SELECT version FROM trajlog.event WHERE stream = %s AND position <= %s ORDER BY version"
_HOLDING = """
SELECT name, version, log_id, stream, row_version, row, digest FROM trajlog.release_row
WHERE stream = %(stream)s OR (sources IS NOT NULL AND sources @> ARRAY[%(stream)s])
ORDER BY name, log_id, stream, row_version, row, version
"""


class Record(msgspec.Struct, frozen=True):
    """Where Kafka has an event: its `offset`, or, where records of its commit were no events, between which."""

    topic: str | None
    topic_id: str
    partition: int
    offset: int | None
    first_offset: int
    next_offset: int


class EventNode(msgspec.Struct, frozen=True):
    """An event. `record` is null where it came into the ledger without Kafka."""

    event: str
    log: str
    type: str
    position: int
    event_id: str
    record: Record | None


class RowNode(msgspec.Struct, frozen=True):
    """A row of a release; `events` by name. `exact`: they are those that it rests on, no others."""

    row: str
    release: str
    log: str
    digest: str
    events: list[str]
    exact: bool = True


class ReleaseNode(msgspec.Struct, frozen=True):
    """A release; `rows` counts all of its rows."""

    release: str
    id: str
    view: str
    state: str
    by: str | None
    rows: int
    trajlog: str


class Lineage(msgspec.Struct, frozen=True):
    """What a trace found. `more` rows there are that are not listed."""

    of: str
    kind: str
    releases: list[ReleaseNode]
    rows: list[RowNode]
    events: list[EventNode]
    more: int = 0


class _Found(NamedTuple):
    key: Key
    digest: bytes
    streams: tuple[str, ...]


def of_release(logs: Sequence[Log], named: Named, limit: int = SHOWN) -> Lineage:
    """A release, or one row of it, down to the events."""
    release = states.find(logs[0], named)
    entries = register.members(logs[0], release.name, release.version)
    first = named.row or 0
    last = first + 1 if named.row is not None else limit or None
    found = [_Found(e.key, e.digest, e.sources or (e.key.stream,)) for e in islice(entries, first, last)]
    if named.row is not None and not found:
        raise NotFound(f"it has {release.built.rows:,} rows, from 0", where=str(named))
    rows = _rows(logs, release, found)
    events = _events(logs, {(row.log, name) for row in rows for name in row.events})
    more = 0 if named.row is not None else release.built.rows - len(found)
    kind = "release" if named.row is None else "row"
    return Lineage(str(release.named) if named.row is None else str(named), kind, [_node(release)], rows, events, more)


def of_stream(logs: Sequence[Log], stream: str, version: int | None) -> Lineage:
    """An episode, or one of its events, up to the rows and releases that hold it."""
    log = _holder(logs, stream, version)
    nodes: list[ReleaseNode] = []
    rows: list[RowNode] = []
    for release, found in _holding(logs[0], log.log_id, stream):
        here = _rows(logs, release, found)
        if version is not None:
            here = [row for row in here if f"{stream}@{version}" in row.events or not row.exact]
        if here:
            nodes.append(_node(release))
            rows += here
    own = uuid_text(log.log_id)
    if version is None:
        wanted = {(own, name) for row in rows for name in row.events if name.rpartition("@")[0] == stream}
        wanted = wanted or {(own, f"{stream}@{one}") for one in _versions(log, stream)}
    else:
        wanted = {(own, f"{stream}@{version}")}
    name = stream if version is None else f"{stream}@{version}"
    return Lineage(name, "episode" if version is None else "event", nodes, rows, _events(logs, wanted))


def _holder(logs: Sequence[Log], stream: str, version: int | None) -> Log:
    for log in logs:
        head = log.stream_head(stream)
        if head and (version is None or version <= head):
            return log
    head = max(log.stream_head(stream) for log in logs)
    if not head:
        raise NotFound("no such stream", where=stream[:80], mend="trajlog ls lists episodes")
    raise NotFound(f"it has {head:,} events", where=f"{stream}@{version}")


def _holding(log: Log, log_id: bytes, stream: str) -> Iterable[tuple[Release, list[_Found]]]:
    """The releases with rows of that stream, and these rows."""
    with reader_of(log).borrow() as connection:
        changes = connection.execute(_HOLDING, {"stream": stream}).fetchall()
    by_row: dict[tuple[str, Key], list[tuple[int, bytes | None]]] = {}
    for name, version, of, own, row_version, row, digest in changes:
        if of.bytes == log_id:
            by_row.setdefault((name, Key(of.bytes, own, row_version, row)), []).append((version, digest))
    for name in sorted({name for name, _ in by_row}):
        for release in states.releases(log, name):
            found = []
            for (of_name, key), versions in by_row.items():
                last = [digest for version, digest in versions if version <= release.version]
                if of_name == name and last and last[-1] is not None:
                    found.append(_Found(key, last[-1], (stream,)))
            if found:
                yield release, found


def _rows(logs: Sequence[Log], release: Release, found: Sequence[_Found]) -> list[RowNode]:
    events: dict[Key, list[str]] = {}
    view = rebuild.view_of(release)
    if not isinstance(view, str) and found:
        with opened(rebuild.sources(release, logs), view) as sources:
            for source in sources:
                keys = [one.key for one in found if one.key.log_id == source.log_id]
                for row in view.rows(source.connection, source.log_id, keys) if keys else ():
                    names = [f"{stream}@{version}" for stream, versions in row.sources for version in versions]
                    events[row.key] = names
    return [
        RowNode(
            row=f"{one.key.stream}@{one.key.version}#{one.key.row}",
            release=str(release.named),
            log=uuid_text(one.key.log_id),
            digest=one.digest.hex(),
            events=events.get(one.key, []),
            exact=one.key in events,
        )
        for one in found
    ]


def _node(release: Release) -> ReleaseNode:
    built = release.built
    return ReleaseNode(
        str(release.named), built.release_id, built.view, release.state, release.by, built.rows, built.code.trajlog
    )


def _versions(log: Log, stream: str) -> list[int]:
    with reader_of(log).borrow() as connection:
        return [version for (version,) in connection.execute(_VERSIONS, (stream, 2**62))]


def _events(logs: Sequence[Log], wanted: Iterable[tuple[str, str]]) -> list[EventNode]:
    """The events of these (log, name)s, in order."""
    by_stream: dict[tuple[str, str], list[int]] = {}
    for log_id, name in wanted:
        stream, _, version = name.rpartition("@")
        by_stream.setdefault((log_id, stream), []).append(int(version))
    found = []
    given = {log.log_id: log for log in logs}
    for log_id, stream in sorted(by_stream):
        log = given.get(uuid_bytes(log_id))
        if log is None:
            raise UsageError(f"events of the log {log_id} too", where=stream, mend="give --cut DB for it")
        with reader_of(log).borrow() as connection:
            found += list(_read(connection, log_id, stream, by_stream[log_id, stream]))
    return found


def _read(connection: Connection, log_id: str, stream: str, versions: list[int]) -> Iterable[EventNode]:
    rows: list[Any] = connection.execute(_EVENTS, (stream, versions), binary=True).fetchall()
    for version, type_, position, event_id, topic_id, topic, partition, first, end, low, high in rows:
        record = None
        if topic_id is not None:
            exact = end - first == high - low + 1
            offset = first + position - low if exact else None
            record = Record(topic, str(UUID(bytes=topic_id)), partition, offset, first, end)
        yield EventNode(f"{stream}@{version}", log_id, type_, position, uuid_text(event_id), record)
