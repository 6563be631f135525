"""Every projection as of a cut is the fold of the log's first events, whatever came after."""

import random
from collections.abc import Iterator

import pytest

from core.errors import NotFound
from core.event import StoredEvent
from eventlog.database import Connection, connect
from eventlog.ledger import Ledger
from eventlog.projection import AnyProjection, Column, Projection, Row, is_first, is_second, relation, second
from eventlog.projection.as_of import reading as reading_as_of
from eventlog.projection.rows import copy, read_back, storable
from eventlog.projection.runner import catch_up
from eventlog.projection.tables import definition
from eventlog.views import EPISODES, VIEWS, listing, reading, registered
from eventlog.views.episode import EPISODE
from eventlog.views.named import resolve
from tests.databases import Databases
from tests.eventlog import samples
from tests.eventlog.projection.folds import ByLast, Counter, fill, folded, random_log, read, rows

CUTS = 34


@pytest.fixture
def log(ledger: Ledger) -> Ledger:
    return ledger


@pytest.fixture
def connection(log: Ledger) -> Iterator[Connection]:
    with connect(log.url) as connection:
        yield connection


def fold_prefix(projection: Projection, events: list[StoredEvent]) -> list[Row]:
    """The rows of these events. An event that the fold cannot take stops its stream."""
    streams: dict[str, list[StoredEvent]] = {}
    for event in events:
        if event.stream.startswith(projection.prefix):
            streams.setdefault(event.stream, []).append(event)
    found: list[Row] = []
    for stream, its in streams.items():
        for end in range(len(its), 0, -1):
            state = projection.initial(stream)
            try:
                for event in its[:end]:
                    state = projection.apply(state, event)
            except Exception:
                continue
            found += [read_back(row) for row in projection.rows(state, 0)]
            break
    return sorted(found, key=repr)


def second_of(
    connection: Connection, projection: AnyProjection, firsts: dict[str, tuple[Projection, list[Row]]]
) -> list[Row]:
    """The rows of a second stage, all keys, from these rows of its sources."""
    assert is_second(projection)
    with connection.transaction(force_rollback=True):
        for source in projection.reads:
            fold, found = firsts[source.view.name]
            connection.execute(f"CREATE TEMP TABLE {relation(source.view)} ({definition(fold.columns)})")
            copy(connection, f"pg_temp.{relation(source.view)}", fold.columns, storable(fold, found))
            key = ", ".join(f'"{name}"' for name in fold.key)
            connection.execute(f"ALTER TABLE pg_temp.{relation(source.view)} ADD PRIMARY KEY ({key})")
        return sorted([row for _, group in second.made(connection, projection) for row in group], key=repr)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_projection_as_of_any_cut_is_the_fold_of_that_prefix(
    log: Ledger, connection: Connection, seed: int
) -> None:
    chance = random.Random(seed)
    for commit in random_log(seed):
        log.append_many(commit)
        if chance.random() < 0.1:
            catch_up(log, connection, registered())
    events = list(log.read_all())
    for cut in [0, 1, len(events), *chance.sample(range(2, len(events)), CUTS - 3)]:
        firsts = {p.name: (p, fold_prefix(p, events[:cut])) for p in registered() if is_first(p)}
        with reading(log, VIEWS, as_of=cut) as then:
            for projection in registered():
                if is_first(projection):
                    wanted = firsts[projection.name][1]
                else:
                    wanted = second_of(connection, projection, firsts)
                assert read(then, projection) == wanted, (projection.name, cut)
            assert then.execute("SELECT count(*), max(position) FROM event").fetchone() == (cut, cut or None)


def test_a_log_that_ended_at_the_cut_reads_the_same(databases: Databases) -> None:
    """The other database holds the first events alone, and folded them as they came."""
    one, other = databases.fresh("asof"), databases.fresh("asof")
    with one.ledger() as log, other.ledger() as short:
        for commit in random_log(7):
            log.append_many(commit)
        end = 0
        for least in (60, 131, 222):
            with one.tampering() as source, other.tampering() as target:
                query = "SELECT min(last_position) FROM trajlog.segment WHERE last_position >= %s"
                (cut,) = source.execute(query, (least,)).fetchone() or (0,)
                copy_between(source, target, "event", f"position > {end} AND position <= {cut}")
                copy_between(source, target, "segment", f"last_position > {end} AND last_position <= {cut}")
                target.execute(
                    "TRUNCATE trajlog.stream; INSERT INTO trajlog.stream "
                    "SELECT stream, max(version), min(position), max(position) FROM trajlog.event GROUP BY stream"
                )
            end = cut
            with reading(log, VIEWS, as_of=cut) as then, reading(short, VIEWS) as now:
                for projection in registered():
                    assert read(then, projection) == read(now, projection), (projection.name, cut)


