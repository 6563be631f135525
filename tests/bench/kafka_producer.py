"""Producing: our whole way from an event to its answer against kafka-python's own bare `send` of ready bytes.

And how long an accepted event takes until a reader of the ledger sees it, at 1,000 events a second.
"""

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kafka import KafkaProducer

from core.codec import encode
from core.event import Event
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.log import KafkaLog
from eventlog.ledger import Ledger
from tests.bench.harness import Row, episodes, fresh, row, seconds, server
from tests.broker import Cluster

EVENTS = 40_000
ROUNDS = 5
PARTITIONS = 4
RATE = 1_000
FOR_S = 20
# Those of ours: with the library's defaults the bare loop is slower.
_SETTINGS: dict[str, Any] = {
    "acks": "all",
    "enable_idempotence": True,
    "linger_ms": 2,
    "batch_size": 262_144,
    "metrics_enabled": False,
}


def run() -> list[Row]:
    """Rows `kafka_producer.python` and `.fast` (events/s, of kafka-python's bare loop), `.fast.own` (of
    confluent-kafka's own bare loop), `.visible.p50` and `.p99` (ms, of the 250 that are promised)."""
    with server() as embedded, Cluster() as broker:
        url, _ = fresh(embedded, "producer")
        rows = _throughput(broker, url)
        return rows + _latency(broker, fresh(embedded, "visible")[0])


def _throughput(broker: Cluster, url: str) -> list[Row]:
    events = list(episodes(EVENTS))
    records = [(event.stream.encode(), encode(event)) for event in events]
    broker.create("bench", PARTITIONS)
    measured: dict[str, list[float]] = {}
    ways: dict[str, Callable[[], float]] = {
        "bare": lambda: _bare(broker, records),
        "bare_fast": lambda: _bare_fast(broker, records),
        "python": lambda: _ours(broker, url, "kafka-python", events),
        "fast": lambda: _ours(broker, url, "confluent-kafka", events),
    }
    for _ in range(ROUNDS):
        for name, way in ways.items():
            measured.setdefault(name, []).append(EVENTS / way())
    return [
        row("kafka_producer.python", measured["python"], measured["bare"], "events/s"),
        row("kafka_producer.fast", measured["fast"], measured["bare"], "events/s"),
        row("kafka_producer.fast.own", measured["fast"], measured["bare_fast"], "events/s"),
    ]


def _bare(broker: Cluster, records: list[tuple[bytes, bytes]]) -> float:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, **_SETTINGS)
    try:
        producer.partitions_for("bench")

        def send() -> None:
            for key, value in records:
                producer.send("bench", value, key)
            producer.flush()

        return seconds(send)
    finally:
        producer.close()


def _bare_fast(broker: Cluster, records: list[tuple[bytes, bytes]]) -> float:
    import confluent_kafka

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": ",".join(broker.bootstrap), "acks": "all", "enable.idempotence": True}
    )
    producer.list_topics("bench", 10)

    def send() -> None:
        for key, value in records:
            while True:
                try:
                    producer.produce("bench", value, key)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.flush()

    return seconds(send)


def _ours(broker: Cluster, url: str, client: str, events: list[Event]) -> float:
    address = KafkaAddress.parse(broker.address("bench"), {"client": client})
    with KafkaLog(Ledger(url), address) as log:
        log.append(events[0], wait="accepted")
        return seconds(lambda: list(log.append_all(events, wait="accepted")))


def _latency(broker: Cluster, url: str) -> list[Row]:
    """An even stream of events in one thread; the times of their answers and of their sight in another."""
    broker.create("visible", PARTITIONS)
    accepted: dict[bytes, float] = {}
    waits: list[float] = []
    address = KafkaAddress.parse(broker.address("visible"))
    with persister(url, broker.address("visible")), KafkaLog(Ledger(url), address) as log:
        log.append(next(episodes(1, seed=9)))
        done = threading.Event()
        follower = threading.Thread(target=_watch, args=(log, accepted, waits, done))
        follower.start()
        begun = time.perf_counter()
        for i, event in enumerate(episodes(RATE * FOR_S)):
            time.sleep(max(0.0, begun + i / RATE - time.perf_counter()))

            def answered(_: object, event_id: bytes = event.event_id) -> None:
                accepted[event_id] = time.perf_counter()

            log.begin([event], wait="accepted").add_done_callback(answered)
        done.set()
        follower.join(60)
    quantiles = statistics.quantiles(waits, n=100)
    return [row(f"kafka_producer.visible.p{q}", [quantiles[q - 1] * 1000], [250.0], "ms") for q in (50, 99)]


def _watch(log: KafkaLog, accepted: dict[bytes, float], waits: list[float], done: threading.Event) -> None:
    for event in log.follow(poll=0.005):
        if event is None:
            if done.is_set() and len(waits) >= RATE * FOR_S:
                return
        else:
            waits.append(time.perf_counter() - accepted.get(event.event_id, time.perf_counter()))


@contextmanager
def persister(url: str, log: str) -> Iterator[None]:
    """`trajlog persist` at work, in a process of its own."""
    command = [sys.executable, "-m", "cli", "persist", "--quiet", "--db", url, "--log", log]
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)
