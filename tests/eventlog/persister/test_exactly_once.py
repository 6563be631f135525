"""What Kafka holds is in the ledger once, in each stream's order, whatever begins and ends meanwhile."""

import time
from itertools import pairwise

from core.event import Event
from eventlog import database as postgres
from eventlog.persister.progress import Partition, progress
from eventlog.testing import an_event
from tests.bench.harness import episodes
from tests.eventlog.persister.workbench import Workbench


def streams_of(events: list[Event]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for event in events:
        found.setdefault(event.stream, []).append(event.event_id)
    return found


def test_events_come_into_the_ledger_in_the_order_of_their_streams(bench: Workbench) -> None:
    events = list(episodes(3_000))
    bench.send(events)
    with bench.running() as worker:
        bench.drained(worker)
    assert streams_of(bench.events()) == streams_of(events)
    assert worker.metrics.events == 3_000
    bench.whole()


def test_a_restarted_worker_goes_on_where_the_last_one_ended(bench: Workbench) -> None:
    events = list(episodes(900))
    for part in (events[:300], events[300:600], events[600:]):
        bench.send(part)
        with bench.running() as worker:
            bench.drained(worker)
        assert worker.metrics.events == 300
        assert worker.metrics.duplicates == 0
    assert streams_of(bench.events()) == streams_of(events)


def test_each_segment_names_the_records_it_came_from(bench: Workbench) -> None:
    stream = "episode/a"
    bench.send([an_event(stream) for _ in range(5)])
    with bench.running() as worker:
        bench.drained(worker)
    rows = bench.rows("SELECT partition, first_offset, next_offset FROM trajlog.segment ORDER BY last_position")
    assert {row[0] for row in rows} == {bench.partition(stream)}
    assert rows[0][1] == 0
    assert rows[-1][2] == 5
    assert all(row[2] == after[1] for row, after in pairwise(rows))


def test_workers_come_and_go_under_load(bench: Workbench) -> None:
    """What was packed is committed before a new assignment is taken up, or dropped and read again."""
    events = list(episodes(4_000))
    workers = [bench.start()]
    try:
        for turn in range(8):
            bench.send(events[turn * 500 : turn * 500 + 500])
            if turn in (1, 2):
                workers.append(bench.start())
            if turn in (5, 6):
                workers.pop(0).end()
        bench.drained(workers[-1], 60)
    finally:
        for worker in workers:
            worker.end()
    assert streams_of(bench.events()) == streams_of(events)
    bench.whole()


def test_duplicated_and_replayed_batches_are_taken_once(bench: Workbench) -> None:
    events = list(episodes(600))
    bench.send(events[:300])
    bench.send(events[:300])
    with bench.running() as worker:
        bench.drained(worker)
        bench.send(events)
        bench.send(events[300:])
        bench.drained(worker)
    assert streams_of(bench.events()) == streams_of(events)
    assert worker.metrics.events == 600
    assert worker.metrics.duplicates == 900
    bench.whole()


def test_one_event_is_in_the_ledger_soon_after_it_was_accepted(bench: Workbench) -> None:
    with bench.running() as worker:
        bench.send([an_event("episode/a")])
        bench.drained(worker)
        took = []
        for n in range(10):
            began = time.monotonic()
            bench.send([an_event("episode/a")])
            bench.until(lambda n=n: sum(bench.cursors().values()) == n + 2, worker)  # type: ignore[misc]
            took.append(time.monotonic() - began)
    assert sorted(took)[5] < 0.5, took  # ten times what it is on an idle machine


def test_tiles_are_built_meanwhile(bench: Workbench) -> None:
    bench.send(list(episodes(600)))
    with bench.running() as worker:
        bench.drained(worker)
        bench.until(lambda: bench.rows("SELECT count(*) FROM trajlog.merkle") == [(2,)], worker)
        bench.until(lambda: worker.metrics.seal_lag == 600 - 512, worker)
    with bench.running(seal=False) as worker:
        bench.send(list(episodes(300, seed=2)))
        bench.drained(worker)
    assert bench.rows("SELECT count(*) FROM trajlog.merkle") == [(2,)]


def test_progress_is_told_per_partition(bench: Workbench) -> None:
    events = [an_event("episode/a") for _ in range(300)]
    home = bench.partition("episode/a")
    with postgres.connect(bench.database.url) as connection:
        assert progress(connection, bench.client) == []
        with bench.running() as worker:
            bench.send(events)
            bench.put(b"episode/a", b"junk", home)
            bench.drained(worker)
            bench.until(lambda: bench.rows("SELECT count(*) FROM trajlog.merkle") == [(1,)], worker)
        bench.send(events[:7])
        found = progress(connection, bench.client)
        assert [each.partition for each in found] == list(range(bench.partitions))
        assert found[home] == Partition(bench.topic, home, 301, 300, 256, 7, 1)
        assert found[(home + 1) % 3] == Partition(bench.topic, (home + 1) % 3, 0, None, None, 0, 0)
        assert progress(connection, None)[home].lag is None
