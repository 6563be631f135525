"""Watches what the persister makes of accepted events, for those who wait for it.

One thread asks the ledger every few milliseconds while anybody waits: how far each partition was taken,
and, of the events before that, where they went or why they are in quarantine.
"""

import threading
import time
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count

from msgspec.structs import replace

from core.errors import TrajlogError, Unavailable
from core.event import Event
from eventlog import forks
from eventlog.database import Connection
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import Sent, Topic
from eventlog.kafka.fates import Place, cursors, fates
from eventlog.log import Appended
from eventlog.reader import Reader

PATIENCE_S = 30.0
"""How long a partition may stand still before those who wait for it give up."""

_SOON_S = 0.002
_AT_MOST_S = 0.02
_IDLE_S = 1.0
_AT_ONCE = 5_000

Told = Callable[[Appended | TrajlogError], None]


class _Entry:
    """An accepted event that somebody waits for."""

    __slots__ = ("event", "repeat", "since", "told", "topic", "where")

    def __init__(self, topic: Topic, event: Event, where: Sent, told: Told, repeat: bool) -> None:
        self.topic = topic
        self.event = event
        self.where = where
        self.told = told
        self.repeat = repeat
        self.since = time.monotonic()


class Watch:
    """Tells the fates of events. Any threads may share it."""

    def __init__(
        self, reader: Reader, address: KafkaAddress, topic_now: Callable[[], Topic], patience_s: float = PATIENCE_S
    ) -> None:
        self._reader = reader
        self._address = address
        self._topic_now = topic_now
        self._patience_s = patience_s
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._waiting: dict[tuple[bytes, int], list[tuple[int, int, _Entry]]] = {}
        self._moved: dict[tuple[bytes, int], tuple[int, float]] = {}
        self._numbers = count()
        forks.begin_anew(self)

    def add(self, topic: Topic, event: Event, where: Sent, told: Told, *, repeat: bool = False) -> None:
        """Tell, on another thread, what becomes of an event that Kafka keeps at `where`; a `repeat` if it keeps
        it before that too."""
        entry = _Entry(topic, event, where, told, repeat)
        with self._changed:
            self._put([entry])
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="trajlog-watch", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Give up on what is still waited for."""
        for entry in self._take(lambda entry: True):
            entry.told(self._not_yet(entry, "the log was closed while it was waited for"))

    def forked(self) -> None:
        self._changed = threading.Condition()
        self._thread = None
        self._waiting, self._moved = {}, {}

    def _run(self) -> None:
        delay = _SOON_S
        while True:
            with self._changed:
                if not any(self._waiting.values()):
                    self._waiting.clear()
                    delay = _SOON_S
                    if not self._changed.wait(_IDLE_S) and not self._waiting:
                        self._thread = None
                        return
            told, trouble = False, None
            try:
                with self._reader.borrow() as connection:
                    told = self._look(connection)
            except Exception as error:  # whoever waits is told in the end, whatever it was
                trouble = error
            self._give_up(trouble)
            delay = _SOON_S * 2 if told else min(delay * 1.5, _AT_MOST_S)
            time.sleep(_AT_MOST_S * 10 if trouble else delay)

    def _look(self, connection: Connection) -> bool:
        """Tell the fates of events that the persister has passed; whether there were any."""
        reached = cursors(connection)
        now = time.monotonic()
        for place, offset in reached.items():
            if self._moved.get(place, (-1, 0.0))[0] != offset:
                self._moved[place] = (offset, now)
        told = False
        while passed := self._passed(reached):
            told = True
            try:
                found = fates(connection, [(Place(entry.topic.id, *entry.where), entry.event) for entry in passed])
            except BaseException:
                self._put(passed)  # they are asked for again
                raise
            for entry, fate in zip(passed, found, strict=True):
                if entry.repeat and isinstance(fate, Appended):
                    fate = replace(fate, duplicate=True)
                entry.told(fate or self._gone(entry))
        return told

    def _put(self, entries: Sequence[_Entry]) -> None:
        with self._changed:
            for entry in entries:
                heap = self._waiting.setdefault((entry.topic.id, entry.where.partition), [])
                heappush(heap, (entry.where.offset, next(self._numbers), entry))

    def _passed(self, reached: dict[tuple[bytes, int], int]) -> list[_Entry]:
        """Take out those that lie before the cursors, some at a time."""
        passed: list[_Entry] = []
        with self._changed:
            for place, heap in self._waiting.items():
                while heap and heap[0][0] < reached.get(place, 0) and len(passed) < _AT_ONCE:
                    passed.append(heappop(heap)[2])
        return passed

    def _give_up(self, trouble: Exception | None) -> None:
        """Tell those whose partition has stood still for too long."""
        late = time.monotonic() - self._patience_s

        def stands_still(entry: _Entry) -> bool:
            _, moved = self._moved.get((entry.topic.id, entry.where.partition), (0, 0.0))
            return max(moved, entry.since) < late

        still = self._take(stands_still)
        lost = {
            topic.id for topic in {entry.topic.id: entry.topic for entry in still}.values() if self._made_again(topic)
        }
        for entry in still:
            why = f"no persister has taken anything of its partition for {self._patience_s:g} s"
            entry.told(self._lost(entry) if entry.topic.id in lost else self._not_yet(entry, str(trouble or why)))

    def _take(self, chosen: Callable[[_Entry], bool]) -> list[_Entry]:
        taken: list[_Entry] = []
        with self._changed:
            for place, heap in self._waiting.items():
                gone = [item for item in heap if chosen(item[2])]
                if gone:
                    taken += [entry for _, _, entry in sorted(gone)]
                    kept = [item for item in heap if not chosen(item[2])]
                    heapify(kept)
                    self._waiting[place] = kept
        return taken

    def _not_yet(self, entry: _Entry, why: str) -> Unavailable:
        return Unavailable(
            f"accepted at {_place(entry)}, but not persisted yet: {why}",
            where=self._address.place,
            mend="nothing is lost; see that trajlog persist runs",
        )

    def _gone(self, entry: _Entry) -> TrajlogError:
        """The persister has passed the place, and the event is nowhere."""
        if self._made_again(entry.topic):
            return self._lost(entry)
        return TrajlogError(
            f"accepted at {_place(entry)}, and neither in the ledger nor in quarantine",
            where=self._address.place,
            mend="is it the ledger of this topic? See trajlog status",
        )

    def _lost(self, entry: _Entry) -> Unavailable:
        return Unavailable(
            f"the topic was deleted and made again: what was accepted at {_place(entry)} may be lost",
            where=self._address.place,
            mend="append it again once trajlog persist takes the new topic",
        )

    def _made_again(self, topic: Topic) -> bool:
        try:
            return self._topic_now().id != topic.id
        except TrajlogError:
            return False


def _place(entry: _Entry) -> str:
    return f"partition {entry.where.partition}, offset {entry.where.offset}"
