"""What a projection is: a pure fold of each stream into rows of a table that can be thrown away.

A fold is given a stream's events in order and nothing else: no clock, no chance, no other stream.
Its state is kept as bytes next to the rows, so that a stream is continued where it was left. The
tables `trajlog_view.<name>__v<version>` are the runner's (`eventlog.projection.runner`), nobody else's.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from core.event import StoredEvent
from eventlog.database import Connection

SCHEMA = "trajlog_view"

Row = tuple[Any, ...]


class View(NamedTuple):
    """A projection by its name and version: enough to read its rows."""

    name: str
    version: int


class Column(NamedTuple):
    """A column of a projection's table. A fold gives `timestamptz` as µs since 1970."""

    name: str
    type: str = "text"


class Versioned(Protocol):
    """What a projection's table is named after."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...


class Projection(Versioned, Protocol):
    """A fold and its table. A change of what it yields is a new `version`.

    `prefix` says which streams it reads. `key` names the columns that identify a row, `indexes` are
    column lists. `apply` may change the state it is given and returns the state to go on with.
    """

    @property
    def prefix(self) -> str: ...

    @property
    def columns(self) -> Sequence[Column]: ...

    @property
    def key(self) -> Sequence[str]: ...

    @property
    def indexes(self) -> Sequence[str]: ...

    def initial(self, stream: str) -> Any:
        """The state of a stream before its first event."""
        ...

    def apply(self, state: Any, event: StoredEvent) -> Any:
        """The state after one more event. What it raises parks the stream."""
        ...

    def rows(self, state: Any, after: int) -> Iterable[Row]:
        """The rows that events of versions > `after` made or changed, in the order of `columns`."""
        ...

    def dump(self, state: Any) -> bytes:
        """The state as bytes."""
        ...

    def load(self, data: bytes) -> Any:
        """The state that `dump` was given."""
        ...


class Checkpoint(NamedTuple):
    """How far a projection is: the scanned `position`, and the log's `head` at the same moment.

    `made`: it has tables. `trusted`: the log's commit at that position is still the one that was
    folded. `parked`: how many streams stopped at an event that the fold could not take.
    """

    name: str
    version: int
    position: int
    head: int
    made: bool
    trusted: bool
    parked: int

    @property
    def lag(self) -> int:
        """Positions not folded yet."""
        return self.head - self.position

    def covers(self, position: int) -> bool:
        """Whether its rows may be read as of `position`."""
        return self.made and self.trusted and self.position >= position


_CHECKPOINTS = """
SELECT p.name, p.version, coalesce(p.position, 0), coalesce(h.position, 0), true,
       coalesce(p.position, 0) = 0 OR coalesce(p.seal = s.seal, false),
       (SELECT count(*) FROM trajlog.parked k WHERE k.name = p.name AND k.version = p.version)
FROM (SELECT max(last_position) AS position FROM trajlog.segment) h
LEFT JOIN trajlog.projection p ON true
LEFT JOIN LATERAL (
    SELECT seal FROM trajlog.segment WHERE last_position >= p.position ORDER BY last_position LIMIT 1
) s ON true
"""


def checkpoints(connection: Connection, projections: Iterable[Versioned]) -> list[Checkpoint]:
    """Where each projection stands, in one query; one that was never run stands at 0."""
    found = {}
    head = 0
    for row in connection.execute(_CHECKPOINTS):
        point = Checkpoint(*row)
        head = point.head
        found[point.name, point.version] = point
    return [
        found.get((p.name, p.version)) or Checkpoint(p.name, p.version, 0, head, False, True, 0) for p in projections
    ]


def table(projection: Versioned) -> str:
    """The projection's table, quoted."""
    return f'{SCHEMA}."{projection.name}__v{projection.version}"'


def state_table(projection: Versioned) -> str:
    """The table of the states of its streams, quoted."""
    return f'{SCHEMA}."{projection.name}__v{projection.version}__state"'


def fold(projection: Projection, events: Iterable[StoredEvent]) -> Iterator[Row]:
    """All rows of these events, folded in memory: what the table must hold."""
    states: dict[str, Any] = {}
    for event in events:
        if event.stream.startswith(projection.prefix):
            state = states.get(event.stream)
            states[event.stream] = projection.apply(projection.initial(event.stream) if state is None else state, event)
    for state in states.values():
        yield from projection.rows(state, 0)
