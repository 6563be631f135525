"""Folds made for tests, and what tables ought to hold."""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from core.event import Event, StoredEvent
from core.vocabulary.contract import Finished, ToolResult, Verification
from core.vocabulary.episode import (
    EpisodeEnded,
    EpisodeRetracted,
    EpisodeStarted,
    FeedbackRecorded,
    NoteAdded,
    VerificationRecorded,
)
from eventlog.database import Connection
from eventlog.ledger import Ledger
from eventlog.projection import AnyProjection, Column, Projection, Row, Source, View, fold, relation, table
from eventlog.projection.rows import read_back
from eventlog.writer import Writer
from tests.eventlog import samples


def fill(log: Ledger, *names: str, **options: Any) -> None:
    for name in names:
        log.append_many(samples.events(f"episode/{name}", samples.episode(**options)))


def rows(connection: Connection, projection: AnyProjection, relation: str = "") -> list[Row]:
    """The table's rows, times as µs."""
    chosen = ", ".join(f'"{column.name}"' for column in projection.columns)
    query = f"SELECT {chosen} FROM {relation or table(projection)}"
    return sorted(connection.execute(query, binary=True).fetchall(), key=repr)


def read(connection: Connection, projection: AnyProjection) -> list[Row]:
    """The rows that a reader is given."""
    return rows(connection, projection, relation(projection))


def folded(log: Ledger, projection: Projection, until: int | None = None) -> list[Row]:
    """What the events give, up to a position."""
    return sorted([read_back(row) for row in fold(projection, log.read_all(until=until))], key=repr)


class Counter:
    """A fold for tests: how many events a stream has. It fails at the types in `broken`."""

    name = "counter"
    version = 1
    prefix = "episode/"
    key = ("stream",)
    columns: tuple[Column, ...] = (Column("stream"), Column("events", "bigint"), Column("last"))
    indexes = ("events",)
    broken: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.applied = 0

    def initial(self, stream: str) -> list[Any]:
        return [stream.removeprefix("episode/"), 0, None]

    def apply(self, state: list[Any], event: StoredEvent) -> list[Any]:
        self.applied += 1
        state[1] += 1
        if event.type in self.broken:
            raise RuntimeError("private text")
        return [state[0], state[1], event.type]

    def rows(self, state: list[Any], after: int) -> Iterable[Row]:
        yield tuple(state)

    def dump(self, state: list[Any]) -> bytes:
        return repr(state).encode()

    def load(self, data: bytes) -> Any:
        return eval(data)


class ByLast:
    """A second stage for tests: streams by the type of their last event, so that they move from key to key."""

    name = "by_last"
    version = 1
    reads: tuple[Source, ...] = (Source(View("counter", 1, "episode/"), ("last",)),)
    query = "SELECT last, count(*) AS streams, sum(events)::bigint AS events FROM {counter} AS c GROUP BY last"
    key = ("last",)
    columns: tuple[Column, ...] = (Column("last"), Column("streams", "bigint"), Column("events", "bigint"))
    indexes = ()

    def rows(self, key: Row, group: Sequence[Row]) -> Iterable[Row]:
        yield from group


def random_log(seed: int, streams: int = 24) -> Iterator[list[Event]]:
    """Commits of a log in which everything happens: interleaved episodes of several tasks, policies and
    groups, late and superseded verdicts, retractions, notes before the start, events that no fold can
    take, other streams."""
    chance = random.Random(seed)
    writer = Writer("test")
    waiting = [_episode(chance, i) for i in range(streams)]
    batch: list[Event] = []
    while waiting:
        at = chance.randrange(min(len(waiting), 6))
        stream, payloads = waiting[at]
        for payload in payloads[: chance.randrange(1, 5)]:
            if isinstance(payload, bytes):
                batch.append(writer.raw(stream, "ModelResponded", payload))
            else:
                batch.append(writer.event(stream, payload, occurred_at=samples.START + chance.randrange(10**9)))
            payloads.remove(payload)
        if not payloads:
            waiting.pop(at)
        if chance.random() < 0.1:
            batch.append(writer.event("import/x", NoteAdded("elsewhere")))
        if chance.random() < 0.4:
            yield batch
            batch = []
    if batch:
        yield batch


def _episode(chance: random.Random, number: int) -> tuple[str, list[Any]]:
    task = chance.choice(["alarm", "timer", "mail", None])
    payloads: list[Any] = [NoteAdded("early")] if chance.random() < 0.2 else []
    payloads.append(
        EpisodeStarted(
            task=task,
            policy=chance.choice(["p1", "p2", None]),
            group=chance.choice(["g1", "g2", None]),
            split=chance.choice(["train", "dev"]),
        )
    )
    for step in range(1, chance.randrange(2, 6)):
        tool = f"tool_{chance.randrange(4)}"
        payloads.append(samples.turn(step, tokens=chance.choice([None, (100, step)])))
        payloads.append(samples.call(step, tool, f"c{step}"))
        if chance.random() < 0.3:
            payloads.append(samples.failed(step, chance.choice(["timeout", "schema"]), call_id=f"c{step}"))
        else:
            result = ToolResult(value=samples.raw(1))
            payloads.append(FeedbackRecorded(step, result, f"c{step}", latency_ms=chance.choice([None, 3.7, 1200.5])))
    if chance.random() < 0.15:
        payloads.append(b'{"step":"none"}')
    payloads.append(EpisodeEnded(end=Finished()))
    for _ in range(chance.randrange(4)):
        verdict = chance.choice(["pass", "fail", "inconclusive"])
        source = chance.choice(["machine", "machine", "human"])
        verification = Verification(verdict=verdict, reward=chance.choice([None, 0.5]))  # type: ignore[arg-type]
        supersedes = chance.choice([None, 9])
        payloads.append(VerificationRecorded(verification, source, None, supersedes))  # type: ignore[arg-type]
    if chance.random() < 0.15:
        payloads.append(EpisodeRetracted("i1"))
    return f"episode/e{number:02}", payloads