def copy_between(source: Connection, target: Connection, name: str, where: str) -> None:
    """Copy rows of a table from one database to another."""
    out = source.cursor().copy(f"COPY (SELECT * FROM trajlog.{name} WHERE {where}) TO STDOUT")
    into = target.cursor().copy(f"COPY trajlog.{name} FROM STDIN")
    with out as rows_, into as sink:
        for data in rows_:
            sink.write(data)


def test_streams_without_later_events_are_not_folded_again(log: Ledger, connection: Connection) -> None:
    fill(log, *"abcd")
    cut = log.head().position
    fill(log, "b")
    counter = Counter()
    catch_up(log, connection, [counter])
    counter.applied = 0
    with reading_as_of(connection, [counter], cut):
        assert read(connection, counter) == [(name, 10, "VerificationRecorded") for name in "abcd"]
    assert counter.applied == 10
    assert read(connection, counter)[1] == ("b", 20, "VerificationRecorded")


def test_a_key_that_a_stream_left_or_came_to_is_made_anew(log: Ledger, connection: Connection) -> None:
    counter, by_last = Counter(), ByLast()
    events = samples.events("episode/a", samples.episode())
    fill(log, "b")
    log.append_many(events[:5])
    catch_up(log, connection, [counter, by_last])
    assert rows(connection, by_last) == [("FeedbackRecorded", 1, 5), ("VerificationRecorded", 1, 10)]
    log.append_many(events[5:])
    catch_up(log, connection, [counter, by_last])
    assert rows(connection, by_last) == [("VerificationRecorded", 2, 20)]
    with reading_as_of(connection, [counter, by_last], 15):
        assert read(connection, by_last) == [("FeedbackRecorded", 1, 5), ("VerificationRecorded", 1, 10)]
    with reading_as_of(connection, [counter, by_last], 10):
        assert read(connection, by_last) == [("VerificationRecorded", 1, 10)]


def test_what_is_committed_and_folded_meanwhile_is_not_seen(log: Ledger) -> None:
    fill(log, *"abc")
    with reading(log, VIEWS, as_of=25) as then:
        before = [read(then, projection) for projection in registered()]
        fill(log, "a", "d")
        with reading(log, VIEWS):
            pass
        assert [read(then, projection) for projection in registered()] == before
    with reading(log, VIEWS, as_of=25) as again:
        assert [read(again, projection) for projection in registered()] == before


def test_reading_as_of_a_cut_writes_nothing(log: Ledger, connection: Connection) -> None:
    fill(log, *"abc")
    catch_up(log, connection, registered())
    every = "SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'v')"
    before = connection.execute(every).fetchone()
    for _ in range(2):
        with reading(log, VIEWS, as_of=15):
            pass
    assert connection.execute(every).fetchone() == before
    assert rows(connection, EPISODE) == folded(log, EPISODE)


def test_a_cut_that_the_checkpoint_covers_needs_no_folding(log: Ledger, connection: Connection) -> None:
    fill(log, "a", "b")
    catch_up(log, connection, [EPISODE])
    fill(log, "c")
    with reading(log, as_of=20) as then:
        assert len(read(then, EPISODE)) == 2
    assert len(rows(connection, EPISODE)) == 2


def test_the_queries_of_lists_and_names_are_as_of_the_cut(log: Ledger) -> None:
    fill(log, "aa11", verdict="pass")
    fill(log, "bb22", verdict="fail")
    with reading(log, as_of=10) as then:
        assert [row["episode"] for row in listing.episodes(then, listing.Filters(), listing.Page())] == ["aa11"]
        assert resolve(then, "@last").episode == "aa11"
        for name in ("bb", "bb22", "@last-failed"):
            with pytest.raises(NotFound):
                resolve(then, name)
    with reading(log, as_of=15) as then:
        row = listing.episode(then, "bb22")
        assert row is not None and (row["verdict"], row["events"]) == ("unverified", 5)


class Unwritable(Counter):
    """A fold one of whose rows Postgres cannot take."""

    columns = (Column("stream"), Column("events", "bigint"), Column("last"))

    def rows(self, state: list[object], after: int) -> Iterator[Row]:
        yield state[0], 2**80 if state[0] == "b" else state[1], state[2]


def test_a_row_that_cannot_be_stored_is_left_out_alone(log: Ledger, connection: Connection) -> None:
    fill(log, *"abc")
    fill(log, *"abc")
    projection = Unwritable()
    catch_up(log, connection, [projection])
    with reading_as_of(connection, [projection], 30):
        assert [row[:2] for row in read(connection, projection)] == [("a", 10), ("c", 10)]


def test_an_empty_prefix_has_no_rows(log: Ledger) -> None:
    fill(log, "a")
    with reading(log, VIEWS, as_of=0) as then:
        assert all(read(then, projection) == [] for projection in registered())
    assert EPISODES.prefix == "episode/"
