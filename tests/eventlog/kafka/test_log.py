"""The log behind a real Kafka, with a persister at work: what every log promises, and what is its own."""

import asyncio
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from core.errors import TrajlogError, Unavailable, WrongExpectedVersion
from core.identity import uuid7
from core.vocabulary.contract import Check
from eventlog.aio import AsyncLog
from eventlog.database import Connection
from eventlog.kafka import watch
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.fates import fates
from eventlog.kafka.log import KafkaLog
from eventlog.log import Accepted, Appended, PartlyAppended
from eventlog.testing import LogContract, an_event
from tests.broker import Cluster
from tests.databases import Database, Databases
from tests.eventlog.persister.workbench import Running, Workbench
from tests.eventlog.processes import python


@pytest.fixture(scope="module", params=["kafka-python", pytest.param("confluent-kafka", marks=pytest.mark.faults)])
def bench(request: pytest.FixtureRequest, broker: Cluster, database: Database) -> Iterator[Workbench]:
    """A topic and its ledger, which one worker feeds."""
    database.empty()
    with Workbench(broker, database, f"log-{request.param}", request.param) as bench, bench.running():
        yield bench


@pytest.fixture
def log(bench: Workbench) -> Iterator[KafkaLog]:
    """The module's log, emptied."""
    forget(bench.database)
    with opened(bench) as log:
        yield log


def opened(bench: Workbench, **options: object) -> KafkaLog:
    address = KafkaAddress.parse(bench.broker.address(bench.topic), {"client": bench.client.address.client or ""})
    return KafkaLog(bench.database.ledger(), address, **options)  # type: ignore[arg-type]


def forget(database: Database) -> None:
    """Make the log as new; the worker goes on where it is in the topic."""
    with database.tampering() as connection:
        connection.execute(
            "TRUNCATE trajlog.event, trajlog.stream, trajlog.segment, trajlog.merkle, trajlog.quarantine"
        )


class TestKafkaLog(LogContract):
    pass


def streams_apart(bench: Workbench, count: int) -> list[str]:
    """Streams that lie in different partitions."""
    found: dict[int, str] = {}
    for i in range(1_000):
        found.setdefault(bench.partition(f"apart/{i}"), f"apart/{i}")
    return list(found.values())[:count]


# -- what is refused -------------------------------------------------------------------------------


def test_of_a_batch_what_is_refused_is_named_and_the_rest_is_in_the_log(log: KafkaLog, bench: Workbench) -> None:
    first, second = streams_apart(bench, 2)
    events = [an_event(first), an_event(first, expected_version=7), an_event(second), an_event(first)]
    with pytest.raises(PartlyAppended) as caught:
        log.append_many(events)
    good, refused, other, last = caught.value.answers
    assert isinstance(refused, WrongExpectedVersion)
    assert (refused.stream, refused.expected, refused.actual) == (first, 7, 1)
    assert [a.version for a in (good, other, last) if isinstance(a, Appended)] == [1, 1, 2]
    assert str(caught.value).startswith("1 of 4 events were refused, the others are in the log; first apart/")
    assert [event.event_id for event in log.read(first)] == [events[0].event_id, events[3].event_id]


def test_a_batch_of_which_nothing_was_written_raises_the_refusal_itself(log: KafkaLog) -> None:
    event = an_event("a")
    log.append(event)
    head = log.head()
    with pytest.raises(WrongExpectedVersion):
        log.append_many([event, an_event("a", expected_version=5), an_event("b", expected_version=1)])
    assert log.head() == head


def test_what_was_refused_stays_refused_when_it_is_retried(log: KafkaLog) -> None:
    event = an_event("a", expected_version=1)
    for _ in range(2):
        with pytest.raises(WrongExpectedVersion):
            log.append(event)
        if log.stream_head("a") == 0:
            log.append(an_event("a"))
    assert log.stream_head("a") == 1


def test_an_accepted_event_that_is_refused_later_is_in_quarantine(log: KafkaLog, bench: Workbench) -> None:
    answer = log.append(an_event("a", expected_version=4), wait="accepted")
    assert isinstance(answer, Accepted)
    log.append(an_event("a"))
    rows = bench.rows("SELECT partition, offset_, reason FROM trajlog.quarantine")
    assert rows == [(answer.partition, answer.offset, "refused")]


