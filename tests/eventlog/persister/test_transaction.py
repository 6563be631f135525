"""The one transaction against a real Postgres, with records made up."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from msgspec.structs import replace

from core.errors import DuplicateEvent
from core.event import Event
from eventlog import database as postgres
from eventlog.kafka.client import Record, Topic
from eventlog.persister.batch import Part, record_digest
from eventlog.persister.source import cursors, own, register
from eventlog.persister.transaction import Fenced, Outcome, Point, commit_parts
from eventlog.testing import an_event
from eventlog.verify import verify
from tests.databases import Database
from tests.eventlog.persister.records import record_of, records_of

PARTITIONS = 3
# Streams that murmur2 puts into partitions 0, 1 and 2 of three.
HOMES: dict[int, str] = {}
for _n in range(100):
    HOMES.setdefault(record_of(an_event(f"episode/{_n}"), partitions=PARTITIONS).partition, f"episode/{_n}")


class Table:
    """An empty ledger, fed by a topic of three partitions."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.connection = postgres.connect(database.url)
        self.topic_id = uuid4()
        register(self.connection, Topic("events", self.topic_id.bytes, PARTITIONS, 1))
        self.epochs = {p: c.epoch for p, c in own(self.connection, self.topic_id, range(PARTITIONS)).items()}

    def part(self, partition: int, events: list[Event], first: int = 0, expected: int | None = None) -> Part:
        part = Part(partition, self.epochs[partition], first if expected is None else expected, PARTITIONS)
        part.add([replace(record, partition=partition) for record in records_of(events, first)])
        assert not part.faults, part.faults
        return part

    def commit(self, *parts: Part, **options: Any) -> Outcome:
        return commit_parts(self.connection, self.topic_id, parts, **options)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with postgres.connect(self.database.owner, role=None) as connection:
            return connection.execute(query, binary=True).fetchall()

    def ids(self) -> list[bytes]:
        with self.database.ledger() as log:
            return [event.event_id for event in log.read_all()]

    def next_offsets(self) -> dict[int, int]:
        return {p: c.next_offset for p, c in cursors(self.connection, self.topic_id).items()}

    def whole(self) -> None:
        with self.database.ledger() as log:
            assert verify(log.reader).ok


@pytest.fixture
def table(database: Database) -> Iterator[Table]:
    database.empty()
    found = Table(database)
    yield found
    found.connection.close()


def some(partition: int, count: int) -> list[Event]:
    return [an_event(HOMES[partition]) for _ in range(count)]


def test_several_partitions_are_one_transaction_and_a_segment_each(table: Table) -> None:
    parts = [table.part(p, some(p, 3 + p)) for p in range(PARTITIONS)]
    assert table.commit(*parts).events == 12
    segments = table.rows(
        "SELECT partition, first_offset, next_offset, first_position, last_position, uuid_send(topic_id) "
        "FROM trajlog.segment ORDER BY last_position"
    )
    assert [row[:5] for row in segments] == [(0, 0, 3, 1, 3), (1, 0, 4, 4, 7), (2, 0, 5, 8, 12)]
    assert {row[5] for row in segments} == {table.topic_id.bytes}
    assert table.next_offsets() == {0: 3, 1: 4, 2: 5}
    table.whole()


def test_the_cursor_keeps_the_last_record_and_its_digest(table: Table) -> None:
    part = table.part(0, some(0, 2), first=4, expected=0)
    table.commit(part)
    cursor = cursors(table.connection, table.topic_id)[0]
    assert part.last is not None
    assert (cursor.next_offset, cursor.last_offset, cursor.last_digest) == (6, 5, record_digest(part.last))


def test_a_cursor_that_is_elsewhere_fences(table: Table) -> None:
    with pytest.raises(Fenced) as caught:
        table.commit(table.part(0, some(0, 1)), table.part(1, some(1, 1), first=5))
    assert caught.value.partitions == {1}
    assert table.ids() == []
    assert table.next_offsets() == {0: 0, 1: 0, 2: 0}


def test_a_fenced_worker_cannot_commit(table: Table) -> None:
    part = table.part(0, some(0, 1))
    own(table.connection, table.topic_id, [0])
    with pytest.raises(Fenced):
        table.commit(part)
    assert table.ids() == []


def test_nothing_is_taken_twice(table: Table) -> None:
    events = some(0, 3)
    table.commit(table.part(0, events))
    with pytest.raises(Fenced):
        table.commit(table.part(0, events))
    assert len(table.ids()) == 3


def test_a_known_event_makes_the_careful_way_necessary_and_is_left_out(table: Table) -> None:
    first, second = some(0, 1), some(0, 2)
    table.commit(table.part(0, first))
    part = table.part(0, [*second[:1], *first, *second[1:]], first=1)
    with pytest.raises(DuplicateEvent):
        table.commit(part)
    done = table.commit(part, careful=True)
    assert (done.events, done.duplicates, done.quarantined) == (2, 1, {})
    assert table.ids() == [e.event_id for e in first + second]
    assert table.next_offsets()[0] == 4
    table.whole()


