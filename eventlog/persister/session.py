"""One membership of the group on one topic: fetch, pack, commit, until it is over.

Listeners only set flags: a new assignment is taken up between two batches, once what was packed is
committed, if it is still ours to commit. The next batch is fetched and packed while the database
takes the last. What is in memory is in Kafka still, and may be dropped at any moment.
"""

import gc
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from functools import partial

from core.errors import Corrupt, DuplicateEvent, TrajlogError, Unavailable
from eventlog.kafka.client import Client, OutOfRange
from eventlog.persister import doubts
from eventlog.persister.batch import Part
from eventlog.persister.decode import Fault
from eventlog.persister.intake import MIN_EVENTS, Intake
from eventlog.persister.metrics import Snapshot
from eventlog.persister.ownership import OtherTopic, Ownership
from eventlog.persister.sealing import Sealing
from eventlog.persister.source import Source, cursors
from eventlog.persister.store import NotStorable, Stopped, Store
from eventlog.persister.topic_check import Seen, TopicCheck
from eventlog.persister.transaction import Fenced, Hook, commit_parts
from eventlog.persister.voice import Voice

_POLL = 500
_STEP = 32
_WAIT_S = 0.1
_CHECK_EVERY_S = 1.0
_REPORT_EVERY_S = 1.0
_MISSING_S = 3.0
_SLOW_S = 1.0
_SLOW_AGAIN_S = 60.0
"""A broker that takes that long may have been away for a moment; one that always does is slow."""
DRAIN_S = 5.0
"""How long it may take to commit what is packed, once a session is to end."""

Answer = Future[Seen]


