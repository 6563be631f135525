"""Verifying tables against folds, what a new version would change, and trying parked streams again."""

import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from core.errors import Corrupt, Unavailable
from eventlog.database import Connection, connect
from eventlog.ledger import Ledger
from eventlog.projection import Column, Row, View, is_first, parked, shards, table, verify
from eventlog.projection.runner import catch_up
from eventlog.views import reading, registered
from eventlog.views.episode import EPISODE
from eventlog.views.task import TASK
from eventlog.writer import Writer
from tests.databases import Database
from tests.eventlog import samples
from tests.eventlog.projection.folds import ByLast, Counter, fill, folded, random_log, rows


@pytest.fixture
def log(ledger: Ledger) -> Ledger:
    return ledger


@pytest.fixture
def connection(log: Ledger) -> Iterator[Connection]:
    with connect(log.url) as connection:
        yield connection


def test_what_the_runner_made_verifies(log: Ledger, connection: Connection) -> None:
    for commit in random_log(5):
        log.append_many(commit)
    catch_up(log, connection, registered())
    seen: list[tuple[int, int]] = []
    for projection in registered():
        found = verify.verify(connection, projection, lambda done, total: seen.append((done, total)))
        assert found.ok and found.differences == []
        assert found.rows == len(rows(connection, projection)) > 0
    assert seen[-1][0] == seen[-1][1]


class Chance(Counter):
    """A fold that asks chance."""

    def rows(self, state: list[Any], after: int) -> Iterable[Row]:
        yield state[0], random.randrange(10**12), state[2]


def test_a_fold_that_is_not_deterministic_is_named_by_stream_and_column(log: Ledger, connection: Connection) -> None:
    fill(log, "a", "b")
    catch_up(log, connection, [Chance()])
    found = verify.verify(connection, Chance())
    assert (found.streams, found.unstable) == (2, 2)
    assert [(d.stream, d.key, d.column) for d in found.differences] == [
        ("episode/a", ["a"], "events"),
        ("episode/b", ["b"], "events"),
    ]


def test_a_changed_table_is_no_fault_of_the_fold(log: Ledger, connection: Connection) -> None:
    fill(log, *"abcd")
    counter = Counter()
    catch_up(log, connection, [counter])
    connection.execute(f"UPDATE {table(counter)} SET events = 3 WHERE stream = 'a'")
    connection.execute(f"DELETE FROM {table(counter)} WHERE stream = 'b'")
    connection.execute(f"INSERT INTO {table(counter)} VALUES ('nobody', 1, 'NoteAdded')")
    found = verify.verify(connection, counter)
    assert (found.rows, found.streams, found.unstable) == (4, 3, 0)
    assert [(d.stream, d.column, d.table, d.fold) for d in found.differences] == [
        ("episode/a", "events", 3, 10),
        ("episode/b", None, None, ["b", 10, "VerificationRecorded"]),
        ("episode/nobody", None, ["nobody", 1, "NoteAdded"], None),
    ]


def test_a_changed_row_of_a_second_stage_is_found(log: Ledger, connection: Connection) -> None:
    fill(log, "a", task="alarm")
    fill(log, "b", task="mail")
    catch_up(log, connection, registered())
    connection.execute(f"UPDATE {table(TASK)} SET passed = 7 WHERE task = 'alarm'")
    connection.execute(f"DELETE FROM {table(TASK)} WHERE task = 'mail'")
    connection.execute(f"INSERT INTO {table(TASK)} (task) VALUES ('zebra')")
    found = verify.verify(connection, TASK)
    assert [(d.stream, d.column) for d in found.differences] == [("alarm", "passed"), ("mail", None), ("zebra", None)]


def test_a_second_stage_whose_sources_were_read_since_is_no_difference(log: Ledger, connection: Connection) -> None:
    commits = list(random_log(7))
    for commit in commits[:-3]:
        log.append_many(commit)
    catch_up(log, connection, registered())
    for commit in commits[-3:]:
        log.append_many(commit)
    catch_up(log, connection, [p for p in registered() if is_first(p)])
    for projection in registered():
        assert verify.verify(connection, projection).ok
        shadowed = verify.shadow(connection, projection, projection)
        assert shadowed.added + shadowed.removed + shadowed.changed == 0


def test_verifying_goes_by_the_checkpoint(log: Ledger, connection: Connection) -> None:
    fill(log, "a")
    catch_up(log, connection, [EPISODE])
    fill(log, "a", "b")
    found = verify.verify(connection, EPISODE)
    assert found.ok and found.position == 10


