"""Reading a log of a million events: fold, verify, and the first two commands anyone types."""

import os
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from core.digest import event_digest
from core.event import Event
from core.merkle import Frontier, leaf_hash
from eventlog import database
from eventlog.embedded import Embedded
from eventlog.ledger import Ledger
from eventlog.projection.runner import catch_up
from eventlog.verify import verify
from eventlog.views import registered
from eventlog.views.episode import EPISODE
from tests.bench.harness import Row, episodes, fresh, row, seconds, server, watched

MANY = int(os.environ.get("TRAJLOG_BENCH_EVENTS", "1000000"))
FEW = 10_000
FOLDED = 300_000
ROUNDS = 5
BARE = Path(__file__).with_name("bare.py")


def fold() -> list[Row]:
    """Row `fold.episode`: events/s of the fold, checkpoint and rows included, against reading alone."""
    with server() as embedded:
        url = filled(embedded, "fold", FOLDED)
        ours, limit = [], []
        with Ledger(url) as log:
            for _ in range(ROUNDS):
                limit.append(FOLDED / seconds(lambda: [None for _ in log.reader.pages(after=0, until=FOLDED)]))
                with log.reader.borrow() as connection:
                    connection.execute("DELETE FROM trajlog.projection")
                    ours.append(FOLDED / seconds(lambda: catch_up(log, connection, [EPISODE])))
        return [row("fold.episode", ours, limit, "events/s")]


def rebuilding() -> list[Row]:
    """Rows of `trajlog project rebuild episode` as a process: `rebuild.linear` (s, twice the events against once)
    and `rebuild.memory` (MB, likewise); and `rebuild.processes`: events/s folded by two processes against one."""
    with server() as embedded:
        twice, once = filled(embedded, "twice", 2 * MANY), filled(embedded, "once", MANY)
        found: dict[str, list[tuple[float, float]]] = {twice: [], once: []}
        for _ in range(3):
            for url, measured in found.items():
                measured.append(watched([sys.executable, "-m", "cli", "--db", url, "project", "rebuild", "episode"]))
        both: list[float] = []
        one: list[float] = []
        with Ledger(once) as log, log.reader.borrow() as connection:
            for _ in range(3):
                for rates, processes in ((both, 2), (one, 1)):
                    connection.execute("DELETE FROM trajlog.projection")
                    work = partial(catch_up, log, connection, [EPISODE], processes=processes)
                    rates.append(MANY / seconds(work))
        return [
            row("rebuild.linear", [s for s, _ in found[twice]], [s for s, _ in found[once]], "s"),
            row("rebuild.memory", [mb for _, mb in found[twice]], [mb for _, mb in found[once]], "MB"),
            row("rebuild.processes", both, one, "events/s"),
        ]


def verification() -> list[Row]:
    """Row `verify`: events/s of verify against read + digest + tree of the same events."""
    with server() as embedded:
        url = filled(embedded, "verify", MANY)
        ours, limit = [], []
        with Ledger(url) as log:
            for _ in range(3):
                limit.append(MANY / seconds(lambda: _digests_and_tree(log)))
                ours.append(MANY / seconds(lambda: verify(log.reader)))
        return [row("verify", ours, limit, "events/s")]


def _digests_and_tree(log: Ledger) -> bytes:
    frontier = Frontier()
    for page in log.reader.pages(after=0, until=MANY):
        for event in page:
            frontier.push(leaf_hash(event.version, event_digest(event)))
    return frontier.root()


def commands() -> list[Row]:
    """Rows `ls.process`, `show.process` (ms, against a bare process that prints the same rows) and
    `ls.scale`, `show.scale` (ms at a million events, against ten thousand)."""
    with server() as embedded:
        many, few = filled(embedded, "many", MANY), filled(embedded, "few", FEW)
        rows = []
        for name, arguments in (("ls", ["ls", "--verdict", "fail"]), ("show", ["show", _some_episode(many)])):
            bare = processes([sys.executable, str(BARE), name, many, arguments[-1]])
            ours = processes([sys.executable, "-m", "cli", "--db", many, *arguments])
            small = processes([sys.executable, "-m", "cli", "--db", few, *arguments[:1], *_small(few, arguments)])
            rows += [row(f"{name}.process", ours, bare, "ms"), row(f"{name}.scale", ours, small, "ms")]
        return rows


def _small(url: str, arguments: list[str]) -> list[str]:
    return [_some_episode(url)] if arguments[0] == "show" else arguments[1:]


def _some_episode(url: str) -> str:
    with database.connect(url) as connection:
        found = connection.execute("SELECT stream FROM trajlog.stream ORDER BY last_position DESC LIMIT 1").fetchone()
    assert found is not None
    return str(found[0]).removeprefix("episode/")


def processes(command: list[str], rounds: int = 15, *, code: int = 0) -> list[float]:
    """Milliseconds of whole processes; the first, which warms the caches, is not counted."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "PYTHONPATH": str(Path(__file__).parents[2]), "NO_COLOR": "1"}

    def once() -> None:
        done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, env=environment)
        assert done.returncode == code, command

    return [seconds(once) * 1000 for _ in range(rounds + 1)][1:]


def filled(embedded: Embedded, name: str, count: int, events: Iterable[Event] | None = None) -> str:
    """A database with so many events of the harness, or with these, folded and analysed; its URL."""
    url, owner = fresh(embedded, name)
    with Ledger(url) as log:
        for _ in log.append_all(episodes(count) if events is None else events):
            pass
        log.seal()
        with log.reader.borrow() as connection:
            catch_up(log, connection, registered(), processes=2)
    with database.connect(owner, role=None) as connection:
        connection.execute("VACUUM ANALYZE")
    return url
