"""The log behind Kafka: events go in through a topic, and are read from the ledger they end in.

Each event goes alone. Those of one stream keep their order; between streams there is none, and a batch
is not all or nothing: what the persister refuses of it is named. Reading needs no broker.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import msgspec

from core.errors import TrajlogError
from core.event import Event, StoredEvent
from core.identity import uuid_text
from eventlog.answers import Answer, settled
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import Client, Sent, Topic
from eventlog.kafka.flights import Flight, Flights
from eventlog.kafka.outgoing import outgoing, repeated
from eventlog.kafka.producer import Producer
from eventlog.kafka.watch import PATIENCE_S, Watch
from eventlog.ledger import Ledger
from eventlog.log import Accepted, Appended, Head, Wait
from eventlog.reader import Reader

if TYPE_CHECKING:
    from eventlog.recorder import Recorder

BATCH_EVENTS = 10_000
BATCH_BYTES = 16_000_000
_REMEMBERED = 20_000
_KNOWN = "SELECT uuid_send(event_id) FROM trajlog.event WHERE event_id = ANY(%s::uuid[])"


class KafkaLog:
    """A `Log` whose events go through the topic at `address` into `ledger`; closing it closes both.

    Any threads may share it. `patience_s`: how long an append waits for a persister that does nothing.
    """

    direct = False

    def __init__(
        self, ledger: Ledger, address: KafkaAddress, *, client: Client | None = None, patience_s: float = PATIENCE_S
    ) -> None:
        self.ledger = ledger
        self.address = address
        self._producer = Producer(address, client)
        self._sent = _SentBefore()
        self._flights = Flights(address, self._producer.renew)
        self._watch = Watch(ledger.reader, address, partial(self._producer.topic, anew=True), patience_s)

    # -- writing ---------------------------------------------------------------------------------

    @overload
    def append(self, event: Event, *, wait: Literal["persisted"] = ...) -> Appended: ...
    @overload
    def append(self, event: Event, *, wait: Wait) -> Appended | Accepted: ...
    def append(self, event: Event, *, wait: Wait = "persisted") -> Appended | Accepted:
        return settled(self.begin([event], wait=wait).result())[0]

    @overload
    def append_many(self, events: Sequence[Event], *, wait: Literal["persisted"] = ...) -> list[Appended]: ...
    @overload
    def append_many(self, events: Sequence[Event], *, wait: Wait) -> Sequence[Appended | Accepted]: ...
    def append_many(self, events: Sequence[Event], *, wait: Wait = "persisted") -> Sequence[Appended | Accepted]:
        return settled(self.begin(events, wait=wait).result())

    @overload
    def append_all(
        self, events: Iterable[Event], *, batch: int = ..., wait: Literal["persisted"] = ...
    ) -> Iterator[list[Appended]]: ...
    @overload
    def append_all(
        self, events: Iterable[Event], *, batch: int = ..., wait: Wait
    ) -> Iterator[Sequence[Appended | Accepted]]: ...
    def append_all(
        self, events: Iterable[Event], *, batch: int = BATCH_EVENTS, wait: Wait = "persisted"
    ) -> Iterator[Sequence[Appended | Accepted]]:
        batches = _batches(events, batch)
        before: Future[list[Answer]] | None = None
        while True:
            begun, failure = None, None
            try:
                some = next(batches, None)
                begun = None if some is None else self.begin(some, wait=wait)
            except Exception as error:  # of the events' source too: what is under way is answered first
                failure = error
            if before is not None:
                yield settled(before.result())
            if failure is not None:
                raise failure
            if begun is None:
                return
            before = begun

    def begin(self, events: Sequence[Event], *, wait: Wait) -> Future[list[Answer]]:
        """Send events in order, once the door has let all of them through; the future answers each.

        Blocks while the client's buffer is full. `BadEvent`, `BatchTooLarge`, `EventIdTaken` come before
        any is sent. What could not be sent is answered like what was not delivered.
        """
        batch = outgoing(events, self._known)
        flight = self._flights.add(len(batch.events))
        send, watch = self._producer.send, self._watch
        failure: TrajlogError | None = None
        topic = None
        for place, (event, value) in enumerate(zip(batch.events, batch.values, strict=True)):
            if failure is None:
                try:
                    if wait == "persisted":
                        topic = topic or self._producer.topic()
                    send(event.stream.encode(), value, _Told(flight, place, event, watch, topic, self._sent))
                except TrajlogError as error:
                    failure = error  # the rest is not tried: each would wait as long again
            if failure is not None:
                flight.hear(place, failure)
        return repeated(flight.future, batch.places) if batch.places else flight.future

    def _known(self, ids: list[bytes]) -> set[bytes]:
        with self.reader.borrow() as connection:
            return {row[0] for row in connection.execute(_KNOWN, ([uuid_text(event_id) for event_id in ids],))}

    # -- reading: all of it from the ledger ------------------------------------------------------

    @property
    def log_id(self) -> bytes:
        return self.ledger.log_id

    @property
    def reader(self) -> Reader:
        return self.ledger.reader

    @property
    def blobs(self) -> str | Path | None:
        return self.ledger.blobs

    def read(
        self, stream: str, *, after: int = 0, until: int | None = None, as_of: int | None = None
    ) -> Iterator[StoredEvent]:
        return self.ledger.read(stream, after=after, until=until, as_of=as_of)

    def read_all(self, *, after: int = 0, until: int | None = None) -> Iterator[StoredEvent]:
        return self.ledger.read_all(after=after, until=until)

    def follow(
        self, *, after: int | None = None, stream: str | None = None, poll: float = 0.05
    ) -> Iterator[StoredEvent | None]:
        return self.ledger.follow(after=after, stream=stream, poll=poll)

    def head(self) -> Head:
        return self.ledger.head()

    def stream_head(self, stream: str) -> int:
        return self.ledger.stream_head(stream)

    def root(self, position: int | None = None) -> bytes:
        return self.ledger.root(position)

    def seal(self) -> int:
        return self.ledger.seal()

    def episode(self, **given: Any) -> "Recorder":
        from eventlog.recorder import record

        return record(self, **given)

    def close(self) -> None:
        """Wait for what was sent, as long as the client may take, and disconnect."""
        try:
            self._producer.close()
        finally:
            self._watch.close()
            self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _batches(events: Iterable[Event], most: int) -> Iterator[list[Event]]:
    """The events, at most `most` and about `BATCH_BYTES` at a time."""
    source = iter(events)
    while some := list(islice(source, 1)):
        size = len(some[0].body)
        while len(some) < most and size < BATCH_BYTES:
            event = next(source, None)
            if event is None:
                break
            some.append(event)
            size += len(event.body)
        yield some


class _SentBefore:
    """Where events that were sent lately lie. The ledger knows whether an earlier commit had an event already, but
    not which of two records in one commit brought it."""

    def __init__(self) -> None:
        self._places: dict[bytes, Sent] = {}

    def repeats(self, event_id: bytes, sent: Sent) -> bool:
        """Whether an earlier record, of those that this log sent, brought the event."""
        first = self._places.setdefault(event_id, sent)
        if len(self._places) > _REMEMBERED:
            self._places.clear()
        return first.partition == sent.partition and first.offset < sent.offset


class _Told(msgspec.Struct, frozen=True, gc=False):
    """Hears where an event lies, and answers it; one that waits for the ledger, once it is through `topic`."""

    flight: Flight
    place: int
    event: Event
    watch: Watch
    topic: Topic | None
    before: "_SentBefore"

    def __call__(self, sent: Sent | TrajlogError) -> None:
        event, flight, place = self.event, self.flight, self.place
        if isinstance(sent, TrajlogError):
            flight.hear(place, sent)
            return
        repeat = self.before.repeats(event.event_id, sent)
        if self.topic is None:
            flight.hear(place, Accepted(event.event_id, event.stream, sent.partition, sent.offset))
        else:
            flight.hear(place)
            self.watch.add(self.topic, event, sent, partial(flight.tell, place), repeat=repeat)
