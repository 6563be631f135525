"""A log to damage, and verification inside the transaction that damaged it, so that nothing stays."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from core.event import Event
from core.identity import uuid7
from eventlog import database
from eventlog.ledger import Ledger
from eventlog.reader import Reader
from eventlog.testing import an_event
from eventlog.verify import Report, verify, verify_stream
from eventlog.verify.references import Blobs
from tests.databases import Database

HEAD = 620
TILED = 512
STREAMS = 40


def events(count: int = HEAD, *, streams: int = STREAMS) -> Iterator[Event]:
    """Events of streams that overlap, by two runs, numbered as writers do; some with every field."""
    chosen = random.Random(7)
    runs = [uuid7(), uuid7()]
    seqs: dict[tuple[str, bytes], int] = {}
    for i in range(count):
        first = max(0, i * streams // count - 3)
        stream = f"episode/{chosen.randrange(first, first + 6):04d}"
        run = runs[chosen.random() < 0.2]
        seqs[stream, run] = seq = seqs.get((stream, run), 0) + 1
        full = i % 3 == 0
        yield an_event(
            stream,
            run=run,
            seq=seq,
            writer=f"writer-{chosen.randrange(3)}",
            body=b'{"text":"%d"}' % i,
            occurred_at=1_700_000_000_000_000 + i if full else None,
            actor="planner" if full else None,
            causation_id=uuid7() if full else None,
            correlation_id=stream if full else None,
            conversation="conversation" if full else None,
        )


def fill(log: Ledger, source: Iterator[Event]) -> None:
    """Commit them in segments of all sizes, and seal what is full."""
    chosen = random.Random(3)
    while batch := list(islice(source, chosen.choice([1, 1, 2, 7, 20, 60]))):
        log.append_many(batch)
    log.seal()


class Inside(Reader):
    """Reads on one connection, in its open transaction."""

    def __init__(self, connection: database.Connection) -> None:
        super().__init__("postgresql://")
        self._given = connection

    @contextmanager
    def borrow(self) -> Iterator[database.Connection]:
        yield self._given


class Damaged:
    """A log in a transaction that will be rolled back."""

    def __init__(self, connection: database.Connection) -> None:
        self.connection = connection

    def do(self, *statements: str) -> int:
        """Change what is stored; the number of rows that the last statement changed."""
        count = 0
        for statement in statements:
            count = self.connection.execute(statement).rowcount
        return count

    def row(self, query: str) -> tuple[int, ...]:
        """One row of numbers."""
        found = self.connection.execute(query).fetchone()
        assert found is not None
        return found

    def verify(self, *, since: int = 0, blobs: Blobs | None = None) -> Report:
        return verify(Inside(self.connection), since=since, blobs=blobs)

    def verify_stream(self, stream: str) -> Report:
        return verify_stream(Inside(self.connection), stream)

    def found(self, *, since: int = 0) -> list[tuple[str, int | None]]:
        """Kind and position of every problem."""
        return [(problem.kind, problem.position) for problem in self.verify(since=since).problems]


@contextmanager
def damaging(at: Database) -> Iterator[Damaged]:
    """The owner's connection, triggers and constraints off, rolled back at the end."""
    with database.connect(at.owner, role=None, autocommit=False) as connection:
        connection.execute("SET LOCAL session_replication_role = replica")
        yield Damaged(connection)
        connection.rollback()
