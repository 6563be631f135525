"""Every kind of stored bit is flipped: each break is named by its kind and place, and nothing else is blamed."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from core.errors import NotFound
from eventlog.ledger import Ledger
from eventlog.verify import TAIL, verify, verify_stream
from tests.databases import Database, Databases
from tests.eventlog.damage import HEAD, TILED, Damaged, damaging, events, fill

regions = pytest.mark.parametrize("region", ["tiled", "tail"])


@pytest.fixture(scope="module")
def written(databases: Databases) -> Database:
    made = databases.fresh("verify")
    with made.ledger() as log:
        fill(log, events())
    return made


@pytest.fixture
def log(written: Database) -> Iterator[Damaged]:
    with damaging(written) as log:
        yield log


def inner(log: Damaged, region: str) -> tuple[int, ...]:
    """Position, version and stream length of an event in the middle of its stream."""
    low, high = (100, TILED - 60) if region == "tiled" else (TILED + 20, HEAD - 20)
    return log.row(
        "SELECT e.position, e.version, s.version FROM trajlog.event e JOIN trajlog.stream s USING (stream) "
        f"WHERE e.position BETWEEN {low} AND {high} AND e.version > 2 AND e.version < s.version - 2 "
        f"AND s.first_position > {low - 100} AND e.actor IS NOT NULL ORDER BY e.position LIMIT 1"
    )


# -- whole ------------------------------------------------------------------------------------------


def test_a_whole_log_is_said_to_be_whole(log: Damaged, written: Database) -> None:
    report = log.verify()
    assert report.ok
    assert report.problems == []
    (segments,) = log.row("SELECT count(*) FROM trajlog.segment")
    (streams,) = log.row("SELECT count(*) FROM trajlog.stream")
    assert (report.position, report.events, report.segments, report.streams) == (HEAD, HEAD, segments, streams)
    with written.ledger() as ledger:
        assert report.root == ledger.root().hex()
        assert verify(ledger.reader) == report
    assert report.unknowable[0] == TAIL
    assert "positions 513 to 620" in report.unknowable[1]


def test_an_empty_log_is_whole(databases: Databases) -> None:
    with databases.fresh().ledger() as log:
        report = verify(log.reader)
    assert report.ok
    assert (report.position, report.events, report.streams, report.segments) == (0, 0, 0, 0)


@pytest.mark.parametrize("since", [1, 255, 256, 257, 400, TILED, 600, HEAD, HEAD + 100])
def test_a_part_of_a_whole_log_is_whole(log: Damaged, since: int) -> None:
    report = log.verify(since=since)
    assert report.problems == []
    assert report.events == max(0, HEAD - since)
    assert report.root == log.verify().root
    assert report.unknowable[-1] == f"positions 1 to {min(since, HEAD)}, which were not read"


def test_every_stream_of_a_whole_log_is_whole(written: Database) -> None:
    with written.ledger() as ledger:
        for stream in sorted({event.stream for event in ledger.read_all()}):
            report = verify_stream(ledger.reader, stream)
            assert report.problems == []
            assert report.events == ledger.stream_head(stream)
            assert report.root == ledger.root().hex()
        with pytest.raises(NotFound):
            verify_stream(ledger.reader, "episode/none")


# -- one event --------------------------------------------------------------------------------------

CELLS = {
    "body": ("body", "set_byte(body, 9, get_byte(body, 9) # 1)"),
    "event_id": ("column", "gen_random_uuid()"),
    "run": ("column", "gen_random_uuid()"),
    "seq": ("column", "seq + 1000"),
    "schema": ("column", "schema + 1"),
    "digest": ("column", "set_byte(digest, 0, get_byte(digest, 0) # 1)"),
    "crc": ("column", "crc # 1"),
    "stream": ("column", "'episode/elsewhere'"),
    "writer": ("column", "writer || 'x'"),
    "type": ("column", "'EpisodeEnded'"),
    "occurred_at": ("column", "occurred_at + interval '1 microsecond'"),
    "actor": ("column", "NULL"),
    "owner": ("column", "'someone'"),
    "key_id": ("column", "'key'"),
    "causation_id": ("column", "gen_random_uuid()"),
    "correlation_id": ("column", "''"),
    "conversation": ("column", "upper(conversation)"),
    "version": ("column", "version + 100000"),
}
IMPOSSIBLE = {
    "seq": "-1",
    "schema": "-5",
    "occurred_at": "'infinity'",
    "version": "-3",
}


@regions
@pytest.mark.parametrize("column", list(CELLS))
def test_a_changed_cell_is_named(log: Damaged, region: str, column: str) -> None:
    position, _, _ = inner(log, region)
    kind, change = CELLS[column]
    assert log.do(f"UPDATE trajlog.event SET {column} = {change} WHERE position = {position}") == 1
    assert log.found() == [(kind, position)]
    assert not log.verify().ok


@regions
@pytest.mark.parametrize("column", list(IMPOSSIBLE))
def test_a_cell_that_no_event_can_have_is_named(log: Damaged, region: str, column: str) -> None:
    position, _, _ = inner(log, region)
    log.do(f"UPDATE trajlog.event SET {column} = {IMPOSSIBLE[column]} WHERE position = {position}")
    assert log.found() == [("column", position)]


@regions
@pytest.mark.parametrize("end", ["first", "last"])
@pytest.mark.parametrize("column", ["body", "stream", "writer", "seq", "version"])
def test_a_changed_cell_at_the_end_of_a_stream_is_named(log: Damaged, region: str, end: str, column: str) -> None:
    low, high = (50, TILED - 60) if region == "tiled" else (TILED + 1, HEAD)
    position, *_ = log.row(
        f"SELECT {end}_position FROM trajlog.stream "
        f"WHERE {end}_position BETWEEN {low} AND {high} AND version > 4 LIMIT 1"
    )
    kind, change = CELLS[column]
    log.do(f"UPDATE trajlog.event SET {column} = {change} WHERE position = {position}")
    assert log.found() == [(kind, position)]


@regions
def test_an_event_moved_into_another_stream_is_named(log: Damaged, region: str) -> None:
    position, *_ = inner(log, region)
    log.do(
        "UPDATE trajlog.event e SET stream = o.stream, version = o.version + 1 FROM trajlog.stream o "
        f"WHERE e.position = {position} AND o.last_position = (SELECT max(last_position) FROM trajlog.stream "
        f"WHERE last_position < {position})"
    )
    assert log.found() == [("column", position)]


@regions
def test_an_event_rewritten_with_its_digest_is_named_where_the_tree_stands(log: Damaged, region: str) -> None:
    position, *_ = inner(log, region)
    forge(log, position)
    found = log.found()
    assert found == ([("tree", position)] if region == "tiled" else [])
    assert any(f"positions {TILED + 1} to {HEAD}" in line for line in log.verify().unknowable)


def forge(log: Damaged, position: int) -> None:
    """Change the body and whatever follows from it."""
    from core.digest import event_digest
    from eventlog.pack import crc
    from eventlog.reader import event_of
    from tests.eventlog.damage import Inside

    ((row,),) = list(Inside(log.connection).raw_pages(after=position - 1, until=position))
    forged = event_of((*row[:17], b'{"text":"forged"}'), 0)
    log.connection.execute(
        "UPDATE trajlog.event SET body = %s, digest = %s, crc = %s WHERE position = %s",
        (forged.body, event_digest(forged), crc(forged.body), position),
    )


# -- order ------------------------------------------------------------------------------------------


def swap(log: Damaged, a: int, b: int) -> None:
    """Exchange the positions of two events."""
    log.do(
        f"UPDATE trajlog.event SET position = -1 WHERE position = {a}",
        f"UPDATE trajlog.event SET position = {a} WHERE position = {b}",
        f"UPDATE trajlog.event SET position = {b} WHERE position = -1",
    )


@regions
def test_two_events_of_different_streams_that_changed_places(log: Damaged, region: str) -> None:
    after, *_ = inner(log, region)
    (a,) = log.row(
        "SELECT a.position FROM trajlog.event a JOIN trajlog.event b ON b.position = a.position + 1 "
        f"WHERE a.position > {after} AND a.stream <> b.stream AND NOT EXISTS (SELECT FROM trajlog.stream s "
        "WHERE s.last_position IN (a.position, b.position)) ORDER BY 1 LIMIT 1"
    )
    swap(log, a, a + 1)
    if region == "tiled":
        assert log.found() == [("order", a), ("order", a + 1)]
    else:  # neither versions nor heads tell, and it is said that this cannot be known
        assert log.found() == []
        assert any("changed places" in line for line in log.verify().unknowable)


@regions
@pytest.mark.parametrize("apart", [1, 2])
def test_two_events_of_one_stream_that_changed_places(log: Damaged, region: str, apart: int) -> None:
    a, version, _ = inner(log, region)
    (b,) = log.row(
        f"SELECT position FROM trajlog.event WHERE version = {version + apart} AND stream = "
        f"(SELECT stream FROM trajlog.event WHERE position = {a})"
    )
    swap(log, a, b)
    assert log.found() == [("order", a), ("order", b)]


@regions
def test_an_event_moved_to_another_place_in_its_stream(log: Damaged, region: str) -> None:
    """Its stream's events between the two places keep their order."""
    a, version, _ = inner(log, region)
    stream, _ = stream_at(log, a)
    places = [
        position
        for (position,) in log.connection.execute(
            f"SELECT position FROM trajlog.event WHERE stream = '{stream}' AND version >= {version} ORDER BY 1 LIMIT 4"
        )
    ]
    log.do(f"UPDATE trajlog.event SET position = -1 WHERE position = {places[0]}")
    for to, at in pairwise(places):
        log.do(f"UPDATE trajlog.event SET position = {to} WHERE position = {at}")
    log.do(f"UPDATE trajlog.event SET position = {places[-1]} WHERE position = -1")
    if region == "tiled":
        assert log.found() == [("order", place) for place in places]
    else:
        assert log.found() == [("order", places[-1])]


