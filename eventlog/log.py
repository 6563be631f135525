"""The log as its users see it: append, read, follow, root. One contract, several stores.

Every implementation passes the suite in `eventlog/testing.py`; the in-memory one is its oracle.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

import msgspec

from core.errors import TrajlogError
from core.event import Event, StoredEvent

if TYPE_CHECKING:
    from pathlib import Path

    from eventlog.recorder import Recorder

MAX_BATCH_EVENTS = 50_000
MAX_BATCH_BYTES = 64_000_000


class BatchTooLarge(TrajlogError):
    """More in one commit than the log takes; split it."""


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Where an event went. `duplicate`: it was there already, and this is where."""

    event_id: bytes
    stream: str
    version: int
    position: int
    duplicate: bool = False


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

    def append(self, event: Event) -> Appended:
        """Commit one event durably. `BadEvent`, `EventIdTaken`, `WrongExpectedVersion`."""
        ...

    def append_many(self, events: Sequence[Event]) -> list[Appended]:
        """Commit all events in order as one segment, or none of them. `BatchTooLarge` besides."""
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
