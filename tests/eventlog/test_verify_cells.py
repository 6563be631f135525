"""Whatever single cell of the record is changed, to whatever value: it is found."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import errors

from core.event import MAX_SEQ
from tests.databases import Database, Databases
from tests.eventlog.damage import HEAD, TILED, Damaged, damaging, events, fill
from tests.examples import examples

numbers = st.one_of(st.integers(-3, 700), st.integers(-MAX_SEQ - 1, MAX_SEQ))
small_numbers = st.integers(-(2**31), 2**31 - 1)
times = st.sampled_from(["infinity", "-infinity"]) | st.datetimes().map(str)
uuids = st.uuids().map(str)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
data = st.binary(max_size=40)

EVENT: dict[str, st.SearchStrategy[Any]] = {
    "position": numbers,
    "version": numbers,
    "event_id": uuids,
    "run": uuids,
    "seq": numbers,
    "schema": small_numbers,
    "digest": st.binary(min_size=32, max_size=32),
    "crc": small_numbers,
    "stream": texts | st.integers(0, 45).map(lambda n: f"episode/{n:04d}"),
    "writer": texts,
    "type": texts | st.just("EpisodeEnded"),
    "occurred_at": times | st.none(),
    "actor": texts | st.none(),
    "owner": texts,
    "key_id": texts,
    "causation_id": uuids | st.none(),
    "correlation_id": texts | st.none(),
    "conversation": texts | st.none(),
    "body": data,
}
SEGMENT: dict[str, st.SearchStrategy[Any]] = {
    "first_position": numbers,
    "last_position": numbers,
    "topic_id": uuids,
    "partition": small_numbers,
    "first_offset": numbers,
    "next_offset": numbers,
    "committed_at": times,
    "previous": data | st.none(),
    "seal": data,
}
STREAM: dict[str, st.SearchStrategy[Any]] = {
    "stream": texts,
    "version": numbers,
    "first_position": numbers,
    "last_position": numbers,
}
MERKLE: dict[str, st.SearchStrategy[Any]] = {
    "level": st.integers(1, 5),
    "index": st.integers(2, 10_000),
    "hashes": st.integers(0, 2**32).map(lambda seed: random.Random(seed).randbytes(8192)),
    "root": data,
}


@pytest.fixture(scope="module")
def written(databases: Databases) -> Database:
    made = databases.fresh("cells")
    with made.ledger() as log:
        fill(log, events())
    return made


@pytest.fixture
def log(written: Database) -> Iterator[Damaged]:
    with damaging(written) as log:
        log.do("ALTER TABLE trajlog.segment DROP CONSTRAINT segment_check")
        yield log


def cells(table: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[tuple[str, Any]]:
    return st.sampled_from(list(table)).flatmap(lambda column: st.tuples(st.just(column), table[column]))


def change(log: Damaged, table: str, column: str, value: Any, row: int) -> list[tuple[str, int | None]] | None:
    """What is found once the cell is changed; None where it could not be, or was so already."""
    connection = log.connection
    connection.execute("SAVEPOINT cell")
    try:
        changed = connection.execute(
            f"UPDATE trajlog.{table} SET {column} = %s WHERE ctid = "
            f"(SELECT ctid FROM trajlog.{table} ORDER BY ctid OFFSET %s LIMIT 1) AND {column} IS DISTINCT FROM %s",
            (value, row, value),
        )
        return log.found() if changed.rowcount else None
    except errors.UniqueViolation:
        return None
    finally:
        connection.execute("ROLLBACK TO SAVEPOINT cell")


quickly = settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@quickly
@given(cell=cells(EVENT), row=st.integers(0, HEAD - 1))
def test_any_changed_cell_of_an_event_is_found(log: Damaged, cell: tuple[str, Any], row: int) -> None:
    column, value = cell
    found = change(log, "event", column, value, row)
    if found is None:
        return
    expected = {"body": {"body"}, "position": {"order", "missing", "inserted"}}.get(column, {"column"})
    assert {kind for kind, _ in found} <= expected
    assert len(found) == 1 or column == "position"
    if column != "position":
        assert found == [(found[0][0], row + 1)]


@quickly
@given(cell=cells(SEGMENT), row=st.integers(0, 30))
def test_any_changed_cell_of_a_segment_is_found(log: Damaged, cell: tuple[str, Any], row: int) -> None:
    found = change(log, "segment", *cell, row)
    assert found is None or [kind for kind, _ in found] == ["segment"]


@quickly
@given(cell=cells(STREAM), row=st.integers(0, 38))
def test_any_changed_cell_of_a_head_is_found(log: Damaged, cell: tuple[str, Any], row: int) -> None:
    found = change(log, "stream", *cell, row)
    assert found is None or [kind for kind, _ in found] == ["column"]


@quickly
@given(cell=cells(MERKLE), row=st.integers(0, TILED // 256 - 1))
def test_any_changed_cell_of_a_tile_is_found(log: Damaged, cell: tuple[str, Any], row: int) -> None:
    found = change(log, "merkle", *cell, row)
    assert found is not None
    assert {kind for kind, _ in found} == {"tree"}


@quickly
@given(table=st.sampled_from(["event", "segment", "stream", "merkle"]), row=st.integers(0, HEAD - 1))
def test_any_deleted_row_is_found(log: Damaged, table: str, row: int) -> None:
    connection = log.connection
    connection.execute("SAVEPOINT row")
    deleted = connection.execute(
        f"DELETE FROM trajlog.{table} WHERE ctid = "
        f"(SELECT ctid FROM trajlog.{table} ORDER BY ctid OFFSET %s %% (SELECT count(*) FROM trajlog.{table}) LIMIT 1)",
        (row,),
    )
    found = log.found()
    report = log.verify()
    connection.execute("ROLLBACK TO SAVEPOINT row")
    assert deleted.rowcount == 1
    kinds = {"event": "missing", "segment": "segment", "stream": "column", "merkle": "tree"}
    if found or table != "merkle":
        assert [kind for kind, _ in found] == [kinds[table]]
    else:  # the last tile: as if it were not built yet
        assert any("positions 257 to" in line for line in report.unknowable)
