"""The runner on a real PostgreSQL: whole batches or none, nobody's work twice, nobody else's fault."""

import threading
from collections.abc import Iterable, Iterator
from typing import Any

import psycopg
import pytest

from core.errors import Corrupt, SchemaMismatch
from eventlog.database import Connection, connect
from eventlog.ledger import Ledger
from eventlog.projection import Column, Row, batch, checkpoints, runner
from eventlog.projection.runner import catch_up
from eventlog.views import EPISODES, STEPS, reading
from eventlog.views.episode import EPISODE
from eventlog.views.step import STEP
from eventlog.writer import Writer
from tests.databases import Database
from tests.eventlog import samples
from tests.eventlog.projection.folds import Counter, fill, folded, rows

FOLDS = (EPISODE, STEP)


@pytest.fixture
def log(ledger: Ledger) -> Ledger:
    return ledger


@pytest.fixture
def connection(log: Ledger) -> Iterator[Connection]:
    with connect(log.url) as connection:
        yield connection


def test_the_tables_hold_what_folding_everything_gives(log: Ledger, connection: Connection) -> None:
    fill(log, "a", "b", verdict="fail")
    fill(log, "c", verdict="pass")
    assert catch_up(log, connection, FOLDS) == log.head().position
    for projection in FOLDS:
        assert rows(connection, projection) == folded(log, projection)


def test_an_empty_log_has_empty_tables(log: Ledger, connection: Connection) -> None:
    assert catch_up(log, connection, FOLDS) == 0
    assert rows(connection, EPISODE) == []


