"""The database comes and goes, is restored, or is another's for a while: nothing is lost or doubled."""

import threading
import time
from contextlib import closing

import psycopg
import pytest
from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from eventlog import database as postgres
from eventlog.embedded import Embedded
from eventlog.persister.source import own
from eventlog.persister.store import Identity
from eventlog.persister.transaction import Point
from eventlog.persister.worker import group_of
from eventlog.testing import an_event
from tests.bench.harness import episodes
from tests.databases import Database, Databases
from tests.eventlog.persister.test_exactly_once import streams_of
from tests.eventlog.persister.workbench import Workbench

pytestmark = pytest.mark.faults


def test_terminated_connections_lose_and_double_nothing(bench: Workbench) -> None:
    events = list(episodes(3_000))
    with bench.running() as worker:
        for start in range(0, len(events), 300):
            bench.send(events[start : start + 300])
            bench.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'trajlog persist'"
            )
        bench.drained(worker)
    assert streams_of(bench.events()) == streams_of(events)
    bench.whole()


def test_a_commit_whose_answer_was_lost_is_not_done_again(bench: Workbench) -> None:
    events = [an_event("episode/a") for _ in range(10)]
    cut = threading.Event()

    def hook(point: Point) -> None:
        if point == "after_commit" and not cut.is_set():
            cut.set()
            bench.rows(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE application_name = 'trajlog persist'"
            )
            raise psycopg.OperationalError("the answer was lost")

    bench.send(events)
    with bench.running(hook=hook) as worker:
        bench.drained(worker)
        bench.send([an_event("episode/a")])
        bench.drained(worker)
    assert cut.is_set()
    assert len(bench.ids()) == 11
    assert worker.metrics.duplicates == 0
    assert worker.metrics.fenced == 0
    bench.whole()


def test_a_database_that_is_away_is_waited_for_and_the_group_kept(bench: Workbench, stopped: Embedded) -> None:
    stopped.start()
    from eventlog import schema

    schema.upgrade(stopped.url(owner=True))
    own_database = Database.__new__(Database)
    own_database.url, own_database.owner = stopped.url(), stopped.url(owner=True)
    bench.database = own_database
    events = [an_event("episode/a") for _ in range(30)]
    bench.send(events[:10])
    with bench.running(url=stopped.url()) as worker:
        bench.drained(worker)
        stopped.stop()
        bench.send(events[10:20])
        bench.until(lambda: worker.metrics.paused, worker)
        bench.send(events[20:])
        time.sleep(1)
        assert worker.alive
        assert worker.heard("nothing is lost")
        stopped.start()
        bench.drained(worker)
        bench.until(lambda: not worker.metrics.paused, worker)
        assert worker.heard("the database is back")
    assert bench.ids() == [event.event_id for event in events]
    bench.whole()


def test_another_owner_fences_a_running_worker_which_takes_the_partition_back(bench: Workbench) -> None:
    events = [an_event("episode/a") for _ in range(20)]
    home = bench.partition("episode/a")
    with bench.running() as worker:
        bench.send(events[:10])
        bench.drained(worker)
        with postgres.connect(bench.database.url) as connection:
            topic_id = bench.rows("SELECT topic_id FROM trajlog.ingest_topic")[0][0]
            own(connection, topic_id, [home])
        bench.send(events[10:])
        bench.drained(worker)
    assert worker.metrics.fenced == 1
    assert bench.ids() == [event.event_id for event in events]


def test_a_group_that_is_ahead_of_a_restored_ledger_makes_nothing_skip(bench: Workbench, databases: Databases) -> None:
    events = [an_event("episode/a") for _ in range(30)]
    bench.send(events[:10])
    with bench.running() as worker:
        bench.drained(worker)
    older = databases.copy(bench.database)
    bench.send(events[10:])
    with bench.running() as worker:
        bench.drained(worker)
    _commit_group_offsets(bench)
    with bench.running(url=older.url) as worker, older.ledger() as log:
        bench.until(lambda: log.head().position == 30, worker)
        assert [event.event_id for event in log.read_all()] == [event.event_id for event in events]
    assert worker.metrics.events == 20


@pytest.mark.parametrize("later", [10, 0], ids=["more comes", "nothing more comes"])
def test_a_ledger_that_is_replaced_by_an_older_copy_under_a_running_worker(
    bench: Workbench, databases: Databases, later: int
) -> None:
    """The cursor stands before what the worker holds in its hands, and before where it reads."""
    events = [an_event("episode/a") for _ in range(20 + later)]
    bench.send(events[:10])
    with bench.running() as worker:
        bench.drained(worker)
    older = databases.copy(bench.database)
    with bench.running() as worker:
        bench.send(events[10:20])
        bench.drained(worker)
        name = bench.database.name
        databases.execute(
            f"ALTER DATABASE {name} ALLOW_CONNECTIONS false",
            f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'",
            f"ALTER DATABASE {name} RENAME TO {name}_gone",
            f"ALTER DATABASE {older.name} RENAME TO {name}",
        )
        bench.send(events[20:])
        bench.drained(worker)
    assert bench.ids() == [event.event_id for event in events]
    bench.whole()
    databases.execute(f"DROP DATABASE {name}_gone")


def test_a_copy_that_was_told_so_is_another_group(bench: Workbench) -> None:
    ((log_id, instance_id),) = bench.rows("SELECT log_id, instance_id FROM trajlog.log")
    name = group_of(Identity(log_id, instance_id))
    assert str(instance_id) in name


def _commit_group_offsets(bench: Workbench) -> None:
    """The worker's group, as a client that commits its offsets would leave it."""
    from kafka import KafkaConsumer

    ((log_id, instance_id),) = bench.rows("SELECT log_id, instance_id FROM trajlog.log")
    group = group_of(Identity(log_id, instance_id))
    places = [TopicPartition(bench.topic, p) for p in range(bench.partitions)]
    with closing(KafkaConsumer(bootstrap_servers=bench.broker.bootstrap, group_id=group)) as consumer:
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        consumer.commit({place: OffsetAndMetadata(end, "", -1) for place, end in ends.items()})
