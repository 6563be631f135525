"""Searching the text of episodes: an index narrows the log down to blocks, whose events are looked at.

The newest come first, so that a search that is cut off has found what is likeliest wanted. A search
kept to few events, or for less than the index knows, looks at every event instead.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from eventlog.database import Connection
from eventlog.log import Log, reader_of
from eventlog.projection import relation
from eventlog.search.index import Range, catch_up, head, narrow
from eventlog.search.normal import Span
from eventlog.search.pattern import Pattern
from eventlog.search.texts import TYPES, Fetch, Part, step_of, texts
from eventlog.views import EPISODES, PREFIX
from eventlog.views.listing import Filters, where

__all__ = ["Hit", "Part", "Pattern", "Scope", "Search"]

FEW: Final = 20_000
"""Events that are looked at one by one rather than by way of the index."""

_FIRST_PLACES: Final = 512
_MOST_PLACES: Final = 8_192
_PAGE_BYTES: Final = 8_000_000

_PLACES = "SELECT e.position, octet_length(e.body) FROM event e WHERE {where} ORDER BY e.position DESC"
_EVENTS = (
    "SELECT position, stream, version, type, occurred_at, body FROM event WHERE position = ANY(%s) "
    "ORDER BY position DESC"
)
_SINCE = (
    "coalesce(e.occurred_at, (SELECT s.committed_at FROM trajlog.segment s WHERE s.last_position >= e.position "
    "ORDER BY s.last_position LIMIT 1)) >= %s"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Progress = Callable[[int, int], None]
"""Called with (events done, events in all)."""


class Hit(NamedTuple):
    """A line that matches. `occurred_at` is µs or None."""

    episode: str
    version: int
    step: int | None
    type: str
    part: Part
    position: int
    occurred_at: int | None
    line: str
    spans: list[Span]


class Scope(NamedTuple):
    """What is searched: episodes that pass the filters (one, if `episode` names it), of their events
    those since a time (µs; its commit's where the event has none), of these the given parts (none: all).
    `as_of` is the position that the connection reads as of, if it does."""

    filters: Filters = Filters()
    episode: str | None = None
    since: int | None = None
    parts: Sequence[Part] = ()
    as_of: int | None = None


class Search:
    """One search: `prepare`, then take its `pages`. The projections must be caught up. `progress` is
    called as either goes on."""

    def __init__(self, log: Log, connection: Connection, pattern: Pattern, scope: Scope, fetch: Fetch) -> None:
        self._log = log
        self._connection = connection
        self._pattern = pattern
        self._scope = scope
        self._fetch = fetch
        self._conditions, self._values = _conditions(scope)
        self._streams: list[str] | None = None
        self._ranges: list[Range] = []

    def prepare(self, progress: Progress = lambda done, total: None) -> None:
        """Find out where to look, and bring the index up to date if it is needed for that."""
        self._streams = self._few()
        if self._streams is not None:
            return
        if self._scope.as_of is None:
            self._ranges = self._narrowed(self._connection, head(self._connection), progress)
            return
        with reader_of(self._log).borrow() as other:  # the index is written, and is not as of a position
            self._ranges = self._narrowed(other, self._scope.as_of, progress)

    def _narrowed(self, connection: Connection, until: int, progress: Progress) -> list[Range]:
        """Where up to a position to look."""
        if not self._pattern.required:
            return _split(0, until)
        indexed = catch_up(self._log, connection, self._fetch, progress)
        ranges = _split(indexed, until)
        if indexed:
            found = narrow(connection, self._pattern.required, indexed)
            ranges += [(after, min(last, until)) for after, last in found if after < until]
        return ranges

    def pages(self, progress: Progress = lambda done, total: None) -> Iterator[list[Hit]]:
        """The lines that match, the newest event first, as they are found: some at a time, never none."""
        for positions in self._pages(progress):
            rows = self._connection.execute(_EVENTS, (positions,), binary=True).fetchall()
            found = [hit for row in rows for hit in self._look(row)]
            if found:
                yield found

    def _look(self, row: tuple[Any, ...]) -> Iterator[Hit]:
        position, stream, version, type_, occurred_at, body = row
        if not self._pattern.may_match(body):
            return
        for part, text in texts(type_, body, self._fetch):
            if self._scope.parts and part not in self._scope.parts:
                continue
            for line, spans in self._pattern.lines(text):
                yield Hit(
                    stream.removeprefix(PREFIX),
                    version,
                    step_of(body),
                    type_,
                    part,
                    position,
                    occurred_at,
                    line,
                    spans,
                )

    def _pages(self, progress: Progress) -> Iterator[list[int]]:
        """Positions to look at, the newest first, a page of bounded bytes at a time."""
        page: list[int] = []
        size = 0
        for place in self._places(progress):
            if page and (place is None or size + place[1] > _PAGE_BYTES):
                yield page
                page, size = [], 0
            if place is not None:
                page.append(place[0])
                size += place[1]

    def _places(self, progress: Progress) -> Iterator[tuple[int, int] | None]:
        """Each event's position and bytes; None where what was found is to be looked at."""
        if self._streams is not None:
            yield from self._select("e.stream = ANY(%s)", self._streams)
            yield None
            return
        total = sum(until - after for after, until in self._ranges)
        done = 0
        for some in _growing(self._ranges):
            positions = [position for after, until in some for position in range(until, after, -1)]
            yield from self._select("e.position = ANY(%s)", positions)
            yield None
            done += len(positions)
            progress(done, total)

    def _select(self, condition: str, value: list[Any]) -> list[tuple[int, int]]:
        query = _PLACES.format(where=" AND ".join([condition, *self._conditions]))
        return self._connection.execute(query, [value, *self._values]).fetchall()

    def _few(self) -> list[str] | None:
        """The streams to look at, where their events are few."""
        if self._scope.episode is not None:
            return [PREFIX + self._scope.episode]
        if self._scope.filters == Filters(retracted=self._scope.filters.retracted):
            return None
        conditions, values = where(self._scope.filters)
        chosen = f"FROM {relation(EPISODES)} WHERE {' AND '.join(conditions)}"
        (events,) = self._connection.execute(f"SELECT coalesce(sum(events), 0) {chosen}", values).fetchone() or (0,)
        if events > FEW:
            return None
        return [PREFIX + episode for (episode,) in self._connection.execute(f"SELECT episode {chosen}", values)]


def _conditions(scope: Scope) -> tuple[list[str], list[Any]]:
    """What every event that is looked at fulfils."""
    conditions = [f"e.stream >= '{PREFIX}'", f"e.stream < '{PREFIX[:-1]}0'"]
    values: list[Any] = []
    types = sorted({type_ for part in scope.parts for type_ in TYPES[part]})
    if types:
        conditions.append("e.type = ANY(%s)")
        values.append(types)
    if scope.since is not None:
        conditions.append(_SINCE)
        values.append(_EPOCH + timedelta(microseconds=scope.since))
    if scope.episode is not None:
        return conditions, values
    if scope.filters == Filters():
        of = "SELECT FROM {table} WHERE retracted AND episode = substr(e.stream, {first})"
        conditions.append(f"NOT EXISTS ({of.format(table=relation(EPISODES), first=len(PREFIX) + 1)})")
        return conditions, values
    chosen, more = where(scope.filters)
    if chosen:
        both = " AND ".join([f"episode = substr(e.stream, {len(PREFIX) + 1})", *chosen])
        conditions.append(f"EXISTS (SELECT FROM {relation(EPISODES)} WHERE {both})")
        values += more
    return conditions, values


def _split(after: int, until: int) -> list[Range]:
    """A range in pieces, the newest first."""
    return [(max(after, end - _FIRST_PLACES), end) for end in range(until, after, -_FIRST_PLACES)]


def _growing(ranges: list[Range]) -> Iterator[list[Range]]:
    """The ranges in batches, small at first: the first hits are to be seen at once."""
    batch: list[Range] = []
    places, limit = 0, _FIRST_PLACES
    for after, until in ranges:
        batch.append((after, until))
        places += until - after
        if places >= limit:
            yield batch
            batch, places, limit = [], 0, min(limit * 2, _MOST_PLACES)
    if batch:
        yield batch
