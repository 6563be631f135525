"""The ledger's own promises, beyond the contract: segments, durability, connections, errors."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from core.digest import segment_seal
from core.errors import (
    BadEvent,
    NotFound,
    SchemaMismatch,
    TrajlogError,
    Unavailable,
    UsageError,
    WrongExpectedVersion,
)
from core.event import Event, StoredEvent
from core.identity import uuid7
from eventlog import database as databases_module
from eventlog import reader as reader_module
from eventlog.ledger import Ledger
from eventlog.reader import Reader
from eventlog.testing import an_event
from tests.databases import Database, Databases

Rows = list[tuple[Any, ...]]


def rows(log: Ledger, query: str, *params: object) -> Rows:
    with log.reader.borrow() as connection:
        return connection.execute(query, params or None, binary=True).fetchall()


def ids(events: Iterator[StoredEvent]) -> list[bytes]:
    return [event.event_id for event in events]


# -- segments ---------------------------------------------------------------------------------------


def test_every_commit_is_a_sealed_segment_chained_to_the_one_before(ledger: Ledger) -> None:
    ledger.append(an_event("a"))
    ledger.append_many([an_event("a"), an_event("b")])
    ledger.append(an_event("b"))
    found = rows(
        ledger,
        "SELECT first_position, last_position, committed_at, previous, seal FROM trajlog.segment ORDER BY 2",
    )
    assert [(first, last) for first, last, *_ in found] == [(1, 1), (2, 3), (4, 4)]
    previous = None
    for first, last, committed_at, before, seal in found:
        assert before == previous
        previous = segment_seal(previous=before, first_position=first, last_position=last, committed_at=committed_at)
        assert seal == previous
    assert ledger.head().seal == previous


def test_a_stepped_clock_gives_no_time_that_runs_backwards(ledger: Ledger, database: Database) -> None:
    ledger.append(an_event("a"))
    ahead = datetime.now(UTC) + timedelta(days=400)
    with database.tampering() as connection:
        connection.execute("UPDATE trajlog.segment SET committed_at = %s", (ahead,))
    before = ledger.head().committed_at or 0
    ledger.append(an_event("a"))
    ledger.append_many([an_event("a")])
    assert ledger.head().committed_at == before + 2


def test_stream_heads_follow(ledger: Ledger) -> None:
    ledger.append_many([an_event("a"), an_event("b"), an_event("a")])
    ledger.append(an_event("a"))
    ledger.append_many([an_event("b"), an_event("c")])
    found = rows(ledger, "SELECT stream, version, first_position, last_position FROM trajlog.stream ORDER BY 1")
    assert found == [("a", 3, 1, 4), ("b", 2, 2, 5), ("c", 1, 6, 6)]


# -- writing ----------------------------------------------------------------------------------------


def test_any_number_of_events_is_appended_a_batch_a_segment(ledger: Ledger) -> None:
    events = [an_event(f"s/{i % 3}") for i in range(25)]
    answers = list(ledger.append_all(iter(events), batch=10))
    assert [len(batch) for batch in answers] == [10, 10, 5]
    assert ids(ledger.read_all()) == [event.event_id for event in events]
    assert rows(ledger, "SELECT count(*) FROM trajlog.segment") == [(3,)]


def test_a_bad_event_late_in_a_row_of_batches_leaves_the_answers_of_the_earlier(ledger: Ledger) -> None:
    events = [*(an_event("a") for _ in range(15)), an_event(""), an_event("a")]
    answered = []
    with pytest.raises(BadEvent):
        for batch in ledger.append_all(events, batch=5):
            answered += batch
    assert len(answered) == ledger.head().position == 15


def test_many_events_that_are_known_are_dropped_at_once(ledger: Ledger) -> None:
    events = [an_event("a") for _ in range(3_000)]
    ledger.append_many(events[::2])
    answers = ledger.append_many(events)
    assert [answer.duplicate for answer in answers] == [True, False] * 1_500
    assert ledger.head().position == 3_000


def test_two_writers_of_the_same_events_store_them_once(ledger: Ledger, database: Database) -> None:
    events = [an_event(f"s/{i % 5}") for i in range(400)]

    def write() -> None:
        with database.ledger() as log:
            for start in range(0, 400, 20):
                log.append_many(events[start : start + 20])
                log.append(events[start])

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ids(ledger.read_all())) == sorted(event.event_id for event in events)


def test_a_race_for_one_version_has_one_winner(ledger: Ledger, database: Database) -> None:
    won: list[int] = []

    def write() -> None:
        with database.ledger() as log:
            for expected in range(20):
                try:
                    won.append(log.append(an_event("a", expected_version=expected)).version)
                except WrongExpectedVersion:
                    continue

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == list(range(1, len(won) + 1))
    assert len(won) == ledger.stream_head("a") >= 20


def test_what_is_returned_is_durable_whatever_the_database_defaults_to(databases: Databases) -> None:
    lax = databases.fresh()
    databases.execute(
        f"ALTER DATABASE {lax.name} SET synchronous_commit = off",
        f"ALTER DATABASE {lax.name} SET default_transaction_isolation = 'serializable'",
        f"ALTER DATABASE {lax.name} SET statement_timeout = '1s'",
    )
    with lax.ledger() as log:
        log.append_many([an_event("a") for _ in range(500)])
        connection = log._writer()
        shown = [
            connection.execute(f"SHOW {name}").fetchone()
            for name in ("synchronous_commit", "transaction_isolation", "statement_timeout")
        ]
    assert shown == [("on",), ("read committed",), ("0",)]


def test_heads_that_disagree_with_events_stop_the_writer_and_name_the_way(ledger: Ledger, database: Database) -> None:
    ledger.append_many([an_event("a"), an_event("a")])
    with database.tampering() as connection:
        connection.execute("UPDATE trajlog.stream SET version = 1")
    for send in (ledger.append, lambda event: ledger.append_many([event])):
        with pytest.raises(TrajlogError, match=r"disagree.*trajlog verify"):
            send(an_event("a"))
        assert ledger.head().position == 2


# -- connections ------------------------------------------------------------------------------------


def terminate(database: Database, keep: str = "") -> int:
    """End every connection to the database but those of the pid in `keep`."""
    with databases_module.connect(database.owner, role=None) as connection:
        found = connection.execute(
            "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid()"
        ).fetchone()
    assert found is not None
    return int(found[0])


def test_a_broken_connection_is_replaced_and_the_work_done_once(ledger: Ledger, database: Database) -> None:
    ledger.append(an_event("a"))
    assert terminate(database) >= 1
    assert ledger.append(an_event("a")).position == 2
    terminate(database)
    assert [answer.position for answer in ledger.append_many([an_event("a"), an_event("b")])] == [3, 4]
    terminate(database)
    assert len(list(ledger.read_all())) == 4
    terminate(database)
    assert ledger.head().position == 4


def test_a_commit_whose_answer_was_lost_is_found_again(
    ledger: Ledger, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks after the commit and before the client hears of it."""
    from eventlog import commit as module

    def deaf(work: Callable[..., Any]) -> Callable[..., Any]:
        lost: list[bool] = []

        def once(connection: databases_module.Connection, *args: Any, **kwargs: Any) -> Any:
            answer = work(connection, *args, **kwargs)
            if not lost:
                lost.append(True)
                terminate(database)
                connection.execute("SELECT 1")
            return answer

        return once

    monkeypatch.setattr(module, "append_one", deaf(module.append_one))
    monkeypatch.setattr(module, "commit_batch", deaf(module.commit_batch))
    one = ledger.append(an_event("a", expected_version=0))
    assert (one.position, one.version) == (1, 1)
    batch = [an_event("a", expected_version=1), an_event("b", expected_version=0)]
    assert [(a.position, a.version) for a in ledger.append_many(batch)] == [(2, 2), (3, 1)]
    assert ledger.head().position == 3


