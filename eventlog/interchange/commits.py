"""Whole episodes, many to a commit; one commit is under way while those of the next are gathered."""

from collections.abc import Callable
from concurrent.futures import Executor, Future

from core.event import Event
from core.vocabulary.episode import ImportStarted
from eventlog.interchange.keeper import Keeper
from eventlog.interchange.mapped import Episode
from eventlog.ledger import Ledger
from eventlog.log import Appended, Log
from eventlog.pack import Packed, Stretch, pack

EVENTS = 5_000
BYTES = 16_000_000
"""Of the rows."""


class Commits:
    """The commits of one import: `new` and `present` episodes, and appended `events`, so far.

    `opening` makes the event that goes before all others, in the first commit.
    """

    def __init__(self, log: Log, keeper: Keeper, executor: Executor, opening: Callable[[], Event]) -> None:
        self.new = self.present = self.events = 0
        self.begun = self.failed = False
        self._log = log
        self._keeper = keeper
        self._executor = executor
        self._opening = opening
        self._waiting: list[Stretch] = []
        self._events: list[Event] = []
        self._count = self._size = 0
        self._streams: set[str] = set()
        self._flying: set[str] = set()
        self._under_way: Future[list[Appended]] | None = None

    def __contains__(self, stream: str) -> bool:
        """Whether an episode waits for its commit, or is on its way."""
        return stream in self._streams or stream in self._flying

    def add(self, episode: Episode, packed: Packed) -> None:
        """An episode, for the next commit."""
        count, size = episode.last - episode.first, packed.place(episode.last) - packed.place(episode.first)
        if self._count + count > EVENTS or self._size + size > BYTES:
            self.flush()
        before = self._waiting[-1] if self._waiting else None
        if before is not None and before.packed is packed and before.last == episode.first:
            self._waiting[-1] = Stretch(packed, before.first, episode.last)
        else:
            self._waiting.append(Stretch(packed, episode.first, episode.last))
        self._events += episode.events
        self._streams.add(episode.stream)
        self._count += count
        self._size += size

    def flush(self) -> None:
        """Begin to commit what waits, once the commit before is through."""
        self.settle()
        if not self._waiting:
            return
        if not self.begun:
            opening = self._opening()
            self._waiting.insert(0, Stretch(pack([opening]), 0, 1))
            self._events.insert(0, opening)
        waiting, blobs = (self._waiting, self._events), self._keeper.begun()
        self._under_way = self._executor.submit(_commit, self._log, *waiting, blobs)
        self._flying = self._streams
        self._waiting, self._events, self._streams, self._count, self._size = [], [], set(), 0, 0

    def settle(self) -> None:
        """Wait for the commit under way, and count what it brought."""
        if self._under_way is None:
            return
        try:
            answers = self._under_way.result()
        except Exception:
            self.failed = True
            raise
        finally:  # interrupted while it waits, it may be asked again
            if self._under_way.done():
                self._under_way, self._flying = None, set()
        for answer in answers if self.begun else answers[1:]:
            self.events += not answer.duplicate
            if answer.version == 1:
                self.new += not answer.duplicate
                self.present += answer.duplicate
        self.begun = True


def _commit(log: Log, packed: list[Stretch], events: list[Event], blobs: list[Future[None]]) -> list[Appended]:
    """Append what waits, once the blobs that it names are durable: as one commit where the log has such.
    Where it has not, the import's beginning is there before all else."""
    for stored in blobs:
        stored.result()
    if isinstance(log, Ledger):
        return log.commit(Packed.joined(packed))
    if log.direct or events[0].type != ImportStarted.__name__:
        return log.append_many(events)
    return [log.append(events[0]), *log.append_many(events[1:])]