@regions
def test_two_events_of_one_stream_that_changed_versions(log: Damaged, region: str) -> None:
    a, version, _ = inner(log, region)
    (b,) = log.row(
        f"SELECT position FROM trajlog.event WHERE version = {version + 1} AND stream = "
        f"(SELECT stream FROM trajlog.event WHERE position = {a})"
    )
    log.do(
        f"UPDATE trajlog.event SET version = -1 WHERE position = {a}",
        f"UPDATE trajlog.event SET version = {version} WHERE position = {b}",
        f"UPDATE trajlog.event SET version = {version + 1} WHERE position = {a}",
    )
    found = log.found()
    assert [position for _, position in found] == [a, b]
    assert {kind for kind, _ in found} <= {"order", "column"}


@regions
def test_two_events_of_one_stream_that_changed_everything_but_position_and_version(log: Damaged, region: str) -> None:
    a, version, _ = inner(log, region)
    (b,) = log.row(
        f"SELECT position FROM trajlog.event WHERE version = {version + 2} AND stream = "
        f"(SELECT stream FROM trajlog.event WHERE position = {a})"
    )
    swap(log, a, b)
    log.do(
        f"UPDATE trajlog.event SET version = -1 WHERE position = {a}",
        f"UPDATE trajlog.event SET version = {version + 2} WHERE position = {b}",
        f"UPDATE trajlog.event SET version = {version} WHERE position = {a}",
    )
    assert log.found() == ([("order", a), ("order", b)] if region == "tiled" else [])


