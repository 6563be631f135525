"""The contract of a log: what every implementation must hold, as tests that pytest can run.

    class TestMyLog(DirectLogContract):
        @pytest.fixture
        def log(self) -> Iterator[Log]: ...      # an empty log, closed afterwards

`LogContract` is what every log promises; a log that is `direct` promises `DirectLogContract`.
Nothing here is imported by the library itself.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import islice, pairwise
from typing import Any

from msgspec.structs import asdict, replace

from core.digest import event_digest
from core.errors import BadEvent, EventIdTaken, NotFound, TrajlogError, WrongExpectedVersion
from core.event import MAX_BODY_BYTES, MAX_SCHEMA, MAX_SEQ, MAX_TIME, MIN_TIME, Event, StoredEvent
from core.identity import uuid7, uuid8
from core.merkle import EMPTY_ROOT, TILE, leaf_hash
from eventlog.log import MAX_BATCH_EVENTS, Appended, BatchTooLarge, Head, Log

RUN = uuid7()


def an_event(stream: str = "episode/a", **fields: Any) -> Event:
    """An event that every log accepts; `fields` replaces what matters to a test."""
    given: dict[str, Any] = {
        "event_id": uuid7(),
        "stream": stream,
        "writer": "contract",
        "run": RUN,
        "seq": 1,
        "type": "NoteAdded",
        "body": b'{"text":"x"}',
    }
    return Event(**given | fields)


def rich_events() -> list[Event]:
    """Events at the edges of what the door lets in, each in a stream of its own."""
    return [
        an_event("s" * 512),
        an_event("é" * 256, writer="ü" * 256),
        an_event(
            "edge/full", occurred_at=0, actor="planner", causation_id=uuid7(), correlation_id="c", conversation="v"
        ),
        an_event("edge/year-1", occurred_at=MIN_TIME),
        an_event("edge/year-9999", occurred_at=MAX_TIME),
        an_event("edge/before-1970", occurred_at=-1),
        an_event("edge/numbers", seq=MAX_SEQ, schema=MAX_SCHEMA),
        an_event("edge/type", type="T" + "y" * 63),
        an_event("edge/empty", body=b"{}"),
        an_event("edge/nul", body=b'{"text":"a\\u0000b"}'),
        an_event("edge/verbatim", body=b'{"b" : 1.0,\n"a":1e2, "b":"\\u00e9\xc3\xa9"}'),
        an_event("edge/large", body=b'{"text":"' + b"x" * (MAX_BODY_BYTES - 11) + b'"}'),
        an_event("edge/deep", body=b'{"a":' * 127 + b"[]" + b"}" * 127),
        an_event("edge/tab\tnewline\n", actor="\x7f\u202e"),
    ]


def refused_events() -> list[Event]:
    """Events that no log accepts."""
    return [
        an_event(""),
        an_event("a\0b"),
        an_event("s" * 513),
        an_event("é" * 257),
        an_event("\ud800"),
        an_event(writer=""),
        an_event(actor="a\0"),
        an_event(correlation_id="c" * 513),
        an_event(type="not camel"),
        an_event(type="T" * 65),
        an_event(seq=0),
        an_event(seq=MAX_SEQ + 1),
        an_event(schema=0),
        an_event(occurred_at=MAX_TIME + 1),
        an_event(occurred_at=MIN_TIME - 1),
        an_event(expected_version=-1),
        an_event(event_id=b"short"),
        an_event(causation_id=b"short"),
        an_event(owner="o1", key_id="k1"),
        an_event(body=b""),
        an_event(body=b"[]"),
        an_event(body=b" {}"),
        an_event(body=b'{"x":NaN}'),
        an_event(body=b'{"x":1e999}'),
        an_event(body=b'{"x":"\xff"}'),
        an_event(body=b'{"x":"\\ud800"}'),
        an_event(body=b'{"x":' * 129 + b"1" + b"}" * 129),
        an_event(body=b'{"x":"' + b"x" * MAX_BODY_BYTES + b'"}'),
    ]


def naive_root(leaves: Sequence[bytes]) -> bytes:
    """RFC 9162 2.1.1, word for word, over leaf hashes."""
    if not leaves:
        return EMPTY_ROOT
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return sha256(b"\1" + naive_root(leaves[:k]) + naive_root(leaves[k:])).digest()


def leaves_of(events: Iterable[StoredEvent]) -> list[bytes]:
    """The tree's leaf hashes over stored events."""
    return [leaf_hash(event.version, event.digest) for event in events]


