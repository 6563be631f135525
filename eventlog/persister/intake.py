"""What was fetched and is not committed yet: a backlog of records, and the batch they are packed into.

Each partition that is ours has a position: where our own seek or its last record ended. Records
before it are dropped; a batch's part begins there.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from eventlog.kafka.client import Record
from eventlog.persister.batch import Batch, Part

MIN_EVENTS = 5_000
MAX_EVENTS = 10_000
MAX_BYTES = 16_000_000
LINGER_S = 0.05
LONGEST_S = 0.25
"""How long a batch waits for more, and how long it does while more is there to be had at once."""
FEW_PER_S = 200
"""Up to this rate a record is committed as it comes; above it, what comes in `LINGER_S` is one commit."""
_MANY = 500
_ON_ITS_WAY_S = 0.005
"""After a batch of `_MANY` the next records are on their way, even if there are none at this moment."""


class Held:
    """A partition that is ours: its epoch, and the offset that comes next."""

    __slots__ = ("epoch", "partition", "position")

    def __init__(self, partition: int, epoch: int, position: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self.position = position


class Intake:
    """Records of a topic of so many `partitions` on their way into a batch."""

    def __init__(self, partitions: int) -> None:
        self.held: dict[int, Held] = {}
        self._partitions = partitions
        self._backlog: deque[tuple[Held, list[Record]]] = deque()
        self._batch = Batch()
        self._closed_at = time.monotonic()
        self._per_s = 0.0
        self._last = 0
        self._drained = True

    def begin(self, held: Held) -> None:
        """Take this partition's records, from its position on."""
        self.lose(held.partition)
        self.held[held.partition] = held

    def lose(self, partition: int) -> None:
        """Forget a partition and all that was fetched of it."""
        self.held.pop(partition, None)
        self._batch.drop(partition)

    def clear(self) -> None:
        """Forget all."""
        self.held.clear()
        self._backlog.clear()
        self._batch = Batch()

    def read_again(self, seek: Callable[[int, int], None], partitions: Iterable[int]) -> None:
        """Forget the backlog, and have these partitions read from where the batch ends."""
        self._backlog.clear()
        for partition in partitions:
            seek(partition, self.held[partition].position)

    def keep(self, polled: Mapping[int, list[Record]], *, waited: bool = False) -> None:
        """Put what was fetched of our partitions into the backlog; the rest is dropped. `waited`: for more, if
        there was any."""
        self._drained = waited and not polled
        for partition, records in polled.items():
            held = self.held.get(partition)
            if held is not None and records:
                self._backlog.append((held, records))

    def take(self, most: int) -> bool:
        """Pack up to so many records of the backlog; False when there is none, or no room."""
        if not self._backlog or self.full:
            return False
        held, records = self._backlog[0]
        most = min(most, MAX_EVENTS - self._batch.count)
        if len(records) > most:
            self._backlog[0] = held, records[most:]
            records = records[:most]
        else:
            self._backlog.popleft()
        if self.held.get(held.partition) is held:
            part = self._batch.parts.get(held.partition)
            if part is None:
                part = Part(held.partition, held.epoch, held.position, self._partitions)
            self._batch.add(part, records)
            held.position = part.next_offset
        return True

    @property
    def empty(self) -> bool:
        """Whether nothing waits for a commit."""
        return not self._batch.count

    @property
    def waiting(self) -> bool:
        """Whether there is a backlog."""
        return bool(self._backlog)

    @property
    def full(self) -> bool:
        return self._batch.count >= MAX_EVENTS or self._batch.size >= MAX_BYTES

    @property
    def busy(self) -> bool:
        """Whether records come faster than they are committed one by one."""
        return self._last >= MIN_EVENTS // 2 and (self._batch.count > 0 or self.waiting)

    @property
    def due(self) -> bool:
        """Whether the batch is to be committed now."""
        if self._batch.count >= MIN_EVENTS or self._batch.size >= MAX_BYTES:
            return True
        return not self.empty and self.due_in() == 0 and (self._drained or self._age() > LONGEST_S)

    def patience(self) -> float:
        """For how many seconds to wait for more: some, while more is to come."""
        if self.empty:
            return LONGEST_S
        return max(self.due_in(), _ON_ITS_WAY_S if self._last > _MANY else 0.0)

    def due_in(self) -> float:
        """For how many seconds the batch may wait for more."""
        return max(0.0, (LINGER_S if self._per_s > FEW_PER_S else 0.0) - self._age())

    def _age(self) -> float:
        return time.monotonic() - self._batch.since

    def close(self) -> list[Part]:
        """The batch's parts, in order of partition; a new one begins."""
        batch, self._batch = self._batch, Batch()
        now = time.monotonic()
        self._per_s = batch.count / max(now - self._closed_at, 1e-3)
        self._closed_at = now
        self._last = batch.count
        return batch.ordered()
