"""Taking up the partitions that the group gave us, or refusing one, loudly, that is not what it was.

On every assignment: a new epoch, which fences off whoever had it; the offsets that Kafka holds; the
last record taken, read again and compared; and only then the seek from which records count.
"""

import time
from collections.abc import Iterable
from functools import partial

from core.errors import Unavailable
from eventlog.kafka.client import Bounds, Consumer, OutOfRange
from eventlog.persister import doubts
from eventlog.persister.doubts import Doubt
from eventlog.persister.intake import Held, Intake
from eventlog.persister.metrics import Snapshot
from eventlog.persister.source import Cursor, Source, own
from eventlog.persister.store import Store
from eventlog.persister.voice import Voice

LOOK_AGAIN_S = 2.0
_AFTER_FENCE_S = 0.5


class OtherTopic(Exception):
    """The broker's topic, or the log's, is not the one that this session is about."""


class Ownership:
    """Which of the assigned partitions are taken, and which are refused for now."""

    def __init__(
        self, store: Store, consumer: Consumer, source: Source, intake: Intake, voice: Voice, metrics: Snapshot
    ) -> None:
        self.refused: dict[int, Doubt] = {}
        self._store = store
        self._consumer = consumer
        self._source = source
        self._intake = intake
        self._voice = voice
        self._metrics = metrics
        self._wanted: dict[int, float] = {}

    def adopt(self, partitions: Iterable[int]) -> None:
        """These are ours now, and no others."""
        self._intake.clear()
        self.refused.clear()
        self._wanted = dict.fromkeys(partitions, 0.0)
        self.take_up()

    def again(self, partition: int, after_s: float = 0.0) -> None:
        """Take a partition up anew: another owns it, or Kafka does not hold what we asked for."""
        self._intake.lose(partition)
        if partition not in self._consumer.assigned()[1]:
            return
        self._consumer.pause([partition])
        self._wanted[partition] = time.monotonic() + after_s

    def fenced(self, partition: int) -> None:
        """Another worker owns it. The group will say so soon; if it does not, take it back."""
        self.again(partition, _AFTER_FENCE_S)

    def take_up(self) -> None:
        """Take up what is wanted by now."""
        now = time.monotonic()
        partitions = sorted(p for p, at in self._wanted.items() if at <= now)
        if not partitions:
            return
        generation, _ = self._consumer.assigned()
        cursors = self._store.run(partial(own, topic_id=self._source.topic_id, partitions=partitions))
        if self._consumer.assigned()[0] != generation:
            return  # while the database was waited for: what is ours now is taken up next
        if len(cursors) < len(partitions):
            raise OtherTopic("the log is fed by another topic now, or this one has more partitions")
        try:
            bounds = self._consumer.bounds(cursors)
            for partition, cursor in cursors.items():
                self._take_up(cursor, self._doubt(cursor, bounds[partition]))
        except Unavailable as error:
            self._voice.tell("kafka", str(error))
            for partition in partitions:
                if partition not in self._intake.held:
                    self._wanted[partition] = now + LOOK_AGAIN_S
        else:
            self._voice.over("kafka", "the broker answers again")
        self._metrics.refused_partitions = sorted(self.refused)

    def _take_up(self, cursor: Cursor, doubt: Doubt | None) -> None:
        partition = cursor.partition
        if doubt is not None:
            first = partition not in self.refused
            self.refused[partition] = doubt
            self._consumer.pause([partition])
            self._wanted[partition] = time.monotonic() + LOOK_AGAIN_S
            if doubt.cause != "truncated" or not first:  # a leader that has just begun may not know its end yet
                self._voice.tell(("partition", partition), f"refused: {doubt}")
            return
        self._consumer.seek(partition, cursor.next_offset)
        self._consumer.resume([partition])
        self._intake.begin(Held(partition, cursor.epoch, cursor.next_offset))
        self._wanted.pop(partition, None)
        self.refused.pop(partition, None)
        self._voice.over(("partition", partition), f"partition {partition} is taken again")

    def _doubt(self, cursor: Cursor, bounds: Bounds) -> Doubt | None:
        found = doubts.of_partition(cursor, bounds)
        if found is not None or cursor.last_offset is None or cursor.last_offset < bounds.start:
            return found
        try:
            return doubts.of_record(cursor, self._consumer.record(cursor.partition, cursor.last_offset))
        except OutOfRange:
            return doubts.of_partition(cursor, bounds._replace(end=min(bounds.end, cursor.last_offset)))
