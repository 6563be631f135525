"""The ledger and its oracle, driven side by side by random calls: they never differ."""

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from msgspec.structs import asdict, replace

from core.errors import TrajlogError
from core.event import Event, StoredEvent
from core.identity import uuid7, uuid8
from eventlog.inmemory import InMemoryLog
from eventlog.ledger import Ledger
from eventlog.log import Appended, Log
from eventlog.testing import an_event
from tests.databases import Database
from tests.examples import examples

T = TypeVar("T")

streams = st.sampled_from(["a", "b", "c", "d"])
expectations = st.none() | st.integers(0, 6)
bodies = st.sampled_from([b"{}", b'{"x":1}', b'{"x":"\\u0000"}'])
limits = st.none() | st.integers(0, 40)


def outcome(call: Callable[[], T]) -> T | tuple[type[TrajlogError], str]:
    """What a call gives, or the error that it ends with."""
    try:
        return call()
    except TrajlogError as error:
        return type(error), str(error)


def shape(event: StoredEvent) -> dict[str, Any]:
    """A stored event without its commit's time, which is each log's own."""
    return asdict(event) | {"committed_at": None}


class SideBySide(RuleBasedStateMachine):
    """`events` are those that were made so far, committed or not."""

    database: Database
    events = Bundle("events")

    def __init__(self) -> None:
        super().__init__()
        self.database.empty()
        self.ledger = Ledger(self.database.url)
        self.oracle = InMemoryLog()
        self.segments: list[int] = []

    def both(self, call: Callable[[Log], Any]) -> Any:
        ours, oracle = outcome(lambda: call(self.ledger)), outcome(lambda: call(self.oracle))
        assert ours == oracle
        return ours

    @initialize(target=events, event_id=st.sampled_from([uuid7(), uuid8(b"known")]))
    def first(self, event_id: bytes) -> Event:
        return an_event("a", event_id=event_id)

    @rule(target=events, stream=streams, body=bodies, seq=st.integers(1, 3), expected=expectations, v8=st.booleans())
    def make(self, stream: str, body: bytes, seq: int, expected: int | None, v8: bool) -> Event:
        event_id = uuid8(stream.encode(), body) if v8 else uuid7()
        return an_event(stream, event_id=event_id, body=body, seq=seq, expected_version=expected)

    @rule(target=events, event=events, stream=streams, body=bodies, expected=expectations)
    def forge(self, event: Event, stream: str, body: bytes, expected: int | None) -> Event:
        """An event under an id that was used before."""
        return replace(event, stream=stream, body=body, expected_version=expected)

    @rule(event=events)
    def append(self, event: Event) -> None:
        answer = self.both(lambda log: log.append(event))
        self.committed([answer] if isinstance(answer, Appended) else [])

    @rule(batch=st.lists(events, max_size=8), fresh=st.lists(st.tuples(streams, expectations), max_size=6))
    def append_many(self, batch: list[Event], fresh: list[tuple[str, int | None]]) -> None:
        made = [an_event(stream, expected_version=expected) for stream, expected in fresh]
        whole = [event for pair in zip(batch, made, strict=False) for event in pair]
        whole += batch[len(made) :] + made[len(batch) :]
        answers = self.both(lambda log: log.append_many(whole))
        self.committed(answers if isinstance(answers, list) else [])

    @rule(count=st.integers(1, 300), stream=streams)
    def append_bulk(self, count: int, stream: str) -> None:
        made = [an_event(stream) for _ in range(count)]
        self.committed(self.both(lambda log: log.append_many(made)))

    def committed(self, answers: list[Appended]) -> None:
        fresh = [answer.position for answer in answers if not answer.duplicate]
        if fresh:
            self.segments.append(max(fresh))

    @rule(stream=streams, after=st.integers(0, 40), until=limits, as_of=limits)
    def read(self, stream: str, after: int, until: int | None, as_of: int | None) -> None:
        self.both(lambda log: [shape(e) for e in log.read(stream, after=after, until=until, as_of=as_of)])

    @rule(after=st.integers(0, 40), until=limits)
    def read_all(self, after: int, until: int | None) -> None:
        self.both(lambda log: [shape(e) for e in log.read_all(after=after, until=until)])

    @rule(back=st.integers(-1, 300))
    def root(self, back: int) -> None:
        position = self.oracle.head().position - back
        self.both(lambda log: log.root(position))

    @rule()
    def seal(self) -> None:
        self.both(lambda log: log.seal())

    @rule()
    def reopen(self) -> None:
        self.ledger.close()
        self.ledger = Ledger(self.database.url)

    @invariant()
    def heads_agree(self) -> None:
        self.both(lambda log: (log.head().position, log.root(), [log.stream_head(s) for s in "abcd"]))

    def teardown(self) -> None:
        self.both(lambda log: [shape(event) for event in log.read_all()])
        stamps: dict[int, set[int]] = {}
        for event in self.ledger.read_all():
            segment = next(last for last in self.segments if last >= event.position)
            stamps.setdefault(segment, set()).add(event.committed_at)
        assert all(len(times) == 1 for times in stamps.values())
        in_order = [min(stamps[segment]) for segment in self.segments]
        assert in_order == sorted(set(in_order))
        self.ledger.close()


def test_the_ledger_and_the_oracle_never_differ(database: Database) -> None:
    machine = type("OnThisDatabase", (SideBySide,), {"database": database})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(12), stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