def test_a_batch_of_nothing_but_duplicates_moves_the_cursor_and_makes_no_segment(table: Table) -> None:
    events = some(0, 3)
    table.commit(table.part(0, events))
    assert table.commit(table.part(0, events, first=3), careful=True) == Outcome(0, 3, {})  # type: ignore[arg-type]
    assert table.next_offsets()[0] == 6
    assert table.rows("SELECT count(*) FROM trajlog.segment") == [(1,)]


def test_a_taken_id_is_quarantined_with_its_bytes(table: Table) -> None:
    (event,) = some(0, 1)
    table.commit(table.part(0, [event]))
    other = replace(event, body=b'{"text":"other"}')
    done = table.commit(table.part(0, [other, *some(0, 1)], first=1), careful=True)
    assert (done.events, done.quarantined) == (1, {"id_taken": 1})
    ((value, event_id, offset),) = table.rows("SELECT value, uuid_send(event_id), offset_ FROM trajlog.quarantine")
    assert (value, event_id, offset) == (record_of(other).value, event.event_id, 1)


def test_a_refused_event_blocks_nobody_and_stays_refused(table: Table) -> None:
    refused = an_event(HOMES[0], expected_version=5)
    done = table.commit(table.part(0, [*some(0, 5), refused, *some(0, 1)], first=0))
    assert done.quarantined == {}
    late = an_event(HOMES[0], expected_version=9)
    assert table.commit(table.part(0, [late, *some(0, 2)], first=7)).quarantined == {"refused": 1}
    # The head is 9 now: the same event would fit, and is refused all the same.
    assert table.commit(table.part(0, [late], first=10)).quarantined == {"refused": 1}
    plain = replace(late, expected_version=None)
    assert table.commit(table.part(0, [plain], first=11)).quarantined == {"refused": 1}
    details = table.rows("SELECT DISTINCT detail FROM trajlog.quarantine")
    assert details == [("expected version 9, but the stream was at 7",)]
    assert late.event_id not in table.ids()
    table.whole()


def test_a_duplicate_that_expects_the_past_is_a_duplicate(table: Table) -> None:
    event = an_event(HOMES[0], expected_version=0)
    table.commit(table.part(0, [event]))
    done = table.commit(table.part(0, [event, *some(0, 1)], first=1))
    assert (done.events, done.duplicates, done.quarantined) == (1, 1, {})


def test_faults_are_quarantined_in_the_same_transaction(table: Table) -> None:
    part = table.part(0, some(0, 2))
    part.add([Record(0, 2, None, None), Record(0, 5, HOMES[0].encode(), b"\0not json", (("h", b"\0\xff"),))])
    done = table.commit(part)
    assert (done.events, done.quarantined) == (2, {"null_value": 1, "not_json": 1})
    rows = table.rows("SELECT offset_, key, value, headers IS NULL, reason FROM trajlog.quarantine ORDER BY offset_")
    assert rows == [
        (2, None, None, True, "null_value"),
        (5, HOMES[0].encode(), b"\0not json", False, "not_json"),
    ]
    assert table.next_offsets()[0] == 6


@pytest.mark.parametrize("point", ["before_copy", "after_copy", "before_commit"])
def test_a_transaction_that_breaks_off_leaves_nothing(table: Table, point: Point) -> None:
    class Killed(Exception):
        pass

    def hook(now: Point) -> None:
        if now == point:
            raise Killed

    part = table.part(0, some(0, 2))
    part.add([Record(0, 2, None, None)])
    with pytest.raises(Killed):
        table.commit(part, hook=hook)
    assert table.ids() == []
    assert table.rows("SELECT count(*) FROM trajlog.quarantine") == [(0,)]
    assert table.next_offsets()[0] == 0
    assert table.commit(part).events == 2
    table.whole()


def test_two_workers_with_many_partitions_do_not_wait_for_each_other_for_ever(table: Table, database: Database) -> None:
    """Cursors are locked in one order, whatever the order of the epochs."""
    failures: list[BaseException] = []

    def work(mine: Callable[[int], int]) -> None:
        try:
            with postgres.connect(database.url) as connection:
                for _ in range(25):
                    own(connection, table.topic_id, range(PARTITIONS))
                    now = cursors(connection, table.topic_id)
                    parts = []
                    for p in range(PARTITIONS):
                        part = Part(p, now[p].epoch, now[p].next_offset, PARTITIONS)
                        event = replace(record_of(an_event(HOMES[p]), now[p].next_offset), partition=p)
                        part.add([event])
                        parts.append(part)
                    try:
                        commit_parts(connection, table.topic_id, parts)
                    except Fenced:
                        time.sleep(0.001)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(abs,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    with database.ledger() as log:
        position = log.head().position
    assert sum(table.next_offsets().values()) == position
    table.whole()


def test_register_is_for_the_first_topic_alone(table: Table) -> None:
    again = register(table.connection, Topic("events", uuid4().bytes, 9, 1))
    assert again.topic_id == UUID(bytes=table.topic_id.bytes)
    assert again.partitions == PARTITIONS