def test_a_checkpoint_from_before_a_failover_is_refused(
    log: Ledger, connection: Connection, database: Database
) -> None:
    fill(log, "a")
    catch_up(log, connection, [EPISODE])
    with database.tampering() as owner:
        owner.execute("UPDATE trajlog.segment SET seal = sha256('other')")
    with pytest.raises(Corrupt, match="project rebuild episode"):
        verify.verify(connection, EPISODE)


class Doubled(Counter):
    version = 2
    columns = (Column("stream"), Column("events", "bigint"), Column("first"))

    def rows(self, state: list[Any], after: int) -> Iterable[Row]:
        if state[0] != "c":
            yield state[0], state[1] * (2 if state[0] == "a" else 1), "x"


def test_a_shadow_says_what_a_new_version_would_change(log: Ledger, connection: Connection) -> None:
    fill(log, *"abc")
    catch_up(log, connection, [Counter()])
    found = verify.shadow(connection, Doubled(), View("counter", 1))
    assert (found.table, found.fold, found.rows) == (1, 2, 3)
    assert (found.changed, found.added, found.removed) == (1, 0, 1)
    assert found.columns == {"events": 1}
    assert (found.new_columns, found.gone_columns) == (["first"], ["last"])
    assert [(d.stream, d.column, d.table, d.fold) for d in found.examples] == [
        ("episode/a", "events", 10, 20),
        ("episode/c", None, ["c", 10], None),
    ]
    assert connection.execute("SELECT to_regclass('trajlog_view.counter__v2')").fetchone() == (None,)


def test_a_mended_fold_takes_what_was_parked(log: Ledger, connection: Connection) -> None:
    counter, by_last = Counter(), ByLast()
    counter.broken = frozenset({"VerificationRecorded"})
    fill(log, "a", verdict=None)
    fill(log, "b", "c")
    catch_up(log, connection, [counter, by_last])
    fill(log, "b")
    catch_up(log, connection, [counter, by_last])
    assert [row[1] for row in rows(connection, counter)] == [9, 9, 9]
    assert [(p.stream, p.position) for p in parked.parked(connection)] == [("episode/b", 19), ("episode/c", 29)]
    assert parked.retry(log, connection, counter) == 2
    assert len(parked.parked(connection)) == 2

    counter.broken = frozenset()
    assert parked.retry(log, connection, counter, ["episode/c"]) == 1
    assert [(p.stream, p.position) for p in parked.parked(connection)] == [("episode/b", 19)]
    assert parked.retry(log, connection, counter, ["episode/nobody"]) == 0
    assert parked.retry(log, connection, counter) == 1
    assert rows(connection, counter) == folded(log, counter)
    catch_up(log, connection, [counter, by_last])
    assert rows(connection, by_last) == [("EpisodeEnded", 1, 9), ("VerificationRecorded", 2, 30)]
    fill(log, "b")
    catch_up(log, connection, [counter, by_last])
    assert rows(connection, counter) == folded(log, counter)


def test_what_is_parked_is_no_difference(log: Ledger, connection: Connection) -> None:
    counter = Counter()
    counter.broken = frozenset({"VerificationRecorded"})
    fill(log, "a", "b")
    catch_up(log, connection, [counter])
    assert verify.verify(connection, counter).ok
    counter.broken = frozenset()
    assert verify.verify(connection, counter).ok


def test_a_stream_whose_payload_cannot_be_read_verifies(log: Ledger, connection: Connection) -> None:
    fill(log, "a")
    log.append(Writer("w").raw("episode/a", "ModelResponded", b'{"step":"none"}'))
    log.append_many(samples.events("episode/a", [samples.turn(7)]))
    with reading(log):
        pass
    assert verify.verify(connection, EPISODE).ok


def test_a_projection_in_shards_is_not_retried_meanwhile(
    log: Ledger, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Counter()
    counter.broken = frozenset({"VerificationRecorded"})
    fill(log, "a")
    catch_up(log, connection, [counter])
    connection.execute("INSERT INTO trajlog.shard SELECT name, version, 0, position, seal FROM trajlog.projection")
    assert shards.any_of(connection, [counter])
    with pytest.raises(Unavailable, match="several processes"):
        parked.retry(log, connection, counter)
    catch_up(log, connection, [counter])
    assert parked.retry(log, connection, counter) == 1
