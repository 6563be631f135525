"""A topic, or a partition, that is not what it was is refused, loudly, until somebody accepts the loss."""

from uuid import UUID

import pytest

from core.codec import encode
from core.errors import TrajlogError
from core.event import Event
from eventlog import database as postgres
from eventlog.kafka.client import connect
from eventlog.persister import loss
from eventlog.testing import an_event
from tests.databases import Databases
from tests.eventlog.persister.workbench import Workbench

pytestmark = pytest.mark.faults


def some(count: int, stream: str = "episode/a") -> list[Event]:
    return [an_event(stream) for _ in range(count)]


def ids(*events: Event) -> list[bytes]:
    return [event.event_id for event in events]


def test_a_topic_that_was_made_anew_while_the_worker_was_down_is_refused_until_accepted(bench: Workbench) -> None:
    old, lost, new = some(5), some(3), some(20)
    bench.send(old)
    with bench.running() as worker:
        bench.drained(worker)
    old_id = bench.rows("SELECT uuid_send(topic_id) FROM trajlog.ingest_topic")[0][0]
    bench.send(lost)
    bench.recreate()
    bench.send(new)
    with bench.running() as worker:
        bench.until(lambda: worker.heard("deleted and made anew"), worker)
        assert worker.heard("trajlog kafka accept")
        assert worker.metrics.topic_refused
        assert bench.ids() == ids(*old)
        plan = bench.accept()
        bench.drained(worker)
    assert bench.ids() == ids(*old, *new)
    home = bench.partition("episode/a")
    assert {loss.partition for loss in plan.losses} == set(range(bench.partitions))
    named = {loss.partition: loss for loss in bench.lost()}[home]
    assert (named.first_offset, named.next_offset, named.cause) == (5, None, "recreated")
    assert UUID(named.topic_id).bytes == old_id
    bench.whole()


def test_a_topic_that_is_made_anew_while_the_worker_runs_is_not_read_on(bench: Workbench) -> None:
    """The client reads on by name, from an offset that the new topic has too."""
    old, new = some(5), some(50)
    bench.send(old)
    with bench.running() as worker:
        bench.drained(worker)
        bench.recreate()
        bench.send(new)
        bench.until(lambda: worker.heard("deleted and made anew"), worker)
        assert bench.ids() == ids(*old)
        bench.accept()
        bench.drained(worker)
    assert bench.ids() == ids(*old, *new)
    bench.whole()


def test_a_deleted_topic_is_said_and_waited_for(bench: Workbench) -> None:
    bench.send(some(2))
    with bench.running() as worker:
        bench.drained(worker)
        bench.broker.delete(bench.topic)
        bench.until(lambda: worker.heard("is gone"), worker)
        assert worker.alive


def test_a_log_that_begins_beyond_the_cursor_is_refused_partition_by_partition(bench: Workbench) -> None:
    home = bench.partition("episode/a")
    other = next(s for s in (f"episode/{n}" for n in range(99)) if bench.partition(s) != home)
    old, lost, kept = some(4), some(6), some(3)
    bench.send(old)
    with bench.running() as worker:
        bench.drained(worker)
    bench.send(lost + kept)
    bench.broker.delete_records(bench.topic, {home: 10})
    with bench.running() as worker:
        bench.until(lambda: worker.heard("6 offsets were deleted before they were taken"), worker)
        elsewhere = some(5, other)
        bench.send(elsewhere)
        bench.until(lambda: len(bench.ids()) == 9, worker)  # the other partitions go on
        assert worker.metrics.refused_partitions == [home]
        bench.accept()
        bench.drained(worker)
        bench.until(lambda: worker.heard(f"partition {home} is taken again"), worker)
    assert sorted(bench.ids()) == sorted(ids(*old, *kept, *elsewhere))
    (named,) = bench.lost()
    assert (named.partition, named.first_offset, named.next_offset, named.cause) == (home, 4, 10, "retention")
    bench.whole()


def test_retention_behind_the_cursor_is_no_loss(bench: Workbench) -> None:
    home = bench.partition("episode/a")
    old, new = some(6), some(2)
    bench.send(old)
    with bench.running() as worker:
        bench.drained(worker)
    bench.broker.delete_records(bench.topic, {home: 6})
    assert bench.plan().empty
    bench.send(new)
    with bench.running() as worker:
        bench.drained(worker)
    assert bench.ids() == ids(*old, *new)


