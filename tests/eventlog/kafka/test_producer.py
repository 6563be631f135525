"""Events into a real Kafka, without a persister: what is accepted, in which order, and what is said when not."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from kafka import KafkaConsumer, TopicPartition
from msgspec.structs import replace

from core.codec import decode
from core.errors import BadEvent, EventIdTaken, TrajlogError, Unavailable
from core.event import Event
from core.identity import uuid7
from eventlog.aio import AsyncLog
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.log import KafkaLog
from eventlog.log import MAX_BATCH_EVENTS, Accepted, BatchTooLarge
from eventlog.testing import an_event
from tests.broker import Cluster
from tests.databases import Database

_numbers = count(1)

Open = Callable[..., KafkaLog]


@pytest.fixture(params=["kafka-python", pytest.param("confluent-kafka", marks=pytest.mark.faults)])
def client(request: pytest.FixtureRequest) -> str:
    if request.param == "confluent-kafka":
        pytest.importorskip("confluent_kafka")
    return str(request.param)


@pytest.fixture
def topic(broker: Cluster) -> str:
    name = f"producer-{next(_numbers)}-{uuid7().hex()[-6:]}"
    broker.create(name, 3)
    return name


@pytest.fixture
def log(broker: Cluster, topic: str, client: str, database: Database) -> Iterator[KafkaLog]:
    with opened(broker, topic, database, client=client) as log:
        yield log


def opened(broker: Cluster, topic: str, database: Database, **options: str) -> KafkaLog:
    return KafkaLog(database.ledger(), KafkaAddress.parse(broker.address(topic), options))


def records(broker: Cluster, topic: str) -> dict[int, list[tuple[int, bytes, bytes]]]:
    """(offset, key, value) by partition, all that the topic holds."""
    with KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False) as c:
        places = [TopicPartition(topic, p) for p in sorted(c.partitions_for_topic(topic))]
        c.assign(places)
        ends = c.end_offsets(places)
        found: dict[int, list[tuple[int, bytes, bytes]]] = {place.partition: [] for place in places}
        while any(c.position(place) < ends[place] for place in places):
            for place, some in c.poll(200).items():
                found[place.partition] += [(record.offset, record.key, record.value) for record in some]
        return found


def events_in(broker: Cluster, topic: str) -> list[Event]:
    return [decode(value) for rows in records(broker, topic).values() for _, _, value in rows]


def test_an_accepted_event_lies_where_the_answer_says(log: KafkaLog, broker: Cluster, topic: str) -> None:
    events = [an_event(f"episode/{i}") for i in range(20)]
    answers = [log.append(event, wait="accepted") for event in events]
    found = records(broker, topic)
    for event, answer in zip(events, answers, strict=True):
        assert isinstance(answer, Accepted)
        offset, key, value = found[answer.partition][answer.offset]
        assert (offset, key, decode(value)) == (answer.offset, event.stream.encode(), event)
    assert len({answer.partition for answer in answers if isinstance(answer, Accepted)}) > 1


def test_both_clients_put_a_stream_where_kafka_itself_would(broker: Cluster, topic: str, database: Database) -> None:
    from kafka.partitioner.default import murmur2

    events = [an_event(f"episode/{uuid7().hex()}") for _ in range(60)]
    places = []
    for name in ("kafka-python", "confluent-kafka"):
        with opened(broker, topic, database, client=name) as log:
            places.append([a.partition for a in log.append_many(events, wait="accepted") if isinstance(a, Accepted)])
    assert places[0] == places[1] == [(murmur2(e.stream.encode()) & 0x7FFFFFFF) % 3 for e in events]


def test_a_stream_keeps_its_order_through_batches_and_threads(log: KafkaLog, broker: Cluster, topic: str) -> None:
    def write(name: str) -> None:
        for _ in log.append_all((an_event(name, seq=seq) for seq in range(1, 301)), batch=70, wait="accepted"):
            pass

    threads = [threading.Thread(target=write, args=(f"s/{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = events_in(broker, topic)
    for i in range(4):
        assert [event.seq for event in found if event.stream == f"s/{i}"] == list(range(1, 301))


def test_answers_come_in_the_order_of_the_events(log: KafkaLog) -> None:
    events = [an_event(f"s/{i % 7}") for i in range(500)]
    answers = [answer for some in log.append_all(events, batch=64, wait="accepted") for answer in some]
    assert [answer.event_id for answer in answers] == [event.event_id for event in events]


def test_the_door_refuses_before_anything_is_sent(log: KafkaLog, broker: Cluster, topic: str) -> None:
    event = an_event("a")
    for bad, error in (
        ([an_event("a"), an_event("a", seq=0), an_event("b")], BadEvent),
        ([event] * (MAX_BATCH_EVENTS + 1), BatchTooLarge),
        ([an_event("a", body=b'{"x":"' + b"x" * 900_000 + b'"}') for _ in range(72)], BatchTooLarge),
        ([event, replace(event, body=b'{"text":"y"}')], EventIdTaken),
    ):
        with pytest.raises(error):
            log.append_many(bad, wait="accepted")
    log.append(event, wait="accepted")
    assert events_in(broker, topic) == [event]


def test_a_repeated_event_is_sent_once(log: KafkaLog, broker: Cluster, topic: str) -> None:
    one, other = an_event("a"), an_event("b")
    answers = log.append_many([one, other, one], wait="accepted")
    assert answers[0] == answers[2]
    assert sorted(event.stream for event in events_in(broker, topic)) == ["a", "b"]


def test_asyncio_appends_keep_their_order_and_do_not_wait_for_each_other(
    log: KafkaLog, broker: Cluster, topic: str
) -> None:
    async def work() -> list[object]:
        aio = AsyncLog(log)
        await aio.append(an_event("warm"), wait="accepted")
        begun = time.monotonic()
        answers = await asyncio.gather(*(aio.append(an_event("a", seq=seq), wait="accepted") for seq in range(1, 501)))
        assert time.monotonic() - begun < 5
        return list(answers)

    assert len(asyncio.run(work())) == 500
    assert [event.seq for event in events_in(broker, topic) if event.stream == "a"] == list(range(1, 501))


def test_closing_sends_what_was_begun(broker: Cluster, topic: str, client: str, database: Database) -> None:
    with opened(broker, topic, database, client=client) as log:
        begun = log.begin([an_event("a", seq=seq) for seq in range(1, 2001)], wait="accepted")
    assert begun.done() and all(isinstance(answer, Accepted) for answer in begun.result())
    assert len(events_in(broker, topic)) == 2000


def test_a_forked_process_sends_on_a_connection_of_its_own(log: KafkaLog, broker: Cluster, topic: str) -> None:
    log.append(an_event("a"), wait="accepted")
    log.head()
    children = []
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                log.append(an_event("child"), wait="accepted")
                log.head()
                log.close()
                code = 0
            finally:
                os._exit(code)
        children.append(pid)
    log.append(an_event("a"), wait="accepted")
    for pid in children:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert sorted(event.stream for event in events_in(broker, topic)) == ["a", "a", "child", "child"]
    assert log.head().position == 0


# -- what goes wrong -------------------------------------------------------------------------------


def one_line(error: TrajlogError) -> str:
    text = str(error)
    assert "\n" not in text and error.retryable
    return text


def test_a_topic_that_is_not_there_is_said_with_the_mend(broker: Cluster, client: str, database: Database) -> None:
    with opened(broker, "no-such-topic", database, client=client) as log, pytest.raises(Unavailable) as caught:
        log.append(an_event("a"), wait="accepted")
    assert "trajlog kafka init" in one_line(caught.value)


def test_no_broker_is_one_line_within_the_limit(database: Database, client: str) -> None:
    address = KafkaAddress.parse("kafka://127.0.0.1:9/events", {"client": client, "bootstrap_timeout_ms": "1000"})
    with KafkaLog(database.ledger(), address) as log:
        begun = time.monotonic()
        with pytest.raises(Unavailable) as caught:
            log.append(an_event("a"))
        assert time.monotonic() - begun < 15
        assert "127.0.0.1:9" in one_line(caught.value)
        assert log.head().position == 0, "reading needs no broker"


@pytest.mark.faults
def test_what_was_accepted_is_never_reported_as_failed_when_the_broker_dies(client: str, database: Database) -> None:
    """Nor the reverse: the topic holds exactly what was answered, and of the rest only what was said to be unknown."""
    with Cluster() as mine:
        mine.create("events", 3)
        options = {
            "client": client,
            "delivery_timeout_ms": "3000",
            "request_timeout_ms": "2000",
            "max_block_ms": "3000",
        }
        accepted: set[bytes] = set()
        unknown: set[bytes] = set()
        with opened(mine, "events", database, **options) as log:
            warm = log.append(an_event("warm"), wait="accepted")
            accepted.add(warm.event_id)
            threading.Timer(0.5, mine.kill).start()
            until = time.monotonic() + 30
            while not unknown and time.monotonic() < until:
                events = [an_event(f"s/{i % 5}") for i in range(200)]
                answers = log.begin(events, wait="accepted").result()
                for event, answer in zip(events, answers, strict=True):
                    (accepted if isinstance(answer, Accepted) else unknown).add(event.event_id)
                    assert isinstance(answer, Accepted) or "\n" not in str(answer)
            assert len(accepted) > 1 and unknown
            mine.start()
            again = len(accepted)
            until = time.monotonic() + 60
            while len(accepted) == again and time.monotonic() < until:
                event = an_event("again")
                try:
                    accepted.add(log.append(event, wait="accepted").event_id)
                except Unavailable:
                    unknown.add(event.event_id)
            assert len(accepted) > again
        found = [event.event_id for event in events_in(mine, "events")]
    assert len(found) == len(set(found)), "the client's own retries brought an event twice"
    assert accepted <= set(found)
    assert set(found) <= accepted | unknown


@pytest.mark.faults
def test_a_full_buffer_holds_the_writer_up_and_then_says_so(client: str, database: Database) -> None:
    with Cluster() as mine:
        mine.create("events", 1)
        options = {
            "client": client,
            "buffer_memory": "1000000",
            "max_block_ms": "1000",
            "delivery_timeout_ms": "20000",
            "request_timeout_ms": "10000",
        }
        with opened(mine, "events", database, **options) as log:
            log.append(an_event("a"), wait="accepted")
            mine.signal(1, signal.SIGSTOP)
            begun = time.monotonic()
            large = [an_event("a", body=b'{"text":"' + b"x" * 90_000 + b'"}') for _ in range(60)]
            flying = log.begin(large, wait="accepted")
            assert 0.5 < time.monotonic() - begun < 8
            mine.signal(1, signal.SIGCONT)
            answers = flying.result(30)
        refused = [answer for answer in answers if isinstance(answer, TrajlogError)]
        assert 40 < len(refused) < 60, "more was taken than the buffer holds"
        one_line(refused[0])
        sent = [answer for answer in answers if isinstance(answer, Accepted)]
        assert [event.event_id for event in events_in(mine, "events")][1:] == [answer.event_id for answer in sent]