@contextmanager
def refused(error: type[TrajlogError], log: Log) -> Iterator[None]:
    """The block raises `error`, and the log stays as it was."""
    before = log.head()
    try:
        yield
    except error:
        assert log.head() == before, "something was written"
    else:
        raise AssertionError(f"{error.__name__} was not raised")


class LogContract:
    """What every log promises. Subclass it and give a fixture `log`: an empty log."""

    # -- empty ---------------------------------------------------------------------------------------

    def test_an_empty_log_has_a_head_and_a_root(self, log: Log) -> None:
        assert len(log.log_id) == 16
        assert log.head() == Head(0, None, None)
        assert log.root() == log.root(0) == EMPTY_ROOT
        assert log.seal() == 0
        assert log.stream_head("episode/a") == 0
        assert list(log.read("episode/a")) == list(log.read_all()) == []
        assert log.append_many([]) == []

    # -- append --------------------------------------------------------------------------------------

    def test_what_was_appended_is_read_back_byte_for_byte(self, log: Log) -> None:
        events = rich_events()
        answers = [log.append(event) for event in events[::2]] + log.append_many(events[1::2])
        stored = {event.position: event for event in log.read_all()}
        assert len(stored) == len(events)
        for event, answer in zip(events[::2] + events[1::2], answers, strict=True):
            read = stored[answer.position]
            expected = asdict(event) | {
                "version": 1,
                "position": answer.position,
                "digest": event_digest(event),
                "committed_at": read.committed_at,
            }
            assert asdict(read) == expected
            assert (answer.event_id, answer.stream, answer.version) == (event.event_id, event.stream, 1)
            assert list(log.read(event.stream)) == [read]

    def test_positions_are_dense_in_the_log_and_versions_in_each_stream(self, log: Log) -> None:
        events = [an_event(stream) for stream in "abacbbaaac"]
        log.append(events[0])
        log.append_many(events[1:9])
        log.append(events[9])
        stored = list(log.read_all())
        assert [event.position for event in stored] == list(range(1, 11))
        assert (stored[0].event_id, stored[9].event_id) == (events[0].event_id, events[9].event_id)
        for stream in "abc":
            sent = [event.event_id for event in events if event.stream == stream]
            assert [(event.version, event.event_id) for event in log.read(stream)] == list(enumerate(sent, 1))
        assert [log.stream_head(s) for s in ("a", "b", "c", "d")] == [5, 3, 2, 0]

    def test_any_number_of_events_goes_in_batches(self, log: Log) -> None:
        events = [an_event(f"s/{i % 3}") for i in range(250)]
        assert [len(answers) for answers in log.append_all(iter(events), batch=100)] == [100, 100, 50]
        ids = {event.event_id: event for event in log.read_all()}
        assert len(ids) == 250
        again = [answer for answers in log.append_all(events, batch=100) for answer in answers]
        assert [(a.event_id, a.position, a.duplicate) for a in again] == [
            (event.event_id, ids[event.event_id].position, True) for event in events
        ]
        assert list(log.append_all([])) == []

    def test_what_was_appended_before_a_refusal_stands(self, log: Log) -> None:
        events = [an_event("a") for _ in range(20)]
        source = iter([*events, an_event("a", seq=0)])
        answered = 0
        try:
            for answers in log.append_all(source, batch=10):
                answered += len(answers)
        except BadEvent:
            assert log.head().position >= answered
        else:
            raise AssertionError("not refused")
        assert [event.event_id for event in log.read("a")] == [event.event_id for event in events]

    def test_an_append_may_wait_for_less(self, log: Log) -> None:
        event = an_event("a")
        for answer in (log.append(event, wait="accepted"), log.append_many([event], wait="accepted")[0]):
            assert (answer.event_id, answer.stream) == (event.event_id, "a")
            assert isinstance(answer, Appended) or not log.direct
        for answers in log.append_all([event], wait="accepted"):
            assert [answer.event_id for answer in answers] == [event.event_id]
        assert log.append(event) == Appended(event.event_id, "a", 1, 1, duplicate=True)
        assert log.head().position == 1

    def test_commit_times_never_run_backwards(self, log: Log) -> None:
        for _ in range(20):
            log.append(an_event("a"))
        stamps = [event.committed_at for event in log.read_all()]
        assert all(a < b for a, b in pairwise(stamps))

    def test_the_door_refuses_what_cannot_be_kept_for_ever(self, log: Log) -> None:
        for event in refused_events():
            with refused(BadEvent, log):
                log.append(event)
            with refused(BadEvent, log):
                log.append_many([an_event("a"), event, an_event("b")])

    def test_a_commit_has_bounds(self, log: Log) -> None:
        event = an_event("a")
        with refused(BatchTooLarge, log):
            log.append_many([event] * (MAX_BATCH_EVENTS + 1))
        large = an_event("a", body=b'{"text":"' + b"x" * 900_000 + b'"}')
        with refused(BatchTooLarge, log):
            log.append_many([large] * 72)

    def test_threads_may_share_a_log(self, log: Log) -> None:
        def write(name: str) -> None:
            for _ in range(10):
                log.append(an_event(name))
                log.append_many([an_event("shared"), an_event(name)])
                list(log.read(name))

        threads = [threading.Thread(target=write, args=(f"thread/{i}",)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        events = list(log.read_all())
        assert [event.position for event in events] == list(range(1, 121))
        assert [event.version for event in log.read("shared")] == list(range(1, 41))
        for i in range(4):
            assert [event.version for event in log.read(f"thread/{i}")] == list(range(1, 21))

    # -- expected version ----------------------------------------------------------------------------

    def test_an_expected_version_is_held(self, log: Log) -> None:
        log.append(an_event("a", expected_version=0))
        log.append(an_event("a", expected_version=1))
        for wrong in (0, 1, 3):
            with refused(WrongExpectedVersion, log):
                log.append(an_event("a", expected_version=wrong))
        with refused(WrongExpectedVersion, log):
            log.append(an_event("new", expected_version=1))

    def test_a_wrong_expectation_says_what_it_found(self, log: Log) -> None:
        log.append(an_event("a"))
        for send in (log.append, lambda event: log.append_many([event])):
            try:
                send(an_event("a", expected_version=5))
            except WrongExpectedVersion as error:
                assert (error.stream, error.expected, error.actual) == ("a", 5, 1)
            else:
                raise AssertionError("not refused")

    def test_in_a_batch_an_expectation_counts_the_events_before_it(self, log: Log) -> None:
        log.append(an_event("a"))
        log.append_many([an_event("a", expected_version=1), an_event("b"), an_event("a", expected_version=2)])
        assert log.stream_head("a") == 3

    # -- idempotence ---------------------------------------------------------------------------------

    def test_the_same_event_again_is_a_duplicate(self, log: Log) -> None:
        event = an_event("a")
        first = log.append(event)
        log.append(an_event("a"))
        again = replace(first, duplicate=True)
        assert not first.duplicate
        assert log.append(event) == again
        assert log.append_many([event]) == [again]
        assert log.head().position == 2

    def test_a_batch_keeps_what_is_new_in_it(self, log: Log) -> None:
        known, other = an_event("a"), an_event("b")
        first = log.append(known)
        fresh = [an_event("a"), an_event("c")]
        answers = log.append_many([fresh[0], known, other, fresh[1], other, fresh[0]])
        assert [(a.version, a.duplicate) for a in answers] == [
            (2, False),
            (1, True),
            (1, False),
            (1, False),
            (1, True),
            (2, True),
        ]
        placed = {event.event_id: event.position for event in log.read_all()}
        assert [answer.position for answer in answers] == [placed[answer.event_id] for answer in answers]
        assert log.head().position == 4
        assert log.append_many([known, known]) == [replace(first, duplicate=True)] * 2

    def test_a_retry_is_a_duplicate_whatever_it_expects(self, log: Log) -> None:
        event = an_event("a", expected_version=0)
        first = log.append(event)
        assert log.append(event) == replace(first, duplicate=True)
        pair = [an_event("b", expected_version=0), an_event("b", expected_version=1)]
        log.append_many(pair)
        assert all(answer.duplicate for answer in log.append_many(pair))
        assert all(answer.duplicate for answer in log.append_many([*pair, event]))

    def test_of_a_repeated_event_the_first_expectation_counts(self, log: Log) -> None:
        event = an_event("a")
        answers = log.append_many([event, replace(event, expected_version=7)])
        assert [answer.duplicate for answer in answers] == [False, True]
        with refused(WrongExpectedVersion, log):
            other = an_event("a", expected_version=7)
            log.append_many([other, replace(other, expected_version=None)])

    def test_duplicates_do_not_excuse_a_wrong_expectation(self, log: Log) -> None:
        event = an_event("a")
        log.append(event)
        with refused(WrongExpectedVersion, log):
            log.append_many([event, an_event("a", expected_version=2)])

    def test_an_id_stands_for_one_event(self, log: Log) -> None:
        event = an_event("a")
        log.append(event)
        for other in (
            replace(event, body=b'{"text":"y"}'),
            replace(event, stream="b"),
            replace(event, seq=2),
            replace(event, actor="someone", expected_version=1),
        ):
            with refused(EventIdTaken, log):
                log.append(other)

    def test_an_id_that_follows_from_content_may_come_with_other_content(self, log: Log) -> None:
        event = an_event("a", event_id=uuid8(b"record 1"))
        first = log.append(event)
        assert log.append(replace(event, body=b'{"text":"y"}')) == replace(first, duplicate=True)
        with refused(EventIdTaken, log):
            log.append(replace(event, stream="b"))
        two = [replace(event, seq=2), replace(event, seq=3)]
        assert log.append_many(two) == [replace(first, duplicate=True)] * 2

    def test_within_a_batch_an_id_stands_for_one_content(self, log: Log) -> None:
        for event_id in (uuid7(), uuid8(b"record 2")):
            event = an_event("a", event_id=event_id)
            with refused(EventIdTaken, log):
                log.append_many([event, replace(event, body=b'{"text":"y"}')])

    # -- reading -------------------------------------------------------------------------------------

    def test_a_stream_is_read_between_versions_and_as_of_a_position(self, log: Log) -> None:
        for stream in "abababab":
            log.append(an_event(stream))
        whole = list(log.read("b"))
        assert [(event.version, event.position) for event in whole] == [(1, 2), (2, 4), (3, 6), (4, 8)]
        for after in range(-1, 6):
            for until in (None, -1, 0, 1, 3, 9):
                for as_of in (None, 0, 3, 4, 99):
                    read = list(log.read("b", after=after, until=until, as_of=as_of))
                    assert read == [
                        event
                        for event in whole
                        if after < event.version
                        and (until is None or event.version <= until)
                        and (as_of is None or event.position <= as_of)
                    ]

    def test_the_log_is_read_between_positions(self, log: Log) -> None:
        log.append_many([an_event(stream) for stream in "abc"])
        log.append(an_event("a"))
        whole = list(log.read_all())
        for after in range(-1, 6):
            for until in (None, -1, 0, 1, 3, 9):
                read = list(log.read_all(after=after, until=until))
                assert read == [e for e in whole if after < e.position and (until is None or e.position <= until)]

    def test_long_logs_and_large_events_are_read_whole(self, log: Log) -> None:
        small = [an_event("long") for _ in range(700)]
        large = [an_event("long", body=b'{"text":"' + b"x" * 400_000 + b'"}') for _ in range(60)]
        for events in (small[:350], large, small[350:]):
            log.append_many(events)
        sent = [event.event_id for event in (*small[:350], *large, *small[350:])]
        assert [event.event_id for event in log.read("long")] == sent
        assert [event.event_id for event in log.read_all()] == sent
        assert [event.event_id for event in log.read("long", after=300, as_of=500)] == sent[300:500]

    def test_a_read_ends_with_what_was_there_when_it_began(self, log: Log) -> None:
        log.append_many([an_event("a") for _ in range(30)])
        for stream in ("a", None):
            there = log.head().position
            seen = 0
            for _ in log.read(stream) if stream else log.read_all():
                seen += 1
                log.append(an_event("a"))
            assert seen == there

    def test_follow_tells_events_as_they_come(self, log: Log) -> None:
        log.append(an_event("a"))
        live, old = log.follow(poll=0.001), log.follow(after=0, poll=0.001)
        only_b = log.follow(after=0, stream="b", poll=0.001)
        for stream in "bab":
            log.append(an_event(stream))
        assert _told(live) == [2, 3, 4]
        assert _told(old) == [1, 2, 3, 4]
        assert _told(only_b) == [2, 4]
        assert _told(live) == []
        log.append(an_event("b"))
        assert [_told(live), _told(old), _told(only_b)] == [[5], [5], [5]]

    # -- tree ----------------------------------------------------------------------------------------

    def test_the_root_is_defined_at_every_position(self, log: Log) -> None:
        log.append_many([an_event(f"s/{i % 7}") for i in range(TILE + 10)])
        for _ in range(5):
            log.append(an_event("s/0"))
        leaves = leaves_of(log.read_all())
        positions = [*range(12), *range(TILE - 2, TILE + 3), len(leaves)]
        before = [log.root(position) for position in positions]
        assert before == [naive_root(leaves[:position]) for position in positions]
        assert log.seal() == TILE
        assert [log.root(position) for position in positions] == before
        assert log.root() == before[-1]
        with refused(NotFound, log):
            log.root(len(leaves) + 1)
        with refused(NotFound, log):
            log.root(-1)

    def test_sealing_changes_nothing_and_may_be_repeated(self, log: Log) -> None:
        for size in (TILE - 1, 1, TILE):
            log.append_many([an_event("a") for _ in range(size)])
            root, head = log.root(), log.head()
            assert log.seal() == log.seal() == head.position // TILE * TILE
            assert (log.root(), log.head()) == (root, head)


class DirectLogContract(LogContract):
    """What a log promises besides, if its events go straight to where they stay: a batch is one commit."""

    def test_a_batch_keeps_its_order_across_streams(self, log: Log) -> None:
        assert log.direct
        log.append(an_event("a"))
        answers = log.append_many([an_event("b"), an_event("a"), an_event("b"), an_event("c")])
        log.append(an_event("b"))
        placed = [(e.position, e.stream, e.version) for e in log.read_all()]
        assert placed == [(1, "a", 1), (2, "b", 1), (3, "a", 2), (4, "b", 2), (5, "c", 1), (6, "b", 3)]
        assert [(answer.position, answer.stream, answer.version) for answer in answers] == placed[1:5]

    def test_a_commit_is_one_segment(self, log: Log) -> None:
        log.append_many([an_event("a"), an_event("b")])
        first = log.head()
        log.append(an_event("a"))
        second = log.head()
        assert (first.position, second.position) == (2, 3)
        assert first.seal != second.seal
        stamps = [event.committed_at for event in log.read_all()]
        assert stamps == [first.committed_at, first.committed_at, second.committed_at]

    def test_a_batch_with_a_wrong_expectation_leaves_nothing(self, log: Log) -> None:
        log.append_many([an_event("a") for _ in range(3)])
        with refused(WrongExpectedVersion, log):
            log.append_many([an_event("a"), an_event("b", expected_version=1), an_event("a", expected_version=3)])
        assert log.stream_head("a") == 3

    def test_a_batch_with_a_taken_id_leaves_nothing(self, log: Log) -> None:
        event = an_event("a")
        log.append(event)
        for other in (replace(event, body=b'{"text":"y"}'), replace(event, stream="b"), replace(event, seq=2)):
            with refused(EventIdTaken, log):
                log.append_many([an_event("c"), other])

    def test_a_taken_id_is_said_before_a_wrong_expectation(self, log: Log) -> None:
        event = an_event("a")
        log.append(event)
        with refused(EventIdTaken, log):
            log.append_many([an_event("a", expected_version=9), replace(event, stream="b")])

    def test_an_interleaved_stream_is_read_in_the_order_of_its_batch(self, log: Log) -> None:
        log.append_many([an_event(stream) for stream in "abababab"])
        assert [(event.version, event.position) for event in log.read("b")] == [(1, 2), (2, 4), (3, 6), (4, 8)]


def _told(events: Iterator[StoredEvent | None]) -> list[int]:
    """Positions that `follow` tells until it has nothing new."""
    told: list[int] = []
    for event in islice(events, 1_000):
        if event is None:
            return told
        told.append(event.position)
    raise AssertionError("follow never said that nothing is new")
