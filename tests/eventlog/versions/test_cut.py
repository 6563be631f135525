"""Cuts: what a position, a time or a tag names, and that a time names the same for ever."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from core.errors import Corrupt, NotFound, TrajlogError, UsageError
from core.merkle import EMPTY_ROOT
from core.times import now, to_text
from eventlog.commit import LOCK
from eventlog.database import connect
from eventlog.inmemory import InMemoryLog
from eventlog.ledger import Ledger
from eventlog.versions.cut import Cut, cut_at, locate, resolve
from eventlog.writer import Writer
from tests.databases import Database


def fill(log: Any, commits: int = 5, size: int = 3) -> list[tuple[int, int]]:
    """Commit; where each commit ends, and its stamp."""
    writer = Writer()
    ends = []
    for _ in range(commits):
        log.append_many([writer.raw("episode/1", "NoteAdded", b'{"text":"x"}') for _ in range(size)])
        head = log.head()
        ends.append((head.position, head.committed_at))
    return ends


@pytest.fixture(params=["ledger", "memory"])
def log(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "memory":
        yield InMemoryLog()
    else:
        yield request.getfixturevalue("ledger")


def test_a_position_names_the_events_up_to_it(log: Any) -> None:
    fill(log)
    head = log.head()
    assert resolve(log, "15") == Cut(log.log_id, 15, log.root(), head.seal)
    assert resolve(log, "7").root == log.root(7)
    assert resolve(log, "0") == Cut(log.log_id, 0, EMPTY_ROOT, None)


def test_the_seal_is_of_the_last_segment_that_ends_by_then(log: Any) -> None:
    seals = {}
    writer = Writer()
    for _ in range(3):
        log.append_many([writer.raw("episode/1", "NoteAdded", b'{"text":"x"}') for _ in range(3)])
        seals[log.head().position] = log.head().seal
    assert [cut_at(log, position).seal for position in range(10)] == [
        None, None, None, seals[3], seals[3], seals[3], seals[6], seals[6], seals[6], seals[9],
    ]  # fmt: skip


def test_a_time_names_what_was_committed_by_then(log: Any) -> None:
    ends = fill(log, commits=20, size=2)
    for i, (position, stamp) in enumerate(ends):
        assert locate(log, to_text(stamp)) == position
        assert locate(log, to_text(stamp + 1)) == position or ends[i + 1][1] == stamp + 1
        if i:
            assert locate(log, to_text(stamp - 1)) == ends[i - 1][0]
    assert locate(log, to_text(now())) == 40
    assert locate(log, "0s") == 40


@pytest.mark.parametrize(
    ("text", "error", "what"),
    [
        ("41", NotFound, "the log ends at position 40"),
        ("9" * 30, NotFound, "the log ends at position 40"),
        ("2999-01-01", UsageError, "is in the future"),
        ("2999-01-01T00:00:00Z", UsageError, "is in the future"),
        ("2020-01-01", NotFound, "before the first event"),
        ("9w", NotFound, "before the first event"),
        ("2026-13-45", UsageError, "not a tag, a position or a time"),
        ("", UsageError, "not a tag, a position or a time"),
        ("-5", UsageError, "not a tag, a position or a time"),
        ("\N{ARABIC-INDIC DIGIT SEVEN}", UsageError, "not a tag, a position or a time"),
        ("gold", NotFound, "no such tag"),
        ("go\0ld", NotFound, "no such tag"),
        ("go\ud800ld", NotFound, "no such tag"),
    ],
)
def test_what_names_no_cut_is_refused_in_one_line(log: Any, text: str, error: type[TrajlogError], what: str) -> None:
    fill(log, commits=20, size=2)
    with pytest.raises(error, match=what) as raised:
        resolve(log, text)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["1", "0s", "2020-01-01"])
def test_an_empty_log_has_no_cut_but_the_empty_one(log: Any, text: str) -> None:
    with pytest.raises(NotFound, match="no events yet"):
        resolve(log, text)
    assert resolve(log, "0").root == EMPTY_ROOT


def test_a_cut_beyond_the_head_is_refused(log: Any) -> None:
    with pytest.raises(NotFound):
        cut_at(log, 1)


def test_a_time_waits_for_a_commit_that_may_be_stamped_before_it(ledger: Ledger, database: Database) -> None:
    """Its stamp is taken while the lock is held, and seen only at the end."""
    fill(ledger, commits=1)
    found: list[int] = []
    with connect(database.url) as other, other.transaction():
        other.execute(LOCK)
        (stamp,) = other.execute("SELECT trajlog.close_segment(4, 4, NULL, NULL, NULL, NULL)").fetchone() or (None,)
        assert stamp is not None
        asked = to_text(now())
        thread = threading.Thread(target=lambda: found.append(locate(ledger, asked)))
        thread.start()
        time.sleep(0.3)
        assert not found
    thread.join(10)
    assert found == [4] == [locate(ledger, asked)]


def test_an_older_time_waits_for_nobody(ledger: Ledger, database: Database) -> None:
    ((position, stamp),) = fill(ledger, commits=1)
    with connect(database.url) as other, other.transaction():
        other.execute(LOCK)
        assert locate(ledger, to_text(stamp)) == position


def test_offsets_are_those_of_each_partition_by_then(ledger: Ledger, database: Database) -> None:
    fill(ledger, commits=6, size=1)
    topics = ["00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"]
    with database.tampering() as connection:
        connection.execute("DELETE FROM trajlog.segment")
        for position, (topic, partition, offset) in enumerate(
            [(0, 0, 3), (0, 1, 8), (0, 0, 9), (None, None, None), (1, 0, 2), (0, 1, 10)], 1
        ):
            connection.execute(
                "SELECT trajlog.close_segment(%s, %s, %s, %s, %s, %s)",
                (position, position, None if topic is None else topics[topic], partition, offset and 0, offset),
            )
    a, b = (bytes.fromhex(topic.replace("-", "")) for topic in topics)
    assert cut_at(ledger, 0).offsets == {}
    assert cut_at(ledger, 2).offsets == {(a, 0): 3, (a, 1): 8}
    assert cut_at(ledger, 4).offsets == {(a, 0): 9, (a, 1): 8}
    assert cut_at(ledger, 6).offsets == {(a, 0): 9, (a, 1): 10, (b, 0): 2}


def test_segments_that_do_not_join_are_said(ledger: Ledger, database: Database) -> None:
    ends = fill(ledger, commits=4)
    with database.tampering() as connection:
        connection.execute("DELETE FROM trajlog.segment WHERE last_position < 10")
    with pytest.raises(Corrupt, match="do not join"):
        locate(ledger, to_text(ends[0][1] - 1))
