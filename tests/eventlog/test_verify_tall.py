"""Verification of a tree of many levels."""

from collections.abc import Iterator

import pytest

from tests.databases import Database, Databases
from tests.eventlog.damage import Damaged, damaging, events
from tests.eventlog.tiles import BITS, SIZE, allow_small, make_small

COUNT = 2 * SIZE**4 + 9


@pytest.fixture(scope="module")
def written(databases: Databases) -> Database:
    made = databases.fresh("tall")
    allow_small(made)
    with pytest.MonkeyPatch.context() as patch, made.ledger() as log:
        make_small(patch)
        log.append_many(list(events(COUNT)))
        log.seal()
    return made


@pytest.fixture
def log(written: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Damaged]:
    make_small(monkeypatch)
    with damaging(written) as log:
        yield log


def first(level: int, index: int) -> int:
    """The first position that a tile covers."""
    return (index << BITS * (level + 1)) + 1


def test_a_whole_tree_is_whole(log: Damaged) -> None:
    (levels,) = log.row("SELECT max(level) FROM trajlog.merkle")
    assert levels == 3
    assert log.verify().problems == []
    for since in (1, 17, 100, 300, COUNT):
        assert log.verify(since=since).problems == []


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("change", ["hashes = set_byte(hashes, 40, get_byte(hashes, 40) # 1)", "root = sha256(root)"])
def test_a_changed_tile_of_any_level_is_named_alone(log: Damaged, level: int, index: int, change: str) -> None:
    log.do(f"UPDATE trajlog.merkle SET {change} WHERE level = {level} AND index = {index}")
    assert log.found() == [("tree", first(level, index))]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_deleted_tile_of_any_level_is_named(log: Damaged, level: int) -> None:
    log.do(f"DELETE FROM trajlog.merkle WHERE level = {level} AND index = 1")
    assert log.found() == [("tree", first(level, 1))]


@pytest.mark.parametrize("at", [5, 100, COUNT - 20])
def test_an_event_taken_out_of_many_tiles_is_missing_alone(log: Damaged, at: int) -> None:
    log.do(
        f"DELETE FROM trajlog.event WHERE position = {at}",
        f"UPDATE trajlog.event SET position = -position WHERE position > {at}",
        "UPDATE trajlog.event SET position = -position - 1 WHERE position < 0",
    )
    assert log.found() == [("missing", at)]


def test_three_events_taken_out_are_missing_each(log: Damaged) -> None:
    for at in (300, 100, 20):
        log.do(
            f"DELETE FROM trajlog.event WHERE position = {at}",
            f"UPDATE trajlog.event SET position = -position WHERE position > {at}",
            "UPDATE trajlog.event SET position = -position - 1 WHERE position < 0",
        )
    assert log.found() == [("missing", 20), ("missing", 100), ("missing", 300)]


def test_two_halves_of_the_log_that_changed_places_are_out_of_order(log: Damaged) -> None:
    half = SIZE**4
    log.do(
        f"UPDATE trajlog.event SET position = -position WHERE position <= {2 * half}",
        f"UPDATE trajlog.event SET position = CASE WHEN -position <= {half} THEN -position + {half} "
        f"ELSE -position - {half} END WHERE position < 0",
    )
    found = log.found()
    assert {kind for kind, _ in found} == {"order"}
    assert [position for _, position in found] == list(range(1, 2 * half + 1))