@regions
@pytest.mark.parametrize("to", [10_000_000, 0, -7])
def test_an_event_moved_out_of_the_log(log: Damaged, region: str, to: int) -> None:
    position, *_ = inner(log, region)
    log.do(f"UPDATE trajlog.event SET position = {to} WHERE position = {position}")
    assert log.found() == [("order", to)]


def test_the_last_event_of_a_stream_moved_out_of_the_log(log: Damaged) -> None:
    (position,) = log.row(f"SELECT max(last_position) FROM trajlog.stream WHERE last_position < {HEAD}")
    log.do(f"UPDATE trajlog.event SET position = 10000 WHERE position = {position}")
    assert log.found() == [("order", 10000)]


# -- deletion ---------------------------------------------------------------------------------------


def stream_at(log: Damaged, position: int) -> tuple[object, ...]:
    found = log.connection.execute(f"SELECT stream, version FROM trajlog.event WHERE position = {position}").fetchone()
    assert found is not None
    return found


def close_up(log: Damaged, position: int, by: int = 1) -> None:
    """Renumber what comes after."""
    log.do(
        f"UPDATE trajlog.event SET position = -position WHERE position > {position}",
        f"UPDATE trajlog.event SET position = -position - {by} WHERE position < 0",
    )


@regions
def test_a_deleted_event_is_missing(log: Damaged, region: str) -> None:
    position, *_ = inner(log, region)
    stream, version = stream_at(log, position)
    log.do(f"DELETE FROM trajlog.event WHERE position = {position}")
    (problem,) = log.verify().problems
    assert (problem.kind, problem.position) == ("missing", position)
    assert (problem.stream, problem.version) == (stream, version)


