"""The log in memory: the oracle that every other store is compared with, and a log for tests."""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID, uuid4

from msgspec.structs import asdict

from core.digest import event_digest, segment_seal
from core.errors import EventIdTaken, NotFound, WrongExpectedVersion
from core.event import MAX_SEQ, Event, StoredEvent, check
from core.merkle import Frontier, leaf_hash
from eventlog.log import MAX_BATCH_BYTES, MAX_BATCH_EVENTS, Appended, BatchTooLarge, Head, Wait

if TYPE_CHECKING:
    from eventlog.recorder import Recorder


class InMemoryLog:
    """A `Log` that lives as long as its process."""

    direct = True
    reader = None

    def __init__(self) -> None:
        self._log_id = uuid4().bytes
        self.blobs = f"memory://trajlog/{self._log_id.hex()}"
        self._events: list[StoredEvent] = []
        self._streams: dict[str, list[StoredEvent]] = {}
        self._by_id: dict[bytes, StoredEvent] = {}
        self._head = Head(0)
        self._lock = threading.RLock()

    @property
    def log_id(self) -> bytes:
        return self._log_id

    def append(self, event: Event, *, wait: Wait = "persisted") -> Appended:
        return self.append_many([event])[0]

    def append_all(
        self, events: Iterable[Event], *, batch: int = 10_000, wait: Wait = "persisted"
    ) -> Iterator[list[Appended]]:
        source = iter(events)
        while some := list(islice(source, batch)):
            yield self.append_many(some)

    def append_many(self, events: Sequence[Event], *, wait: Wait = "persisted") -> list[Appended]:
        if len(events) > MAX_BATCH_EVENTS or sum(len(event.body) for event in events) > MAX_BATCH_BYTES:
            raise BatchTooLarge(f"{len(events):,} events in one commit are too many", mend="split it")
        for event in events:
            check(event)
        with self._lock:
            digests = [event_digest(event) for event in events]
            self._refuse_taken(events, digests)
            return self._commit(events, digests)

    def _refuse_taken(self, events: Sequence[Event], digests: Sequence[bytes]) -> None:
        """An id stands for one event: of those in the log, and of those in the batch."""
        first: dict[bytes, bytes] = {}
        for event, digest in zip(events, digests, strict=True):
            there = self._by_id.get(event.event_id)
            if there is None:
                same = first.setdefault(event.event_id, digest) == digest
            else:
                v7 = event.event_id[6] >> 4 == 7
                same = event.stream == there.stream and event.owner == there.owner
                same = same and (not v7 or digest == there.digest)
            if not same:
                raise EventIdTaken(
                    f"event id {UUID(bytes=event.event_id)} stands for another event",
                    where=event.stream,
                    mend="give each event an id of its own",
                )

    def _commit(self, events: Sequence[Event], digests: Sequence[bytes]) -> list[Appended]:
        fresh: dict[bytes, StoredEvent] = {}
        heads: dict[str, int] = {}
        answers = []
        stamp = max(time.time_ns() // 1000, (self._head.committed_at or 0) + 1)
        for event, digest in zip(events, digests, strict=True):
            there = self._by_id.get(event.event_id) or fresh.get(event.event_id)
            if there is not None:
                answers.append(Appended(event.event_id, there.stream, there.version, there.position, duplicate=True))
                continue
            head = heads.get(event.stream, len(self._streams.get(event.stream, ())))
            if event.expected_version is not None and event.expected_version != head:
                raise WrongExpectedVersion(event.stream, event.expected_version, head)
            heads[event.stream] = head + 1
            position = len(self._events) + len(fresh) + 1
            fields = asdict(event) | {"expected_version": None}
            stored = StoredEvent(**fields, version=head + 1, position=position, digest=digest, committed_at=stamp)
            fresh[event.event_id] = stored
            answers.append(Appended(event.event_id, event.stream, stored.version, position))
        if fresh:
            self._take(list(fresh.values()), stamp)
        return answers

    def _take(self, fresh: list[StoredEvent], stamp: int) -> None:
        for event in fresh:
            self._streams.setdefault(event.stream, []).append(event)
            self._by_id[event.event_id] = event
        self._events += fresh
        first, last = fresh[0].position, fresh[-1].position
        seal = segment_seal(previous=self._head.seal, first_position=first, last_position=last, committed_at=stamp)
        self._head = Head(last, stamp, seal)

    def read(
        self, stream: str, *, after: int = 0, until: int | None = None, as_of: int | None = None
    ) -> Iterator[StoredEvent]:
        last = MAX_SEQ if until is None else until
        horizon = MAX_SEQ if as_of is None else as_of
        events = list(self._streams.get(stream, ()))
        return (event for event in events if after < event.version <= last and event.position <= horizon)

    def read_all(self, *, after: int = 0, until: int | None = None) -> Iterator[StoredEvent]:
        head = self._head.position
        return iter(self._events[max(0, after) : head if until is None else max(0, until)])

    def follow(
        self, *, after: int | None = None, stream: str | None = None, poll: float = 0.05
    ) -> Iterator[StoredEvent | None]:
        return self._follow(self._head.position if after is None else after, stream, poll)

    def _follow(self, after: int, stream: str | None, poll: float) -> Iterator[StoredEvent | None]:
        while True:
            for event in self.read_all(after=after):
                after = event.position
                if stream is None or event.stream == stream:
                    yield event
            yield None
            time.sleep(poll)

    def head(self) -> Head:
        return self._head

    def stream_head(self, stream: str) -> int:
        return len(self._streams.get(stream, ()))

    def root(self, position: int | None = None) -> bytes:
        position = len(self._events) if position is None else position
        if not 0 <= position <= len(self._events):
            raise NotFound(f"position {position} is not in the log, which ends at {len(self._events)}")
        frontier = Frontier()
        for event in self._events[:position]:
            frontier.push(leaf_hash(event.version, event.digest))
        return frontier.root()

    def seal(self) -> int:
        return len(self._events) // 256 * 256

    def episode(self, **given: Any) -> "Recorder":
        from eventlog.recorder import record

        return record(self, **given)

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
