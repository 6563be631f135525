"""Writers are killed, stopped, cut off and slow: the log stays whole, and the others go on."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from eventlog import database as databases_module
from eventlog import schema
from eventlog.embedded import Embedded
from eventlog.ledger import Ledger
from eventlog.testing import an_event
from tests.databases import Database, Databases
from tests.faults.processes import Process, check_whole
from tests.faults.writer import LARGE

PATIENCE_S = 16.0


def holder(at: Database | str) -> int:
    """The pid of the backend that holds the log's lock."""
    url = at if isinstance(at, str) else at.owner
    with databases_module.connect(url, role=None) as connection:
        row = connection.execute(
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND database = "
            "(SELECT oid FROM pg_database WHERE datname = current_database())"
        ).fetchone()
    assert row is not None, "nobody holds the lock"
    return int(row[0])


def seconds(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start


@pytest.fixture
def database(databases: Databases) -> Database:
    return databases.fresh("faults")


@pytest.fixture
def own(stopped: Embedded) -> Iterator[Embedded]:
    """A server that this test may crash and stop."""
    stopped.start()
    schema.upgrade(stopped.url(owner=True))
    yield stopped
    stopped.stop()


# -- many -------------------------------------------------------------------------------------------


def test_four_writers_with_aborts_lose_nothing_and_repeat_nothing(database: Database) -> None:
    with ExitStack() as stack:
        writers = [stack.enter_context(Process(database.url, f"w{i}", "everything", i)) for i in range(4)]
        for writer in writers:
            writer.finish()
        with database.ledger() as log:
            check_whole(log, *writers)
            acknowledged = {event_id for writer in writers for event_id, *_ in writer.acks}
            assert log.head().position == len(acknowledged)
            assert log.head().position > 400


# -- killed -----------------------------------------------------------------------------------------


def test_a_client_killed_inside_copy_leaves_nothing_and_holds_nobody_up(database: Database) -> None:
    with Process(database.url, "killed", "stall_in_copy") as writer, database.ledger() as log:
        writer.wait_for("stalled")
        holder(database)
        writer.send(signal.SIGKILL)
        assert seconds(lambda: log.append(an_event("a"))) < 5
        assert log.head().position == 1
        check_whole(log)


def test_a_backend_killed_inside_copy_is_survived(own: Embedded) -> None:
    url = own.url()
    with Process(url, "bereft", "stall_in_copy") as writer, Ledger(url) as log:
        log.append(an_event("a"))
        writer.wait_for("stalled")
        os.kill(holder(own.url(owner=True)), signal.SIGKILL)
        writer.go_on()
        log.append(an_event("a"))  # every other connection is cut off too
        writer.finish()
        check_whole(log, writer)
        assert len(writer.acks) == LARGE
        assert log.head().position == LARGE + 2
        assert writer.words.count("try") >= 2


def test_a_server_that_is_restarted_is_waited_for(own: Embedded) -> None:
    url = own.url()
    with Process(url, "patient", "steadily") as writer:
        for _ in range(2):
            writer.wait_for("ack")
            time.sleep(0.5)
            own.stop()
            time.sleep(0.5)
            own.start()
        writer.wait_for("ack")
        time.sleep(0.5)
        writer.go_on()
        writer.finish()
        with Ledger(url) as log:
            check_whole(log, writer)
            assert log.head().position == len({event_id for event_id, *_ in writer.acks})
            assert log.head().position > 60


# -- stopped and slow: side by side, since each takes more than ten seconds ------------------------------


def stopped_writer(database: Database, work: str) -> dict[str, float]:
    """A writer is suspended while it holds the lock; another one must go on. Then the first one awakes."""
    with Process(database.url, "stopped", work) as writer, database.ledger() as log:
        writer.wait_for("stalled")
        writer.send(signal.SIGSTOP)
        held = holder(database)
        waited = seconds(lambda: log.append(an_event("a")))
        after = seconds(lambda: log.append_many([an_event("a"), an_event("b")]))
        writer.send(signal.SIGCONT)
        writer.go_on()
        writer.finish()
        check_whole(log, writer)
        assert held
        return {
            "waited": waited,
            "after": after,
            "position": log.head().position,
            "acknowledged": len(writer.acks),
            "tries": writer.words.count("try"),
        }


def slow_writer(database: Database, work: str) -> dict[str, float]:
    """A writer whose rows come in slowly holds the lock; another one must wait for it."""
    with Process(database.url, "slow", work) as writer, database.ledger() as log:
        writer.wait_for("stalled")
        time.sleep(1)
        held = holder(database)
        waited = seconds(lambda: log.append(an_event("a")))
        writer.finish()
        check_whole(log, writer)
        assert held
        took = next(float(word.split()[1]) for word in writer.words if word.startswith("took"))
        return {
            "waited": waited,
            "took": took,
            "position": log.head().position,
            "acknowledged": len(writer.acks),
            "tries": writer.words.count("try"),
        }


SCENARIOS = {"stall_in_copy": stopped_writer, "stall_before_copy": stopped_writer, "trickle": slow_writer}


@pytest.fixture(scope="module")
def outcomes(databases: Databases) -> Iterator[dict[str, Future[dict[str, float]]]]:
    with ThreadPoolExecutor() as pool:
        yield {work: pool.submit(scenario, databases.fresh("faults"), work) for work, scenario in SCENARIOS.items()}


@pytest.mark.parametrize("work", ["stall_in_copy", "stall_before_copy"])
def test_a_stopped_writer_does_not_stop_the_log(outcomes: dict[str, Future[dict[str, float]]], work: str) -> None:
    outcome = outcomes[work].result()
    assert 5 < outcome["waited"] < PATIENCE_S
    assert outcome["after"] < 2


@pytest.mark.parametrize("work", ["stall_in_copy", "stall_before_copy"])
def test_a_stopped_writer_that_awakes_writes_once(outcomes: dict[str, Future[dict[str, float]]], work: str) -> None:
    outcome = outcomes[work].result()
    assert outcome["acknowledged"] == LARGE
    assert outcome["position"] == LARGE + 3
    assert outcome["tries"] == 2


def test_a_slow_but_healthy_copy_lives(outcomes: dict[str, Future[dict[str, float]]]) -> None:
    outcome = outcomes["trickle"].result()
    assert outcome["took"] > 12
    assert outcome["waited"] > 10
    assert outcome["tries"] == 1
    assert outcome["acknowledged"] == 20
    assert outcome["position"] == 21
