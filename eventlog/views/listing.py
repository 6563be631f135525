"""Episodes as a list: filtered, sorted, in pages."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from core.errors import UsageError
from core.times import to_text
from eventlog.database import Connection
from eventlog.projection import relation
from eventlog.views import EPISODES
from eventlog.views.named import resolve

FIELDS: Final = (
    "episode",
    "task",
    "source",
    "policy",
    "split",
    "started_at",
    "ended_at",
    "end",
    "verdict",
    "reward",
    "steps",
    "events",
    "tokens",
    "failing_tool",
)
"""The documented fields of an episode in a list, in order."""

SHOWN: Final = (*FIELDS, "retracted")
"""What is said of an episode shown alone."""

VERDICTS: Final = ("pass", "fail", "inconclusive", "error", "vacuous", "unverified")

SORTS: Final = {
    "position": ("position", True),
    "started": ("started_at", True),
    "ended": ("ended_at", True),
    "reward": ("reward", True),
    "steps": ("steps", True),
    "events": ("events", True),
    "tokens": ("tokens", True),
    "task": ("task", False),
    "verdict": ("verdict", False),
    "source": ("source", False),
    "policy": ("policy", False),
    "tool": ("failing_tool", False),
}
"""What a list can be sorted by: column, and whether the largest comes first. Ties: the newest first."""

_TIMES: Final = frozenset({"started_at", "ended_at", "committed_at"})


class Filters(NamedTuple):
    """Which episodes; None lets all through. `since` and `until` (not included) are µs since 1970: of the
    start, or of its commit where the source had no time. Retracted ones are shown only when asked for."""

    task: str | None = None
    verdict: str | None = None
    source: str | None = None
    policy: str | None = None
    failing_tool: str | None = None
    split: str | None = None
    import_id: str | None = None
    since: int | None = None
    retracted: bool = False
    until: int | None = None


class Page(NamedTuple):
    """At most `limit` rows (0: all) in the order `sort`, `reverse`d if so, of those after the episode `after`."""

    sort: str = "position"
    reverse: bool = False
    limit: int = 50
    after: str | None = None


def episodes(
    connection: Connection, filters: Filters, page: Page, fields: tuple[str, ...] = FIELDS
) -> Iterator[dict[str, Any]]:
    """The rows, times as RFC 3339 text, on a connection of `eventlog.views.reading`. `UsageError` for an
    unknown sort."""
    if page.sort not in SORTS:
        raise UsageError(f"cannot sort by {page.sort!r}", where="--sort", mend=f"use {', '.join(SORTS)}")
    column, descending = SORTS[page.sort]
    conditions, values = where(filters)
    if page.after is not None:
        condition, more = _beyond(connection, page, column, descending != page.reverse)
        conditions.append(condition)
        values += more
    direction = "DESC" if descending != page.reverse else "ASC"
    newest = "ASC" if page.reverse else "DESC"
    order = f"position {direction}" if column == "position" else f'"{column}" {direction} NULLS LAST, position {newest}'
    chosen = " AND ".join(conditions) or "true"
    query = f"SELECT {_quoted(fields)} FROM {relation(EPISODES)} WHERE {chosen} ORDER BY {order}"
    if page.limit:
        query += " LIMIT %s"
        values.append(page.limit)
    for row in connection.execute(query, values, binary=True):
        yield _row(fields, row)


def episode(connection: Connection, name: str, fields: tuple[str, ...] = SHOWN) -> dict[str, Any] | None:
    """One episode's row by its full id, retracted or not."""
    query = f"SELECT {_quoted(fields)} FROM {relation(EPISODES)} WHERE episode = %s"
    row = connection.execute(query, (name,), binary=True).fetchone()
    return None if row is None else _row(fields, row)


def _quoted(fields: tuple[str, ...]) -> str:
    return ", ".join(f'"{field}"' for field in fields)


def _row(fields: tuple[str, ...], values: tuple[Any, ...]) -> dict[str, Any]:
    return {
        field: to_text(value) if field in _TIMES and value is not None else value
        for field, value in zip(fields, values, strict=True)
    }


def where(filters: Filters) -> tuple[list[str], list[Any]]:
    """The filters as SQL conditions on the columns of `episode`, and their values."""
    conditions = [] if filters.retracted else ["NOT retracted"]
    values: list[Any] = []
    for name in ("task", "verdict", "source", "policy", "failing_tool", "split"):
        value = getattr(filters, name)
        if value is not None:
            conditions.append(f'"{name}" = %s')
            values.append(value.encode(errors="replace").decode().replace("\0", "\N{SYMBOL FOR NULL}"))
    if filters.import_id is not None:
        conditions.append("import_id ^@ %s")
        values.append(filters.import_id.encode(errors="replace").decode().replace("\0", "\N{SYMBOL FOR NULL}"))
    for bound, test in ((filters.since, ">="), (filters.until, "<")):
        if bound is not None:
            conditions.append(f"coalesce(started_at, committed_at) {test} %s")
            values.append(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=bound))
    return conditions, values


def _beyond(connection: Connection, page: Page, column: str, descending: bool) -> tuple[str, list[Any]]:
    """What comes after the page's cursor in its order; nulls come last either way."""
    assert page.after is not None
    cursor = resolve(connection, page.after).episode
    row = connection.execute(
        f'SELECT "{column}", position FROM {relation(EPISODES)} WHERE episode = %s', (cursor,)
    ).fetchone()
    value, position = row or (None, 0)
    beyond = "<" if descending else ">"
    if column == "position":
        return f"position {beyond} %s", [position]
    later = ">" if page.reverse else "<"
    if value is None:
        return f'("{column}" IS NULL AND position {later} %s)', [position]
    return (
        f'("{column}" {beyond} %s OR "{column}" IS NULL OR ("{column}" = %s AND position {later} %s))',
        [value, value, position],
    )
