"""`trajlog persist`: from Kafka into the ledger."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from cli.frame import command
from cli.output import note
from cli.settings import settings
from core.errors import UsageError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from eventlog.kafka.client import Client
    from eventlog.persister.metrics import Snapshot

_TELL_EVERY_S = 10.0


@command(
    "trajlog persist --log kafka://localhost:9092/events --db postgresql://trajlog@db/trajlog",
    "trajlog persist --workers 2 --metrics 0.0.0.0:9464",
)
def persist(
    workers: Annotated[
        str,
        typer.Option(metavar="auto|N", help="How many processes; auto: as many as processors and partitions allow."),
    ] = "1",
    metrics: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Answer Prometheus there; :PORT is this machine alone.")
    ] = None,
) -> None:
    """Write what Kafka accepted into the ledger, exactly once.

    It runs until it is told to end (Ctrl-C or SIGTERM), and then commits what it holds. Run as many as
    you like, on any machines: each takes some of the topic's partitions. While the database or the
    broker is away it waits; a topic or partition that is not what it was is refused, with what to do.
    Records that are no events go into quarantine: see trajlog quarantine.
    """
    from eventlog.kafka.address import KafkaAddress
    from eventlog.kafka.client import connect
    from eventlog.persister.metrics import Collector, serve

    chosen = settings()
    if chosen.log is None:
        raise UsageError("there is nothing to persist", where="--log", mend="name a topic: kafka://host:9092/topic")
    address = KafkaAddress.parse(chosen.log, chosen.kafka)
    client = connect(address)
    url = _ledger(chosen.db)
    count = _count(workers, client)
    with _stopping() as stop:
        snapshot, work = _work(count, url, client, stop)
        end = serve(metrics, Collector(address.topic, snapshot)) if metrics else None
        teller = _teller(snapshot, stop)
        _begin(count, url, client, metrics)
        try:
            work()
        finally:
            stop.set()
            teller.join()
            if end is not None:
                end()
    found = snapshot()
    note(f"ended: {found.events:,} events written{_besides(found)}")


def _ledger(db: str | None) -> str:
    """The URL of the ledger, which the other side of a pipe can open too."""
    import eventlog

    with eventlog.open(db, home=settings().home) as log:
        assert log.reader is not None
        return log.reader.url


def _count(workers: str, client: "Client") -> int:
    if workers != "auto":
        if not workers.isdecimal() or not 0 < int(workers) <= 1_000:
            raise UsageError(
                f"{workers!r} is not a number of processes", where="--workers", mend="give auto, or 1 to 1000"
            )
        return int(workers)
    import os

    admin = client.admin()
    try:
        topic = admin.topic(client.address.topic)
    finally:
        admin.close()
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(processors, topic.partitions if topic is not None else 1))


def _work(
    count: int, url: str, client: "Client", stop: "threading.Event"
) -> "tuple[Callable[[], Snapshot], Callable[[], None]]":
    """What gives the numbers, and what does the work: here, or in several processes."""
    if count == 1:
        from eventlog.persister.worker import Worker

        worker = Worker(url, client, stop=stop, say=note)
        return lambda: worker.metrics, worker.run
    from eventlog.persister.workers import Workers

    several = Workers(count, url, client.address, say=note)
    return several.metrics, lambda: several.run(stop)


def _begin(count: int, url: str, client: "Client", metrics: str | None) -> None:
    from eventlog.database import masked

    note(
        f"persisting {client.address.place} into {masked(url)}: {count} worker{'s' if count > 1 else ''}, "
        f"{client.library}{f', metrics at {metrics}' if metrics else ''}; Ctrl-C ends it"
    )


@contextmanager
def _stopping() -> "Iterator[threading.Event]":
    """An event that SIGTERM and SIGINT set."""
    import signal
    import threading

    stop = threading.Event()

    def set_it(*_: object) -> None:
        # On a thread: the main one may hold the event's own lock at this moment.
        threading.Thread(target=stop.set).start()

    before = {number: signal.signal(number, set_it) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _teller(snapshot: "Callable[[], Snapshot]", stop: "threading.Event") -> "threading.Thread":
    """A thread that says now and then how far it is, if it got any further."""
    import threading
    import time

    def tell() -> None:
        before, at = 0, time.monotonic()
        while not stop.wait(_TELL_EVERY_S):
            found, now = snapshot(), time.monotonic()
            if found.events > before:
                speed = (found.events - before) / (now - at)
                lag = f", lag {sum(found.lag.values()):,}" if found.lag else ""
                note(f"{found.events:,} events, {speed:,.0f}/s{lag}{_besides(found)}")
            before, at = found.events, now

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    return thread


def _besides(found: "Snapshot") -> str:
    parts = []
    if found.duplicates:
        parts.append(f"{found.duplicates:,} duplicates left out")
    if found.quarantined:
        parts.append(f"{sum(found.quarantined.values()):,} records in quarantine")
    return "".join(f", {part}" for part in parts)