# -- the same event again, and others at the same stream ---------------------------------------------


def test_two_sendings_on_their_way_at_once_are_one_event(log: KafkaLog) -> None:
    event = an_event("a")
    futures = [log.begin([event], wait="persisted") for _ in range(5)]
    answers = [future.result()[0] for future in futures]
    assert {(a.version, a.position) for a in answers if isinstance(a, Appended)} == {(1, 1)}
    assert len(answers) == 5
    assert log.head().position == 1


def test_of_two_clients_with_one_expectation_one_wins(log: KafkaLog, bench: Workbench) -> None:
    with opened(bench) as other:
        lost = 0
        for version in range(10):
            rivals = [an_event("a", expected_version=version, writer=name) for name in ("one", "two")]
            futures = [each.begin([e], wait="persisted") for each, e in zip((log, other), rivals, strict=True)]
            answers = [future.result()[0] for future in futures]
            lost += sum(isinstance(answer, WrongExpectedVersion) for answer in answers)
        assert lost == 10
    assert [event.version for event in log.read("a")] == list(range(1, 11))


def test_two_clients_on_one_stream_keep_each_their_order(log: KafkaLog, bench: Workbench) -> None:
    with opened(bench) as other:

        def write(mine: KafkaLog, name: str) -> None:
            for some in mine.append_all((an_event("a", writer=name, seq=i) for i in range(1, 401)), batch=50):
                assert all(not answer.duplicate for answer in some)

        threads = [threading.Thread(target=write, args=pair) for pair in ((log, "one"), (other, "two"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events = list(log.read("a"))
    assert [event.version for event in events] == list(range(1, 801))
    for name in ("one", "two"):
        assert [event.seq for event in events if event.writer == name] == list(range(1, 401))


PLANNER = """
import sys
from core.event import Event
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.log import KafkaLog
from eventlog.ledger import Ledger
from core.identity import uuid8

url, place, client, resumed = sys.argv[1:]
run = uuid8(b"planner")
events = [
    Event(event_id=uuid8(b"event", b"%d" % i), stream=f"planner/{i % 3}", writer="planner", run=run, seq=i // 3 + 1,
          type="NoteAdded", body=b'{"text":"x"}')
    for i in range(6000)
]
with KafkaLog(Ledger(url), KafkaAddress.parse(place, {"client": client})) as log:
    for answers in log.append_all(events, batch=300, wait="accepted" if resumed == "no" else "persisted"):
        print(len(answers), flush=True)
print("done", flush=True)
"""


def test_a_planner_that_dies_with_events_in_flight_comes_back_with_the_same_ids(
    log: KafkaLog, bench: Workbench
) -> None:
    def planner(resumed: str) -> "subprocess.Popen[bytes]":
        client = bench.client.address.client or ""
        return python(
            PLANNER, bench.database.url, bench.broker.address(bench.topic), client, resumed, stdout=subprocess.PIPE
        )

    for kill_after in (1, 4):
        process = planner("no")
        assert process.stdout is not None
        for _ in range(kill_after):
            assert process.stdout.readline()
        process.kill()
        process.wait()
        process.stdout.close()
    process = planner("yes")
    out, _ = process.communicate(timeout=60)
    assert out.decode().splitlines()[-1] == "done"
    for i in range(3):
        events = list(log.read(f"planner/{i}"))
        assert [event.seq for event in events] == list(range(1, 2001))
        assert [event.version for event in events] == list(range(1, 2001))
    assert bench.rows("SELECT count(*) FROM trajlog.quarantine") == [(0,)]
    bench.whole()


# -- with nobody at the other end ---------------------------------------------------------------------


@pytest.fixture
def own(databases: Databases) -> Database:
    """A database beside the module's, whose worker goes on."""
    return databases.fresh("own")


@pytest.fixture
def idle(broker: Cluster, own: Database) -> Iterator[Workbench]:
    """A topic without a worker."""
    with Workbench(broker, own, f"idle-{uuid7().hex()[-8:]}", "kafka-python") as bench:
        yield bench


def test_of_records_of_one_event_in_one_commit_the_first_brought_it(idle: Workbench) -> None:
    event = an_event("a")
    with opened(idle) as log:
        log.append(event, wait="accepted")
        answer = log.begin([event], wait="persisted")
        with idle.running():
            assert answer.result(30) == [Appended(event.event_id, "a", 1, 1, duplicate=True)]
        assert log.head().position == 1


def test_without_a_persister_the_wait_ends_in_one_line_and_nothing_is_lost(idle: Workbench) -> None:
    event = an_event("a")
    with opened(idle, patience_s=1.5) as log:
        begun = time.monotonic()
        with pytest.raises(Unavailable) as caught:
            log.append(event)
        assert 1.4 < time.monotonic() - begun < 8
        line = str(caught.value)
        for words in ("accepted at partition", "offset 0", "not persisted yet", "trajlog persist", idle.topic):
            assert words in line
        assert "\n" not in line and caught.value.retryable
        with pytest.raises(Unavailable, match="0 of 2 events are safe"):
            log.append_many([event, an_event("b")])
    with opened(idle) as log, idle.running():
        answer = log.append(event)
        assert (answer.version, log.head().position) == (1, 2)


def test_a_persister_that_starts_late_is_waited_for(idle: Workbench) -> None:
    worker: list[Running] = []
    timer = threading.Timer(1.0, lambda: worker.append(idle.start()))
    with opened(idle) as log:
        timer.start()
        try:
            assert log.append(an_event("a")).version == 1
        finally:
            timer.join()
            worker[0].end()


def test_as_long_as_its_partition_moves_an_event_is_waited_for(idle: Workbench) -> None:
    """And when the cursor has passed it, but it is nowhere, that is said."""
    topic_id = idle.client.admin().topic(idle.topic)
    assert topic_id is not None

    def move(offset: int) -> None:
        with idle.database.tampering() as connection:
            named = (UUID(bytes=topic_id.id), idle.partition("a"), offset)
            connection.execute(
                "INSERT INTO trajlog.ingest_cursor (topic_id, partition, next_offset) VALUES (%s, %s, %s) "
                "ON CONFLICT (topic_id, partition) DO UPDATE SET next_offset = excluded.next_offset",
                named,
            )

    def crawl() -> None:
        for offset in range(9):
            move(offset)
            time.sleep(0.5)

    with opened(idle, patience_s=2.0) as log:
        log.append_many([an_event("a") for _ in range(7)], wait="accepted")
        thread = threading.Thread(target=crawl)
        begun = time.monotonic()
        thread.start()
        with pytest.raises(TrajlogError, match="neither in the ledger nor in quarantine"):
            log.append(an_event("a"))
        assert time.monotonic() - begun > 3.5
        thread.join()


def test_a_topic_made_again_is_said(idle: Workbench) -> None:
    with idle.running(), opened(idle) as log:
        log.append(an_event("a"))
    with opened(idle, patience_s=2.0) as log:
        log.append(an_event("a"), wait="accepted")
        with pytest.raises(Unavailable, match="not persisted yet"):
            log.append(an_event("a"))
        idle.broker.delete(idle.topic)
        idle.broker.create(idle.topic, idle.partitions)
        time.sleep(6)  # as long as a client may believe what it knew of the topic
        with pytest.raises(Unavailable, match="may be lost"):
            log.append(an_event("a"))


def test_a_log_that_is_closed_says_so_to_those_who_wait(idle: Workbench) -> None:
    with opened(idle) as log:
        flying = log.begin([an_event("a")], wait="persisted")
        time.sleep(1)
    (answer,) = flying.result(5)
    assert isinstance(answer, Unavailable) and "accepted at partition" in str(answer)


# -- with breaks ---------------------------------------------------------------------------------------


def test_connections_to_the_database_that_break_are_not_noticed(log: KafkaLog, bench: Workbench) -> None:
    stop = threading.Event()

    def cut() -> None:
        while not stop.wait(0.1):
            with bench.database.tampering() as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )

    events = [an_event(f"s/{i % 3}") for i in range(300)]
    thread = threading.Thread(target=cut)
    thread.start()
    try:
        flights = [log.begin(events[i : i + 30], wait="persisted") for i in range(0, 300, 30)]
        time.sleep(1)
    finally:
        stop.set()
        thread.join()
    answers = [answer for flight in flights for answer in flight.result(60)]
    assert all(isinstance(answer, Appended) for answer in answers), answers
    assert [event.event_id for event in events if event.stream == "s/0"] == [e.event_id for e in log.read("s/0")]
    bench.whole()


def test_a_connection_that_breaks_while_fates_are_asked_loses_nobody(
    log: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    def breaking(connection: Connection, *given: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked <= 3:
            connection.close()
        return fates(connection, *given)

    monkeypatch.setattr(watch, "fates", breaking)
    assert log.append(an_event("a")).version == 1
    assert asked == 4


@pytest.mark.faults
def test_the_recorder_outlasts_a_broker_that_is_killed_and_comes_back(own: Database) -> None:
    with Cluster() as mine, Workbench(mine, own, "events", "confluent-kafka") as bench, bench.running():
        with opened(bench) as log, log.episode(task="t") as episode:
            for i in range(30):
                if i == 10:
                    mine.kill()
                    threading.Timer(1.5, mine.start).start()
                episode.message("user", f"message {i}")
        with own.ledger() as ledger:
            events = list(ledger.read_all())
        assert [event.version for event in events] == list(range(1, 33))
        assert [event.seq for event in events] == list(range(1, 33))
        assert [event.type for event in events][0::31] == ["EpisodeStarted", "EpisodeEnded"]


# -- the recorder ------------------------------------------------------------------------------------


def test_the_recorder_is_the_same(log: KafkaLog, bench: Workbench, tmp_path: Path) -> None:
    with log.episode(task="message-ann", blobs=tmp_path) as episode:
        episode.message("user", "Tell Ann")
        episode.model("I will.")
        call = episode.action("send", {"to": "Ann"})
        episode.feedback(call, {"sent": True})
        episode.verify("pass", checks=[Check("sent", "state", "pass")])
    events = list(log.read(episode.stream))
    assert [event.version for event in events] == list(range(1, 8))
    assert [event.seq for event in events] == list(range(1, 8))
    assert call.version == 4
    assert events[-1].type == "EpisodeEnded"
    with pytest.raises(WrongExpectedVersion), log.episode(task="again", id=episode.id):
        pass
    bench.whole()


def test_an_exception_in_the_block_is_recorded(log: KafkaLog) -> None:
    with pytest.raises(KeyboardInterrupt), log.episode(task="t") as episode:
        raise KeyboardInterrupt
    last = list(log.read(episode.stream))[-1]
    assert b'"Cancelled"' in last.body or b"cancelled" in last.body


def test_with_asyncio_waiting_appends_do_not_queue_up(log: KafkaLog) -> None:
    async def work() -> list[Appended]:
        aio = AsyncLog(log)
        await aio.append(an_event("warm"))
        begun = time.monotonic()
        answers = await asyncio.gather(*(aio.append(an_event("a", seq=seq)) for seq in range(1, 201)))
        assert time.monotonic() - begun < 8, "one after another, 200 waits take longer"
        async with aio.episode(task="t") as episode:
            await episode.model("x")
        return answers

    answers = asyncio.run(work())
    assert [answer.version for answer in answers] == list(range(1, 201))
    assert [event.seq for event in log.read("a")] == list(range(1, 201))


@pytest.mark.parametrize("after", [0.01, 0.1, 0.4])
def test_an_interrupt_leaves_the_log_usable(log: KafkaLog, after: float) -> None:
    """While it connects (kafka-python swallows it there), sends, or waits."""
    events = [an_event("a", seq=seq) for seq in range(1, 3001)]
    stopped = threading.Event()

    def interrupt() -> None:
        wait = after
        while not stopped.wait(wait):  # Python itself loses one that meets a weak reference's callback
            signal.raise_signal(signal.SIGINT)
            wait = 3

    thread = threading.Thread(target=interrupt)
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        try:
            while True:
                log.append_many(events)
        finally:
            stopped.set()
    thread.join()
    answers = log.append_many(events)
    assert [answer.version for answer in answers] == list(range(1, 3001))
    assert [event.seq for event in log.read("a")] == list(range(1, 3001))
