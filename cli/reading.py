"""What reading commands begin with: the projections, caught up."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from cli.output import note
from cli.progress import Progress

if TYPE_CHECKING:
    from eventlog.database import Connection
    from eventlog.log import Log


@contextmanager
def reading(log: "Log") -> Iterator["Connection"]:
    """A connection on which every list covers what the log holds now."""
    from eventlog import views

    with ExitStack() as stack:
        with Progress("catching up with the log", unit="events") as bar:
            connection = stack.enter_context(
                views.reading(log, progress=lambda done, total: bar.update(done), note=note)
            )
        yield connection