@regions
@pytest.mark.parametrize("end", ["first", "last"])
def test_a_deleted_end_of_a_stream_is_missing(log: Damaged, region: str, end: str) -> None:
    low, high = (50, TILED - 60) if region == "tiled" else (TILED + 1, HEAD)
    (position,) = log.row(
        f"SELECT {end}_position FROM trajlog.stream "
        f"WHERE {end}_position BETWEEN {low} AND {high} AND version > 4 LIMIT 1"
    )
    stream, version = stream_at(log, position)
    log.do(f"DELETE FROM trajlog.event WHERE position = {position}")
    (problem,) = log.verify().problems
    assert (problem.kind, problem.position) == ("missing", position)
    assert (problem.stream, problem.version) == (stream, version)


@regions
def test_a_deleted_event_is_missing_though_the_rest_moved_up(log: Damaged, region: str) -> None:
    position, *_ = inner(log, region)
    stream, version = stream_at(log, position)
    log.do(f"DELETE FROM trajlog.event WHERE position = {position}")
    close_up(log, position)
    (problem,) = log.verify().problems
    assert (problem.kind, problem.stream, problem.version) == ("missing", stream, version)
    if region == "tiled":
        assert problem.position == position
    else:  # between its neighbours
        (after,) = log.row(
            f"SELECT position FROM trajlog.event WHERE stream = '{stream}' AND version = {int(str(version)) + 1}"
        )
        assert problem.position == after


@regions
def test_a_deleted_event_is_missing_though_its_stream_was_renumbered_too(log: Damaged, region: str) -> None:
    position, *_ = inner(log, region)
    stream, version = stream_at(log, position)
    log.do(f"DELETE FROM trajlog.event WHERE position = {position}")
    close_up(log, position)
    log.do(
        f"UPDATE trajlog.event SET version = -version WHERE stream = '{stream}' AND version > {version}",
        "UPDATE trajlog.event SET version = -version - 1 WHERE version < 0",
        f"UPDATE trajlog.stream SET version = version - 1 WHERE stream = '{stream}'",
        f"UPDATE trajlog.stream SET last_position = last_position - 1 WHERE last_position > {position}",
        f"UPDATE trajlog.stream SET first_position = first_position - 1 WHERE first_position > {position}",
    )
    problem, *others = log.verify().problems
    assert (problem.kind, problem.position) == ("missing", position if region == "tiled" else HEAD)
    if region == "tail":  # where it was, its writer's numbers tell
        assert [(other.kind, other.stream) for other in others] == [("seq", stream)]
    else:
        assert others == []


