"""Folding processes killed at any point, by kill -9: no row is lost and none doubled."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.database import Connection, connect
from eventlog.ledger import Ledger
from eventlog.projection import verify
from eventlog.projection.runner import catch_up
from eventlog.views import registered
from tests.databases import Database, Databases
from tests.eventlog.projection.folds import random_log, rows
from tests.examples import examples

ROOT = Path(__file__).parents[3]
KILLS = examples(6)


@pytest.fixture
def database(databases: Databases) -> Database:
    return databases.fresh("killed")


@pytest.fixture
def log(database: Database) -> Iterator[Ledger]:
    with database.ledger() as log:
        for seed in range(3):
            for commit in random_log(seed, streams=30):
                log.append_many([event for event in commit if not event.stream.startswith("import")])
        yield log


def start(url: str, work: str, processes: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.eventlog.projection.folder", url, work, str(processes)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def kill_some(url: str, work: str, processes: int) -> int:
    """Start the work and kill it at some point, again and again, until it is done; how often it was killed."""
    chance = random.Random(work)
    for killed in range(KILLS):
        with start(url, work, processes) as process:
            assert process.stdout is not None
            words = iter(process.stdout.readline, "")
            assert next(words) == "ready\n"
            time.sleep(chance.random() * 0.25)
            for _ in range(chance.randrange(3)):
                if next(words, "done\n") == "done\n":
                    process.wait()
                    return killed
            process.kill()
            process.wait()
    with start(url, work, processes) as process:
        assert process.stdout is not None
        assert process.stdout.read().endswith("done\n")
    return KILLS


def check(log: Ledger, connection: Connection) -> None:
    for projection in registered():
        found = verify.verify(connection, projection)
        assert found.ok, (projection.name, found.differences)
        assert found.position == log.head().position


@pytest.mark.parametrize("processes", [pytest.param(1, marks=pytest.mark.faults), 2])
def test_catching_up_is_killed_again_and_again(log: Ledger, processes: int) -> None:
    assert kill_some(log.reader.url, "catch_up", processes) > 0
    with connect(log.reader.url) as connection:
        catch_up(log, connection, registered())
        check(log, connection)
        assert connection.execute("SELECT count(*) FROM trajlog.shard").fetchone() == (0,)


def test_rebuilding_is_killed_again_and_again(log: Ledger) -> None:
    with connect(log.reader.url) as connection:
        catch_up(log, connection, registered())
        before = {projection.name: rows(connection, projection) for projection in registered()}
        assert kill_some(log.reader.url, "rebuild", 2) > 0
        catch_up(log, connection, registered())
        check(log, connection)
        assert {projection.name: rows(connection, projection) for projection in registered()} == before
        assert all(before.values())
