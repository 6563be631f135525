"""The second stage: what crosses streams is what its sources' rows give, however it came about."""

from collections.abc import Iterable, Iterator, Sequence

import pytest

from core.errors import Corrupt, Unavailable
from eventlog.database import Connection, connect
from eventlog.ledger import Ledger
from eventlog.projection import AnyProjection, Row, checkpoints, is_second, parked, rebuild, second
from eventlog.projection import table as table_of
from eventlog.projection.runner import catch_up
from eventlog.views import registered
from tests.databases import Database
from tests.eventlog import samples
from tests.eventlog.projection.folds import ByLast, Counter, fill, random_log, rows

SECONDS = [projection for projection in registered() if is_second(projection)]


@pytest.fixture
def log(ledger: Ledger) -> Ledger:
    return ledger


@pytest.fixture
def connection(log: Ledger) -> Iterator[Connection]:
    with connect(log.url) as connection:
        yield connection


def from_scratch(connection: Connection, projection: AnyProjection) -> list[Row]:
    assert is_second(projection)
    with connection.transaction(force_rollback=True):
        made = second.made(connection, projection, of="trajlog_view.")
        return sorted([row for _, group in made for row in group], key=repr)


def test_following_the_log_gives_what_a_rebuild_gives(log: Ledger, connection: Connection) -> None:
    for commit in random_log(11, streams=12):
        log.append_many(commit)
        catch_up(log, connection, registered())
        for made in SECONDS:
            assert rows(connection, made) == from_scratch(connection, made)
    before = [rows(connection, projection) for projection in registered()]
    for projection in registered():
        rebuild.rebuild(log, connection, projection)
    catch_up(log, connection, registered())
    assert [rows(connection, projection) for projection in registered()] == before


def test_many_touched_streams_are_made_anew_all_at_once(
    log: Ledger, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second, "MANY", 2)
    monkeypatch.setattr(second, "RECENT", 1)
    counter, by_last = Counter(), ByLast()
    for names in ("ab", "abcd", "a"):
        fill(log, *names)
        catch_up(log, connection, [counter, by_last])
        assert rows(connection, by_last) == from_scratch(connection, by_last)


def test_only_keys_with_a_touched_stream_are_made_anew(log: Ledger, connection: Connection) -> None:
    made: list[Row] = []

    class Watched(ByLast):
        def rows(self, key: Row, group: Sequence[Row]) -> Iterable[Row]:
            made.append(key)
            return super().rows(key, group)

    counter, watched = Counter(), Watched()
    fill(log, "a", verdict=None)
    fill(log, "b")
    catch_up(log, connection, [counter, watched])
    made.clear()
    fill(log, "c")
    catch_up(log, connection, [counter, watched])
    assert made == [("VerificationRecorded",)]


def test_a_source_that_is_not_there_yet_is_said(log: Ledger, connection: Connection) -> None:
    fill(log, "a")
    with pytest.raises(Unavailable, match="counter v1 is not where it has to be"):
        catch_up(log, connection, [ByLast()])


def test_a_rebuilt_source_makes_it_anew(log: Ledger, connection: Connection) -> None:
    counter, by_last = Counter(), ByLast()
    fill(log, "a")
    catch_up(log, connection, [counter, by_last])

    class Other(Counter):
        def rows(self, state: list[object], after: int) -> Iterable[Row]:
            yield state[0], 7, state[2]

    rebuild.rebuild(log, connection, Other())
    assert checkpoints(connection, [by_last])[0].position == 0
    catch_up(log, connection, [Other(), by_last])
    assert rows(connection, by_last) == [("VerificationRecorded", 1, 7)]


class Raising(ByLast):
    broken = True

    def rows(self, key: Row, group: Sequence[Row]) -> Iterable[Row]:
        if self.broken and key == ("EpisodeEnded",):
            raise KeyError("private text")
        yield from group


def test_a_key_whose_rows_cannot_be_made_is_parked_alone(log: Ledger, connection: Connection) -> None:
    counter, raising = Counter(), Raising()
    fill(log, "a", verdict=None)
    fill(log, "b")
    catch_up(log, connection, [counter, raising])
    assert rows(connection, raising) == [("VerificationRecorded", 1, 10)]
    assert [(p.name, p.stream, p.reason) for p in parked.parked(connection)] == [
        ("by_last", "EpisodeEnded", "KeyError in its rows")
    ]
    raising.broken = False
    assert parked.retry(log, connection, raising) == 1
    assert parked.parked(connection) == []
    assert len(rows(connection, raising)) == 2


def test_a_key_that_is_touched_again_is_tried_again(log: Ledger, connection: Connection) -> None:
    counter, raising = Counter(), Raising()
    fill(log, "a", verdict=None)
    catch_up(log, connection, [counter, raising])
    assert len(parked.parked(connection)) == 1
    raising.broken = False
    fill(log, "c", verdict=None)
    catch_up(log, connection, [counter, raising])
    assert parked.parked(connection) == []
    assert rows(connection, raising) == [("EpisodeEnded", 2, 18)]


class WrongKey(ByLast):
    def rows(self, key: Row, group: Sequence[Row]) -> Iterable[Row]:
        yield "elsewhere", 1, 1


class TooLarge(ByLast):
    def rows(self, key: Row, group: Sequence[Row]) -> Iterable[Row]:
        yield key[0], 2**80 if key == ("EpisodeEnded",) else 1, 1


def test_a_row_of_another_key_or_too_large_is_parked(log: Ledger, connection: Connection) -> None:
    fill(log, "a", verdict=None)
    fill(log, "b")
    for projection, left in ((WrongKey(), 0), (TooLarge(), 1)):
        connection.execute("DELETE FROM trajlog.projection; DELETE FROM trajlog.parked")
        catch_up(log, connection, [Counter(), projection])
        assert len(rows(connection, projection)) == left
        assert len(parked.parked(connection)) == 2 - left


def test_a_log_cut_and_written_again_is_refused(log: Ledger, connection: Connection, database: Database) -> None:
    counter, by_last = Counter(), ByLast()
    fill(log, "a")
    catch_up(log, connection, [counter, by_last])
    with database.tampering() as owner:
        owner.execute("UPDATE trajlog.projection SET seal = sha256('other') WHERE name = 'by_last'")
    with pytest.raises(Corrupt, match=r"by_last.*trajlog project rebuild by_last"):
        catch_up(log, connection, [counter, by_last])
    rebuild.rebuild(log, connection, by_last)
    catch_up(log, connection, [counter, by_last])
    assert rows(connection, by_last) == [("VerificationRecorded", 1, 10)]


def test_a_killed_process_leaves_the_rows_before(
    log: Ledger, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter, by_last = Counter(), ByLast()
    fill(log, "a")
    catch_up(log, connection, [counter, by_last])
    before = rows(connection, by_last)
    log.append_many(samples.events("episode/b", samples.episode()))

    def dying(*given: object) -> list[tuple[Row, str]]:
        connection.execute(f"DELETE FROM {table_of(by_last)}")
        raise KeyboardInterrupt

    monkeypatch.setattr(second, "store", dying)
    with pytest.raises(KeyboardInterrupt):
        catch_up(log, connection, [counter, by_last])
    monkeypatch.undo()
    assert rows(connection, by_last) == before
    catch_up(log, connection, [counter, by_last])
    assert rows(connection, by_last) == [("VerificationRecorded", 2, 20)]
