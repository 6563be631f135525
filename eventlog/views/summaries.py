"""Tasks, tools and policies as lists: sorted, and, where filters are given, of some episodes alone."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from psycopg import ClientCursor

from core.errors import UsageError
from eventlog.database import Connection
from eventlog.projection import Versioned, is_second, relation
from eventlog.views import EPISODES, POLICIES, TASKS, TOOLS, folds
from eventlog.views.listing import Filters, where


class Kind(NamedTuple):
    """What is listed: `fields` of a row, `hidden` columns, and what it can be sorted by (True: the largest
    first; nulls last)."""

    view: Versioned
    name: str
    fields: tuple[str, ...]
    sorts: dict[str, tuple[str, bool]]
    sort: str


_RATED: Final = ("passed", "failed", "undecided", "unverified", "pass_rate", "trials", "pass_k", "steps", "tokens")
_SORTS: Final = {
    "episodes": ("episodes", True),
    "rate": ("pass_rate", False),
    "failed": ("failed", True),
    "steps": ("steps", True),
    "tokens": ("tokens", True),
    "latest": ("last_position", True),
}

TASK_LIST: Final = Kind(
    TASKS,
    "task",
    ("task", "episodes", "policies", "groups", "mixed", *_RATED, "last_position"),
    {"task": ("task", False), **_SORTS, "mixed": ("mixed", True)},
    "task",
)
POLICY_LIST: Final = Kind(
    POLICIES,
    "policy",
    ("policy", "episodes", "tasks", *_RATED, "last_position"),
    {"policy": ("policy", False), **_SORTS},
    "policy",
)
TOOL_LIST: Final = Kind(
    TOOLS,
    "tool",
    (
        "tool",
        "episodes",
        "calls",
        "answers",
        "errors",
        "error_rate",
        "classes",
        "mean_ms",
        "p50_ms",
        "p95_ms",
        "max_ms",
    ),
    {
        "tool": ("tool", False),
        "calls": ("calls", True),
        "errors": ("errors", True),
        "rate": ("error_rate", True),
        "mean": ("mean_ms", True),
        "p95": ("p95_ms", True),
    },
    "calls",
)


class Order(NamedTuple):
    """At most `limit` rows (0: all), by `sort` (None: the usual one), `reverse`d if so."""

    sort: str | None = None
    reverse: bool = False
    limit: int = 0


def rows(connection: Connection, kind: Kind, filters: Filters, order: Order) -> Iterator[dict[str, Any]]:
    """The rows, on a connection of `eventlog.views.reading` with the kind's view. With filters they are made
    of the episodes that pass them, and not kept. `UsageError` for an unknown sort."""
    sort = order.sort or kind.sort
    if sort not in kind.sorts:
        raise UsageError(f"cannot sort by {sort!r}", where="--sort", mend=f"use {', '.join(kind.sorts)}")
    column, largest = kind.sorts[sort]
    found = _stored(connection, kind) if filters == Filters() else _made(connection, kind, filters)
    found.sort(key=lambda row: str(row[kind.name]))
    known = [row for row in found if row[column] is not None]
    known.sort(key=lambda row: row[column], reverse=largest != order.reverse)
    listed = known + [row for row in found if row[column] is None]
    for row in listed[: order.limit or None]:
        yield {name: row[name] for name in kind.fields}


def _stored(connection: Connection, kind: Kind) -> list[dict[str, Any]]:
    (projection,) = folds([kind.view])
    names = [column.name for column in projection.columns]
    query = f"SELECT {', '.join(names)} FROM {relation(kind.view)}"
    return [_row(names, row) for row in connection.execute(query, binary=True)]


def _made(connection: Connection, kind: Kind, filters: Filters) -> list[dict[str, Any]]:
    """Rows of the episodes that pass the filters."""
    from eventlog.projection import second

    conditions, values = where(filters)
    chosen = f"SELECT episode FROM {relation(EPISODES)} WHERE {' AND '.join(conditions) or 'true'}"
    within = f"episode IN ({ClientCursor(connection).mogrify(chosen, values)})"
    (projection,) = folds([kind.view])
    names = [column.name for column in projection.columns]
    with connection.transaction():
        made = second.made(connection, projection, within=within) if is_second(projection) else ()
        return [_row(names, row) for _, group in made for row in group]


def _row(names: list[str], row: tuple[Any, ...]) -> dict[str, Any]:
    found = dict(zip(names, row, strict=True))
    if "error_classes" in found:
        found["classes"] = dict(zip(found["error_classes"], found["error_counts"], strict=True))
    return found
