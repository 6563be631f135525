"""The log as its users see it: append, read, follow, root. One contract, several stores.

Every implementation passes the suite in `eventlog/testing.py`; the in-memory one is its oracle.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, overload

import msgspec

from core.errors import TrajlogError, UsageError
from core.event import Event, StoredEvent

if TYPE_CHECKING:
    from pathlib import Path

    from eventlog.reader import Reader
    from eventlog.recorder import Recorder

MAX_BATCH_EVENTS = 50_000
MAX_BATCH_BYTES = 64_000_000


Wait = Literal["accepted", "persisted"]
"""What an append waits for: the event is safe (in Kafka, on all replicas), or in the ledger as well.
Where events go straight to the ledger both are one."""


class BatchTooLarge(TrajlogError):
    """More in one commit than the log takes; split it."""


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Where an event went. `duplicate`: it was there already, and this is where."""

    event_id: bytes
    stream: str
    version: int
    position: int
    duplicate: bool = False


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """Where Kafka keeps an event, on its way to the ledger: it has no version and no position yet."""

    event_id: bytes
    stream: str
    partition: int
    offset: int


class PartlyAppended(TrajlogError):
    """Some events of a batch were refused and others are in the log, as can be where a log is not
    `direct`. `answers`: of each event, in order, where it went or why it was refused."""

    def __init__(self, answers: "Sequence[Appended | TrajlogError]") -> None:
        refused = [answer for answer in answers if isinstance(answer, TrajlogError)]
        super().__init__(
            f"{len(refused):,} of {len(answers):,} events were refused, the others are in the log; first {refused[0]}"
        )
        self.answers = list(answers)


class Head(msgspec.Struct, frozen=True, gc=False):
    """The end of the log: the last position (0 when empty), its commit's time (µs) and seal."""

    position: int
    committed_at: int | None = None
    seal: bytes | None = None


class Log(Protocol):
    """An append-only log of streams. Positions are dense from 1; versions are dense in a stream."""

    @property
    def log_id(self) -> bytes:
        """16 bytes, born once with the log."""
        ...

    @property
    def direct(self) -> bool:
        """Whether events go straight to the ledger: then a batch is one segment, all or nothing."""
        ...

    @property
    def reader(self) -> "Reader | None":
        """Reads the database that the log ends in; None for one without a database."""
        ...

    @overload
    def append(self, event: Event, *, wait: Literal["persisted"] = ...) -> Appended: ...
    @overload
    def append(self, event: Event, *, wait: Wait) -> Appended | Accepted:
        """Append one event durably. `BadEvent`, `EventIdTaken`, `WrongExpectedVersion`; `Unavailable` where
        the log cannot be reached: what the event came to is then unknown, and the same event may be appended
        again. An event that was only waited for until it is `accepted` may be refused later."""
        ...

    @overload
    def append_many(self, events: Sequence[Event], *, wait: Literal["persisted"] = ...) -> list[Appended]: ...
    @overload
    def append_many(self, events: Sequence[Event], *, wait: Wait) -> Sequence[Appended | Accepted]:
        """Append all events, in order in each stream. What the door refuses (`BadEvent`, `BatchTooLarge`, an
        id for two contents) is refused before any is written. A `direct` log commits them in order as one
        segment, or none of them; any other may end in `PartlyAppended`."""
        ...

    @overload
    def append_all(
        self, events: Iterable[Event], *, batch: int = ..., wait: Literal["persisted"] = ...
    ) -> Iterator[list[Appended]]: ...
    @overload
    def append_all(
        self, events: Iterable[Event], *, batch: int = ..., wait: Wait
    ) -> Iterator[Sequence[Appended | Accepted]]:
        """Append any number of events in bounded memory, `batch` at a time as `append_many` does; the
        answers of each batch in turn. What was answered stands if a later one fails."""
        ...

    def read(
        self, stream: str, *, after: int = 0, until: int | None = None, as_of: int | None = None
    ) -> Iterator[StoredEvent]:
        """A stream's events with `after` < version ≤ `until`, of positions ≤ `as_of`, in order."""
        ...

    def read_all(self, *, after: int = 0, until: int | None = None) -> Iterator[StoredEvent]:
        """All events with `after` < position ≤ `until` (default: the head now), in order."""
        ...

    def follow(
        self, *, after: int | None = None, stream: str | None = None, poll: float = 0.05
    ) -> Iterator[StoredEvent | None]:
        """Events as they are committed, after a position (default: the head now); never ends.

        None is yielded whenever there is nothing new, so that a caller can stop or refresh.
        """
        ...

    def head(self) -> Head:
        """The last commit."""
        ...

    def stream_head(self, stream: str) -> int:
        """A stream's version, 0 when it is new."""
        ...

    def root(self, position: int | None = None) -> bytes:
        """Merkle root (32 bytes) over the first `position` events (default: all)."""
        ...

    def seal(self) -> int:
        """Build the full tiles that are due; returns the position up to which tiles stand."""
        ...

    @property
    def blobs(self) -> "str | Path | None":
        """Where large values recorded with this log go: a folder, an fsspec URL, or nowhere."""
        ...

    def episode(self, **given: Any) -> "Recorder":
        """Record an episode, as a context manager: see `eventlog.recorder.record`."""
        ...

    def close(self) -> None:
        """Release connections; the log stays."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


def reader_of(log: Log) -> "Reader":
    """The reader of the log's database. `UsageError` for a log that has none."""
    if log.reader is None:
        raise UsageError("a log in memory has no lists", where="--db", mend="use a PostgreSQL database")
    return log.reader