def test_a_deleted_stream_is_missing(log: Damaged) -> None:
    (position,) = log.row("SELECT first_position FROM trajlog.stream WHERE first_position > 200 LIMIT 1")
    stream, _ = stream_at(log, position)
    (count,) = log.row(f"SELECT count(*) FROM trajlog.event WHERE stream = '{stream}'")
    log.do(f"DELETE FROM trajlog.event WHERE stream = '{stream}'")
    problems = log.verify().problems
    assert {problem.kind for problem in problems} == {"missing"}
    assert len(problems) <= count


def test_a_deleted_stretch_is_missing_as_one(log: Damaged) -> None:
    log.do("DELETE FROM trajlog.event WHERE position BETWEEN 250 AND 560")
    found = log.verify().problems
    assert [(problem.kind, problem.position) for problem in found] == [("missing", 250)]
    assert found[0].detail == "no events at positions 250 to 560"


def test_events_cut_off_the_end_while_their_segments_stand(log: Damaged) -> None:
    log.do("DELETE FROM trajlog.event WHERE position > 600")
    report = log.verify()
    assert {problem.kind for problem in report.problems} == {"missing"}
    assert report.position == HEAD


def cut(log: Damaged, after: int) -> None:
    """Take the end of the log away, segments, heads and tiles with it."""
    (end,) = log.row(f"SELECT max(last_position) FROM trajlog.segment WHERE last_position <= {after}")
    log.do(
        f"DELETE FROM trajlog.event WHERE position > {end}",
        f"DELETE FROM trajlog.segment WHERE last_position > {end}",
        "DELETE FROM trajlog.stream",
        "INSERT INTO trajlog.stream "
        "SELECT stream, count(*), min(position), max(position) FROM trajlog.event GROUP BY 1",
    )


def test_a_tail_cut_with_its_segments_cannot_be_known_and_that_is_said(log: Damaged) -> None:
    cut(log, 600)
    report = log.verify()
    assert report.ok
    assert report.position <= 600
    assert TAIL in report.unknowable


def test_a_tail_cut_into_the_tiles_is_found(log: Damaged) -> None:
    cut(log, 300)
    (end,) = log.row("SELECT max(last_position) FROM trajlog.segment")
    assert log.found() == [("missing", end + 1)]


def test_a_tail_cut_at_a_tiles_edge_is_found(databases: Databases) -> None:
    made = databases.fresh()
    with made.ledger() as ledger:
        for batch in range(4):
            ledger.append_many(list(events(128, streams=batch + 1)))
        ledger.seal()
    with damaging(made) as log:
        cut(log, 256)
        assert log.found() == [("missing", 257)]


# -- insertion --------------------------------------------------------------------------------------


def insert(log: Damaged, position: int, stream: str, version: int) -> None:
    """Put in an event that is sound in itself."""
    from core.digest import event_digest
    from core.identity import uuid7
    from eventlog.commit import parameters
    from eventlog.testing import an_event

    event = an_event(stream, run=uuid7(), body=b'{"text":"forged"}')
    columns = (position, version, *parameters(event, event_digest(event))[:-1])
    log.connection.execute(f"INSERT INTO trajlog.event VALUES ({', '.join(['%s'] * 19)})", columns)


def open_up(log: Damaged, position: int) -> None:
    """Renumber to make room."""
    log.do(
        f"UPDATE trajlog.event SET position = -position WHERE position >= {position}",
        "UPDATE trajlog.event SET position = -position + 1 WHERE position < 0",
    )


def test_an_event_put_in_after_the_end(log: Damaged) -> None:
    stream, version = stream_at(log, HEAD)
    insert(log, HEAD + 1, str(stream), int(str(version)) + 1)
    insert(log, HEAD + 2, "episode/new", 1)
    assert log.found() == [("inserted", HEAD + 1), ("inserted", HEAD + 2)]


def test_an_event_put_in_before_the_beginning(log: Damaged) -> None:
    insert(log, 0, "episode/new", 1)
    assert log.found() == [("inserted", 0)]


