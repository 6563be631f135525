"""What reading commands begin with: the projections they read, caught up, or as of a cut."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from cli.output import note
from cli.progress import Progress

if TYPE_CHECKING:
    from eventlog.database import Connection
    from eventlog.log import Log
    from eventlog.projection import Versioned


def position_of(log: "Log", as_of: str | None) -> int | None:
    """The position that --as-of names, None where it is not given."""
    if as_of is None:
        return None
    from eventlog.versions.cut import locate

    return locate(log, as_of)


@contextmanager
def reading(
    log: "Log", views: "Sequence[Versioned] | None" = None, *, as_of: int | None = None
) -> Iterator["Connection"]:
    """A connection on which these projections (the episodes, if none is given) cover what the log holds now,
    or are as of a position."""
    from eventlog import views as ours

    with ExitStack() as stack:
        with Progress("catching up with the log", unit="events") as bar:
            connection = stack.enter_context(
                ours.reading(
                    log,
                    views or (ours.EPISODES,),
                    as_of=as_of,
                    progress=bar.update,
                    note=note,
                    processes=processes(),
                )
            )
        yield connection


def none(log: "Log", what: str) -> str:
    """That nothing was found: because there is nothing yet, or nothing that was asked for."""
    if log.head().position == 0:
        return f"no {what}: the log is empty; trajlog import FILE fills it, or trajlog run"
    return f"no {what}"


def processes() -> int:
    """How many processes share a bulk of events."""
    import os

    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 4)
