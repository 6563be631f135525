"""The projections that describe episodes, and a connection on which they are up to date."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from eventlog.projection import Projection, View

if TYPE_CHECKING:
    from eventlog.database import Connection
    from eventlog.log import Log


PREFIX: Final = "episode/"

EPISODES: Final = View("episode", 1)
STEPS: Final = View("step", 1)
VIEWS: Final = (EPISODES, STEPS)
"""Every projection the runner keeps up to date. Their rows are read without importing their folds."""


def registered() -> Sequence[Projection]:
    """The folds of `VIEWS`."""
    from eventlog.views.episode import EPISODE
    from eventlog.views.step import STEP

    return (EPISODE, STEP)


@contextmanager
def reading(
    log: "Log",
    *,
    progress: Callable[[int, int], None] | None = None,
    note: Callable[[str], None] | None = None,
) -> Iterator["Connection"]:
    """A connection to the log's database on which every projection covers what the log holds now.

    `progress` is called as in `runner.catch_up`; `note` with what the rows leave out. `UsageError` for
    a log without a database.
    """
    from core.errors import UsageError
    from eventlog.ledger import Ledger
    from eventlog.projection import checkpoints

    if not isinstance(log, Ledger):
        raise UsageError("a log in memory has no lists", where="--db", mend="use a PostgreSQL database")
    with log.reader.borrow() as connection:
        points = checkpoints(connection, VIEWS)
        if not all(point.covers(point.head) for point in points):
            from eventlog.projection.runner import catch_up

            catch_up(log, connection, registered(), progress=progress)
            points = checkpoints(connection, VIEWS)
        for point in points:
            if point.parked and note:
                streams = "1 stream stops" if point.parked == 1 else f"{point.parked:,} streams stop"
                note(f"{point.name}: {streams} at an event that cannot be folded (table trajlog.parked)")
        yield connection
