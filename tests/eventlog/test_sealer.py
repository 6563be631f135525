"""The sealer: tiles are what a naive tree would have, whoever builds them, and are never written over."""

import threading
from collections.abc import Iterator

import pytest

from core.errors import Corrupt
from core.merkle import EMPTY_ROOT
from eventlog.ledger import Ledger
from eventlog.sealer import Tiles
from eventlog.testing import leaves_of, naive_root
from tests.databases import Database
from tests.eventlog.damage import events
from tests.eventlog.tiles import SIZE, allow_small, make_small

COUNT = 4 * SIZE**3 + 7  # full tiles on four levels, and an edge


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, ledger: Ledger, database: Database) -> Ledger:
    allow_small(database)
    make_small(monkeypatch)
    return ledger


@pytest.fixture
def leaves(small: Ledger) -> list[bytes]:
    small.append_many(list(events(COUNT)))
    return leaves_of(small.read_all())


def tiles(log: Ledger) -> dict[tuple[int, int], tuple[bytes, bytes]]:
    with log.reader.borrow() as connection:
        rows = connection.execute("SELECT level, index, hashes, root FROM trajlog.merkle").fetchall()
    return {(level, index): (hashes, root) for level, index, hashes, root in rows}


def naive_tiles(leaves: list[bytes]) -> dict[tuple[int, int], tuple[bytes, bytes]]:
    """Every full tile of every level, from the definition."""
    found = {}
    level, below = 0, leaves
    while len(below) >= SIZE:
        above = []
        for index in range(len(below) // SIZE):
            part = below[index * SIZE : (index + 1) * SIZE]
            root = naive_root(leaves[index * SIZE ** (level + 1) : (index + 1) * SIZE ** (level + 1)])
            found[level, index] = (b"".join(part), root)
            above.append(root)
        level, below = level + 1, above
    return found


def test_the_tiles_are_those_of_a_naive_tree(small: Ledger, leaves: list[bytes]) -> None:
    assert small.seal() == COUNT // SIZE * SIZE
    assert tiles(small) == naive_tiles(leaves)
    assert max(level for level, _ in tiles(small)) == 3


def test_roots_are_the_same_with_tiles_and_without(small: Ledger, leaves: list[bytes]) -> None:
    bare = [small.root(position) for position in range(0, COUNT + 1, 3)]
    small.seal()
    assert [small.root(position) for position in range(0, COUNT + 1, 3)] == bare
    assert bare[0] == EMPTY_ROOT
    assert bare[-1] == naive_root(leaves[: (COUNT // 3) * 3])
    assert small.root() == naive_root(leaves)


def test_tiles_grow_with_the_log(small: Ledger) -> None:
    source = events(200)
    for size in (1, 2, 3, 4, 5, 60, 1, 99, 25):
        small.append_many([next(source) for _ in range(size)])
        assert small.seal() == small.head().position // SIZE * SIZE
        assert tiles(small) == naive_tiles(leaves_of(small.read_all()))


def test_several_sealers_at_once_agree(small: Ledger, leaves: list[bytes], database: Database) -> None:
    faults: list[BaseException] = []
    start = threading.Barrier(4)

    def work() -> None:
        try:
            with database.ledger() as log:
                start.wait()
                log.seal()
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert tiles(small) == naive_tiles(leaves)


def test_a_sealer_that_stopped_anywhere_is_made_good_by_the_next(
    small: Ledger, leaves: list[bytes], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Tiles._store

    class Stopped(Exception):
        pass

    for steps in (1, 3, 10, 40):
        left = iter(range(steps))

        def some(self: Tiles, level: int, index: int, hashes: list[bytes], left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise Stopped
            store(self, level, index, hashes)

        with monkeypatch.context() as patch:
            patch.setattr(Tiles, "_store", some)
            with pytest.raises(Stopped):
                small.seal()
    small.seal()
    assert tiles(small) == naive_tiles(leaves)


@pytest.mark.parametrize(
    ("column", "change"),
    [("hashes", "set_byte(hashes, 5, get_byte(hashes, 5) # 1)"), ("root", "sha256(root)")],
)
@pytest.mark.parametrize("level", [0, 1])
def test_a_tile_that_differs_is_refused(
    small: Ledger, leaves: list[bytes], database: Database, level: int, column: str, change: str
) -> None:
    """A second sealer meets a tile that the first one should not have written."""
    small.seal()
    last = max(index for at, index in tiles(small) if at == level)
    with database.tampering() as connection:
        connection.execute(f"UPDATE trajlog.merkle SET {column} = {change} WHERE level = {level} AND index = {last}")
    real = Tiles._scalar

    def behind(self: Tiles, query: str, *params: int) -> int:
        """This sealer looked before the other one wrote."""
        found = real(self, query, *params)
        return last if params == (level,) and found > last else found

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Corrupt, match="differs from the events"):
        patch.setattr(Tiles, "_scalar", behind)
        small.seal()


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM trajlog.event WHERE position = 10",
        "UPDATE trajlog.event SET version = -version WHERE position = 10",
    ],
)
def test_a_damaged_log_is_not_sealed(small: Ledger, leaves: list[bytes], database: Database, damage: str) -> None:
    with database.tampering() as connection:
        connection.execute(damage)
    with pytest.raises(Corrupt, match=r"position 10 is missing or damaged.*trajlog verify"):
        small.seal()
    with pytest.raises(Corrupt):
        small.root()
    assert len(tiles(small)) <= 2


def test_a_tile_deleted_below_its_parent_is_refused(small: Ledger, leaves: list[bytes], database: Database) -> None:
    small.seal()
    with database.tampering() as connection:
        connection.execute("DELETE FROM trajlog.merkle WHERE level = 0 AND index = 1 OR level > 0")
    with pytest.raises(Corrupt, match=f"has {SIZE - 1} of {SIZE} hashes"):
        small.seal()
    assert small.root() == naive_root(leaves)
