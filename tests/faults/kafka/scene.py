"""One topic and one ledger, workers and clients: what a scenario acts on, and how it is judged in the end."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, Self

import psycopg

from core.errors import TrajlogError
from core.identity import uuid_bytes
from core.vocabulary import payload
from core.vocabulary.access import RecordsLost
from eventlog import database as postgres
from eventlog.embedded import Embedded
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import Bounds, Client, connect
from eventlog.kafka.partitioner import partition_of
from eventlog.log import Appended
from eventlog.persister import loss
from eventlog.persister.loss import Plan as LossPlan
from eventlog.verify import verify
from tests.broker import Cluster
from tests.databases import Database, Databases
from tests.faults.kafka.clients import Book, Feeder, Flow
from tests.faults.kafka.oracle import Answer, Facts, Lost, Quarantined, Sent, Stored, judge
from tests.faults.kafka.plan import PARTITIONS, Plan
from tests.faults.kafka.workers import Halt, WorkerProcess

PATIENCE_S = 60.0
OPTIONS = "session_timeout_ms=2000&heartbeat_interval_ms=400"
_numbers = itertools.count(1)


class Scene:
    """A scenario at work. `sent`, `gone` and the like: see `oracle.Facts`."""

    def __init__(self, plan: Plan, broker: Cluster, databases: Databases, server: Embedded | None = None) -> None:
        self.plan, self.broker, self.databases = plan, broker, databases
        self._server = server
        self.chance = plan.chance
        self.topic = f"faults-{plan.kind.replace('_', '-')}-{plan.seed}-{next(_numbers)}"
        self.partitions = PARTITIONS
        self.database = databases.fresh("faults")
        self.workers: list[WorkerProcess] = []
        self.answers: list[Appended] = []
        self.gone: set[Sent] = set()
        self.refused: set[bytes] = set()
        self._feeders: list[Feeder] = []
        self._looking: postgres.Connection | None = None
        self.create()
        self.client = connect(KafkaAddress.parse(self.address()))
        self.book = Book(self.topic_id())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for worker in self.workers:
            worker.close()
        for feeder in self._feeders:
            feeder.close()
        self.look_anew()
        with suppress(Exception):
            self.broker.admin.delete_topics([self.topic])
        with suppress(TrajlogError, psycopg.Error):
            self.databases.execute(f"DROP DATABASE {self.database.name} WITH (FORCE)")

    # -- the topic -----------------------------------------------------------------------------------

    def address(self, library: str | None = None) -> str:
        """The log's address with the client library of the plan, or another."""
        return f"{self.broker.address(self.topic)}?client={library or self.plan.library}&{OPTIONS}"

    def create(self) -> None:
        self.broker.create(self.topic, self.partitions, settings={"max.message.bytes": str(32 << 20)})

    def recreate(self) -> None:
        """Delete the topic and make it anew: all that was not taken is gone."""
        self.broker.delete(self.topic)
        self.create()
        self.gone |= set(self.book.sent)
        self.book.next_era(self.topic_id())

    def topic_id(self) -> bytes:
        with closing(self.client.admin()) as admin:
            topic = admin.topic(self.topic)
        assert topic is not None
        return topic.id

    def bounds(self) -> dict[int, Bounds]:
        """The offsets that the broker holds, once it answers."""
        limit = time.monotonic() + PATIENCE_S
        while True:
            try:
                with closing(self.client.admin()) as admin:
                    return admin.bounds(self.topic, range(self.partitions))
            except TrajlogError:
                assert time.monotonic() < limit, "the broker does not answer"
                time.sleep(0.1)

    def home(self, stream: str) -> int:
        return partition_of(stream.encode(), self.partitions)

    def stream_in(self, partition: int) -> str:
        """A stream that lies in a partition."""
        return next(s for s in (f"episode/in-{n}" for n in itertools.count()) if self.home(s) == partition)

    # -- clients -------------------------------------------------------------------------------------

    def feeder(self, library: str | None = None) -> Feeder:
        """A client; its library is the plan's or another."""
        client: Client = connect(KafkaAddress.parse(self.address(library or self._any_library())))
        feeder = Feeder(self.book, client, "client")
        self._feeders.append(feeder)
        return feeder

    @contextmanager
    def feeding(self, events: int | None = None) -> Iterator[Flow]:
        """The plan's clients at work meanwhile; in the end all that they sent is confirmed."""
        feeders = [self.feeder() for _ in range(self.plan.clients)]
        flow = Flow(feeders, self.plan.streams, events or self.plan.events, self.chance)
        try:
            yield flow
        finally:
            flow.end()
        for feeder in feeders:
            self._done_with(feeder)

    def feed(self, events: int | None = None) -> None:
        """The plan's share of events, from one client; until all are confirmed."""
        feeder = self.feeder()
        feeder.write(self.plan.streams, events or self.plan.events, self.chance)
        feeder.flush()
        self._done_with(feeder)

    def _done_with(self, feeder: Feeder) -> None:
        feeder.close()
        self._feeders.remove(feeder)

    def _any_library(self) -> str:
        return self.chance.choice(("kafka-python", "confluent-kafka"))

    # -- workers -------------------------------------------------------------------------------------

    def worker(self, halt: Halt | None = None, url: str | None = None) -> WorkerProcess:
        worker = WorkerProcess(url or self.database.url, self.address(), halt)
        self.workers.append(worker)
        return worker

    def start(self, count: int | None = None) -> list[WorkerProcess]:
        """The plan's workers, or so many."""
        return [self.worker() for _ in range(count or self.plan.workers)]

    def end_workers(self) -> None:
        """SIGTERM to all at once; each drains and ends well."""
        alive = [worker for worker in self.workers if worker.alive]
        for worker in alive:
            worker.terminate()
        for worker in alive:
            worker.end()

    def kill_workers(self) -> None:
        for worker in self.workers:
            if worker.alive:
                worker.kill()

    def heard(self, words: str) -> bool:
        """Whether a worker that is alive said so."""
        return any(worker.alive and worker.heard(words) for worker in self.workers)

    # -- waiting -------------------------------------------------------------------------------------

    def until(self, done: Callable[[], Any], seconds: float = PATIENCE_S, why: str = "") -> None:
        """Until it is so; no worker may end meanwhile that was not meant to."""
        limit = time.monotonic() + seconds
        while not done():
            for worker in self.workers:
                assert not worker.failed, f"a worker ended ({worker.code}): {worker.said}"
            assert time.monotonic() < limit, f"it takes too long {why}: {self.said()}"
            time.sleep(0.02)

    def land(self, seconds: float = PATIENCE_S, partitions: Sequence[int] | None = None) -> None:
        """Until the ledger has taken all that these partitions hold now."""
        bounds = self.bounds()
        ends = {p: bounds[p].end for p in (range(self.partitions) if partitions is None else partitions)}

        def there() -> bool:
            cursors = self.cursors()
            return all(cursors.get(p, 0) >= end for p, end in ends.items())

        self.until(there, seconds, f"to take all up to {ends}")

    def cursors(self) -> dict[int, int]:
        """How far each partition was taken; empty while the database is away."""
        try:
            if self._looking is None:
                self._looking = postgres.connect(self.database.owner, role=None)
            return dict(
                self._looking.execute(
                    "SELECT c.partition, c.next_offset FROM trajlog.ingest_cursor c JOIN trajlog.ingest_topic t "
                    "USING (topic_id) WHERE t.until IS NULL"
                ).fetchall()
            )
        except (psycopg.Error, TrajlogError):
            self.look_anew()
            return {}

    def probe(self, partitions: Sequence[int] | None = None) -> None:
        """An event in each partition, which must come through: nothing else stopped."""
        chosen = range(self.partitions) if partitions is None else partitions
        feeder = self.feeder()
        feeder.send([feeder.event(self.stream_in(partition)) for partition in chosen])
        feeder.flush()
        self._done_with(feeder)
        self.land(partitions=chosen)

    def said(self) -> str:
        cursors = self.cursors()
        return f"{self.plan}; cursors {cursors}; " + "; ".join(
            f"worker {n} ({'alive' if worker.alive else worker.code}, {worker.commits} commits): {worker.said}"
            for n, worker in enumerate(self.workers, 1)
        )

    def look_anew(self) -> None:
        """Forget the connection: the database may be another one."""
        if self._looking is not None:
            with suppress(psycopg.Error):
                self._looking.close()
            self._looking = None

    # -- the database --------------------------------------------------------------------------------

    @property
    def server(self) -> Embedded:
        """The Postgres that this scenario may stop."""
        assert self._server is not None
        return self._server

    def copy_database(self) -> Database:
        """An older copy, for later; nobody may be connected."""
        self.look_anew()
        return self.databases.copy(self.database)

    def replace_database(self, older: Database) -> None:
        """Put an older copy in the ledger's place, under whoever uses it."""
        self.look_anew()
        name = self.database.name
        self.databases.execute(
            f"ALTER DATABASE {name} ALLOW_CONNECTIONS false",
            f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'",
            f"ALTER DATABASE {name} RENAME TO {name}_gone",
            f"ALTER DATABASE {older.name} RENAME TO {name}",
            f"DROP DATABASE {name}_gone",
        )

    def cut_connections(self) -> None:
        """pg_terminate_backend for each worker."""
        self.databases.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            f"WHERE application_name = 'trajlog persist' AND datname = '{self.database.name}'"
        )

    def accept(self) -> LossPlan:
        """What `trajlog kafka accept` does."""
        with postgres.connect(self.database.url) as connection:
            plan = loss.plan(connection, self.client)
            loss.accept(connection, plan)
        return plan

    # -- the verdict ---------------------------------------------------------------------------------

    def judge(self, database: Database | None = None) -> None:
        """Fail if anything is not as promised."""
        problems = judge(self._facts(database or self.database))
        assert not problems, "\n".join([str(self.plan), *problems[:20], self.said()])

    def _facts(self, database: Database) -> Facts:
        with database.ledger() as log:
            log.seal()
            events = list(log.read_all())
            report = verify(log.reader)
            losses = [payload(event) for event in events if event.type == "RecordsLost"]
        with postgres.connect(database.owner, role=None) as connection:
            held = connection.execute(
                "SELECT uuid_send(topic_id), partition, offset_, reason, detail, uuid_send(event_id) "
                "FROM trajlog.quarantine",
                binary=True,
            ).fetchall()
        return Facts(
            self.book.sent,
            [Stored(e.position, e.stream, e.version, e.event_id, e.digest) for e in events],
            [Quarantined(*row) for row in held],
            report,
            [
                Lost(uuid_bytes(each.topic_id), each.partition, each.first_offset, each.next_offset)
                for each in losses
                if isinstance(each, RecordsLost)
            ],
            self.book.orders,
            [Answer(a.event_id, a.stream, a.version, a.position) for a in self.answers],
            self.book.unconfirmed,
            self.refused,
            self.gone,
        )
