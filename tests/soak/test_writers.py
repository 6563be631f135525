"""Writers at work while connections are cut, processes stopped and killed at random, again and again."""

import random
import signal
import threading
from contextlib import ExitStack

import pytest

from eventlog import database as databases_module
from tests.databases import Database, Databases
from tests.faults.processes import Process, check_whole

ROUNDS = 30


def cut_a_connection(at: Database) -> None:
    with databases_module.connect(at.owner, role=None) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1"
        )


def disturb(at: Database, writers: list[Process], chance: random.Random, done: threading.Event) -> None:
    """Until `done`: cut a connection, or let a writer sleep; once, kill one."""
    doomed = chance.random() < 0.5
    while not done.wait(chance.random() / 2):
        writer = chance.choice(writers[1:])
        match chance.randrange(4):
            case 0:
                cut_a_connection(at)
            case 1:
                writer.send(signal.SIGSTOP)
                done.wait(chance.random() * 3)
                writer.send(signal.SIGCONT)
            case 2 if doomed:
                writers[0].send(signal.SIGKILL)
                doomed = False


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_whatever_happens_to_writers_the_log_stays_whole(databases: Databases, seed: int) -> None:
    made = databases.fresh("soak")
    done = threading.Event()
    with ExitStack() as stack:
        writers = [stack.enter_context(Process(made.url, f"w{i}", "everything", seed * 10 + i)) for i in range(4)]
        for writer in writers:
            writer.wait_for("ready")
        thread = threading.Thread(target=disturb, args=(made, writers, random.Random(seed), done))
        thread.start()
        try:
            for writer in writers[1:]:
                writer.finish(timeout=300)
        finally:
            done.set()
            thread.join()
        writers[0].send(signal.SIGKILL)
        writers[0].join()
        with made.ledger() as log:
            check_whole(log, *writers)
    databases.execute(f"DROP DATABASE {made.name} (FORCE)")


def test_stopped_writers_in_a_row_are_all_ended(databases: Databases) -> None:
    made = databases.fresh("soak")
    with ExitStack() as stack, made.ledger() as log:
        writers = [stack.enter_context(Process(made.url, f"w{i}", "stall_in_copy", i)) for i in range(3)]
        for writer in writers:
            writer.wait_for("stalled", timeout=120)
            writer.send(signal.SIGSTOP)
        for writer in writers:
            writer.send(signal.SIGCONT)
            writer.go_on()
        for writer in writers:
            writer.finish(timeout=120)
        check_whole(log, *writers)
