"""Appending: batches against bare COPY of the same bytes, single events against bare INSERT + commit."""

import random
from itertools import islice

from core.digest import event_digest
from core.event import Event
from eventlog import database
from eventlog.commit import parameters
from eventlog.embedded import Embedded
from eventlog.ledger import Ledger
from eventlog.pack import COLUMNS, HEADER, TRAILER, crc, pack
from tests.bench.harness import Row, episodes, fresh, row, seconds, server

BATCH = 10_000
BATCHES = 20
SINGLES = 1_000
ROUNDS = 5
_COPY = f"COPY trajlog.event ({COLUMNS}) FROM STDIN (FORMAT binary)"


def run() -> list[Row]:
    """Rows `append.batch` (events/s) and `append.single` (events/s)."""
    with server() as embedded:
        return [_batch(embedded), _single(embedded)]


def _batch(embedded: Embedded) -> Row:
    events = list(episodes(BATCH * BATCHES))
    batches = [events[i : i + BATCH] for i in range(0, len(events), BATCH)]
    ours, limit = [], []
    for turn in range(ROUNDS):
        url, owner = fresh(embedded, f"copy{turn}")
        limit.append(len(events) / bare_copy(owner, batches))
        url, _ = fresh(embedded, f"append{turn}")
        with Ledger(url) as log:
            ours.append(len(events) / seconds(lambda: list(log.append_all(events, batch=BATCH))))
    return row("append.batch", ours, limit, "events/s")


def bare_copy(owner: str, batches: list[list[Event]]) -> float:
    packed = []
    position = 1
    for batch in batches:
        one = pack(batch)
        one.patch(position, [event.seq for event in batch])
        packed.append(bytes(one.rows))
        position += len(batch)
    with database.connect(owner, role=None) as connection:

        def copy() -> None:
            for rows in packed:
                with connection.cursor().copy(_COPY) as out:
                    out.write(HEADER)
                    out.write(rows)
                    out.write(TRAILER)

        return seconds(copy)


_INSERT = f"INSERT INTO trajlog.event ({COLUMNS}) VALUES ({', '.join(['%b'] * 19)})"


def _insert(connection: database.Connection, event: Event, position: int) -> None:
    """The same row as `append` writes, and nothing else, committed."""
    event_id, run, seq, schema, digest, _, *rest = parameters(event, event_digest(event))
    row = (position + 1, position + 1, event_id, run, seq, schema, digest, crc(event.body), *rest[:-1])
    connection.execute(_INSERT, row, prepare=True)


def _append_each(log: Ledger, events: list[Event]) -> None:
    for event in events:
        log.append(event)


def _insert_each(connection: database.Connection, events: list[Event], position: int) -> None:
    for i, event in enumerate(events):
        _insert(connection, event, position + i)


def _single(embedded: Embedded) -> Row:
    events = list(episodes(SINGLES * ROUNDS))
    random.Random(2).shuffle(events)
    url, _ = fresh(embedded, "single")
    _, owner = fresh(embedded, "insert")
    ours, limit = [], []
    source = iter(events)
    with Ledger(url) as log, database.connect(owner, role=None) as connection:
        position = 0
        for _ in range(ROUNDS):
            some = list(islice(source, SINGLES))
            ours.append(SINGLES / seconds(_append_each, log, some))
            limit.append(SINGLES / seconds(_insert_each, connection, some, position))
            position += SINGLES
    return row("append.single", ours, limit, "events/s")
