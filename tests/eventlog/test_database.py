"""Connections that do other work while the server is at its own."""

import time

import pytest

from eventlog.database import connect, doing
from tests.databases import Database


def test_other_work_is_done_while_the_server_is_at_work(database: Database) -> None:
    done: list[float] = []

    def some() -> bool:
        done.append(time.monotonic())
        time.sleep(0.001)
        return True

    with connect(database.url) as connection:
        with doing(connection, some), connection.transaction():
            assert connection.execute("SELECT pg_sleep(0.3), 7").fetchone() == ("", 7)
        assert len(done) > 20
        count = len(done)
        connection.execute("SELECT pg_sleep(0.05)")
        assert len(done) == count


def test_without_work_the_server_is_waited_for(database: Database) -> None:
    asked = []

    def nothing() -> bool:
        asked.append(time.monotonic())
        return False

    with connect(database.url) as connection, doing(connection, nothing):
        assert connection.execute("SELECT pg_sleep(0.1), 7").fetchone() == ("", 7)
    assert 0 < len(asked) < 10


def test_an_interrupt_of_the_other_work_leaves_nothing_behind(database: Database) -> None:
    def interrupted() -> bool:
        raise KeyboardInterrupt

    with connect(database.url) as connection:
        with pytest.raises(KeyboardInterrupt), doing(connection, interrupted), connection.transaction():
            connection.execute("CREATE TEMP TABLE mine AS SELECT FROM pg_sleep(0.1)")
        assert connection.execute("SELECT to_regclass('pg_temp.mine')").fetchone() == (None,)