@regions
def test_an_event_put_in_as_the_last_of_its_stream_with_the_rest_moved_down(log: Damaged, region: str) -> None:
    position, _, length = inner(log, region)
    stream, _ = stream_at(log, position)
    open_up(log, position)
    insert(log, position, str(stream), length + 1)
    assert log.found() == [("inserted", position)]


def test_an_event_put_in_the_middle_with_everything_renumbered(log: Damaged) -> None:
    position, version, _ = inner(log, "tiled")
    stream, _ = stream_at(log, position)
    open_up(log, position)
    log.do(
        f"UPDATE trajlog.event SET version = -version WHERE stream = '{stream}' AND version >= {version}",
        "UPDATE trajlog.event SET version = -version + 1 WHERE version < 0",
    )
    insert(log, position, str(stream), version)
    assert log.found() == [("inserted", position)]
    log.do(
        f"UPDATE trajlog.stream SET version = version + 1 WHERE stream = '{stream}'",
        f"UPDATE trajlog.stream SET last_position = last_position + 1 WHERE last_position >= {position}",
        f"UPDATE trajlog.stream SET first_position = first_position + 1 WHERE first_position >= {position}",
    )
    assert log.found() == [("inserted", position)]


def test_an_event_put_in_the_tail_with_everything_renumbered_is_an_event_too_many(log: Damaged) -> None:
    position, version, _ = inner(log, "tail")
    stream, _ = stream_at(log, position)
    open_up(log, position)
    log.do(
        f"UPDATE trajlog.event SET version = -version WHERE stream = '{stream}' AND version >= {version}",
        "UPDATE trajlog.event SET version = -version + 1 WHERE version < 0",
    )
    insert(log, position, str(stream), version)
    found = log.verify().problems
    assert {problem.kind for problem in found} == {"inserted"}
    assert {problem.stream for problem in found} <= {stream, stream_at(log, HEAD + 1)[0]}


def test_an_event_put_in_the_place_of_another(log: Damaged) -> None:
    position, *_ = inner(log, "tiled")
    log.do(f"DELETE FROM trajlog.event WHERE position = {position}")
    insert(log, position, "episode/new", 1)
    log.do(f"INSERT INTO trajlog.stream VALUES ('episode/new', 1, {position}, {position})")
    assert log.found() == [("tree", position)]


# -- segments ---------------------------------------------------------------------------------------

SEGMENT = {
    "first_position": "first_position - 1",
    "last_position": "last_position + 1000000",
    "topic_id": "gen_random_uuid()",
    "partition": "1",
    "first_offset": "0",
    "next_offset": "-1",
    "committed_at": "committed_at + interval '1 microsecond'",
    "previous": "sha256(previous)",
    "seal": "sha256(seal)",
}


@pytest.mark.parametrize("place", ["inner", "last"])
@pytest.mark.parametrize("column", list(SEGMENT))
def test_a_changed_segment_is_named(log: Damaged, column: str, place: str) -> None:
    (end,) = log.row(
        f"SELECT {'max' if place == 'last' else 'min'}(last_position) FROM trajlog.segment WHERE last_position > 300"
    )
    log.do(f"UPDATE trajlog.segment SET {column} = {SEGMENT[column]} WHERE last_position = {end}")
    ((kind, position),) = log.found()
    assert kind == "segment"
    assert position == (end + 1000000 if (place, column) == ("last", "last_position") else end)


@pytest.mark.parametrize("column", ["first_position", "last_position", "committed_at"])
def test_a_segment_that_no_log_can_have_is_named(log: Damaged, column: str) -> None:
    (end,) = log.row("SELECT min(last_position) FROM trajlog.segment WHERE last_position > 300")
    value = "'-infinity'" if column == "committed_at" else "-5"
    log.do("ALTER TABLE trajlog.segment DROP CONSTRAINT segment_check")
    log.do(f"UPDATE trajlog.segment SET {column} = {value} WHERE last_position = {end}")
    assert log.found() == [("segment", end)]


