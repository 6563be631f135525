"""What a release is made of: logical rows of a view, the same on every machine that has the same events.

A row refers to events of its stream and holds no text. Rows are in canonical order: by log, stream,
version, row. `Facts` is what a recipe chooses by, a few values a row, so that a million rows can be
chosen from without holding them.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.database import Connection
    from eventlog.projection import AnyProjection


class Key(NamedTuple):
    """A row's name. `log_id` is 16 bytes, `version` that of the event that the row begins with (0 where
    it crosses streams), `row` counts the rows that begin there, from 0."""

    log_id: bytes
    stream: str
    version: int
    row: int


class Row(NamedTuple):
    """A logical row: `values` in the order of the view's schema, times nowhere.

    `sources` are the (stream, versions) of the events that it rests on: for lineage, no part of the row.
    """

    key: Key
    values: tuple[Any, ...]
    sources: tuple[tuple[str, tuple[int, ...]], ...]


class Facts(NamedTuple):
    """What a recipe chooses by.

    `source` is the format it was imported from, or live. `origin` says who acted: human, scripted or
    model; `generation` how many trainings on our own releases that model is away from its base, None if
    no model acted. `tokens` are those of the longest context. `supervised` counts what trains. `content` are
    16 bytes, equal where the conversations are; `plan` is the sequence of tools. `parent` is the stream it
    was forked from, `curated` what curation decided, `goal` where its goal is said: stream and version.
    """

    key: Key
    split: str
    task: str | None
    source: str
    origin: str
    generation: int | None
    policy: str | None
    environment: str | None
    judged_by: str | None
    reward: float | None
    steps: int
    tokens: int | None
    supervised: int
    content: bytes
    plan: tuple[str, ...]
    parent: str | None
    curated: str | None
    goal: tuple[str, int]

    @property
    def origin_label(self) -> str:
        """The origin, with the generation of a model that has one: model/1."""
        return f"{self.origin}/{self.generation}" if self.generation else self.origin


class RowView(Protocol):
    """A view that rows are released from. It is read on a connection of
    `eventlog.views.reading(log, view.projections, as_of=position)`: in canonical order, streaming."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def projections(self) -> "Sequence[AnyProjection]":
        """The folds that are read; the first is the view's own."""
        ...

    @property
    def reads(self) -> Mapping[str, int]:
        """The event types that the fold reads, each with the schema number it reads it as."""
        ...

    def schema(self) -> "pa.Schema":
        """The declared schema of `Row.values`; what may be null is said."""
        ...

    def rows(self, connection: "Connection", log_id: bytes, keys: Collection[Key] | None = None) -> Iterator[Row]:
        """All rows, or those of these keys."""
        ...

    def facts(self, connection: "Connection", log_id: bytes) -> Iterator[Facts]:
        """A row's facts for each of `rows`, in the same order."""
        ...

    def left_out(self, connection: "Connection") -> dict[str, int]:
        """Why episodes (or groups) are no row at all, and how many: by reason."""
        ...
