"""What a projection is: a pure fold of each stream into rows of a table that can be thrown away.

A fold is given a stream's events in order and nothing else: no clock, no chance, no other stream.
Its state is kept as bytes next to the rows, so that a stream is continued where it was left. What
crosses streams is a second stage over those rows. The tables `trajlog_view.<name>__v<version>` are the
runner's (`eventlog.projection.runner`), nobody else's.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeGuard

from core.event import StoredEvent
from eventlog.database import Connection

SCHEMA = "trajlog_view"

Row = tuple[Any, ...]


class View(NamedTuple):
    """A projection by its name and version: enough to read its rows. `prefix` says of which streams
    they are, `sources` what they are made from where they cross streams."""

    name: str
    version: int
    prefix: str = ""
    sources: tuple["View", ...] = ()


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

    `prefix` says which streams it reads. `key` names the columns that identify a row: the first of them
    holds the stream's name without the prefix. `indexes` are column lists. `apply` may change the state
    it is given and returns the state to go on with. One whose rows can vanish says `gives_all = True`, and
    its `rows` gives all rows of the stream, whatever `after` is.
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


class Source(NamedTuple):
    """What a second stage reads: a first-stage projection, and its columns that hold the key."""

    view: View
    by: tuple[str, ...]


class SecondStage(Versioned, Protocol):
    """Rows that cross streams, made from the rows of first-stage projections, key by key.

    `query` reads the sources, each named in braces (`FROM {episode}`); its first columns are the `key`'s,
    under their names. `rows` gets what it yields for one key, in its order of columns, and returns that key's rows:
    the same whatever the order in which the streams came. A key that holds a null has none.
    """

    @property
    def reads(self) -> Sequence[Source]: ...

    @property
    def query(self) -> str: ...

    @property
    def columns(self) -> Sequence[Column]: ...

    @property
    def key(self) -> Sequence[str]: ...

    @property
    def indexes(self) -> Sequence[str]: ...

    def rows(self, key: Row, group: Sequence[Row]) -> Iterable[Row]:
        """The rows of a key, in the order of `columns`; `group` is never empty."""
        ...


AnyProjection = Projection | SecondStage


def is_second(projection: AnyProjection) -> TypeGuard[SecondStage]:
    """Whether it is made from other projections' rows."""
    return hasattr(projection, "reads")


def is_first(projection: AnyProjection) -> TypeGuard[Projection]:
    """Whether it is a fold of streams."""
    return not is_second(projection)


def is_projection(view: Versioned) -> TypeGuard[AnyProjection]:
    """Whether it is the fold itself, not only its name and version."""
    return hasattr(view, "columns")


def sources(projection: Versioned) -> Sequence[View]:
    """The projections that this one is made from."""
    if isinstance(projection, View):
        return projection.sources
    return [source.view for source in getattr(projection, "reads", ())]


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
SELECT p.name, p.version, coalesce(k.position, p.position, 0), coalesce(h.position, 0), true,
       coalesce(k.position, p.position, 0) = 0 OR coalesce(coalesce(k.seal, p.seal) = s.seal, false),
       (SELECT count(*) FROM trajlog.parked x WHERE x.name = p.name AND x.version = p.version)
FROM (SELECT max(last_position) AS position FROM trajlog.segment) h
LEFT JOIN trajlog.projection p ON true
LEFT JOIN LATERAL (
    SELECT position, seal FROM trajlog.shard k WHERE k.name = p.name AND k.version = p.version
    ORDER BY position LIMIT 1
) k ON true
LEFT JOIN LATERAL (
    SELECT seal FROM trajlog.segment WHERE last_position >= coalesce(k.position, p.position)
    ORDER BY last_position LIMIT 1
) s ON true
"""


def checkpoints(connection: Connection, projections: Iterable[Versioned]) -> list[Checkpoint]:
    """Where each projection stands, in one query: that of its shards which is least far. One that was
    never run stands at 0."""
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
    """The projection's table, quoted, for whoever writes it."""
    return f"{SCHEMA}.{relation(projection)}"


def relation(projection: Versioned) -> str:
    """The projection's rows for whoever reads them on a connection of `eventlog.views.reading`: as of a
    cut, where that is asked for."""
    return f'"{projection.name}__v{projection.version}"'


def beside_table(projection: AnyProjection) -> str:
    """The table beside the rows, quoted: the states of the streams, or which keys each stream gives."""
    return f'{SCHEMA}."{projection.name}__v{projection.version}__{"keys" if is_second(projection) else "state"}"'


def name_of(projection: Projection, stream: str) -> str:
    """The stream as the first column of the key has it."""
    return stream.removeprefix(projection.prefix)


def fold(projection: Projection, events: Iterable[StoredEvent]) -> Iterator[Row]:
    """All rows of these events, folded in memory: what the table must hold."""
    states: dict[str, Any] = {}
    for event in events:
        if event.stream.startswith(projection.prefix):
            state = states.get(event.stream)
            states[event.stream] = projection.apply(projection.initial(event.stream) if state is None else state, event)
    for state in states.values():
        yield from projection.rows(state, 0)