class Session:
    """Run it on one thread. `hook`: see `transaction.Hook`."""

    def __init__(
        self,
        *,
        client: Client,
        group: str,
        source: Source,
        store: Store,
        check: TopicCheck,
        stop: threading.Event,
        sealing: Sealing | None,
        metrics: Snapshot,
        voice: Voice,
        hook: Hook | None = None,
    ) -> None:
        self._source, self._store, self._check, self._stop = source, store, check, stop
        self._sealing, self._metrics, self._voice, self._hook = sealing, metrics, voice, hook
        self._consumer = client.consumer(group)
        self._intake = Intake(source.partitions)
        self._ownership = Ownership(store, self._consumer, source, self._intake, voice, metrics)
        self._generation = -1
        self._connections = store.connections
        self._paused = False
        self._reread = self._suspect = False
        self._drain_until: float | None = None
        self._careful = False
        self._answer: Answer | None = None
        self._answer_for_batch: Answer | None = None
        self._failure: Exception | None = None
        self._next_check = self._next_report = self._next_slow = 0.0

    def run(self) -> None:
        """Until `stop` is set: then what was packed is committed. `OtherTopic`, `Stopped`, what the store raises."""
        while not self._stop.is_set():
            if self._consumer.assigned()[0] != self._generation:
                self._reassign()
            elif self._suspect or self._connections != self._store.connections:
                self._suspect, self._connections = False, self._store.connections
                self._ownership.adopt(self._consumer.assigned()[1])
            self._ownership.take_up()
            if not self._intake.due:
                self._fetch()
            if self._intake.due:
                self._commit()
            self._between()
        self._commit(ahead=False)

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def rest(self, seconds: float) -> bool:
        """Wait, take nothing, and stay a member of the group; False once it is to end."""
        until = time.monotonic() + seconds
        if not self._paused:
            self._paused = True
            self._consumer.pause(self._held())
        while not self._over():
            left = until - time.monotonic()
            with suppress(OutOfRange, Unavailable):  # it will say so again
                self._poll(max(0.0, min(left, _WAIT_S)))
            if left <= 0:
                return True
            self._stop.wait(min(left, _WAIT_S / 10))
        return False

    def _held(self) -> list[int]:
        """What we hold and still have."""
        assigned = self._consumer.assigned()[1]
        return [partition for partition in self._intake.held if partition in assigned]

    def _over(self) -> bool:
        """Whether the session is to end, and the time to finish what it has is over too."""
        if not self._stop.is_set():
            return False
        now = time.monotonic()
        self._drain_until = self._drain_until or now + DRAIN_S
        return now > self._drain_until

    # -- fetching ----------------------------------------------------------------------------------

    def _fetch(self) -> None:
        """Fetch, and pack what came; waits a moment if there is nothing."""
        self._answer_for_batch = None  # what is packed now was fetched after that question
        if self._paused:
            self._paused = False
            self._consumer.resume(self._held())
        if not self._intake.waiting or self._reread:
            try:
                if self._reread:
                    self._intake.read_again(self._consumer.seek, self._held())
                    self._reread = False
                self._poll(self._intake.patience(), waited=True)
            except OutOfRange as error:
                self._commit(ahead=False)
                self._ownership.again(error.partition)
            except Unavailable as error:
                if not error.retryable:
                    raise
                self._voice.tell("kafka", str(error))
                self._stop.wait(_WAIT_S)
        while self._intake.take(_POLL):
            pass

    def _poll(self, timeout_s: float, *, waited: bool = False) -> None:
        """What comes in a poll that changed the assignment is dropped: it was fetched before our seek. After
        one that failed all is read again from where we are: what it had fetched may be gone with it."""
        sound, self._reread = not self._reread, True
        polled = self._consumer.poll(timeout_s, _POLL)
        if sound:
            self._reread = False
            if self._consumer.assigned()[0] == self._generation:
                self._intake.keep(polled, waited=waited)

    def _ahead(self) -> bool:
        """Do a little for the next batch while the database is busy; False when there is nothing to do."""
        if self._intake.full:
            if self._answer_for_batch is None:
                self._answer_for_batch = self._check.ask()
            return False
        self._answer_for_batch = None
        try:
            if not self._intake.waiting and not self._reread and self._consumer.assigned()[0] == self._generation:
                self._poll(0)
            return self._intake.take(_STEP)
        except Exception as error:  # nothing may break into the transaction; it is raised after it
            self._failure = self._failure or error
            return False

    # -- committing --------------------------------------------------------------------------------

    def _commit(self, *, ahead: bool = True) -> None:
        """Commit the batch, unless the topic is another one by now."""
        parts = self._intake.close()
        if not parts:
            return
        answer, self._answer_for_batch = self._answer_for_batch or self._check.ask(), None
        self._confirm(answer)
        if self._suspect:
            return
        self._persist(parts, ahead)
        failure, self._failure = self._failure, None
        if isinstance(failure, OutOfRange):
            self._ownership.again(failure.partition)
        elif failure is not None and not isinstance(failure, Unavailable):
            raise failure

    def _confirm(self, answer: Answer) -> None:
        """Go on only once the broker has said, after the batch was fetched, that the topic is the same.

        After a broker that was away, however short, everything in memory is suspect: it may have come
        back with less than it had.
        """
        missing_since: float | None = None
        while True:
            pause = _WAIT_S
            try:
                seen = answer.result(_WAIT_S)
            except NotYet:
                pause = 0.0
            except Unavailable as error:
                if not error.retryable:
                    raise
                self._voice.tell("kafka", str(error))
                self._suspect = True
                answer, pause = self._check.ask(), _CHECK_EVERY_S
            else:
                self._voice.over("kafka", "the broker answers again")
                if seen.seconds > _SLOW_S and time.monotonic() >= self._next_slow:
                    self._next_slow = time.monotonic() + _SLOW_AGAIN_S
                    self._suspect = True
                doubt = doubts.of_topic(self._source, self._source.topic, seen.topic)
                if doubt is None:
                    return
                # A broker that has just begun may not know of it yet.
                missing_since = missing_since or time.monotonic()
                if doubt.cause != "missing" or time.monotonic() - missing_since > _MISSING_S:
                    raise OtherTopic(str(doubt))
                answer = self._check.ask()
            if not self.rest(pause):
                raise Stopped

    def _persist(self, parts: Sequence[Part], ahead: bool = False) -> None:
        """Commit parts, whatever it takes: without duplicates, without what is another's, the one record
        that the database cannot hold in quarantine."""
        while parts:
            began = time.monotonic()
            work = partial(
                commit_parts,
                topic_id=self._source.topic_id,
                parts=parts,
                careful=self._careful,
                meanwhile=self._ahead if ahead else None,
                hook=self._hook,
            )
            try:
                done = self._store.run(work)
            except Fenced:
                parts = self._still_ours(parts)
            except DuplicateEvent:
                self._careful = True
            except NotStorable as error:
                for some in _narrowed(parts, error):
                    self._persist(some)
                return
            else:
                self._careful = done.duplicates > 0
                self._metrics.committed(done.events, done.duplicates, done.quarantined, time.monotonic() - began)
                if done.events >= MIN_EVENTS:
                    gc.collect()  # kafka-python leaves cycles with whole buffers in them
                return

    def _still_ours(self, parts: Sequence[Part]) -> list[Part]:
        """The parts that can be committed still. One whose commit went through, and only its answer was
        lost, stands; one whose partition another owns, or whose cursor was moved, is dropped."""
        now = self._store.run(partial(cursors, topic_id=self._source.topic_id))
        rest = []
        for part in parts:
            cursor = now.get(part.partition)
            reached = cursor.next_offset if cursor is not None and cursor.epoch == part.epoch else None
            if reached == part.expected:
                rest.append(part)
            elif reached != part.next_offset:
                self._metrics.fenced += 1
                self._ownership.fenced(part.partition)
        return rest

    # -- in between --------------------------------------------------------------------------------

    def _reassign(self) -> None:
        """Finish what is packed, and take up the new assignment."""
        self._commit(ahead=False)
        self._generation, partitions = self._consumer.assigned()
        self._answer_for_batch = None
        self._ownership.adopt(partitions)

    def _between(self) -> None:
        """Check the topic, seal, and report, each from time to time."""
        now = time.monotonic()
        if self._answer is not None and self._answer.done():
            answer, self._answer = self._answer, None
            self._confirm(answer)
        elif self._answer is None and now >= self._next_check:
            self._next_check = now + _CHECK_EVERY_S
            self._answer = self._check.ask()
        if self._sealing is not None:
            try:
                self._sealing.some(busy=self._intake.busy)
            except Corrupt as error:
                self._voice.tell("tree", str(error))
                self._sealing = None
            else:
                self._metrics.seal_lag = self._sealing.lag
        if now >= self._next_report:
            self._next_report = now + _REPORT_EVERY_S
            with suppress(Unavailable):
                self._report()

    def _report(self) -> None:
        held = self._intake.held
        ends = self._consumer.bounds(held) if held else {}
        now = self._store.run(partial(cursors, topic_id=self._source.topic_id))
        reached = {p: each.next_offset for p, each in now.items() if p in held}
        self._metrics.lag = {p: max(0, ends[p].end - offset) for p, offset in reached.items()}
        self._consumer.report(reached)


def _narrowed(parts: Sequence[Part], error: NotStorable) -> list[list[Part]]:
    """The same records in smaller commits, down to the one record that cannot be stored: quarantined."""
    if len(parts) > 1:
        return [[part] for part in parts]
    (part,) = parts
    if len(part) > 1:
        return [[half] for half in part.halves()]
    if not part.records:
        raise TrajlogError(f"a record cannot even be quarantined: {error}", where=f"partition {part.partition}")
    return [[part.without_events(Fault("not_storable", str(error)))]]
