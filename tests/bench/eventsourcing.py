"""The same events through the `eventsourcing` package, on the same server: how many times faster are we?"""

from itertools import islice
from uuid import UUID, uuid4

from eventsourcing.persistence import StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore
from psycopg.conninfo import conninfo_to_dict

from core.event import Event
from eventlog.ledger import Ledger
from tests.bench.harness import Row, episodes, fresh, row, seconds, server

SINGLES = 500
BATCH = 27
BATCHES = 100
ROUNDS = 3


def run() -> list[Row]:
    """Rows `append.single.eventsourcing` and `append.batch27.eventsourcing` (events/s; the ratio is the factor)."""
    with server() as embedded:
        url, _ = fresh(embedded, "ours")
        _, owner = fresh(embedded, "theirs")
        found = conninfo_to_dict(owner)
        store = PostgresDatastore(
            dbname=str(found["dbname"]),
            host=str(found["host"]),
            port=str(found.get("port") or 5432),
            user=str(found["user"]),
            password=str(found["password"]),
        )
        recorder = PostgresApplicationRecorder(store, events_table_name="stored_events")
        recorder.create_table()
        streams: dict[str, UUID] = {}
        source = episodes((SINGLES + BATCH * BATCHES) * ROUNDS)
        single: tuple[list[float], list[float]] = ([], [])
        batch: tuple[list[float], list[float]] = ([], [])
        with Ledger(url) as log:
            for _ in range(ROUNDS):
                events = list(islice(source, SINGLES))
                single[0].append(SINGLES / seconds(_each, log, events))
                single[1].append(SINGLES / seconds(_record, recorder, [[_theirs(event, streams)] for event in events]))
                batches = [list(islice(source, BATCH)) for _ in range(BATCHES)]
                theirs = [[_theirs(event, streams) for event in some] for some in batches]
                batch[0].append(BATCH * BATCHES / seconds(_many, log, batches))
                batch[1].append(BATCH * BATCHES / seconds(_record, recorder, theirs))
        store.close()
        return [
            row("append.single.eventsourcing", *single, "events/s"),
            row("append.batch27.eventsourcing", *batch, "events/s"),
        ]


def _theirs(event: Event, streams: dict[str, UUID]) -> StoredEvent:
    return StoredEvent(streams.setdefault(event.stream, uuid4()), event.seq, event.type, event.body)


def _each(log: Ledger, events: list[Event]) -> None:
    for event in events:
        log.append(event)


def _many(log: Ledger, batches: list[list[Event]]) -> None:
    for events in batches:
        log.append_many(events)


def _record(recorder: PostgresApplicationRecorder, batches: list[list[StoredEvent]]) -> None:
    for events in batches:
        recorder.insert_events(events)