@pytest.mark.parametrize("moment", ["versions_of", "_move_heads"])
def test_an_interrupt_in_the_middle_of_a_commit_leaves_nothing_behind(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    from eventlog import commit as module

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    events = [an_event("a"), an_event("b")]
    with monkeypatch.context() as patch:
        patch.setattr(module, moment, interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.append_many(events)
    assert ledger.head().position == 0
    assert not any(answer.duplicate for answer in ledger.append_many(events))


def test_an_interrupt_inside_copy_leaves_nothing_behind(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    events = [an_event("a"), an_event("b")]
    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Copy, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.append_many(events)
    assert ledger.head().position == 0
    assert not any(answer.duplicate for answer in ledger.append_many(events))


def test_a_connection_left_inside_a_transaction_is_not_written_on(ledger: Ledger) -> None:
    ledger.append(an_event("a"))
    connection = ledger._writer()
    connection.execute("BEGIN")
    assert ledger.append(an_event("a")).position == 2
    assert connection.closed
    assert ledger.head().position == 2


def test_a_closed_ledger_leaves_no_connection(database: Database) -> None:
    database.empty()
    with database.ledger() as log:
        log.append(an_event("a"))
        list(log.read_all())
        next(log.follow(after=0))
    for _ in range(100):
        with databases_module.connect(database.owner, role=None) as connection:
            query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            if connection.execute(query).fetchone() == (1,):
                return
        time.sleep(0.05)
    raise AssertionError("a connection stayed")


def test_a_reader_that_stops_halfway_keeps_no_connection_busy(ledger: Ledger) -> None:
    ledger.append_many([an_event("a") for _ in range(500)])
    for _ in range(20):
        next(ledger.read_all())
        next(ledger.read("a"))
    assert rows(
        ledger, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state <> 'idle'"
    ) == [(1,)]


def test_a_forked_process_has_connections_of_its_own(ledger: Ledger) -> None:
    ledger.append(an_event("a"))
    ledger.head()
    servers = [_server(ledger)]
    pipes = []
    for _ in range(2):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                ledger.append(an_event("child"))
                os.write(writing, str(_server(ledger)).encode())
            finally:
                os._exit(0)
        os.close(writing)
        pipes.append((pid, reading))
    ledger.append(an_event("a"))
    for pid, reading in pipes:
        with os.fdopen(reading) as file:
            servers.append(int(file.read()))
        os.waitpid(pid, 0)
    assert len(set(servers)) == 3
    assert (ledger.stream_head("a"), ledger.stream_head("child")) == (2, 2)
    assert _server(ledger) == servers[0], "a child closed its parent's connection"


def _server(ledger: Ledger) -> int:
    """The process that serves the idle connection."""
    with ledger.reader.borrow() as connection:
        return connection.info.backend_pid


# -- pages ------------------------------------------------------------------------------------------


def test_pages_are_bounded_in_bytes_when_large_events_follow_small_ones(ledger: Ledger) -> None:
    small = [an_event("a") for _ in range(2_000)]
    large = [an_event("a", body=b'{"x":"' + b"y" * 900_000 + b'"}') for _ in range(60)]
    ledger.append_many(small)
    ledger.append_many(large)
    ledger.append_many([an_event("a") for _ in range(100)])
    pages = [sum(len(event.body) for event in page) for page in ledger.reader.pages(after=0, until=2_160)]
    assert sum(pages) == sum(len(event.body) for event in ledger.read("a"))
    assert max(pages) < 4 * reader_module._PAGE_BYTES
    raw = [sum(len(row[17]) for row in page) for page in ledger.reader.raw_stream("a", until=2_160)]
    assert sum(raw) == sum(pages)
    assert max(raw) < 2 * reader_module._PAGE_BYTES


def test_a_page_reads_only_its_own_segments(ledger: Ledger) -> None:
    """Cost: a log of single appends must not be read in quadratic time."""
    for start in range(0, 600, 2):
        ledger.append_many([an_event("a", seq=start + 1), an_event("b", seq=start + 2)])
    plan = rows(
        ledger,
        "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) " + reader_module._SEGMENTS,
        100,
        119,
    )
    scanned = [line for (line,) in plan if "segment" in line and "rows=" in line]
    assert scanned
    assert all("rows=1 " in line or "rows=11" in line or "rows=1." in line or "rows=11." in line for line in scanned)


# -- opening ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("@/", "wrong password or user"),
        ("/test", "does not exist"),
        ("host=", "cannot be used"),
    ],
)
def test_what_cannot_be_opened_is_one_line(database: Database, change: str, message: str) -> None:
    new = {"@/": "x@/", "/test": "/none_such", "host=": "host=/nowhere"}[change]
    with pytest.raises(Unavailable, match=message) as caught:
        Ledger(database.url.replace(change, new))
    assert caught.value.exit_code == 4
    assert "\n" not in str(caught.value)
    password = database.url.split(":")[2].split("@")[0]
    assert password not in str(caught.value)


def test_what_is_no_address_is_said(database: Database) -> None:
    with pytest.raises(UsageError, match="not a Postgres URL"):
        Ledger("postgresql://[")
    with pytest.raises(UsageError, match="not a Postgres URL"):
        Ledger("nonsense")
    assert database.name


def test_a_database_without_a_log_is_said(databases: Databases) -> None:
    with pytest.raises(SchemaMismatch, match="run: trajlog init"):
        databases.bare().ledger()


def test_a_log_without_identity_is_said(databases: Databases) -> None:
    made = databases.fresh()
    with made.tampering() as connection:
        connection.execute("DELETE FROM trajlog.log")
    with pytest.raises(NotFound, match="no identity"):
        made.ledger()


def test_each_log_has_an_identity_of_its_own(databases: Databases) -> None:
    bare = databases.bare()
    from eventlog import schema

    schema.upgrade(bare.owner)
    with bare.ledger() as one, databases.fresh().ledger() as other:
        assert one.log_id != other.log_id
        with bare.ledger() as again:
            assert again.log_id == one.log_id


def test_a_reader_needs_no_ledger(ledger: Ledger, database: Database) -> None:
    event: Event = an_event("a")
    ledger.append(event)
    reader = Reader(database.url)
    (page,) = reader.pages(after=0, until=9)
    assert page[0].event_id == event.event_id
    assert replace(page[0], committed_at=0) == replace(next(ledger.read("a")), committed_at=0)
    assert uuid7() > event.event_id
    reader.close()
