"""Groups of rollouts as a list."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from core.errors import UsageError
from eventlog.projection import relation
from learners.views.rollout_group import ROLLOUT_GROUP

if TYPE_CHECKING:
    from eventlog.database import Connection

FIELDS: Final = (
    *("group", "task", "policy", "split", "source", "environment", "rollouts", "passed", "failed", "undecided"),
    *("pass_rate", "mixed", "steps", "tokens", "cost", "last_position"),
)
"""The documented fields of a group, in order; with `episodes` after them."""

SORTS: Final = {
    "group": ("group", False),
    "task": ("task", False),
    "rate": ("pass_rate", False),
    "rollouts": ("rollouts", True),
    "steps": ("steps", True),
    "tokens": ("tokens", True),
    "latest": ("last_position", True),
}
"""What groups can be sorted by: field, and whether the largest comes first. Ties: by name."""

_EPISODE: Final = (
    *("episode", "rollout", "attempt", "counts", "verdict", "success", "reward", "progress", "steps", "calls"),
    *("errors", "prompt_tokens", "completion_tokens", "cost", "latency_ms", "sampled_turns"),
)
_MEAN = "(SELECT avg(x)::double precision FROM unnest(g.{column}, g.counts) u (x, counted) WHERE counted)"
_QUERY = f"""
SELECT * FROM (
    SELECT "group", task, policy, split, source, environment, rollouts, passed, failed, undecided,
           passed::double precision / nullif(passed + failed, 0) AS pass_rate, passed > 0 AND failed > 0 AS mixed,
           {_MEAN.format(column="steps")} AS steps, {_MEAN.format(column="completion_tokens")} AS tokens,
           {_MEAN.format(column="cost")} AS cost, last_position,
           {", ".join(f'"{name}" AS "its_{name}"' for name in _EPISODE)}
    FROM {{relation}} g
) t {{where}} ORDER BY {{order}}
"""


class Filters(NamedTuple):
    """Which groups; None lets all through. `mixed`: of which some passed and some failed."""

    task: str | None = None
    policy: str | None = None
    split: str | None = None
    source: str | None = None
    mixed: bool = False


class Order(NamedTuple):
    """At most `limit` rows (0: all) in the order `sort`, `reverse`d if so."""

    sort: str = "task"
    reverse: bool = False
    limit: int = 0


def groups(connection: "Connection", filters: Filters, order: Order) -> Iterator[dict[str, Any]]:
    """The groups, on a connection of `eventlog.views.reading(log, ROLLOUT_GROUP.projections)`; the latest
    attempt at each rollout counts, means are of those. `UsageError` for an unknown sort."""
    if order.sort not in SORTS:
        raise UsageError(f"cannot sort by {order.sort!r}", where="--sort", mend=f"use {', '.join(SORTS)}")
    column, largest = SORTS[order.sort]
    direction = "DESC" if largest != order.reverse else "ASC"
    conditions = ["mixed"] if filters.mixed else []
    values: list[Any] = []
    for name in ("task", "policy", "split", "source"):
        wanted = getattr(filters, name)
        if wanted is not None:
            conditions.append(f'"{name}" = %s')
            values.append(wanted.encode(errors="replace").decode().replace("\0", "\N{SYMBOL FOR NULL}"))
    query = _QUERY.format(
        relation=relation(ROLLOUT_GROUP.projection),
        where=f"WHERE {' AND '.join(conditions)}" if conditions else "",
        order=f'"{column}" {direction} NULLS LAST, "group"',
    )
    if order.limit:
        query += "LIMIT %s"
        values.append(order.limit)
    for row in connection.execute(query, values, binary=True):
        lists = zip(*row[len(FIELDS) :], strict=True)
        yield dict(zip(FIELDS, row, strict=False)) | {
            "episodes": [dict(zip(_EPISODE, one, strict=True)) for one in lists]
        }
