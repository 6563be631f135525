"""Batches on their way to Kafka, and the end of the wait for those that it never answers.

Both clients promise an answer to every record within `delivery_timeout_ms`. kafka-python 3.0.12 breaks
that: once it has to ask for a new producer id and no broker answers, it expires nothing any more.
"""

import threading
import time
from collections.abc import Callable

from core.errors import TrajlogError
from eventlog import forks
from eventlog.answers import Answer, Answers
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import Undelivered
from eventlog.kafka.options import PRODUCER

_LOOK_S = 0.5
_SLACK_S = 5.0


class Flight(Answers):
    """The answers to a batch, and which of its events Kafka has answered for."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.heard = bytearray(count)
        self.since = time.monotonic()

    def hear(self, place: int, answer: Answer | None = None) -> None:
        """Kafka has answered for an event; so that is the `answer`, unless the event waits for the ledger."""
        self.heard[place] = 1
        if answer is not None:
            self.tell(place, answer)

    def unheard(self) -> bool:
        return 0 in self.heard

    def fail(self, error: TrajlogError) -> None:
        """Answer all that Kafka did not."""
        for place, heard in enumerate(self.heard):
            if not heard:
                self.hear(place, error)


class Flights:
    """All batches of a log that are on their way. `stuck` is called when the client left one unanswered."""

    def __init__(self, address: KafkaAddress, stuck: Callable[[], None]) -> None:
        self._stuck = stuck
        given = address.options.get("delivery_timeout_ms")
        self._limit_s = float(given or PRODUCER["delivery_timeout_ms"]) / 1000 + _SLACK_S
        self._where = address.place
        self._lock = threading.Lock()
        self._flying: set[Flight] = set()
        self._thread: threading.Thread | None = None
        forks.begin_anew(self)

    def add(self, count: int) -> Flight:
        """A batch of so many events sets off."""
        flight = Flight(count)
        if count:
            with self._lock:
                self._flying.add(flight)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="trajlog-flights", daemon=True)
                    self._thread.start()
            flight.future.add_done_callback(lambda _: self._landed(flight))
        return flight

    def forked(self) -> None:
        self._lock = threading.Lock()
        self._flying = set()
        self._thread = None

    def _landed(self, flight: Flight) -> None:
        with self._lock:
            self._flying.discard(flight)

    def _run(self) -> None:
        while True:
            time.sleep(_LOOK_S)
            with self._lock:
                if not self._flying:
                    self._thread = None
                    return
                limit = time.monotonic() - self._limit_s
                late = [each for each in self._flying if each.since < limit and each.unheard()]
            if late:
                self._stuck()
            for flight in late:
                flight.fail(
                    Undelivered(
                        f"not confirmed in {self._limit_s:g} s", where=self._where, mend="send the same event again"
                    )
                )
