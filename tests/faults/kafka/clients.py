"""Clients: they send events, and remember what the broker confirmed."""

import itertools
import json
import threading
import time
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from msgspec.structs import replace

from core.codec import encode
from core.digest import event_digest
from core.errors import TrajlogError
from core.event import Event
from core.identity import uuid7
from eventlog.kafka.client import Client
from eventlog.kafka.client import Sent as Place
from eventlog.testing import an_event
from tests.faults.kafka.oracle import NONE, Sent

_numbers = itertools.count(1)


class Book:
    """What all clients of a scenario handed over, and what of it was confirmed. `era` and `topic_id` are those
    of the topic as it is now."""

    def __init__(self, topic_id: bytes) -> None:
        self.topic_id = topic_id
        self.era = 0
        self.sent: list[Sent] = []
        self.unconfirmed: set[bytes] = set()
        self._orders: dict[tuple[str, str], list[bytes]] = {}

    def next_era(self, topic_id: bytes) -> None:
        self.era += 1
        self.topic_id = topic_id

    def hand_over(self, client: str, event: Event) -> None:
        self._orders.setdefault((client, event.stream), []).append(event.event_id)

    def confirm(self, event: Event, place: Place, reasons: frozenset[str] = NONE) -> None:
        self.sent.append(
            Sent(
                self.era,
                self.topic_id,
                place.partition,
                place.offset,
                event.event_id,
                event.stream,
                event_digest(event),
                event.expected_version,
                reasons,
            )
        )

    @property
    def orders(self) -> list[list[bytes]]:
        return [list(order) for order in self._orders.values()]


class Feeder:
    """A client with a producer of its own. `name` is the writer of its events."""

    def __init__(self, book: Book, client: Client, name: str) -> None:
        self.name = f"{name}-{next(_numbers)}"
        self.book = book
        self._sender = client.sender()
        self._run = uuid7()
        self._seqs: dict[str, int] = {}
        self._lock = threading.Lock()
        self._open = 0
        self._errors: list[TrajlogError] = []

    def event(self, stream: str, **fields: Any) -> Event:
        """Its next event in a stream."""
        self._seqs[stream] = seq = self._seqs.get(stream, 0) + 1
        body = json.dumps({"text": f"{self.name} {seq} " + "x" * (seq % 7 * 40)}).encode()
        return an_event(stream, **{"writer": self.name, "run": self._run, "seq": seq, "body": body} | fields)

    def send(self, events: Sequence[Event], reasons: frozenset[str] = NONE, *, again: bool = False) -> None:
        """Hand events over; `again`: copies of what was handed over before."""
        for event in events:
            if not again:
                self.book.hand_over(self.name, event)
            with self._lock:
                self._open += 1
            self._sender.send(event.stream.encode(), encode(event), done=partial(self._done, event, reasons))

    def write(self, streams: Sequence[str], count: int, chance: Random) -> list[Event]:
        """Hand over so many new events of these streams."""
        events = [self.event(chance.choice(streams)) for _ in range(count)]
        self.send(events)
        return events

    def flush(self, seconds: float = 90) -> None:
        """Until all that was handed over is confirmed."""
        self._sender.flush(seconds)
        until = time.monotonic() + 5
        while self._open and time.monotonic() < until:
            time.sleep(0.005)
        assert not self._errors, f"Kafka did not confirm: {self._errors[0]}"
        assert not self._open, f"Kafka left {self._open} records without an answer"

    def close(self) -> None:
        self._sender.close(1)

    def _done(self, event: Event, reasons: frozenset[str], answer: Place | TrajlogError) -> None:
        if isinstance(answer, TrajlogError):
            self._errors.append(answer)
        else:
            self.book.confirm(event, answer, reasons)
        with self._lock:
            self._open -= 1


class Flow:
    """Clients at work in the background: each sends its share in bursts, then one event now and then."""

    def __init__(self, feeders: Sequence[Feeder], streams: Sequence[str], events: int, chance: Random) -> None:
        self._stop = threading.Event()
        self.errors: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run, args=(each, streams, events, Random(chance.random())), daemon=True)
            for each in feeders
        ]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive(), "a client is stuck"
        if self.errors:
            raise self.errors[0]

    def _run(self, feeder: Feeder, streams: Sequence[str], events: int, chance: Random) -> None:
        try:
            done = 0
            while not self._stop.wait(chance.random() * (0.04 if done < events else 0.2)):
                done += len(feeder.write(streams, chance.choice((1, 3, 10, 40)) if done < events else 1, chance))
            feeder.flush()
        except BaseException as error:
            self.errors.append(error)


def other_content(event: Event) -> Event:
    """Another event under the same id."""
    return replace(event, body=b'{"text":"another"}')
