"""What tests of the persister do: send records, run workers, look at what came of it."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, Self

from core.codec import encode
from core.event import Event
from core.vocabulary import payload
from core.vocabulary.access import RecordsLost
from eventlog import database as postgres
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import Client, Sent, connect
from eventlog.kafka.partitioner import partition_of
from eventlog.persister import loss
from eventlog.persister.loss import Plan
from eventlog.persister.metrics import Snapshot
from eventlog.persister.worker import Worker
from eventlog.verify import verify
from tests.broker import Cluster
from tests.databases import Database

PARTITIONS = 3


class Running:
    """A worker on a thread of its own."""

    def __init__(self, url: str, client: Client, **options: Any) -> None:
        self.said: list[str] = []
        self.error: BaseException | None = None
        self.stop = threading.Event()
        self.worker = Worker(url, client, stop=self.stop, say=self.said.append, **options)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def metrics(self) -> Snapshot:
        return self.worker.metrics

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def end(self, timeout_s: float = 30) -> None:
        self.stop.set()
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), self.said
        if self.error is not None:
            raise self.error

    def heard(self, words: str) -> bool:
        return any(words in line for line in self.said)

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as error:
            self.error = error


class Workbench:
    """One topic and one ledger."""

    def __init__(
        self, broker: Cluster, database: Database, topic: str, library: str, partitions: int = PARTITIONS
    ) -> None:
        self.broker, self.database, self.topic, self.partitions = broker, database, topic, partitions
        self.create()
        self.client = connect(KafkaAddress.parse(broker.address(topic), {"client": library}))
        self._sender = self.client.sender()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._sender.close(1)

    def create(self) -> None:
        """Make the topic; it takes records of 32 MB, for tests of what is too large."""
        self.broker.create(self.topic, self.partitions, settings={"max.message.bytes": str(32 << 20)})

    # -- sending -----------------------------------------------------------------------------------

    def send(self, events: Sequence[Event]) -> list[Sent]:
        """Send events as a producer does; where each lies."""
        return self.send_raw([(event.stream.encode(), encode(event)) for event in events])

    def send_raw(self, records: Sequence[tuple[bytes, bytes]]) -> list[Sent]:
        """Send any bytes, each to where its key belongs."""
        fates: list[Any] = [None] * len(records)
        for place, (key, value) in enumerate(records):
            self._sender.send(key, value, done=partial(fates.__setitem__, place))
        self._sender.flush(60)
        assert all(isinstance(fate, Sent) for fate in fates), fates
        return fates

    def recreate(self) -> None:
        """Delete the topic and make it anew."""
        self.broker.delete(self.topic)
        self.create()
        self.new_sender()

    def plan(self) -> Plan:
        """What `kafka accept` would show."""
        with postgres.connect(self.database.url) as connection:
            return loss.plan(connection, self.client)

    def accept(self) -> Plan:
        """Go on without what is lost."""
        with postgres.connect(self.database.url) as connection:
            plan = loss.plan(connection, self.client)
            loss.accept(connection, plan)
        return plan

    def new_sender(self) -> None:
        """Forget what the sender knows of the topic."""
        self._sender.close(1)
        self._sender = self.client.sender()

    def put(self, key: bytes | None, value: bytes | None, partition: int | None = None) -> None:
        """Send what no producer of ours would."""
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=self.broker.bootstrap, max_request_size=64 << 20)
        producer.send(self.topic, key=key, value=value, partition=partition).get(60)
        producer.close()

    def partition(self, stream: str) -> int:
        return partition_of(stream.encode(), self.partitions)

    # -- running -----------------------------------------------------------------------------------

    def start(self, **options: Any) -> Running:
        """A worker; end it."""
        return Running(options.pop("url", self.database.url), options.pop("client", self.client), **options)

    @contextmanager
    def running(self, **options: Any) -> Iterator[Running]:
        worker = self.start(**options)
        try:
            yield worker
        finally:
            worker.end()

    def drained(self, worker: Running, seconds: float = 40) -> None:
        """Wait until the worker has taken all that the topic holds."""
        with closing(self.client.admin()) as admin:
            ends = admin.bounds(self.topic, range(self.partitions))
        self.until(lambda: all(self.cursors().get(p, 0) >= bounds.end for p, bounds in ends.items()), worker, seconds)

    def until(self, done: Callable[[], Any], worker: Running | None = None, seconds: float = 40) -> None:
        limit = time.monotonic() + seconds
        while not done():
            assert worker is None or worker.alive, (worker.error, worker.said)
            assert time.monotonic() < limit, worker.said if worker else "it took too long"
            time.sleep(0.02)

    # -- looking -----------------------------------------------------------------------------------

    def rows(self, query: str, *params: object) -> list[tuple[Any, ...]]:
        with postgres.connect(self.database.owner, role=None) as connection:
            return connection.execute(query, params, binary=True).fetchall()

    def cursors(self) -> dict[int, int]:
        return dict(
            self.rows(
                "SELECT c.partition, c.next_offset FROM trajlog.ingest_cursor c JOIN trajlog.ingest_topic t "
                "USING (topic_id) WHERE t.until IS NULL"
            )
        )

    def events(self) -> list[Event]:
        with self.database.ledger() as log:
            return list(log.read_all())

    def ids(self) -> list[bytes]:
        """Ids of the events that came through Kafka."""
        return [event.event_id for event in self.events() if not event.stream.startswith("kafka/")]

    def lost(self) -> list[RecordsLost]:
        """What the log says was lost."""
        found = [payload(event) for event in self.events() if event.type == "RecordsLost"]
        return [each for each in found if isinstance(each, RecordsLost)]

    def quarantined(self) -> list[tuple[str, str]]:
        """(reason, detail) of all, by partition and offset."""
        return self.rows("SELECT reason, detail FROM trajlog.quarantine ORDER BY topic_id, partition, offset_")

    def whole(self) -> None:
        """The ledger passes `verify`."""
        with self.database.ledger() as log:
            report = verify(log.reader)
        assert report.ok, report
