"""Projection `tool`: one row per tool, made from how episodes used it: calls, errors, latency.

Percentiles come from buckets (`eventlog.views.tool_use`) and are within 3.2 % of the exact ones.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from eventlog.projection import Column, Row, Source
from eventlog.views import TOOL_USES, TOOLS
from eventlog.views.rates import summed
from eventlog.views.tool_use import middle


class Tool:
    """The second stage. Retracted episodes do not count."""

    name, version, *_ = TOOLS
    reads = (Source(TOOL_USES, ("tool",)),)
    query = f"""
SELECT tool, 'use' AS part, NULL AS name, count(*) AS n, {summed("calls")}, {summed("answers")}, {summed("errors")},
       {summed("timed")}, {summed("us")}, max(most_us) AS most_us
FROM {{tool_use}} AS t WHERE NOT retracted GROUP BY tool
UNION ALL
SELECT tool, 'class', c.name, sum(c.n)::bigint, 0, 0, 0, 0, 0, 0
FROM {{tool_use}} AS t, unnest(error_classes, error_counts) AS c (name, n) WHERE NOT retracted GROUP BY tool, c.name
UNION ALL
SELECT tool, 'bucket', b.number::text, sum(b.n)::bigint, 0, 0, 0, 0, 0, 0
FROM {{tool_use}} AS t, unnest(buckets, bucket_counts) AS b (number, n) WHERE NOT retracted GROUP BY tool, b.number
"""
    key = ("tool",)
    columns: Sequence[Column] = (
        Column("tool"),
        Column("episodes", "bigint"),
        Column("calls", "bigint"),
        Column("answers", "bigint"),
        Column("errors", "bigint"),
        Column("error_rate", "double precision"),
        Column("error_classes", "text[]"),
        Column("error_counts", "bigint[]"),
        Column("mean_ms", "double precision"),
        Column("p50_ms", "double precision"),
        Column("p95_ms", "double precision"),
        Column("max_ms", "double precision"),
    )
    indexes = ()

    def rows(self, key: Row, group: Sequence[Row]) -> Iterable[Row]:
        classes = sorted([(-n, name) for _, part, name, n, *_ in group if part == "class"])
        buckets = sorted([(int(name), n) for _, part, name, n, *_ in group if part == "bucket"])
        for _, part, _, episodes, calls, answers, errors, timed, us, most_us in group:
            if part == "use":
                yield (
                    *key,
                    episodes,
                    calls,
                    answers,
                    errors,
                    errors / answers if answers else None,
                    [name for _, name in classes],
                    [-n for n, _ in classes],
                    us / timed / 1000 if timed else None,
                    _percentile(buckets, 0.5, most_us),
                    _percentile(buckets, 0.95, most_us),
                    most_us / 1000 if timed else None,
                )


def _percentile(buckets: list[tuple[int, int]], share: float, most_us: int) -> float | None:
    """The time, in ms, that this share of the calls did not exceed."""
    left = share * sum(n for _, n in buckets)
    for number, n in buckets:
        left -= n
        if left <= 0:
            return min(middle(number), most_us) / 1000
    return None


TOOL: Final = Tool()
