"""The index: it follows the log in whole blocks, is never behind what it says, and comes back after a crash."""

import threading
from collections.abc import Iterator

import psycopg
import pytest

from eventlog.database import Connection, connect
from eventlog.ledger import Ledger
from eventlog.projection import checkpoints
from eventlog.search import index
from eventlog.search.grams import required
from eventlog.search.index import BITS, BLOCK_EVENTS, COLUMNS, GREP, PARTS, TAIL, catch_up, narrow
from eventlog.writer import Writer
from tests.databases import Database


@pytest.fixture
def log(ledger: Ledger) -> Ledger:
    return ledger


@pytest.fixture
def connection(log: Ledger) -> Iterator[Connection]:
    with connect(log.url) as connection:
        yield connection


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of one event, none left to be looked at."""
    monkeypatch.setattr(index, "BLOCK_EVENTS", 1)
    monkeypatch.setattr(index, "TAIL", 1)


def add(log: Ledger, *texts: str, stream: str = "episode/a") -> None:
    writer = Writer("w")
    log.append_many([writer.raw(stream, "NoteAdded", f'{{"text":"{text}"}}'.encode()) for text in texts])


def indexed(log: Ledger, connection: Connection) -> int:
    return catch_up(log, connection, lambda address: None)


def found(log: Ledger, connection: Connection, *words: str) -> list[int]:
    """The positions in the blocks that may hold all these words, oldest first."""
    ranges = narrow(connection, sorted(required(words)), indexed(log, connection))
    return sorted(position for after, until in ranges for position in range(after + 1, until + 1))


@pytest.mark.usefixtures("small")
def test_a_block_is_found_by_every_word_in_it(log: Ledger, connection: Connection) -> None:
    add(log, "alpha beta", "beta gamma", "漢字 予約", "gamma alpha")
    assert found(log, connection, "alpha") == [1, 4]
    assert found(log, connection, "alpha", "beta") == [1]
    assert found(log, connection, "予約") == [3]
    assert found(log, connection, "absent") == []


@pytest.mark.usefixtures("small")
def test_parts_are_extended_and_begun(log: Ledger, connection: Connection) -> None:
    sizes = [3, 100, COLUMNS - 103, 1, 200]
    for number, size in enumerate(sizes):
        add(log, *[f"word{number} also{i % 7}" for i in range(size)])
        assert indexed(log, connection) == sum(sizes[: number + 1])
    assert found(log, connection, "word3") == [COLUMNS + 1]
    assert found(log, connection, "word1") == list(range(4, 104))
    assert len(found(log, connection, "word4", "also6")) == 28
    counts = connection.execute(f"SELECT part, array_length(starts, 1) FROM {PARTS} ORDER BY part").fetchall()
    assert counts == [(0, COLUMNS + 1), (1, COLUMNS + 1), (2, sum(sizes) - 2 * COLUMNS + 1)]


@pytest.mark.usefixtures("small")
def test_it_holds_the_same_whether_made_at_once_or_bit_by_bit(log: Ledger, connection: Connection) -> None:
    def rows() -> list[tuple[object, ...]]:
        return connection.execute(f"SELECT * FROM {BITS} ORDER BY part, band").fetchall()

    for number in range(40):
        add(log, *[f"text {number} {i} ab{number * i}cd" for i in range(number % 9 + 1)])
        indexed(log, connection)
    piecemeal = rows()
    connection.execute("DELETE FROM trajlog.projection WHERE name = 'grep'")
    indexed(log, connection)
    assert rows() == piecemeal


def test_only_whole_blocks_are_indexed_and_not_before_there_are_some(log: Ledger, connection: Connection) -> None:
    add(log, *["x"] * (TAIL - 1))
    assert indexed(log, connection) == 0
    add(log, *["x"] * (BLOCK_EVENTS // 2))
    assert indexed(log, connection) == TAIL
    (point,) = checkpoints(connection, [GREP])
    assert (point.position, point.trusted) == (TAIL, True)


def test_a_block_ends_early_where_payloads_are_large(log: Ledger, connection: Connection) -> None:
    add(log, *["y" * 50_000] * 3, *["x"] * (TAIL - 2))
    indexed(log, connection)
    (starts,) = connection.execute(f"SELECT starts FROM {PARTS}").fetchone() or ([],)
    assert starts[:3] == [0, 3, 3 + BLOCK_EVENTS]


@pytest.mark.usefixtures("small")
def test_other_streams_are_not_searched(log: Ledger, connection: Connection) -> None:
    add(log, "secret", stream="import/1")
    add(log, "secret")
    assert found(log, connection, "secret") == [2]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "harm",
    [
        f"TRUNCATE {BITS}, {PARTS}",
        f"TRUNCATE {PARTS}",
        f"DROP TABLE {BITS}",
        f"DROP TABLE {BITS}, {PARTS}",
        "DELETE FROM trajlog.projection WHERE name = 'grep'",
        "UPDATE trajlog.projection SET seal = 'x' WHERE name = 'grep'",
        "UPDATE trajlog.projection SET position = position - 1 WHERE name = 'grep'",
    ],
)
def test_what_a_crash_or_a_restore_left_is_made_anew(log: Ledger, connection: Connection, harm: str) -> None:
    add(log, "alpha", "beta", "alpha")
    assert found(log, connection, "alpha") == [1, 3]
    connection.execute(harm)
    assert found(log, connection, "alpha") == [1, 3]


@pytest.mark.usefixtures("small")
def test_its_tables_are_left_out_of_what_a_crash_recovers(log: Ledger, connection: Connection) -> None:
    add(log, "alpha")
    indexed(log, connection)
    kinds = connection.execute(
        "SELECT relname, relpersistence FROM pg_class WHERE relname LIKE 'grep__v1%' AND relkind = 'r' ORDER BY 1"
    ).fetchall()
    assert kinds == [("grep__v1", "u"), ("grep__v1__part", "u")]


@pytest.mark.usefixtures("small")
def test_several_at_once_index_everything_once(log: Ledger, connection: Connection, database: Database) -> None:
    add(log, *[f"word{i}" for i in range(300)])
    results: list[int] = []

    def run() -> None:
        with database.ledger() as other, connect(other.url) as mine:
            results.append(indexed(other, mine))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [300] * 4
    assert found(log, connection, "word299") == [300]


@pytest.mark.usefixtures("small")
def test_a_failure_leaves_whole_parts(log: Ledger, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    add(log, *["alpha"] * (COLUMNS + 9))
    real = index._store

    def store(connection: Connection, part: int, starts: list[int], rows: list[int]) -> None:
        real(connection, part, starts, rows)
        if part == 1:
            raise psycopg.errors.QueryCanceled

    monkeypatch.setattr(index, "_store", store)
    with pytest.raises(psycopg.errors.QueryCanceled):
        indexed(log, connection)
    (point,) = checkpoints(connection, [GREP])
    assert point.position == COLUMNS
    monkeypatch.setattr(index, "_store", real)
    assert len(found(log, connection, "alpha")) == COLUMNS + 9


@pytest.mark.usefixtures("small")
def test_progress_is_told(log: Ledger, connection: Connection) -> None:
    add(log, *["alpha"] * (COLUMNS + 9))
    seen: list[tuple[int, int]] = []
    catch_up(log, connection, lambda address: None, lambda done, total: seen.append((done, total)))
    assert seen == [(COLUMNS, COLUMNS + 9), (COLUMNS + 9, COLUMNS + 9)]
