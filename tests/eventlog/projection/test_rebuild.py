"""Rebuilding: beside what is read, then in its place; interrupted it goes on, and loses nothing."""

import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from core.errors import TrajlogError, Unavailable
from eventlog.database import Connection, connect
from eventlog.ledger import Ledger
from eventlog.projection import Column, Row, checkpoints, rebuild, runner
from eventlog.projection.overview import overview
from eventlog.projection.runner import catch_up
from eventlog.views import EPISODES, reading
from eventlog.views.episode import EPISODE
from tests.databases import Database
from tests.eventlog.projection.folds import Counter, fill, folded, rows


@pytest.fixture
def log(ledger: Ledger) -> Ledger:
    return ledger


@pytest.fixture
def connection(log: Ledger) -> Iterator[Connection]:
    with connect(log.url) as connection:
        yield connection


def states(connection: Connection) -> list[tuple[str, int, str]]:
    return [(one.name, one.position, one.state) for one in overview(connection, [EPISODE], [])]


def test_the_new_tables_take_the_place_and_the_old_are_kept(log: Ledger, connection: Connection) -> None:
    fill(log, "a", "b")
    catch_up(log, connection, [EPISODE])
    connection.execute("UPDATE trajlog_view.\"episode__v1\" SET verdict = 'pass'")
    point = rebuild.rebuild(log, connection, EPISODE)
    assert (point.name, point.position, point.lag) == ("episode", 20, 0)
    assert rows(connection, EPISODE) == folded(log, EPISODE)
    kept = connection.execute('SELECT DISTINCT verdict FROM trajlog_view."episode/old__v1"').fetchall()
    assert kept == [("pass",)]
    assert connection.execute("SELECT DISTINCT verdict FROM trajlog_view.episode").fetchall() == [("fail",)]
    assert states(connection) == [("episode", 20, "live"), ("episode", 20, "kept")]
    for _ in range(2):
        fill(log, "c")
        rebuild.rebuild(log, connection, EPISODE)
        catch_up(log, connection, [EPISODE])
    assert rows(connection, EPISODE) == folded(log, EPISODE)
    assert len(states(connection)) == 2


def test_what_could_be_read_by_others_still_can(log: Ledger, connection: Connection, database: Database) -> None:
    with database.tampering() as owner:
        owner.execute("DROP ROLE IF EXISTS analyst; CREATE ROLE analyst")
    fill(log, "a")
    catch_up(log, connection, [EPISODE])
    connection.execute('GRANT SELECT ON trajlog_view.episode, trajlog_view."episode__v1" TO analyst, PUBLIC')
    rebuild.rebuild(log, connection, EPISODE)
    for relation in ("episode", '"episode__v1"'):
        may = connection.execute(
            "SELECT has_table_privilege('analyst', %s, 'SELECT')", (f"trajlog_view.{relation}",)
        ).fetchone()
        assert may == (True,)
    with database.tampering() as owner:
        owner.execute("DROP OWNED BY analyst; DROP ROLE analyst")


def test_an_interrupted_rebuild_goes_on_where_it_was(
    log: Ledger, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "BATCH", 15)
    fill(log, *"abcd")
    counter = Counter()
    catch_up(log, connection, [counter])

    def stop(done: int, total: int) -> None:
        if done >= 15:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuild.rebuild(log, connection, counter, progress=stop)
    found = [(one.position, one.state) for one in overview(connection, [counter], [])]
    assert found == [(40, "live"), (15, "building")]
    counter.applied = 0
    rebuild.rebuild(log, connection, counter)
    assert counter.applied == 25
    assert [row[1] for row in rows(connection, counter)] == [10, 10, 10, 10]


def test_the_old_tables_are_read_and_follow_the_log_while_the_new_ones_grow(
    log: Ledger, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "BATCH", 10)
    fill(log, *"abc")
    catch_up(log, connection, [EPISODE])
    seen: list[int] = []

    def meanwhile(done: int, total: int) -> None:
        if len(seen) < 3:
            fill(log, f"later{len(seen)}")
            with reading(log) as other:
                seen.append(len(rows(other, EPISODE)))

    rebuild.rebuild(log, connection, EPISODE, progress=meanwhile)
    assert seen == [4, 5, 6]
    assert rows(connection, EPISODE) == folded(log, EPISODE)


