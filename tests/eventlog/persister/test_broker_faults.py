"""A broker that goes away, or comes back with less than it had."""

from collections.abc import Iterator
from itertools import count

import pytest

from core.event import Event
from eventlog.testing import an_event
from tests.broker import Cluster
from tests.conftest import kafka
from tests.databases import Database
from tests.eventlog.persister.workbench import Workbench

pytestmark = pytest.mark.faults
_numbers = count(1)


@pytest.fixture(scope="module")
def own_broker() -> Iterator[Cluster]:
    """One node, to be broken."""
    with kafka(Cluster) as found:
        yield found


@pytest.fixture
def bench(own_broker: Cluster, database: Database, library: str) -> Iterator[Workbench]:
    database.empty()
    with Workbench(own_broker, database, f"broken-{next(_numbers)}", library, partitions=1) as found:
        yield found


def some(count: int) -> list[Event]:
    return [an_event("episode/a") for _ in range(count)]


def ids(*events: Event) -> list[bytes]:
    return [event.event_id for event in events]


def test_a_broker_that_restarts_is_waited_for(bench: Workbench) -> None:
    events = some(20)
    bench.send(events[:10])
    with bench.running() as worker:
        bench.drained(worker)
        bench.broker.kill()
        bench.until(lambda: worker.said, worker, 90)
        bench.broker.start()
        bench.send(events[10:])
        bench.drained(worker, 90)
    assert bench.ids() == ids(*events)


def test_a_log_that_lost_its_end_is_refused(bench: Workbench) -> None:
    """One batch of the producer each, so that the file can be cut between them."""
    old = some(6)
    for event in old:
        bench.send([event])
    with bench.running() as worker:
        bench.drained(worker)
    bench.broker.truncate(bench.topic, 0, 4)
    with bench.running() as worker:
        bench.until(lambda: worker.heard("ends at offset 4, but the log took it up to 6"), worker)
        bench.accept()
        bench.new_sender()
        new = some(1)
        bench.send(new)
        bench.drained(worker)
    assert worker.metrics.duplicates == 4
    assert bench.ids() == ids(*old, *new)
    (named,) = bench.lost()
    assert (named.first_offset, named.next_offset, named.cause) == (6, None, "truncated")
    bench.whole()


@pytest.mark.parametrize("down", [True, False])
def test_a_log_that_lost_its_end_and_grew_again_is_refused(bench: Workbench, down: bool) -> None:
    """Its offsets look right; its last record is another."""
    old, new = some(6), some(9)
    worker = bench.start()
    try:
        for event in old:
            bench.send([event])
        bench.drained(worker)
        if down:
            worker.end()
        bench.broker.truncate(bench.topic, 0, 3)
        bench.new_sender()
        bench.send(new)
        if down:
            worker = bench.start()
        bench.until(lambda: worker.heard("refused"), worker, 90)
        assert bench.ids() == ids(*old)
        bench.accept()
        bench.drained(worker, 90)
    finally:
        worker.end()
    assert bench.ids() == ids(*old, *new)
    assert [loss.cause for loss in bench.lost()] in (["changed"], ["truncated"])
    bench.whole()


def test_a_worker_that_has_read_nothing_yet_notices_too(bench: Workbench) -> None:
    """Its client knows only the offset of its seek, not which leader wrote the record before it."""
    old, new = some(6), some(9)
    for event in old:
        bench.send([event])
    with bench.running() as worker:
        bench.drained(worker)
    with bench.running() as worker:
        bench.until(lambda: worker.metrics.lag.get(0) == 0, worker)
        bench.broker.truncate(bench.topic, 0, 3)
        bench.new_sender()
        bench.send(new)
        bench.until(lambda: worker.heard("refused"), worker, 90)
        assert bench.ids() == ids(*old)
        bench.accept()
        bench.drained(worker, 90)
    assert bench.ids() == ids(*old, *new)
