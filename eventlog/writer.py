"""A writer makes events: it numbers them 1, 2, 3… in each stream, within one run.

A run is a random id per process: a restarted writer cannot know its last number, so it begins a new
run. A gap in a run's numbers shows that something it wrote never arrived.
"""

import threading
from typing import Any

from core import vocabulary
from core.event import Event
from core.identity import uuid7


class Writer:
    """Makes events under one name and run. Threads may share it."""

    def __init__(self, name: str = "local", *, run: bytes | None = None) -> None:
        self.name = name
        self.run = run or uuid7()
        self._seqs: dict[str, int] = {}
        self._lock = threading.Lock()

    def event(self, stream: str, payload: vocabulary.Payload, **envelope: Any) -> Event:
        """The next event of this run in `stream`; `envelope` sets further fields of `Event`."""
        schema = envelope.pop("schema", payload.schema_number)
        return self.raw(stream, type(payload).__name__, vocabulary.body(payload), schema=schema, **envelope)

    def raw(self, stream: str, type: str, body: bytes, *, event_id: bytes | None = None, **envelope: Any) -> Event:
        """The same for a payload that is JSON already."""
        with self._lock:
            seq = self._seqs[stream] = self._seqs.get(stream, 0) + 1
        return Event(
            event_id=event_id or uuid7(),
            stream=stream,
            writer=self.name,
            run=self.run,
            seq=seq,
            type=type,
            body=body,
            **envelope,
        )

    def last_seq(self, stream: str) -> int:
        """The last number given in `stream`, 0 if none."""
        return self._seqs.get(stream, 0)

    def refused(self, event: Event) -> None:
        """Take the number of an event back that the log refused, if no later one was given: what was
        never accepted shall not look lost."""
        with self._lock:
            if self._seqs.get(event.stream) == event.seq:
                self._seqs[event.stream] = event.seq - 1