def test_a_reader_sees_one_or_the_other_whole(log: Ledger, connection: Connection) -> None:
    fill(log, *[f"e{i:02}" for i in range(20)])
    catch_up(log, connection, [EPISODE])
    stop = threading.Event()
    counts: set[int] = set()
    failures: list[BaseException] = []

    def read() -> None:
        try:
            with connect(log.url) as own:
                while not stop.is_set():
                    counts.add(len(rows(own, EPISODE)))
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    for _ in range(5):
        rebuild.rebuild(log, connection, EPISODE)
    stop.set()
    thread.join()
    assert failures == []
    assert counts == {20}


def test_tables_that_are_being_read_are_waited_for_and_said(
    log: Ledger, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "_TRIES", 2)
    monkeypatch.setattr(rebuild, "_PATIENCE", "SET LOCAL lock_timeout = '50ms'")
    fill(log, "a")
    catch_up(log, connection, [EPISODE])
    with reading(log, as_of=5), pytest.raises(Unavailable, match="run it again"):
        rebuild.rebuild(log, connection, EPISODE)
    assert states(connection) == [("episode", 10, "live"), ("episode", 10, "building")]
    rebuild.rebuild(log, connection, EPISODE)
    assert rows(connection, EPISODE) == folded(log, EPISODE)


def test_a_checkpoint_from_before_a_failover_is_mended_by_a_rebuild(
    log: Ledger, connection: Connection, database: Database
) -> None:
    fill(log, "a", "b", "c")
    catch_up(log, connection, [EPISODE])
    with database.tampering() as owner:  # the last commit was lost
        owner.execute(
            "DELETE FROM trajlog.event WHERE position > 20; DELETE FROM trajlog.stream WHERE stream = 'episode/c'"
        )
        owner.execute("DELETE FROM trajlog.segment WHERE last_position > 20")
    with pytest.raises(TrajlogError, match=r"failed over.*trajlog project rebuild episode"), reading(log, (EPISODES,)):
        pass
    assert states(connection) == [("episode", 30, "refused")]
    rebuild.rebuild(log, connection, EPISODE)
    with reading(log) as then:
        assert [row[0] for row in rows(then, EPISODE)] == ["a", "b"]


def test_what_a_rebuild_began_on_a_log_that_was_lost_is_thrown_away(
    log: Ledger, connection: Connection, database: Database
) -> None:
    fill(log, "a", "b")
    catch_up(log, connection, [EPISODE])
    with pytest.raises(KeyboardInterrupt):
        rebuild.rebuild(log, connection, EPISODE, progress=_interrupt)
    with database.tampering() as owner:
        owner.execute("UPDATE trajlog.segment SET seal = sha256('other') WHERE last_position = 20")
    rebuild.rebuild(log, connection, EPISODE)
    assert rows(connection, EPISODE) == folded(log, EPISODE)


def _interrupt(done: int, total: int) -> None:
    raise KeyboardInterrupt


class Second(Counter):
    version = 2
    columns = (*Counter.columns, Column("twice", "bigint"))

    def rows(self, state: list[Any], after: int) -> Iterable[Row]:
        yield (*state, 2 * state[1])


class Third(Second):
    version = 3


def test_a_new_version_takes_the_view_and_only_the_last_is_kept(log: Ledger, connection: Connection) -> None:
    fill(log, "a")
    catch_up(log, connection, [Counter()])
    rebuild.rebuild(log, connection, Counter())
    with pytest.raises(KeyboardInterrupt):
        rebuild.rebuild(log, connection, Counter(), progress=_interrupt)
    for projection in (Second(), Third()):
        catch_up(log, connection, [projection])
    found = [(one.version, one.state) for one in overview(connection, [Third()], [])]
    assert found == [(3, "live"), (2, "kept")]
    assert connection.execute("SELECT to_regclass('trajlog_view.counter__v1')").fetchone() == (None,)
    assert connection.execute("SELECT twice FROM trajlog_view.counter").fetchone() == (20,)
    assert checkpoints(connection, [Second()])[0].position == 10