def test_a_deleted_segment_is_named(log: Damaged) -> None:
    (end,) = log.row("SELECT min(last_position) FROM trajlog.segment WHERE last_position > 300")
    log.do(f"DELETE FROM trajlog.segment WHERE last_position = {end}")
    assert log.found() == [("segment", end)]


def test_the_last_segment_deleted_leaves_events_without_one(log: Damaged) -> None:
    log.do(f"DELETE FROM trajlog.segment WHERE last_position = {HEAD}")
    report = log.verify()
    assert [(problem.kind, problem.position) for problem in report.problems] == [("segment", HEAD)]
    assert report.position < HEAD


def test_a_segment_resealed_by_hand_breaks_the_chain(log: Damaged) -> None:
    (end,) = log.row("SELECT min(last_position) FROM trajlog.segment WHERE last_position > 300")
    log.do(
        "UPDATE trajlog.segment SET committed_at = committed_at + interval '1 microsecond' "
        f"WHERE last_position = {end}",
        "UPDATE trajlog.segment SET seal = trajlog.segment_seal(previous, first_position, last_position, topic_id, "
        f"partition, first_offset, next_offset, committed_at) WHERE last_position = {end}",
    )
    (next_end,) = log.row(f"SELECT min(last_position) FROM trajlog.segment WHERE last_position > {end}")
    assert log.found() == [("segment", next_end)]


# -- tree -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("hashes", "set_byte(hashes, 1000, get_byte(hashes, 1000) # 1)"),
        ("root", "set_byte(root, 0, get_byte(root, 0) # 1)"),
        ("root", "'\\x'"),
    ],
)
def test_a_changed_tile_is_named(log: Damaged, index: int, column: str, change: str) -> None:
    log.do(f"UPDATE trajlog.merkle SET {column} = {change} WHERE index = {index}")
    assert log.found() == [("tree", index * 256 + 1)]


def test_a_deleted_tile_is_named(log: Damaged) -> None:
    log.do("DELETE FROM trajlog.merkle WHERE index = 0")
    assert log.found() == [("tree", 1)]


def test_tiles_of_nothing_are_named(log: Damaged) -> None:
    log.do("INSERT INTO trajlog.merkle SELECT 0, 70, hashes, root FROM trajlog.merkle WHERE index = 0")
    assert log.found() == [("tree", 70 * 256 + 1)]


