"""Reading as of a cut since which one stream in a hundred was touched, against reading what is there now."""

import random
import sys
from collections.abc import Callable

from core.event import Event
from core.identity import uuid7
from eventlog.database import Connection
from eventlog.ledger import Ledger
from eventlog.projection import Versioned, relation
from eventlog.views import EPISODES, STEPS, VIEWS, listing, reading
from tests.bench.harness import EVENTS_PER_EPISODE, Row, row, seconds, server
from tests.bench.reading import MANY, filled, processes

Read = Callable[[Connection], int]

ROUNDS = 7
TOUCHED = 100


def run() -> list[Row]:
    """Rows `as_of.list` (every episode as `ls` gives it), `as_of.step` (every row of the view), `as_of.ls` (the
    whole process) in ms, and `as_of.tasks`, of which a second stage has to be made again."""
    with server() as embedded:
        url = filled(embedded, "as_of", MANY)
        with Ledger(url) as log:
            cut = log.head().position
            _touch(log)
            with reading(log, VIEWS):
                pass
            rows = [
                _compared(log, cut, "as_of.list", EPISODES, _list),
                _compared(log, cut, "as_of.step", STEPS, lambda connection: _whole(connection, STEPS)),
            ]
        command = [sys.executable, "-m", "cli", "--db", url]
        for name, arguments in (("ls", ["ls", "--verdict", "fail"]), ("tasks", ["tasks"])):
            then = processes([*command, *arguments, "--as-of", str(cut)])
            rows.append(row(f"as_of.{name}", then, processes([*command, *arguments]), "ms"))
        return rows


def _touch(log: Ledger) -> None:
    """A late verdict for one episode in a hundred."""
    chance = random.Random(1)
    streams = MANY // EVENTS_PER_EPISODE
    run = uuid7()
    body = b'{"verification":{"verdict":"fail","checks":[]},"source":"human"}'
    log.append_many(
        [
            Event(
                event_id=uuid7(),
                stream=f"episode/{number:016x}",
                writer="bench",
                run=run,
                seq=1,
                type="VerificationRecorded",
                body=body,
            )
            for number in chance.sample(range(streams), streams // TOUCHED)
        ]
    )


def _compared(log: Ledger, cut: int, name: str, view: Versioned, read: Read) -> Row:
    then, now = [], []
    for _ in range(ROUNDS):
        now.append(seconds(_read, log, view, None, read) * 1000)
        then.append(seconds(_read, log, view, cut, read) * 1000)
    return row(name, then, now, "ms")


def _read(log: Ledger, view: Versioned, as_of: int | None, read: Read) -> None:
    with reading(log, (view,), as_of=as_of) as connection:
        read(connection)


def _list(connection: Connection) -> int:
    return sum(1 for _ in listing.episodes(connection, listing.Filters(), listing.Page(limit=0)))


def _whole(connection: Connection, view: Versioned) -> int:
    return len(connection.execute(f"SELECT * FROM {relation(view)}", binary=True).fetchall())
