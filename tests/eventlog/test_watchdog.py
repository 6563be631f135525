"""The watchdog ends a writer that stands still inside COPY, and nobody else."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import psycopg
import pytest

from eventlog import database as databases_module
from eventlog.commit import COPY, LOCK
from eventlog.pack import HEADER, pack
from eventlog.testing import an_event
from eventlog.watchdog import LOOK_EVERY_S, end_stopped_writer
from tests.databases import Database, Databases

STILL_S = 1.0


class GivenUp(Exception):
    pass


def alive(connection: databases_module.Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


@contextmanager
def holding(url: str) -> Iterator[databases_module.Connection]:
    """A connection that holds the log's lock, in a transaction."""
    connection = databases_module.connect(url, autocommit=False)
    try:
        connection.execute(LOCK)
        yield connection
    finally:
        connection.close()


@contextmanager
def copying(connection: databases_module.Connection) -> Iterator[psycopg.Copy]:
    """Inside COPY, with the header sent; given up in the end."""
    with suppress(psycopg.Error, GivenUp), connection.cursor().copy(COPY) as copy:
        copy.write(HEADER)
        connection.pgconn.flush()
        yield copy
        raise GivenUp


def backend(connection: databases_module.Connection) -> int:
    return connection.info.backend_pid


def exists(at: Database, pid: int) -> bool:
    with databases_module.connect(at.owner, role=None) as connection:
        row = connection.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchone()
    return row is not None


def moving(at: Database, pid: int) -> int:
    """How many bytes of its COPY a backend has read."""
    with databases_module.connect(at.owner, role=None) as connection:
        query = "SELECT bytes_processed FROM pg_stat_progress_copy WHERE pid = %s"
        row = connection.execute(query, (pid,)).fetchone()
    assert row is not None
    return int(row[0])


def test_with_nobody_at_the_lock_there_is_nothing_to_do(database: Database) -> None:
    start = time.monotonic()
    assert not end_stopped_writer(database.url, stood_still_s=STILL_S)
    assert time.monotonic() - start < STILL_S


def test_a_writer_that_stands_still_in_copy_is_ended(database: Database) -> None:
    with holding(database.url) as connection, copying(connection):
        pid = backend(connection)
        assert end_stopped_writer(database.url, stood_still_s=STILL_S)
        assert not exists(database, pid)


def test_a_writer_whose_bytes_trickle_in_lives(database: Database) -> None:
    with holding(database.url) as connection, copying(connection) as copy:
        pid, done = backend(connection), threading.Event()

        def trickle() -> None:
            row = bytes(pack([an_event("a")]).rows)
            for byte in row:
                copy.write(bytes([byte]))
                connection.pgconn.flush()
                if done.wait(LOOK_EVERY_S / 2):
                    return

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            for _ in range(3):
                assert not end_stopped_writer(database.url, stood_still_s=STILL_S)
        finally:
            done.set()
            thread.join()
        assert moving(database, pid) > len(HEADER)


def test_a_writer_between_statements_is_left_to_its_timeout(database: Database) -> None:
    with holding(database.url) as connection:
        assert not end_stopped_writer(database.url, stood_still_s=0.1)
        assert alive(connection)


def test_a_writer_at_work_lives(database: Database) -> None:
    with holding(database.url) as connection:
        thread = threading.Thread(target=lambda: connection.execute("SELECT pg_sleep(1.5)"))
        thread.start()
        time.sleep(0.2)
        assert not end_stopped_writer(database.url, stood_still_s=0.1)
        thread.join()
        assert alive(connection)


def test_a_writer_in_a_new_transaction_is_another(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """It commits batches of one size: whenever it is looked at, it is as far as before."""
    from eventlog import watchdog

    with holding(database.url) as connection:
        pid = backend(connection)
        started = threading.Event()

        def next_batch(_: float) -> None:
            """Instead of the pause between two looks: commit, and begin again."""
            if started.is_set():
                return
            started.set()
            batches.close()
            connection.rollback()
            connection.execute(LOCK)
            batches.enter_context(copying(connection))
            time.sleep(0.2)

        batches = ExitStack()
        batches.enter_context(copying(connection))
        time.sleep(0.2)
        monkeypatch.setattr(watchdog, "time", type("Clock", (), {"sleep": next_batch, "monotonic": time.monotonic}))
        assert not end_stopped_writer(database.url, stood_still_s=STILL_S)
        assert moving(database, pid) == len(HEADER)
        connection.close()


def test_a_writer_of_another_log_is_not_touched(databases: Databases, database: Database) -> None:
    other = databases.fresh()
    with holding(other.url) as connection, copying(connection):
        assert not end_stopped_writer(database.url, stood_still_s=0.1)
        assert exists(other, backend(connection))
        with holding(database.url):
            assert not end_stopped_writer(database.url, stood_still_s=0.1)
        assert exists(other, backend(connection))


def test_a_login_that_may_not_see_the_writer_leaves_it(databases: Databases, database: Database) -> None:
    databases.execute("CREATE ROLE watcher LOGIN NOINHERIT PASSWORD 'secret' IN ROLE trajlog_app")
    try:
        url = f"postgresql://watcher:secret@/{database.url.split('@/')[1]}"
        with holding(database.url) as connection, copying(connection):
            assert not end_stopped_writer(url, stood_still_s=0.1)
            assert exists(database, backend(connection))
        with holding(url) as connection, copying(connection):
            assert end_stopped_writer(url, stood_still_s=0.2)
    finally:
        databases.execute("DROP ROLE watcher")