def test_a_tile_with_one_hash_damaged_beside_a_damaged_event(log: Damaged) -> None:
    position, *_ = inner(log, "tiled")
    log.do(
        f"UPDATE trajlog.event SET writer = 'x' WHERE position = {position}",
        f"UPDATE trajlog.merkle SET root = sha256(root) WHERE index = {(position - 1) // 256}",
    )
    assert sorted(log.found()) == sorted([("column", position), ("tree", (position - 1) // 256 * 256 + 1)])


# -- heads ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("version", "version + 1"),
        ("version", "version - 1"),
        ("version", "1"),
        ("first_position", "first_position + 1"),
        ("first_position", "first_position - 1"),
        ("last_position", "last_position + 1"),
        ("last_position", "last_position - 1"),
        ("last_position", "1000000"),
        ("stream", "'episode/elsewhere'"),
    ],
)
def test_a_changed_head_is_named(log: Damaged, column: str, change: str) -> None:
    position, *_ = inner(log, "tiled")
    stream, _ = stream_at(log, position)
    log.do(f"UPDATE trajlog.stream SET {column} = {change} WHERE stream = '{stream}'")
    (problem,) = log.verify().problems
    assert (problem.kind, problem.stream) == ("column", stream)


def test_a_deleted_head_is_named(log: Damaged) -> None:
    stream, _ = stream_at(log, 300)
    log.do(f"DELETE FROM trajlog.stream WHERE stream = '{stream}'")
    (problem,) = log.verify().problems
    assert (problem.kind, problem.stream) == ("column", stream)


def test_a_head_of_nothing_is_named(log: Damaged) -> None:
    log.do("INSERT INTO trajlog.stream VALUES ('episode/elsewhere', 3, 10, 20)")
    (problem,) = log.verify().problems
    assert (problem.kind, problem.stream) == ("missing", "episode/elsewhere")


# -- several ----------------------------------------------------------------------------------------


def test_damage_in_several_places_is_all_named(log: Damaged) -> None:
    a, *_ = inner(log, "tiled")
    b, *_ = inner(log, "tail")
    (end,) = log.row("SELECT min(last_position) FROM trajlog.segment WHERE last_position > 300")
    (last,) = log.row("SELECT min(last_position) FROM trajlog.stream")
    log.do(
        f"UPDATE trajlog.event SET writer = 'x' WHERE position = {a}",
        f"UPDATE trajlog.event SET body = '{{}}' WHERE position = {a + 1}",
        f"DELETE FROM trajlog.event WHERE position = {b}",
        f"UPDATE trajlog.stream SET version = version + 1 WHERE last_position = {last}",
        f"UPDATE trajlog.segment SET seal = sha256(seal) WHERE last_position = {end}",
    )
    expected = {("column", last), ("column", a), ("body", a + 1), ("missing", b), ("segment", end)}
    assert set(log.found()) == expected
    assert len(log.found()) == len(expected)


def test_since_names_only_what_was_read(log: Damaged) -> None:
    log.do("UPDATE trajlog.event SET writer = 'x' WHERE position IN (10, 400, 550)")
    assert log.found(since=300) == [("column", 400), ("column", 550)]
    assert log.found(since=512) == [("column", 550)]


def test_one_stream_is_verified_alone(log: Damaged) -> None:
    position, version, _ = inner(log, "tiled")
    stream, _ = stream_at(log, position)
    log.do(
        f"UPDATE trajlog.event SET body = '{{}}' WHERE position = {position}",
        f"DELETE FROM trajlog.event WHERE stream = '{stream}' AND version = {version + 2}",
        "UPDATE trajlog.event SET writer = 'x' WHERE position = 1",
    )
    report = log.verify_stream(str(stream))
    assert [(p.kind, p.version) for p in report.problems] == [("body", version), ("missing", version + 2)]


@pytest.mark.parametrize("change", ["swap", "version", "forge", "delete"])
def test_one_stream_tells_what_happened_to_it(log: Damaged, change: str) -> None:
    a, version, _ = inner(log, "tiled")
    stream, _ = stream_at(log, a)
    (b,) = log.row(f"SELECT position FROM trajlog.event WHERE version = {version + 1} AND stream = '{stream}'")
    expected = {"swap": "order", "version": "column", "forge": "tree", "delete": "missing"}[change]
    if change == "swap":
        swap(log, a, b)
    elif change == "version":
        log.do(f"UPDATE trajlog.event SET version = 1000 WHERE position = {a}")
    elif change == "forge":
        forge(log, a)
    else:
        log.do(f"DELETE FROM trajlog.event WHERE position = {a}")
    report = log.verify_stream(str(stream))
    assert {problem.kind for problem in report.problems} == {expected}
    assert len(report.problems) == (2 if change == "swap" else 1)


# -- a log that grows -------------------------------------------------------------------------------


def test_a_log_that_grows_meanwhile_is_whole(databases: Databases) -> None:
    import threading

    made = databases.fresh()
    done = threading.Event()
    with made.ledger() as log:
        fill(log, events())

        def write() -> None:
            with made.ledger() as writing:
                while not done.is_set():
                    fill(writing, events(60))

        thread = threading.Thread(target=write)
        thread.start()
        try:
            reports = [verify(log.reader) for _ in range(10)]
        finally:
            done.set()
            thread.join()
    assert [report.problems for report in reports] == [[]] * 10
    assert reports[-1].position > reports[0].position


def test_reading_and_appending_go_on_after_a_verification(ledger: Ledger) -> None:
    fill(ledger, events(100))
    assert verify(ledger.reader).ok
    fill(ledger, events(100))
    assert ledger.head().position == 200