def test_added_partitions_are_refused(bench: Workbench) -> None:
    bench.send(some(3))
    with bench.running() as worker:
        bench.drained(worker)
        bench.broker.add_partitions(bench.topic, 5)
        bench.until(lambda: worker.heard("has 5 partitions, the log was fed from 3"), worker)
        assert worker.metrics.topic_refused


def test_what_lies_in_added_partitions_is_named_when_the_log_moves_on(bench: Workbench) -> None:
    """A producer writes there as soon as it sees them; nothing was ever taken from them."""
    bench.send(some(3))
    with bench.running() as worker:
        bench.drained(worker)
    bench.broker.add_partitions(bench.topic, bench.partitions + 2)
    bench.put(b"episode/a", encode(an_event()), bench.partitions + 1)
    bench.broker.create(f"{bench.topic}-wide", bench.partitions + 2)
    client = connect(bench.client.address._replace(topic=f"{bench.topic}-wide"))
    with postgres.connect(bench.database.url) as connection:
        (lost,) = loss.plan(connection, client).losses
    assert (lost.partition, lost.first_offset, lost.next_offset) == (bench.partitions + 1, 0, 1)
    assert lost.cause == "moved"


def test_a_second_ledger_takes_the_same_topic_for_itself(bench: Workbench, databases: Databases) -> None:
    """The group holds the copy's instance id: neither takes the other's partitions."""
    events = some(30)
    second = databases.fresh("second")
    with second.tampering() as connection:  # databases of these tests are copies of one
        connection.execute("UPDATE trajlog.log SET log_id = gen_random_uuid(), instance_id = gen_random_uuid()")
    with bench.running() as first, bench.running(url=second.url) as other:
        bench.send(events)
        bench.drained(first)
        with second.ledger() as log:
            bench.until(lambda: log.head().position == 30, other)
            assert ids(*log.read_all()) == ids(*events)
    assert bench.ids() == ids(*events)


def test_another_topic_is_a_mistake_of_the_call(bench: Workbench) -> None:
    from core.errors import UsageError

    with bench.running() as worker:
        bench.drained(worker)
    bench.broker.create(f"{bench.topic}-other", 1)
    client = connect(bench.client.address._replace(topic=f"{bench.topic}-other"))
    with pytest.raises(UsageError, match=f"fed by topic '{bench.topic}'"), bench.running(client=client) as worker:
        bench.until(lambda: not worker.alive)


def test_a_topic_that_is_not_there_is_said_at_once(bench: Workbench) -> None:
    from core.errors import NotFound

    client = connect(bench.client.address._replace(topic="nowhere"))
    with pytest.raises(NotFound, match="trajlog kafka init"), bench.running(client=client) as worker:
        bench.until(lambda: not worker.alive)


def test_the_log_can_be_moved_to_another_topic(bench: Workbench) -> None:
    """What the old one still holds is named; workers on the old one end."""
    from core.errors import UsageError

    old, left, new = some(5), some(2), some(4)
    bench.send(old)
    with bench.running() as worker:
        bench.drained(worker)
    bench.send(left)
    other = f"{bench.topic}-moved"
    bench.broker.create(other, bench.partitions)
    client = connect(bench.client.address._replace(topic=other))
    with postgres.connect(bench.database.url) as connection:
        plan = loss.plan(connection, client)
        loss.accept(connection, plan)
    home = bench.partition("episode/a")
    assert [(each.partition, each.first_offset, each.next_offset) for each in plan.losses] == [(home, 5, 7)]
    with pytest.raises(UsageError, match=other), bench.running() as behind:
        bench.until(lambda: not behind.alive)
    sender = client.sender()
    for event in new:
        sender.send(event.stream.encode(), encode(event))
    sender.flush(30)
    sender.close(1)
    with bench.running(client=client) as worker:
        bench.until(lambda: len(bench.ids()) == 9, worker)
    assert bench.ids() == ids(*old, *new)
    bench.whole()


def test_added_partitions_cannot_be_accepted(bench: Workbench) -> None:
    bench.send(some(3))
    with bench.running() as worker:
        bench.drained(worker)
    bench.broker.add_partitions(bench.topic, 5)
    with pytest.raises(TrajlogError, match="has 5 partitions"):
        bench.plan()
