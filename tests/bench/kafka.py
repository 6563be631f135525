"""The persister against bare COPY of the same prepared rows: how fast, at what cost, in how much memory.

A topic is filled first, then workers (processes of their own) take it. Their speed is that of the
stretch in which every partition was being taken: joining the group is no throughput.

    python -m tests.bench --only kafka
    python -m tests.bench.kafka flat [EVENTS]        memory over that many events (5 M)
"""

import multiprocessing
import resource
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.codec import encode
from core.event import Event
from eventlog import database
from eventlog.embedded import Embedded
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import Client, connect
from tests.bench.append import BATCH, bare_copy
from tests.bench.harness import Row, episodes, fresh, server
from tests.broker import Cluster

EVENTS = 200_000
PARTITIONS = 4
ROUNDS = 3
_WINDOW = """
WITH source AS (
    SELECT partition, min(committed_at) AS first, max(committed_at) AS last FROM trajlog.segment GROUP BY partition
), span AS (SELECT max(first) AS first, min(last) AS last FROM source)
SELECT sum(last_position - first_position + 1), extract(epoch FROM max(span.last) - max(span.first))::float
FROM trajlog.segment, span WHERE committed_at > span.first AND committed_at <= span.last
"""


def run() -> list[Row]:
    """Rows `kafka.persist.<client>.<workers>`: events/s against bare COPY; and µs of CPU an event."""
    rows: list[Row] = []
    events = list(episodes(EVENTS))
    with server() as embedded, Cluster() as broker:
        broker.create("bench", PARTITIONS)
        fill(connect(_address(broker, "bench", "confluent-kafka")), events)
        limits, found = [], dict[tuple[str, int], list[tuple[float, float]]]()
        batches = [events[i : i + BATCH] for i in range(0, len(events), BATCH)]
        for turn in range(ROUNDS):
            _, owner = fresh(embedded, f"copy{turn}")
            limits.append(len(events) / bare_copy(owner, batches))
            for library, workers in (("kafka-python", 1), ("kafka-python", 2), ("confluent-kafka", 1)):
                speed = persist(embedded, broker, "bench", library, workers, len(events))
                found.setdefault((library, workers), []).append(speed)
    limit = statistics.median(limits)
    for (library, workers), speeds in found.items():
        name = f"kafka.{library.partition('-')[0]}.{workers}"
        rate = statistics.median(speed for speed, _ in speeds)
        cost = statistics.median(cpu for _, cpu in speeds)
        rows.append(Row(name, round(rate), round(limit), round(rate / limit, 3), "events/s"))
        rows.append(Row(f"{name}.cpu", round(cost, 2), round(1e6 / limit, 2), round(cost * limit / 1e6, 3), "us/event"))
    return rows


def fill(client: Client, events: Sequence[Event]) -> None:
    """Put the events into the topic."""
    sender = client.sender()
    for event in events:
        sender.send(event.stream.encode(), encode(event))
    sender.flush(300)
    sender.close(5)


def persist(
    embedded: Embedded, broker: Cluster, topic: str, library: str, workers: int, events: int
) -> tuple[float, float]:
    """(events a second, µs of the workers' CPU an event) of taking the whole topic into a new ledger."""
    url, owner = fresh(embedded, f"{library.partition('-')[0]}{workers}")
    context = multiprocessing.get_context("spawn")
    address = broker.address(topic)
    done = context.Queue()
    processes = [context.Process(target=_work, args=(url, address, library, done)) for _ in range(workers)]
    for process in processes:
        process.start()
    try:
        _wait(owner, events, processes)
    finally:
        for process in processes:
            process.terminate()
    cpu = sum(done.get(timeout=30) for _ in processes)
    for process in processes:
        process.join(30)
    with database.connect(owner, role=None) as connection:
        row = connection.execute(_WINDOW).fetchone()
    assert row is not None
    return float(row[0]) / row[1], cpu / events * 1e6


def _work(url: str, address: str, library: str, done: Any) -> None:
    import signal

    from eventlog.persister import run as persister

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    client = connect(KafkaAddress.parse(address, {"client": library}))
    began = resource.getrusage(resource.RUSAGE_SELF)
    persister(url, client, stop=stop, say=lambda line: print(line, file=sys.stderr))
    ended = resource.getrusage(resource.RUSAGE_SELF)
    done.put(ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime)


def _wait(owner: str, events: int, processes: Sequence[Any], seconds: float = 600) -> None:
    limit = time.monotonic() + seconds
    with database.connect(owner, role=None) as connection:
        while time.monotonic() < limit:
            row = connection.execute("SELECT coalesce(sum(next_offset), 0) FROM trajlog.ingest_cursor").fetchone()
            if row is not None and row[0] >= events:
                return
            assert all(process.is_alive() for process in processes), "a worker ended"
            time.sleep(0.1)
    raise AssertionError("the workers did not come to the end")


def _address(broker: Cluster, topic: str, library: str) -> KafkaAddress:
    return KafkaAddress.parse(broker.address(topic), {"client": library})


def flat(events: int, library: str = "kafka-python") -> list[Row]:
    """Row `kafka.memory`: MB that a worker holds at the end of so many events, and when it had a tenth of them."""
    chunk = max(50_000, events // 100)
    with server() as embedded, Cluster() as broker:
        broker.create("flat", PARTITIONS, settings={"retention.bytes": "268435456", "segment.bytes": "67108864"})
        url, owner = fresh(embedded, "flat")
        context = multiprocessing.get_context("spawn")
        done = context.Queue()
        worker = context.Process(target=_work, args=(url, broker.address("flat"), library, done))
        worker.start()
        held: list[float] = []
        try:
            for start in range(0, events, chunk):
                client = connect(_address(broker, "flat", "confluent-kafka"))
                fill(client, list(episodes(chunk, first=start // 30 + 1)))
                _wait(owner, start + chunk, [worker])
                held.append(_resident(worker.pid))
                print(f"{start + chunk:>12,} events {held[-1]:8.1f} MB", file=sys.stderr, flush=True)
        finally:
            worker.terminate()
        done.get(timeout=30)
        worker.join(30)
    early = held[max(0, len(held) // 10 - 1)]
    return [Row("kafka.memory", round(held[-1], 1), round(early, 1), round(held[-1] / early, 3), "MB")]


def _resident(pid: int | None) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


if __name__ == "__main__":
    print(*flat(int(sys.argv[2]) if len(sys.argv) > 2 else 5_000_000))
