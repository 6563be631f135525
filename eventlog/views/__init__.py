"""The projections that describe episodes, and a connection on which they are up to date."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Final

from eventlog.projection import AnyProjection, Versioned, View, sources

if TYPE_CHECKING:
    from eventlog.database import Connection
    from eventlog.log import Log


PREFIX: Final = "episode/"

EPISODES: Final = View("episode", 1, PREFIX)
STEPS: Final = View("step", 1, PREFIX)
VERDICTS: Final = View("verdict", 1, PREFIX)
TOOL_USES: Final = View("tool_use", 1, PREFIX)
TASKS: Final = View("task", 1, sources=(EPISODES,))
TOOLS: Final = View("tool", 1, sources=(TOOL_USES,))
POLICIES: Final = View("policy", 1, sources=(EPISODES,))
VIEWS: Final = (EPISODES, STEPS, VERDICTS, TOOL_USES, TASKS, TOOLS, POLICIES)
"""Every projection of ours, sources first. Their rows are read without importing their folds."""


_FOLDS: Final = {
    "episode": "EPISODE",
    "step": "STEP",
    "verdict": "VERDICT",
    "tool_use": "TOOL_USE",
    "task": "TASK",
    "tool": "TOOL",
    "policy": "POLICY",
}
"""Where each fold is: module and name."""


def registered() -> Sequence[AnyProjection]:
    """The folds of `VIEWS`."""
    return folds(VIEWS)


@contextmanager
def reading(
    log: "Log",
    views: Sequence[Versioned] = (EPISODES,),
    *,
    as_of: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    note: Callable[[str], None] | None = None,
    processes: int = 1,
) -> Iterator["Connection"]:
    """A connection to the log's database on which these projections cover what the log holds now; they are
    read by their `projection.relation`. `views` are ours, or folds.

    `as_of` a position they are, and `event` and `stream` too, what the log's first events give: see
    `projection.as_of`. `progress` and `processes` are those of `runner.catch_up`; `note` is called with
    what the rows leave out. `UsageError` for a log without a database.
    """
    from eventlog.log import reader_of
    from eventlog.projection import checkpoints

    wanted = with_sources(views)
    with reader_of(log).borrow() as connection:
        points = checkpoints(connection, wanted)
        if not all(point.covers(point.head if as_of is None else as_of) for point in points):
            from eventlog.projection.runner import catch_up

            catch_up(log, connection, folds(wanted), progress=progress, processes=processes)
            points = checkpoints(connection, wanted)
        for point in points:
            if point.parked and note:
                streams = "1 stream stops" if point.parked == 1 else f"{point.parked:,} streams stop"
                note(f"{point.name}: {streams} at an event that cannot be folded (trajlog project parked)")
        if as_of is None:
            yield connection
            return
        from eventlog.projection.as_of import reading as reading_as_of

        with reading_as_of(connection, folds(wanted), as_of):
            yield connection


def with_sources(views: Sequence[Versioned]) -> list[Versioned]:
    """The projections and what they are made from, sources first."""
    found: dict[tuple[str, int], Versioned] = {}
    for view in views:
        for source in with_sources(sources(view)):
            found.setdefault((source.name, source.version), source)
        found[view.name, view.version] = view
    return list(found.values())


def folds(views: Sequence[Versioned]) -> list[AnyProjection]:
    """The folds of the views; what is one already stays."""
    from eventlog.projection import is_projection

    return [view if is_projection(view) else _fold(view.name) for view in views]


def _fold(name: str) -> AnyProjection:
    found: AnyProjection = getattr(import_module(f"eventlog.views.{name}"), _FOLDS[name])
    return found
