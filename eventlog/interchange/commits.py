"""Whole episodes, many to a commit; one commit is under way while those of the next are gathered."""

from collections.abc import Callable
from concurrent.futures import Executor, Future

from core.event import Event
from eventlog.interchange.keeper import Keeper
from eventlog.log import Appended, Log

EVENTS = 20_000
BYTES = 16_000_000


class Commits:
    """The commits of one import: `new` and `present` episodes, and appended `events`, so far.

    `opening` makes the event that goes before all others, in the first commit.
    """

    def __init__(self, log: Log, keeper: Keeper, executor: Executor, opening: Callable[[], Event]) -> None:
        self.new = self.present = self.events = 0
        self.begun = False
        self._log = log
        self._keeper = keeper
        self._executor = executor
        self._opening = opening
        self._waiting: list[Event] = []
        self._size = 0
        self._streams: set[str] = set()
        self._flying: set[str] = set()
        self._under_way: Future[list[Appended]] | None = None

    def __contains__(self, stream: str) -> bool:
        """Whether an episode waits for its commit, or is on its way."""
        return stream in self._streams or stream in self._flying

    def add(self, stream: str, events: list[Event]) -> None:
        """An episode, for the next commit."""
        size = size_of(events)
        if len(self._waiting) + len(events) > EVENTS or self._size + size > BYTES:
            self.flush()
        self._waiting += events
        self._streams.add(stream)
        self._size += size

    def flush(self) -> None:
        """Begin to commit what waits, once the commit before is through."""
        self.settle()
        if not self._waiting:
            return
        events = self._waiting if self.begun else [self._opening(), *self._waiting]
        self._under_way = self._executor.submit(_commit, self._log, events, self._keeper.begun())
        self._flying = self._streams
        self._waiting, self._streams, self._size = [], set(), 0

    def settle(self) -> None:
        """Wait for the commit under way, and count what it brought."""
        if self._under_way is None:
            return
        try:
            answers = self._under_way.result()
        finally:  # interrupted while it waits, it may be asked again
            if self._under_way.done():
                self._under_way, self._flying = None, set()
        for answer in answers if self.begun else answers[1:]:
            self.events += not answer.duplicate
            if answer.version == 1:
                self.new += not answer.duplicate
                self.present += answer.duplicate
        self.begun = True


def size_of(events: list[Event]) -> int:
    """Bytes of their payloads."""
    return sum([len(event.body) for event in events])


def _commit(log: Log, events: list[Event], blobs: list[Future[list[str]]]) -> list[Appended]:
    """Append the events as one commit, once the blobs that they name are durable."""
    for stored in blobs:
        stored.result()
    return log.append_many(events)