@pytest.mark.parametrize("size", [1, 3, 7])
def test_many_batches_give_what_one_gives(
    log: Ledger, connection: Connection, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    writer = Writer("w")
    streams = [samples.events(f"episode/{name}", samples.episode(steps=3), writer) for name in "abc"]
    for turn in zip(*streams, strict=True):
        log.append_many(turn)
    monkeypatch.setattr(runner, "BATCH", size)
    catch_up(log, connection, FOLDS)
    for projection in FOLDS:
        assert rows(connection, projection) == folded(log, projection)


def test_a_batch_ends_early_where_payloads_are_large(
    log: Ledger, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, *"abcd")
    monkeypatch.setattr(runner, "BATCH_BYTES", 100)
    monkeypatch.setattr(runner, "_CHUNK", 5)
    seen: list[tuple[int, int]] = []
    catch_up(log, connection, FOLDS, progress=lambda done, total: seen.append((done, total)))
    assert len(seen) == 8
    assert seen[-1] == (40, 40)
    assert rows(connection, STEP) == folded(log, STEP)


def test_what_is_appended_later_is_folded_on_top(log: Ledger, connection: Connection) -> None:
    payloads = samples.episode(steps=3)
    events = samples.events("episode/a", payloads)
    for event in events:
        log.append(event)
        catch_up(log, connection, FOLDS)
        assert rows(connection, STEP) == folded(log, STEP)
    assert rows(connection, EPISODE) == folded(log, EPISODE)


def test_one_query_says_that_all_is_folded(log: Ledger, connection: Connection) -> None:
    fill(log, "a")
    assert [(p.made, p.lag) for p in checkpoints(connection, FOLDS)] == [(False, 10), (False, 10)]
    catch_up(log, connection, FOLDS)
    assert [p.covers(10) for p in checkpoints(connection, FOLDS)] == [True, True]


def test_a_process_killed_in_a_batch_leaves_the_one_before(
    log: Ledger, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, *"abcd")
    monkeypatch.setattr(runner, "BATCH", 15)
    written = []
    original = batch.Batch.write

    def dying(self: batch.Batch, log: Any) -> Any:
        written.append(self)
        if len(written) == 3:
            with connect(log.url) as other:
                other.execute("SELECT pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))
        return original(self, log)

    monkeypatch.setattr(batch.Batch, "write", dying)
    with pytest.raises(psycopg.OperationalError):
        catch_up(log, connection, FOLDS)
    monkeypatch.setattr(batch.Batch, "write", original)
    with connect(log.url) as again:
        assert [p.position for p in checkpoints(again, FOLDS)] == [15, 15]
        catch_up(log, again, FOLDS)
        for projection in FOLDS:
            assert rows(again, projection) == folded(log, projection)


def test_catching_up_at_once_folds_each_event_once(log: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BATCH", 10)
    fill(log, *[f"e{i:02}" for i in range(20)])
    counter = Counter()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with connect(log.url) as own:
                catch_up(log, own, [counter])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert counter.applied == 200
    with connect(log.url) as own:
        assert len(rows(own, counter)) == 20


def test_catching_up_at_once_goes_on_where_the_other_ended(log: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BATCH", 7)
    streams = [samples.events(f"episode/{name}", samples.episode(steps=20)) for name in "abc"]
    for events in zip(*streams, strict=True):
        log.append_many(events)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with connect(log.url) as own:
                catch_up(log, own, FOLDS)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with connect(log.url) as own:
        for projection in FOLDS:
            assert rows(own, projection) == folded(log, projection)


def test_a_fold_that_raises_parks_its_stream_and_the_rest_goes_on(log: Ledger, connection: Connection) -> None:
    fill(log, "a", verdict=None)
    fill(log, "b", verdict="fail")
    fill(log, "c", verdict=None)
    counter = Counter()
    counter.broken = frozenset({"VerificationRecorded"})
    catch_up(log, connection, [counter])
    assert rows(connection, counter) == [
        ("a", 9, "EpisodeEnded"),
        ("b", 9, "EpisodeEnded"),
        ("c", 9, "EpisodeEnded"),
    ]
    parked = connection.execute("SELECT * FROM trajlog.parked").fetchall()
    assert parked == [("counter", 1, "episode/b", 19, "RuntimeError in VerificationRecorded at version 10")]
    assert checkpoints(connection, [counter])[0].parked == 1

    log.append_many(samples.events("episode/b", [samples.turn(9)]))
    log.append_many(samples.events("episode/a", [samples.turn(9)]))
    catch_up(log, connection, [counter])
    assert [row[1] for row in rows(connection, counter)] == [10, 9, 9]


def test_a_stream_is_parked_with_the_rows_of_what_was_folded_before(log: Ledger, connection: Connection) -> None:
    events = samples.events("episode/a", samples.episode(verdict="fail"))
    log.append_many(events[:5])
    counter = Counter()
    catch_up(log, connection, [counter])
    log.append_many(events[5:])
    counter.broken = frozenset({"EpisodeEnded"})
    catch_up(log, connection, [counter])
    assert rows(connection, counter) == [("a", 8, "FeedbackRecorded")]


def test_a_malformed_payload_parks_its_episode_alone(log: Ledger, connection: Connection) -> None:
    fill(log, "a", "b")
    log.append(Writer("w").raw("episode/a", "ModelResponded", b'{"step":"secret"}'))
    notes: list[str] = []
    with reading(log, (EPISODES, STEPS), note=notes.append):
        pass
    reasons = [reason for (reason,) in connection.execute("SELECT reason FROM trajlog.parked")]
    assert reasons == ["ValidationError in ModelResponded at version 11 - at `$.step`"] * 2
    assert notes == [
        f"{name}: 1 stream stops at an event that cannot be folded (trajlog project parked)"
        for name in ("episode", "step")
    ]
    assert {row[0]: row[11] for row in rows(connection, EPISODE)} == {"a": 10, "b": 10}


class Uncertain(Counter):
    """A fold that cannot begin with one of the streams."""

    def initial(self, stream: str) -> list[Any]:
        if stream == "episode/b":
            raise LookupError(stream)
        return super().initial(stream)


def test_a_fold_that_cannot_begin_parks_the_stream(log: Ledger, connection: Connection) -> None:
    fill(log, *"abc")
    catch_up(log, connection, [Uncertain()])
    assert [row[0] for row in rows(connection, Uncertain())] == ["a", "c"]
    assert [row[2:] for row in connection.execute("SELECT * FROM trajlog.parked")] == [
        ("episode/b", 11, "LookupError in EpisodeStarted at version 1")
    ]
    fill(log, "b")
    catch_up(log, connection, [Uncertain()])


class Forgetful(Counter):
    """A fold that cannot read what it put away."""

    def load(self, data: bytes) -> Any:
        raise ValueError("private text")


def test_a_state_of_another_fold_is_one_clear_line(log: Ledger, connection: Connection) -> None:
    fill(log, "a")
    catch_up(log, connection, [Counter()])
    fill(log, "a")
    with pytest.raises(SchemaMismatch, match=r"counter v1: what it kept of episode/a cannot be read.*new version"):
        catch_up(log, connection, [Forgetful()])


class Unwritable(Counter):
    """A fold one of whose rows Postgres cannot take."""

    def rows(self, state: list[Any], after: int) -> Iterable[Row]:
        yield state[0], 2**80 if state[0].endswith("b") else state[1], state[2]


class Rowless(Counter):
    """A fold that cannot say one of its rows."""

    def rows(self, state: list[Any], after: int) -> Iterable[Row]:
        if state[0].endswith("b"):
            raise KeyError(state[0])
        yield tuple(state)


@pytest.mark.parametrize("projection", [Unwritable(), Rowless()])
def test_a_row_that_cannot_be_made_or_stored_parks_its_stream_alone(
    log: Ledger, connection: Connection, projection: Counter
) -> None:
    fill(log, *"abc")
    catch_up(log, connection, [projection])
    assert [row[0] for row in rows(connection, projection)] == ["a", "c"]
    assert [row[2:4] for row in connection.execute("SELECT * FROM trajlog.parked")] == [("episode/b", 20)]


def test_a_nul_in_a_text_is_written_out(log: Ledger, connection: Connection) -> None:
    fill(log, "a", task="a\0b")
    catch_up(log, connection, FOLDS)
    assert [row[1] for row in rows(connection, EPISODE)] == ["a␀b"]


def test_a_log_cut_and_written_again_is_refused(log: Ledger, connection: Connection, database: Database) -> None:
    fill(log, "a", "b")
    catch_up(log, connection, FOLDS)
    with database.tampering() as owner:
        owner.execute("UPDATE trajlog.segment SET seal = sha256('other') WHERE last_position = 20")
    with pytest.raises(Corrupt, match=r"episode v1.*position 20.*trajlog project rebuild episode"):
        catch_up(log, connection, FOLDS)
    connection.execute("DELETE FROM trajlog.projection")
    catch_up(log, connection, FOLDS)
    assert rows(connection, EPISODE) == folded(log, EPISODE)


def test_a_log_shorter_than_what_was_folded_is_refused(log: Ledger, connection: Connection) -> None:
    fill(log, "a")
    catch_up(log, connection, FOLDS)
    connection.execute("UPDATE trajlog.projection SET position = 11")
    with pytest.raises(Corrupt):
        catch_up(log, connection, FOLDS)


class Wider(Counter):
    columns = (*Counter.columns, Column("more"))


def test_another_shape_under_the_same_version_is_refused(log: Ledger, connection: Connection) -> None:
    fill(log, "a")
    catch_up(log, connection, [Counter()])
    fill(log, "b")
    with pytest.raises(SchemaMismatch, match="new version"):
        catch_up(log, connection, [Wider()])


class Second(Counter):
    version = 2


def test_a_new_version_is_built_beside_the_old_and_then_takes_the_view(log: Ledger, connection: Connection) -> None:
    fill(log, "a")
    catch_up(log, connection, [Counter()])
    view = "SELECT pg_get_viewdef('trajlog_view.counter'::regclass)"
    assert "counter__v1" in str(connection.execute(view).fetchone())
    catch_up(log, connection, [Second()])
    assert "counter__v2" in str(connection.execute(view).fetchone())
    live = connection.execute("SELECT version FROM trajlog.projection WHERE name = 'counter' AND live").fetchall()
    assert live == [(2,)]
    assert len(rows(connection, Counter())) == 1
