"""Streams folded again in memory, up to a position: what their rows were, or ought to be."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import count, groupby, islice
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from core.event import StoredEvent
from core.times import IN_2000
from eventlog import database
from eventlog.database import Connection
from eventlog.projection import Projection, Row, name_of
from eventlog.reader import COMMITTED_AT, FIELDS, event_of

_LEAN = "e.position, e.version, e.stream, e.type, e.schema, e.occurred_at, e.body"
_EVENTS = (
    "SELECT {fields} FROM trajlog.event e WHERE e.stream = ANY(%s) AND e.position <= %s ORDER BY e.stream, e.version"
)
_BEFORE = "SELECT {fields} FROM trajlog.event e WHERE e.stream = %s AND e.version < %s ORDER BY e.version"
_SEGMENTS = (
    "SELECT last_position, committed_at FROM trajlog.segment WHERE last_position >= %s ORDER BY last_position LIMIT %s"
)
_HOW_MANY = "SELECT coalesce(sum(version), 0) FROM trajlog.stream WHERE stream = ANY(%s)"
_STAMPS = f"SELECT {COMMITTED_AT} FROM unnest(%s::bigint[]) WITH ORDINALITY e (position, n) ORDER BY n"
_FETCH = 4_000
_FEW = 10_000
_STREAMS = 250
_numbers = count(1)


def _numbered(name: str) -> str:
    return f"{name}_{next(_numbers)}"


class Refolded(NamedTuple):
    """A stream's rows for one projection, as it gives them. Where its fold cannot take an event, `stopped` is
    that event and the error, and the rows are those of what came before."""

    rows: list[Row]
    stopped: tuple[StoredEvent, Exception] | None = None


def refold(
    connection: Connection, projections: Sequence[Projection], streams: str, values: Sequence[Any], until: int
) -> Iterator[tuple[str, list[Refolded]]]:
    """(stream, what each projection makes of it) for the streams that a query names, in order, as the
    first `until` events give them. In a transaction of the caller's."""
    with connection.cursor(_numbered("streams")) as cursor:
        cursor.execute(f"SELECT stream FROM ({streams}) s ORDER BY stream", values)
        while chosen := [stream for (stream,) in cursor.fetchmany(_STREAMS)]:
            yield from _refold(connection, projections, chosen, until)


def _refold(
    connection: Connection, projections: Sequence[Projection], streams: list[str], until: int
) -> Iterator[tuple[str, list[Refolded]]]:
    lean = all(getattr(p, "lean", False) for p in projections)
    (total,) = connection.execute(_HOW_MANY, (streams,)).fetchone() or (0,)
    events = _events(connection, _EVENTS, (streams, until), lean, few=total <= _FEW)
    for stream, its in groupby(events, key=attrgetter("stream")):
        folds = [_Fold(projection, stream) for projection in projections]
        takes = [fold.take for fold in folds if stream.startswith(fold.projection.prefix)]
        while some := list(islice(its, _FETCH)):
            for take in takes:
                take(some)
        yield stream, [fold.result(connection) for fold in folds]


class _Lean(msgspec.Struct, frozen=True, gc=False):
    """What most folds read of an event: half the price of a whole one."""

    position: int
    version: int
    stream: str
    type: str
    schema: int
    since_2000: int | None
    body: bytes
    committed_at: int

    @property
    def occurred_at(self) -> int | None:
        return None if self.since_2000 is None else self.since_2000 + IN_2000


def _lean(row: tuple[Any, ...], committed_at: int) -> _Lean:
    return _Lean(*(*row, committed_at))


def _events(
    connection: Connection, query: str, values: Sequence[Any], lean: bool, *, few: bool = False
) -> Iterator[StoredEvent]:
    """The events of a query, some at a time; `few` are read at once, which takes two thirds of the time."""
    with database.cursor(connection, "" if few else _numbered("refold")) as cursor:
        cursor.execute(query.format(fields=_LEAN if lean else FIELDS), values)
        while rows := cursor.fetchmany(_FETCH):
            stamps = _stamps(connection, [row[0] for row in rows])
            if lean:
                read: Any = map(_lean, rows, stamps)
                yield from read
            else:
                yield from map(event_of, rows, stamps)


def _stamps(connection: Connection, positions: list[int]) -> list[int]:
    """The commit times of events: from the segments they span, where those are no more than the events."""
    if not positions:
        return []
    last = max(positions)
    segments = connection.execute(_SEGMENTS, (min(positions), len(positions)), binary=True).fetchall()
    if segments and segments[-1][0] >= last:
        ends = [end for end, _ in segments]
        return [segments[bisect_left(ends, position)][1] for position in positions]
    return [stamp for (stamp,) in connection.execute(_STAMPS, (positions,), binary=True)]


class _Fold:
    """One projection's fold of one stream."""

    def __init__(self, projection: Projection, stream: str) -> None:
        self.projection = projection
        self._stream = stream
        self._state: Any = None
        self._events = 0
        self._stopped: tuple[StoredEvent, Exception] | None = None

    def take(self, events: Sequence[StoredEvent]) -> None:
        if self._stopped is not None:
            return
        apply = self.projection.apply
        event = events[0]
        state = self._state
        try:
            if not self._events:
                state = self.projection.initial(self._stream)
            for event in events:
                state = apply(state, event)
                self._events += 1
        except Exception as error:
            self._stopped = event, error
        self._state = state

    def result(self, connection: Connection) -> Refolded:
        if not self._events:
            return Refolded([], self._stopped)
        if self._stopped is not None:  # what raised may have changed half of the state
            again = _Fold(self.projection, self._stream)
            before = _events(connection, _BEFORE, (self._stream, self._stopped[0].version), lean=False)
            while some := list(islice(before, _FETCH)):
                again.take(some)
            return again.result(connection)._replace(stopped=self._stopped)
        name = name_of(self.projection, self._stream)
        try:
            rows = [tuple(row) for row in self.projection.rows(self._state, 0)]
        except Exception:
            return Refolded([])
        key = [column.name for column in self.projection.columns].index(self.projection.key[0])
        return Refolded(rows if all(row[key] == name for row in rows) else [])
