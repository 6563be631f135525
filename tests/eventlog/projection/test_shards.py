"""A bulk folded by several processes: each shard has a checkpoint, and a reader counts on the smallest."""

from collections.abc import Iterator

import pytest

from core.errors import Corrupt
from eventlog.database import Connection, connect
from eventlog.ledger import Ledger
from eventlog.projection import checkpoints, runner, shards
from eventlog.projection.runner import catch_up, fold_shard
from eventlog.projection.shards import Shard
from eventlog.views import reading
from eventlog.views.episode import EPISODE
from eventlog.views.step import STEP
from tests.databases import Database
from tests.eventlog.projection.folds import Counter, fill, folded, random_log, rows

NAMES = [f"e{i:02}" for i in range(20)]


@pytest.fixture
def log(ledger: Ledger) -> Ledger:
    return ledger


@pytest.fixture
def connection(log: Ledger) -> Iterator[Connection]:
    with connect(log.url) as connection:
        yield connection


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "BULK", 50)
    monkeypatch.setattr(runner, "BATCH", 40)


def split(connection: Connection, counter: Counter, log: Ledger, number: int = 2) -> None:
    assert shards._split(connection, [counter], log.head().position, number) == [counter]


@pytest.mark.usefixtures("small")
def test_processes_of_their_own_fold_everything(log: Ledger, connection: Connection) -> None:
    for commit in random_log(3):
        log.append_many(commit)
    seen: list[int] = []
    target = log.head().position
    shards.fold(log, connection, [EPISODE, STEP], target, 2, lambda done, total: seen.append(total))
    assert [point.position for point in checkpoints(connection, [EPISODE, STEP])] == [target, target]
    assert set(seen) == {target}
    catch_up(log, connection, [EPISODE, STEP], processes=2)
    for projection in (EPISODE, STEP):
        assert len(rows(connection, projection)) > 20
    connection.execute("DELETE FROM trajlog.projection")
    by_two = [rows(connection, projection) for projection in (EPISODE, STEP)]
    catch_up(log, connection, [EPISODE, STEP])
    assert [rows(connection, projection) for projection in (EPISODE, STEP)] == by_two


@pytest.mark.usefixtures("small")
def test_every_stream_is_in_one_shard(log: Ledger, connection: Connection) -> None:
    fill(log, *NAMES)
    counter = Counter()
    split(connection, counter, log, 3)
    for number in range(3):
        counter.applied = 0
        fold_shard(log, connection, [counter], 200, Shard(number, 3))
        assert 0 < counter.applied < 200
    shards.join(connection, counter)
    assert rows(connection, counter) == folded(log, counter)


@pytest.mark.usefixtures("small")
def test_a_reader_counts_on_the_smallest_checkpoint(log: Ledger, connection: Connection) -> None:
    fill(log, *NAMES)
    counter = Counter()
    split(connection, counter, log)
    fold_shard(log, connection, [counter], 200, Shard(0, 2))
    fold_shard(log, connection, [counter], 120, Shard(1, 2))
    (point,) = checkpoints(connection, [counter])
    assert (point.position, point.covers(120), point.covers(121)) == (120, True, False)
    shards.join(connection, counter)
    assert shards.any_of(connection, [counter])


@pytest.mark.usefixtures("small")
def test_shards_that_were_left_behind_are_gone_on_with(log: Ledger, connection: Connection) -> None:
    fill(log, *NAMES)
    counter = Counter()
    split(connection, counter, log)
    fold_shard(log, connection, [counter], 200, Shard(0, 2))
    done = counter.applied
    fill(log, *NAMES[:5])
    assert catch_up(log, connection, [counter]) == 250
    assert counter.applied == 250 >= done
    assert not shards.any_of(connection, [counter])
    assert rows(connection, counter) == folded(log, counter)


@pytest.mark.usefixtures("small")
def test_one_that_has_gone_further_than_the_head_we_saw_is_joined(log: Ledger, connection: Connection) -> None:
    fill(log, *NAMES)
    counter = Counter()
    split(connection, counter, log)
    fill(log, *NAMES)
    fold_shard(log, connection, [counter], 400, Shard(1, 2))

    class Early:
        reader = log.reader

        def head(self) -> object:
            return type("Head", (), {"position": 200})

        def __getattr__(self, name: str) -> object:
            return getattr(log, name)

    catch_up(Early(), connection, [counter])  # type: ignore[arg-type]
    assert checkpoints(connection, [counter])[0].position == 400
    assert rows(connection, counter) == folded(log, counter)


@pytest.mark.usefixtures("small")
def test_a_few_events_are_not_worth_processes(log: Ledger, connection: Connection) -> None:
    fill(log, "a")
    assert shards._split(connection, [Counter()], 10, 2) == []
    with reading(log, processes=2):
        pass
    assert rows(connection, EPISODE) == folded(log, EPISODE)


@pytest.mark.usefixtures("small")
def test_a_shard_of_another_log_is_refused(log: Ledger, connection: Connection, database: Database) -> None:
    fill(log, *NAMES)
    counter = Counter()
    split(connection, counter, log)
    fold_shard(log, connection, [counter], 200, Shard(0, 2))
    fold_shard(log, connection, [counter], 120, Shard(1, 2))
    with database.tampering() as owner:
        owner.execute("UPDATE trajlog.segment SET seal = sha256('other') WHERE last_position = 120")
    fill(log, "more")
    with pytest.raises(Corrupt, match="project rebuild counter"):
        catch_up(log, connection, [counter])


@pytest.mark.usefixtures("small")
def test_a_process_that_cannot_work_leaves_it_to_the_caller(
    log: Ledger, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, *NAMES)
    counter = Counter()  # no plug-in: the processes do not find it
    catch_up(log, connection, [counter], processes=2)
    assert counter.applied == 200
    assert rows(connection, counter) == folded(log, counter)
